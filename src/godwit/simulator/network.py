"""Wires: one direction of a link or connection, with latency, bandwidth, a FIFO queue and faults of its own.

*Theory.* A message leaves when those before it have left (`free_at`), takes its size over the bandwidth to get onto the
wire and the latency to cross it. A wire belongs to a connection; when that breaks, whatever is on the wire is gone, and
what was sent on an older connection never arrives on a newer one.

*Rules.*
1. Without faults what is sent first arrives first.
2. Every draw comes from the wire's own seeded generator and is made only while a fault is on, so that a fault on one
   wire changes nothing on another.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from godwit.adhoc.radio_messages import Carried, Relayed
from godwit.baselines.hop_messages import ContextBegins, ContextPacket, SubscribePacket, UnsubscribePacket
from godwit.broker.messages import (
    Accepted,
    Ack,
    Advertise,
    Attach,
    Attached,
    Context,
    ContextAdded,
    Covered,
    Delivery,
    Frame,
    Hello,
    LinkState,
    Packet,
    Publish,
    Received,
    Refused,
    Request,
    Subscribe,
    Unneeded,
)
from godwit.filters.events import Event
from godwit.mobility.messages import Changed, Collected, Follow, Prefetch, Proxy, Replay, Wishes

__all__ = ["Wire", "size_of", "sizes"]

UNSIZED = (Accepted, Ack, Attached, Hello, Received, Refused)  # what links and sessions need for themselves
HEADER_BYTES = 12
LITERAL_BYTES = 24
STATE_BYTES = 128  # the numbers and receipts of a session
SEEN_BYTES = 24  # of one publisher


class Wire:
    """One direction between two nodes."""

    __slots__ = (
        "blocked",
        "connection",
        "delay_rate",
        "delay_s",
        "duplicate_rate",
        "faulty",
        "free_at",
        "latency_s",
        "linked",
        "loss_rate",
        "random",
        "seconds_per_byte",
        "source",
        "target",
        "up",
    )

    def __init__(self, source: Any, target: Any, latency_s: float, bandwidth_bps: float | None, random: Random) -> None:
        self.source = source
        self.target = target
        self.latency_s = latency_s
        self.seconds_per_byte = 8 / bandwidth_bps if bandwidth_bps else 0.0
        self.random = random
        self.up = False
        self.connection = 0
        self.linked = -1  # the connection that the source's machine knows of and sends on; an older one leads nowhere
        self.free_at = 0.0
        self.blocked = False  # a one-way partition: everything is lost, and nobody is told
        self.loss_rate = 0.0
        self.duplicate_rate = 0.0
        self.delay_rate = 0.0
        self.delay_s = 0.0
        self.faulty = False  # whether any of the four above is on

    def set_faults(
        self, loss: float = 0.0, duplicate: float = 0.0, delay: float = 0.0, delay_s: float = 0.0, blocked: bool = False
    ) -> None:
        """Switch this wire's faults to these."""
        self.loss_rate, self.duplicate_rate, self.delay_rate, self.delay_s = loss, duplicate, delay, delay_s
        self.blocked = blocked
        self.faulty = blocked or loss > 0 or duplicate > 0 or delay > 0

    def arrival(self, size: int, now: float) -> float:
        """When a message of that size that is sent now arrives."""
        self.free_at = at = max(self.free_at, now) + size * self.seconds_per_byte
        return at + self.latency_s

    def arrivals(self, size: int, now: float) -> tuple[float, ...]:
        """The same on a wire with faults: once, or never, or more than once."""
        at = self.arrival(size, now)
        if self.blocked or self.random.random() < self.loss_rate:
            return ()
        if self.random.random() < self.delay_rate:
            at += self.random.random() * self.delay_s
        if self.random.random() < self.duplicate_rate:
            return (at, at + self.random.random() * max(self.delay_s, self.latency_s))
        return (at,)


def size_of(message: Any) -> int:
    """The bytes that a message takes, near enough to what the wire format needs."""
    kind = type(message)
    if kind is Frame:
        return HEADER_BYTES + size_of(message.message)
    if kind is Publish:
        return HEADER_BYTES + event_size(message.event)
    if kind in (Ack, Accepted, Received):
        return HEADER_BYTES
    if kind is Delivery:
        return HEADER_BYTES + event_size(message.event)
    if kind is Request:
        return HEADER_BYTES + size_of(message.wish)
    if kind is Packet:
        return HEADER_BYTES + 12 * len(message.targets) + size_of(message.message)
    if kind in (Subscribe, Advertise):
        return 2 * HEADER_BYTES + LITERAL_BYTES * int(message.filter.size)
    if kind is Covered:
        return 2 * HEADER_BYTES + sum(HEADER_BYTES + event_size(item.event) for item in message.items)
    if kind is Follow:
        return 3 * HEADER_BYTES + LITERAL_BYTES * int(message.filter.size) + 16 * len(message.values)
    if kind is ContextPacket:
        return 2 * HEADER_BYTES + event_size(message.event) + len(message.bloom or b"")
    if kind is SubscribePacket:
        literals = int(message.filter.size) + int(message.asks.size)
        return 2 * HEADER_BYTES + LITERAL_BYTES * literals + 12 * len(message.targets)
    if kind is UnsubscribePacket:
        return 2 * HEADER_BYTES + 8 * len(message.targets)
    if kind in (Changed, Context, ContextBegins):
        return 2 * HEADER_BYTES + 16 * len(message.values)
    if kind is ContextAdded:
        return 2 * HEADER_BYTES + (16 if type(message.described) is dict else LITERAL_BYTES) * len(message.described)
    if kind is Unneeded:
        return HEADER_BYTES + LITERAL_BYTES * int(message.filter.size)
    if kind is LinkState:
        return HEADER_BYTES + 16 * len(message.neighbours)
    if kind is Relayed:
        return 4 * HEADER_BYTES + size_of(message.body)
    if kind is Carried:
        return size_of(message.frame)
    if kind in (Prefetch, Proxy):
        return 2 * HEADER_BYTES + sum(map(size_of, message.advertisements))
    if kind is Attach:
        return 4 * HEADER_BYTES + 16 * len(message.log) + sum(map(size_of, message.wanted))
    if kind is Wishes:
        return 2 * HEADER_BYTES + sum(map(size_of, message.wanted))
    if kind is Collected:
        return 4 * HEADER_BYTES + SEEN_BYTES * len(message.seen) + sum(event_size(item.event) for item in message.items)
    if kind is Replay:
        return 4 * HEADER_BYTES + _session_size(message) + sum(event_size(item.event) for item in message.items)
    return 2 * HEADER_BYTES


def sizes(control_bytes: int | None, event_bytes: int | None) -> Callable[[Any], int]:
    """Sizes of messages of which those of control, or those that bear an event, all have a given one."""
    if control_bytes is None and event_bytes is None:
        return size_of

    def given(message: Any) -> int:
        inner = getattr(message, "message", message)
        kind = type(getattr(inner, "wish", inner))
        if kind in (Publish, ContextPacket, Delivery):
            return event_bytes or size_of(message)
        return size_of(message) if kind in UNSIZED else control_bytes or size_of(message)

    return given


def _session_size(replay: Replay) -> int:
    """The bytes of a session's state, where a part of a replay bears it."""
    state = replay.state
    if state is None:
        return 0
    entries = (*state.subscriptions, *state.advertisements)
    return STATE_BYTES + sum(map(size_of, entries)) + SEEN_BYTES * len(state.seen)


def event_size(event: Event) -> int:
    """The bytes of an event: its payload, and about sixteen for each attribute."""
    return 24 + 16 * len(event.attributes) + (len(event.payload) if event.payload else 0)
