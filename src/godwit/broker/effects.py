"""Inputs and effects of a machine: everything that a driver can hand in, and everything that a machine can request.

    machine.handle(input, now) -> list[Effect]

The same state and the same input give the same effects, in the same order. A driver carries them out: the simulator on
virtual time, the runtime on sockets, timers and a journal.
"""

from typing import Any

import msgspec

from godwit.broker.limits import Limits
from godwit.broker.messages import FrameOrAck, NodeId
from godwit.filters.events import Attributes, Event
from godwit.trace import Record

__all__ = [
    "Arrived",
    "Close",
    "Closed",
    "ComponentInput",
    "Effect",
    "Heard",
    "Input",
    "LinkDown",
    "LinkUp",
    "Notify",
    "Opened",
    "Reconfigured",
    "Restarted",
    "Send",
    "StartTimer",
    "StopTimer",
    "TailLost",
    "Tell",
    "TimerDue",
    "TimerKey",
    "Trace",
]

TimerKey = tuple[str, ...]
"""Names a timer of one machine. Starting it again moves it."""


# ------------------------------------------------------------ inputs


class LinkUp(msgspec.Struct, frozen=True):
    """A connection to the broker `peer` is there."""

    peer: NodeId


class LinkDown(msgspec.Struct, frozen=True):
    """The connection to the broker `peer` is gone, with whatever was under way on it."""

    peer: NodeId


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """A frame came from the broker `peer`."""

    peer: NodeId
    frame: FrameOrAck


class Opened(msgspec.Struct, frozen=True):
    """A client's connection is there, named by the driver. On the client's side: one to the broker of that name.

    On the broker's side `asserted` is what the driver knows of the client's context, by its token, and vouches for.
    """

    connection: str
    asserted: Attributes = {}


class Closed(msgspec.Struct, frozen=True):
    """That connection is gone, with whatever was under way on it."""

    connection: str


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A message came over a client's connection."""

    connection: str
    message: Any


class TimerDue(msgspec.Struct, frozen=True):
    """The time of a timer has come."""

    key: TimerKey


class Reconfigured(msgspec.Struct, frozen=True):
    """The driver was started with other settings: a broker has these neighbours, by cost of the link, and bounds.

    It may have more neighbours than before, and not fewer. What was taken in within older bounds stays.
    """

    neighbours: dict[NodeId, float]
    limits: Limits


class ComponentInput(msgspec.Struct, frozen=True):
    """The base of inputs that only brokers with a certain component know. (`component.py`: `Handlers.inputs`)"""


class Restarted(ComponentInput, frozen=True):
    """The driver was started again: it has made this machine from what its disk holds, which may not be all it had.

    It is the first input after a start, before the ends of what was open.
    """


class TailLost(ComponentInput, frozen=True):
    """The disk has lost the last inputs: go on as a life of this number. (`lost_tail.py`)

    What came after `since` is gone, though peers and clients may know of it; 0: it is not known since when.
    """

    incarnation: int
    since: float = 0.0


Input = LinkUp | LinkDown | Arrived | Opened | Closed | Heard | TimerDue | Reconfigured | ComponentInput


# ------------------------------------------------------------ effects


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a frame to the broker `peer`. Without a connection it is lost."""

    peer: NodeId
    frame: FrameOrAck


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Send a message over a client's connection."""

    connection: str
    message: Any


class Close(msgspec.Struct, frozen=True):
    """Close a link or connection, after what was sent before; no `LinkDown` or `Closed` follows."""

    peer: str
    reason: str


class Notify(msgspec.Struct, frozen=True, gc=False):
    """From a client's machine: give the event to the application."""

    event: Event
    subscriptions: tuple[str, ...]


class StartTimer(msgspec.Struct, frozen=True):
    """Give me `TimerDue(key)` at `at`, never earlier. A timer of that key which is running already is moved."""

    key: TimerKey
    at: float


class StopTimer(msgspec.Struct, frozen=True):
    """Forget the timer `key`, if it runs."""

    key: TimerKey


class Trace(msgspec.Struct, frozen=True, gc=False):
    """Write down that this happened."""

    record: Record


Effect = Send | Tell | Close | Notify | StartTimer | StopTimer | Trace
