"""Movement graphs: the places that a client can reach in a number of steps; and the same for numbers and points that
drift.

*Theory.* A movement graph says which places can be reached from which in one step. `ploc(x, q)` are the places where a
client can be that was at x and has taken q steps since; to stay is a step, too, so it only grows with q. It is computed
a ring at a time, and kept. Once a ring adds nothing, no later one does.

A state that is not a place may have a bound of its own: a `Drift` says by how much a number, or by how many metres a
point, can change in one step.

*Rules.*
1. ploc(x, 0) is {x}, and ploc(x, q) lies within ploc(x, q + 1). [rebeca §5.1, equation 1]
2. ploc(x, q + 1) is what lies at most one step from ploc(x, q). So where ploc(x, q) = ploc(y, q), all that follow are
   equal too, and brokers further away need not be told that x has become y.
3. Places come in one order, that of the graph: equal sets are equal tuples.
4. Graphs are read from text by `parse` here, and from files elsewhere.

*Paper.* [rebeca §5.1, Fig. 7]. *Symbols.* L → `places`; ploc → `ploc`.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from godwit.errors import BadValue
from godwit.filters.values import Point, Value, checked_value, identity

__all__ = ["Drift", "Movement", "MovementGraph", "from_edges", "grid", "line", "parse", "road_network"]

PLACES_MAX = 100_000
EDGES_MAX = 1_000_000
KEPT_MAX = 4_096  # places whose rings are kept

_SHORT = re.compile(r"(?P<kind>line|grid)\s+(?P<width>\d{1,7})(?:\s*x\s*(?P<height>\d{1,7}))?")


class MovementGraph:
    """Places, and to which others each leads in one step. `positions`: where on the globe they lie, if known."""

    def __init__(
        self,
        places: Iterable[Value],
        edges: Iterable[tuple[Value, Value]],
        positions: Mapping[str, Point] | None = None,
    ) -> None:
        self.positions: dict[str, Point] = dict(positions or {})
        self.places: tuple[Value, ...] = tuple(
            {identity(place): place for place in map(checked_value, places)}.values()
        )
        if not 0 < len(self.places) <= PLACES_MAX:
            raise BadValue(f"a movement graph of {len(self.places)} places: allowed are 1 to {PLACES_MAX}")
        self._numbers: dict[Any, int] = {identity(place): number for number, place in enumerate(self.places)}
        after: list[dict[int, None]] = [{} for _ in self.places]
        for count, (a, b) in enumerate(edges):
            for place in (a, b):
                if not self.has(place):
                    raise BadValue(f"an edge of a movement graph leads to {place!r}, which is none of its places")
            if count >= EDGES_MAX:
                raise BadValue(f"a movement graph of more than {EDGES_MAX} edges")
            after[self._numbers[identity(a)]][self._numbers[identity(b)]] = None
        self._after: tuple[tuple[int, ...], ...] = tuple(tuple(each) for each in after)
        self._rings: dict[int, list[tuple[int, ...]]] = {}

    def has(self, place: Value) -> bool:
        """Whether `place` is one of the places."""
        return identity(place) in self._numbers

    def after(self, place: Value) -> tuple[Value, ...]:
        """Where one step leads from `place`, without staying."""
        return tuple(self.places[number] for number in self._after[self._number(place)])

    def ploc(self, place: Value, steps: int) -> tuple[Value, ...]:
        """Where a client can be that was at `place` and has taken so many steps. [rebeca §5.1]"""
        return tuple(self.places[number] for number in self._reached(self._number(place), steps))

    def around(self, places: Iterable[Value], steps: int) -> tuple[Value, ...]:
        """What lies at most so many steps from any of `places`."""
        found: set[int] = set()
        for place in places:
            found.update(self._reached(self._number(place), steps))
        return tuple(self.places[number] for number in sorted(found))

    def ploc_of_any(self, places: Iterable[Value], steps: int, places_max: int) -> tuple[Value, ...] | None:
        """Where a client can be that was at any of `places`; None: at more than `places_max` places."""
        reached = set(map(self._number, places))
        frontier: Iterable[int] = reached
        for _ in range(steps):
            frontier = {number for known in frontier for number in self._after[known]} - reached
            if not frontier or len(reached) > places_max:
                break
            reached |= frontier
        return tuple(self.places[number] for number in sorted(reached)) if len(reached) <= places_max else None

    def _number(self, place: Value) -> int:
        number = self._numbers.get(identity(place))
        if number is None:
            raise BadValue(f"{place!r} is not a place of the movement graph")
        return number

    def _reached(self, start: int, steps: int) -> tuple[int, ...]:
        """The numbers of the places within `steps`, in order. (rules 1 to 3)"""
        rings = self._rings.get(start)
        if rings is None:
            if len(self._rings) >= KEPT_MAX:
                self._rings.clear()
            rings = self._rings[start] = [(start,)]
        while len(rings) <= steps and (len(rings) < 2 or rings[-1] != rings[-2]):
            reached = set(rings[-1])
            reached.update(number for known in rings[-1] for number in self._after[known])
            rings.append(tuple(sorted(reached)))
        return rings[min(steps, len(rings) - 1)]


@dataclass(frozen=True, slots=True)
class Drift:
    """A number, or a point, that changes by at most so much (metres, for a point) in one step."""

    step_max: float

    def __post_init__(self) -> None:
        if type(self.step_max) not in (int, float) or not 0 <= self.step_max < float("inf"):
            raise BadValue(f"a drift of {self.step_max!r} a step: it must be a number, 0 or more")


Movement = MovementGraph | Drift
"""How an attribute of a client's state can change in one step."""


# ---------------------------------------------------------------- builders


def line(length: int) -> MovementGraph:
    """Places `0`, `1`, … in a row."""
    _check_size(length)
    return from_edges(((str(n), str(n + 1)) for n in range(length - 1)), places=map(str, range(length)))


def grid(width: int, height: int) -> MovementGraph:
    """Places `x,y`; a step leads north, south, east or west."""
    _check_size(width, height)
    edges: list[tuple[str, str]] = []
    for y in range(height):
        for x in range(width):
            edges += [(f"{x},{y}", f"{x + 1},{y}")] if x + 1 < width else []
            edges += [(f"{x},{y}", f"{x},{y + 1}")] if y + 1 < height else []
    return from_edges(edges, places=[f"{x},{y}" for y in range(height) for x in range(width)])


def from_edges(
    edges: Iterable[tuple[Value, Value]], *, places: Iterable[Value] = (), one_way: bool = False
) -> MovementGraph:
    """The graph of these edges, which lead both ways unless `one_way`; further `places` may stand alone."""
    edges = list(edges)
    return MovementGraph([*places, *(end for edge in edges for end in edge)], _directed(edges, one_way))


def road_network(
    positions: Mapping[str, Point], edges: Iterable[tuple[Value, Value]], *, one_way: bool = False
) -> MovementGraph:
    """Junctions at their positions, and the roads between them."""
    return MovementGraph(positions, _directed(list(edges), one_way), positions)


def _directed(edges: Sequence[tuple[Value, Value]], one_way: bool) -> list[tuple[Value, Value]]:
    return list(edges) if one_way else [*edges, *((b, a) for a, b in edges)]


def _check_size(*sides: int) -> None:
    size = 1
    for side in sides:
        size *= side
    if not 0 < size <= PLACES_MAX or min(sides) < 1:
        raise BadValue(f"a movement graph of {size} places: allowed are 1 to {PLACES_MAX}")


# ---------------------------------------------------------------- reading


def parse(text: str) -> MovementGraph:
    """The graph that a text describes: `line 16`, `grid 8x8`, or JSON or TOML with `edges`, and more if need be.

    `edges` are pairs of names; `one_way` says that they lead one way only; `places` are further names, or for a road
    network a table of names with [lon, lat] each.
    """
    short = _SHORT.fullmatch(text.strip())
    if short is not None and (short["kind"] == "grid") == (short["height"] is not None):
        width = int(short["width"])
        return line(width) if short["kind"] == "line" else grid(width, int(short["height"]))
    try:
        data: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"no movement graph: {error}; allowed are line N, grid NxM, JSON or TOML with edges") from None
    return _from_data(data)


def _from_data(data: Mapping[str, Any]) -> MovementGraph:
    unknown = [key for key in data if key not in ("edges", "places", "one_way")]
    if unknown:
        raise BadValue(f"a movement graph has no {unknown[0]!r}: allowed are edges, places and one_way")
    edges, places, one_way = data.get("edges", []), data.get("places", []), data.get("one_way", False)
    if type(edges) is not list or any(type(edge) is not list or len(edge) != 2 for edge in edges):
        raise BadValue("edges of a movement graph: allowed is a list of pairs of places")
    if type(one_way) is not bool:
        raise BadValue("one_way of a movement graph: allowed is true or false")
    pairs = [(checked_value(a), checked_value(b)) for a, b in edges]
    if isinstance(places, dict):
        return road_network({name: _point(name, at) for name, at in places.items()}, pairs, one_way=one_way)
    if type(places) is not list:
        raise BadValue("places of a movement graph: allowed is a list of names, or a table of names with [lon, lat]")
    return from_edges(pairs, places=places, one_way=one_way)


def _point(name: str, at: Any) -> Point:
    if type(at) is not list or len(at) != 2:
        raise BadValue(f"the place {name!r} of a road network lies at {at!r}: allowed is [lon, lat]")
    return Point(at[0], at[1])
