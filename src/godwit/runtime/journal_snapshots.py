"""Snapshots in a journal, written and replaced in pieces, so that no batch waits for a large one.

*Theory.* A snapshot may have a hundred megabytes, and replaces as many megabytes of batches. One thread writes
everything, so a batch waits while a snapshot is written. Therefore a snapshot is written `PIECE_BYTES` at a time: all
pieces but the first go to the table `snapshot_parts`, and the first is written last, with the row of the snapshot,
which makes it valid. Then the replaced batches are deleted, also in pieces.

*Rules.*
1. A snapshot is the data in its row, followed by its parts in their order. Its checksum is that of the whole.
2. Parts without a row in `snapshots` belong to an unfinished snapshot. The next snapshot removes them.
3. Batches up to the number of the snapshot are ignored, though some may not be deleted yet.
4. Each piece is one transaction, of `PIECE_BYTES` or one row.
"""

import sqlite3
from collections.abc import Iterator

from godwit.codec.batch_chains import StoredSnapshot

__all__ = ["PARTS", "PIECE_BYTES", "newest", "removals", "write_parts", "write_row"]

PIECE_BYTES = 2**19
"""What a batch may have to wait for: 2 to 4 ms of a disk that writes 500 MB/s."""

PARTS = """
CREATE TABLE IF NOT EXISTS snapshot_parts (number INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (number, part));
"""


def newest(disk: sqlite3.Connection, schema: str = "main") -> StoredSnapshot | None:
    """The last snapshot of a journal; also of one of format 4, which has no parts. (rule 1)"""
    row = disk.execute(
        f"SELECT number, at, data, chain, checksum FROM {schema}.snapshots ORDER BY number DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    found = StoredSnapshot(*row)
    if disk.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE name = 'snapshot_parts'").fetchone() is None:
        return found
    parts = disk.execute(f"SELECT data FROM {schema}.snapshot_parts WHERE number = ? ORDER BY part", (found.number,))
    return found._replace(data=b"".join([found.data, *(data for (data,) in parts)]))


def write_parts(disk: sqlite3.Connection, number: int, data: bytes) -> Iterator[None]:
    """Write all of a snapshot but its first piece, which `write_row` writes. Stops after each piece. (rule 4)"""
    yield from _left_over(disk)
    for part, at in enumerate(range(PIECE_BYTES, len(data), PIECE_BYTES)):
        piece = data[at : at + PIECE_BYTES]
        disk.execute("INSERT INTO snapshot_parts VALUES (?, ?, ?)", (number, part, piece))
        yield


def write_row(disk: sqlite3.Connection, snapshot: StoredSnapshot) -> None:
    """Let a snapshot count whose parts are written, in the place of the one before. To be called in a transaction."""
    row = snapshot._replace(data=snapshot.data[:PIECE_BYTES])
    disk.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", row)
    disk.execute("DELETE FROM snapshots WHERE number < ?", (snapshot.number,))


def removals(disk: sqlite3.Connection, number: int) -> Iterator[None]:
    """Remove what the snapshot of that number has replaced. Stops after each piece. (rules 3 and 4)"""
    yield from _left_over(disk)
    while (last := _last_of_a_piece(disk, number)) is not None:
        disk.execute("DELETE FROM batches WHERE number <= ?", (last,))
        yield


def _last_of_a_piece(disk: sqlite3.Connection, number: int) -> int | None:
    """The first batches up to a number that are a piece together: the last of them; None: there are none."""
    last, size = None, 0
    rows = disk.execute("SELECT number, length(data) FROM batches WHERE number <= ? ORDER BY number", (number,))
    for found, length in rows:
        size += length
        if last is not None and size > PIECE_BYTES:
            break
        last = found
    rows.close()
    return last


def _left_over(disk: sqlite3.Connection) -> Iterator[None]:
    """Remove parts that belong to no snapshot, one at a time. (rule 2)"""
    one = "SELECT rowid FROM snapshot_parts WHERE number NOT IN (SELECT number FROM snapshots) LIMIT 1"
    while disk.execute(f"DELETE FROM snapshot_parts WHERE rowid IN ({one})").rowcount:
        yield
