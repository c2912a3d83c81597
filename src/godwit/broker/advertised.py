"""Advertisements in the graph family: a subscription goes only to brokers that advertise what it may match.

*Theory.* Every broker knows what all brokers' clients advertise. A subscription is told to those brokers alone that
advertise something which it intersects; nobody else publishes anything that it matches. An advertisement that appears
anywhere *attracts* the subscriptions that it intersects; when one goes, what it alone had attracted goes too. So a
publisher that moves builds and tears down its part of the tables, as it does in a tree [pubmob §3], over any overlay.
The alternative that the paper names and rejects, to flood subscriptions instead [pubmob §3.1], is `gsf.py`.

*Rules.*
1. Equal advertisements of clients here are one, which has a number. None is used twice in one life of a broker.
2. Subscriptions with equal filters are one class. `reach` of a class is whom it has been told to: all of it, or
   nothing. After each step it is D, the brokers that advertise something which the filter intersects.
3. *No gap.* A broker that has added an advertisement awaits `SubscriptionsComplete` from every other. Until then an
   event that this advertisement alone announces goes to those awaited, too. An event that no advertisement here
   announces (its publisher has just left, or never advertised) goes to everybody. So the modes of publishers differ in
   what their moves cost and in how long events go to brokers needlessly, and in no delivery.
4. What another broker holds of ours is exactly what we told it and did not take back, in the order of the channel.
   `DropSubscriptions` takes back a class in one message.
5. Numbers count within one life of a broker. Messages about an advertisement of another life are ignored. With a new
   life of a broker all that was told to it and by it is forgotten, and all our advertisements await it again; so they
   do whenever it tells everything from the start.
6. Nothing that another broker says of an unknown advertisement or class does any harm.
7. Where a question about two filters is too large, they intersect: a subscription is told to one broker too many.

*Moving.* The argument of `spcf.py`, with advertisements in the place of contexts: let X publish after it has taken N's
`Flush` an event that its advertisement k announces. If N's `SubscriptionsComplete` for k has not come, X sends N the
event. If it has come, N knew k when it sent that; so what N had subscribed to before, X heard of before it, and what N
has subscribed to since, X heard of before the `Flush`.

*Paper.* [pubmob §2] "Upon receiving a subscription, a broker forwards it only to neighbours that previously sent
advertisements that intersect the subscription"; [pubmob §3.1] "They can be used with any type of distributed pub/sub
system"; [pubmob §4.1] "our algorithms work in general graph topologies".

*Symbols.* inAds → `others[broker].filters`; outAds → `own`; outSubs → `FilterClass.reach`; inSubs → `remote` of the
graph family.

*Departures.*
1. The paper's tables are by neighbour and a new tree grafts onto an old one where their paths meet. Here they are by
   home broker, so that they stay when paths change, and there is nothing to graft onto: DELAYED saves the way back of
   subscriptions that come again to the same broker, and no flood of advertisements.
2. `SubscriptionsComplete` and rule 3 close the gap that the paper measures.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from godwit.broker.effects import Trace
from godwit.broker.forwarding_strategy import GraphTables
from godwit.broker.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    Carried,
    DropSubscriptions,
    EntryId,
    NodeId,
    Subscribe,
    SubscriptionsComplete,
    Unsubscribe,
)
from godwit.broker.packet_checks import ADVERTISEMENT_CHECKS, Further
from godwit.broker.reductions import intersects
from godwit.broker.routing import Answer
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.memory_sizes import EntrySizes
from godwit.matching.index_matcher import IndexMatcher
from godwit.trace import Record

__all__ = ["AdvertisedState", "AdvertisementForwarding"]

ADVERTISEMENTS_HELD_MAX = 65_536  # of another broker; one more is not answered, so its events come to us all the same
INTERSECTING_EFFORT_MAX = 200_000  # steps, for all that one message or request asks


class OwnAdvertisementState(msgspec.Struct, frozen=True):
    """An advertisement here, who has made it, and who has not answered it."""

    number: int
    filter: Filter
    ids: tuple[EntryId, ...]
    awaited: tuple[NodeId, ...]


class OtherAdvertiserState(msgspec.Struct, frozen=True):
    """What another broker advertises."""

    filters: dict[int, Filter]
    stale: tuple[int, ...]


class FilterClassState(msgspec.Struct, frozen=True):
    """Subscriptions here with one filter, and whom they were told to."""

    filter: Filter
    ids: tuple[EntryId, ...]
    reach: tuple[NodeId, ...]


class AdvertisedState(msgspec.Struct, frozen=True, tag=True):
    """The advertisements here and elsewhere, and whom the subscriptions here were told to."""

    version: ClassVar[int] = 1
    last: int
    own: tuple[OwnAdvertisementState, ...]
    others: dict[NodeId, OtherAdvertiserState]
    classes: tuple[FilterClassState, ...]


class OtherAdvertiser:
    """What another broker advertises, and which subscriptions it has told, by filter."""

    __slots__ = ("filters", "stale", "told")

    def __init__(self) -> None:
        self.filters: dict[int, Filter] = {}  # by number
        self.stale: dict[int, None] = {}  # not told again yet, while it tells everything
        self.told: dict[Filter, dict[EntryId, None]] = {}

    def intersects(self, filter: Filter, effort: Effort) -> bool:
        """Whether it advertises something that the filter may match."""
        return any(intersects(each, filter, effort) for each in self.filters.values())


class OwnAdvertisement:
    """What clients here advertise with one filter."""

    __slots__ = ("awaited", "filter", "ids", "number")

    def __init__(self, number: int, filter: Filter) -> None:
        self.number, self.filter = number, filter
        self.ids: dict[EntryId, None] = {}
        self.awaited: dict[NodeId, None] = {}  # who has not told all that intersects it


class FilterClass:
    """Subscriptions here with one filter."""

    __slots__ = ("ids", "reach")

    def __init__(self) -> None:
        self.ids: dict[EntryId, None] = {}
        self.reach: dict[NodeId, None] = {}


class AdvertisementForwarding:
    """Forwarding by advertisements at one broker. Implements `Forwarding`."""

    checks: Further = ADVERTISEMENT_CHECKS
    tables: GraphTables

    def __init__(self) -> None:
        self.last = 0  # the last number used
        self.own: dict[Filter, OwnAdvertisement] = {}
        self.own_of: dict[EntryId, Filter] = {}
        self.others: dict[NodeId, OtherAdvertiser] = {}
        self._other_sizes = EntrySizes()  # of the advertisements in `others`
        self.classes: dict[Filter, FilterClass] = {}  # of the subscriptions here
        self.class_of: dict[EntryId, Filter] = {}
        self._index = IndexMatcher()  # of `own`, by filter's number
        self._by_number: dict[int, OwnAdvertisement] = {}

    def join(self, tables: GraphTables) -> None:
        self.tables = tables

    # ------------------------------------------------------------ subscriptions here

    def on_subscribe(self, id: EntryId, filter: Filter) -> list[Answer]:
        """Send it towards advertisements that intersect it. [pubmob Fig. 3 l.5]"""
        known = self._leave_class(id) if id in self.class_of else []
        group = self._class(filter)
        group.ids[id] = None
        self.class_of[id] = filter
        answers = self.tables.tell(sorted(group.reach), Subscribe(id, filter))
        return answers + self.tables.tell([name for name in known if name not in group.reach], Unsubscribe(id))

    def on_unsubscribe(self, id: EntryId) -> list[Answer]:
        return self.tables.tell(self._leave_class(id), Unsubscribe(id))

    def _class(self, filter: Filter) -> FilterClass:
        """The class of a filter; a new one reaches D, and nobody of D holds anything of it yet."""
        group = self.classes.get(filter)
        if group is None:
            group = self.classes[filter] = FilterClass()
            effort = Effort(INTERSECTING_EFFORT_MAX)
            group.reach = {name: None for name in sorted(self.others) if self.others[name].intersects(filter, effort)}
        return group

    def _leave_class(self, id: EntryId) -> list[NodeId]:
        """Take a subscription out of its class; whom it was told to."""
        filter = self.class_of.pop(id)
        group = self.classes[filter]
        del group.ids[id]
        if not group.ids:
            del self.classes[filter]
        return sorted(group.reach)

    # ------------------------------------------------------------ advertisements here

    def on_advertise(self, id: EntryId, filter: Filter) -> list[Answer]:
        """Store it and tell everyone, unless an equal one was told. [pubmob Fig. 2 l.1-9]"""
        if self.own_of.get(id) == filter:
            return []
        answers: list[Answer] = []
        own = self.own.get(filter)
        if own is None:
            everyone = sorted(self.tables.incarnations)
            self.last += 1
            own = self.own[filter] = self._by_number[self.last] = OwnAdvertisement(self.last, filter)
            self._index.add(own.number, filter)
            own.awaited = dict.fromkeys(everyone)  # rule 3
            answers = self.tables.tell(everyone, AdvertisementAdded(self.tables.incarnation, own.number, filter))
        own.ids[id] = None
        answers += self._withdraw(id)  # what is new is told first, so that what both attract stays
        self.own_of[id] = filter
        return answers

    def on_unadvertise(self, id: EntryId) -> list[Answer]:
        """Tear its tree down, unless somebody else advertises the same. [pubmob §3]"""
        return self._withdraw(id)

    def _withdraw(self, id: EntryId) -> list[Answer]:
        filter = self.own_of.pop(id, None)
        if filter is None:
            return []
        own = self.own[filter]
        del own.ids[id]
        if own.ids:
            return []
        del self.own[filter], self._by_number[own.number]
        self._index.remove(own.number)
        return self.tables.tell(sorted(self.tables.incarnations), AdvertisementRemoved(own.number))

    def set_context(self, client: NodeId, context: Attributes | None) -> list[Answer]:
        """A context is matched where an event is delivered, and nowhere else."""
        return []

    # ------------------------------------------------------------ events

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        """The brokers with a matching subscription, and those that rule 3 adds."""
        numbers: list[Any] = self._index.match(event) if self.own else []
        if not numbers:
            return set(self.tables.incarnations)
        homes = {home for home, _ in found}
        first, *more = (self._by_number[number].awaited for number in numbers)
        homes.update(name for name in first if all(name in awaited for awaited in more))
        return homes

    def knows_all(self, event: Event) -> bool:
        numbers: list[Any] = self._index.match(event) if self.own else []
        return any(not self._by_number[number].awaited for number in numbers)

    def meant(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> list[tuple[NodeId, NodeId]] | None:
        """All: whom an event is meant for is known only at the brokers that it goes to."""
        return None

    def settle_ways(self) -> list[Answer]:
        """Events are matched at the source, so that ways do not matter."""
        return []

    def is_awaiting(self) -> bool:
        return any(own.awaited for own in self.own.values())

    def is_settled(self) -> bool:
        return not self.is_awaiting() and not any(other.stale for other in self.others.values())

    def sizes(self) -> dict[str, int]:
        return {
            "advertised": len(self.own),
            "advertised_elsewhere": sum(len(other.filters) for other in self.others.values()),
            "classes": len(self.classes),
        }

    def remote_bytes(self) -> int:
        return self._other_sizes.bytes

    # ------------------------------------------------------------ what other brokers say

    def on_message(self, source: NodeId, message: Any) -> list[Answer]:
        other = self.others[source]
        match message:
            case AdvertisementAdded():
                return self._on_added(source, other, message)
            case AdvertisementRemoved(number=number):
                return self._remove(source, other, (number,))
            case SubscriptionsComplete(incarnation=incarnation, number=number):
                own = self._by_number.get(number)
                if own is not None and incarnation == self.tables.incarnation:
                    own.awaited.pop(source, None)
            case DropSubscriptions(filter=filter):
                for id in list(other.told.get(filter, ())):
                    self.tables.remove(source, id)
        return []

    def _on_added(self, source: NodeId, other: OtherAdvertiser, message: AdvertisementAdded) -> list[Answer]:
        """Send matching subscriptions back towards the advertisement. [pubmob Fig. 2 l.11-16]"""
        number, filter = message.number, message.filter
        if message.incarnation != self.tables.incarnations[source]:  # rule 5
            return []
        if number not in other.filters and len(other.filters) >= ADVERTISEMENTS_HELD_MAX:
            return [Trace(Record("refused", source, "AdvertisementAdded", number=number, detail="too many"))]
        other.stale.pop(number, None)
        self._other_sizes.change(other.filters.get(number), filter)
        other.filters[number] = filter
        answers: list[Answer] = []
        effort = Effort(INTERSECTING_EFFORT_MAX)
        for wanted, group in self.classes.items():
            if source not in group.reach and intersects(filter, wanted, effort):
                group.reach[source] = None
                for id in group.ids:
                    answers += self.tables.tell((source,), Subscribe(id, wanted))
        return answers + self.tables.tell((source,), SubscriptionsComplete(message.incarnation, number))

    def _remove(self, source: NodeId, other: OtherAdvertiser, numbers: Iterable[int]) -> list[Answer]:
        """Advertisements of a broker are gone: take back what intersects none that is left. [pubmob §3]"""
        gone = [other.filters.pop(number) for number in numbers if number in other.filters]
        for filter in gone:
            self._other_sizes.change(filter, None)
        for number in numbers:
            other.stale.pop(number, None)
        answers: list[Answer] = []
        effort = Effort(INTERSECTING_EFFORT_MAX)
        for wanted, group in self.classes.items() if gone else ():
            if source in group.reach and not other.intersects(wanted, effort):
                del group.reach[source]
                answers += self.tables.tell((source,), DropSubscriptions(wanted))
        return answers

    def on_remote(self, source: NodeId, id: EntryId, before: Filter | None, after: Filter | None) -> None:
        told = self.others[source].told
        if before is not None:
            ids = told[before]
            del ids[id]
            if not ids:
                del told[before]
        if after is not None:
            told.setdefault(after, {})[id] = None

    # ------------------------------------------------------------ lives

    def on_meet(self, broker: NodeId) -> None:  # rule 5
        other = self.others.setdefault(broker, OtherAdvertiser())
        for filter in other.filters.values():
            self._other_sizes.change(filter, None)
        other.filters, other.stale = {}, {}
        for group in self.classes.values():
            group.reach.pop(broker, None)
        self._await(broker)

    def on_start(self, source: NodeId) -> None:  # rule 5
        other = self.others[source]
        other.stale = dict.fromkeys(other.filters)
        self._await(source)

    def on_synced(self, source: NodeId) -> list[Answer]:
        other = self.others[source]
        return self._remove(source, other, tuple(other.stale))

    def _await(self, broker: NodeId) -> None:
        for own in self.own.values():
            own.awaited[broker] = None

    def everything(self, broker: NodeId) -> Iterable[Carried]:
        """Advertisements, subscriptions by D, and that this is all for the other's advertisements."""
        incarnation = self.tables.incarnation
        yield from (AdvertisementAdded(incarnation, own.number, own.filter) for own in self.own.values())
        for filter, group in self.classes.items():
            if broker in group.reach:
                yield from (Subscribe(id, filter) for id in group.ids)
        if broker in self.others:
            theirs = self.tables.incarnations[broker]
            yield from (SubscriptionsComplete(theirs, number) for number in self.others[broker].filters)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> AdvertisedState:
        """The tables as they are now."""
        return AdvertisedState(
            self.last,
            tuple(
                OwnAdvertisementState(own.number, own.filter, tuple(own.ids), tuple(own.awaited))
                for own in self.own.values()
            ),
            {name: OtherAdvertiserState(dict(each.filters), tuple(each.stale)) for name, each in self.others.items()},
            tuple(
                FilterClassState(filter, tuple(group.ids), tuple(group.reach)) for filter, group in self.classes.items()
            ),
        )

    def restore(self, state: AdvertisedState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.last = state.last
        for each in state.own:
            own = self.own[each.filter] = self._by_number[each.number] = OwnAdvertisement(each.number, each.filter)
            own.ids, own.awaited = dict.fromkeys(each.ids), dict.fromkeys(each.awaited)
            self.own_of.update(dict.fromkeys(each.ids, each.filter))
            self._index.add(each.number, each.filter)
        for name, other in state.others.items():
            kept = self.others[name] = OtherAdvertiser()
            kept.filters, kept.stale = dict(other.filters), dict.fromkeys(other.stale)
            for id, filter in self.tables.remote.get(name, {}).items():
                kept.told.setdefault(filter, {})[id] = None
        self._other_sizes = EntrySizes(each for other in state.others.values() for each in other.filters.values())
        for part in state.classes:
            group = self.classes[part.filter] = FilterClass()
            group.ids, group.reach = dict.fromkeys(part.ids), dict.fromkeys(part.reach)
            self.class_of.update(dict.fromkeys(part.ids, part.filter))
