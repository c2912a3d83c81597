"""The law while clients roam: under every fault, in both families, also when brokers lose their disks."""

import pytest

from godwit.mobility.attach_policies import junction
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, named, with_changes
from tests.seeds import diagonal, few
from tests.simulation.scenarios import ALL_FAULTS, AWAY, CHURN, FAULTS, GRAPH, TREE, outcome

ROAMING = ["clients.roaming={who='all', per_s=2, away_s=0.5}", "run.settle_s=180"]
OFTEN = ["clients.roaming={who='all', per_s=20, away_s=0}", "overlay.latency_ms=40", "run.settle_s=180"]
"""Clients that most often move on before their session has come."""

FAMILIES = {
    "covering": with_changes(TREE, ROAMING),
    "merging, required": with_changes(TREE, [*ROAMING, "routing.reduction=merging", "routing.advertisements=required"]),
    "graph": with_changes(GRAPH, ROAMING),
    "graph without cycles": with_changes(GRAPH, [*ROAMING, "overlay={kind='line', brokers=5}"]),
}


@pytest.mark.parametrize(("family", "fault"), diagonal(FAMILIES, FAULTS))
def test_the_law_holds_under_one_fault_while_clients_roam(family: str, fault: str) -> None:
    scenario = with_changes(FAMILIES[family], [*FAULTS[fault], *CHURN, *AWAY])
    summary = outcome(scenario, 1)
    assert summary.violations == ()
    assert summary.moves > 5


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_law_holds_under_all_faults_at_once_while_clients_roam(family: str, seed: int) -> None:
    scenario = with_changes(FAMILIES[family], [*ALL_FAULTS, *CHURN, *AWAY])
    assert outcome(scenario, seed).violations == ()


@pytest.mark.parametrize("seed", few((1, 2), 1))
@pytest.mark.parametrize("scenario", [with_changes(TREE, OFTEN), with_changes(GRAPH, OFTEN)], ids=["tree", "graph"])
def test_clients_that_move_on_before_they_have_arrived_miss_nothing(scenario: Scenario, seed: int) -> None:
    summary = outcome(scenario, seed)
    assert summary.violations == ()
    assert (summary.lost, summary.excused, summary.duplicated, summary.out_of_order) == (0, 0, 0, 0)
    assert summary.receipts["sessions_lost"] == 0
    assert summary.moves > 100
    assert summary.owed > 300


BY_TABLES = [*OFTEN, "clients.roaming.subscriber_mode=junction", "clients.roaming.publisher_mode=junction"]


@pytest.mark.parametrize("seed", few((8, 20, 1, 2), 1))
@pytest.mark.parametrize(
    ("reduction", "advertisements"), [("simple", "required"), ("simple", "off"), ("covering", "required")]
)
def test_clients_whose_sessions_are_found_by_the_tables_miss_nothing(
    reduction: str, advertisements: str, seed: int
) -> None:
    routing = [f"routing.reduction={reduction}", f"routing.advertisements={advertisements}"]
    summary = outcome(with_changes(TREE, [*BY_TABLES, *routing]), seed)
    assert summary.violations == ()
    assert (summary.lost, summary.excused, summary.duplicated, summary.out_of_order) == (0, 0, 0, 0)
    assert summary.receipts["sessions_lost"] == 0
    assert summary.moves > 100


@pytest.mark.parametrize("seed", few((20, 1, 2, 3), 1))
@pytest.mark.parametrize("reduction", ["simple", "flooding", "merging"])
def test_the_law_holds_under_all_faults_that_disks_survive_while_tables_lead_to_sessions(
    reduction: str, seed: int
) -> None:
    survived = [change for change in ALL_FAULTS if "diskless" not in change]
    roaming = [*ROAMING, "clients.roaming.subscriber_mode=junction", "clients.roaming.publisher_mode=junction"]
    scenario = with_changes(TREE, [*roaming, f"routing.reduction={reduction}", *survived, *CHURN, *AWAY])
    assert outcome(scenario, seed).violations == ()


def test_a_fetch_that_does_not_subscribe_on_its_way_is_seen_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junction, "claim", lambda tree, id, filter, source: [])
    scenario = with_changes(TREE, [*BY_TABLES, "routing.reduction=simple", "routing.advertisements=required"])
    assert "nothing lost" in {violation.law for violation in outcome(scenario, 1).violations}


@pytest.mark.parametrize("base", [TREE, GRAPH], ids=["tree", "graph"])
def test_with_lost_disks_clients_are_told_which_sessions_are_lost(base: Scenario) -> None:
    scenario = with_changes(base, [*ROAMING, "faults.crash_diskless={per_s=0.3, lasts_s=0.5}"])
    lost = 0
    for seed in (1, 2, 3):
        summary = outcome(scenario, seed)
        assert summary.violations == ()
        lost += summary.receipts["sessions_lost"]
    assert lost > 3


def test_the_roam_scenario_holds_while_brokers_lose_their_disks() -> None:
    scenario = with_changes(named("roam"), ["faults.crash_diskless={per_s=0.05, lasts_s=1}"])
    assert outcome(scenario, 2).violations == ()


def test_what_is_kept_of_a_relocation_goes_with_it() -> None:
    simulation = Simulation(with_changes(GRAPH, OFTEN), 1)
    assert simulation.run().violations == ()
    for name in simulation.overlay.brokers:
        broker = simulation.broker(name)
        assert (
            broker.component(Relocation).arrivals,
            broker.component(GraphBarrier).departing,
            broker.component(GraphBarrier).flushed,
            broker.component(OverlayRoutes).unsent,
        ) == ({}, {}, {}, {})
