"""Damaged disks: a broker's journal as bytes, damaged by a fault, and opened by the rules of the journal.

*Theory.* The disk of a simulated broker is a list of inputs (`world.py`). For a fault it is packed as the production
driver would write it: a snapshot, a batch for each input, and the mark. Older batches lie in a file without checksums,
as in a database of SQLite. Later ones lie in a write-ahead file of frames, each with a checksum: there SQLite drops a
bad frame and all that follows, silently. The bytes are damaged, and read again. What is missing, and whether the
broker may start, is decided by the rules that the production driver uses (`codec/journal_losses.py`).

*Rules.*
1. Only what was on the disk is damaged, and at one place: a bit is flipped, or a write is torn.
2. A disk says the truth (*damage found*): what it still has is as it was written, and if something is missing, it says
   so. This is checked by comparing with what was written, not by the rules of the journal.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Literal, NamedTuple
from zlib import crc32

import msgspec

from godwit.broker.effects import Arrived, Heard, Input
from godwit.codec.batch_chains import (
    SLOT_BYTES,
    SLOTS,
    Batch,
    Marks,
    StoredSnapshot,
    UnreadableBatch,
    chained,
    first_chain,
    mark_bytes,
    newest_mark,
)
from godwit.codec.journal_entries import MESSAGE, entry_of, inputs_of
from godwit.codec.journal_losses import Content, Loss, followed, loss_of, unusable

__all__ = ["LAW", "DiskImage", "Opened", "damaged", "image_of", "opened", "untruth"]

LAW = "damage found"
TORN_MARK_SHARE = 0.2  # of torn writes
CHECKSUM_BYTES = 4

Damage = Literal["disk_torn", "disk_flipped"]
Stored = tuple[Input, float]
"""An input and its time."""


class DiskImage(NamedTuple):
    """The bytes of a disk."""

    incarnation: int
    snapshot: bytes  # MessagePack of its row; b"": none
    database: tuple[bytes, ...]  # rows of batches
    frames: tuple[bytes, ...]  # of the write-ahead file: a checksum and a row each
    mark: bytes  # both slots


class Opened(NamedTuple):
    """What a start finds on a disk."""

    loss: Loss | None
    inputs: tuple[Stored, ...]  # after the snapshot, up to the last good batch
    batches: tuple[tuple[int, bytes], ...]  # the same as stored: number and data


def image_of(inputs: Sequence[Stored], snapshot: tuple[int, bytes] | None, incarnation: int, tail: int) -> DiskImage:
    """A disk with these inputs, each in a batch, of which the last `tail` are in the write-ahead file."""
    chain, marks = first_chain(incarnation), Marks()
    slots = [mark_bytes(marks.begin(incarnation, 0.0))] * SLOTS
    rows, stored = [], b""
    for number, (input, at) in enumerate(inputs, 1):
        data = _batch(input, at)
        chain = chained(chain, number, data)
        mark = marks.advance(incarnation, number, chain, at)
        slots[mark.sequence % SLOTS] = mark_bytes(mark)
        rows.append(msgspec.msgpack.encode((number, at, data, chain)))
        if snapshot is not None and number == snapshot[0]:
            stored = msgspec.msgpack.encode(StoredSnapshot(number, at, snapshot[1], chain, crc32(snapshot[1])))
            rows.clear()
    behind = max(0, len(rows) - tail)
    frames = tuple(crc32(row).to_bytes(CHECKSUM_BYTES, "little") + row for row in rows[behind:])
    mark_file = b"".join(slot.ljust(SLOT_BYTES, b"\0") for slot in slots)
    return DiskImage(incarnation, stored, tuple(rows[:behind]), frames, mark_file)


def damaged(image: DiskImage, kind: Damage, draw: Random) -> DiskImage:
    """The disk after a fault at a random place. (rule 1)"""
    if kind == "disk_torn":
        if not image.frames or draw.random() < TORN_MARK_SHARE:
            return image._replace(mark=_torn_mark(image, draw))
        at = draw.randrange(len(image.frames))
        cut = draw.randrange(len(image.frames[at]))
        return image._replace(frames=(*image.frames[:at], image.frames[at][:cut]))
    match draw.choice([place for place in ("mark", "snapshot", "database", "frames") if getattr(image, place)]):
        case "mark":
            return image._replace(mark=_flipped(image.mark, draw))
        case "snapshot":
            return image._replace(snapshot=_flipped(image.snapshot, draw))
        case "database":
            return image._replace(database=_one_flipped(image.database, draw))
    return image._replace(frames=_one_flipped(image.frames, draw))


def _one_flipped(rows: tuple[bytes, ...], draw: Random) -> tuple[bytes, ...]:
    at = draw.randrange(len(rows))
    return (*rows[:at], _flipped(rows[at], draw), *rows[at + 1 :])


def _flipped(data: bytes, draw: Random) -> bytes:
    bits = bytearray(data)
    bits[draw.randrange(len(bits))] ^= 1 << draw.randrange(8)
    return bytes(bits)


def _torn_mark(image: DiskImage, draw: Random) -> bytes:
    """The slot that was written last, of which only the beginning has come to the disk."""
    mark = newest_mark(image.mark)
    assert mark is not None
    begin = mark.sequence % SLOTS * SLOT_BYTES
    cut = begin + draw.randrange(len(mark_bytes(mark)))
    return image.mark[:cut] + b"\0" * (begin + SLOT_BYTES - cut) + image.mark[begin + SLOT_BYTES :]


def opened(image: DiskImage) -> Opened:
    """What a start finds there, by the rules of the journal."""
    mark = newest_mark(image.mark)
    content: Content
    snapshot: StoredSnapshot | None = None
    try:
        snapshot = msgspec.msgpack.decode(image.snapshot, type=StoredSnapshot) if image.snapshot else None
        content = followed(image.incarnation, snapshot, _rows(image), mark)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        content = unusable(image.incarnation, f"it cannot be read: {error}")
    loss = loss_of(content, mark, has_mark_file=True)
    inputs: list[Stored] = []
    batches: list[tuple[int, bytes]] = []
    start = 0 if snapshot is None else snapshot.number
    for number, _, data, _ in islice(_rows(image), content.number - start if content.is_usable else 0):
        batches.append((number, data))
        inputs += inputs_of(data)
    return Opened(loss, tuple(inputs), tuple(batches))


def untruth(image: DiskImage, found: Opened) -> str:
    """A false belief of a start: about a batch, or that all are there. `image`: the disk before the damage. (rule 2)"""
    written = {number: data for number, _, data, _ in _rows(image)}
    for number, data in found.batches:
        if written.get(number) != data:
            return f"batch {number} is not as it was written, and the start uses it"
    if found.loss is None and len(found.batches) < len(written):
        return f"{len(written) - len(found.batches)} batches are missing, and the start does not say so"
    return ""


def _batch(input: Input, at: float) -> bytes:
    message = input.frame if isinstance(input, Arrived) else input.message if isinstance(input, Heard) else None
    return msgspec.msgpack.encode([entry_of(input, b"" if message is None else MESSAGE.encode(message), at)])


def _rows(image: DiskImage) -> Iterator[Batch]:
    """The rows as SQLite reads them."""
    for row in image.database:
        yield _row(row)
    for frame in image.frames:
        if len(frame) < CHECKSUM_BYTES or crc32(frame[CHECKSUM_BYTES:]) != int.from_bytes(
            frame[:CHECKSUM_BYTES], "little"
        ):
            return
        yield _row(frame[CHECKSUM_BYTES:])


def _row(row: bytes) -> Batch:
    try:
        return msgspec.msgpack.decode(row, type=tuple[int, float, bytes, bytes])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableBatch(str(error)) from None
