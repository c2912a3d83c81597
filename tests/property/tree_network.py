"""A small network of tree routings for tests: links are FIFO and lose nothing; a test says what happens next.

A message that is under way is delivered by `deliver` or, with all others, by `settle`. `forget` gives a broker a new
life without a memory; `connect` is when it and its neighbours greet each other, as `links.py` would.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from godwit.broker.effects import StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.messages import Message, NodeId
from godwit.broker.routing import Answer, Forward, Local
from godwit.broker.tree import TreeRouting
from godwit.filters.events import Event, event
from godwit.filters.filters import Filter
from godwit.trace import Record

STEPS_MAX = 100_000


class TreeNetwork:
    def __init__(self, links: Iterable[str], **options: Any) -> None:
        """`links` are pairs of one-letter names: "ab bc" is a line of three."""
        self.links = [(pair[0], pair[1]) for pair in links]
        self.names = sorted({name for link in self.links for name in link})
        self.options = options
        self.now = 0.0
        self.lives = dict.fromkeys(self.names, 1)
        self.brokers = {name: self._made(name) for name in self.names}
        self.under_way: dict[tuple[NodeId, NodeId], deque[Message]] = defaultdict(deque)
        self.closed: set[frozenset[NodeId]] = set()  # links of which one end has not greeted the other's new life
        self.timers: dict[tuple[NodeId, TimerKey], float] = {}
        self.records: list[Record] = []
        self.sent: list[tuple[NodeId, NodeId, Message]] = []
        self.delivered: dict[str, list[int]] = defaultdict(list)  # by client, the numbers of events
        self.published = 0

    def neighbours(self, name: NodeId) -> list[NodeId]:
        return [b if a == name else a for a, b in self.links if name in (a, b)]

    def _made(self, name: NodeId) -> TreeRouting:
        return TreeRouting(name, self.neighbours(name), incarnation=self.lives[name], **self.options)

    def carry_out(self, name: NodeId, answers: list[Answer]) -> None:
        for answer in answers:
            match answer:
                case Forward(peer=peer, message=message):
                    assert peer in self.neighbours(name)
                    self.under_way[name, peer].append(message)
                    self.sent.append((name, peer, message))
                case Local(event=event, subscriptions=subscriptions):
                    for client in dict.fromkeys(client for client, _ in subscriptions):
                        self.delivered[client].append(event.sequence)
                case StartTimer(key=key, at=at):
                    self.timers[name, key] = at
                case StopTimer(key=key):
                    self.timers.pop((name, key), None)
                case Trace(record=record):
                    self.records.append(record)

    # ------------------------------------------------------------ clients

    def subscribe(self, name: NodeId, client: str, filter: Filter) -> None:
        self.carry_out(name, self.brokers[name].subscribe((client, "s"), filter, self.now))

    def unsubscribe(self, name: NodeId, client: str) -> None:
        self.carry_out(name, self.brokers[name].unsubscribe((client, "s"), self.now))

    def advertise(self, name: NodeId, client: str, filter: Filter) -> None:
        self.carry_out(name, self.brokers[name].advertise((client, "a"), filter, self.now))

    def unadvertise(self, name: NodeId, client: str) -> None:
        self.carry_out(name, self.brokers[name].unadvertise((client, "a"), self.now))

    def publish(self, name: NodeId, **attributes: Any) -> Event:
        self.published += 1
        published = event(attributes, publisher="p", sequence=self.published)
        self.carry_out(name, self.brokers[name].publish(published, self.now))
        return published

    # ------------------------------------------------------------ links

    def connect(self, *links: str) -> None:
        """Neighbours greet each other: these, or all."""
        for a, b in [(pair[0], pair[1]) for pair in links or self.links]:
            self.closed.discard(frozenset((a, b)))
            for one, other in ((a, b), (b, a)):
                self.carry_out(one, self.brokers[one].on_peer_up(other, self.now))

    def ready(self) -> list[tuple[NodeId, NodeId]]:
        """The open links, each in its direction, on which something is under way."""
        return [link for link in sorted(self.under_way) if self.under_way[link] and frozenset(link) not in self.closed]

    def deliver(self, a: NodeId, b: NodeId) -> Message:
        message = self.under_way[a, b].popleft()
        self.carry_out(b, self.brokers[b].on_message(a, message, self.now))
        return message

    def settle(self) -> "TreeNetwork":
        for _ in range(STEPS_MAX):
            links = self.ready()
            if not links:
                return self
            for link in links:
                self.deliver(*link)
        raise AssertionError("messages go round for ever")

    def start(self) -> "TreeNetwork":
        self.connect()
        return self.settle()

    def messages(self, kind: type | None = None) -> list[tuple[NodeId, NodeId]]:
        """Who sent a message (of this kind) to whom, since the last time this was asked."""
        found = [(a, b) for a, b, message in self.sent if kind is None or type(message) is kind]
        self.sent.clear()
        return found

    # ------------------------------------------------------------ lives

    def forget(self, *names: NodeId) -> None:
        """These brokers start again without a memory; nobody has noticed yet."""
        for name in names:
            self.lives[name] += 1
            self.brokers[name] = self._made(name)
            self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != name}
            self.closed.update(frozenset((name, neighbour)) for neighbour in self.neighbours(name))
            for link in list(self.under_way):
                if link[0] == name:
                    self.under_way[link].clear()

    def meet(self, one: NodeId, newcomer: NodeId) -> None:
        """`one` hears that `newcomer` has lost its memory, and each hears that the link is open."""
        undelivered, self.under_way[one, newcomer] = self.under_way[one, newcomer], deque()
        self.carry_out(one, self.brokers[one].on_peer_forgot(newcomer, undelivered, self.now))
        self.connect(one + newcomer)

    def pass_time(self) -> None:
        (name, key), at = min(self.timers.items(), key=lambda timer: (timer[1], timer[0]))
        del self.timers[name, key]
        self.now = at
        self.carry_out(name, self.brokers[name].on_timer_due(key, self.now))

    def sizes(self) -> dict[str, int]:
        """All tables of all brokers together."""
        total: dict[str, int] = {}
        for broker in self.brokers.values():
            for table, size in broker.sizes().items():
                total[table] = total.get(table, 0) + size
        return total
