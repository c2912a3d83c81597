"""The tables of the pipeline: their columns, and the file that describes a table.

*Theory.* A table is a folder of Parquet files, in a folder `day=2026-11-15` for each day where its rows have a time,
and a file `_godwit.json`, which Spark does not read: the name of the schema, its version and, for events, the form of
each attribute. `docs/reference/tables.md` explains each column, which a test checks.

*Rules.*
1. A table of another kind, of a newer version, or without `_godwit.json` is refused with an error.
2. The meaning of a column never changes without a new version.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from godwit.errors import PipelineError
from godwit.files import write_whole
from godwit.pipeline.columns import OWN, Form, column_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["ABOUT", "TABLES", "About", "about", "arrow_schema", "schema", "write_about"]

ABOUT = "_godwit.json"
VERSION = 1

TABLES: dict[str, dict[str, str]] = {
    "events": {
        "publisher": "string",
        "sequence": "bigint",
        "published_at": "timestamp",
        "expires_at": "timestamp",
        "to": "string",
        "content_type": "string",
        "payload": "binary",
        "day": "date",
    },
    "subscriptions": {"subscription": "string", "filter": "string", "language": "string"},
    "matches": {
        "publisher": "string",
        "sequence": "bigint",
        "published_at": "timestamp",
        "subscriptions": "array<string>",
        "day": "date",
    },
    "deliveries": {
        "run": "string",
        "publisher": "string",
        "sequence": "bigint",
        "subscriber": "string",
        "subscription": "string",
        "published_at": "double",
        "delivered_at": "double",
        "number": "bigint",
    },
    "fixes": {
        "client": "string",
        "at": "timestamp",
        "lon": "double",
        "lat": "double",
        "occupied": "boolean",
        "day": "date",
    },
    "trace": {
        "run": "string",
        "at": "double",
        "node": "string",
        "kind": "string",
        "peer": "string",
        "message": "string",
        "publisher": "string",
        "sequence": "bigint",
        "subscription": "string",
        "number": "bigint",
        "size": "bigint",
        "detail": "string",
    },
    "quarantine": {"file": "string", "line": "bigint", "reason": "string", "text": "string"},
}
"""Each table's columns and their types in Spark. Events also have the columns of their attributes."""
assert tuple(TABLES["events"]) == OWN


@dataclass(frozen=True)
class About:
    """The content of `_godwit.json`."""

    table: str
    version: int = VERSION
    attributes: dict[str, Form] = field(default_factory=dict)


def schema(table: str, attributes: dict[str, Form] | None = None) -> "StructType":
    """The Spark schema of a table; for events, with the columns of these attributes."""
    from pyspark.sql import types

    from godwit.pipeline.columns import spark_type

    known = {
        "array<string>": types.ArrayType(types.StringType()),
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "boolean": types.BooleanType(),
        "date": types.DateType(),
        "double": types.DoubleType(),
        "string": types.StringType(),
        "timestamp": types.TimestampType(),
    }
    found = types.StructType()
    for name, type in TABLES[table].items():
        found.add(name, known[type])
    for attribute, form in (attributes or {}).items():
        found.add(column_of(attribute), spark_type(form))
    return found


def arrow_schema(attributes: dict[str, Form]) -> Any:
    """The schema of a table of events with these attributes, in Arrow."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    fields = schema("events", attributes).fields
    return pa.schema([(each.name, to_arrow_type(each.dataType, timezone="UTC")) for each in fields])


def about(folder: str | Path, table: str | None = None) -> About:
    """The description of the table in a folder; `PipelineError` if it is not a `table`."""
    path = Path(folder)
    if not path.exists():
        raise PipelineError(f"there is no table {str(folder)!r}: `godwit pipeline ingest` makes tables")
    try:
        data: Any = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        found = About(
            data["table"],
            data["version"],
            {name: Form.parse(form) for name, form in data.get("attributes", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(
            f"{folder} is not a Godwit table: it has no readable {ABOUT} (`godwit pipeline ingest` makes one)"
        ) from None
    if found.version > VERSION or found.table not in TABLES:
        raise PipelineError(f"{folder} is a table of {found.table}, version {found.version}: newer than this Godwit")
    if table is not None and found.table != table:
        raise PipelineError(f"{folder} is a table of {_all(found.table)}, not one of {_all(table)}")
    return found


def _all(table: str) -> str:
    """The content of a table, in words."""
    return "traces" if table == "trace" else table


def write_about(folder: str | Path, found: About) -> None:
    """Write the description of the table in a folder."""
    data = {
        "table": found.table,
        "version": found.version,
        "attributes": {name: str(form) for name, form in sorted(found.attributes.items())},
    }
    path = Path(folder) / ABOUT
    write_whole(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
