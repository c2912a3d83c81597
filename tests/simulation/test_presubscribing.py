"""[rebeca §6] Sessions that go ahead of their clients keep every law, however often the prediction is wrong."""

import pytest

from godwit.mobility.arrival_entries import ArrivalEntries
from godwit.mobility.attach_policies.presubscribe import PresubscribePolicy
from godwit.simulator.run import Simulation, run
from godwit.simulator.scenario import Scenario, with_changes
from tests.seeds import few
from tests.simulation.scenarios import ALL_FAULTS, GRAPH, TREE

MOVES = [
    "clients.roaming={model='walk', graph='overlay', dwell_s=2, away_s=0.8}",
    "clients.roaming.subscriber_mode=presubscribe",
    "clients.roaming.publisher_mode=presubscribe",
    "run={warmup_s=3, duration_s=8, settle_s=90}",
]


def moving(base: Scenario, wrong_rate: float, *changes: str) -> Scenario:
    return with_changes(base, [*MOVES, f"clients.roaming.publishers.wrong_rate={wrong_rate}", *changes])


@pytest.mark.parametrize("seed", few(range(4), 1))
@pytest.mark.parametrize("wrong_rate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("base", [TREE, GRAPH], ids=["tree", "graph"])
def test_nothing_is_lost_doubled_or_reordered_however_often_predictions_are_wrong(
    base: Scenario, wrong_rate: float, seed: int
) -> None:
    simulation = Simulation(moving(base, wrong_rate), seed)
    predicted = 0
    recorded = simulation.recorder.on_record

    def count(node, record, now):
        nonlocal predicted
        predicted += record.kind == "predicted"
        recorded(node, record, now)

    simulation.world.on_record = count
    summary = simulation.run()
    assert summary.violations == ()
    assert (summary.lost, summary.duplicated, summary.out_of_order) == (0, 0, 0)
    assert summary.receipts["sessions_lost"] == 0
    assert summary.moves > 8
    assert predicted > 5


@pytest.mark.parametrize("seed", few(range(4), 1))
@pytest.mark.parametrize("base", [TREE, GRAPH], ids=["tree", "graph"])
def test_the_laws_hold_under_all_faults_that_disks_survive(base: Scenario, seed: int) -> None:
    survived = [change for change in ALL_FAULTS if "diskless" not in change and "rolled_back" not in change]
    summary = run(moving(base, 0.4, *survived, "run.settle_s=180"), seed)
    assert summary.violations == ()


def test_a_broker_ahead_that_asks_before_it_subscribes_is_seen_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = PresubscribePolicy.on_presubscribe

    def careless(policy, peer, message, now):
        with monkeypatch.context() as patched:
            patched.setattr(ArrivalEntries, "expect", lambda *_, **__: None)
            return ahead(policy, peer, message, now)

    monkeypatch.setattr(PresubscribePolicy, "on_presubscribe", careless)
    scenario = moving(TREE, 0.0, "clients.publish_per_s=40")
    assert "nothing lost" in {violation.law for violation in run(scenario, 1).violations}
