"""A copy of a journal that a broker may be writing, to read it.

*Theory.* A broker locks its journal (`locking_mode = EXCLUSIVE`), so no other process can read it through SQLite. But
the files can be copied: first the database, then its write-ahead file. Data that the broker moves from the second to
the first is in both until the write-ahead file is restarted, which changes its header. So if the header is the same
before and after, the copy is consistent. A half-written batch is ignored.
"""

import shutil
from pathlib import Path

from godwit.errors import JournalError

__all__ = ["copied"]

TRIES = 20
HEADER_BYTES = 32


def copied(file: Path, folder: Path) -> Path:
    """Copy a journal into a folder; returns the file in it. Nothing else is changed."""
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
    """A value that changes whenever the write-ahead file restarts, or another journal replaces this one."""
    try:
        number = file.stat().st_ino
        with _wal(file).open("rb") as wal:
            return number, wal.read(HEADER_BYTES)
    except FileNotFoundError:
        return (file.stat().st_ino if file.exists() else 0), b""
