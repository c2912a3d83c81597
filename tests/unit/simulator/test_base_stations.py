"""Brokers that stand somewhere: which is nearest, where they are put, and who is within reach of whom."""

import math
from random import Random
from typing import Any

import pytest

from godwit.simulator.base_stations import SCAN_INTERVAL_S, BaseStations, itinerary_along, station_positions
from godwit.simulator.itineraries import Move, MovementSpace
from godwit.simulator.scenario.roaming_section import Roaming
from godwit.simulator.topologies import line
from godwit.simulator.tracks import Rectangle, Spot, Track

ROW = BaseStations({"b0": (0.0, 0.0), "b1": (100.0, 0.0), "b2": (400.0, 0.0)}, 100.0)


def ground(brokers: int = 3, ends_s: float = 1_000.0) -> MovementSpace:
    overlay = line(brokers)
    return MovementSpace(overlay=overlay, places=overlay.brokers, seed=1, begins_s=0.0, ends_s=ends_s)


def way(*spots: tuple[float, Spot], **changes: Any) -> tuple[str, list[tuple[int, str, int]]]:
    """The first broker of who goes along a track past the row, and its moves, in seconds since the last look."""
    settings: dict[str, Any] = {"range_m": 100.0, "margin_m": 10.0, "away_s": 0.0, **changes}
    track = Track()
    for each in spots:
        track.add(*each)
    found = itinerary_along(Roaming(model="waypoint", **settings), ground(), ROW, track, Random(1))
    return found.home, [(int(move.leaves_s), move.to, int(move.arrives_s)) for move in found.moves]


def test_the_nearest_broker_is_found_near_and_far() -> None:
    rng = Random(1)
    spots = {f"b{k}": (rng.uniform(-500, 500), rng.uniform(-500, 500)) for k in range(60)}
    stations = BaseStations(spots, 80.0)
    for _ in range(500):
        spot = rng.uniform(-700, 700), rng.uniform(-700, 700)
        nearest = min(spots, key=lambda broker: math.dist(spots[broker], spot))
        assert stations.nearest(spot) == nearest
        assert stations.nearest_within(spot, 80) == (nearest if math.dist(spots[nearest], spot) <= 80 else None)
        assert stations.nearest_within(spot, 20) == (nearest if math.dist(spots[nearest], spot) <= 20 else None)


@pytest.mark.parametrize("brokers", [1, 2, 5, 9, 64])
@pytest.mark.parametrize("stations", ["grid", "drawn"])
@pytest.mark.parametrize("box", [Rectangle(0, 0, 100, 100), Rectangle(-50, 10, 250, 20), Rectangle(7, 7, 7, 7)])
def test_brokers_are_put_into_the_box(brokers: int, stations: Any, box: Rectangle) -> None:
    found = station_positions(Roaming(stations=stations), ground(brokers), box)
    assert list(found) == list(line(brokers).brokers)
    for x, y in found.values():
        assert box.west <= x <= max(box.east, box.west + 1)
        assert box.south <= y <= max(box.north, box.south + 1)
    if stations == "grid":
        assert len(set(found.values())) == brokers


def test_a_grid_is_as_wide_as_its_box_and_goes_row_by_row() -> None:
    assert station_positions(Roaming(), ground(4), Rectangle(0, 0, 100, 100)) == {
        "b0": (25, 25),
        "b1": (75, 25),
        "b2": (25, 75),
        "b3": (75, 75),
    }
    assert {y for _, y in station_positions(Roaming(), ground(4), Rectangle(0, 0, 400, 50)).values()} == {25}


def test_another_broker_takes_over_when_it_is_nearer_by_the_margin() -> None:
    """At 55 m from b0 the next is 45 m away, and 10 m nearer; at one metre a second that is later than 55 s."""
    assert way((0, (0.0, 0.0)), (100, (100.0, 0.0)), (1_000, (100.0, 0.0))) == ("b0", [(55, "b1", 55)])


def test_between_two_brokers_one_is_out_of_reach_for_a_time() -> None:
    assert way((0, (0.0, 0.0)), (100, (100.0, 0.0)), (1_000, (100.0, 0.0)), away_s=7) == ("b0", [(55, "b1", 62)])


def test_who_is_out_of_range_of_all_comes_back_when_within_range_by_the_margin() -> None:
    assert way((0, (0.0, 50.0)), (100, (0.0, 150.0)), (200, (0.0, 50.0)), (1_000, (0.0, 50.0))) == (
        "b0",
        [(50, "b0", 160)],
    )


def test_who_stands_at_the_border_keeps_its_broker() -> None:
    spots = [(float(k), (50.0 + (k % 2) * 8 - 4, 0.0)) for k in range(1_001)]  # 4 m to and fro
    assert way(*spots)[1] == []
    assert len(way(*spots, margin_m=0.0)[1]) > 50  # without a margin it flaps


def test_who_is_out_of_reach_at_first_has_the_broker_that_it_comes_to_first() -> None:
    assert way((0, (600.0, 0.0)), (1_000, (100.0, 0.0))) == ("b2", [(0, "b2", 220), (600, "b1", 820)])


def test_who_is_never_within_reach_has_the_nearest_broker_when_all_is_over() -> None:
    assert way((0, (600.0, 0.0)), (1_000, (700.0, 0.0))) == ("b2", [(0, "b2", 1_000)])
    track = Track()
    track.add(2_000, (0.0, 0.0))  # not even there yet
    found = itinerary_along(Roaming(model="waypoint"), ground(), ROW, track, Random(1))
    assert (found.home, found.moves) == ("b0", (Move(0.0, "b0", 1_000.0),))


def test_not_all_look_for_brokers_at_the_same_time() -> None:
    track = Track()
    track.add(0, (0.0, 0.0))
    track.add(1_000, (1_000.0, 0.0))
    looks = {
        itinerary_along(Roaming(model="waypoint", range_m=100), ground(), ROW, track, Random(seed)).moves[0].leaves_s
        % SCAN_INTERVAL_S
        for seed in range(10)
    }
    assert len(looks) == 10
