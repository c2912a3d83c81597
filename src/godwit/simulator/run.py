"""A run: makes a world, clients and the parts of a scenario from a scenario and a seed, and returns a summary.

*Theory.* `Simulation` composes a run: a world with its clock, a network of brokers, a population of clients, their
requests, the ledger with its updates; and the parts of the scenario (`scenario_part.py`). A run has four phases:
warm-up (brokers and clients connect, clients make requests), the main phase (publishing, churn, faults), settling (no
faults; everything in transit must arrive), and leaving (all clients disconnect; tables must be empty).

*Rules.*
1. The same scenario and seed give the same trace, byte for byte, in every process.
2. Wall time is in the summary and nowhere else.
3. A part whose section is not in the scenario does not exist in the run.
4. Every kind of random choice has a separate stream (`random_streams.py`), so that a change of the faults does not
   change the workload, and a new kind of draw changes nothing else.
"""

from collections.abc import Callable
from time import perf_counter

import msgspec

from godwit.broker.broker import Broker
from godwit.client.client import Client
from godwit.filters.references import LOCATION
from godwit.mobility.possible_values import Movements
from godwit.simulator.adhoc_simulation import ad_hoc_run
from godwit.simulator.checkers import Verdict, judge, unmet_expectations
from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.context_changes import ContextChanges
from godwit.simulator.context_generator import ContextGenerator
from godwit.simulator.fault_injector import FaultInjector
from godwit.simulator.final_checks import FinalChecks
from godwit.simulator.fire_monitoring import Building, FireMonitoring, place_devices
from godwit.simulator.in_flight import InFlight
from godwit.simulator.itineraries import Move
from godwit.simulator.ledger import Ledger
from godwit.simulator.ledger_updates import LedgerUpdates
from godwit.simulator.lost_disks import LostDisks
from godwit.simulator.network import Network
from godwit.simulator.network_monitor import NetworkMonitor
from godwit.simulator.population import Population
from godwit.simulator.publisher_config import publisher_config
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.request_churn import RequestChurn
from godwit.simulator.rights_changes import RightsChanges
from godwit.simulator.roaming_clients import DisconnectingClients, RoamingClients
from godwit.simulator.run_progress import RunProgress
from godwit.simulator.scenario import Churn, Scenario, check, overlay_of, places_of
from godwit.simulator.scenario.walking_section import ground_of
from godwit.simulator.scenario_part import ScenarioPart
from godwit.simulator.setup import add_brokers, add_clients, broker_config, place_clients
from godwit.simulator.summary import Summary, percentile_ms
from godwit.simulator.walking_clients import WalkingClients, as_if_flooded, twin_of
from godwit.simulator.workload_clients import WorkloadClients
from godwit.simulator.workloads import workload_of
from godwit.simulator.world import World
from godwit.trace import TraceSink

__all__ = ["Simulation", "run"]

VIOLATIONS_MAX = 100


def run(
    scenario: Scenario,
    seed: int,
    progress: Callable[[float], None] | None = None,
    trace: TraceSink | None = None,
) -> Summary:
    """Run a scenario. `progress` is called with the finished share."""
    if scenario.overlay.kind == "radio":
        return ad_hoc_run(scenario, seed, progress, trace)
    return Simulation(scenario, seed, trace).run(progress)


class Simulation:
    """One run. Tests may reach into `world`, `ledger`, the machines and the parts before `run`."""

    def __init__(self, scenario: Scenario, seed: int, trace: TraceSink | None = None) -> None:
        check(scenario)
        self.scenario = scenario
        self.seed = seed
        self.streams = streams = RandomStreams(seed)
        self.overlay = overlay = overlay_of(scenario, streams.stream("overlay"))
        self.config = broker_config(scenario)
        self.world = world = World(seed)
        self.recorder = recorder = Recorder(world.clock, trace)
        world.on_notify, world.on_record, world.traces_messages = (
            recorder.on_notify,
            recorder.on_record,
            trace is not None,
        )
        self.ledger = ledger = Ledger()
        self.network = network = Network(world, overlay, scenario.overlay)
        self.population = population = Population(world, network, recorder, streams)
        place_clients(scenario, streams, overlay, population)

        # the world: the itineraries of clients determine the brokers' settings
        self.roaming: RoamingClients | None = None
        if scenario.clients.roaming.is_on:
            self.roaming = RoamingClients(scenario, seed, streams, world, network, population)
        places = places_of(scenario, overlay)
        building = None
        if scenario.fire.is_on:
            building = Building(scenario.fire, streams)
            population.homes.update(place_devices(building, places))
        contexts = ContextGenerator(scenario.contexts, overlay.brokers, streams) if scenario.contexts.is_on else None
        walking = scenario.clients.walking
        graph = ground_of(walking)
        movements = Movements({} if graph is None else {LOCATION: graph}, walking.rule)
        visits = {} if self.roaming is None else self.roaming.visits
        publishers = publisher_config(scenario.clients.roaming, places, visits)
        add_brokers(world, scenario, overlay, self.config, movements, publishers)
        add_clients(world, scenario, network, population, ledger, contexts)

        # requests of clients, and the ledger
        self.lost_disks = lost_disks = LostDisks()
        in_flight = InFlight(scenario, world, network, population, lost_disks, ledger)
        self.requests = requests = ClientRequests(
            scenario, world, network, population, in_flight, ledger, recorder, movements
        )
        self.ledger_updates = LedgerUpdates(
            world, network, population, requests, in_flight, lost_disks, ledger, recorder
        )
        self.monitor = NetworkMonitor(scenario, self.config, world, network, in_flight, lost_disks, ledger, recorder)
        self.final_checks = FinalChecks(world, network, population, in_flight, self.monitor, recorder)

        # the parts of the scenario
        graph_places = () if graph is None else graph.places
        workload = workload_of(
            scenario.workload, scenario.clients.publishers, streams.stream("publishers-of-workload"), graph_places
        )
        self.workload_clients = WorkloadClients(
            scenario, streams, world, network, population, requests, recorder, workload, contexts
        )
        self.disconnecting: DisconnectingClients | None = None
        if scenario.clients.disconnections.per_s > 0:
            self.disconnecting = DisconnectingClients(scenario, streams, world, population)
        self.walking: WalkingClients | None = None
        if graph is not None:
            self.walking = WalkingClients(scenario, streams, world, network, population, requests, graph)
        self.churn: RequestChurn | None = None
        if scenario.churn != Churn():
            self.churn = RequestChurn(scenario, streams, world, population, requests, self.workload_clients, ledger)
        self.contexts: ContextChanges | None = None
        if contexts is not None:
            self.contexts = ContextChanges(scenario, streams, world, population, requests, contexts)
        self.fire: FireMonitoring | None = None
        if building is not None:
            self.fire = FireMonitoring(
                scenario, streams, world, network, population, requests, ledger, recorder, building
            )
        self.faults: FaultInjector | None = None
        if scenario.faults.is_on:
            self.faults = FaultInjector(
                scenario,
                streams,
                world,
                network,
                population,
                in_flight,
                lost_disks,
                self.monitor,
                ledger,
                recorder,
            )

        self.rights: RightsChanges | None = None
        if scenario.rights.is_on:
            self.rights = RightsChanges(scenario, streams, world, network, population, ledger, recorder)

    # ------------------------------------------------------------ what there is

    @property
    def parts(self) -> list[ScenarioPart]:
        """The parts of this run, in the order in which they plan."""
        every: tuple[ScenarioPart | None, ...] = (
            self.workload_clients,
            self.disconnecting,
            self.roaming,
            self.walking,
            self.churn,
            self.contexts,
            self.fire,
            self.faults,
            self.rights,
        )
        return [part for part in every if part is not None]

    @property
    def homes(self) -> dict[str, str]:
        """The broker of each client, or the one to which it will reconnect."""
        return self.population.homes

    @property
    def publishers(self) -> list[str]:
        """The publishers of the workload."""
        return self.population.publishers

    @property
    def subscribers(self) -> list[str]:
        """The subscribers of the workload."""
        return self.population.subscribers

    @property
    def itineraries(self) -> dict[str, tuple[Move, ...]]:
        """By roaming client, its moves."""
        return {} if self.roaming is None else self.roaming.itineraries

    def broker(self, name: str) -> Broker:
        """The machine of a broker."""
        return self.network.broker(name)

    def client(self, name: str) -> Client:
        """The machine of a client."""
        return self.network.client(name)

    # ------------------------------------------------------------ the run

    def run(self, progress: Callable[[float], None] | None = None) -> Summary:
        """From the first connection to the summary."""
        started = perf_counter()
        scenario, world = self.scenario, self.world
        flooded = twin_of(scenario)
        own_share = 1.0 if flooded is None else 0.5
        done = RunProgress(progress, scenario.publishing_ends_s, scenario.ends_s, own_share)
        self.plan()
        for share in (step / 200 for step in range(1, 201)):
            world.run(scenario.ends_s * share)
            done.simulated(scenario.ends_s * share)
        if scenario.run.judge:
            self.final_checks.check_settled("settling")
            self.final_checks.check_idle_entries()
            self.final_checks.note_told()
        if scenario.run.leave:
            is_rolled_back = scenario.faults.lose_tails
            self.final_checks.leave(self.config.limits.session_expiry_s if is_rolled_back else None)
        fires = {} if self.fire is None else self.fire.check()
        verdict = Verdict()
        if scenario.run.judge:
            verdict = judge(self.ledger, advertised=self.config.advertisements != "off")
            if scenario.faults.crash_diskless is None and not self.lost_disks.has_lost_whole:
                self.final_checks.check_told(verdict.died, self.ledger.rolled_back)
        else:
            verdict.delivered = sum(map(len, self.ledger.deliveries.values()))
        done.ended()
        if flooded is not None:
            twin = Simulation(flooded, self.seed)
            twin.run(done.twin())
            self.recorder.violations += as_if_flooded(self, twin)
        return self._summary(verdict, fires, perf_counter() - started)

    def plan(self) -> None:
        """Schedule everything that is known before the run begins."""
        self.network.plan()
        self.population.plan(self.scenario.run.warmup_s / 2)
        for part in self.parts:
            part.plan()
        self.monitor.plan()

    # ------------------------------------------------------------ the summary

    def _receipts(self) -> dict[str, int]:
        """The sums of all receipts over all clients."""
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

    def _summary(self, verdict: Verdict, fires: dict[str, int | bool], wall_s: float) -> Summary:
        latencies, catch_up = sorted(verdict.latencies), sorted(verdict.catch_up)
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
            quenched=sum(reason in ("quenched", "discarded", "not buffered") for reason in dropped),
            messages=dict(sorted((kind.__name__, count) for kind, count in handled)),
            packets=dict(sorted((kind.__name__, count) for kind, count in self.world.packets.items())),
            bytes_sent=self.world.bytes_sent,
            table_entries=self.monitor.table_entries_max,
            entries_left=self.final_checks.entries_left,
            queue_max=self.monitor.queue_max,
            moves=0 if self.roaming is None else self.roaming.moves,
            receipts=self._receipts(),
            walked=0 if self.walking is None else self.walking.steps,
            out_of_context=self.ledger_updates.out_of_context,
            context_changes=self.requests.context_changes,
            not_addressed=self.ledger_updates.not_addressed,
            fire=fires,
            latency_p50_ms=percentile_ms(latencies, 0.5),
            latency_p99_ms=percentile_ms(latencies, 0.99),
            caught_up=len(catch_up),
            catch_up_p50_ms=percentile_ms(catch_up, 0.5),
            catch_up_p99_ms=percentile_ms(catch_up, 0.99),
            faults={} if self.faults is None else dict(sorted(self.faults.counts.items())),
            simulated_s=self.world.now,
            wall_s=wall_s,
        )
        unmet = unmet_expectations(summary, self.scenario.run.expectations)
        violations = [*self.recorder.violations, *verdict.violations, *unmet]
        return msgspec.structs.replace(summary, violations=tuple(violations[:VIOLATIONS_MAX]))
