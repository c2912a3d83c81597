"""Base stations: brokers with a position and a range, and the broker of a moving client.

*Theory.* Stations are points in a plane: on a grid, random, or from a file of positions. A client scans for brokers
once a second. A connected client keeps its broker until that is out of range, or until another is nearer by a margin;
others take the nearest, as soon as it is within range by a margin. Between two brokers a client is disconnected for at
least `away_s`.

*Rules.*
1. A client that does not move keeps its broker: between connecting to a broker and leaving it a client has moved at
   least half a margin, or its position is unknown.
2. A client that is out of range when the moves end connects to the broker nearest to its last position: after that
   everything must settle.
3. A client that is out of range when the moves begin is connected to its first broker in the warm-up, and is away from
   then on.
"""

import math
from collections.abc import Mapping
from random import Random

from godwit.errors import ScenarioError
from godwit.simulator.itineraries import Itinerary, Move, MovementSpace
from godwit.simulator.scenario.roaming_section import Roaming
from godwit.simulator.topologies import Overlay
from godwit.simulator.tracks import Rectangle, Spot, Track, positions_of

__all__ = ["SCAN_INTERVAL_S", "BaseStations", "broker_positions", "itinerary_along", "station_positions"]

SCAN_INTERVAL_S = 1.0  # between two scans
LEAST_M = 1.0  # side of a square of the spatial index


class BaseStations:
    """Brokers in a plane, with a spatial index."""

    def __init__(self, spots: Mapping[str, Spot], range_m: float) -> None:
        self.spots = dict(spots)
        self.range_m = range_m
        self._near: dict[tuple[int, int], list[str]] = {}  # by square: the brokers in it and in those around it
        for broker, spot in self.spots.items():
            column, row = self._square(spot)
            for square in ((column + right, row + up) for right in (-1, 0, 1) for up in (-1, 0, 1)):
                self._near.setdefault(square, []).append(broker)

    def distance_m(self, broker: str, spot: Spot) -> float:
        """The distance from a point to a broker."""
        return math.dist(self.spots[broker], spot)

    def nearest(self, spot: Spot) -> str:
        """The nearest broker, at any distance; the first of several."""
        return min(self.spots, key=lambda broker: self.distance_m(broker, spot))

    def nearest_within(self, spot: Spot, reach_m: float) -> str | None:
        """The nearest broker within a distance, which is at most its range."""
        near = self._near.get(self._square(spot), ())
        best = min(near, key=lambda broker: self.distance_m(broker, spot), default=None)
        return best if best is not None and self.distance_m(best, spot) <= reach_m else None

    def _square(self, spot: Spot) -> tuple[int, int]:
        return math.floor(spot[0] / self.range_m), math.floor(spot[1] / self.range_m)


# ---------------------------------------------------------------- where brokers stand


def station_positions(roaming: Roaming, space: MovementSpace, box: Rectangle) -> dict[str, Spot]:
    """Positions of brokers in a box: on a grid, row by row, or random."""
    brokers = space.places
    if roaming.stations == "drawn":
        drawn = {broker: Random(f"{space.seed}/stations/{broker}") for broker in brokers}
        return {
            broker: (rng.uniform(box.west, box.east), rng.uniform(box.south, box.north))
            for broker, rng in drawn.items()
        }
    width, height = max(box.east - box.west, LEAST_M), max(box.north - box.south, LEAST_M)
    columns = min(max(math.ceil(math.sqrt(len(brokers) * width / height)), 1), len(brokers))
    rows = [brokers[first : first + columns] for first in range(0, len(brokers), columns)]
    return {
        broker: (box.west + width * (column + 0.5) / len(row), box.south + height * (number + 0.5) / len(rows))
        for number, row in enumerate(rows)
        for column, broker in enumerate(row)
    }


def broker_positions(file: str, overlay: Overlay) -> dict[str, Spot]:
    """Positions of brokers from a file, as (lon, lat), in the order of the overlay; others are never in range."""
    found = positions_of(file)
    for broker in found:
        if broker not in overlay.brokers:
            raise ScenarioError(f"{file}: there is no broker {broker!r} in the overlay")
    return {broker: found[broker] for broker in overlay.brokers if broker in found}


# ---------------------------------------------------------------- who is within reach of whom


def itinerary_along(
    roaming: Roaming, space: MovementSpace, stations: BaseStations, track: Track, rng: Random
) -> Itinerary:
    """The itinerary of a client on a track."""
    enters_m = max(roaming.range_m - roaming.margin_m, 0.0)
    at = left_s = space.begins_s
    last = track.at(at)
    home = broker = None if last is None else stations.nearest_within(last, enters_m)
    moves: list[Move] = []
    at += SCAN_INTERVAL_S * rng.random()  # not all at the same time
    while at < space.ends_s:
        spot = track.at(at)
        last = spot or last
        if broker is None:
            broker = None if spot is None else stations.nearest_within(spot, enters_m)
            if broker is not None:
                moves.append(Move(left_s, broker, at))
            at += SCAN_INTERVAL_S
        elif spot is not None and _keeps(roaming, stations, broker, spot):
            at += SCAN_INTERVAL_S
        else:
            broker, left_s = None, at
            at += roaming.away_s
    if broker is None:
        to = stations.nearest(last or track.spots[-1])
        moves.append(Move(left_s, to, space.ends_s))
    return Itinerary(home or moves[0].to, tuple(moves))


def _keeps(roaming: Roaming, stations: BaseStations, broker: str, spot: Spot) -> bool:
    """Whether a client there keeps its broker."""
    away_m = stations.distance_m(broker, spot)
    if away_m > roaming.range_m:
        return False
    nearest = stations.nearest_within(spot, roaming.range_m)
    return nearest is None or stations.distance_m(nearest, spot) >= away_m - roaming.margin_m
