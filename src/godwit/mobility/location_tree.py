"""Filters on clients' own states in a tree: each broker allows for where the client may be by then.

*Theory.* An open filter, such as `location = myloc`, is not told to neighbours like others. A `Follow` carries it as it
stands, with the client's state and with the time that has been spent on the way. Each broker adds the round trip of the
link that it came over, as either end has measured it, whichever is more: the one end times its news, the other its
events. It loosens the filter accordingly (`possible_values.py`) and puts that into its matcher, and so events are
routed as ever. The further from the client, the older the news and the more is possible: filters grow towards the
publishers, F_1 within F_2 within F_3. [rebeca §5.1]

When the state changes, a `FollowUpdate` follows the same way and each broker replaces the filter in one step. It goes
no further than to the first broker for which the change makes no difference: then it makes none behind it either.

`FollowedFilters` keeps these entries, beside the subscriptions of a `TreeRouting`: they are `FurtherEntries` of it.

*Rules.*
1. An entry is told to a neighbour iff the neighbour has advertised something that the filter may want in some state; so
   whom it is told to does not depend on the state.
2. What a neighbour was told of times is what the entry here was loosened by: nobody behind us allows for less.
3. A new time of a link, or a new `dwell_s`, is told on; a new state only if what is possible here has changed.
4. Times of links have slack, so that they are rarely told again: `SLACK` more than measured, until the measured is
   more, or much less.
5. With flooding nobody is told anything.

*Paper.* [rebeca §5.1 to §5.3, Table 2]. *Symbols.* F_i → the entry from B_i at B_(i+1); δ_i → `delays[B_i]`.
*Departures.* These entries are not reduced: no two clients move alike. Ordinary ones are as before. The paper sends the
places to add and to remove; we send the state, and each broker works out both.
"""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import msgspec

from godwit.broker.further_entries import TreeTables
from godwit.broker.message_checks import check_dwell, check_size, check_values, shown
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import Answer, Demand, Forward
from godwit.broker.tree import ENTRIES_MAX, HERE
from godwit.errors import PeerFault
from godwit.filters.contexts import AUTHORS
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.references import is_open, references_of
from godwit.mobility.move_messages import Follow, FollowUpdate, Unfollow
from godwit.mobility.possible_values import Movements, Possibilities, State

__all__ = ["Followed", "FollowedFilters", "FollowedFiltersState", "FollowedState"]

SLACK = 1.25
SPENT_S_MAX = 1e9
Key = tuple[NodeId, EntryId]


class FollowedState(msgspec.Struct, frozen=True):
    """An open filter from one source. What it comes to here follows from it."""

    filter: Filter
    values: Attributes
    dwell_s: float | None
    spent_s: float | None
    link_s: float | None


class FollowedFiltersState(msgspec.Struct, frozen=True, tag=True):
    """The entries of one broker, and under which ids its neighbours know them."""

    version: ClassVar[int] = 1
    followed: dict[NodeId, dict[EntryId, FollowedState]]
    told: dict[NodeId, dict[Key, EntryId]]
    delays: dict[NodeId, float]
    ids_made: int


class Followed:
    """An open filter from one source, and what it comes to here."""

    __slots__ = (
        "dwell_s",
        "elapsed_s",
        "filter",
        "link_s",
        "loosened",
        "names",
        "possible",
        "spent_s",
        "values",
        "weakest",
    )

    def __init__(
        self,
        filter: Filter,
        values: dict[str, Any],
        dwell_s: float | None,
        spent_s: float | None,
        link_s: float | None,  # as the other end says
        delay_s: float | None,  # and as we do
        movements: Movements,
        before: "Followed | None",
    ) -> None:
        self.filter = filter
        self.values = values
        self.dwell_s = dwell_s
        self.spent_s = spent_s
        self.link_s = link_s
        measured = [seconds for seconds in (link_s, delay_s) if seconds is not None]
        self.elapsed_s = None if spent_s is None or not measured else spent_s + max(measured)
        same = before is not None and before.filter == filter
        self.names: tuple[str, ...] = before.names if before is not None and same else _names(filter)
        self.possible: Possibilities = movements.possible(filter, values, self.elapsed_s, dwell_s, self.names)
        self.weakest: Filter = before.weakest if before is not None and same else movements.weakest(filter)
        self.loosened: Filter = (
            before.loosened
            if before is not None and same and before.possible == self.possible
            else movements.loosened(filter, self.possible)
        )

    def follow(self, id: EntryId, link_s: float | None) -> Follow:
        """As it is told first."""
        return Follow(id, self.filter, self.values, self.dwell_s, self.elapsed_s, link_s)

    def changed(self, id: EntryId, link_s: float | None) -> FollowUpdate:
        """As it is told then."""
        return FollowUpdate(id, self.values, self.dwell_s, self.elapsed_s, link_s)


class FollowedFilters:
    """What one broker follows of clients' states. Implements `FurtherEntries`."""

    kind = "followed"
    messages: Collection[type] = (Follow, FollowUpdate, Unfollow)
    tree: TreeTables

    def __init__(self, movements: Movements) -> None:
        self.movements = movements
        self.followed: dict[NodeId, dict[EntryId, Followed]] = {HERE: {}}  # by source
        self.told: dict[NodeId, dict[Key, EntryId]] = {}  # by neighbour, under which id
        self.taken: dict[NodeId, dict[EntryId, None]] = {}  # those ids
        self.delays: dict[NodeId, float] = {}  # round trips, with slack
        self.ids_made = 0

    def join(self, tree: TreeTables) -> None:
        self.tree = tree
        for neighbour in tree.neighbours:
            self.followed[neighbour], self.told[neighbour], self.taken[neighbour] = {}, {}, {}

    # ------------------------------------------------------------ clients here

    def follow(self, id: EntryId, filter: Filter, state: State, dwell_s: float | None) -> list[Answer]:
        """A client here wants what an open filter matches in its state, which is this now."""
        before = self.followed[HERE].get(id)
        names = before.names if before is not None and before.filter == filter else _names(filter)
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
        key = _in_matcher(source, id)
        if before is not None:
            if before.loosened != entry.loosened:
                self.tree.matcher.replace(key, entry.loosened)
        elif source != HERE or self.tree.local_filter(id) is None:
            self.tree.matcher.add(key, entry.loosened)
        answers: list[Answer] = []
        for n in self.tree.neighbours:
            if n != source:
                self._tell(n, source, id, entry, before, answers)
        return answers

    def _tell(
        self,
        neighbour: NodeId,
        source: NodeId,
        id: EntryId,
        entry: Followed,
        before: Followed | None,
        answers: list[Answer],
        effort: Effort | None = None,
    ) -> None:
        """Tell one neighbour what it has to know of an entry that was `before`. (rules 1 to 3)"""
        told = self.told[neighbour]
        name = told.get((source, id))
        if self.tree.floods or not self.tree.concerns(entry.weakest, neighbour, effort):
            self._untell(neighbour, source, id, answers)
        elif name is None:
            name = told[source, id] = self._free_id(id, self.taken[neighbour])
            answers.append(_forward(neighbour, entry.follow(name, self.delays.get(neighbour))))
        elif before is None or before.filter != entry.filter:
            answers.append(_forward(neighbour, entry.follow(name, self.delays.get(neighbour))))
        elif (before.possible, before.dwell_s, before.elapsed_s) != (entry.possible, entry.dwell_s, entry.elapsed_s):
            answers.append(_forward(neighbour, entry.changed(name, self.delays.get(neighbour))))

    def _free_id(self, id: EntryId, taken: dict[EntryId, None]) -> EntryId:
        """While a client moves from broker to broker, two sources follow it under one name."""
        while id in taken:
            self.ids_made += 1
            id = (f"{self.tree.maker}/follow", str(self.ids_made))
        taken[id] = None
        return id

    def remove(self, id: EntryId, source: NodeId) -> list[Answer]:
        """An entry is over."""
        del self.followed[source][id]
        self.tree.matcher.remove(_in_matcher(source, id))
        return self._untell_all(source, id)

    def _untell_all(self, source: NodeId, id: EntryId) -> list[Answer]:
        answers: list[Answer] = []
        for n in self.tree.neighbours:
            self._untell(n, source, id, answers)
        return answers

    def _untell(self, neighbour: NodeId, source: NodeId, id: EntryId, answers: list[Answer]) -> None:
        name = self.told[neighbour].pop((source, id), None)
        if name is not None:
            del self.taken[neighbour][name]
            answers.append(_forward(neighbour, Unfollow(name)))

    # ------------------------------------------------------------ advertisements

    def on_advertised(self, neighbour: NodeId, effort: Effort) -> list[Answer]:
        """`neighbour` advertises more, or less: what it is told follows."""
        answers: list[Answer] = []
        for source, entries in self.followed.items():
            if source != neighbour:
                for id, entry in entries.items():
                    self._tell(neighbour, source, id, entry, entry, answers, effort)
        return answers

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
        for (source, id), name in self.told[neighbour].items():
            answers.append(_forward(neighbour, self.followed[source][id].changed(name, delay_s)))
        return answers

    # ------------------------------------------------------------ neighbours

    def on_new_neighbour(self, neighbour: NodeId) -> list[Answer]:
        self.followed[neighbour], self.told[neighbour], self.taken[neighbour] = {}, {}, {}
        answers: list[Answer] = []
        for source, entries in self.followed.items():
            for id, entry in entries.items():
                self._tell(neighbour, source, id, entry, None, answers)
        return answers

    def on_message(self, peer: NodeId, message: Any) -> list[Answer]:
        if type(message) is Follow:
            self._check_follow(peer, message)
            self.tree.refresh(peer, self.kind, message.id)
            return self._on_followed(peer, message.id, message.filter, message)
        self._check_known_follow(peer, message.id)
        if type(message) is FollowUpdate:
            _check_times(message)
            return self._on_followed(peer, message.id, self.followed[peer][message.id].filter, message)
        self.tree.refresh(peer, self.kind, message.id)
        return self.remove(message.id, peer)

    def demand_of(self, message: Any) -> Demand | None:
        """Sources hear of open filters once, as wanted in any state."""
        if type(message) is FollowUpdate:
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
            raise PeerFault(f"changes or takes back {shown(id)}, which it has never told")

    def known_from(self, peer: NodeId) -> Iterable[EntryId]:
        return self.followed[peer]

    def told_to(self, peer: NodeId) -> list[Answer]:
        delay_s = self.delays.get(peer)
        return [
            _forward(peer, self.followed[source][id].follow(name, delay_s))
            for (source, id), name in self.told[peer].items()
        ]

    # ------------------------------------------------------------ looking at it

    def wanted(self) -> Iterable[Filter]:
        """A source hears late of a change: open filters are wanted in any state."""
        return (entry.weakest for entries in self.followed.values() for entry in entries.values())

    def sizes(self) -> dict[str, int]:
        followed = sum(map(len, self.followed.values()))
        told = sum(map(len, self.told.values()))
        return {"followed": followed, "told_follows": told}

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> FollowedFiltersState:
        """The tables as they are now."""
        followed = {
            source: {id: _followed_state(entry) for id, entry in entries.items()}
            for source, entries in self.followed.items()
        }
        told = {n: dict(names) for n, names in self.told.items()}
        return FollowedFiltersState(followed, told, dict(self.delays), self.ids_made)

    def restore(self, state: FollowedFiltersState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.told = {n: dict(names) for n, names in state.told.items()}
        self.taken = {n: dict.fromkeys(names.values()) for n, names in state.told.items()}
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
        self.tree.matcher.add_many(
            (_in_matcher(source, id), entry.loosened)
            for source, entries in self.followed.items()
            for id, entry in entries.items()
        )


def _names(filter: Filter) -> tuple[str, ...]:
    return tuple(reference.name for reference in references_of(filter))


def _followed_state(entry: Followed) -> FollowedState:
    return FollowedState(entry.filter, dict(entry.values), entry.dwell_s, entry.spent_s, entry.link_s)


def _in_matcher(source: NodeId, id: EntryId) -> tuple[Any, ...]:
    """From a neighbour, an ordinary entry and an open one may have the same id for a moment."""
    return id if source == HERE else (source, (FollowedFilters.kind, *id))


def _check_times(message: Follow | FollowUpdate) -> None:
    check_values(message.values)
    check_size(message.values, authors=AUTHORS)
    check_dwell(message.dwell_s)
    for spent_s in (message.spent_s, message.link_s):
        if spent_s is not None and not (type(spent_s) in (int, float) and 0 <= spent_s < SPENT_S_MAX):
            raise PeerFault(f"spent {shown(spent_s)} on the way: it must be seconds, 0 or more, or nothing")


def _forward(peer: NodeId, message: Any) -> Answer:
    return Forward(peer, message)
