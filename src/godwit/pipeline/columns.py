"""Attributes as columns: the types of columns, and the conversion of values to and from Arrow.

*Theory.* A table of events has a column for each attribute, so that Parquet keeps values of one kind together, knows
their minima and maxima, and skips data that a filter does not match. The type of a column follows from its values, its
`Form`: one kind of value, or `any` if there were several kinds; one value per event, or an array if some event had
several. A missing attribute is null. `docs/reference/tables.md` explains the forms to readers of the files.

| form | Spark | Arrow |
|---|---|---|
| `bool` | boolean | bool |
| `int` | bigint | int64 |
| `float` | double | float64 |
| `text` | string | string |
| `time` | timestamp | timestamp[us, UTC] |
| `point` | struct<lon, lat> | struct of two float64 |
| `any` | struct with a field for each of these, and `big` for ints from 2**63 on | the same; one field is not null |
| `several X` | array<X> | list<X> |

*Rules.*
1. The conversion is lossless: `events_of(batch_of(events)) == events`, except that an int among floats becomes a float
   of the same value.
2. Ints join floats in a `float` column only where that is exact, up to 2**53; else the column is `any`.
3. `column_of` gives different attributes different columns, and none of the reserved ones.
4. Invalid values are read as missing: null, an empty array, a null in an array, NaN and infinities, a point without
   coordinates or off the globe, an empty `any`. Only tables of other writers have these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from godwit.errors import PipelineError
from godwit.filters.events import Attributes, values_of
from godwit.filters.values import Point, Value

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

__all__ = [
    "OWN",
    "Form",
    "arrow_type",
    "attribute_of",
    "attributes_of",
    "column_of",
    "form_of_arrow",
    "form_of_values",
    "joined",
    "spark_type",
    "to_arrow",
]

OWN = ("publisher", "sequence", "published_at", "expires_at", "to", "content_type", "payload", "day")
"""The reserved columns of a table of events: publisher, sequence number, time, and so on."""

KINDS = ("bool", "int", "float", "text", "time", "point", "any")
INT64_MAX = 2**63 - 1
EXACT_MAX = 2**53  # every int up to here is exact as a float

_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_PLAIN = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
    "point": _POINT,
    "big": pa.decimal128(20, 0),
}
_ANY = pa.struct(list(_PLAIN.items()))


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a column: values of one of `KINDS`, one per event or several."""

    kind: str
    several: bool = False

    def __str__(self) -> str:
        return f"several {self.kind}" if self.several else self.kind

    @staticmethod
    def parse(text: str) -> "Form":
        """Parse the result of `str`."""
        kind = text.removeprefix("several ")
        if kind not in KINDS:
            raise PipelineError(
                f"{text!r} is not a form of a column: allowed are {', '.join(KINDS)}, each also `several`"
            )
        return Form(kind, kind != text)


# ---------------------------------------------------------------- names


def column_of(attribute: str) -> str:
    """The column of an attribute: its name, with an underscore if that is a reserved column."""
    return f"{attribute}_" if attribute.rstrip("_") in OWN else attribute


def attribute_of(column: str) -> str | None:
    """The attribute of a column; None for a reserved column."""
    if column.rstrip("_") not in OWN:
        return column
    return column[:-1] if column.endswith("_") else None


# ---------------------------------------------------------------- types


def arrow_type(form: Form) -> Any:
    """The type of a column in Arrow."""
    plain = _ANY if form.kind == "any" else _PLAIN[form.kind]
    return pa.list_(plain) if form.several else plain


def spark_type(form: Form) -> "DataType":
    """The type of a column in Spark."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(arrow_type(form))


def form_of_arrow(column: str, type: Any) -> Form:
    """The form of a column of any table, also of other writers; `PipelineError` if there is none."""
    several = pa.types.is_list(type) or pa.types.is_large_list(type)
    plain = type.value_type if several else type
    if pa.types.is_dictionary(plain):
        plain = plain.value_type
    if pa.types.is_boolean(plain):
        kind = "bool"
    elif pa.types.is_integer(plain):
        kind = "int"
    elif pa.types.is_floating(plain):
        kind = "float"
    elif pa.types.is_string(plain) or pa.types.is_large_string(plain):
        kind = "text"
    elif pa.types.is_timestamp(plain) and plain.tz is not None:
        kind = "time"
    elif pa.types.is_struct(plain) and {field.name for field in plain} == {"lon", "lat"}:
        kind = "point"
    elif pa.types.is_struct(plain) and {field.name for field in plain} == set(_PLAIN):
        kind = "any"
    else:
        raise PipelineError(
            f"column {column!r} is of type {type}, which no attribute has: allowed are boolean, whole and floating "
            "numbers, text, timestamp with a time zone, struct<lon, lat>, and arrays of these"
        )
    return Form(kind, several)


# ---------------------------------------------------------------- forms of values


def form_of_values(held: Value | tuple[Value, ...]) -> Form:
    """The narrowest form for the values of an attribute in an event."""
    several = type(held) is tuple
    forms = [Form(_kind(value), several) for value in values_of(held)]
    return forms[0] if len(forms) == 1 else _all_joined(forms, [held])


def _all_joined(forms: Sequence[Form], helds: Iterable[Any]) -> Form:
    found = forms[0]
    for form in forms[1:]:
        found = joined(found, form, exact=all(_exact(value) for held in helds for value in values_of(held)))
    return found


def joined(a: Form, b: Form, *, exact: bool = True) -> Form:
    """The narrowest form for both. `exact`: no int is beyond 2**53."""
    several = a.several or b.several
    if a.kind == b.kind:
        return Form(a.kind, several)
    if {a.kind, b.kind} == {"int", "float"} and exact:
        return Form("float", several)
    return Form("any", several)


def _exact(value: Value) -> bool:
    return type(value) is not int or abs(value) <= EXACT_MAX


def _kind(value: Value) -> str:
    if type(value) is int:
        return "int" if value <= INT64_MAX else "any"
    return _KIND_OF_TYPE[type(value)]


_KIND_OF_TYPE = {bool: "bool", int: "int", float: "float", str: "text", datetime: "time", Point: "point"}


# ---------------------------------------------------------------- values into Arrow, and out


def to_arrow(form: Form, helds: Iterable[Any]) -> Any:
    """A column with the values of one attribute, None where it is missing."""
    into = _into_any if form.kind == "any" else _INTO.get(form.kind, _same)
    rows: list[Any]
    if form.several:
        rows = [None if held is None else [into(value) for value in values_of(held)] for held in helds]
    else:
        rows = [None if held is None else into(held) for held in helds]
    return pa.array(rows, type=arrow_type(form))


def _same(value: Any) -> Any:
    return value


def _into_point(value: Point) -> dict[str, float]:
    return {"lon": value.lon, "lat": value.lat}


def _into_any(value: Any) -> dict[str, Any]:
    if type(value) is int and value > INT64_MAX:
        return {"big": Decimal(value)}
    kind = _KIND_OF_TYPE[type(value)]
    return {kind: _INTO.get(kind, _same)(value)}


_INTO: dict[str, Callable[[Any], Any]] = {"point": _into_point, "float": float}


def from_arrow(column: str, array: Any) -> Iterator[Any]:
    """The values of one attribute: a value, a tuple of several, or None."""
    form = form_of_arrow(column, array.type)
    out = _OUT.get(form.kind, _same)
    for row in array.to_pylist():
        if row is None:
            yield None
        elif form.several:
            values = tuple(held for value in row if value is not None and (held := out(value)) is not None)
            yield values if len(values) > 1 else values[0] if values else None
        else:
            yield out(row)


def _out_of_float(value: float) -> float | None:
    return value if isfinite(value) else None


def _out_of_point(row: Mapping[str, Any]) -> Point | None:
    lon, lat = row["lon"], row["lat"]
    if lon is None or lat is None or not (-180 <= lon <= 180 and -90 <= lat <= 90):
        return None
    return Point(lon, lat)


def _out_of_any(row: Mapping[str, Any]) -> Any:
    kind = next((kind for kind in _PLAIN if row[kind] is not None), None)
    return None if kind is None else _OUT.get(kind, _same)(row[kind])


_OUT: dict[str, Callable[[Any], Any]] = {
    "any": _out_of_any,
    "big": int,
    "float": _out_of_float,
    "point": _out_of_point,
}


def attributes_of(batch: Any) -> list[Attributes]:
    """The attributes of each event of a batch, one by one: the slow reference for faster ways."""
    columns = {
        name: list(from_arrow(column, batch.column(place)))
        for place, column in enumerate(batch.schema.names)
        if (name := attribute_of(column)) is not None
    }
    return [
        {name: held[row] for name, held in columns.items() if held[row] is not None} for row in range(batch.num_rows)
    ]
