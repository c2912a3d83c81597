"""Inputs and effects of a peer's machine: everything that a driver can hand in, and everything that a machine
can request."""

from typing import Any

import msgspec

from godwit.teamwork.machine.bus import Invite
from godwit.teamwork.machine.scope_log import Added
from godwit.teamwork.machine.search import Asking, Progress

__all__ = [
    "Attached",
    "ChangeRecord",
    "Detached",
    "Effect",
    "EndSearch",
    "EventCame",
    "Follow",
    "GiveKey",
    "Happened",
    "Input",
    "Invited",
    "KeyMade",
    "KeyMissing",
    "Leaving",
    "MakeKey",
    "PeerReport",
    "PresenceChanged",
    "Publish",
    "Rejected",
    "SearchAnswered",
    "SetAvailability",
    "StartSearch",
    "StartTimer",
    "StopTimer",
    "SubscribeScope",
    "TakeKey",
    "TimerDue",
    "TimerKey",
    "Unfollow",
    "UnsubscribeScope",
]

TimerKey = tuple[str, ...]


# ------------------------------------------------------------ inputs


class Attached(msgspec.Struct, frozen=True):
    """A broker has let the peer in."""


class Detached(msgspec.Struct, frozen=True):
    """The peer has lost its broker."""


class EventCame(msgspec.Struct, frozen=True):
    """An event of another peer."""

    payload: bytes


class TimerDue(msgspec.Struct, frozen=True):
    """A timer that the machine started."""

    key: TimerKey


class ChangeRecord(msgspec.Struct, frozen=True):
    """The user changes a record. Refused at once if the user has no right to it, as far as this peer knows."""

    scope: str
    record: str
    fields: dict[str, Any]


class StartSearch(msgspec.Struct, frozen=True):
    """The user searches."""

    asking: Asking


class EndSearch(msgspec.Struct, frozen=True):
    """The user needs no more answers."""

    search: str


class SetAvailability(msgspec.Struct, frozen=True):
    """How available the user is, what the user says about it, and to whom; nobody named: to the team."""

    availability: str
    status: str = ""
    shown_to: tuple[str, ...] = ()


class Leaving(msgspec.Struct, frozen=True):
    """The peer is about to go."""


class KeyMade(msgspec.Struct, frozen=True):
    """The driver has drawn a key for a scope, and keeps it."""

    scope: str
    name: str


class KeyMissing(msgspec.Struct, frozen=True):
    """An event came that is sealed with a key that the driver does not have."""

    scope: str
    name: str


class Follow(msgspec.Struct, frozen=True):
    """Keep a scope at this peer from now on."""

    scope: str


class Unfollow(msgspec.Struct, frozen=True):
    """Take part in the exchange of a scope no longer. What is here stays."""

    scope: str


Input = (
    Attached
    | Detached
    | Leaving
    | EventCame
    | TimerDue
    | ChangeRecord
    | Follow
    | Unfollow
    | StartSearch
    | EndSearch
    | SetAvailability
    | KeyMade
    | KeyMissing
)


# ------------------------------------------------------------ effects


class Publish(msgspec.Struct, frozen=True):
    """Publish an event. It stays in the outbox until a broker has taken it."""

    attributes: dict[str, Any]
    payload: bytes
    until: float | None = None
    """Time of day after which nobody needs it."""
    to: str = ""
    """A filter on the contexts of its receivers; empty: all that have subscribed."""


class SubscribeScope(msgspec.Struct, frozen=True):
    """Subscribe to the messages of a scope."""

    scope: str


class UnsubscribeScope(msgspec.Struct, frozen=True):
    """End that subscription."""

    scope: str


class StartTimer(msgspec.Struct, frozen=True):
    """Start a timer, or move it."""

    key: TimerKey
    after_s: float


class StopTimer(msgspec.Struct, frozen=True):
    """Stop a timer, if it runs."""

    key: TimerKey


class Happened(msgspec.Struct, frozen=True):
    """A change was taken, of this device or another: what system subscriptions are told. [motion §2.1]"""

    added: Added


class MakeKey(msgspec.Struct, frozen=True):
    """Draw a key for a scope, keep it, and answer with `KeyMade`."""

    scope: str


class GiveKey(msgspec.Struct, frozen=True):
    """Seal a key of a scope for a device, and publish it as `KeyGiven`."""

    scope: str
    name: str
    device: str


class TakeKey(msgspec.Struct, frozen=True):
    """Open a box that was sealed for this device, and keep the key in it if it is the one of that name."""

    scope: str
    name: str
    box: bytes


class SearchAnswered(msgspec.Struct, frozen=True):
    """A peer has answered a search of the user."""

    progress: Progress


class Invited(msgspec.Struct, frozen=True):
    """The user has been invited to a scope or made a member, or has founded or joined it on another device."""

    invite: Invite


class Rejected(msgspec.Struct, frozen=True):
    """An input that changed nothing, and why: the user's change, or what another peer sent."""

    what: str
    reason: str


class PresenceChanged(msgspec.Struct, frozen=True):
    """A device has come, has gone, or its user is available in another way: what this peer was shown of it."""

    scope: str
    """That of the team."""
    user: str
    device: str
    availability: str
    """Empty: it is not here any more."""
    status: str = ""


PeerReport = Happened | SearchAnswered | Invited | Rejected | PresenceChanged
"""The effects of which listeners of a peer are told: system subscriptions. [motion §2.1]"""

Effect = (
    Publish
    | SubscribeScope
    | UnsubscribeScope
    | StartTimer
    | StopTimer
    | Happened
    | SearchAnswered
    | Rejected
    | MakeKey
    | GiveKey
    | TakeKey
    | Invited
    | PresenceChanged
)
