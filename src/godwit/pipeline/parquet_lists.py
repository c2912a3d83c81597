"""Parquet files with a column of lists, written without processing each item.

*Theory.* pyarrow writes a row group whose lists have one item each into memory: all other columns, their statistics,
the dictionary page and the schema are taken from there. Only the data pages of the lists and their metadata are made
here. In a page of lists every item has two *levels*, for nulls and for the beginnings of lists, and a number into the
dictionary. Nothing is null: one run encodes that for all items. The beginnings of lists are one bit per item, all ones
except for the first item of each list. The numbers are stored in whole bytes.

*Rules.*
1. Readers get the same as from a file of pyarrow: values, types, statistics.
2. A page begins with a list, and has at most `PAGE_ITEMS` items or a single list.
3. Each row group has its own dictionary, without duplicates.
4. Only metadata is held back: a row group is in the file when `write` returns. A file that was not closed has no
   metadata, and is not valid Parquet.

*Profile.* Writers give numbers as few bits as the dictionary needs, and readers take more as well. Lists resemble each
other, but in bits what repeats begins anywhere, and compression looks for bytes. 214 million items of 10,000 texts, in
14 bits: Snappy 1.5 s and 150 MB, zstd 0.24 s and 23 MB; in 16: Snappy 0.7 s and 60 MB, LZ4 0.15 s and 20 MB, zstd
0.17 s and 12 MB. To put them there is a copy, where packing bits took 0.8 ns each in a kernel. A run could be as long
as a page, which makes 13 MB of 18; but DuckDB reads long runs half as fast, so they are as short as those of other
writers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from godwit.pipeline.thrift import I32, I64, LIST, STRUCT, Struct, read, varint, written

__all__ = ["ListWriter", "Lists"]

PAGE_ITEMS = 1 << 18
RUN_EIGHTS = 63  # the largest number in one byte
DICTIONARY_BYTES_MAX = (1 << 31) - 1  # the largest page, so that pyarrow never falls back to texts
CODEC, LEVEL = "zstd", 1
MAGIC = b"PAR1"

Lists = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # offsets and numbers into a dictionary, as Arrow's; none is empty

# Field numbers in Parquet's metadata: of a file, of a row group, of a column, of a page.
FILE_ROWS, FILE_GROUPS = 3, 4
GROUP_COLUMNS, GROUP_BYTES, GROUP_AT, GROUP_PACKED, GROUP_ORDINAL = 1, 2, 5, 6, 7
COLUMN_CHUNK = 3
CHUNK_TYPE, CHUNK_ENCODINGS, CHUNK_NAME, CHUNK_CODEC, CHUNK_ITEMS, CHUNK_BYTES, CHUNK_PACKED = 1, 2, 3, 4, 5, 6, 7
CHUNK_DATA_AT, CHUNK_DICTIONARY_AT, CHUNK_PAGES = 9, 11, 13
PAGE_BYTES, PAGE_PACKED, PAGE_DATA = 2, 3, 5
DATA_PAGE, DICTIONARY_PAGE = 0, 2
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8


class ListWriter:
    """Writes a file of row groups, in which one column has lists of texts.

    `dictionaries` and `statistics` name the other columns that have them.
    """

    def __init__(
        self, path: Path, schema: Any, lists: str, dictionaries: Sequence[str] = (), statistics: Sequence[str] = ()
    ) -> None:
        self._schema, self._lists = schema, lists
        self._options = {
            "use_dictionary": [*dictionaries, f"{lists}.list.element"],
            "write_statistics": [*statistics] or False,
            "compression": CODEC,
            "compression_level": LEVEL,
            "dictionary_pagesize_limit": DICTIONARY_BYTES_MAX,
        }
        field = schema.field(lists)
        self._no_null = 1 + field.nullable + field.type.value_field.nullable  # the level at which nothing is null
        self._codec = pa.Codec(CODEC, LEVEL)
        self._meta: Struct = {}
        self._groups: list[Struct] = []
        self._rows = self._at = 0
        self._file: BinaryIO = path.open("xb")
        self._put(MAGIC)

    def write(self, columns: dict[str, Any], parts: Sequence[Lists], texts: Any) -> None:
        """A row group: the other columns, and the lists one after the other, as numbers into `texts`."""
        rows = sum(len(offsets) - 1 for offsets, _ in parts)
        self._meta, data = self._stand_in(columns, rows, texts)
        [group] = self._meta[FILE_GROUPS][1][1]
        begin, size = self._at, 0
        for column in group[GROUP_COLUMNS][1][1]:
            chunk = column[COLUMN_CHUNK][1]
            is_lists = chunk[CHUNK_NAME][1][1][0] == self._lists.encode()
            chunk = self._put_lists(chunk, data, parts, len(texts)) if is_lists else self._take_over(chunk, data)
            column[COLUMN_CHUNK] = STRUCT, chunk
            size += chunk[CHUNK_BYTES][1]
        group |= {GROUP_BYTES: (I64, size), GROUP_AT: (I64, begin), GROUP_PACKED: (I64, self._at - begin)}
        group.pop(GROUP_ORDINAL, None)
        self._groups.append(group)
        self._rows += rows

    def close(self) -> None:
        """Write the metadata, which completes the file."""
        meta = written(self._meta | {FILE_ROWS: (I64, self._rows), FILE_GROUPS: (LIST, (STRUCT, self._groups))})
        self._put(meta, len(meta).to_bytes(4, "little"), MAGIC)
        self._file.close()

    def abandon(self) -> None:
        """Close the file without metadata: it is not valid Parquet."""
        self._file.close()

    def _put(self, *pieces: Any) -> None:
        for piece in pieces:
            self._at += self._file.write(piece)

    # ------------------------------------------------------------ what pyarrow makes

    def _stand_in(self, columns: dict[str, Any], rows: int, texts: Any) -> tuple[Struct, memoryview]:
        """A row group whose lists have one item each, by pyarrow: its metadata and its bytes."""
        numbers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), texts)
        offsets, type = pa.array(np.arange(rows + 1, dtype=np.int32)), self._schema.field(self._lists).type
        columns = columns | {self._lists: pa.ListArray.from_arrays(offsets, numbers, type=type)}
        table = pa.table([columns[name] for name in self._schema.names], schema=self._schema)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=rows, **self._options)
        data = memoryview(sink.getvalue())
        size = int.from_bytes(data[-8:-4], "little")
        return read(bytes(data[-8 - size : -8])), data

    def _take_over(self, chunk: Struct, data: memoryview) -> Struct:
        """Copy a column unchanged. Returns its metadata with the new offsets."""
        places = {at: chunk[at][1] for at in (CHUNK_DATA_AT, CHUNK_DICTIONARY_AT) if at in chunk}
        begin = min(places.values())
        moved = {at: (I64, place - begin + self._at) for at, place in places.items()}
        self._put(data[begin : begin + chunk[CHUNK_PACKED][1]])
        return chunk | moved

    # ------------------------------------------------------------ the lists

    def _put_lists(self, chunk: Struct, data: memoryview, parts: Sequence[Lists], texts: int) -> Struct:
        """Write the column of lists: pyarrow's dictionary page and the data pages of this module."""
        dictionary = data[chunk[CHUNK_DICTIONARY_AT][1] : chunk[CHUNK_DATA_AT][1]]
        about = read(bytes(dictionary))
        saved = about[PAGE_BYTES][1] - about[PAGE_PACKED][1]
        dictionary_at = self._at
        self._put(dictionary)
        data_at, pages, items = self._at, 0, 0
        for some, page in _pages(parts, texts, self._no_null):
            packed = self._codec.compress(page)
            self._put(_page_header(some, len(page), len(packed)), packed)
            saved += len(page) - len(packed)
            items, pages = items + some, pages + 1
        size = self._at - dictionary_at
        counts = ((DICTIONARY_PAGE, PLAIN, 1), (DATA_PAGE, RLE_DICTIONARY, pages))
        return {field: chunk[field] for field in (CHUNK_TYPE, CHUNK_ENCODINGS, CHUNK_NAME, CHUNK_CODEC)} | {
            CHUNK_ITEMS: (I64, items),
            CHUNK_BYTES: (I64, size + saved),
            CHUNK_PACKED: (I64, size),
            CHUNK_DATA_AT: (I64, data_at),
            CHUNK_DICTIONARY_AT: (I64, dictionary_at),
            CHUNK_PAGES: (LIST, (STRUCT, [_numbered(*each) for each in counts])),
        }


def _pages(parts: Sequence[Lists], texts: int, no_null: int) -> Iterator[tuple[int, bytes]]:
    """The number of items of each page, and its content."""
    for offsets, numbers in parts:
        first = 0
        while first < len(offsets) - 1:
            fits = int(np.searchsorted(offsets, offsets[first] + PAGE_ITEMS, side="right")) - 1
            last = max(first + 1, fits)
            here = offsets[first : last + 1]
            yield int(here[-1] - here[0]), _page(here - here[0], numbers[here[0] : here[-1]], texts, no_null)
            first = last


def _page(offsets: npt.NDArray[Any], numbers: npt.NDArray[Any], texts: int, no_null: int) -> bytes:
    """The levels, each with its size before it, and the numbers."""
    items = len(numbers)
    begins = np.full((items + 7) // 8, 255, dtype=np.uint8)
    np.bitwise_and.at(begins, offsets[:-1] >> 3, (~(1 << (offsets[:-1] & 7))).astype(np.uint8))
    levels = b"".join(_runs(begins, 1))
    nulls = varint(items << 1) + bytes([no_null])
    width = next(each for each in (1, 2, 4) if texts <= 1 << 8 * each)
    packed = numbers.astype(f"<u{width}", copy=False).view(np.uint8)
    sizes = (len(each).to_bytes(4, "little") for each in (levels, nulls))
    return b"".join((next(sizes), levels, next(sizes), nulls, bytes([8 * width]), *_runs(packed, 8 * width)))


def _runs(packed: npt.NDArray[np.uint8], width: int) -> Iterator[Any]:
    """Items of `width` bits each, in runs: eight items are `width` bytes, and the last eight are padded with 0."""
    step = RUN_EIGHTS * width
    full = len(packed) // step
    runs = np.empty((full, 1 + step), dtype=np.uint8)
    runs[:, 0] = RUN_EIGHTS << 1 | 1
    runs[:, 1:] = packed[: full * step].reshape(full, step)
    yield runs.tobytes()
    rest = packed[full * step :].tobytes()
    if rest:
        eights = -(-len(rest) // width)
        yield varint(eights << 1 | 1) + rest.ljust(eights * width, b"\0")


def _page_header(items: int, size: int, packed: int) -> bytes:
    data = _numbered(items, RLE_DICTIONARY, RLE, RLE)
    return written(_numbered(DATA_PAGE, size, packed) | {PAGE_DATA: (STRUCT, data)})


def _numbered(*fields: int) -> Struct:
    return {place: (I32, value) for place, value in enumerate(fields, start=1)}
