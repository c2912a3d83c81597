"""Clients that send only their name: brokers know where their sessions are. The mode `named`.

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
4. Without an answer for `NAMED_WAIT_S`, the client is refused, and the reason names who does not answer. Nothing is
   lost: the session is where it is, or on its way to here; once it was asked for, what comes for it is kept here for
   as long as a session would be. Only when the broker that should have it says that it has not, or it was silent for
   longer than it would keep a session, a new one begins; its receipt says that the old one is lost.
5. Over however many connections a client comes, the newest is right.
6. A broker without memory does not know whom it has had. It is told by its neighbours, and does not take it back: so
   the client hears that its session is lost. A client that comes before they have told it begins a new session, and
   one that it has elsewhere ends (rule 3).

*Paper.* [mobile §4.3] the old broker is asked what the client wants. *Departures.* There the client says where it was.
"""

from msgspec import structs

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.gossip import WHEREABOUTS, Gossip, stamp_of
from godwit.broker.gossip_messages import Fact, SessionLocation
from godwit.broker.host import Host
from godwit.broker.messages import Attach, NodeId
from godwit.broker.session import Session
from godwit.mobility.arrival import Arrival, Step
from godwit.mobility.attaching import admit
from godwit.mobility.relocation import Relocation
from godwit.trace import Record

__all__ = ["NAMED_WAIT_S", "Whereabouts"]

NAMED_WAIT_S = 10.0
ASK_RARELY_S = 120.0  # for a session that was asked for, when its client has gone
WAIT_TIMER = "named"


class Whereabouts:
    """Knows where the sessions of clients are that bring their name alone."""

    label = "whereabouts"
    asks_wishes = True
    says_when_let_in = False  # each greeting begins a new attempt
    host: Host

    def __init__(self, relocation: Relocation, gossip: Gossip) -> None:
        self.relocation = relocation
        self.gossip = gossip
        relocation.vary("named", self)

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            timers={WAIT_TIMER: self._on_wait_due},
            facts={WHEREABOUTS: self.on_fact},
            on_session_changed=self._announce,
        )

    def snapshot(self) -> None:
        """Nothing is kept: the table is one of those that brokers share (`gossip.py`)."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    # ------------------------------------------------------------ a client comes

    def greet(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client says its name: go on with its session, wherever that is, or begin one."""
        client = message.client
        effects: list[Effect] = []
        filled = self._filled_in(message, now)
        if message.fresh_start:
            effects += self._end_here(filled, now)
            filled = structs.replace(filled, home="", session="", since=filled.attempt)
        effects += admit(self.relocation, self, connection, filled, now)
        if client in self.relocation.arrivals:
            effects.append(StartTimer((WAIT_TIMER, client), now + NAMED_WAIT_S))
        return effects

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """With a greeting that is filled in, as in the mode `ask`."""
        return self.relocation.attach(connection, message, now)

    def _filled_in(self, message: Attach, now: float) -> Attach:
        """The greeting of a client that remembers all that the brokers know of it. (rule 1)"""
        client = message.client
        session, arrival = self.host.sessions.session(client), self.relocation.arrivals.get(client)
        known: SessionLocation | None = self.gossip.value(WHEREABOUTS, client)
        attempt = max(self._attempts(client, now))
        brought = Attach(client, quench=message.quench, attempt=attempt, mode=message.mode, context=message.context)
        if session is not None:
            return structs.replace(self.resume(brought, session), home=self.host.name, since=attempt)
        if arrival is not None:
            return structs.replace(brought, session=arrival.attach.session, home=arrival.attach.home, since=attempt)
        if known is None:
            return structs.replace(brought, since=attempt)
        return structs.replace(brought, session=known.session, home=known.home, since=known.attempt)

    def _attempts(self, client: NodeId, now: float) -> list[int]:
        """The attempts that a client could be at now, by all that is known here."""
        relocation = self.relocation
        session, arrival = self.host.sessions.session(client), relocation.arrivals.get(client)
        fact = self.gossip.fact(WHEREABOUTS, client)
        found = [stamp_of(now), 1, relocation.received.get(client, 0) + 1]
        if fact is not None:
            found.append(fact.stamp // 2 + 1)
        if session is not None:
            found.append(session.attempt + 1)
        if arrival is not None:
            found.append(arrival.attach.attempt + 1)
            if arrival.next is not None:
                found.append(arrival.next.attempt + 1)
        gone = (relocation.moved.get(client), relocation.barrier.leaving(client))
        return found + [question.attempt + 1 for question in gone if question is not None]

    def _end_here(self, message: Attach, now: float) -> list[Effect]:
        """The client wants a new session: nothing that is here, or comes here, is for it any more."""
        client, reason, host = message.client, "the client begins a new session", self.host
        effects: list[Effect] = []
        arrival, session = self.relocation.arrivals.get(client), host.sessions.session(client)
        if arrival is not None:
            effects += self._hang_up(arrival, reason)
            effects += self.relocation.forget(arrival, now)
        if session is not None:
            if session.connection is not None:
                effects += host.unlink(session.connection)
            effects += self.relocation.barrier.stay(client, message.attempt, now)
            effects += host.withdraw(host.sessions.end(client, now, reason), now, client)
        return effects

    def resume(self, attach: Attach, session: Session) -> Attach:
        """The greeting for a session that has come: what was not confirmed is told again. (rule 1)"""
        received, receipt = session.queue.confirmed_up_to(), session.last_receipt()
        return structs.replace(attach, session=session.name, received=received, receipt=receipt)

    # ------------------------------------------------------------ no answer

    def _on_wait_due(self, key: TimerKey, now: float) -> list[Effect]:
        """A client has waited for long enough. (rule 4)"""
        arrival = self.relocation.arrivals.get(key[1])
        if arrival is None or arrival.attach.mode != "named" or arrival.connection is None:
            return []
        if arrival.is_coming:
            return [StartTimer((WAIT_TIMER, key[1]), now + NAMED_WAIT_S)]
        return self._send_away(arrival, now, waits_on=arrival.asks > 0)

    def on_no_answer(self, arrival: Arrival, now: float) -> list[Effect]:
        """No part of the session has come in time."""
        return self._send_away(arrival, now, waits_on=False)

    def _send_away(self, arrival: Arrival, now: float, *, waits_on: bool) -> list[Effect]:
        """Tell the client which broker does not answer; `waits_on`: its session may be on its way to here."""
        client, home = arrival.attach.client, arrival.attach.home
        fact, expiry_s = self.gossip.fact(WHEREABOUTS, client), self.host.config.limits.session_expiry_s
        is_old = fact is not None and expiry_s is not None and stamp_of(now) - fact.stamp // 2 > stamp_of(expiry_s)
        if is_old and arrival.connection is not None:
            return self.begin_without(arrival, now)
        effects = self._hang_up(arrival, f"the session of {client} is at {home}, which does not answer")
        if waits_on:
            return effects
        is_over = expiry_s is not None and stamp_of(now) - arrival.attach.attempt > stamp_of(expiry_s)
        if not arrival.asks or arrival.superseded_by is not None or is_over:
            return effects + self.relocation.forget(arrival, now)
        arrival.wait_until(now + ASK_RARELY_S)  # what came for it meanwhile is kept: the session may still come
        effects += self.relocation.ask(arrival, now)
        return [*effects, StartTimer(("relocate", client), arrival.gives_up_at)]

    def _hang_up(self, arrival: Arrival, reason: str) -> list[Effect]:
        return [StopTimer((WAIT_TIMER, arrival.attach.client)), *arrival.hang_up(reason)]

    def begin_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The session is lost: begin another. (rule 4)"""
        connection, attach = arrival.connection, arrival.attach
        effects: list[Effect] = [StopTimer((WAIT_TIMER, attach.client))]
        effects += self.relocation.forget(arrival, now, Step.GIVE_UP)
        if connection is None:
            return effects
        self.host.sessions.vouch(connection, arrival.asserted or {})
        began = structs.replace(attach, home="", since=attach.attempt, session=attach.session or "unknown")
        return effects + admit(self.relocation, self, connection, began, now)

    # ------------------------------------------------------------ the table

    def _announce(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """A session has begun, come, gone or ended here: say so, or end it when there is a later one. (rules 2, 3)"""
        name, relocation = self.host.name, self.relocation
        session = self.host.sessions.session(client)
        fact = self.gossip.fact(WHEREABOUTS, client)
        known = None if fact is None else fact.value
        if session is None or not session.named:
            moved = relocation.moved.get(client)
            if fact is None or not isinstance(known, SessionLocation) or known.home != name:
                return
            is_given = moved is not None and moved.attempt > known.attempt
            if (is_given and session is None) or client in relocation.arrivals:
                return
            self.gossip.put(WHEREABOUTS, (client,), None, now, fact.stamp + 1)
            return
        if fact is not None and (fact.stamp, fact.by) > (2 * session.attempt + 1, name):
            effects += self._end_earlier(session, fact, now)
            return
        if isinstance(known, SessionLocation) and (known.home, known.attempt) == (name, session.attempt):
            return
        here = SessionLocation(name, session.name, session.attempt)
        reason = self.gossip.put(WHEREABOUTS, (client,), here, now, 2 * session.attempt)
        if reason is not None:
            effects.append(Trace(Record("lost", client, "GossipUpdate", detail=reason)))

    def on_fact(self, fact: Fact, effects: list[Effect], now: float) -> None:
        """Another broker has the client's session: an earlier one here ends. (rule 3)"""
        name, session = self.host.name, self.host.sessions.session(fact.key[0])
        if (
            session is None
            or not session.named
            or not isinstance(fact.value, SessionLocation)
            or fact.value.home == name
        ):
            return
        if (fact.stamp, fact.by) > (2 * session.attempt, name):
            effects += self._end_earlier(session, fact, now)

    def _end_earlier(self, session: Session, fact: Fact, now: float) -> list[Effect]:
        host = self.host
        effects: list[Effect] = [] if session.connection is None else host.unlink(session.connection)
        effects += self.relocation.barrier.stay(session.client, fact.stamp // 2, now)
        where = f" at {fact.value.home}" if isinstance(fact.value, SessionLocation) else ""
        ended = host.sessions.end(session.client, now, f"the client has a later session{where}")
        return effects + host.withdraw(ended, now, session.client)
