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
5. `settled` is the last batch that had been safe for `SETTLE_S` when the mark was written. Later batches are the tail,
   which with `relaxed` a power failure may destroy.
"""

import os
import struct
from hashlib import blake2b
from pathlib import Path
from time import time
from typing import NamedTuple
from zlib import crc32

from godwit.files import write_whole

__all__ = ["MARK", "Mark", "MarkFile", "chained", "first_chain"]

MARK = "journal.mark"
SLOT_BYTES = 4_096
SLOTS = 2
SYNC_EVERY_S = 0.05
SETTLE_S = 60.0
CHAIN_BYTES = 16

_MAGIC = b"GWMK"
_SLOT = struct.Struct(f"<4sHQQQ{CHAIN_BYTES}sdQ")
_CHECKSUM = struct.Struct("<I")
_VERSION = 1


def first_chain(incarnation: int) -> bytes:
    """The chain of a journal without batches."""
    return blake2b(b"godwit journal %d" % incarnation, digest_size=CHAIN_BYTES).digest()


def chained(chain: bytes, number: int, data: bytes) -> bytes:
    """The chain of a batch after another."""
    hashed = blake2b(chain + number.to_bytes(8, "little"), digest_size=CHAIN_BYTES)
    hashed.update(data)
    return hashed.digest()


class Mark(NamedTuple):
    """The last batch of a journal."""

    sequence: int  # of two slots, that with the higher one is the newer
    incarnation: int  # of the journal that it belongs to
    number: int  # of the last batch that was safe
    chain: bytes
    at: float  # when that was
    settled: int  # the last batch that was no tail then


class MarkFile:
    """The file of a mark. `last` is its content; None if it does not exist or is unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_there = path.is_file()
        self.last = _newest(path.read_bytes()) if self.is_there else None
        self._file: int | None = None
        self._synced_at = 0.0
        self._next_settled = (0.0, 0)  # a batch that is settled when it is old enough, and when it was written

    def begin(self, incarnation: int) -> None:
        """Begin with the mark of an empty journal, on the disk when this returns."""
        mark = Mark(1, incarnation, 0, first_chain(incarnation), time(), 0)
        write_whole(self.path, b"".join(_packed(mark._replace(sequence=at)).ljust(SLOT_BYTES, b"\0") for at in (0, 1)))
        self.is_there, self.last = True, mark

    def write(self, incarnation: int, number: int, chain: bytes, *, is_synced: bool) -> None:
        """A batch is safe."""
        before, now = self.last, time()
        settled = 0 if before is None else min(before.settled, number)
        if now - self._next_settled[0] >= SETTLE_S:
            settled, self._next_settled = min(max(settled, self._next_settled[1]), number), (now, number)
        mark = Mark(1 if before is None else before.sequence + 1, incarnation, number, chain, now, settled)
        self.last = mark  # even if the write fails: the next one goes to the other slot
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._file, _packed(mark), mark.sequence % SLOTS * SLOT_BYTES)
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


def _packed(mark: Mark) -> bytes:
    slot = _SLOT.pack(_MAGIC, _VERSION, mark.sequence, mark.incarnation, mark.number, mark.chain, mark.at, mark.settled)
    return slot + _CHECKSUM.pack(crc32(slot))


def _newest(data: bytes) -> Mark | None:
    """The newest mark among the undamaged slots."""
    marks = [mark for at in range(SLOTS) if (mark := _unpacked(data[at * SLOT_BYTES :])) is not None]
    return max(marks, default=None)


def _unpacked(data: bytes) -> Mark | None:
    slot, rest = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _CHECKSUM.size]
    if len(rest) < _CHECKSUM.size or _CHECKSUM.unpack(rest)[0] != crc32(slot):
        return None
    magic, version, *fields = _SLOT.unpack(slot)
    return Mark(*fields) if (magic, version) == (_MAGIC, _VERSION) else None
