"""For every state that a run comes to: a broker that goes on from its snapshot answers every input as the first does.

The brokers of drawn scenarios, of all families and modes and under all faults, are written down at moments drawn from
the seed, made again from the bytes and run beside the first ones (`simulator/snapshot_checker.py`).
"""

from typing import Any

import pytest
from msgspec import structs

from godwit.broker.broker_state import BrokerState
from godwit.simulator.random_scenarios import STRATEGIES, drawn
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario
from godwit.simulator.snapshot_checker import SnapshotChecker
from tests.property.part_scripts import IN_NETWORKS
from tests.seeds import few, slow
from tests.simulation.snapshot_scenarios import SCENARIOS
from tests.simulation.transcripts_of_brokers import is_told_apart, recorded, said, state_fields, without

SEED = 11
EVERY = 60  # inputs


def checked(scenario: Scenario, seed: int, **options: Any) -> SnapshotChecker:
    simulation = Simulation(scenario, seed)
    checker = SnapshotChecker(simulation.world, seed, EVERY, **options)
    assert simulation.run().violations == ()
    return checker


@pytest.mark.parametrize("number", few(range(0, len(STRATEGIES), 2), 2))
def test_restored_brokers_answer_alike_in_drawn_scenarios(number: int) -> None:
    checker = checked(*drawn(SEED, number))
    assert checker.differences == []
    assert checker.taken > 0


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(20, 24))
def test_restored_brokers_answer_alike_in_many_drawn_scenarios(seed: int) -> None:
    for number in range(len(STRATEGIES)):
        assert checked(*drawn(seed, number)).differences == [], f"swarm {seed}, number {number}"


MORE = {"flooding", "simple", "identity", "mode explicit", "mode naive"}  # their parts are in others, too


@pytest.mark.parametrize("name", [slow(name) if name in MORE else name for name in SCENARIOS])
def test_restored_brokers_answer_alike_in_every_family_and_mode_under_faults(name: str) -> None:
    checker = checked(*SCENARIOS[name])
    assert checker.differences == []
    assert checker.taken > 10
    assert checker.compared > 500


# ---------------------------------------------------------------- the checker itself


def test_the_checker_sees_a_state_that_forgets() -> None:
    def forgets(state: BrokerState) -> BrokerState:
        sessions = tuple(structs.replace(session, accepted=0) for session in state.sessions.sessions)
        return structs.replace(state, sessions=structs.replace(state.sessions, sessions=sessions))

    assert checked(*SCENARIOS["covering"], spoil=forgets).differences != []


# ---------------------------------------------------------------- fields that only networks ask for


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_field_that_only_networks_ask_for_is_noticed_when_it_is_forgotten() -> None:
    left = {f"{kind.__name__}.{name}": (kind, name) for kind, name in state_fields()}
    left = {name: field for name, field in left.items() if name in IN_NETWORKS}
    assert left.keys() == IN_NETWORKS
    points = [point for scenario, seed in SCENARIOS.values() for point in recorded(scenario, seed, 60, 30)]
    weights = [said(point.state) for point in points]
    for name, field in list(left.items()):
        heaviest = sorted(range(len(points)), key=lambda at: -weights[at].get(field, 0))[:40]
        for at in heaviest:
            if field in weights[at] and is_told_apart(points[at], without(points[at].state, *field)[0], 250):
                del left[name]
                break
    assert not left
