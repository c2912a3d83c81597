"""Messages between peers over the bus: events with attributes for routing, and a payload.

Every message has the attributes `team` and `message` (its name), and, where it concerns one, `scope`. A message for one
peer has `for_device`, one for all devices of a user `for_user`. Brokers see these attributes, the name of the sender
and the time; payloads of scopes with a key are sealed (`exchange.py`). A question is addressed by context (`Event.to`):
brokers deliver it to the peers of the users concerned.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from godwit.teamwork.machine.changes import Change, Vector

__all__ = [
    "Answers",
    "Changes",
    "Found",
    "Gone",
    "Have",
    "Here",
    "HereFor",
    "Invite",
    "KeyGiven",
    "NeedKey",
    "PeerMessage",
    "Present",
    "Question",
    "Removed",
    "Wanted",
    "addressed_to",
    "attributes_of",
    "context_of",
    "decoded",
    "filter_for",
    "quoted",
    "signed_bytes_of",
]

PAYLOAD_BYTES_MAX = 4 * 2**20


class PeerMessage(msgspec.Struct, frozen=True, tag_field="message", omit_defaults=True):
    """The base of all messages."""

    device: str


class Have(PeerMessage, frozen=True, tag="have"):
    """What a peer has of a scope. A peer that has more sends it."""

    scope: str
    vector: Vector


class Changes(PeerMessage, frozen=True, tag="changes"):
    """Changes of a scope; and what the sender has, so that a receiver sees whether there is more."""

    scope: str
    changes: tuple[Change, ...]
    vector: Vector


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a search looks for: records whose profile matches a query, and whose text has these words."""

    kinds: tuple[str, ...]
    language: str = "xql"
    query: str = ""
    words: str = ""
    limit: int = 100


class Found(msgspec.Struct, frozen=True):
    """A record that was found."""

    scope: str
    record: str
    profile: bytes
    """In XML."""
    score: float = 0.0
    """How well it fits, the higher the better; compared among the answers to one search."""


class Question(PeerMessage, frozen=True, tag="question"):
    """A search, asked of other peers. Signed, since a peer shows what the asking user may see."""

    user: str
    search: str
    wanted: Wanted
    until: float
    """Time of day after which nobody needs to answer."""
    signature: bytes = b""


class Answers(PeerMessage, frozen=True, tag="answers"):
    """What a peer has found; nothing is an answer, too. Signed."""

    user: str
    for_device: str
    search: str
    found: tuple[Found, ...] = ()
    refused: str = ""
    """Why the peer did not search."""
    signature: bytes = b""


class Here(PeerMessage, frozen=True, tag="here"):
    """A peer is attached, and how available its user is. Signed."""

    user: str
    availability: str
    until: float
    """Time of day until which this holds, unless it is said again."""
    status: str = ""
    """What the user says about it."""
    asks: int = 0
    """Above 0: the peer asks who else is here, for the so manyth time."""
    signature: bytes = b""


class HereFor(PeerMessage, frozen=True, tag="here_for"):
    """The same, for one user alone."""

    for_user: str
    here: Here


class Present(PeerMessage, frozen=True, tag="present"):
    """Who is here, for a peer that has asked: what these peers have said to the whole team, each with its signature."""

    for_device: str
    heres: tuple[Here, ...]


class Gone(PeerMessage, frozen=True, tag="gone"):
    """A peer goes. Signed."""

    user: str
    time: float
    """Time of day: earlier statements are not valid any more."""
    signature: bytes = b""


class NeedKey(PeerMessage, frozen=True, tag="need_key"):
    """A peer has met a key of a scope that it does not have. Signed."""

    user: str
    scope: str
    name: str
    signature: bytes = b""


class KeyGiven(PeerMessage, frozen=True, tag="key_given"):
    """A key of a scope, sealed for one device."""

    scope: str
    name: str
    to: str
    box: bytes


class Removed(PeerMessage, frozen=True, tag="removed"):
    """A user was removed from a scope: the change that says so, and those of its device before it, for one device."""

    for_device: str
    changes: tuple[Change, ...]


class Invite(PeerMessage, frozen=True, tag="invite"):
    """A user has been invited to a scope or made a member of it, or has founded or joined it. Signed."""

    user: str
    for_user: str
    scope: str
    title: str
    clock: int
    """A clock of the scope: what the user does next comes after it."""
    signature: bytes = b""


AnyMessage = (
    Have | Changes | Question | Answers | Here | HereFor | Present | Gone | NeedKey | KeyGiven | Removed | Invite
)

_DECODER = msgspec.msgpack.Decoder(AnyMessage)


def attributes_of(team: str, message: PeerMessage) -> dict[str, Any]:
    """What brokers route a message by."""
    attributes = {"team": team, "message": type(message).__struct_config__.tag}
    for name in ROUTED:
        if (value := getattr(message, name, None)) is not None:
            attributes[name] = value
    return attributes


ROUTED = ("scope", "for_device", "for_user")
FOR_ALL = ("question", "here", "gone")


def filter_for(team: str, device: str, user: str, scopes: Iterable[str]) -> str:
    """The filter of a peer's only subscription: what is for everybody, for it, or in a scope that it follows."""
    concerns = [
        f"message IN ({', '.join(map(quoted, FOR_ALL))})",
        f"for_device = {quoted(device)}",
        f"for_user = {quoted(user)}",
    ]
    if followed := ", ".join(map(quoted, sorted(scopes))):
        concerns.append(f"scope IN ({followed})")
    return f"team = {quoted(team)} AND ({' OR '.join(concerns)})"


def context_of(team: str, user: str, device: str) -> dict[str, str]:
    """What brokers know of a peer, so that it can be addressed."""
    return {"team": team, "team_user": user, "team_device": device}


def addressed_to(team: str, users: Collection[str] | None, besides: str) -> str:
    """A filter on contexts: the peers of these users, or of all users of a team, but for one device."""
    of_users = "" if users is None else f" AND team_user IN ({', '.join(map(quoted, sorted(users)))})"
    return f"team = {quoted(team)}{of_users} AND team_device != {quoted(besides)}"


def quoted(text: str) -> str:
    """A text as a literal of the filter language."""
    return "'" + text.replace("'", "''") + "'"


def signed_bytes_of(message: Question | Answers | NeedKey | Invite | Here | Gone) -> bytes:
    """What the signature of a message is made over."""
    return msgspec.msgpack.encode(msgspec.structs.replace(message, signature=b""))


def decoded(payload: bytes) -> AnyMessage | str:
    """A message, or why it is none."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        return f"a message has at most {PAYLOAD_BYTES_MAX:,} bytes, and this one has {len(payload):,}"
    try:
        message: AnyMessage = _DECODER.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        return f"not a message of a peer: {error}"
    return message
