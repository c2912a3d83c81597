"""The law under every fault: each kind alone, then all at once. A lost disk takes exactly what the trace names."""

from collections.abc import Iterable

import pytest

from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from godwit.trace import Record
from tests.seeds import diagonal, few
from tests.simulation.scenarios import (
    ALL_FAULTS,
    AWAY,
    CHURN,
    FAULTS,
    GRAPH,
    SETTLE,
    TREE,
    delivered_pairs,
    outcome,
    owed_pairs,
)

FAMILIES = {
    "flooding": with_changes(TREE, ["routing.reduction=flooding"]),
    "simple, required": with_changes(TREE, ["routing.reduction=simple", "routing.advertisements=required"]),
    "identity": with_changes(TREE, ["routing.reduction=identity"]),
    "covering, optional": with_changes(TREE, ["routing.advertisements=optional"]),
    "imperfect merging, required": with_changes(
        TREE, ["routing.reduction=merging", "routing.excess_max=0.3", "routing.advertisements=required"]
    ),
    "graph": GRAPH,
}


@pytest.mark.parametrize("seed", few((1, 2), 1))
@pytest.mark.parametrize(("family", "fault"), diagonal(FAMILIES, FAULTS))
def test_the_law_holds_under_one_fault(family: str, fault: str, seed: int) -> None:
    scenario = with_changes(FAMILIES[family], [*FAULTS[fault], *CHURN, *AWAY, *SETTLE])
    summary = outcome(scenario, seed)
    assert summary.violations == ()
    assert summary.owed > 20, "nothing to judge"


@pytest.mark.parametrize("seed", few((1, 2, 3, 4), 1))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_law_holds_under_all_faults_at_once(family: str, seed: int) -> None:
    scenario = with_changes(FAMILIES[family], [*ALL_FAULTS, *CHURN, *AWAY, *SETTLE])
    assert outcome(scenario, seed).violations == ()


# ---------------------------------------------------------------- a lost disk


class Records:
    """A trace in memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, str, Record]] = []

    def write(self, at: float, node: str, record: Record) -> None:
        self.rows.append((at, node, record))

    def of_kind(self, *kinds: str) -> Iterable[tuple[str, Record]]:
        return ((node, record) for _, node, record in self.rows if record.kind in kinds)


BUSY = ["clients.publish_per_s=30", "overlay.latency_ms=60", "overlay.brokers=4", "overlay.kind=line", *SETTLE]
LOST_DISK = ["faults.crash_diskless=[{at_s=6, where=['b1'], lasts_s=1}]"]


def named_as_dead(simulation: Simulation, records: Records) -> set[tuple[str, tuple[str, int]]]:
    """Clients and events that records of kind `died` name: a client, or all that are at home at the brokers named."""
    found = set()
    for _, record in records.of_kind("died"):
        id = (record.publisher, record.sequence)
        brokers = record.detail.removeprefix("on the way to ").split(", ")
        clients = [record.peer] if record.peer else [c for c, home in simulation.homes.items() if home in brokers]
        found |= {(client, id) for client in clients}
    return found


@pytest.mark.parametrize("seeds", few([(1, 2), (4, 5)], 1))
@pytest.mark.parametrize(
    "scenario",
    [with_changes(TREE, [*BUSY, *LOST_DISK]), with_changes(GRAPH, [*BUSY, *LOST_DISK])],
    ids=["tree", "graph"],
)
def test_what_a_lost_disk_takes_is_what_the_trace_says_has_died(scenario: Scenario, seeds: tuple[int, ...]) -> None:
    missing_in_all = 0
    for seed in seeds:
        records = Records()
        simulation = Simulation(scenario, seed, records)
        summary = simulation.run()
        assert summary.violations == ()
        missing = owed_pairs(simulation) - delivered_pairs(simulation)
        assert missing <= named_as_dead(simulation, records)
        assert summary.excused == len(missing)
        missing_in_all += len(missing)
    assert missing_in_all > 0 or scenario.routing.family == "graph"


@pytest.mark.parametrize("scenario", [with_changes(TREE, BUSY), with_changes(GRAPH, BUSY)], ids=["tree", "graph"])
def test_receipts_tell_those_and_only_those_whose_session_is_lost(scenario: Scenario) -> None:
    home = Simulation(scenario, 1).homes["s0"]
    lost_disk = f"faults.crash_diskless=[{{at_s=6, where=['{home}'], lasts_s=1}}]"
    simulation = Simulation(with_changes(scenario, [lost_disk]), 1)
    assert simulation.run().violations == ()
    told = {
        name for name in simulation.homes if any(receipt.session_lost for receipt in simulation.client(name).receipts)
    }
    assert told == {name for name, where in simulation.homes.items() if where == home}


def test_a_kept_disk_excuses_nothing() -> None:
    scenario = with_changes(TREE, [*BUSY, "faults.crash={per_s=1, lasts_s=0.5}"])
    records = Records()
    simulation = Simulation(scenario, 1, records)
    summary = simulation.run()
    assert (summary.violations, summary.excused, summary.lost) == ((), 0, 0)
    assert summary.faults["crash"] > 3
    assert list(records.of_kind("died")) == []
    assert owed_pairs(simulation) <= delivered_pairs(simulation)
