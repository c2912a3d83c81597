"""Files of matches: written by workers as they match, and merged into larger ones later.

*Theory.* A row is an event and the list of all subscriptions that it matches. The lists are numbers into a dictionary
of ids, from the matcher to the disk: no id becomes a Python object (`parquet_lists.py`). `MatchWriter` takes the parts
that an index finds. `merge_matches` takes files that it wrote before: it reads their numbers and dictionaries, joins
the dictionaries of as many row groups as fit into one, and writes them again in the same way.

*Rules.*
1. A file has a unique name, and does not exist if nothing matched.
2. Memory is bounded: a row group is written when it has `PAIRS_WRITTEN` pairs or `ROWS_WRITTEN` rows.
3. Merging changes neither the rows nor their order; only their division into row groups and files.
"""

import secrets
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.pipeline.columns import Form, arrow_type
from godwit.pipeline.parquet_lists import Lists, ListWriter
from godwit.pipeline.subscription_index import MatchPart, OpenIndex

__all__ = ["KEPT", "MatchWriter", "day_of_folder", "merge_matches"]

PAIRS_WRITTEN = 1 << 22  # in a row group, before it is written
ROWS_WRITTEN = 1 << 17
LISTS = "subscriptions"
KEPT = ("publisher", "sequence", "published_at", "day")
"""The columns of an event that stay in the row of its matches."""

_IDS = pa.dictionary(pa.int32(), pa.string())


class MatchWriter:
    """Writes the matches of one task to one file, in row groups. `has_day`: the day is a column, not a folder."""

    def __init__(self, folder: Path, opened: OpenIndex, *, has_day: bool) -> None:
        self.name = f"{secrets.token_hex(16)}.parquet"
        self.matched = self.pairs = 0
        self._path, self._opened = folder / self.name, opened
        self._waiting: list[tuple[MatchPart, Any]] = []
        self._waiting_rows = self._waiting_pairs = 0
        self._writer: ListWriter | None = None
        self._schema = _schema(has_day)

    def __enter__(self) -> "MatchWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        if self._waiting and raised[0] is None:
            self._write()
        if self._writer is not None:
            self._writer.close() if raised[0] is None else self._writer.abandon()

    def take(self, part: MatchPart, batch: Any) -> None:
        """Matches of events of a batch."""
        rows = pa.array(part.events)
        names = [name for name in self._schema.names if name in batch.schema.names]
        kept = pa.record_batch([batch.column(name).take(rows) for name in names], names=names)
        self._waiting.append((part, kept))
        self._waiting_rows += len(part.events)
        self._waiting_pairs += len(part.members)
        if self._waiting_pairs >= PAIRS_WRITTEN or self._waiting_rows >= ROWS_WRITTEN:
            self._write()

    def _write(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = _list_writer(self._path, self._schema)
        kept = pa.Table.from_batches([batch for _, batch in self._waiting]).combine_chunks()
        rows = self._waiting_rows
        self._writer.write(_columns(kept, self._schema), *self._lists([part for part, _ in self._waiting]))
        self.matched += rows
        self.pairs += self._waiting_pairs
        self._waiting, self._waiting_rows, self._waiting_pairs = [], 0, 0

    def _lists(self, parts: list[MatchPart]) -> tuple[list[Lists], Any]:
        """The lists of subscriptions, as numbers into a dictionary: of all ids, or of the used ones."""
        ids = self._opened.ids
        if 4 * len(ids) <= self._waiting_pairs:
            return [(part.offsets, part.members) for part in parts], ids
        used = np.zeros(len(ids), dtype=np.bool_)
        for part in parts:
            used[part.members] = True
        numbers = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return [(part.offsets, numbers[part.members]) for part in parts], ids.filter(pa.array(used))


# ---------------------------------------------------------------- merging


def merge_matches(paths: Iterable[Path], target: Path) -> int:
    """Write the rows of some files of matches as one file, with the day as a column; returns their number."""
    schema = _schema(has_day=True)
    rows = 0
    writer = _list_writer(target, schema)
    try:
        for pieces in _row_groups(paths):
            kept = pa.concat_tables([table for table, _, _, _ in pieces]).combine_chunks()
            joined = pa.chunked_array([ids for _, _, _, ids in pieces]).combine_chunks().dictionary_encode()
            numbers = joined.indices.to_numpy()
            lists, base = [], 0
            for _, offsets, members, ids in pieces:
                lists.append((offsets, numbers[base : base + len(ids)][members]))
                base += len(ids)
            writer.write(_columns(kept, schema), lists, joined.dictionary)
            rows += kept.num_rows
    except BaseException:
        writer.abandon()
        raise
    writer.close()
    return rows


def day_of_folder(path: Path) -> tuple[bool, date | None]:
    """Whether a file is in the folder of a day, as in the layout of earlier versions, and of which day."""
    name = path.parent.name
    if not name.startswith("day="):
        return False, None
    try:
        return True, date.fromisoformat(name.removeprefix("day="))
    except ValueError:  # the folder of rows without a time
        return True, None


Piece = tuple[Any, Any, Any, Any]  # the kept columns, the offsets, the numbers, and the ids that these are numbers of


def _row_groups(paths: Iterable[Path]) -> Iterator[list[Piece]]:
    """The row groups of files, grouped as they will be merged. (rule 2)"""
    held: list[Piece] = []
    rows = pairs = 0
    for path in paths:
        try:
            file = pq.ParquetFile(path, read_dictionary=[f"{LISTS}.list.element"])
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"cannot read {path}: {error}") from None
        for group in range(file.num_row_groups):
            piece = _piece(file.read_row_group(group, use_threads=False), path)
            if held and (rows + piece[0].num_rows > ROWS_WRITTEN or pairs + len(piece[2]) > PAIRS_WRITTEN):
                yield held
                held, rows, pairs = [], 0, 0
            held.append(piece)
            rows, pairs = rows + piece[0].num_rows, pairs + len(piece[2])
    if held:
        yield held


def _piece(table: Any, path: Path) -> Piece:
    lists = table.column(LISTS).combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0) if lists.num_chunks else pa.array([], lists.type)
    items = lists.values if pa.types.is_dictionary(lists.type.value_type) else lists.values.dictionary_encode()
    in_folder, day = day_of_folder(path)
    kept = table.drop_columns([LISTS])
    if in_folder:
        kept = kept.append_column("day", pa.array([day] * kept.num_rows, pa.date32()))
    schema = pa.schema([field for field in _schema(has_day=True) if field.name != LISTS])
    columns = _columns(kept, schema)
    offsets = lists.offsets.to_numpy()
    return pa.table(columns, schema=schema), offsets, items.indices.to_numpy(), items.dictionary


# ---------------------------------------------------------------- what a file holds


def _schema(has_day: bool) -> Any:
    kept = {"publisher": pa.string(), "sequence": pa.int64(), "published_at": arrow_type(Form("time"))}
    found = pa.schema([*kept.items(), (LISTS, pa.list_(pa.field("element", _IDS)))])
    return found.append(pa.field("day", pa.date32())) if has_day else found


def _list_writer(path: Path, schema: Any) -> ListWriter:
    return ListWriter(path, schema, LISTS, dictionaries=["publisher"], statistics=KEPT)


def _columns(kept: Any, schema: Any) -> dict[str, Any]:
    """The columns beside the lists, each of its type; null where there is none."""
    return {
        field.name: _as_type(kept.column(field.name), field.type)
        if field.name in kept.schema.names
        else pa.nulls(kept.num_rows, field.type)
        for field in schema
        if field.name != LISTS
    }


def _as_type(column: Any, type: Any) -> Any:
    return column if column.type == type else column.cast(type)
