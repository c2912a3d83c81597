"""Retained events: the last one of each key, for later subscribers. A table that every broker has (`gossip.py`).

*Theory.* `Retain` publishes an event as ever and puts it into the table, in the place of the one with the same key;
`clear` takes that one out. A client that subscribes with `retained` gets, before anything else comes for that
subscription, the events of the table that it matches, marked with the attribute `retained`.

*Rules.*
1. The marked copy comes even if the session has had the event before: it was asked for. If the event itself is still on
   its way, it does not come a second time for this subscription, but it comes for others (`early_copies.py`).
2. Filters on the client's own context and an event's `to` count as for any event.
3. An expired event is removed, at each broker by its own clock. What is left of it is its stamp, so that no
   earlier one comes back.
4. What there is no room for is refused, with the publishing of it (`Limits.retained_max`, `retained_bytes_max`).
5. One user has no more than its share of them (`Limits.user_share`): past it, the same.
6. An event is retained or cleared only by a client that may publish the event which it replaces, too, as far as rights
   are known here (`authorisation.py`). Of two brokers that have not heard of each other's event the later one counts.
7. A subscription that moves with its session, or is restored with a broker, does not begin again: it goes on where it
   was. Of the events that were retained since it began it skips those that the session has had.

*Speed.* A filter that names its topics (the attribute `topic`) looks at the events of those; any other looks at all.
To look at an event takes as many steps as the filter has, for each KiB of it. If that is more than `STEPS_AT_ONCE` in
all, the rest follows in slices, with time for others between them, in the order of the keys: that is the same at every
broker, so a session that moves says with one key how far a subscription has come. Events of the subscription may come
in between; a key that gets another event meanwhile is left out if that event has come as any does.

*Paper.* None; MQTT has retained messages.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

import msgspec
from msgspec import structs

from godwit.broker.client_rights import NOT_ALLOWED, ClientRights, may_publish
from godwit.broker.component import Handlers
from godwit.broker.early_copies import EARLY_S, EarlyCopies, EarlyCopy
from godwit.broker.effects import Effect, StartTimer, Tell, TimerKey
from godwit.broker.gossip import RETAINED, Gossip, TableLimit, stamp_of
from godwit.broker.gossip_messages import Fact, RetainedEvent
from godwit.broker.host import Host
from godwit.broker.limits import Limits
from godwit.broker.messages import EntryId, NodeId, Retain, RetainedRest, Subscribe
from godwit.broker.queues import event_size
from godwit.broker.ranking import Ranking
from godwit.broker.session import Session
from godwit.broker.user_quotas import user_of
from godwit.filters.contexts import SENDER
from godwit.filters.events import ATTRIBUTES_MAX, Event
from godwit.filters.filters import And, Filter, Some
from godwit.filters.sets import OneOf

__all__ = ["MARK", "TOPIC", "Retained", "RetainedState"]

RETAINED_TIMER: TimerKey = ("retained",)
STEPS_AT_ONCE = 100_000  # about 10 ms
STEPS_EACH = 20  # at least, for an event that may be delivered
REST_S = 0.02  # between two slices
MARK = "retained"
TOPIC = "topic"
KEY_SHOWN_MAX = 200
AFTER_CHARS_MAX = 256  # of a key that moves with a session, which may have as many as subscriptions


class RetainedState(msgspec.Struct, frozen=True, tag=True):
    """Subscriptions that have not looked at all retained events yet, and those that have had one before it came.

    The events are in the shared table.
    """

    version: ClassVar[int] = 3
    rests: tuple[tuple[NodeId, RetainedRest], ...]  # by client, the one that has waited longest first
    early: tuple[EarlyCopy, ...]


class Retained:
    """The retained events, by key and by topic."""

    label = "retained"
    host: Host

    def __init__(self, gossip: Gossip) -> None:
        self._gossip = gossip
        self._events: dict[str, Event] = {}
        self._sizes: dict[str, int] = {}  # of the events
        self._topics: dict[str, dict[str, None]] = {}  # the keys of each
        self._due: Ranking[str] = Ranking()
        self._held: dict[str, tuple[int, int]] = {}  # by user: how many, and their size
        self._rests: dict[EntryId, RetainedRest] = {}  # the one that has waited longest first
        self._early = EarlyCopies()
        self.rights_of: Callable[[NodeId], ClientRights | None] = lambda client: None  # None: every right

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            retaining=self,
            requests={Retain: self._on_retain, Subscribe: self._on_subscribe},
            timers={RETAINED_TIMER[0]: lambda key, now: self._on_timer_due(now)},
            facts={RETAINED: lambda fact, effects, now: self.on_fact(fact, now)},
            on_limits=self._on_limits,
        )

    def _on_retain(self, connection: str, wish: Retain, effects: list[Effect], now: float) -> None:
        self.put(wish.key, None if wish.clear else wish.event, now)
        self._gossip.spread(effects, now)

    def _on_subscribe(self, connection: str, wish: Subscribe, effects: list[Effect], now: float) -> None:
        self._rests.pop(wish.id, None)
        session = self.host.sessions.session(wish.id[0]) if wish.retained else None
        if session is not None:
            effects += self.begin(session, wish, now)

    def _on_limits(self, limits: Limits) -> None:
        self._gossip.bounds[RETAINED] = TableLimit(limits.retained_max, limits.retained_bytes_max)

    def __len__(self) -> int:
        return len(self._events)

    def items(self) -> Iterator[tuple[str, Event]]:
        """All keys with their events, the earliest learned first."""
        return iter(list(self._events.items()))

    def event(self, key: str) -> Event | None:
        """The event of a key."""
        return self._events.get(key)

    def snapshot(self) -> RetainedState | None:
        """What is not in the shared table; None: nothing."""
        rests = tuple((client, rest) for (client, _), rest in self._rests.items())
        return RetainedState(rests, self._early.snapshot()) if rests or self._early else None

    def restore(self, state: RetainedState | None) -> None:
        """Have the events that the table holds."""
        self._rests = {} if state is None else {(client, rest.name): rest for client, rest in state.rests}
        self._early = EarlyCopies(() if state is None else state.early)
        if self._early:
            self._watch()
        for fact in self._gossip:
            if fact.table == RETAINED and isinstance(fact.value, RetainedEvent):
                self._set(fact.key[0], fact.value.event)

    # ------------------------------------------------------------ changes

    def why_not(self, client: NodeId, wish: Retain, now: float) -> str | None:
        """Why a client cannot have an event retained, or cleared; None: it can. (rules 4 to 6)"""
        self.sweep(now)
        before, rights = self._events.get(wish.key), self.rights_of(client)
        unsaid = [SENDER + name for name in self.host.config.asserted]  # which no publisher says itself
        if before is not None and rights is not None and not may_publish(rights.publish, before.attributes, unsaid):
            shown = wish.key[:KEY_SHOWN_MAX]
            return f"{NOT_ALLOWED} replace or clear the event that is retained by the key {shown!r}"
        if wish.clear:
            return None
        if (reason := self._why_not_of_user(wish.key, wish.event)) is not None:
            return reason
        return self._gossip.why_not(RETAINED, (wish.key,), RetainedEvent(wish.event))

    def _why_not_of_user(self, key: str, event: Event) -> str | None:
        """Why a user can have no more retained events; None: it can. (rule 5)"""
        limits, user = self.host.config.limits, user_of(event.publisher)
        if limits.user_share >= 1:
            return None
        count, size = self._held.get(user, (0, 0))
        before = self._events.get(key)
        if before is not None and user_of(before.publisher) == user:
            count, size = count - 1, size - event_size(before)
        if count >= limits.user_retained_max:
            allowed = f"{limits.user_retained_max} (limits.user_share of limits.retained_max)"
            return f"user {user!r} has {count} retained events: at most {allowed} are allowed"
        if size + event_size(event) > limits.user_retained_bytes_max:
            allowed = f"{limits.user_retained_bytes_max} (limits.user_share of limits.retained_bytes_max)"
            return f"retained events of user {user!r} would take more than {allowed} bytes"
        return None

    def _count(self, event: Event, change: int) -> None:
        """An event of this size is retained, or, if it is negative, no longer."""
        user = user_of(event.publisher)
        count, size = self._held.get(user, (0, 0))
        self._held[user] = (count + (1 if change > 0 else -1), size + change)
        if not self._held[user][0]:
            del self._held[user]

    def put(self, key: str, event: Event | None, now: float) -> None:
        """From now on this is the event of a key; None: there is none."""
        if self._gossip.put(RETAINED, (key,), None if event is None else RetainedEvent(event), now) is None:
            self._set(key, event)

    def on_fact(self, fact: Fact, now: float) -> None:
        """Another broker has said what the event of a key is."""
        value = fact.value
        self._set(fact.key[0], value.event if isinstance(value, RetainedEvent) else None)
        self.sweep(now)

    def _set(self, key: str, event: Event | None) -> None:
        before = self._events.pop(key, None)
        if before is not None:
            self._count(before, -self._sizes.pop(key))
            self._due.discard(key)
            for topic in _topics(before):
                keys = self._topics[topic]
                keys.pop(key, None)
                if not keys:
                    del self._topics[topic]
        if event is None:
            return
        self._events[key], self._sizes[key] = event, event_size(event)
        self._count(event, self._sizes[key])
        for topic in _topics(event):
            self._topics.setdefault(topic, {})[key] = None
        if event.expires_at is not None:
            self._due.put(key, event.expires_at)

    def sweep(self, now: float) -> None:
        """Take out what is over. (rule 3)"""
        while (first := self._due.lowest()) is not None and first[0] <= now:
            self._gossip.expire(RETAINED, (first[1],))
            self._set(first[1], None)

    # ------------------------------------------------------------ for a subscription

    def matching(self, filter: Filter) -> Iterator[Event]:
        """The events that a filter matches, the earliest learned first."""
        return (self._events[key] for key in self._keys(filter) if filter.matches(self._events[key]))

    def _keys(self, filter: Filter) -> list[str]:
        """The keys of events that a filter may match."""
        topics = _named(filter)
        if topics is None:
            return list(self._events)
        return list(dict.fromkeys(key for topic in topics for key in self._topics.get(topic, ())))

    def begin(self, session: Session, subscribe: Subscribe, now: float) -> list[Effect]:
        """Queue what a subscription begins with, or the first of it."""
        self.sweep(now)
        filter = session.exact.get(subscribe.id[1], subscribe.filter)
        keys = self._keys(filter)
        context = session.context_size()
        if sum(self._steps(filter, key, context) for key in keys) <= STEPS_AT_ONCE:
            return self._queue(session, subscribe.id[1], filter, keys, now)
        is_first = not self._rests
        asked = max(map(self._stamp, self._events))
        self._rests[subscribe.id] = RetainedRest(subscribe.id[1], "", asked)
        effects = self._look_on(subscribe.id, now)
        return [*effects, StartTimer(RETAINED_TIMER, now + REST_S)] if is_first and self._rests else effects

    def pack_rests(self, session: Session) -> None:
        """A session leaves, with what its subscriptions have not looked at yet. (rule 7)"""
        if self._rests:
            ids = [(session.client, name) for name in session.subscriptions]
            session.rests = tuple(_shorter(self._rests.pop(id)) for id in ids if id in self._rests)

    def unpack_rests(self, session: Session, now: float) -> list[Effect]:
        """A session has come: its subscriptions look at the rest here. (rule 7)"""
        is_first = not self._rests
        for rest in session.rests:
            id = (session.client, rest.name)
            before = self._rests.get(id, rest)  # mode carry: of another session of that client
            self._rests[id] = min(rest, before, key=lambda one: one.after)
        session.rests = ()
        return [StartTimer(RETAINED_TIMER, now + REST_S)] if is_first and self._rests else []

    def _on_timer_due(self, now: float) -> list[Effect]:
        """One slice for the subscription that has waited longest."""
        if not self._rests:
            return []
        effects = self._look_on(next(iter(self._rests)), now)
        return [*effects, StartTimer(RETAINED_TIMER, now + REST_S)] if self._rests else effects

    def _look_on(self, id: EntryId, now: float) -> list[Effect]:
        """Look at some of what a subscription has not looked at; what is left then waits behind others."""
        rest = self._rests.pop(id)
        session = self.host.sessions.session(id[0])
        subscribe = None if session is None else session.subscriptions.get(id[1])
        if session is None or subscribe is None:
            return []
        self.sweep(now)
        filter, seen = session.exact.get(id[1], subscribe.filter), session.seen
        keys: list[str] = []
        steps, after, context = 0, rest.after, session.context_size()
        for key in sorted(key for key in self._keys(filter) if key > after):
            steps += self._steps(filter, key, context)
            if steps > STEPS_AT_ONCE and after != rest.after:
                self._rests[id] = structs.replace(rest, after=after)
                break
            after = key
            if self._stamp(key) <= rest.asked or not seen.has(*self._events[key].id):
                keys.append(key)
        return self._queue(session, id[1], filter, keys, now)

    def _stamp(self, key: str) -> int:
        fact = self._gossip.fact(RETAINED, key)
        return 0 if fact is None else fact.stamp

    def _steps(self, filter: Filter, key: str, context: int) -> int:
        """What it takes to look at an event, at most, for a client whose context is so large."""
        to = self._events[key].to
        addressed = 0 if to is None else to.weight * context
        return STEPS_EACH + filter.weight * (1 + (self._sizes[key] >> 10)) + addressed

    def _may_come(self, session: Session, key: str, now: float) -> bool:
        """Whether the event of a key may still be on its way to other subscriptions of the session, as stamps say.

        A session that is one of several has a chain of events, in which each is once.
        """
        is_late = stamp_of(now) - self._stamp(key) > stamp_of(EARLY_S)
        is_alone = len(session.subscriptions) < 2 or session.chain is not None
        return not (is_late or is_alone or session.seen.has(*self._events[key].id))

    def _watch(self) -> None:
        self.host.intercept_local(self.label, self._on_local if self._early else None)

    def _on_local(self, event: Event, ids: list[EntryId], effects: list[Effect], now: float) -> list[EntryId]:
        """An event is delivered here: not for subscriptions that have had its copy. (rule 1)"""
        self._early.sweep(now)
        of: dict[NodeId, list[EntryId]] = {}
        for id in ids:
            of.setdefault(id[0], []).append(id)
        left: list[EntryId] = []
        for client, its in of.items():
            session = self.host.sessions.session(client)
            left += its if session is None else self._early.left_of(session, event, its)
        self._watch()
        return left

    def _queue(self, session: Session, name: str, filter: Filter, keys: list[str], now: float) -> list[Effect]:
        """Queue those of these events that a subscription wants."""
        self.host.sessions.quotas.doubt(session.client)  # its queue grows
        effects: list[Effect] = []
        for key in keys:
            event = self._events[key]
            if not filter.matches(event) or not session.is_addressed(event):
                continue
            if self._may_come(session, key, now):  # rule 1
                self._early.put(session, name, event, now)
            else:
                session.seen.add(event.publisher, event.sequence)
            if session.chain is not None:
                session.chain.link(session.queue.taken + 1, event)
            delivery = session.queue.put(_marked(event), (name,), now)
            if delivery is not None and session.connection is not None:
                told = delivery if session.chain is None else session.chain.named(delivery)
                effects.append(Tell(session.connection, told))
        self._watch()
        return effects + session.gone()


def _marked(event: Event) -> Event:
    """A copy that says that it was retained; an event that has no room for one more attribute does not say it."""
    attributes = event.attributes
    is_full = len(attributes) >= ATTRIBUTES_MAX and MARK not in attributes
    return event if is_full else replace(event, attributes={**attributes, MARK: True})


def _shorter(rest: RetainedRest) -> RetainedRest:
    """The same for the way to another broker: with a long key, some events come twice rather than not at all."""
    return structs.replace(rest, after=rest.after[:AFTER_CHARS_MAX])


def _topics(event: Event) -> tuple[str, ...]:
    """The topics of an event, each once."""
    held = event.attributes.get(TOPIC)
    if type(held) is str:
        return (held,)
    return tuple(dict.fromkeys(one for one in held if type(one) is str)) if type(held) is tuple else ()


def _named(filter: Filter) -> list[str] | None:
    """The only topics that events matched by a filter can have; None: it does not name them."""
    for part in filter.parts if isinstance(filter, And) else (filter,):
        if isinstance(part, Some) and part.attribute == TOPIC and isinstance(part.values, OneOf):
            return [value for value in part.values.values if type(value) is str]
    return None
