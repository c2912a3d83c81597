"""The law with contexts: whatever brokers know of them, deliveries are those of flooding with filtering at both edges.

Under changes of contexts and subscriptions, clients that roam, and every fault; for SPCF, for GSF and in the tree.
"""

import pytest

from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from tests.seeds import few, slow
from tests.simulation.scenarios import (
    ALL_FAULTS,
    AWAY,
    CHURN,
    FAULTS,
    GRAPH,
    SETTLE,
    TREE,
    Pairs,
    delivered_pairs,
    outcome,
)

MIXED = ["contexts={attributes=2, values=4, kind='mixed', sender_share=0.7, to_share=0.5, role_share=0.5}"]
CHANGES = ["contexts.changes_per_s=8", "churn.burst_s=1", "churn.pause_s=2"]
SPCF = with_changes(GRAPH, ["routing.strategy=spcf", *MIXED])
HOPS = with_changes(SPCF, ["routing.matching=hops"])
STRATEGIES = {
    "spcf": SPCF,
    "spcf at hops": HOPS,
    "gsf": with_changes(SPCF, ["routing.strategy=gsf"]),
    "gsf at hops": with_changes(HOPS, ["routing.strategy=gsf"]),
    "covering": with_changes(TREE, MIXED),
    "merging, advertised": with_changes(
        TREE, [*MIXED, "routing={reduction='merging', excess_max=0.3, advertisements='required'}"]
    ),
}
QUICK_AT_HOPS = ("link_break", "crash_diskless", "partition_one_way")
OTHERS = [strategy for strategy in STRATEGIES if not strategy.startswith("spcf")]
ROAMING = ["clients.roaming={per_s=2, away_s=1}", "run.settle_s=180"]


def pairs(scenario: Scenario, seed: int) -> Pairs:
    simulation = Simulation(scenario, seed)
    assert simulation.run().violations == ()
    return delivered_pairs(simulation)


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        *(("spcf", fault) for fault in FAULTS),
        *(("spcf at hops", fault) if fault in QUICK_AT_HOPS else slow("spcf at hops", fault) for fault in FAULTS),
        *(slow(other, "crash_diskless") for other in OTHERS),
    ],
)
def test_the_law_holds_under_one_fault(strategy: str, fault: str) -> None:
    scenario = with_changes(STRATEGIES[strategy], [*FAULTS[fault], *CHURN, *CHANGES, *AWAY, *SETTLE])
    summary = outcome(scenario, 1)
    assert summary.violations == ()
    assert summary.owed > 20
    assert summary.context_changes > 10


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_law_holds_under_all_faults_at_once(strategy: str, seed: int) -> None:
    scenario = with_changes(STRATEGIES[strategy], [*ALL_FAULTS, *CHURN, *CHANGES, *AWAY, *SETTLE])
    assert outcome(scenario, seed).violations == ()


@pytest.mark.parametrize(
    ("strategy", "fault"),
    [
        *(slow("spcf", fault) for fault in ("none", "crash", "link_break", "crash_diskless")),
        *(slow("spcf at hops", fault) for fault in ("crash", "link_break", "crash_diskless")),
        ("spcf at hops", "none"),
        *((strategy, "all") for strategy in STRATEGIES),
    ],
)
def test_the_law_holds_when_clients_roam_with_their_context(strategy: str, fault: str) -> None:
    faults = {**FAULTS, "none": [], "all": ALL_FAULTS}[fault]
    summary = outcome(with_changes(STRATEGIES[strategy], [*ROAMING, *CHANGES, *CHURN, *faults]), 2)
    assert summary.violations == ()
    assert summary.moves > 5


@pytest.mark.parametrize("strategy", ["spcf", "spcf at hops", slow("gsf"), slow("covering")])
def test_the_law_holds_with_expiry_queue_rules_and_quenching(strategy: str) -> None:
    for rule in ("subscription_expires_s=4", "event_expires_s=0.5", "count_max=3"):
        scenario = with_changes(STRATEGIES[strategy], [f"sessions.{rule}", *CHANGES, *CHURN, *AWAY])
        assert outcome(scenario, 1).violations == ()
    quenching = ["routing.quenching=true", "workload={kind='random', selectivity=0.05}", "contexts.kind=ranges"]
    grown_up = ["run.warmup_s=65"]  # newborn brokers of a graph do not know what nobody wants
    summary = outcome(with_changes(STRATEGIES[strategy], [*quenching, *grown_up, *CHANGES, *CHURN, *AWAY]), 1)
    assert summary.violations == ()
    assert summary.quenched > 0


@pytest.mark.parametrize("strategy", ["spcf", slow("spcf at hops"), slow("covering")])
def test_a_place_is_a_part_of_a_context(strategy: str) -> None:
    walking = ["clients.walking={graph='grid 4x4', dwell_s=0.5}", "workload={kind='places', topics=2, radius=1}"]
    summary = outcome(with_changes(STRATEGIES[strategy], [*walking, *CHANGES]), 1)
    assert summary.violations == ()
    assert summary.walked > 20 < summary.context_changes


# ---------------------------------------------------------------- the same, event by event


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
def test_spcf_delivers_exactly_what_gsf_delivers_while_publishers_change_their_context(seed: int) -> None:
    """No gap: what a client publishes right after a change of context reaches all who ask for the new one."""
    base = with_changes(SPCF, ["contexts.to_share=0", "contexts.sender_share=1", "contexts.changes_per_s=15"])
    base = with_changes(base, ["contexts.kind=ranges", "contexts.values=10", "churn={burst_s=100}"])
    routes: list[list[str]] = [[], ["routing.strategy=gsf"], ["routing.matching=hops"]]
    spcf, gsf, at_hops = (pairs(with_changes(base, changes), seed) for changes in routes)
    assert spcf == gsf == at_hops
    assert len(gsf) > 50


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
def test_spcf_gsf_and_the_tree_deliver_the_same_where_contexts_stay(seed: int) -> None:
    tree = ["overlay={kind='random_tree', brokers=6}", "workload.kind=random", "workload.selectivity=0.5"]
    base = with_changes(SPCF, [*tree, "contexts.kind=ranges"])
    as_tree = ["routing={family='tree', reduction='flooding', advertisements='off'}"]
    routes: list[list[str]] = [[], ["routing.strategy=gsf"], ["routing.matching=hops"], as_tree]
    found = [pairs(with_changes(base, changes), seed) for changes in routes]
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) > 50


def test_spcf_sends_less_to_those_who_are_not_meant_and_tells_fewer_of_subscriptions() -> None:
    """S2, S3 in small: what the context-aware strategy is for."""
    local = "contexts={attributes=1, values=20, locality=0.9, sender_share=1, to_share=1}"
    base = with_changes(SPCF, ["overlay.brokers=8", "clients.subscribers=20", local])
    spcf, gsf = outcome(base, 1), outcome(with_changes(base, ["routing.strategy=gsf"]), 1)
    assert spcf.delivered == gsf.delivered
    assert spcf.not_addressed < gsf.not_addressed / 2
    assert spcf.packets["Subscribe"] < gsf.packets["Subscribe"] * 0.7
    assert spcf.packets["Publish"] < gsf.packets["Publish"] * 0.7


# ---------------------------------------------------------------- matched at every hop


def test_events_go_hop_by_hop_while_all_agree_on_the_overlay_and_by_channels_while_links_break() -> None:
    calm = outcome(HOPS, 1)
    assert calm.packets["HopPacket"] > 100
    assert {"SentAgain", "Publish"}.isdisjoint(calm.packets)
    breaking = outcome(with_changes(HOPS, [*FAULTS["link_break"], *SETTLE]), 1)
    assert breaking.violations == ()
    assert min(breaking.packets[kind] for kind in ("HopPacket", "SentAgain", "Publish")) > 10


# ---------------------------------------------------------------- defined, though odd


def test_a_to_that_matches_nobody_reaches_nobody_and_a_filter_on_what_nobody_has_gets_nothing() -> None:
    nobody = "contexts={attributes=1, values=1, sender_share=1, to_share=1}"  # every context is {c0: 0}
    everyone = outcome(with_changes(SPCF, [nobody]), 1)
    assert (everyone.violations, everyone.not_addressed) == ((), 0)
    assert everyone.delivered > 50
    simulation = Simulation(with_changes(SPCF, [nobody]), 1)
    assert simulation.contexts is not None
    simulation.contexts.generator.context = lambda broker: {"other": 1}  # type: ignore[method-assign]
    summary = simulation.run()
    assert (summary.violations, summary.owed, summary.delivered) == ((), 0, 0)


def test_packets_are_counted_wherever_events_are_matched() -> None:
    at_source, at_hops = (outcome(scenario, 1).packets for scenario in (SPCF, HOPS))
    assert {"ContextAdded", "Publish", "Subscribe"} <= set(at_source)
    assert {"ContextAdded", "HopPacket", "Subscribe", "ViewReached"} <= set(at_hops)
    assert min(at_hops.values()) > 0
