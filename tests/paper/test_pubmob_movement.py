"""[pubmob §4.1, §4.3]: how publishers move through the city, sentence by sentence, on the scenario `pubmob`."""

from itertools import pairwise

import pytest

from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, named, with_changes
from godwit.simulator.topologies import leaves

CITY = named("pubmob")
CELL_S = {5: 360.0, 50: 36.0, 100: 18.0}  # 0.5 km, by km/h
SECONDS_MAX = 1e-6  # that sums are off by


def run_of(scenario: Scenario = CITY, *changes: str, seed: int = 1) -> Simulation:
    return Simulation(with_changes(scenario, changes), seed)


def test_the_64_leaf_brokers_serve_half_a_kilometre_each_of_a_city_32_km_wide() -> None:
    simulation = run_of()
    assert (len(simulation.overlay.brokers), len(leaves(simulation.overlay))) == (85, 64)
    assert len(leaves(simulation.overlay)) * CITY.clients.roaming.cell_km == 32


def test_publishers_move_at_5_50_or_100_km_an_hour() -> None:
    moving = run_of(CITY, "run.duration_s=3600").itineraries
    laps_s = [
        min(later.leaves_s - move.leaves_s for move, later in pairwise(moves)) for moves in moving.values() if moves[1:]
    ]
    found = {kmh: sum(abs(lap_s - cell_s) < SECONDS_MAX for lap_s in laps_s) for kmh, cell_s in CELL_S.items()}
    assert sum(found.values()) == len(laps_s) == 50
    assert min(found.values()) >= 10  # each by about a third of them


def test_publishers_connect_to_adjacent_brokers_after_3_seconds_without_one() -> None:
    simulation = run_of(CITY, "run.duration_s=3600")
    street = leaves(simulation.overlay)
    for client, moves in simulation.itineraries.items():
        passed = [street.index(broker) for broker in (simulation.homes[client], *(move.to for move in moves))]
        assert all(abs(cell - later) == 1 for cell, later in pairwise(passed))
        assert all(abs(move.arrives_s - move.leaves_s - 3) < SECONDS_MAX for move in moves)


def test_subscribers_stay_and_all_clients_begin_at_a_random_leaf_during_the_warm_up() -> None:
    simulation = run_of()
    assert set(simulation.itineraries) == set(simulation.publishers)
    assert len(simulation.subscribers) == 500
    assert {*simulation.homes.values()} == {*leaves(simulation.overlay)}
    first_s = min(moves[0].leaves_s for moves in simulation.itineraries.values() if moves)
    assert first_s >= CITY.run.warmup_s


@pytest.mark.parametrize("overshoot", [0, 1, 2, 5, 8])
def test_publishers_move_among_five_adjacent_brokers_and_overshoot_by_delta(overshoot: int) -> None:
    confined = ["clients.roaming.confined_to=5", f"clients.roaming.overshoot={overshoot}"]
    simulation = run_of(CITY, *confined, "clients.roaming.speeds_kmh=[100]", "run.duration_s=3600")
    street = leaves(simulation.overlay)
    for client, moves in simulation.itineraries.items():
        entered = {street.index(broker) for broker in (simulation.homes[client], *(move.to for move in moves))}
        assert max(entered) - min(entered) + 1 == 5 + 2 * overshoot or {0, 63} & entered


def test_the_way_of_a_publisher_does_not_depend_on_how_it_is_followed_or_on_how_many_there_are() -> None:
    """So that algorithms and numbers of publishers can be compared."""
    few, many = run_of(), run_of(CITY, "clients.subscribers=600", "clients.roaming.who=all")
    assert few.homes["p0"] == many.homes["p0"]
    assert few.itineraries["p0"] == many.itineraries["p0"]
