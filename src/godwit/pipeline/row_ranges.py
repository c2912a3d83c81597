"""Rows of Parquet files as work for tasks: a worker reads them itself, so that they do not pass through the JVM.

*Theory.* A table is divided into ranges of rows within row groups, and these into tasks. A task reads only the columns
that filters use and those that are kept, texts as a dictionary and codes, as in the file.

*Rules.*
1. Every row is in one task. Tasks get shorter towards the end, so that no core waits long for another.
2. Memory is bounded: a row group of the needed columns; with all columns, which may have documents,
   `WHOLE_ROWS_AT_ONCE` rows.
3. All workers must see the folders; otherwise the task fails with that error.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.pipeline.columns import Form, arrow_type, attribute_of

__all__ = ["RowRange", "as_tasks", "batches_of", "ranges_of", "task_sizes"]

ROWS_AT_ONCE = 1 << 15  # that are encoded and matched together
WHOLE_ROWS_AT_ONCE = 1 << 12  # with all their columns
TASK_ROWS_MIN = 125_000  # overhead of a Python task: 45 ms
TASK_ROWS_MAX = 2_000_000  # so that progress is visible, and a retry repeats only a part


class RowRange(NamedTuple):
    """Some rows of a row group of a file."""

    path: str
    day: str | None  # from the name of its folder; None: a flat table has it in a column
    group: int
    first: int
    last: int


def ranges_of(path: Path, root: Path) -> list[RowRange]:
    """All rows of a file of the table in the folder `root`."""
    day = path.parent.name.removeprefix("day=") if path.parent != root else None
    try:
        meta = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from None
    rows = [meta.row_group(group).num_rows for group in range(meta.num_row_groups)]
    return [RowRange(str(path), day, group, 0, count) for group, count in enumerate(rows) if count]


def as_tasks(pieces: Sequence[RowRange], slots: int) -> list[list[RowRange]]:
    """Divide pieces into tasks."""
    sizes = task_sizes(sum(piece.last for piece in pieces), slots)
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


def task_sizes(rows: int, slots: int) -> Iterator[int]:
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


# ---------------------------------------------------------------- in a worker


def batches_of(
    pieces: Sequence[RowRange],
    columns: Collection[str],
    forms: dict[str, Form],
    kept: tuple[str, ...],
    is_whole: bool = False,
) -> Iterator[Any]:
    """The rows of pieces, in batches with the given columns and those that are kept, or with all."""
    for piece in pieces:
        if not Path(piece.path).exists():
            raise PipelineError(
                f"a worker cannot find {piece.path}: the table must be in a folder that all workers share"
            )
        names = pq.read_schema(piece.path).names
        wanted = [name for name in names if is_whole or name in columns or name in kept]
        texts = [name for name in wanted if name in kept or forms.get(attribute_of(name) or "") == Form("text")]
        file = pq.ParquetFile(piece.path, read_dictionary=texts, coerce_int96_timestamp_unit="us")
        if not wanted:  # no filter uses a column of this file
            yield from _empty_batches(piece.last - piece.first)
            continue
        for batch in _rows_in_turn(file, piece, wanted) if is_whole else _rows_at_once(file, piece, wanted):
            yield pa.record_batch([_in_form(forms, *each) for each in zip(wanted, batch.columns, strict=True)], wanted)


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


def _in_form(forms: dict[str, Form], name: str, array: Any) -> Any:
    """A column with the type of its table: some writers store times without their zone, which is UTC."""
    attribute = attribute_of(name)
    type = arrow_type(forms[attribute]) if attribute in forms else array.type
    if name == "published_at":
        type = arrow_type(Form("time"))
    return array if array.type == type or pa.types.is_dictionary(array.type) else array.cast(type)
