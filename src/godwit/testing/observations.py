"""Records of what happened in a network, for tests."""

from typing import Any, NamedTuple

from godwit.broker.messages import NodeId
from godwit.filters.events import Event
from godwit.trace import Record

__all__ = ["Handled", "Notified", "Recorded", "Sent", "Told"]


class Recorded(NamedTuple):
    """A record in the trace."""

    at: float
    node: NodeId
    record: Record


class Handled(NamedTuple):
    """An input in the log, and the effects that its machine returned."""

    at: float
    node: NodeId
    input: Any
    effects: list[Any]


class Sent(NamedTuple):
    """A message that one broker sent to another, without the frame around it."""

    source: NodeId
    target: NodeId
    message: Any


class Told(NamedTuple):
    """A message that a broker sent to a client, or to a connection of which the test is the client."""

    broker: NodeId
    client: str
    message: Any


class Notified(NamedTuple):
    """An event delivered to a client's application."""

    at: float
    client: NodeId
    event: Event
    subscriptions: tuple[str, ...]
