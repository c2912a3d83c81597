"""Sessions: what a border broker stores for its clients while they connect, disconnect and reconnect.

*Theory.* A session belongs to a client's name and outlives its connections. It holds the client's subscriptions and
advertisements, the number of the last request that was handled, the numbers of events seen lately, and the queue of
what the client has still to get (`queues.py`). A connection that breaks takes nothing with it that is not here: the
client sends again what was not acknowledged, and the session what was not confirmed.

A session has a name. Numbers of requests and deliveries mean something only within it: a client says with `Attach` in
which session its numbers count, and when that is not the one found here, it numbers its requests again from
`Attached.accepted` and confirms nothing that it got in another. So a client that comes back to a broker which lost its
disk, or to one where it was long ago, or without its own memory, loses nothing by mistaken numbers.

*How a broker uses it.* `attach`, `detach` and `received` return effects to be carried out. `admit` returns the wish for
the routing family, or None, and the effects besides. `leave`, `end` and `on_timer_due` return what leaves routing.
`deliver` is called with each `DeliverLocally` answer. `PeerFault` means: close that connection, and call `detach`.

*Rules.*
1. A request is handled once: number `accepted + 1` is new, a lower one is acknowledged again, a higher one is a fault.
2. A refused request counts as handled and changes nothing.
3. At most one connection is attached to a session: the newest.
4. A client says with `Attach` which receipt of its session came last. The content of a receipt that was lost is
   repeated in the next: over all receipts that come, each event is counted once.
5. A refusal that the client may have missed is told again before the next `Attached`.
6. An event is queued once, however often it comes; subscriptions count while `now < expires`.
7. `PeerFault` is raised before anything is changed.
8. All that grows is bounded by `Limits`, for one client and for all clients of a user (`user_quotas.py`).
9. A filter on the client's own context is tested here, as an event arrives, in the context of that moment: routing
   lets through more. An event that routing forwarded needlessly is out of context, and recorded. [rebeca §5.1] So is an
   event's `to`: a client whose context it does not match does not get the event, and that is recorded. [spcf §3]
10. What the server asserts of a client's context (`BrokerConfig.asserted`) nobody else says: a `Context` with it is
   refused, and events bear what the driver vouches for. A session without a connection keeps what it had last.
11. A client has got more than its session sent: the broker has lost its last inputs. The session goes on under another
   name, and its receipt says so. (`lost_tail.py`)

*Paper.* [mobile §3.1] queueing for a user who is out of reach; [mobile §4.3] queue purging, duplicates;
[rebeca §4] no move-out is needed; [motion §2.1] subscriptions expire by themselves (M5).

*Departures.* Each request is acknowledged. What a subscription let in before it expired is still delivered.
"""

from collections.abc import Callable, Iterable, Iterator
from sys import intern
from typing import Literal

from msgspec import structs

from godwit.broker.addressing import TO_WEIGHT_MAX, Addressees
from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, TimerKey, Trace
from godwit.broker.heard_losses import HeardLosses
from godwit.broker.limits import Limits
from godwit.broker.message_checks import check_attach, check_fetch_events, check_received, check_request
from godwit.broker.messages import (
    Accepted,
    Advertise,
    Attach,
    Attached,
    Bye,
    Context,
    Denied,
    EntryId,
    FetchedEvents,
    FetchEvents,
    NodeId,
    Note,
    Publish,
    Received,
    Refused,
    Request,
    Retain,
    SetSessionExpiry,
    Subscribe,
    SubscribeQuery,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.predecessor_chain import ITEMS_MAX, PredecessorChain
from godwit.broker.query_notes import NO_QUERIES
from godwit.broker.queues import event_size
from godwit.broker.ranking import Ranking
from godwit.broker.removed_entries import RemovedEntries
from godwit.broker.session import Authority, Binding, Retaining, Session
from godwit.broker.sessions_state import SessionsState
from godwit.broker.user_quotas import UserQuotas
from godwit.errors import PeerFault
from godwit.filters.contexts import SENDER, checked_context, why_too_large
from godwit.filters.events import ATTRIBUTES_MAX, Attributes, Event
from godwit.filters.references import is_open
from godwit.trace import Record

__all__ = ["Sessions", "Wish"]

EXPIRY_TIMER: TimerKey = ("expiry",)
SESSION_TIMER = "session"

Wish = Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Context | Retain | Note | SetSessionExpiry | Denied


class Sessions:
    """All sessions of a border broker."""

    def __init__(
        self,
        limits: Limits,
        broker: NodeId,
        incarnation: int = 1,
        advertisements: Literal["required", "optional", "off"] = "off",
        asserted: tuple[str, ...] = (),
    ) -> None:
        self.limits, self.broker, self.advertisements = limits, broker, advertisements
        self.binding: Binding | None = None  # None: filters on the client's own context mean nothing here
        self.retained: Retaining | None = None  # None: nobody says what there is room for
        self.authority: Authority | None = None  # None: every client may do everything
        self.is_awaited: Callable[[NodeId], bool] = lambda client: False  # whether its session is on its way here
        self.end_for_room: Callable[[NodeId, float], list[Effect]] = lambda client, now: []  # its user needs the room
        self.asserted = asserted  # what of contexts no client says itself
        self._stamps = tuple((name, intern(SENDER + name)) for name in asserted)
        self._vouched: dict[str, Attributes] = {}  # by connection, until its client has said who it is
        self.incarnation, self._made = incarnation, 0  # names are made with them
        self._sessions: dict[NodeId, Session] = {}
        self.quotas, self.losses, self._addressees = UserQuotas(), HeardLosses(), Addressees()
        self._attached: dict[str, Session] = {}  # by connection
        self._expiry: Ranking[EntryId] = Ranking()
        self._expiry_timer_at: float | None = None
        self.touched: dict[NodeId, None] = {}  # whose session has begun, come, gone, ended or changed its connection

    def snapshot(self) -> SessionsState:
        """All sessions as they are now."""
        sessions = tuple(session.snapshot() for session in self)
        return SessionsState(self._made, sessions, dict(self._vouched), tuple(self.touched), self.losses.snapshot())

    def restore(self, state: SessionsState) -> None:
        """Have these sessions, and none besides."""
        self._made, self._vouched, self.touched = state.made, dict(state.vouched), dict.fromkeys(state.touched)
        sessions = [Session.from_snapshot(each, self.limits, self.binding) for each in state.sessions]
        self._sessions = {session.client: session for session in sessions}
        self.quotas.restore(sessions)
        self._addressees.restore(sessions)
        self.losses.restore(state.losses)
        self._attached = {session.connection: session for session in sessions if session.connection is not None}
        for subscribe in (each for session in sessions for each in session.subscriptions.values()):
            if subscribe.expires is not None:
                self._expiry.put(subscribe.id, subscribe.expires)
        self._set_expiry_timer()  # which runs already

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def session(self, client: NodeId) -> Session | None:
        """The session of `client`."""
        return self._sessions.get(client)

    def client_of(self, connection: str) -> NodeId | None:
        """Who is attached over `connection`."""
        return None if (session := self._attached.get(connection)) is None else session.client

    # ------------------------------------------------------------ what is vouched for

    def vouch(self, connection: str, asserted: Attributes) -> list[Effect]:
        """A connection is open, and its driver asserts this context of its client."""
        strange = [name for name in asserted if name not in self.asserted]
        if strange:
            allowed = ", ".join(self.asserted) or "none"
            raise ValueError(f"Opened.asserted names {', '.join(strange)}; BrokerConfig.asserted allows {allowed}")
        self._vouched.pop(connection, None)
        if not asserted:
            return []
        if len(self._vouched) >= self.limits.sessions_max:
            return [Close(connection, f"more than {self.limits.sessions_max} connections have not sent an Attach")]
        self._vouched[connection] = checked_context(asserted)
        return []

    def vouched(self, connection: str) -> Attributes:
        """The asserted context of the client that sends `Attach` over a connection; it is used then, and forgotten."""
        return self._vouched.pop(connection, {})

    def sayable(self, context: Context | None) -> Context | None:
        """A context that a client brings, unless it says what only the server says: so it was refused, or will be."""
        return None if context is None or any(name in context.values for name in self.asserted) else context

    def welcome(self, session: Session, context: Context | None, asserted: Attributes | None, now: float) -> None:
        """A session has come from elsewhere, or begins with what its client brings: what is its context here?

        `asserted`: what is vouched for of the client that came for it; None: nobody came.
        """
        context = self.sayable(context) or session.context
        if any(name in context.values for name in self.asserted):  # where it comes from, a client may say this
            claimed = {name: value for name, value in context.values.items() if name not in self.asserted}
            context = Context(claimed, context.dwell_s)
        held = session.asserted if asserted is None else asserted
        held = {name: value for name, value in held.items() if name in self.asserted}
        session.adopt_context(None if context is session.context else context, held, self.binding, now)
        if self._sessions.get(session.client) is session:
            self._addressees.know(session)

    # ------------------------------------------------------------ coming and going

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client comes, or comes back and gets what it has missed. [mobile §3.1]"""
        check_attach(message)
        if connection in self._attached:
            raise PeerFault("a second Attach on one connection")
        session = self._sessions.get(message.client)
        fresh, is_known = session is None, session is not None and message.session == session.name
        if session is None:
            if len(self._sessions) >= self.limits.sessions_max:
                reason = f"this broker has no room for more than {self.limits.sessions_max} sessions"
                return [Tell(connection, Bye(reason)), Close(connection, reason)]
            session = self._sessions[message.client] = self.new(message.client)
            self.quotas.add(session)
        elif is_known and message.received > session.queue.sent_up_to:
            is_known, session.name, session.lost_since = False, self.new_name(), session.lost_since or 0.0  # rule 11
        session.set_asserted(self.vouched(connection), self.binding)
        self._addressees.know(session)
        return self._resume(session, connection, message, now, fresh=fresh, is_known=is_known)

    def _resume(
        self, session: Session, connection: str, message: Attach, now: float, *, fresh: bool, is_known: bool
    ) -> list[Effect]:
        """Go on with a session over a new connection."""
        effects: list[Effect] = []
        if session.connection is not None:  # rule 3
            effects += self._let_go(session, "another connection with the same client name has taken over the session")
        elif session.ends_at is not None:
            effects.append(StopTimer((SESSION_TIMER, session.client)))
        session.connection, session.ends_at, session.named = connection, None, message.mode == "named"
        session.attempt, session.mode = max(session.attempt, message.attempt), message.mode
        self.touched[session.client] = None
        self._attached[connection] = session
        session.queue.resume(message.received if is_known else 0, now)
        effects += session.gone()
        if message.replicated and session.chain is None:
            session.chain = PredecessorChain(self.limits.seen_publishers_max, is_whole=session.queue.taken == 0)
        if session.chain is not None and is_known:
            session.chain.forget(message.received)
        if is_known:
            session.settle(message.receipt)
            effects += [Tell(connection, refusal) for refusal in session.refusals]  # rule 5
        told = [] if self.authority is None else self.authority.resumed(session, message, now)
        session_lost = not is_known and (message.received > 0 or message.session != "")
        session.hear_of(self.losses, session.losses_heard)
        receipt = session.receipt(session_lost=session_lost)
        attached = Attached(session.accepted, fresh, receipt, session.name, self.broker, notes=dict(session.notes))
        effects.append(Tell(connection, attached))
        effects += [Tell(connection, delivery) for delivery in session.take(now)]
        return effects + told

    def new(self, client: NodeId) -> Session:
        """A session with a name that no other has."""
        return Session(client, self.new_name(), self.limits, self.losses.count)

    def new_name(self) -> str:
        """A name that no other session has."""
        self._made += 1
        return f"{self.broker}/{self.incarnation}/{self._made}"

    def detach(self, connection: str, now: float) -> list[Effect]:
        """A connection is gone; its session stays for a while. A connection without a session is no fault."""
        self._vouched.pop(connection, None)
        session = self._attached.pop(connection, None)
        if session is None:
            return []
        session.connection = None
        self.touched[session.client] = None
        session.queue.pause(now)
        return [*session.gone(), *self._start_expiry(session, now)]

    def _start_expiry(self, session: Session, now: float) -> list[Effect]:
        """The client is away: count the time after which it is forgotten."""
        terms = [term for term in (self.limits.session_expiry_s, session.linger_s) if term is not None]
        if not terms:
            return []
        session.ends_at = now + min(terms)
        return [StartTimer((SESSION_TIMER, session.client), session.ends_at)]

    def release(self, client: NodeId, now: float, reason: str) -> tuple[Session, RemovedEntries]:
        """Let a session go elsewhere, as it is."""
        session = self._sessions[client]
        session.hear_of(self.losses, session.losses_heard)
        if self.retained is not None:
            self.retained.pack_rests(session)
        removed = self.end(client, now, reason)
        effects = tuple(effect for effect in removed.effects if type(effect) is not Trace)
        return session, structs.replace(removed, effects=effects)

    def adopt(self, session: Session, connection: str | None, message: Attach, now: float) -> list[Effect]:
        """Go on with a session that was elsewhere; without a connection, its client is away already."""
        assert session.client not in self._sessions
        self._sessions[session.client] = session
        self.quotas.add(session)
        self._addressees.know(session)
        self.touched[session.client] = None
        session.attempt, session.losses_heard = message.attempt, self.losses.count
        for name, subscribe in session.subscriptions.items():
            if subscribe.expires is not None:
                self._expiry.put((session.client, name), subscribe.expires)
        effects = [*session.gone(), *self._set_expiry_timer()]
        effects += self.authority.adopted(session, now) if self.authority is not None else []
        effects += self.retained.unpack_rests(session, now) if self.retained is not None else []
        if connection is None:
            return effects + self._start_expiry(session, now)
        if message.received > session.queue.sent_up_to:  # it has fallen behind: its numbers do not count
            session.name = self.new_name()
        is_known = message.session == session.name
        return effects + self._resume(session, connection, message, now, fresh=False, is_known=is_known)

    def leave(self, connection: str, now: float) -> RemovedEntries:
        """The client on `connection` says `Bye`: its session ends."""
        return self.end(self._of(connection).client, now, "the client has left")

    def end(self, client: NodeId, now: float, reason: str = "the session has ended") -> RemovedEntries:
        """Forget a session. What it held must leave routing; what waited in its queue is gone."""
        session = self._sessions.pop(client, None)
        if session is None:
            return RemovedEntries()
        self.quotas.remove(client)
        self._addressees.forget(client)
        self.touched[client] = None
        effects = [] if session.connection is None else self._let_go(session, reason)
        if session.ends_at is not None:  # which it is only without a connection
            effects.append(StopTimer((SESSION_TIMER, client)))
        for name in session.subscriptions:
            self._expiry.discard((client, name))
        effects += [*self._set_expiry_timer(), *session.ended(reason)]
        subscriptions = tuple((client, name) for name in session.subscriptions)
        advertisements = tuple((client, name) for name in session.advertisements)
        return RemovedEntries(subscriptions, advertisements, tuple(effects))

    def on_timer_due(self, key: TimerKey, now: float) -> RemovedEntries:
        """The time of some subscriptions, or of a client that stayed away, is over. [motion §2.1]"""
        if key[0] == SESSION_TIMER:
            session = self._sessions.get(key[1])
            if session is None or session.ends_at is None:
                return RemovedEntries()
            if now < session.ends_at:  # a timer of an earlier absence, or of a driver whose clock was early
                return RemovedEntries(effects=(StartTimer(key, session.ends_at),))
            return self.end(session.client, now, "the client stayed away for too long")
        assert key == EXPIRY_TIMER
        self._expiry_timer_at = None
        over: list[EntryId] = []
        while (first := self._expiry.lowest()) is not None and first[0] <= now:
            client, name = first[1]
            self._forget_subscription(self._sessions[client], name)
            over.append((client, name))
        return RemovedEntries(tuple(over), effects=tuple(self._set_expiry_timer()))

    # ------------------------------------------------------------ requests

    def admit(self, connection: str, message: Request, now: float) -> tuple[Wish | None, list[Effect]]:
        """The wish to be carried out, if this request is new and allowed, and what to tell the client. Rules 1, 2."""
        session = self._of(connection)
        check_request(message)
        number, asked = message.number, message.wish
        if number > session.accepted + 1:
            raise PeerFault(f"request {number} after request {session.accepted}: a request is missing")
        if number <= session.accepted:
            return None, [Tell(connection, Accepted(session.accepted))]
        session.accepted = number
        if type(asked) is Publish and not self._stamps and self._is_plain(session, asked.event):  # most of what comes
            session.has_published = True
            return asked, [Tell(connection, Accepted(number))]
        wish: Wish = asked.subscribe if isinstance(asked, SubscribeQuery) else asked
        queries = asked.queries if isinstance(asked, SubscribeQuery) else NO_QUERIES
        if self._stamps and isinstance(wish, Publish | Retain):
            wish = session.vouched_for(wish, self._stamps)
        reason = self.reason_against(session, wish, now)
        if reason is None and queries:
            reason = self.quotas.why_not_queries(session, wish.id[1], queries, self.limits)  # type: ignore[union-attr]
        if reason is not None:
            refused = Refused(number, reason)
            session.refuse(refused)
            return None, [Tell(connection, refused)]
        effects: list[Effect] = [Tell(connection, Accepted(number))]
        if isinstance(wish, Subscribe | Advertise):
            ending, _ = self.quotas.room_for_filter(session, wish, self.limits)
            effects += self.end_for_room(ending, now) if ending is not None else []
        match wish:
            case Publish() | Retain():
                session.has_published = True
            case Note(key=key, value=value):
                session.notes.pop(key, None)
                if value is not None:
                    session.notes[key] = value
            case SetSessionExpiry(seconds=seconds):
                session.linger_s = seconds
            case Subscribe(id=(_, name)):
                client, before = session.client, session.subscriptions.get(name)
                wish = structs.replace(wish, id=(client, name))  # one name for all of its subscriptions
                if wish.share or (before is not None and before.share):
                    self.touched[client] = None
                session.filters.put_subscription(wish)
                self.quotas.doubt(client)  # retained events may follow
                session.set_exact(name, self.binding)
                session.set_queries(name, queries)
                session.queue.set_rules(name, wish.queue, now)
                effects += session.gone()
                if wish.expires is None:
                    self._expiry.discard((client, name))
                else:
                    self._expiry.put((client, name), wish.expires)
                effects += self._set_expiry_timer()
            case Unsubscribe(id=(_, name)):
                effects += self.end_subscription(session, name)
            case Advertise(id=(_, name)):
                session.adopt_advertisements({name: wish.filter})
            case Unadvertise(id=(_, name)):
                session.filters.drop_advertisement(name)
            case Context():
                session.set_context(wish, self.binding, now)
                self._addressees.know(session)
        return wish, effects

    def _is_plain(self, session: Session, event: Event) -> bool:
        """Whether an event needs no further look: `reason_against` has nothing against it."""
        if event.publisher != session.client or event.sequence <= 0 or event.to is not None:
            return False
        return self.advertisements == "off" or self._is_advertised(session, event)

    def reason_against(self, session: Session, wish: Wish, now: float) -> str | None:
        """Why a request is refused, or None when it is not."""
        limits = self.limits
        if isinstance(wish, Denied | SetSessionExpiry):
            return wish.reason if isinstance(wish, Denied) else None
        if isinstance(wish, Note):
            return self.quotas.why_not_note(session, wish, limits)
        if isinstance(wish, Publish | Retain):
            if wish.event.publisher != session.client or wish.event.sequence <= 0:
                return "an event must name the client that publishes it, and be numbered from 1"
            if not self._is_advertised(session, wish.event):
                return "the event matches none of your advertisements"
            reason = None
            if isinstance(wish, Retain) and self.retained is not None:
                reason = self.retained.why_not(session.client, wish, now)
            return reason or self._reason_against_event(wish.event)
        if isinstance(wish, Context):
            said = [name for name in self.asserted if name in wish.values]
            if said:
                return f"{', '.join(said)} of the context is set by the broker's server: clients cannot set it"
            return why_too_large(wish.values) or session.exact.why_not_context({**wish.values, **session.asserted})
        client, name = wish.id
        if client != session.client:
            return f"{name!r} of {client!r} belongs to another client: ids begin with the own name, {session.client!r}"
        if isinstance(wish, Unsubscribe):
            return None if name in session.subscriptions else f"there is no subscription {name!r}"
        if isinstance(wish, Unadvertise):
            return None if name in session.advertisements else f"there is no advertisement {name!r}"
        if is_open(wish.filter) and (reason := self._reason_against_open(session, wish)) is not None:
            return reason
        if wish.filter.size > limits.filter_literals_max:
            return f"a filter of {wish.filter.size} literals: at most {limits.filter_literals_max} are allowed"
        if isinstance(wish, Advertise):
            if name not in session.advertisements and len(session.advertisements) >= limits.advertisements_max:
                return f"at most {limits.advertisements_max} advertisements are allowed"
            return self.quotas.room_for_filter(session, wish, limits)[1]
        if name not in session.subscriptions and len(session.subscriptions) >= limits.subscriptions_max:
            return f"at most {limits.subscriptions_max} subscriptions are allowed"
        if wish.expires is not None and wish.expires <= now:
            return f"the subscription has expired already: expires is {wish.expires}, and the time is {now}"
        return self.quotas.room_for_filter(session, wish, limits)[1]

    def _reason_against_event(self, event: Event) -> str | None:
        """Why an event with a `to`, or one that is stamped here, is refused."""
        largest = min(self.limits.filter_literals_max, TO_WEIGHT_MAX)
        if event.to is not None and event.to.weight > largest:
            return f"a `to` of {event.to.weight} steps (its literals; long lists count more): at most {largest}"
        if len(event.attributes) > ATTRIBUTES_MAX:
            return f"an event of {len(event.attributes)} attributes with its sender's: at most {ATTRIBUTES_MAX}"
        return None

    def _reason_against_open(self, session: Session, wish: Subscribe | Advertise) -> str | None:
        if isinstance(wish, Advertise):
            return "an advertisement cannot refer to your own state (my.x, myloc)"
        if self.binding is None:
            return "the filter refers to your own state (my.x, myloc), which this broker does not follow"
        reason = self.binding.why_not(wish.filter)
        return reason or session.exact.why_not_filter(wish.id[1], wish.filter, session.whole_context())

    def _is_advertised(self, session: Session, event: Event) -> bool:
        """Whether the client may publish this: what it has advertised; anything if it never has and need not."""
        if self.advertisements == "off" or (self.advertisements == "optional" and not session.has_advertised):
            return True
        return any(filter.matches(event) for filter in session.advertisements.values())

    def end_subscription(self, session: Session, name: str) -> list[Effect]:
        """Forget a subscription; it must leave routing, too."""
        self._forget_subscription(session, name)
        return self._set_expiry_timer()

    def _forget_subscription(self, session: Session, name: str) -> None:
        if session.filters.drop_subscription(name).share:
            self.touched[session.client] = None
        session.exact.remove(name)
        session.set_queries(name, NO_QUERIES)
        session.queue.end_rules(name)
        self._expiry.discard((session.client, name))

    def _set_expiry_timer(self) -> list[Effect]:
        """Let the timer run for the subscription that expires first."""
        at = first[0] if (first := self._expiry.lowest()) is not None else None
        if at == self._expiry_timer_at:
            return []
        self._expiry_timer_at = at
        return [StopTimer(EXPIRY_TIMER) if at is None else StartTimer(EXPIRY_TIMER, at)]

    # ------------------------------------------------------------ deliveries

    def deliver(self, event: Event, entry_ids: Iterable[EntryId], now: float) -> list[Effect]:
        """Hand an event to the clients that these subscriptions belong to, at once or later. [mobile §3.1, §4.3]"""
        names_of: dict[Session, tuple[str, ...]] = {}
        several: dict[Session, dict[str, None]] = {}  # of those with more than one
        effects: list[Effect] = []
        session_of, publisher, sequence = self._sessions.get, event.publisher, event.sequence
        selected = None
        if event.to is not None:
            selected = self._addressees.selection(event, entry_ids, self._sessions, self._expiry_timer_at, now)
            entry_ids = selected.ids
        for client, name in entry_ids:
            session = session_of(client)
            if session is not None:
                subscription = session.subscriptions.get(name)
                if subscription is not None and (subscription.expires is None or now < subscription.expires):
                    if name in session.exact.open and not session.wants(name, event):  # rule 9
                        effects.append(Trace(Record("out_of_context", client, "", publisher, sequence, name)))
                        continue
                    names = names_of.get(session)
                    if names is None:
                        names_of[session] = (name,)
                    elif (more := several.get(session)) is None:
                        several[session] = dict.fromkeys((*names, name))
                    else:
                        more[name] = None
        names_of.update((session, tuple(more)) for session, more in several.items())
        if selected is not None:
            selected.leave_out(names_of, effects)
        size, counts = event_size(event), self.limits.user_bytes_max is not None
        for session, names in names_of.items():
            if not session.seen.add(publisher, sequence):  # rule 6
                session.suppressed += 1
                effects.append(Trace(Record("suppressed", session.client, "", publisher, sequence)))
                continue
            if session.chain is not None:
                session.chain.link(session.queue.taken + 1, event)
            delivery = session.queue.put(event, names, now, size)
            if delivery is not None:
                if session.chain is not None:
                    delivery = session.chain.named(delivery)
                effects.append(Tell(session.connection, delivery))  # type: ignore[arg-type]
            elif session.queue.gone:
                effects += session.gone()
            if counts:
                effects += self.quotas.on_queued(session, size, self.limits)
        return effects

    def received(self, connection: str, message: Received, now: float) -> list[Effect]:
        """The client has got every delivery up to a number: those may be forgotten, and more may be sent."""
        queue = (session := self._of(connection)).queue
        check_received(message, queue.sent_up_to)
        has_waiting = queue.confirm(message.number)
        if session.chain is not None:
            session.chain.forget(message.number)
        if not has_waiting and not queue.gone:
            return []
        effects: list[Effect] = [Tell(connection, delivery) for delivery in session.take(now)]
        return effects + session.gone() if queue.gone else effects

    def between(self, connection: str, message: FetchEvents, now: float) -> list[Effect]:
        """One of several sessions is asked what it has of a publisher and has not sent. [mobile §5]"""
        session = self._of(connection)
        check_fetch_events(message)
        if session.chain is None:
            raise PeerFault("FetchEvents is allowed only with Attach.replicated")
        items = session.unsent(message.publisher, message.after, message.through)
        told = items[:ITEMS_MAX]
        count = len(told)
        if session.queue.is_held and self.authority is not None:  # some of them are not compared with rights yet
            told, count = self.authority.covered(session.client, told)
        through = message.through if count == len(items) else items[count - 1].event.sequence
        return [Tell(connection, FetchedEvents(message.publisher, message.after, through, tuple(told)))]

    # ------------------------------------------------------------ connections

    def _of(self, connection: str) -> Session:
        session = self._attached.get(connection)
        if session is None:
            raise PeerFault("the first message on a connection must be Attach")
        return session

    def _let_go(self, session: Session, reason: str) -> list[Effect]:
        """Close the connection of a session."""
        connection, session.connection = session.connection, None
        assert connection is not None
        del self._attached[connection]
        return [Tell(connection, Bye(reason)), Close(connection, reason)]
