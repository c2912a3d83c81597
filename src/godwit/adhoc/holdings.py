"""The stored holdings of a device: a crash loses nothing that the device has accepted.

*Theory.* Others rely on three things that a device holds: the sessions of its event broker with what waits in them, its
own events that no event broker has acknowledged, and events that it is to bring to a fixed broker. After each turn,
`changes` compares these with what is on the disk, and says what is to be written. Put together again, that is what the
device would hand over to another event broker. So a device that starts again is an event broker that meets its own
past: it leads, and takes over its sessions (`resume`). It discovers everything else again: links, circuits, routes,
leaders.

*Rules.*
1. What is to be written is written before the effects of the turn leave: so what was accepted is on the disk.
2. Sessions that are taken over get new names: the device may have crashed while it handed them over to another
   (`event_broker.py`, rule 1).
3. A session whose lease has ended meanwhile is not taken over. What waited in it is recorded as lost.
4. The numbers of events that a session has had are written with its subscriptions, and not with each event. So a
   session may take an event a second time after a crash; its client knows the event by its number.
5. What has left a queue, for whatever reason, leaves the disk with the next changes. A session that has another name,
   or has replaced one of the same name, is written as a whole: its numbers may stand for other events.
6. What waits on a trunk to another event broker is written as the session that it would become if the trunk were lost
   (`parted_islands.py`). Its events have the numbers of their frames.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import ClassVar, Protocol

import msgspec
from msgspec import structs

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.broker.effects import Effect, StartTimer, Trace
from godwit.broker.links import Link
from godwit.broker.messages import NodeId, Publish, QueuedEvent, SessionState
from godwit.broker.session import Session
from godwit.codec.snapshots import register_states
from godwit.filters.events import Event
from godwit.mobility.move_messages import Replay
from godwit.trace import Record

__all__ = [
    "KEPT_KINDS",
    "Holdings",
    "HoldingsState",
    "Kept",
    "KeptForward",
    "KeptOwn",
    "KeptQueue",
    "KeptSession",
    "KeptSessionEnd",
    "resume",
]

EventId = tuple[str, int]


class KeptSession(msgspec.Struct, frozen=True, tag=True):
    """A session, without its queue: it is new, or its client wants something else. What waits in it stays."""

    client: NodeId
    state: SessionState


class KeptQueue(msgspec.Struct, frozen=True, tag=True):
    """What has come into the queue of a session, and what has left it."""

    client: NodeId
    items: tuple[QueuedEvent, ...]  # that are new
    gone: tuple[int, ...]  # numbers of those that have left unconfirmed: a rule or a budget of the queue took them
    taken: int  # the number of the last that has come
    through: int  # up to which all have left
    confirmed: int  # how many of these its client has confirmed
    attempt: int
    ends_at: float | None  # when the lease ends; None: its client is there


class KeptSessionEnd(msgspec.Struct, frozen=True, tag=True):
    """The event broker here does not have this session of a client any more; it may have another."""

    client: NodeId


class KeptOwn(msgspec.Struct, frozen=True, tag=True):
    """Events that the device has published, and the numbers of those that an event broker has acknowledged."""

    events: tuple[Event, ...]
    answered: tuple[int, ...]


class KeptForward(msgspec.Struct, frozen=True, tag=True):
    """Events that are to go to a fixed broker, and those that need not any more."""

    events: tuple[Event, ...]
    done: tuple[EventId, ...]


Kept = KeptSession | KeptQueue | KeptSessionEnd | KeptOwn | KeptForward
KEPT_KINDS = (KeptSession, KeptQueue, KeptSessionEnd, KeptOwn, KeptForward)


class HoldingsState(msgspec.Struct, frozen=True, tag=True):
    """All that a device holds."""

    version: ClassVar[int] = 3
    sessions: tuple[KeptSession, ...]
    queues: tuple[KeptQueue, ...]
    own: tuple[Event, ...]
    forwarding: tuple[Event, ...]


register_states(HoldingsState)


class PublishingClient(Protocol):
    """What is asked of a device's client."""

    sequence: int

    def unanswered(self) -> list[Event]:
        """Events that no broker has acknowledged, the oldest first."""

    def publish_numbered(self, event: Event) -> list[Effect]:
        """Publish an event that has a number."""


class HeldSession:
    """One session on the disk."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.of: Session | Link | None = None  # what was written was read from it; None: from the disk
        self.items: dict[int, QueuedEvent] = {}
        self.queue = KeptQueue(state.client, (), (), 0, 0, 0, 0, None)  # as it was written last

    def add(self, kept: KeptQueue) -> None:
        """Something has come or left."""
        self.items.update((item.number, item) for item in kept.items)
        for number in kept.gone:
            self.items.pop(number, None)
        while self.items and (first := next(iter(self.items))) <= kept.through:
            del self.items[first]
        self.queue = structs.replace(kept, items=(), gone=())

    def whole(self) -> KeptQueue:
        """All that waits."""
        return structs.replace(self.queue, items=tuple(self.items.values()))

    def part(self, name: str, to: NodeId) -> Replay:
        """The session as an event broker takes it over, under this name. Rule 2."""
        queue = self.queue
        state = structs.replace(
            self.state, name=name, taken=queue.taken, sent_up_to=queue.through, confirmed=queue.confirmed
        )
        return Replay(state.client, to, queue.attempt, state, tuple(self.items.values()), True)


class Holdings:
    """What is on the disk of a device."""

    def __init__(self) -> None:
        self.sessions: dict[NodeId, HeldSession] = {}
        self.own: dict[int, Event] = {}
        self.forwarding: dict[EventId, Event] = {}
        self._last_own = 0  # the highest number of an own event that was written

    # ------------------------------------------------------------ from the disk

    def add(self, kept: Kept) -> None:
        """This was written."""
        match kept:
            case KeptSession(client=client, state=state):
                self.sessions.setdefault(client, HeldSession(state)).state = state
            case KeptQueue(client=client):
                self.sessions[client].add(kept)
            case KeptSessionEnd(client=client):
                self.sessions.pop(client, None)
            case KeptOwn(events=events, answered=answered):
                self.own.update((event.sequence, event) for event in events)
                self._last_own = max((self._last_own, *(event.sequence for event in events)))
                for number in answered:
                    self.own.pop(number, None)
            case KeptForward(events=events, done=done):
                self.forwarding.update((event.id, event) for event in events)
                for id in done:
                    self.forwarding.pop(id, None)

    def snapshot(self) -> HoldingsState:
        """All of it."""
        return HoldingsState(
            tuple(KeptSession(client, held.state) for client, held in self.sessions.items()),
            tuple(held.whole() for held in self.sessions.values()),
            tuple(self.own.values()),
            tuple(self.forwarding.values()),
        )

    def restore(self, state: HoldingsState) -> None:
        """Go on from a snapshot."""
        for session in state.sessions:
            self.add(session)
        for queue in state.queues:
            self.add(queue)
        self.add(KeptOwn(state.own, ()))
        self.add(KeptForward(state.forwarding, ()))

    # ------------------------------------------------------------ to the disk

    def changes(
        self, node: AdHocNode, client: PublishingClient, new: Iterable[Event] = (), done: Iterable[EventId] = ()
    ) -> list[Kept]:
        """What is to be written now; it counts as written. `new` and `done`: what is to be forwarded, and what was."""
        found: list[Kept] = []
        sessions: Collection[Session] = () if node.broker is None else list(node.broker.sessions)
        read_from: dict[NodeId, Session | Link] = {session.client: session for session in sessions}
        for session in sessions:
            found += self._of_session(session)
        for state, link in () if node.broker is None else node.broker.kept_if_parted():
            if state.client not in read_from:
                read_from[state.client] = link
                found += self._of_trunk(state, link)
        found += [KeptSessionEnd(name) for name in self.sessions if name not in read_from]
        found += self._of_own(client)
        forward = KeptForward(tuple(new), tuple(done))
        if forward.events or forward.done:
            found.append(forward)
        for kept in found:
            self.add(kept)
        for name, origin in read_from.items():
            self.sessions[name].of = origin
        return found

    def _of_session(self, session: Session) -> Iterator[Kept]:
        held, client, queue = self.sessions.get(session.client), session.client, session.queue
        if held is not None and (held.of is not session or held.state.name != session.name):  # rule 5
            yield KeptSessionEnd(client)
            held = None
        if held is None or held.state.subscriptions != tuple(session.subscriptions.values()):
            yield KeptSession(client, session.state())
        through = queue.confirmed_up_to()
        now = KeptQueue(client, (), (), queue.taken, through, queue.confirmed, session.attempt, session.ends_at)
        if held is None:
            yield structs.replace(now, items=tuple(queue.after(through)))
        elif now != held.queue or len(held.items) != len(queue):
            items = tuple(queue.after(max(held.queue.taken, through)))
            left = queue.missing(held.items, len(held.items) + len(items) - len(queue))
            yield structs.replace(now, items=items, gone=tuple(number for number in left if number > through))

    def _of_trunk(self, state: SessionState, link: Link) -> Iterator[Kept]:
        held, client = self.sessions.get(state.client), state.client
        if held is not None and (held.of is not link or held.state.name != state.name):  # rule 5
            yield KeptSessionEnd(client)
            held = None
        if held is None or held.state.subscriptions != state.subscriptions:
            yield KeptSession(client, state)
        taken = 0 if held is None else held.queue.taken
        first = next((number for number, each in enumerate(link.outbox, link.first) if type(each) is Publish), None)
        items = tuple(_events_after(taken, link))
        taken = items[-1].number if items else taken
        through = taken if first is None else first - 1
        now = KeptQueue(client, items, (), taken, through, through, 0, None)
        if held is None or items or through != held.queue.through:
            yield now

    def _of_own(self, client: PublishingClient) -> Iterator[Kept]:
        if not self.own and client.sequence <= self._last_own:
            return
        unanswered = {event.sequence: event for event in client.unanswered()}
        events = tuple(event for number, event in unanswered.items() if number > self._last_own)
        answered = tuple(number for number in self.own if number not in unanswered)
        if events or answered:
            yield KeptOwn(events, answered)


def _events_after(number: int, link: Link) -> list[QueuedEvent]:
    """The events that wait on a trunk in frames with a higher number; it takes no longer than there are such."""
    found: list[QueuedEvent] = []
    for at, message in enumerate(reversed(link.outbox)):
        frame = link.first + len(link.outbox) - 1 - at
        if frame <= number:
            break
        if type(message) is Publish:
            found.append(QueuedEvent(frame, message.event, (), 0.0))
    return found[::-1]


def resume(node: AdHocNode, held: Holdings, now: float) -> list[Effect]:
    """Let a device that starts again go on with what it held."""

    def publish(client: PublishingClient) -> list[Effect]:
        return [effect for event in held.own.values() for effect in client.publish_numbered(event)]

    effects = node.ask(publish, now)
    live: list[HeldSession] = []
    for session in held.sessions.values():
        ends_at = session.queue.ends_at
        if ends_at is None or ends_at > now:
            live.append(session)
            continue
        for item in session.items.values():  # rule 3
            record = Record("lost", session.queue.client, "", *item.event.id, detail="the lease has expired")
            effects.append(Trace(record))
    if any(session.items or session.queue.client != node.name for session in live):
        effects += _lead_again(node, live, now)
    return effects


def _lead_again(node: AdHocNode, live: list[HeldSession], now: float) -> list[Effect]:
    """Be the event broker that this device was, with its sessions."""
    node.declare(now)
    broker, lease_s = node.broker, node.config.lease_s
    assert broker is not None
    for held in live:
        ends_at, part = held.queue.ends_at, held.part(broker.sessions.new_name(), node.name)
        left_s = lease_s if ends_at is None else min(ends_at - now, lease_s)
        node.device.let("broker", broker.take([part], left_s, now))
        session = broker.sessions.session(part.client)
        assert session is not None
        for item in part.items:
            session.seen.add(*item.event.id)
    node.device.emit(StartTimer(("tick",), now + node.config.beacon_s))
    return node.device.carry_out(now)
