"""Map tiles from one local file: PMTiles, version 3, with images.

*Theory.* Such a file has tiles one after the other, and directories with their positions. A directory is a list of
entries, in the order of tile numbers; an entry stands for a run of tiles, or points to another directory. Tiles are
numbered level by level, along a Hilbert curve, so that neighbours on the map are mostly neighbours in the file.

*Rules.*
1. The broker reads the directories, and a browser requests tiles by level, column and row, as from any tile server:
   pages need no further library.
2. Only images are served (PNG, JPEG, WebP, AVIF). A file of vector tiles is refused when the broker starts.
3. Sizes in the file are checked before anything of that size is read: a damaged file is only an error.
"""

import struct
import zlib
from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from godwit.errors import GodwitError

__all__ = ["TileFile", "TileFileError", "tile_number"]

HEADER = struct.Struct("<7sB11QBBBBBB")  # up to the highest level; bounds and centre follow
HEADER_BYTES = 127
MAGIC, VERSION = b"PMTiles", 3
NONE, GZIP = 1, 2
TYPES = {2: "image/png", 3: "image/jpeg", 4: "image/webp", 5: "image/avif"}
VECTOR = 1
LEVEL_MAX = 26
DIRECTORY_BYTES_MAX = 16 * 2**20  # unpacked
TILE_BYTES_MAX = 4 * 2**20
DIRECTORIES_KEPT = 32
DEPTH_MAX = 4


class TileFileError(GodwitError):
    """The file has no tiles that can be shown."""


class _Entry(NamedTuple):
    offset: int
    length: int
    run: int  # number of tiles; 0: it is a directory


class _Directory(NamedTuple):
    numbers: list[int]  # of the first tile of each entry
    entries: list[_Entry]


class TileFile:
    """An open file of tiles. TileFileError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise TileFileError(f"{path} cannot be read: {error.strerror}") from None
        try:
            self._read_header(path)
        except BaseException:
            self._file.close()
            raise
        self._directories: OrderedDict[int, _Directory] = OrderedDict()  # by their place, the last used last

    def _read_header(self, path: Path) -> None:
        head = self._file.read(HEADER_BYTES)
        if len(head) < HEADER_BYTES or head[:7] != MAGIC or head[7] != VERSION:
            raise TileFileError(f"{path} is not a PMTiles file of version {VERSION}")
        said = HEADER.unpack_from(head)
        self._root, self._leaves, self._tiles = (said[2], said[3]), said[6], said[8]
        _, packing, tile_packing, kind, self.level_min, self.level_max = said[13:19]
        if packing not in (NONE, GZIP):
            raise TileFileError(f"{path} has directories with an unknown compression: allowed are gzip and none")
        if kind not in TYPES or tile_packing != NONE:
            what = "vector tiles" if kind == VECTOR else "tiles of an unknown kind"
            raise TileFileError(f"{path} has {what}: allowed are pictures (PNG, JPEG, WebP or AVIF)")
        self.content_type = TYPES[kind]
        self._is_packed = packing == GZIP

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def tile(self, level: int, column: int, row: int) -> bytes | None:
        """One tile, or None."""
        if not (self.level_min <= level <= self.level_max <= LEVEL_MAX):
            return None
        if not (0 <= column < 1 << level and 0 <= row < 1 << level):
            return None
        number = tile_number(level, column, row)
        offset, length = self._root
        for _ in range(DEPTH_MAX):
            directory = self._directory(offset, length)
            at = bisect_right(directory.numbers, number) - 1
            if at < 0:
                return None
            entry = directory.entries[at]
            if entry.run > 0:
                is_in_run = number < directory.numbers[at] + entry.run
                return self._bytes(self._tiles + entry.offset, entry.length, TILE_BYTES_MAX) if is_in_run else None
            offset, length = self._leaves + entry.offset, entry.length
        raise TileFileError(f"directories lead to each other more than {DEPTH_MAX} deep")

    def _directory(self, offset: int, length: int) -> _Directory:
        kept = self._directories.get(offset)
        if kept is None:
            data = self._bytes(offset, length, DIRECTORY_BYTES_MAX)
            kept = self._directories[offset] = _parsed(_unpacked(data) if self._is_packed else data)
            if len(self._directories) > DIRECTORIES_KEPT:
                self._directories.popitem(last=False)
        self._directories.move_to_end(offset)
        return kept

    def _bytes(self, offset: int, length: int, most: int) -> bytes:
        if length > most:
            raise TileFileError(f"{length} bytes in one piece: at most {most} are allowed")
        try:
            self._file.seek(offset)
            data = self._file.read(length)
        except (OSError, ValueError, OverflowError) as error:
            raise TileFileError(f"the file of tiles cannot be read: {error}") from None
        if len(data) < length:
            raise TileFileError("the file of tiles ends too early")
        return data


def tile_number(level: int, column: int, row: int) -> int:
    """The number of a tile: levels in order, and within a level along a Hilbert curve."""
    number = ((1 << 2 * level) - 1) // 3
    for shift in reversed(range(level)):
        side = 1 << shift
        right, below = bool(column & side), bool(row & side)
        number += ((3 * right) ^ below) << 2 * shift
        column, row = column & side - 1, row & side - 1
        if not below:
            if right:
                column, row = side - 1 - column, side - 1 - row
            column, row = row, column
    return number


def _unpacked(data: bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        found = unpacker.decompress(data, DIRECTORY_BYTES_MAX)
    except zlib.error as error:
        raise TileFileError(f"a directory of the file of tiles is damaged: {error}") from None
    if unpacker.unconsumed_tail:
        raise TileFileError(f"a directory of more than {DIRECTORY_BYTES_MAX} bytes")
    return found


def _parsed(data: bytes) -> _Directory:
    """Parse a directory: the count, then columns of number differences, runs, lengths and offsets."""
    numbers = _Numbers(data)
    count = numbers.next()
    if count > len(data):
        raise TileFileError("a directory of the file of tiles names more entries than it has")
    firsts, last = [], 0
    for _ in range(count):
        last += numbers.next()
        firsts.append(last)
    runs = [numbers.next() for _ in range(count)]
    lengths = [numbers.next() for _ in range(count)]
    entries: list[_Entry] = []
    for length, run in zip(lengths, runs, strict=True):
        said = numbers.next()
        follows = said == 0 and entries
        offset = entries[-1].offset + entries[-1].length if follows else said - 1
        entries.append(_Entry(offset, length, run))
    return _Directory(firsts, entries)


class _Numbers:
    """Whole numbers, seven bits in a byte, the lowest first."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def next(self) -> int:
        number = shift = 0
        while True:
            if self._at >= len(self._data) or shift > 63:
                raise TileFileError("a directory of the file of tiles is damaged")
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
