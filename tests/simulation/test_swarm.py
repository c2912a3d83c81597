"""The swarm: drawn scenarios over all strategies and faults hold, and one that does not can be seen again."""

import json
import shlex

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from godwit.broker import advertisement_reviews
from godwit.cli import main
from godwit.simulator import world
from godwit.simulator.random_scenarios import STRATEGIES, drawn
from godwit.simulator.rare_draws import widely_drawn
from godwit.simulator.run import run
from godwit.simulator.scenario import Roaming, RoutingSection
from tests.seeds import few, slow
from tests.simulation.contextless import without_contexts
from tests.simulation.rightless import without_rights
from tests.simulation.test_planted_faults import Plant, covers_what_it_only_meets, keeps_nothing_unconfirmed

SEED = 7
NUMBERS = range(len(STRATEGIES))


def simulate(*words: str) -> Result:
    return CliRunner().invoke(main.app, ["simulate", *words])


@pytest.mark.parametrize("number", few(NUMBERS, len(NUMBERS) // 2))
def test_a_drawn_scenario_of_each_strategy_holds(number: int) -> None:
    scenario, seed = widely_drawn(SEED, number)
    assert run(scenario, seed).violations == (), f"godwit simulate --swarm-number {number} --seed {SEED}"
    if scenario.rights.is_on:  # which only the authorisation law has judged
        assert run(without_rights(scenario), seed).violations == ()


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (5, 175),  # an event that was taken and not acknowledged was sent again to a broker without memory
        (7, 23),  # a newborn broker of a graph keeps early events for a minute, long after everybody has them
        (7, 58),  # a timer was early by a rounding error, and time stood still
        (12, 142),  # a subscription expired before its broker had heard of the replacement
        (21, 167),  # a packet of a source's past life came after its next life had begun
        (27, 186),  # an acknowledgement that waited for the disk left on a newer connection
        (29, 117),  # a client whose session was lost went away again before it had heard of that
        (50, 179),  # a client whose clock is fast says nothing again that has expired by its clock
        (33, 66),  # a broker without memory was alone, and all seemed quiet
        (7, 22),  # a broker that began another life twice sent old events to new subscriptions, matched at hops
        (3_009, 118),  # an address was tested while the context of its receiver was changing
        (611, 116),  # a source in a new context quenched what its broker had not been told of, matched at hops
    ],
)
def test_a_scenario_that_once_broke_holds(seed: int, number: int) -> None:
    scenario, run_seed = drawn(seed, number)
    scenario = without_rights(scenario)
    if scenario.routing.strategy == "advertised":  # it was drawn before that strategy was
        scenario = structs.replace(scenario, routing=RoutingSection(family="graph", strategy="spcf", matching="hops"))
    assert run(scenario, run_seed).violations == ()
    scenario = without_contexts(scenario)
    assert run(scenario, run_seed).violations == ()
    if scenario.routing.family == "graph" or scenario.faults.crash_diskless is not None:  # as it was when it broke
        settled = structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=Roaming()))
        assert run(settled, run_seed).violations == ()


def test_a_rare_scenario_that_once_broke_holds() -> None:
    """A question for a session that had died with a disk went round between two brokers without end."""
    scenario, run_seed = widely_drawn(1_041, 192)
    assert run(scenario, run_seed).violations == ()


@pytest.mark.parametrize(("seed", "number"), [(1_041, 54), (1_042, 204)])
def test_publishers_that_move_lose_nothing_while_advertisements_are_reviewed_in_small_parts(
    seed: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sessions overtook the subscriptions that their advertisements called."""
    monkeypatch.setattr(advertisement_reviews, "AT_ONCE_MAX", 1)
    monkeypatch.setattr(advertisement_reviews, "PAUSE_S", 0.05)
    scenario, run_seed = widely_drawn(seed, number)
    assert run(scenario, run_seed).violations == ()


@pytest.mark.parametrize(("every", "numbers"), [(3, 4), slow(3, 12), slow(20, 12)])
def test_brokers_that_recover_from_a_snapshot_and_the_rest_of_their_journal_hold(
    every: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "SNAPSHOT_EVERY", every)
    crashes = 0
    for number in range(every, every + numbers):
        scenario, seed = drawn(SEED, number)
        outcome = run(without_rights(scenario), seed)
        assert outcome.violations == (), number
        crashes += outcome.faults.get("crash", 0)
    assert crashes > numbers // 3


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_swarm_of_200_holds() -> None:
    shown = simulate("--swarm", "200", "--seed", str(SEED))
    assert shown.exit_code == 0, shown.stderr
    outcome = json.loads(shown.stdout)
    assert (outcome["passed"], outcome["runs"], outcome["duplicated"]) == (True, 200, 0)  # some modes may lose


@pytest.mark.parametrize("plant", [covers_what_it_only_meets, slow(keeps_nothing_unconfirmed)])
def test_a_swarm_stops_at_a_planted_fault_and_says_how_to_see_it_again(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    shown = simulate("--swarm", "100", "--seed", str(SEED))
    assert shown.exit_code == 1
    outcome = json.loads(shown.stdout)
    assert (outcome["passed"], outcome["broken"]["passed"]) == (False, False)
    assert outcome["runs"] < 100
    assert outcome["broken"]["violations"][0]["law"] == "nothing lost"
    assert f"seed {SEED}; replay it with\n" in shown.stderr
    [command] = [line.strip() for line in shown.stderr.splitlines() if line.strip().startswith("godwit ")]
    assert (
        command == outcome["broken"]["replay"] == f"godwit simulate --swarm-number {outcome['runs'] - 1} --seed {SEED}"
    )

    again = simulate(*shlex.split(command)[2:])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["violations"] == outcome["broken"]["violations"]
    assert command in again.stderr

    monkeypatch.undo()
    assert simulate(*shlex.split(command)[2:]).exit_code == 0, "without the fault it holds"
