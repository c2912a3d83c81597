"""What peers send each other over the bus: events with attributes to route by, and a payload.

Every message has the attributes `team` and `message` (its name), and, where it concerns one, `scope`. A message for one
peer has `for_device`, one for all devices of a user `for_user`. Brokers see these attributes, the name of the sender
and the time; payloads of scopes with a key are sealed (`exchange.py`).
"""

from typing import Any

import msgspec

from godwit.teamwork.machine.changes import Change, Vector

__all__ = ["MESSAGES", "Changes", "Have", "Message", "attributes_of", "decoded"]

PAYLOAD_BYTES_MAX = 4 * 2**20


class Message(msgspec.Struct, frozen=True, tag_field="message", omit_defaults=True):
    """The base of all messages."""

    device: str


class Have(Message, frozen=True, tag="have"):
    """What a peer has of a scope. Whoever has more sends it."""

    scope: str
    vector: Vector


class Changes(Message, frozen=True, tag="changes"):
    """Changes of a scope; and what the sender has, so that a receiver sees whether there is more."""

    scope: str
    changes: tuple[Change, ...]
    vector: Vector


MESSAGES: tuple[type[Message], ...] = (Have, Changes)

_DECODER = msgspec.msgpack.Decoder(Have | Changes)


def attributes_of(team: str, message: Message) -> dict[str, Any]:
    """What brokers route a message by."""
    attributes = {"team": team, "message": type(message).__struct_config__.tag}
    for name in ROUTED:
        if (value := getattr(message, name, None)) is not None:
            attributes[name] = value
    return attributes


ROUTED = ("scope", "for_device", "for_user")


def decoded(payload: bytes) -> Message | str:
    """A message, or why it is none."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        return f"a message has at most {PAYLOAD_BYTES_MAX:,} bytes, and this one has {len(payload):,}"
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return f"not a message of a peer: {error}"
