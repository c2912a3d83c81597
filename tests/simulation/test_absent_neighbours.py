"""A broker that has lost its disk while a neighbour is away for long: what is published meanwhile waits for it."""

import pytest

from godwit.broker.tree import TreeRouting
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Clients, Faults, OverlaySpec, Planned, RoutingSection, Run, Scenario
from godwit.simulator.workloads import WorkloadSpec
from tests.seeds import few
from tests.simulation.scenarios import laws_broken

AWAY_S = 60.0  # longer than a broker holds events back


def scenario(brokers: int, reduction: str, *, forgets: str = "b1", away: str = "b2") -> Scenario:
    return Scenario(
        name="absent",
        overlay=OverlaySpec(kind="line", brokers=brokers),
        routing=RoutingSection(reduction=reduction),
        clients=Clients(publishers=4, subscribers=4, publish_per_s=1.0),
        workload=WorkloadSpec(kind="publications"),
        faults=Faults(
            crash=(Planned(at_s=6.0, lasts_s=AWAY_S, where=(away,)),),
            crash_diskless=(Planned(at_s=10.0, lasts_s=1.0, where=(forgets,)),),
        ),
        run=Run(duration_s=90.0, settle_s=60.0),
    )


@pytest.mark.parametrize("reduction", few(("covering", "flooding", "simple", "identity", "merging"), 1))
@pytest.mark.parametrize("seed", [1, 2])
def test_a_broker_without_memory_keeps_what_a_neighbour_that_is_away_may_want(reduction: str, seed: int) -> None:
    summary = Simulation(scenario(3, reduction), seed).run()
    assert summary.violations == ()
    assert summary.owed > 200


def test_a_broker_whose_only_neighbour_is_away_hears_from_its_clients_that_it_had_a_life_before() -> None:
    assert Simulation(scenario(2, "covering", forgets="b0", away="b1"), 1).run().violations == ()


@pytest.mark.parametrize("seed", few((1, 2, 3), 1))
def test_a_broker_that_takes_itself_for_a_new_one_is_caught(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeRouting, "note_past_life", lambda self: None)
    assert laws_broken(Simulation(scenario(3, "covering"), seed).run()).keys() == {"nothing lost"}
