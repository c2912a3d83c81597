"""Placements: which groups of equal filters are sent to a neighbour, and under which ids.

*Theory.* Entries with equal filters are one *group*. `Grouped` (`reductions.py`) knows the entries; it says when a
group is new and when its last entry has gone, and a placement answers with the changes to tell.

| placement | reduction | told |
|---|---|---|
| `EachGroup` | identity | every group |
| `RootGroups` | covering | the groups that no other covers |
| `BundledGroups` | merging | one filter for several groups |

*Covering.* A group that no told filter covers is told (a *root*); any other hangs under one that covers it. When a root
is told, roots that it covers are taken back; when a root goes, what hangs under it finds another cover or is told
first. *Merging* keeps *bundles*: the filters in a bundle are told as one filter that covers them all; a bundle that
loses a filter is merged again, and the neighbour hears only how that ends.

*Effort.* To place a group takes at most `PLACING_EFFORT_MAX` steps, and so does whatever must be placed again when one
goes, all together. After that a filter is told although another may cover it: the neighbour knows more than it must.
Many groups that are placed because of one message share a number of steps (`share_of`).

*Rules.* Those of `reductions.py`. *Paper.* [rebeca §2.2]; [pubmob Fig. 2 l.6-9, Fig. 3 l.6-9] does covering with a flag
`sent` in outAds and outSubs. *Symbols.* (s, n, true) ∈ outSubs: a root. (s, n, false): a group under a cover.
*Departures.* The papers leave out removal; and a filter that a newer one covers is taken back, which [pubmob] does not
do.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from godwit.broker.covering_index import CoveringIndex, choices_of, signs_of
from godwit.broker.messages import EntryId
from godwit.broker.state_types import AnyState
from godwit.filters import algebra
from godwit.filters.effort import Answers, Effort
from godwit.filters.filters import Filter, attributes_of
from godwit.filters.merging import merged

__all__ = [
    "Bundle",
    "BundleState",
    "BundledGroups",
    "Change",
    "CoveringState",
    "EachGroup",
    "Group",
    "GroupState",
    "GroupsByFilter",
    "IdentityState",
    "Key",
    "MakePlacement",
    "MergingState",
    "Placement",
    "RootGroups",
    "ToldFilters",
    "covers",
    "share_of",
]

REMEMBERED_WEIGHT_MAX = 262_144  # literals, of all pairs of filters whose answer is remembered
PLACING_EFFORT_MAX = 16_000
BUNDLE_MAX = 64
MERGES_TRIED_MAX = 16
MERGED_SIZE_MAX = 1_000  # literals

Change = tuple[EntryId, Filter | None]
"""Tell the neighbour this filter under this id (again: instead of the one before), or with None take it back."""

Key = tuple[str, EntryId]
"""An entry here: its source, and its id there."""


_covered: Answers[bool] = Answers(algebra.covers, REMEMBERED_WEIGHT_MAX)


def covers(f: Filter, g: Filter, effort: Effort) -> bool:
    """Whether `f` covers `g`; remembered, because brokers ask the same again and again. No, when the effort is over."""
    return not effort.is_over and _covered.ask(f, g, effort)


def share_of(common: Effort | None) -> Effort:
    """The effort for one group: of its own, or what is left of a common one, if that is less."""
    return Effort(PLACING_EFFORT_MAX if common is None else max(0, min(PLACING_EFFORT_MAX, common.left)))


# ------------------------------------------------------------ what is written down


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A filter, its id, and the filters that hang under it."""

    filter: Filter
    id: EntryId
    under: tuple[Filter, ...] = ()


class IdentityState(msgspec.Struct, frozen=True, tag=True):
    """The forwarded filters, and the entries and their groups."""

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


# ------------------------------------------------------------ groups, and what is sent


class ToldFilters:
    """The filters that a neighbour has been told, by id, and the ids that are made for them by `maker`."""

    __slots__ = ("_before", "filters", "ids_made", "maker")

    def __init__(self, maker: str) -> None:
        self.maker = maker
        self.filters: dict[EntryId, Filter] = {}
        self.ids_made = 0
        self._before: dict[EntryId, Filter | None] | None = None  # while changes are watched

    def new_id(self) -> EntryId:
        """An id that was never used before."""
        self.ids_made += 1
        return (self.maker, str(self.ids_made))

    def tell(self, id: EntryId, filter: Filter) -> Change:
        """Tell a filter under an id, perhaps instead of the one before."""
        if self._before is not None:
            self._before.setdefault(id, self.filters.get(id))
        self.filters[id] = filter
        return id, filter

    def take_back(self, id: EntryId) -> Change:
        """Withdraw the filter of an id."""
        if self._before is not None:
            self._before.setdefault(id, self.filters.get(id))
        del self.filters[id]
        return id, None

    def watch(self) -> Mapping[EntryId, Filter | None]:
        """Start recording changes: a view of the forwarded filter of each id that has changed since."""
        self._before = {}
        return self._before

    def changed(self, last: EntryId) -> list[Change]:
        """The changes since then, each id once: new filters first, `last` at their end, then withdrawn ones.

        A filter may be told and taken back again on the way. Each such message would make the next broker merge again,
        and tell more of them: at the end of a long way there would be thousands.
        """
        before, self._before = self._before or {}, None
        ids = sorted((id for id, filter in before.items() if filter != self.filters.get(id)), key=last.__eq__)
        tells: list[Change] = [(id, self.filters[id]) for id in ids if id in self.filters]
        return tells + [(id, None) for id in ids if id not in self.filters]

    def restore(self, filters: Mapping[EntryId, Filter], ids_made: int) -> None:
        """Have told these, and made so many ids."""
        self.filters, self.ids_made = dict(filters), ids_made


class Group:
    """Entries with one filter, and where it stands: told (`cover` is None) or under one that covers it."""

    __slots__ = ("attributes", "choices", "cover", "filter", "id", "members", "signs", "under")

    def __init__(self, filter: Filter, id: EntryId) -> None:
        self.filter = filter
        self.id = id
        self.attributes = frozenset(attributes_of(filter))
        self.choices = choices_of(filter)
        self.signs = signs_of(filter)
        self.members = 0
        self.cover: Filter | None = None  # filters and not groups: a snapshot of a long chain stays flat
        self.under: dict[Filter, None] = {}


GroupsByFilter = Mapping[Filter, Group]
"""The groups that have entries, by filter."""


class Placement(Protocol):
    """Which groups of equal filters a neighbour is told, and how. It is made as `placement(told, groups, excess_max)`.

    `groups` is a view of all that have entries: a group is in it when it is placed, and no longer when it is taken out.
    """

    def place(self, group: Group, effort: Effort) -> list[Change]:
        """The changes for a group that is new."""

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        """The changes for a group whose last entry has gone."""

    def standing_for(self, group: Group) -> Filter:
        """The filter that is told for a group."""

    def snapshot(self, entries: dict[str, Any]) -> AnyState:
        """All of this, to be written down together with these fields, which are those of `IdentityState`."""

    def restore(self, state: Any) -> None:
        """Place the groups as they were; they are there already."""


class MakePlacement(Protocol):
    """How a placement is made."""

    def __call__(self, told: ToldFilters, groups: GroupsByFilter, excess_max: float) -> Placement:
        """A placement without groups."""


# ------------------------------------------------------------ the three placements


class EachGroup:
    """One of equal filters. [rebeca §2.2: "check and combine filters that are equal"]"""

    def __init__(self, told: ToldFilters, groups: GroupsByFilter, excess_max: float) -> None:
        self._told = told

    def place(self, group: Group, effort: Effort) -> list[Change]:
        return [self._told.tell(group.id, group.filter)]

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        return [self._told.take_back(group.id)]

    def standing_for(self, group: Group) -> Filter:
        return group.filter

    def snapshot(self, entries: dict[str, Any]) -> IdentityState:
        return IdentityState(**entries)

    def restore(self, state: IdentityState) -> None:
        pass


class RootGroups:
    """A filter is told only if no other covers it. [rebeca §2.2], [pubmob Fig. 2 l.6-9, Fig. 3 l.6-9]"""

    def __init__(self, told: ToldFilters, groups: GroupsByFilter, excess_max: float) -> None:
        self._told = told
        self._groups = groups
        self.roots: CoveringIndex[Group] = CoveringIndex()

    def place(self, group: Group, effort: Effort) -> list[Change]:
        candidates = self.roots.that_may_cover(group, effort)
        cover = next((root for root in candidates if covers(root.filter, group.filter, effort)), None)
        if cover is not None:  # l.6-7: (s, n, false)
            group.cover = cover.filter
            cover.under[group.filter] = None
            return []
        narrower = self.roots.that_may_be_covered_by(group, effort)
        covered = [root for root in narrower if covers(group.filter, root.filter, effort)]
        group.cover = None
        self.roots.add(group)
        changes = [self._told.tell(group.id, group.filter)]  # l.8-9: (s, n, true)
        for root in covered:
            self.roots.remove(root)
            root.cover = group.filter
            group.under[root.filter] = None
            changes.append(self._told.take_back(root.id))
        return changes

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        orphans = [self._groups[filter] for filter in group.under]
        if group.cover is not None:  # it was not told: what hangs under it moves up
            under = self._groups[group.cover].under
            del under[group.filter]
            for orphan in orphans:
                orphan.cover = group.cover
                under[orphan.filter] = None
            return []
        self.roots.remove(group)
        changes: list[Change] = []
        for orphan in orphans:  # told before their cover goes, so that no event falls between
            changes += self.place(orphan, effort)
        changes.append(self._told.take_back(group.id))
        return changes

    def standing_for(self, group: Group) -> Filter:
        while group.cover is not None:
            group = self._groups[group.cover]
        return group.filter

    def snapshot(self, entries: dict[str, Any]) -> CoveringState:
        return CoveringState(**entries, roots=tuple(root.filter for root in self.roots))

    def restore(self, state: CoveringState) -> None:
        for filter in state.roots:
            self.roots.add(self._groups[filter])


class Bundle:
    """Filters that are told as one."""

    __slots__ = ("attributes", "excess", "filter", "groups", "id", "signs")

    def __init__(self, id: EntryId, group: Group) -> None:
        self.id = id
        self.filter = group.filter
        self.attributes = group.attributes
        self.signs = group.signs
        self.excess = 0.0  # at most this share of what the filter matches, none of the groups wants
        self.groups: dict[Filter, Group] = {group.filter: group}


class BundledGroups:
    """One filter for several that merge, perfectly or with at most `excess_max` besides. [rebeca §2.2: "merging"]"""

    def __init__(self, told: ToldFilters, groups: GroupsByFilter, excess_max: float) -> None:
        self._told = told
        self._groups = groups
        self.excess_max = excess_max
        self.bundles: dict[EntryId, Bundle] = {}
        self.bundle_of: dict[Filter, Bundle] = {}

    def place(self, group: Group, effort: Effort) -> list[Change]:
        tried, lacking = 0, ~group.signs.has
        for bundle in self.bundles.values():
            if not effort.spend(1):
                break
            if len(bundle.groups) >= BUNDLE_MAX or bundle.signs.asks & lacking:
                continue
            if bundle.attributes <= group.attributes and covers(bundle.filter, group.filter, effort):
                self._join(bundle, group)
                return []
        for bundle in self.bundles.values():
            if not effort.spend(1):
                break
            if len(bundle.groups) >= BUNDLE_MAX or bundle.filter.size + group.filter.size > MERGED_SIZE_MAX:
                continue
            if not (bundle.attributes <= group.attributes or group.attributes <= bundle.attributes):
                continue
            tried += 1
            if tried > MERGES_TRIED_MAX:
                break
            room = 1 - (1 - self.excess_max) / (1 - bundle.excess) if bundle.excess < 1 else 1.0  # what is left of it
            found = merged(bundle.filter, group.filter, excess_max=room, effort=effort)
            if found is not None:
                self._join(bundle, group)
                bundle.excess = 1 - (1 - bundle.excess) * (1 - found.excess)
                return self._widened(bundle, found.filter, effort)
        bundle = Bundle(group.id, group)
        self.bundles[bundle.id] = bundle
        self.bundle_of[group.filter] = bundle
        return [self._told.tell(bundle.id, bundle.filter)]

    def _join(self, bundle: Bundle, group: Group) -> None:
        bundle.groups[group.filter] = group
        self.bundle_of[group.filter] = bundle

    def _widened(self, bundle: Bundle, filter: Filter, effort: Effort) -> list[Change]:
        """Tell the wider filter, then take back the bundles that it covers."""
        self._describe(bundle, filter)
        changes = [self._told.tell(bundle.id, filter)]
        for other in list(self.bundles.values()):
            if not effort.spend(1):
                break
            if (
                other is not bundle
                and len(bundle.groups) + len(other.groups) <= BUNDLE_MAX
                and bundle.attributes <= other.attributes
                and not bundle.signs.asks & ~other.signs.has
                and covers(filter, other.filter, effort)
            ):
                for group in other.groups.values():
                    self._join(bundle, group)
                del self.bundles[other.id]
                changes.append(self._told.take_back(other.id))
        return changes

    @staticmethod
    def _describe(bundle: Bundle, filter: Filter) -> None:
        bundle.filter, bundle.attributes, bundle.signs = filter, frozenset(attributes_of(filter)), signs_of(filter)

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        bundle = self.bundle_of.pop(group.filter)
        del bundle.groups[group.filter]
        rest = list(bundle.groups.values())
        del self.bundles[bundle.id]
        before = self._told.watch()
        for other in rest:  # merged again, and told before the old bundle goes
            if other.id == bundle.id:
                other.id = self._told.new_id()
            self.place(other, effort)
        made = [each for each in (self.bundle_of[other.filter] for other in rest) if before.get(each.id, ()) is None]
        if made:  # one of them goes on as the old one: often nothing changes for the neighbour, or the filter alone
            self._told.take_back(made[0].id)
            del self.bundles[made[0].id]
            made[0].id = bundle.id
            self.bundles[bundle.id] = made[0]
            self._told.tell(bundle.id, made[0].filter)
        else:
            self._told.take_back(bundle.id)
        return self._told.changed(last=bundle.id)

    def standing_for(self, group: Group) -> Filter:
        return self.bundle_of[group.filter].filter

    def snapshot(self, entries: dict[str, Any]) -> MergingState:
        bundles = tuple(BundleState(b.id, b.filter, b.excess, tuple(b.groups)) for b in self.bundles.values())
        return MergingState(**entries, bundles=bundles)

    def restore(self, state: MergingState) -> None:
        for each in state.bundles:
            bundle = self.bundles[each.id] = Bundle(each.id, self._groups[each.groups[0]])
            self._describe(bundle, each.filter)
            bundle.excess = each.excess
            bundle.groups = {}
            for filter in each.groups:
                self._join(bundle, self._groups[filter])
