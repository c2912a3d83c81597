"""One session: the stored state of a client, and the receipts that account for every event it received.

*Theory.* A receipt says what happened to events since the last receipt *that came*. A connection may break before
`Attached` arrives, or after it; the client says with its next `Attach` which receipt it has, and only then are the
figures of that one settled.

*Rules.*
1. Over all receipts of a session that come, each event that was suppressed, purged or expired is counted once, and each
   that was lost is named once: up to `LOST_SHOWN_MAX` ids in a receipt, the rest as a number.
2. `replayed` is what was not confirmed when the client came back, sent before or not: it counts an event again each
   time that it has to be sent again.
3. A refusal is kept until a receipt told after it has come, the last `REFUSALS_KEPT` of them.
4. A client that brings its name alone cannot say which receipt it has. It counts as having got the last one, but for
   what it must not miss: refusals, and that something may be lost. These are told again until it has made a request
   since, which it does only after `Attached`.

*Paper.* [mobile §4.3] queue purging: the receipt is ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec
from msgspec import structs

from godwit.broker.effects import Effect, Trace
from godwit.broker.exact_tests import NO_EXACT_TESTS, Binding, ExactTests
from godwit.broker.heard_losses import HeardLosses
from godwit.broker.held_filters import HeldFilters
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Advertise,
    Attach,
    Context,
    Delivery,
    NodeId,
    Publish,
    QueuedEvent,
    Receipt,
    Refused,
    Retain,
    RetainedRest,
    SessionState,
    Subscribe,
)
from godwit.broker.predecessor_chain import PredecessorChain, PredecessorChainState
from godwit.broker.query_notes import Queries, query_note
from godwit.broker.queues import Queue, QueueState
from godwit.filters.contexts import key_of
from godwit.filters.events import Attributes, Event, values_of
from godwit.filters.filters import Filter
from godwit.filters.references import is_open
from godwit.filters.values import Value
from godwit.seen import Seen, SeenState
from godwit.trace import Record

__all__ = ["Authority", "Binding", "Retaining", "Session", "StoredSessionState", "steps_of"]

LOST_SHOWN_MAX = 1_000
REFUSALS_KEPT = 128
DROPPED_SHOWN_MAX = 100  # events in the queue of a session that ends, each with a record of its own
DWELLS_KEPT = 8  # how long the last states lasted
DWELL_MARGIN = 0.5  # of the shortest of them, to be on the safe side

COPIED = (
    "connection", "attempt", "mode", "named", "ends_at", "linger_s", "accepted", "has_advertised",
    "context_since", "dwells", "dwell_s", "has_published", "suppressed", "lost_more", "lost_since", "losses_heard",
)  # fmt: skip
"""The fields of a session that stand in its state as they are."""

CHARACTERS_PER_STEP = 64

NOTHING_SAID = Context({})
NO_RECEIPT = Receipt()
NOTHING_PURGED: dict[str, int] = {}  # shared by the many receipts that tell of nothing, and never changed


class Retaining(Protocol):
    """Knows the retained events, and what there is room for among them. (`retained.py`)"""

    def why_not(self, client: NodeId, wish: Retain, now: float) -> str | None:
        """Why a client cannot have an event retained, or cleared; None: it can."""

    def event(self, key: str) -> Event | None:
        """The event that is retained by a key."""

    def pack_rests(self, session: "Session") -> None:
        """A session leaves, with what its subscriptions have not looked at yet."""

    def unpack_rests(self, session: "Session", now: float) -> list[Effect]:
        """A session has come: its subscriptions look at the rest here."""


class Authority(Protocol):
    """Knows what clients may do. (`authorisation.py`)"""

    def adopted(self, session: "Session", now: float) -> list[Effect]:
        """A session has come from another broker."""

    def resumed(self, session: "Session", message: Attach, now: float) -> list[Effect]:
        """A client has come to its session."""

    def covered(self, client: NodeId, items: Sequence[QueuedEvent]) -> tuple[list[QueuedEvent], int]:
        """Which of these events a client may be sent, and how many were compared: at least one, if there are any."""


def steps_of(value: Value | tuple[Value, ...]) -> int:
    """The steps that one literal takes for what an attribute of a context is."""
    values = values_of(value)
    return len(values) + sum(len(one) for one in values if type(one) is str) // CHARACTERS_PER_STEP


class StoredSessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """All of a session, as its own broker keeps it. (`SessionState` is what moves to another.)"""

    client: NodeId
    name: str
    queue: QueueState
    seen: SeenState
    connection: str | None = None
    attempt: int = 0
    mode: str = "relocate"
    named: bool = False
    ends_at: float | None = None
    linger_s: float | None = None
    notes: dict[str, bytes] = {}
    accepted: int = 0
    refusals: tuple[Refused, ...] = ()
    subscriptions: tuple[Subscribe, ...] = ()
    advertisements: dict[str, Filter] = {}
    has_advertised: bool = False
    context: Context | None = None  # None: it has said nothing
    context_since: float | None = None
    asserted: Attributes = {}
    dwells: tuple[float, ...] = ()
    dwell_s: float | None = None
    exact: tuple[str, ...] = ()  # subscriptions that are tested here, in the order in which they are followed
    has_published: bool = False
    chain: PredecessorChainState | None = None
    suppressed: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    lost_more: int = 0
    settled: Receipt = NO_RECEIPT
    told: Receipt = NO_RECEIPT
    accepted_then: int = 0
    lost_since: float | None = None
    losses_heard: int = 0


class Session:
    """What is kept for one client. There are many of them: they hold little while little is asked of them."""

    __slots__ = (
        "_accepted_then", "_settled", "_told", "_whole", "_whole_key", "_whole_size", "accepted", "advertisements",
        "asserted", "attempt", "chain", "client", "connection", "context", "context_since", "dwell_s", "dwells",
        "ends_at", "exact", "filters", "has_advertised", "has_published", "linger_s", "losses_heard", "lost",
        "lost_more", "lost_since", "mode", "name", "named", "notes", "queue", "refusals", "rests", "seen",
        "subscriptions", "suppressed",
    )  # fmt: skip

    def __init__(self, client: NodeId, name: str, limits: Limits, losses_heard: int = 0) -> None:
        self.client = client
        self.name = name
        self.connection: str | None = None
        self.attempt = 0  # of the client's last greeting
        self.mode = "relocate"  # as the client said then
        self.named = False  # its client brings its name alone
        self.ends_at: float | None = None  # while the client is away
        self.linger_s: float | None = None  # for so long it stays then, if the broker would keep it longer
        self.notes: dict[str, bytes] = {}  # that the client has left here
        self.accepted = 0
        self.refusals: list[Refused] = []  # that the client may have missed
        self.filters = HeldFilters()
        self.subscriptions: Mapping[str, Subscribe] = self.filters.subscriptions
        self.advertisements: Mapping[str, Filter] = self.filters.advertisements
        self.has_advertised = False
        self.context = NOTHING_SAID  # as the client says
        self.asserted: Attributes = {}  # as the driver of its last connection vouches for
        self._whole: Attributes = self.context.values  # both
        self._whole_key: Any = None  # of both; None: nobody has asked for it since they changed
        self._whole_size = -1  # likewise
        self.context_since: float | None = None
        self.dwells: tuple[float, ...] = ()
        self.dwell_s: float | None = None  # how long a context lasts at least, as estimated
        self.exact = NO_EXACT_TESTS  # of filters on the client's context; its own since it had one
        self.has_published = False  # here: it does not move with the session
        self.queue = Queue(limits.window, limits.queue_events_max, limits.queue_bytes_max)
        self.seen = Seen(limits.seen_window, limits.seen_publishers_max)
        self.chain: PredecessorChain | None = None  # of a session that is one of several
        self.suppressed = 0
        self.lost: list[tuple[str, int]] = []  # since the last receipt that is known to have come, at most so many
        self.lost_more = 0
        self.lost_since: float | None = None  # a broker has lost what came then, and no receipt says so yet
        self.losses_heard = losses_heard  # the last loss, by its number here, that is in `lost_since` or need not be
        self.rests: tuple[RetainedRest, ...] = ()  # while it moves; else the component of retained events has them
        self._settled = NO_RECEIPT  # all that receipts which came have said, added up
        self._told = NO_RECEIPT  # the same with the last receipt, which may have come or not
        self._accepted_then = 0  # when the last `Attached` was written

    def is_meant_by(self, attach: Attach) -> bool:
        """Whether a client that greets means this session: it knows the name, or has heard of none since it came here.

        A session gets another name when its broker loses its last inputs, and the client may not have heard of that.
        Where the client has greeted others since, one of them may have its session: then only the name counts.
        """
        is_last = not attach.tried or attach.attempt == self.attempt + 1
        return attach.session == self.name or (self.attempt > attach.since and is_last)

    def adopt_advertisements(self, advertisements: Mapping[str, Filter]) -> None:
        """The client says from now on what it publishes: this, besides what it has said before."""
        for name, filter in advertisements.items():
            self.filters.put_advertisement(name, filter)
        self.has_advertised = True

    def suppress(self, event: Event, reason: str) -> Trace:
        """Leave out an event that the session has had, or that its client does not want any more."""
        self.suppressed += 1
        return Trace(Record("suppressed", self.client, "", event.publisher, event.sequence, detail=reason))

    # ------------------------------------------------------------ the client's context

    def whole_context(self) -> Attributes:
        """All that is known of the client: what it says, and what is vouched for."""
        return self._whole

    def set_context(self, context: Context, binding: Binding | None, now: float) -> None:
        """The client's context is this from now on: so are its exact tests. [rebeca §5.1: F0] [spcf §3: setContext]"""
        if self.context_since is not None:
            self.dwells = (*self.dwells, now - self.context_since)[-DWELLS_KEPT:]
        self.context, self.context_since = context, now
        self._estimate_dwell()
        self._know_whole(binding)

    def set_asserted(self, asserted: Attributes, binding: Binding | None) -> None:
        """Of the client's context, this is vouched for from now on."""
        self.asserted = asserted
        self._know_whole(binding)

    def _know_whole(self, binding: Binding | None) -> None:
        self._whole = {**self.context.values, **self.asserted} if self.asserted else self.context.values
        self._whole_key, self._whole_size = None, -1
        if binding is not None and self.exact is not NO_EXACT_TESTS:
            self.exact.rebind(binding, self._whole)

    def vouched_for(self, publish: Publish | Retain, stamps: tuple[tuple[str, str], ...]) -> Publish | Retain:
        """The event with what is vouched for of its sender, in the place of what it says itself of that.

        `stamps`: the names of what is asserted of contexts, and of the attributes that say it.
        """
        attributes = publish.event.attributes
        if not self.asserted and not any(stamp in attributes for _, stamp in stamps):
            return publish
        said = dict(attributes)
        for name, stamp in stamps:
            said.pop(stamp, None)
            if name in self.asserted:
                said[stamp] = self.asserted[name]
        return structs.replace(publish, event=replace(publish.event, attributes=said))

    def is_addressed(self, event: Event) -> bool:
        """Whether the event is for a client in this context. [spcf §3: publish]"""
        return event.to is None or event.to.holds(self._whole)

    def context_size(self) -> int:
        """The steps that a comparison with the whole context takes."""
        if self._whole_size < 0:
            self._whole_size = sum(map(steps_of, self._whole.values()))
        return self._whole_size

    def context_key(self) -> Any:
        """The same for all sessions in the same context."""
        if self._whole_key is None:
            self._whole_key = key_of(self._whole)
        return self._whole_key

    def _estimate_dwell(self) -> None:
        """How long states last: as the client says, or as the last ones did. Small changes change nothing."""
        if self.context.dwell_s is not None:
            self.dwell_s = self.context.dwell_s
        elif len(self.dwells) < DWELLS_KEPT:
            self.dwell_s = None
        else:
            shortest = min(self.dwells)
            if self.dwell_s is None or not DWELL_MARGIN * shortest / 2 <= self.dwell_s <= shortest:
                self.dwell_s = DWELL_MARGIN * shortest or None

    def adopt_context(self, context: Context | None, asserted: Attributes, binding: Binding | None, now: float) -> None:
        """The session has arrived at its client, which has sent its present context."""
        if context is not None:
            self.context, self.context_since = context, now
            self._estimate_dwell()
        self.set_asserted(asserted, None)
        for name in self.subscriptions:
            self.set_exact(name, binding)

    def set_exact(self, name: str, binding: Binding | None) -> None:
        """A subscription was made, replaced or ended: so is its exact test, if its filter is open."""
        self.exact.remove(name)
        subscribe = self.subscriptions.get(name)
        if subscribe is not None and binding is not None and is_open(subscribe.filter):
            if self.exact is NO_EXACT_TESTS:
                self.exact = ExactTests()
            self.exact.put(name, subscribe.filter, binding, self._whole)

    def set_queries(self, name: str, queries: Queries) -> None:
        """A subscription was made, replaced or ended: so are its queries, which a gateway tests. (`query_notes.py`)"""
        if queries or self.notes:
            note = query_note(name, queries)
            self.notes.pop(note.key, None)
            if note.value is not None:
                self.notes[note.key] = note.value

    def wants(self, name: str, event: Event) -> bool:
        """Whether the event matches a subscription, in the client's present context."""
        return self.exact.matches(name, event) if name in self.exact else self.subscriptions[name].filter.matches(event)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> StoredSessionState:
        """The session as it is now."""
        return StoredSessionState(
            client=self.client,
            name=self.name,
            queue=self.queue.snapshot(),
            seen=self.seen.snapshot(),
            connection=self.connection,
            attempt=self.attempt,
            mode=self.mode,
            named=self.named,
            ends_at=self.ends_at,
            linger_s=self.linger_s,
            notes=dict(self.notes),
            accepted=self.accepted,
            refusals=tuple(self.refusals),
            subscriptions=tuple(self.subscriptions.values()),
            advertisements=dict(self.advertisements),
            has_advertised=self.has_advertised,
            context=None if self.context is NOTHING_SAID or self.context == NOTHING_SAID else self.context,
            context_since=self.context_since,
            asserted=dict(self.asserted),
            dwells=self.dwells,
            dwell_s=self.dwell_s,
            exact=tuple(self.exact),
            has_published=self.has_published,
            chain=None if self.chain is None else self.chain.snapshot(),
            suppressed=self.suppressed,
            lost=tuple(self.lost),
            lost_more=self.lost_more,
            settled=self._settled,
            told=self._told,
            accepted_then=self._accepted_then,
            lost_since=self.lost_since,
            losses_heard=self.losses_heard,
        )

    @classmethod
    def from_snapshot(cls, state: StoredSessionState, limits: Limits, binding: Binding | None) -> "Session":
        """The session that was written down."""
        session = cls(state.client, state.name, limits)
        for name in COPIED:
            setattr(session, name, getattr(state, name))
        session.context = state.context or NOTHING_SAID
        session.notes, session.refusals, session.lost = dict(state.notes), list(state.refusals), list(state.lost)
        for subscribe in state.subscriptions:
            session.filters.put_subscription(subscribe)
        for name, filter in state.advertisements.items():
            session.filters.put_advertisement(name, filter)
        session.queue, session.seen = Queue.restored(state.queue), Seen.restored(state.seen)
        session.chain = None if state.chain is None else PredecessorChain.restored(state.chain)
        session._settled, session._told, session._accepted_then = state.settled, state.told, state.accepted_then
        session.set_asserted(dict(state.asserted), None)
        for name in state.exact:
            session.set_exact(name, binding)
        return session

    # ------------------------------------------------------------ going elsewhere

    def state(self) -> SessionState:
        """All of it but the queue's events, to go on elsewhere.

        Not `mode`: the client says it with each greeting, and it counts only while a connection stands. Not the `chain`
        either: a client that is replicated says so with each greeting, and the chain that begins then cannot say what
        came before (`UNKNOWN`). That is safe: such a delivery tells the client nothing of what is missing before it.
        """
        queue, client = self.queue, self.client
        return SessionState(
            client=client,
            name=self.name,
            accepted=self.accepted,
            refusals=tuple(self.refusals),
            subscriptions=tuple(self.subscriptions.values()),
            advertisements=tuple(Advertise((client, name), filter) for name, filter in self.advertisements.items()),
            has_advertised=self.has_advertised,
            taken=queue.taken,
            sent_up_to=queue.sent_up_to,
            confirmed=queue.confirmed,
            expired=queue.expired,
            purged=dict(queue.purged),
            suppressed=self.suppressed,
            lost=tuple(self.lost),
            lost_more=self.lost_more,
            settled=self._settled,
            told=self._told,
            accepted_then=self._accepted_then,
            seen=self.seen.data(),
            context=self.context if self.context_since is not None else None,
            asserted=dict(self.asserted),
            notes=dict(self.notes),
            linger_s=self.linger_s,
            named=self.named,
            lost_since=self.lost_since,
            retained_rests=self.rests,
        )

    @classmethod
    def restored(cls, state: SessionState, items: Iterable[QueuedEvent], limits: Limits, now: float) -> "Session":
        """The session that was elsewhere, with what waited in its queue."""
        session = cls(state.client, state.name, limits)
        session.accepted, session.has_advertised = state.accepted, state.has_advertised
        session.refusals = list(state.refusals[-REFUSALS_KEPT:])
        session.notes, session.linger_s, session.named = dict(state.notes), state.linger_s, state.named
        session.suppressed, session.lost, session.lost_more = state.suppressed, list(state.lost), state.lost_more
        session.lost_since, session.rests = state.lost_since, state.retained_rests
        session._settled, session._told, session._accepted_then = state.settled, state.told, state.accepted_then
        session.seen.learn(state.seen)
        if state.context is not None:
            session.context, session.context_since = state.context, now
            session._estimate_dwell()
        session.set_asserted(state.asserted, None)
        queue = session.queue
        for subscribe in state.subscriptions:
            session.filters.put_subscription(subscribe)
            queue.set_rules(subscribe.id[1], subscribe.queue, now)
        for advertise in state.advertisements:
            session.filters.put_advertisement(advertise.id[1], advertise.filter)
        queue.taken, queue.sent_up_to, queue.confirmed = state.taken, state.sent_up_to, state.confirmed
        queue.expired, queue.purged = state.expired, dict(state.purged)
        queue.restore(items)
        return session

    def take(self, now: float) -> list[Delivery]:
        """What may be sent now, with its predecessor where these are asked for."""
        deliveries = self.queue.take(now)
        return deliveries if self.chain is None else [self.chain.named(delivery) for delivery in deliveries]

    def unsent(self, publisher: NodeId, after: int, through: int) -> list[QueuedEvent]:
        """What waits and was not sent of a publisher's events above `after`, up to `through`, in its order."""
        waiting = (item for item in self.queue.waiting() if item.number > self.queue.sent_up_to)
        items = [item for item in waiting if item.event.publisher == publisher]
        items = [item for item in items if after < item.event.sequence <= through]
        return sorted(items, key=lambda item: item.event.sequence)

    def last_receipt(self) -> int:
        """The number of the last receipt that was told: a client without memory counts as having got it."""
        return self._told.number

    @property
    def receipts(self) -> tuple[Receipt, Receipt]:
        """The last receipt that was told, and the last one known to have come, with sums since the session began."""
        return self._told, self._settled

    def refuse(self, refused: Refused) -> None:
        """A request was refused, and the client may miss it. (rule 3)"""
        self.refusals.append(refused)
        del self.refusals[:-REFUSALS_KEPT]

    def settle(self, number: int) -> None:
        """The client has got receipt `number`, and the refusals told before it."""
        told = self._told
        if number == told.number > self._settled.number:
            self._settled = told
            del self.lost[: len(told.lost)]
            self.lost_more -= told.lost_more
            if self.named and self.accepted == self._accepted_then:  # rule 4
                self.lost_since = _earlier(self.lost_since, told.lost_since)
                return
            while self.refusals and self.refusals[0].number <= self._accepted_then:
                del self.refusals[0]

    def hear_of(self, losses: HeardLosses, after: int) -> None:
        """Brokers have lost something: let the next receipt say so, for losses with a number above `after`."""
        since = losses.since(after)
        self.lost_since = _earlier(self.lost_since, since)
        self.losses_heard = losses.count

    def receipt(self, *, session_lost: bool, greets: bool = True) -> Receipt:
        """What happened to events since the last receipt that came; `greets`: it comes with `Attached`."""
        queue, before = self.queue, self._settled
        purged = {rule: count - before.purged.get(rule, 0) for rule, count in queue.purged.items()}
        number, lost = self._told.number + 1, tuple(self.lost)
        lost_since, self.lost_since = self.lost_since, None
        if self._told.number > before.number:  # which may not have come
            lost_since = _earlier(lost_since, self._told.lost_since)
        self._told = Receipt(
            suppressed=self.suppressed,
            purged=dict(queue.purged) or NOTHING_PURGED,
            expired=queue.expired,
            lost=lost,
            lost_more=self.lost_more,
            number=number,
            lost_since=lost_since,
        )
        if greets:
            self._accepted_then = self.accepted
        return Receipt(
            replayed=len(queue),
            suppressed=self.suppressed - before.suppressed,
            purged={rule: count for rule, count in purged.items() if count},
            expired=queue.expired - before.expired,
            lost=lost,
            lost_more=self.lost_more,
            session_lost=session_lost,
            number=number,
            lost_since=lost_since,
        )

    def gone(self) -> list[Effect]:
        """Write down what has left the queue unsent."""
        gone, self.queue.gone = self.queue.gone, []
        records: list[Effect] = []
        for one in gone:
            kind = "lost" if one.lost else "expired" if one.reason == "expired" else "purged"
            publisher, sequence = one.event.id
            if self.chain is not None:
                self.chain.drop(one.number)
            if one.lost and len(self.lost) < LOST_SHOWN_MAX:
                self.lost.append((publisher, sequence))
            elif one.lost:
                self.lost_more += 1
            records.append(Trace(Record(kind, self.client, "", publisher, sequence, "", one.number, 0, one.reason)))
        return records

    def ended(self, reason: str) -> list[Effect]:
        """Write down that the session has ended, and the latest events that waited in its queue."""
        records: list[Effect] = []
        for item in self.queue.last_waiting(DROPPED_SHOWN_MAX):
            publisher, sequence = item.event.id
            names = ", ".join(item.subscriptions)
            records.append(
                Trace(Record("dropped", self.client, "", publisher, sequence, names, item.number, 0, reason))
            )
        return [*records, Trace(Record("session_ended", self.client, number=len(self.queue), detail=reason))]


def _earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two times; None is not a time."""
    return other if one is None else one if other is None else min(one, other)
