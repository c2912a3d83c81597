"""The mode `junction`: the routing tables lead to the session of a client. [rebeca §4]

*Theory.* A client comes to another broker with its subscriptions and, for each, the last number that it has received:
(C, F, 123). Neither the client nor the broker says where it was. The new border broker keeps what comes for the client
from now on, and sends a `FetchSession`. It goes from neighbour to neighbour, and each broker on its way subscribes for
the client towards where it came from (`broker/repointing.py`). Where it meets an entry of the client's own, this is the
junction: from there it follows these entries to the old border broker. That one gives the session away as in the mode
`relocate`: it replays all that the client has not received, and takes its entries back.

The fetch follows the new subscriptions on every link between the new place and the old one, so it divides events into
those that the old place has and those that the new one gets: the argument of `relocation.py` holds as it is, and so do
its rules for clients that move on before their session has come.

Where no entry leads on, the fetch goes towards the publishers of what the client wants; with a reduction that has one
entry for many clients also towards every neighbour that has told a filter which covers it. A broker with nowhere to go
on says `SessionNotFound`; one that has heard it from all whom it has asked says so, too. If that comes back to where
the client is, everybody is asked once: round 1. If that comes back as well, the session is lost.

*Rules.*
1. A client without a session, or whose session is here, is attached as in the mode `relocate`.
2. Of two fetches of one client the one of its later greeting goes on. A broker that has passed on a later one stops the
   earlier one, and tells its border broker (`Superseded`).
3. A fetch that finds a broker where the client is expected, too, leaves word to send the session on when it comes, and
   goes on: two such brokers may otherwise wait for each other. Such a broker does not say that nothing was found.
4. A fetch is answered: the session comes, or `SessionNotFound` from all who were asked. A broker that has heard neither
   asks again, in another round, after `relocation.ASK_AGAIN_S`. It gives the session up, or forgets a client that is
   elsewhere, only when all rounds are answered, or after `relocation.RELOCATE_S`: until then the session may be on its
   way, and what was kept for the client belongs to it.
5. What a broker remembers of fetches is bounded (`client_memory.py`); so are those that wait for whole tables.
6. Where the tables cannot lead, everybody is asked at once: for a client without subscriptions, or with such on its own
   state alone, since these are no entries of one form. With flooding, round 0 asks everybody.

*Paper.* [rebeca §4.1, §4.2, Fig. 5]. *Symbols.* (C, F, 123) → `FetchedSubscription`; fetch(C, F, 123, B4) →
`FetchSession`; replay → `Replay`; B1 → `FetchSession.to`.
*Departures.* One fetch has all subscriptions of a client: a session moves as a whole, and events that several of them
match are delivered once. The fetch of the paper names the junction, for the replay to find it; ours names the new
place, and the replay goes there as in the mode `relocate`. Numbers of one session count all its deliveries, so those of
one subscription grow, but not by one. The graph family has no junctions: this mode is for trees.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import structs

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.host import Host
from godwit.broker.messages import Attach, EntryId, NodeId, Subscribe
from godwit.broker.repointing import arrows, claim, leads_on
from godwit.broker.routing import Answer, Forward
from godwit.broker.session import Session
from godwit.broker.tree import HERE, TreeRouting
from godwit.errors import PeerFault
from godwit.filters.references import is_open
from godwit.mobility.arrival import Arrival
from godwit.mobility.client_memory import remember
from godwit.mobility.move_checks import ROUNDS_MAX, check_move
from godwit.mobility.move_messages import FetchedSubscription, FetchSession, Relocate, SessionNotFound, Superseded
from godwit.mobility.overlay_routes import HOLD_S
from godwit.mobility.relocation import RELOCATE_S, Relocation
from godwit.trace import Record

__all__ = ["JunctionPolicy", "JunctionState", "Passage"]

HELD_MAX = 10_000
HOLD_TIMER = "hold fetches"


class Passage(msgspec.Struct, frozen=True):
    """A fetch that this broker has passed on: for whom, from where, and who has still to answer."""

    attempt: int
    round: int
    to: NodeId
    source: NodeId
    waits: tuple[NodeId, ...]


class Round(msgspec.Struct, frozen=True):
    """A fetch for a client that has turned up here, and who has still to answer."""

    attempt: int
    round: int
    waits: tuple[NodeId, ...]


class JunctionState(msgspec.Struct, frozen=True, tag=True):
    """The last fetch of each client, those for clients that are here, and those that wait for whole tables."""

    version: ClassVar[int] = 1
    passages: dict[NodeId, Passage]
    searches: dict[NodeId, tuple[Round, ...]]
    held: tuple[tuple[NodeId, FetchSession], ...]


class JunctionPolicy:
    """Looks for sessions by the routing tables, and passes on who looks."""

    label = "junction"
    host: Host

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation
        self.routes = relocation.routes
        self.passages: dict[NodeId, Passage] = {}  # by client, the latest last
        self.searches: dict[NodeId, tuple[Round, ...]] = {}  # by client that has turned up here
        self.held: list[tuple[NodeId, FetchSession]] = []
        relocation.search_by("junction", self)

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            messages={FetchSession: self.on_fetch_session, SessionNotFound: self.on_session_not_found},
            timers={HOLD_TIMER: self._on_hold_due},
        )

    def snapshot(self) -> JunctionState | None:
        """All state."""
        if not self.passages and not self.searches and not self.held:
            return None
        return JunctionState(dict(self.passages), dict(self.searches), tuple(self.held))

    def restore(self, state: JunctionState | None) -> None:
        """Take over a snapshot."""
        state = JunctionState({}, {}, ()) if state is None else state
        self.passages, self.searches, self.held = dict(state.passages), dict(state.searches), list(state.held)
        if self.held:
            self.host.when_whole(self._on_whole)

    def _tree(self) -> TreeRouting:
        routing = self.host.routing
        if not isinstance(routing, TreeRouting):
            raise PeerFault("the mode junction is for brokers of a tree")
        return routing

    # ------------------------------------------------------------ a client comes

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client comes, and nobody knows from where: look for its session. [rebeca §4.1, step 3]"""
        tree, host, client = self._tree(), self.host, message.client
        session = host.sessions.session(client)
        if message.session == "" or (session is not None and session.is_meant_by(message)):  # rule 1
            return self.relocation.attach(connection, structs.replace(message, home=host.name), now)
        effects: list[Effect] = []
        if session is not None:  # left over from long ago
            ended = host.sessions.end(client, now, "its client has another session")
            effects += host.withdraw(ended, now, client)
        vouched = host.sessions.vouched(connection)
        arrival = Arrival(structs.replace(message, home=""), connection, vouched, gives_up_at=now + RELOCATE_S)
        arrival.losses_heard = host.sessions.losses.count
        self.searches.pop(client, None)
        self.relocation.put_arrival(arrival)
        entries = self.relocation.entries
        takes_long = entries.take_long(wish.filter for wish in message.wanted)
        claims = tree.keeps_ids and not takes_long  # else each broker would claim all at once
        entries.expect(arrival, effects, now, claims=claims)
        effects.append(Trace(Record("relocating", client, detail=f"to {host.name}")))
        return effects + self.relocation.ask(arrival, now)

    def search(self, arrival: Arrival, now: float) -> list[Effect]:
        """Search for a session by the tables; if that fails, or takes long, everywhere."""
        attach, host, tree = arrival.attach, self.host, self._tree()
        client, rounds = attach.client, self._rounds(arrival)
        if arrival.asks and self._is_elsewhere(arrival):
            return []  # what was found before is passed on when it comes
        wanted = tuple(
            FetchedSubscription(name, each.filter, attach.numbers.get(name, 0))
            for name, each in arrival.subscriptions.items()
            if not is_open(each.filter)
        )
        passed = self.passages.get(client)  # perhaps for another device with the same attempt: ours must not stop at it
        known = [each for each in (*rounds, passed) if each is not None and each.attempt == attach.attempt]
        round = min(max((each.round + 1 for each in known), default=0 if wanted else 1), ROUNDS_MAX)  # rule 6
        told = tuple(each.name for each in wanted if (client, each.name) not in tree.in_subs[HERE])
        arrival.look_around()
        fetch = FetchSession(client, host.name, attach.attempt, host.incarnation, attach.session, wanted, told, round)
        return self._pass_on(HERE, fetch, now) if host.routing.is_whole() else self._hold(HERE, fetch, now)

    def search_further(self, arrival: Arrival, now: float) -> list[Effect] | None:
        """The session was not found by some, or by all: look everywhere, once."""
        if now >= arrival.gives_up_at:
            return None
        rounds = self._rounds(arrival)
        is_open = any(each.waits for each in rounds)  # then it may still be found, or be on its way (rule 4)
        is_gone = arrival.superseded_by is not None or self._is_elsewhere(arrival)
        if not is_gone and not any(each.round > 0 for each in rounds):
            return self.search(arrival, now)
        return [] if is_open else None

    def _is_elsewhere(self, arrival: Arrival) -> bool:
        """Whether a fetch of a later greeting of the client has come by."""
        last = self.passages.get(arrival.attach.client)
        return last is not None and last.attempt > arrival.attach.attempt

    def _rounds(self, arrival: Arrival) -> tuple[Round, ...]:
        return self.searches.get(arrival.attach.client, ())

    # ------------------------------------------------------------ fetches that come

    def on_fetch_session(self, peer: NodeId, message: FetchSession, now: float) -> list[Effect]:
        """A client of another broker has moved: subscribe for it in that direction, and look for its session here."""
        check_move(message)
        tree = self._tree()
        if any(not tree.has_room_for((message.client, name), peer) for name in message.told):
            raise PeerFault(f"a FetchSession of {message.client!r}: too many entries from one neighbour")
        if not tree.is_whole():
            return self._hold(peer, message, now)
        return self._pass_on(peer, message, now)

    def _hold(self, source: NodeId, message: FetchSession, now: float) -> list[Effect]:
        """The tables are not whole: subscribe now, and look for the session when they are."""
        effects: list[Effect] = []
        self._claim(source, message, (), effects, now)
        if len(self.held) >= HELD_MAX:
            detail = "too many before the routing tables are complete"
            return [*effects, Trace(Record("lost", message.to, "FetchSession", detail=detail))]
        if not self.held:
            self.host.when_whole(self._on_whole)
            effects.append(StartTimer((HOLD_TIMER,), now + HOLD_S))
        self.held.append((source, structs.replace(message, told=())))
        return effects

    def _on_whole(self, now: float) -> list[Effect]:
        held, self.held = self.held, []
        effects: list[Effect] = [StopTimer((HOLD_TIMER,))] if held else []
        for source, message in held:
            effects += self._pass_on(source, message, now)
        return effects

    def _on_hold_due(self, key: TimerKey, now: float) -> list[Effect]:
        return self._on_whole(now)

    def _pass_on(self, source: NodeId, message: FetchSession, now: float) -> list[Effect]:
        client, attempt, before = message.client, message.attempt, self.passages.get(message.client)
        effects: list[Effect] = []
        if before is not None and (before.attempt, before.round) > (attempt, message.round):  # rule 2
            self._claim(source, message, (), effects, now)
            if before.attempt > attempt:
                effects += self._superseded(message, before.attempt, before.to, now)
            return effects + self._not_found(source, message, now)
        is_here = source != HERE and self._knows(client, attempt)
        is_expected = source != HERE and self._is_expected(client, attempt)
        targets = [] if is_here and not is_expected else self._targets(source, message)
        told = self._claim(source, message, targets, effects, now)
        waits = (HERE, *targets) if is_here else tuple(targets)
        remember(self.passages, client, Passage(attempt, message.round, message.to, source, waits))
        if source == HERE:
            rounds = self.searches.get(client, ())
            remember(self.searches, client, (*rounds, Round(attempt, message.round, tuple(targets))))
        for n in targets:
            self.host.send(n, structs.replace(message, told=tuple(told.get(n, ()))), effects, now)
        if is_here:
            return effects + self._found(source, message, now)
        return effects if targets else effects + self._not_found(source, message, now)

    def _targets(self, source: NodeId, message: FetchSession) -> list[NodeId]:
        """Behind which neighbours to look: by the client's own entries, else by whatever leads on. [rebeca §4.2]"""
        tree, before = self._tree(), self.passages.get(message.client)
        if message.round > 0:
            return [n for n in tree.neighbours if n != source]
        found = [n for n in arrows(tree, _ids(message), besides=source) if n != HERE]  # [rebeca §4.1: "an old entry"]
        if before is not None and before.source in found:  # the others are about to be taken back
            return [before.source]
        return found or leads_on(tree, [each.filter for each in message.subscriptions], besides=source)

    def _claim(
        self, source: NodeId, message: FetchSession, targets: Sequence[NodeId], effects: list[Effect], now: float
    ) -> dict[NodeId, list[str]]:
        """Subscribe for the client towards `source`; which subscriptions the fetch to each target tells it."""
        tree, told, rest = self._tree(), dict[NodeId, list[str]](), list[Answer]()
        for each in message.subscriptions:
            if each.name not in message.told:
                continue
            id = (message.client, each.name)
            for answer in claim(tree, id, each.filter, source):
                is_own = isinstance(answer, Forward) and isinstance(answer.message, Subscribe)
                if is_own and answer.message.id == id and answer.peer in targets:  # type: ignore[union-attr]
                    told.setdefault(answer.peer, []).append(each.name)  # type: ignore[union-attr]
                else:
                    rest.append(answer)
            if source != HERE:
                effects += self.host.demand_added(each.filter, now)
        self.host.carry_out(rest, effects, now)
        return told

    # ------------------------------------------------------------ where it ends

    def _knows(self, client: NodeId, attempt: int) -> bool:
        """Whether the session is here, or expected here, or has gone from here for this fetch or a later one."""
        is_expected = client in self.relocation.arrivals or self.host.sessions.session(client) is not None
        return is_expected or self.relocation.given_since(client, attempt)

    def _is_expected(self, client: NodeId, attempt: int) -> bool:
        """Whether the client came here before, and its session has not. (rule 3)"""
        arrival = self.relocation.arrivals.get(client)
        return arrival is not None and arrival.attach.attempt < attempt and self.host.sessions.session(client) is None

    def _found(self, source: NodeId, message: FetchSession, now: float) -> list[Effect]:
        """Give the session, or say who has it. [rebeca §4.1: "B6 as last recipient replays"]"""
        client, attempt, relocation = message.client, message.attempt, self.relocation
        session, arrival = self.host.sessions.session(client), relocation.arrivals.get(client)
        moved = relocation.moved.get(client)
        if session is None and arrival is None:
            assert moved is not None
            if moved.to == message.to:  # its replay is under way
                return []
            return self._superseded(message, moved.attempt, moved.to, now) + self._not_found(source, message, now)
        latest = session.attempt if session is not None else arrival.attach.attempt if arrival is not None else 0
        if attempt <= latest:
            return self._superseded(message, latest, self.host.name, now) + self._not_found(source, message, now)
        if session is not None:
            _trim(session, message)
        question = Relocate(client, self.host.name, message.to, attempt, message.to_incarnation)
        return relocation.on_relocate(message.to, question, now)

    def _superseded(self, message: FetchSession, latest: int, by: NodeId, now: float) -> list[Effect]:
        answer = Superseded(message.client, message.to, message.attempt, latest, by)
        return self.routes.send_to(message.to, answer, now)

    def _not_found(self, source: NodeId, message: FetchSession | SessionNotFound, now: float) -> list[Effect]:
        """Neither this broker nor anybody behind it has the session: say so, or go on without it."""
        effects: list[Effect] = []
        if source == HERE:
            arrival = self.relocation.arrivals.get(message.client)
            return effects if arrival is None else self.relocation.go_without(arrival, now)
        if source in self.host.links:
            answer = SessionNotFound(message.client, message.to, message.attempt, message.round)
            self.host.send(source, answer, effects, now)
        return effects

    def on_session_not_found(self, peer: NodeId, message: SessionNotFound, now: float) -> list[Effect]:
        """One of those that were asked has nothing; the last one says it for all. (rule 4)"""
        check_move(message)
        if message.to == self.host.name:
            return self._on_own_not_found(peer, message, now)
        passage = self.passages.get(message.client)
        asked = (message.attempt, message.round, message.to)
        if passage is None or (passage.attempt, passage.round, passage.to) != asked or peer not in passage.waits:
            return []
        waits = tuple(n for n in passage.waits if n != peer)
        self.passages[message.client] = structs.replace(passage, waits=waits)
        return [] if waits else self._not_found(passage.source, message, now)

    def _on_own_not_found(self, peer: NodeId, message: SessionNotFound, now: float) -> list[Effect]:
        asked, rounds = (message.attempt, message.round), self.searches.get(message.client, ())
        ended = [each for each in rounds if (each.attempt, each.round) == asked and peer in each.waits]
        if not ended:
            return []
        left = structs.replace(ended[0], waits=tuple(n for n in ended[0].waits if n != peer))
        self.searches[message.client] = tuple(left if each is ended[0] else each for each in rounds)
        return [] if left.waits else self._not_found(HERE, message, now)


def _ids(message: FetchSession) -> list[EntryId]:
    return [(message.client, each.name) for each in message.subscriptions]


def _trim(session: Session, message: FetchSession) -> None:
    """Replay only what the client has not received. [rebeca §4.1: "beginning with the sequence number initially given"]

    Deliveries come in order, so a number that came for one subscription says that all before it came.
    """
    received = max((each.received for each in message.subscriptions), default=0)
    if session.name == message.session:
        session.queue.confirm(min(received, session.queue.sent_up_to))
