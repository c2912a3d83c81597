"""A small network of routings that match at every hop, for tests: links are FIFO and lose nothing.

Nothing happens by itself: a test says what is delivered next, and `settle` lets everything come to its end. The exact
test of `Event.to` against the receiver's context, which is the sessions' work, is done where an event is handed over.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from godwit.broker.hop_messages import ContextPacket
from godwit.broker.hops import HopRouting
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import Answer, Forward, Local
from godwit.filters.contexts import stamped
from godwit.filters.events import Attributes, Event, event
from godwit.filters.filters import Filter
from tests.snapshots import restored

STEPS_MAX = 100_000


class HopNetwork:
    """Brokers, the links between them, and clients that are at one broker each."""

    def __init__(self, overlay: Iterable[tuple[NodeId, NodeId, float]], **options: Any) -> None:
        self.overlay = tuple(overlay)
        names = sorted({name for a, b, _ in self.overlay for name in (a, b)})
        made = options.pop("make", HopRouting)
        self.make = lambda name: made(name, self.neighbours(name), self.overlay, **options)
        self.brokers = {name: self.make(name) for name in names}
        self.under_way: dict[tuple[NodeId, NodeId], deque[Any]] = defaultdict(deque)
        self.sent: list[tuple[NodeId, NodeId, Any]] = []
        self.visits: dict[tuple[str, int], list[NodeId]] = defaultdict(list)  # by event, the brokers it has come to
        self.homes: dict[str, NodeId] = {}
        self.contexts: dict[str, Attributes] = {}
        self.wishes: dict[EntryId, Filter] = {}
        self.delivered: dict[EntryId, list[tuple[str, int]]] = defaultdict(list)
        self.unmeant: list[tuple[EntryId, tuple[str, int]]] = []  # dropped at the last hop
        self.sequence = 0

    def neighbours(self, name: NodeId) -> list[NodeId]:
        return sorted(b if a == name else a for a, b, _ in self.overlay if name in (a, b))

    def carry_out(self, name: NodeId, answers: list[Answer]) -> None:
        for answer in answers:
            match answer:
                case Forward(peer=peer, message=message):
                    self.under_way[name, peer].append(message)
                    self.sent.append((name, peer, message))
                case Local(event=event, subscriptions=subscriptions):
                    for id in subscriptions:
                        if event.to is None or event.to.holds(self.contexts.get(id[0], {})):
                            self.delivered[id].append(event.id)
                        else:
                            self.unmeant.append((id, event.id))

    # ------------------------------------------------------------ clients

    def set_context(self, client: str, context: Attributes | None, home: NodeId | None = None) -> None:
        if home is not None:
            self.homes[client] = home
        name = self.homes[client]
        if context is None:
            del self.contexts[client]
        else:
            self.contexts[client] = context
        self.carry_out(name, self.brokers[name].set_context(client, context, 0.0))

    def subscribe(self, client: str, filter: Filter, name: str = "s") -> None:
        self.wishes[client, name] = filter
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].subscribe((client, name), filter, 0.0))

    def unsubscribe(self, client: str, name: str = "s") -> None:
        self.wishes.pop((client, name), None)
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].unsubscribe((client, name), 0.0))

    def publish(self, client: str, to: Filter | None = None, **attributes: Any) -> Event:
        self.sequence += 1
        bare = event(attributes, publisher=client, sequence=self.sequence, to=to)
        published = stamped(bare, self.contexts.get(client, {}))
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].publish(published, 0.0))
        return published

    def meant(self, published: Event) -> list[EntryId]:
        """Who must get it now, asking everybody. (brute force)"""
        return [
            id
            for id, filter in sorted(self.wishes.items())
            if filter.matches(published) and (published.to is None or published.to.holds(self.contexts.get(id[0], {})))
        ]

    def got(self, published: Event) -> list[EntryId]:
        """Who has got it, once for each time."""
        return [id for id, events in sorted(self.delivered.items()) for each in events if each == published.id]

    # ------------------------------------------------------------ links

    def ready(self) -> list[tuple[NodeId, NodeId]]:
        return [link for link in sorted(self.under_way) if self.under_way[link]]

    def deliver(self, a: NodeId, b: NodeId) -> Any:
        message = self.under_way[a, b].popleft()
        if isinstance(message, ContextPacket):
            self.visits[message.event.id].append(b)
        self.carry_out(b, self.brokers[b].on_message(a, message, 0.0))
        return message

    def settle(self) -> "HopNetwork":
        for _ in range(STEPS_MAX):
            links = self.ready()
            if not links:
                return self
            for link in links:
                self.deliver(*link)
        raise AssertionError("messages go round for ever")

    def restart(self, name: NodeId) -> None:
        """A broker stops and comes back with its disk."""
        self.brokers[name] = restored(self.brokers[name], self.make(name))

    def messages(self, kind: type | None = None) -> list[tuple[NodeId, NodeId, Any]]:
        """What was sent (of this kind) by whom to whom, since the last time this was asked."""
        found = [each for each in self.sent if kind is None or type(each[2]) is kind]
        self.sent.clear()
        return found
