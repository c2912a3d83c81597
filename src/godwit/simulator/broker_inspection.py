"""Inspection of brokers and clients by the simulator, for the checkers only.

*Theory.* A message on a wire is also in the outbox or queue of its sender, until it is acknowledged. So the messages in
nodes, minus those that the other end has accepted and not acknowledged yet, are everything in transit.

*Rules.*
1. No other module of the simulator reads the fields of a broker.
2. Nothing here changes a machine.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sized
from itertools import chain, islice
from typing import Any, Protocol

from godwit.broker.broker import Broker
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import Packet, Publish
from godwit.broker.sessions import Sessions
from godwit.broker.spcf import ContextForwarding
from godwit.broker.stream_messages import HopPacket, SentAgain, event_message
from godwit.broker.tree import TreeRouting
from godwit.client.client import Client
from godwit.filters.contexts import may_match
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.move_messages import Collected, Replay
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from godwit.simulator.ledger import EventId
from godwit.simulator.topologies import Overlay

__all__ = [
    "SessionHolder",
    "Taken",
    "clients_wanting",
    "clients_with_sessions",
    "early_and_taken",
    "entries_in",
    "events_at_stake",
    "events_on_the_way",
    "events_queued",
    "held_subscriptions",
    "idle_entries",
    "is_answered",
    "is_connected",
    "is_queued",
    "is_quiet",
    "is_settled",
    "last_taken",
    "left_behind",
    "queue_lengths",
    "queued_events",
    "sessions_at",
    "table_sizes",
    "unfinished",
    "waiting",
]


class SessionHolder(Protocol):
    """Any broker with sessions; the event broker of an ad hoc network is one, too."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of its clients."""


Taken = Callable[[str, str], int]
"""`taken(a, b)`: the number of the last message from broker a that broker b has accepted durably."""


def waiting(broker: Broker, overlay: Overlay, taken: Taken) -> Iterator[tuple[str, Any]]:
    """Each message in an outbox of `broker`, with the neighbour that has not accepted it yet; "": held back by
    routing."""
    for peer, link in broker.links.items():
        if link.outbox:
            for message in islice(link.outbox, max(taken(broker.name, peer) - link.first + 1, 0), None):
                yield peer, message
    routes = broker.component(OverlayRoutes)
    is_complete = isinstance(broker.routing, GraphRouting) and not _unmet(broker.routing, overlay)
    for _, message in (*routes.held, *(("", message) for unsent in routes.unsent.values() for message in unsent)):
        yield "", message
    for message in broker.routing.held_back():
        if not (is_complete and type(message) is Publish):  # an early event is kept for whom a newborn has not met
            yield "", message


def _unmet(routing: GraphRouting, overlay: Overlay) -> list[str]:
    """The brokers that one of the graph family has never heard of."""
    known = routing.channels.incarnations
    return [name for name in overlay.brokers if name not in known and name != routing.broker]


def _event_of(message: Any) -> EventId | None:
    """The event of a message, if it has one."""
    if type(message) in (Packet, HopPacket):
        message = message.message
    borne = event_message(message)
    return None if borne is None else borne.event.id


def events_on_the_way(broker: Broker, overlay: Overlay, taken: Taken) -> Iterator[EventId]:
    """The events that `broker` holds for other brokers."""
    for _, message in waiting(broker, overlay, taken):
        id = _event_of(message)
        if id is not None:
            yield id


def events_at_stake(broker: Broker, overlay: Overlay, taken: Taken) -> dict[EventId, dict[str, None]]:
    """The events that `broker` holds, and the brokers that would miss each if it were lost."""
    found: dict[EventId, dict[str, None]] = {}
    for peer, message in waiting(broker, overlay, taken):
        id = _event_of(message)
        if id is None:
            continue
        if type(message) is Packet:
            missed_at: Iterable[str] = message.targets
        elif type(message) is HopPacket:
            missed_at = ()  # its source has it, until all have confirmed it
        elif isinstance(broker.routing, GraphRouting):
            missed_at = _unmet(broker.routing, overlay)
        else:
            missed_at = _behind(peer, broker.name, overlay) if peer else overlay.brokers
        found.setdefault(id, {}).update(dict.fromkeys(missed_at))
    return found


def _behind(peer: str, broker: str, overlay: Overlay) -> tuple[str, ...]:
    """The brokers of a tree on the side of `peer`, as seen from `broker`."""
    neighbours = overlay.neighbours()
    found, frontier = {peer: None}, [peer]
    while frontier:
        fresh = [name for name in neighbours[frontier.pop()] if name not in found and name != broker]
        found |= dict.fromkeys(fresh)
        frontier += fresh
    return tuple(found)


Others = Callable[[str], Broker | None]
"""Another broker, or None if it has lost its memory."""


def events_queued(broker: Broker, others: Others) -> Iterator[tuple[str, EventId]]:
    """Client and event, for all unconfirmed events in sessions, or in sessions in transit."""
    for session in broker.sessions:
        for event in session.queue.events():
            yield session.client, event.id
    for client, arrival in broker.component(Relocation).arrivals.items():
        for event, _ in arrival.buffer:
            yield client, event.id
    for replay in _replays(broker, others):
        for item in replay.items:
            yield replay.client, item.event.id


def _replays(broker: Broker, others: Others) -> Iterator[Replay | Collected]:
    """The parts of sessions that `broker` holds. In a graph only their sender can send them again."""
    for arrival in broker.component(Relocation).arrivals.values():
        yield from arrival.parts
    outboxes = (link.outbox for link in broker.links.values() if link.outbox)
    routes = broker.component(OverlayRoutes)
    held = (message for _, message in routes.held)
    following = broker.routing.held_back() if isinstance(broker.routing, TreeRouting) else ()
    for message in chain(*outboxes, held, *routes.unsent.values(), following):
        if type(message) is Replay or type(message) is Collected:
            yield message
    if isinstance(broker.routing, GraphRouting):
        for packet in broker.routing.channels.history:
            carried: Any = packet.message
            carried = carried.message if type(carried) is SentAgain else carried
            if type(carried) is Replay and not _has_come(packet, others(carried.to)):
                yield carried
        stream = broker.routing.hops
        for item in () if stream is None else stream.unconfirmed:
            number = (broker.routing.incarnation, item.number)
            if type(item.message) is Replay and not _has_streamed(broker.name, number, others(item.message.to)):
                yield item.message


def _has_come(packet: Packet, target: Broker | None) -> bool:
    """Whether `target` has a packet that is addressed to it, in order or early."""
    if target is None or not isinstance(target.routing, GraphRouting):
        return False
    again: Any = packet.message
    if type(again) is SentAgain and _has_streamed(packet.source, (again.incarnation, again.number), target):
        return True
    incoming = target.routing.channels.incoming.get(packet.source)
    number = packet.targets[target.name]
    if incoming is None or incoming.incarnation != packet.incarnation:
        return incoming is not None and incoming.incarnation > packet.incarnation  # too late for it
    return number < incoming.next or number in incoming.held


def _has_streamed(source: str, number: tuple[int, int], target: Broker | None) -> bool:
    """Whether `target` has what `source` sent hop by hop: the number of its life, and that of the message."""
    stream = target.routing.hops if target is not None and isinstance(target.routing, GraphRouting) else None
    return stream is not None and stream.taken.get(source, (0, 0)) >= number


def sessions_at(broker: Broker, others: Others) -> dict[str, None]:
    """The clients whose session `broker` holds: local, expected, or in transit."""
    passing = (replay.client for replay in _replays(broker, others))
    arriving = broker.component(Relocation).arrivals
    return dict.fromkeys([*(session.client for session in broker.sessions), *arriving, *passing])


def is_quiet(broker: Broker, overlay: Overlay, taken: Taken) -> bool:
    """Whether no message of control waits in `broker`, its tables are whole, and it knows who is there."""
    routing = broker.routing
    if broker.component(Relocation).arrivals or broker.component(CarryPolicy).collecting:
        return False
    if broker.component(OverlayRoutes).news or not routing.is_settled():
        return False
    if isinstance(routing, GraphRouting) and _unmet(routing, overlay):
        return False
    return all(_event_of(message) is not None for _, message in waiting(broker, overlay, taken))


def is_settled(broker: Broker) -> bool:
    """Whether the tables of `broker` are whole."""
    return broker.routing.is_settled()


def unfinished(broker: Broker, overlay: Overlay, others: "Others", copies: Container[str] = ()) -> list[str]:
    """Descriptions of everything that `broker` has not finished, including unacknowledged messages.

    `copies`: clients whose session at `broker` nobody will resume, so that what waits in it stays.
    """
    found = [
        f"{type(message).__name__} {f'for {peer}' if peer else 'held back'}"
        for peer, message in waiting(broker, overlay, taken=lambda *_: 0)
    ]
    found += [f"the session of {client} is not here yet" for client in broker.component(Relocation).arrivals]
    collecting = broker.component(CarryPolicy).collecting
    found += [f"{', '.join(asked.brokers)} about {client}" for client, asked in collecting.items()]
    queued = [(client, id) for client, id in events_queued(broker, others) if client not in copies]
    return found + [f"event {id} for client {client}" for client, id in queued]


def left_behind(broker: Broker) -> dict[str, int]:
    """The number of entries of each non-empty table of `broker`, including sessions."""
    kept: dict[str, Sized] = {"sessions": broker.sessions}
    if isinstance(barrier := broker.component(Relocation).barrier, GraphBarrier):
        kept |= {"leaving": barrier.departing, "flushed": barrier.flushed}
    kept["holdings"] = broker.component(PublisherPresence).holdings
    sizes = {**broker.routing.sizes(), **{what: len(those) for what, those in kept.items()}}
    return {what: size for what, size in sizes.items() if size}


def last_taken(sender: Broker, receiver: Broker) -> int:
    """The number of the last message that `receiver` has accepted from the present incarnation of `sender`."""
    link = receiver.links[sender.name]
    return link.received if link.peer_incarnation == sender.links[receiver.name].incarnation else 0


def early_and_taken(before: Broker, after: Broker) -> list[Any]:
    """Messages that a broker held on its links while earlier ones were missing, and has accepted since."""
    links = [(link, after.links[peer]) for peer, link in before.links.items()]
    same = [(link, later) for link, later in links if link.peer_incarnation == later.peer_incarnation]
    return [message for link, later in same for number, message in link.early.items() if number <= later.received]


def is_answered(client: Client) -> bool:
    """Whether the client's broker has answered its greeting and all requests, except events."""
    return (client.connection is None or client.is_attached) and not client.has_unanswered_changes()


def clients_with_sessions(broker: SessionHolder) -> list[str]:
    """The clients that have a session at `broker`."""
    return [session.client for session in broker.sessions]


def clients_wanting(broker: SessionHolder, event: Event) -> list[str]:
    """The clients with a session at `broker` that has a subscription to the event."""
    return [
        session.client
        for session in broker.sessions
        if any(subscribe.filter.matches(event) for subscribe in session.subscriptions.values())
    ]


def held_subscriptions(broker: SessionHolder, client: str) -> dict[str, Filter]:
    """The subscriptions of a client's session at `broker`, by name; empty without a session."""
    session = broker.sessions.session(client)
    return {} if session is None else {name: held.filter for name, held in session.subscriptions.items()}


def is_connected(broker: SessionHolder, client: str) -> bool:
    """Whether a client has a session at `broker` and is connected."""
    session = broker.sessions.session(client)
    return session is not None and session.connection is not None


def is_queued(broker: SessionHolder, client: str, id: EventId) -> bool:
    """Whether an event waits for a client in its session at `broker`."""
    session = broker.sessions.session(client)
    return session is not None and any(event.id == id for event in session.queue.events())


def queued_events(broker: SessionHolder, client: str, publisher: str) -> set[EventId]:
    """The events of one publisher that wait for a client in its session at `broker`."""
    session = broker.sessions.session(client)
    return set() if session is None else {event.id for event in session.queue.events() if event.publisher == publisher}


def idle_entries(broker: Broker) -> int:
    """The number of remote subscriptions at `broker` that cannot match the context of any of its clients.

    With matching at every hop, brokers on the path to such a context have them, too, so this cannot be checked.
    """
    routing = broker.routing
    if not isinstance(routing, GraphRouting) or not isinstance(routing.forwarding, ContextForwarding) or routing.hops:
        return 0
    told = routing.forwarding.own.described.values()
    return sum(
        len(ids)
        for other in routing.forwarding.others.values()
        for asked, ids in other.classes.items()
        if not any(may_match(asked, described) for described in told)
    )


def table_sizes(broker: Broker) -> dict[str, int]:
    """By table of `broker`, how many entries it has."""
    return broker.routing.sizes()


def entries_in(broker: Broker) -> int:
    """All entries in the tables of `broker`, sessions counted."""
    return sum(broker.routing.sizes().values()) + len(broker.sessions)


def queue_lengths(brokers: Iterable[Broker]) -> dict[str, int]:
    """The longest queue of each kind in these brokers."""
    longest = {"outbox": 0, "session": 0}
    for broker in brokers:
        for link in broker.links.values():
            longest["outbox"] = max(longest["outbox"], len(link.outbox))
        for session in broker.sessions:
            longest["session"] = max(longest["session"], len(session.queue))
    return longest
