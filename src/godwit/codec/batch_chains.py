"""The batches of a journal as a chain, and the mark that records the last of them: as bytes, without a file.

*Theory.* Batches are chained: the chain of a batch is a hash of the chain before it, of its number and of its bytes.
The mark has the number and the chain of the last batch, so it also detects another history of the same length. It is
written to two slots in turn, each with a checksum: if one write is torn, the other slot is valid. The production
driver keeps both in files (`runtime/journal.py`, `runtime/journal_marks.py`), the simulator in memory.

*Rules.*
1. `settled` is the last batch that had been safe for `SETTLE_S` when the mark was written. Later batches are the tail,
   which with `relaxed` a power failure may destroy.
2. A journal has the sequence of the mark that revealed its last loss (`codec/journal_losses.py`). Every later mark has
   a higher one (`follow`), also if the mark began again or is an older copy: else the next loss would count as known.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

__all__ = [
    "MARK",
    "SETTLE_S",
    "SLOTS",
    "SLOT_BYTES",
    "Batch",
    "BatchDamage",
    "Mark",
    "Marks",
    "StoredSnapshot",
    "UnreadableBatch",
    "chained",
    "first_chain",
    "mark_bytes",
    "newest_mark",
    "verified",
]

MARK = "journal.mark"
SLOT_BYTES = 4_096
SLOTS = 2
SETTLE_S = 60.0
CHAIN_BYTES = 16

_MAGIC = b"GWMK"
_SLOT = struct.Struct(f"<4sHQQQ{CHAIN_BYTES}sdQ")
_CHECKSUM = struct.Struct("<I")
_VERSION = 1

Batch = tuple[int, float, bytes, bytes]
"""A row of a journal: number, time, data, chain."""


class BatchDamage(Exception):
    """A batch is missing, or is not as it was written. `number` is that of the last one before."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class UnreadableBatch(Exception):
    """The file of a journal cannot be read from some place on."""


class StoredSnapshot(NamedTuple):
    """A snapshot, as the row of a journal with all its parts."""

    number: int  # of the last batch in it
    at: float
    data: bytes
    chain: bytes
    checksum: int

    @property
    def is_whole(self) -> bool:
        """Whether it is as it was written."""
        return crc32(self.data) == self.checksum


def first_chain(incarnation: int) -> bytes:
    """The chain of a journal without batches."""
    return blake2b(b"godwit journal %d" % incarnation, digest_size=CHAIN_BYTES).digest()


def chained(chain: bytes, number: int, data: bytes) -> bytes:
    """The chain of a batch after another."""
    hashed = blake2b(chain + number.to_bytes(8, "little"), digest_size=CHAIN_BYTES)
    hashed.update(data)
    return hashed.digest()


def verified(rows: Iterable[Batch], after: int, chain: bytes) -> Iterator[Batch]:
    """The batches after one whose chain is given, in their order. `BatchDamage` at the first damaged one."""
    for number, at, data, known in rows:
        if number != after + 1:
            raise BatchDamage(f"batch {after + 1} is missing before batch {number}", after)
        is_whole = type(data) is bytes  # a flipped bit can change the type of a column
        if not is_whole or (chain := chained(chain, number, data)) != known:
            raise BatchDamage(f"batch {number} is not as it was written", after)
        after = number
        yield number, at, data, chain


class Mark(NamedTuple):
    """The last batch of a journal."""

    sequence: int  # of two slots, that with the higher one is the newer
    incarnation: int  # of the journal that it belongs to
    number: int  # of the last batch that was safe
    chain: bytes
    at: float  # when that was
    settled: int  # the last batch that was not a tail then


class Marks:
    """The marks of a journal, one after another. `last` is the newest; None: there is none."""

    def __init__(self, last: Mark | None = None) -> None:
        self.last = last
        self._sequence_min = 0  # of the next mark
        self._next_settled = (0.0, 0)  # a batch that is settled when it is old enough, and when it was written

    def begin(self, incarnation: int, now: float) -> Mark:
        """The mark of an empty journal."""
        self.last = Mark(1, incarnation, 0, first_chain(incarnation), now, 0)
        return self.last

    def follow(self, sequence: int) -> None:
        """Later marks have a higher sequence than that. (rule 2)"""
        self._sequence_min = max(self._sequence_min, sequence + 1)

    def advance(self, incarnation: int, number: int, chain: bytes, now: float) -> Mark:
        """The mark of a batch that is safe. (rule 1)"""
        before = self.last
        settled = 0 if before is None else min(before.settled, number)
        if now - self._next_settled[0] >= SETTLE_S:
            settled, self._next_settled = min(max(settled, self._next_settled[1]), number), (now, number)
        sequence = max(self._sequence_min, 1 if before is None else before.sequence + 1)
        self.last = Mark(sequence, incarnation, number, chain, now, settled)
        return self.last


def mark_bytes(mark: Mark) -> bytes:
    """A mark as it is written to its slot, `sequence` modulo `SLOTS`."""
    slot = _SLOT.pack(_MAGIC, _VERSION, mark.sequence, mark.incarnation, mark.number, mark.chain, mark.at, mark.settled)
    return slot + _CHECKSUM.pack(crc32(slot))


def newest_mark(data: bytes) -> Mark | None:
    """The newest mark among the undamaged slots."""
    marks = [mark for at in range(SLOTS) if (mark := _unpacked(data[at * SLOT_BYTES :])) is not None]
    return max(marks, default=None)


def _unpacked(data: bytes) -> Mark | None:
    slot, rest = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _CHECKSUM.size]
    if len(rest) < _CHECKSUM.size or _CHECKSUM.unpack(rest)[0] != crc32(slot):
        return None
    magic, version, *fields = _SLOT.unpack(slot)
    return Mark(*fields) if (magic, version) == (_MAGIC, _VERSION) else None
