"""Files that are there wholly or not at all, and on the disk when they have to be.

*Theory.* A file is written under another name, put on the disk, and given its own name in one step. A name is on the
disk when its folder is. What must not be there before something else is, is written when `synced` has returned for it.

*Rules.*
1. There is always the old file or the new one, also when the process is killed or the power ends.
2. When `write_whole` returns, the new one is there for good.
"""

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["synced", "write_whole"]


def write_whole(path: Path, data: bytes, draft: str = "") -> None:
    """Put `data` in the place of a file. `draft`: a name until then, where several may write the same file at once."""
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
    """Have files, and the names in folders, on the disk before this returns."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
