"""The ledger: all requests, publications and deliveries of a run with their times. The checkers use only the ledger.

*Theory.* The law is that every strategy delivers what flooding with filtering at the edge delivers. A change of a
subscription takes time to spread, and events published meanwhile may or may not reach the client, with flooding as with
any strategy. So each subscription is a list of *versions*: a filter, the time of its request, and the time at which it
had *settled*, that is the first moment after the broker's answer at which no control message was in transit anywhere.
(A filter that another covers causes no message, and depends on one that may still be in transit: so the whole network
must be quiet.) Each version has the events that were *in flight* when it was requested.

An event is **owed** to a subscription if its version that had settled when the event entered the network matches it,
and so does every later version that was requested before the event can have been delivered: those requested before it
entered, and those during which it was still in flight. So for a replaced filter the events that both filters match are
owed: replacing has no gap.

A client's *context* is such a list of versions, too, for addressed events (`Event.to`). Such an event is owed only if
the client matched all the time, in the same sense, and permitted if it matched at some moment. Conditions on a *sender*
need no versions: its context at the time of publication is in the event.

*Rules.*
1. Time here is the simulator's, never a node's clock.
2. The ledger learns of events from publishers, of their entry from the border broker's record, of deliveries from
   clients, and of nothing from routing.
3. An event is in the ledger as it enters the network: with its sender's context, including asserted attributes.
"""

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable
from typing import Generic, Literal, TypeVar

from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.mobility.modes import MODES, Mode

__all__ = ["DeclaredContext", "Dropped", "EventHistory", "EventId", "Ledger", "RequestHistory", "Version"]

EventId = tuple[str, int]
Promise = Literal["complete", "unique", "ordered"]
Dropped = Literal["quenched", "discarded", "not buffered", "refused", "lost"]
"""Why an event never entered: `discarded` when its source was away and had no room, `not buffered` when it had."""

NEVER = float("inf")
RELOCATE = MODES["relocate"]


class DeclaredContext:
    """A client's context from a moment on. Compared by identity."""

    __slots__ = ("context",)

    def __init__(self, context: Attributes) -> None:
        self.context = context


T = TypeVar("T")


class Version(Generic[T]):
    """A subscription or advertisement from a moment on; `filter` is None when it is ended.

    For a context, `filter` is the context itself.

    `over_at` is the end of the version before, for events published from then on: when this version has settled, unless
    the moment is known. (A subscription expires at one moment of its border broker's clock.)
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
        self.is_down = False  # its broker has lost it, and the client has not sent it again yet

    @property
    def filter(self) -> T | None:
        """The present filter, as far as the client knows."""
        if self.is_down:
            return self.versions[-2].filter
        return self.versions[-1].filter if self.versions else None

    def revive(self, since: float, now: float, in_flight: frozenset[EventId]) -> None:
        """A broker has lost its inputs since then: an earlier version may be in force again.

        That is one of the versions that had not settled by then, or the one before these. The client's present one
        comes last.
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
        """The version that had settled when the event entered, and later ones requested before it can have been
        delivered."""
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
        """Whether a delivery for this subscription is correct: some version that was not ended matches the event.

        A version that was requested after the event was delivered everywhere does not count.
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
    """The facts about one event."""

    __slots__ = ("entered_again_at", "entered_at", "event", "id", "published_at")

    def __init__(self, event: Event, published_at: float) -> None:
        self.event = event
        self.id = event.id
        self.published_at = published_at
        self.entered_at = NEVER  # the time at which a border broker accepted it
        self.entered_again_at = 0.0  # the last time, if its publisher had to send it again


class Ledger:
    """The facts that the laws need."""

    def __init__(self) -> None:
        self.subscriptions: dict[tuple[str, str], RequestHistory[Filter]] = {}
        self.advertisements: dict[tuple[str, str], RequestHistory[Filter]] = {}
        self.contexts: dict[str, RequestHistory[DeclaredContext]] = {}  # by client; others have none
        self.asserted: dict[str, Attributes] = {}  # by client, its asserted context
        self.facts: dict[EventId, EventHistory] = {}
        self.deliveries: dict[str, list[tuple[float, EventId, tuple[str, ...]]]] = {}
        self.unsettled: list[tuple[str, Version[Filter] | Version[DeclaredContext]]] = []  # with the client that asked
        self.gone: dict[tuple[str, EventId], str] = {}  # client and event: purged, expired or lost by its session
        self.dropped: dict[EventId, tuple[Dropped, float]] = {}  # at the source: why and when
        self.overtaken: set[tuple[str, EventId]] = set()  # too late for the order: a lost disk, or a publisher's mode
        self.died: set[tuple[str, EventId]] = set()  # client and event: with a broker's disk, before it came
        self.rolled_back: dict[EventId, bool] = {}  # that were in lost inputs, and whether the disk has told so
        self.connections: dict[str, list[float]] = {}  # by client, when it connected
        self.modes: dict[str, Mode] = {}  # modes of clients; others stay or relocate

    def promises(self, what: Promise, client: str, publisher: str) -> bool:
        """Whether the modes of these two guarantee that to the client, for the publisher's events.

        A mode of publishers loses events published before its tree is complete, and events that are overtaken. The
        former are not owed, the latter are excused by a record (`overtaken`); all others must arrive.
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
        """A client requests `filter` from now on; None ends it."""
        standings = self.subscriptions if kind == "subscription" else self.advertisements
        standing = standings.get((client, name))
        if standing is None:
            standing = standings[client, name] = RequestHistory(client, name)
        version: Version[Filter] = Version(filter, now, in_flight, over_at=over_at)
        standing.versions.append(version)
        standing.is_down = False
        self.unsettled.append((client, version))

    def context_declared(self, client: str, context: Attributes, now: float, in_flight: Iterable[EventId]) -> None:
        """A client declares its context. Until its broker has the first one, it has none."""
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
        """The client's broker has lost its disk, and with it all requests of the client."""
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
        """The client's broker has lost the client's requests since then."""
        in_flight = frozenset(in_flight)
        for standing in self._standings(client):
            standing.revive(since, now, in_flight)
        if (context := self.contexts.get(client)) is not None:
            context.revive(since, now, in_flight)
        self.home_lost(client, now, in_flight)

    def home_renewed(self, client: str, now: float, in_flight: Iterable[EventId], besides: Container[str] = ()) -> None:
        """The client sends all requests again, except perhaps for `besides`, which may or may not be restored."""
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
        """No control message is in transit: all answered requests are in force everywhere."""
        waiting: list[tuple[str, Version[Filter] | Version[DeclaredContext]]] = []
        for client, version in self.unsettled:
            if is_answered(client):
                version.settled_at = now
            else:
                waiting.append((client, version))
        self.unsettled = waiting

    # ------------------------------------------------------------ events

    def published(self, event: Event, now: float) -> None:
        """A publisher has passed an event to its client's machine."""
        self.facts[event.id] = EventHistory(event, now)

    def entered(self, id: EventId, now: float) -> None:
        """A border broker has accepted the event."""
        fact = self.facts[id]
        fact.entered_at = min(fact.entered_at, now)
        fact.entered_again_at = now

    def means(self, fact: EventHistory, client: str, meant: Container[DeclaredContext | None]) -> bool:
        """Whether an event is owed to the client, considering contexts only. `meant`: the matching contexts."""
        if fact.event.to is None:
            return True
        context = self.contexts.get(client)
        if context is None:
            return fact.event.to.holds(self.asserted.get(client, {}))
        return context.owes(fact, meant)

    def may_mean(
        self, fact: EventHistory, client: str, delivered_at: float, meant: Container[DeclaredContext | None]
    ) -> bool:
        """Whether the client may have matched the address when the event arrived."""
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
