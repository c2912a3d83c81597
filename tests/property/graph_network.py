"""A small network of graph routings for tests: links that are FIFO and reliable while both ends remember.

A link goes down and up again without loss, is given up by either end with its unacknowledged messages returned to it,
and a broker may restart with its memory or without. Nothing happens by itself: a test says what happens next, and
`settle` lets everything that is under way come to its end.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from godwit.broker.effects import StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import EntryId, Message, NodeId
from godwit.broker.routing import Answer, Forward, Local
from godwit.filters.events import Event, event
from godwit.filters.filters import Filter
from godwit.trace import Record
from tests.snapshots import restored

GAP_WAIT_S = 5.0
NEWBORN_S = 1_000.0
STEPS_MAX = 100_000


class Outbox:
    """What one end has sent: `delivered` of it have come, and wait for their acknowledgement."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.delivered = 0

    def emptied(self) -> list[Message]:
        messages, self.messages, self.delivered = self.messages, [], 0
        return messages


class Network:
    def __init__(
        self,
        links: Iterable[tuple[NodeId, NodeId]],
        costs: Mapping[tuple[NodeId, NodeId], float] | None = None,
        make: Callable[..., GraphRouting] = GraphRouting,
    ) -> None:
        self.links = [tuple(sorted(link)) for link in links]
        self.costs = costs or {}
        self.make = make
        self.now = 0.0
        names = sorted({name for link in self.links for name in link})
        self.lives = dict.fromkeys(names, 0)
        self.brokers: dict[NodeId, GraphRouting] = {}
        self.outboxes: dict[tuple[NodeId, NodeId], Outbox] = defaultdict(Outbox)
        self.up: set[Any] = set()
        self.has_forgotten: set[tuple[NodeId, NodeId]] = set()  # (who has to hear it, who has forgotten)
        self.given_up: set[tuple[NodeId, NodeId]] = {pair for a, b in self.links for pair in [(a, b), (b, a)]}
        self.timers: dict[tuple[NodeId, TimerKey], float] = {}
        self.deliveries: dict[tuple[NodeId, EntryId], list[tuple[str, int]]] = defaultdict(list)
        self.records: list[Record] = []
        self.sequences: dict[str, int] = defaultdict(int)
        self.steps = 0
        for name in names:
            self._begin(name)

    def _begin(self, name: NodeId) -> None:
        self.lives[name] += 1
        self.brokers[name] = self._made(name)

    def _made(self, name: NodeId) -> GraphRouting:
        costs = {b if a == name else a: cost for (a, b), cost in self.costs.items() if name in (a, b)}
        return self.make(name, self.lives[name], costs, GAP_WAIT_S, NEWBORN_S)

    def _carry_out(self, name: NodeId, answers: list[Answer]) -> None:
        for answer in answers:
            match answer:
                case Forward(peer=peer, message=message):
                    assert (name, peer) not in self.given_up, f"{name} sends to {peer}, whose link it has given up"
                    self.outboxes[name, peer].messages.append(message)
                case Local(event=event, subscriptions=subscriptions):
                    for id in subscriptions:
                        self.deliveries[name, id].append(event.id)
                case StartTimer(key=key, at=at):
                    self.timers[name, key] = at
                case StopTimer(key=key):
                    self.timers.pop((name, key), None)
                case Trace(record=record):
                    self.records.append(record)

    # ------------------------------------------------------------ clients

    def subscribe(self, name: NodeId, id: EntryId, filter: Filter) -> None:
        self._carry_out(name, self.brokers[name].subscribe(id, filter, self.now))

    def unsubscribe(self, name: NodeId, id: EntryId) -> None:
        self._carry_out(name, self.brokers[name].unsubscribe(id, self.now))

    def publish(self, name: NodeId, **attributes: Any) -> Event:
        publisher = f"publisher at {name}"
        self.sequences[publisher] += 1
        published = event(attributes, publisher=publisher, sequence=self.sequences[publisher])
        self._carry_out(name, self.brokers[name].publish(published, self.now))
        return published

    # ------------------------------------------------------------ links

    def can_deliver(self) -> list[tuple[NodeId, NodeId]]:
        return [
            (a, b)
            for link in self.links
            for a, b in (link, link[::-1])
            if link in self.up and self.outboxes[a, b].delivered < len(self.outboxes[a, b].messages)
        ]

    def deliver(self, a: NodeId, b: NodeId) -> None:
        outbox = self.outboxes[a, b]
        message = outbox.messages[outbox.delivered]
        outbox.delivered += 1
        self.steps += 1
        self._carry_out(b, self.brokers[b].on_message(a, message, self.now))

    def acknowledge(self, a: NodeId, b: NodeId) -> None:
        outbox = self.outboxes[a, b]
        del outbox.messages[: outbox.delivered]
        outbox.delivered = 0

    def take_down(self, link: Any) -> None:
        if link in self.up:
            self.up.discard(link)
            for a, b in (link, link[::-1]):
                self._carry_out(a, self.brokers[a].on_peer_down(b, self.now))

    def give_up(self, a: NodeId, b: NodeId) -> None:
        link = tuple(sorted((a, b)))
        if link not in self.up and (a, b) not in self.given_up:
            self.given_up.add((a, b))
            self._carry_out(a, self.brokers[a].on_link_dead(b, self.outboxes[a, b].emptied(), self.now))

    def bring_up(self, link: Any) -> None:
        if link in self.up:
            return
        self.up.add(link)
        for a, b in (link, link[::-1]):
            self.given_up.discard((a, b))
            forgotten = (a, b) in self.has_forgotten
            self.has_forgotten.discard((a, b))
            if forgotten:
                undelivered = self.outboxes[a, b].emptied()
                self._carry_out(a, self.brokers[a].on_peer_forgot(b, undelivered, self.now))
            self._carry_out(a, self.brokers[a].on_peer_up(b, self.now))

    # ------------------------------------------------------------ brokers

    def _stop(self, name: NodeId) -> None:
        for link in self.links:
            if name in link and link in self.up:
                self.up.discard(link)
                other = link[0] if link[1] == name else link[1]
                self._carry_out(other, self.brokers[other].on_peer_down(name, self.now))
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}

    def restart(self, name: NodeId) -> None:
        """Stop, and start again from a snapshot."""
        self._stop(name)
        self.brokers[name] = restored(self.brokers[name], self._made(name))
        for link in self.links:
            if name in link:
                other = link[0] if link[1] == name else link[1]
                self._carry_out(name, self.brokers[name].on_peer_down(other, self.now))

    def forget(self, name: NodeId) -> None:
        """Stop, and start again with nothing."""
        self._stop(name)
        for link in self.links:
            if name in link:
                other = link[0] if link[1] == name else link[1]
                self.has_forgotten.add((other, name))
                self.has_forgotten.discard((name, other))
                self.outboxes[name, other].emptied()
                self.given_up.add((name, other))
        self._begin(name)

    # ------------------------------------------------------------ time

    def fire_timer(self, until: float = math.inf) -> bool:
        """The time of the next timer comes; whether there was one by `until`."""
        (name, key), at = min(self.timers.items(), key=lambda timer: (timer[1], timer[0]), default=(("", ()), math.inf))
        if at >= until:
            return False
        del self.timers[name, key]
        self.now = max(self.now, at)
        self._carry_out(name, self.brokers[name].on_timer_due(key, self.now))
        return True

    def drain(self) -> None:
        """Deliver all that is under way on links that are up; timers do not run."""
        limit = self.steps + STEPS_MAX
        while pairs := self.can_deliver():
            for a, b in pairs:
                while self.outboxes[a, b].delivered < len(self.outboxes[a, b].messages):
                    self.deliver(a, b)
                self.acknowledge(a, b)
            assert self.steps < limit, "packets go round for ever"

    def settle(self) -> None:
        """Faults are over: all links come up, and everything comes to its end."""
        for link in self.links:
            self.bring_up(link)
        self.drain()
        for _ in range(1_000):
            if not self.fire_timer():
                return
            self.drain()
        raise AssertionError(f"timers run for ever: {sorted(self.timers)}")

    def start(self) -> "Network":
        self.settle()
        return self
