"""Mobility models: who leaves its broker when, and where and when it turns up again, known before a run begins.

*Theory.* A client's way is its first broker and a row of moves, each from the moment when the client is out of reach of
its broker to the moment when it is within reach of the next one. Ways are reckoned from scenario and seed before
anything runs, so that a predictor which is never wrong can be made from them [pubmob §4.1].

- `random`: at the times of a Poisson process some client goes, and turns up at any broker, perhaps the same.
- `line`: brokers stand along a street, in the order of the overlay, and each serves a cell of it. A client begins
  anywhere in the cell of its first broker, has one speed and one direction, and turns round at the ends of the street.
  At the border between two cells it is out of reach for a fixed time, and goes on meanwhile: from border to border it
  takes the length of a cell divided by its speed. A client may be confined to some cells around its first one, and may
  overshoot these by δ on either side; it then turns round there. With `phase_s` all come to their first border
  within that time, and those of equal speed cross all later borders together, too.
- `walk`: a client stays at a broker for a time that is drawn, and goes to one beside it in a movement graph.
- `waypoint`: a client goes in a straight line to a place drawn anywhere in the area, at a speed drawn for the way,
  pauses, and goes on to the next. `stations.py` says which broker it is within reach of.
- `trace`: the k-th client goes where the k-th id of a file of positions went. `tracks.py` reads the file.

*Rules.*
1. Each client has a generator of its own, named by seed and client: who else moves, and how it is followed, changes
   nothing about its way. The model `random` has one for all, because its rate is that of all together.
2. Moves of a client are in the order of their beginnings, and none begins before the one before it has ended. Only in
   the model `random` they may overlap; `joined` makes one of these.
3. Every client is within reach of some broker when the time of moves ends.

*Paper.* [pubmob §4.1] gives the street of 64 brokers and 0.5 km each, the speeds and the 3 s; [pubmob §4.3] "Proxy
Locality" the five cells and δ. Movement graphs are [rebeca §5.1]'s, here with brokers for places.

*Symbols.* δ: `overshoot`.

*Departures.* [pubmob §4.3] lets a publisher overshoot by δ; here one that is confined always goes the whole way before
it turns. The paper does not say where its street ends lead to; here one turns round.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count, pairwise
from pathlib import Path
from random import Random

from godwit.errors import BadValue, ScenarioError
from godwit.mobility.movement_graphs import parse
from godwit.simulator.roaming_settings import Roaming
from godwit.simulator.stations import Stations, broker_positions, followed, placed
from godwit.simulator.topologies import Overlay
from godwit.simulator.tracks import Box, Plane, Spot, Track, fixes_of, plausible
from godwit.simulator.ways import Ground, Move, Way, joined

__all__ = ["Ground", "Move", "Way", "joined", "movement_graph", "ways"]

HOUR_S = 3_600
SHORTEST_S = 1e-3  # of a way between two waypoints


def ways(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    """The way of each client that moves, by its name; `homes` are their first brokers unless they begin elsewhere."""
    if not roaming.is_on:
        return {client: Way(home) for client, home in homes.items()}
    return MODELS[roaming.model](roaming, ground, homes)


# ---------------------------------------------------------------- at random


def _random(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    rng, at, clients = Random(f"{ground.seed}/roaming"), ground.begins_s, list(homes)
    found: dict[str, list[Move]] = {client: [] for client in clients}
    while clients and (at := at + rng.expovariate(roaming.per_s)) < ground.ends_s:
        client, to = rng.choice(clients), rng.choice(ground.overlay.brokers)
        away_s = rng.expovariate(1 / roaming.away_s) if roaming.away_s and rng.random() < 0.7 else 0.0
        found[client].append(Move(at, to, min(at + away_s, ground.ends_s)))
    return {client: Way(home, tuple(found[client])) for client, home in homes.items()}


# ---------------------------------------------------------------- along a line of cells [pubmob §4.1]


def _line(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    return {
        client: Way(home, tuple(_along_line(roaming, ground, home, ground.rng(client))))
        for client, home in homes.items()
    }


def _along_line(roaming: Roaming, ground: Ground, home: str, rng: Random) -> Iterator[Move]:
    street = ground.places
    cell = street.index(home)
    first, last = _bounds(roaming, cell, len(street))
    lap_s = roaming.cell_km * HOUR_S / rng.choice(roaming.speeds_kmh)
    ahead = rng.random()  # the share of its first cell that lies before it
    if roaming.phase_s is not None:
        ahead *= roaming.phase_s / lap_s
    step = rng.choice((-1, 1))
    for borders in count() if first < last else ():
        leaves_s = ground.begins_s + (ahead + borders) * lap_s
        arrives_s = leaves_s + roaming.away_s
        if arrives_s > ground.ends_s:
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


def _walk(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    beside = movement_graph(roaming, ground.overlay, ground.places)
    found = {}
    for client, home in homes.items():
        rng = ground.rng(client)
        begins = home if home in beside else rng.choice(list(beside))
        found[client] = Way(begins, tuple(_over_graph(roaming, ground, beside, begins, rng)))
    return found


def _over_graph(
    roaming: Roaming, ground: Ground, beside: Mapping[str, list[str]], place: str, rng: Random
) -> Iterator[Move]:
    draw = DWELLS[roaming.dwell]
    at = ground.begins_s
    while beside[place]:
        leaves_s = at + draw(rng, roaming.dwell_s)
        at = leaves_s + roaming.away_s
        if at > ground.ends_s:
            return
        place = rng.choice(beside[place])
        yield Move(leaves_s, place, at)


DWELLS: dict[str, Callable[[Random, float], float]] = {
    "fixed": lambda _, mean_s: mean_s,
    "uniform": lambda rng, mean_s: rng.uniform(0, 2 * mean_s),
    "exponential": lambda rng, mean_s: rng.expovariate(1 / mean_s),
}


def movement_graph(roaming: Roaming, overlay: Overlay, places: tuple[str, ...]) -> dict[str, list[str]]:
    """By broker, those that one step leads to. The places of a graph from a file are brokers."""
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


def _waypoint(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    if ground.positions is None:
        side_m = roaming.area_km * 1_000
        area = Box(0.0, 0.0, side_m, side_m)
        spots = placed(roaming, ground, area)
    else:
        points = broker_positions(ground.positions, ground.overlay)
        plane = Plane(Box.around(points.values()))
        spots = {broker: plane.spot(*point) for broker, point in points.items()}
        area = Box.around(spots.values()).wider(roaming.range_m)
    stations = Stations(spots, roaming.range_m)
    found = {}
    for client in homes:
        rng = ground.rng(client)
        found[client] = followed(roaming, ground, stations, _waypoints(roaming, ground, area, rng), rng)
    return found


def _waypoints(roaming: Roaming, ground: Ground, area: Box, rng: Random) -> Track:
    """Straight lines from one drawn spot to the next."""

    def anywhere() -> Spot:
        return rng.uniform(area.west, area.east), rng.uniform(area.south, area.north)

    track, at, spot = Track(), ground.begins_s, anywhere()
    track.add(at, spot)
    while at < ground.ends_s:
        before, spot = spot, anywhere()
        speed_kmh = rng.uniform(min(roaming.speeds_kmh), max(roaming.speeds_kmh))
        at += max(math.dist(before, spot) * HOUR_S / (speed_kmh * 1_000), SHORTEST_S)
        track.add(at, spot)
        if roaming.pause_s:
            at += rng.uniform(0, roaming.pause_s)
            track.add(at, spot)
    return track


def _trace(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, Way]:
    found = {id: plausible(fixes, roaming.speed_max_kmh) for id, fixes in fixes_of(roaming.file or "").items()}
    if len(found) < len(homes):
        raise ScenarioError(
            f"{roaming.file}: it has {len(found)} ids, and {len(homes)} clients shall move like them "
            "(clients.roaming.who): allowed are as many clients as ids, or fewer"
        )
    seen = Box.around((lon, lat) for fixes in found.values() for _, lon, lat in fixes.rows())
    points = {} if ground.positions is None else broker_positions(ground.positions, ground.overlay)
    try:
        plane = Plane(Box.around([(seen.west, seen.south), (seen.east, seen.north), *points.values()]))
    except ScenarioError as error:
        raise ScenarioError(f"{roaming.file}: {error}") from None
    spots = {broker: plane.spot(*point) for broker, point in points.items()}
    if not spots:
        area = Box.around([plane.spot(seen.west, seen.south), plane.spot(seen.east, seen.north)])
        spots = placed(roaming, ground, area)
    stations = Stations(spots, roaming.range_m)
    begins = min(fixes.times[0] for fixes in found.values())
    ways = {}
    for client, fixes in zip(homes, found.values(), strict=False):
        track = Track(roaming.gap_s / roaming.speedup)
        for time, lon, lat in fixes.rows():
            track.add(ground.begins_s + (time - begins) / roaming.speedup, plane.spot(lon, lat))
        ways[client] = followed(roaming, ground, stations, track, ground.rng(client))
    return ways


MODELS: dict[str, Callable[[Roaming, Ground, Mapping[str, str]], dict[str, Way]]] = {
    "random": _random,
    "line": _line,
    "walk": _walk,
    "waypoint": _waypoint,
    "trace": _trace,
}
