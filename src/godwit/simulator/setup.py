"""The stage of a run: a world built from a scenario, and the ledger that all that happens in it goes into."""

from collections.abc import Iterable
from functools import partial
from random import Random

from godwit.broker.broker import BrokerConfig
from godwit.broker.effects import Notify
from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.client.client import Client, ClientConfig
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.references import LOCATION
from godwit.mobility.locations import Movements
from godwit.mobility.modes import MODES
from godwit.mobility.roaming import MobileBroker
from godwit.simulator.broker_inspection import (
    events_on_the_way,
    events_queued,
    sessions_at,
)
from godwit.simulator.context_generator import ContextGenerator
from godwit.simulator.ledger import EventId, Ledger
from godwit.simulator.message_sizes import sizes
from godwit.simulator.movement_models import Move, MovementSpace, joined_moves, planned_itineraries
from godwit.simulator.publisher_config import publisher_config
from godwit.simulator.scenario import Scenario, check, overlay_of, places_of
from godwit.simulator.scenario.contexts import ROLE
from godwit.simulator.scenario.walking import ground_of
from godwit.simulator.summary import Violation
from godwit.simulator.workloads import workload_of
from godwit.simulator.world import World
from godwit.trace import Record, TraceSink

__all__ = ["Stage"]

DEAD_AFTER_S = 2.0  # graph family
CHANGES = ("subscribed", "unsubscribed", "advertised", "unadvertised", "relocated", "session_ended", "moved")
"""Records of what changes tables: whatever was quiet before is not quiet any more."""


PURPOSES = ("overlay", "workload", "clients", "churn", "contexts")


class Stage:
    """Brokers, clients and wires, and what is known of them."""

    def __init__(self, scenario: Scenario, seed: int, trace: TraceSink | None = None) -> None:
        check(scenario)
        self.scenario = scenario
        self.seed = seed
        self.trace = trace
        self.ledger = Ledger()
        self.world = World(seed)
        self.world.on_notify = self._on_notify
        self.world.on_record = self._on_record
        self.world.traces_messages = trace is not None
        self.rng = {purpose: Random(f"{seed}/{purpose}") for purpose in PURPOSES}
        self.overlay = overlay_of(scenario, self.rng["overlay"])
        walking = scenario.clients.walking
        self.ground = ground_of(walking)
        self.movements = Movements({} if self.ground is None else {LOCATION: self.ground}, walking.rule)
        self.open_filters: dict[tuple[str, str], Filter] = {}  # subscriptions that refer to their client's own state
        self.steps_of: dict[str, Random] = {}  # by client that walks
        self.turned_up: dict[str, float] = {}  # when those came back who were away
        self.walked = 0
        self.residues = 0
        self.situations = ContextGenerator(scenario.contexts, self.overlay.brokers, seed)
        self.said: dict[str, dict[str, Attributes]] = {}  # by client and part, what it has said of its context
        self.context_changes = 0
        self.unmeant = 0
        places = () if self.ground is None else self.ground.places
        self.workload = workload_of(scenario.workload, scenario.clients.publishers, self.rng["workload"], places)
        self.violations: list[Violation] = []
        self.fault_counts: dict[str, int] = {}
        self.broken: dict[tuple[str, str], int] = {}  # links that a fault keeps down
        self.blocked: dict[tuple[str, str], int] = {}
        self.crashed: dict[str, int] = {}
        self.without_disk: dict[str, None] = {}  # brokers that are down and have lost their disk
        self.unrenewed: dict[str, None] = {}  # clients whose session is lost, and who have not heard of it yet
        self.slow: dict[str, int] = {}
        self.away: dict[str, int] = {}  # clients that are away of their own will
        self.homes: dict[str, str] = {}  # where each client is, or will turn up
        self.moves = 0
        self.expiring: dict[tuple[str, str], int] = {}  # the wish that a subscription's time is counted from
        self.expires: dict[tuple[str, str], float] = {}  # by its client's clock
        self.quiet_since: float | None = None
        self.subscriptions_made = 0
        self.queue_max: dict[str, int] = {}
        self.table_entries_max = 0
        self.table_sizes: dict[tuple[str, str], int] = {}  # as last written to the trace
        self.entries_left = 0
        self.itineraries = self._place_clients()
        self._build()

    # ------------------------------------------------------------ building

    def _place_clients(self) -> dict[str, tuple[Move, ...]]:
        """Give each client its first broker, and say where those who move will go from there."""
        scenario, rng = self.scenario, self.rng["clients"]
        places = places_of(scenario, self.overlay)
        self.publishers = [f"p{k}" for k in range(scenario.clients.publishers)]
        self.subscribers = [f"s{k}" for k in range(scenario.clients.subscribers)]
        self.homes.update((name, rng.choice(places)) for name in (*self.publishers, *self.subscribers))
        roaming = scenario.clients.roaming
        ground = MovementSpace(
            overlay=self.overlay,
            places=places,
            positions=scenario.overlay.positions,
            seed=self.seed,
            begins_s=scenario.run.warmup_s,
            ends_s=scenario.faults_end_s,
        )
        found = planned_itineraries(roaming, ground, {name: self.homes[name] for name in self._those(roaming.who)})
        self.homes.update((name, way.home) for name, way in found.items())
        return {name: way.moves for name, way in found.items()}

    def _visits(self) -> dict[str, tuple[str, ...]]:
        """By client that moves, the brokers that it will be at."""
        return {
            name: (self.homes[name], *(move.to for move in joined_moves(moves)))
            for name, moves in self.itineraries.items()
        }

    def _those(self, who: str) -> list[str]:
        named = {"subscribers": self.subscribers, "publishers": self.publishers}
        return named.get(who, [*self.publishers, *self.subscribers])

    def _build(self) -> None:
        scenario, world = self.scenario, self.world
        network = scenario.overlay
        journaled = scenario.faults.crash is not None or network.disk_sync_ms > 0
        beside: dict[str, dict[str, float]] = {broker: {} for broker in self.overlay.brokers}
        for link in self.overlay.links:
            beside[link.a][link.b] = beside[link.b][link.a] = link.cost
        session_s = scenario.clients.roaming.session_s
        routing = scenario.routing
        at_hops = routing.matching == "hops"
        dead_after_s = DEAD_AFTER_S if routing.family == "graph" and not at_hops else None
        config = BrokerConfig(
            family=routing.family,
            reduction=routing.reduction,
            excess_max=routing.excess_max,
            advertisements=routing.advertisements if routing.family == "tree" else "off",
            strategy=routing.strategy,
            matching=routing.matching,
            contexts_max=routing.contexts_max,
            overlay=tuple((link.a, link.b, link.cost) for link in self.overlay.links) if at_hops else (),
            asserted=(ROLE,) if scenario.contexts.role_share else (),
            link=LinkConfig(dead_after_s=dead_after_s),
            limits=Limits() if session_s is None else Limits(session_expiry_s=session_s),
        )
        self.config = config
        self.ledger.steady_only = at_hops and routing.strategy == "spcf"
        self.tracks_contexts = scenario.contexts.is_on or scenario.fire.is_on or self.ledger.steady_only
        moving = publisher_config(scenario.clients.roaming, places_of(scenario, self.overlay), self._visits())
        world.size_of = sizes(network.control_bytes, network.event_bytes)
        for name in self.overlay.brokers:
            make = partial(MobileBroker, name, beside[name], config, movements=self.movements, moving=moving)
            world.add_broker(name, make, journaled=journaled, sync_s=network.disk_sync_ms / 1_000)
        for link in self.overlay.links:
            world.wire(link.a, link.b, link.latency_s, link.bandwidth_bps)
        roaming = scenario.clients.roaming
        modes = {"p": roaming.publisher_mode, "s": roaming.subscriber_mode}
        for name in self.homes:
            client_config = ClientConfig(
                buffer_events_max=scenario.clients.buffer_events_max,
                quench=scenario.routing.quenching,
                mode=modes.get(name.rstrip("0123456789"), "relocate"),
            )
            world.add_client(name, Client(name, client_config))
            self.ledger.modes[name] = MODES[client_config.mode]
            self.ledger.asserted[name] = world.asserted[name] = self.situations.asserted(name)
            self._wire_client(name, self.homes[name])
        skew_s = scenario.faults.clock_skew_s
        if skew_s:
            clocks = Random(f"{self.seed}/clocks")
            for node in world.nodes.values():
                node.skew_s = clocks.uniform(-skew_s, skew_s)

    def _wire_client(self, name: str, broker: str) -> None:
        """Wires between a client and a broker, if there are none yet."""
        if broker not in self.world.nodes[name].wires:
            network = self.scenario.overlay
            bps = None if network.client_bandwidth_kbps is None else network.client_bandwidth_kbps * 1_000
            self.world.wire(name, broker, network.client_latency_ms / 1_000, bps)

    def broker(self, name: str) -> MobileBroker:
        """The machine of a broker that is up."""
        machine = self.world.nodes[name].machine
        assert isinstance(machine, MobileBroker)
        return machine

    def client(self, name: str) -> Client:
        """The machine of a client."""
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Client)
        return machine

    def context_of(self, name: str) -> Attributes:
        """What a client has said of its context, and what its server says."""
        said = {key: value for part in self.said.get(name, {}).values() for key, value in part.items()}
        return {**said, **self.ledger.asserted.get(name, {})}

    def begins_anew(self, name: str) -> bool:
        """Whether each connection of this client begins a session (mobility/publishers.py)."""
        mode = self.ledger.modes.get(name)
        return mode is not None and mode.for_publishers

    # ------------------------------------------------------------ looking

    def _taken(self, sender: str, receiver: str) -> int:
        """The number of the last message that a broker has taken from another and will not forget in a crash."""
        node, link = self.world.nodes[receiver], self.broker(receiver).links[sender]
        is_known = link.peer_incarnation == self.broker(sender).links[receiver].incarnation
        is_safe = receiver not in self.without_disk and len(node.journal) == node.durable
        return link.received if is_known and is_safe else 0

    def _other(self, name: str) -> MobileBroker | None:
        """The machine of a broker, unless it has lost its memory."""
        return None if name in self.without_disk else self.broker(name)

    def _clients_at(self, brokers: Iterable[str]) -> dict[str, None]:
        """The clients that are at one of these brokers, or whose session is, or is on its way from or to one."""
        found: dict[str, None] = {}
        for name in brokers:
            found.update((client, None) for client, home in self.homes.items() if home == name)
            if (broker := self._other(name)) is not None:
                found.update(sessions_at(broker, self._other))
        return found

    def _in_flight(self) -> list[EventId]:
        """Every event that is under way anywhere, also on the disk of a broker that is down."""
        found: list[EventId] = []
        if not self.scenario.run.judge:
            return found
        lasting = self.scenario.faults.crash_diskless is None  # otherwise what was taken may be sent again
        for name in self.overlay.brokers if self.ledger.facts else ():
            broker = self.broker(name)
            found += events_on_the_way(broker, self.overlay, self._taken if lasting else lambda *_: 0)
            found += [id for _, id in events_queued(broker, self._other)]
        return [*found, *(id for _, id in self.ledger.died)]  # of these some may be sent again by their source

    def _violate(self, law: str, text: str, node: str) -> None:
        self.violations.append(Violation(law, text, self.world.now, node))

    # ------------------------------------------------------------ what happens

    def _on_notify(self, client: str, notify: Notify, now: float) -> None:
        self.ledger.delivered(client, notify.event.id, notify.subscriptions, now)
        if self.trace is not None:
            publisher, sequence = notify.event.id
            record = Record(
                "delivered", publisher=publisher, sequence=sequence, subscription=",".join(notify.subscriptions)
            )
            self.trace.write(now, client, record)

    def _on_record(self, node: str, record: Record, now: float) -> None:
        id = (record.publisher, record.sequence)
        if record.kind in CHANGES:
            self.quiet_since = None
        match record.kind:
            case "published":
                self.ledger.entered(id, now)
            case "residue":
                self.residues += 1
            case "unmeant":
                self.unmeant += 1
            case "purged" | "expired":
                self.ledger.gone[record.peer, id] = record.kind
            case "quenched" if self.client(node).connection is None:  # its buffer was full: [mobile §3.2] allows it
                self.ledger.dropped[id] = ("discarded", now)
            case "quenched" | "refused":
                self.ledger.dropped[id] = (record.kind, now)
            case "lost":
                self._on_lost(node, record, id)
            case "suppressed" if node in self.homes:
                if self.fault_counts.get("crash_diskless") or self.begins_anew(record.publisher):
                    self.ledger.overtaken.add((node, id))
            case "session_ended" if self.begins_anew(record.peer):  # it will say all again elsewhere, or has
                if self.client(record.peer).connection is None or self.homes[record.peer] == node:
                    self.ledger.home_lost(record.peer, now, self._in_flight())
            case "relocated" if record.peer in self.unrenewed:  # what the client had asked for stands again
                self.ledger.home_renewed(record.peer, now, self._in_flight())
            case "closed":
                if record.peer in self.overlay.brokers and node in self.overlay.brokers:
                    self._violate("nobody at fault", f"closed the link to {record.peer}: {record.detail}", node)
        if self.trace is not None:
            self.trace.write(now, node, record)

    def _on_lost(self, node: str, record: Record, id: EventId) -> None:
        """Something was given up, on record: by a client's buffer, by a session's budget, or by a broker."""
        if node in self.homes:
            self.ledger.dropped[id] = ("lost", self.world.now)
        elif record.peer in self.homes:
            self.ledger.gone[record.peer, id] = "lost"
        elif self.fault_counts.get("crash_diskless"):  # what a past life of its broker sent came after the next began
            self.ledger.died.update((client, id) for client in self._clients_at([node]))
        else:
            self._violate("nothing lost", f"event {id} given up: {record.detail}", node)
