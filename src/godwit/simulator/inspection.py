"""Looking into brokers, for the checkers alone: what waits in them, and how full they are.

Whatever is on a wire is also in the outbox or queue of who sent it, until it is acknowledged. So what waits in nodes is
all that is under way.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from godwit.broker.broker import Broker
from godwit.broker.messages import Packet, Publish
from godwit.client.client import Client
from godwit.simulator.ledger import EventId

__all__ = ["entries_in", "events_on_the_way", "events_queued", "is_quiet", "queue_lengths"]


def _waiting(broker: Broker) -> Iterator[Any]:
    """Every message in an outbox of `broker`, or held back by its routing."""
    for link in broker.links.values():
        yield from link.outbox
    yield from broker.routing.held_back()


def _event_of(message: Any) -> EventId | None:
    """The event that a message bears, if it bears one."""
    if type(message) is Packet:
        message = message.message
    return message.event.id if type(message) is Publish else None


def events_on_the_way(broker: Broker) -> Iterator[EventId]:
    """The events that `broker` has in hand for its neighbours."""
    for message in _waiting(broker):
        id = _event_of(message)
        if id is not None:
            yield id


def events_queued(broker: Broker) -> Iterator[tuple[str, EventId]]:
    """Client and event, for all that waits in a session for its client's confirmation."""
    for session in broker.sessions:
        for event in session.queue.events():
            yield session.client, event.id


def is_quiet(broker: Broker) -> bool:
    """Whether no message of control waits in `broker`, and its tables are whole."""
    return broker.routing.is_settled() and all(_event_of(message) is not None for message in _waiting(broker))


def is_answered(client: Client) -> bool:
    """Whether the client's broker has answered all that it asked for, events aside, and first of all its greeting."""
    return (client.connection is None or client.is_attached) and not client.has_unanswered_changes()


def entries_in(broker: Broker) -> int:
    """All entries in the tables of `broker`, sessions counted."""
    return sum(broker.routing.sizes().values()) + len(broker.sessions)


def queue_lengths(brokers: Iterable[Broker]) -> dict[str, int]:
    """By kind of queue, the longest of it in any of these brokers."""
    longest = {"outbox": 0, "session": 0}
    for broker in brokers:
        for link in broker.links.values():
            longest["outbox"] = max(longest["outbox"], len(link.outbox))
        for session in broker.sessions:
            longest["session"] = max(longest["session"], len(session.queue))
    return longest
