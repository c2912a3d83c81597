"""Loss detection: the content of a journal is compared with its mark, before anything is written.

*Theory.* `examined` reads a journal without changing it. What the content means, and what is missing, is decided in
`codec/journal_losses.py`, which the simulator shares.

*Rules.*
1. Reading changes no file, not even those of SQLite beside a database. So a refused start has changed nothing, and data
   after a damaged place can still be rescued.
2. An accepted loss is not found again: the table `losses` has the sequence of the mark that revealed it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

from godwit.codec import batch_chains
from godwit.codec.batch_chains import Batch, Mark, UnreadableBatch
from godwit.codec.journal_losses import Content, followed, unusable
from godwit.runtime.journal_snapshots import newest

__all__ = ["about_checksum", "examined", "verified"]


def about_checksum(name: str, value: object) -> int:
    """The checksum of a row of the table `about`."""
    return crc32(f"{name}={value}".encode())


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


def examined(file: Path, mark: Mark | None) -> Content | None:
    """Examine a whole journal without changing it; None if there is none. (rule 1)"""
    if not file.is_file() or not file.stat().st_size:
        return None
    has_more = file.with_name(f"{file.name}-wal").is_file()
    uri = f"{file.absolute().as_uri()}?mode=ro{'' if has_more else '&immutable=1'}"
    incarnation, losses, sequence = 0, 0, 0
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
            if not incarnation:
                return None
            losses, sequence = disk.execute("SELECT count(*), ifnull(max(mark_sequence), 0) FROM losses").fetchone()
            snapshot = newest(disk)
            rows = _readable(disk, 0 if snapshot is None else snapshot.number)
            return followed(incarnation, snapshot, rows, mark, losses, sequence)
    except (sqlite3.Error, ValueError, TypeError) as error:
        return unusable(incarnation, f"it cannot be read: {error}")
