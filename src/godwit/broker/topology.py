"""The overlay as one broker sees it: link states of all brokers, and the shortest path trees that follow from them.

*Theory.* Each broker tells all others which neighbours it has and at what cost: its *link state*. It is flooded: a
broker that hears a newer one than it knows keeps it and passes it on to all neighbours but the one it came from; when a
link opens, both ends first tell each other all they know. Brokers with the same database have the same view, whatever
the order in which it came. From it each computes the shortest path tree rooted at any broker: distances by Dijkstra's
algorithm, and of several neighbours on equally short paths the one whose name is the least is the parent. If paths must
be the same in both directions (`symmetric`), it is the one by which the marks of the path sum up to the least
(`shortest_path_trees`).

*Rules.*
1. Of two link states of one broker, that with the higher (incarnation, number) is the newer and alone is kept.
2. A link counts when both its ends report it, at the higher of the two costs. So a path back is as long as the path
   there, and a link of which one end is gone carries nothing.
3. Costs are counted in thousandths, as whole numbers: sums are exact, equal paths are equal at every broker, and each
   hop of a shortest path is nearer to its end than the one before. No packet loops among brokers with equal databases.
4. Trees and partitions are computed when asked for and kept until a link that counts may have changed.
5. A broker that nobody can reach stays in the database; there are `brokers_max` in it at most.
6. A broker that hears of a life of its own which it does not remember starts another life above that one.

*Paper.* [spcf §3.1]: "each broker runs a link state protocol to build its own view of the dispatching network and
calculates, using a local algorithm like Dijkstra, the shortest path trees rooted at each broker".

*Symbols.* SPT rooted at B_p → the tree of source `B_p`; D → `targets`; D_N → one part of `partition`, for neighbour N.

*Departures.* A neighbour stays in the link state while its link is down for a short time: what is sent to it waits, and
trees do not flap. It leaves it when the link is given up. The paper says nothing about brokers whose views differ for a
moment: a hop that is not on the path from source to target in its own view sends by its own tree.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from heapq import heappop, heappush

import msgspec

from godwit.broker.messages import LinkState, NodeId
from godwit.errors import PeerFault

__all__ = [
    "BROKERS_MAX",
    "COST_MAX",
    "COST_MIN",
    "INCARNATION_MAX",
    "Partition",
    "Topology",
    "TopologyState",
    "shortest_path_trees",
]

BROKERS_MAX = 4_096
COST_MIN, COST_MAX = 0.001, 1_000_000.0
INCARNATION_MAX = 1 << 53  # what a JSON number holds
PARTITIONS_MAX = 4_096
MARKS_MAX = 1 << 14

Partition = tuple[tuple[NodeId | None, tuple[NodeId, ...]], ...]
"""Targets by the neighbour they are reached through: this broker's own name for itself, None where there is no way."""


class TopologyState(msgspec.Struct, frozen=True):
    """The costs of own links, and the link states of all brokers. Trees follow from them."""

    costs: dict[NodeId, float]
    states: tuple[LinkState, ...]


class Topology:
    """The link states that one broker knows, and the way to everyone."""

    link_costs: dict[NodeId, dict[NodeId, int]]  # of the links that count, in thousandths
    _hops_of: dict[NodeId, dict[NodeId, NodeId]]
    _parent_of: dict[NodeId, NodeId | None]  # of this broker, in the tree of a source
    _own_tree: dict[NodeId, NodeId] | None
    _partitions: dict[tuple[NodeId, tuple[NodeId, ...]], Partition]

    def __init__(
        self,
        broker: NodeId,
        incarnation: int = 1,
        costs: Mapping[NodeId, float] | None = None,
        brokers_max: int = BROKERS_MAX,
        *,
        symmetric: bool = False,
    ) -> None:
        self.broker = broker
        self.symmetric = symmetric
        self.costs = dict(costs or {})  # of links to neighbours; 1 where nothing is said
        self.brokers_max = brokers_max
        for neighbour, cost in self.costs.items():
            if not is_cost(cost):
                raise ValueError(f"the link to {neighbour} costs {cost!r}: {COST_MIN} to {COST_MAX:,.0f} is allowed")
        self.states: dict[NodeId, LinkState] = {broker: LinkState(broker, incarnation, 1, {})}
        self._draw()

    @property
    def own(self) -> LinkState:
        """What this broker says of its own links."""
        return self.states[self.broker]

    @property
    def view(self) -> int:
        """A number that two brokers have in common exactly if they have the same database."""
        ages = sorted((state.broker, state.incarnation, state.number) for state in self.states.values())
        return int.from_bytes(blake2b(repr(ages).encode(), digest_size=8).digest(), "big") % INCARNATION_MAX

    # ------------------------------------------------------------ the database

    def open_link(self, peer: NodeId) -> bool:
        """A link to `peer` is there; whether that is news for the others."""
        if peer in self.own.neighbours:
            return False
        self._tell({**self.own.neighbours, peer: self.costs.get(peer, 1.0)})
        return True

    def drop_link(self, peer: NodeId) -> bool:
        """The link to `peer` is given up; whether that is news for the others."""
        if peer not in self.own.neighbours:
            return False
        self._tell({name: cost for name, cost in self.own.neighbours.items() if name != peer})
        return True

    def _tell(self, neighbours: dict[NodeId, float]) -> None:
        own = self.own
        ordered = dict(sorted(neighbours.items()))
        self.keep(LinkState(self.broker, own.incarnation, own.number + 1, ordered))

    def check(self, state: LinkState) -> None:
        """`PeerFault` when no honest broker says this."""
        if not state.broker:
            raise PeerFault("a link state of a broker without a name")
        for what in (state.incarnation, state.number):
            if not 0 < what <= INCARNATION_MAX:
                raise PeerFault(f"a link state of {state.broker} numbered {what!r}")
        if len(state.neighbours) >= self.brokers_max:
            raise PeerFault(f"the link state of {state.broker} names too many neighbours")
        for name, cost in state.neighbours.items():
            if not name or name == state.broker or not is_cost(cost):
                raise PeerFault(f"the link state of {state.broker}: a link to {name!r} that costs {cost!r}")
        if state.broker == self.broker:
            if state.incarnation >= INCARNATION_MAX:
                raise PeerFault(f"a life of {state.broker} numbered {state.incarnation}, which leaves no room for this")
        elif state.broker not in self.states and len(self.states) >= self.brokers_max:
            raise PeerFault(f"{state.broker} is one broker too many: at most {self.brokers_max} are allowed")

    def is_news(self, state: LinkState) -> bool:
        """Whether this is newer than what is known. Of this broker itself: whether it forgot the life that said it."""
        known = self.states.get(state.broker)
        if known is None:
            return True
        if state.broker == self.broker and _age(state) == _age(known):
            return state.neighbours != known.neighbours
        return _age(state) > _age(known)

    def learn(self, state: LinkState) -> bool:
        """Keep news of another broker; whether the trees may have changed."""
        assert state.broker != self.broker
        known = self.states.get(state.broker)
        if known is not None and known.neighbours == state.neighbours:
            self.states[state.broker] = state
            return False
        self.keep(state)
        return True

    def outbid(self, state: LinkState) -> int:
        """Start a life above the one that said `state` of this broker, and return its number. (rule 6)"""
        assert state.broker == self.broker
        incarnation = state.incarnation + 1
        self.states[self.broker] = LinkState(self.broker, incarnation, 1, self.own.neighbours)
        return incarnation

    def live_as(self, incarnation: int) -> None:
        """Be another life with the same links."""
        assert self.own.incarnation < incarnation < INCARNATION_MAX
        self.states[self.broker] = LinkState(self.broker, incarnation, 1, self.own.neighbours)

    def told_first(self, peer: NodeId) -> list[LinkState]:
        """All that `peer` must hear when its link opens.

        What it said itself comes first: a peer that has lost its memory learns of its past life before it learns of
        anybody it could send a packet to.
        """
        return [self.states[name] for name in sorted(self.states, key=lambda name: (name != peer, name))]

    # ------------------------------------------------------------ trees

    def next_hop(self, target: NodeId, source: NodeId | None = None) -> NodeId | None:
        """The neighbour to send to for `target`, along the tree of `source`; None when there is no way."""
        if target == self.broker:
            return target
        if source is not None and source != self.broker:
            found = self._hops(source).get(target)
            if found is not None:
                return found
        return self._hops(self.broker).get(target)

    def children(self, source: NodeId) -> list[NodeId]:
        """The neighbours below this broker in the tree of `source`."""
        return sorted(set(self._hops(source).values()))

    def below(self, source: NodeId) -> Mapping[NodeId, NodeId]:
        """By everyone below this broker in the tree of `source`: the neighbour on the way there."""
        return self._hops(source)

    def parent(self, source: NodeId) -> NodeId | None:
        """The neighbour from which this broker gets what comes down the tree of `source`; None: none."""
        self._hops(source)
        return self._parent_of.get(source)

    def between(self, targets: Iterable[NodeId]) -> list[NodeId]:
        """The brokers that lie between this one and any of the targets, in its own tree; without the targets."""
        if self._own_tree is None:
            self._own_tree = self._tree(self.broker)
        tree, asked, found = self._own_tree, set(targets), set[NodeId]()
        for target in asked:
            node = tree.get(target)
            while node is not None and node != self.broker and node not in found:
                found.add(node)
                node = tree[node]
        return sorted(found - asked)

    def parents(self, source: NodeId) -> dict[NodeId, NodeId]:
        """The tree of `source`: everyone who can be reached, and its parent."""
        return self._tree(source)

    def hops_max(self) -> int:
        """How many links lie between this broker and the farthest, in its own tree."""
        hops = {self.broker: 0}
        for node, parent in self._tree(self.broker).items():  # parents come before their children
            hops[node] = hops[parent] + 1
        return max(hops.values())

    def partition(self, source: NodeId, targets: tuple[NodeId, ...]) -> Partition:
        """Targets by next hop, each part in the order of `targets`. [spcf §3.1.2, step 3: D into the D_N]"""
        key = (source, targets)
        found = self._partitions.get(key)
        if found is None:
            parts: dict[NodeId | None, list[NodeId]] = {}
            for target in targets:
                parts.setdefault(self.next_hop(target, source), []).append(target)
            found = tuple((hop, tuple(part)) for hop, part in parts.items())
            if len(self._partitions) >= PARTITIONS_MAX:
                self._partitions.clear()
            self._partitions[key] = found
        return found

    def _hops(self, source: NodeId) -> dict[NodeId, NodeId]:
        """By everyone below this broker in the tree of `source`: the neighbour on the way there."""
        if source not in self.states:
            return {}
        found = self._hops_of.get(source)
        if found is None:
            found = self._hops_of[source] = {}
            tree = self._tree(source)
            self._parent_of[source] = tree.get(self.broker)
            for node, parent in tree.items():  # parents come before their children
                if parent == self.broker:
                    found[node] = node
                elif parent in found:
                    found[node] = found[parent]
        return found

    def _tree(self, source: NodeId) -> dict[NodeId, NodeId]:
        """Parents in the tree of `source`, the nearest nodes first."""
        if source not in self.link_costs:
            return {}
        distances = self.distances(source)
        if self.symmetric:
            return _marked_tree(distances, self.link_costs)
        tree: dict[NodeId, NodeId] = {}
        for _, node in sorted((distance, node) for node, distance in distances.items() if node != source):
            tree[node] = min(
                other
                for other, cost in self.link_costs[node].items()
                if other in distances and distances[other] + cost == distances[node]
            )
        return tree

    def distances(self, source: NodeId) -> dict[NodeId, int]:
        """How far each broker is from `source`, in thousandths of a cost."""
        found: dict[NodeId, int] = {}
        near = [(0, source)]
        while near:
            distance, node = heappop(near)
            if node not in found:
                found[node] = distance
                for other, cost in self.link_costs[node].items():
                    if other not in found:
                        heappush(near, (distance + cost, other))
        return found

    # ------------------------------------------------------------ the links that count

    def keep(self, state: LinkState) -> None:
        """Put a link state into the database, and the links that it makes or ends into the graph. (rule 2)"""
        broker = state.broker
        self.states[broker] = state
        own = self.link_costs.setdefault(broker, {})
        for other in [other for other in own if other not in state.neighbours]:
            del own[other], self.link_costs[other][broker]
        for other, cost in state.neighbours.items():
            back = self.states[other].neighbours.get(broker) if other in self.states else None
            if back is not None:
                thousandths = round(max(cost, back) * 1_000)
                own[other] = self.link_costs[other][broker] = thousandths
        self._hops_of, self._parent_of, self._own_tree, self._partitions = {}, {}, None, {}

    def _draw(self) -> None:
        """Make graph and caches from the database."""
        self.link_costs = {}
        states, self.states = self.states, {}
        for state in states.values():
            self.keep(state)

    def snapshot(self) -> TopologyState:
        """The database as it is now."""
        return TopologyState(dict(self.costs), tuple(self.states.values()))

    def restore(self, state: TopologyState) -> None:
        """Have this database."""
        self.costs, self.states = dict(state.costs), {each.broker: each for each in state.states}
        self._draw()


@lru_cache(maxsize=16)  # brokers of one process share their overlay
def shortest_path_trees(overlay: tuple[tuple[NodeId, NodeId, float], ...]) -> Mapping[NodeId, Mapping[NodeId, NodeId]]:
    """The trees of an overlay that is given and stays: by root everyone that it reaches, and the parent of each.

    Parents come before their children. Nobody may change what is returned, for all share it.

    Of equally short paths that one counts whose links' marks sum up to the least. So all brokers have the same trees;
    and as a sum is the same from either end, the way from a to b in the tree of a is that in the tree of b. What goes
    up all trees at once then crosses each link of the own tree once, and no other.
    """
    links: dict[NodeId, dict[NodeId, float]] = {}
    for a, b, cost in overlay:
        if a == b or not a or not b:
            raise ValueError(f"a link from {a!r} to {b!r}: a link has two brokers with names, and they differ")
        if not is_cost(cost):
            raise ValueError(f"the link from {a} to {b} costs {cost!r}: {COST_MIN} to {COST_MAX:,.0f} is allowed")
        if b in links.get(a, ()):
            raise ValueError(f"two links from {a} to {b}: between two brokers there is one at most")
        links.setdefault(a, {})[b] = links.setdefault(b, {})[a] = cost
    if not links:
        return {}
    view = Topology(min(links), brokers_max=max(BROKERS_MAX, len(links)))
    for name in sorted(links):
        view.keep(LinkState(name, 1, 1, links[name]))
    return {name: _marked_tree(view.distances(name), view.link_costs) for name in sorted(links)}


def _marked_tree(
    distances: Mapping[NodeId, int],
    costs: Mapping[NodeId, Mapping[NodeId, int]],
) -> dict[NodeId, NodeId]:
    sums: dict[NodeId, int] = {}
    tree: dict[NodeId, NodeId] = {}
    for node in sorted(distances, key=lambda name: (distances[name], name)):
        before = [
            (sums[other] + _mark(node, other), other)
            for other, cost in costs[node].items()
            if other in sums and distances[other] + cost == distances[node]
        ]
        if before:
            sums[node], tree[node] = min(before)
        else:
            sums[node] = 0  # the root
    return tree


def _mark(a: NodeId, b: NodeId) -> int:
    """A number of a link that no sum of others is likely to equal, the same from both ends."""
    return _mark_of(a, b) if a < b else _mark_of(b, a)


@lru_cache(maxsize=MARKS_MAX)
def _mark_of(a: NodeId, b: NodeId) -> int:
    return int.from_bytes(blake2b(f"{a}\0{b}".encode(), digest_size=16).digest(), "big")


def is_cost(cost: float) -> bool:
    """Whether a link can cost this: a positive finite number that whole thousandths can tell from nothing."""
    return COST_MIN <= cost <= COST_MAX


def _age(state: LinkState) -> tuple[int, int]:
    return state.incarnation, state.number
