"""A network of pure machines, with a clock that only the test advances.

*Theory.* A machine takes an input and returns effects. `Machines` carries them out: a sent message is in transit until
it arrives at another machine, first in, first out on each wire; a timer is due when the test advances the clock. The
test decides what happens next: `step` and `deliver` let one message arrive, `run` all of them, `pass_time` advances the
clock, `cut`, `lose` and `crash` are faults. Nothing is random, and nothing reads the system's clock.

Nodes are brokers (anything with `handle(input, now)`, connected by links) and clients. A client is a client's machine
(`attach`), or has no machine: then the test sends its messages (`say`) and reads the answers (`told`).

*Rules.*
1. On one wire messages arrive in the order of sending, unless the test picks another one (`deliver(a, b, which)`).
2. Messages arrive in the order (time, sequence of sending). At equal times an arrival precedes a timer.
3. Cutting a connection drops the messages in transit, unless wires keep them (`keeps`): then they wait until the ends
   are connected again, and `undelivered` returns them.
4. A crashed node handles nothing. It restarts from its journal, the list of the inputs that it has handled, or without
   it as a new incarnation.
5. `trace` has all records, `log` all inputs with their effects, in order.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Notify,
    Opened,
    Restarted,
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Ack, Frame, Goodbye, Hello, NodeId, Packet
from godwit.client import Client, ClientConfig
from godwit.filters.events import Attributes
from godwit.mobility import Movements
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.testing.broker_factory import NO_PUBLISHERS, Topology, broker, neighbours, topology
from godwit.testing.observations import Handled, Notified, Recorded, Sent, Told
from godwit.trace import Record

__all__ = ["Machine", "Machines", "build", "machines"]

STEPS_MAX = 100_000
OF_LINKS = (Ack, Goodbye, Hello)  # what links need for themselves
CLOSED = object()  # the last thing on a connection that one end has closed


class Machine(Protocol):
    """The machine of a node: a broker or a client."""

    def handle(self, input: Any, now: float) -> list[Any]:
        """Handle one input; returns the effects in order."""


Make = Callable[[int], Any]
"""Makes the machine of a node for an incarnation: 1, and one more after each loss of its disk."""


class _Travelling:
    """Something under way."""

    __slots__ = ("at", "is_gone", "message", "number", "source", "target")

    def __init__(self, at: float, number: int, source: NodeId, target: NodeId, message: Any) -> None:
        self.at = at
        self.number = number
        self.source = source
        self.target = target
        self.message = message
        self.is_gone = False

    def __lt__(self, other: "_Travelling") -> bool:
        return (self.at, self.number) < (other.at, other.number)


class _Node:
    """A machine and its disk."""

    def __init__(self, make: Make, *, is_broker: bool) -> None:
        self.make = make
        self.is_broker = is_broker
        self.incarnation = 1
        self.machine: Any = make(1)
        self.is_alive = True
        self.journal: list[tuple[Any, float]] = []
        self.asked: dict[TimerKey, float] = {}  # what ran when it crashed: timers,
        self.open: list[Input] = []  # and connections, each as its end;
        self.peers: list[NodeId] = []  # those to other brokers


class Machines:
    """A network of machines. `machines` makes one of brokers."""

    def __init__(self, *, latency_s: float = 0.0, keeps: bool = False) -> None:
        self.now = 0.0
        self.latency_s = latency_s
        self.latencies: dict[tuple[NodeId, NodeId], float] = {}  # of wires that have another one
        self.keeps = keeps
        self.blocked: set[tuple[NodeId, NodeId]] = set()  # wires on which all messages are lost silently
        self.timers: dict[tuple[NodeId, TimerKey], float] = {}
        self.brokers: dict[NodeId, Any] = {}
        self.clients: dict[NodeId, Any] = {}
        self.at: dict[NodeId, NodeId] = {}  # the broker that a client is connected to
        self.open: dict[tuple[NodeId, str], None] = {}  # connections whose client is the test
        # what was seen
        self.trace: list[Recorded] = []
        self.log: list[Handled] = []
        self.sent: list[Sent] = []
        self.told: list[Told] = []
        self.heard: list[tuple[NodeId, Any]] = []  # messages of clients
        self.notifications: list[Notified] = []
        self.handled: Counter[type] = Counter()  # messages that have arrived, by type
        self.packets: Counter[type] = Counter()  # messages of the graph family, by content
        self.on_notify: Callable[[NodeId, Notify, float], None] | None = None
        self.on_effect: Callable[[NodeId, Any], None] | None = None  # for effects that brokers do not have
        self._nodes: dict[NodeId, _Node] = {}
        self._up: dict[tuple[NodeId, NodeId], None] = {}  # wires, each with its direction
        self._under_way: dict[tuple[NodeId, NodeId], deque[_Travelling]] = defaultdict(deque)
        self._delivered: dict[tuple[NodeId, NodeId], list[Any]] = defaultdict(list)  # wires that keep: unacknowledged
        self._arrivals: list[_Travelling] = []  # a heap
        self._planned: list[tuple[float, int, Callable[[], object]]] = []  # a heap
        self._connections: dict[tuple[NodeId, str], NodeId] = {}  # of clients with a machine, by their name there
        self._connection_of: dict[tuple[NodeId, NodeId], str] = {}  # by client and broker
        self._opened: Counter[tuple[NodeId, NodeId]] = Counter()
        self._number = 0

    # ------------------------------------------------------------ building

    def add_broker(self, name: NodeId, make: Make) -> Any:
        """Add a broker; `make(incarnation)` returns its machine."""
        node = self._nodes[name] = _Node(make, is_broker=True)
        self.brokers[name] = node.machine
        return node.machine

    def add_client(self, name: NodeId, machine: Any) -> Any:
        """Add a client, which is not connected yet."""
        self._nodes[name] = _Node(lambda _: machine, is_broker=False)
        self.clients[name] = machine
        return machine

    def machine(self, name: NodeId) -> Any:
        """The machine of a node."""
        return self.brokers[name] if name in self.brokers else self.clients[name]

    def replace(self, name: NodeId, machine: Any) -> None:
        """Replace the machine of a node, without any input."""
        node = self._nodes[name]
        (self.brokers if node.is_broker else self.clients)[name] = machine
        node.make, node.journal = (lambda _: machine), []

    def set_latency(self, a: NodeId, b: NodeId, latency_s: float) -> None:
        """Set the delay of messages between two nodes, in both directions."""
        self.latencies[a, b] = self.latencies[b, a] = latency_s

    # ------------------------------------------------------------ links and connections

    def is_joined(self, a: NodeId, b: NodeId) -> bool:
        """Whether there is a connection between two nodes."""
        return (a, b) in self._up

    def join(self, a: NodeId, b: NodeId, asserted: Attributes | None = None) -> bool:
        """Connect two nodes; False if they are connected, or one is down. `asserted`: the asserted context of a
        client."""
        one, other = self._nodes[a], self._nodes[b]
        if (a, b) in self._up or not (one.is_alive and other.is_alive):
            return False
        self._up[a, b] = self._up[b, a] = None
        if one.is_broker and other.is_broker:
            self.give(a, LinkUp(b))
            self.give(b, LinkUp(a))
            return True
        client, at = (b, a) if one.is_broker else (a, b)
        self._opened[client, at] += 1
        count = self._opened[client, at]
        name = client if count == 1 else f"{client}#{count}"
        self._connections[at, name], self._connection_of[client, at], self.at[client] = client, name, at
        self.give(at, Opened(name, asserted or {}))
        self.give(client, Opened(at))
        return True

    def cut(self, a: NodeId, b: NodeId, noticed_by: Iterable[NodeId] | None = None) -> bool:
        """Break the connection between two nodes; both notice, or only the named ones. False if there is none."""
        if (a, b) not in self._up:
            return False
        ends = [(here, self._end(here, there)) for here, there in ((a, b), (b, a))]
        self._disconnect(a, b)
        for here, end in ends:
            if noticed_by is None or here in noticed_by:
                self.give(here, end)
        return True

    def _end(self, here: NodeId, there: NodeId) -> Input:
        """The input of a node when its connection to another has closed."""
        if self._nodes[here].is_broker and self._nodes[there].is_broker:
            return LinkDown(there)
        return Closed(self._connection_of[there, here] if self._nodes[here].is_broker else there)

    def _disconnect(self, a: NodeId, b: NodeId) -> None:
        for wire in ((a, b), (b, a)):
            self._up.pop(wire, None)
            if not self.keeps:
                self._drop(wire)
        for client, at in ((a, b), (b, a)):
            if (name := self._connection_of.pop((client, at), None)) is not None:
                del self._connections[at, name]
                if self.at.get(client) == at:
                    del self.at[client]

    def _drop(self, wire: tuple[NodeId, NodeId]) -> list[Any]:
        dropped = self._under_way.pop(wire, deque())
        for each in dropped:
            each.is_gone = True
        return [each.message for each in dropped]

    # ------------------------------------------------------------ clients

    def attach(self, name: NodeId, at: NodeId, asserted: Attributes | None = None, **config: Any) -> Any:
        """Connect a client to a broker, and let all messages arrive. Returns its machine."""
        self.arrive(name, at, asserted, **config)
        self.run()
        return self.clients[name]

    def arrive(self, name: NodeId, at: NodeId, asserted: Attributes | None = None, **config: Any) -> None:
        """The same, with the client's messages in transit."""
        if name not in self.clients:
            self.add_client(name, Client(name, msgspec.convert(config, ClientConfig)))
        self.leave(name)
        self.join(name, at, asserted)

    def leave(self, name: NodeId) -> None:
        """Disconnect a client; messages in transit are lost."""
        for client, at in list(self._connection_of):
            if client == name:
                self.cut(client, at)

    def detach(self, name: NodeId) -> None:
        """The same, and let all messages arrive."""
        self.leave(name)
        self.run()

    def command(self, name: NodeId, do: Callable[[Any, float], list[Effect]]) -> None:
        """Call a client's machine as its application: `do(machine, now)`."""
        self.carry_out(name, do(self.machine(name), self.now))

    def ask(self, name: NodeId, effects: list[Effect]) -> None:
        """Carry out the effects of a client's machine, and let all messages arrive."""
        self.carry_out(name, effects)
        self.run()

    def say(self, at: NodeId, connection: str, message: Any) -> None:
        """Send a message as a client, over a connection that may be new, and let all messages arrive."""
        self.open[at, connection] = None
        self.put(at, Heard(connection, message))

    def hang_up(self, at: NodeId, connection: str) -> None:
        """Close the connection of that client."""
        self.open.pop((at, connection), None)
        self.put(at, Closed(connection))

    # ------------------------------------------------------------ inputs and effects

    def give(self, name: NodeId, input: Any) -> list[Any]:
        """Let a node handle an input, and carry out its effects, which are returned."""
        node = self._nodes[name]
        if not node.is_alive:
            return []
        effects: list[Any] = self.machine(name).handle(input, self.now)
        node.journal.append((input, self.now))
        self.log.append(Handled(self.now, name, input, effects))
        self.carry_out(name, effects)
        return effects

    def put(self, name: NodeId, input: Any) -> None:
        """The same, and let all messages arrive."""
        self.give(name, input)
        self.run()

    def forge(self, source: NodeId, to: NodeId, message: Any) -> None:
        """Send any message from a broker to its neighbour."""
        effects: list[Any] = []
        self.brokers[source].links[to].send(message, effects, self.now)
        self.carry_out(source, [each for each in effects if isinstance(each, Send)])
        self.run()

    def carry_out(self, name: NodeId, effects: Iterable[Any]) -> None:
        """Carry out the effects of a machine."""
        is_broker = self._nodes[name].is_broker
        for effect in effects:
            match effect:
                case Send(peer=peer):
                    frame: Any = effect.frame  # of other machines than brokers it may be anything
                    if not isinstance(frame, OF_LINKS):
                        self.sent.append(Sent(name, peer, frame.message if isinstance(frame, Frame) else frame))
                    self._transmit(name, peer, frame)
                case Tell(connection=connection, message=message) if is_broker:
                    client = self._connections.get((name, connection))
                    self.told.append(Told(name, client or connection, message))
                    if client is not None:
                        self._transmit(name, client, message)
                case Tell(connection=connection, message=message):
                    self.heard.append((name, message))
                    self._transmit(name, connection, message)
                case Close(peer=peer):
                    self.open.pop((name, peer), None)
                    self._transmit(name, self._connections.get((name, peer), peer), CLOSED)
                case Notify(event=event, subscriptions=subscriptions):
                    self.notifications.append(Notified(self.now, name, event, subscriptions))
                    if self.on_notify is not None:
                        self.on_notify(name, effect, self.now)
                case StartTimer(key=key, at=at):
                    self.timers[name, key] = at
                case StopTimer(key=key):
                    self.timers.pop((name, key), None)
                case Trace(record=record):
                    self.trace.append(Recorded(self.now, name, record))
                case _:
                    assert self.on_effect is not None, f"{name} asks for {effect}: unknown effect"
                    self.on_effect(name, effect)

    def _transmit(self, source: NodeId, target: NodeId, message: Any) -> None:
        if ((source, target) in self._up or self.keeps) and (source, target) not in self.blocked:
            self._number += 1
            queue = self._under_way[source, target]
            at = self.now + self.latencies.get((source, target), self.latency_s)
            travelling = _Travelling(max(at, queue[-1].at) if queue else at, self._number, source, target, message)
            queue.append(travelling)
            heappush(self._arrivals, travelling)

    def _arrive(self, travelling: _Travelling) -> None:
        source, target, message = travelling.source, travelling.target, travelling.message
        if message is CLOSED:
            end = self._end(target, source)
            self._disconnect(source, target)
            self.give(target, end)
            return
        inner = message.message if isinstance(message, Frame) else message
        self.handled[type(inner)] += 1
        if isinstance(inner, Packet):
            self.packets[type(inner.message)] += 1
        if self._nodes[source].is_broker and self._nodes[target].is_broker:
            self.give(target, Arrived(source, message))
        else:
            to_broker = self._nodes[target].is_broker
            self.give(target, Heard(self._connection_of[source, target] if to_broker else source, message))

    # ------------------------------------------------------------ what is under way

    def ready(self) -> list[tuple[NodeId, NodeId]]:
        """The connected wires with messages in transit, each with its direction."""
        return [wire for wire in sorted(self._under_way) if self._under_way[wire] and wire in self._up]

    def under_way(self, source: NodeId, target: NodeId) -> list[Any]:
        """The messages in transit on a wire, in order."""
        return [each.message for each in self._under_way[source, target]]

    def deliver(self, source: NodeId, target: NodeId, which: int = 0) -> Any:
        """Let the first message of a wire arrive, or another one. Returns it."""
        travelling = self._taken(source, target, which)
        if self.keeps:
            self._delivered[source, target].append(travelling.message)
        self.now = max(self.now, travelling.at)
        self._arrive(travelling)
        return travelling.message

    def lose(self, source: NodeId, target: NodeId, which: int = 0) -> Any:
        """Lose a message. Returns it."""
        return self._taken(source, target, which).message

    def double(self, source: NodeId, target: NodeId, which: int = 0) -> None:
        """Duplicate a message: the copy is the last one on the wire."""
        self._transmit(source, target, self._under_way[source, target][which].message)

    def _taken(self, source: NodeId, target: NodeId, which: int) -> _Travelling:
        queue = self._under_way[source, target]
        travelling = queue[which]
        del queue[which]
        travelling.is_gone = True
        return travelling

    def acknowledge(self, source: NodeId, target: NodeId) -> None:
        """For wires that keep messages: acknowledge all delivered messages to the source."""
        self._delivered.pop((source, target), None)

    def undelivered(self, source: NodeId, target: NodeId) -> list[Any]:
        """For wires that keep messages: take back all unacknowledged messages."""
        return [*self._delivered.pop((source, target), []), *self._drop((source, target))]

    # ------------------------------------------------------------ time

    def plan(self, at: float, do: Callable[[], object]) -> None:
        """Schedule a call at a time."""
        self._number += 1
        heappush(self._planned, (at, self._number, do))

    def step(self) -> bool:
        """Let the next message arrive; False if there is none."""
        travelling = self._next_arrival()
        if travelling is None:
            return False
        self.deliver(travelling.source, travelling.target)
        self.acknowledge(travelling.source, travelling.target)
        return True

    def run(self, until: float | None = None) -> "Machines":
        """Run until no message is in transit; or until a time, with all timers that are due by then."""
        for _ in range(STEPS_MAX):
            travelling = self._next_arrival()
            arrives_at = inf if travelling is None else travelling.at
            (name, key), due_at = self._next_timer()
            planned_at = self._planned[0][0] if self._planned else inf
            first_at = min(arrives_at, due_at, planned_at)
            if first_at > until if until is not None else travelling is None:
                break
            self.now = max(self.now, first_at)
            if arrives_at == first_at:
                self.step()
            elif planned_at == first_at:
                heappop(self._planned)[2]()
            else:
                self.fire(name, key)
        else:
            raise AssertionError(f"after {STEPS_MAX:,} steps messages are still in transit, or timers start each other")
        if until is not None:
            self.now = max(self.now, until)
        return self

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, with all arrivals and timers that are due by then."""
        self.run(self.now + seconds)

    def fire(self, name: NodeId, key: TimerKey) -> None:
        """Let a timer become due."""
        self.now = max(self.now, self.timers.pop((name, key)))
        self.give(name, TimerDue(key))

    def fire_next(self, until: float = inf) -> bool:
        """Advance to the next timer; False if there is none before `until`."""
        (name, key), at = self._next_timer()
        if at >= until:
            return False
        self.fire(name, key)
        return True

    def _next_timer(self) -> tuple[tuple[NodeId, TimerKey], float]:
        nobody: tuple[tuple[NodeId, TimerKey], float] = (("", ()), inf)
        return min(self.timers.items(), key=lambda timer: (timer[1], timer[0]), default=nobody)

    def _next_arrival(self) -> _Travelling | None:
        waiting = []  # on wires that are not connected
        found: _Travelling | None = None
        while self._arrivals and found is None:
            first = self._arrivals[0]
            if first.is_gone:
                heappop(self._arrivals)
            elif (first.source, first.target) not in self._up:
                waiting.append(heappop(self._arrivals))
            else:
                found = first
        for each in waiting:
            heappush(self._arrivals, each)
        return found

    # ------------------------------------------------------------ crashes

    def crash(self, name: NodeId, *, keeps_disk: bool = True, loses: int = 0) -> None:
        """Stop a broker at once, with or without its disk. Connected nodes notice.

        `loses`: the number of last inputs that its disk does not have. The broker does not know.
        """
        node = self._nodes[name]
        if not node.is_alive:
            return
        peers = [there for here, there in self._up if here == name]
        node.open = [self._end(name, peer) for peer in peers]
        node.open += [Closed(connection) for at, connection in self.open if at == name]
        node.asked = {key: at for (who, key), at in self.timers.items() if who == name}
        node.is_alive = False
        self.timers = {timer: at for timer, at in self.timers.items() if timer[0] != name}
        self.open = {connection: None for connection in self.open if connection[0] != name}
        if not keeps_disk:
            node.incarnation += 1
            node.journal, node.open, node.asked = [], [], {}
        if loses:
            self._lose(node, loses)
        node.peers = [peer for peer in peers if peer in self.brokers]
        for peer in peers:
            self.cut(name, peer, noticed_by=[peer])

    def _lose(self, node: _Node, count: int) -> None:
        """Remove the last inputs of a node from its journal. All connections it ever had are closed at its start."""
        del node.journal[-count:]
        machine, node.asked, node.open = node.make(node.incarnation), {}, []
        for input, at in node.journal:
            if isinstance(input, LinkUp | Opened):
                node.open.append(LinkDown(input.peer) if isinstance(input, LinkUp) else Closed(input.connection))
            for effect in machine.handle(input, at):
                if isinstance(effect, StartTimer):
                    node.asked[effect.key] = effect.at
                elif isinstance(effect, StopTimer):
                    node.asked.pop(effect.key, None)

    def restart(self, name: NodeId, *, rejoins: bool = False) -> None:
        """Restart a crashed broker from its disk, with or without its links."""
        node = self._nodes[name]
        if node.is_alive:
            return
        node.is_alive = True
        machine = self.brokers[name] = node.make(node.incarnation)
        for input, at in node.journal:
            machine.handle(input, at)
        for key, due_at in node.asked.items():
            self.timers[name, key] = due_at
        for input in (Restarted(), *node.open) if node.journal else node.open:
            self.give(name, input)
        for peer in node.peers if rejoins else ():
            self.join(name, peer)

    # ------------------------------------------------------------ what was seen

    @property
    def records(self) -> list[Record]:
        """The records of the trace, without time and node."""
        return [each.record for each in self.trace]

    def recorded(self, *kinds: str) -> list[Record]:
        """The records of some kinds."""
        return [record for record in self.records if record.kind in kinds]

    def messages(self, kind: type | None = None) -> list[tuple[NodeId, NodeId]]:
        """Sender and receiver of each message (of that kind) between brokers, since the last call."""
        found = [(a, b) for a, b, message in self.sent if kind is None or type(message) is kind]
        self.sent.clear()
        return found

    def notified(self, client: NodeId) -> list[tuple[str, int]]:
        """Publishers and numbers of the events delivered to a client, in order."""
        return [each.event.id for each in self.notifications if each.client == client]


def machines(
    links: Topology = 3,
    names: Iterable[NodeId] = (),
    *,
    make: Callable[..., Any] | None = None,
    movements: Movements | None = None,
    moving: PublisherConfig = NO_PUBLISHERS,
    config: BrokerConfig | None = None,
    latency_s: float = 0.0,
    **settings: Any,
) -> Machines:
    """A network of brokers' machines with all links connected: `machines("a-b b-c", family="graph")`.

    `names`: brokers besides those that have links. `settings` are those of `BrokerConfig`, or `config` is given.
    `make(name, neighbours, config, incarnation)` makes a machine other than Godwit's broker.
    """
    net = Machines(latency_s=latency_s)
    build(net, links, names, make=make, movements=movements, moving=moving, config=config, **settings)
    return net


def build(
    net: Machines,
    links: Topology,
    names: Iterable[NodeId] = (),
    *,
    make: Callable[..., Any] | None = None,
    movements: Movements | None = None,
    moving: PublisherConfig = NO_PUBLISHERS,
    config: BrokerConfig | None = None,
    **settings: Any,
) -> None:
    """Add brokers to a network and connect them."""
    config = config or BrokerConfig(**settings)
    make = make or partial(broker, movements=movements, moving=moving)
    pairs = topology(links)
    alone = ["b1"] if links == 1 else []
    for name in dict.fromkeys([*names, *alone, *(end for pair in pairs for end in pair)]):
        net.add_broker(name, partial(make, name, neighbours(name, pairs), config))
    for a, b in pairs:
        net.join(a, b)
    net.run()
