"""Loss detection: the content of a journal is compared with its mark, before anything is written.

*Theory.* `examined` reads a journal without changing it. What the content means, and what is missing, is decided in
`codec/journal_losses.py`, which the simulator shares.

*Rules.*
1. Reading changes no file, not even those of SQLite beside a database. So a refused start has changed nothing, and data
   after a damaged place can still be rescued.
2. An accepted loss is not found again: the table `losses` has the sequence of the mark that revealed it. The table
   `about` has a checksum of it (`LOSSES`). If that is wrong, no loss counts as known: a damaged table hides none.
3. To read a write-ahead file, SQLite writes an index beside it, which is deleted again. If there is no room for it,
   that is `NoRoomError` and no damage.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

from godwit.codec import batch_chains
from godwit.codec.batch_chains import Batch, Mark, UnreadableBatch
from godwit.codec.journal_losses import Content, Loss, followed, unusable
from godwit.errors import JournalError
from godwit.runtime.journal_snapshots import newest
from godwit.runtime.journal_space import RESERVE

__all__ = ["NoRoomError", "about_checksum", "examined", "has_remains", "tell_loss", "verified"]

LOSSES = "losses"  # the checksum of the table of that name
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMMAP)


class NoRoomError(JournalError):
    """There is no room on the disk to examine a journal."""


def about_checksum(name: str, value: object) -> int:
    """The checksum of a row of the table `about`."""
    return crc32(f"{name}={value}".encode())


def tell_loss(disk: sqlite3.Connection, loss: Loss, now: float) -> None:
    """Store that a loss was accepted. To be called in a transaction. (rule 2)"""
    row = (max(0, loss.kept), loss.mark_sequence, now, loss.missing)
    disk.execute("INSERT INTO losses VALUES (?, ?, ?, ?)", row)
    checksum = _losses_checksum(disk)
    about = (LOSSES, checksum, about_checksum(LOSSES, checksum))
    disk.execute("INSERT OR REPLACE INTO about VALUES (?, ?, ?)", about)


def _losses_checksum(disk: sqlite3.Connection) -> int:
    return crc32(repr(disk.execute("SELECT * FROM losses ORDER BY rowid").fetchall()).encode())


def _known_losses(disk: sqlite3.Connection, checksum: int | None, mark: Mark | None) -> tuple[int, int]:
    """The number of accepted losses, and the newest sequence of a mark that revealed one. (rule 2)"""
    count, sequence = disk.execute("SELECT count(*), max(mark_sequence) FROM losses").fetchone()
    if checksum is None:  # an earlier version wrote none: the mark that revealed a loss is the last one, or before it
        is_good = type(sequence) is int and 0 <= sequence <= (0 if mark is None else mark.sequence)
    else:
        is_good = checksum == _losses_checksum(disk)
    return (count, sequence) if is_good else (count, 0)


def verified(disk: sqlite3.Connection, after: int, chain: bytes) -> Iterator[Batch]:
    """The batches after one whose chain is given. `BatchDamage` at the first damaged one."""
    return batch_chains.verified(_rows(disk, after), after, chain)


def _rows(disk: sqlite3.Connection, after: int) -> Iterator[Batch]:
    query = "SELECT number, at, data, chain FROM batches WHERE number > ? ORDER BY number"
    return disk.execute(query, (after,))


def _readable(disk: sqlite3.Connection, after: int) -> Iterator[Batch]:
    """The same batches, as far as they can be read."""
    try:
        for row in _rows(disk, after):  # noqa: UP028 (`yield from` closes the cursor, perhaps after its database)
            yield row
    except sqlite3.Error as error:
        raise UnreadableBatch(str(error)) from None


def has_remains(file: Path) -> bool:
    """Whether there are files of a journal that was in use. Its mark is older than each of them, so if there is no mark
    either, data is missing."""
    beside = (file, file.with_name(f"{file.name}-wal"), file.with_name(RESERVE))
    return any(each.is_file() and each.stat().st_size for each in beside)


def examined(file: Path, mark: Mark | None) -> Content | None:
    """Examine a whole journal without changing it; None if there is none. (rule 1)"""
    if not file.is_file() or not file.stat().st_size:
        return None
    has_more = file.with_name(f"{file.name}-wal").is_file()
    uri = f"{file.absolute().as_uri()}?mode=ro{'' if has_more else '&immutable=1'}"
    index = file.with_name(f"{file.name}-shm")
    had_index = index.is_file()
    incarnation, losses_checksum, has_format = 0, None, False
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as disk:
            disk.execute("BEGIN")
            if disk.execute("SELECT 1 FROM sqlite_master WHERE name = 'losses'").fetchone() is None:
                return None  # killed before the description was written, or it was lost
            for name, value, checksum in disk.execute("SELECT name, value, checksum FROM about"):
                if about_checksum(name, value) != checksum:
                    return unusable(incarnation, f"its entry {name!r} is not as it was written")
                if name == "incarnation":
                    incarnation = int(value)
                elif name == LOSSES:
                    losses_checksum = value
                has_format = has_format or name == "format"
            if not incarnation:
                return None
            if not has_format:
                return unusable(incarnation, "it has no format number")
            losses, sequence = _known_losses(disk, losses_checksum, mark)
            snapshot = newest(disk)
            rows = _readable(disk, 0 if snapshot is None else snapshot.number)
            return followed(incarnation, snapshot, rows, mark, losses, sequence)
    except (sqlite3.Error, ValueError, TypeError) as error:
        if getattr(error, "sqlite_errorcode", None) in NO_ROOM:
            raise NoRoomError(
                f"{file} cannot be examined: its disk is full. Free some room, and start again. Nothing was changed"
            ) from None
        return unusable(incarnation, f"it cannot be read: {error}")
    finally:
        if not had_index:
            index.unlink(missing_ok=True)
