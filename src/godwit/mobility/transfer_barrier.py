"""The transfer barrier: detects when all brokers have delivered what they sent to the old broker.

*Theory.* In a tree a `Relocate` pushes everything before it on the one way that there is: `TreeBarrier` has nothing to
wait for. In the graph family (`GraphBarrier`) every broker X has a channel of its own to the old border broker O and to
the new one N, and channels know nothing of each other. So N, behind its subscriptions, sends a `Flush` to every X and
the `Relocate` to O; each X answers O with `Flushed`. What X published before it knew of the client at N is on X's
channel to O before that answer; what it publishes later goes to N too. When all have answered, O has all of the first
kind and needs none of the second: it gives the session. N delivers the replay, then what it has kept, without what is
in both.

A client that publishes must not overtake itself: its older events travel on the channels of O, its newer ones on those
of N. When the `Relocate` comes, O closes the client's connection, so it publishes nothing more there, and sends every
broker a `Flush` of its own, which follows those events. They answer N with `Flushed`. N lets the client in when the
session is there and all have answered. This runs beside the first exchange, and only for clients that have published
at O since they came there.

*Rules.*
1. Whom a broker waits for: every broker that it knows, but for itself and the one at the other end.
2. A broker that stays out of reach is waited for `FLUSH_S`, once; then no relocation waits for it until it can be
   reached again. What it had still under way is then lost to the client, or overtaken. It is unknown which brokers are
   gone permanently.
3. A question that is asked again, every `ASK_AGAIN_S`, sends all the `Flush`es again. A broker that is met for the
   first time, or in another life, is sent those that concern it.
4. The new life of a broker needs no flushing of what was sent to it: that was for its past one.
5. A broker without the session says who has it (`SessionElsewhere`), and N asks there, with new `Flush`es: those before
   were answered to the wrong one.
6. What is kept here goes when the relocation is over, or after `FLUSH_S`.
7. A question follows where a session went from broker to broker, each time for a later attempt of its client. Where it
   meets an earlier one again, the session was lost with a disk: otherwise the question would go round without end.

*Cost.* For n brokers a relocation takes one multicast and n answers, two of each for a client that has published. A
multicast crosses each of n - 1 links once, as subscribing does in this family. An answer goes to one broker alone, over
as many hops as it is away: so all of them together cross n times the mean path, which grows with the network. On random
graphs of degree 3 the relocation of a subscriber, with its subscriptions, took about 5.6, 6.2 and 7.0 hops for each of
8, 16 and 32 brokers.

*Paper.* [rebeca §4] has trees only; [spcf §3.1] has the overlay, and clients that stay. This is ours.
"""

from operator import attrgetter
from typing import Any, ClassVar, Protocol

import msgspec

from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, TimerKey
from godwit.broker.host import Host
from godwit.broker.messages import Bye, NodeId
from godwit.broker.session import Session
from godwit.mobility.arrival import Arrival, FlushKey
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import AskInterests, Flush, Flushed, Relocate, SessionElsewhere, SessionUnknown
from godwit.mobility.overlay_routes import OverlayRoutes

__all__ = ["FLUSH_S", "Barrier", "GraphBarrier", "InTransit", "TransferBarrierState", "TreeBarrier"]

FLUSH_S = 30.0
FLUSHES_MAX = 10_000
ASKS_MAX = 32  # at once; then a question waits for its time


class InTransit(Protocol):
    """The sessions that come and go, as a barrier sees them. (`relocation.py`)"""

    arrivals: dict[NodeId, Arrival]
    moved: dict[NodeId, Relocate]

    def ask(self, arrival: Arrival, now: float) -> list[Effect]:
        """Ask for a session, and again after a while."""

    def finish(self, arrival: Arrival, now: float) -> list[Effect]:
        """Attach the client, with the session that has arrived or with a new one."""

    def go_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The broker that was asked has no session."""

    def awaited(self, message: Any) -> Arrival | None:
        """The arrival that an answer is for, if it is still waited for."""

    def give(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Send a session with all that waits to its client."""

    def given_since(self, client: NodeId, attempt: int) -> bool:
        """Whether the client's session went elsewhere, for this attempt or a later one."""

    def supersede(self, message: Relocate, latest: int, now: float) -> list[Effect]:
        """Tell the broker that asks that the client has been seen elsewhere since."""

    def on_relocate(self, peer: NodeId, message: Relocate, now: float) -> list[Effect]:
        """A broker asks for a session."""


class Barrier(Protocol):
    """What differs between the families when a session goes from broker to broker."""

    def serve(self, transit: InTransit) -> None:
        """Work for these sessions from now on."""

    def send_question(self, arrival: Arrival, message: AskInterests | Relocate, now: float) -> list[Effect]:
        """Send a question about a client that has turned up here to where it was."""

    def refer(self, message: Relocate, home: NodeId, now: float) -> list[Effect]:
        """Let the broker that has asked here ask at `home`."""

    def depart(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Give a session as soon as all that was meant for it is here."""

    def lets_in_first(self) -> bool:
        """Whether a session that has arrived, and that another broker requests, is attached here before it goes
        there."""

    def flushes_behind(self, session: Session) -> bool:
        """Whether others must flush before the client of a session that goes may publish again."""

    def stay(self, client: NodeId, latest: int | None, now: float) -> list[Effect]:
        """A session that was about to go does not; `latest`: say so to the broker that asked for it."""

    def leaving(self, client: NodeId) -> Relocate | None:
        """The question that a session here is about to leave for."""

    def flush_again(self, client: NodeId, to: NodeId, attempt: int, now: float) -> list[Effect]:
        """A session that is asked for has gone already: others may have flushed before that was known."""

    def has_flushed(self, key: FlushKey) -> bool:
        """Whether everybody has flushed."""

    def stop_waiting(self, key: FlushKey) -> None:
        """Some have not flushed in time."""

    def drop(self, key: FlushKey) -> list[Effect]:
        """Nobody waits for these any more."""


def _next_place(message: Relocate, home: NodeId, moved: Relocate | None) -> tuple[NodeId, int]:
    """Where to ask next, if this broker says `home`, and the attempt for which the session went there. (rule 7)

    An empty name: the session is lost.
    """
    followed = message.followed
    if moved is not None and moved.to == home:
        home, followed = ("" if moved.attempt <= followed else home), moved.attempt
    return ("" if home == message.to else home), followed  # else the trail ends where it began


class TreeBarrier:
    """On a tree a question pushes before it all that was sent to the old place. Nothing is kept."""

    label = "transfer barrier"
    transit: InTransit

    def __init__(self, routes: OverlayRoutes) -> None:
        self.routes = routes

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        return Handlers()

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def serve(self, transit: InTransit) -> None:
        """Work for these sessions from now on."""
        self.transit = transit

    def send_question(self, arrival: Arrival, message: AskInterests | Relocate, now: float) -> list[Effect]:
        """It must not overtake what this broker has still to tell. (rule 6 of relocation.py)"""
        return self.routes.send_behind_tables(arrival.attach.home, message, now)

    def refer(self, message: Relocate, home: NodeId, now: float) -> list[Effect]:
        """The question goes on."""
        client, to, attempt = message.client, message.to, message.attempt
        home, followed = _next_place(message, home, self.transit.moved.get(client))
        if not home:
            return self.routes.send_to(to, SessionUnknown(client, to, attempt), now)
        return self.routes.send_to(home, Relocate(client, home, to, attempt, message.to_incarnation, followed), now)

    def depart(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """The question has pushed everything before it."""
        return self.transit.give(session, message, now)

    def lets_in_first(self) -> bool:
        """The question of the other broker has pushed everything before it, too."""
        return False

    def flushes_behind(self, session: Session) -> bool:
        """The session follows what its client has published on the only way that there is."""
        return False

    def stay(self, client: NodeId, latest: int | None, now: float) -> list[Effect]:
        """Sessions go at once."""
        return []

    def leaving(self, client: NodeId) -> Relocate | None:
        """Sessions go at once."""
        return None

    def flush_again(self, client: NodeId, to: NodeId, attempt: int, now: float) -> list[Effect]:
        """Nobody flushes."""
        return []

    def has_flushed(self, key: FlushKey) -> bool:
        """Nobody has to."""
        return True

    def stop_waiting(self, key: FlushKey) -> None:
        """Nobody is waited for."""

    def drop(self, key: FlushKey) -> list[Effect]:
        """Nothing is kept."""
        return []


class TransferBarrierState(msgspec.Struct, frozen=True, tag=True):
    """Sessions that go when everybody has flushed, which brokers have, and which are not waited for."""

    version: ClassVar[int] = 3
    departing: dict[NodeId, Relocate]
    flushed: dict[FlushKey, tuple[NodeId, ...]]
    absent: tuple[NodeId, ...]


class GraphBarrier:
    """Knows which brokers have flushed, and which sessions wait for it."""

    label = "transfer barrier"
    host: Host
    transit: InTransit

    def __init__(self, routes: OverlayRoutes) -> None:
        self.routes = routes
        self.departing: dict[NodeId, Relocate] = {}  # sessions that go when everybody has flushed
        self.flushed: dict[FlushKey, dict[NodeId, None]] = {}
        self.absent: dict[NodeId, None] = {}  # brokers that did not answer in time (rule 2)

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            relayed={
                SessionElsewhere: RelayedHandler(self.on_session_elsewhere, check_move, attrgetter("to")),
                Flush: RelayedHandler(self.on_flush, check_move, None),
                Flushed: RelayedHandler(self.on_flushed, check_move, None),
            },
            timers={"leaving": self._on_leaving_due, "flushed": self._on_flushed_due},
            on_broker_met=self._on_broker_met,
        )

    def serve(self, transit: InTransit) -> None:
        """Work for these sessions from now on."""
        self.transit = transit

    def snapshot(self) -> TransferBarrierState:
        """All state."""
        flushed = {key: tuple(names) for key, names in self.flushed.items()}
        return TransferBarrierState(dict(self.departing), flushed, tuple(self.absent))

    def restore(self, state: TransferBarrierState) -> None:
        """Take over a snapshot."""
        self.departing, self.absent = dict(state.departing), dict.fromkeys(state.absent)
        self.flushed = {key: dict.fromkeys(names) for key, names in state.flushed.items()}

    # ------------------------------------------------------------ who has flushed

    def _flush(self, client: NodeId, to: NodeId, attempt: int, now: float) -> list[Effect]:
        """Ask all others to tell `to` that they have got this."""
        return self.routes.tell(self.routes.others(besides=to), Flush(client, to, attempt), now)

    def flush_again(self, client: NodeId, to: NodeId, attempt: int, now: float) -> list[Effect]:
        """A session that is asked for has gone already."""
        return self._flush(client, to, attempt, now)

    def on_flush(self, source: NodeId, message: Flush, now: float) -> list[Effect]:
        """Answer, behind all that was sent before."""
        return self.routes.send_to(message.to, Flushed(message.client, message.attempt, source), now)

    def on_flushed(self, source: NodeId, message: Flushed, now: float) -> list[Effect]:
        """One broker more has flushed: it may have been the last."""
        client, attempt, via = message.client, message.attempt, message.via
        key = (client, attempt, via)
        effects: list[Effect] = []
        if not self._is_over(key):
            if key not in self.flushed:
                self.flushed[key] = {}
                effects.append(StartTimer(("flushed", client, str(attempt), via), now + FLUSH_S))
                if len(self.flushed) > FLUSHES_MAX:
                    del self.flushed[next(iter(self.flushed))]
            self.flushed[key][source] = None
        return effects + self._after_flushed(client, now)

    def _missing(self, key: FlushKey) -> list[NodeId]:
        """Which brokers have still to flush. (rules 1, 2)"""
        graph = self.routes.graph
        assert graph is not None
        there = graph.topology.next_hop
        self.absent = {name: None for name in self.absent if there(name) is None}
        flushed = self.flushed.get(key, {})
        return [name for name in self.routes.others(besides=key[2]) if name not in flushed and name not in self.absent]

    def has_flushed(self, key: FlushKey) -> bool:
        """Whether everybody has flushed."""
        return not self._missing(key)

    def stop_waiting(self, key: FlushKey) -> None:
        """Some did not flush in time; of these, those that cannot be reached are not waited for again."""
        graph = self.routes.graph
        assert graph is not None
        missing, there = self._missing(key), graph.topology.next_hop
        self.absent.update((name, None) for name in missing if there(name) is None)

    def drop(self, key: FlushKey) -> list[Effect]:
        """Nobody waits for these any more."""
        if self.flushed.pop(key, None) is None:
            return []
        client, attempt, via = key
        return [StopTimer(("flushed", client, str(attempt), via))]

    def _on_flushed_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Nobody has asked for a while. (rule 6)"""
        _, client, attempt, via = key
        self.flushed.pop((client, int(attempt), via), None)
        return []

    def _is_over(self, key: FlushKey) -> bool:
        """Whether nobody will ask who has flushed: the session has gone, or has come."""
        client, attempt, _ = key
        session = self.host.sessions.session(client)
        if self.transit.given_since(client, attempt):
            return True
        return session is not None and session.attempt >= attempt and client not in self.transit.arrivals

    def _after_flushed(self, client: NodeId, now: float) -> list[Effect]:
        arrival = self.transit.arrivals.get(client)
        if arrival is not None and arrival.flushes is not None and self.has_flushed(arrival.flushes):
            return self.transit.finish(arrival, now)
        return self._leave_if_flushed(client, now)

    # ------------------------------------------------------------ sessions that go

    def leaving(self, client: NodeId) -> Relocate | None:
        """The question that a session here is about to leave for."""
        return self.departing.get(client)

    def depart(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Give a session when all have flushed; until then it takes in what comes, and its client is away."""
        client, before = message.client, self.departing.get(message.client)
        effects: list[Effect] = []
        if before is not None and (before.attempt, before.to) != (message.attempt, message.to):
            if before.attempt >= message.attempt:
                return self.transit.supersede(message, before.attempt, now)
            effects += self.stay(client, message.attempt if before.to != message.to else None, now)
        if session.connection is not None:
            connection, reason = session.connection, f"the client has moved to {message.to}"
            effects += [Tell(connection, Bye(reason)), Close(connection, reason)]
            effects += self.host.detach(connection, now)
        if session.has_published:
            effects += self._flush(client, message.to, message.attempt, now)
        if client not in self.departing:
            self.departing[client] = message
            effects.append(StartTimer(("leaving", client), now + FLUSH_S))
        return effects + self._after_flushed(client, now)

    def lets_in_first(self) -> bool:
        """It departs from here as from any broker: when everybody has flushed."""
        return True

    def flushes_behind(self, session: Session) -> bool:
        """What its client has published here is on other channels than what it will publish there."""
        return session.has_published

    def stay(self, client: NodeId, latest: int | None, now: float) -> list[Effect]:
        """A session that was about to go does not; `latest`: say so to the broker that asked for it."""
        message = self.departing.pop(client, None)
        if message is None:
            return []
        effects: list[Effect] = [StopTimer(("leaving", client))]
        effects += self.drop((client, message.attempt, message.to))
        return effects if latest is None else effects + self.transit.supersede(message, latest, now)

    def _leave_if_flushed(self, client: NodeId, now: float) -> list[Effect]:
        message = self.departing.get(client)
        if message is None or not self.has_flushed((client, message.attempt, message.to)):
            return []
        return self._leave_now(message, now)

    def _leave_now(self, message: Relocate, now: float) -> list[Effect]:
        effects = self.stay(message.client, None, now)
        session = self.host.sessions.session(message.client)
        if session is None or message.attempt <= session.attempt:  # it has ended, or the client is back
            return effects + self.transit.on_relocate(message.to, message, now)
        return effects + self.transit.give(session, message, now)

    def _on_leaving_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Some do not answer: go without them. (rule 2)"""
        message = self.departing.get(key[1])
        if message is None:
            return []
        self.stop_waiting((key[1], message.attempt, message.to))
        return self._leave_now(message, now)

    # ------------------------------------------------------------ sessions that come

    def send_question(self, arrival: Arrival, message: AskInterests | Relocate, now: float) -> list[Effect]:
        """Behind a question for the session, everybody flushes."""
        attach = arrival.attach
        effects = self.routes.send_to(attach.home, message, now)
        return effects + self._flush(attach.client, attach.home, attach.attempt, now) if arrival.asks else effects

    def refer(self, message: Relocate, home: NodeId, now: float) -> list[Effect]:
        """The broker that has asked is told where to ask. (rule 5)"""
        client, to, attempt = message.client, message.to, message.attempt
        home, followed = _next_place(message, home, self.transit.moved.get(client))
        if not home:
            return self.routes.send_to(to, SessionUnknown(client, to, attempt), now)
        return self.routes.send_to(to, SessionElsewhere(client, to, attempt, home, followed), now)

    def on_session_elsewhere(self, peer: NodeId, message: SessionElsewhere, now: float) -> list[Effect]:
        """Ask again, at the right place. (rule 5)"""
        arrival = self.transit.awaited(message)
        if arrival is None or arrival.is_coming or arrival.attach.attempt != message.attempt:
            return []
        if message.home == self.host.name:  # the trail ends where it began
            return self.transit.go_without(arrival, now)
        arrival.look_at(message.home, message.followed)
        return self.transit.ask(arrival, now) if arrival.asks < ASKS_MAX else []

    def _on_broker_met(self, broker: NodeId, again: bool, now: float) -> list[Effect]:
        """A broker is known from now on, or has lost its memory: tell it what it must know. (rule 3)"""
        effects: list[Effect] = []
        for arrival in list(self.transit.arrivals.values()):
            client, home, attempt = arrival.attach.client, arrival.attach.home, arrival.attach.attempt
            if home == broker:
                effects += self.transit.ask(arrival, now)
            elif arrival.flushes is not None:
                if again:  # rule 4
                    effects += self.on_flushed(broker, Flushed(client, *arrival.flushes[1:]), now)
            elif arrival.asks:
                effects += self.routes.tell([broker], Flush(client, home, attempt), now)
        return effects
