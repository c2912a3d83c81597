"""The members of a shared subscription, one of whom is chosen for each event without looking at all of them.

*Theory.* Members are the leaves of a binary tree; the bits of a member's digest are the way to it. A node knows how
many members are below it. From the top down, an event goes to one of the two sides by a number that is drawn from its
id and the level: below `zeros / all` to the side of the zeros, else to the other one. So each member is chosen with the
same probability. When a member comes, the limit at each node above it moves a little, and only events between the old
limit and the new one go elsewhere: with n members, about log2(n) / 2n of all events.

*Rules.*
1. The shape of the tree, and so the choice, depends on the set of members, not on the order in which they came: there
   is a fork exactly where two members or more are below.
2. The draw of a level does not depend on the levels above it. A member that comes or goes there changes no choice
   below.
3. A choice takes as many steps as the tree is deep: about log2(n), and at most 128, whatever names clients choose.
"""

from hashlib import blake2b
from struct import Struct

from godwit.broker.messages import NodeId
from godwit.filters.events import Event

__all__ = ["CHOICE", "MemberTree", "Place"]

CHOICE = 2
"""The version of the choice, to be raised when that changes: neighbours must choose alike. 1 was the highest hash."""

DIGEST_BYTES = 16
LEVELS = 16  # for which one digest has draws
DRAWS = Struct(f"<{LEVELS}I")
DRAW_RANGE = 2**32

Place = tuple[NodeId, NodeId, str]
"""Of a member: broker, client and subscription."""


class _Leaf:
    """One member."""

    __slots__ = ("path", "place")
    count = 1

    def __init__(self, place: Place) -> None:
        broker, client, name = place
        said = f"{len(broker)} {len(client)} {broker}{client}{name}"  # no two places say the same
        self.place = place
        self.path = int.from_bytes(blake2b(said.encode(), digest_size=DIGEST_BYTES).digest(), "little")


class _Fork:
    """The members on two sides, by the next bit of their paths. One side may be empty."""

    __slots__ = ("count", "sides")

    def __init__(self) -> None:
        self.count = 0
        self.sides: list[_Fork | _Leaf | None] = [None, None]


class MemberTree:
    """A set of members."""

    def __init__(self) -> None:
        self._top: _Fork | _Leaf | None = None

    def __len__(self) -> int:
        return 0 if self._top is None else self._top.count

    def add(self, place: Place) -> None:
        """Add a member that is not there yet."""
        self._top = _added(self._top, _Leaf(place), 0)

    def remove(self, place: Place) -> None:
        """Remove a member that is there."""
        self._top = _removed(self._top, _Leaf(place).path, 0)

    def chosen(self, event: Event) -> Place:
        """The member that gets an event. There must be one."""
        node, level = self._top, 0
        draws: tuple[int, ...] = ()
        digest = f"{event.publisher}\0{event.sequence}".encode()
        while isinstance(node, _Fork):
            if level % LEVELS == 0:
                digest = blake2b(digest).digest()
                draws = DRAWS.unpack(digest)
            zeros, ones = node.sides
            zeros_count = 0 if zeros is None else zeros.count
            node = zeros if draws[level % LEVELS] * node.count < zeros_count * DRAW_RANGE else ones
            level += 1
        assert node is not None
        return node.place


def _added(node: _Fork | _Leaf | None, new: _Leaf, level: int) -> _Fork | _Leaf:
    """What stands in the place of a node once a member has come below it."""
    if node is None:
        return new
    if isinstance(node, _Leaf):
        assert node.path != new.path
        fork = _Fork()
        fork.count, fork.sides[_side(node.path, level)] = 1, node
        node = fork
    side = _side(new.path, level)
    node.sides[side] = _added(node.sides[side], new, level + 1)
    node.count += 1
    return node


def _removed(node: _Fork | _Leaf | None, path: int, level: int) -> _Fork | _Leaf | None:
    """What stands in the place of a node once a member below it has gone."""
    if not isinstance(node, _Fork):
        assert node is not None
        assert node.path == path
        return None
    side = _side(path, level)
    node.sides[side] = _removed(node.sides[side], path, level + 1)
    node.count -= 1
    zeros, ones = node.sides
    return node if node.count > 1 else zeros or ones  # below one member there is no fork


def _side(path: int, level: int) -> int:
    return path >> level & 1
