"""Geometries for exact tests: literals of a query and geometries of events as Shapely knows them.

*Theory.* A property is a geometry when the event has points under its name, or a geometry that was flattened when it
came in (`filters/geometries.py`). The flattened one is read from its text, once per event, however many queries look.

*Rules.*
1. A text counts as a geometry only if the event's four edges hold its bounding box: routing goes by the edges, and an
   event whose edges say something else must not match here what it could not reach.
2. Relations are those of the plane, in two dimensions: heights are left out.
3. Shapely is loaded with the first geometry, as for filters (`filters/regions.py`).
4. Where Shapely cannot decide (a polygon that crosses itself, say), the answer is unknown.
"""

import sys
from collections.abc import Callable
from typing import Any

from godwit.errors import BadValue
from godwit.filters import Event, Point
from godwit.filters.events import values_of
from godwit.filters.geometries import COLLECTION, EDGES, GEOJSON, Geometry
from godwit.filters.regions import load_shapely
from godwit.languages.cql2.expressions import BBox

__all__ = [
    "DECIDERS",
    "Shape",
    "checked_bbox",
    "geometries_of_event",
    "is_shape",
    "positions_of",
    "related",
    "shape_of",
]

Shape = Any
"""A Shapely geometry."""

DECIDERS: dict[str, Callable[[Shape, Shape], Any]] = {
    "s_intersects": lambda a, b: load_shapely().intersects(a, b),
    "s_equals": lambda a, b: load_shapely().equals(a, b),
    "s_touches": lambda a, b: load_shapely().touches(a, b),
    "s_within": lambda a, b: load_shapely().within(a, b),
    "s_overlaps": lambda a, b: load_shapely().overlaps(a, b),
    "s_crosses": lambda a, b: load_shapely().crosses(a, b),
    "s_contains": lambda a, b: load_shapely().contains(a, b),
}

_BUILDERS: dict[str, Callable[[Any], Shape]] = {
    "Point": lambda places: load_shapely().Point(places),
    "MultiPoint": lambda places: load_shapely().MultiPoint(places),
    "LineString": lambda places: load_shapely().LineString(places),
    "MultiLineString": lambda places: load_shapely().MultiLineString(places),
    "Polygon": lambda rings: load_shapely().Polygon(rings[0], rings[1:]),
    "MultiPolygon": lambda areas: load_shapely().MultiPolygon([(area[0], area[1:]) for area in areas]),
}


def is_shape(value: Any) -> bool:
    """Whether a value is a geometry. Before Shapely is loaded there are none. (rule 3)"""
    return "shapely" in sys.modules and isinstance(value, load_shapely().Geometry)


def checked_bbox(box: BBox) -> BBox:
    """A box whose south is not above its north."""
    _, south, _, north = box.edges
    if south > north:
        raise BadValue(f"a BBOX from south {south!r} to north {north!r}: south must not lie above north")
    return box


def shape_of(literal: Geometry | BBox) -> Shape:
    """A literal as Shapely knows it."""
    if isinstance(literal, BBox):
        west, south, east, north = literal.edges
        if west <= east:
            return _box(west, south, east, north)
        parts = (_box(west, south, max(180.0, west), north), _box(min(-180.0, east), south, east, north))
        return (
            load_shapely().GeometryCollection(parts)
            if any(part.area == 0 for part in parts)
            else load_shapely().MultiPolygon(parts)
        )
    if literal.kind == COLLECTION:
        return load_shapely().GeometryCollection([shape_of(member) for member in literal.coordinates])
    return _BUILDERS[literal.kind](literal.coordinates)


def _box(west: float, south: float, east: float, north: float) -> Shape:
    """A box, also one without width or height."""
    if west < east and south < north:
        return load_shapely().box(west, south, east, north)
    if west == east and south == north:
        return load_shapely().Point(west, south)
    return load_shapely().LineString([(west, south), (east, north)])


def positions_of(shape: Shape) -> int:
    """How many positions a geometry has: what a test of it costs."""
    return int(load_shapely().get_num_coordinates(shape))


def geometries_of_event(event: Event, name: str) -> tuple[Shape, ...]:
    """The geometries that an event has under a name. (rule 1)"""
    attributes = event.attributes
    found = [
        load_shapely().Point(value.lon, value.lat)
        for value in values_of(attributes.get(name, ()))
        if type(value) is Point
    ]
    for text in values_of(attributes.get(f"{name}/{GEOJSON}", ())):
        shape = load_shapely().from_geojson(text, on_invalid="ignore") if type(text) is str else None
        if shape is not None and not shape.is_empty and _is_bounded(event, name, shape):
            found.append(shape)
    return tuple(found)


def _is_bounded(event: Event, name: str, shape: Shape) -> bool:
    return all(
        bound in values_of(event.attributes.get(f"{name}/{edge}", ()))
        for edge, bound in zip(EDGES, shape.bounds, strict=True)
    )


def related(relation: str, left: Shape, right: Shape) -> bool | None:
    """Whether two geometries are in a relation; None when that cannot be decided. (rule 4)"""
    try:
        return bool(DECIDERS[relation](left, right))
    except load_shapely().errors.ShapelyError:
        return None
