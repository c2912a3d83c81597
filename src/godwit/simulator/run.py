"""A run: a scenario and a seed become a world, clients that live in it, faults that befall it, and a summary.

*Theory.* Every random choice comes from a generator named after its purpose and the seed, so that changing the faults
leaves the workload as it was. A run has four parts: warm-up (brokers connect, clients come and ask), the main part
(publishing, churn, faults), settling (no faults; everything under way must arrive), and leaving (everyone goes; tables
must be empty). A probe ten times a simulated second looks whether anything of control is under way; when twice
running nothing is, what was asked for so far has settled (`ledger.py`).

*Rules.*
1. The same scenario and seed give the same trace, byte for byte, in every process.
2. Wall time is in the summary and nowhere else.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from time import perf_counter
from typing import Any

from godwit.broker.broker import Broker, BrokerConfig
from godwit.broker.effects import Effect, Notify
from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.client.client import Client, ClientConfig
from godwit.filters.events import Event
from godwit.filters.filters import TRUE, Filter
from godwit.simulator.checkers import Verdict, judge
from godwit.simulator.faults import Fault, drawn_faults
from godwit.simulator.inspection import (
    entries_in,
    events_on_the_way,
    events_queued,
    is_answered,
    is_quiet,
    queue_lengths,
)
from godwit.simulator.ledger import EventId, Ledger
from godwit.simulator.scenario import Scenario, check, overlay_of
from godwit.simulator.summary import Summary, Violation
from godwit.simulator.topologies import leaves
from godwit.simulator.workloads import workload_of
from godwit.simulator.world import World
from godwit.trace import Record, TraceSink

__all__ = ["Simulation", "run"]

PROBE_S = 0.1
RECONNECT_S = 0.2
LEAVE_S = 60.0
DEAD_AFTER_S = 2.0  # graph family
VIOLATIONS_MAX = 100


def run(
    scenario: Scenario,
    seed: int,
    progress: Callable[[float], None] | None = None,
    trace: TraceSink | None = None,
) -> Summary:
    """Run a scenario to its end. `progress` is told the share that is done."""
    return Simulation(scenario, seed, trace).run(progress)


class Simulation:
    """One run. Tests may reach into `world`, `clients` and `brokers` before `run`."""

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
        self.rng = {purpose: Random(f"{seed}/{purpose}") for purpose in ("overlay", "workload", "clients", "churn")}
        self.overlay = overlay_of(scenario, self.rng["overlay"])
        self.workload = workload_of(scenario.workload, scenario.clients.publishers, self.rng["workload"])
        self.violations: list[Violation] = []
        self.fault_counts: dict[str, int] = {}
        self.broken: dict[tuple[str, str], int] = {}  # links that a fault keeps down
        self.blocked: dict[tuple[str, str], int] = {}
        self.crashed: dict[str, int] = {}
        self.without_disk: dict[str, None] = {}  # brokers that are down and have lost their disk
        self.slow: dict[str, int] = {}
        self.away: dict[str, int] = {}  # clients that are away of their own will
        self.homes: dict[str, str] = {}
        self.expiring: dict[tuple[str, str], int] = {}  # the wish that a subscription's time is counted from
        self.quiet_since: float | None = None
        self.subscriptions_made = 0
        self.queue_max: dict[str, int] = {}
        self.table_entries_max = 0
        self.entries_left = 0
        self._build()

    # ------------------------------------------------------------ building

    def _build(self) -> None:
        scenario, world = self.scenario, self.world
        network = scenario.overlay
        journaled = scenario.faults.crash is not None or network.disk_sync_ms > 0
        beside: dict[str, dict[str, float]] = {broker: {} for broker in self.overlay.brokers}
        for link in self.overlay.links:
            beside[link.a][link.b] = beside[link.b][link.a] = link.cost
        dead_after_s = DEAD_AFTER_S if scenario.routing.family == "graph" else None
        config = BrokerConfig(
            family=scenario.routing.family,
            reduction=scenario.routing.reduction,
            excess_max=scenario.routing.excess_max,
            advertisements=scenario.routing.advertisements if scenario.routing.family == "tree" else "off",
            link=LinkConfig(dead_after_s=dead_after_s),
            limits=Limits(),
        )
        self.config = config
        for name in self.overlay.brokers:
            make = partial(Broker, name, beside[name], config)
            world.add_broker(name, make, journaled=journaled, sync_s=network.disk_sync_ms / 1_000)
        for link in self.overlay.links:
            world.wire(link.a, link.b, link.latency_s, link.bandwidth_bps)
        rng = self.rng["clients"]
        places = leaves(self.overlay) if scenario.clients.placement == "leaves" else self.overlay.brokers
        self.publishers = [f"p{k}" for k in range(scenario.clients.publishers)]
        self.subscribers = [f"s{k}" for k in range(scenario.clients.subscribers)]
        bandwidth = network.client_bandwidth_kbps
        client_config = ClientConfig(
            buffer_events_max=scenario.clients.buffer_events_max, quench=scenario.routing.quenching
        )
        for name in (*self.publishers, *self.subscribers):
            world.add_client(name, Client(name, client_config))
            home = self.homes[name] = rng.choice(places)
            bps = None if bandwidth is None else bandwidth * 1_000
            world.wire(name, home, network.client_latency_ms / 1_000, bps)
        skew_s = scenario.faults.clock_skew_s
        if skew_s:
            for node in world.nodes.values():
                node.skew_s = rng.uniform(-skew_s, skew_s)

    def broker(self, name: str) -> Broker:
        """The machine of a broker that is up."""
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Broker)
        return machine

    def client(self, name: str) -> Client:
        """The machine of a client."""
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Client)
        return machine

    # ------------------------------------------------------------ the run

    def run(self, progress: Callable[[float], None] | None = None) -> Summary:
        """From the first connection to the last word."""
        started = perf_counter()
        scenario, world = self.scenario, self.world
        self.plan()
        ends_s = scenario.ends_s
        steps = 200
        for step in range(1, steps + 1):
            world.run(ends_s * step / steps)
            if progress is not None:
                progress(step / steps)
        self._check_calm("settling")
        if scenario.run.leave:
            self._leave()
        verdict = judge(self.ledger, advertised=self.config.advertisements != "off")
        return self._summary(verdict, perf_counter() - started)

    def plan(self) -> None:
        """Put everything that is known beforehand into the queue of the world."""
        scenario, world, rng = self.scenario, self.world, self.rng["clients"]
        for link in self.overlay.links:
            world.at(0.0, self._reconnect_link, link.a, link.b)
        come_s = scenario.run.warmup_s / 2
        for name in (*self.publishers, *self.subscribers):
            world.at(rng.uniform(0, come_s), self._come, name)
        for k, name in enumerate(self.publishers):
            self._plan_publishing(k, name, rng)
        self._plan_away(rng)
        self._plan_churn()
        faults = scenario.faults
        self._set_frame_faults(faults.link_loss, faults.duplicate, faults.delay)
        world.at(scenario.faults_end_s, lambda *_: self._set_frame_faults(0, 0, 0))
        for fault in drawn_faults(scenario, self.overlay, Random(f"{self.seed}/faults")):
            world.at(fault.begins_s, self._begin, fault)
            world.at(fault.ends_s, self._end, fault)
        world.at(PROBE_S, self._probe)

    def _plan_publishing(self, k: int, name: str, rng: Random) -> None:
        clients, at = self.scenario.clients, self.scenario.run.warmup_s
        count = 0
        while clients.publish_per_s > 0:
            at += rng.expovariate(clients.publish_per_s)
            if at >= self.scenario.publishing_ends_s or (clients.events is not None and count >= clients.events):
                break
            self.world.at(at, self._publish, k, name, count)
            count += 1

    def _plan_away(self, rng: Random) -> None:
        away = self.scenario.clients.disconnections
        who = {"subscribers": self.subscribers, "publishers": self.publishers}.get(
            away.who, [*self.publishers, *self.subscribers]
        )
        at = self.scenario.run.warmup_s
        while away.per_s > 0 and who and (at := at + rng.expovariate(away.per_s)) < self.scenario.faults_end_s:
            name = rng.choice(who)
            until = min(at + max(rng.expovariate(1 / away.lasts_s), 0.05), self.scenario.faults_end_s)
            self.world.at(at, self._go_away, name)
            self.world.at(until, self._come_back, name)

    def _plan_churn(self) -> None:
        churn, rng = self.scenario.churn, self.rng["churn"]
        ends_s = self.scenario.publishing_ends_s
        rates = {
            self._subscribe_more: churn.subscribe_per_s,
            self._unsubscribe_one: churn.unsubscribe_per_s,
            self._replace_one: churn.replace_per_s,
            self._readvertise_one: churn.advertise_per_s,
        }
        for do, per_s in rates.items():
            start = self.scenario.run.warmup_s
            while per_s > 0 and start < ends_s:
                at = start
                while (at := at + rng.expovariate(per_s)) < min(start + churn.burst_s, ends_s):
                    self.world.at(at, do)
                start += churn.burst_s + churn.pause_s

    # ------------------------------------------------------------ clients

    def _come(self, name: str, _b: Any, _c: Any) -> None:
        """A client comes for the first time and says what it wants or is going to publish."""
        self._reconnect_client(name)
        if name.startswith("p"):
            k = int(name[1:])
            if self.scenario.routing.advertisements == "required":
                self._advertise(name, "all", self.workload.advertisement(k))
            elif self.config.advertisements == "optional":
                self._ask("advertisement", name, "*", TRUE)  # by its coming alone
        else:
            for _ in range(self.scenario.clients.subscriptions):
                self._subscribe(name)

    def _subscribe(self, name: str, subscription: str | None = None) -> None:
        k = self.subscriptions_made
        self.subscriptions_made += 1
        filter = self.workload.filter(k, self.rng["workload"])
        subscription = subscription or f"sub{k}"
        settings = self.scenario.sessions
        expires = None
        if settings.subscription_expires_s is not None:
            world = self.world
            expires = world.now + world.nodes[name].skew_s + settings.subscription_expires_s
            ends_at = expires - world.nodes[self.homes[name]].skew_s
            world.at(ends_at - 1e-6, self._expire, name, subscription, self.subscriptions_made)
        self._ask("subscription", name, subscription, filter)
        self.expiring[name, subscription] = self.subscriptions_made
        rules = settings.rules()
        self.world.command(
            name, lambda client, now: client.subscribe(subscription, filter, now, expires=expires, queue=rules)
        )

    def _expire(self, name: str, subscription: str, number: int) -> None:
        standing = self.ledger.subscriptions[name, subscription]
        if self.expiring.get((name, subscription)) == number and standing.filter is not None:
            self._ask("subscription", name, subscription, None, is_exact=False)

    def _advertise(self, name: str, advertisement: str, filter: Filter) -> None:
        self._ask("advertisement", name, advertisement, filter)
        self.world.command(name, lambda client, now: client.advertise(advertisement, filter, now))

    def _ask(self, kind: str, name: str, entry: str, filter: Filter | None, *, is_exact: bool = True) -> None:
        self.ledger.asked(kind, name, entry, filter, self.world.now, self._in_flight(), is_exact=is_exact)

    def _publish(self, k: int, name: str, number: int) -> None:
        scenario = self.scenario
        attributes = self.workload.attributes(k, number, self.rng["workload"])
        expires_s = scenario.sessions.event_expires_s
        payload = bytes(scenario.clients.payload_bytes) if scenario.clients.payload_bytes else None

        def publish(client: Client, now: float) -> list[Effect]:
            expires_at = None if expires_s is None else now + expires_s
            event = Event(attributes, name, client.sequence + 1, payload, published_at=now, expires_at=expires_at)
            self.ledger.published(event, self.world.now)
            return client.publish(event, now)

        self.world.command(name, publish)

    def _go_away(self, name: str, _b: Any, _c: Any) -> None:
        self.away[name] = self.away.get(name, 0) + 1
        self.world.disconnect(name, self.homes[name])

    def _come_back(self, name: str, _b: Any, _c: Any) -> None:
        self.away[name] -= 1
        self._reconnect_client(name)

    def _reconnect_client(self, name: str, _b: Any = None, _c: Any = None) -> None:
        """Connect a client that wants to be connected, if its broker is there."""
        home = self.homes[name]
        if self.away.get(name, 0) == 0 and self.world.connect(name, home):
            self.ledger.home_renewed(name, self.world.now, self._in_flight())

    # ------------------------------------------------------------ churn

    def _standing_subscriptions(self) -> list[tuple[str, str]]:
        standings = self.ledger.subscriptions.items()
        return [key for key, standing in standings if standing.filter is not None]

    def _subscribe_more(self, _a: Any, _b: Any, _c: Any) -> None:
        if self.subscribers:
            self._subscribe(self.rng["churn"].choice(self.subscribers))

    def _unsubscribe_one(self, _a: Any, _b: Any, _c: Any) -> None:
        standing = self._standing_subscriptions()
        if standing:
            name, subscription = self.rng["churn"].choice(standing)
            self._ask("subscription", name, subscription, None)
            self.world.command(name, lambda client, now: client.unsubscribe(subscription, now))

    def _replace_one(self, _a: Any, _b: Any, _c: Any) -> None:
        standing = self._standing_subscriptions()
        if standing:
            self._subscribe(*self.rng["churn"].choice(standing))

    def _readvertise_one(self, _a: Any, _b: Any, _c: Any) -> None:
        """A publisher withdraws its advertisement, makes it again, or widens it."""
        if self.scenario.routing.advertisements != "required" or not self.publishers:
            return
        k = self.rng["churn"].randrange(len(self.publishers))
        name = self.publishers[k]
        if (name, "all") not in self.ledger.advertisements:
            return
        standing = self.ledger.advertisements[name, "all"]
        if standing.filter is None or self.rng["churn"].random() < 0.5:
            self._advertise(name, "all", self.workload.advertisement(k, self.rng["churn"].randrange(3)))
        else:
            self._ask("advertisement", name, "all", None)
            self.world.command(name, lambda client, now: client.unadvertise("all", now))

    # ------------------------------------------------------------ faults

    def _set_frame_faults(self, loss: float, duplicate: float, delay: float) -> None:
        delay_s = self.scenario.faults.delay_ms_max / 1_000
        for link in self.overlay.links:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                wire = self.world.nodes[a].wires[b]
                wire.set_faults(loss, duplicate, delay, delay_s, blocked=self.blocked.get((a, b), 0) > 0)

    def _begin(self, fault: Fault, _b: Any, _c: Any) -> None:
        self.fault_counts[fault.kind] = self.fault_counts.get(fault.kind, 0) + 1
        where = fault.where
        match fault.kind:
            case "link_break":
                _count(self.broken, where, 1)
                self.world.disconnect(*where)
            case "partition_one_way":
                _count(self.blocked, where, 1)
                wire = self.world.nodes[where[0]].wires[where[1]]
                wire.blocked = wire.faulty = True
            case "slow_node":
                _count(self.slow, where[0], 1)
                self.world.nodes[where[0]].slow_s = self.scenario.faults.slow_ms / 1_000
            case "crash":
                _count(self.crashed, where[0], 1)
                self.world.crash(where[0], keeps_disk=True)
            case "crash_diskless":
                _count(self.crashed, where[0], 1)
                self._lose_disk(where[0])

    def _end(self, fault: Fault, _b: Any, _c: Any) -> None:
        where = fault.where
        match fault.kind:
            case "link_break":
                _count(self.broken, where, -1)
                self._reconnect_link(where[0], where[1], None)
            case "partition_one_way":
                if _count(self.blocked, where, -1) == 0:
                    wire = self.world.nodes[where[0]].wires[where[1]]
                    wire.set_faults(wire.loss_rate, wire.duplicate_rate, wire.delay_rate, wire.delay_s, blocked=False)
            case "slow_node":
                if _count(self.slow, where[0], -1) == 0:
                    self.world.nodes[where[0]].slow_s = 0.0
            case "crash" | "crash_diskless":
                if _count(self.crashed, where[0], -1) == 0:
                    self._restart(where[0])

    def _lose_disk(self, name: str) -> None:
        """A broker goes down with its disk: write down what dies with it."""
        if not self.world.nodes[name].alive:
            return
        broker = self.broker(name)
        died, queued = list(events_on_the_way(broker)), list(events_queued(broker))
        self.ledger.died.update(died)
        self.ledger.died_with_session.update(queued)
        for publisher, sequence in died:
            self._on_record(name, Record("died", publisher=publisher, sequence=sequence), self.world.now)
        for client, (publisher, sequence) in queued:
            self._on_record(name, Record("died", client, publisher=publisher, sequence=sequence), self.world.now)
        in_flight = self._in_flight()
        self.quiet_since = None
        self.without_disk[name] = None
        for client, home in self.homes.items():
            if home == name:
                self.ledger.home_lost(client, self.world.now, in_flight)
        self.world.crash(name, keeps_disk=False)

    def _restart(self, name: str) -> None:
        self.world.restart(name)
        self.without_disk.pop(name, None)
        for link in self.overlay.links:
            if name in (link.a, link.b):
                self._reconnect_link(link.a, link.b, None)
        for client, home in self.homes.items():
            if home == name:
                self.world.at(self.world.now + RECONNECT_S, self._reconnect_client, client)

    def _reconnect_link(self, a: str, b: str, _: Any) -> None:
        if self.broken.get((a, b), 0) == 0 and self.broken.get((b, a), 0) == 0:
            self.world.connect(a, b)

    # ------------------------------------------------------------ looking

    def _alive(self) -> list[Broker]:
        return [self.broker(name) for name in self.overlay.brokers if self.world.nodes[name].alive]

    def _in_flight(self) -> list[EventId]:
        """Every event that is under way anywhere, also on the disk of a broker that is down."""
        found: list[EventId] = []
        for name in self.overlay.brokers:
            broker = self.broker(name)
            found += events_on_the_way(broker)
            found += [id for _, id in events_queued(broker)]
        return found

    def _probe(self, _a: Any, _b: Any, _c: Any) -> None:
        """Look whether anything of control is under way, and how full everything is."""
        brokers = self._alive()
        self.table_entries_max = max(self.table_entries_max, sum(map(entries_in, brokers)))
        for queue, length in queue_lengths(brokers).items():
            self.queue_max[queue] = max(self.queue_max.get(queue, 0), length)
        if self.ledger.unsettled:
            if not all(is_quiet(self.broker(name)) for name in self.overlay.brokers) or self.without_disk:
                self.quiet_since = None
            elif self.quiet_since is None:
                self.quiet_since = self.world.now
            elif self.world.now - self.quiet_since >= self._hop_s():
                self.ledger.settled(self.world.now, lambda name: is_answered(self.client(name)))
                self._on_record("", Record("settled"), self.world.now)
        if self.world.now < self.scenario.ends_s:
            self.world.at(self.world.now + PROBE_S, self._probe)

    def _hop_s(self) -> float:
        """What a message to a client takes at most: what brokers told their clients has then arrived."""
        return 2 * self.scenario.overlay.client_latency_ms / 1_000

    def _check_calm(self, when: str) -> None:
        """Once faults have stopped everything settles: nothing is under way, no queue holds anything."""
        for name in self.overlay.brokers:
            node, broker = self.world.nodes[name], self.broker(name)
            waiting = [f"{type(m).__name__} for {peer}" for peer, link in broker.links.items() for m in link.outbox]
            waiting += [f"{type(m).__name__} held back" for m in broker.routing.held_back()]
            waiting += [f"event {id} for client {client}" for client, id in events_queued(broker)]
            if not node.alive:
                self._violate("settles", f"the broker is down after {when}", name)
            elif not broker.routing.is_settled():
                self._violate("settles", f"its tables have not settled after {when}", name)
            elif waiting:
                self._violate("settles", f"{len(waiting)} still under way after {when}: {waiting[0]}", name)
        for name in self.homes:
            if not is_answered(self.client(name)):
                self._violate("settles", f"requests of the client are unanswered after {when}", name)

    def _leave(self) -> None:
        """Everyone leaves, and the tables must be empty."""
        for name in self.homes:
            self.world.command(name, lambda client, now: client.leave(now))
        self.world.run(self.world.now + LEAVE_S)
        self._check_calm("leaving")
        for name in self.overlay.brokers:
            left = {table: size for table, size in self.broker(name).routing.sizes().items() if size}
            if len(self.broker(name).sessions):
                left["sessions"] = len(self.broker(name).sessions)
            self.entries_left += sum(left.values())
            if left:
                self._violate("no garbage", f"after everyone has left: {left}", name)

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
        match record.kind:
            case "published":
                self.ledger.entered(id, now)
            case "purged" | "expired":
                self.ledger.gone[record.peer, id] = record.kind
            case "quenched" if self.client(node).connection is None:  # its buffer was full: [mobile §3.2] allows it
                self.ledger.dropped[id] = ("discarded", now)
            case "quenched" | "refused":
                self.ledger.dropped[id] = (record.kind, now)
            case "lost":
                self._on_lost(node, record, id)
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
        elif not self.fault_counts.get("crash_diskless"):
            self._violate("nothing lost", f"event {id} given up: {record.detail}", node)

    # ------------------------------------------------------------ the summary

    def _summary(self, verdict: Verdict, wall_s: float) -> Summary:
        latencies = sorted(verdict.latencies)
        violations = [*self.violations, *verdict.violations, *self._unmet_expectations(verdict)]
        dropped = [reason for reason, _ in self.ledger.dropped.values()]
        handled = self.world.handled.items()
        return Summary(
            scenario=self.scenario.name,
            seed=self.seed,
            published=len(self.ledger.facts),
            owed=verdict.owed,
            delivered=verdict.delivered,
            lost=verdict.lost,
            duplicated=verdict.duplicated,
            out_of_order=verdict.out_of_order,
            unwanted=verdict.unwanted,
            allowed=verdict.allowed,
            excused=verdict.excused,
            purged=verdict.purged,
            expired=verdict.expired,
            quenched=dropped.count("quenched") + dropped.count("discarded"),
            messages=dict(sorted((kind.__name__, count) for kind, count in handled)),
            bytes_sent=self.world.bytes_sent,
            table_entries=self.table_entries_max,
            entries_left=self.entries_left,
            queue_max=self.queue_max,
            latency_p50_ms=_percentile(latencies, 0.5),
            latency_p99_ms=_percentile(latencies, 0.99),
            faults=dict(sorted(self.fault_counts.items())),
            simulated_s=self.world.now,
            wall_s=wall_s,
            violations=tuple(violations[:VIOLATIONS_MAX]),
        )

    def _unmet_expectations(self, verdict: Verdict) -> list[Violation]:
        expected = self.scenario.run.expectations
        messages = sum(self.world.handled.values())
        p99_ms = _percentile(sorted(verdict.latencies), 0.99)
        bounds: list[tuple[str, float | None, float | None, bool]] = [
            ("delivered_min", verdict.delivered, expected.delivered_min, True),
            ("messages_max", messages, expected.messages_max, False),
            ("table_entries_max", self.table_entries_max, expected.table_entries_max, False),
            ("latency_p99_ms_max", p99_ms, expected.latency_p99_ms_max, False),
            ("purged_max", verdict.purged, expected.purged_max, False),
        ]
        return [
            Violation("expectation", f"{name} is {bound}, and it was {value}", self.world.now)
            for name, value, bound, at_least in bounds
            if bound is not None and value is not None and (value < bound if at_least else value > bound)
        ]


def _count(counts: dict[Any, int], key: Any, change: int) -> int:
    counts[key] = counts.get(key, 0) + change
    return counts[key]


def _percentile(ordered: list[float], share: float) -> float | None:
    """The value below which that share lies, in milliseconds."""
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1_000, 3) if ordered else None
