"""Fixes from tables that `ingest` has made, and from plain files of positions.

*Theory.* A *fix* is where a client was at a moment. Two plain forms are read besides a table of fixes: a CSV whose
header names `time`, `id`, `lon` and `lat` and perhaps `occupied`, which is what the simulator's `trace` reads too; and
the text of the cabspotting project, a file for each cab, with lines of latitude, longitude, occupancy and Unix time.
Each file is read by one task, so a folder of many files is read by all cores; a file may be compressed by gzip.

*Rules.*
1. No line is dropped in silence: what cannot be read comes out as a row with file, line, reason and text.
2. The name of a file says its form: `.csv` or `.csv.gz` is CSV, `.txt` or `.txt.gz` is cabspotting's.
"""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from godwit.errors import PipelineError
from godwit.pipeline import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "rows_of"]

ROWS_PER_BATCH = 50_000
TIME_MAX_S = 1e11  # some 3,000 years
TEXT_MAX = 200  # letters kept of a line that cannot be read

COLUMNS = {
    "client": pa.string(),
    "at": pa.timestamp("us", tz="UTC"),
    "lon": pa.float64(),
    "lat": pa.float64(),
    "occupied": pa.bool_(),
    "file": pa.string(),
    "line": pa.int64(),
    "reason": pa.string(),
    "text": pa.string(),
}
"""A fix, or a line that is none: then `reason` says why."""

Row = tuple[str, int, float, float, bool | None]
"""Client, microseconds since 1970, lon, lat, whether occupied."""

SCHEMA = (
    "client string, at timestamp, lon double, lat double, occupied boolean, file string, line bigint, reason string, "
    "text string"
)


def read(spark: "SparkSession", sources: Sequence[str]) -> "DataFrame":
    """The fixes in tables, files and folders of files, with `COLUMNS`."""
    from pyspark.sql import functions as fn

    tables = [source for source in sources if (Path(source) / schemas.ABOUT).exists()]
    files = [str(file) for source in sources if source not in tables for file in _files(Path(source))]
    found: DataFrame | None = None
    if files:
        paths = spark.createDataFrame([(file,) for file in files], "file string")
        tasks = min(len(files), 4 * spark.sparkContext.defaultParallelism)
        found = paths.repartition(tasks).mapInArrow(_read_files, SCHEMA)
    for table in tables:
        schemas.about(table, "fixes")
        rows = spark.read.parquet(table).select(
            *("client", "at", "lon", "lat", "occupied"),
            *(fn.lit(None).cast(type).alias(name) for name, type in _NOT_IN_TABLES.items()),
        )
        found = rows if found is None else found.unionByName(rows)
    if found is None:
        raise PipelineError("there is nothing to read: name a table of fixes, or files of positions")
    return found


_NOT_IN_TABLES = {"file": "string", "line": "bigint", "reason": "string", "text": "string"}


def _files(source: Path) -> list[Path]:
    """A file, or all files of a folder that have a form."""
    if not source.exists():
        raise PipelineError(f"there is no {source}")
    if source.is_dir():
        found = sorted(file for file in source.iterdir() if file.is_file() and _form(file.name) is not None)
        if not found:
            raise PipelineError(f"{source} holds no positions: {ALLOWED}")
        return found
    if _form(source.name) is None:
        raise PipelineError(f"{source} is of no form that can be read: {ALLOWED}")
    return [source]


def _read_files(batches: Iterable[Any]) -> Iterator[Any]:
    """All rows of the files that the batches name."""
    for batch in batches:
        for file in batch.column("file").to_pylist():
            yield from _batches(rows_of(file))


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == ROWS_PER_BATCH:
            yield _batch(held)
            held = []
    if held:
        yield _batch(held)


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type) for column, type in zip(columns, COLUMNS.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def rows_of(file: str) -> Iterator[tuple[Any, ...]]:
    """The rows of one file, in the order of `COLUMNS`."""
    path = Path(file)
    form = _form(path.name)
    assert form is not None
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as stream:
            yield from form(path, stream)
    except (OSError, EOFError) as error:
        raise PipelineError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _cab_rows(path: Path, stream: IO[str]) -> Iterator[tuple[Any, ...]]:
    client = path.name.partition(".")[0].removeprefix("new_")
    for number, line in enumerate(stream, 1):
        parts = line.split()
        try:
            lat, lon, occupied, at = parts
            row = _checked(client, at, lon, lat, occupied)
        except ValueError as error:
            reason = str(error) if len(parts) == 4 else f"{len(parts)} values, and a fix has 4: lat lon occupied time"
            yield _unread(path, number, reason, line)
            continue
        yield (*row, None, None, None, None)


def _csv_rows(path: Path, stream: IO[str]) -> Iterator[tuple[Any, ...]]:
    reader = csv.reader(stream)
    header = [name.strip() for name in next(reader, [])]
    for name in ("time", "id", "lon", "lat"):
        if header.count(name) != 1:
            raise PipelineError(
                f"{path}: its header must name time, id, lon and lat, each once, and {name} it does not"
            )
    at, client, lon, lat = (header.index(name) for name in ("time", "id", "lon", "lat"))
    occupied = header.index("occupied") if "occupied" in header else None
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield _unread(path, reader.line_num, str(error), "")
            continue
        if row is None:
            return
        if not row:
            continue
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} values, and the header has {len(header)}")
            found = _checked(
                row[client].strip(), row[at], row[lon], row[lat], "" if occupied is None else row[occupied]
            )
        except ValueError as error:
            yield _unread(path, reader.line_num, str(error), ",".join(row))
            continue
        yield (*found, None, None, None, None)


def _unread(path: Path, line: int, reason: str, text: str) -> tuple[Any, ...]:
    return (None, None, None, None, None, str(path), line, reason, text.rstrip()[:TEXT_MAX])


FORMS: dict[str, Callable[[Path, IO[str]], Iterator[tuple[Any, ...]]]] = {".csv": _csv_rows, ".txt": _cab_rows}
ALLOWED = f"allowed are files whose names end in {' or '.join(FORMS)}, plain or with .gz"


def _form(name: str) -> Callable[[Path, IO[str]], Iterator[tuple[Any, ...]]] | None:
    return FORMS.get(Path(name.removesuffix(".gz")).suffix)


# ---------------------------------------------------------------- values


def _checked(client: str, at: str, lon: str, lat: str, occupied: str) -> Row:
    """A fix from its texts; `ValueError` says what is wrong with it."""
    if not client:
        raise ValueError("id is empty")
    return client, _micros(at), _degrees("lon", lon, 180), _degrees("lat", lat, 90), _occupied(occupied)


def _degrees(name: str, text: str, limit: int) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not -limit <= found <= limit:
        raise ValueError(f"{name} is {text[:40]!r}: allowed is a number from {-limit} to {limit}")
    return found


def _micros(text: str) -> int:
    seconds = math.nan
    with suppress(ValueError, OverflowError):
        seconds = float(text)
    if math.isnan(seconds):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(text.strip())
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not abs(seconds) <= TIME_MAX_S:
        raise ValueError(f"time is {text[:40]!r}: allowed are seconds, or a date such as 2008-05-17T10:00:04Z")
    return round(seconds * 1_000_000)


_OCCUPIED = {"1": True, "true": True, "0": False, "false": False, "": None}


def _occupied(text: str) -> bool | None:
    try:
        return _OCCUPIED[text.strip().lower()]
    except KeyError:
        raise ValueError(f"occupied is {text[:40]!r}: allowed is 0, 1, true or false") from None
