"""The mode `carry`: the client carries its subscriptions and the log of its connections; new events come at once.

*Theory.* The new broker begins a session with what the client brings and delivers what comes. It asks every broker in
the log to end the session there and send what it kept (`Collect`, `Collected`), again and again until it has answered;
what comes late is delivered late. `TrimConnectionLog` tells the client which brokers have answered, and it forgets
them.

*Rules.*
1. Nothing is lost: a question follows the new subscriptions on every link, so that it divides events as a relocation
   does (`relocation.py`); asked again later it only divides later. Subscriptions that take long are placed in slices
   (`session_entries.py`), and the question waits for the last of them.
2. Nothing is doubled: session and client remember the last `SEEN_WINDOW` numbers of each publisher.
3. What a broker collects for a client that has gone on meanwhile it sends after it, as long as it remembers where.
4. Of two sessions of one client that ask each other, the one of the later greeting gets the other's events; of equal
   greetings, the one at the broker whose name is higher.
5. A broker that does not answer is asked ever more rarely, and not longer than it would keep a session. One that was
   left twice that long ago is not asked at all: it keeps nothing.
6. After a move nothing is left at the old broker but the bounded memory of where the client went.
7. What waited for a subscription goes on waiting for it, in whatever state its client is now: a filter on the client's
   own state was tested when the event came. Only a subscription that has ended, or whose present filter matches the
   event in no state, drops it, and that is recorded.

*Paper.* [mobile §4.3]. *Symbols.* EB → broker; ED → client; its log → `Attach.log`.
*Departures.* The log's times serve only to leave out brokers that can keep nothing any more. Duplicates are found by
the ids of events and not by times: clocks differ.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import ClassVar

import msgspec
from msgspec import structs

from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Effect, StartTimer, StopTimer, Tell, TimerKey, Trace
from godwit.broker.host import Host
from godwit.broker.messages import Attach, NodeId, QueuedEvent, RetainedRest, Subscribe
from godwit.broker.session import Session
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.mobility.modes import LOG_MAX, SEEN_WINDOW
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import Collect, Collected, Relocate, TrimConnectionLog
from godwit.mobility.overlay_routes import lost_items
from godwit.mobility.relocation import Relocation
from godwit.mobility.session_entries import SessionEntries
from godwit.seen import Seen
from godwit.trace import Record

__all__ = ["CarryPolicy", "CarryState", "Collecting"]

ITEMS_MAX = 64  # in one message
COLLECTING_MAX = 10_000  # clients
COLLECT_AGAIN_S = 10.0  # then twice as long, and so on, up to
COLLECT_AGAIN_S_MAX = 600.0


class Collecting:
    """The brokers that may still keep something for a client which is, or was last, here."""

    def __init__(self) -> None:
        self.brokers: dict[NodeId, int] = {}  # with the attempt of the question
        self.pause_s = COLLECT_AGAIN_S
        self.gives_up_at: float | None = None


class CollectingState(msgspec.Struct, frozen=True):
    """The brokers that may still keep something for a client, written down."""

    brokers: dict[NodeId, int]
    pause_s: float
    gives_up_at: float | None


class CarryState(msgspec.Struct, frozen=True, tag=True):
    """By client, what is collected from elsewhere."""

    version: ClassVar[int] = 1
    collecting: dict[NodeId, CollectingState]


class CarryPolicy:
    """Begins a session at once, and collects what other brokers have kept."""

    label = "carry"
    host: Host

    def __init__(self, relocation: Relocation, entries: SessionEntries) -> None:
        self.relocation = relocation
        self.routes, self.entries = relocation.routes, entries
        self.collecting: dict[NodeId, Collecting] = {}

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        self.entries.also_when_placed(self._on_placed)
        return Handlers(
            relayed={
                Collect: RelayedHandler(self.on_collect, check_move, attrgetter("home")),
                Collected: RelayedHandler(self.on_collected, check_move, attrgetter("to"), lost_items),
            },
            timers={"collect": self._on_collect_due},
        )

    def snapshot(self) -> CarryState:
        """All state."""
        return CarryState(
            {
                client: CollectingState(dict(each.brokers), each.pause_s, each.gives_up_at)
                for client, each in self.collecting.items()
            }
        )

    def restore(self, state: CarryState) -> None:
        """Take over a snapshot."""
        self.collecting = {}
        for client, each in state.collecting.items():
            collecting = self.collecting[client] = Collecting()
            collecting.brokers, collecting.pause_s = dict(each.brokers), each.pause_s
            collecting.gives_up_at = each.gives_up_at

    # ------------------------------------------------------------ a client comes

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """Begin at once with what the client brings, and collect what is elsewhere. [mobile §4.3: "upload it onto…"]"""
        if self.routes.graph is not None:
            raise PeerFault("the mode carry is for brokers of a tree")
        if len(message.log) > LOG_MAX:
            raise PeerFault(f"Attach.log names {len(message.log)} connections: at most {LOG_MAX} are allowed")
        session = self.host.sessions.session(message.client)
        is_new = session is None and message.session == ""
        if is_new or (session is not None and session.name == message.session) or not self._has_room(session):
            effects = self.host.attach(connection, message, now)
        else:
            effects = self._begin(session, connection, message, now)
        attached = self.host.sessions.session(message.client)
        if attached is None:  # there is no room
            return effects
        if is_new:
            attached.seen = self._memory()
        self.relocation.forget_moved(message.client)
        return effects + self._collect_from(connection, message, now)

    def _has_room(self, session: Session | None) -> bool:
        return session is not None or len(self.host.sessions) < self.host.config.limits.sessions_max

    def _memory(self) -> Seen:
        return Seen(SEEN_WINDOW, self.host.config.limits.seen_publishers_max)

    def _begin(self, old: Session | None, connection: str, message: Attach, now: float) -> list[Effect]:
        """A session that holds what the client brings; what an older one here still keeps comes into it."""
        host, client, sessions = self.host, message.client, self.host.sessions
        session = sessions.new(client)
        session.seen = self._memory()
        for wish in message.wanted:
            if sessions.reason_against(session, wish, now) is not None:
                continue  # the client will say it again, and hear why not
            if isinstance(wish, Subscribe):
                session.filters.put_subscription(wish)
                session.queue.set_rules(wish.id[1], wish.queue, now)
            else:
                session.adopt_advertisements({wish.id[1]: wish.filter})
        effects: list[Effect] = []
        if old is not None:
            if old.connection is not None:
                effects += host.unlink(old.connection)
            old, removed = sessions.release(client, now, "its client has begun another session")
            effects += removed.effects
        sessions.welcome(session, message.context, sessions.vouched(connection), now)
        host.set_context(client, session.whole_context(), effects, now)  # first: what is wanted from it may be unknown
        effects += host.welcome(connection, message)
        effects += sessions.adopt(session, connection, structs.replace(message, session="", received=0, receipt=0), now)
        self.entries.begin(session if old is None else old, session, effects, now)
        if old is not None:
            effects += self._take_in(session, old.queue.waiting(), now)
            effects += self._go_on(session, old.rests, now)
            session.seen.join(old.seen.data())
        return effects

    # ------------------------------------------------------------ what other brokers keep

    def _collect_from(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """Ask the brokers in the client's log, but for those that it left so long ago that they keep nothing. Rule 5"""
        client, expiry_s = message.client, self.host.config.limits.session_expiry_s
        others = [entry for entry in message.log if entry.broker != self.host.name]
        past = [entry.broker for entry in others if expiry_s is not None and now - entry.at > 2 * expiry_s]
        effects: list[Effect] = [Tell(connection, TrimConnectionLog(tuple(past)))] if past else []
        collecting = Collecting()  # a broker that was asked before and is not in the log any more has answered
        collecting.brokers = {entry.broker: message.attempt for entry in others if entry.broker not in past}
        if not collecting.brokers:
            return effects if self.collecting.pop(client, None) is None else [*effects, StopTimer(("collect", client))]
        self.collecting.pop(client, None)
        self.collecting[client] = collecting
        collecting.gives_up_at = None if expiry_s is None else now + expiry_s
        effects += self._ask_all(client, now)
        if len(self.collecting) > COLLECTING_MAX:
            effects += self._give_up(next(iter(self.collecting)), "too many clients have something elsewhere")
        return effects

    def _ask_all(self, client: NodeId, now: float) -> list[Effect]:
        """Ask who has not answered, and again after a while. [mobile §4.3: "attempt contact … periodically"]"""
        collecting = self.collecting[client]
        effects: list[Effect] = [StartTimer(("collect", client), now + collecting.pause_s)]
        if self.entries.is_waiting(client):  # rule 1
            return effects
        collecting.pause_s = min(2 * collecting.pause_s, COLLECT_AGAIN_S_MAX)
        for home, attempt in collecting.brokers.items():
            if self.routes.knows(home):  # it must not overtake what we have still to tell
                effects += self.routes.send_behind_tables(home, Collect(client, home, self.host.name, attempt), now)
        return effects

    def _on_placed(self, client: NodeId, now: float) -> list[Effect]:
        """All that the client wants is subscribed. (rule 1)"""
        return self._ask_all(client, now) if client in self.collecting else []

    def _on_collect_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Some broker has not answered yet."""
        client = key[1]
        collecting = self.collecting.get(client)
        if collecting is None:
            return []
        if collecting.gives_up_at is not None and now >= collecting.gives_up_at:
            return self._give_up(client, "nobody has answered")
        return self._ask_all(client, now)

    def _ask_later(self, client: NodeId, home: NodeId, attempt: int, now: float) -> list[Effect]:
        """Ask one more broker when all that the client wants is subscribed. (rule 1)"""
        if client in self.collecting:
            self.collecting[client].brokers[home] = attempt
            return []
        expiry_s = self.host.config.limits.session_expiry_s
        collecting = self.collecting[client] = Collecting()
        collecting.brokers[home] = attempt
        collecting.gives_up_at = None if expiry_s is None else now + expiry_s
        return self._ask_all(client, now)

    def _give_up(self, client: NodeId, reason: str) -> list[Effect]:
        """Ask no more; that is recorded."""
        asked = ", ".join(self.collecting.pop(client).brokers)
        return [StopTimer(("collect", client)), Trace(Record("lost", client, "Collect", detail=f"{asked}: {reason}"))]

    # ------------------------------------------------------------ between brokers

    def on_collect(self, peer: NodeId, message: Collect, now: float) -> list[Effect]:
        """The client has a session elsewhere: end the one here, and send what it kept."""
        host = self.host
        client, to, attempt = message.client, message.to, message.attempt
        session = host.sessions.session(client)
        if session is None:
            return self._answer(message, None, now)
        if (session.attempt, host.name) > (attempt, to):  # rule 4: it is the other's that is old
            effects = self._answer(message, None, now)
            if self.entries.is_waiting(client):
                return effects + self._ask_later(client, to, session.attempt, now)
            return effects + self.routes.send_to(to, Collect(client, to, host.name, session.attempt), now)
        effects = []
        if self.collecting.pop(client, None) is not None:  # the broker that asks has the same log, and longer
            effects.append(StopTimer(("collect", client)))
        if session.connection is not None:
            effects += host.unlink(session.connection)
        session, removed = host.sessions.release(client, now, f"the client has moved to {to}")
        self.relocation.remember_moved(Relocate(client, message.home, to, attempt))
        effects.append(Trace(Record("replayed", client, number=len(session.queue), detail=f"to {to}")))
        effects += self._answer(message, session, now)
        return effects + host.withdraw(removed, now, client)

    def _answer(self, question: Collect, session: Session | None, now: float) -> list[Effect]:
        """What a session kept; None: there is none."""
        client, home, to, attempt = question.client, question.home, question.to, question.attempt
        items = [] if session is None else session.queue.waiting()
        parts = [tuple(items[at : at + ITEMS_MAX]) for at in range(0, len(items), ITEMS_MAX)] or [()]
        effects: list[Effect] = []
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            answer = Collected(client, home, to, attempt, attempt, part, (), is_last)
            if is_last and session is not None:
                answer = structs.replace(answer, seen=session.seen.data(), retained_rests=session.rests)
            effects += self.routes.send_to(to, answer, now)
        return effects

    def on_collected(self, peer: NodeId, message: Collected, now: float) -> list[Effect]:
        """What an old session kept has come: deliver it, or send it after the client (rule 3)."""
        client = message.client
        session, moved = self.host.sessions.session(client), self.relocation.moved.get(client)
        effects: list[Effect] = []
        if session is not None:
            effects += self._take_in(session, message.items, now)
            effects += self._go_on(session, message.retained_rests, now)
            session.seen.join(message.seen)
        elif moved is not None and moved.attempt > message.latest:
            if message.items or message.retained_rests:
                onward = structs.replace(message, to=moved.to, latest=moved.attempt)
                effects += self.routes.send_to(moved.to, onward, now)
        elif message.items:
            detail = "its client had left before this came"
            effects.append(Trace(Record("session_ended", client, number=len(message.items), detail=detail)))
        if message.is_last:
            effects += self._on_answered(message, session)
        return effects

    def _on_answered(self, message: Collected, session: Session | None) -> list[Effect]:
        """A broker has answered: do not ask it again, and let the client forget it."""
        client, home, effects = message.client, message.home, list[Effect]()
        collecting = self.collecting.get(client)
        if collecting is None or message.attempt < collecting.brokers.get(home, message.attempt + 1):
            return effects
        del collecting.brokers[home]
        if not collecting.brokers:
            del self.collecting[client]
            effects.append(StopTimer(("collect", client)))
        if session is not None:
            effects.append(Trace(Record("relocated", client, number=len(session.queue), detail=self.host.name)))
            if session.connection is not None:
                effects.append(Tell(session.connection, TrimConnectionLog((home,))))
        return effects

    def _go_on(self, session: Session, rests: tuple[RetainedRest, ...], now: float) -> list[Effect]:
        """Look at the retained events that a session elsewhere had still to look at, for what it still wants."""
        session.rests, retained = rests, self.host.sessions.retained
        return [] if retained is None else retained.unpack_rests(session, now)

    def _still_wanting(self, session: Session, item: QueuedEvent) -> tuple[str, ...]:
        """For which subscriptions an item goes on waiting (rule 7): they may have ended since, or been replaced."""
        weakest = self.relocation.following.weakest
        held = (session.subscriptions[name] for name in item.subscriptions if name in session.subscriptions)
        return tuple(each.id[1] for each in held if weakest(each.filter).matches(item.event))

    def _take_in(self, session: Session, items: Iterable[QueuedEvent], now: float) -> list[Effect]:
        """Queue what waited elsewhere, if the client wants it and has not got it here. [mobile §4.3: duplicates]"""
        effects: list[Effect] = []
        for item in items:
            event = item.event
            names = self._still_wanting(session, item) or _wanting(session, session.subscriptions, event, now)
            if not names or not session.seen.add(event.publisher, event.sequence):
                effects.append(session.suppress(event, "" if names else "its subscription has ended"))
                continue
            if session.chain is not None:
                session.chain.link(session.queue.taken + 1, event)
            delivery = session.queue.put(event, names, now)
            if delivery is not None and session.connection is not None:
                named = delivery if session.chain is None else session.chain.named(delivery)
                effects.append(Tell(session.connection, named))
        return effects + session.gone()


def _wanting(session: Session, names: Iterable[str], event: Event, now: float) -> tuple[str, ...]:
    """Which of these want the event, of subscriptions that it did not wait for."""
    expires = {name: session.subscriptions[name].expires for name in names}
    current = (name for name, at in expires.items() if at is None or now < at)
    return tuple(name for name in current if session.wants(name, event))
