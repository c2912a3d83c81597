"""The segments of an event log: existing ones, and those removed before a reader reached them."""

import json
from pathlib import Path

from godwit.errors import EventLogError
from godwit.event_log.log_format import REMOVED, SEGMENT, START, Position

__all__ = ["first_position", "gone_before", "removed", "segment_numbers", "segments"]


def segment_numbers(folder: Path) -> list[int]:
    """The segments in a folder, in order; `OSError` when the folder cannot be listed."""
    return sorted(int(path.stem) for path in folder.iterdir() if SEGMENT.match(path.name))


def segments(folder: Path) -> list[int]:
    """The segments in a folder, in order."""
    try:
        return segment_numbers(folder)
    except OSError as error:
        raise EventLogError(f"{folder} cannot be read: {error.strerror}") from None


def first_position(folder: Path) -> Position:
    """The position before the first existing event."""
    return Position(next(iter(segments(folder)), START.segment), 0)


def gone_before(folder: Path, start: Position, first: int) -> str:
    """A description of the removed part of a log after a reader's position; "" if there is none.

    `first` is the first existing segment. A reader at the end of the last removed segment lost nothing.
    """
    if start.segment >= first or (start.segment + 1 == first and start in removed(folder)):
        return ""
    more = f" and all of segments {start.segment + 1} to {first - 1}" if start.segment + 1 < first else ""
    return f"what was behind byte {start.bytes} of segment {start.segment}{more}"


def removed(folder: Path) -> list[Position]:
    """The ends of the last two removed segments; the last one may still exist if its removal was interrupted."""
    path = folder / REMOVED
    try:
        return [Position(*each) for each in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError):
        raise EventLogError(f"{path} is not a valid record of removed segments") from None
