"""Reading an event log line by line, while it may be written. (Spark reads it in pieces: `pipeline/log_pieces.py`.)

*Rules.*
1. A line without a newline is being written, and belongs to no position.
2. Nothing is skipped silently: a segment that was removed before it was read is an error.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from godwit.errors import EventLogError
from godwit.event_log.log_format import START, Position, segment_file
from godwit.event_log.segment_files import first_position, gone_before, segments

__all__ = ["lines_from"]


def lines_from(folder: Path, start: Position | None = None) -> Iterator[tuple[bytes, Position]]:
    """The complete lines after a position, or all, each with the position after it.

    `EventLogError` if a part in between was removed, also during reading.
    """
    found = segments(folder)
    start = start or first_position(folder)
    if gone := gone_before(folder, start, found[0] if found else START.segment):
        raise EventLogError(f"{folder}: {gone} was removed before it was read; --skip-removed continues with the rest")
    expected = found[0] if found and found[0] == start.segment + 1 else start.segment
    for segment in found:
        if segment < start.segment:
            continue
        if segment != expected:
            break
        expected += 1
        at = start.bytes if segment == start.segment else 0
        with _opened(folder, segment) as file:
            if file.seek(0, os.SEEK_END) < at:
                raise EventLogError(f"{folder} was read up to byte {at} of segment {segment}, and is shorter now")
            file.seek(at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                at += len(line)
                yield line, Position(segment, at)
    if expected <= max(found if start == START else (*found, start.segment), default=0):
        raise EventLogError(f"{folder} has no segment {expected}, which was not read: its events are lost")


def _opened(folder: Path, segment: int) -> IO[bytes]:
    try:
        return (folder / segment_file(segment)).open("rb")
    except FileNotFoundError:
        raise EventLogError(f"{folder}: segment {segment} was removed while it was to be read") from None
