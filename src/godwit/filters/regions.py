"""Regions: value sets of points. Circles are measured on the globe, boxes and polygons lie in the lon/lat plane.

*Theory.* Whether a point lies in a region is decided exactly as written here, the same way everywhere (matcher,
broker, Spark). How two regions relate is decided by corners and bounding boxes, by spherical distance for circles,
and by shapely for polygons; wherever that cannot tell, `inside` answers no and `apart` answers no, the safe side for
routing.

*Rules.*
1. `bounds` never leaves out a point of the region.
2. A box whose west is greater than its east crosses the antimeridian; a polygon does not cross it. The points with
   longitude 180 and -180 are two: a box up to 180 holds only the first.
3. A margin goes to the safe side wherever rounding could decide.
4. Shapely is loaded when the first polygon is made (`load_shapely`). It takes 20 MB, and most processes that read
   filters never see a polygon.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from godwit.errors import BadValue
from godwit.filters.sets import ValueSet
from godwit.filters.values import Kind, Point, Value

EARTH_RADIUS_M = 6_371_008.8
MARGIN_M = 0.5  # haversine is that far off at the antipode, and far better elsewhere
MARGIN_DEGREES = 1e-7
VERTICES_MAX = 1_000
CORNERS_PER_STEP = 4  # corners of a polygon that weigh as much as one literal more

Bounds = tuple[float, float, float, float]
"""West, south, east, north; west > east when it crosses the antimeridian."""


def distance_m(a: Point, b: Point) -> float:
    """The great-circle distance between two points in metres (haversine)."""
    phi_a, phi_b = math.radians(a.lat), math.radians(b.lat)
    half_dphi, half_dlambda = (phi_b - phi_a) / 2, math.radians(b.lon - a.lon) / 2
    h = math.sin(half_dphi) ** 2 + math.cos(phi_a) * math.cos(phi_b) * math.sin(half_dlambda) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


class Region(ValueSet):
    """A set of points with a bounding box."""

    __slots__ = ()

    @property
    def kinds(self) -> Kind:
        return Kind.POINT

    if TYPE_CHECKING:  # see `ValueSet`

        @property
        @abstractmethod
        def bounds(self) -> Bounds:
            """A box around the region: it never leaves out a point of it."""


@dataclass(frozen=True, slots=True)
class Box(Region):
    """A rectangle in degrees with its border. `west > east` crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    @property
    def bounds(self) -> Bounds:
        return (self.west, self.south, self.east, self.north)

    def contains(self, value: Value) -> bool:
        if type(value) is not Point or not self.south <= value.lat <= self.north:
            return False
        if self.west <= self.east:
            return self.west <= value.lon <= self.east
        return value.lon >= self.west or value.lon <= self.east


@dataclass(frozen=True, slots=True)
class Circle(Region):
    """All points within `radius_m` metres of a centre, measured on the globe, border included."""

    centre: Point
    radius_m: float
    _bounds: Bounds = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bounds", _bounds_of_circle(self.centre, self.radius_m))

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    def contains(self, value: Value) -> bool:
        if type(value) is not Point or not self._bounds[1] <= value.lat <= self._bounds[3]:
            return False
        return distance_m(self.centre, value) <= self.radius_m


@cache
def load_shapely() -> Any:
    """Import Shapely. A server calls this when it starts, so that no client waits for the import."""
    return import_module("shapely")


@dataclass(frozen=True, slots=True)
class Polygon(Region):
    """A simple polygon in the lon/lat plane with its border. The last corner need not repeat the first."""

    corners: tuple[Point, ...]
    _bounds: Bounds = field(init=False, compare=False, repr=False)
    _shape: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lons, lats = [p.lon for p in self.corners], [p.lat for p in self.corners]
        shape = load_shapely().Polygon(list(zip(lons, lats, strict=True)))
        load_shapely().prepare(shape)
        object.__setattr__(self, "_bounds", (min(lons), min(lats), max(lons), max(lats)))
        object.__setattr__(self, "_shape", shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Polygon, (self.corners,))  # a shape does not stay prepared on its way to another process

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    @property
    def weight(self) -> int:
        return 1 + len(self.corners) // CORNERS_PER_STEP

    @property
    def shape(self) -> Any:
        """The same as Shapely knows it, prepared for many questions."""
        return self._shape

    def contains(self, value: Value) -> bool:
        if type(value) is not Point:
            return False
        west, south, east, north = self._bounds
        if not (west <= value.lon <= east and south <= value.lat <= north):
            return False
        return bool(load_shapely().intersects_xy(self._shape, value.lon, value.lat))


# ---------------------------------------------------------------- builders


def box(west: float, south: float, east: float, north: float) -> Box:
    """The rectangle from (west, south) to (east, north), in degrees."""
    Point(west, south), Point(east, north)
    if south > north:
        raise BadValue(f"a box from south {south!r} to north {north!r}: south must not lie above north")
    return Box(west, south, east, north)


def circle(lon: float, lat: float, radius_m: float) -> Circle:
    """All points within `radius_m` metres of (lon, lat)."""
    if type(radius_m) not in (int, float) or not 0 <= radius_m < math.inf:
        raise BadValue(f"the radius of a circle is {radius_m!r}: it must be a number of metres, 0 or more")
    return Circle(Point(lon, lat), radius_m)


def polygon(corners: Any) -> Polygon:
    """The simple polygon with these (lon, lat) corners."""
    points = tuple(p if isinstance(p, Point) else Point(*p) for p in corners)
    if len(points) > 1 and points[0] == points[-1]:
        points = points[:-1]
    if not 3 <= len(points) <= VERTICES_MAX:
        raise BadValue(f"a polygon with {len(points)} corners: 3 to {VERTICES_MAX} are allowed")
    region = Polygon(points)
    if not region.shape.is_valid:
        raise BadValue(f"the polygon is not simple: {load_shapely().is_valid_reason(region.shape)}")
    return region


# ---------------------------------------------------------------- how two regions relate


def inside(a: Region, b: Region) -> bool:
    """Whether every point of `a` lies in `b`; no when that cannot be told."""
    match a, b:
        case _, _ if a == b:
            return True
        case Circle(), Circle():
            return distance_m(a.centre, b.centre) + a.radius_m + MARGIN_M <= b.radius_m
        case _, Circle():
            return _box_in_circle(a.bounds, b)
        case _, Box():
            return _box_in_box(a.bounds, b.bounds)
        case Polygon(), Polygon():
            return bool(load_shapely().covers(b.shape, a.shape))
        case _, Polygon():
            west, _, east, _ = a.bounds
            return west <= east and bool(load_shapely().covers(b.shape, _flat_box(a.bounds)))
    return False


def apart(a: Region, b: Region) -> bool:
    """Whether no point lies in both; no when that cannot be told."""
    if _boxes_apart(a.bounds, b.bounds):
        return True
    match a, b:
        case Circle(), Circle():
            return distance_m(a.centre, b.centre) > a.radius_m + b.radius_m + MARGIN_M
        case Circle(), _:
            return _box_outside_circle(b.bounds, a)
        case _, Circle():
            return _box_outside_circle(a.bounds, b)
        case Polygon(), Polygon():
            return not load_shapely().intersects(a.shape, b.shape)
        case Polygon(), _:
            return _box_outside_polygon(b.bounds, a)
        case _, Polygon():
            return _box_outside_polygon(a.bounds, b)
    return False


def area(region: Region) -> float:
    """Roughly how much of the globe a region takes, in square radians."""
    match region:
        case Circle(radius_m=radius_m):
            return 2 * math.pi * (1 - math.cos(min(radius_m / EARTH_RADIUS_M, math.pi)))
        case Polygon():
            _, south, _, north = region.bounds
            return math.radians(math.radians(region.shape.area)) * math.cos(math.radians((south + north) / 2))
    west, south, east, north = region.bounds
    return math.radians(_width(west, east)) * (math.sin(math.radians(north)) - math.sin(math.radians(south)))


def box_hull(a: Region, b: Region) -> Box:
    """The narrowest box around both regions' boxes; of two as narrow the one that does not cross the antimeridian."""
    (west_a, south_a, east_a, north_a), (west_b, south_b, east_b, north_b) = a.bounds, b.bounds
    south, north = min(south_a, south_b), max(north_a, north_b)
    if west_a <= east_a and west_b <= east_b:
        west, east = min(west_a, west_b), max(east_a, east_b)
        if east - west <= 180:
            return Box(west, south, east, north)
    tried = [(west, east) for west in (west_a, west_b) for east in (east_a, east_b)]
    around = [
        (west, east)
        for west, east in tried
        if all(_box_in_box((x[0], south, x[2], north), (west, south, east, north)) for x in (a.bounds, b.bounds))
    ]
    west, east = min(around, key=lambda x: (_width(*x), x[0] > x[1]), default=(-180.0, 180.0))
    return Box(west, south, east, north)


def box_around(points: Iterable[Point]) -> Box:
    """The narrowest box around one point or more: it leaves out the widest stretch of longitudes between two."""
    lons, lats = [], []
    for point in points:
        lons.append(point.lon)
        lats.append(point.lat)
    lons.sort()
    gap, at = max(((east - west, at) for at, (west, east) in enumerate(pairwise(lons), 1)), default=(0.0, 0))
    if gap <= 360 - (lons[-1] - lons[0]):
        return Box(lons[0], min(lats), lons[-1], max(lats))
    return Box(lons[at], min(lats), lons[at - 1], max(lats))


def _bounds_of_circle(centre: Point, radius_m: float) -> Bounds:
    reach = (radius_m + MARGIN_M) / EARTH_RADIUS_M
    south, north = centre.lat - math.degrees(reach), centre.lat + math.degrees(reach)
    if south <= -90 or north >= 90:  # the circle holds a pole: every longitude is in it
        return (-180.0, max(south, -90.0), 180.0, min(north, 90.0))
    half_width = (
        math.degrees(math.asin(min(1.0, math.sin(reach) / math.cos(math.radians(centre.lat))))) + MARGIN_DEGREES
    )
    return (_wrapped(centre.lon - half_width), south, _wrapped(centre.lon + half_width), north)


def _flat_box(bounds: Bounds) -> Any:
    """A box that does not cross the antimeridian as a shape, also when it has no width or no height."""
    west, south, east, north = bounds
    if west < east and south < north:
        return load_shapely().box(west, south, east, north)
    return (
        load_shapely().Point(west, south)
        if (west, south) == (east, north)
        else load_shapely().LineString([(west, south), (east, north)])
    )


def _box_outside_polygon(bounds: Bounds, b: Polygon) -> bool:
    return bounds[0] <= bounds[2] and not load_shapely().intersects(b.shape, _flat_box(bounds))


def _box_in_circle(bounds: Bounds, b: Circle) -> bool:
    """Along a parallel the distance grows with the difference in longitude, along a meridian at most 90 degrees away it
    has no maximum between its ends: the farthest point of the box is then a corner."""
    west, south, east, north = bounds
    to_west = _wrapped(west - b.centre.lon)
    if to_west < -90 or to_west + _width(west, east) > 90:
        return False
    corners = (Point(west, south), Point(west, north), Point(east, south), Point(east, north))
    return all(distance_m(b.centre, corner) + MARGIN_M <= b.radius_m for corner in corners)


def _box_outside_circle(bounds: Bounds, b: Circle) -> bool:
    """The point of the box nearest to the centre lies on the centre's meridian, if that runs through the box, or else
    on the box's west or east side: at its ends, or where a great circle from the centre meets it at a right angle."""
    west, south, east, north = bounds
    centre = b.centre
    if any(span_west <= centre.lon <= span_east for span_west, span_east in _spans(bounds)):
        nearest = [Point(centre.lon, min(max(centre.lat, south), north))]
    else:
        phi = math.radians(centre.lat)
        nearest = []
        for lon in (west, east):
            foot = math.degrees(math.atan2(math.sin(phi), math.cos(phi) * math.cos(math.radians(lon - centre.lon))))
            nearest += [Point(lon, lat) for lat in (south, min(max(foot, south), north), north)]
    return all(distance_m(centre, point) > b.radius_m + MARGIN_M for point in nearest)


def _box_in_box(inner: Bounds, outer: Bounds) -> bool:
    if not (outer[1] <= inner[1] and inner[3] <= outer[3]):
        return False
    return all(any(y[0] <= x[0] and x[1] <= y[1] for y in _spans(outer)) for x in _spans(inner))


def _boxes_apart(a: Bounds, b: Bounds) -> bool:
    if a[3] < b[1] or b[3] < a[1]:
        return True
    return not any(x[0] <= y[1] and y[0] <= x[1] for x in _spans(a) for y in _spans(b))


def _spans(bounds: Bounds) -> list[tuple[float, float]]:
    """The longitudes of a box as plain ranges: two when it crosses the antimeridian."""
    west, _, east, _ = bounds
    return [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]


def _width(west: float, east: float) -> float:
    return east - west if west <= east else east - west + 360


def _wrapped(lon: float) -> float:
    return lon - 360 if lon > 180 else lon + 360 if lon < -180 else lon


def union_of_boxes(a: Box, b: Box) -> Box | None:
    """One box for two that share two sides and touch; else None."""
    if a.west > a.east or b.west > b.east:
        return None
    joined = Box(min(a.west, b.west), min(a.south, b.south), max(a.east, b.east), max(a.north, b.north))
    same_columns = (a.west, a.east) == (b.west, b.east) and not (a.north < b.south or b.north < a.south)
    same_rows = (a.south, a.north) == (b.south, b.north) and not (a.east < b.west or b.east < a.west)
    return joined if same_columns or same_rows else None
