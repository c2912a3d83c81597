"""A wireless device: the messages that it relays, and the exchange between its client, event broker and circuits.

*Theory.* Messages to a node that is not in range are relayed: each node on the way knows the next (`radio_routes.py`).
What is for this node belongs to a circuit (`circuits.py`). A circuit ends at the client here, or at the event broker
here; the two speak directly when both are on this device. Who leads and who follows is decided elsewhere: a device asks
its `Decisions` (`adhoc_node.py`) who may open a circuit, and how messages on one are handled.

*Rules.*
1. Effects of the machines inside are carried out in their order, those of one call before those of the next.
2. Nothing is relayed over more than `hops_max` hops, or back to where it came from.
3. What is not well formed and came over several hops ends its circuit, and changes nothing for others.

*Paper.* [mobile §3.1] takes for granted that wireless devices "talk to each other"; this is how.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Literal, Protocol

import msgspec
from msgspec import structs

from godwit.adhoc.circuits import Circuit, named
from godwit.adhoc.event_broker import EventBroker
from godwit.adhoc.radio_messages import Carried, Hangup, Poll, Relayed, check_body
from godwit.adhoc.radio_routes import RadioRoutes
from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    Notify,
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerKey,
    Trace,
)
from godwit.broker.limits import Limits
from godwit.broker.messages import Accepted, NodeId, Publish, Refused, Request
from godwit.errors import PeerFault
from godwit.trace import Record

__all__ = ["AdHocConfig", "ClientMachine", "Decisions", "Device"]

ANSWERS = (Accepted, Refused)
LIFE = 2**32  # numbers of one life of a device


class AdHocConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The times and bounds of a device."""

    priority: float = 0.5  # from 0 to 1: energy, memory, whatever makes a device fit to lead
    beacon_s: float = 1.0
    lost_s: float = 3.5  # without a beacon, after which a leader is lost
    search_s: float = 1.5  # without a leader, before one is elected
    spread_s: float = 2.0  # by which priority and name put an election off
    gather_s: float = 2.5
    lease_s: float = 30.0
    poll_s: float = 2.0  # well below the lease: by polls a leader also knows the way back
    meeting: Literal["merge", "coordinate"] = "merge"  # what event brokers do that meet
    merge_s: float = 10.0  # after which a hand-over without an answer is given up
    fetch_s: float = 3.0  # coordinating: for so long a client waits for its session, if another event broker has it
    nearer_hops: int = 2  # coordinating: a client moves to an event broker that is nearer by so many hops
    hops_max: int = 32
    neighbours_max: int = 64
    nodes_max: int = 1_024  # to which a way is known
    leaders_max: int = 32
    members_max: int = 256  # of one event broker
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= 1:
            raise ValueError(f"priority is {self.priority}: allowed is 0 to 1")
        for name in self.__struct_fields__[1:-1]:
            if name != "meeting" and not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be above 0")
        if self.lost_s <= self.beacon_s or self.lease_s < 3 * self.poll_s:
            raise ValueError("lost_s must be above beacon_s, and lease_s at least three times poll_s")


class ClientMachine(Protocol):
    """What a device's application speaks to: `client.Client`."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take notice of an input."""


class Decisions(Protocol):
    """The decisions of a device about leading and following."""

    def on_call(self, source: NodeId, body: Carried | Poll | Hangup, now: float) -> Circuit | None:
        """Somebody may open a circuit to the event broker here."""

    def on_said(self, circuit: Circuit, message: Any, now: float) -> None:
        """Something was said on a circuit to the event broker here."""

    def on_answered(self, circuit: Circuit, message: Any, now: float) -> None:
        """Something was said on a circuit that was opened here."""

    def on_trunk_open(self, now: float) -> None:
        """The trunk is open, and something came over it."""

    def on_hangup(self, circuit: Circuit, now: float) -> None:
        """The other end has ended a circuit."""

    def on_dropped(self, circuit: Circuit) -> None:
        """A circuit is over at this end."""


class Device:
    """One wireless device. Its client has its name."""

    def __init__(
        self, name: NodeId, client: ClientMachine, config: AdHocConfig, decisions: Decisions, incarnation: int = 1
    ) -> None:
        self.name = name
        self.client = client
        self.config = config
        self.decisions = decisions
        self.neighbours: dict[NodeId, None] = {}
        self.ways = RadioRoutes(config.nodes_max)
        self.broker: EventBroker | None = None  # while it leads
        self.circuits: dict[str, Circuit] = {}  # by name
        self.own: Circuit | None = None  # of the client here
        self.trunk: Circuit | None = None  # to another event broker
        self.served: dict[NodeId, Circuit] = {}  # at the event broker, by who opened it
        self.base = incarnation * LIFE
        self.number = self.base  # of all that is sent
        self.tenure = self.base  # of event brokers
        self._opened = self.base  # circuits
        self._todo: deque[tuple[str, Effect]] = deque()
        self._out: list[Effect] = []

    def next_number(self) -> int:
        """The number of what is sent next."""
        self.number += 1
        return self.number

    def new_circuit(self, far: NodeId, *, is_local: bool = False) -> Circuit:
        """A circuit that is opened here, to the event broker of another node or of this one."""
        self._opened += 1
        circuit = Circuit((self.name, self._opened), far, is_local=is_local)
        self.circuits[circuit.name] = circuit
        return circuit

    # ------------------------------------------------------------ over the air

    def radio(self, peer: NodeId, message: Any) -> None:
        """Send a message to a neighbour."""
        self._out.append(Send(peer, message))

    def relay(self, target: NodeId, body: Carried | Poll | Hangup) -> None:
        """Send something to a node, if a way there is known."""
        way = self.ways.to(target)
        if way is not None:
            self.radio(way, Relayed(self.name, target, self.next_number(), 0, body))

    def on_relayed(self, peer: NodeId, message: Relayed, now: float) -> None:
        """Pass it on, or take it when it is for us."""
        if message.source == self.name:
            return
        self.ways.learn(message.source, peer, message.number)
        if message.target != self.name:
            way = self.ways.to(message.target)
            if way is not None and way != peer and message.hops < self.config.hops_max:
                self.radio(way, structs.replace(message, hops=message.hops + 1))
            return
        source, body = message.source, message.body
        try:
            check_body(body)
            circuit = self.circuits.get(named(body.circuit))
            if circuit is None:
                circuit = self.decisions.on_call(source, body, now)
            if circuit is None or circuit.far != source:
                if type(body) is not Hangup:
                    self.relay(source, Hangup(body.circuit, "unknown here"))
                return
        except PeerFault as fault:
            self._out.append(Trace(Record("fault", source, type(body).__name__, detail=str(fault))))
            return
        circuit.until = now + self.config.lease_s
        if type(body) is Hangup:
            self.decisions.on_hangup(circuit, now)
        elif type(body) is Carried:
            self._on_carried(circuit, body, now)

    def _on_carried(self, circuit: Circuit, body: Carried, now: float) -> None:
        try:
            effects, messages = circuit.on_frame(body.frame, now)
            self.let("circuit", effects)
            for message in messages:
                if circuit.id[0] == self.name:
                    self.decisions.on_answered(circuit, message, now)
                else:
                    if type(message) is Request and type(message.wish) is Publish:
                        circuit.has_published = True
                    self.decisions.on_said(circuit, message, now)
            if circuit is self.trunk and circuit.is_open:
                self.decisions.on_trunk_open(now)
        except PeerFault as fault:
            self.at_fault(circuit, type(body.frame).__name__, fault, now)

    def at_fault(self, circuit: Circuit, message: str, fault: PeerFault, now: float) -> None:
        """What came over a circuit is not well formed. Rule 3."""
        self._out.append(Trace(Record("fault", circuit.far, message, detail=str(fault))))
        self.hang_up(circuit, str(fault), now)

    def drop(self, circuit: Circuit, now: float) -> None:
        """A circuit is over at this end."""
        if self.circuits.pop(circuit.name, None) is None:
            return
        self.let("circuit", circuit.close(now))
        self.decisions.on_dropped(circuit)
        if self.served.get(circuit.id[0]) is circuit:
            del self.served[circuit.id[0]]
            if self.broker is not None:
                client = self.broker.sessions.client_of(circuit.name)
                self.let("broker", self.broker.handle(Closed(circuit.name), now))
                if client is not None:
                    self.let("broker", self.broker.end_lease(client, circuit.until))
        if self.trunk is circuit:
            self.trunk = None
        if self.broker is not None:
            self.let("broker", self.broker.part(circuit.name, circuit.until, now))
        if self.own is circuit:
            self.own = None
            self.let("client", self.client.handle(Closed(circuit.far), now))

    def hang_up(self, circuit: Circuit, reason: str, now: float) -> None:
        """End a circuit, and tell the other end."""
        self.drop(circuit, now)
        if circuit.link is not None:
            self.relay(circuit.far, Hangup(circuit.id, reason))

    def unheard(self, before: Collection[NodeId] = ()) -> set[NodeId]:
        """Those whose events the event broker here has taken, and who have not acknowledged its answer.

        `before`: those of whom that was so before. If their circuit is over, they ask again over the next one.
        """
        if self.broker is None:
            return set()
        found = set[NodeId]()
        for name in {*before, *self.served}:
            circuit = self.served.get(name)
            if circuit is None or self.broker.sessions.client_of(circuit.name) is None:
                waits = name in before
            else:
                outbox: Collection[Any] = () if circuit.link is None else circuit.link.outbox
                is_answered = circuit.has_published and any(type(each) in ANSWERS for each in outbox)
                waits = is_answered or (name in before and bool(outbox))
            if waits:
                found.add(name)
        return found

    # ------------------------------------------------------------ inside

    def ask(self, do: Callable[[Any], list[Effect]], now: float) -> list[Effect]:
        """Let the application speak to the client: `node.ask(lambda client: client.publish({...}, now), now)`."""
        self.let("client", do(self.client))
        return self.carry_out(now)

    def emit(self, *effects: Effect) -> None:
        """Effects of this device itself."""
        self._out += effects

    def let(self, who: str, effects: list[Effect]) -> None:
        """Effects of a machine inside, which are to be carried out: `client`, `broker` or `circuit`."""
        self._todo.extend((who, effect) for effect in effects)

    def carry_out(self, now: float) -> list[Effect]:
        """Carry the effects of client, event broker and circuits to each other; what is left is ours, in order."""
        while self._todo:
            who, effect = self._todo.popleft()
            match effect:
                case Trace() | Notify():
                    self._out.append(effect)
                case StartTimer(key=key, at=at):
                    self._out.append(StartTimer(self._key(who, key), at))
                case StopTimer(key=key):
                    self._out.append(StopTimer(self._key(who, key)))
                case Send(peer=name, frame=frame):
                    circuit = self.circuits.get(name)
                    if circuit is not None:
                        self.relay(circuit.far, Carried(circuit.id, frame))
                case Tell(connection=name, message=message):
                    self._tell(who, name, message, now)
                case Close(peer=name, reason=reason) if who != "node":  # after earlier messages
                    self._todo.append(("node", Close(self._circuit_name(who, name), reason)))
                case Close(peer=name, reason=reason):
                    circuit = self.circuits.get(name)
                    if circuit is not None:
                        self.hang_up(circuit, reason, now)
        out, self._out = self._out, []
        return out

    def _key(self, who: str, key: TimerKey) -> TimerKey:
        if who == "broker" and key[0] in ("ack", "resend"):  # the links between event brokers are those of circuits
            who = "circuit"
        return (who, str(self.tenure), *key) if who == "broker" else (who, *key)

    def _circuit_name(self, who: str, connection: str) -> str:
        if who != "client":
            return connection
        return "" if self.own is None else self.own.name

    def _tell(self, who: str, connection: str, message: Any, now: float) -> None:
        circuit = self.own if who == "client" else self.circuits.get(connection)
        if circuit is None:
            return
        if circuit.link is not None:
            self.let("circuit", circuit.send(message, now))
        elif who == "client":
            self.decisions.on_said(circuit, message, now)
        elif circuit is self.own:
            self.let("client", self.client.handle(Heard(circuit.far, message), now))
