"""Ad hoc networks: devices without any infrastructure find, elect, lose, poll and merge their event brokers.

*Theory.* An `AdHocNode` is one wireless device: a client's machine, and, while it is the leader of its island, an event
broker for everybody who can be reached. It hears which nodes come into range and leave it (`LinkUp`, `LinkDown`).

*Discovery.* A leader sends beacons; every node passes each on once, so all of an island receive it, and learn the route
to it (`radio_routes.py`). A client talks to its event broker over a circuit (`circuits.py`), relayed by the nodes
between them.

*Election.* A node that has heard of no leader for a time declares itself one. The time is shorter the higher its
priority, and differs by name; the first beacon makes the others follow. When two declare at once, they merge.

*Leases.* A node polls its leader. A leader that has not heard of a client for `lease_s` forgets it with all it had. A
leader that does not know the one who polls says so, and everything is said again.

*Merging.* A leader that hears of one with a higher rank calls it. When it answers, the leader hands over its sessions,
with what waits in them: it hangs up on its clients, so that nothing changes any more, sends everything, and hears that
it has arrived. Only then does it give up, and name its successor in its last beacons. A node stays with its leader
until this leader is lost or gives up. So at the successor, whatever waits for a client waits there before anything that
was published later.

*Coordinating.* With this setting both stay. Each leader has a trunk to the one of the highest rank it hears of, which
is higher than its own, so trunks form a tree; over it they are neighbours as brokers of any tree are. A client moves to
an event broker that is nearer by `nearer_hops`, or follows another one when it has lost its own; its session follows it
(`session_following.py`).

    searching ── a beacon ──> following ── the leader is lost ──> searching;   its leader gives up ──> following
    searching ── no beacon for its time ──> leading ── a higher rank is heard ──> handing over ── Merged ──> following
                                                                                  └── no answer ──> leading

*Rules.*
1. A node alone neither follows nor leads: its client keeps what it publishes. A leader that is left alone stays one
   until the last lease of another has ended, since it holds what waits for others.
2. An event broker that was just elected takes no event before `gather_s`: until then those who want events come. While
   nobody has come it waits on, `GATHERS_MAX` times at most: by then a neighbour that is out of range was lost.
3. What a neighbour sends that is not well formed closes the link to it; what came over several hops ends its circuit.
   Neither changes anything for others.
4. All tables are bounded; past a bound newcomers are turned away.
5. Nothing is promised to be in force by the mere receipt of a beacon: who is served is who has a circuit.

*Paper.* [mobile §3.1], the last two paragraphs; claim H6. *Symbols.* EB → the event broker of a leader; ES, ED → the
client of any node.
*Departures.* The paper lets a source search, and elect when it finds nobody; here every device does, always, so that a
displayer's poll finds the new one too. A lease is a session's, not a subscription's.
"""

from collections.abc import Callable
from typing import Any
from zlib import crc32

from msgspec import structs

from godwit.adhoc.circuits import Circuit
from godwit.adhoc.device import AdHocConfig, ClientMachine, Device
from godwit.adhoc.event_broker import EventBroker, check_part, whole_sessions
from godwit.adhoc.parted_islands import ISLANDS_MAX, is_island
from godwit.adhoc.radio_messages import Beacon, Carried, Coordinate, Hangup, Merge, Merged, Poll, check_radio
from godwit.adhoc.radio_routes import KnownLeaders, Rank, rank_of
from godwit.adhoc.session_following import FOLLOWING_MESSAGES, SessionFollowing
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Effect,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Opened,
    StartTimer,
    StopTimer,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Attach, Bye, Hello, NodeId, Publish, Request
from godwit.errors import PeerFault
from godwit.mobility.move_messages import Replay
from godwit.trace import Record

__all__ = ["AdHocNode"]

FAREWELLS = 3  # beacons of a leader that has given up
GATHERS_MAX = 4
HELD_MAX = 1_000  # messages of a circuit that wait until everybody has come


class AdHocNode:
    """A device that finds, elects, follows, polls and merges event brokers. Decides for its `Device`."""

    def __init__(self, name: NodeId, client: ClientMachine, config: AdHocConfig, incarnation: int = 1) -> None:
        self.name = name
        self.config = config
        self.device = Device(name, client, config, self, incarnation)
        self.following = SessionFollowing(self.device, self._let_in)
        self.sightings = KnownLeaders(config.leaders_max, config.lost_s)
        self.leader: NodeId | None = None
        self.successor: NodeId | None = None  # while it hands over
        self._joined_at = 0.0
        self._farewells: tuple[int, NodeId] = (0, "")
        self._gathers = 0  # how often it may still wait for others before it takes events; 0: it takes them
        self._merges_after = 0.0
        self._ticking = False

    @property
    def client(self) -> ClientMachine:
        """The client of this device."""
        return self.device.client

    @property
    def broker(self) -> EventBroker | None:
        """The event broker of its island, while this device leads."""
        return self.device.broker

    @property
    def is_leading(self) -> bool:
        """Whether this device hosts the event broker of its island."""
        return self.device.broker is not None

    @property
    def rank(self) -> Rank:
        """Of two leaders that meet, the one with the higher rank goes on."""
        return (self.config.priority, self.name)

    def ask(self, do: Callable[[Any], list[Effect]], now: float) -> list[Effect]:
        """Let the application speak to the client: `node.ask(lambda client: client.publish({...}, now), now)`."""
        return self.device.ask(do, now)

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""
        match input:
            case Arrived(peer=peer, frame=frame):
                self._on_arrived(peer, frame, now)
            case TimerDue(key=key):
                self._on_timer_due(key, now)
            case LinkUp(peer=peer):
                self._on_link_up(peer, now)
            case LinkDown(peer=peer):
                self._on_link_down(peer, now)
        return self.device.carry_out(now)

    # ------------------------------------------------------------ who is in range

    def _on_link_up(self, peer: NodeId, now: float) -> None:
        """Somebody has come into range: tell it of the leaders we know."""
        if len(self.device.neighbours) >= self.config.neighbours_max and peer not in self.device.neighbours:
            self.device.emit(Close(peer, f"no room for more than {self.config.neighbours_max} neighbours"))
            return
        self.device.neighbours[peer] = None
        for sighting in self.sightings.fresh(now):
            beacon, age_s = sighting.beacon, max(now - sighting.sent_at, 0.0)
            if beacon.hops < self.config.hops_max and beacon.leader != peer:
                self.device.radio(peer, structs.replace(beacon, hops=beacon.hops + 1, age_s=age_s))
        if self.device.broker is not None:
            self.device.radio(peer, self._beacon())
        if not self._ticking:
            self._ticking = True
            jitter = crc32(self.name.encode()) / 2**32
            self.device.emit(StartTimer(("tick",), now + self.config.beacon_s * (0.5 + jitter / 2)))
        if self.leader is None:
            self._search(now)

    def _on_link_down(self, peer: NodeId, now: float) -> None:
        """Somebody is out of range."""
        if self.device.neighbours.pop(peer, self) is self:
            return
        self.device.ways.lose(peer)
        if not self.device.neighbours and self.device.broker is None:  # rule 1
            self._leave(now)
            self.device.emit(StopTimer(("declare",)))

    def _on_arrived(self, peer: NodeId, message: Any, now: float) -> None:
        if peer not in self.device.neighbours:
            return
        try:
            check_radio(message)
        except PeerFault as fault:  # rule 3
            self.device.emit(Trace(Record("fault", peer, type(message).__name__, detail=str(fault))))
            self.device.emit(Close(peer, str(fault)))
            self._on_link_down(peer, now)
            return
        if type(message) is Beacon:
            self._on_beacon(peer, message, now)
        else:
            self.device.on_relayed(peer, message, now)

    # ------------------------------------------------------------ beacons

    def _beacon(self) -> Beacon:
        count, successor = self._farewells
        number, tenure = self.device.next_number(), self.device.tenure
        return Beacon(self.name, self.config.priority, tenure, number, 0, 0.0, successor if count else "")

    def _on_beacon(self, peer: NodeId, beacon: Beacon, now: float) -> None:
        """Pass it on if it is new; follow, change or take over."""
        if beacon.leader == self.name or not self.sightings.note(beacon, now):
            return
        is_other_way = self.device.ways.learn(beacon.leader, peer, beacon.number)
        if beacon.hops < self.config.hops_max:
            further = structs.replace(beacon, hops=beacon.hops + 1)
            for other in self.device.neighbours:
                if other != peer:
                    self.device.radio(other, further)
        if self.leader is None:
            if not beacon.successor:
                self._follow(beacon.leader, now)
        elif self.leader == beacon.leader:
            if beacon.successor:
                self._on_given_up(beacon.successor, now)
            elif is_other_way:
                self._poll()
        elif self.device.broker is not None:
            self._consider_merging(now)
        else:
            self._consider_moving(beacon, now)

    # ------------------------------------------------------------ following

    def _search(self, now: float) -> None:
        """Look for a leader; when none is found for a time, be one. [mobile §3.1] "it must first search" """
        best = self.sightings.best(now)
        if best is not None:
            self._follow(best.leader, now)
        elif self.device.neighbours:
            config, jitter = self.config, crc32(self.name.encode()) / 2**32
            put_off = config.spread_s * (0.8 * (1 - config.priority) + 0.2 * jitter)
            self.device.emit(StartTimer(("declare",), now + config.search_s + put_off))

    def _follow(self, leader: NodeId, now: float) -> None:
        """Be a member of this leader's island."""
        self.leader, self._joined_at = leader, now
        self.device.emit(Trace(Record("joined", leader)))
        self.device.emit(StopTimer(("declare",)))
        self._open(now)

    def _consider_moving(self, beacon: Beacon, now: float) -> None:
        """Where event brokers coordinate, follow one that is much nearer than ours. [mobile §4.3]"""
        assert self.leader is not None
        own = self.sightings.of(self.leader, now)
        if self.config.meeting != "coordinate" or beacon.successor or own is None:
            return
        if beacon.hops + self.config.nearer_hops <= own.beacon.hops and now >= self._joined_at + self.config.lost_s:
            if self.device.own is not None:
                self.device.hang_up(self.device.own, f"{beacon.leader} is nearer", now)
            self._leave(now)
            self._follow(beacon.leader, now)

    def _on_given_up(self, successor: NodeId, now: float) -> None:
        """The leader has handed everything over: follow its successor, unless we know better."""
        self._leave(now)
        sighting = self.sightings.of(successor, now)
        if successor == self.name or (sighting is not None and sighting.beacon.successor):
            self._search(now)
        else:
            self._follow(successor, now)

    def _leave(self, now: float) -> None:
        """The leader is lost, or has given up."""
        if self.device.own is not None:
            self.device.drop(self.device.own, now)
        self.leader = None
        self.device.emit(StopTimer(("poll",)))

    def _open(self, now: float) -> None:
        """Let the client speak with the leader's event broker."""
        assert self.leader is not None
        circuit = self.device.own = self.device.new_circuit(self.leader, is_local=self.leader == self.name)
        if self.device.broker is not None:
            self._serve(circuit, now)
        self.device.let("circuit", circuit.open(now))
        self.device.let("client", self.device.client.handle(Opened(self.leader), now))
        self.device.emit(StartTimer(("poll",), now + self.config.poll_s))

    def _poll(self) -> None:
        """Refresh what the event broker knows of us. [mobile §3.1]"""
        for circuit in (self.device.own, self.device.trunk):
            if circuit is not None and circuit.link is not None:
                self.device.relay(circuit.far, Poll(circuit.id))

    # ------------------------------------------------------------ leading

    def declare(self, now: float) -> None:
        """Be the leader: there is none. [mobile §3.1] "a new EB might have to be elected" """
        self.device.tenure += 1
        self.leader = self.name
        limits = structs.replace(
            self.config.limits,
            sessions_max=self.config.members_max + ISLANDS_MAX,
            session_expiry_s=self.config.lease_s,
        )
        self.device.broker = EventBroker(
            self.name, BrokerConfig(advertisements="off", limits=limits), self.device.tenure
        )
        self._farewells = (0, "")
        self._gathers = GATHERS_MAX
        self.device.emit(Trace(Record("elected", number=self.device.tenure - self.device.base)))
        self.device.emit(StartTimer(("gather",), now + self.config.gather_s))
        self._send_beacon()
        self._open(now)

    def _send_beacon(self) -> None:
        beacon = self._beacon()
        for peer in self.device.neighbours:
            self.device.radio(peer, beacon)

    def _serve(self, circuit: Circuit, now: float) -> None:
        """A client has called: its lease begins."""
        assert self.device.broker is not None
        circuit.until = now + self.config.lease_s
        self.device.served[circuit.id[0]] = circuit
        self.device.let("broker", self.device.broker.handle(Opened(circuit.name), now))

    def _on_leases_due(self, now: float) -> None:
        """Forget whom we have not heard of for the time of a lease."""
        broker = self.device.broker
        assert broker is not None
        for circuit in list(self.device.served.values()):
            if circuit.link is None:
                circuit.until = now + self.config.lease_s
            elif circuit.until <= now:
                client = broker.sessions.client_of(circuit.name)
                if client is not None:
                    self.device.emit(*broker.lost_with(client))
                    self.device.let("broker", broker.handle(Heard(circuit.name, Bye("the lease has expired")), now))
                self.device.drop(circuit, now)

    def _retire(self, now: float) -> None:
        """Alone, with nothing that waits for others: lead no more. Rule 1."""
        self._give_up(now)
        self.device.emit(Trace(Record("resigned", detail="alone")))

    def _give_up(self, now: float) -> None:
        """There is no event broker here any more."""
        self.device.broker = None
        self.following.clear()
        for circuit in (*self.device.served.values(), *([] if self.device.trunk is None else [self.device.trunk])):
            self.device.drop(circuit, now)
        self.successor = None
        self._leave(now)
        self.device.emit(StopTimer(("gather",)), StopTimer(("merge",)))

    def on_said(self, circuit: Circuit, message: Any, now: float) -> None:
        """Something was said on a circuit to the event broker here."""
        try:
            self._handled(circuit, message, now)
        except PeerFault as fault:
            self.device.at_fault(circuit, type(message).__name__, fault, now)

    def _handled(self, circuit: Circuit, message: Any, now: float) -> None:
        if self.device.broker is None or self.successor is not None:
            return
        kind = type(message)
        if self.device.broker.is_joined(circuit.name):
            self._on_trunk(circuit, message, now)
            return
        if kind is Replay or kind is Merge or kind is Coordinate:
            if (kind is Coordinate) != (self.config.meeting == "coordinate"):
                raise PeerFault(f"a {kind.__name__}, and event brokers here {self.config.meeting} when they meet")
            if kind is Coordinate:
                self._coordinate(circuit, now)
            else:
                self._on_handed_over(circuit, message, now)
            return
        if kind is Attach and (message.client != circuit.id[0] or is_island(message.client)):
            raise PeerFault(f"a device named {circuit.id[0]!r} whose client is {message.client!r}")
        waits = self.following.awaits(circuit)
        if kind is Attach and not waits and circuit.may_fetch:
            circuit.may_fetch = False
            waits = self.following.on_attach(circuit, message, now)
        is_early = self._gathers > 0 and (circuit.held or (kind is Request and type(message.wish) is Publish))
        if waits or is_early:  # rule 2
            if len(circuit.held) >= HELD_MAX:
                raise PeerFault(f"more than {HELD_MAX} messages before all devices have arrived")
            circuit.held.append(message)
            return
        self.device.let("broker", self.device.broker.handle(Heard(circuit.name, message), now))

    def _on_gathered(self, now: float) -> None:
        """A subscriber has connected: accept events. If nobody has, wait; alone, until we lead no more. Rules 1, 2."""
        broker = self.device.broker
        assert broker is not None
        self._gathers = 0 if broker.serves_others else max(self._gathers - 1, 0 if self.device.neighbours else 1)
        if self._gathers:
            self.device.emit(StartTimer(("gather",), now + self.config.gather_s))
            return
        for circuit in list(self.device.served.values()):
            if not self.following.awaits(circuit):
                self._let_in(circuit, now)

    def _let_in(self, circuit: Circuit, now: float) -> None:
        """Handle what was held of a client."""
        held, circuit.held = circuit.held, []
        for message in held:
            self.on_said(circuit, message, now)

    def _on_trunk(self, circuit: Circuit, message: Any, now: float) -> None:
        """Something came from an event broker that we coordinate with."""
        assert self.device.broker is not None
        if type(message) in FOLLOWING_MESSAGES:
            self.following.on_message(circuit.name, message, now)
        else:
            self.device.let("broker", self.device.broker.on_trunk(circuit.name, message, now))

    # ------------------------------------------------------------ merging

    def _consider_merging(self, now: float) -> None:
        """Call the leader of the highest rank, to hand over to it. [mobile §3.1] "combine them into one central EB" """
        if self.device.broker is None or self.successor is not None or now < self._merges_after:
            return
        best = self.sightings.best(now)
        if best is None or rank_of(best) < self.rank or self.device.ways.to(best.leader) is None:
            return
        if self.device.trunk is not None:
            if self.config.meeting == "merge" or self.device.trunk.far == best.leader:
                return
            self.device.hang_up(self.device.trunk, f"{best.leader} has a higher rank", now)
        circuit = self.device.trunk = self.device.new_circuit(best.leader)
        self.device.let("circuit", circuit.open(now))
        self.device.emit(StartTimer(("merge",), now + self.config.merge_s))

    def on_trunk_open(self, now: float) -> None:
        """It has answered, so there is a way there and back: let nothing change here any more, and send everything."""
        if self.successor is not None:
            return
        assert self.device.broker is not None
        assert self.device.trunk is not None
        if self.config.meeting == "coordinate":
            self._coordinate(self.device.trunk, now)
            return
        self.successor = self.device.trunk.far
        for circuit in list(self.device.served.values()):
            self.device.hang_up(circuit, f"{self.name} hands over to {self.successor}", now)
        for part in self.device.broker.handed_over(self.successor):
            self.device.let("circuit", self.device.trunk.send(part, now))
        self.device.let("circuit", self.device.trunk.send(Merge(self.device.broker.leases(now)), now))
        self.device.emit(StartTimer(("merge",), now + self.config.merge_s))

    def _coordinate(self, circuit: Circuit, now: float) -> None:
        """Be two brokers of a tree. [mobile §3.1] "both could operate in a coordinated fashion" """
        assert self.device.broker is not None
        assert circuit.link is not None
        if self.device.broker.is_joined(circuit.name):
            return
        if circuit is self.device.trunk:
            self.device.emit(StopTimer(("merge",)))
            self.device.let("circuit", circuit.send(Coordinate(), now))
        self.device.emit(Trace(Record("coordinated", circuit.far)))
        self.device.let("broker", self.device.broker.join(circuit.name, circuit.far, circuit.link, now))

    def _on_handed_over(self, circuit: Circuit, message: Replay | Merge, now: float) -> None:
        """Another event broker hands its sessions over: take them all at once, or none."""
        assert self.device.broker is not None
        if isinstance(message, Replay):
            check_part(circuit.parts, message)
            circuit.parts.append(message)
            return
        sessions = whole_sessions(circuit.parts, message)
        new = [parts for parts in sessions if self.device.broker.sessions.session(parts[0].client) is None]
        if len(self.device.broker.sessions) + len(new) > self.config.members_max:
            raise PeerFault(f"this event broker has no room for more than {self.config.members_max} sessions")
        circuit.parts = []
        for parts, lease_s in zip(sessions, message.leases, strict=True):
            self.device.let("broker", self.device.broker.take(parts, min(lease_s, self.config.lease_s), now))
        self.device.emit(Trace(Record("merged", circuit.id[0], number=len(sessions))))
        self.device.let("circuit", circuit.send(Merged(len(sessions)), now))

    def _on_merged(self, circuit: Circuit, message: Merged, now: float) -> None:
        """The successor has everything: follow it, and let everybody else know."""
        successor = circuit.far
        self.device.hang_up(circuit, "done", now)
        self._give_up(now)
        self.device.emit(Trace(Record("resigned", successor, number=message.sessions, detail="merged")))
        self._farewells = (FAREWELLS, successor)
        self._send_beacon()
        self._follow(successor, now)

    def _stay(self, reason: str, now: float) -> None:
        """Nothing came of it: go on leading. What was handed over may live there, too."""
        assert self.device.broker is not None
        if self.device.trunk is not None:
            self.device.hang_up(self.device.trunk, reason, now)
        self._merges_after = now + 2 * self.config.beacon_s
        self.device.emit(StopTimer(("merge",)))
        if self.successor is not None:
            self.successor = None
            self.device.broker.rename()
            self._open(now)

    # ------------------------------------------------------------ circuits

    def on_call(self, source: NodeId, body: Carried | Poll | Hangup, now: float) -> Circuit | None:
        """Somebody opens a circuit to the event broker here."""
        if self.device.broker is None or self.successor is not None or body.circuit[0] != source:
            return None
        if type(body) is not Carried or type(body.frame) is not Hello:
            return None
        older = self.device.served.get(source)
        if older is not None:
            if older.id[1] > body.circuit[1]:
                return None
            self.device.drop(older, now)
        elif len(self.device.served) >= self.config.members_max:
            return None
        circuit = Circuit(body.circuit, source)
        self.device.circuits[circuit.name] = circuit
        self.device.let("circuit", circuit.open(now))
        self._serve(circuit, now)
        return circuit

    def on_answered(self, circuit: Circuit, message: Any, now: float) -> None:
        if circuit is self.device.own:
            self.device.let("client", self.device.client.handle(Heard(circuit.far, message), now))
        elif self.device.broker is not None and self.device.broker.is_joined(circuit.name):
            self._on_trunk(circuit, message, now)
        elif circuit is self.device.trunk and self.successor is not None and type(message) is Merged:
            self._on_merged(circuit, message, now)

    def on_hangup(self, circuit: Circuit, now: float) -> None:
        if circuit is self.device.trunk:
            self._stay("", now)
        else:
            self.device.drop(circuit, now)  # with the next tick the client calls again

    def on_dropped(self, circuit: Circuit) -> None:
        self.following.on_closed(circuit)

    # ------------------------------------------------------------ timers

    def _on_timer_due(self, key: TimerKey, now: float) -> None:
        match key:
            case ("tick",):
                self._on_tick(now)
            case ("poll",):
                self._poll()
                if self.leader is not None:
                    self.device.emit(StartTimer(("poll",), now + self.config.poll_s))
            case ("declare",):
                if self.leader is None and self.device.neighbours:
                    best = self.sightings.best(now)
                    self.declare(now) if best is None else self._follow(best.leader, now)
            case ("gather",):
                if self.device.broker is not None:
                    self._on_gathered(now)
            case ("merge",):
                if self.device.trunk is not None and (self.successor is not None or not self.device.trunk.is_open):
                    self._stay("it has taken too long", now)
            case ("fetch", client):
                if self.device.broker is not None:
                    self.following.on_timer_due(client, now)
            case ("circuit", what, name):
                circuit = self.device.circuits.get(name)
                if circuit is not None:
                    self.device.let("circuit", circuit.on_timer_due(what, now))
            case ("client", *rest):
                self.device.let("client", self.device.client.handle(TimerDue(tuple(rest)), now))
            case ("broker", tenure, *rest):
                if self.device.broker is None or tenure != str(self.device.tenure):
                    return
                if self.successor is not None:  # nothing may change there now
                    self.device.emit(StartTimer(key, now + self.config.beacon_s))
                    return
                if rest[0] == "session":
                    self.device.emit(*self.device.broker.lost_with(rest[1]))
                self.device.let("broker", self.device.broker.handle(TimerDue(tuple(rest)), now))

    def _on_tick(self, now: float) -> None:
        """Once a beacon's time: say that we lead, or look whether our leader does."""
        if self.device.broker is not None:
            self._send_beacon()
            if self.device.trunk is not None and self.sightings.of(self.device.trunk.far, now) is None:
                self._stay("out of reach", now)
            elif self.successor is None:
                self._on_leases_due(now)
                if self.device.own is None:
                    self._open(now)
                self._consider_merging(now)
                self.following.offer(now)
                if not self.device.neighbours and not self.device.broker.serves_others:
                    self._retire(now)
        else:
            count, successor = self._farewells
            if count:
                self._send_beacon()
                self._farewells = (count - 1, successor)
            if self.leader is not None:
                sighting = self.sightings.of(self.leader, now)
                if sighting is None and now >= self._joined_at + self.config.lost_s:
                    self._leave(now)
                    self._search(now)
                elif sighting is not None and sighting.beacon.successor:
                    self._on_given_up(sighting.beacon.successor, now)
                elif self.device.own is None:
                    self._open(now)
        if self.device.neighbours or self.device.broker is not None:
            self.device.emit(StartTimer(("tick",), now + self.config.beacon_s))
        else:
            self._ticking = False

    # ------------------------------------------------------------ what the machines inside ask for
