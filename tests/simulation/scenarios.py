"""Small scenarios for tests: a fraction of a second each, and yet enough churn and traffic for a law to break."""

from collections import Counter
from random import Random

from godwit.filters.events import Attributes
from godwit.filters.filters import Filter, some
from godwit.filters.sets import less_than
from godwit.simulator.ledger import NEVER, EventId, Ledger, RequestHistory
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Clients, OverlaySpec, RoutingSection, Run, Scenario, with_changes
from godwit.simulator.summary import Summary
from godwit.simulator.workloads import Workload, WorkloadSpec

TREE = Scenario(
    name="small tree",
    overlay=OverlaySpec(kind="random_tree", brokers=5),
    routing=RoutingSection(reduction="covering", advertisements="off"),
    clients=Clients(publishers=3, subscribers=6, subscriptions=2, publish_per_s=5.0),
    workload=WorkloadSpec(kind="mixed"),
    run=Run(warmup_s=3.0, duration_s=8.0, settle_s=30.0),
)
"""Nothing changes and nothing goes wrong."""

GRAPH = with_changes(
    TREE,
    [
        "name=small graph",
        "overlay.kind=random_graph",
        "overlay.brokers=5",
        "overlay.degree=3",
        "routing={family='graph'}",
    ],
)

CHURN = ["churn={subscribe_per_s=3, unsubscribe_per_s=3, replace_per_s=3, advertise_per_s=2, burst_s=1, pause_s=2}"]
AWAY = ["clients.disconnections={per_s=1, lasts_s=0.7}"]

FAULTS = {
    "link_loss": ["faults.link_loss=0.1"],
    "duplicate": ["faults.duplicate=0.2"],
    "delay": ["faults.delay=0.3", "faults.delay_ms_max=400"],
    "link_break": ["faults.link_break={per_s=0.6, lasts_s=1}"],
    "partition_one_way": ["faults.partition_one_way={per_s=0.4, lasts_s=1.5}"],
    "crash": ["faults.crash={per_s=0.4, lasts_s=0.7}"],
    "crash_with_a_slow_disk": ["faults.crash={per_s=0.4, lasts_s=0.7}", "overlay.disk_sync_ms=20"],
    "crash_diskless": ["faults.crash_diskless={per_s=0.2, lasts_s=0.7}"],
    "disk_full": ["faults.disk_full={per_s=0.3, lasts_s=1.5}"],
    "disk_slow": ["faults.disk_slow={per_s=0.4, lasts_s=1.5}"],
    "slow_node": ["faults.slow_node={per_s=0.4, lasts_s=1}", "faults.slow_ms=60"],
    "clock_skew": ["faults.clock_skew_s=5"],
}
"""Each kind of fault alone."""

ALL_FAULTS = [change for name, changes in FAULTS.items() if name != "crash" for change in changes]
"""All of them at once."""

SETTLE = ["run.settle_s=60"]
"""Time enough for links that ask again after ever longer silences, and for brokers that wait for their neighbours."""


class Nested:
    """A workload in which of any two filters one covers the other."""

    def filter(self, k: int, rng: Random) -> Filter:
        return some("price", less_than(1 + rng.randrange(20)))

    def attributes(self, publisher: int, k: int, rng: Random) -> Attributes:
        return {"price": rng.randrange(20)}

    def advertisement(self, publisher: int, variant: int = 0) -> Filter:
        return some("price", less_than(20 + variant))


Pairs = set[tuple[str, EventId]]
"""Clients and events."""


def owed_pairs(simulation: Simulation) -> Pairs:
    """Who was owed what in a run that is over, reckoned anew and without excuses."""
    ledger, found = simulation.ledger, set()
    advertised = simulation.config.advertisements != "off"
    for id, fact in ledger.facts.items():
        if fact.entered_at == NEVER:
            continue
        filters = {v.filter for s in _standings(ledger) for v in s.versions if v.filter is not None}
        matching = {filter for filter in filters if filter.holds(fact.event.attributes)}
        if advertised and not any(
            standing.owes(fact, matching) for standing in ledger.advertisements.values() if standing.client == id[0]
        ):
            continue
        found |= {(s.client, id) for s in ledger.subscriptions.values() if s.owes(fact, matching)}
    return found


def _standings(ledger: Ledger) -> list[RequestHistory[Filter]]:
    return [*ledger.subscriptions.values(), *ledger.advertisements.values()]


def delivered_pairs(simulation: Simulation) -> Pairs:
    """Who got what."""
    return {(client, id) for client, got in simulation.ledger.deliveries.items() for _, id, _ in got}


def outcome(scenario: Scenario, seed: int, workload: Workload | None = None) -> Summary:
    """What a run comes to, with a workload of its own if one is given."""
    simulation = Simulation(scenario, seed)
    if workload is not None:
        simulation.workload_clients.workload = workload
    return simulation.run()


def laws_broken(summary: Summary) -> Counter[str]:
    """Which laws broke, and how often."""
    return Counter(violation.law for violation in summary.violations)
