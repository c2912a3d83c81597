"""Filters on clients' own states in a tree: each broker allows for the places where a client may be when an event
arrives.

*Theory.* An open filter, such as `location = myloc`, is not told to neighbours like others. A `Follow` carries it as it
stands, with the client's state and with the time that has been spent on the way. Each broker adds the round trip of the
link that it came over, as either end has measured it, whichever is more: the one end times its news, the other its
events. It loosens the filter accordingly (`possible_values.py`) and puts that into its matcher, and so events are
routed as ever. The further from the client, the older the news and the more is possible: filters grow towards the
publishers, F_1 within F_2 within F_3. [rebeca §5.1]

When the state changes, a `FollowUpdate` follows the same way and each broker replaces the filter in one step. It goes
no further than to the first broker for which the change makes no difference: then it makes none behind it either.

`FollowedFilters` keeps these entries, beside the subscriptions of a `TreeRouting`: they are `FurtherEntries` of it.
What a neighbour is told of them, and how entries of many clients are told as one, is in `told_follows.py`.

*Rules.*
1. An entry is told to a neighbour iff the neighbour has advertised something that the filter may want in some state; so
   whom it is told to does not depend on the state.
2. What a neighbour was told of times is what the entry here was loosened by: nobody behind us allows for less.
3. A new time of a link, or a new `dwell_s`, is told on; a new state only if what is possible here has changed.
4. Times of links have slack, so that they are rarely told again: `SLACK` more than measured, until the measured is
   more, or much less.
5. With flooding nobody is told anything.

*Paper.* [rebeca §5.1 to §5.3, Table 2]. *Symbols.* F_i → the entry from B_i at B_(i+1); δ_i → `delays[B_i]`.
*Departures.* The paper sends the places to add and to remove at each hop; of one client we send the state, and each
broker works out both. Of many clients, the places to add and to remove are sent (`FollowPlaces`).
"""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import msgspec

from godwit.broker.further_entries import TreeTables
from godwit.broker.message_checks import check_dwell, check_values, shown
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import Answer, Demand, Forward
from godwit.broker.tree import ENTRIES_MAX, HERE
from godwit.errors import BadValue, PeerFault
from godwit.filters.contexts import AUTHORS, CONTEXT_MAX, size_of
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes, values_of
from godwit.filters.filters import Filter
from godwit.filters.memory_sizes import EntrySizes
from godwit.filters.references import is_open
from godwit.filters.values import checked_value, distinct_sorted, identity
from godwit.mobility.followed_entry import Followed, FollowedState, names_of
from godwit.mobility.move_messages import Follow, FollowPlaces, FollowUpdate, Unfollow
from godwit.mobility.possible_values import Movements, State
from godwit.mobility.told_follows import UNITED_BYTES_MAX, FollowGroupState, Key, ToldFollows

__all__ = ["FollowedFilters", "FollowedFiltersState"]

SLACK = 1.25
SPENT_S_MAX = 1e9


class FollowedFiltersState(msgspec.Struct, frozen=True, tag=True):
    """The entries of one broker, and as what its neighbours know them."""

    version: ClassVar[int] = 2
    followed: dict[NodeId, dict[EntryId, FollowedState]]
    told: dict[NodeId, tuple[FollowGroupState, ...]]
    delays: dict[NodeId, float]
    ids_made: int


class FollowedFilters:
    """What one broker follows of clients' states. Implements `FurtherEntries`."""

    kind = "followed"
    messages: Collection[type] = (Follow, FollowUpdate, FollowPlaces, Unfollow)
    tree: TreeTables

    def __init__(self, movements: Movements, *, unites: bool = True) -> None:
        self.movements = movements
        self.unites = unites
        self.followed: dict[NodeId, dict[EntryId, Followed]] = {HERE: {}}  # by source
        self.told: dict[NodeId, ToldFollows] = {}  # by neighbour
        self.delays: dict[NodeId, float] = {}  # round trips, with slack
        self.ids_made = 0
        self._remote_sizes = EntrySizes()  # of what neighbours have told in `followed`

    def join(self, tree: TreeTables) -> None:
        self.tree = tree
        for neighbour in tree.neighbours:
            self.followed[neighbour], self.told[neighbour] = {}, self._nothing_told()

    def _nothing_told(self) -> ToldFollows:
        return ToldFollows(self.movements, self._new_id, unites=self.unites)

    def _new_id(self) -> EntryId:
        self.ids_made += 1
        return (f"{self.tree.maker}/follow", str(self.ids_made))

    # ------------------------------------------------------------ clients here

    def follow(self, id: EntryId, filter: Filter, state: State, dwell_s: float | None) -> list[Answer]:
        """A client here wants what an open filter matches in its state, which is this now."""
        before = self.followed[HERE].get(id)
        names = before.names if before is not None and before.filter == filter else names_of(filter)
        values = {name: state[name] for name in names if name in state}
        followed = Followed(filter, values, dwell_s, 0.0, None, 0.0, self.movements, before)
        answers = self._put(HERE, id, followed)
        return answers + self._without_ordinary(id)

    def _without_ordinary(self, id: EntryId) -> list[Answer]:
        """The filter that an open one has taken the place of goes, once that is told."""
        if self.tree.local_filter(id) is None:
            return []
        answers = self.tree.on_unsubscribe(id, HERE)
        self.tree.matcher.add(id, self.followed[HERE][id].loosened)
        return answers

    def has(self, id: EntryId) -> bool:
        return id in self.followed[HERE]

    def replace(self, id: EntryId, filter: Filter) -> list[Answer]:
        """An ordinary filter takes the place of an open one: it is told first."""
        self.tree.matcher.remove(id)
        answers = self.tree.on_subscribe(id, filter, HERE)
        del self.followed[HERE][id]
        return answers + self._untell_all(HERE, id)

    # ------------------------------------------------------------ entries

    def _put(self, source: NodeId, id: EntryId, entry: Followed) -> list[Answer]:
        """Let `entry` take the place of what was there, and tell the neighbours who must know."""
        before = self.followed[source].get(id)
        self.followed[source][id] = entry
        if source != HERE:
            self._remote_sizes.change(None if before is None else before.filter, entry.filter)
        key = _in_matcher(source, id)
        if before is not None:
            if before.loosened != entry.loosened:
                self.tree.matcher.replace(key, entry.loosened)
        elif source != HERE or self.tree.local_filter(id) is None:
            self.tree.matcher.add(key, entry.loosened)
        answers: list[Answer] = []
        for n in self.tree.neighbours:
            if n != source:
                answers += self._tell(n, [(source, id, entry)])
        return answers

    def _tell(
        self, neighbour: NodeId, entries: Iterable[tuple[NodeId, EntryId, Followed]], effort: Effort | None = None
    ) -> list[Answer]:
        """Tell one neighbour what it has to know of entries. (rules 1 to 3)"""
        wanted: list[tuple[Key, Followed]] = []
        gone: list[Key] = []
        for source, id, entry in entries:
            if self.tree.floods or not self.tree.concerns(entry.weakest, neighbour, effort):
                gone.append((source, id))
            else:
                wanted.append(((source, id), entry))
        told, link_s = self.told[neighbour], self.delays.get(neighbour)
        return [Forward(neighbour, message) for message in told.put_all(wanted, gone, link_s)]

    def remove(self, id: EntryId, source: NodeId) -> list[Answer]:
        """An entry is over."""
        gone = self.followed[source].pop(id)
        if source != HERE:
            self._remote_sizes.change(gone.filter, None)
        self.tree.matcher.remove(_in_matcher(source, id))
        return self._untell_all(source, id)

    def _untell_all(self, source: NodeId, id: EntryId) -> list[Answer]:
        return [
            Forward(n, message)
            for n in self.tree.neighbours
            for message in self.told[n].remove((source, id), self.delays.get(n))
        ]

    # ------------------------------------------------------------ advertisements

    def on_advertised(self, neighbour: NodeId, effort: Effort) -> list[Answer]:
        """`neighbour` advertises more, or less: what it is told follows."""
        return self._tell(neighbour, self._besides(neighbour), effort)

    def _besides(self, neighbour: NodeId) -> Iterable[tuple[NodeId, EntryId, Followed]]:
        """All entries that a neighbour has not told itself."""
        for source, entries in self.followed.items():
            if source != neighbour:
                for id, entry in entries.items():
                    yield source, id, entry

    # ------------------------------------------------------------ time

    def measure(self, neighbour: NodeId, round_trip_s: float) -> list[Answer]:
        """A link takes so long now: take it into account, if it makes a difference. (rule 4)"""
        known = self.delays.get(neighbour)
        if known is not None and round_trip_s <= known <= 2 * SLACK * round_trip_s:
            return []
        self.delays[neighbour] = delay_s = SLACK * round_trip_s
        answers: list[Answer] = []
        for id, old in list(self.followed[neighbour].items()):
            entry = Followed(old.filter, old.values, old.dwell_s, old.spent_s, old.link_s, delay_s, self.movements, old)
            answers += self._put(neighbour, id, entry)
        return answers + [Forward(neighbour, message) for message in self.told[neighbour].all_changed(delay_s)]

    # ------------------------------------------------------------ neighbours

    def on_new_neighbour(self, neighbour: NodeId) -> list[Answer]:
        self.followed[neighbour], self.told[neighbour] = {}, self._nothing_told()
        return self._tell(neighbour, self._besides(neighbour))

    def on_message(self, peer: NodeId, message: Any) -> list[Answer]:
        if type(message) is Follow:
            self._check_follow(peer, message)
            self.tree.refresh(peer, self.kind, message.id)
            return self._on_followed(peer, message.id, message.filter, message)
        self._check_known_follow(peer, message.id)
        if type(message) is FollowUpdate:
            _check_times(message)
            return self._on_followed(peer, message.id, self.followed[peer][message.id].filter, message)
        if type(message) is FollowPlaces:
            known = self.followed[peer][message.id]
            values = _with_places(known, message)
            told = FollowUpdate(message.id, values, known.dwell_s, known.spent_s, known.link_s)
            return self._on_followed(peer, message.id, known.filter, told)
        self.tree.refresh(peer, self.kind, message.id)
        return self.remove(message.id, peer)

    def demand_of(self, message: Any) -> Demand | None:
        """Sources hear of open filters once, as wanted in any state."""
        if type(message) in (FollowUpdate, FollowPlaces):
            return None
        return Demand(self.movements.weakest(message.filter)) if type(message) is Follow else Demand()

    def _on_followed(self, peer: NodeId, id: EntryId, filter: Filter, told: Follow | FollowUpdate) -> list[Answer]:
        before, delay_s = self.followed[peer].get(id), self.delays.get(peer)
        link_s = told.link_s
        entry = Followed(filter, told.values, told.dwell_s, told.spent_s, link_s, delay_s, self.movements, before)
        return self._put(peer, id, entry)

    def _check_follow(self, peer: NodeId, message: Follow) -> None:
        _check_times(message)
        if not is_open(message.filter) or self.movements.why_not(message.filter) is not None:
            raise PeerFault(f"a filter that cannot be followed: {shown(message.filter)}")
        entries = self.followed[peer]
        if message.id not in entries and len(entries) >= ENTRIES_MAX:
            raise PeerFault(f"more than {ENTRIES_MAX} entries from one neighbour")

    def _check_known_follow(self, peer: NodeId, id: EntryId) -> None:
        if id not in self.followed[peer]:
            raise PeerFault(f"changes or withdraws {shown(id)}, which it has never sent")

    def known_from(self, peer: NodeId) -> Iterable[EntryId]:
        return self.followed[peer]

    def told_to(self, peer: NodeId) -> list[Answer]:
        return [Forward(peer, message) for message in self.told[peer].all_again(self.delays.get(peer))]

    # ------------------------------------------------------------ looking at it

    def wanted(self) -> Iterable[Filter]:
        """A source hears late of a change: open filters are wanted in any state."""
        return (entry.weakest for entries in self.followed.values() for entry in entries.values())

    def sizes(self) -> dict[str, int]:
        followed = sum(map(len, self.followed.values()))
        told = sum(map(len, self.told.values()))
        return {"followed": followed, "told_follows": told}

    def remote_bytes(self) -> int:
        return self._remote_sizes.bytes

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> FollowedFiltersState:
        """The tables as they are now."""
        followed = {
            source: {id: entry.state() for id, entry in entries.items()} for source, entries in self.followed.items()
        }
        told = {n: each.snapshot() for n, each in self.told.items()}
        return FollowedFiltersState(followed, told, dict(self.delays), self.ids_made)

    def restore(self, state: FollowedFiltersState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.delays, self.ids_made = dict(state.delays), state.ids_made
        for source, entries in state.followed.items():
            delay_s = 0.0 if source == HERE else self.delays.get(source)
            self.followed[source] = {
                id: Followed(
                    each.filter,
                    dict(each.values),
                    each.dwell_s,
                    each.spent_s,
                    each.link_s,
                    delay_s,
                    self.movements,
                    None,
                )
                for id, each in entries.items()
            }
        told = (entries for source, entries in state.followed.items() if source != HERE)
        self._remote_sizes = EntrySizes(each.filter for entries in told for each in entries.values())
        for n, groups in state.told.items():
            self.told[n] = self._nothing_told()
            self.told[n].restore(groups, lambda key: self.followed[key[0]][key[1]])
        self.tree.matcher.add_many(
            (_in_matcher(source, id), entry.loosened)
            for source, entries in self.followed.items()
            for id, entry in entries.items()
        )


def _in_matcher(source: NodeId, id: EntryId) -> tuple[Any, ...]:
    """From a neighbour, an ordinary entry and an open one may have the same id for a moment."""
    return id if source == HERE else (source, (FollowedFilters.kind, *id))


def _check_times(message: Follow | FollowUpdate) -> None:
    _check_state(message.values)
    check_dwell(message.dwell_s)
    for spent_s in (message.spent_s, message.link_s):
        if spent_s is not None and not (type(spent_s) in (int, float) and 0 <= spent_s < SPENT_S_MAX):
            raise PeerFault(f"spent {shown(spent_s)} on the way: it must be seconds, 0 or more, or nothing")


def _check_state(values: Attributes) -> None:
    check_values(values)
    if len(values) > AUTHORS * CONTEXT_MAX:
        raise PeerFault(f"a state of {len(values)} attributes: at most {AUTHORS * CONTEXT_MAX} are allowed")
    if (size := size_of(values)) > UNITED_BYTES_MAX:
        raise PeerFault(f"a state of {size} bytes: at most {UNITED_BYTES_MAX} are allowed")


def _with_places(known: Followed, message: FollowPlaces) -> dict[str, Any]:
    """The state of an entry when some places are added to it and others are removed."""
    name = known.united
    if name is None or name not in known.values:
        raise PeerFault(f"adds places to {shown(message.id)}, which has none")
    for place in (*message.added, *message.removed):
        try:
            checked_value(place)
        except BadValue as error:
            raise PeerFault(f"a place of {shown(message.id)}: {error}") from None
    places = {identity(place): place for place in values_of(known.values[name])}
    for place in message.removed:
        if places.pop(identity(place), None) is None:
            raise PeerFault(f"removes the place {shown(place)} from {shown(message.id)}, which is not there")
    for place in message.added:
        places[identity(place)] = place
    if not places:
        raise PeerFault(f"removes all places from {shown(message.id)}")
    left = distinct_sorted(places.values())
    values = {name: left[0] if len(left) == 1 else left}
    _check_state(values)
    return values
