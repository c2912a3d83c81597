"""Positions in an event log, and pieces of it for Spark's tasks to read.

*Theory.* A log is a folder of segments with an event on each line (`docs/reference/event_log.md`); it is written by
`godwit sub --log` and may grow while it is read. The room `event_log` defines its format; this module divides it: a
micro-batch is the part between two positions, and a task reads a piece of that.

*Rules.*
1. The log before a position never changes, so two positions always give the same events.
2. A line without a newline is being written, and belongs to no position.
3. Events that were removed before they were read are an error that names them: the segment of a position must exist, or
   have been read to its end, and all segments after it must exist. On request, events removed at the front are skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from godwit.errors import EventLogError, PipelineError
from godwit.event_log.log_format import START, Position, segment_file
from godwit.event_log.segment_files import gone_before as described_as_gone
from godwit.event_log.segment_files import segment_numbers

__all__ = ["LogPiece", "advanced", "end_of", "gone_before", "lines_of_piece", "pieces", "segments", "start_of"]

READ_BYTES = 2**20
PIECE_BYTES_MAX = 8 * 2**20  # that one task reads


@dataclass(frozen=True)
class LogPiece:
    """Whole lines of a segment: the bytes from `start` up to `end`."""

    path: str
    start: int
    end: int


# ---------------------------------------------------------------- positions


def segments(folder: Path, start: Position | None = None, skip_removed: bool = False) -> list[int]:
    """The segments, from a position on if one is given; `PipelineError` if unread ones were removed. (rule 3)

    `skip_removed`: from the first existing segment, if that of the position was removed.
    """
    try:
        found = segment_numbers(folder)
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise PipelineError(f"cannot read {folder}: {error.strerror or error}") from None
    if start is None or (start == START and not found):
        return found
    if not found or start.segment > found[-1]:
        there = f"segments {found[0]} to {found[-1]} are there" if found else "no segment is there"
        raise PipelineError(f"{folder} was read up to segment {start.segment}, and {there}: it is another log now")
    if not skip_removed and (gone := gone_before(folder, start, found[0])):
        raise PipelineError(
            f"{folder}: {gone} was removed before it was read; continue with segment {found[0]} by "
            "option('skip_removed', 'true') or --skip-removed, or start again with another checkpoint and output"
        )
    ahead = [segment for segment in found if segment >= start.segment]
    if ahead[-1] - ahead[0] >= len(ahead):
        missing = next(number for number, segment in enumerate(ahead, start=ahead[0]) if segment != number)
        raise PipelineError(f"{folder} has no segment {missing}, but later ones: its events are lost")
    return ahead


def gone_before(folder: Path, start: Position, first: int) -> str:
    """The removed part of a log after a position, if `first` is the first segment; "" if there is none."""
    try:
        return described_as_gone(folder, start, first)
    except EventLogError as error:
        raise PipelineError(str(error)) from None


def start_of(folder: Path) -> Position:
    """The position before the first line."""
    return Position(next(iter(segments(folder)), START.segment), 0)


def end_of(folder: Path, start: Position | None = None, skip_removed: bool = False) -> Position:
    """The position after the last complete line; `PipelineError` if that is before a position that was reached."""
    found = segments(folder, start, skip_removed)
    end = Position(found[-1], _whole_bytes(folder / segment_file(found[-1]))) if found else START
    if start is not None and end < start:
        raise PipelineError(
            f"{folder} was read up to byte {start.bytes} of segment {start.segment}, and is shorter now"
        )
    return end


def _whole_bytes(path: Path) -> int:
    """The offset after the last complete line of a file."""
    with _opened(path) as file:
        at = file.seek(0, 2)
        while at:
            begin = max(0, at - READ_BYTES)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            at = begin
    return 0


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise PipelineError(f"{path} was removed while it was to be read: read the log again") from None
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror or error}") from None


def advanced(folder: Path, start: Position, end: Position, rows: int, skip_removed: bool = False) -> Position:
    """The position this many lines after `start`, but not after `end`."""
    for piece in pieces(folder, start, end, None, skip_removed):
        with _opened(Path(piece.path)) as file:
            file.seek(piece.start)
            at = piece.start
            while at < piece.end:
                read = file.read(min(READ_BYTES, piece.end - at))
                lines = read.count(b"\n")
                if lines >= rows:
                    return Position(int(Path(piece.path).stem), at + _behind(read, rows))
                rows -= lines
                at += len(read)
    return end


def _behind(data: bytes, lines: int) -> int:
    """The bytes of this many lines."""
    at = 0
    for _ in range(lines):
        at = data.index(b"\n", at) + 1
    return at


def pieces(
    folder: Path,
    start: Position,
    end: Position,
    bytes_max: int | None = PIECE_BYTES_MAX,
    skip_removed: bool = False,
) -> list[LogPiece]:
    """The pieces between two positions, for tasks: complete lines, of one segment each."""
    found = []
    for segment in segments(folder, start, skip_removed):
        if segment > end.segment:
            break
        path = folder / segment_file(segment)
        at = start.bytes if segment == start.segment else 0
        last = end.bytes if segment == end.segment else _whole_bytes(path)
        for cut in [*_cuts(path, at, last, bytes_max), last]:
            if cut > at:
                found.append(LogPiece(str(path), at, cut))
                at = cut
    return found


def _cuts(path: Path, start: int, end: int, bytes_max: int | None) -> Iterator[int]:
    """Ends of lines between two others, about this many bytes apart."""
    if bytes_max is None or end - start <= bytes_max:
        return
    with _opened(path) as file:
        at = start + bytes_max
        while at < end:
            file.seek(at - 1)
            at = at - 1 + len(file.readline())
            if at < end:
                yield at
            at += bytes_max


def lines_of_piece(piece: LogPiece) -> Iterator[tuple[int, bytes]]:
    """Each line, with its offset."""
    try:
        with _opened(Path(piece.path)) as file:
            file.seek(piece.start)
            at = piece.start
            while at < piece.end:
                line = file.readline()
                if not line:
                    raise PipelineError(f"{piece.path} has {at} bytes, and was read up to byte {piece.end} before")
                yield at, line
                at += len(line)
    except OSError as error:
        raise PipelineError(f"cannot read {piece.path}: {error.strerror or error}") from None
