"""Movement graphs: where a client can be after so many steps, and how graphs are written down."""

import pytest

from godwit.errors import BadValue
from godwit.mobility import Drift, from_edges, grid, line, parse

TOWN = """
edges = [["mill", "bridge"], ["bridge", "market"], ["market", "church"]]
[places]
mill = [8.50, 47.30]
bridge = [8.51, 47.30]
market = [8.52, 47.30]
church = [8.52, 47.31]
"""


def test_staying_is_a_step_and_rings_grow_until_nothing_is_new() -> None:
    row = line(5)
    assert row.ploc("2", 0) == ("2",)
    assert row.ploc("0", 2) == ("0", "1", "2")
    assert row.ploc("0", 9) == row.ploc("0", 4) == row.places
    assert row.after("0") == ("1",)


def test_a_grid_leads_north_south_east_and_west() -> None:
    assert grid(3, 3).ploc("1,1", 1) == ("1,0", "0,1", "1,1", "2,1", "1,2")
    assert len(grid(3, 3).ploc("0,0", 3)) == 8


def test_a_grid_may_be_one_place_wide() -> None:
    assert grid(1, 3).places == ("0,0", "0,1", "0,2")
    assert line(1).places == ("0",)


def test_around_several_places_is_around_each() -> None:
    assert line(9).around(["1", "5"], 1) == ("0", "1", "2", "4", "5", "6")


def test_one_way_streets_lead_one_way_and_islands_nowhere() -> None:
    streets = from_edges([("a", "b"), ("b", "c")], places=["z"], one_way=True)
    assert streets.ploc("b", 5) == ("b", "c")
    assert streets.ploc("z", 5) == ("z",)


def test_bands_of_numbers_are_places_too() -> None:
    bands = from_edges([(1, 2), (2, 3)])
    assert bands.ploc(1, 1) == (1, 2)
    assert bands.has(1.0)
    assert not bands.has(True)


def test_every_place_of_a_road_network_has_a_position() -> None:
    town = parse(TOWN)
    assert town.ploc("mill", 2) == ("mill", "bridge", "market")
    assert set(town.positions) == set(town.places)


@pytest.mark.parametrize("text", ["line 4", " grid 2x2 ", '{"edges": [["a", "b"]]}', 'edges = [["a", "b"]]'])
def test_graphs_are_read_from_text(text: str) -> None:
    assert len(parse(text).places) in (2, 4)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("grid 8", "allowed are line N, grid NxM"),
        ("line 0", "allowed are 1 to"),
        ("grid 9999999x9999999", "allowed are 1 to"),
        ("{", "no movement graph"),
        ("edges = 3", "list of pairs"),
        ('edges = [["a"]]', "list of pairs"),
        ("one_way = 1", "true or false"),
        ("streets = []", "has no 'streets'"),
        ("places = 3", "list of names"),
        ("places = {a = [1]}", "allowed is [lon, lat]"),
        ("places = {a = [1, 99]}", "lat of a point"),
        ('edges = [["a", "b"]]\nplaces = {a = [1, 1]}', "none of its places"),
        ("", "allowed are 1 to"),
    ],
)
def test_a_text_that_is_no_graph_says_why(text: str, fault: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse(text)
    assert fault in str(caught.value)


def test_a_place_that_is_not_there_and_a_drift_that_is_none_are_errors() -> None:
    with pytest.raises(BadValue):
        line(3).ploc("9", 1)
    with pytest.raises(BadValue):
        Drift(-1)
    with pytest.raises(BadValue):
        Drift(float("nan"))
