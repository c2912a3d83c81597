"""Sizes of messages on a simulated wire.

*Theory.* With a bandwidth, a message occupies a wire for its size. Sizes are estimates close to the wire format: a
header, the literals of filters, the attributes and the payload of events. A scenario may give one size to all messages
of control and one to all messages that carry an event, as the papers do.

*Rules.*
1. The size of a message depends on the message alone.
"""

from collections.abc import Callable
from typing import Any

from godwit.adhoc.radio_messages import Carried, Relayed
from godwit.broker.messages import (
    Accepted,
    Ack,
    Advertise,
    AdvertisementAdded,
    Attach,
    Attached,
    Context,
    ContextAdded,
    Delivery,
    DropSubscriptions,
    FetchedEvents,
    Frame,
    Hello,
    LinkState,
    Packet,
    Publish,
    Received,
    Refused,
    Request,
    Subscribe,
)
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.filters.events import Event
from godwit.mobility.move_messages import (
    Collected,
    FetchSession,
    Follow,
    FollowPlaces,
    FollowUpdate,
    Interests,
    Prefetch,
    Presubscribe,
    Proxy,
    Replay,
)

__all__ = ["UNSIZED", "size_of", "sizes"]

UNSIZED = (Accepted, Ack, Attached, Hello, Received, Refused)  # what links and sessions need for themselves
HEADER_BYTES = 12
LITERAL_BYTES = 24
STATE_BYTES = 128  # the numbers and receipts of a session
SEEN_BYTES = 24  # of one publisher


def size_of(message: Any) -> int:
    """The approximate size of a message in the wire format."""
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
    if kind in (Subscribe, Advertise, AdvertisementAdded):
        return 2 * HEADER_BYTES + LITERAL_BYTES * int(message.filter.size)
    if kind is FetchedEvents:
        return 2 * HEADER_BYTES + sum(HEADER_BYTES + event_size(item.event) for item in message.items)
    if kind is Follow:
        return 3 * HEADER_BYTES + LITERAL_BYTES * int(message.filter.size) + _state_size(message.values)
    if kind is FollowPlaces:
        return 2 * HEADER_BYTES + 16 * (len(message.added) + len(message.removed))
    if kind is HopPacket:
        named = 8 * len(message.targets or ()) + len(message.bloom or b"")
        return 2 * HEADER_BYTES + named + size_of(message.message)
    if kind is SentAgain:
        return HEADER_BYTES + size_of(message.message)
    if kind in (FollowUpdate, Context):
        return 2 * HEADER_BYTES + _state_size(message.values)
    if kind is ContextAdded:
        return 2 * HEADER_BYTES + (16 if type(message.described) is dict else LITERAL_BYTES) * len(message.described)
    if kind is DropSubscriptions:
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
    if kind is FetchSession:
        entries = (8 + LITERAL_BYTES * int(each.filter.size) for each in message.subscriptions)
        return 4 * HEADER_BYTES + sum(entries)
    if kind in (Interests, Presubscribe):
        return 2 * HEADER_BYTES + sum(map(size_of, message.wanted))
    if kind is Collected:
        return 4 * HEADER_BYTES + SEEN_BYTES * len(message.seen) + sum(event_size(item.event) for item in message.items)
    if kind is Replay:
        return 4 * HEADER_BYTES + _session_size(message) + sum(event_size(item.event) for item in message.items)
    return 2 * HEADER_BYTES


def sizes(control_bytes: int | None, event_bytes: int | None) -> Callable[[Any], int]:
    """Sizes where all control messages, or all messages with an event, have a fixed size."""
    if control_bytes is None and event_bytes is None:
        return size_of

    def given(message: Any) -> int:
        inner = getattr(message, "message", message)
        inner = inner.message if type(inner) is HopPacket else inner
        kind = type(getattr(inner, "wish", inner))
        if kind in (Publish, Delivery):
            return event_bytes or size_of(message)
        return size_of(message) if kind in UNSIZED else control_bytes or size_of(message)

    return given


def _state_size(values: dict[str, Any]) -> int:
    return 16 * sum(len(value) if type(value) is tuple else 1 for value in values.values())


def _session_size(replay: Replay) -> int:
    """The size of a session's state, if a part of a replay has one."""
    state = replay.state
    if state is None:
        return 0
    entries = (*state.subscriptions, *state.advertisements)
    return STATE_BYTES + sum(map(size_of, entries)) + SEEN_BYTES * len(state.seen)


def event_size(event: Event) -> int:
    """The bytes of an event: its payload, and about sixteen for each attribute."""
    return 24 + 16 * len(event.attributes) + (len(event.payload) if event.payload else 0)
