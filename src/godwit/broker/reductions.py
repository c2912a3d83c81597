"""Reductions: which of many filters a neighbour must be told, so that it knows enough and little more.

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

*Covering.* Equal filters are one *group*. A group that no told filter covers is told (a *root*); any other hangs under
one that covers it. When a root is told, roots that it covers are taken back; when a root goes, what hangs under it
finds another cover or is told first. *Merging* keeps *bundles*: the filters in a bundle are told as one filter that
covers them all; a bundle that loses a filter is merged anew.

*Rules.*
1. At every moment, and after every single change in the order they are returned, what is told covers every entry.
   So nothing falls between two messages on a FIFO link.
2. What is told for no entry is nothing.
3. The same calls give the same changes.

*Paper.* [rebeca §2.2] names simple, identity ("combine filters that are equal"), covering and merging;
[pubmob Fig. 2 l.6-9, Fig. 3 l.6-9] does covering with a flag `sent` in outAds and outSubs.
*Symbols.* (s, n, true) ∈ outSubs: a root in the `Outgoing` of n. (s, n, false): a group under a cover.
*Departures.* The papers leave out removal; and a filter that a newer one covers is taken back, which [pubmob] does not
do.
"""

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from godwit.broker.messages import EntryId
from godwit.broker.registry import Registry
from godwit.broker.roots import Roots, choices_of
from godwit.broker.state_types import AnyState
from godwit.filters import algebra
from godwit.filters.filters import Filter, attributes_of
from godwit.filters.merging import merged

__all__ = [
    "REDUCTIONS",
    "Change",
    "Covering",
    "CoveringState",
    "Identity",
    "IdentityState",
    "Merging",
    "MergingState",
    "Nothing",
    "NothingState",
    "Outgoing",
    "Simple",
    "SimpleState",
    "intersects",
    "reduction_of",
    "reductions",
    "register_reduction",
]

Change = tuple[EntryId, Filter | None]
"""Tell the neighbour this filter under this id (again: instead of the one before), or with None take it back."""

MEMO_MAX = 65_536
BUNDLE_MAX = 64
MERGES_TRIED_MAX = 16
MERGED_SIZE_MAX = 1_000  # literals


@lru_cache(MEMO_MAX)
def covers(f: Filter, g: Filter) -> bool:
    """Whether `f` covers `g`; remembered, because brokers ask the same again and again."""
    return algebra.covers(f, g)


@lru_cache(MEMO_MAX)
def intersects(f: Filter, g: Filter) -> bool:
    """Whether `f` and `g` may match one event; remembered likewise."""
    return algebra.intersects(f, g)


# ------------------------------------------------------------ what is written down

Key = tuple[str, EntryId]
"""An entry here: its source, and its id there."""


class NothingState(msgspec.Struct, frozen=True, tag=True):
    """Nothing is told, and nothing remembered."""

    version: ClassVar[int] = 1


class SimpleState(msgspec.Struct, frozen=True, tag=True):
    """What is told, and under which id each entry is."""

    version: ClassVar[int] = 1
    told: dict[EntryId, Filter]
    ids_made: int
    ids: dict[Key, EntryId]


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A filter, its id, and the filters that hang under it."""

    filter: Filter
    id: EntryId
    under: tuple[Filter, ...] = ()


class IdentityState(msgspec.Struct, frozen=True, tag=True):
    """What is told, and the entries and their groups."""

    version: ClassVar[int] = 1
    told: dict[EntryId, Filter]
    ids_made: int
    filter_of: dict[Key, Filter]
    groups: tuple[GroupState, ...]


class CoveringState(msgspec.Struct, frozen=True, tag=True):
    """The same, and the roots in the order in which they were told."""

    version: ClassVar[int] = 1
    told: dict[EntryId, Filter]
    ids_made: int
    filter_of: dict[Key, Filter]
    groups: tuple[GroupState, ...]
    roots: tuple[Filter, ...]


class BundleState(msgspec.Struct, frozen=True):
    """Filters that are told as one, and how much that one matches besides."""

    id: EntryId
    filter: Filter
    excess: float
    groups: tuple[Filter, ...]


class MergingState(msgspec.Struct, frozen=True, tag=True):
    """The same as of identity, and the bundles in the order in which they were made."""

    version: ClassVar[int] = 1
    told: dict[EntryId, Filter]
    ids_made: int
    filter_of: dict[Key, Filter]
    groups: tuple[GroupState, ...]
    bundles: tuple[BundleState, ...]


# ------------------------------------------------------------ what a neighbour is told


class Outgoing:
    """What one neighbour is told of the entries that concern it. Keys name entries here, ids name them there."""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        self.name = name
        self.excess_max = excess_max
        self.told: dict[EntryId, Filter] = {}
        self.ids_made = 0

    def add(self, key: Hashable, id: EntryId, filter: Filter) -> list[Change]:
        """An entry concerns this neighbour, or one that does has another filter now."""
        raise NotImplementedError

    def remove(self, key: Hashable) -> list[Change]:
        """The entry, if it was here, concerns this neighbour no longer."""
        raise NotImplementedError

    def keys(self) -> Iterable[Hashable]:
        """Every entry that concerns this neighbour."""
        raise NotImplementedError

    def snapshot(self) -> AnyState:
        """All of this, to be written down."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Be as one of the same reduction was."""
        raise NotImplementedError

    def _new_id(self) -> EntryId:
        self.ids_made += 1
        return (self.name, str(self.ids_made))

    def _tell(self, id: EntryId, filter: Filter | None) -> Change:
        if filter is None:
            del self.told[id]
        else:
            self.told[id] = filter
        return id, filter


class Nothing(Outgoing):
    """Flooding: no neighbour is told anything."""

    def add(self, key: Hashable, id: EntryId, filter: Filter) -> list[Change]:
        return []

    def remove(self, key: Hashable) -> list[Change]:
        return []

    def keys(self) -> Iterable[Hashable]:
        return ()

    def snapshot(self) -> NothingState:
        return NothingState()

    def restore(self, state: NothingState) -> None:
        pass


class Simple(Outgoing):
    """Every entry under its own id. [rebeca §2.2: "simple routing"]"""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        super().__init__(name, excess_max)
        self.ids: dict[Hashable, EntryId] = {}

    def add(self, key: Hashable, id: EntryId, filter: Filter) -> list[Change]:
        mine = self.ids.get(key)
        if mine is None:
            while id in self.told:  # two neighbours, or a client and a neighbour, use one name
                id = self._new_id()
            mine = self.ids[key] = id
        elif self.told[mine] == filter:
            return []
        return [self._tell(mine, filter)]

    def remove(self, key: Hashable) -> list[Change]:
        id = self.ids.pop(key, None)
        return [] if id is None else [self._tell(id, None)]

    def keys(self) -> Iterable[Hashable]:
        return self.ids.keys()

    def snapshot(self) -> SimpleState:
        return SimpleState(dict(self.told), self.ids_made, dict(self.ids))  # type: ignore[arg-type]

    def restore(self, state: SimpleState) -> None:
        self.told, self.ids_made, self.ids = dict(state.told), state.ids_made, dict(state.ids)


class Group:
    """Entries with one filter, and where it stands: told (`cover` is None) or under one that covers it."""

    __slots__ = ("attributes", "choices", "cover", "filter", "id", "members", "under")

    def __init__(self, filter: Filter, id: EntryId) -> None:
        self.filter = filter
        self.id = id
        self.attributes = frozenset(attributes_of(filter))
        self.choices = choices_of(filter)
        self.members = 0
        self.cover: Filter | None = None  # filters and not groups: a snapshot of a long chain stays flat
        self.under: dict[Filter, None] = {}


class Identity(Outgoing):
    """One of equal filters. [rebeca §2.2: "check and combine filters that are equal"]"""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        super().__init__(name, excess_max)
        self.filter_of: dict[Hashable, Filter] = {}
        self.groups: dict[Filter, Group] = {}

    def add(self, key: Hashable, id: EntryId, filter: Filter) -> list[Change]:
        before = self.filter_of.get(key)
        if before == filter:
            return []
        self.filter_of[key] = filter
        changes: list[Change] = []
        group = self.groups.get(filter)
        if group is None:
            group = self.groups[filter] = Group(filter, self._new_id())
            changes = self._placed(group)
        group.members += 1
        return changes if before is None else changes + self._left(before)

    def remove(self, key: Hashable) -> list[Change]:
        filter = self.filter_of.pop(key, None)
        return [] if filter is None else self._left(filter)

    def keys(self) -> Iterable[Hashable]:
        return self.filter_of.keys()

    def snapshot(self) -> AnyState:
        return IdentityState(**self._entries())

    def restore(self, state: Any) -> None:
        self.told, self.ids_made, self.filter_of = dict(state.told), state.ids_made, dict(state.filter_of)
        self.groups = {each.filter: Group(each.filter, each.id) for each in state.groups}
        for filter in self.filter_of.values():
            self.groups[filter].members += 1
        for each in state.groups:
            group = self.groups[each.filter]
            for covered in each.under:
                group.under[covered] = None
                self.groups[covered].cover = group.filter

    def _entries(self) -> dict[str, Any]:
        """What the states of this reduction and of those below have in common."""
        groups = tuple(GroupState(group.filter, group.id, tuple(group.under)) for group in self.groups.values())
        filter_of = dict(self.filter_of)
        return {"told": dict(self.told), "ids_made": self.ids_made, "filter_of": filter_of, "groups": groups}

    def _left(self, filter: Filter) -> list[Change]:
        group = self.groups[filter]
        group.members -= 1
        if group.members:
            return []
        del self.groups[filter]
        return self._taken_out(group)

    def _placed(self, group: Group) -> list[Change]:
        """The changes for a group that is new."""
        return [self._tell(group.id, group.filter)]

    def _taken_out(self, group: Group) -> list[Change]:
        """The changes for a group whose last entry has gone."""
        return [self._tell(group.id, None)]


class Covering(Identity):
    """A filter is told only if no other covers it. [rebeca §2.2], [pubmob Fig. 2 l.6-9, Fig. 3 l.6-9]"""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        super().__init__(name, excess_max)
        self.roots: Roots[Group] = Roots()

    def snapshot(self) -> AnyState:
        return CoveringState(**self._entries(), roots=tuple(root.filter for root in self.roots))

    def restore(self, state: CoveringState) -> None:
        super().restore(state)
        for filter in state.roots:
            self.roots.add(self.groups[filter])

    def _placed(self, group: Group) -> list[Change]:
        cover = next((root for root in self.roots.that_may_cover(group) if covers(root.filter, group.filter)), None)
        if cover is not None:  # l.6-7: (s, n, false)
            group.cover = cover.filter
            cover.under[group.filter] = None
            return []
        covered = [root for root in self.roots.that_may_be_covered_by(group) if covers(group.filter, root.filter)]
        group.cover = None
        self.roots.add(group)
        changes = [self._tell(group.id, group.filter)]  # l.8-9: (s, n, true)
        for root in covered:
            self._uproot(root)
            root.cover = group.filter
            group.under[root.filter] = None
            changes.append(self._tell(root.id, None))
        return changes

    def _taken_out(self, group: Group) -> list[Change]:
        orphans = [self.groups[filter] for filter in group.under]
        if group.cover is not None:  # it was not told: what hangs under it moves up
            under = self.groups[group.cover].under
            del under[group.filter]
            for orphan in orphans:
                orphan.cover = group.cover
                under[orphan.filter] = None
            return []
        self._uproot(group)
        changes: list[Change] = []
        for orphan in orphans:  # told before their cover goes, so that no event falls between
            changes += self._placed(orphan)
        changes.append(self._tell(group.id, None))
        return changes

    def _uproot(self, group: Group) -> None:
        self.roots.remove(group)


class Bundle:
    """Filters that are told as one."""

    __slots__ = ("attributes", "excess", "filter", "groups", "id")

    def __init__(self, id: EntryId, group: Group) -> None:
        self.id = id
        self.filter = group.filter
        self.attributes = group.attributes
        self.excess = 0.0  # at most this share of what the filter matches, none of the groups wants
        self.groups: dict[Filter, Group] = {group.filter: group}


class Merging(Identity):
    """One filter for several that merge, perfectly or with at most `excess_max` besides. [rebeca §2.2: "merging"]"""

    def __init__(self, name: str, excess_max: float = 0.0) -> None:
        super().__init__(name, excess_max)
        self.bundles: dict[EntryId, Bundle] = {}
        self.bundle_of: dict[Filter, Bundle] = {}

    def snapshot(self) -> AnyState:
        bundles = tuple(BundleState(b.id, b.filter, b.excess, tuple(b.groups)) for b in self.bundles.values())
        return MergingState(**self._entries(), bundles=bundles)

    def restore(self, state: MergingState) -> None:
        super().restore(state)
        for each in state.bundles:
            bundle = self.bundles[each.id] = Bundle(each.id, self.groups[each.groups[0]])
            bundle.filter, bundle.excess = each.filter, each.excess
            bundle.attributes = frozenset(attributes_of(each.filter))
            bundle.groups = {}
            for filter in each.groups:
                self._join(bundle, self.groups[filter])

    def _placed(self, group: Group) -> list[Change]:
        tried = 0
        for bundle in self.bundles.values():
            if len(bundle.groups) >= BUNDLE_MAX:
                continue
            if bundle.attributes <= group.attributes and covers(bundle.filter, group.filter):
                self._join(bundle, group)
                return []
        for bundle in self.bundles.values():
            if len(bundle.groups) >= BUNDLE_MAX or bundle.filter.size + group.filter.size > MERGED_SIZE_MAX:
                continue
            if not (bundle.attributes <= group.attributes or group.attributes <= bundle.attributes):
                continue
            tried += 1
            if tried > MERGES_TRIED_MAX:
                break
            room = 1 - (1 - self.excess_max) / (1 - bundle.excess) if bundle.excess < 1 else 1.0  # what is left of it
            found = merged(bundle.filter, group.filter, excess_max=room)
            if found is not None:
                self._join(bundle, group)
                bundle.excess = 1 - (1 - bundle.excess) * (1 - found.excess)
                return self._widened(bundle, found.filter)
        bundle = Bundle(group.id, group)
        self.bundles[bundle.id] = bundle
        self.bundle_of[group.filter] = bundle
        return [self._tell(bundle.id, bundle.filter)]

    def _join(self, bundle: Bundle, group: Group) -> None:
        bundle.groups[group.filter] = group
        self.bundle_of[group.filter] = bundle

    def _widened(self, bundle: Bundle, filter: Filter) -> list[Change]:
        """Tell the wider filter, then take back the bundles that it covers."""
        bundle.filter, bundle.attributes = filter, frozenset(attributes_of(filter))
        changes = [self._tell(bundle.id, filter)]
        for other in list(self.bundles.values()):
            if (
                other is not bundle
                and len(bundle.groups) + len(other.groups) <= BUNDLE_MAX
                and bundle.attributes <= other.attributes
                and covers(filter, other.filter)
            ):
                for group in other.groups.values():
                    self._join(bundle, group)
                del self.bundles[other.id]
                changes.append(self._tell(other.id, None))
        return changes

    def _taken_out(self, group: Group) -> list[Change]:
        bundle = self.bundle_of.pop(group.filter)
        del bundle.groups[group.filter]
        rest = list(bundle.groups.values())
        del self.bundles[bundle.id]
        changes: list[Change] = []
        for other in rest:  # merged anew, and told before the old bundle goes
            if other.id == bundle.id:
                other.id = self._new_id()
            changes += self._placed(other)
        changes.append(self._tell(bundle.id, None))
        return changes


_REDUCTIONS: Registry[type[Outgoing]] = Registry("reduction", "godwit.reductions")

REDUCTIONS = _REDUCTIONS.registered
"""Those that are registered, by name."""


def register_reduction(name: str, made: type[Outgoing]) -> None:
    """Let settings choose a reduction by this name; it is made as `made(name, excess_max)`."""
    _REDUCTIONS.register(name, made)


def reductions() -> tuple[str, ...]:
    """The names of all reductions: those registered, and entry points of the group `godwit.reductions`."""
    return _REDUCTIONS.names()


def reduction_of(name: str) -> type[Outgoing]:
    """The reduction of that name."""
    return _REDUCTIONS.part(name)


register_reduction("flooding", Nothing)
register_reduction("simple", Simple)
register_reduction("identity", Identity)
register_reduction("covering", Covering)
register_reduction("merging", Merging)
