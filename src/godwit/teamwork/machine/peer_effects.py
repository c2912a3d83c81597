"""Inputs and effects of a peer's machine: all that it can be told, and all that it can ask for."""

from typing import Any

import msgspec

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
    "Happened",
    "Input",
    "Leaving",
    "Publish",
    "Rejected",
    "SearchAnswered",
    "SetAvailability",
    "StartSearch",
    "StartTimer",
    "StopTimer",
    "SubscribeScope",
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
    """How available the user is."""

    availability: str


class Leaving(msgspec.Struct, frozen=True):
    """The peer is about to go."""


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
)


# ------------------------------------------------------------ effects


class Publish(msgspec.Struct, frozen=True):
    """Publish an event. It stays in the outbox until a broker has taken it."""

    attributes: dict[str, Any]
    payload: bytes
    until: float | None = None
    """Time of day after which nobody needs it."""


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


class SearchAnswered(msgspec.Struct, frozen=True):
    """A peer has answered a search of the user."""

    progress: Progress


class Rejected(msgspec.Struct, frozen=True):
    """An input that changed nothing, and why: the user's change, or what another peer sent."""

    what: str
    reason: str


Effect = Publish | SubscribeScope | UnsubscribeScope | StartTimer | StopTimer | Happened | SearchAnswered | Rejected
