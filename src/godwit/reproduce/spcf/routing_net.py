"""A network of routing machines only, in one process, for the measurements of [spcf §4].

*Theory.* One routing machine (`broker/routing.py`) stands for each broker. What one answers with `Forward` is put at
the end of one queue, and the neighbour's `on_message` is called when its turn comes; so links are reliable and in
order, and an operation is over when the queue is empty. Sessions, links and wires are left out: a packet costs them the
same whatever the routing. A `Net` is one strategy; nets over the same overlay and the same clients differ in nothing
else.

What is counted for an operation: *packets*, each hop of each; *handled*, how often a broker had one in hand; the
clients that were given an event; *needless* packets, which led to no delivery at or behind the broker that they
reached; and the processor's *work* in each machine. The last broker tests whom the publisher means (`Event.to`) against
its clients' contexts, in every strategy, as `broker/sessions.py` does; that is work too.

*Rules.*
1. The same calls give the same counts; only the times differ.
2. A net is used when it is settled: every machine knows the overlay and holds nothing back.

*Paper.* [spcf §4]. ASF runs on a spanning tree of the overlay: the shortest paths from the broker that is nearest to
all others, which is the best it can have. A context that subscriptions ask about is encoded as content (`sender.x`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import thread_time_ns
from typing import Any, Literal, TypeVar

import msgspec

from godwit.baselines.hop_routing import HopRouting, Row
from godwit.baselines.hop_routing_state import Key, Pair
from godwit.broker.bloom import RATE, BloomFilter
from godwit.broker.effects import StartTimer
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import NodeId
from godwit.broker.routing import Answer, DeliverLocally, Forward, Routing
from godwit.broker.spcf import spcf_routing
from godwit.broker.tree import HERE, TreeRouting
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import Matcher
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.simulator.topologies import LinkSpec, Overlay

__all__ = ["STRATEGIES", "Net", "Plain", "Sum", "by_turns", "net_of", "spanning_tree", "spcf_net"]

N = TypeVar("N")
T = TypeVar("T")

NEWBORN: tuple[str, ...] = ("newborn",)


class Sum(msgspec.Struct):
    """What operations took, added up."""

    operations: int = 0
    packets: int = 0
    handled: int = 0
    delivered: int = 0
    vain: int = 0
    asked: int = 0  # filters that a matcher without an index has tested
    work_ns: dict[NodeId, int] = msgspec.field(default_factory=dict)

    @property
    def total_s(self) -> float:
        """The work of all brokers."""
        return sum(self.work_ns.values()) / 1e9

    @property
    def busiest_s(self) -> float:
        """The work of the broker that had most."""
        return max(self.work_ns.values(), default=0) / 1e9


class Plain(NaiveMatcher):
    """A matcher without an index, as the oracle: every filter is asked. It counts them."""

    asked = 0  # by all of them

    def _match(self, event: Event) -> list[Any]:
        Plain.asked += len(self._filters)
        return super()._match(event)


class Net:
    """Routing machines, a queue between them, and the clients of each."""

    def __init__(self, machines: dict[NodeId, Routing], overlay: Overlay) -> None:
        self.machines = machines
        self.homes: dict[NodeId, NodeId] = {}  # of clients
        self.contexts: dict[NodeId, Attributes] = {}
        self.given: list[NodeId] = []  # by the last operation
        self.sum = Sum(work_ns=dict.fromkeys(machines, 0))
        self.queue: deque[tuple[NodeId, NodeId, Any, int]] = deque()  # to, from, what, the step it comes from
        self.steps: list[int] = []  # of each step of an operation, the one that it comes from
        self.useful: set[int] = set()
        for link in overlay.links:
            for broker, peer in ((link.a, link.b), (link.b, link.a)):
                self._do(broker, machines[broker].on_peer_up, peer)
            self._run()
        for broker, machine in machines.items():
            if isinstance(machine, GraphRouting):
                self._do(broker, machine.on_timer_due, NEWBORN)
        self._run()
        self.begin()
        assert all(machine.is_settled() and not machine.held_back() for machine in machines.values())

    # ------------------------------------------------------------ operations

    def begin(self) -> None:
        """Count from here on."""
        Plain.asked = 0
        self.sum = Sum(work_ns=dict.fromkeys(self.machines, 0))

    def set_context(self, client: NodeId, context: Attributes | None, home: NodeId | None = None) -> None:
        """A client has this context now; a new client also says where it is."""
        broker = self.homes.setdefault(client, home) if home is not None else self.homes[client]
        if context is None:
            self.contexts.pop(client, None)
        else:
            self.contexts[client] = context
        self._operate(broker, self.machines[broker].set_context, client, context)

    def subscribe(self, client: NodeId, name: str, filter: Filter) -> None:
        broker = self.homes[client]
        self._operate(broker, self.machines[broker].subscribe, (client, name), filter)

    def unsubscribe(self, client: NodeId, name: str) -> None:
        broker = self.homes[client]
        self._operate(broker, self.machines[broker].unsubscribe, (client, name))

    def publish(self, event: Event) -> list[NodeId]:
        """Who was given the event, in the order in which it came."""
        broker = self.homes[event.publisher]
        self._operate(broker, self.machines[broker].publish, event)
        self.sum.vain += len(self.steps) - len(self.useful | {0})
        return self.given

    # ------------------------------------------------------------ how they are carried out

    def _operate(self, broker: NodeId, call: Callable[..., list[Answer]], *arguments: Any) -> None:
        self.given, self.steps, self.useful = [], [-1], set()
        before = Plain.asked
        self._do(broker, call, *arguments)
        self._run()
        self.sum.operations += 1
        self.sum.asked += Plain.asked - before

    def _run(self) -> None:
        queue = self.queue
        while queue:
            broker, peer, message, step = queue.popleft()
            self.steps.append(step)
            self.sum.packets += 1
            self._do(broker, self.machines[broker].on_message, peer, message)

    def _do(self, broker: NodeId, call: Callable[..., list[Answer]], *arguments: Any) -> None:
        step = len(self.steps) - 1
        contexts = self.contexts
        given: list[NodeId] = []
        starts = thread_time_ns()
        answers = call(*arguments, 0.0)
        for answer in answers:
            if type(answer) is DeliverLocally:
                to = answer.event.to
                clients = dict.fromkeys(client for client, _ in answer.subscriptions)
                given += clients if to is None else [who for who in clients if to.holds(contexts.get(who, {}))]
        self.sum.work_ns[broker] = self.sum.work_ns.get(broker, 0) + thread_time_ns() - starts
        self.sum.handled += 1
        for answer in answers:
            if type(answer) is Forward:
                self.queue.append((answer.peer, broker, answer.message, step))
            else:
                assert type(answer) is not StartTimer or answer.key == NEWBORN, answer
        self.given += given
        self.sum.delivered += len(given)
        while given and step >= 0 and step not in self.useful:
            self.useful.add(step)
            step = self.steps[step]


def by_turns(nets: Iterable[N], work: Sequence[T], chunk: int) -> Iterator[tuple[N, Sequence[T]]]:
    """Each net with some of the work, then each with some more: whatever else the machine does hits all alike."""
    for first in range(0, len(work), chunk):
        for net in nets:
            yield net, work[first : first + chunk]


# ---------------------------------------------------------------- strategies


def spanning_tree(overlay: Overlay) -> Overlay:
    """The shortest paths from the broker that is nearest to all others."""
    neighbours = overlay.neighbours()
    best: tuple[int, list[LinkSpec]] | None = None
    for root in overlay.brokers:
        depth, links, queue = {root: 0}, list[LinkSpec](), deque([root])
        while queue:
            here = queue.popleft()
            for other in neighbours[here]:
                if other not in depth:
                    depth[other] = depth[here] + 1
                    links.append(LinkSpec(here, other))
                    queue.append(other)
        total = sum(depth.values())
        if best is None or total < best[0]:
            best = total, links
    assert best is not None
    return Overlay(overlay.brokers, tuple(best[1]))


class PlainTree(Plain):
    """ASF without an index: of each neighbour filters are asked until one matches."""

    def _match(self, event: Event) -> list[Any]:
        found: list[Any] = []
        towards: set[NodeId] = set()
        for id, filter in self._filters.items():
            source: NodeId = id[0]  # type: ignore[index]
            if source not in towards:
                Plain.asked += 1
                if filter.holds(event.attributes):
                    found.append(id)
                    if source != HERE:
                        towards.add(source)
        return found


class PlainRow(Row):
    """A row of the content table without an index: by subscriber's context, pairs that are asked one by one.

    A Bloom filter is asked once for each context, and of each neighbour filters are asked until one matches.
    """

    __slots__ = ("by_context",)

    def __init__(self, make: Callable[[], Matcher], matcher_from: int) -> None:
        super().__init__(make, matcher_from)
        self.by_context: dict[str, dict[Key, Pair]] = {}

    def put(self, key: Key, pair: Pair) -> None:
        self.remove(key)
        super().put(key, pair)
        self.by_context.setdefault(pair.subscriber, {})[key] = pair

    def remove(self, key: Key) -> None:
        if key in self.pairs:
            context = self.pairs[key].subscriber
            del self.by_context[context][key]
            if not self.by_context[context]:
                del self.by_context[context]
        super().remove(key)

    def neighbours(self, event: Event, bloom: BloomFilter | None) -> dict[NodeId, None]:
        found: dict[NodeId, None] = {}
        asked = 0
        meant = [self.pairs] if bloom is None else [self.by_context[name] for name in bloom.among(self.by_context)]
        for pairs in meant:
            for key, pair in pairs.items():
                if key[0] not in found:
                    asked += 1
                    if pair.filter.holds(event.attributes):
                        found[key[0]] = None
        Plain.asked += asked
        return found


class PlainHops(HopRouting):
    """Matched at every hop, without an index: for clients here, too."""

    def _row(self) -> Row:
        return PlainRow(self.matcher, self.matcher_from)

    def _index(self) -> None:
        super()._index()
        self.local_index = Plain()  # type: ignore[assignment]


def _asf(overlay: Overlay, matcher: str) -> Net:
    tree = spanning_tree(overlay)
    machines: dict[NodeId, Routing] = {}
    for broker, neighbours in tree.neighbours().items():
        machine = TreeRouting(broker, neighbours, reduction="simple", advertised=False)
        if matcher == "plain":
            machine.matcher = PlainTree()
        machines[broker] = machine
    return Net(machines, tree)


def _at_source(overlay: Overlay, matcher: str, made: Callable[..., GraphRouting]) -> Net:
    new_matcher = Plain if matcher == "plain" else IndexMatcher
    return Net({broker: made(broker, new_matcher=new_matcher) for broker in overlay.brokers}, overlay)


def _hops(overlay: Overlay, matcher: str, strategy: Literal["gsf", "spcf"], rate: float = RATE) -> Net:
    links = [(link.a, link.b, link.cost) for link in overlay.links]
    made = PlainHops if matcher == "plain" else HopRouting
    machines: dict[NodeId, Routing] = {
        broker: made(broker, neighbours, links, strategy=strategy, bloom_rate=rate)
        for broker, neighbours in overlay.neighbours().items()
    }
    return Net(machines, overlay)


STRATEGIES: dict[str, Callable[[Overlay, str], Net]] = {
    "ASF": _asf,
    "GSF": lambda overlay, matcher: _hops(overlay, matcher, "gsf"),
    "SPCF": lambda overlay, matcher: _hops(overlay, matcher, "spcf"),
    "GSF at source": lambda overlay, matcher: _at_source(overlay, matcher, GraphRouting),
    "SPCF at source": lambda overlay, matcher: _at_source(overlay, matcher, spcf_routing),
}
"""What is compared: the paper's three, matched at every hop; and what runs here, matched where it is published."""


def net_of(strategy: str, overlay: Overlay, matcher: str = "index") -> Net:
    """A settled network without clients; its matcher is `plain` or `index`."""
    return STRATEGIES[strategy](overlay, matcher)


def spcf_net(overlay: Overlay, bloom_rate: float) -> Net:
    """SPCF at every hop, with Bloom filters of this rate of false positives."""
    return _hops(overlay, "plain", "spcf", bloom_rate)
