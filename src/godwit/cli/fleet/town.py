"""The town of the demonstration: positions of its brokers, and the drives of its cars.

`drives.csv` was generated for this demonstration: shortest paths on a fictional street grid, with traffic lights,
stops, GPS errors and tunnels. It may be used freely.
"""

import csv
from bisect import bisect_right
from importlib.resources import files
from math import cos, hypot, radians

import msgspec

__all__ = [
    "AREA_M",
    "BROKERS",
    "DURATION_S",
    "HUB",
    "LINKS",
    "OFFICE",
    "SQUARES",
    "Drive",
    "Place",
    "drives",
    "nearest",
]

DURATION_S = 1_200.0  # of the drives
STAYS = 0.85  # a car changes the broker when another one is nearer by this distance: hysteresis

Place = tuple[float, float]
"""Longitude and latitude."""

BROKERS: dict[str, Place] = {
    "centre": (8.540, 47.375),
    "north": (8.541, 47.391),
    "east": (8.564, 47.376),
    "south": (8.539, 47.359),
    "west": (8.516, 47.374),
}
HUB = "centre"
LINKS = [(HUB, "north"), (HUB, "east"), (HUB, "south"), (HUB, "west")]
AREA_M = 1_050  # around a broker: most cars inside are its clients

SQUARES: dict[str, Place] = {
    "market": (8.5350, 47.3725),
    "station": (8.5290, 47.3790),
    "harbour": (8.5450, 47.3640),
    "university": (8.5520, 47.3800),
}
"""Places with a name, for the map."""

OFFICE: Place = (8.5425, 47.3785)
"""Positions of the desks."""


class Drive(msgspec.Struct):
    """The track of one car: positions and times."""

    car: str
    times: list[float] = []
    places: list[Place] = []

    def at(self, time: float) -> Place:
        """The position at a time, interpolated between two fixes."""
        k = bisect_right(self.times, time)
        if k == 0 or k == len(self.times):
            return self.places[min(k, len(self.places) - 1)]
        share = (time - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        (lon, lat), (lon_next, lat_next) = self.places[k - 1], self.places[k]
        return (round(lon + share * (lon_next - lon), 6), round(lat + share * (lat_next - lat), 6))

    def speed_kmh(self, time: float) -> float:
        """The speed at a time."""
        return round(3.6 * metres(self.at(time), self.at(time + 10.0)) / 10.0, 1)


def drives() -> list[Drive]:
    """Every car's drive, by name."""
    found: dict[str, Drive] = {}
    for row in csv.DictReader((files("godwit.cli.fleet") / "drives.csv").read_text(encoding="utf-8").splitlines()):
        drive = found.setdefault(row["id"], Drive(row["id"]))
        drive.times.append(float(row["time"]))
        drive.places.append((float(row["lon"]), float(row["lat"])))
    return [found[car] for car in sorted(found)]


def metres(a: Place, b: Place) -> float:
    """The distance in metres, by an approximation that suffices for a town."""
    return hypot((a[0] - b[0]) * cos(radians(a[1])), a[1] - b[1]) * 111_195.0


def nearest(place: Place, at: str = "", without: frozenset[str] = frozenset()) -> str:
    """The nearest broker; the present one is kept until another is clearly nearer."""
    away = {name: metres(place, stands) for name, stands in BROKERS.items() if name not in without}
    best = min(away, key=away.__getitem__)
    return at if at in away and away[best] > STAYS * away[at] else best
