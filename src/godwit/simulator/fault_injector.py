"""The fault injector: links that break, brokers that crash, disks that lose, fill and slow down, wrong clocks.

*Theory.* Faults are generated before the run begins (`fault_plan.py`); each begins and ends at its time. Several may
affect the same link or broker at once, so they are counted, and the effect ends when the last of them ends. A broker
that loses its disk loses events and sessions, which are recorded in the ledger. If a disk is rolled back, exactly the
messages that were accepted with the last inputs are recorded as lost. A message that arrived earlier, but too early for
the order on its link, is accepted with the one that fills the gap: it is acknowledged then, and lost with the
acknowledgement.

A damaged disk is opened by the rules of the journal (`damaged_disks.py`). It has lost nothing, its last inputs, or
everything. Where the broker must not go on by itself, its start is refused, and an operator accepts the loss a little
later.

*Rules.*
1. Every kind of fault is injected and ended here: `begin` and `end` match all of `FaultKind`, which the type checker
   verifies.
2. A fault is counted when it is injected, by its actual kind: a broker that is down does not crash again, and if a disk
   must not be rolled back or damaged, the fault is a plain crash.
3. A broker whose start was refused stays down until the loss is accepted, whatever else befalls it.
"""

from typing import TypeVar, assert_never

from godwit.broker.effects import TailLost
from godwit.broker.lost_tail import LOST_TAIL
from godwit.codec.journal_losses import needs_operator
from godwit.simulator import damaged_disks
from godwit.simulator.fault_plan import Fault, drawn_faults
from godwit.simulator.in_flight import InFlight
from godwit.simulator.ledger import EventId, Ledger
from godwit.simulator.lost_disks import LostDisks, clients_within, events_within
from godwit.simulator.network import Network
from godwit.simulator.network_monitor import NetworkMonitor
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import FaultKind, Scenario
from godwit.simulator.wires import Wire
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["FaultInjector"]

RECONNECT_S = 0.2
UNNOTICED_S = 20.0
ACCEPTED_AFTER_S = 0.4
WRITE_AHEAD_MAX = 50  # batches that are in the write-ahead file of a damaged disk

Place = TypeVar("Place")


class FaultInjector:
    """Injects the faults of a scenario, and those of tests."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
        in_flight: InFlight,
        lost_disks: LostDisks,
        monitor: NetworkMonitor,
        ledger: Ledger,
        recorder: Recorder,
    ) -> None:
        self.counts: dict[str, int] = {}  # by kind, how often it was injected
        self._scenario = scenario
        self._settings = scenario.faults
        self._streams = streams
        self._world = world
        self._network = network
        self._population = population
        self._in_flight = in_flight
        self._lost_disks = lost_disks
        self._monitor = monitor
        self._ledger = ledger
        self._recorder = recorder
        self._blocked: dict[tuple[str, ...], int] = {}  # directions of links, by how many faults
        self._crashed: dict[str, int] = {}
        self._slow: dict[str, int] = {}
        self._full: dict[str, int] = {}
        self._slow_disks: dict[str, int] = {}
        self._unnoticed_until = 0.0  # a disk has lost inputs, and the loss may be unknown yet
        self._rollbacks_begun = 0
        self._reported: dict[str, dict[EventId, None]] = {}  # by broker, events that were in lost inputs
        self._rolled_back: dict[str, bool] = {}  # brokers that are down, and whether their disk reports the loss
        self._refused: dict[str, str] = {}  # brokers that are down and will not start, and why
        recorder.listen(("closed",), self._on_closed)

    def plan(self) -> None:
        """Schedule the beginning and end of each fault."""
        faults, clock = self._settings, self._world.clock
        if faults.clock_skew_s:
            self._skew_clocks(faults.clock_skew_s)
        rates = faults.link_loss, faults.duplicate, faults.delay
        clock.call_at(self._scenario.run.warmup_s, self._set_frame_faults, *rates)
        clock.call_at(self._scenario.faults_end_s, self._set_frame_faults, 0.0, 0.0, 0.0)
        for fault in drawn_faults(self._scenario, self._network.overlay, self._streams):
            clock.call_at(fault.begins_s, self.begin, fault)
            clock.call_at(fault.ends_s, self.end, fault)

    def _skew_clocks(self, skew_s: float) -> None:
        """Set a random error of each node's clock."""
        for name, node in self._world.nodes.items():
            node.skew_s = self._streams.single_use("clock", name).uniform(-skew_s, skew_s)

    def _set_frame_faults(self, loss: float, duplicate: float, delay: float) -> None:
        delay_s = self._settings.delay_ms_max / 1_000
        for link in self._network.overlay.links:
            for where in ((link.a, link.b), (link.b, link.a)):
                is_blocked = self._blocked.get(where, 0) > 0
                self._wire(*where).set_faults(loss, duplicate, delay, delay_s, blocked=is_blocked)

    # ------------------------------------------------------------ each kind

    def begin(self, fault: Fault) -> None:
        """Inject a fault."""
        where = fault.where
        injected: FaultKind | None = fault.kind
        match fault.kind:
            case "link_break":
                self._network.break_link(where[0], where[1])
            case "partition_one_way":
                _count(self._blocked, where, 1)
                wire = self._wire(*where)
                wire.blocked = wire.faulty = True
            case "slow_node":
                _count(self._slow, where[0], 1)
                self._world.nodes[where[0]].slow_s = self._settings.slow_ms / 1_000
            case "crash":
                _count(self._crashed, where[0], 1)
                injected = self._crash(where[0])
            case "crash_diskless":
                _count(self._crashed, where[0], 1)
                injected = self.lose_disk(where[0])
            case "disk_rolled_back":
                _count(self._crashed, where[0], 1)
                injected = self.roll_back(where[0])
                self._rollbacks_begun += 1
            case "disk_torn" | "disk_flipped":
                _count(self._crashed, where[0], 1)
                injected = self.damage(where[0], fault.kind)
            case "disk_full":
                _count(self._full, where[0], 1)
                self._world.nodes[where[0]].is_full = True
            case "disk_slow":
                if _count(self._slow_disks, where[0], 1) == 1:
                    self._world.nodes[where[0]].sync_s += self._settings.disk_slow_ms / 1_000
            case _:
                assert_never(fault.kind)
        if injected is not None:
            _count(self.counts, injected, 1)

    def end(self, fault: Fault) -> None:
        """A fault ends; its effect ends unless another fault has the same effect at the same place."""
        where = fault.where
        match fault.kind:
            case "link_break":
                self._network.mend_link(where[0], where[1])
            case "partition_one_way":
                if _count(self._blocked, where, -1) == 0:
                    wire = self._wire(*where)
                    wire.set_faults(wire.loss_rate, wire.duplicate_rate, wire.delay_rate, wire.delay_s, blocked=False)
            case "slow_node":
                if _count(self._slow, where[0], -1) == 0:
                    self._world.nodes[where[0]].slow_s = 0.0
            case "disk_full":
                self._world.nodes[where[0]].is_full = _count(self._full, where[0], -1) > 0
            case "disk_slow":
                if _count(self._slow_disks, where[0], -1) == 0:
                    self._world.nodes[where[0]].sync_s -= self._settings.disk_slow_ms / 1_000
            case "crash" | "crash_diskless" | "disk_rolled_back" | "disk_torn" | "disk_flipped":
                if _count(self._crashed, where[0], -1) == 0:
                    self.restart(where[0])
            case _:
                assert_never(fault.kind)

    def _crash(self, name: str) -> FaultKind | None:
        """Stop a broker; None if it was down."""
        if not self._world.nodes[name].alive:
            return None
        if self._loses_report(name):
            self._rolled_back[name] = True  # the disk reports the loss again
        self._world.crash(name, keeps_disk=True)
        return "crash"

    def lose_disk(self, name: str) -> FaultKind | None:
        """Stop a broker without its disk, and record the losses in the ledger. None if it was down."""
        self._lost_disks.has_lost_any = True
        if not self._world.nodes[name].alive:
            return None
        self._lost_disks.has_lost_whole = True
        for id, missed_at in self._in_flight.at_stake(name).items():
            self._ledger.died.update((client, id) for client in self._in_flight.clients_at(missed_at))
            detail = f"on the way to {', '.join(missed_at)}"
            self._recorder.record(name, Record("died", publisher=id[0], sequence=id[1], detail=detail))
        for client, id in self._in_flight.queued(name):
            self._ledger.died.add((client, id))
            self._recorder.record(name, Record("died", client, publisher=id[0], sequence=id[1]))
        events = self._in_flight.events()
        self._monitor.end_quiet()
        self._lost_disks.lose(name)
        for client in dict.fromkeys([*self._population.clients_at(name), *self._in_flight.sessions(name)]):
            self._ledger.home_lost(client, self._world.now, events)
            self._lost_disks.lose_session(client)
        self._world.crash(name, keeps_disk=False)
        return "crash_diskless"

    def roll_back(self, name: str) -> FaultKind | None:
        """Stop a broker whose disk loses the last inputs, and record the losses in the ledger.

        Every second time the disk reports the loss: otherwise neighbours and clients detect it. Until they must have,
        no other disk loses the data that they need for that: such a fault is a plain crash. Returns which of the two it
        was; None if the broker was down.
        """
        count = self._settings.rolled_back_inputs
        if not self._world.nodes[name].alive:
            return None
        is_told = self._rollbacks_begun % 2 == 0 or self._settings.crash_diskless is not None
        if not count or self._world.now < self._unnoticed_until:
            return self._crash(name)
        if not is_told:
            self._unnoticed_until = self._world.now + UNNOTICED_S
        self._lose_tail(name, count, is_told=is_told)
        return "disk_rolled_back"

    def damage(self, name: str, kind: damaged_disks.Damage) -> FaultKind | None:
        """Stop a broker, damage its disk, and record the losses in the ledger.

        No disk is damaged while another loss may be unknown: such a fault is a plain crash, which is returned.
        """
        inputs, snapshot = self._world.disk(name)
        if not self._world.nodes[name].alive or not inputs or self._world.now < self._unnoticed_until:
            return self._crash(name)
        draws = self._streams.stream("fault-damage", kind)
        in_frames = draws.randint(1, WRITE_AHEAD_MAX)
        image = damaged_disks.image_of(inputs, snapshot, self._world.nodes[name].incarnation, in_frames)
        found = damaged_disks.opened(damaged_disks.damaged(image, kind, draws))
        if untruth := damaged_disks.untruth(image, found):
            self._recorder.violate(damaged_disks.LAW, untruth, name)
        loss = found.loss
        if loss is not None and loss.kept < 0:
            self.lose_disk(name)
        else:
            if loss is None:
                self._crash(name)
            else:
                self._lose_tail(name, len(inputs) - loss.kept, is_told=True)
            self._world.replace_inputs(name, found.inputs)
        if loss is not None and needs_operator(loss, self._settings.durability):
            self._refused[name] = loss.missing
        return kind

    def _lose_tail(self, name: str, count: int, *, is_told: bool) -> None:
        """Stop a broker whose disk loses the last inputs; `is_told`: it reports the loss."""
        self._lost_disks.has_lost_any = True
        tail, since = self._in_flight.taken_since(name, count), self._world.tail_begins_s(name, count)
        reported = self._reported.setdefault(name, {})
        if not is_told and self._loses_report(name, count):
            self._ledger.rolled_back.update(dict.fromkeys(reported, False))
        for id in dict.fromkeys(id for taken in tail for id in events_within(taken)):
            self._ledger.died.update((client, id) for client in self._population.homes)
            self._ledger.rolled_back[id] = is_told and self._ledger.rolled_back.get(id, True)
            reported[id] = None
            self._recorder.record(name, Record("died", publisher=id[0], sequence=id[1], detail="rolled back"))
        events = self._in_flight.events()
        self._monitor.end_quiet()
        self._lost_disks.lose(name)
        for client in dict.fromkeys(client for taken in tail for client in clients_within(taken)):
            if client in self._population.homes:
                self._ledger.home_rolled_back(client, since, self._world.now, events)
                self._lost_disks.lose_session(client)
        self._rolled_back[name] = is_told
        self._world.crash(name, keeps_disk=True, loses=count)

    def _loses_report(self, name: str, count: int = 0) -> bool:
        """Whether the disk's report of an earlier loss is among the last `count` inputs, or is not on the disk yet."""
        node = self._world.nodes[name]
        return any(isinstance(input, TailLost) for input, _ in node.journal[max(0, node.durable - count) :])

    def _on_closed(self, node: str, record: Record, now: float) -> None:
        """A broker begins another incarnation: disconnected clients reconnect."""
        if record.detail == LOST_TAIL:
            for after_s in (RECONNECT_S, 10 * RECONNECT_S):
                self._world.clock.call_at(now + after_s, self._come_again, node, record.peer)

    def _come_again(self, broker: str, peer: str) -> None:
        if peer in self._population.homes:
            self._population.reconnect(peer)
        else:
            self._network.connect_links_of(broker)

    def _accept_loss(self, name: str) -> None:
        """An operator accepts that a disk has lost data."""
        self._recorder.record(name, Record("loss_accepted"))
        if _count(self._crashed, name, -1) == 0:
            self.restart(name)

    def restart(self, name: str) -> None:
        """Restart a broker, and connect its neighbours and clients; unless its start is refused."""
        if (missing := self._refused.pop(name, None)) is not None:
            _count(self._crashed, name, 1)
            self._recorder.record(name, Record("start_refused", detail=missing))
            self._world.clock.call_at(self._world.now + ACCEPTED_AFTER_S, self._accept_loss, name)
            return
        is_rolled_back = name in self._rolled_back
        self._world.restart(name, tail_lost=self._rolled_back.pop(name, False))
        for id in self._in_flight.in_hand(name) if is_rolled_back else ():
            self._ledger.entered(id, self._world.now)  # delivered messages are sent again
        self._lost_disks.restarted(name)
        self._network.connect_links_of(name)
        for client in self._population.clients_at(name):
            self._world.clock.call_at(self._world.now + RECONNECT_S, self._population.reconnect, client)

    def _wire(self, *ends: str) -> Wire:
        source, target = ends
        return self._world.nodes[source].wires[target]


def _count(counts: dict[Place, int], place: Place, change: int) -> int:
    counts[place] = counts.get(place, 0) + change
    return counts[place]
