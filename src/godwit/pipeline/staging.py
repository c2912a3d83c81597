"""The tasks of ingest: read pieces of files, then write files of the table.

*Theory.* A task reads a piece and stages its rows in Arrow files, sorted by day, each column in its narrowest form.
When all pieces are staged the forms are joined; then tasks take the rows of a day from all staged files, which are
memory-mapped, convert the columns to the joined forms and write the day's file. So every row is parsed once, and no row
goes through the JVM.

*Rules.*
1. Rows of a day are in the order of files and lines, whichever task read them.
2. Memory is bounded by `BATCH_ROWS` rows of `COLUMNS_MAX` attributes, and by `BATCH_BYTES`, while reading, and by the
   size of a file of the table while writing. A row of more bytes than a format allows is bad, and is not kept.
3. Each row of a piece is counted once: as staged, or as bad.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import BadValue, GodwitError, PipelineError
from godwit.filters.events import Attributes
from godwit.filters.values import Point
from godwit.pipeline.columns import EXACT_MAX, INT64_MAX, Form, column_of, joined, to_arrow
from godwit.pipeline.formats import by_line, csv_rows, file_source, fixes_rows, track_rows, xml_rows
from godwit.pipeline.formats.rows import BadRow, EventHeader, Options, Shaper, refused
from godwit.pipeline.formats.splits import Split
from godwit.pipeline.schemas import TABLES
from godwit.pipeline.tables import save, widened
from godwit.trace import schema as trace_schema

__all__ = [
    "NO_DAY_NUMBER",
    "Slice",
    "Staged",
    "Unit",
    "Work",
    "arrow_columns",
    "check_columns",
    "form_of_column",
    "stage",
    "write_unit",
]

BATCH_ROWS = 50_000
BATCH_BYTES = 2**26  # as in the files: a row has up to 2**22
COLUMNS_MAX = 5_000  # of a table of events, and so of a batch in memory
DAY_US = 86_400_000_000
NO_DAY_NUMBER = -(2**31)  # of rows without a time
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_KIND_OF = {bool: "bool", int: "int", float: "float", str: "text", Point: "point"}  # any other is a time
_ROWS = {
    "jsonl": by_line.rows,
    "log": by_line.rows,
    "padres": by_line.rows,
    "csv": csv_rows.rows,
    "xml": xml_rows.rows,
    "plt": track_rows.plt,
    "gpx": track_rows.gpx,
    "nmea": track_rows.nmea,
    "ais": track_rows.ais,
}


@dataclass(frozen=True)
class Work:
    """A piece for a task, its number, and the folder for its staged rows."""

    place: int
    split: Split
    options: Options
    table: str
    folder: str


@dataclass(frozen=True)
class Slice:
    """Some rows of a staged file."""

    path: str
    start: int
    count: int


@dataclass
class Staged:
    """The result of a piece."""

    split: Split
    read: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    days: list[tuple[int, Slice]] = field(default_factory=list)
    forms: dict[str, tuple[Form, bool]] = field(default_factory=dict)  # with whether its ints are exact as floats
    refused: list[Slice] = field(default_factory=list)  # rows for the quarantine
    first_bad: BadRow | None = None
    failed: str = ""


@dataclass(frozen=True)
class Unit:
    """A file of a table for a task to write, and its rows."""

    target: str
    table: str
    slices: tuple[Slice, ...]
    forms: dict[str, Form]
    flat: bool = False  # the day is a column


# ---------------------------------------------------------------- reading


def stage(work: Work) -> Staged:
    """Read a piece, and stage its rows."""
    staging = _Staging(work)
    try:
        if work.table == "trace":
            staging.trace()
        elif work.options.format == "fixes":
            staging.fixes()
        else:
            staging.rows()
    except GodwitError as error:
        staging.out.failed = str(error)
    return staging.out


class _Stop(Exception):
    """A bad row was found in strict mode."""


class _Staging:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.out = Staged(work.split)
        self.pending: list[Any] = []
        self.refused: list[BadRow] = []
        self.bytes = 0  # of pending rows
        self.files = 0

    # ---- rows of any format

    def rows(self) -> None:
        options, split, table = self.work.options, self.work.split, self.work.table
        shaped, client = Shaper(options), fixes_rows.client_of(split)
        try:
            for row in _ROWS.get(options.format, file_source.rows)(split, options):
                self.out.read += 1
                if isinstance(row, BadRow):
                    self.bad(row)
                    continue
                try:
                    attributes, when = shaped(row)
                    if table == "fixes":
                        found: Any = fixes_rows.fix_of(attributes, when, client)
                    else:
                        found = (row.number, attributes, row.own, when)
                except BadValue as error:
                    kind, _, said = str(error).partition(": ")
                    self.bad(refused(row.line, kind, said, row.text))
                    continue
                self.good(found, row.size)
        except _Stop:
            return
        self.flush()

    def fixes(self) -> None:
        found = fixes_rows.at_once(self.work.split)
        if found is not None:
            self.out.read = found.num_rows
            client = fixes_rows.client_of(self.work.split)
            at = pa.chunked_array(found.column("at")).to_numpy() * 1_000_000
            batch = {
                "client": pa.array([client]).take(pa.array(np.zeros(found.num_rows, np.int32))),
                "at": pa.array(at).cast(_ARROW["timestamp"]),
                "lon": found.column("lon").combine_chunks(),
                "lat": found.column("lat").combine_chunks(),
                "occupied": found.column("occupied").cast(pa.bool_()).combine_chunks(),
            }
            self.save(batch, at // DAY_US)
            return
        try:
            for row in fixes_rows.by_line(self.work.split):
                self.out.read += 1
                if isinstance(row, BadRow):
                    self.bad(row)
                else:
                    self.good(row[1])
        except _Stop:
            return
        self.flush()

    def trace(self) -> None:
        split = self.work.split
        wanted = [name for name in TABLES["trace"] if name != "run"]
        try:
            file = pq.ParquetFile(split.path)
            if file.schema_arrow.names != trace_schema().names:
                raise GodwitError(f"{split.path} is not a trace: its columns are {', '.join(file.schema_arrow.names)}")
            for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
                columns = {name: batch.column(name).cast(_ARROW[TABLES["trace"][name]]) for name in wanted}
                run = pa.array([split.publisher]).take(pa.array(np.zeros(batch.num_rows, np.int32)))
                self.out.read += batch.num_rows
                self.save({"run": run, **columns}, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise GodwitError(f"{split.path} is not a trace: {error}") from None

    # ---- the result of a row

    def good(self, row: Any, size: int = 0) -> None:
        self.pending.append(row)
        self.bytes += size
        if len(self.pending) == BATCH_ROWS or self.bytes >= BATCH_BYTES:
            self.flush()

    def bad(self, row: BadRow) -> None:
        self.out.bad[row.kind] += 1
        if self.out.first_bad is None:
            self.out.first_bad = row
        if self.work.options.strict:
            raise _Stop
        self.refused.append(row)
        if len(self.refused) == BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            if self.work.table == "fixes":
                self.save(*_fixes_batch(self.pending))
            else:
                columns, days, forms = _events_batch(self.pending, self.work.split.publisher)
                for name, (form, exact) in forms.items():
                    self.out.forms[name] = joined_forms(self.out.forms.get(name), (form, exact))
                self.save(columns, days)
            self.pending, self.bytes = [], 0
        if self.refused:
            lines, reasons, texts = zip(*self.refused, strict=True)
            path = self.written(
                {
                    "file": pa.array([self.work.split.path] * len(lines)),
                    "line": pa.array(lines, pa.int64()),
                    "reason": pa.array(reasons),
                    "text": pa.array([text.encode(errors="replace").decode() for text in texts]),
                }
            )
            self.out.refused.append(Slice(path, 0, len(lines)))
            self.refused = []

    def save(self, columns: Mapping[str, Any], days: Any) -> None:
        """Stage rows, sorted by day; `days` is None if the table has none."""
        count = len(next(iter(columns.values())))
        if not count:
            return
        if days is None:
            self.out.days.append((NO_DAY_NUMBER, Slice(self.written(columns), 0, count)))
            return
        if days[0] != days[-1] or (days != days[0]).any():
            order = np.argsort(days, kind="stable")
            days = days[order]
            columns = {name: column.take(pa.array(order)) for name, column in columns.items()}
        path = self.written(columns)
        starts = np.flatnonzero(np.r_[True, days[1:] != days[:-1]])
        for start, end in zip(starts, np.r_[starts[1:], count], strict=True):
            self.out.days.append((int(days[start]), Slice(path, int(start), int(end - start))))

    def written(self, columns: Mapping[str, Any]) -> str:
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        path = Path(self.work.folder, f"{self.work.place:06d}-{self.files:06d}.arrow")
        self.files += 1
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        return str(path)


# ---------------------------------------------------------------- rows into columns


def _events_batch(
    rows: list[tuple[int, Attributes, EventHeader | None, int | None]], publisher: str
) -> tuple[dict[str, Any], Any, dict[str, tuple[Form, bool]]]:
    """The columns of events, their days, and the form of each attribute."""
    numbers, tables, owns, whens = zip(*rows, strict=True)
    columns: dict[str, Any] = {}
    if any(owns):
        said = [own or {} for own in owns]
        columns["publisher"] = pa.array([own.get("publisher", publisher) for own in said])
        columns["sequence"] = pa.array(
            [own.get("sequence", number) for own, number in zip(said, numbers, strict=True)], pa.int64()
        )
        for name in ("to", "content_type", "payload"):
            columns[name] = pa.array([own.get(name) for own in said], _ARROW[TABLES["events"][name]])
        expires = [None if (at := own.get("expires_at")) is None else round(at * 1_000_000) for own in said]
        columns["expires_at"] = pa.array(expires, pa.int64()).cast(_ARROW["timestamp"])
    else:
        columns["publisher"] = pa.array([publisher]).take(pa.array(np.zeros(len(rows), np.int32)))
        columns["sequence"] = pa.array(numbers, pa.int64())
    at = pa.array(whens, pa.int64())
    columns["published_at"] = at.cast(_ARROW["timestamp"])
    days = np.where(at.is_valid().to_numpy(False), at.fill_null(0).to_numpy() // DAY_US, NO_DAY_NUMBER)
    forms = {}
    names = tables[0] if len({*map(tuple, tables)}) == 1 else dict.fromkeys(name for each in tables for name in each)
    check_columns(len(names), publisher)
    for name in names:
        helds = [each.get(name) for each in tables]
        forms[name] = form_of_column(helds)
        columns[column_of(name)] = to_arrow(forms[name][0], helds)
    return columns, days, forms


def check_columns(number: int, where: str) -> None:
    """Raise `PipelineError` if events have more different attributes than a table may have columns."""
    if number > COLUMNS_MAX:
        raise PipelineError(
            f"the events of {where} have {number:,} different attributes, and a table has at most {COLUMNS_MAX:,}: are "
            "names of attributes made of values?"
        )


def form_of_column(helds: list[Any]) -> tuple[Form, bool]:
    """The narrowest form for the values of an attribute, and whether its ints are exact as floats."""
    types = set(map(type, helds))
    several = tuple in types
    if several:
        helds = [value for held in helds for value in (held if type(held) is tuple else (held,))]
        types = set(map(type, helds))
    types.discard(type(None))
    exact = True
    kinds = {_KIND_OF.get(each, "time") for each in types}
    if int in types:
        ints = [value for value in helds if type(value) is int]
        low, high = min(ints), max(ints)
        exact = low >= -EXACT_MAX and high <= EXACT_MAX
        if high > INT64_MAX:
            return Form("any", several), exact
    if len(kinds) == 1:
        return Form(kinds.pop(), several), exact
    return Form("float" if kinds == {"int", "float"} and exact else "any", several), exact


def joined_forms(a: tuple[Form, bool] | None, b: tuple[Form, bool]) -> tuple[Form, bool]:
    """The form for two columns, and whether their ints are exact as floats."""
    if a is None:
        return b
    exact = a[1] and b[1]
    return joined(a[0], b[0], exact=exact), exact


def _fixes_batch(fixes: list[fixes_rows.Fix]) -> tuple[dict[str, Any], Any]:
    clients, ats, lons, lats, occupied = zip(*fixes, strict=True)
    at = np.array(ats, np.int64)
    columns = {
        "client": pa.array(clients),
        "at": pa.array(at).cast(_ARROW["timestamp"]),
        "lon": pa.array(lons, pa.float64()),
        "lat": pa.array(lats, pa.float64()),
        "occupied": pa.array(occupied, pa.bool_()),
    }
    return columns, at // DAY_US


# ---------------------------------------------------------------- writing


def arrow_columns(table: str) -> dict[str, Any]:
    """The reserved columns of a table's files, and their types in Arrow; the day is in the folder's name."""
    return {name: _ARROW[type] for name, type in TABLES[table].items() if name != "day"}


def write_unit(unit: Unit) -> int:
    """Write a file of a table from staged rows; returns their number."""
    opened: dict[str, Any] = {}
    batches = []
    for each in unit.slices:
        if each.path not in opened:
            opened[each.path] = pa.ipc.open_file(pa.memory_map(each.path)).get_batch(0)
        batches.append(_brought(opened[each.path].slice(each.start, each.count), unit))
    found = pa.Table.from_batches(batches)
    save(found, unit.target)
    return int(found.num_rows)


def _brought(batch: Any, unit: Unit) -> Any:
    """Staged rows with all columns of the table, each in its final form."""
    there = set(batch.schema.names)
    arrays, names = [], []
    for name, type in arrow_columns(unit.table).items():
        names.append(name)
        arrays.append(batch.column(name) if name in there else pa.nulls(batch.num_rows, type))
    if unit.flat:
        names.append("day")
        arrays.append(batch.column("at" if unit.table == "fixes" else "published_at").cast(pa.date32()))
    for attribute, form in _columns_of(unit.forms):
        names.append(attribute)
        array = batch.column(attribute) if attribute in there else pa.nulls(batch.num_rows)
        arrays.append(widened(array, attribute, form))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _columns_of(forms: Mapping[str, Form]) -> Iterator[tuple[str, Form]]:
    for attribute in sorted(forms):
        yield column_of(attribute), forms[attribute]
