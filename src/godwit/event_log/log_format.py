"""The format of an event log: name and version, file names, positions, and the JSON files beside the segments.

*Theory.* A log is a folder. `00000001.jsonl` and its successors are the segments: one event a line, only ever appended
to. Files whose names begin with an underscore describe the log. `_log.json` has the name and version of the format,
which determine every other name and field. `docs/reference/event_log.md` lists all of them.

*Rules.*
1. Every constant of the format is defined here and nowhere else.
2. A log of another kind or version is refused, with both in the message, and not changed. The first logs of version 1
   have no `kind`, and are accepted.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from godwit.errors import EventLogError
from godwit.files import write_whole

__all__ = [
    "ABOUT",
    "FORMAT",
    "KIND",
    "PUBLISHED",
    "PUBLISHING",
    "REMOVED",
    "SEGMENT",
    "START",
    "WRITING",
    "Position",
    "about_log",
    "read_json",
    "seen_file",
    "segment_file",
    "write_json",
]

KIND = "godwit event log"
FORMAT = 1
ABOUT = "_log.json"
WRITING, PUBLISHING = "_writing.lock", "_publishing.lock"
PUBLISHED, REMOVED = "_published.json", "_removed.json"
SEGMENT = re.compile(r"^\d{8}\.jsonl$")


class Position(NamedTuple):
    """A position in a log: a segment and an offset in bytes. The log before it never changes."""

    segment: int
    bytes: int


START = Position(1, 0)


def segment_file(segment: int) -> str:
    """The file name of a segment."""
    return f"{segment:08}.jsonl"


def seen_file(segment: int) -> str:
    """The name of the file with the events seen before a segment."""
    return f"_seen-{segment:08}.json"


def about_log(folder: Path) -> dict[str, Any]:
    """The description of a log; `EventLogError` if its version is not supported. (rule 2)"""
    path = folder / ABOUT
    about = dict(read_json(path))
    if (kind := about.get("kind", KIND)) != KIND:
        raise EventLogError(f"{path} is of kind {kind!r}, not {KIND}")
    if (found := about.get("format")) != FORMAT:
        raise EventLogError(f"{path} has format {found}: this version reads {FORMAT}")
    return about


def read_json(path: Path) -> Any:
    """The content of a file beside the segments."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EventLogError(f"{path} cannot be read: {error}") from None


def write_json(path: Path, data: Any) -> None:
    """Replace a file beside the segments."""
    write_whole(path, json.dumps(data, ensure_ascii=False).encode() + b"\n")
