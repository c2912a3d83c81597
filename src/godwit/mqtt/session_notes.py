"""The stored state of an MQTT session beside a Godwit session: notes, one for each value that changes.

*Theory.* A gateway keeps nothing that must outlive it. What an MQTT session has to know when its client is back, here
or at another broker, is in the notes of its Godwit session, which are journalled and move with it. Each note is written
in the same turn as the request it belongs to, so that both are there after a crash, or neither is.

| key | value | written | removed |
|---|---|---|---|
| `sub/FILTER` | qos, no local, retain as published, identifier, shared, mode | with SUBSCRIBE | with UNSUBSCRIBE |
| `in/ID` | nothing | with the event of a PUBLISH of QoS 2 | at PUBREL |
| `rel/ID` | number of the delivery | at PUBREC | at PUBCOMP |
| `did/NUMBER` | nothing | at PUBCOMP, when a delivery before it is not done | when that is |
| `lost` | since when events may be lost | when a broker has lost its last inputs | with CONNACK, which says so |
| `out` | confirmed, highest sent, done above confirmed | when a connection ends in good order | at the next one |

*Rules.*
1. `kept_of` reads whatever notes there are: one that does not parse counts as missing. They may be another version's.
2. Without `out` the connection before has ended in a crash, or elsewhere: what the session sends first may be a double.
"""

from collections.abc import Mapping

import msgspec
from msgspec import structs

from godwit.mqtt.mqtt_effects import Granted, PersistentState

__all__ = [
    "LOST",
    "OUT",
    "SUB",
    "did_key",
    "grant_note",
    "in_key",
    "kept_of",
    "lost_note",
    "lost_since",
    "out_note",
    "rel_key",
    "rel_note",
]

SUB, IN, REL, DID, OUT, LOST = "sub/", "in/", "rel/", "did/", "out", "lost"
IDS = range(1, 65_536)


class _Grant(msgspec.Struct, array_like=True):
    """A subscription, as it is written down."""

    qos: int
    no_local: bool
    retain_as_published: bool
    identifier: int
    is_shared: bool
    cloud_events: str = ""


class _Out(msgspec.Struct, array_like=True):
    """How far deliveries had come when the last connection ended."""

    confirmed: int
    sent_up_to: int
    done: list[int]


_GRANTS = msgspec.msgpack.Decoder(_Grant)
_OUTS = msgspec.msgpack.Decoder(_Out)
_NUMBERS = msgspec.msgpack.Decoder(int)
_TIMES = msgspec.msgpack.Decoder(float)


def in_key(packet_id: int) -> str:
    """The note of a publication of QoS 2 that is not released."""
    return f"{IN}{packet_id}"


def rel_key(packet_id: int) -> str:
    """The note of a delivery of QoS 2 that the client has, and whose identifier it has not forgotten."""
    return f"{REL}{packet_id}"


def rel_note(number: int) -> bytes:
    """The number of that delivery."""
    return msgspec.msgpack.encode(number)


def did_key(number: int) -> str:
    """The note of a delivery of QoS 2 that the client is done with, while one before it is open."""
    return f"{DID}{number}"


def grant_note(granted: Granted) -> bytes:
    """A subscription that stands."""
    row = [granted.qos, granted.no_local, granted.retain_as_published, granted.identifier, granted.is_shared]
    return msgspec.msgpack.encode([*row, granted.cloud_events] if granted.cloud_events else row)


def out_note(kept: PersistentState) -> bytes:
    """How far deliveries are when a connection ends."""
    return msgspec.msgpack.encode(_Out(kept.confirmed, kept.sent_up_to, list(kept.done)))


def lost_note(since: float) -> bytes:
    """Since when events may be lost."""
    return msgspec.msgpack.encode(since)


def lost_since(notes: Mapping[str, bytes], since: float | None) -> float | None:
    """The earlier of this time and the one that a note tells of; None: nothing may be lost."""
    try:
        noted = _TIMES.decode(notes[LOST])
    except (KeyError, msgspec.MsgspecError):
        return since
    return noted if since is None else min(noted, since)


def kept_of(notes: Mapping[str, bytes]) -> PersistentState:
    """The state that these notes tell of."""
    kept = PersistentState()
    for key, value in notes.items():
        try:
            if key.startswith(SUB):
                row = _GRANTS.decode(value)
                kept.subscriptions[key.removeprefix(SUB)] = Granted(*structs.astuple(row))
            elif key.startswith(IN):
                kept.received[_id(key.removeprefix(IN))] = 0
            elif key.startswith(REL):
                number = _NUMBERS.decode(value)
                kept.released[_id(key.removeprefix(REL))] = number
                kept.done[number] = True
            elif key.startswith(DID):
                number = int(key.removeprefix(DID))
                kept.done[number] = kept.settled[number] = True
            elif key == OUT:
                row_out = _OUTS.decode(value)
                kept.confirmed, kept.sent_up_to = row_out.confirmed, row_out.sent_up_to
                kept.done.update(dict.fromkeys(row_out.done, True))
        except (msgspec.MsgspecError, ValueError):
            continue
    for number in [number for number in kept.done if number <= kept.confirmed]:
        del kept.done[number]
    return kept


def _id(text: str) -> int:
    number = int(text)
    if number not in IDS:
        raise ValueError(text)
    return number
