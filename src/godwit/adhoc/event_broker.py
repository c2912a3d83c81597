"""The event broker of an island: a broker whose sessions can be handed over as a whole, and whose neighbours change.

*Theory.* When two islands meet, one event broker gives all its sessions to the other (`adhoc_node.py`). A session goes
with its name and its numbers, so its client goes on where it was. When the other holds a session of that client
already, from an earlier meeting, the two become one: the newer one says what the client wants, and what waits in both
is put together, each publisher's events in their order.

*Rules.*
1. Numbers of a session mean something at one broker only. Who has handed sessions over and does not know whether they
   arrived gives those it keeps new names.
2. Whatever waits in one of two sessions of a client waits in their union, once.
3. A session whose lease ends leaves nothing behind; what waited in it is recorded as lost.
4. What is not acknowledged when a neighbour is lost waits in a session for it (`parted_islands.py`).

*Paper.* [mobile §3.1] "a merging protocol might have to be invoked to combine them into one central EB".
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import structs

from godwit.adhoc.parted_islands import (
    ISLANDS_MAX,
    PartedIslands,
    events_of,
    is_island,
    island_of,
    of_client,
    put,
    subscriptions_of,
)
from godwit.adhoc.radio_messages import Merge
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.component import Component
from godwit.broker.effects import Effect, Heard, Input, StartTimer, Tell, Trace
from godwit.broker.links import Link
from godwit.broker.message_checks import shown
from godwit.broker.messages import (
    Attach,
    NodeId,
    Publish,
    QueuedEvent,
    SessionState,
    Subscribe,
    Synced,
    Unsubscribe,
)
from godwit.broker.queues import event_size
from godwit.broker.reductions import covering
from godwit.broker.removed_entries import RemovedEntries
from godwit.broker.routing import Answer, Forward
from godwit.broker.session import Session
from godwit.broker.standard_components import standard_components
from godwit.broker.tree import HERE, TreeRouting
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.mobility.move_checks import check_move, check_wanted, within_budget
from godwit.mobility.move_messages import Replay
from godwit.trace import Record

__all__ = ["EventBroker", "check_part", "in_sender_order", "whole_sessions"]

REPLAY_ITEMS = 64  # in one message
REPLAY_BYTES = 512 * 2**10  # of them, or one
PARTS_MAX = 10_000  # that one event broker hands over


class EventBroker:
    """A broker that stands alone, for a while, or is joined to others that come and go."""

    def __init__(self, name: NodeId, config: BrokerConfig, incarnation: int) -> None:
        self.name = name
        self.config = config
        self._tree = TreeRouting(name, (), incarnation=incarnation, advertised=False)
        components: list[Component] = [*standard_components(name, config.limits), PartedIslands()]
        self._broker = Broker(name, {}, config, incarnation, components=components, make_routing=lambda *_: self._tree)
        self.sessions = self._broker.sessions
        self._leaders: dict[NodeId, NodeId] = {}  # by neighbour: who it is
        self._parted: dict[NodeId, float] = {}  # by event broker that was lost: until when it keeps what is for us
        self._if_parted: dict[NodeId, tuple[tuple[Filter, ...], SessionState]] = {}  # what it wants, and as a session

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input, as every broker does. A client that greets may come from a parted island."""
        if type(input) is Heard and type(input.message) is Attach:
            is_new = self.sessions.session(input.message.client) is None
            effects = self._broker.handle(input, now)
            return effects + self._brought_over(input.connection, input.message, now) if is_new else effects
        return self._broker.handle(input, now)

    @property
    def neighbours(self) -> tuple[NodeId, ...]:
        """Those to which it is joined."""
        return tuple(self._broker.links)

    @property
    def serves_others(self) -> bool:
        """Whether it has a neighbour, or a session of any client but that of its own device."""
        return bool(self._broker.links) or any(session.client != self.name for session in self.sessions)

    def table_sizes(self) -> dict[str, int]:
        """How many entries each table holds."""
        return self._tree.sizes()

    def handed_over(self, to: NodeId) -> list[Replay]:
        """All sessions, as another event broker takes them. They stay here, too."""
        return [part for session in self.sessions for part in _parts(session, to, session.queue.waiting())]

    def rename(self) -> None:
        """What was handed over may go on elsewhere: here nobody's numbers count any more. Rule 1."""
        for session in self.sessions:
            session.name = self.sessions.new(session.client).name

    def leases(self, now: float) -> tuple[float, ...]:
        """What is left of each session's lease, for all whose client is away."""
        return tuple(max((session.ends_at or now) - now, 0.0) for session in self.sessions)

    def end_lease(self, client: NodeId, at: float) -> list[Effect]:
        """A client that is away now is forgotten at that time, if it does not come back."""
        session = self.sessions.session(client)
        if session is None or session.connection is not None:
            return []
        session.ends_at = at
        return [StartTimer(("session", client), at)]

    def take(self, parts: list[Replay], lease_s: float, now: float) -> list[Effect]:
        """Go on with a session that was at another event broker."""
        state = parts[0].state
        assert state is not None
        client, attempt = state.client, parts[0].attempt
        session = Session.restored(state, [item for part in parts for item in part.items], self.config.limits, now)
        removed = RemovedEntries()
        before = self.sessions.session(client)
        if before is not None:
            older, removed = self.sessions.release(client, now, "two sessions of the client become one")
            lease_s = max(lease_s, (older.ends_at or now + lease_s) - now)
            session.attempt = attempt
            session = self._union(*sorted((older, session), key=lambda one: one.attempt), now=now)
            attempt = session.attempt
        else:
            self.sessions.welcome(session, None, None, now)
        return self._adopt(session, removed, attempt, lease_s, now)

    def _adopt(
        self, session: Session, removed: RemovedEntries, attempt: int, lease_s: float, now: float
    ) -> list[Effect]:
        client, effects = session.client, self._instead(removed, session, now)
        record = Record("relocated", client, number=len(session.queue), detail=self.name)
        effects += [Trace(record), *self.sessions.adopt(session, None, Attach(client, attempt=attempt), now)]
        return effects + self.end_lease(client, now + lease_s)

    def _instead(self, removed: RemovedEntries, session: Session, now: float) -> list[Effect]:
        """Let routing know a session instead of another one. What both want stays in force all the time."""
        effects: list[Effect] = []
        for name, subscribe in session.subscriptions.items():
            self._broker.carry_out(self._tree.subscribe((session.client, name), subscribe.filter, now), effects, now)
        ended = tuple(id for id in removed.subscriptions if id[1] not in session.subscriptions)
        return effects + self._broker.withdraw(structs.replace(removed, subscriptions=ended), now)

    def _union(self, older: Session, newer: Session, *, now: float) -> Session:
        """One session of two: it wants what the newer wants, and holds what either holds. Rule 2."""
        session = self.sessions.new(newer.client)
        session.attempt = newer.attempt
        for name, subscribe in newer.subscriptions.items():
            session.filters.put_subscription(subscribe)
            session.queue.set_rules(name, subscribe.queue, now)
        session.adopt_advertisements(newer.advertisements)
        session.has_advertised = newer.has_advertised
        context = newer.context if newer.context_since is not None else None
        self.sessions.welcome(session, context, newer.asserted, now)
        for item in in_sender_order([*older.queue.waiting(), *newer.queue.waiting()]):
            session.queue.put(item.event, item.subscriptions, now)
        session.seen.learn(older.seen.data())
        session.seen.join(newer.seen.data())
        return session

    # ------------------------------------------------------------ one session that follows its client

    def state_of(self, session: Session, to: NodeId) -> list[Replay]:
        """A session without its queue. It stays here, and goes on."""
        return _parts(session, to, [])

    def all_of(self, session: Session, to: NodeId) -> list[Replay]:
        """A session with its queue. It stays here under another name. Rule 1. Of an island, only its events matter."""
        parts = _parts(session, to, session.queue.waiting())
        if is_island(session.client) and parts[0].state is not None:
            parts[0] = structs.replace(parts[0], state=structs.replace(parts[0].state, subscriptions=(), seen=()))
        session.name = self.sessions.new_name()
        return parts

    def forget(self, client: NodeId, now: float) -> list[Effect]:
        """A session goes on elsewhere, and ends here."""
        _, removed = self.sessions.release(client, now, "the session has followed its client")
        return self._broker.withdraw(removed, now)

    def go_on_with(self, parts: list[Replay], lease_s: float, now: float) -> list[Effect]:
        """The queue of a session whose state was taken before: what has come here since stands behind it.

        By then this broker's subscriptions for it were in force, so of each publisher at one place the queue has the
        earlier events. Name and numbers of the session stay, and its client goes on as if nothing had happened.
        """
        state = parts[0].state
        assert state is not None
        since, removed = self.sessions.release(state.client, now, "the session has arrived completely")
        items = [item for part in parts for item in part.items]
        session = Session.restored(state, items, self.config.limits, now)
        for item in since.queue.waiting():
            if session.seen.add(*item.event.id):
                session.queue.put(item.event, item.subscriptions, now)
        self.sessions.welcome(session, None, None, now)
        return self._adopt(session, removed, max(parts[0].attempt, since.attempt), lease_s, now)

    # ------------------------------------------------------------ coordinating

    def is_joined(self, peer: NodeId) -> bool:
        """Whether this is a neighbour."""
        return peer in self._broker.links

    def join(self, peer: NodeId, far: NodeId, link: Link, now: float) -> list[Effect]:
        """From now on `far` is a neighbour, over the open link `peer`: tell it what everybody here wants.

        What has waited for it goes first, and what it wanted before is in force until it has told all again.
        """
        effects: list[Effect] = []
        until, lease_s = self._parted.pop(far, None), self.config.limits.session_expiry_s or 0.0
        if until is not None and until <= now:  # it has kept nothing: the next receipts of clients here say so
            self.sessions.losses.hear(until - lease_s)
        self._broker.links[peer], self._leaders[peer] = link, far
        kept = self.sessions.session(island_of(far))
        for event in [] if kept is None else kept.queue.events():
            link.send(Publish(event), effects, now)
        self._broker.carry_out(_grow(self._tree, peer), effects, now)
        if kept is not None:
            for subscribe in kept.subscriptions.values():
                self._tree.stale.setdefault(peer, {})["subscriptions", subscribe.id] = None
                self._broker.carry_out(self._tree.on_subscribe(subscribe.id, subscribe.filter, peer), effects, now)
            effects += self.forget(island_of(far), now)
        return effects

    def part(self, peer: NodeId, until: float, now: float) -> list[Effect]:
        """From now on it is none. What it wants is kept for it until then. Rule 4."""
        link = self._broker.links.get(peer)
        if link is None:
            return []
        far = self._leaders[peer]
        self._parted.pop(far, None)
        self._parted[far] = until
        if len(self._parted) > ISLANDS_MAX:
            del self._parted[next(iter(self._parted))]
        effects = self._keep(island_of(far), self._tree.in_subs[peer].values(), events_of(link.outbox), until, now)
        self._broker.carry_out(_prune(self._tree, peer), effects, now)
        self._if_parted.pop(peer, None)
        del self._broker.links[peer], self._leaders[peer]
        return effects

    # ------------------------------------------------------------ islands that have parted

    def _keep(
        self, island: NodeId, wanted: Iterable[Filter], events: list[Event], until: float, now: float
    ) -> list[Effect]:
        """Keep events for an island, and take what else it wants."""
        if until <= now:
            return [_lost(island, event, "the lease has expired") for event in events]
        removed, before = RemovedEntries(), self.sessions.session(island)
        if before is None and sum(is_island(one.client) for one in self.sessions) >= ISLANDS_MAX:
            return [_lost(island, event, f"more than {ISLANDS_MAX} islands have parted") for event in events]
        if before is not None:
            wanted = [*(subscribe.filter for subscribe in before.subscriptions.values()), *wanted]
            events = [*before.queue.events(), *events]
            _, removed = self.sessions.release(island, now, "more is kept for the island")
        session = self.sessions.new(island)
        for subscribe in subscriptions_of(island, wanted):
            session.filters.put_subscription(subscribe)
        if not session.subscriptions and not events:
            return self._broker.withdraw(removed, now)
        effects = self._instead(removed, session, now)
        effects += [*put(session, events, now), *self.sessions.adopt(session, None, Attach(island), now)]
        return effects + self.end_lease(island, until)

    def kept_if_parted(self) -> Iterator[tuple[SessionState, Link]]:
        """What would be kept for each neighbour if it were lost now: its session without the queue, and the link."""
        for peer, far in self._leaders.items():
            wanted = tuple(self._tree.in_subs[peer].values())
            before = self._if_parted.get(peer)
            if before is None or before[0] != wanted:
                session = Session(island_of(far), peer, self.config.limits)
                for subscribe in subscriptions_of(session.client, wanted):
                    session.filters.put_subscription(subscribe)
                before = self._if_parted[peer] = (wanted, session.state())
            yield before[1], self._broker.links[peer]

    def kept_for_others(self) -> set[tuple[str, int]]:
        """The events that wait for other event brokers, by publisher and number."""
        waiting = [event for one in self.sessions if is_island(one.client) for event in one.queue.events()]
        waiting += [event for link in self._broker.links.values() for event in events_of(link.outbox)]
        return {event.id for event in waiting}

    def wanting(self, event: Event) -> list[NodeId]:
        """The neighbours that want an event."""
        answers = self._tree.on_publish(Publish(event), HERE, 0.0)
        return [answer.peer for answer in answers if type(answer) is Forward]

    def hand_on(self, parts: list[Replay], now: float) -> list[Effect]:
        """What another event broker has kept for this island has come: a client that was here may be elsewhere now."""
        effects: list[Effect] = []
        for item in (item for part in parts for item in part.items):
            self._broker.carry_out(self._tree.publish(item.event, now), effects, now)
        return effects

    def _brought_over(self, connection: str, greeting: Attach, now: float) -> list[Effect]:
        """A client begins a session here that had one in another island, and what is kept for that it had asked for."""
        session = self.sessions.session(greeting.client)
        if session is None or not greeting.home:
            return []
        check_wanted(greeting, self.config.limits)
        kept = self.sessions.session(island_of(greeting.home))
        events = [] if kept is None else kept.queue.events()
        for peer in [peer for peer, far in self._leaders.items() if far == greeting.home]:
            events += events_of(self._broker.links[peer].outbox)
        effects: list[Effect] = []
        for event, names in of_client(events, within_budget(greeting, self.config.limits)):
            if session.is_addressed(event) and session.seen.add(*event.id):
                delivery = session.queue.put(event, names, now)
                if delivery is not None:
                    effects.append(Tell(connection, delivery))
        return effects + session.gone()

    def on_trunk(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        """A neighbour wants or says something."""
        effects: list[Effect] = []
        self._broker.carry_out(self._tree.on_message(peer, message, now), effects, now)
        return effects

    def lost_with(self, client: NodeId) -> list[Effect]:
        """Record the queued events of a client whose lease has expired as lost. (rule 3)"""
        session = self.sessions.session(client)
        events = [] if session is None else session.queue.events()
        return [_lost(client, event, "the lease has expired") for event in events]


def _lost(client: NodeId, event: Event, detail: str) -> Trace:
    return Trace(Record("lost", client, "", *event.id, detail=detail))


def _parts(session: Session, to: NodeId, items: list[QueuedEvent]) -> list[Replay]:
    """A session as messages: its state with the first items, then the others."""
    chunks: list[list[QueuedEvent]] = [[]]
    size = 0
    for item in items:
        size += event_size(item.event)
        if chunks[-1] and (len(chunks[-1]) >= REPLAY_ITEMS or size > REPLAY_BYTES):
            chunks.append([])
            size = event_size(item.event)
        chunks[-1].append(item)
    last = len(chunks) - 1
    return [
        Replay(session.client, to, session.attempt, session.state() if at == 0 else None, tuple(chunk), at == last)
        for at, chunk in enumerate(chunks)
    ]


def _grow(tree: TreeRouting, peer: NodeId) -> list[Answer]:
    """Tell a new neighbour what is wanted here and behind others. It begins with nothing, so nobody waits for it."""
    out = tree.out_subs[peer] = covering(f"{tree.name}/{peer}", 0.0)
    tree.out_ads[peer] = covering(f"{tree.name}/{peer}", 0.0)
    answers: list[Answer] = []
    for source, entries in tree.in_subs.items():
        for id, filter in entries.items():
            changes = out.add((source, id), id, filter)
            answers += [
                Forward(peer, Unsubscribe(told) if wanted is None else Subscribe(told, wanted))
                for told, wanted in changes
            ]
    tree.in_subs[peer], tree.in_ads[peer] = {}, {}
    tree.told_all["subscriptions"][peer] = None
    tree.neighbours = (*tree.neighbours, peer)
    return [*answers, Forward(peer, Synced("subscriptions"))]


def _prune(tree: TreeRouting, peer: NodeId) -> list[Answer]:
    """Forget a neighbour, and all that it wanted."""
    answers = [answer for id in list(tree.in_subs[peer]) for answer in tree.on_unsubscribe(id, peer)]
    del tree.in_subs[peer], tree.in_ads[peer], tree.out_subs[peer], tree.out_ads[peer]
    del tree.told_all["subscriptions"][peer]
    tree.stale.pop(peer, None)
    tree.neighbours = tuple(name for name in tree.neighbours if name != peer)
    return answers


def check_part(parts: list[Replay], part: Replay) -> None:
    """`PeerFault` unless this may follow the parts of sessions that came before."""
    check_move(part)
    if len(parts) >= PARTS_MAX:
        raise PeerFault(f"a hand-over of more than {PARTS_MAX} parts")
    begins = part.state is not None
    if begins == bool(parts and not parts[-1].is_last) or not (begins or part.client == parts[-1].client):
        raise PeerFault("parts of sessions that do not follow each other")


def whole_sessions(parts: list[Replay], message: Merge) -> list[list[Replay]]:
    """The parts of each session; `PeerFault` unless all that were announced are there and whole."""
    sessions: list[list[Replay]] = []
    for part in parts:
        if part.state is not None:
            sessions.append([])
        sessions[-1].append(part)
    leases: Any = message.leases
    if type(leases) is not tuple or any(type(left) not in (int, float) or not left >= 0 for left in leases):
        raise PeerFault(f"leases of {shown(leases)}: they must be seconds, 0 or more")
    if len(sessions) != len(leases) or (parts and not parts[-1].is_last):
        raise PeerFault(f"{len(sessions)} sessions arrived, but {len(leases)} were announced")
    return sessions


def in_sender_order(items: list[QueuedEvent]) -> list[QueuedEvent]:
    """The same items, each event once: every publisher keeps its places, and has its events there in their order."""
    once = {item.event.id: item for item in items}
    of: dict[str, list[QueuedEvent]] = {}
    for item in sorted(once.values(), key=lambda item: item.event.sequence, reverse=True):
        of.setdefault(item.event.publisher, []).append(item)
    return [of[item.event.publisher].pop() for item in once.values()]
