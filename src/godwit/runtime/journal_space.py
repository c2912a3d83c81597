"""Room for a journal on a full disk: a reserve file, and a smaller journal written in its place.

*Theory.* A snapshot makes a journal smaller, but needs room before it frees any. On a full disk there is none: the
broker would wait forever for room that only it could free. So a file of `RESERVE_BYTES` or more reserves room. It is
deleted to write a small journal, with the snapshot only, beside the one that fills the disk; then the small one
replaces it.

`NEXT` gets its name only when it is complete and on the disk. From then on it is the journal, and a process that finds
it completes the replacement. So one of the two is always valid, even if the process is killed or the power fails.

*Rules.*
1. The files of the older journal are deleted before the newer one gets its name: SQLite must never see the write-ahead
   file of one beside the other.
2. The reserve is created again as soon as there is room. Without it the journal still works.
3. A broker that starts on a full disk gives it up while the journal is examined.
4. When the free room and the reserve might not suffice for the next snapshot, it is due at once (`is_cramped`).
"""

import os
from contextlib import suppress
from pathlib import Path

from godwit.files import synced

__all__ = ["DRAFT", "NEXT", "RESERVE", "JournalSpace"]

RESERVE = "journal.reserve"
NEXT = "journal.next"
DRAFT = "journal.next.part"
RESERVE_BYTES = 2**20
ROOM_BYTES = 2**18  # overhead of files
LOOK_EVERY_BYTES = 2**19  # of batches
GROWTH = 1.3  # size of a snapshot relative to the batches that it replaces


class JournalSpace:
    """The room on the disk of one journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reserve = folder / RESERVE
        self._written = 0  # since the last check

    def keep(self, snapshot_bytes: int) -> None:
        """Create a reserve for a snapshot like the last one, if there is room. (rule 2)"""
        wanted = max(RESERVE_BYTES, int(GROWTH * snapshot_bytes) + ROOM_BYTES)
        with suppress(OSError):
            has = self._reserve.stat().st_size if self._reserve.is_file() else 0
            if has >= wanted:
                return
            file = os.open(self._reserve, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(file, 0, wanted)
            finally:
                os.close(file)

    def release(self) -> None:
        """Delete the reserve, for the data that is written now."""
        self._reserve.unlink(missing_ok=True)

    def is_cramped(self, written: int, snapshot_bytes: int, bytes_since_snapshot: int) -> bool:
        """Whether a later snapshot might not have enough room. Checks from time to time, by the bytes written."""
        self._written += written
        if self._written < LOOK_EVERY_BYTES or bytes_since_snapshot < max(LOOK_EVERY_BYTES, snapshot_bytes // 2):
            return False
        self._written = 0
        try:
            disk = os.statvfs(self._folder)
            reserve = self._reserve.stat().st_size if self._reserve.is_file() else 0
        except OSError:
            return False
        needed = GROWTH * (snapshot_bytes + bytes_since_snapshot) + ROOM_BYTES
        return disk.f_bavail * disk.f_frsize + reserve < needed

    def finish(self, file: Path) -> None:
        """Replace the older journal by a complete newer one. (rule 1)"""
        following = self._folder / NEXT
        if following.is_file():
            for name in (f"{file.name}-wal", f"{file.name}-shm"):
                (self._folder / name).unlink(missing_ok=True)
            following.replace(file)
            synced([self._folder])
        (self._folder / DRAFT).unlink(missing_ok=True)

    def commit(self) -> None:
        """The draft of a newer journal is complete: from now on it is the journal."""
        draft = self._folder / DRAFT
        synced([draft])
        draft.replace(self._folder / NEXT)
        synced([self._folder])
