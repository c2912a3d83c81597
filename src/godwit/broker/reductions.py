"""Reductions: which of many filters must be sent to a neighbour, so that it knows enough and little more.

*Theory.* All strategies of the tree family are one algorithm; they differ only here. Each neighbour has an `Outgoing`
for subscriptions and one for advertisements: the entries that concern it go in and out, and out come the changes to
tell it.

| reduction | told |
|---|---|
| flooding | nothing: every event goes everywhere |
| simple | every entry |
| identity | one of equal filters |
| covering | a filter only if no other covers it |
| merging | one filter for several that one covers or that merge, perfectly or with a bounded excess |

The last three are one class, `Grouped`: entries with equal filters are one group, and a placement (`placements.py`)
decides which groups are told.

*Rules.*
1. At every moment, and after every single change in the order they are returned, the forwarded filters cover every
   entry. So nothing is lost between two messages on a FIFO link.
2. Without entries nothing is forwarded.
3. The same calls give the same changes.

*Paper.* [rebeca §2.2] names simple, identity ("combine filters that are equal"), covering and merging.
*Symbols.* outAds, outSubs: the two `Outgoing` of each neighbour.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from godwit.broker.messages import EntryId
from godwit.broker.placements import (
    REMEMBERED_WEIGHT_MAX,
    BundledGroups,
    Change,
    EachGroup,
    Group,
    GroupState,
    Key,
    MakePlacement,
    RootGroups,
    ToldFilters,
    share_of,
)
from godwit.broker.state_types import AnyState
from godwit.filters import algebra
from godwit.filters.effort import Answers, Effort
from godwit.filters.filters import Filter
from godwit.registry import Registry

__all__ = [
    "REDUCTIONS",
    "Change",
    "Grouped",
    "MakeOutgoing",
    "Nothing",
    "NothingState",
    "Outgoing",
    "Simple",
    "SimpleState",
    "are_covered",
    "covering",
    "identity",
    "intersects",
    "merging",
    "reduction_of",
    "reductions",
    "register_reduction",
]

ADDING_EFFORT_MAX = 1_000
_intersecting: Answers[bool] = Answers(algebra.intersects, REMEMBERED_WEIGHT_MAX)
_covering: Answers[bool] = Answers(algebra.covers, REMEMBERED_WEIGHT_MAX, ADDING_EFFORT_MAX)


def intersects(f: Filter, g: Filter, effort: Effort) -> bool:
    """Whether `f` and `g` may match one event; remembered, because brokers ask the same again and again.

    Yes, when the effort is over.
    """
    return effort.left < 0 or _intersecting.ask(f, g, effort)


def are_covered(filters: Iterable[Filter | None], entries: Mapping[EntryId, Filter], besides: EntryId) -> bool:
    """Whether another of these entries covers each of the filters, so that they add nothing to them.

    No, when that takes too long.
    """
    effort = Effort(ADDING_EFFORT_MAX)
    return all(filter is None or _covering.any_but(besides, entries, filter, effort) for filter in filters)


# ------------------------------------------------------------ what is written down


class NothingState(msgspec.Struct, frozen=True, tag=True):
    """Nothing is told, and nothing remembered."""

    version: ClassVar[int] = 1


class SimpleState(msgspec.Struct, frozen=True, tag=True):
    """The forwarded filters, and the id of each entry."""

    version: ClassVar[int] = 1
    told: dict[EntryId, Filter]
    ids_made: int
    ids: dict[Key, EntryId]


# ------------------------------------------------------------ what a neighbour is told


class Outgoing(Protocol):
    """What one neighbour is told of the entries that concern it. Keys name entries here, ids name them there.

    `effort` pays for what is done because of one message. When it is over, a filter is told as it is.
    """

    @property
    def told(self) -> Mapping[EntryId, Filter]:
        """What it has been told, and by which id."""

    def add(self, key: Hashable, id: EntryId, filter: Filter, effort: Effort | None = None) -> list[Change]:
        """An entry concerns this neighbour, or one that does has another filter now."""

    def remove(self, key: Hashable, effort: Effort | None = None) -> list[Change]:
        """The entry, if it was here, concerns this neighbour no longer."""

    def keys(self) -> Iterable[Hashable]:
        """Every entry that concerns this neighbour."""

    def snapshot(self) -> AnyState:
        """All of this, to be written down."""

    def restore(self, state: Any) -> None:
        """Be as one of the same reduction was."""


class Nothing:
    """Flooding: no neighbour is told anything."""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        self.told: Mapping[EntryId, Filter] = {}

    def add(self, key: Hashable, id: EntryId, filter: Filter, effort: Effort | None = None) -> list[Change]:
        return []

    def remove(self, key: Hashable, effort: Effort | None = None) -> list[Change]:
        return []

    def keys(self) -> Iterable[Hashable]:
        return ()

    def snapshot(self) -> NothingState:
        return NothingState()

    def restore(self, state: NothingState) -> None:
        pass


class Simple:
    """Every entry under its own id. [rebeca §2.2: "simple routing"]

    Two entries of one subscription, on the old and on the new way to its client, may share an id (`repointing.py`).
    """

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        self._told = ToldFilters(name)
        self._ids: dict[Hashable, EntryId] = {}
        self._shared: dict[EntryId, int] = {}  # by id of several entries: how many

    @property
    def told(self) -> Mapping[EntryId, Filter]:
        return self._told.filters

    def add(self, key: Hashable, id: EntryId, filter: Filter, effort: Effort | None = None) -> list[Change]:
        mine = self._ids.get(key)
        if mine is not None and self.told[mine] == filter:
            return []
        if mine is None or self._leave(mine):
            while id in self.told:  # two neighbours, or a client and a neighbour, use one name
                id = self._told.new_id()
            mine = self._ids[key] = id
        return [self._told.tell(mine, filter)]

    def share(self, key: Hashable, other: Hashable, filter: Filter) -> bool:
        """Let the forwarded filter of `other` stand for `key`, too, if it is this filter; returns whether it does."""
        id = self._ids.get(other)
        if id is None or key in self._ids or self.told[id] != filter:
            return False
        self._ids[key] = id
        self._shared[id] = self._shared.get(id, 1) + 1
        return True

    def _leave(self, id: EntryId) -> bool:
        """An entry has this id no longer; whether others still have it."""
        count = self._shared.pop(id, 1)
        if count > 2:
            self._shared[id] = count - 1
        return count > 1

    def remove(self, key: Hashable, effort: Effort | None = None) -> list[Change]:
        id = self._ids.pop(key, None)
        return [] if id is None or self._leave(id) else [self._told.take_back(id)]

    def keys(self) -> Iterable[Hashable]:
        return self._ids.keys()

    def standing_for(self, key: Hashable) -> Filter | None:
        """The filter by which the neighbour knows of an entry; None: it does not."""
        id = self._ids.get(key)
        return None if id is None else self.told[id]

    def snapshot(self) -> SimpleState:
        return SimpleState(dict(self.told), self._told.ids_made, dict(self._ids))  # type: ignore[arg-type]

    def restore(self, state: SimpleState) -> None:
        self._told.restore(state.told, state.ids_made)
        self._ids = dict(state.ids)
        counts = Counter(self._ids.values())
        self._shared = {id: count for id, count in counts.items() if count > 1}


# ------------------------------------------------------------ groups of equal filters


class Grouped:
    """Entries with equal filters are one group, and a placement decides which groups are told. An `Outgoing`."""

    def __init__(self, name: str, placement: MakePlacement, excess_max: float = 0.0) -> None:
        self._told = ToldFilters(name)
        self._filter_of: dict[Hashable, Filter] = {}
        self._groups: dict[Filter, Group] = {}
        self.placement = placement(self._told, self._groups, excess_max)

    @property
    def told(self) -> Mapping[EntryId, Filter]:
        return self._told.filters

    def add(self, key: Hashable, id: EntryId, filter: Filter, effort: Effort | None = None) -> list[Change]:
        before = self._filter_of.get(key)
        if before == filter:
            return []
        self._filter_of[key] = filter
        changes: list[Change] = []
        group = self._groups.get(filter)
        if group is None:
            group = self._groups[filter] = Group(filter, self._told.new_id())
            changes = self._placed(self.placement.place, group, effort)
        group.members += 1
        return changes if before is None else changes + self._left(before, effort)

    def remove(self, key: Hashable, effort: Effort | None = None) -> list[Change]:
        filter = self._filter_of.pop(key, None)
        return [] if filter is None else self._left(filter, effort)

    def keys(self) -> Iterable[Hashable]:
        return self._filter_of.keys()

    def standing_for(self, key: Hashable) -> Filter | None:
        """The filter by which the neighbour knows of an entry; None: it does not."""
        filter = self._filter_of.get(key)
        return None if filter is None else self.placement.standing_for(self._groups[filter])

    def _left(self, filter: Filter, effort: Effort | None) -> list[Change]:
        """An entry with this filter has gone."""
        group = self._groups[filter]
        group.members -= 1
        if group.members:
            return []
        del self._groups[filter]
        return self._placed(self.placement.take_out, group, effort)

    @staticmethod
    def _placed(place: Callable[[Group, Effort], list[Change]], group: Group, effort: Effort | None) -> list[Change]:
        """What a placement answers within its share of the effort."""
        share = share_of(effort)
        changes = place(group, share)
        if effort is not None:
            effort.spend(share.spent)
        return changes

    def snapshot(self) -> AnyState:
        return self.placement.snapshot(
            {
                "told": dict(self.told),
                "ids_made": self._told.ids_made,
                "filter_of": dict(self._filter_of),
                "groups": tuple(GroupState(each.filter, each.id, tuple(each.under)) for each in self._groups.values()),
            }
        )

    def restore(self, state: Any) -> None:
        self._told.restore(state.told, state.ids_made)
        self._filter_of = dict(state.filter_of)
        for each in state.groups:
            self._groups[each.filter] = Group(each.filter, each.id)
        for filter in self._filter_of.values():
            self._groups[filter].members += 1
        for each in state.groups:
            group = self._groups[each.filter]
            for covered in each.under:
                group.under[covered] = None
                self._groups[covered].cover = group.filter
        self.placement.restore(state)


# ------------------------------------------------------------ reductions by name


class MakeOutgoing(Protocol):
    """How a reduction is made: a class, or a function."""

    def __call__(self, name: str, excess_max: float = 0.0) -> Outgoing:
        """An `Outgoing` without entries; `name` is the first half of the ids that it makes."""


def identity(name: str, excess_max: float = 0.0) -> Grouped:
    """The reduction that tells one of equal filters."""
    return Grouped(name, EachGroup, excess_max)


def covering(name: str, excess_max: float = 0.0) -> Grouped:
    """The reduction that tells only filters that no other covers."""
    return Grouped(name, RootGroups, excess_max)


def merging(name: str, excess_max: float = 0.0) -> Grouped:
    """The reduction that tells one filter for several."""
    return Grouped(name, BundledGroups, excess_max)


_REDUCTIONS: Registry[MakeOutgoing] = Registry("reduction", "godwit.reductions", by_module=True)

REDUCTIONS = _REDUCTIONS.registered
"""Those that are registered, by name."""


def register_reduction(name: str, made: MakeOutgoing) -> None:
    """Let settings choose a reduction by this name; it is made as `made(name, excess_max)`."""
    _REDUCTIONS.register(name, made)


def reductions() -> tuple[str, ...]:
    """The names of all reductions: those registered, and entry points of the group `godwit.reductions`."""
    return _REDUCTIONS.names()


def reduction_fault(name: str) -> str | None:
    """What is wrong with the name of a reduction in settings; None: it can be used."""
    return _REDUCTIONS.fault(name)


def reduction_of(name: str) -> MakeOutgoing:
    """The reduction of that name."""
    return _REDUCTIONS.part(name)


register_reduction("flooding", Nothing)
register_reduction("simple", Simple)
register_reduction("identity", identity)
register_reduction("covering", covering)
register_reduction("merging", merging)
