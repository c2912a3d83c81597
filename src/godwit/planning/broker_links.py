"""Links between brokers: a tree in which brokers with many moves between them are near each other.

*Theory.* A relocation costs messages in proportion to the distance of the two brokers in hops, so brokers with many
moves between them should be neighbours. Of all trees, the one whose links have most moves together is a maximum
spanning tree; without moves, the distance decides.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from godwit.pipeline.mobility.cells import BrokerPlacement
from godwit.pipeline.mobility.globe import distances_m
from godwit.planning.assessment import Pair

__all__ = ["PlannedLink", "planned_links"]


class PlannedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link between two brokers."""

    a: str
    b: str
    moves: int  # of clients between the two, in the trace
    distance_m: int


def planned_links(
    placement: BrokerPlacement, pairs: Sequence[Pair], among: Iterable[str] = ()
) -> tuple[PlannedLink, ...]:
    """The links of a tree over all brokers, or over those in `among`; the earlier of two in the file is `a`."""
    place = {broker: number for number, broker in enumerate(placement.brokers)}
    chosen = sorted(place[broker] for broker in (dict.fromkeys(among) or place))
    moves = np.zeros((len(place), len(place)), np.int64)
    for pair in pairs:
        moves[place[pair.a], place[pair.b]] = moves[place[pair.b], place[pair.a]] = pair.moves
    lons, lats = np.array(placement.lons), np.array(placement.lats)
    # Prim's algorithm, over whole rows: `best` is for each broker outside the tree its best neighbour inside
    outside = np.array(chosen[1:], np.int64)
    best = np.full(len(outside), chosen[0], np.int64)
    links = []
    while len(outside):
        away_m = distances_m(lons[outside], lats[outside], lons[best], lats[best])
        at = int(np.lexsort((outside, away_m, -moves[outside, best]))[0])
        a, b = sorted((int(best[at]), int(outside[at])))
        links.append(
            PlannedLink(
                a=placement.brokers[a], b=placement.brokers[b], moves=int(moves[a, b]), distance_m=round(away_m[at])
            )
        )
        new = int(outside[at])
        outside, best = np.delete(outside, at), np.delete(best, at)
        to_new_m = distances_m(lons[outside], lats[outside], lons[[new]], lats[[new]])
        away_m = distances_m(lons[outside], lats[outside], lons[best], lats[best])
        more, same = moves[outside, new] > moves[outside, best], moves[outside, new] == moves[outside, best]
        best = np.where(more | (same & (to_new_m < away_m)), new, best)
    return tuple(sorted(links, key=lambda link: (place[link.a], place[link.b])))
