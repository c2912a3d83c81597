"""A run: a scenario and a seed become a world, clients that live in it, faults that befall it, and a summary.

*Theory.* Every random choice comes from a generator named after its purpose and the seed, so that changing the faults
leaves the workload as it was. A run has four parts: warm-up (brokers connect, clients come and ask), the main part
(publishing, churn, faults), settling (no faults; everything under way must arrive), and leaving (everyone goes; tables
must be empty). A probe ten times a simulated second looks whether anything of control is under way; when for the
time that a message takes to a client and back nothing has been, what was asked for so far has settled (`ledger.py`).

*Rules.*
1. The same scenario and seed give the same trace, byte for byte, in every process.
2. Wall time is in the summary and nowhere else.
"""

from collections.abc import Callable, Sized
from random import Random
from time import perf_counter
from typing import Any

import msgspec

from godwit.mobility.roaming import MobileBroker
from godwit.simulator.adhoc_simulation import ad_hoc_run
from godwit.simulator.broker_inspection import (
    entries_in,
    events_queued,
    idle_entries,
    is_answered,
    is_quiet,
    queue_lengths,
    waiting,
)
from godwit.simulator.checkers import Verdict, judge, unmet_expectations
from godwit.simulator.fault_injector import Misfortune
from godwit.simulator.fault_plan import drawn_faults
from godwit.simulator.scenario import Scenario
from godwit.simulator.summary import Summary, percentile_ms
from godwit.simulator.walking import as_if_flooded, twin_of
from godwit.trace import Record, TraceSink

__all__ = ["Simulation", "run"]

PROBE_S = 0.1
TABLES_S = 1.0  # in a run that is not judged
LEAVE_S = 60.0
VIOLATIONS_MAX = 100


def run(
    scenario: Scenario,
    seed: int,
    progress: Callable[[float], None] | None = None,
    trace: TraceSink | None = None,
) -> Summary:
    """Run a scenario to its end. `progress` is told the share that is done."""
    if scenario.overlay.kind == "radio":
        return ad_hoc_run(scenario, seed, progress, trace)
    return Simulation(scenario, seed, trace).run(progress)


class Simulation(Misfortune):
    """One run. Tests may reach into `world`, `ledger` and the machines before `run`."""

    # ------------------------------------------------------------ the run

    def run(self, progress: Callable[[float], None] | None = None) -> Summary:
        """From the first connection to the last word."""
        started = perf_counter()
        scenario, world = self.scenario, self.world
        self.plan()
        for share in (step / 200 for step in range(1, 201)):
            world.run(scenario.ends_s * share)
            if progress is not None:
                progress(share)
        if scenario.run.judge:
            self._check_calm("settling")
            self._check_idle()
        if scenario.run.leave:
            self._leave()
        verdict = Verdict()
        self.fires = self.check_fires()
        if scenario.run.judge:
            verdict = judge(self.ledger, advertised=self.config.advertisements != "off")
        else:
            verdict.delivered = sum(map(len, self.ledger.deliveries.values()))
        if (flooded := twin_of(scenario)) is not None:
            twin = Simulation(flooded, self.seed)
            twin.run()
            self.violations += as_if_flooded(self, twin)
        return self._summary(verdict, perf_counter() - started)

    def plan(self) -> None:
        """Put everything that is known beforehand into the queue of the world."""
        scenario, world, rng = self.scenario, self.world, self.rng["clients"]
        for link in self.overlay.links:
            world.at(0.0, self._reconnect_link, link.a, link.b)
        come_s = scenario.run.warmup_s / 2
        for name in self.homes:
            world.at(rng.uniform(0, come_s), self._come, name)
        for k, name in enumerate(self.publishers):
            self._plan_publishing(k, name, rng)
        self._plan_away(rng)
        self._plan_roaming()
        self._plan_walking()
        self._plan_churn()
        self._plan_fires()
        faults = scenario.faults
        rates = faults.link_loss, faults.duplicate, faults.delay
        world.at(scenario.run.warmup_s, lambda *_: self._set_frame_faults(*rates))
        world.at(scenario.faults_end_s, lambda *_: self._set_frame_faults(0, 0, 0))
        for fault in drawn_faults(scenario, self.overlay, Random(f"{self.seed}/faults")):
            world.at(fault.begins_s, self._begin, fault)
            world.at(fault.ends_s, self._end, fault)
        world.at(PROBE_S, self._probe)

    # ------------------------------------------------------------ looking

    def _probe(self, _a: Any, _b: Any, _c: Any) -> None:
        """Look whether anything of control is under way, and how full everything is."""
        brokers = [self.broker(name) for name in self.overlay.brokers if self.world.nodes[name].alive]
        if not self.scenario.run.judge:
            if self.trace is not None:
                self._record_tables(brokers)
            if self.world.now < self.scenario.ends_s:
                self.world.at(self.world.now + TABLES_S, self._probe)
            return
        self.table_entries_max = max(self.table_entries_max, sum(map(entries_in, brokers)))
        for queue, length in queue_lengths(brokers).items():
            self.queue_max[queue] = max(self.queue_max.get(queue, 0), length)
            bound = self.config.limits.queue_events_max if queue == "session" else self.config.link.outbox_max
            if length > bound and not any(violation.law == "queues bounded" for violation in self.violations):
                self._violate("queues bounded", f"{length} messages in the queue of a {queue}, {bound} are allowed", "")
        if self.trace is not None:
            self._record_tables(brokers)
        if self.ledger.unsettled:
            hop_s = 2 * self.scenario.overlay.client_latency_ms / 1_000  # what brokers told their clients has then come
            quiet = (is_quiet(self.broker(name), self.overlay, self._taken) for name in self.overlay.brokers)
            if self.without_disk or not all(quiet):
                self.quiet_since = None
            elif self.quiet_since is None:
                self.quiet_since = self.world.now
            elif self.world.now - self.quiet_since >= hop_s:
                self.unrenewed = {name: None for name in self.unrenewed if not self.client(name).is_attached}
                self.ledger.settled(
                    self.world.now, lambda name: name not in self.unrenewed and is_answered(self.client(name))
                )
                self._on_record("", Record("settled"), self.world.now)
        if self.world.now < self.scenario.ends_s:
            self.world.at(self.world.now + PROBE_S, self._probe)

    def _record_tables(self, brokers: list[MobileBroker]) -> None:
        """Write down which tables have grown or shrunk."""
        for broker in brokers:
            for table, size in broker.routing.sizes().items():
                if self.table_sizes.get((broker.name, table), 0) != size:
                    self.table_sizes[broker.name, table] = size
                    self._on_record(broker.name, Record("table", number=size, detail=table), self.world.now)

    def _check_calm(self, when: str) -> None:
        """Once faults have stopped everything settles: nothing is under way, no queue holds anything."""
        for name in self.overlay.brokers:
            node, broker = self.world.nodes[name], self.broker(name)
            left = [
                f"{type(message).__name__} {f'for {peer}' if peer else 'held back'}"
                for peer, message in waiting(broker, self.overlay, taken=lambda *_: 0)  # all must be acknowledged
            ]
            left += [f"the session of {client} is not here yet" for client in broker.arrivals]
            left += [f"{', '.join(asked.brokers)} about {client}" for client, asked in broker.collecting.items()]
            left += [f"event {id} for client {client}" for client, id in events_queued(broker, self._other)]
            if not node.alive:
                self._violate("settles", f"the broker is down after {when}", name)
            elif not broker.routing.is_settled():
                self._violate("settles", f"its tables have not settled after {when}", name)
            elif left:
                self._violate("settles", f"{len(left)} still under way after {when}: {left[0]}", name)
        for name in self.homes:
            if not is_answered(self.client(name)):
                self._violate("settles", f"requests of the client are unanswered after {when}", name)

    def _check_idle(self) -> None:
        """A broker holds only what somebody there may publish, as far as contexts go. [spcf §3.1.2]"""
        for name in self.overlay.brokers:
            if idle := idle_entries(self.broker(name)):
                self._violate("no garbage", f"{idle} subscriptions ask for none of the contexts here", name)

    def _leave(self) -> None:
        """Everyone leaves, and the tables must be empty."""
        for name in self.homes:
            self.world.command(name, lambda client, now: client.leave(now))
        self.world.run(self.world.now + LEAVE_S)
        self._check_calm("leaving")
        if self.trace is not None:
            self._record_tables([self.broker(name) for name in self.overlay.brokers])
        for name in self.overlay.brokers:
            left = {table: size for table, size in self.broker(name).routing.sizes().items() if size}
            broker = self.broker(name)
            kept: dict[str, Sized] = {"sessions": broker.sessions, "leaving": broker.leaving, "flushed": broker.flushed}
            kept["holdings"] = broker.holdings
            left |= {what: len(those) for what, those in kept.items() if len(those)}
            self.entries_left += sum(left.values())
            if left:
                self._violate("no garbage", f"after everyone has left: {left}", name)

    # ------------------------------------------------------------ the summary

    def _receipts(self) -> dict[str, int]:
        """All that receipts told, added up over all clients."""
        receipts = [receipt for name in self.homes for receipt in self.client(name).receipts]
        return {
            "told": len(receipts),
            "replayed": sum(receipt.replayed for receipt in receipts),
            "suppressed": sum(receipt.suppressed for receipt in receipts),
            "purged": sum(sum(receipt.purged.values()) for receipt in receipts),
            "expired": sum(receipt.expired for receipt in receipts),
            "lost": sum(len(receipt.lost) + receipt.lost_more for receipt in receipts),
            "sessions_lost": sum(receipt.session_lost for receipt in receipts),
        }

    def _summary(self, verdict: Verdict, wall_s: float) -> Summary:
        latencies = sorted(verdict.latencies)
        dropped = [reason for reason, _ in self.ledger.dropped.values()]
        handled = self.world.handled.items()
        summary = Summary(
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
            packets=dict(sorted((kind.__name__, count) for kind, count in self.world.packets.items())),
            bytes_sent=self.world.bytes_sent,
            table_entries=self.table_entries_max,
            entries_left=self.entries_left,
            queue_max=self.queue_max,
            moves=self.moves,
            receipts=self._receipts(),
            walked=self.walked,
            residues=self.residues,
            context_changes=self.context_changes,
            unmeant=self.unmeant,
            fire=self.fires,
            latency_p50_ms=percentile_ms(latencies, 0.5),
            latency_p99_ms=percentile_ms(latencies, 0.99),
            faults=dict(sorted(self.fault_counts.items())),
            simulated_s=self.world.now,
            wall_s=wall_s,
        )
        unmet = unmet_expectations(summary, self.scenario.run.expectations)
        violations = [*self.violations, *verdict.violations, *unmet]
        return msgspec.structs.replace(summary, violations=tuple(violations[:VIOLATIONS_MAX]))
