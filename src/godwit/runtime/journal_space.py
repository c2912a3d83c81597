"""Room for a journal on a disk that is full: a reserve, and a journal made again in it.

*Theory.* A journal becomes smaller by a snapshot, and a snapshot takes room before it gives any back. On a full disk
there is none: the broker would wait for ever for the room that only it could make. So a file of `RESERVE_BYTES` or more
keeps room that nobody else takes. It is given up to write a small journal, which has nothing but the snapshot, beside
the one that fills the disk; then the small one takes its place.

`NEXT` has its name only when it is whole and on the disk. From then on it is the journal, and who finds it goes on with
putting it in its place. So at each moment one of the two counts, also when the process is killed or the power ends.

*Rules.*
1. The files of the older journal go before the newer one has its name: SQLite must never see the write-ahead file of
   one beside the other.
2. The reserve is made again as soon as there is room. Without room for it the journal works on.
3. When what is free and the reserve might not hold the next snapshot, that is due at once (`is_cramped`).
"""

import os
from contextlib import suppress
from pathlib import Path

from godwit.files import synced

__all__ = ["DRAFT", "NEXT", "JournalSpace"]

RESERVE = "journal.reserve"
NEXT = "journal.next"
DRAFT = "journal.next.part"
RESERVE_BYTES = 2**20
ROOM_BYTES = 2**18  # that files take besides what is in them
LOOK_EVERY_BYTES = 2**19  # of batches
GROWTH = 1.3  # of a snapshot against the batches that it stands for


class JournalSpace:
    """The room on the disk of one journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reserve = folder / RESERVE
        self._written = 0  # since room was looked for

    def keep(self, snapshot_bytes: int) -> None:
        """Have a reserve for a snapshot like the last one, if there is room. (rule 2)"""
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
        """Give the reserve up, for what is written now."""
        self._reserve.unlink(missing_ok=True)

    def is_cramped(self, written: int, snapshot_bytes: int, bytes_since_snapshot: int) -> bool:
        """Whether the next snapshot might have no room if it came later. Looks now and then, by what was written."""
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
        """Put a newer journal that is whole in the place of the older one. (rule 1)"""
        following = self._folder / NEXT
        if following.is_file():
            for name in (f"{file.name}-wal", f"{file.name}-shm"):
                (self._folder / name).unlink(missing_ok=True)
            following.replace(file)
            synced([self._folder])
        (self._folder / DRAFT).unlink(missing_ok=True)

    def commit(self) -> None:
        """The draft of a newer journal is whole: from now on it counts."""
        draft = self._folder / DRAFT
        synced([draft])
        draft.replace(self._folder / NEXT)
        synced([self._folder])
