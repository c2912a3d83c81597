"""Messages between devices of an ad hoc network, over the air and over several hops."""

from typing import Any, Literal

import msgspec

from godwit.broker.message_checks import shown
from godwit.broker.messages import Ack, Frame, FrameOrAck, Goodbye, Hello, NodeId
from godwit.errors import PeerFault
from godwit.mobility.move_messages import Replay

__all__ = [
    "Beacon",
    "Carried",
    "CircuitId",
    "Coordinate",
    "HandSession",
    "Hangup",
    "Merge",
    "Merged",
    "OfferSessions",
    "Poll",
    "Relayed",
    "WantSession",
    "check_body",
    "check_following",
    "check_radio",
]

NAME_CHARS_MAX = 256
SESSION_CHARS_MAX = NAME_CHARS_MAX + 1  # that of an island has a slash at the end (`parted_islands.py`)
NUMBER_MAX = 2**62

CircuitId = tuple[NodeId, int]
"""A circuit: the node that opened it, and its number there."""


class Beacon(msgspec.Struct, frozen=True, tag=True):
    """`leader` hosts an event broker. Every node that hears it for the first time passes it on to all in range."""

    leader: NodeId
    priority: float
    tenure: int  # counts how often this node has become event broker, from 1
    number: int  # the leader's own count of all that it sends: the higher is the newer
    hops: int
    age_s: float = 0.0  # since the leader sent it
    successor: NodeId = ""  # the leader has handed everything to this one, and follows it


class Carried(msgspec.Struct, frozen=True, tag=True):
    """A frame of a circuit: between a client and its event broker, or between two event brokers."""

    circuit: CircuitId
    frame: FrameOrAck


class Poll(msgspec.Struct, frozen=True, tag=True):
    """I am still here: my subscriptions stay in force for another lease. [mobile §3.1]"""

    circuit: CircuitId


class Hangup(msgspec.Struct, frozen=True, tag=True):
    """I know nothing of this circuit, or no more."""

    circuit: CircuitId
    reason: str


class Relayed(msgspec.Struct, frozen=True, tag=True):
    """A message from one node to another over relays. Each relay learns the route back from it."""

    source: NodeId
    target: NodeId
    number: int  # the source's own count
    hops: int
    body: Carried | Poll | Hangup


class Coordinate(msgspec.Struct, frozen=True, tag=True):
    """Let us stay two, and tell each other what our clients want and say. [mobile §3.1, §4]"""


class Merge(msgspec.Struct, frozen=True, tag=True):
    """These were all my sessions: take them over. [mobile §3.1]"""

    leases: tuple[float, ...]  # what is left of the lease of each, in seconds


class Merged(msgspec.Struct, frozen=True, tag=True):
    """I have them."""

    sessions: int


class WantSession(msgspec.Struct, frozen=True, tag=True):
    """`to` serves this client now. A holder of an older session of it sends that. Goes over all trunks. [mobile §4.3]

    First its state, so that its subscriptions are in force at `to`; then all of it; then it is to be forgotten.
    """

    client: NodeId
    attempt: int  # of the greeting that `to` has heard: an older session has a lower one
    to: NodeId
    part: Literal["state", "queue", "done"]
    holder: NodeId = ""  # whom it concerns; "": every device that has such a session


class HandSession(msgspec.Struct, frozen=True, tag=True):
    """A part of a session that `holder` has and `to` wants."""

    holder: NodeId
    to: NodeId
    lease_s: float  # what is left of its lease
    of: Literal["state", "queue"]
    replay: Replay


class OfferSessions(msgspec.Struct, frozen=True, tag=True):
    """`holder` has sessions of clients that it has not heard of lately, with their attempts. Goes over all trunks."""

    holder: NodeId
    sessions: dict[NodeId, int]


def check_following(message: WantSession | HandSession | OfferSessions) -> None:
    """`PeerFault` unless an honest event broker sends this over a trunk. Of a `Replay` others look at the rest."""
    kind = type(message).__name__
    if type(message) is OfferSessions:
        names: list[Any] = [message.holder, *message.sessions]
        numbers: list[Any] = list(message.sessions.values())
    elif type(message) is WantSession:
        names, numbers = [message.client, message.to, message.holder or message.to], [message.attempt]
        if message.part not in ("state", "queue", "done"):
            raise PeerFault(f"a WantSession of {shown(message.part)}: allowed are 'state', 'queue' and 'done'")
    else:
        assert type(message) is HandSession
        names, numbers = [message.holder, message.to], [message.replay.attempt]
        if type(message.lease_s) not in (int, float) or not 0 <= message.lease_s < NUMBER_MAX:
            raise PeerFault(f"a lease of {shown(message.lease_s)}: it must be seconds, 0 or more")
    if any(type(name) is not str or not 0 < len(name) <= SESSION_CHARS_MAX for name in names):
        raise PeerFault(f"a {kind} with a name that has not 1 to {SESSION_CHARS_MAX} characters")
    if any(type(number) is not int or not 0 <= number < NUMBER_MAX for number in numbers):
        raise PeerFault(f"a {kind} with an attempt that is not a whole number, 0 or more")


def check_radio(message: Any) -> None:
    """`PeerFault` unless this is a beacon or an envelope that an honest neighbour sends."""
    kind = type(message)
    if kind is Beacon:
        names: tuple[Any, ...] = (message.leader,)
        numbers: tuple[Any, ...] = (message.number, message.hops, message.tenure)
        if type(message.successor) is not str or len(message.successor) > NAME_CHARS_MAX:
            raise PeerFault(f"a beacon's successor is {shown(message.successor)}: it must be a name, or empty")
        for value in (message.priority, message.age_s):
            if type(value) not in (int, float) or not 0 <= value < NUMBER_MAX:
                raise PeerFault(f"a beacon with {shown(value)}: priority and age are numbers, 0 or more")
    elif kind is Relayed:
        names = (message.source, message.target)
        numbers = (message.number, message.hops)
        if type(message.body) not in (Carried, Poll, Hangup):
            raise PeerFault(f"{shown(message.body)} is not a message that nodes relay")
    else:
        raise PeerFault(f"{shown(message)} is not a message between devices")
    if any(type(name) is not str or not 0 < len(name) <= NAME_CHARS_MAX for name in names):
        raise PeerFault(f"{shown(message)}: nodes have names of 1 to {NAME_CHARS_MAX} characters")
    if any(type(number) is not int or not 0 <= number < NUMBER_MAX for number in numbers):
        raise PeerFault(f"{shown(message)}: its numbers must be whole, and 0 or more")


def check_body(body: Carried | Poll | Hangup) -> None:
    """`PeerFault` unless the end of the way can work with it. Its contents are checked by who handles them."""
    circuit: Any = body.circuit
    if type(circuit) is not tuple or [type(part) for part in circuit] != [str, int]:
        raise PeerFault(f"a circuit named {shown(circuit)}: it must be a node and a number")
    if not 0 < circuit[1] < NUMBER_MAX or not 0 < len(circuit[0]) <= NAME_CHARS_MAX:
        raise PeerFault(f"a circuit named {shown(circuit)}")
    if type(body) is Carried and type(body.frame) not in (Hello, Frame, Ack, Goodbye):
        raise PeerFault(f"a circuit that carries {shown(body.frame)}")
    if type(body) is Hangup and type(body.reason) is not str:
        raise PeerFault("a Hangup has a reason")
