"""Exclusive use of a folder by one process: a lock on a file in it, which ends with the process."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from godwit.errors import GodwitError

__all__ = ["locked"]


Failure = Callable[[str], GodwitError]


def locked(folder: Path, name: str, failed: Failure, busy: str, in_use: Failure | None = None) -> IO[str]:
    """Lock a folder for this process by the file `name` in it; closing the returned file unlocks it.

    `failed` makes the exception: the folder cannot be written, or it is `busy`, a text in which `{}` stands for the
    process that has the lock. `in_use` makes that second exception, if given.
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
        raise (in_use or failed)(f"{folder} is {busy.format(holder or 'unknown')}") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
