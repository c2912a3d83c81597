"""Mobility models: who leaves its broker when, and where and when it turns up again, known before a run begins.

*Theory.* A client's way is an itinerary: a row of moves, each from the moment when the client is out of reach of its
broker to the moment when it is within reach of the next one. Itineraries are reckoned from scenario and seed before
anything runs, so that a predictor which is never wrong can be made from them [pubmob §4.1].

- `random`: at the times of a Poisson process some client goes, and turns up at any broker, perhaps the same.
- `line`: brokers stand along a street, in the order of the overlay, and each serves a cell of it. A client begins
  anywhere in the cell of its first broker, has one speed and one direction, and turns round at the ends of the street.
  At the border between two cells it is out of reach for a fixed time, and goes on meanwhile: from border to border it
  takes the length of a cell divided by its speed. A client may be confined to some cells around its first one, and may
  overshoot these by δ on either side; it then turns round there. With `phase_s` all come to their first border
  within that time, and those of equal speed cross all later borders together, too.

*Rules.*
1. Each client has a generator of its own, named by seed and client: who else moves, and how it is followed, changes
   nothing about its way. The model `random` has one for all, because its rate is that of all together.
2. Moves of a client are in the order of their beginnings, and none begins before the one before it has ended. Only in
   the model `random` they may overlap; `joined` makes one of these.
3. Every client is within reach of some broker when the time of moves ends.

*Paper.* [pubmob §4.1] gives the street of 64 brokers and 0.5 km each, the speeds and the 3 s; [pubmob §4.3] "Proxy
Locality" the five cells and δ.

*Symbols.* δ: `overshoot`.

*Departures.* [pubmob §4.3] lets a publisher overshoot by δ; here one that is confined always goes the whole way before
it turns. The paper does not say where its street ends lead to; here one turns round.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from random import Random

import msgspec

from godwit.simulator.roaming_settings import Roaming
from godwit.simulator.topologies import Overlay

__all__ = ["Ground", "Move", "itineraries", "joined"]

HOUR_S = 3_600


class Move(msgspec.Struct, frozen=True):
    """A client leaves its broker, and turns up at one, perhaps the same."""

    leaves_s: float
    to: str
    arrives_s: float


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients move, and when."""

    overlay: Overlay
    places: tuple[str, ...]  # the brokers that clients are placed at, in the order of the overlay
    seed: int
    begins_s: float
    ends_s: float


def itineraries(roaming: Roaming, ground: Ground, homes: Mapping[str, str]) -> dict[str, tuple[Move, ...]]:
    """The way of each client that moves, by its name; `homes` are their first brokers."""
    if not roaming.is_on:
        return dict.fromkeys(homes, ())
    if roaming.model == "random":
        return _random(roaming, ground, list(homes))
    return {
        client: tuple(_along_line(roaming, ground, home, Random(f"{ground.seed}/movement/{client}")))
        for client, home in homes.items()
    }


def joined(moves: Iterable[Move]) -> tuple[Move, ...]:
    """The moves as they can be seen: who leaves again before it has turned up anywhere makes one move of two."""
    found: list[Move] = []
    for move in moves:
        if found and move.leaves_s < found[-1].arrives_s:
            before = found.pop()
            move = Move(before.leaves_s, move.to, max(before.arrives_s, move.arrives_s))
        found.append(move)
    return tuple(found)


def _random(roaming: Roaming, ground: Ground, clients: list[str]) -> dict[str, tuple[Move, ...]]:
    rng, at = Random(f"{ground.seed}/roaming"), ground.begins_s
    found: dict[str, list[Move]] = {client: [] for client in clients}
    while clients and (at := at + rng.expovariate(roaming.per_s)) < ground.ends_s:
        client, to = rng.choice(clients), rng.choice(ground.overlay.brokers)
        away_s = rng.expovariate(1 / roaming.away_s) if roaming.away_s and rng.random() < 0.7 else 0.0
        found[client].append(Move(at, to, min(at + away_s, ground.ends_s)))
    return {client: tuple(moves) for client, moves in found.items()}


# ---------------------------------------------------------------- along a line of cells [pubmob §4.1]


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
        else:
            step = -step  # here the street ends, or what it is confined to


def _bounds(roaming: Roaming, cell: int, cells: int) -> tuple[int, int]:
    """The first and the last cell that a client may enter, for one that begins in `cell`."""
    if roaming.confined_to is None:
        return 0, cells - 1
    width = min(roaming.confined_to, cells)
    first = min(max(cell - width // 2, 0), cells - width)
    return max(first - roaming.overshoot, 0), min(first + width - 1 + roaming.overshoot, cells - 1)
