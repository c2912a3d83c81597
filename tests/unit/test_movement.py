"""Where clients move: each model, and what a scenario may not ask of it."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from godwit.errors import ScenarioError
from godwit.simulator import overlay_of, with_changes
from godwit.simulator.movement import Ground, Move, itineraries, joined
from godwit.simulator.roaming_settings import Roaming
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import named
from godwit.simulator.topologies import balanced_tree, leaves, line
from tests.simulation.scenarios import TREE

CITY = balanced_tree(4, 4)


def ground(**changes: Any) -> Ground:
    kept: dict[str, Any] = {"overlay": CITY, "places": leaves(CITY), "seed": 1, "begins_s": 20.0, "ends_s": 3_620.0}
    return Ground(**{**kept, **changes})


def cells(moves: tuple[Move, ...], home: str) -> list[int]:
    """The cells of the city's street that a client passes through, its first one included."""
    return [leaves(CITY).index(broker) for broker in (home, *(move.to for move in moves))]


# ---------------------------------------------------------------- any model


def test_nobody_moves_unless_asked_to() -> None:
    assert itineraries(Roaming(), ground(), {"p0": "b84"}) == {"p0": ()}
    assert not Roaming().is_on
    assert Roaming(per_s=1).is_on
    assert Roaming(model="line").is_on


def test_moves_at_random_are_those_of_one_generator_for_all() -> None:
    """As it was before there were other models: traces of old seeds stay as they are."""
    rng, clients = Random("5/roaming"), ["p0", "s0", "s1"]
    at = 20.0 + rng.expovariate(2.0)
    client, to = rng.choice(clients), rng.choice(CITY.brokers)
    away_s = rng.expovariate(1 / 3.0) if rng.random() < 0.7 else 0.0
    found = itineraries(Roaming(per_s=2, away_s=3), ground(seed=5), dict.fromkeys(clients, "b84"))
    assert min(moves[0].leaves_s for moves in found.values()) == at
    assert found[client][0] == Move(at, to, at + away_s)


def test_who_leaves_again_before_it_has_come_makes_one_move_of_two() -> None:
    moves = (Move(1, "b1", 5), Move(2, "b2", 3), Move(6, "b3", 6), Move(6, "b4", 8), Move(8, "b1", 9))
    assert joined(moves) == (Move(1, "b2", 5), Move(6, "b3", 6), Move(6, "b4", 8), Move(8, "b1", 9))


# ---------------------------------------------------------------- along a line [pubmob §4.1]


def test_a_client_goes_from_cell_to_cell_and_turns_round_at_the_end_of_the_street() -> None:
    street = line(3)
    at = ground(overlay=street, places=street.brokers, begins_s=0.0, ends_s=1_000.0)
    found = itineraries(Roaming(model="line", speeds_kmh=(36.0,), away_s=3), at, {"p0": "b0"})["p0"]
    to = [move.to for move in found]
    assert to == (["b1", "b2", "b1", "b0"] * 9)[: len(to)]
    assert len(to) >= 9
    spent = [round(later.leaves_s - move.leaves_s, 6) for move, later in pairwise(found)]
    assert spent == [50.0 if move.to == "b1" else 100.0 for move in found[:-1]]  # to the end of the street and back
    assert all(move.arrives_s == move.leaves_s + 3 for move in found)


def test_the_first_border_is_as_near_as_the_place_where_a_client_begins() -> None:
    homes = {f"p{k}": "b50" for k in range(300)}
    found = itineraries(Roaming(model="line", speeds_kmh=(36.0,)), ground(), homes)
    first_s = sorted(moves[0].leaves_s - 20 for moves in found.values())
    assert 0 <= first_s[0] < 1
    assert 49 < first_s[-1] <= 50
    assert abs(first_s[150] - 25) < 5
    assert {moves[0].to for moves in found.values()} == {"b49", "b51"}  # either way


def test_each_client_has_one_of_the_speeds() -> None:
    homes = {f"p{k}": "b50" for k in range(60)}
    found = itineraries(Roaming(model="line", away_s=3), ground(), homes)
    laps_s = {round(moves[1].leaves_s - moves[0].leaves_s, 6) for moves in found.values()}
    assert laps_s == {360.0, 36.0, 18.0}  # 0.5 km at 5, 50 and 100 km/h


@pytest.mark.parametrize(("home", "first", "last"), [("b50", 27, 31), ("b21", 0, 4), ("b84", 59, 63), ("b22", 0, 4)])
def test_a_confined_client_keeps_to_five_cells_and_overshoots_them_by_delta(home: str, first: int, last: int) -> None:
    for overshoot in (0, 1, 5):
        roaming = Roaming(model="line", speeds_kmh=(100.0,), confined_to=5, overshoot=overshoot)
        entered = set(cells(itineraries(roaming, ground(), {"p0": home})["p0"], home))
        assert entered == set(range(max(first - overshoot, 0), min(last + overshoot, 63) + 1))


def test_a_client_confined_to_one_cell_stays() -> None:
    assert itineraries(Roaming(model="line", confined_to=1), ground(), {"p0": "b50"}) == {"p0": ()}


# ---------------------------------------------------------------- in a run


def test_a_run_plays_the_itineraries_and_counts_the_moves() -> None:
    street = with_changes(
        TREE, ["overlay={kind='line', brokers=5}", "clients.roaming={model='line', cell_km=0.02, away_s=0.3}"]
    )
    simulation = Simulation(street, seed=2)
    planned = simulation.itineraries
    summary = simulation.run()
    assert summary.violations == ()
    assert summary.moves == sum(map(len, planned.values())) > 20
    for client, moves in planned.items():
        assert simulation.homes[client] == moves[-1].to if moves else True


def test_only_those_move_who_shall() -> None:
    street = with_changes(TREE, ["clients.roaming={model='line', who='publishers'}"])
    assert list(Simulation(street, seed=2).itineraries) == ["p0", "p1", "p2"]


def test_the_way_of_a_client_is_known_before_anything_runs_and_its_first_broker_is_its_home() -> None:
    city = with_changes(named("city"), ["clients.roaming={model='line', who='publishers', away_s=3}"])
    simulation = Simulation(city, seed=4)
    places = leaves(overlay_of(city, Random(1)))
    for client, moves in simulation.itineraries.items():
        if moves:
            assert abs(places.index(moves[0].to) - places.index(simulation.homes[client])) == 1


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["overlay={kind='single'}"], "clients.roaming.model is 'line': a street needs at least 2 brokers"),
        (["clients.roaming.per_s=1"], "clients.roaming.per_s is 1: only the model 'random' has a rate of moves"),
        (["clients.roaming.speeds_kmh=[]"], "clients.roaming.speeds_kmh is empty"),
        (["clients.roaming.speeds_kmh=[5, 0]"], r"speeds_kmh\[1\] is 0: allowed is a number above 0"),
        (["clients.roaming.away_s=18"], "away_s is 18: the fastest client is through a cell in 18 s"),
        (["clients.roaming.overshoot=2"], "overshoot is 2: it goes past what confined_to says, which is missing"),
        (["clients.roaming.confined_to=0"], "confined_to is 0: allowed is a whole number from 1"),
        (
            ["clients.roaming.cell_km=0.01", "clients.roaming.away_s=0", "run.duration_s=1e6"],
            "more than 1,000,000 times",
        ),
        (["clients.roaming.model=lime"], "did you mean line"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(changes: list[str], says: str) -> None:
    street = with_changes(TREE, ["clients.roaming={model='line', away_s=3}"])
    with pytest.raises(ScenarioError, match=says):
        with_changes(street, changes)
