"""A copy of a journal, for who wants to look into one that a broker may be writing.

*Theory.* A broker has its journal to itself (`locking_mode = EXCLUSIVE`), so nobody else reads the file through SQLite.
What is in it may be copied, though: first the file, then its write-ahead file. All that a broker moves from the second
to the first stands in both until the write-ahead file begins again, which changes its header. So if the header is the
same before and after, the copy is a journal as it was at one moment. A batch that was half written is none.
"""

import shutil
from pathlib import Path

from godwit.errors import JournalError

__all__ = ["copied"]

TRIES = 20
HEADER_BYTES = 32


def copied(file: Path, folder: Path) -> Path:
    """Copy a journal into a folder; the file in it. Nothing else is touched."""
    for _ in range(TRIES):
        before = _generation(file)
        for each in (file, _wal(file)):
            (folder / each.name).unlink(missing_ok=True)
            try:
                shutil.copyfile(each, folder / each.name)
            except FileNotFoundError:
                continue
        if before == _generation(file) and (folder / file.name).is_file():
            return folder / file.name
    raise JournalError(f"{file} is written too fast to be copied: try again, or stop its broker")


def _wal(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _generation(file: Path) -> tuple[int, bytes]:
    """What changes whenever the write-ahead file begins again, or another journal takes the place of this one."""
    try:
        number = file.stat().st_ino
        with _wal(file).open("rb") as wal:
            return number, wal.read(HEADER_BYTES)
    except FileNotFoundError:
        return (file.stat().st_ino if file.exists() else 0), b""
