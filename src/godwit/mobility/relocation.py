"""Physical mobility of clients: a session follows its client to the broker where it connects, without a notice to the
old broker.

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
   it grows with the network: `transfer_barrier.py`.)
6. A broker whose tables are not whole yet holds these messages back as it holds events: they must not overtake
   subscriptions. A question that gets no answer is asked again, since a broker on the way may have lost its memory.
7. A broker that was superseded goes on keeping what comes while a session may still be on its way to it, and passes
   both on; who asks it meanwhile is referred to the one that superseded it. A session that comes where nobody waits
   for it stays there until somebody asks. One of which only a part comes goes on with that part after `RELOCATE_S`.
8. If the session is not there, the brokers that the client has greeted unsuccessfully since are asked (`Attach.tried`):
   one of them may have it, and the broker that knew that may have lost its disk. When it is found or given up, they are
   told that any other is `EndOlderSession`. No session is begun for a client that has gone again.
9. A session goes on once: a replay that comes again is dropped. Only a broker that has lost its memory cannot tell; it
   goes on with it under another name, by which the client knows that its numbers do not count.
10. Whatever dies with a disk (a session, its queue, what was kept for one on its way, a replay in hand), the client
   comes in, and its receipt says that the session is lost.
11. A client whose session is on its way waits for it, in whatever mode it comes again. What it brings, what comes for
   it and what is replayed is bounded as in a session, and who waits counts as a session does.

The proof above is the tree's. `transfer_barrier.py` has what the graph family does instead; `overlay_routes.py`, how
messages get from any broker to any other; `arrival.py`, the phases of an arrival.

*Paper.* [rebeca §4.1, Fig. 5]. *Symbols.* B1 → the new border broker; B6 → the old one; B4 → the junction;
(C, F, 123) → `Attach`; the virtual counterpart → the session while its client is away.
*Departures.* The paper sends the fetch from the junction and re-points the table entry of (C, F) at each broker of the
old way. With identity, covering or merging no inner broker has such an entry; here ordinary subscribing and
unsubscribing move the way, in an order that leaves no gap, and work under every reduction. The client says where it
was; the paper finds out by flooding towards the producers.
"""

from collections.abc import Container
from operator import attrgetter
from typing import cast

from msgspec import structs

from godwit.broker.addressing import Addressing
from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import Close, Effect, StartTimer, StopTimer, Tell, TimerKey, Trace
from godwit.broker.groups import Groups
from godwit.broker.host import Host
from godwit.broker.messages import Attach, Bye, Context, EntryId, NodeId
from godwit.broker.session import Session
from godwit.filters.events import Event
from godwit.mobility.arrival import Arrival, ArrivalVariant, Phase, SessionSearch, Step
from godwit.mobility.arrival_entries import PLACING, ArrivalEntries
from godwit.mobility.client_memory import remember
from godwit.mobility.context_following import ContextFollowing
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import (
    AskInterests,
    EndOlderSession,
    Interests,
    Relocate,
    Replay,
    SessionElsewhere,
    SessionUnknown,
    Superseded,
)
from godwit.mobility.overlay_routes import HOLD_S, OverlayRoutes, lost_items
from godwit.mobility.relocation_state import RelocationState
from godwit.mobility.transfer_barrier import FLUSH_S, Barrier
from godwit.trace import Record

__all__ = ["Relocation", "RelocationState"]

RELOCATE_S = 120.0
ASK_AGAIN_S = 10.0
REPLAY_ITEMS = 64  # in one message, so that a long queue does not block a link

ELSEWHERE = "the client is elsewhere"


class Relocation:
    """Sessions that follow their clients: those that come here, and those that have gone."""

    label = "relocation"
    asks_wishes = False
    says_when_let_in = True
    host: Host

    def __init__(self, routes: OverlayRoutes, barrier: Barrier, following: ContextFollowing, groups: Groups) -> None:
        self.routes = routes
        self.barrier = barrier
        self.following, self.entries = following, ArrivalEntries(following)
        self.groups = groups
        self.arrivals: dict[NodeId, Arrival] = {}
        self.moved: dict[NodeId, Relocate] = {}  # clients whose session went elsewhere, the latest last
        self.received: dict[NodeId, int] = {}  # clients whose session has come, and the attempt it came for
        self._variants: dict[str, ArrivalVariant] = {}  # by mode; for the others, this
        self._searches: dict[str, SessionSearch] = {}  # by mode, if nobody knows where a session is
        barrier.serve(self)
        routes.watch(self._on_reached)
        following.also_ask(self._context_of)

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host, to = host, attrgetter("to")
        self.entries.join(host)
        return Handlers(
            is_awaited=lambda client: client in self.arrivals,
            relayed={
                Relocate: RelayedHandler(self.on_relocate, check_move, attrgetter("home")),
                Replay: RelayedHandler(self.on_replay, check_move, to, lost_items),
                Superseded: RelayedHandler(self.on_superseded, check_move, to),
                SessionUnknown: RelayedHandler(self.on_session_unknown, check_move, to),
                EndOlderSession: RelayedHandler(self.on_end_older_session, check_move, to),
            },
            timers={"relocate": self._on_relocate_due, PLACING: self._on_placing_due},
            on_detach=self._on_detach,
        )

    def snapshot(self) -> RelocationState:
        """All state."""
        arrivals = {client: arrival.snapshot() for client, arrival in self.arrivals.items()}
        return RelocationState(arrivals, dict(self.moved), dict(self.received))

    def restore(self, state: RelocationState) -> None:
        """Take over a snapshot."""
        for arrival in state.arrivals.values():
            self.put_arrival(Arrival.restored(arrival))
        self.moved, self.received = dict(state.moved), dict(state.received)

    def vary(self, mode: str, variant: ArrivalVariant) -> None:
        """Clients of this mode want it otherwise."""
        self._variants[mode] = variant

    def search_by(self, mode: str, search: SessionSearch) -> None:
        """Sessions of clients of this mode are looked for like this."""
        self._searches[mode] = search

    def _variant(self, attach: Attach) -> ArrivalVariant:
        return self._variants.get(attach.mode, self)

    # ------------------------------------------------------------ questions

    def _on_reached(self, brokers: tuple[NodeId, ...], now: float) -> list[Effect]:
        """Tree family: ask those that could not be asked before."""
        arrivals = [arrival for arrival in self.arrivals.values() if arrival.attach.home in brokers]
        return [effect for arrival in arrivals for effect in self.ask(arrival, now)]

    def ask(self, arrival: Arrival, now: float) -> list[Effect]:
        """Ask for a session, behind all that is to be subscribed for it, and again after a while."""
        if arrival.unplaced:
            arrival.ask_later()
            return []
        attach = arrival.attach
        effects: list[Effect] = [StartTimer(("relocate", attach.client), min(now + ASK_AGAIN_S, arrival.gives_up_at))]
        if arrival.superseded_by is None and not attach.home and attach.mode in self._searches:
            return effects + self._searches[attach.mode].search(arrival, now)
        if not self.routes.knows(attach.home) or arrival.superseded_by is not None:
            return effects
        asks_wishes = self._variant(attach).asks_wishes
        message = arrival.question(self.host.name, self.host.incarnation, asks_wishes=asks_wishes)
        return effects + self.barrier.send_question(arrival, message, now)

    # ------------------------------------------------------------ a client comes

    def redirected(self, message: Attach) -> Attach:
        """The greeting with the place of the session, where this broker knows better where it went."""
        moved = self.moved.get(message.client)
        return message if moved is None or moved.attempt <= message.since else structs.replace(message, home=moved.to)

    def _traced(self, message: Attach) -> Attach:
        """The same, where this broker may have lost its memory of where the session went."""
        message = self.redirected(message)
        session = self.host.sessions.session(message.client)
        if message.home == self.host.name and session is None and message.session and message.tried:
            return structs.replace(message, home=message.tried[-1])
        return message

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client comes from another broker: fetch its session. [rebeca §4.1, step 3]"""
        message = self._traced(message)
        host, client = self.host, message.client
        session, leaving = host.sessions.session(client), self.barrier.leaving(client)
        if leaving is not None and leaving.attempt >= message.attempt:
            return [Tell(connection, Bye(ELSEWHERE)), Close(connection, ELSEWHERE)]
        if message.home in ("", host.name) or (session is not None and session.is_meant_by(message)):
            stays = self.barrier.stay(client, message.attempt, now)
            return stays + host.attach(connection, message, now) + self._end_others(message, now)
        effects: list[Effect] = []
        if session is not None:  # left over from long ago
            effects += self.barrier.stay(client, message.attempt, now)
            ended = host.sessions.end(client, now, "its client has another session")
            effects += host.withdraw(ended, now, client)
        vouched, knows_wishes = host.sessions.vouched(connection), not self._variant(message).asks_wishes
        arrival = Arrival(message, connection, vouched, gives_up_at=now + RELOCATE_S, knows_wishes=knows_wishes)
        arrival.losses_heard = host.sessions.losses.count
        self.put_arrival(arrival)
        self.entries.expect(arrival, effects, now)
        effects.append(Trace(Record("relocating", client, detail=f"{message.home} to {host.name}")))
        return effects + self.ask(arrival, now)

    def attach_again(self, arrival: Arrival, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client that we wait for comes over another connection: go on waiting, with this one, in every mode."""
        message = self._traced(message)
        effects: list[Effect] = []
        if arrival.next is not None and arrival.next.attempt >= message.attempt:
            return [Tell(connection, Bye(ELSEWHERE)), Close(connection, ELSEWHERE)]
        effects += arrival.hang_up("another connection with the same client name has taken over the session")
        if arrival.next is not None:  # it was on its way elsewhere, and has come back before the session came
            effects += self.supersede(arrival.next, message.attempt, now)
        is_another = self._variant(message).says_when_let_in and arrival.was_elsewhere(message)
        if is_another:
            arrival.wait_until(now + RELOCATE_S)
        arrival.come_again(message, connection, self.host.sessions.vouched(connection))
        self.entries.expect(arrival, effects, now)
        return effects + self.ask(arrival, now) if is_another or not arrival.asks else effects

    def has_room(self) -> bool:
        """Whether one more client can wait for its session, or have one."""
        return len(self.host.sessions) + len(self.arrivals) < self.host.config.limits.sessions_max

    def _on_placing_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Place more for a client that is expected; what has waited for the last of it follows."""
        arrival, effects = self.arrivals.get(key[1]), list[Effect]()
        if arrival is None:
            return effects
        self.entries.go_on(arrival, effects, now)
        if arrival.unplaced:
            return effects
        if arrival.finishes_later:
            return effects + self.finish(arrival, now)
        return effects + self.ask(arrival, now) if arrival.asks_later else effects

    def _context_of(self, client: NodeId) -> tuple[Context, float | None] | None:
        """A client whose session is not here yet has brought its context along. [rebeca §6: both kinds at once]"""
        arrival = self.arrivals.get(client)
        if arrival is None:
            return None
        context = self.host.sessions.sayable(arrival.attach.context) or Context({})
        if arrival.asserted:
            context = Context({**context.values, **arrival.asserted}, context.dwell_s)
        return context, context.dwell_s

    # ------------------------------------------------------------ while it waits

    def put_arrival(self, arrival: Arrival) -> None:
        self.arrivals[arrival.attach.client] = arrival
        self.host.intercept_local(self.label, self._keep)

    def _drop_arrival(self, client: NodeId) -> None:
        del self.arrivals[client]
        if not self.arrivals:
            self.host.intercept_local(self.label, None)

    def _keep(self, event: Event, ids: list[EntryId], effects: list[Effect], now: float) -> list[EntryId]:
        """Keep what comes for a client whose session is not here yet. [rebeca §4.1: "B1 has buffered"]"""
        names: dict[NodeId, tuple[str, ...]] = {}
        for client, name in ids:
            if client in self.arrivals and not self.arrivals[client].is_over(name, now):
                names[client] = (*names.get(client, ()), name)
        for client, wanting in names.items():
            if not self.arrivals[client].keep(event, wanting):
                detail = "too many events came before the session"
                effects.append(Trace(Record("lost", client, "", *event.id, detail=detail)))
        return ids

    def _on_detach(self, connection: str, now: float) -> list[Effect] | None:
        """A client that we wait for may have gone again; its session will find it away."""
        for arrival in self.arrivals.values():
            arrival.on_closed(connection)
        return None

    def _on_relocate_due(self, key: TimerKey, now: float) -> list[Effect]:
        """There is no answer: ask again, and finally continue without the session."""
        arrival = self.arrivals.get(key[1])
        if arrival is None:
            return []
        if now < arrival.gives_up_at:
            return self.ask(arrival, now)
        if arrival.flushes is not None:
            self.barrier.stop_waiting(arrival.flushes)
        elif not arrival.is_coming:
            return self._variant(arrival.attach).on_no_answer(arrival, now)
        return self.go_without(arrival, now)

    # ------------------------------------------------------------ its session goes

    def on_relocate(self, peer: NodeId, message: Relocate, now: float) -> list[Effect]:
        """A broker asks for a session: give it, pass the question on, or say that it is elsewhere or lost."""
        client, attempt = message.client, message.attempt
        arrival, session = self.arrivals.get(client), self.host.sessions.session(client)
        moved = self.moved.get(client)
        if session is not None and attempt > session.attempt:
            return self.barrier.depart(session, message, now)
        if arrival is not None and attempt > arrival.attach.attempt:
            return self._give_when_it_comes(arrival, structs.replace(message, followed=-1), now)
        if session is not None:
            return self.supersede(message, session.attempt, now)
        if arrival is not None:
            return self.supersede(message, arrival.attach.attempt, now)
        if moved is not None and moved.to != message.to:
            if attempt > moved.attempt:
                return self.barrier.refer(message, moved.to, now)
            return self.supersede(message, moved.attempt, now)
        effects = self.routes.send_to(message.to, SessionUnknown(client, message.to, attempt), now)
        return effects if moved is None else effects + self.barrier.flush_again(client, message.to, moved.attempt, now)

    def supersede(self, message: Relocate | AskInterests, latest: int, now: float) -> list[Effect]:
        """Tell the broker that asks that the client has been seen elsewhere since."""
        superseded = Superseded(message.client, message.to, message.attempt, latest, self.host.name)
        return self.routes.send_to(message.to, superseded, now)

    def give(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        """Send the session with all that waits to its client, and leave nothing behind. [rebeca §4.1: replay]"""
        effects: list[Effect] = []
        if session.connection is not None:
            effects += self.host.unlink(session.connection)
        session, removed = self.host.sessions.release(message.client, now, f"the client has moved to {message.to}")
        effects += self._replay(session, message, now)
        return effects + self.host.withdraw(removed, now, message.client)

    def _replay(self, session: Session, message: Relocate, now: float) -> list[Effect]:
        client, to, attempt = message.client, message.to, message.attempt
        self.remember_moved(message)
        items = session.queue.waiting()
        parts = [tuple(items[at : at + REPLAY_ITEMS]) for at in range(0, len(items), REPLAY_ITEMS)] or [()]
        effects: list[Effect] = [Trace(Record("replayed", client, number=len(items), detail=f"to {to}"))]
        for number, part in enumerate(parts):
            state = session.state() if number == 0 else None
            is_last = number == len(parts) - 1
            replay = Replay(
                client, to, attempt, state, part, is_last, self.barrier.flushes_behind(session), message.to_incarnation
            )
            effects += self.routes.send_to(to, replay, now)
        return effects

    def remember_moved(self, message: Relocate) -> None:
        """Remember where a session went. (rule 3)"""
        remember(self.moved, message.client, message)

    def forget_moved(self, client: NodeId) -> None:
        """The session is here again, or another is."""
        self.moved.pop(client, None)

    def given_since(self, client: NodeId, attempt: int) -> bool:
        """Whether the client's session went elsewhere, for this attempt or a later one."""
        moved = self.moved.get(client)
        return moved is not None and moved.attempt >= attempt

    def _give_when_it_comes(self, arrival: Arrival, message: Relocate, now: float) -> list[Effect]:
        """The client has moved on before its session has come here: keep all until then, for the last that asks."""
        effects: list[Effect] = []
        by = arrival.superseded_by
        if by is not None and by not in (self.host.name, message.to):  # it may never come
            effects += self.barrier.refer(message, by, now)
        if arrival.next == message:  # it asks again
            return effects
        if arrival.next is not None:
            if arrival.next.attempt >= message.attempt:
                return self.supersede(message, arrival.next.attempt, now)
            if arrival.next.to != message.to:
                effects += self.supersede(arrival.next, message.attempt, now)
        effects += arrival.hang_up(f"the client has moved to {message.to}")
        arrival.send_on(message)
        return effects

    # ------------------------------------------------------------ its session comes

    def on_replay(self, peer: NodeId, message: Replay, now: float) -> list[Effect]:
        """A part of a session: when it is whole, go on with it. Old events before new ones. [rebeca §4.1]"""
        client = message.client
        arrival = self.arrivals.get(client)
        if message.attempt <= self.received.get(client, -1):  # it has been here, and was sent again since
            return []
        if arrival is None and self.host.sessions.session(client) is not None:
            ids = [item.event.id for item in message.items]
            return [Trace(Record("lost", client, "", *id, detail="came too late")) for id in ids]
        is_first = arrival is None or not arrival.is_coming
        if is_first != (message.state is not None):  # not raised: it may have been held, and its link be another's now
            return [Trace(Record("fault", peer, "Replay", detail="parts that do not follow each other"))]
        effects: list[Effect] = []
        if arrival is None:  # rule 7
            if not self.has_room():
                return [Trace(Record("lost", client, "Replay", detail="no room for one more session"))]
            arrival = Arrival(Attach(client, attempt=message.attempt), None, gives_up_at=now + RELOCATE_S)
            arrival.losses_heard = self.host.sessions.losses.count
            self.put_arrival(arrival)
            effects += self.ask(arrival, now)
        for event in arrival.take(message, self.host.config.limits):
            effects.append(Trace(Record("lost", client, "", *event.id, detail="no room in the queue")))
        if not message.is_last:
            return effects
        remember(self.received, client, message.attempt)
        flushes = (client, message.attempt, peer)
        if not message.has_published or self.barrier.has_flushed(flushes):
            return [*effects, *self.barrier.drop(flushes), *self.finish(arrival, now)]
        arrival.flush(flushes, now + FLUSH_S)
        return [*effects, StartTimer(("relocate", client), now + ASK_AGAIN_S)]

    def awaited(self, message: Superseded | SessionUnknown | SessionElsewhere | Interests) -> Arrival | None:
        """The arrival that an answer is for, if it is still waited for."""
        arrival = self.arrivals.get(message.client)
        return arrival if arrival is not None and arrival.attach.attempt >= message.attempt else None

    def finish(self, arrival: Arrival, now: float) -> list[Effect]:
        """Go on with the session that has come; with none, begin a new one, whose receipt says that the old is lost.

        Behind all that is still to be placed.
        """
        host, effects = self.host, list[Effect]()
        state = arrival.session_state() if arrival.is_coming and not arrival.unplaced else None
        if state is not None and (arrival.next is None or self.barrier.lets_in_first()):
            self.entries.prepare(arrival, state, effects, now)
        if arrival.unplaced:
            arrival.finish_later()
            return effects
        if state is None:
            return self._variant(arrival.attach).begin_without(arrival, now)
        arrival.step(Step.FINISH)
        items = [item for part in arrival.parts for item in part.items]  # if not whole, the rest is lost
        session = Session.restored(state, items, host.config.limits, now)
        if arrival.parts[0].to_incarnation != host.incarnation:  # the past one may have gone on with it
            session.name = host.sessions.new_name()
            arrival.losses_heard = min(arrival.losses_heard, max(host.sessions.losses.count - 1, 0))
        return effects + self._go_on(arrival, session, now)

    def resume(self, attach: Attach, session: Session) -> Attach:
        """The client has said itself what it knows of its session."""
        return attach

    def on_no_answer(self, arrival: Arrival, now: float) -> list[Effect]:
        """No part of the session has come in time."""
        return self.go_without(arrival, now)

    def begin_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The session is lost. A client that has come twice may want less by now, as its last greeting says."""
        return self.begin_new(arrival, {wish.id[1] for wish in arrival.attach.wanted}, now)

    def begin_new(self, arrival: Arrival, wanted: Container[str], now: float) -> list[Effect]:
        """Begin a new session with these subscriptions of those that the old one may have held."""
        arrival.step(Step.GIVE_UP)
        session = self.host.sessions.new(arrival.attach.client)
        for name, subscribe in arrival.subscriptions.items():
            if name in wanted:
                session.filters.put_subscription(subscribe)
                session.queue.set_rules(name, subscribe.queue, now)
        if arrival.advertisements:
            session.adopt_advertisements(arrival.advertisements)
        return self._go_on(arrival, session, now)

    def _go_on(self, arrival: Arrival, session: Session, now: float) -> list[Effect]:
        """The session is complete: append events that arrived meanwhile, and attach the client or send the session
        on."""
        host, client, following, takes = self.host, arrival.attach.client, arrival.next, self.groups.takes()
        effects: list[Effect] = [StopTimer(("relocate", client))]
        effects += self.barrier.drop(arrival.flushes) if arrival.flushes is not None else []
        host.sessions.welcome(session, arrival.attach.context, arrival.asserted, now)
        session.hear_of(host.sessions.losses, arrival.losses_heard)
        attach = arrival.resume(self._variant(arrival.attach).resume(arrival.attach, session), session)
        self.forget_moved(client)
        lets_in = following is None or self.barrier.lets_in_first()
        if lets_in:
            self.entries.settle(arrival, session, effects, now)
        else:
            self.entries.forget(arrival, effects, now)
        self._drop_arrival(client)
        addressing = Addressing(session)
        for event, names in arrival.buffer:
            held = [session.subscriptions[name] for name in names if name in session.subscriptions]
            wanting = tuple(one.id[1] for one in held if session.wants(one.id[1], event) and takes(event, one))
            if wanting and (left_out := addressing.left_out(event)) is not None:
                effects.append(left_out)
            elif wanting and session.seen.add(event.publisher, event.sequence):
                session.queue.put(event, wanting, now)
        effects += session.gone()
        if following is not None and not lets_in:
            return effects + self._replay(session, following, now)
        effects.append(Trace(Record("relocated", client, number=len(session.queue), detail=host.name)))
        if arrival.connection is not None:
            effects += host.welcome(arrival.connection, attach)
        effects += host.sessions.adopt(session, arrival.connection, attach, now)
        host.tell_context(client, effects, now)
        effects += self._end_others(attach, now)
        return effects if following is None else effects + self.on_relocate(following.to, following, now)

    def on_superseded(self, peer: NodeId, message: Superseded, now: float) -> list[Effect]:
        """The client is elsewhere: forget that we wait for it."""
        arrival = self.awaited(message)
        if arrival is None:
            return []
        if arrival.attach.attempt >= message.latest and arrival.attach.attempt > message.attempt:
            # it has come here again since; of two devices with equal attempts the one that came first goes on
            return self.ask(arrival, now)
        effects = arrival.hang_up(ELSEWHERE)
        if arrival.asks > 1 or arrival.is_coming or not arrival.attach.home:  # the session may be on its way to us
            arrival.supersede(message.by)
            after = arrival.next
            is_known = after is None or message.by in (self.host.name, after.to)
            return effects if is_known else effects + self.barrier.refer(cast(Relocate, after), message.by, now)
        return effects + self.forget(arrival, now)

    def forget(self, arrival: Arrival, now: float, step: Step = Step.FORGET) -> list[Effect]:
        """Nobody waits here any more, and no session is on its way: leave nothing behind."""
        client, home, after = arrival.attach.client, arrival.attach.home, arrival.next
        arrival.step(step)
        effects: list[Effect] = [StopTimer(("relocate", client))]
        self._drop_arrival(client)
        self.entries.forget(arrival, effects, now)
        if after is not None:  # the broker that has asked us must ask where we have asked
            effects += self.barrier.refer(after, home, now)
        return effects

    def on_session_unknown(self, peer: NodeId, message: SessionUnknown, now: float) -> list[Effect]:
        """The session is lost."""
        arrival = self.awaited(message)
        if arrival is None or arrival.phase is Phase.FLUSHING:
            return []
        if arrival.attach.attempt > message.attempt:  # it has come here again since, perhaps from elsewhere
            return self.ask(arrival, now)
        return self.go_without(arrival, now)

    def go_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The broker that was asked has no session: ask another, or go on without if the client is still here."""
        if arrival.is_coming:
            return self.finish(arrival, now)
        if arrival.unplaced:  # it has not been asked for all that is wanted
            arrival.ask_later()
            return []
        search = None if arrival.attach.home else self._searches.get(arrival.attach.mode)
        if search is not None and (further := search.search_further(arrival, now)) is not None:
            return further
        while arrival.trail and arrival.superseded_by is None:
            home = arrival.trail.pop()
            if home not in (self.host.name, arrival.attach.home) and self.routes.knows(home):
                arrival.look_at(home)
                arrival.wait_until(max(arrival.gives_up_at, now + HOLD_S))
                return self.ask(arrival, now)
        is_idle = arrival.superseded_by is not None or arrival.connection is None
        return self.forget(arrival, now) if is_idle else self.finish(arrival, now)

    # ------------------------------------------------------------ other sessions of the same client

    def _end_others(self, attach: Attach, now: float) -> list[Effect]:
        """The client's session is here: where it has been meanwhile another may have begun. (rule 8)"""
        effects: list[Effect] = []
        for other in dict.fromkeys((*attach.tried, attach.home)) if attach.tried else ():
            if other != self.host.name and self.routes.knows(other):
                over = EndOlderSession(attach.client, other, attach.attempt, self.host.name)
                effects += self.routes.send_to(other, over, now)
        return effects

    def on_end_older_session(self, peer: NodeId, message: EndOlderSession, now: float) -> list[Effect]:
        """A session that the client never heard of, or has given up, ends."""
        host, client = self.host, message.client
        session = host.sessions.session(client)
        if session is None or session.attempt >= message.attempt or client in self.arrivals:
            return []
        effects: list[Effect] = [] if session.connection is None else host.unlink(session.connection)
        effects += self.barrier.stay(client, message.attempt, now)
        self.remember_moved(Relocate(client, host.name, message.by, message.attempt))
        ended = host.sessions.end(client, now, f"the client has another session at {message.by}")
        return effects + host.withdraw(ended, now, client)
