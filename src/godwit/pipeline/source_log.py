"""Spark's record of the files that a stream reads, in its checkpoint.

*Theory.* `foreachBatch` gets rows, and not the files that they are from. Spark stores these before a batch runs, and
reads them again when it repeats the batch after a crash: `offsets/12` has the number of the last list of files of batch
12, and `sources/0/34` is list 34. Every tenth list, `sources/0/39.compact`, has the files of all lists up to it, each
with the number of its list; then the others are removed. So the files of a batch are those of all lists after that of
the batch before, up to its own.

*Rules.*
1. A record in an unknown form is no record: the result is None, and Spark must pass the rows.
2. The files of a batch are the same whenever they are asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

__all__ = ["files_of_batch", "files_read"]

VERSION = b"v1"
COMPACT = ".compact"


class _File(msgspec.Struct):
    """A line of a list."""

    path: str
    number: int = msgspec.field(name="batchId")


class _Offset(msgspec.Struct):
    """The last line of the record of a batch."""

    number: int = msgspec.field(name="logOffset")


def files_of_batch(checkpoint: Path, batch: int) -> list[Path] | None:
    """The files of a batch of a stream with one source, which reads files of this machine; None if that is unknown."""
    try:
        first = _last_list(checkpoint, batch - 1) + 1 if batch else 0
        last = _last_list(checkpoint, batch)
        found = [file for number in range(first, last + 1) for file in _list(checkpoint / "sources" / "0", number)]
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    places = [urlsplit(file.path) for file in found]
    if any(place.scheme != "file" or place.netloc for place in places):
        return None
    return [Path(unquote(place.path)) for place in places]


def files_read(checkpoint: Path) -> int:
    """The number of files of all batches."""
    read = 0
    for folder in (checkpoint / "sources").glob("*"):
        lists = dict(_lists(folder))
        whole = max((number for number, path in lists.items() if path.suffix == COMPACT), default=-1)
        read += sum(path.read_bytes().count(b"\n") for number, path in lists.items() if number >= whole)
    return read


def _last_list(checkpoint: Path, batch: int) -> int:
    """The number of the last list of files of a batch."""
    version, _, *offsets = (checkpoint / "offsets" / str(batch)).read_bytes().split(b"\n")
    if version != VERSION or len(offsets) != 1:
        raise ValueError(f"batch {batch} is recorded in an unknown form")
    return msgspec.json.decode(offsets[0], type=_Offset).number


def _list(folder: Path, number: int) -> Iterator[_File]:
    """The files of a list."""
    path = folder / str(number)
    if not path.exists():
        path = min((number_, path) for number_, path in _lists(folder) if number_ >= number and path.suffix)[1]
    version, *lines = path.read_bytes().split(b"\n")
    if version != VERSION:
        raise ValueError(f"{path} is in an unknown form")
    for line in lines:
        file = msgspec.json.decode(line, type=_File)
        if file.number == number:
            yield file


def _lists(folder: Path) -> Iterator[tuple[int, Path]]:
    """The lists by their numbers; of two with the same number, the last is the one with all files."""
    for path in sorted(folder.iterdir()):
        if path.name.removesuffix(COMPACT).isdigit():
            yield int(path.name.removesuffix(COMPACT)), path
