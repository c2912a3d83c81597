"""Pieces of files that tasks read, and the lines in them, each with its number.

*Theory.* A file that is read by line is split at any byte: a piece has the lines that begin in it. The number of its
first line follows from the number of newlines before it, which tasks count beforehand; that costs memory bandwidth, not
parsing. A compressed file is one piece.

*Rules.*
1. Each line of a file is in exactly one piece, wherever it is split.
2. A line longer than `LINE_BYTES_MAX` is None, and is not kept in memory.
3. A truncated compressed file raises `TruncatedFile` after its last complete line.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from godwit.errors import PipelineError

__all__ = [
    "BROKEN",
    "BROKEN_OFF",
    "COMPRESSED",
    "Split",
    "TruncatedFile",
    "counted",
    "lines",
    "names",
    "numbered",
    "opened",
    "sources",
    "splits",
]

LINE_BYTES_MAX = 4 * 2**20
SPLIT_BYTES_MIN = 4 * 2**20
SPLIT_BYTES_MAX = 64 * 2**20
READ_BYTES = 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)  # of a file that cannot be read or decompressed further
BROKEN_OFF = "broken off"  # the rest of such a file counts as a single bad row of this kind
COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class TruncatedFile(Exception):
    """The rest of a file cannot be read."""


@dataclass(frozen=True)
class Split:
    """A piece of a file: its bytes from `start` up to `end`, or all of it. `lines_before` are before `start`.

    `given` is the user's path, for messages.
    """

    path: str
    publisher: str
    start: int = 0
    end: int | None = None
    lines_before: int = 0
    given: str = ""


def sources(given: Sequence[str]) -> list[Path]:
    """The files to read: those given, and all in the given folders, except names that begin with _ or a dot."""
    found: dict[Path, None] = {}
    for name in given:
        path = Path(name)
        if not path.exists():
            raise PipelineError(f"{name}: no such file or folder")
        if path.is_dir():
            below = sorted(
                each
                for each in path.rglob("*")
                if each.is_file() and not any(p.startswith(("_", ".")) for p in each.relative_to(path).parts)
            )
            if not below:
                raise PipelineError(f"there are no files in {name}")
            found.update(dict.fromkeys(below))
        else:
            found[path] = None
    for path in found:
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise PipelineError(f"cannot read {path}: {error.strerror or error}") from None
    return list(found)


def names(paths: Sequence[Path]) -> list[str]:
    """A unique name for each file: its name, or its whole path if two have the same name."""
    found = [path.name for path in paths]
    return found if len(set(found)) == len(found) else [path.as_posix() for path in paths]


def splits(paths: Sequence[Path], tasks: int, *, by_line: bool) -> list[Split]:
    """The pieces of files, in order: about `tasks` pieces if files are large and read by line."""
    sizes = [path.stat().st_size for path in paths]
    wanted = min(max(sum(sizes) // max(tasks, 1) + 1, SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)
    found = []
    for path, publisher, size in zip(paths, names(paths), sizes, strict=True):
        whole = Split(str(path.absolute()), publisher, given=str(path))
        pieces = -(-size // wanted)
        if not by_line or path.suffix in COMPRESSED or pieces < 2:
            found.append(whole)
            continue
        cuts = [size * place // pieces for place in range(pieces + 1)]
        found += [replace(whole, start=a, end=b) for a, b in pairwise(cuts)]
    return found


def counted(split: Split) -> tuple[int, int]:
    """The number of newlines and of quotes in a piece."""
    ends = quotes = 0
    with Path(split.path).open("rb") as file:
        file.seek(split.start)
        left = (split.end or 0) - split.start
        while left > 0 and (data := file.read(min(left, READ_BYTES))):
            ends += data.count(b"\n")
            quotes += data.count(b'"')
            left -= len(data)
    return ends, quotes


def numbered(found: Sequence[Split], ends: Sequence[int]) -> list[Split]:
    """Pieces with the number of newlines before each, from the counts of each."""
    before: dict[str, int] = {}
    out = []
    for split, count in zip(found, ends, strict=True):
        out.append(replace(split, lines_before=before.get(split.path, 0)))
        before[split.path] = before.get(split.path, 0) + count
    return out


class _Unpacked(io.RawIOBase):
    """A buffered reader of a compressed file: lines are split in C, and all are returned before an error."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def opened(path: str) -> IO[bytes]:
    """Open a file, decompressed if its name says so."""
    unpack = COMPRESSED.get(Path(path).suffix)
    if unpack is None:
        return Path(path).open("rb")
    return io.BufferedReader(_Unpacked(unpack(path, "rb")), READ_BYTES)  # type: ignore[operator]


def lines(split: Split, *, whole_only: bool = False) -> Iterator[tuple[int, bytes | None]]:
    """The lines that begin in a piece, with their numbers and without newlines; None for a line that is too long.

    `whole_only`: a last line without a newline is left out.
    """
    number = split.lines_before
    with opened(split.path) as file:
        at = split.start
        if at:
            file.seek(at - 1)
            first, length = _line(file)  # the rest of a line that begins before, or only its newline
            at += length - 1
            if not length or (first is not None and not first.endswith(b"\n")):
                return
            if length > 1:
                number += 1
        while split.end is None or at < split.end:
            try:
                line, length = _line(file)
            except BROKEN as error:
                raise TruncatedFile(f"{error}") from None
            if not length or (whole_only and line is not None and not line.endswith(b"\n")):
                return
            at += length
            number += 1
            if line is not None:
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
            yield number, line


def _line(file: IO[bytes]) -> tuple[bytes | None, int]:
    """The next line with its newline, None if it is too long; and its length, 0 at the end of the file."""
    line = file.readline(LINE_BYTES_MAX)
    length = len(line)
    if length < LINE_BYTES_MAX or line.endswith(b"\n"):
        return line, length
    while line and not line.endswith(b"\n"):
        line = file.readline(LINE_BYTES_MAX)
        length += len(line)
    return None, length
