"""Inputs and effects of a peer's machine: all that it can be told, and all that it can ask for."""

from typing import Any

import msgspec

from godwit.teamwork.machine.scope_log import Added

__all__ = [
    "Attached",
    "ChangeRecord",
    "Effect",
    "EventCame",
    "Follow",
    "Happened",
    "Input",
    "Publish",
    "Rejected",
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


class Follow(msgspec.Struct, frozen=True):
    """Keep a scope at this peer from now on."""

    scope: str


class Unfollow(msgspec.Struct, frozen=True):
    """Take part in the exchange of a scope no longer. What is here stays."""

    scope: str


Input = Attached | EventCame | TimerDue | ChangeRecord | Follow | Unfollow


# ------------------------------------------------------------ effects


class Publish(msgspec.Struct, frozen=True):
    """Publish an event. It stays in the outbox until a broker has taken it."""

    attributes: dict[str, Any]
    payload: bytes


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


class Rejected(msgspec.Struct, frozen=True):
    """An input that changed nothing, and why: the user's change, or what another peer sent."""

    what: str
    reason: str


Effect = Publish | SubscribeScope | UnsubscribeScope | StartTimer | StopTimer | Happened | Rejected
