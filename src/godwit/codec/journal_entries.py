"""Inputs of a broker's machine in the journal: an entry each, with the time at which the machine handled it."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from godwit.broker.administration import ClearRetained, DropQueue, EndSession
from godwit.broker.authorisation import RightsChanged, RightsGranted
from godwit.broker.effects import (
    Arrived,
    Closed,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Opened,
    Reconfigured,
    Restarted,
    TailLost,
    TimerDue,
)
from godwit.broker.load_shedding import ShedLoad
from godwit.codec.message_codec import MESSAGES, Codec
from godwit.codec.type_registry import TypeRegistry
from godwit.errors import JournalError, PeerFault
from godwit.mobility.publisher_presence import PublisherReconfigured

__all__ = ["ENTRIES", "MESSAGE", "JournalEntry", "entry_of", "inputs_of"]


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """An input in the journal."""

    at: float  # the time at which the machine handled it
    kind: str
    name: str  # the peer or connection that it came from
    data: bytes  # its message, or all of it


MESSAGE = Codec(MESSAGES, as_json=False)
"""Messages as on the wire, in its native form."""

ENTRIES: msgspec.msgpack.Decoder[list[JournalEntry]] = msgspec.msgpack.Decoder(list[JournalEntry])


def entry_of(input: Input, packed: bytes, now: float) -> JournalEntry:
    """The entry of an input; `packed`: the encoded message in it, as received."""
    kind = type(input)
    if kind is Arrived:
        return JournalEntry(now, "arrived", input.peer, packed)  # type: ignore[union-attr]
    if kind is Heard:
        return JournalEntry(now, "heard", input.connection, packed)  # type: ignore[union-attr]
    if kind is Opened:
        return JournalEntry(now, "opened", input.connection, msgspec.msgpack.encode(input.asserted))  # type: ignore[union-attr]
    encode = FILTERED.encode if kind in (RightsGranted, RightsChanged) else msgspec.msgpack.encode
    return JournalEntry(now, kind.__name__, "", encode(input))


def inputs_of(batch: bytes) -> Iterator[tuple[Input, float]]:
    """The inputs of a batch, each with its time. `JournalError` if this version cannot read them."""
    try:
        for entry in ENTRIES.decode(batch):
            yield _input(entry), entry.at
    except (msgspec.MsgspecError, UnicodeDecodeError, PeerFault) as error:
        raise JournalError(f"a batch whose inputs cannot be read: {error}") from None


def _input(entry: JournalEntry) -> Input:
    kind, name, data = entry.kind, entry.name, entry.data
    if kind == "opened":
        return Opened(name, MESSAGE.attributes(msgspec.msgpack.decode(data)))
    if kind == "arrived":
        return Arrived(name, MESSAGE.decode(data))
    if kind == "heard":
        return Heard(name, MESSAGE.decode(data))
    if kind not in _DECODERS:
        raise JournalError(f"an input of kind {kind!r}: this version knows none")
    return cast(Input, _DECODERS[kind].decode(data))


FILTERED = Codec(TypeRegistry("input", [RightsGranted, RightsChanged]), as_json=False)
"""Inputs with filters. A peer cannot send them: the wire format does not have them."""

_DECODERS: dict[str, Any] = dict.fromkeys(("RightsGranted", "RightsChanged"), FILTERED) | {
    kind.__name__: msgspec.msgpack.Decoder(kind)
    for kind in (
        *(LinkUp, LinkDown, Closed, TimerDue, Reconfigured, Restarted, PublisherReconfigured, ShedLoad, TailLost),
        *(EndSession, DropQueue, ClearRetained),
    )
}
