"""The profile of an artefact from its file: name, type, size, times, and the document's own title, author and text.

*Theory.* Name, type, size and times are known without reading the file. Title, authors, languages and keywords, and the
text for full-text search, are read by `document_texts.py` in another process, with limits on time, memory and output:
documents come from anybody, and libraries that read them may take unlimited time or memory. What goes wrong
there ends in a profile without those fields, and a message.

*Rules.*
1. `extracted` returns, in `seconds_max` and a little more, whatever the file is.
2. `problem` says why something is missing, for the user who has stored the file.
3. The other process is given the file alone, and gives back one JSON document of `OUTPUT_BYTES_MAX` bytes at most.
"""

import mimetypes
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from godwit.errors import ProfileError
from godwit.teamwork.document_texts import Said
from godwit.teamwork.profiles import checked_fields

__all__ = ["Extracted", "extracted", "type_of"]

SECONDS_MAX = 20.0
MEMORY_BYTES_MAX = 1_500_000_000
OUTPUT_BYTES_MAX = 8_000_000
FIELD_CHARS_MAX = 1_000
FIELDS = {"title": False, "author": True, "keyword": True, "subject": True, "language": True, "description": False}
"""What a document says about itself, and whether it may say it several times."""
TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
}
"""Types that not every system's table has."""


class Extracted(msgspec.Struct, frozen=True):
    """What was found."""

    fields: dict[str, Any]
    """Elements of an artefact's profile."""
    text: str = ""
    problem: str = ""
    """Why title, author and text may be missing; empty when they are not."""


def type_of(name: str) -> str:
    """The media type of a file, by its name."""
    known = TYPES.get(Path(name).suffix.lower())
    return known or mimetypes.guess_type(name)[0] or "application/octet-stream"


def extracted(path: Path, name: str = "", *, seconds_max: float = SECONDS_MAX) -> Extracted:
    """The profile of a file; `name` is its own if it is kept under another."""
    name = name or path.name
    status = path.stat()
    fields: dict[str, Any] = {
        "name": _clean(name),
        "type": type_of(name),
        "size": status.st_size,
        "changed": datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    said = _read(path, fields["type"], seconds_max)
    problem = said.problem and f"the document's own title, author and text are missing: {said.problem}"
    return Extracted({**fields, **_own_fields(said.fields)}, said.text, problem)


def _read(path: Path, type: str, seconds_max: float) -> Said:
    """What the document says, read by another process. (rules 1 and 3)"""
    command = [sys.executable, "-m", "godwit.teamwork.document_texts", type, str(MEMORY_BYTES_MAX), str(seconds_max)]
    try:
        with path.open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired:
        return Said(problem=f"reading it took longer than {seconds_max:g} s")
    except OSError as error:
        return Said(problem=f"it cannot be read: {error.strerror or error}")
    if done.returncode or len(done.stdout) > OUTPUT_BYTES_MAX:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Said(problem=f"it cannot be read: {_clean(lines[-1]) if lines else f'exit {done.returncode}'}")
    try:
        return msgspec.json.decode(done.stdout, type=Said)
    except msgspec.MsgspecError as error:
        return Said(problem=f"it cannot be read: {error}")


def _own_fields(said: dict[str, list[str]]) -> dict[str, Any]:
    """What the document says about itself, as fields of a profile. What cannot be one is left out."""
    fields: dict[str, Any] = {}
    for name, is_list in FIELDS.items():
        values = [value for each in said.get(name, ()) if (value := _clean(each))]
        if values:
            fields[name] = list(dict.fromkeys(values)) if is_list else values[0]
    for name in ("created",):
        for value in said.get(name, ())[:1]:
            try:
                fields |= checked_fields("artefact", {name: value})
            except ProfileError:
                continue  # a date without a zone, or none at all
    return fields


def _clean(text: str) -> str:
    """A text on one line, of characters that can be printed."""
    printable = "".join(character if character.isprintable() else " " for character in text[: 4 * FIELD_CHARS_MAX])
    return " ".join(printable.split())[:FIELD_CHARS_MAX]
