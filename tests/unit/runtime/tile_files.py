"""Writes files of tiles for tests: PMTiles, version 3."""

import gzip
import struct
from pathlib import Path

from godwit.runtime.tile_file import tile_number

PNG, VECTOR = 2, 1


def varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def directory(entries: list[tuple[int, int, int, int]], *, is_packed: bool = True) -> bytes:
    """Entries of number, run, length and offset; an offset that follows the last is written as 0."""
    columns: list[list[int]] = [[], [], [], []]
    last, end = 0, -1
    for number, run, length, offset in entries:
        for column, value in zip(
            columns, (number - last, run, length, 0 if offset == end else offset + 1), strict=True
        ):
            column.append(value)
        last, end = number, offset + length
    data = b"".join([varint(len(entries)), *(varint(each) for column in columns for each in column)])
    return gzip.compress(data) if is_packed else data


def write_tiles(
    path: Path,
    tiles: dict[tuple[int, int, int], bytes],
    *,
    kind: int = PNG,
    is_packed: bool = True,
    is_deep: bool = False,
    level_max: int = 3,
) -> Path:
    """A file with these tiles, by level, column and row. `is_deep`: its root leads to a further directory."""
    entries, content = [], b""
    for number, data in sorted((tile_number(*at), data) for at, data in tiles.items()):
        entries.append((number, 1, len(data), len(content)))
        content += data
    found = directory(entries, is_packed=is_packed)
    root, leaves = (directory([(0, 0, len(found), 0)], is_packed=is_packed), found) if is_deep else (found, b"")
    offsets = [127, 127 + len(root), 127 + len(root), 127 + len(root) + len(leaves)]
    lengths = [len(root), 0, len(leaves), len(content)]
    head = b"PMTiles\x03" + b"".join(struct.pack("<QQ", *pair) for pair in zip(offsets, lengths, strict=True))
    head += struct.pack("<QQQ", len(tiles), len(entries), len(tiles))
    head += bytes([1, 2 if is_packed else 1, 1, kind, 0, level_max])
    path.write_bytes(head.ljust(127, b"\0") + root + leaves + content)
    return path
