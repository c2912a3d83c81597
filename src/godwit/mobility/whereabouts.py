"""Clients that bring nothing but their name: the brokers know where their sessions are. The mode `named`.

*Theory.* An MQTT client, a browser or a command line knows no session, no number and no home. So the brokers share a
table (`gossip.py`): by client, the broker that has its session, the session's name and the attempt for which it came
there. Where such a client turns up its greeting is filled in from that table, and from there on it moves as in the mode
`ask`. The broker counts its attempts: by the clock, and always above what is known. The session is told again whatever
the client has not confirmed.

*Rules.*
1. What the client itself says of its session, its numbers and its home is not looked at.
2. A session that begins or comes is announced, and taken back when it ends; one that has been given away is announced
   by who has got it. The stamp of an entry is twice the attempt, and one more when it is taken back. So of two
   sessions the one of the later greeting counts, whatever happens to the other, and in whatever order that is heard.
3. Who has a session of an earlier greeting than the one that the table names ends it. Two of one client begin when it
   comes to a broker that has not heard of its session yet, or by its own wish (`Attach.fresh_start`); what waited in
   the earlier one is then gone.
4. When nobody answers for `NAMED_WAIT_S`, the client is sent away, with a word on who does not answer. Nothing is lost:
   the session is where it is, or on its way to here; once it was asked for, what comes for it is kept here for as long
   as a session would be. Only when the broker that should have it says that it has not, or
   it was silent for longer than it would keep a session, a new one begins; its receipt says that the old one is lost.
5. Over however many connections a client comes, the newest is right.
6. A broker without memory does not know whom it has had. It is told by its neighbours, and does not take it back: so
   the client hears that its session is lost. A client that comes before they have told it begins a new session, and
   one that it has elsewhere ends (rule 3).

*Paper.* [mobile §4.3] the old broker is asked what the client wants. *Departures.* There the client says where it was.
"""

from typing import TYPE_CHECKING

from msgspec import structs

from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, Trace
from godwit.broker.gossip import WHEREABOUTS, stamp_of
from godwit.broker.gossip_messages import Dwelling, Fact
from godwit.broker.messages import Attach, Bye, NodeId
from godwit.broker.session import Session
from godwit.mobility.messages import Over, Relocate
from godwit.trace import Record

if TYPE_CHECKING:
    from godwit.mobility.arrivals import Arrival
    from godwit.mobility.roaming import MobileBroker

__all__ = [
    "NAMED_WAIT_S",
    "announce",
    "attach",
    "begin_anew",
    "on_fact",
    "on_over",
    "on_wait_due",
    "resumed",
    "say_over",
    "send_away",
]

NAMED_WAIT_S = 10.0
ASK_RARELY_S = 120.0  # for a session that was asked for, when its client has gone
WAIT_TIMER = "named"


# ------------------------------------------------------------ a client comes


def attach(broker: "MobileBroker", connection: str, message: Attach, now: float) -> list[Effect]:
    """A client says its name: go on with its session, wherever that is, or begin one."""
    client = message.client
    effects: list[Effect] = []
    filled = _filled_in(broker, message, now)
    if message.fresh_start:
        effects += _end_here(broker, filled, now)
        filled = structs.replace(filled, home="", session="", since=filled.attempt)
    effects += broker._come(connection, filled, now)
    if client in broker.arrivals:
        effects.append(StartTimer((WAIT_TIMER, client), now + NAMED_WAIT_S))
    return effects


def _filled_in(broker: "MobileBroker", message: Attach, now: float) -> Attach:
    """The greeting of a client that remembers all that the brokers know of it. (rule 1)"""
    client = message.client
    session, arrival = broker.sessions.session(client), broker.arrivals.get(client)
    known: Dwelling | None = broker.gossip.value(WHEREABOUTS, client)
    attempt = max(_attempts(broker, client, now))
    brought = Attach(client, quench=message.quench, attempt=attempt, mode=message.mode, context=message.context)
    if session is not None:
        return structs.replace(resumed(brought, session), home=broker.name, since=attempt)
    if arrival is not None:
        return structs.replace(brought, session=arrival.attach.session, home=arrival.attach.home, since=attempt)
    if known is None:
        return structs.replace(brought, since=attempt)
    return structs.replace(brought, session=known.session, home=known.home, since=known.attempt)


def _attempts(broker: "MobileBroker", client: NodeId, now: float) -> list[int]:
    """The attempts that a client could be at now, by all that is known here."""
    session, arrival, fact = (
        broker.sessions.session(client),
        broker.arrivals.get(client),
        broker.gossip.fact(WHEREABOUTS, client),
    )
    found = [stamp_of(now), 1, broker.had.get(client, 0) + 1]
    if fact is not None:
        found.append(fact.stamp // 2 + 1)
    if session is not None:
        found.append(session.attempt + 1)
    if arrival is not None:
        found.append(arrival.attach.attempt + 1)
        if arrival.next is not None:
            found.append(arrival.next.attempt + 1)
    return found + [each[client].attempt + 1 for each in (broker.moved, broker.leaving) if client in each]


def _end_here(broker: "MobileBroker", message: Attach, now: float) -> list[Effect]:
    """The client wants to begin anew: nothing that is here, or comes here, is for it any more."""
    client, reason = message.client, "the client begins anew"
    effects: list[Effect] = []
    arrival, session = broker.arrivals.get(client), broker.sessions.session(client)
    if arrival is not None:
        effects += _hung_up(broker, arrival, reason)
        effects += broker._forget(arrival, now)
    if session is not None:
        if session.connection is not None:
            effects += broker.quenching.detach(session.connection)
        effects += broker._stay(client, message.attempt, now)
        effects += broker._without(broker.sessions.end(client, now, reason), now, client)
    return effects


def resumed(attach: Attach, session: Session) -> Attach:
    """The greeting for a session that has come: what was not confirmed is told again. (rule 1)"""
    if attach.mode != "named":
        return attach
    received, receipt = session.queue.confirmed_up_to(), session.last_receipt()
    return structs.replace(attach, session=session.name, received=received, receipt=receipt)


# ------------------------------------------------------------ nobody answers


def on_wait_due(broker: "MobileBroker", client: NodeId, now: float) -> list[Effect]:
    """A client has waited for long enough. (rule 4)"""
    arrival = broker.arrivals.get(client)
    if arrival is None or arrival.attach.mode != "named" or arrival.connection is None:
        return []
    if arrival.parts:  # it is coming
        return [StartTimer((WAIT_TIMER, client), now + NAMED_WAIT_S)]
    return send_away(broker, arrival, now, waits_on=arrival.asks > 0)


def send_away(broker: "MobileBroker", arrival: "Arrival", now: float, *, waits_on: bool = False) -> list[Effect]:
    """Tell the client who does not answer; `waits_on`: its session may be on its way to here."""
    client, home = arrival.attach.client, arrival.attach.home
    fact, expiry_s = broker.gossip.fact(WHEREABOUTS, client), broker.config.limits.session_expiry_s
    is_old = fact is not None and expiry_s is not None and stamp_of(now) - fact.stamp // 2 > stamp_of(expiry_s)
    if is_old and arrival.connection is not None:
        return begin_anew(broker, arrival, now)
    effects = _hung_up(broker, arrival, f"the session of {client} is at {home}, which does not answer")
    if waits_on:
        return effects
    is_over = expiry_s is not None and stamp_of(now) - arrival.attach.attempt > stamp_of(expiry_s)
    if not arrival.asks or arrival.is_superseded or is_over:
        return effects + broker._forget(arrival, now)
    arrival.gives_up_at = now + ASK_RARELY_S  # what came for it meanwhile is kept: the session may still come
    return [*effects, *broker._ask(arrival, now), StartTimer(("relocate", client), arrival.gives_up_at)]


def _hung_up(broker: "MobileBroker", arrival: "Arrival", reason: str) -> list[Effect]:
    connection, arrival.connection = arrival.connection, None
    effects: list[Effect] = [StopTimer((WAIT_TIMER, arrival.attach.client))]
    return effects if connection is None else [*effects, Tell(connection, Bye(reason)), Close(connection, reason)]


def begin_anew(broker: "MobileBroker", arrival: "Arrival", now: float) -> list[Effect]:
    """The session is lost: begin another. (rule 4)"""
    connection, attach = arrival.connection, arrival.attach
    effects: list[Effect] = [StopTimer((WAIT_TIMER, attach.client)), *broker._forget(arrival, now)]
    if connection is None:
        return effects
    broker.sessions.vouch(connection, arrival.asserted or {})
    began = structs.replace(attach, home="", since=attach.attempt, session=attach.session or "unknown")
    return effects + broker._come(connection, began, now)


# ------------------------------------------------------------ the table


def announce(broker: "MobileBroker", client: NodeId, effects: list[Effect], now: float) -> None:
    """A session has begun, come, gone or ended here: say so, or end it when there is a later one. (rules 2, 3)"""
    session = broker.sessions.session(client)
    fact = broker.gossip.fact(WHEREABOUTS, client)
    known = None if fact is None else fact.value
    if session is None or not session.named:
        moved = broker.moved.get(client)
        if fact is None or not isinstance(known, Dwelling) or known.home != broker.name:
            return
        is_given = moved is not None and moved.attempt > known.attempt
        if (is_given and session is None) or client in broker.arrivals:
            return
        broker.gossip.put(WHEREABOUTS, (client,), None, now, fact.stamp + 1)
        return
    if fact is not None and (fact.stamp, fact.by) > (2 * session.attempt + 1, broker.name):
        effects += _end_earlier(broker, session, fact, now)
        return
    if isinstance(known, Dwelling) and (known.home, known.attempt) == (broker.name, session.attempt):
        return
    here = Dwelling(broker.name, session.name, session.attempt)
    reason = broker.gossip.put(WHEREABOUTS, (client,), here, now, 2 * session.attempt)
    if reason is not None:
        effects.append(Trace(Record("lost", client, "Known", detail=reason)))


def on_fact(broker: "MobileBroker", fact: Fact, effects: list[Effect], now: float) -> None:
    """Somebody else has the client's session: an earlier one here ends. (rule 3)"""
    session = broker.sessions.session(fact.key[0])
    if session is None or not session.named or not isinstance(fact.value, Dwelling) or fact.value.home == broker.name:
        return
    if (fact.stamp, fact.by) > (2 * session.attempt, broker.name):
        effects += _end_earlier(broker, session, fact, now)


def _end_earlier(broker: "MobileBroker", session: Session, fact: Fact, now: float) -> list[Effect]:
    effects: list[Effect] = [] if session.connection is None else broker.quenching.detach(session.connection)
    effects += broker._stay(session.client, fact.stamp // 2, now)
    where = f" at {fact.value.home}" if isinstance(fact.value, Dwelling) else ""
    ended = broker.sessions.end(session.client, now, f"the client has a later session{where}")
    return effects + broker._without(ended, now, session.client)


# ------------------------------------------------------------ clients that know where they have been


def say_over(broker: "MobileBroker", attach: Attach, now: float) -> list[Effect]:
    """The client's session is here: where it has been meanwhile another may have begun."""
    effects: list[Effect] = []
    for other in dict.fromkeys((*attach.tried, attach.home)) if attach.tried else ():
        if other != broker.name and broker._knows(other):
            effects += broker._send_to(other, Over(attach.client, other, attach.attempt, broker.name), now)
    return effects


def on_over(broker: "MobileBroker", peer: NodeId, message: Over, now: float) -> list[Effect]:
    """A session that the client never heard of, or has given up, ends."""
    if message.to != broker.name:
        return broker._send_to(message.to, message, now)
    session = broker.sessions.session(message.client)
    if session is None or session.attempt >= message.attempt or message.client in broker.arrivals:
        return []
    effects: list[Effect] = [] if session.connection is None else broker.quenching.detach(session.connection)
    effects += broker._stay(message.client, message.attempt, now)
    broker._remember_moved(Relocate(message.client, broker.name, message.by, message.attempt))
    ended = broker.sessions.end(message.client, now, f"the client has another session at {message.by}")
    return effects + broker._without(ended, now, message.client)
