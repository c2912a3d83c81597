"""Tracks: positions over time in a plane; random, or from a file of positions on the globe.

*Theory.* A track is a list of times and points, with linear interpolation between them. A file of positions has rows of
time, id, longitude and latitude, in any order. Degrees are projected to metres in a plane that touches the globe in the
middle of all positions; within `SPAN_KM_MAX` the error of distances is a few per cent at most.

*Rules.*
1. A row that cannot be used is an error with file and line: a run never starts with half of a trace.
2. Real traces have impossible positions. A position is left out if neither the two before it nor the two after it can
   be reached at `speed_max_kmh`.
3. There is no position before the first one, after the last one, and between two that are more than `gap_s` apart.
"""

import csv
import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from godwit.errors import ScenarioError
from godwit.filters.regions import EARTH_RADIUS_M, distance_m
from godwit.filters.values import Point

__all__ = ["FIXES_MAX", "Fixes", "Plane", "Rectangle", "Spot", "Track", "fixes_of", "plausible", "positions_of"]

FIXES_MAX = 2_000_000  # rows of a file
SPAN_KM_MAX = 500.0
TIME_MAX = 1e15

Spot = tuple[float, float]
"""A point in a plane: metres to the east and to the north."""


class Rectangle(msgspec.Struct, frozen=True):
    """A rectangle, in metres or in degrees."""

    west: float
    south: float
    east: float
    north: float

    @staticmethod
    def around(spots: Iterable[Spot]) -> "Rectangle":
        """The smallest one around some spots."""
        xs, ys = zip(*spots, strict=True)
        return Rectangle(min(xs), min(ys), max(xs), max(ys))

    def wider(self, margin: float) -> "Rectangle":
        """The same with a margin all around."""
        return Rectangle(self.west - margin, self.south - margin, self.east + margin, self.north + margin)


class Track:
    """Times and points; between two of them a straight line, unless they are too far apart in time. (rule 3)"""

    def __init__(self, gap_s: float = math.inf) -> None:
        self.times: list[float] = []
        self.spots: list[Spot] = []
        self.gap_s = gap_s

    def add(self, at: float, spot: Spot) -> None:
        """Add a point; `at` must not be before the last one."""
        self.times.append(at)
        self.spots.append(spot)

    def at(self, now: float) -> Spot | None:
        """The position at a time, or None."""
        place = bisect_right(self.times, now)
        if place == 0:
            return None
        before, (x, y) = self.times[place - 1], self.spots[place - 1]
        if before == now:
            return x, y
        if place == len(self.times) or self.times[place] - before > self.gap_s:
            return None
        share = (now - before) / (self.times[place] - before)
        to_x, to_y = self.spots[place]
        return x + (to_x - x) * share, y + (to_y - y) * share


class Plane:
    """A plane that touches the globe at one point."""

    def __init__(self, box: Rectangle) -> None:
        self.lon, self.lat = (box.west + box.east) / 2, (box.south + box.north) / 2
        self._north_m = math.radians(EARTH_RADIUS_M)  # metres in a degree
        self._east_m = self._north_m * math.cos(math.radians(self.lat))
        span_km = math.hypot((box.east - box.west) * self._east_m, (box.north - box.south) * self._north_m) / 1_000
        if span_km > SPAN_KM_MAX:
            raise ScenarioError(
                f"positions lie up to {span_km:,.0f} km apart (from {box.west:g} {box.south:g} to {box.east:g} "
                f"{box.north:g}, lon lat): allowed are {SPAN_KM_MAX:,.0f} km"
            )

    def spot(self, lon: float, lat: float) -> Spot:
        """Project a point of the globe to the plane."""
        return (lon - self.lon) * self._east_m, (lat - self.lat) * self._north_m


# ---------------------------------------------------------------- positions from a file


class Fixes:
    """The positions of one id: times in seconds, longitudes and latitudes, the oldest first."""

    def __init__(self) -> None:
        self.times, self.lons, self.lats = array("d"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self.times)

    def add(self, at: float, lon: float, lat: float) -> None:
        self.times.append(at)
        self.lons.append(lon)
        self.lats.append(lat)

    def rows(self) -> Iterator[tuple[float, float, float]]:
        """Each as (time, lon, lat)."""
        return zip(self.times, self.lons, self.lats, strict=True)

    def kept(self, order: Sequence[int]) -> "Fixes":
        """Some of them, in that order."""
        found = Fixes()
        for place in order:
            found.add(self.times[place], self.lons[place], self.lats[place])
        return found

    def in_order(self) -> "Fixes":
        """The oldest first; of equal times the first in the file."""
        places = range(len(self))
        if all(self.times[place - 1] <= self.times[place] for place in places[1:]):
            return self
        return self.kept(sorted(places, key=self.times.__getitem__))


def plausible(fixes: Fixes, speed_max_kmh: float) -> Fixes:
    """Without impossible positions, unless there are no others. (rule 2)"""
    speed_max = speed_max_kmh / 3.6
    points = [(at, Point(lon, lat)) for at, lon, lat in fixes.rows()]
    is_kept = bytearray(len(points))
    for apart in (1, 2):
        for place, ((from_s, a), (to_s, b)) in enumerate(zip(points, points[apart:], strict=False)):
            if distance_m(a, b) <= (to_s - from_s) * speed_max:
                is_kept[place] = is_kept[place + apart] = True
    if all(is_kept) or not any(is_kept):
        return fixes
    return fixes.kept([place for place, kept in enumerate(is_kept) if kept])


def fixes_of(file: str) -> dict[str, Fixes]:
    """The positions in a CSV or Parquet file with columns time, id, lon and lat, by id, in the order of the file."""
    found: dict[str, Fixes] = {}
    for at, (time, id, lon, lat) in _rows(file, ("time", "id", "lon", "lat")):
        name = str(id).strip() if id is not None else ""
        if not name:
            raise ScenarioError(f"{at}: id is empty")
        seconds = _seconds(time, at)
        point = _point(lon, lat, at)
        if name not in found:
            found[name] = Fixes()
        found[name].add(seconds, *point)
    if not found:
        raise ScenarioError(f"{file}: there is no position in it")
    ordered = {id: fixes.in_order() for id, fixes in found.items()}
    return {id: ordered[id] for id in sorted(ordered, key=lambda id: (ordered[id].times[0], id))}


def positions_of(file: str) -> dict[str, Spot]:
    """Positions of brokers, by name, as (lon, lat): a CSV or Parquet file with columns broker, lon and lat."""
    found: dict[str, Spot] = {}
    for at, (broker, lon, lat) in _rows(file, ("broker", "lon", "lat")):
        if (name := str(broker).strip()) in found:
            raise ScenarioError(f"{at}: broker {name!r} has a position already")
        found[name] = _point(lon, lat, at)
    if not found:
        raise ScenarioError(f"{file}: there is no position in it")
    return found


def _rows(file: str, columns: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
    """Where each row stands, and its values in those columns."""
    rows = _parquet_rows if Path(file).suffix == ".parquet" else _csv_rows
    try:
        for count, row in enumerate(rows(file, columns)):
            if count >= FIXES_MAX:
                raise ScenarioError(f"{file}: more than {FIXES_MAX:,} rows, the limit")
            yield row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _csv_rows(file: str, columns: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
    with Path(file).open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        header = [name.strip() for name in next(reader, [])]
        places = [_column(file, name, header, columns) for name in columns]
        for row in reader:
            if len(row) == len(header):
                yield f"{file}:{reader.line_num}", [row[place] for place in places]
            elif row:
                raise ScenarioError(f"{file}:{reader.line_num}: {len(row)} values, and the header has {len(header)}")


def _parquet_rows(file: str, columns: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file) as stream:
            names = stream.schema_arrow.names
            for name in columns:
                _column(file, name, names, columns)
            for batch in stream.iter_batches(columns=list(columns)):
                held = [batch.column(name).to_pylist() for name in columns]
                for row in zip(*held, strict=True):
                    number += 1
                    yield f"{file}: row {number}", list(row)
    except pa.ArrowException as error:
        raise ScenarioError(f"{file}: {error}") from None


def _column(file: str, name: str, header: list[str], columns: tuple[str, ...]) -> int:
    if header.count(name) != 1:
        how = "no column" if name not in header else "more than one column"
        raise ScenarioError(
            f"{file}: {how} {name!r} in the header {','.join(header)[:80]!r}: there must be {', '.join(columns)}"
        )
    return header.index(name)


def _point(lon: Any, lat: Any, at: str) -> Spot:
    found = []
    for name, held, limit in (("lon", lon, 180), ("lat", lat, 90)):
        degrees = _number(held)
        if not -limit <= degrees <= limit:
            raise ScenarioError(f"{at}: {name} is {held!r}: allowed is a number from {-limit} to {limit}")
        found.append(degrees)
    return found[0], found[1]


def _seconds(held: Any, at: str) -> float:
    """A time as seconds; a date without a zone counts as UTC, because only differences matter."""
    found = _number(held)
    if math.isnan(found):
        try:
            moment = held if isinstance(held, datetime) else datetime.fromisoformat(str(held).strip())
            found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    if not abs(found) <= TIME_MAX:
        raise ScenarioError(f"{at}: time is {held!r}: allowed are seconds, or a date such as 2008-05-17T10:00:04Z")
    return found


def _number(held: Any) -> float:
    """NaN for what is none."""
    if isinstance(held, bool) or not isinstance(held, int | float | str):
        return math.nan
    try:
        return float(held)
    except (ValueError, OverflowError):
        return math.nan
