"""Relocation in the graph family: knowing that everybody has sent to the old place all that was meant for it.

*Theory.* In a tree a `Relocate` pushes everything before it on the one way that there is. In the graph family every
broker X has a channel of its own to the old border broker O and to the new one N, and channels know nothing of each
other. So N, behind its subscriptions, sends a `Flush` to every X and the `Relocate` to O; each X answers O with
`Flushed`. What X published before it knew of the client at N is on X's channel to O before that answer; what it
publishes later goes to N too. When all have answered, O has all of the first kind and needs none of the second: it
gives the session. N delivers the replay, then what it has kept, without what is in both.

A client that publishes must not overtake itself: its older events travel on the channels of O, its newer ones on those
of N. When the `Relocate` comes, O closes the client's connection, so it publishes nothing more there, and sends every
broker a `Flush` of its own, which follows those events. They answer N with `Flushed`. N lets the client in when the
session is there and all have answered. This runs beside the first exchange, and only for clients that have published
at O since they came there.

*Rules.*
1. Whom a broker waits for: every broker that it knows, but for itself and the one at the other end.
2. A broker that stays out of reach is waited for `FLUSH_S`, once; then no relocation waits for it until it can be
   reached again. What it had still under way is then lost to the client, or overtaken. It is not known who is gone for
   good.
3. A question that is asked again, every `ASK_AGAIN_S`, sends all the `Flush`es again. A broker that is met for the
   first time, or in another life, is sent those that concern it.
4. The new life of a broker needs no flushing of what was sent to it: that was for its past one.
5. A broker without the session says who has it (`Elsewhere`), and N asks there, with new `Flush`es: those before were
   answered to the wrong one.
6. What is kept here goes when the relocation is over, or after `FLUSH_S`.

*Cost.* For n brokers a relocation takes one multicast and n answers, two of each for a client that has published. A
multicast crosses each of n - 1 links once, as subscribing does in this family. An answer goes to one broker alone, over
as many hops as it is away: so all of them together cross n times the mean path, which grows with the network. On random
graphs of degree 3 the relocation of a subscriber, with its subscriptions, took about 5.6, 6.2 and 7.0 hops for each of
8, 16 and 32 brokers.

*Paper.* [rebeca §4] has trees only; [spcf §3.1] has the overlay, and clients that stay. This is ours.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import structs

from godwit.broker.broker import BrokerConfig
from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell
from godwit.broker.messages import Bye, NodeId
from godwit.broker.session import Session
from godwit.mobility.locations import Movements
from godwit.mobility.messages import Elsewhere, Flush, Flushed, Relocate
from godwit.mobility.ways import Handler, ReachingBroker

__all__ = ["FLUSH_S", "FlushingBroker"]

FLUSH_S = 30.0
FLUSHES_MAX = 10_000
ASKS_MAX = 32  # at once; then a question waits for its time

FlushKey = tuple[NodeId, int, NodeId]
"""Client, attempt, and the broker whose `Flush` it is."""


class FlushingBroker(ReachingBroker):
    """A broker that knows who has flushed. What it does about it is its heir's affair (`roaming.py`)."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        movements: Movements | None = None,
    ) -> None:
        super().__init__(name, neighbours, config, incarnation, movements=movements)
        self.arrivals: dict[NodeId, Any] = {}  # see roaming.py, as for the next one
        self.moved: dict[NodeId, Relocate] = {}
        self.leaving: dict[NodeId, Relocate] = {}  # sessions that go when everybody has flushed
        self.flushed: dict[FlushKey, dict[NodeId, None]] = {}
        self.absent: dict[NodeId, None] = {}  # brokers that were waited for in vain (rule 2)

    # ------------------------------------------------------------ who is there

    def _others(self, besides: NodeId) -> list[NodeId]:
        """Every broker that is known, without this one and another."""
        return [] if self.graph is None else [name for name in sorted(self.graph.channels.lives) if name != besides]

    def _flush(self, client: NodeId, to: NodeId, attempt: int, now: float) -> list[Effect]:
        """Ask all others to tell `to` that they have got this."""
        return self._tell(self._others(besides=to), Flush(client, to, attempt), now)

    def on_flush(self, source: NodeId, message: Flush, now: float) -> list[Effect]:
        """Answer, behind all that was sent before."""
        return self._send_to(message.to, Flushed(message.client, message.attempt, source), now)

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
        """Who has still to flush. (rules 1, 2)"""
        graph = self.graph
        assert graph is not None
        there = graph.topology.next_hop
        self.absent = {name: None for name in self.absent if there(name) is None}
        flushed = self.flushed.get(key, {})
        return [name for name in self._others(besides=key[2]) if name not in flushed and name not in self.absent]

    def _flushed_by_all(self, key: FlushKey) -> bool:
        return self.graph is None or not self._missing(key)

    def _stop_waiting(self, key: FlushKey) -> None:
        """Some did not flush in time; of these, those that cannot be reached are not waited for again."""
        assert self.graph is not None
        missing, there = self._missing(key), self.graph.topology.next_hop
        self.absent.update((name, None) for name in missing if there(name) is None)

    def _drop_flushed(self, key: FlushKey) -> list[Effect]:
        """Nobody waits for these any more."""
        if self.flushed.pop(key, None) is None:
            return []
        client, attempt, via = key
        return [StopTimer(("flushed", client, str(attempt), via))]

    def _is_over(self, key: FlushKey) -> bool:
        """Whether nobody will ask who has flushed: the session has gone, or has come."""
        client, attempt, _ = key
        moved, session = self.moved.get(client), self.sessions.session(client)
        is_given = moved is not None and moved.attempt >= attempt
        return is_given or (session is not None and session.attempt >= attempt and client not in self.arrivals)

    def _after_flushed(self, client: NodeId, now: float) -> list[Effect]:
        arrival = self.arrivals.get(client)
        if arrival is not None and arrival.flushes is not None and self._flushed_by_all(arrival.flushes):
            return self._give_up(arrival, now)
        return self._leave_if_flushed(client, now)

    # ------------------------------------------------------------ sessions that go

    def _leave(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Give a session when all have flushed; until then it takes in what comes, and its client is away."""
        client, before = message.client, self.leaving.get(message.client)
        effects: list[Effect] = []
        if before is not None and (before.attempt, before.to) != (message.attempt, message.to):
            if before.attempt >= message.attempt:
                return self._supersede(message, before.attempt, now)
            effects += self._stay(client, message.attempt if before.to != message.to else None, now)
        if session.connection is not None:
            connection, reason = session.connection, f"the client has moved to {message.to}"
            effects += [Tell(connection, Bye(reason)), Close(connection, reason), *self._gone(connection, now)]
        if session.has_published:
            effects += self._flush(client, message.to, message.attempt, now)
        if client not in self.leaving:
            self.leaving[client] = message
            effects.append(StartTimer(("leaving", client), now + FLUSH_S))
        return effects + self._after_flushed(client, now)

    def _stay(self, client: NodeId, latest: int | None, now: float) -> list[Effect]:
        """A session that was about to go does not; `latest`: who asked for it is told that the client is elsewhere."""
        message = self.leaving.pop(client, None)
        if message is None:
            return []
        effects: list[Effect] = [StopTimer(("leaving", client))]
        effects += self._drop_flushed((client, message.attempt, message.to))
        return effects if latest is None else effects + self._supersede(message, latest, now)

    def _leave_if_flushed(self, client: NodeId, now: float) -> list[Effect]:
        message = self.leaving.get(client)
        if message is None or not self._flushed_by_all((client, message.attempt, message.to)):
            return []
        return self._leave_now(message, now)

    def _leave_now(self, message: Relocate, now: float) -> list[Effect]:
        effects = self._stay(message.client, None, now)
        session = self.sessions.session(message.client)
        if session is None or message.attempt <= session.attempt:  # it has ended, or the client is back
            return effects + self.on_relocate(message.to, message, now)
        return effects + self._give(session, message, now)

    def on_leaving_due(self, client: NodeId, now: float) -> list[Effect]:
        """Some do not answer: go without them. (rule 2)"""
        message = self.leaving.get(client)
        if message is None:
            return []
        self._stop_waiting((client, message.attempt, message.to))
        return self._leave_now(message, now)

    # ------------------------------------------------------------ sessions that come

    def _on_met(self, broker: NodeId, again: bool, now: float) -> list[Effect]:
        """Graph family: a broker is known from now on, or has lost its memory: tell it what it must know."""
        effects = self._send_waiting(broker, now)
        for arrival in list(self.arrivals.values()):
            client, home, attempt = arrival.attach.client, arrival.attach.home, arrival.attach.attempt
            if home == broker:
                effects += self._ask(arrival, now)
            elif arrival.flushes is not None:
                if again:  # rule 4 of graph_roaming
                    effects += self.on_flushed(broker, Flushed(client, *arrival.flushes[1:]), now)
            elif arrival.asks:
                effects += self._tell([broker], Flush(client, home, attempt), now)
        return effects

    def _on_handed(self, source: NodeId, message: Any, now: float) -> list[Effect]:
        """Graph family: a message about a client that moves, from anywhere."""
        return self.ANSWERS[type(message)](self, source, message, now)

    def on_elsewhere(self, peer: NodeId, message: Elsewhere, now: float) -> list[Effect]:
        """Graph family: ask again, at the right place."""
        arrival = self._awaited(message)
        if arrival is None or arrival.parts or arrival.attach.attempt != message.attempt:
            return []
        if message.home == self.name:  # the trail ends where it began
            return self._without_session(arrival, now)
        arrival.attach = structs.replace(arrival.attach, home=message.home)
        return self._ask(arrival, now) if arrival.asks < ASKS_MAX else []

    # ------------------------------------------------------------ what the heir does

    def _ask(self, arrival: Any, now: float) -> list[Effect]:
        raise NotImplementedError

    def _awaited(self, message: Any) -> Any:
        raise NotImplementedError

    def _without_session(self, arrival: Any, now: float) -> list[Effect]:
        raise NotImplementedError

    def _give_up(self, arrival: Any, now: float) -> list[Effect]:
        raise NotImplementedError

    def _give(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        raise NotImplementedError

    def _supersede(self, message: Relocate, latest: int, now: float) -> list[Effect]:
        raise NotImplementedError

    def on_relocate(self, peer: NodeId, message: Relocate, now: float) -> list[Effect]:
        raise NotImplementedError

    ANSWERS: ClassVar[dict[type, Handler]] = {Elsewhere: on_elsewhere, Flush: on_flush, Flushed: on_flushed}
