"""Routes of a device: reachable nodes by neighbour, and the event brokers that were heard recently.

*Theory.* Every node counts all that it sends, beacons and relayed messages alike. A node that receives a message of
node N over a neighbour, with a higher number than before, has a way to N: that neighbour. Along such a way the numbers
never fall, because the neighbour had that number first; and of one number the way is the one that the message took. So
ways have no loops.

*Rules.*
1. A way is replaced only by what has a higher number. When its neighbour is gone it leads nowhere; its number stays.
2. Both tables are bounded: what was heard of the longest ago is forgotten first.
3. A sighting counts for `lost_s` from when its beacon was sent, however late it was told.

*Paper.* [mobile §3.1] takes it for granted that devices reach each other; this is the least that it takes.
"""

import msgspec

from godwit.adhoc.radio_messages import Beacon
from godwit.broker.messages import NodeId

__all__ = ["KnownLeader", "KnownLeaders", "RadioRoutes", "Rank", "rank_of"]

Rank = tuple[float, NodeId]
"""Of two event brokers the one with the higher rank goes on: by priority, then by name."""


def rank_of(beacon: Beacon) -> Rank:
    """The rank of the beacon's leader."""
    return (beacon.priority, beacon.leader)


class RadioRoutes:
    """By node, the neighbour that leads there."""

    def __init__(self, nodes_max: int) -> None:
        self._nodes_max = nodes_max
        self._ways: dict[NodeId, tuple[NodeId | None, int]] = {}  # what was heard of last stands last

    def __len__(self) -> int:
        return len(self._ways)

    def learn(self, node: NodeId, peer: NodeId, number: int) -> bool:
        """Something of `node`, with its own `number`, came over `peer`. Whether the way there is another now."""
        known = self._ways.get(node)
        if known is not None:
            if number <= known[1]:
                return False
            del self._ways[node]
        elif len(self._ways) >= self._nodes_max:
            del self._ways[next(iter(self._ways))]
        self._ways[node] = (peer, number)
        return known is None or known[0] != peer

    def to(self, node: NodeId) -> NodeId | None:
        """The neighbour that leads to `node`, if any does."""
        known = self._ways.get(node)
        return None if known is None else known[0]

    def lose(self, peer: NodeId) -> None:
        """The neighbour is gone, and the ways over it."""
        for node, (way, number) in self._ways.items():
            if way == peer:
                self._ways[node] = (None, number)


class KnownLeader(msgspec.Struct, frozen=True):
    """The last beacon of a leader, and when it was sent, by our clock."""

    beacon: Beacon
    sent_at: float


class KnownLeaders:
    """The leaders that were heard of."""

    def __init__(self, leaders_max: int, lost_s: float) -> None:
        self._leaders_max = leaders_max
        self._lost_s = lost_s
        self._sightings: dict[NodeId, KnownLeader] = {}

    def __len__(self) -> int:
        return len(self._sightings)

    def note(self, beacon: Beacon, now: float) -> bool:
        """Remember a beacon; False when it, or a newer one, was heard before, or it is over already."""
        known = self._sightings.get(beacon.leader)
        if known is not None and beacon.number <= known.beacon.number:
            return False
        if beacon.age_s >= self._lost_s:
            return False
        self._sightings.pop(beacon.leader, None)
        if len(self._sightings) >= self._leaders_max:
            del self._sightings[next(iter(self._sightings))]
        self._sightings[beacon.leader] = KnownLeader(beacon, now - beacon.age_s)
        return True

    def fresh(self, now: float) -> list[KnownLeader]:
        """Those that count, whether they host an event broker or have given it up."""
        return [sighting for sighting in self._sightings.values() if now < sighting.sent_at + self._lost_s]

    def of(self, leader: NodeId, now: float) -> KnownLeader | None:
        """The sighting of a leader, if it counts."""
        sighting = self._sightings.get(leader)
        return sighting if sighting is not None and now < sighting.sent_at + self._lost_s else None

    def best(self, now: float) -> Beacon | None:
        """The leader of the highest rank that hosts an event broker."""
        serving = [sighting.beacon for sighting in self.fresh(now) if not sighting.beacon.successor]
        return max(serving, key=rank_of, default=None)
