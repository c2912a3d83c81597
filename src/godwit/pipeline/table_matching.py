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
import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.pipeline import tables
from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import Form, arrow_type, attribute_of
from godwit.pipeline.match_files import KEPT, MatchWriter
from godwit.pipeline.schemas import about
from godwit.pipeline.subscription_index import IndexFile, SubscriptionIndex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Matched", "learn", "match_table"]

ROWS_AT_ONCE = 1 << 15  # that are encoded and matched together
WHOLE_ROWS_AT_ONCE = 1 << 12  # with all their columns
TASK_ROWS_MIN = 125_000  # overhead of a Python task: 45 ms
TASK_ROWS_MAX = 2_000_000  # so that progress is visible, and a retry repeats only a part
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


class RowRange(NamedTuple):
    """Some rows of a row group of a file."""

    path: str
    day: str | None  # from the name of its folder; None: a flat table has it in a column
    group: int
    first: int
    last: int


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
    pieces = [_as_pieces(path, root) for path in tables.files(root)]
    if not any(pieces):
        raise PipelineError(f"the table {folder} has no events")
    tasks = _as_tasks([piece for each in pieces for piece in each], spark.sparkContext.defaultParallelism)
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
    for piece in (piece for path in tables.files(root) for piece in _as_pieces(path, root)):
        if left <= 0:
            return
        step = max(1, piece.last // ROWS_LEARNT)
        for batch in _batches([piece], reader, found.attributes, ()):
            rows = batch.take(pa.array(range(0, batch.num_rows, step)))
            index.learn(reader.read(rows), rows.num_rows)
            left -= rows.num_rows


def _as_pieces(path: Path, root: Path) -> list[RowRange]:
    day = path.parent.name.removeprefix("day=") if path.parent != root else None
    try:
        meta = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from None
    rows = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
    return [RowRange(str(path), day, group, 0, count) for group, count in enumerate(rows) if count]


def _as_tasks(pieces: Sequence[RowRange], slots: int) -> list[list[RowRange]]:
    """Divide pieces into tasks."""
    sizes = _task_sizes(sum(piece.last for piece in pieces), slots)
    tasks: list[list[RowRange]] = []
    room = 0
    for piece in pieces:
        first = piece.first
        while first < piece.last:
            if not room:
                tasks.append([])
                room = next(sizes)
            last = min(piece.last, first + room)
            tasks[-1].append(piece._replace(first=first, last=last))
            room -= last - first
            first = last
    return tasks


def _task_sizes(rows: int, slots: int) -> Iterator[int]:
    """The rows of each task, in order: all slots together repeatedly take half of the rest, so that the last tasks are
    short, and no slot waits long for another. Few rows are one task per slot.
    """
    left, shortest = rows, max(TASK_ROWS_MIN, rows // (8 * slots))
    while left:
        share = left if left <= slots * shortest else left // 2
        size = min(-(-share // slots), TASK_ROWS_MAX)
        for _ in range(slots):
            yield min(size, left)
            left -= min(size, left)


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
        batches = _batches(group, reader, forms, kept, is_whole=bool(index.tests))
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


def _batches(
    pieces: Sequence[RowRange],
    reader: ColumnReader,
    forms: dict[str, Form],
    kept: tuple[str, ...],
    is_whole: bool = False,
) -> Iterator[Any]:
    """The rows of pieces, in batches with the columns that filters use and those that are kept, or with all."""
    for piece in pieces:
        if not Path(piece.path).exists():
            raise PipelineError(
                f"a worker cannot find {piece.path}: the table must be in a folder that all workers share"
            )
        names = pq.read_schema(piece.path).names
        wanted = [name for name in names if is_whole or name in reader.columns or name in kept]
        texts = [name for name in wanted if name in kept or forms.get(attribute_of(name) or "") == Form("text")]
        file = pq.ParquetFile(piece.path, read_dictionary=texts, coerce_int96_timestamp_unit="us")
        if not wanted:  # no filter uses a column of this file
            yield from _empty_batches(piece.last - piece.first)
            continue
        for batch in _rows_in_turn(file, piece, wanted) if is_whole else _rows_at_once(file, piece, wanted):
            yield pa.record_batch([_as_said(forms, *each) for each in zip(wanted, batch.columns, strict=True)], wanted)


def _rows_at_once(file: Any, piece: RowRange, columns: list[str]) -> Iterator[Any]:
    rows = file.read_row_group(piece.group, columns=columns, use_threads=False)
    rows = rows.slice(piece.first, piece.last - piece.first)
    yield from rows.combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE)


def _rows_in_turn(file: Any, piece: RowRange, columns: list[str]) -> Iterator[Any]:
    """The same, for columns that may have documents: a row group is not in memory as a whole. (rule 2)"""
    done = 0
    for batch in file.iter_batches(WHOLE_ROWS_AT_ONCE, [piece.group], columns, use_threads=False):
        first, last = max(piece.first - done, 0), min(piece.last - done, batch.num_rows)
        done += batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)
        if done >= piece.last:
            return


def _empty_batches(rows: int) -> Iterator[Any]:
    for first in range(0, rows, ROWS_AT_ONCE):
        yield pa.record_batch({"publisher": pa.nulls(min(ROWS_AT_ONCE, rows - first))})


def _as_said(forms: dict[str, Form], name: str, array: Any) -> Any:
    """A column with the type of its table: some writers store times without their zone, which is UTC."""
    attribute = attribute_of(name)
    type = arrow_type(forms[attribute]) if attribute in forms else array.type
    if name == "published_at":
        type = arrow_type(Form("time"))
    return array if array.type == type or pa.types.is_dictionary(array.type) else array.cast(type)
