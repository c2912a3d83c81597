"""The tasks of a stream: match events, write files of matches and of late events, and report the files and counts.

*Theory.* A task gets its events in one of two ways. *Rows*: Spark passes record batches of any DataFrame. *Files*: the
rows of a batch are ranges of Parquet files of a table (`row_ranges.py`), and the worker reads them itself, as those of
`match_table` do, so that no row passes through the JVM.

*Rules.*
1. The reports and the rows of the files are the same either way.
2. A task writes at most one file of matches and one of late events, into the folder of its attempt.
3. A row has a day: that of its file's folder or its column `day`, otherwise that of its publication in UTC.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import Form
from godwit.pipeline.match_files import KEPT, MatchWriter
from godwit.pipeline.row_ranges import RowRange, as_tasks, batches_of
from godwit.pipeline.subscription_index import IndexFile

__all__ = ["LATE", "REPORT", "TASKS_MAX", "FileRows", "StreamTask", "divided"]

LATE = "_late"
ROWS_HELD_MAX = 200_000  # late events, by a worker, until it writes them
BYTES_HELD_MAX = 1 << 27
TASKS_MAX = 64  # of a batch
TASK_ROWS_MIN = 10_000  # fewer are not divided: a task costs as much as matching them, and a file
REPORT = (
    "file string, folder string, events bigint, matched bigint, pairs bigint, late bigint, residues bigint, "
    "undecided bigint, newest_us bigint"
)

_REPORT = pa.schema(
    [(name, pa.string() if type == "string" else pa.int64()) for name, type in map(str.split, REPORT.split(", "))]
)
_KEPT = {
    "publisher": pa.dictionary(pa.int32(), pa.string()),
    "sequence": pa.int64(),
    "published_at": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
}
assert tuple(_KEPT) == KEPT


@dataclass(frozen=True)
class FileRows:
    """A batch of which workers read the files themselves: the rows of each task, and the description of their table.

    `schema`: all columns of the table, in Arrow.
    """

    tasks: Sequence[Sequence[RowRange]]
    forms: dict[str, Form]
    schema: Any


def divided(ranges: Sequence[RowRange], slots: int) -> list[list[RowRange]]:
    """Divide the rows of a batch into `TASKS_MAX` tasks at most. `slots`: tasks that run at the same time."""
    rows = sum(each.last - each.first for each in ranges)
    tasks = as_tasks(ranges, max(1, min(slots, TASKS_MAX, rows // TASK_ROWS_MIN)))
    if len(tasks) <= TASKS_MAX:
        return tasks
    return [[each for task in tasks[first::TASKS_MAX] for each in task] for first in range(TASKS_MAX)]


@dataclass(frozen=True)
class StreamTask:
    """The work of the tasks of one batch. `attempt`: their folder, below `out`. `rest`: see `streaming.stream`."""

    out: Path
    attempt: Path
    index: IndexFile
    late_before_us: int | None
    rest: str = ""

    @property
    def keeps_all_columns(self) -> bool:
        """Whether a task needs all columns: for late events, or for exact tests, which may use any."""
        return self.late_before_us is not None or self.index.tests > 0

    def of_rows(self, columns: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
        """Match the rows that Spark passes; `columns` are their names."""
        yield from self.reports(batch.rename_columns(list(columns)) for batch in batches)

    def of_files(self, rows: FileRows, numbers: Iterator[Any]) -> Iterator[Any]:
        """Match the rows of the tasks whose numbers Spark passes."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.reports(self._read(rows, rows.tasks[number]), rows.schema)

    def reports(self, batches: Iterator[Any], schema: Any = None) -> Iterator[Any]:
        """Match events, write files, and return a row for each file and one of counts.

        `schema`: the columns of late events, if batches may have others.
        """
        opened, reader = self.index.open(), ColumnReader(self.index.attributes)
        testing, folder = opened.testing(self.rest), self.out / self.attempt
        events, newest = 0, None
        with MatchWriter(folder, opened, has_day=True) as found, LateWriter(folder, schema) as late:
            for batch in batches:
                events += batch.num_rows
                newest = max((each for each in (newest, _newest_us(batch)) if each is not None), default=None)
                if self.late_before_us is not None:
                    is_late = _is_late(batch, self.late_before_us)
                    late.take(batch.filter(is_late))
                    batch = batch.filter(pc.invert(is_late))
                if batch.num_rows:
                    for part in opened.parts(reader.read(batch), batch.num_rows, testing.of(batch)):
                        found.take(part, batch)
        if found.matched:
            yield _report(file=str(self.attempt / found.name), folder="")
        if late.rows:
            yield _report(file=str(self.attempt / late.name), folder=f"{LATE}/")
        if events:
            came_to_nothing = {"residues": testing.residues, "undecided": testing.undecided}
            done = {"matched": found.matched, "pairs": found.pairs, "late": late.rows, **came_to_nothing}
            yield _report(events=events, newest_us=newest, **done)

    def _read(self, rows: FileRows, ranges: Sequence[RowRange]) -> Iterator[Any]:
        """The rows of some ranges, with all columns if late events are kept or there are exact tests."""
        columns, is_whole = ColumnReader(self.index.attributes).columns, self.keeps_all_columns
        for each in ranges:
            for batch in batches_of([each], columns, rows.forms, KEPT, is_whole):
                yield _with_kept(batch, each.day)


def _with_kept(batch: Any, folder_day: str | None) -> Any:
    """The same rows, with all columns that are kept, in their types: files of one task may differ. (rule 3)"""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, type in _KEPT.items():
        columns[name] = columns[name].cast(type) if name in columns else pa.nulls(batch.num_rows, type)
    if folder_day is not None:
        columns["day"] = pa.repeat(_day(folder_day), batch.num_rows)
    columns["day"] = pc.coalesce(columns["day"], columns["published_at"].cast(pa.date32()))
    return pa.record_batch(columns)


def _day(text: str) -> Any:
    try:
        return pa.scalar(date.fromisoformat(text), pa.date32())
    except ValueError:  # the folder of rows without a time
        return pa.scalar(None, pa.date32())


def _in_schema(batch: Any, schema: Any) -> Any:
    """The columns of a schema; null where there is none."""
    there = set(batch.schema.names)
    return pa.record_batch(
        [
            batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


class LateWriter:
    """Write the late events of a task to one file, if there are any. `schema`: its columns (default: those given)."""

    def __init__(self, folder: Path, schema: Any = None) -> None:
        self.name, self.rows = f"{uuid.uuid4().hex}.parquet", 0
        self._path, self._schema = folder / self.name, schema
        self._held: list[Any] = []
        self._rows_held = self._bytes_held = 0
        self._writer: Any = None

    def __enter__(self) -> "LateWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def take(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        if self._schema is not None:
            batch = _in_schema(batch, self._schema)
        self._held.append(batch)
        self.rows += batch.num_rows
        self._rows_held, self._bytes_held = self._rows_held + batch.num_rows, self._bytes_held + batch.nbytes
        if self._rows_held > ROWS_HELD_MAX or self._bytes_held > BYTES_HELD_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._held, self._rows_held, self._bytes_held = [], 0, 0
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
            self._writer.write_table(table)


def _report(**known: Any) -> Any:
    return pa.record_batch({each.name: pa.array([known.get(each.name)], each.type) for each in _REPORT}, schema=_REPORT)


def _times_us(batch: Any) -> Any:
    return batch.column("published_at").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def _newest_us(batch: Any) -> int | None:
    return pc.max(_times_us(batch)).as_py()  # type: ignore[no-any-return]


def _is_late(batch: Any, before_us: int) -> Any:
    return pc.fill_null(pc.less(_times_us(batch), before_us), False)
