"""One process at a time: a folder is taken by a lock on a file in it, which ends with the process."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from godwit.errors import GodwitError

__all__ = ["locked"]


def locked(folder: Path, name: str, failed: Callable[[str], GodwitError], busy: str) -> IO[str]:
    """Take a folder for this process, by the file `name` in it; closing what is returned gives it back.

    What is in the way is told by `failed`: that it cannot be written, or that it is `busy`, where `{}` stands for the
    process that has it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # events are not for every user of the machine
        lock = (folder / name).open("a+")
    except OSError as error:
        raise failed(f"{folder} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise failed(f"{folder} is {busy.format(holder or 'unknown')}") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
