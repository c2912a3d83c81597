"""A small deterministic network of broker machines that writes down every input and its effects.

*Theory.* One queue keyed by (time, number). Links and connections have a fixed latency and lose nothing, unless a
script says so. Brokers are the machines under test: each input is written with its time and broker, its effects below
it in their order. Clients are machines too; of these only what their application is told is written. A broker that
restarts with its disk handles the inputs of its journal again, and must answer each with the same effects as before;
one that lost its disk begins a new incarnation.

*Rules.*
1. Brokers are made in `make_broker` and nowhere else, and used only through `handle(input, now)`.
2. Nothing here looks at a clock, draws at random or iterates over a set.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from heapq import heappop, heappush
from math import ceil
from typing import Any

from msgspec import structs

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
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.links import LinkConfig
from godwit.broker.messages import Frame
from godwit.client.client import Client, ClientConfig
from godwit.filters.events import Attributes
from godwit.mobility import Movements, mobile_broker
from godwit.mobility.publisher_presence import PublisherConfig
from tests.transcripts.comparing import Renames
from tests.transcripts.rendering import Writer

__all__ = ["PATIENT", "Network", "make_broker"]

LATENCY_S = 0.01
PATIENT = LinkConfig(ack_s=5.0, resend_s=30.0, resend_s_max=60.0)
"""Links that say little on their own, for scripts that are about something else."""
TICKS_PER_S = 1_000_000  # times of inputs are whole microseconds, never before what was asked for: they read well
STEPS_MAX = 50_000


def make_broker(
    name: str,
    neighbours: Mapping[str, float],
    config: BrokerConfig,
    incarnation: int,
    movements: Movements | None,
    moving: PublisherConfig,
) -> Any:
    """A broker machine: the only place where one is made."""
    return mobile_broker(name, neighbours, config, incarnation, movements=movements, moving=moving)


class Node:
    """A broker, its journal and its timers."""

    def __init__(self, name: str, neighbours: dict[str, float]) -> None:
        self.name = name
        self.neighbours = neighbours
        self.machine: Any = None
        self.incarnation = 1
        self.alive = True
        self.journal: list[tuple[Input, float, list[Effect]]] = []
        self.timers: dict[TimerKey, float] = {}


class Network:
    """Brokers joined by `edges`, such as `"b1-b2 b2-b3"`, and the transcript of what they are told and answer.

    `apart`: brokers without a link. `puppets`: their neighbours, for which a script speaks.
    """

    def __init__(
        self,
        edges: str,
        *,
        movements: Movements | None = None,
        moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
        apart: str = "",
        puppets: str = "",
        **config: Any,
    ) -> None:
        self.lines: list[str] = []
        self.writer = Writer()
        self._opening: list[str] = []  # what `start` sums up
        self.now = 0.0
        self.latency: dict[tuple[str, str], float] = {}  # where it is not LATENCY_S
        self.config = BrokerConfig(**{"link": PATIENT, "attach_policies": ("naive",), **config})
        self._movements = movements
        self._moving = moving
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._entries = 0
        self._numbers = 0  # of clients' connections
        self._open: dict[tuple[str, str], int] = {}  # links and connections that are open, each with its number
        self._connections: dict[str, tuple[str, str]] = {}  # by their name at the broker: broker and client
        self._names: dict[tuple[str, str], str] = {}  # the other way round
        self._written: dict[int, Any] = {}  # frames that brokers have sent, by their identity
        self._dropped: dict[tuple[str, str], int] = {}  # so many of the next frames on a link are lost
        self._timers: dict[tuple[str, TimerKey], int] = {}  # the queue's entry that counts
        self.clients: dict[str, Any] = {}
        self.nodes: dict[str, Node] = {}
        self.edges = [(a, b) for a, _, b in (edge.partition("-") for edge in edges.split())]
        for a, b in self.edges:
            for one, other in ((a, b), (b, a)):
                self.nodes.setdefault(one, Node(one, {})).neighbours[other] = 1.0
        for name in apart.split():
            self.nodes[name] = Node(name, dict.fromkeys(puppets.split(), 1.0))
        shown = structs.replace(self.config, attach_policies=())  # the same in all transcripts
        self.note(f"brokers {' '.join(self.nodes)}, links {edges}, {Writer().written(shown)}")
        for node in self.nodes.values():
            node.machine = self._new_machine(node)
        for a, b in self.edges:
            self.join(a, b)

    def _new_machine(self, node: Node) -> Any:
        return make_broker(node.name, node.neighbours, self.config, node.incarnation, self._movements, self._moving)

    def text(self, renames: Renames) -> str:
        """The transcript, with recorded names in place of present ones."""
        head, *rest = self.lines
        if self._opening:
            inputs = sum(not line.startswith((" ", "#")) for line in self._opening)
            digest = sha256(renames.restored("\n".join(self._opening)).encode()).hexdigest()
            rest.insert(0, f"# the links are up: {inputs} inputs, in {len(self._opening)} lines with sha256 {digest}")
        return renames.restored("\n".join([head, *rest]) + "\n")

    def note(self, text: str) -> None:
        """Write what the script does."""
        self.lines.append(f"# {self.now:.3f} {text}")

    # ------------------------------------------------------------ time

    def _at(self, at: float, do: Callable[..., None], *arguments: Any) -> int:
        self._entries += 1
        heappush(self._queue, (at, self._entries, do, arguments))
        return self._entries

    def run(self, seconds: float) -> None:
        """Let everything happen in that time."""
        until = round(self.now + seconds, 6)
        for _ in range(STEPS_MAX):
            if not self._queue or self._queue[0][0] > until:
                self.now = until
                return
            at, _, do, arguments = heappop(self._queue)
            self.now = max(self.now, ceil(at * TICKS_PER_S) / TICKS_PER_S)
            do(*arguments)
        raise AssertionError("messages without end")

    def start(self, seconds: float) -> None:
        """The same at the beginning, and sum up in one line what brokers told each other.

        Transcripts of routing and recovery have such beginnings in full.
        """
        self.run(seconds)
        self._opening, self.lines = self.lines[1:], self.lines[:1]

    # ------------------------------------------------------------ brokers

    def give(self, name: str, input: Input) -> None:
        """Let a broker handle an input, and write it down with its effects."""
        node = self.nodes[name]
        if not node.alive:
            return
        effects = list(node.machine.handle(input, self.now))
        node.journal.append((input, self.now, effects))
        self.lines.append(f"{self.now!r} {name} {self._written_input(input)}")
        for effect in effects:
            self.lines.append(f"    {self.writer.written(effect, self.now)}")
            if isinstance(effect, Send):
                self._written[id(effect.frame)] = effect.frame
        self._follow_timers(node, input, effects)
        for effect in effects:
            self._carry_out(name, effect)

    def _written_input(self, input: Input) -> str:
        """An input as text: a frame that was written when its sender sent it, by its number and type alone."""
        if isinstance(input, Arrived) and isinstance(input.frame, Frame) and id(input.frame) in self._written:
            return f"Arrived({input.peer!r}, Frame {input.frame.number} {type(input.frame.message).__name__})"
        return self.writer.written(input)

    def _follow_timers(self, node: Node, input: Input, effects: list[Effect]) -> None:
        if isinstance(input, TimerDue):
            node.timers.pop(input.key, None)
        for effect in effects:
            if isinstance(effect, StartTimer):
                node.timers[effect.key] = effect.at
            elif isinstance(effect, StopTimer):
                node.timers.pop(effect.key, None)

    def _carry_out(self, who: str, effect: Effect) -> None:
        match effect:
            case Send(peer=peer, frame=frame):
                if self._dropped.get((who, peer), 0):
                    self._dropped[who, peer] -= 1
                    self.note(f"a {type(frame).__name__} from {who} to {peer} is lost")
                else:
                    self._transmit(who, peer, Arrived(who, frame))
            case Tell(connection=connection, message=message) if who in self.nodes:
                if connection in self._connections:
                    self._transmit(who, self._connections[connection][1], Heard(who, message))
            case Tell(connection=broker, message=message):
                self._transmit(who, broker, Heard(self._names.get((broker, who), ""), message))
            case Close(peer=peer):
                other = self._connections[peer][1] if who in self.nodes and peer in self._connections else peer
                if (number := self._open.get((who, other))) is not None:
                    del self._open[who, other]
                    self._at(self.now + self._latency_s(who, other), self._closed_by_peer, other, who, number)
            case StartTimer(key=key, at=at):
                self._timers[who, key] = self._at(max(at, self.now), self._due, who, key, self._entries + 1)
            case StopTimer(key=key):
                self._timers.pop((who, key), None)
            case Notify(event=event, subscriptions=subscriptions):
                self.note(f"{who} is notified of {event.publisher}/{event.sequence} by {', '.join(subscriptions)}")
            case Trace():
                pass

    def _latency_s(self, a: str, b: str) -> float:
        return self.latency.get((a, b), self.latency.get((b, a), LATENCY_S))

    def _transmit(self, source: str, target: str, input: Input) -> None:
        number = self._open.get((source, target))
        if number is not None:
            self._at(self.now + self._latency_s(source, target), self._arrive, source, target, number, input)

    def _arrive(self, source: str, target: str, number: int, input: Input) -> None:
        if self._open.get((target, source)) == number:
            self._to(target, input)

    def _to(self, who: str, input: Input) -> None:
        if who in self.nodes:
            self.give(who, input)
        else:
            self._do(who, self.clients[who].handle(input, self.now))

    def _do(self, client: str, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out(client, effect)

    def _due(self, who: str, key: TimerKey, number: int) -> None:
        if self._timers.get((who, key)) == number:
            del self._timers[who, key]
            self._to(who, TimerDue(key))

    def _closed_by_peer(self, who: str, peer: str, number: int) -> None:
        if self._open.get((who, peer)) == number:
            self._cut_end(who, peer)

    def _cut_end(self, who: str, peer: str) -> None:
        """Tell one end, if it has not heard yet, that the link or connection is gone."""
        if self._open.pop((who, peer), None) is None:
            return
        if who in self.nodes and peer in self.nodes:
            self._to(who, LinkDown(peer))
        else:
            self._to(who, Closed(self._names[who, peer] if who in self.nodes else peer))

    # ------------------------------------------------------------ links

    def join(self, a: str, b: str) -> None:
        """Connect two brokers."""
        self.note(f"the link {a}-{b} comes up")
        self._entries += 1
        self._open[a, b] = self._open[b, a] = self._entries
        self.give(a, LinkUp(b))
        self.give(b, LinkUp(a))

    def cut(self, a: str, b: str) -> None:
        """Break the link between two brokers, with what is under way on it."""
        self.note(f"the link {a}-{b} goes down")
        self._cut_end(a, b)
        self._cut_end(b, a)

    def lose(self, source: str, target: str, count: int) -> None:
        """Lose the next frames from one broker to another."""
        self._dropped[source, target] = count

    # ------------------------------------------------------------ crashes

    def crash(self, name: str) -> None:
        """Stop a broker; its peers notice at once."""
        self.note(f"{name} crashes")
        node = self.nodes[name]
        node.alive = False
        for who, peer in list(self._open):
            if who == name:
                self._open.pop((name, peer), None)
                self._cut_end(peer, name)
        for timer in [timer for timer in self._timers if timer[0] == name]:
            del self._timers[timer]

    def lose_tail(self, name: str, count: int) -> None:
        """The disk of a broker that is down loses the last inputs."""
        self.note(f"{name} loses its last {count} inputs")
        del self.nodes[name].journal[-count:]

    def restart(self, name: str, *, keeps_disk: bool = True) -> None:
        """Start it again, from its journal or as a new incarnation, and join it with its living neighbours."""
        node = self.nodes[name]
        self.note(f"{name} restarts {'from its journal' if keeps_disk else 'without its disk'}")
        node.alive = True
        if keeps_disk:
            self._recover(node)
        else:
            node.incarnation += 1
            node.journal, node.timers = [], {}
            node.machine = self._new_machine(node)
        for peer in node.neighbours:
            if self.nodes[peer].alive:
                self.join(name, peer)

    def _recover(self, node: Node) -> None:
        """Handle the journal again: the same inputs have the same effects. What was open then is gone now."""
        node.machine, node.timers = self._new_machine(node), {}
        ends: dict[Input, None] = {}
        for input, at, effects in node.journal:
            assert node.machine.handle(input, at) == effects, f"{node.name} answers {input} otherwise the second time"
            self._follow_timers(node, input, effects)
            match input:
                case LinkUp(peer=peer):
                    ends[LinkDown(peer)] = None
                case Opened(connection=connection):
                    ends[Closed(connection)] = None
                case LinkDown() | Closed():
                    ends.pop(input, None)
        for key, at in node.timers.items():
            self._carry_out(node.name, StartTimer(key, at))
        for end in ends:
            self.give(node.name, end)

    # ------------------------------------------------------------ clients

    def add(self, name: str, machine: Any) -> None:
        """A client machine of another kind than `come` makes."""
        self.clients[name] = machine

    def come(
        self, client: str, broker: str, mode: str = "relocate", asserted: Attributes | None = None, **config: Any
    ) -> None:
        """A client connects to a broker, and is gone from where it was without a word, unless it stays there too."""
        if client not in self.clients:
            self.clients[client] = Client(client, ClientConfig(mode=mode, **config))
        if isinstance(self.clients[client], Client):
            self.go(client)
        self.note(f"{client} connects to {broker}")
        self._numbers += 1
        connection = f"{client}#{self._numbers}"
        self._connections[connection], self._names[broker, client] = (broker, client), connection
        self._entries += 1
        self._open[broker, client] = self._open[client, broker] = self._entries
        self.give(broker, Opened(connection, asserted or {}))
        self._to(client, Opened(broker))

    def go(self, client: str, broker: str = "") -> None:
        """A client's connections break; or the one to that broker."""
        for one, other in [ends for ends in self._open if ends[0] == client and broker in ("", ends[1])]:
            self.note(f"{client} is gone from {other}")
            self._cut_end(other, one)
            self._cut_end(one, other)

    def do(self, client: str, what: str, do: Callable[[Any, float], list[Effect]]) -> None:
        """Have an application ask its client machine for something."""
        self.note(f"{client} {what}")
        self._do(client, do(self.clients[client], self.now))

    def subscribe(self, client: str, text: str = "x >= 0", name: str = "F", **more: Any) -> None:
        said = f"subscribes to {text} as {name}{''.join(f', {key}={value}' for key, value in more.items())}"
        self.do(client, said, lambda machine, now: machine.subscribe(name, text, now, **more))

    def unsubscribe(self, client: str, name: str = "F") -> None:
        self.do(client, f"unsubscribes {name}", lambda machine, now: machine.unsubscribe(name, now))

    def advertise(self, client: str, text: str = "x >= 0", name: str = "A") -> None:
        self.do(client, f"advertises {text} as {name}", lambda machine, now: machine.advertise(name, text, now))

    def publish(self, client: str, *values: Any, **more: Any) -> None:
        for value in values:
            said = value if isinstance(value, dict) else {"x": value}
            self.do(client, f"publishes {said}", partial(_published, said, more))

    def context(self, client: str, values: dict[str, Any], **more: Any) -> None:
        self.do(client, f"is in context {values}", lambda machine, now: machine.set_context(values, now, **more))

    def leave(self, client: str) -> None:
        self.do(client, "leaves for good", lambda machine, now: machine.leave(now))

    def move_out(self, client: str) -> None:
        self.do(client, "says that it moves out", lambda machine, now: machine.move_out(now))
        self.run(4 * LATENCY_S)

    # ------------------------------------------------------------ clients without a machine

    def open(self, connection: str, broker: str, asserted: Attributes | None = None) -> None:
        """A connection over which a script says what it likes with `say`."""
        self.give(broker, Opened(connection, asserted or {}))

    def say(self, broker: str, connection: str, message: Any) -> None:
        """A message comes over such a connection."""
        self.give(broker, Heard(connection, message))


def _published(said: dict[str, Any], more: dict[str, Any], machine: Any, now: float) -> list[Effect]:
    return list(machine.publish(said, now, **more))
