"""Physical mobility of clients: a session follows its client to the broker where it turns up, without a good-bye.

*Theory.* A client that comes to a broker other than its last brings with it what it wants, and where it was. The new
border broker subscribes and advertises for it at once and keeps what arrives. Then it sends a `Relocate` to the old
border broker. On every link of the way between them it follows the new subscriptions, and links keep order; so at each
broker of that way, among these the junction with the way from any publisher, it divides events into those that
passed before it, which reach the old broker before it does, and those that pass after it, which go to the new one too.
When it arrives, the old broker therefore has all of the first kind and needs none of the second. It gives up the
session, unsubscribes, and sends everything back as a `Replay`. The new broker delivers that first, then what it has
kept, without what is in both.

The replay comes back on the same way, behind all that the client's own events before its move have set going, and
behind the subscriptions that its advertisement has called to the new broker. So a client that publishes again after the
replay loses nothing and overtakes nothing: publishers move by the same protocol.

*Rules.*
1. The client hears nothing before the replay is complete, or given up after `RELOCATE_S`; then its receipt says that
   the session is lost.
2. Of two brokers that claim a session the one with the client's later `attempt` gets it. The other is told
   `Superseded`, closes the connection and forgets.
3. A broker that has given a session away remembers to whom, and sends on who asks later. A broker that still waits for
   a session which another asks for gives it on when it has come.
4. After a relocation nothing is left at the old broker but that memory, which is bounded.
5. What a relocation costs grows with the distance between the two brokers, not with the network. (In the graph family
   it grows with the network: `graph_roaming.py`.)
6. A broker whose tables are not whole yet holds these messages back as it holds events: they must not overtake
   subscriptions. A question that gets no answer is asked again, since a broker on the way may have lost its memory.
7. A broker that was superseded goes on keeping what comes while a session may still be on its way to it, and passes
   both on; who asks it meanwhile is referred to the one that superseded it. A session that comes where nobody waits
   for it stays there until somebody asks. One of which only a part comes goes on with that part after `RELOCATE_S`.
8. Where the session is not, those are asked whom the client has greeted in vain since (`Attach.tried`): one of them may
   have it, and whoever knew that has lost its disk. When it is found or given up, they are told that any other is
   `Over`. No session is begun for a client that has gone again.
9. A session goes on once: a replay that comes again is dropped. Only a broker that has lost its memory cannot tell; it
   goes on with it under another name, by which the client knows that its numbers do not count.
10. Whatever dies with a disk (a session, its queue, what was kept for one on its way, a replay in hand), the client
   comes in, and its receipt says that the session is lost.
11. A client whose session is on its way waits for it, in whatever mode it comes again. What it brings, what comes for
   it and what is replayed is bounded as in a session, and who waits counts as a session does.

The proof above is the tree's. `graph_roaming.py` has what the graph family does instead; `ways.py`, how messages get
from any broker to any other.

*Paper.* [rebeca §4.1, Fig. 5]. *Symbols.* B1 → the new border broker; B6 → the old one; B4 → the junction;
(C, F, 123) → `Attach`; the virtual counterpart → the session while its client is away.
*Departures.* The paper sends the fetch from the junction and re-points the table entry of (C, F) at each broker of the
old way. With identity, covering or merging no inner broker has such an entry; here ordinary subscribing and
unsubscribing move the way, in an order that leaves no gap, and work under every reduction. The client says where it
was; the paper finds out by flooding towards the producers.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from msgspec import structs

from godwit.broker.broker import EVERYTHING, BrokerConfig
from godwit.broker.effects import Arrived, Close, Effect, StartTimer, StopTimer, Tell, TimerDue, Trace
from godwit.broker.gossip import WHEREABOUTS
from godwit.broker.gossip_messages import Fact
from godwit.broker.message_checks import check_attach, shown
from godwit.broker.messages import Attach, Bye, Context, EntryId, NodeId
from godwit.broker.session import Session
from godwit.broker.sessions import unmeant
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.mobility import handoffs, whereabouts
from godwit.mobility.arrivals import Arrival
from godwit.mobility.graph_roaming import FLUSH_S
from godwit.mobility.locations import Movements
from godwit.mobility.messages import (
    AskWishes,
    Brokers,
    Elsewhere,
    NotHere,
    Over,
    Prefetch,
    Proxy,
    Relocate,
    Replay,
    Superseded,
    Wishes,
    Withdraw,
)
from godwit.mobility.modes import MODES
from godwit.mobility.move_checks import check_move, check_wanted
from godwit.mobility.publishers import PublisherBroker, PublisherConfig
from godwit.mobility.ways import HOLD_S
from godwit.trace import Record

__all__ = ["MobileBroker"]

RELOCATE_S = 120.0
ASK_AGAIN_S = 10.0
REPLAY_ITEMS = 64  # in one message, so that a long queue does not block a link
MOVED_MAX = 10_000
BUFFER_MAX = 10_000


class MobileBroker(PublisherBroker):
    """A broker whose clients roam."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        movements: Movements | None = None,
        moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
    ) -> None:
        super().__init__(name, neighbours, config, incarnation, movements=movements, moving=moving)
        self.arrivals: dict[NodeId, Arrival] = {}
        self.collecting: dict[NodeId, handoffs.Collecting] = {}
        self.moved: dict[NodeId, Relocate] = {}  # clients whose session went elsewhere, the latest last
        self.had: dict[NodeId, int] = {}  # clients whose session has come, and the attempt it came for

    # ------------------------------------------------------------ questions

    def _on_reached(self, brokers: tuple[NodeId, ...], now: float) -> list[Effect]:
        """Tree family: ask those who could not be asked before."""
        arrivals = [arrival for arrival in self.arrivals.values() if arrival.attach.home in brokers]
        return [effect for arrival in arrivals for effect in self._ask(arrival, now)]

    def _ask(self, arrival: Arrival, now: float) -> list[Effect]:
        """Ask for a session, and again after a while."""
        attach = arrival.attach
        effects: list[Effect] = [StartTimer(("relocate", attach.client), min(now + ASK_AGAIN_S, arrival.gives_up_at))]
        if not self._knows(attach.home) or arrival.is_superseded:
            return effects
        message = handoffs.question(arrival, self)
        arrival.asks += type(message) is Relocate
        if self.graph is not None:
            effects += self._send_to(attach.home, message, now)
            return effects + self._flush(attach.client, attach.home, attach.attempt, now) if arrival.asks else effects
        if not self.routing.is_whole():  # it must not overtake what we have still to tell (rule 6)
            return effects + self._hold(self.name, message, now)
        return effects + self._send_to(attach.home, message, now)

    # ------------------------------------------------------------ a client comes

    def _on_attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client comes from another broker: fetch its session. [rebeca §4.1, step 3]"""
        check_attach(message)
        if message.mode not in MODES:
            raise PeerFault(f"Attach.mode is {shown(message.mode)}: allowed are {', '.join(MODES)}")
        self._check_attach(connection, message)
        if message.mode == "named":
            return whereabouts.attach(self, connection, message, now)
        return self._come(connection, message, now)

    def _come(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client that says where its session is comes, or one for which that is known."""
        session, arrival = self.sessions.session(message.client), self.arrivals.get(message.client)
        if session is None and arrival is None and not self._has_room():
            reason = f"this broker has no room for more than {self.config.limits.sessions_max} sessions"
            return [Tell(connection, Bye(reason)), Close(connection, reason)]
        if arrival is None and message.mode in handoffs.WAYS:
            return handoffs.WAYS[message.mode](self, connection, message, now)
        moved = self.moved.get(message.client)
        if moved is not None and moved.attempt > message.since:  # we know better where its session went
            message = structs.replace(message, home=moved.to)
        if arrival is None and MODES[message.mode].for_publishers:  # publishers.py
            return super()._on_attach(connection, message, now)
        if message.home == self.name and session is None and message.session and message.tried:
            message = structs.replace(message, home=message.tried[-1])  # we have lost our memory of where it went
        if arrival is not None:
            return self._on_attach_again(arrival, connection, message, now)
        leaving = self.leaving.get(message.client)
        if leaving is not None and leaving.attempt >= message.attempt:
            return [Tell(connection, Bye("the client is elsewhere")), Close(connection, "the client is elsewhere")]
        if message.home in ("", self.name) or (session is not None and session.name == message.session):
            stays = self._stay(message.client, message.attempt, now)
            return stays + super()._on_attach(connection, message, now) + whereabouts.say_over(self, message, now)
        effects: list[Effect] = []
        if session is not None:  # a left-over of long ago
            effects += self._stay(message.client, message.attempt, now)
            ended = self.sessions.end(message.client, now, "its client has another session")
            effects += self._without(ended, now, message.client)
        arrival = self.arrivals[message.client] = Arrival(message, connection, self.sessions.vouched(connection))
        self._expect(arrival, effects, now)
        arrival.gives_up_at = now + RELOCATE_S
        effects.append(Trace(Record("relocating", message.client, detail=f"{message.home} to {self.name}")))
        return effects + self._ask(arrival, now)

    def _on_attach_again(self, arrival: Arrival, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client that we wait for comes over another connection: go on waiting, with this one, in every mode."""
        effects: list[Effect] = []
        if arrival.next is not None and arrival.next.attempt >= message.attempt:
            return [Tell(connection, Bye("the client is elsewhere")), Close(connection, "the client is elsewhere")]
        if arrival.connection is not None:
            reason = "the client has come over another connection"
            effects += [Tell(arrival.connection, Bye(reason)), Close(arrival.connection, reason)]
        if arrival.next is not None:  # it was on its way elsewhere, and has come back before the session came
            effects += self._supersede(arrival.next, message.attempt, now)
            arrival.next = None
        is_another = arrival.come_again(message, connection, now + RELOCATE_S)
        arrival.asserted = self.sessions.vouched(connection)
        self._expect(arrival, effects, now)
        return effects + self._ask(arrival, now) if is_another or not arrival.asks else effects

    def _has_room(self) -> bool:
        return len(self.sessions) + len(self.arrivals) < self.config.limits.sessions_max

    def _check_attach(self, connection: str, message: Attach) -> None:
        check_wanted(message, self.config.limits)
        if self.sessions.client_of(connection) is not None or any(
            arrival.connection == connection for arrival in self.arrivals.values()
        ):
            raise PeerFault("Attach for the second time on one connection")

    def _expect(self, arrival: Arrival, effects: list[Effect], now: float) -> None:
        """Subscribe and advertise for a client whose session is not here: for all that the session may hold."""
        client, context = arrival.attach.client, arrival.attach.context
        for wish in arrival.attach.wanted:
            arrival.want(wish, self.config.limits, self.movements)
        if context is not None and not self.config.asserted:  # else the session knows more of it: anybody may mean it
            self._set_context(client, context.values, effects, now)
        for name, filter in arrival.advertisements.items():
            self._carry_out(self.routing.advertise((client, name), filter, now), effects, now)
        if self.config.advertisements == "optional" and not arrival.advertisements:
            self._advertise_everything(client, effects, now)
        for name, subscribe in arrival.subscriptions.items():
            self._subscribe((client, name), subscribe.filter, effects, now)
            effects += self.quenching.on_added(self.movements.weakest(subscribe.filter))

    def _context_of(self, client: NodeId) -> tuple[Context, float | None]:
        """A client whose session is not here yet has brought its context along. [rebeca §6: both kinds at once]"""
        arrival = self.arrivals.get(client)
        if arrival is None:
            return super()._context_of(client)
        context = self.sessions.sayable(arrival.attach.context) or Context({})
        if arrival.asserted:
            context = Context({**context.values, **arrival.asserted}, context.dwell_s)
        return context, context.dwell_s

    def _forget_expected(self, arrival: Arrival, effects: list[Effect], now: float) -> None:
        client = arrival.attach.client
        for name in arrival.subscriptions:
            self._carry_out(self.routing.unsubscribe((client, name), now), effects, now)
        effects += self.quenching.on_removed(now)
        for name in (*arrival.advertisements, EVERYTHING):
            self._carry_out(self.routing.unadvertise((client, name), now), effects, now)
        self._set_context(client, None, effects, now)

    def _deliver(self, event: Event, subscriptions: list[EntryId], effects: list[Effect], now: float) -> None:
        """Keep what comes for a client whose session is not here yet. [rebeca §4.1: "B1 has buffered"]"""
        if self.arrivals:
            names: dict[NodeId, tuple[str, ...]] = {}
            for client, name in subscriptions:
                if client in self.arrivals:
                    names[client] = (*names.get(client, ()), name)
            for client, wanting in names.items():
                arrival = self.arrivals[client]
                if len(arrival.buffer) >= BUFFER_MAX:
                    detail = "too many events came before the session"
                    effects.append(Trace(Record("lost", client, "", *event.id, detail=detail)))
                else:
                    arrival.buffer.append((event, wanting))
        super()._deliver(event, subscriptions, effects, now)

    def _gone(self, connection: str, now: float) -> list[Effect]:
        """A client that we wait for may have gone again; its session will find it away."""
        for arrival in self.arrivals.values():
            if arrival.connection == connection:
                arrival.connection = None
        return handoffs.on_gone(self, connection, now) or super()._gone(connection, now)

    # ------------------------------------------------------------ its session goes

    def on_relocate(self, peer: NodeId, message: Relocate, now: float) -> list[Effect]:
        """Somebody asks for a session: give it, send it on, or say that it is elsewhere or lost."""
        if message.home != self.name:
            return self._send_to(message.home, message, now)
        client, attempt = message.client, message.attempt
        arrival, session, moved = self.arrivals.get(client), self.sessions.session(client), self.moved.get(client)
        if session is not None and attempt > session.attempt:
            if self.graph is not None:
                return self._leave(session, message, now)
            return self._give(session, message, now)
        if arrival is not None and attempt > arrival.attach.attempt:
            return self._give_when_it_comes(arrival, message, now)
        if session is not None:
            return self._supersede(message, session.attempt, now)
        if arrival is not None:
            return self._supersede(message, arrival.attach.attempt, now)
        if moved is not None and moved.to != message.to:
            if attempt > moved.attempt:
                return self._refer(message, moved.to, now)
            return self._supersede(message, moved.attempt, now)
        effects = self._send_to(message.to, NotHere(client, message.to, attempt), now)
        return effects if moved is None else effects + self._flush(client, message.to, moved.attempt, now)

    def _refer(self, message: Relocate, home: NodeId, now: float) -> list[Effect]:
        """Who has asked us must ask at `home`: the question goes on, or in the graph family back."""
        client, to, attempt = message.client, message.to, message.attempt
        if home == to:  # the trail ends where it began
            return self._send_to(to, NotHere(client, to, attempt), now)
        if self.graph is not None:
            return self._send_to(to, Elsewhere(client, to, attempt, home), now)
        return self._send_to(home, Relocate(client, home, to, attempt, message.life), now)

    def _supersede(self, message: Relocate | AskWishes, latest: int, now: float) -> list[Effect]:
        """Tell who asks that the client has been seen elsewhere since."""
        return self._send_to(
            message.to, Superseded(message.client, message.to, message.attempt, latest, self.name), now
        )

    def _give(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Send the session with all that waits to its client, and leave nothing behind. [rebeca §4.1: replay]"""
        effects: list[Effect] = []
        if session.connection is not None:
            effects += self.quenching.detach(session.connection)
        session, removed = self.sessions.release(message.client, now, f"the client has moved to {message.to}")
        effects += self._replay(session, message, now)
        effects += self._without(removed, now, message.client)
        return effects

    def _replay(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        client, to, attempt = message.client, message.to, message.attempt
        self._remember_moved(message)
        items = session.queue.waiting()
        parts = [tuple(items[at : at + REPLAY_ITEMS]) for at in range(0, len(items), REPLAY_ITEMS)] or [()]
        effects: list[Effect] = [Trace(Record("replayed", client, number=len(items), detail=f"to {to}"))]
        for number, part in enumerate(parts):
            state = session.state() if number == 0 else None
            is_last = number == len(parts) - 1
            published = self.graph is not None and session.has_published
            replay = Replay(client, to, attempt, state, part, is_last, published, message.life)
            effects += self._send_to(to, replay, now)
        return effects

    def _remember_moved(self, message: Relocate) -> None:
        _remember(self.moved, message.client, message)

    def _give_when_it_comes(self, arrival: Arrival, message: Relocate, now: float) -> list[Effect]:
        """The client has moved on before its session has come here: keep all until then.

        The next broker keeps it, too; but another may ask before the session comes, and that one's place it takes.
        """
        effects: list[Effect] = []
        if arrival.is_superseded and arrival.superseded_by not in (self.name, message.to):  # it may never come
            effects += self._refer(message, arrival.superseded_by, now)
        if arrival.next == message:  # it asks again
            return effects
        if arrival.next is not None:
            if arrival.next.attempt >= message.attempt:
                return self._supersede(message, arrival.next.attempt, now)
            if arrival.next.to != message.to:
                effects += self._supersede(arrival.next, message.attempt, now)
        if arrival.connection is not None:
            reason = f"the client has moved to {message.to}"
            effects += [Tell(arrival.connection, Bye(reason)), Close(arrival.connection, reason)]
            arrival.connection = None
        arrival.next = message
        return effects

    # ------------------------------------------------------------ its session comes

    def on_replay(self, peer: NodeId, message: Replay, now: float) -> list[Effect]:
        """A part of a session: when it is whole, go on with it. Old events before new ones. [rebeca §4.1]"""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        arrival = self.arrivals.get(message.client)
        if message.attempt <= self.had.get(message.client, -1):  # it has been here, and was sent again since
            return []
        if arrival is None and self.sessions.session(message.client) is not None:
            ids = [item.event.id for item in message.items]
            return [Trace(Record("lost", message.client, "", *id, detail="came too late")) for id in ids]
        is_first = arrival is None or not arrival.parts
        if is_first != (message.state is not None):  # not raised: it may have been held, and its link be another's now
            return [Trace(Record("fault", peer, "Replay", detail="parts that do not follow each other"))]
        effects: list[Effect] = []
        if arrival is None:  # rule 7
            if not self._has_room():
                return [Trace(Record("lost", message.client, "Replay", detail="no room for one more session"))]
            attach = Attach(message.client, attempt=message.attempt)
            arrival = self.arrivals[message.client] = Arrival(attach, None)
            arrival.gives_up_at = now + RELOCATE_S
            effects += self._ask(arrival, now)
        for event in arrival.take(message, self.config.limits):
            effects.append(Trace(Record("lost", message.client, "", *event.id, detail="no room in the queue")))
        if not message.is_last:
            return effects
        _remember(self.had, message.client, message.attempt)
        flushes = (message.client, message.attempt, peer)
        if not message.has_published or self._flushed_by_all(flushes):
            return [*effects, *self._drop_flushed(flushes), *self._give_up(arrival, now)]
        arrival.flushes, arrival.gives_up_at = flushes, now + FLUSH_S
        return [*effects, StartTimer(("relocate", message.client), now + ASK_AGAIN_S)]

    def _awaited(self, message: Superseded | NotHere | Elsewhere | Wishes) -> Arrival | None:
        """The arrival that an answer is for, if it is still waited for."""
        arrival = self.arrivals.get(message.client)
        return arrival if arrival is not None and arrival.attach.attempt >= message.attempt else None

    def _go_on(self, arrival: Arrival, session: Session, now: float) -> list[Effect]:
        """The session is whole: put what came meanwhile behind it, and let the client in or send it on."""
        client, following, takes = arrival.attach.client, arrival.next, self.groups.takes
        effects: list[Effect] = [StopTimer(("relocate", client))]
        if arrival.flushes is not None:
            effects += self._drop_flushed(arrival.flushes)
        self.sessions.welcome(session, arrival.attach.context, arrival.asserted, now)
        arrival.attach = structs.replace(whereabouts.resumed(arrival.attach, session), context=session.context)
        self.moved.pop(client, None)
        if following is None or self.graph is not None:
            self._settle_entries(arrival, session, effects, now)
        else:
            self._forget_expected(arrival, effects, now)
        del self.arrivals[client]
        for event, names in arrival.buffer:
            held = [session.subscriptions[name] for name in names if name in session.subscriptions]
            wanting = tuple(one.id[1] for one in held if session.wants(one.id[1], event) and takes(event, one))
            if wanting and not session.is_meant(event):
                effects.append(unmeant(client, event))
            elif wanting and session.seen.add(event.publisher, event.sequence):
                session.queue.put(event, wanting, now)
        effects += session.gone()
        if following is not None and self.graph is None:
            return effects + self._replay(session, following, now)
        effects.append(Trace(Record("relocated", client, number=len(session.queue), detail=self.name)))
        if arrival.attach.quench and arrival.connection is not None:
            effects += self.quenching.attach(arrival.connection, self.routing.wanted)
        effects += self.sessions.adopt(session, arrival.connection, arrival.attach, now)
        self._tell_context(client, effects, now)
        effects += whereabouts.say_over(self, arrival.attach, now)
        return effects if following is None else effects + self.on_relocate(following.to, following, now)

    def _settle_entries(self, before: Arrival | Session, session: Session, effects: list[Effect], now: float) -> None:
        """Let routing hold exactly what the session holds; `before`: what it held until now."""
        client = session.client
        effects += self.quenching.on_removed(now)
        self._set_context(client, session.whole_context(), effects, now)
        for name, subscribe in session.subscriptions.items():
            self._subscribe((client, name), subscribe.filter, effects, now)
        for name, filter in session.advertisements.items():
            self._carry_out(self.routing.advertise((client, name), filter, now), effects, now)
        if self.config.advertisements == "optional" and not session.has_advertised:
            self._advertise_everything(client, effects, now)
        for name in before.subscriptions:
            if name not in session.subscriptions:
                self._carry_out(self.routing.unsubscribe((client, name), now), effects, now)
        if session.has_advertised:
            self._carry_out(self.routing.unadvertise((client, EVERYTHING), now), effects, now)
        for name in before.advertisements:
            if name not in session.advertisements:
                self._carry_out(self.routing.unadvertise((client, name), now), effects, now)

    def on_superseded(self, peer: NodeId, message: Superseded, now: float) -> list[Effect]:
        """The client is elsewhere: forget that we wait for it."""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        arrival = self._awaited(message)
        if arrival is None:
            return []
        if arrival.attach.attempt >= message.latest and arrival.attach.attempt > message.attempt:
            # it has come here again since; of two devices with equal attempts the one that came first goes on
            return self._ask(arrival, now)
        effects: list[Effect] = []
        if arrival.connection is not None:
            reason = "the client is elsewhere"
            effects += [Tell(arrival.connection, Bye(reason)), Close(arrival.connection, reason)]
            arrival.connection = None
        if arrival.asks > 1 or arrival.parts:  # another of our questions may have set the session going to us
            arrival.is_superseded, arrival.superseded_by = True, message.by
            after = arrival.next
            is_known = after is None or message.by in (self.name, after.to)
            return effects if is_known else effects + self._refer(cast(Relocate, after), message.by, now)
        return effects + self._forget(arrival, now)

    def _forget(self, arrival: Arrival, now: float) -> list[Effect]:
        """Nobody waits here any more, and no session is on its way: leave nothing behind."""
        client, home, after = arrival.attach.client, arrival.attach.home, arrival.next
        effects: list[Effect] = [StopTimer(("relocate", client))]
        del self.arrivals[client]
        self._forget_expected(arrival, effects, now)
        if after is not None:  # who has asked us must ask where we have asked
            effects += self._refer(after, home, now)
        return effects

    def on_not_here(self, peer: NodeId, message: NotHere, now: float) -> list[Effect]:
        """The session is lost."""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        arrival = self._awaited(message)
        if arrival is None or arrival.flushes is not None:
            return []
        if arrival.attach.attempt > message.attempt:  # it has come here again since, perhaps from elsewhere
            return self._ask(arrival, now)
        return self._without_session(arrival, now)

    def _without_session(self, arrival: Arrival, now: float) -> list[Effect]:
        """Who was asked has no session: ask who else may have it, or go on without, if the client is still here."""
        if arrival.parts:
            return self._give_up(arrival, now)
        while arrival.trail and not arrival.is_superseded:
            home = arrival.trail.pop()
            if home not in (self.name, arrival.attach.home) and self._knows(home):
                arrival.attach = structs.replace(arrival.attach, home=home)
                arrival.gives_up_at = max(arrival.gives_up_at, now + HOLD_S)
                return self._ask(arrival, now)
        is_idle = arrival.is_superseded or arrival.connection is None
        return self._forget(arrival, now) if is_idle else self._give_up(arrival, now)

    def on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        """Nobody answers: ask again, and at last go on without the session."""
        match input.key:
            case ("relocate", client):
                arrival = self.arrivals.get(client)
                if arrival is None:
                    return []
                if now < arrival.gives_up_at:
                    return self._ask(arrival, now)
                if arrival.flushes is not None:
                    self._stop_waiting(arrival.flushes)
                elif arrival.attach.mode == "named" and not arrival.parts:
                    return whereabouts.send_away(self, arrival, now)
                return self._without_session(arrival, now)
            case ("named", client):
                return whereabouts.on_wait_due(self, client, now)
            case ("collect", client):
                return handoffs.on_collect_due(self, client, now)
            case ("hold moves",):
                return self._release(now)
            case ("leaving", client):
                return self.on_leaving_due(client, now)
            case ("flushed", client, attempt, via):
                self.flushed.pop((client, int(attempt), via), None)
                return []
        return super().on_timer_due(input, now)

    def _give_up(self, arrival: Arrival, now: float) -> list[Effect]:
        """Go on with the session that has come; with none, begin a new one, whose receipt says that the old is lost."""
        attach = arrival.attach
        if arrival.parts and (state := arrival.parts[0].state) is not None:  # if not whole, the rest is lost
            items = [item for part in arrival.parts for item in part.items]
            session = Session.restored(state, items, self.config.limits, now)
            if arrival.parts[0].life != self.incarnation:  # a past life may have gone on with it: numbers do not count
                session.name = self.sessions.new_name()
            return self._go_on(arrival, session, now)
        if attach.mode == "named":
            return whereabouts.begin_anew(self, arrival, now)
        session = self.sessions.new(attach.client)
        wanted = arrival.subscriptions if attach.mode == "ask" else {wish.id[1] for wish in attach.wanted}
        for name, subscribe in arrival.subscriptions.items():
            if name in wanted:  # it may have come twice, and want less by now: what it takes back nobody hears any more
                session.subscriptions[name] = subscribe
                session.queue.set_rules(name, subscribe.queue, now)
        session.advertisements = dict(arrival.advertisements)
        session.has_advertised = bool(arrival.advertisements)
        return self._go_on(arrival, session, now)

    # ------------------------------------------------------------ clients that bring their name alone

    on_over = whereabouts.on_over

    def _on_fact(self, fact: Fact, effects: list[Effect], now: float) -> None:
        super()._on_fact(fact, effects, now)
        if fact.table == WHEREABOUTS:
            whereabouts.on_fact(self, fact, effects, now)

    def _on_touched_session(self, client: NodeId, effects: list[Effect], now: float) -> None:
        super()._on_touched_session(client, effects, now)
        whereabouts.announce(self, client, effects, now)

    ANSWERS: ClassVar[dict[type, Callable[[Any, NodeId, Any, float], list[Effect]]]] = {
        Relocate: on_relocate,
        Replay: on_replay,
        Superseded: on_superseded,
        NotHere: on_not_here,
        Over: on_over,
        **PublisherBroker.ANSWERS,
        **handoffs.ANSWERS,
    }
    SAYINGS = handoffs.SAYINGS
    CARRIED: ClassVar[dict[type, Callable[[Any], None]]] = dict.fromkeys(ANSWERS, check_move)
    MESSAGES: ClassVar[dict[type, Callable[[Any, NodeId, Any, float], list[Effect]]]] = {
        **PublisherBroker.MESSAGES,
        Brokers: PublisherBroker.on_brokers,
        **dict.fromkeys(
            (Relocate, Replay, Superseded, NotHere, Over, Prefetch, Proxy, Withdraw, *handoffs.ANSWERS),
            PublisherBroker.on_move,
        ),
    }
    HANDLERS: ClassVar[dict[type, Callable[[Any, Any, float], list[Effect]]]] = {
        **PublisherBroker.HANDLERS,
        Arrived: PublisherBroker.on_arrived,
        TimerDue: on_timer_due,
    }


def _remember(memory: dict[NodeId, Any], client: NodeId, what: Any) -> None:
    """Put it last, and forget the first when there is no room."""
    memory.pop(client, None)
    memory[client] = what
    if len(memory) > MOVED_MAX:
        del memory[next(iter(memory))]
