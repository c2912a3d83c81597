"""Laws of movement: whatever the model, a client is at one place at a time, and its way is its own."""

import math
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from godwit.simulator.base_stations import SCAN_INTERVAL_S, BaseStations, itinerary_along, station_positions
from godwit.simulator.movement_models import Itinerary, MovementSpace, joined_moves, movement_graph, planned_itineraries
from godwit.simulator.scenario.roaming_section import Roaming
from godwit.simulator.topologies import Overlay, leaves, random_tree
from godwit.simulator.tracks import Rectangle, Track

BEGINS_S, ENDS_S = 10.0, 600.0


@st.composite
def grounds(draw: st.DrawFn) -> MovementSpace:
    overlay: Overlay = random_tree(draw(st.integers(2, 12)), Random(draw(st.integers(0, 99))))
    places = draw(st.sampled_from((overlay.brokers, leaves(overlay))))
    seed = draw(st.integers(0, 1_000))
    return MovementSpace(overlay=overlay, places=places, seed=seed, begins_s=BEGINS_S, ends_s=ENDS_S)


@st.composite
def lines(draw: st.DrawFn) -> Roaming:
    confined_to = draw(st.none() | st.integers(1, 6))
    return Roaming(
        model="line",
        cell_km=draw(st.sampled_from((0.1, 0.5, 1.0))),
        speeds_kmh=draw(st.sampled_from(((50.0,), (5.0, 50.0, 100.0)))),
        away_s=draw(st.sampled_from((0.0, 0.5, 3.0))),
        confined_to=confined_to,
        overshoot=0 if confined_to is None else draw(st.integers(0, 3)),
    )


randoms = st.builds(Roaming, per_s=st.sampled_from((0.1, 1.0)), away_s=st.sampled_from((0.0, 2.0, 50.0)))


walks = st.builds(
    Roaming,
    model=st.just("walk"),
    graph=st.sampled_from(("line", "grid", "overlay")),
    dwell_s=st.sampled_from((0.5, 20.0)),
    dwell=st.sampled_from(("exponential", "uniform", "fixed")),
    away_s=st.sampled_from((0.0, 2.0)),
)
waypoints = st.builds(
    Roaming,
    model=st.just("waypoint"),
    area_km=st.sampled_from((0.3, 2.0)),
    speeds_kmh=st.sampled_from(((5.0,), (5.0, 100.0))),
    pause_s=st.sampled_from((0.0, 30.0)),
    stations=st.sampled_from(("grid", "drawn")),
    range_m=st.sampled_from((80.0, 400.0, 3_000.0)),
    margin_m=st.sampled_from((0.0, 10.0, 70.0)),
    away_s=st.sampled_from((0.0, 3.0)),
)
models = randoms | lines() | walks | waypoints


def ways(roaming: Roaming, ground: MovementSpace, clients: int = 3) -> dict[str, Itinerary]:
    places = ground.places
    return planned_itineraries(roaming, ground, {f"p{k}": places[k % len(places)] for k in range(clients)})


@given(models, grounds())
def test_moves_lie_within_their_time_and_one_ends_before_the_next_begins(
    roaming: Roaming, ground: MovementSpace
) -> None:
    for way in ways(roaming, ground).values():
        moves = way.moves
        assert way.home in ground.overlay.brokers
        for move in moves:
            assert BEGINS_S <= move.leaves_s <= move.arrives_s <= ENDS_S
            assert move.to in ground.overlay.brokers
        assert roaming.model == "random" or joined_moves(moves) == moves
        for move, later in pairwise(joined_moves(moves)):
            assert move.arrives_s <= later.leaves_s


@given(models, grounds())
def test_the_same_seed_gives_the_same_ways(roaming: Roaming, ground: MovementSpace) -> None:
    assert ways(roaming, ground) == ways(roaming, ground)


@given(lines() | walks | waypoints, grounds())
def test_who_else_moves_changes_nothing_about_a_clients_way(roaming: Roaming, ground: MovementSpace) -> None:
    few, many = ways(roaming, ground, 2), ways(roaming, ground, 5)
    assert few == {client: many[client] for client in few}


@given(lines(), grounds())
def test_along_a_line_each_move_leads_to_the_next_cell_after_the_time_that_a_cell_takes(
    roaming: Roaming, ground: MovementSpace
) -> None:
    street = ground.places
    for k, way in enumerate(ways(roaming, ground).values()):
        moves = way.moves
        passed = [k % len(street), *(street.index(move.to) for move in moves)]
        assert all(abs(later - cell) == 1 for cell, later in pairwise(passed))
        laps_s = [roaming.cell_km * 3_600 / speed for speed in roaming.speeds_kmh]
        ways_s = [later.leaves_s - move.leaves_s for move, later in pairwise(moves)]
        turns = [before == after for before, after in zip(passed, passed[2:], strict=False)]
        assert any(
            all(abs(way_s - lap_s * (2 if turned else 1)) < 1e-6 for way_s, turned in zip(ways_s, turns, strict=True))
            for lap_s in laps_s
        )
        assert all(abs(move.arrives_s - move.leaves_s - roaming.away_s) < 1e-9 for move in moves)


@given(lines(), grounds())
def test_a_confined_client_is_never_more_than_delta_cells_past_its_own(roaming: Roaming, ground: MovementSpace) -> None:
    street = ground.places
    width = min(roaming.confined_to or len(street), len(street))
    for k, way in enumerate(ways(roaming, ground).values()):
        moves = way.moves
        entered = {k % len(street), *(street.index(move.to) for move in moves)}
        assert max(entered) - min(entered) < width + 2 * roaming.overshoot
        assert all(abs(cell - k % len(street)) < width + roaming.overshoot for cell in entered)


@given(walks, grounds())
def test_a_walk_keeps_to_the_movement_graph_and_is_away_as_long_as_told(
    roaming: Roaming, ground: MovementSpace
) -> None:
    beside = movement_graph(roaming, ground.overlay, ground.places)
    for way in ways(roaming, ground).values():
        for before, after in pairwise([way.home, *(move.to for move in way.moves)]):
            assert after in beside[before]
        assert all(abs(move.arrives_s - move.leaves_s - roaming.away_s) < 1e-9 for move in way.moves)


@st.composite
def drifting(draw: st.DrawFn) -> Track:
    """A track that turns often, with gaps."""
    track = Track(gap_s=50.0)
    at = BEGINS_S + draw(st.sampled_from((-5.0, 0.0, 30.0)))
    for _ in range(draw(st.integers(1, 25))):
        track.add(at, (draw(st.integers(-300, 300)) * 1.0, draw(st.integers(-300, 300)) * 1.0))
        at += draw(st.sampled_from((1.0, 5.0, 20.0, 60.0)))
    return track


@given(waypoints, grounds(), drifting(), st.integers(0, 99))
def test_a_client_is_within_range_of_the_broker_that_it_comes_to_and_does_not_flap(
    roaming: Roaming, ground: MovementSpace, track: Track, seed: int
) -> None:
    """stations.py, rules 1 and 2; and it comes to the nearest of all."""
    spots = station_positions(roaming, ground, Rectangle(-300.0, -300.0, 300.0, 300.0))
    way = itinerary_along(roaming, ground, BaseStations(spots, roaming.range_m), track, Random(seed))
    for move in way.moves:
        spot = track.at(move.arrives_s)
        if move.arrives_s < ENDS_S:
            assert spot is not None
            nearest_m = min(math.dist(each, spot) for each in spots.values())
            assert math.dist(spots[move.to], spot) == nearest_m <= roaming.range_m - roaming.margin_m
        assert (
            move.arrives_s - move.leaves_s >= min(roaming.away_s, ENDS_S - move.leaves_s) - 1e-9
            or move.leaves_s == BEGINS_S
        )
    for move, later in pairwise(way.moves):
        came, left = track.at(move.arrives_s), track.at(later.leaves_s)
        assert came is not None
        assert left is None or math.dist(came, left) >= roaming.margin_m / 2


@given(waypoints, grounds(), drifting(), st.integers(0, 99))
def test_a_client_that_has_a_broker_is_within_its_range_whenever_it_looks(
    roaming: Roaming, ground: MovementSpace, track: Track, seed: int
) -> None:
    spots = station_positions(roaming, ground, Rectangle(-300.0, -300.0, 300.0, 300.0))
    way = itinerary_along(roaming, ground, BaseStations(spots, roaming.range_m), track, Random(seed))
    for move, later in pairwise(way.moves):
        at = move.arrives_s
        while at < later.leaves_s - 1e-6:
            spot = track.at(at)
            assert spot is not None
            away_m = math.dist(spots[move.to], spot)
            assert away_m <= roaming.range_m
            assert away_m - roaming.margin_m <= min(math.dist(each, spot) for each in spots.values()) + 1e-9
            at += SCAN_INTERVAL_S
