"""Geometries of events: a line or an area is routed by its bounding box, and kept as text for an exact test.

*Theory.* A value is a number, a text, a time, a bool or a point. A line or an area is none of these, and filters need
no more of it than where it is. So a GeoJSON geometry in the attribute `road` becomes five attributes: the numbers
`road/west`, `road/south`, `road/east` and `road/north`, and the text `road/geojson`. Filters compare the numbers;
languages that know geometries read the text. A GeoJSON Point stays what it was: a value of the kind point.

*Rules.*
1. A geometry is checked when it comes in: kind, number of positions, closed rings. Nothing behind has to ask again.
2. The box is that of the coordinates as they are given. A geometry that crosses the antimeridian is cut there by its
   author, as RFC 7946 asks.
3. A geometry without any position is not a value: its attribute is absent.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from godwit.errors import BadValue

__all__ = [
    "COLLECTION",
    "EDGES",
    "GEOJSON",
    "LEVELS",
    "POSITIONS_MAX",
    "Geometry",
    "checked_geometry",
    "flattened_geometry",
    "geojson_of",
    "geometry_from_geojson",
    "is_geojson_geometry",
    "outline",
]

POSITIONS_MAX = 5_000
EDGES = ("west", "south", "east", "north")
GEOJSON = "geojson"

COLLECTION = "GeometryCollection"
LEVELS = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
"""How many lists stand around the positions of each kind."""
_LINE_POSITIONS_MIN = 2
_RING_POSITIONS_MIN = 4
_NUMBERS_ALLOWED = (2, 3)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A checked geometry. `coordinates` are nested tuples as in GeoJSON; those of a collection are its members."""

    kind: str
    coordinates: tuple[Any, ...]


def is_geojson_geometry(value: Mapping[str, Any]) -> bool:
    """Whether an object is meant as a GeoJSON geometry."""
    kind = value.get("type")
    members = value.keys() - {"bbox"}
    if type(kind) is not str:
        return False
    return (members == {"type", "coordinates"} and kind in LEVELS) or (
        members == {"type", "geometries"} and kind == COLLECTION
    )


def geometry_from_geojson(value: Mapping[str, Any]) -> Geometry:
    """The geometry that a GeoJSON object describes; `BadValue` says what is wrong with it."""
    if not is_geojson_geometry(value):
        kinds = ", ".join([*LEVELS, COLLECTION])
        raise BadValue(f"no GeoJSON geometry: it needs a type ({kinds}) and its coordinates or geometries")
    if value["type"] != COLLECTION:
        return checked_geometry(value["type"], value["coordinates"])
    members = value["geometries"]
    if not isinstance(members, list | tuple) or not all(isinstance(member, Mapping) for member in members):
        raise BadValue("the geometries of a GeometryCollection are a list of geometries")
    if len(members) > POSITIONS_MAX:
        raise BadValue(f"a geometry of more than {POSITIONS_MAX} positions, which are the most allowed")
    if any(member.get("type") == COLLECTION for member in members):
        raise BadValue("a GeometryCollection in a GeometryCollection: its members must be plain geometries")
    return checked_geometry(COLLECTION, [geometry_from_geojson(member) for member in members])


def checked_geometry(kind: str, coordinates: Any) -> Geometry:
    """A geometry of these coordinates. (rule 1)"""
    if kind == COLLECTION:
        made = Geometry(kind, tuple(coordinates))
        if sum(1 for _ in _positions(made)) > POSITIONS_MAX:
            raise BadValue(f"a geometry of more than {POSITIONS_MAX} positions, which are the most allowed")
    else:
        made = Geometry(kind, _Check(kind).nested(coordinates, LEVELS[kind]))
    if len({len(position) for position in _positions(made)}) > 1:
        raise BadValue(f"a {kind} of positions with two and with three numbers: all must have the same")
    return made


class _Check:
    """Checks the coordinates of one geometry and counts its positions."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._positions = 0

    def nested(self, value: Any, level: int) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise BadValue(f"{value!r:.40} in the coordinates of a {self._kind}: a list is needed there")
        if level == 0:
            return self._position(value)
        if self._positions + len(value) > POSITIONS_MAX:
            raise BadValue(f"a geometry of more than {POSITIONS_MAX} positions, which are the most allowed")
        inner = tuple(self.nested(each, level - 1) for each in value)
        if level == 1 and self._kind in ("LineString", "MultiLineString") and (inner or self._kind != "LineString"):
            self._check_length(inner, _LINE_POSITIONS_MIN, "line")
        if level == 1 and self._kind in ("Polygon", "MultiPolygon"):
            self._check_length(inner, _RING_POSITIONS_MIN, "ring")
            if inner[0] != inner[-1]:
                raise BadValue(f"a ring from {inner[0]} to {inner[-1]}: its last position must be its first")
        if level == 2 and self._kind == "MultiPolygon" and not inner:
            raise BadValue("a polygon without rings: it needs one at least")
        return inner

    def _check_length(self, positions: tuple[Any, ...], least: int, what: str) -> None:
        if len(positions) < least:
            raise BadValue(f"a {what} of {len(positions)} positions: {least} are the fewest allowed")

    def _position(self, numbers: Any) -> tuple[Any, ...]:
        self._positions += 1
        if len(numbers) not in _NUMBERS_ALLOWED:
            raise BadValue(f"a position of {len(numbers)} numbers: two or three are allowed")
        for number in numbers:
            if type(number) not in (int, float) or not _is_finite(number):
                raise BadValue(f"{number!r:.40} in a position: a finite number is needed there")
        return tuple(numbers)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond all floats
        return False


def outline(geometry: Geometry) -> tuple[float, float, float, float] | None:
    """West, south, east and north of a geometry; None when it has no position. (rules 2, 3)"""
    xs, ys = [], []
    for position in _positions(geometry):
        xs.append(float(position[0]))
        ys.append(float(position[1]))
    return (min(xs), min(ys), max(xs), max(ys)) if xs else None


def geojson_of(geometry: Geometry) -> dict[str, Any]:
    """The geometry as a GeoJSON object."""
    if geometry.kind == COLLECTION:
        return {"type": COLLECTION, "geometries": [geojson_of(member) for member in geometry.coordinates]}
    return {"type": geometry.kind, "coordinates": _lists(geometry.coordinates)}


def flattened_geometry(value: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for a GeoJSON geometry in an event: its four edges and its text, by the names to append."""
    geometry = geometry_from_geojson(value)
    edges = outline(geometry)
    if edges is None:
        return {}
    return {**dict(zip(EDGES, edges, strict=True)), GEOJSON: json.dumps(geojson_of(geometry), separators=(",", ":"))}


def _positions(geometry: Geometry) -> Iterator[tuple[Any, ...]]:
    if geometry.kind == COLLECTION:
        for member in geometry.coordinates:
            yield from _positions(member)
    else:
        yield from _at_level(geometry.coordinates, LEVELS[geometry.kind])


def _at_level(coordinates: tuple[Any, ...], level: int) -> Iterator[tuple[Any, ...]]:
    if level == 0:
        yield coordinates
    else:
        for inner in coordinates:
            yield from _at_level(inner, level - 1)


def _lists(coordinates: Any) -> Any:
    return [_lists(each) for each in coordinates] if isinstance(coordinates, tuple) else coordinates
