"""The ledger: who asked for what and when, who said what, who got what. The checkers judge by it alone.

*Theory.* The law is that every strategy delivers what flooding with filtering at the edge delivers. A change of a
subscription takes its time to spread, and what is published meanwhile may reach the client or not, with flooding as
with any strategy. So each subscription is a list of *versions*: a filter, when it was asked for, and when it had
*settled*, that is the first moment after the broker's answer at which no message of control was under way anywhere. (A
filter that another covers sends no message of its own, and counts on one that may still be under way: so the whole
network must be quiet.) With each version goes which events were *in flight* when it was asked for.

An event is **owed** to a subscription if its version that had settled when the event entered the network matches it,
and so does every later version that was asked for before the event can have been delivered: those asked for before it
entered, and those in whose time it was still in flight. A replaced filter therefore owes what both filters match:
replacing has no gap.

A client's *context* is such a list of versions, too: it matters for events that say whom they mean (`Event.to`). One is
owed only if the client was meant all the time, in the same sense, and permitted if it was at some moment. What filters
ask of a *sender* needs nothing of this: its context is in the event, as of when it was published.

*Rules.*
1. Time here is the simulator's, never a node's clock.
2. The ledger learns of events from publishers, of their entry from the border broker's record, of deliveries from
   clients, and of nothing from routing.
3. An event is in the ledger as it enters the network: with its sender's context, as far as the server does not know
   better.
"""

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable
from typing import Generic, Literal, TypeVar

from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.mobility.modes import MODES, Mode

__all__ = ["DeclaredContext", "EventHistory", "EventId", "Ledger", "RequestHistory", "Version"]

EventId = tuple[str, int]
Promise = Literal["complete", "unique", "ordered"]

NEVER = float("inf")
RELOCATE = MODES["relocate"]


class DeclaredContext:
    """A client's context from a moment on. No two are equal: each is known by itself."""

    __slots__ = ("context",)

    def __init__(self, context: Attributes) -> None:
        self.context = context


T = TypeVar("T")


class Version(Generic[T]):
    """What a subscription or advertisement asks for from a moment on; `filter` is None when it asks for nothing.

    Of a context, `filter` is the context itself.

    `over_at` is when what was asked for before is over, for events published from then on: when this version has
    settled, unless it is known better. (A subscription expires by its border broker's clock, at one moment.)
    """

    __slots__ = ("_over_at", "asked_at", "filter", "in_flight", "settled_at")

    def __init__(
        self, filter: T | None, asked_at: float, in_flight: Iterable[EventId], *, over_at: float | None = None
    ) -> None:
        self.filter: T | None = filter
        self.asked_at = asked_at
        self.settled_at = NEVER
        self.in_flight = frozenset(in_flight)
        self._over_at = over_at

    @property
    def over_at(self) -> float:
        return self.settled_at if self._over_at is None else self._over_at


class RequestHistory(Generic[T]):
    """The versions of one subscription, advertisement or context, oldest first."""

    __slots__ = ("client", "is_down", "name", "versions")

    def __init__(self, client: str, name: str) -> None:
        self.client = client
        self.name = name
        self.versions: list[Version[T]] = []
        self.is_down = False  # its broker has lost it, and the client has not yet said it again

    @property
    def filter(self) -> T | None:
        """What the client asks for now, as far as the client knows."""
        if self.is_down:
            return self.versions[-2].filter
        return self.versions[-1].filter if self.versions else None

    def revive(self, since: float, now: float, in_flight: frozenset[EventId]) -> None:
        """A broker has lost what it heard since then: what it knew of this before may be in force again.

        That is one of the versions that had not settled by then, or the one before these. The client's own comes last.
        """
        if self.is_down or not self.versions:
            return
        known = max((at for at, version in enumerate(self.versions) if version.settled_at <= since), default=0)
        current = self.versions[-1].filter
        earlier = dict.fromkeys(version.filter for version in self.versions[known:])
        earlier.pop(current, None)
        for filter in (*earlier, current) if earlier else ():
            self.versions.append(Version(filter, now, in_flight, over_at=NEVER))

    def owes(self, fact: "EventHistory", matching: Container[T | None]) -> bool:
        """Whether the event must be delivered because of this subscription."""
        counting = self._counting(fact)
        return bool(counting) and all(version.filter in matching for version in counting)

    def is_steady(self, fact: "EventHistory") -> bool:
        """Whether just one version counts for the event."""
        return len(self._counting(fact)) == 1

    def _counting(self, fact: "EventHistory") -> "list[Version[T]]":
        """The version that had settled when the event entered, and later ones asked for before it can have come."""
        start = None
        for at, version in enumerate(self.versions):
            if version.settled_at <= fact.entered_at:
                start = at
        if start is None:
            return []
        found = [self.versions[start]]
        for version in self.versions[start + 1 :]:
            if version.asked_at > fact.entered_at and fact.id not in version.in_flight:
                break  # by then it was delivered
            found.append(version)
        return found

    def permits(self, fact: "EventHistory", delivered_at: float, matching: Container[T | None]) -> bool:
        """Whether a delivery for this subscription is right: some version that was not over matches the event.

        A version that was asked for when the event was already delivered everywhere came too late for it.
        """
        over = 0
        for at, version in enumerate(self.versions):
            if version.over_at <= fact.published_at:
                over = at
        return any(
            version.filter in matching
            and version.asked_at <= delivered_at
            and (version.asked_at <= max(fact.entered_at, fact.entered_again_at) or fact.id in version.in_flight)
            for version in self.versions[over:]
        )


class EventHistory:
    """What is known of one event."""

    __slots__ = ("entered_again_at", "entered_at", "event", "id", "published_at")

    def __init__(self, event: Event, published_at: float) -> None:
        self.event = event
        self.id = event.id
        self.published_at = published_at
        self.entered_at = NEVER  # when a border broker took it
        self.entered_again_at = 0.0  # the last time, when its publisher had to say it again


class Ledger:
    """All that happened, as far as the laws are about it."""

    def __init__(self) -> None:
        self.subscriptions: dict[tuple[str, str], RequestHistory[Filter]] = {}
        self.advertisements: dict[tuple[str, str], RequestHistory[Filter]] = {}
        self.contexts: dict[str, RequestHistory[DeclaredContext]] = {}  # by client; who is not named here has none
        self.asserted: dict[str, Attributes] = {}  # by client, what its server says of it, whatever it says itself
        self.facts: dict[EventId, EventHistory] = {}
        self.deliveries: dict[str, list[tuple[float, EventId, tuple[str, ...]]]] = {}
        self.unsettled: list[tuple[str, Version[Filter] | Version[DeclaredContext]]] = []  # with the client that asked
        self.gone: dict[tuple[str, EventId], str] = {}  # client and event: purged, expired or lost by its session
        self.dropped: dict[EventId, tuple[str, float]] = {}  # quenched, discarded, refused or lost at the source
        self.overtaken: set[tuple[str, EventId]] = set()  # too late for the order: a lost disk, or a publisher's mode
        self.died: set[tuple[str, EventId]] = set()  # client and event: with a broker's disk, before it came
        self.rolled_back: dict[EventId, bool] = {}  # that were in lost inputs, and whether the disk has told so
        self.connections: dict[str, list[float]] = {}  # by client, when it connected
        self.modes: dict[str, Mode] = {}  # how clients move; who is not named here stays or relocates

    def promises(self, what: Promise, client: str, publisher: str) -> bool:
        """Whether the ways in which these two move promise that to the client, for the publisher's events.

        A way for publishers loses what is published before its tree stands, and what it overtakes. The one is not owed,
        the other is excused by its record (`overtaken`); all else must come, whatever the way's row says.
        """
        receives, sends = self.modes.get(client, RELOCATE), self.modes.get(publisher, RELOCATE)
        is_kept: bool = getattr(sends, what) or (what == "complete" and sends.for_publishers)
        return is_kept and bool(getattr(receives, what))

    # ------------------------------------------------------------ changes

    def asked(
        self,
        kind: str,
        client: str,
        name: str,
        filter: Filter | None,
        now: float,
        in_flight: Iterable[EventId],
        *,
        over_at: float | None = None,
    ) -> None:
        """A client asks for `filter` from now on, or with None for nothing."""
        standings = self.subscriptions if kind == "subscription" else self.advertisements
        standing = standings.get((client, name))
        if standing is None:
            standing = standings[client, name] = RequestHistory(client, name)
        version: Version[Filter] = Version(filter, now, in_flight, over_at=over_at)
        standing.versions.append(version)
        standing.is_down = False
        self.unsettled.append((client, version))

    def context_declared(self, client: str, context: Attributes, now: float, in_flight: Iterable[EventId]) -> None:
        """A client says that its context is this from now on. Until its broker hears of its first, it has none."""
        standing = self.contexts.get(client)
        in_flight = frozenset(in_flight)
        if standing is None:
            standing = self.contexts[client] = RequestHistory(client, "")
            standing.versions.append(Version(self._unsaid(client), now, in_flight))
        version = Version(DeclaredContext({**context, **self.asserted.get(client, {})}), now, in_flight)
        standing.versions.append(version)
        standing.is_down = False
        self.unsettled.append((client, version))

    def _unsaid(self, client: str) -> DeclaredContext:
        """The context of a client that has not said any."""
        return DeclaredContext(self.asserted.get(client, {}))

    def home_lost(self, client: str, now: float, in_flight: Iterable[EventId]) -> None:
        """The client's broker has lost its disk, and with it all that the client had asked for."""
        in_flight = frozenset(in_flight)
        for standing in self._standings(client):
            if not standing.is_down and standing.filter is not None:
                standing.versions.append(Version(None, now, in_flight, over_at=NEVER))
                standing.is_down = True
        context = self.contexts.get(client)
        if context is not None and not context.is_down:
            context.versions.append(Version(self._unsaid(client), now, in_flight, over_at=NEVER))
            context.is_down = True

    def home_rolled_back(self, client: str, since: float, now: float, in_flight: Iterable[EventId]) -> None:
        """The client's broker has lost what it heard of the client since then: that, or nothing, is what it knows."""
        in_flight = frozenset(in_flight)
        for standing in self._standings(client):
            standing.revive(since, now, in_flight)
        if (context := self.contexts.get(client)) is not None:
            context.revive(since, now, in_flight)
        self.home_lost(client, now, in_flight)

    def home_renewed(self, client: str, now: float, in_flight: Iterable[EventId], besides: Container[str] = ()) -> None:
        """The client tells its broker all again, but perhaps for `besides`: these may come to life again or not."""
        for standing in self._standings(client):
            if standing.is_down and standing.name not in besides:
                kind = "subscription" if (client, standing.name) in self.subscriptions else "advertisement"
                self.asked(kind, client, standing.name, standing.filter, now, in_flight)
        context = self.contexts.get(client)
        if context is not None and context.is_down and context.filter is not None:
            self.context_declared(client, context.filter.context, now, in_flight)

    def _standings(self, client: str) -> list[RequestHistory[Filter]]:
        both = (*self.subscriptions.values(), *self.advertisements.values())
        return [standing for standing in both if standing.client == client]

    def settled(self, now: float, is_answered: Callable[[str], bool]) -> None:
        """No message of control is under way: what brokers have answered so far is in force everywhere."""
        waiting: list[tuple[str, Version[Filter] | Version[DeclaredContext]]] = []
        for client, version in self.unsettled:
            if is_answered(client):
                version.settled_at = now
            else:
                waiting.append((client, version))
        self.unsettled = waiting

    # ------------------------------------------------------------ events

    def published(self, event: Event, now: float) -> None:
        """A publisher has handed an event to its client's machine."""
        self.facts[event.id] = EventHistory(event, now)

    def entered(self, id: EventId, now: float) -> None:
        """A border broker has taken the event."""
        fact = self.facts[id]
        fact.entered_at = min(fact.entered_at, now)
        fact.entered_again_at = now

    def means(self, fact: EventHistory, client: str, meant: Container[DeclaredContext | None]) -> bool:
        """Whether an event is owed to the client as far as contexts go. `meant`: the contexts that it means."""
        if fact.event.to is None:
            return True
        context = self.contexts.get(client)
        if context is None:
            return fact.event.to.holds(self.asserted.get(client, {}))
        return context.owes(fact, meant)

    def may_mean(
        self, fact: EventHistory, client: str, delivered_at: float, meant: Container[DeclaredContext | None]
    ) -> bool:
        """Whether the client may have been meant when the event came to it."""
        if fact.event.to is None:
            return True
        context = self.contexts.get(client)
        if context is None:
            return fact.event.to.holds(self.asserted.get(client, {}))
        return context.permits(fact, delivered_at, meant)

    def connected(self, client: str, now: float) -> None:
        """The client has connected: until now it was away, or at another broker."""
        self.connections.setdefault(client, []).append(now)

    def was_away(self, client: str, since: float, until: float) -> bool:
        """Whether the client has connected in that time, and so was away in it."""
        times = self.connections.get(client, [])
        return bisect_right(times, since) < bisect_right(times, until)

    def delivered(self, client: str, id: EventId, subscriptions: tuple[str, ...], now: float) -> None:
        """The application of `client` has got the event."""
        self.deliveries.setdefault(client, []).append((now, id, subscriptions))
