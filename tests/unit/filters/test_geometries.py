"""Geometries of events: flattened to their bounding box and their text, and checked at the door."""

import json
from typing import Any

import pytest

from godwit.errors import BadEvent, BadValue
from godwit.filters import event, parse
from godwit.filters.geometries import POSITIONS_MAX, flattened_geometry, geojson_of, geometry_from_geojson

RING = [[0, 0], [4, 0], [4, 3], [0, 0]]


def test_a_line_becomes_its_edges_and_its_text() -> None:
    line = {"type": "LineString", "coordinates": [[8.5, 47], [7.4, 46.9]]}
    assert event({"road": line}).attributes == {
        "road/west": 7.4,
        "road/south": 46.9,
        "road/east": 8.5,
        "road/north": 47.0,
        "road/geojson": '{"type":"LineString","coordinates":[[8.5,47],[7.4,46.9]]}',
    }
    assert parse("road/west >= 7 AND road/east <= 9").matches(event({"road": line}))


@pytest.mark.parametrize(
    ("kind", "coordinates"),
    [
        ("MultiPoint", [[0, 0], [4, 3]]),
        ("Polygon", [RING]),
        ("MultiLineString", [[[0, 0], [4, 3]], [[1, 1], [2, 2]]]),
        ("MultiPolygon", [[RING], [RING]]),
        ("LineString", [[0, 0, 9], [4, 3, -9]]),
    ],
)
def test_every_kind_has_a_box_and_is_kept_as_it_was(kind: str, coordinates: Any) -> None:
    said = {"type": kind, "coordinates": coordinates}
    flat = flattened_geometry(said)
    assert [flat[edge] for edge in ("west", "south", "east", "north")] == [0, 0, 4, 3]
    assert json.loads(flat["geojson"]) == said == geojson_of(geometry_from_geojson(said))


def test_a_collection_has_the_box_of_its_members_and_what_is_empty_is_absent() -> None:
    members = [{"type": "Point", "coordinates": [9, 9]}, {"type": "Polygon", "coordinates": [RING]}]
    flat = flattened_geometry({"type": "GeometryCollection", "geometries": members, "bbox": [0, 0, 9, 9]})
    assert (flat["west"], flat["north"]) == (0, 9)
    assert event({"a": {"type": "GeometryCollection", "geometries": []}, "b": 1}).attributes == {"b": 1}
    assert event({"a": {"type": "LineString", "coordinates": []}, "b": 1}).attributes == {"b": 1}


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"type": "Circle", "coordinates": [1, 2]}, "no GeoJSON geometry"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 0]]]}, "a ring of 3 positions: 4 are the fewest"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 3], [0, 1]]]}, "its last position must be its first"),
        ({"type": "MultiPolygon", "coordinates": [[]]}, "a polygon without rings"),
        ({"type": "MultiLineString", "coordinates": [[]]}, "a line of 0 positions"),
        ({"type": "LineString", "coordinates": [[0, 0], 5]}, "5 in the coordinates of a LineString"),
        ({"type": "LineString", "coordinates": [[0, 0], [1]]}, "a position of 1 numbers"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, "2"]]}, "'2' in a position"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, True]]}, "True in a position"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, float("nan")]]}, "nan in a position"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, 10**400]]}, "a finite number is needed"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, 1, 1]]}, "with two and with three numbers"),
        ({"type": "MultiPoint", "coordinates": [[0, 0]] * (POSITIONS_MAX + 1)}, "more than 5000 positions"),
        ({"type": "MultiPolygon", "coordinates": [[[[0, 0]] * 4] * 2_000]}, "more than 5000 positions"),
        ({"type": "GeometryCollection", "geometries": [5]}, "a list of geometries"),
        (
            {"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": []}]},
            "a GeometryCollection in a GeometryCollection",
        ),
    ],
)
def test_a_broken_geometry_is_refused_with_what_is_wrong(said: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadValue, match=fault):
        flattened_geometry(said)


def test_a_geometry_whose_text_is_too_long_is_refused() -> None:
    coordinates = [[n / 7, n / 77] for n in range(4_000)]
    with pytest.raises(BadEvent, match=r"attribute 'a/geojson': a text of .* characters"):
        event({"a": {"type": "LineString", "coordinates": coordinates}})
