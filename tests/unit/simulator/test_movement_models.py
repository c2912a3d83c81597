"""Where clients move: each model, and what a scenario may not ask of it."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from godwit.errors import ScenarioError
from godwit.simulator import overlay_of, with_changes
from godwit.simulator.movement_models import Move, MovementSpace, joined_moves, movement_graph, planned_itineraries
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import named
from godwit.simulator.scenario.roaming_section import Roaming
from godwit.simulator.topologies import balanced_tree, leaves, line, star
from tests.conventions.repository import ROOT
from tests.simulation.scenarios import TREE

CITY = balanced_tree(4, 4)


def ground(**changes: Any) -> MovementSpace:
    kept: dict[str, Any] = {"overlay": CITY, "places": leaves(CITY), "seed": 1, "begins_s": 20.0, "ends_s": 3_620.0}
    return MovementSpace(**{**kept, **changes})


def itineraries(roaming: Roaming, at: MovementSpace, homes: dict[str, str]) -> dict[str, tuple[Move, ...]]:
    return {client: way.moves for client, way in planned_itineraries(roaming, at, homes).items()}


def cells(moves: tuple[Move, ...], home: str) -> list[int]:
    """The cells of the city's street that a client passes through, its first one included."""
    return [leaves(CITY).index(broker) for broker in (home, *(move.to for move in moves))]


# ---------------------------------------------------------------- any model


def test_nobody_moves_unless_asked_to() -> None:
    assert itineraries(Roaming(), ground(), {"p0": "b84"}) == {"p0": ()}
    assert not Roaming().is_on
    assert Roaming(per_s=1).is_on
    assert Roaming(model="line").is_on


@pytest.mark.parametrize("away_s", [0.0, 3.0])
def test_moves_at_random_are_those_of_one_process_for_all(away_s: float) -> None:
    """Each kind of draw has its own stream, named in full here: the runs of recorded seeds stay as they are."""
    times, movers, places, lengths = (Random(f"5/roaming-{each}") for each in ("times", "clients", "places", "lengths"))
    clients, at = ["p0", "s0", "s1"], 20.0
    told: list[tuple[str, Move]] = []
    while (at := at + times.expovariate(2.0)) < 120.0:
        client, to = movers.choice(clients), places.choice(CITY.brokers)
        away = lengths.expovariate(1 / away_s) if away_s and lengths.random() < 0.7 else 0.0
        told.append((client, Move(at, to, min(at + away, 120.0))))
    found = itineraries(Roaming(per_s=2, away_s=away_s), ground(seed=5, ends_s=120.0), dict.fromkeys(clients, "b84"))
    assert sorted(((c, m) for c, moves in found.items() for m in moves), key=lambda each: each[1].leaves_s) == told
    assert len(told) > 150


def test_who_leaves_again_before_it_has_come_makes_one_move_of_two() -> None:
    moves = (Move(1, "b1", 5), Move(2, "b2", 3), Move(6, "b3", 6), Move(6, "b4", 8), Move(8, "b1", 9))
    assert joined_moves(moves) == (Move(1, "b2", 5), Move(6, "b3", 6), Move(6, "b4", 8), Move(8, "b1", 9))


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


# ---------------------------------------------------------------- over a movement graph


@pytest.mark.parametrize(
    ("graph", "beside"),
    [
        ("line", {"b1": ["b2"], "b2": ["b1", "b3"], "b3": ["b2", "b4"], "b4": ["b3", "b5"], "b5": ["b4"]}),
        ("grid", {"b1": ["b2", "b4"], "b2": ["b1", "b3", "b5"], "b3": ["b2"], "b4": ["b5", "b1"], "b5": ["b4", "b2"]}),
    ],
)
def test_a_line_and_a_grid_lead_over_the_brokers_that_clients_are_placed_at(
    graph: Any, beside: dict[str, list[str]]
) -> None:
    around = star(6)
    assert movement_graph(Roaming(model="walk", graph=graph), around, leaves(around)) == beside


def test_the_links_of_the_overlay_are_a_movement_graph_too() -> None:
    assert movement_graph(Roaming(model="walk", graph="overlay"), line(3), ())["b1"] == ["b0", "b2"]


def test_a_movement_graph_from_a_file_has_places_that_a_client_is_brought_to(tmp_path: Path) -> None:
    file = tmp_path / "paths.toml"
    file.write_text('edges = [["b3", "b4"], ["b4", "b5"]]')
    roaming = Roaming(model="walk", graph="file", file=str(file), dwell="fixed", dwell_s=20, away_s=5)
    found = planned_itineraries(roaming, ground(), {"p0": "b84"})["p0"]
    assert found.home in ("b3", "b4", "b5")
    assert {move.to for move in found.moves} == {"b3", "b4", "b5"}
    assert (found.moves[0].leaves_s, found.moves[0].arrives_s, found.moves[1].leaves_s) == (40.0, 45.0, 65.0)
    for text, says in (
        ('edges = [["b3", "b400"]]', "there is no broker 'b400' in the overlay"),
        ("grid 2x2", "there is no broker '0,0' in the overlay"),
        ("b3 b4", "no movement graph"),
        ("edges = 3", "edges of a movement graph: allowed is a list of pairs"),
    ):
        file.write_text(text)
        with pytest.raises(ScenarioError, match=rf"clients.roaming.file is not a movement graph: .*paths.toml: {says}"):
            with_changes(TREE, [f"clients.roaming={{model='walk', graph='file', file='{file}'}}"])


def test_a_walk_ends_where_no_step_leads_on(tmp_path: Path) -> None:
    file = tmp_path / "paths.json"
    file.write_text('{"edges": [["b3", "b4"], ["b4", "b5"]], "one_way": true}')
    found = planned_itineraries(Roaming(model="walk", graph="file", file=str(file)), ground(), {"p0": "b3"})["p0"]
    assert [move.to for move in found.moves] == ["b4", "b5"]


@pytest.mark.parametrize(("dwell", "shortest_s", "longest_s"), [("fixed", 30, 30), ("uniform", 0, 60)])
def test_dwell_times_are_spread_as_told(dwell: Any, shortest_s: float, longest_s: float) -> None:
    roaming = Roaming(model="walk", dwell_s=30, dwell=dwell, away_s=2)
    spent_s = dwell_times(roaming)
    assert min(spent_s) >= shortest_s - 1e-6
    assert max(spent_s) <= longest_s + 1e-6


def test_dwell_times_are_what_they_shall_be_on_average() -> None:
    for dwell in ("exponential", "uniform", "fixed"):
        spent_s = dwell_times(Roaming(model="walk", dwell_s=30, dwell=dwell, away_s=2))
        assert abs(sum(spent_s) / len(spent_s) - 30) < 2


def dwell_times(roaming: Roaming) -> list[float]:
    found = itineraries(roaming, ground(ends_s=36_020.0), {f"p{k}": "b50" for k in range(10)})
    return [later.leaves_s - move.arrives_s for moves in found.values() for move, later in pairwise(moves)]


# ---------------------------------------------------------------- in the plane


def test_waypoints_keep_clients_at_the_nearest_broker_of_a_grid() -> None:
    roaming = Roaming(model="waypoint", area_km=1, range_m=150, margin_m=10, speeds_kmh=(20.0, 50.0), away_s=0)
    found = planned_itineraries(roaming, ground(), {f"p{k}": "b50" for k in range(10)})
    assert len({way.home for way in found.values()}) > 3  # where they begin, and not where they were station_positions
    apart = [place_apart(move.to, later.to) for way in found.values() for move, later in pairwise(way.moves)]
    assert max(apart) <= 2  # mostly from one to one beside it
    assert sum(each == 1 for each in apart) > 0.6 * len(apart) > 100


def place_apart(a: str, b: str) -> int:
    """How many rows or columns two brokers of the city's grid of 8 by 8 lie apart."""
    at, to = leaves(CITY).index(a), leaves(CITY).index(b)
    return max(abs(at // 8 - to // 8), abs(at % 8 - to % 8))


def test_waypoints_lie_around_brokers_whose_positions_are_known(tmp_path: Path) -> None:
    file = tmp_path / "masts.csv"
    file.write_text("broker,lon,lat\nb21,8.50,47.30\nb22,8.51,47.30\n")
    roaming = Roaming(model="waypoint", range_m=300, margin_m=10, speeds_kmh=(20.0, 50.0), away_s=0)
    found = planned_itineraries(roaming, ground(positions=str(file)), {"p0": "b50"})["p0"]
    assert {found.home, *(move.to for move in found.moves)} == {"b21", "b22"}
    assert any(move.arrives_s - move.leaves_s > 5 for move in found.moves)  # 750 m lie between them: out of reach


def test_a_trace_is_replayed_from_the_beginning_of_the_run_at_its_own_speed(tmp_path: Path) -> None:
    trace, masts = tmp_path / "trace.csv", tmp_path / "masts.csv"
    masts.write_text("broker,lon,lat\nb21,8.50,47.30\nb22,8.51,47.30\nb23,8.52,47.30\n")
    rows = [f"{1_000 + 100 * k},bus,{8.50 + 0.005 * k},47.30" for k in range(5)]  # 376 m in 100 s
    trace.write_text("\n".join(["time,id,lon,lat", *rows[::-1], "1100,tram,8.52,47.3", "1500,tram,8.52,47.3"]))
    roaming = Roaming(model="trace", file=str(trace), range_m=400, margin_m=0, away_s=0, gap_s=500)
    found = planned_itineraries(roaming, ground(positions=str(masts)), {"p0": "b50", "s0": "b50"})
    bus, tram = found["p0"], found["s0"]
    assert (bus.home, [move.to for move in bus.moves]) == ("b21", ["b22", "b23", "b23"])
    assert [round(move.leaves_s - 20, -1) for move in bus.moves] == [100, 300, 400]  # half way, half way, off
    assert bus.moves[-1].arrives_s == 3_620.0  # it comes back when everyone does
    assert (tram.home, [move.to for move in tram.moves]) == ("b23", ["b23", "b23"])
    assert (tram.moves[0].leaves_s, round(tram.moves[0].arrives_s, -1)) == (20.0, 120)  # it was not there yet
    fast = planned_itineraries(
        Roaming(**{**fields(roaming), "speedup": 10.0}), ground(positions=str(masts)), {"p0": "b50"}
    )["p0"]
    assert [round(move.leaves_s - 20) // 2 for move in fast.moves] == [5, 15, 20]


def fields(roaming: Roaming) -> dict[str, Any]:
    return {name: getattr(roaming, name) for name in roaming.__struct_fields__}


def test_brokers_without_positions_stand_on_a_grid_over_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,id,lon,lat\n0,a,8.50,47.30\n600,a,8.52,47.30\n0,b,8.50,47.32\n")
    roaming = Roaming(model="trace", file=str(trace), range_m=2_000, gap_s=600)
    square = star(5)
    at = ground(overlay=square, places=leaves(square))
    found = planned_itineraries(roaming, at, {"p0": "b1", "p1": "b1"})
    assert (found["p0"].home, [move.to for move in found["p0"].moves]) == ("b1", ["b2", "b2"])  # from west to east
    assert found["p1"].home == "b3"  # in the north west


def test_a_trace_that_leads_too_far_for_a_plane_is_refused_with_its_file(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,id,lon,lat\n0,a,8.50,47.30\n0,b,80.50,47.30\n")
    with pytest.raises(ScenarioError, match=r"trace.csv: positions lie up to .* allowed are 500 km"):
        planned_itineraries(Roaming(model="trace", file=str(trace)), ground(), {"p0": "b21"})


def test_more_clients_than_ids_are_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,id,lon,lat\n0,a,8.50,47.30\n")
    few = with_changes(TREE, [f"clients.roaming={{model='trace', file='{trace}'}}"])
    with pytest.raises(ScenarioError, match="it has 1 ids, and 9 clients are to move like them"):
        Simulation(few, seed=1)


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


@pytest.mark.parametrize("name", ["ferries", "fair"])
def test_those_that_come_with_godwit_move_over_placed_brokers_and_hold(name: str) -> None:
    simulation = Simulation(with_changes(named(name), ["run.duration_s=60"]), seed=1)
    away_s = [move.arrives_s - move.leaves_s for moves in simulation.itineraries.values() for move in moves]
    assert max(away_s) > 2 > min(away_s)  # some between two brokers, some out of reach of all
    summary = simulation.run()
    assert summary.violations == ()
    assert summary.moves >= 10


def test_pubmobs_publishers_move_as_in_its_city() -> None:
    city, roaming = named("pubmob"), named("pubmob").clients.roaming
    assert (city.overlay.height, city.overlay.degree, city.clients.placement) == (4, 4, "leaves")
    assert (roaming.model, roaming.who, roaming.away_s) == ("line", "publishers", 3)
    assert (roaming.cell_km, roaming.speeds_kmh) == (0.5, (5, 50, 100))
    moving = Simulation(city, seed=1).itineraries
    assert len(moving) == 50
    assert sum(map(len, moving.values())) > 100


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
        (
            ["overlay={kind='single'}", "clients.roaming.model=walk"],
            "model is 'walk': there must be at least 2 brokers",
        ),
        (["clients.roaming={model='walk', graph='file'}"], "roaming.file is None: it must be a file, for a movement"),
        (["clients.roaming={model='walk', dwell_s=0}"], "dwell_s is 0: allowed is a number from 0.001"),
        (
            ["clients.roaming={model='walk', dwell_s=0.001, away_s=0}", "run.duration_s=1e6"],
            "more than 1,000,000 times",
        ),
        (["clients.roaming={model='waypoint', speeds_kmh=[]}"], "clients.roaming.speeds_kmh is empty"),
        (["clients.roaming={model='waypoint', margin_m=300}"], "margin_m is 300: allowed is less than range_m, 300"),
        (["clients.roaming={model='waypoint', area_km=0.001}", "run.duration_s=1e5"], "more than 1,000,000 times"),
        (["clients.roaming={model='walk', file='x.csv'}"], "file is 'x.csv': only the model 'trace', and 'walk' with"),
        (["clients.roaming={per_s=1, file='x.csv'}"], "file is 'x.csv': only the model 'trace'"),
        (["clients.roaming={model='trace'}"], "file is None: it must be a file of positions"),
        (["clients.roaming={model='trace', file='pyproject.toml'}"], "allowed is a file that ends in .csv or .parquet"),
        (
            ["clients.roaming={model='waypoint'}", "clients.publishers=300", "run.duration_s=1e5"],
            "look for brokers more",
        ),
        (
            ["overlay.positions=nowhere.csv"],
            "overlay.positions is 'nowhere.csv': no such file; expected a CSV file with columns broker",
        ),
        (["clients.roaming.per_s=1"], "clients.roaming.per_s is 1: only the model 'random' has a rate of moves"),
        (["clients.roaming.speeds_kmh=[]"], "clients.roaming.speeds_kmh is empty"),
        (["clients.roaming.speeds_kmh=[5, 0]"], r"speeds_kmh\[1\] is 0: allowed is a number above 0"),
        (["clients.roaming.away_s=18"], "away_s is 18: the fastest client crosses a cell in 18 s"),
        (["clients.roaming.overshoot=2"], "overshoot is 2: it extends confined_to, which is missing"),
        (["clients.roaming.confined_to=0"], "confined_to is 0: allowed is a whole number from 1"),
        (
            ["clients.roaming.cell_km=0.01", "clients.roaming.away_s=0", "run.duration_s=1e6"],
            "more than 1,000,000 times",
        ),
        (["clients.roaming.model=lime"], "did you mean line"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(
    changes: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    street = with_changes(TREE, ["clients.roaming={model='line', away_s=3}"])
    with pytest.raises(ScenarioError, match=says):
        with_changes(street, changes)
