"""Matching whole tables: the fast way, in which workers read and write Parquet themselves.

*Theory.* Between a scan in the JVM and a Python worker every row is copied and converted twice. Here a task is only the
name of a file and some rows of its row groups. The worker reads the columns that filters use (texts as a dictionary and
codes, as in the file), matches, and either counts the pairs or writes them to a separate file: an event and a list of
subscriptions, which are numbers into a dictionary of ids and never become objects. The driver adds the files to the
table when all tasks are done. If subscriptions have exact tests (`exact_matching.py`) the worker reads all columns,
because a test may use any.

*Rules.*
1. A table of matches is written atomically (`tables.changing`), even if tasks fail and are retried: only files of
   finished tasks are added.
2. Memory is bounded: a row group, `index.PAIRS_MAX` pairs found, `match_files.PAIRS_WRITTEN` pairs waiting to be
   written.
3. The result is that of `matching.match`, however rows are divided into tasks.
4. All workers must see the folders; otherwise the job fails with that error.

*Profile.* 245,190 quotes and 10,000 subscriptions, 214 million pairs: finding takes 0.65 s of a core, 7 ns for each
pair of an event and a distinct filter; writing out who shares a filter 0.35 s, and to write all pairs (`parquet_lists`)
0.4 s, 2 ns for each. By pyarrow alone the last were 2.8 s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from godwit.errors import PipelineError
from godwit.pipeline import tables
from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import Form
from godwit.pipeline.match_files import KEPT, MatchWriter
from godwit.pipeline.row_ranges import RowRange, as_tasks, batches_of, ranges_of
from godwit.pipeline.schemas import about
from godwit.pipeline.subscription_index import IndexFile, SubscriptionIndex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Matched", "learn", "match_table"]

ROWS_LEARNT = 256  # or some more
COUNTED = ("events", "matched", "pairs", "residues", "undecided")
RESULT = ", ".join([*(f"{name} bigint" for name in COUNTED), "file string, day string, reason string"])


@dataclass(frozen=True)
class Matched:
    """The result: events read, events with a match, pairs, files written; pairs that passed a filter and failed its
    exact test, undecided pairs, and the reason of the first."""

    events: int
    matched: int
    pairs: int
    files: int
    tasks: int
    residues: int = 0
    undecided: int = 0
    reason: str = ""


class Done(NamedTuple):
    """The result of a task for one day."""

    events: int
    matched: int
    pairs: int
    residues: int
    undecided: int
    file: str | None
    day: str | None
    reason: str = ""


def match_table(
    spark: "SparkSession",
    folder: str | Path,
    index: IndexFile,
    out: str | Path | None = None,
    mode: tables.Mode = "new",
) -> Matched:
    """Match a table of events, and write the matches to the table `out`; without it they are only counted."""
    tables.finish(folder)
    found = about(folder, "events")
    root = Path(folder).resolve()
    if out is not None and Path(out).resolve() == root:
        raise PipelineError(f"the matches of {folder} would replace it: use another folder")
    pieces = [ranges_of(path, root) for path in tables.files(root)]
    if not any(pieces):
        raise PipelineError(f"the table {folder} has no events")
    tasks = as_tasks([piece for each in pieces for piece in each], spark.sparkContext.defaultParallelism)
    index.ship(spark)
    if out is None:
        return _run(spark, tasks, index, found.attributes, None)[0]
    with tables.changing(out, "matches", mode) as change:
        staged = change.staged.resolve()
        done, files = _run(spark, tasks, index, found.attributes, str(staged))
        for name, day in files:
            target = change.place(day)
            target.parent.mkdir(parents=True, exist_ok=True)
            (staged / name).replace(target)
        change.commit()
    return done


def learn(index: SubscriptionIndex, folder: str | Path) -> None:
    """Optimise an index for the events of a table, using some of its rows, before it is saved."""
    found = about(folder, "events")
    root = Path(folder).resolve()
    reader, left = ColumnReader(index.attributes), ROWS_LEARNT
    for piece in (piece for path in tables.files(root) for piece in ranges_of(path, root)):
        if left <= 0:
            return
        step = max(1, piece.last // ROWS_LEARNT)
        for batch in batches_of([piece], reader.columns, found.attributes, ()):
            rows = batch.take(pa.array(range(0, batch.num_rows, step)))
            index.learn(reader.read(rows), rows.num_rows)
            left -= rows.num_rows


def _run(
    spark: "SparkSession",
    tasks: list[list[RowRange]],
    index: IndexFile,
    forms: dict[str, Form],
    out: str | None,
) -> tuple[Matched, list[tuple[str, str | None]]]:
    """Run all tasks. Returns the result, and the written files with the day of each."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _as_rows(work_off(tasks[number], index, forms, out))

    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, RESULT).collect()
    files = sorted((row.day or "", row.file, row.day) for row in rows if row.file is not None)
    sums = {name: sum(row[name] for row in rows) for name in COUNTED}
    reason = next((row.reason for row in rows if row.reason), "")
    return Matched(**sums, files=len(files), tasks=len(tasks), reason=reason), [(file, day) for _, file, day in files]


def _as_rows(results: Iterable[Done]) -> Any:
    columns = zip(*results, strict=True)
    types = [pa.int64() if name in COUNTED else pa.string() for name in Done._fields]
    arrays = [pa.array(list(each), type) for each, type in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=list(Done._fields))


# ---------------------------------------------------------------- in a worker


def work_off(pieces: Sequence[RowRange], index: IndexFile, forms: dict[str, Form], out: str | None) -> Iterator[Done]:
    """Match the rows of a task, day by day: the numbers of events, matched events and pairs, and the written file."""
    opened, reader = index.open(), ColumnReader(index.attributes)
    for day, group in _by_day(pieces):
        testing, kept = opened.testing(), KEPT if out is not None else ()
        batches = batches_of(group, reader.columns, forms, kept, is_whole=bool(index.tests))
        if out is None:
            counts = [opened.counts(reader.read(batch), batch.num_rows, testing.of(batch)) for batch in batches]
            found = np.concatenate(counts)
            events, matched, pairs, name = len(found), int(np.count_nonzero(found)), int(found.sum()), None
        else:
            events = 0
            with MatchWriter(Path(out), opened, has_day=day is None) as writer:
                for batch in batches:
                    events += batch.num_rows
                    for part in opened.parts(reader.read(batch), batch.num_rows, testing.of(batch)):
                        writer.take(part, batch)
            matched, pairs, name = writer.matched, writer.pairs, writer.name if writer.matched else None
        yield Done(events, matched, pairs, testing.residues, testing.undecided, name, day, testing.reason)


def _by_day(pieces: Sequence[RowRange]) -> Iterator[tuple[str | None, list[RowRange]]]:
    group: list[RowRange] = []
    for piece in pieces:
        if group and group[-1].day != piece.day:
            yield group[0].day, group
            group = []
        group.append(piece)
    if group:
        yield group[0].day, group
