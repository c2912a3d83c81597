"""The driver on virtual time: nodes that run the machines, wires between them, disks, crashes.

*Theory.* The clock determines what happens next (`simulated_clock.py`). A node runs one machine. Arriving messages
become inputs; the machine's effects are carried out at once or, for a broker with a slow disk, when the inputs that
caused them are on the disk. A broker that crashes and keeps its disk restarts from its last snapshot and replays the
journalled inputs without effects; one that loses its disk starts as a new incarnation.

*Rules.*
1. Nothing here reads a clock or uses an unseeded generator, and nothing iterates over a set.
2. No effect leaves a broker before the input that caused it is on its disk.
3. A node that is down handles nothing, and nothing that was on its wires arrives.
4. The driver changes nothing in a machine and inspects one only for the checkers.

*Profile.* After all clients have subscribed, about a third of a message's cost is matching, a third the machine (link,
routing), a third this driver. The loop pops plain tuples; effects are dispatched by their type, most frequent first.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ulp
from typing import Any, Protocol, cast

import msgspec

from godwit.adhoc.radio_messages import Beacon, Relayed
from godwit.broker.broker import Broker
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
    TailLost,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Advertise, Frame, NodeId, Packet, Subscribe
from godwit.broker.stream_messages import HopPacket
from godwit.codec.snapshots import DriverState, gone, open_ends, pack, unpack
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.language import to_text
from godwit.simulator.message_sizes import UNSIZED, size_of
from godwit.simulator.simulated_clock import SimulatedClock
from godwit.simulator.wires import Wire
from godwit.trace import Record

__all__ = ["Machine", "Node", "Recoverable", "World", "snapshot_of"]

FULL_DISK_RETRY_S = 0.25
SNAPSHOT_EVERY = 5_000  # inputs


Link = tuple[Wire, int]
"""A wire and its connection, as known to the source's machine, in the order of its effects."""


class Machine(Protocol):
    """The machine of a node: a broker or a client."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Handle one input; returns the effects in order."""


class Recoverable(Machine, Protocol):
    """A machine with snapshots: a broker with a disk."""

    def snapshot(self) -> msgspec.Struct:
        """Its complete state."""

    def restore(self, state: Any) -> None:
        """Continue from that state, in a new machine with the same settings."""


class Node:
    """A machine, its disk and its clock."""

    def __init__(self, name: NodeId, make: Callable[[int], Machine], *, is_broker: bool) -> None:
        self.name = name
        self.make = make
        self.is_broker = is_broker
        self.incarnation = 1
        self.machine = make(1)
        self.alive = True
        self.wires: dict[NodeId, Wire] = {}  # outgoing, by the node at the other end
        self.connections: dict[str, Wire] = {}  # of clients, by the name that the broker's machine knows
        self.timers: dict[TimerKey, int] = {}  # the number of the heap's entry that counts
        self.skew_s = 0.0
        self.slow_s = 0.0
        self.work_s = 0.0  # what each message of a neighbour or client takes, acknowledgements apart
        self.busy_until = 0.0
        self.life = 0  # counts crashes: what an earlier life requested is void
        # the disk
        self.journaled = False
        self.sync_s = 0.0
        self.journal: list[tuple[Input, float]] = []
        self.durable = 0
        self.snapshot: tuple[int, bytes] | None = None
        self.asked: dict[TimerKey, float] = {}  # timers that run, and
        self.open: dict[Input, None] = {}  # connections, as far as the journalled inputs go
        self.is_full = False  # nothing becomes durable
        self.unsynced: list[Effect | Link] = []
        self.syncing: list[Effect | Link] | None = None


class World:
    """Everything in one simulation: nodes, wires and time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = SimulatedClock()
        self.nodes: dict[NodeId, Node] = {}
        self.handled: dict[type, int] = {}  # messages by type
        self.packets: dict[
            type, int
        ] = {}  # and packets of the graph family by what they bear, or by type where matched at hops
        self.bytes_sent = 0
        self.on_notify: Callable[[NodeId, Notify, float], None] | None = None
        self.on_record: Callable[[NodeId, Record, float], None] | None = None
        self.on_effects: Callable[[NodeId, Input, list[Any]], None] | None = None  # of a broker that is up
        self.admits: Callable[[NodeId, str, Any], Any] | None = None  # what a broker hears of a client's message
        self.traces_messages = False
        self.asserted: dict[NodeId, Attributes] = {}  # what brokers are told of a client's context, by its token
        self.size_of: Callable[[Any], int] = size_of

    # ------------------------------------------------------------ time

    @property
    def now(self) -> float:
        """The time of the clock."""
        return self.clock.now

    def at(self, at: float, do: Callable[[Any, Any, Any], None], a: Any = None, b: Any = None, c: Any = None) -> int:
        """Schedule `do(a, b, c)` at a time. Returns the number of the entry."""
        return self.clock.at(at, do, a, b, c)

    def run(self, until: float) -> None:
        """Run all entries that are due up to and including that time."""
        self.clock.run(until)

    # ------------------------------------------------------------ building

    def add_broker(
        self,
        name: NodeId,
        make: Callable[[int], Machine],
        *,
        journaled: bool,
        sync_s: float = 0.0,
        work_s: float = 0.0,
    ) -> None:
        """Add a broker; `make(incarnation)` returns its machine, at the start and after the loss of its disk."""
        node = self.nodes[name] = Node(name, make, is_broker=True)
        node.work_s = work_s
        node.journaled = journaled
        node.sync_s = sync_s if journaled else 0.0

    def add_client(self, name: NodeId, machine: Machine) -> None:
        """A client's device."""
        self.nodes[name] = Node(name, lambda _: machine, is_broker=False)

    def wire(self, a: NodeId, b: NodeId, latency_s: float, bandwidth_bps: float | None) -> None:
        """Add wires in both directions between two nodes, without a connection."""
        for source, target in ((a, b), (b, a)):
            wire = Wire(self.nodes[source], self.nodes[target], latency_s, bandwidth_bps, self.seed)
            self.nodes[source].wires[target] = wire

    def connect(self, a: NodeId, b: NodeId) -> bool:
        """Open a connection between two wired nodes; False if it is open or one of them is down."""
        one, other = self.nodes[a], self.nodes[b]
        there, back = one.wires[b], other.wires[a]
        if there.up or not (one.alive and other.alive):
            return False
        for wire in (there, back):
            wire.up = True
            wire.connection += 1
            wire.free_at = self.now
        self._record(a, Record("link_up", b))
        for node, peer in ((one, b), (other, a)):
            wire = node.wires[peer]
            if one.is_broker and other.is_broker:
                self._give(node, LinkUp(peer), wire)
            else:
                asserted = self.asserted.get(peer, {}) if node.is_broker else {}
                self._give(node, Opened(self._connection(node, wire), asserted), wire)
        return True

    def disconnect(self, a: NodeId, b: NodeId) -> bool:
        """Break the connection between two nodes, and lose its messages; False if there is none."""
        one, other = self.nodes[a], self.nodes[b]
        there, back = one.wires[b], other.wires[a]
        if not there.up:
            return False
        self._record(a, Record("link_down", b))
        self._cut(there, back)
        return True

    def _cut(self, *wires: Wire) -> None:
        """Remove a connection; ends that are up and whose outgoing wire is given are notified."""
        for wire in wires:
            node, peer = wire.source, wire.target
            if node.alive:
                both_brokers = node.is_broker and peer.is_broker
                self._give(node, LinkDown(peer.name) if both_brokers else Closed(self._connection(node, wire)))
        one = wires[0]
        for wire in (one, one.target.wires[one.source.name]):
            wire.source.connections.pop(f"{wire.target.name}#{wire.connection}", None)
            wire.up = False
            wire.connection += 1

    def _connection(self, node: Node, wire: Wire) -> str:
        """The name of a client's connection: the broker at a client, a unique name at a broker."""
        if not node.is_broker:
            return str(wire.target.name)
        name = f"{wire.target.name}#{wire.connection}"
        node.connections[name] = wire
        return name

    def command(self, name: NodeId, do: Callable[[Any, float], list[Effect]]) -> None:
        """Call a client's machine as its application: `do(machine, now)`."""
        node = self.nodes[name]
        self._carry_out(node, do(node.machine, self.now + node.skew_s))

    # ------------------------------------------------------------ crashes

    def tail(self, name: NodeId, count: int) -> list[Input]:
        """The last inputs on a broker's disk."""
        node = self.nodes[name]
        return [input for input, _ in node.journal[max(0, node.durable - count) : node.durable]]

    def tail_begins_s(self, name: NodeId, count: int) -> float:
        """The time of the first of these inputs."""
        node = self.nodes[name]
        tail = node.journal[max(0, node.durable - count) : node.durable]
        return tail[0][1] - node.skew_s if tail else self.now

    def before_tail(self, name: NodeId, count: int) -> Machine:
        """A broker's machine before these inputs, restored from the rest of its disk."""
        node = self.nodes[name]
        cut = max(0, node.durable - count)
        machine, start = node.make(node.incarnation), 0
        if node.snapshot is not None and node.snapshot[0] <= cut:
            start = node.snapshot[0]
            unpack(node.snapshot[1], cast(Recoverable, machine))
        for input, now in node.journal[start:cut]:
            machine.handle(input, now)
        return machine

    def disk(self, name: NodeId) -> tuple[list[tuple[Input, float]], tuple[int, bytes] | None]:
        """A broker's disk: all its inputs, and a snapshot of the machine after the first so many."""
        node = self.nodes[name]
        return node.journal[: node.durable], node.snapshot

    def replace_inputs(self, name: NodeId, inputs: Sequence[tuple[Input, float]]) -> None:
        """The disk of a broker that is down has these inputs after its snapshot."""
        node = self.nodes[name]
        node.journal[0 if node.snapshot is None else node.snapshot[0] :] = inputs
        node.durable = len(node.journal)

    def crash(self, name: NodeId, *, keeps_disk: bool, loses: int = 0) -> None:
        """Stop a broker at once, with or without its disk; `loses`: the number of last inputs that the disk loses."""
        node = self.nodes[name]
        if not node.alive:
            return
        node.alive = False
        node.life += 1
        node.timers.clear()
        node.unsynced, node.syncing = [], None
        node.busy_until = 0.0
        del node.journal[node.durable :]
        if not keeps_disk:
            node.journal.clear()
            node.durable, node.snapshot = 0, None
            lived = getattr(node.machine, "incarnation", 0)  # it may have begun lives by itself
            node.incarnation = max(node.incarnation, lived) + 1
        elif loses:
            node.durable = max(0, node.durable - loses)
            del node.journal[node.durable :]
            if node.snapshot is not None and node.snapshot[0] > node.durable:
                node.snapshot = None
        detail = "disk lost" if not keeps_disk else "disk rolled back" if loses else "disk kept"
        self._record(name, Record("crashed", detail=detail))
        for peer, wire in node.wires.items():
            if wire.up:
                self._cut(self.nodes[peer].wires[name])

    def restart(self, name: NodeId, *, tail_lost: bool = False) -> None:
        """Restart a crashed broker from its disk; `tail_lost`: the disk reports a loss."""
        node = self.nodes[name]
        if node.alive:
            return
        node.alive = True
        open_connections = self._recover(node)
        self._record(name, Record("restarted"))
        if isinstance(node.machine, Broker) and (node.journal or node.snapshot is not None):
            self._give(node, Restarted())
        for end in open_connections:
            self._give(node, end)
        if tail_lost:
            since = node.journal[-1][1] if node.journal else 0.0
            self._give(node, TailLost(int((self.now + node.skew_s) * 1_000), since))

    def _recover(self, node: Node) -> list[Input]:
        """Replay the journal, with no effects except timers. Returns the inputs that close everything that was open."""
        node.asked, node.open = {}, {}
        node.machine = node.make(node.incarnation)
        start = 0
        if node.snapshot is not None:
            start = node.snapshot[0]
            driver = unpack(node.snapshot[1], cast(Recoverable, node.machine))
            node.asked = dict(driver.timers)
            node.open = gone(driver.open)
        for input, now in node.journal[start : node.durable]:
            _follow(node, input, node.machine.handle(input, now))
        for key, at in node.asked.items():
            self._start_timer(node, StartTimer(key, at))
        return list(node.open)

    def _take_snapshot(self, node: Node) -> None:
        node.snapshot = (len(node.journal), snapshot_of(node, self.now))

    # ------------------------------------------------------------ inputs

    def _arrive(self, wire: Wire, connection: int, message: Any) -> None:
        """A message arrives."""
        if wire.connection != connection:
            return
        target: Node = wire.target
        source: str = wire.source.name
        if type(message) is Frame and wire.source.is_broker:
            inner: Any = message.message
            kind = type(inner)
            self.handled[kind] = self.handled.get(kind, 0) + 1
            if kind is Packet:
                borne = type(inner.message)
                self.packets[borne] = self.packets.get(borne, 0) + 1
            elif kind is HopPacket:
                self.packets[kind] = self.packets.get(kind, 0) + 1
            if self.traces_messages:
                self._record(target.name, self._message_record(source, message.message, message.number))
            self._give(target, Arrived(source, message))
            return
        kind = type(message)
        self.handled[kind] = self.handled.get(kind, 0) + 1
        if target.is_broker and wire.source.is_broker:
            if self.traces_messages and kind in (Beacon, Relayed):
                self._record(target.name, self._message_record(source, message, -1))
            self._give(target, Arrived(source, message))
        else:
            if self.traces_messages:
                self._record(target.name, self._message_record(source, message, -1))
            if target.is_broker and self.admits is not None:
                message = self.admits(target.name, source, message)
            self._give(target, Heard(f"{source}#{connection}" if target.is_broker else source, message))

    def give(self, name: NodeId, input: Input) -> None:
        """Pass an input of the driver to a broker that is up."""
        if self.nodes[name].alive:
            self._give(self.nodes[name], input)

    def _give(self, node: Node, input: Input, opened: Wire | None = None) -> None:
        """Let a node handle an input: at once, or after pending ones. `opened`: the wires that it may use."""
        if node.slow_s or node.work_s or node.busy_until > self.clock.now:
            work_s = node.work_s if node.work_s and _is_work(input) else 0.0
            node.busy_until = max(self.now, node.busy_until) + node.slow_s + work_s
            link = None if opened is None else (opened, opened.connection)
            self.at(node.busy_until, self._handle_late, node, (input, link), node.life)
        else:
            self._handle(node, input, None if opened is None else (opened, opened.connection))

    def _handle_late(self, node: Node, late: tuple[Input, Link | None], life: int) -> None:
        if node.life == life:
            self._handle(node, *late)

    def _handle(self, node: Node, input: Input, link: Link | None = None) -> None:
        now = self.clock.now + node.skew_s
        effects: list[Any] = node.machine.handle(input, now)
        if self.on_effects is not None and node.is_broker:
            self.on_effects(node.name, input, effects)
        if node.journaled:
            _follow(node, input, effects)
        if link is not None:  # effects that still wait for the disk belong to the connection before
            effects = [link, *effects]
        if not node.journaled:
            self._carry_out(node, effects)
            return
        node.journal.append((input, now))
        if node.sync_s or node.is_full or node.syncing is not None:
            node.unsynced += effects
            if node.syncing is None:
                self._start_sync(node)
            return
        node.durable = len(node.journal)
        self._carry_out(node, effects)
        if node.durable - (node.snapshot[0] if node.snapshot else 0) >= SNAPSHOT_EVERY:
            self._take_snapshot(node)

    def _start_sync(self, node: Node) -> None:
        node.syncing, node.unsynced = node.unsynced, []
        self.at(self.now + node.sync_s, self._on_synced, node, node.life, len(node.journal))

    def _on_synced(self, node: Node, life: int, durable: int) -> None:
        """The journalled inputs are on the disk: their effects may leave."""
        if node.life != life:
            return
        if node.is_full:
            self.at(self.now + FULL_DISK_RETRY_S, self._on_synced, node, life, durable)
            return
        effects, node.syncing = node.syncing, None
        node.durable = durable
        assert effects is not None
        self._carry_out(node, effects)
        if len(node.journal) > node.durable:
            self._start_sync(node)
        elif node.durable - (node.snapshot[0] if node.snapshot else 0) >= SNAPSHOT_EVERY:
            self._take_snapshot(node)

    # ------------------------------------------------------------ effects

    def _carry_out(self, node: Node, effects: Sequence[Effect | Link]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._transmit(node.wires[effect.peer], effect.frame)  # type: ignore[union-attr]
            elif kind is Tell:
                wires = node.connections if node.is_broker else node.wires
                self._transmit(wires.get(effect.connection), effect.message)  # type: ignore[union-attr]
            elif kind is StartTimer:
                self._start_timer(node, effect)  # type: ignore[arg-type]
            elif kind is Notify:
                if self.on_notify is not None:
                    self.on_notify(node.name, effect, self.now)  # type: ignore[arg-type]
            elif kind is StopTimer:
                node.timers.pop(effect.key, None)  # type: ignore[union-attr]
            elif kind is Trace:
                self._record(node.name, effect.record)  # type: ignore[union-attr]
            elif kind is tuple:
                effect[0].linked = effect[1]  # type: ignore[index]
            else:
                assert isinstance(effect, Close)
                self._close(node, effect)

    def _transmit(self, wire: Wire | None, message: Any) -> None:
        if wire is None or wire.linked != wire.connection:
            return
        size = self.size_of(message)
        self.bytes_sent += size
        clock = self.clock
        for at in wire.arrivals(size, clock.now) if wire.faulty else (wire.arrival(size, clock.now),):
            clock.at(at, self._arrive, wire, wire.connection, message)

    def _close(self, node: Node, close: Close) -> None:
        """Close a connection after its messages: only the other end is notified."""
        wire = node.connections.get(close.peer) if node.is_broker else None
        wire = wire or node.wires.get(close.peer)
        self._record(node.name, Record("closed", close.peer.partition("#")[0], detail=close.reason))
        if wire is not None and wire.linked == wire.connection:
            self.at(max(self.now, wire.free_at) + wire.latency_s, self._closed, wire, wire.connection)

    def _closed(self, wire: Wire, connection: int, _: None) -> None:
        if wire.connection == connection:
            self._cut(wire.target.wires[wire.source.name])

    def _start_timer(self, node: Node, start: StartTimer) -> None:
        at = max(start.at - node.skew_s, self.now)
        while at + node.skew_s < start.at:  # rounded down: it would be early by its node's clock, and be started again
            at += max(ulp(at), ulp(start.at))
        node.timers[start.key] = self.at(at, self._timer_due, node, start.key, self.clock.entries + 1)

    def _timer_due(self, node: Node, key: TimerKey, number: int) -> None:
        if node.timers.get(key) == number:
            del node.timers[key]
            self._give(node, TimerDue(key))

    def _message_record(self, peer: NodeId, message: Any, number: int) -> Record:
        """Record a message in the trace, with its event if it has one."""
        inner = getattr(message, "wish", message)
        inner = getattr(inner, "message", inner)
        event = getattr(inner, "event", None)
        publisher, sequence = event.id if event is not None else ("", -1)
        number = number if number >= 0 else getattr(message, "number", -1)
        kind, size = type(message).__name__, self.size_of(message)
        return Record("handled", peer, kind, publisher, sequence, number=number, size=size, detail=_said(message))

    def _record(self, node: NodeId, record: Record) -> None:
        if self.on_record is not None:
            self.on_record(node, record, self.now)


def snapshot_of(node: Node, now: float) -> bytes:
    """A node's machine, its timers and open connections, as stored on its disk."""
    return pack(cast(Recoverable, node.machine), DriverState(dict(node.asked), open_ends(node.open), now))


def _said(message: Any) -> str:
    """What the trace says of a message: the type of what it carries, or the filter whose tree it builds."""
    kind = type(message)
    if kind is Relayed:
        return type(message.body).__name__
    return _filter_text(message.filter) if kind is Advertise or kind is Subscribe else ""


@lru_cache(maxsize=4096)
def _filter_text(filter: Filter) -> str:
    return to_text(filter)


def _is_work(input: Input) -> bool:
    """Whether this is a message, other than those of links and sessions themselves."""
    if type(input) is Arrived:
        return type(input.frame) not in UNSIZED
    return type(input) is Heard and type(input.message) not in UNSIZED


def _follow(node: Node, input: Input, effects: list[Effect]) -> None:
    """Update timers and open connections from a journalled input and its effects; connections are kept as the inputs
    that close them."""
    match input:
        case TimerDue(key=key):
            node.asked.pop(key, None)
        case LinkUp(peer=peer):
            node.open[LinkDown(peer)] = None
        case Opened(connection=connection):
            node.open[Closed(connection)] = None
        case LinkDown() | Closed():
            node.open.pop(input, None)
    for effect in effects:
        if type(effect) is StartTimer:
            node.asked[effect.key] = effect.at
        elif type(effect) is StopTimer:
            node.asked.pop(effect.key, None)
