"""The other ways in which a subscriber can move, beside relocation: to compare, each with what it promises.

*Theory.* `modes.py` lists them. What each does at the broker where its client turns up:

- **naive**: nothing but a session of its own. What an earlier broker keeps stays there until its time is over, or until
  the client comes back there. Events fall between two sessions, or are in both.
- **explicit**: the client says `MoveOut` before it goes, and its session is kept; a connection that just breaks ends
  the session. Whatever was kept is relocated as ever.
- **ask**: the client brings its name and where it was. The new broker asks the old one what it wants (`AskWishes`,
  `Wishes`), subscribes, and then relocates the session as ever.
- **carry**: the client brings its subscriptions and the log of its connections. The new broker begins a session at once
  and delivers what comes. It asks every broker in the log to end the session there and send what it kept (`Collect`,
  `Collected`), again and again until it has answered; what comes late is delivered late. The client is told by `Strike`
  which brokers have answered, and forgets them.

*Rules.*
1. ask and carry lose nothing: what they ask follows the new subscriptions on every link, so that it divides events
   as a relocation does (`roaming.py`); asked again later it only divides later.
2. carry doubles nothing: session and client remember the last `SEEN_WINDOW` numbers of each publisher.
3. What a broker collects for a client that has gone on meanwhile it sends after it, as long as it remembers where.
4. Of two sessions of one client that ask each other, the one of the later greeting gets the other's events; of equal
   greetings, the one at the broker whose name is higher.
5. A broker that does not answer is asked ever more rarely, and not longer than it would keep a session. One that was
   left twice that long ago is not asked at all: it keeps nothing.
6. After a move nothing is left at the old broker but the bounded memory of where the client went; in the naive mode, a
   session until its time is over.
7. What waited for a subscription goes on waiting for it, in whatever state its client is now: a filter on the client's
   own state was tested when the event came. Only a subscription that has ended, or whose filter of now matches the
   event in no state, lets go of it, and that is on record.

*Paper.* [rebeca §3.2, Fig. 2] sub-unsub-sub; [rebeca §1] moveIn and moveOut of JEDI; [mobile §4.3] the rest.
*Symbols.* EB → broker; ED → client; its log → `Attach.log`.
*Departures.* The log's times serve only to leave out brokers that can keep nothing any more. Duplicates are found by
the ids of events and not by times: clocks differ.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, Trace
from godwit.broker.messages import Advertise, Attach, Bye, NodeId, Subscribe, Waiting
from godwit.broker.session import Session
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.mobility.graph_roaming import FlushingBroker
from godwit.mobility.messages import (
    AskWishes,
    Collect,
    Collected,
    MoveOut,
    NotHere,
    Relocate,
    Strike,
    Wishes,
)
from godwit.mobility.modes import ASKING
from godwit.seen import Seen
from godwit.trace import Record

if TYPE_CHECKING:
    from godwit.mobility.arrivals import Arrival
    from godwit.mobility.roaming import MobileBroker

__all__ = [
    "ANSWERS",
    "LOG_MAX",
    "SAYINGS",
    "SEEN_WINDOW",
    "WAYS",
    "Collecting",
    "on_collect_due",
    "on_gone",
    "question",
]

SEEN_WINDOW = 2**14  # numbers of a publisher; what is further behind counts as come
LOG_MAX = 16
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


# ------------------------------------------------------------ naive


def attach_anew(broker: "MobileBroker", connection: str, message: Attach, now: float) -> list[Effect]:
    """Whatever is elsewhere, what is here counts. [rebeca §3.2: "(re-)subscribes at B2"]"""
    broker.moved.pop(message.client, None)
    stays = broker._stay(message.client, message.attempt, now)
    return stays + FlushingBroker._on_attach(broker, connection, message, now)


# ------------------------------------------------------------ explicit


def on_move_out(broker: "MobileBroker", connection: str, message: MoveOut, now: float) -> list[Effect]:
    """The client is about to go: keep its session, and tell it so by closing the connection. [rebeca §1]"""
    client = broker.sessions.client_of(connection)
    if client is None:
        raise PeerFault("the first message on a connection must be Attach")
    if client in broker.publishers:  # it goes as if its connection had broken (publishers.py)
        effects = broker._gone(connection, now)
    else:
        effects = [*broker.quenching.detach(connection), *broker.sessions.detach(connection, now)]
    return [*effects, Tell(connection, Bye("moved out")), Close(connection, "moved out")]


def on_gone(broker: "MobileBroker", connection: str, now: float) -> list[Effect]:
    """A connection has broken: without a move-out that ends an explicit client's session."""
    client = broker.sessions.client_of(connection)
    session = None if client is None else broker.sessions.session(client)
    if client is None or session is None or session.mode != "explicit":
        return []
    effects = [*broker.quenching.detach(connection), *broker.sessions.detach(connection, now)]
    return effects + broker._without(broker.sessions.end(client, now, "gone without a move-out"), now, client)


# ------------------------------------------------------------ ask


def question(arrival: "Arrival", broker: "MobileBroker") -> AskWishes | Relocate:
    """What to ask next for a client that has turned up here: what it wants, or for its session."""
    attach = arrival.attach
    if attach.mode in ASKING and not arrival.knows_wishes:
        return AskWishes(attach.client, attach.home, broker.name, attach.attempt)
    return Relocate(attach.client, attach.home, broker.name, attach.attempt, broker.incarnation)


def on_ask_wishes(broker: "MobileBroker", peer: NodeId, message: AskWishes, now: float) -> list[Effect]:
    """Say what the client wants, or send the question to where that is known. [mobile §4.3]"""
    if message.home != broker.name:
        return broker._send_to(message.home, message, now)
    client, to, attempt = message.client, message.to, message.attempt
    arrival, session, moved = broker.arrivals.get(client), broker.sessions.session(client), broker.moved.get(client)
    latest = session.attempt if session is not None else arrival.attach.attempt if arrival is not None else 0
    if (session is not None or arrival is not None) and attempt <= latest:
        return broker._supersede(message, latest, now)
    holder = session if session is not None else arrival
    if holder is not None and (session is not None or arrival is None or arrival.knows_wishes):
        return broker._send_to(to, Wishes(client, to, attempt, _wishes_of(client, holder)), now)
    if arrival is not None:  # we have asked the same, and not for the session yet: so it is still there
        home = arrival.attach.home
        return [] if home in ("", to) else broker._send_to(home, AskWishes(client, home, to, attempt), now)
    if moved is not None and moved.to != to:
        if attempt > moved.attempt:
            return broker._send_to(moved.to, AskWishes(client, moved.to, to, attempt), now)
        return broker._supersede(message, moved.attempt, now)
    return broker._send_to(to, NotHere(client, to, attempt), now)


def _wishes_of(client: NodeId, holder: "Session | Arrival") -> tuple[Subscribe | Advertise, ...]:
    advertised = (Advertise((client, name), filter) for name, filter in holder.advertisements.items())
    return (*holder.subscriptions.values(), *advertised)


def on_wishes(broker: "MobileBroker", peer: NodeId, message: Wishes, now: float) -> list[Effect]:
    """Now we know what the client wants: subscribe, and ask for its session."""
    if message.to != broker.name:
        return broker._send_to(message.to, message, now)
    arrival = broker._awaited(message)
    if arrival is None or arrival.knows_wishes:
        return []
    arrival.attach = structs.replace(arrival.attach, wanted=message.wanted)
    arrival.knows_wishes = True
    effects: list[Effect] = []
    broker._expect(arrival, effects, now)
    return effects + broker._ask(arrival, now)


# ------------------------------------------------------------ carry: a client comes


def attach_with_log(broker: "MobileBroker", connection: str, message: Attach, now: float) -> list[Effect]:
    """Begin at once with what the client brings, and collect what is elsewhere. [mobile §4.3: "upload it onto…"]"""
    broker._check_attach(connection, message)
    if broker.graph is not None:
        raise PeerFault("the mode carry is for brokers of a tree")
    if len(message.log) > LOG_MAX:
        raise PeerFault(f"Attach.log names {len(message.log)} connections: at most {LOG_MAX} are allowed")
    session = broker.sessions.session(message.client)
    is_new = session is None and message.session == ""
    if is_new or (session is not None and session.name == message.session) or not _has_room(broker, session):
        effects = FlushingBroker._on_attach(broker, connection, message, now)
    else:
        effects = _begin(broker, session, connection, message, now)
    attached = broker.sessions.session(message.client)
    if attached is None:  # there is no room
        return effects
    if is_new:
        attached.seen = _memory(broker)
    broker.moved.pop(message.client, None)
    return effects + _collect_from(broker, connection, message, now)


def _has_room(broker: "MobileBroker", session: Session | None) -> bool:
    return session is not None or len(broker.sessions) < broker.config.limits.sessions_max


def _memory(broker: "MobileBroker") -> Seen:
    return Seen(SEEN_WINDOW, broker.config.limits.seen_publishers_max)


def _begin(broker: "MobileBroker", old: Session | None, connection: str, message: Attach, now: float) -> list[Effect]:
    """A session that holds what the client brings; what an older one here still keeps comes into it."""
    client, sessions = message.client, broker.sessions
    session = sessions.new(client)
    session.seen = _memory(broker)
    for wish in message.wanted:
        if sessions.reason_against(session, wish, now) is not None:
            continue  # the client will say it again, and hear why not
        if isinstance(wish, Subscribe):
            session.subscriptions[wish.id[1]] = wish
            session.queue.set_rules(wish.id[1], wish.queue, now)
        else:
            session.advertisements[wish.id[1]] = wish.filter
            session.has_advertised = True
    effects: list[Effect] = []
    if old is not None:
        if old.connection is not None:
            effects += broker.quenching.detach(old.connection)
        old, removed = sessions.release(client, now, "its client has begun another session")
        effects += removed.effects
    sessions.welcome(session, message.context, sessions.vouched(connection), now)
    broker._set_context(client, session.whole_context(), effects, now)  # first: what is wanted from it may not be known
    if message.quench:
        effects += broker.quenching.attach(connection, broker.routing.wanted)
    effects += sessions.adopt(session, connection, structs.replace(message, session="", received=0, receipt=0), now)
    for subscribe in session.subscriptions.values():
        effects += broker.quenching.on_added(broker.movements.weakest(subscribe.filter))
    broker._settle_entries(session if old is None else old, session, effects, now)
    if old is not None:
        effects += _take_in(broker, session, old.queue.waiting(), now)
        session.seen.join(old.seen.data())
    return effects


def _collect_from(broker: "MobileBroker", connection: str, message: Attach, now: float) -> list[Effect]:
    """Ask the brokers in the client's log, but for those that it left so long ago that they keep nothing (rule 5)."""
    client, expiry_s = message.client, broker.config.limits.session_expiry_s
    others = [entry for entry in message.log if entry.broker != broker.name]
    past = [entry.broker for entry in others if expiry_s is not None and now - entry.at > 2 * expiry_s]
    effects: list[Effect] = [Tell(connection, Strike(tuple(past)))] if past else []
    collecting = Collecting()  # whom we have asked before and is not in the log any more has answered
    collecting.brokers = {entry.broker: message.attempt for entry in others if entry.broker not in past}
    if not collecting.brokers:
        return effects if broker.collecting.pop(client, None) is None else [*effects, StopTimer(("collect", client))]
    broker.collecting.pop(client, None)
    broker.collecting[client] = collecting
    collecting.gives_up_at = None if expiry_s is None else now + expiry_s
    effects += _ask_all(broker, client, now)
    if len(broker.collecting) > COLLECTING_MAX:
        effects += _give_up(broker, next(iter(broker.collecting)), "too many clients have something elsewhere")
    return effects


def _ask_all(broker: "MobileBroker", client: NodeId, now: float) -> list[Effect]:
    """Ask who has not answered, and again after a while. [mobile §4.3: "attempt contact … periodically"]"""
    collecting = broker.collecting[client]
    effects: list[Effect] = [StartTimer(("collect", client), now + collecting.pause_s)]
    collecting.pause_s = min(2 * collecting.pause_s, COLLECT_AGAIN_S_MAX)
    for home, attempt in collecting.brokers.items():
        message = Collect(client, home, broker.name, attempt)
        if not broker._knows(home):
            continue
        if not broker.routing.is_whole():  # it must not overtake what we have still to tell
            effects += broker._hold(broker.name, message, now)
        else:
            effects += broker._send_to(home, message, now)
    return effects


def on_collect_due(broker: "MobileBroker", client: NodeId, now: float) -> list[Effect]:
    """Somebody has not answered yet."""
    collecting = broker.collecting.get(client)
    if collecting is None:
        return []
    if collecting.gives_up_at is not None and now >= collecting.gives_up_at:
        return _give_up(broker, client, "nobody has answered")
    return _ask_all(broker, client, now)


def _give_up(broker: "MobileBroker", client: NodeId, reason: str) -> list[Effect]:
    """Ask no more, on record."""
    asked = ", ".join(broker.collecting.pop(client).brokers)
    return [StopTimer(("collect", client)), Trace(Record("lost", client, "Collect", detail=f"{asked}: {reason}"))]


# ------------------------------------------------------------ carry: between brokers


def on_collect(broker: "MobileBroker", peer: NodeId, message: Collect, now: float) -> list[Effect]:
    """The client has a session elsewhere: end the one here, and send what it kept."""
    if message.home != broker.name:
        return broker._send_to(message.home, message, now)
    client, to, attempt = message.client, message.to, message.attempt
    session = broker.sessions.session(client)
    if session is None:
        return _answer(broker, message, [], (), now)
    if (session.attempt, broker.name) > (attempt, to):  # rule 4: it is the other's that is old
        effects = _answer(broker, message, [], (), now)
        return effects + broker._send_to(to, Collect(client, to, broker.name, session.attempt), now)
    effects = []
    if broker.collecting.pop(client, None) is not None:  # who asks has the same log, and longer
        effects.append(StopTimer(("collect", client)))
    if session.connection is not None:
        effects += broker.quenching.detach(session.connection)
    session, removed = broker.sessions.release(client, now, f"the client has moved to {to}")
    broker._remember_moved(Relocate(client, message.home, to, attempt))
    items = session.queue.waiting()
    effects.append(Trace(Record("replayed", client, number=len(items), detail=f"to {to}")))
    effects += _answer(broker, message, items, session.seen.data(), now)
    return effects + broker._without(removed, now, client)


def _answer(
    broker: "MobileBroker", question: Collect, items: list[Waiting], seen: tuple[Any, ...], now: float
) -> list[Effect]:
    client, home, to, attempt = question.client, question.home, question.to, question.attempt
    parts = [tuple(items[at : at + ITEMS_MAX]) for at in range(0, len(items), ITEMS_MAX)] or [()]
    effects: list[Effect] = []
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        answer = Collected(client, home, to, attempt, attempt, part, seen if is_last else (), is_last)
        effects += broker._send_to(to, answer, now)
    return effects


def on_collected(broker: "MobileBroker", peer: NodeId, message: Collected, now: float) -> list[Effect]:
    """What an old session kept has come: deliver it, or send it after the client (rule 3)."""
    if message.to != broker.name:
        return broker._send_to(message.to, message, now)
    client = message.client
    session, moved = broker.sessions.session(client), broker.moved.get(client)
    effects: list[Effect] = []
    if session is not None:
        effects += _take_in(broker, session, message.items, now)
        session.seen.join(message.seen)
    elif moved is not None and moved.attempt > message.latest:
        if message.items:
            onward = structs.replace(message, to=moved.to, latest=moved.attempt)
            effects += broker._send_to(moved.to, onward, now)
    elif message.items:
        detail = "its client had left before this came"
        effects.append(Trace(Record("session_ended", client, number=len(message.items), detail=detail)))
    if message.is_last:
        effects += _strike(broker, message, session, now)
    return effects


def _strike(broker: "MobileBroker", message: Collected, session: Session | None, now: float) -> list[Effect]:
    """A broker has answered: do not ask it again, and let the client forget it."""
    client, home, effects = message.client, message.home, list[Effect]()
    collecting = broker.collecting.get(client)
    if collecting is None or message.attempt < collecting.brokers.get(home, message.attempt + 1):
        return effects
    del collecting.brokers[home]
    if not collecting.brokers:
        del broker.collecting[client]
        effects.append(StopTimer(("collect", client)))
    if session is not None:
        effects.append(Trace(Record("relocated", client, number=len(session.queue), detail=broker.name)))
        if session.connection is not None:
            effects.append(Tell(session.connection, Strike((home,))))
    return effects


def _wanting(session: Session, names: Iterable[str], event: Event, now: float) -> tuple[str, ...]:
    """Which of these want the event, of subscriptions that it did not wait for."""
    expires = {name: session.subscriptions[name].expires for name in names}
    current = (name for name, at in expires.items() if at is None or now < at)
    return tuple(name for name in current if session.wants(name, event))


def _still_wanting(broker: "MobileBroker", session: Session, item: Waiting) -> tuple[str, ...]:
    """For which subscriptions an item goes on waiting (rule 7): they may have ended since, or been replaced."""
    held = (session.subscriptions[name] for name in item.subscriptions if name in session.subscriptions)
    return tuple(each.id[1] for each in held if broker.movements.weakest(each.filter).matches(item.event))


def _take_in(broker: "MobileBroker", session: Session, items: Iterable[Waiting], now: float) -> list[Effect]:
    """Queue what waited elsewhere, if the client still wants it and has not got it here. [mobile §4.3: duplicates]"""
    effects: list[Effect] = []
    for item in items:
        event = item.event
        names = _still_wanting(broker, session, item) or _wanting(session, session.subscriptions, event, now)
        if not names or not session.seen.add(event.publisher, event.sequence):
            reason = "" if names else "its subscription has ended"
            session.suppressed += 1
            record = Record("suppressed", session.client, "", event.publisher, event.sequence, detail=reason)
            effects.append(Trace(record))
            continue
        if session.chain is not None:
            session.chain.link(session.queue.taken + 1, event)
        delivery = session.queue.put(event, names, now)
        if delivery is not None and session.connection is not None:
            named = delivery if session.chain is None else session.chain.named(delivery)
            effects.append(Tell(session.connection, named))
    return effects + session.gone()


# ------------------------------------------------------------ tables

WAYS: dict[str, Callable[["MobileBroker", str, Attach, float], list[Effect]]] = {
    "naive": attach_anew,
    "carry": attach_with_log,
}
"""By mode, what to do when such a client turns up; the other modes relocate its session (`roaming.py`)."""

ANSWERS: dict[type, Callable[[Any, NodeId, Any, float], list[Effect]]] = {
    AskWishes: on_ask_wishes,
    Wishes: on_wishes,
    Collect: on_collect,
    Collected: on_collected,
}
"""Messages between brokers, and who handles them."""

SAYINGS: dict[type, Callable[[Any, str, Any, float], list[Effect]]] = {MoveOut: on_move_out}
"""Messages from clients, and who handles them."""
