"""The mark: the last batch of a journal, stored outside the journal.

*Theory.* SQLite drops the data after a damaged place in its write-ahead file, and a new file or one restored from a
copy looks like any other. So a second file records the last batch. It has two slots, which are written alternately, in
place: if one write is torn, the other slot is valid. Batches are chained: the chain of a batch is a hash of the chain
before it and of its bytes. The mark has the number and the chain of the last batch, so it also detects another history
of the same length.

The order of writing is the same for every batch: the batch is committed, the mark is written, the batch counts as
safe. So there are these cases:

| the process or the power ends | journal | mark | taken for |
|---|---|---|---|
| before the commit | n - 1 | n - 1 | whole: batch n was not acknowledged |
| between commit and mark | n | n - 1 | whole: a journal may be ahead of its mark |
| while the mark is written | n | n - 1, one slot is torn | whole |
| after the mark | n | n | whole |
| and the commit is lost afterwards | below n | n | a loss |

*Rules.*
1. A mark is never ahead of its journal, unless the journal has lost something that was safe.
2. With `full`, the mark is on the disk at most `SYNC_EVERY_S` of writing after the batch: at low rates with each batch.
   A batch does not wait for a second fsync under load. After a power failure the mark is at worst a little older, and
   by rule 1 that does not count as a loss.
3. The file has its full size from the beginning: a mark can be written on a full disk.
4. If a mark cannot be written, only the detection of losses suffers: the batch is safe without it.
"""

import os
from pathlib import Path
from time import time

from godwit.codec.batch_chains import SLOT_BYTES, SLOTS, Mark, Marks, mark_bytes, newest_mark
from godwit.files import write_whole

__all__ = ["MarkFile"]

SYNC_EVERY_S = 0.05


class MarkFile:
    """The file of a mark. `last` is its content; None if it does not exist or is unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_there = path.is_file()
        self._marks = Marks(newest_mark(path.read_bytes()) if self.is_there else None)
        self._file: int | None = None
        self._synced_at = 0.0

    @property
    def last(self) -> Mark | None:
        """The newest mark."""
        return self._marks.last

    def follow(self, sequence: int) -> None:
        """Later marks have a higher sequence than that."""
        self._marks.follow(sequence)

    def begin(self, incarnation: int) -> None:
        """Begin with the mark of an empty journal, on the disk when this returns."""
        mark = self._marks.begin(incarnation, time())
        slots = [mark_bytes(mark._replace(sequence=at)).ljust(SLOT_BYTES, b"\0") for at in range(SLOTS)]
        write_whole(self.path, b"".join(slots))
        self.is_there = True

    def write(self, incarnation: int, number: int, chain: bytes, *, is_synced: bool) -> None:
        """A batch is safe."""
        now = time()
        mark = self._marks.advance(incarnation, number, chain, now)  # even if writing fails: the next has another slot
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._file, mark_bytes(mark), mark.sequence % SLOTS * SLOT_BYTES)
            if is_synced and now - self._synced_at >= SYNC_EVERY_S:
                os.fdatasync(self._file)
                self._synced_at = now
        except OSError:  # rule 4
            return

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
