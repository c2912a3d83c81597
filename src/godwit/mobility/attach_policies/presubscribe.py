"""The mode `presubscribe`: the session of a client on its way is sent ahead to the predicted next broker.

*Theory.* An ordinary relocation begins when the client attaches, and the client waits for its session. But brokers can
predict where clients go (`predictors.py`). When a client of this mode has been away for `AHEAD_AFTER_S`, its
broker predicts the next one and sends it a `Presubscribe` with all that the session holds. The broker ahead subscribes,
buffers events, and requests the session, exactly as if the client had attached (`relocation.py`): with the same
messages in the same order, so nothing is lost, duplicated or reordered. From then on it holds the session and its
queue. A client that attaches there continues at once.

A client that attaches elsewhere names its last broker, as in the mode `relocate`. That broker knows where the session
went, and forwards the question. So a wrong prediction costs a second relocation and a detour, and nothing else: the
broker ahead hands over session, buffer and subscriptions when asked.

Of two brokers that claim a session, the one with the higher attempt wins. Clients of this mode count their greetings by
two, and the number between two greetings is the claim of the broker ahead: later than the last greeting, earlier than
the next.

*Rules.*
1. A session is sent ahead only while its client is away, and at most once for each greeting. A client that is back
   within `AHEAD_AFTER_S` finds its session where it was.
2. A broker ahead keeps what any broker keeps for a client that is expected (`arrival.py`), within the same bounds: it
   counts as a session, and without room for one more it does nothing. Then the session stays where it was.
3. A broker that has heard of the client since, or has a session of it, does nothing either.
4. The session expires at the broker ahead as it would have expired at the last one.
5. Where the client was before, which predictions of order two need, is known as long as its session is here. Of
   clients that greet and get no session, no more are remembered than `BEFORE_SPARE`, and twice those that have one.

*Paper.* [rebeca §6]: "using the idea of logical mobility to deal with the uncertainty of roaming with mobile clients
and 'pre-subscribe' to information at brokers at possible next locations".
*Departures.* The paper means to subscribe at several possible next brokers. A queue can wait at one of them only, if no
event may come twice and none out of order, so ours is the likeliest. What it costs to be wrong is measured
(`benchmarks/presubscribing.py`).
"""

from operator import attrgetter
from typing import ClassVar

import msgspec

from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Effect, StartTimer, TimerKey, Trace
from godwit.broker.host import Host
from godwit.broker.messages import Advertise, Attach, NodeId, Subscribe
from godwit.broker.session import Session
from godwit.mobility.arrival import Arrival
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import Presubscribe
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.mobility.relocation import RELOCATE_S, Relocation
from godwit.trace import Record

__all__ = ["AHEAD_AFTER_S", "PRESUBSCRIBE", "PresubscribePolicy", "PresubscribeState"]

PRESUBSCRIBE = "presubscribe"
AHEAD_AFTER_S = 0.5
GREETING_STEP = 2  # by which clients of this mode count
BEFORE_SPARE = 64


class PresubscribeState(msgspec.Struct, frozen=True, tag=True):
    """Where clients were before they came here."""

    version: ClassVar[int] = 1
    before: dict[NodeId, NodeId]


class PresubscribePolicy:
    """Sends sessions ahead of their clients, and fetches those of clients that are expected here."""

    label = PRESUBSCRIBE
    host: Host

    def __init__(self, relocation: Relocation, presence: PublisherPresence) -> None:
        self.relocation = relocation
        self.routes = relocation.routes
        self._presence = presence  # its settings have the predictor
        self._before: dict[NodeId, NodeId] = {}

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            relayed={Presubscribe: RelayedHandler(self.on_presubscribe, check_move, attrgetter("to"))},
            timers={"ahead": self._on_ahead_due},
            on_detach=self._on_detach,
            on_session_ended=self._on_session_ended,
        )

    def snapshot(self) -> PresubscribeState:
        """All state."""
        return PresubscribeState(dict(self._before))

    def restore(self, state: PresubscribeState) -> None:
        """Take over a snapshot."""
        self._before = dict(state.before)

    # ------------------------------------------------------------ it comes

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """As in the mode `relocate`: the session may be here already."""
        last = message.tried[-1] if message.tried else message.home
        if last not in ("", self.host.name):  # rule 5
            self._remember(message.client, last)
        return self.relocation.attach(connection, message, now)

    def _remember(self, client: NodeId, before: NodeId) -> None:
        """Where a client was before it came here. (rule 5)"""
        self._before[client] = before
        sessions, arrivals = self.host.sessions, self.relocation.arrivals
        if len(self._before) > BEFORE_SPARE + 2 * (len(sessions) + len(arrivals)):
            has_session = (each for each in self._before if each in arrivals or sessions.session(each) is not None)
            self._before = {each: self._before[each] for each in (*has_session, client)}

    def _on_session_ended(self, client: NodeId, effects: list[Effect], now: float) -> None:
        self._before.pop(client, None)

    # ------------------------------------------------------------ it goes

    def _on_detach(self, connection: str, now: float) -> list[Effect] | None:
        """A client has gone: wait a little before its session goes ahead of it. (rule 1)"""
        host = self.host
        client = host.sessions.client_of(connection)
        session = None if client is None else host.sessions.session(client)
        if client is None or session is None or session.mode != PRESUBSCRIBE:
            return None
        return [*host.keep_session(connection, now), StartTimer(("ahead", client), now + AHEAD_AFTER_S)]

    def _on_ahead_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Let the broker that a client will come to subscribe for it, and fetch its session. [rebeca §6]"""
        client = key[1]
        session, predictor = self.host.sessions.session(client), self._presence.config.predictor
        if session is None or session.connection is not None or session.mode != PRESUBSCRIBE or predictor is None:
            return []
        visit = session.attempt // GREETING_STEP
        to = predictor.next_broker(client, self.host.name, visit, self._before.get(client))
        if to is None or to == self.host.name or not self.routes.knows(to):
            return []
        claim = session.attempt + 1
        ahead = Presubscribe(client, self.host.name, to, claim, _wishes_of(session), session.context)
        return [Trace(Record("predicted", client, detail=to)), *self.routes.send_to(to, ahead, now)]

    # ------------------------------------------------------------ it will come

    def on_presubscribe(self, peer: NodeId, message: Presubscribe, now: float) -> list[Effect]:
        """A client is on its way here: subscribe for it, keep what comes, and ask for its session."""
        host, relocation, client = self.host, self.relocation, message.client
        is_known = host.sessions.session(client) is not None or client in relocation.arrivals
        if is_known or relocation.given_since(client, message.attempt) or not relocation.has_room():  # rules 2, 3
            return []
        attach = Attach(
            client,
            attempt=message.attempt,
            home=message.home,
            since=message.attempt - 1,
            wanted=message.wanted,
            context=message.context,
        )
        arrival = Arrival(attach, None, gives_up_at=now + RELOCATE_S)
        arrival.losses_heard = host.sessions.losses.count
        relocation.put_arrival(arrival)
        self._remember(client, message.home)
        effects: list[Effect] = []
        relocation.entries.expect(arrival, effects, now)
        effects.append(Trace(Record("relocating", client, detail=f"{message.home} to {host.name}, ahead")))
        return effects + relocation.ask(arrival, now)


def _wishes_of(session: Session) -> tuple[Subscribe | Advertise, ...]:
    advertised = (Advertise((session.client, name), filter) for name, filter in session.advertisements.items())
    return (*session.subscriptions.values(), *advertised)
