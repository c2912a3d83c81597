"""Routable bounds of a spatial predicate between a property and a constant geometry.

*Theory.* Two geometries that have anything in common have bounding boxes that meet; one that lies within another has a
box within the other's. So other geometries are routed by the edges that their events carry (`filters/geometries.py`),
and points, which are values, by a region: where the constant is a box or a simple polygon, exactly.

*Rules.*
1. The box of a geometry is never left out by its upper bound, whatever the relation is.
2. Only points in a region that says exactly what Shapely would are sure to match: the lower bound holds no others.
3. An attribute may have several geometries: each edge is compared by itself, so their boxes may be mixed up. That is
   too much, never too little.
"""

from itertools import pairwise

from godwit.errors import BadValue
from godwit.filters import (
    FALSE,
    NOTHING,
    Filter,
    Point,
    ValueSet,
    all_of,
    any_of,
    at_least,
    at_most,
    box,
    complement,
    one_of,
    only,
    polygon,
    present,
    some,
)
from godwit.filters.geometries import EDGES, GEOJSON, Geometry, outline
from godwit.languages.bounds import Bounds
from godwit.languages.cql2.expressions import BBox

__all__ = ["spatial_bounds"]

Edges = tuple[float, float, float, float]
WEST_MOST, EAST_MOST = -180.0, 180.0


def spatial_bounds(relation: str, name: str, constant: Geometry | BBox) -> tuple[Bounds, Bounds]:
    """Where the property `name` is in a relation to a constant, and where it is known not to be."""
    edges = _edges(constant)
    text = present(f"{name}/{GEOJSON}")
    if relation == "s_intersects":
        points, is_exact = _region(constant, edges)
        sure = points if is_exact else NOTHING
    else:
        points, sure = _points(relation, edges), NOTHING
    true = any_of(*([] if points == NOTHING else [some(name, points)]), all_of(*_meeting(relation, name, edges), text))
    if sure == NOTHING:
        return Bounds(true, FALSE), Bounds(any_of(present(name), text), FALSE)
    return Bounds(true, some(name, sure)), Bounds(any_of(only(name, complement(sure)), text), FALSE)


def _edges(constant: Geometry | BBox) -> Edges:
    if isinstance(constant, Geometry):
        found = outline(constant)
        assert found is not None, "a literal has positions"
        return found
    west, south, east, north = constant.edges
    if west <= east:
        return (float(west), float(south), float(east), float(north))
    return (min(WEST_MOST, float(east)), float(south), max(EAST_MOST, float(west)), float(north))


def _meeting(relation: str, name: str, edges: Edges) -> list[Filter]:
    """What the four edges of a geometry must be for the relation to be possible."""
    west, south, east, north = edges
    match relation:
        case "s_within":
            sets = (at_least(west), at_least(south), at_most(east), at_most(north))
        case "s_contains":
            sets = (at_most(west), at_most(south), at_least(east), at_least(north))
        case "s_equals":
            sets = (one_of([west]), one_of([south]), one_of([east]), one_of([north]))
        case _:
            sets = (at_most(east), at_most(north), at_least(west), at_least(south))
    return [some(f"{name}/{edge}", values) for edge, values in zip(EDGES, sets, strict=True)]


def _points(relation: str, edges: Edges) -> ValueSet:
    """The points that may be in the relation: a point contains and equals nothing but a point."""
    west, south, east, north = edges
    if relation in ("s_contains", "s_equals") and (west, south) != (east, north):
        return NOTHING
    return _box(edges)


def _region(constant: Geometry | BBox, edges: Edges) -> tuple[ValueSet, bool]:
    """The points that may meet a constant, as closely as a region can say it, and whether it says it exactly."""
    if isinstance(constant, BBox):
        return _crossing_box(constant) if constant.edges[0] > constant.edges[2] else _box(edges), True
    simple = _simple_polygon(constant)
    return (_box(edges), False) if simple is None else (simple, True)


def _simple_polygon(constant: Geometry) -> ValueSet | None:
    """A constant as a region; None if it is not a polygon that a region can represent."""
    if constant.kind != "Polygon" or len(constant.coordinates) != 1:
        return None
    corners = [position[:2] for position in constant.coordinates[0]]
    if any(one == other for one, other in pairwise(corners)):
        return None
    try:
        return polygon(corners)
    except BadValue:
        return None


def _crossing_box(constant: BBox) -> ValueSet:
    """The points in a box that crosses the antimeridian: of what is beyond the globe there are none."""
    west, south, east, north = constant.edges
    if west > EAST_MOST:
        return _box((WEST_MOST, south, east, north))
    if east < WEST_MOST:
        return _box((west, south, EAST_MOST, north))
    south, north = max(south, -90.0), min(north, 90.0)
    return box(west, south, east, north) if south <= north else NOTHING


def _box(edges: Edges) -> ValueSet:
    """The points in a box, of which there are none beyond the globe."""
    west, south, east, north = edges
    west, south, east, north = max(west, WEST_MOST), max(south, -90.0), min(east, EAST_MOST), min(north, 90.0)
    if west > east or south > north:
        return NOTHING
    if (west, south) == (east, north):
        return one_of([Point(west, south)])
    return box(west, south, east, north)
