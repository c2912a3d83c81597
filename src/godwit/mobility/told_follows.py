"""What a broker sends to a neighbour about open filters: one filter for many clients, with all their places.

*Theory.* A thousand walkers that want `service = 'parking' AND location = myloc` differ in their places alone. The next
broker need not know each client's place: it forwards events for every place at which *any* of them may be. So entries
with equal filters form a *group*, and the neighbour gets the filter of the group and the set of its members' places. A
`Follow` with several places means any of them. The neighbour computes from that set where members may be when an event
arrives, as it does for one client. It never learns how many they are.

The possible places here are `ploc` of the set: the union over the members. A step of one walker is sent only if it
changes this union, which it does not where others are near. So with more walkers a smaller share of steps is sent. The
message `FollowPlaces` has the places to add and to remove, not the whole set. [rebeca §5.1: "removing certain locations
and adding new locations"]

Members of one group allow for the same number of *steps* here, and stay for about as long (within a factor of two). A
group has the longest time on the way and the shortest stay of its members, so fast walkers do not widen the places of
slow ones.

*Rules.*
1. The places that a neighbour computes include those of every member, at every number of steps. (`ploc` of a larger
   set, a longer time and a shorter stay are supersets.)
2. A group is sent again if and only if its possible places here, or a time, have changed: where `ploc` of two sets is
   equal here, it is equal for all further steps (`movement_graphs.py`, rule 2).
3. An entry that changes its group joins the new one before it leaves the old: at no time does the neighbour know less.
4. A group is at most `PLACES_UNITED_MAX` places, and `UNITED_BYTES_MAX` bytes. A larger one is sent as
   "anywhere", which floods the events of this filter, until it is smaller again.
5. An entry joins a group only if the union matches nothing that no member matches (`Movements.united`). Otherwise it
   is a group of its own.

*Paper.* [rebeca §5.4]: location changes "exploit the optimizations of the underlying routing strategy". *Symbols.*
ploc → `Movements.possible`.
*Departures.* The paper names covering as the example: a subscription that a filter in the table covers has no effect.
Here the union covers its members. An ordinary filter that covers an open one does not stand for it: the two kinds of
entries are kept apart (`further_entries.py`), so that neither waits for the other when it goes.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from godwit.broker.messages import EntryId, NodeId
from godwit.filters.contexts import size_of
from godwit.filters.events import Attributes, values_of
from godwit.filters.values import Value, distinct_sorted, identity
from godwit.mobility.followed_entry import Followed
from godwit.mobility.move_messages import Follow, FollowPlaces, FollowUpdate, Unfollow
from godwit.mobility.possible_values import ANYTHING, PLACES_UNITED_MAX, Movements, Possibilities

__all__ = ["UNITED_BYTES_MAX", "FollowGroupState", "Key", "ToldFollows"]

UNITED_BYTES_MAX = 65_536
STEPS_ALONE_MAX = 8  # numbers of steps above are alike when their logarithms are

Key = tuple[NodeId, EntryId]
"""An entry here: its source, and its id there."""
Times = tuple[float | None, float | None]
"""For how long at least a state lasts, and the round trips to where it is known."""
UNKNOWN: Times = (None, None)


class FollowGroupState(msgspec.Struct, frozen=True):
    """What a neighbour was told under one id, and of which entries that is."""

    id: EntryId
    members: tuple[Key, ...]
    values: Attributes
    dwell_s: float | None
    spent_s: float | None


class FollowGroup:
    """Entries that a neighbour knows as one."""

    __slots__ = ("_counts", "_movements", "_times", "id", "members", "possible", "times", "values")

    def __init__(self, id: EntryId, movements: Movements) -> None:
        self.id = id
        self.members: dict[Key, Followed] = {}  # they have the filter in common
        self._movements = movements
        self._counts: dict[Any, list[Any]] = {}  # by identity of a place: the place, and how many members are there
        self._times: Counter[Times] = Counter()
        self.values: dict[str, Any] = {}  # as told last, and what was possible then
        self.times: Times = UNKNOWN
        self.possible: Possibilities = {}

    @property
    def first(self) -> Followed:
        """One of its members."""
        return next(iter(self.members.values()))

    def put(self, key: Key, entry: Followed) -> None:
        """An entry joins, or is another than it was."""
        self.take_out(key)
        self.members[key] = entry
        self._times[entry.dwell_s, entry.elapsed_s] += 1
        for place in _places(entry):
            self._counts.setdefault(identity(place), [place, 0])[1] += 1

    def take_out(self, key: Key) -> None:
        """An entry leaves, if it was here."""
        entry = self.members.pop(key, None)
        if entry is None:
            return
        times = (entry.dwell_s, entry.elapsed_s)
        self._times[times] -= 1
        if not self._times[times]:
            del self._times[times]
        for place in _places(entry):
            counted = self._counts[identity(place)]
            counted[1] -= 1
            if not counted[1]:
                del self._counts[identity(place)]

    def follow(self, link_s: float | None) -> Follow:
        """The group as it is told first."""
        self._note(*self._now())
        return Follow(self.id, self.first.filter, self.values, *self.times, link_s)

    def changed(self, link_s: float | None) -> FollowUpdate:
        """State and times as they are told then."""
        self._note(*self._now())
        return FollowUpdate(self.id, self.values, *self.times, link_s)

    def news(self, link_s: float | None) -> list[Any]:
        """What the neighbour must hear of what has changed. (rule 2)"""
        values, times, possible = self._now()
        if (possible, times) == (self.possible, self.times):
            return []
        name, before = self.first.united, self.values
        if times == self.times and name in before and name in values:
            old = {identity(place): place for place in values_of(before[name])}
            new = {identity(place): place for place in values_of(values[name])}
            added = distinct_sorted(place for each, place in new.items() if each not in old)
            removed = distinct_sorted(place for each, place in old.items() if each not in new)
            if len(added) + len(removed) < len(new):
                self._note(values, times, possible)
                return [FollowPlaces(self.id, added, removed)]
        return [self.changed(link_s)]

    def _note(self, values: dict[str, Any], times: Times, possible: Possibilities) -> None:
        self.values, self.times, self.possible = values, times, possible

    def _now(self) -> tuple[dict[str, Any], Times, Possibilities]:
        """State and times of all members, and what is possible here. (rules 1 and 4)"""
        entry = self.first
        name = entry.united
        if len(self.members) == 1 or name is None:
            return entry.values, (entry.dwell_s, entry.elapsed_s), entry.possible
        anywhere: Possibilities = dict.fromkeys(entry.names, ANYTHING)
        dwells, elapsed = zip(*self._times, strict=True)
        if None in dwells or None in elapsed or not 0 < len(self._counts) <= PLACES_UNITED_MAX:
            return {}, UNKNOWN, anywhere
        places = distinct_sorted(place for place, _ in self._counts.values())
        values: dict[str, Any] = {name: places[0] if len(places) == 1 else places}
        times: Times = (min(dwells), max(elapsed))
        possible = self._movements.possible(entry.filter, values, times[1], times[0], entry.names)
        if possible == anywhere or size_of(values) > UNITED_BYTES_MAX:
            return {}, UNKNOWN, anywhere
        return values, times, possible

    def state(self) -> FollowGroupState:
        """All of it, to be written down."""
        return FollowGroupState(self.id, tuple(self.members), dict(self.values), *self.times)

    def restore(self, state: FollowGroupState) -> None:
        """Have told this last."""
        entry, values, times = self.first, dict(state.values), (state.dwell_s, state.spent_s)
        possible = self._movements.possible(entry.filter, values, times[1], times[0], entry.names)
        self._note(values, times, possible)


class ToldFollows:
    """What one neighbour is told. `unites`: entries of equal filters are told as one; `new_id` makes ids for these."""

    def __init__(self, movements: Movements, new_id: Callable[[], EntryId], *, unites: bool) -> None:
        self._movements = movements
        self._new_id = new_id
        self._unites = unites
        self._groups: dict[Any, FollowGroup] = {}
        self._kind_of: dict[Key, Any] = {}
        self._taken: dict[EntryId, None] = {}  # ids of groups

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, key: Key, entry: Followed, link_s: float | None) -> list[Any]:
        """The messages for an entry that is new, or another than it was."""
        return self.put_all(((key, entry),), (), link_s)

    def remove(self, key: Key, link_s: float | None) -> list[Any]:
        """The messages for an entry that concerns this neighbour no longer, if it did."""
        return self.put_all((), (key,), link_s)

    def put_all(self, entries: Iterable[tuple[Key, Followed]], gone: Iterable[Key], link_s: float | None) -> list[Any]:
        """The messages for entries that are new or changed, and then for those that are over: one for each group."""
        grown: dict[Any, bool] = {}  # by kind of group, whether its filter is another
        shrunk: dict[Any, None] = {}
        for key, entry in entries:
            before, kind = self._kind_of.get(key), self._kind(key, entry)
            group = self._groups.get(kind)
            if group is None:
                group = self._groups[kind] = FollowGroup(self._free_id(key, kind), self._movements)
            known = group.members.get(key)
            if known is entry:
                continue
            is_new = not group.members or (known is not None and known.filter != entry.filter)
            grown[kind] = grown.get(kind, False) or is_new
            group.put(key, entry)
            self._kind_of[key] = kind
            if before is not None and before != kind:
                self._groups[before].take_out(key)
                shrunk[before] = None
        for key in gone:
            kind = self._kind_of.pop(key, None)
            if kind is not None:
                self._groups[kind].take_out(key)
                shrunk[kind] = None
        messages: list[Any] = []
        for kind, is_new in grown.items():  # (rule 3)
            if self._groups[kind].members:
                group = self._groups[kind]
                messages += [group.follow(link_s)] if is_new else group.news(link_s)
        for kind in shrunk:
            messages += self._after_leaving(kind, link_s)
        return messages

    def _after_leaving(self, kind: Any, link_s: float | None) -> list[Any]:
        group = self._groups[kind]
        if group.members:
            return group.news(link_s)
        del self._groups[kind], self._taken[group.id]
        return [Unfollow(group.id)]

    def _kind(self, key: Key, entry: Followed) -> Any:
        """Entries of one kind form a group. (rule 5)"""
        name = entry.united
        if not self._unites or name is None:
            return key
        if entry.dwell_s is None or entry.elapsed_s is None or entry.possible.get(name, ANYTHING) == ANYTHING:
            return entry.filter, "anywhere"
        count = self._movements.steps_within(entry.elapsed_s, entry.dwell_s)
        alike = count if count <= STEPS_ALONE_MAX else STEPS_ALONE_MAX + count.bit_length()
        return entry.filter, alike, math.frexp(entry.dwell_s)[1]

    def _free_id(self, key: Key, kind: Any) -> EntryId:
        """An entry alone keeps its id; but while a client moves, two sources follow it under one name."""
        id = key[1]
        while kind != key or id in self._taken:
            id, kind = self._new_id(), key
        self._taken[id] = None
        return id

    def all_changed(self, link_s: float | None) -> list[Any]:
        """The messages when the link takes another time."""
        return [group.changed(link_s) for group in self._groups.values()]

    def all_again(self, link_s: float | None) -> list[Any]:
        """All that the neighbour was told, to be told again."""
        return [group.follow(link_s) for group in self._groups.values()]

    def snapshot(self) -> tuple[FollowGroupState, ...]:
        """All groups."""
        return tuple(group.state() for group in self._groups.values())

    def restore(self, states: Iterable[FollowGroupState], entry_of: Callable[[Key], Followed]) -> None:
        """Have told these groups of these entries."""
        for state in states:
            group = FollowGroup(state.id, self._movements)
            for key in state.members:
                group.put(key, entry_of(key))
            group.restore(state)
            kind = self._kind(state.members[0], group.first)
            self._groups[kind], self._taken[state.id] = group, None
            self._kind_of |= dict.fromkeys(state.members, kind)


def _places(entry: Followed) -> Iterable[Value]:
    """Where the client of an entry is, or those of many."""
    name = entry.united
    return values_of(entry.values[name]) if name is not None and name in entry.values else ()
