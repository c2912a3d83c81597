"""Atomic writes of files, and synchronisation with the disk.

*Theory.* A file is written under a temporary name, synchronised (fsync) and renamed. The new name is on the disk when
the folder is synchronised, too. If one file must not exist before another, write it after `synced` has returned for the
other.

*Rules.*
1. Readers see the old file or the new one, even if the process is killed or the power fails.
2. When `write_whole` returns, the new file is on the disk.
"""

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["synced", "write_whole"]


def write_whole(path: Path, data: bytes, draft: str = "") -> None:
    """Replace a file by `data`. `draft`: the temporary name, if several processes may write the same file at once."""
    fresh = path.with_name(draft or f"{path.name}.new")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    synced([path.parent])


def synced(paths: Iterable[Path]) -> None:
    """Synchronise files, and the names in folders, with the disk (fsync)."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
