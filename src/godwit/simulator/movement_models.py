"""Mobility models: the moves of all clients between brokers, computed before a run begins.

*Theory.* An itinerary is the first broker of a client and a list of moves, each from the moment at which the client
loses its broker to the moment at which it reaches the next one. Itineraries are computed from scenario and seed before
the run, so that a perfect predictor can be made from them [pubmob §4.1].

- `random`: at the times of a Poisson process a random client moves to a random broker, perhaps the same.
- `line`: brokers are along a street, in the order of the overlay, and each serves a cell of it. A client begins
  anywhere in the cell of its first broker, has one speed and one direction, and turns round at the ends of the street.
  At the border between two cells it is disconnected for a fixed time, and keeps moving: from border to border it takes
  the length of a cell divided by its speed. A client may be confined to some cells around its first one, and may
  overshoot these by δ on either side; it then turns round there. With `phase_s` all reach their first border within
  that time, and those of equal speed cross all later borders together, too.
- `walk`: a client stays at a broker for a random time, and moves to a neighbour in a movement graph.
- `waypoint`: a client moves in a straight line to a random point of the area, at a random speed, pauses, and continues
  to the next. `base_stations.py` determines its broker.
- `trace`: the k-th client follows the k-th id of a file of positions. `tracks.py` reads the file.

*Rules.*
1. Each client has a separate random stream, named by seed and client: its itinerary does not depend on other clients or
   modes. The model `random` has one stream for all, because its rate is that of all together.
2. Moves of a client are in the order of their beginnings, and none begins before the one before it has ended. Only in
   the model `random` they may overlap; `joined_moves` makes one of these.
3. Every client can reach some broker when the moves end.

*Paper.* [pubmob §4.1] gives the street of 64 brokers and 0.5 km each, the speeds and the 3 s; [pubmob §4.3] "Proxy
Locality" the five cells and δ. Movement graphs are [rebeca §5.1]'s, here with brokers for places.

*Symbols.* δ: `overshoot`.

*Departures.* [pubmob §4.3] lets a publisher overshoot by δ; here one that is confined always goes the whole way before
it turns. The paper does not define the ends of the street; here clients turn round.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count, pairwise
from pathlib import Path
from random import Random

from godwit.errors import BadValue, ScenarioError
from godwit.mobility.movement_graphs import parse
from godwit.simulator.base_stations import BaseStations, broker_positions, itinerary_along, station_positions
from godwit.simulator.itineraries import Itinerary, Move, MovementSpace, joined_moves
from godwit.simulator.movement_registry import MOVEMENT_MODELS
from godwit.simulator.scenario.roaming_section import Roaming
from godwit.simulator.topologies import Overlay
from godwit.simulator.tracks import Plane, Rectangle, Spot, Track, fixes_of, plausible

__all__ = ["Itinerary", "Move", "MovementSpace", "joined_moves", "movement_graph", "planned_itineraries"]

HOUR_S = 3_600
SHORTEST_S = 1e-3  # of a way between two waypoints


def planned_itineraries(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    """The itinerary of each moving client, by name; `homes` are their first brokers unless the model sets others."""
    if not roaming.is_on:
        return {client: Itinerary(home) for client, home in homes.items()}
    return dict(MOVEMENT_MODELS.part(roaming.model)(roaming, space, homes))


# ---------------------------------------------------------------- at random


def _random(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    times, movers, places, lengths = (
        Random(f"{space.seed}/roaming-{each}") for each in ("times", "clients", "places", "lengths")
    )
    at, clients = space.begins_s, list(homes)
    found: dict[str, list[Move]] = {client: [] for client in clients}
    while clients and (at := at + times.expovariate(roaming.per_s)) < space.ends_s:
        client, to = movers.choice(clients), places.choice(space.overlay.brokers)
        away_s = lengths.expovariate(1 / roaming.away_s) if roaming.away_s and lengths.random() < 0.7 else 0.0
        found[client].append(Move(at, to, min(at + away_s, space.ends_s)))
    return {client: Itinerary(home, tuple(found[client])) for client, home in homes.items()}


# ---------------------------------------------------------------- along a line of cells [pubmob §4.1]


def _line(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    return {
        client: Itinerary(home, tuple(_along_line(roaming, space, home, space.rng(client))))
        for client, home in homes.items()
    }


def _along_line(roaming: Roaming, space: MovementSpace, home: str, rng: Random) -> Iterator[Move]:
    street = space.places
    cell = street.index(home)
    first, last = _bounds(roaming, cell, len(street))
    lap_s = roaming.cell_km * HOUR_S / rng.choice(roaming.speeds_kmh)
    ahead = rng.random()  # the share of its first cell that lies before it
    if roaming.phase_s is not None:
        ahead *= roaming.phase_s / lap_s
    step = rng.choice((-1, 1))
    for borders in count() if first < last else ():
        leaves_s = space.begins_s + (ahead + borders) * lap_s
        arrives_s = leaves_s + roaming.away_s
        if arrives_s > space.ends_s:
            return
        if first <= cell + step <= last:
            cell += step
            yield Move(leaves_s, street[cell], arrives_s)
            if roaming.turns and rng.random() < roaming.turns:
                step = -step
        else:
            step = -step  # here the street ends, or what it is confined to


def _bounds(roaming: Roaming, cell: int, cells: int) -> tuple[int, int]:
    """The first and the last cell that a client may enter, for one that begins in `cell`."""
    if roaming.confined_to is None:
        return 0, cells - 1
    width = min(roaming.confined_to, cells)
    first = min(max(cell - width // 2, 0), cells - width)
    return max(first - roaming.overshoot, 0), min(first + width - 1 + roaming.overshoot, cells - 1)


# ---------------------------------------------------------------- over a movement graph


def _walk(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    beside = movement_graph(roaming, space.overlay, space.places)
    found = {}
    for client, home in homes.items():
        rng = space.rng(client)
        begins = home if home in beside else rng.choice(list(beside))
        found[client] = Itinerary(begins, tuple(_over_graph(roaming, space, beside, begins, rng)))
    return found


def _over_graph(
    roaming: Roaming, space: MovementSpace, beside: Mapping[str, list[str]], place: str, rng: Random
) -> Iterator[Move]:
    draw = DWELLS[roaming.dwell]
    at = space.begins_s
    while beside[place]:
        leaves_s = at + draw(rng, roaming.dwell_s)
        at = leaves_s + roaming.away_s
        if at > space.ends_s:
            return
        place = rng.choice(beside[place])
        yield Move(leaves_s, place, at)


DWELLS: dict[str, Callable[[Random, float], float]] = {
    "fixed": lambda _, mean_s: mean_s,
    "uniform": lambda rng, mean_s: rng.uniform(0, 2 * mean_s),
    "exponential": lambda rng, mean_s: rng.expovariate(1 / mean_s),
}


def movement_graph(roaming: Roaming, overlay: Overlay, places: tuple[str, ...]) -> dict[str, list[str]]:
    """By broker, the brokers one step away. The places of a graph from a file are brokers."""
    match roaming.graph:
        case "overlay":
            return overlay.neighbours()
        case "file":
            return _graph_of_file(roaming.file or "", overlay)
        case "grid":
            columns = math.ceil(math.sqrt(len(places)))
            steps = [(k, k + 1) for k in range(len(places) - 1) if (k + 1) % columns]
            steps += [(k, k + columns) for k in range(len(places) - columns)]
        case "line":
            steps = list(pairwise(range(len(places))))
    beside: dict[str, list[str]] = {place: [] for place in places}
    for a, b in steps:
        beside[places[a]].append(places[b])
        beside[places[b]].append(places[a])
    return beside


def _graph_of_file(file: str, overlay: Overlay) -> dict[str, list[str]]:
    try:
        graph = parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    except BadValue as error:
        raise ScenarioError(f"{file}: {error}") from None
    for place in graph.places:
        if place not in overlay.brokers:
            raise ScenarioError(f"{file}: there is no broker {place!r} in the overlay")
    return {str(place): [str(after) for after in graph.after(place)] for place in graph.places}


# ---------------------------------------------------------------- in the plane


def _waypoint(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    if space.positions is None:
        side_m = roaming.area_km * 1_000
        area = Rectangle(0.0, 0.0, side_m, side_m)
        spots = station_positions(roaming, space, area)
    else:
        points = broker_positions(space.positions, space.overlay)
        plane = Plane(Rectangle.around(points.values()))
        spots = {broker: plane.spot(*point) for broker, point in points.items()}
        area = Rectangle.around(spots.values()).wider(roaming.range_m)
    stations = BaseStations(spots, roaming.range_m)
    found = {}
    for client in homes:
        rng = space.rng(client)
        found[client] = itinerary_along(roaming, space, stations, _waypoints(roaming, space, area, rng), rng)
    return found


def _waypoints(roaming: Roaming, space: MovementSpace, area: Rectangle, rng: Random) -> Track:
    """Straight lines from one random point to the next."""

    def anywhere() -> Spot:
        return rng.uniform(area.west, area.east), rng.uniform(area.south, area.north)

    track, at, spot = Track(), space.begins_s, anywhere()
    track.add(at, spot)
    while at < space.ends_s:
        before, spot = spot, anywhere()
        speed_kmh = rng.uniform(min(roaming.speeds_kmh), max(roaming.speeds_kmh))
        at += max(math.dist(before, spot) * HOUR_S / (speed_kmh * 1_000), SHORTEST_S)
        track.add(at, spot)
        if roaming.pause_s:
            at += rng.uniform(0, roaming.pause_s)
            track.add(at, spot)
    return track


def _trace(roaming: Roaming, space: MovementSpace, homes: Mapping[str, str]) -> dict[str, Itinerary]:
    found = {id: plausible(fixes, roaming.speed_max_kmh) for id, fixes in fixes_of(roaming.file or "").items()}
    if len(found) < len(homes):
        raise ScenarioError(
            f"{roaming.file}: it has {len(found)} ids, and {len(homes)} clients are to move like them "
            "(clients.roaming.who): allowed are as many clients as ids, or fewer"
        )
    seen = Rectangle.around((lon, lat) for fixes in found.values() for _, lon, lat in fixes.rows())
    points = {} if space.positions is None else broker_positions(space.positions, space.overlay)
    try:
        plane = Plane(Rectangle.around([(seen.west, seen.south), (seen.east, seen.north), *points.values()]))
    except ScenarioError as error:
        raise ScenarioError(f"{roaming.file}: {error}") from None
    spots = {broker: plane.spot(*point) for broker, point in points.items()}
    if not spots:
        area = Rectangle.around([plane.spot(seen.west, seen.south), plane.spot(seen.east, seen.north)])
        spots = station_positions(roaming, space, area)
    stations = BaseStations(spots, roaming.range_m)
    begins = min(fixes.times[0] for fixes in found.values())
    planned = {}
    for client, fixes in zip(homes, found.values(), strict=False):
        track = Track(roaming.gap_s / roaming.speedup)
        for time, lon, lat in fixes.rows():
            track.add(space.begins_s + (time - begins) / roaming.speedup, plane.spot(lon, lat))
        planned[client] = itinerary_along(roaming, space, stations, track, space.rng(client))
    return planned


for _name, _model in (
    ("random", _random),
    ("line", _line),
    ("walk", _walk),
    ("waypoint", _waypoint),
    ("trace", _trace),
):
    MOVEMENT_MODELS.register(_name, _model)
