"""Plays: parts of brokers, and whole brokers, that are told things at random, to compare one with its restored twin.

A play makes a part, draws what happens next by looking at the part, and lets it happen to a part: what is seen of it is
returned. Whatever is drawn is a plain call, so that the same can happen to a twin.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.channels import Channels, ChannelsState
from godwit.broker.context_table import OwnContexts
from godwit.broker.effects import Arrived, Closed, Heard, LinkDown, LinkUp, Opened, TimerDue
from godwit.broker.gossip import GROUPS, RETAINED, WHEREABOUTS, Gossip, TableLimit
from godwit.broker.gossip_messages import Fact, GossipUpdate, GroupMember, RetainedEvent, SessionLocation
from godwit.broker.limits import Limits
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Bye,
    ChannelStart,
    ChannelTail,
    Context,
    Delivery,
    FetchEvents,
    Frame,
    Hello,
    LinkState,
    LostNumbers,
    Nack,
    Note,
    Packet,
    PastConnection,
    Publish,
    QueuedEvent,
    QueueRules,
    Received,
    Request,
    Retain,
    SetSessionExpiry,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.predecessor_chain import PredecessorChain
from godwit.broker.quenching import Quenching
from godwit.broker.queues import Queue
from godwit.broker.reductions import REDUCTIONS
from godwit.broker.session import Session
from godwit.broker.sessions import Sessions
from godwit.broker.topology import Topology, TopologyState
from godwit.broker.tree import TreeRouting
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.mobility.move_messages import (
    AskInterests,
    Collect,
    Collected,
    EndOlderSession,
    Follow,
    FollowUpdate,
    Interests,
    MoveOut,
    Prefetch,
    Proxy,
    ReachableBrokers,
    Relocate,
    Replay,
    SessionUnknown,
    Superseded,
    Unfollow,
    WithdrawPrefetch,
)
from godwit.mobility.movement_graphs import line
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.possible_values import Movements
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherConfig, PublisherReconfigured, PublisherSettings
from godwit.mobility.relocation import Relocation
from godwit.seen import Seen
from tests.property.advertised_play import advertised, draw_advertised
from tests.property.junction_play import at_junction, draw_junction
from tests.property.rights_play import draw_rights

__all__ = ["PLAYS", "Play"]

Call = tuple[str, tuple[Any, ...]]
FILTERS = [
    parse(text)
    for text in (
        *("x > 0", "x > 1", "x > 2", "x < 9", "x = 1", "x = 1 AND y = 2", "y = 2", "y IN (1, 2)", "y = 1"),
        *("x BETWEEN 0 AND 3", "x BETWEEN 4 AND 9", "x BETWEEN 10 AND 14", "x BETWEEN 15 AND 17"),
    )
]
MANY = [parse(f"z = {number}") for number in range(1_100)]
HERE = parse("location = myloc")
NAMES = ("ann", "bob", "cid")


def made(random: Random, publisher: str | None = None, sequence: int | None = None, **details: Any) -> Event:
    attributes: dict[str, Any] = {"x": random.randrange(4), "y": random.randrange(3), "topic": random.choice("tuv")}
    return Event(attributes, publisher or random.choice("pqrstu"), sequence or random.randrange(1, 12), **details)


class Play:
    """A part, and what can happen to it."""

    def __init__(
        self,
        make: Callable[[], Any],
        draw: Callable[[Random, Any, int], Call],
        restored: Callable[[Any], Any] | None = None,
        see: Callable[[Any], Any] = lambda part: None,
    ) -> None:
        self.make, self.draw, self.see = make, draw, see
        self._restored = restored

    def restored(self, state: Any) -> Any:
        """A part that goes on from a state."""
        if self._restored is not None:
            return self._restored(state)
        part = self.make()
        part.restore(state)
        return part

    def let(self, part: Any, call: Call) -> Any:
        """Let it happen; what is seen."""
        name, arguments = call
        try:
            found = getattr(part, name)(*arguments)
        except (PeerFault, AssertionError) as fault:
            found = (type(fault), str(fault))
        return repr((found, self.see(part)))


# ---------------------------------------------------------------- small parts


def _seen(random: Random, seen: Any, step: int) -> Call:
    if random.random() < 0.1:
        return "join", (((random.choice("abcdef"), random.randrange(1, 14), bytes([random.randrange(256)])),),)
    return "add", (random.choice("abcdef"), random.randrange(1, 14))


def _chain(random: Random, chain: Any, step: int) -> Call:
    return random.choice(
        [
            ("link", (step + 1, made(random))),
            ("link", (step + 1, made(random))),
            ("named", (Delivery(random.randrange(1, step + 2), made(random), ()),)),
            ("drop", (random.randrange(1, step + 2),)),
            ("forget", (max(0, step - 8),)),
        ]
    )


RULES = (
    None,
    QueueRules(age_s_max=9.0),
    QueueRules(newest_per="x"),
    QueueRules(high_water="x"),
    QueueRules(count_max=2, importance="y"),
    QueueRules(bytes_max=300),
)


def _queue(random: Random, queue: Any, step: int) -> Call:
    now = float(step)
    some = random.sample(("a", "b", "c"), random.randint(1, 3))
    expiring = made(random, expires_at=now + random.randrange(-1, 8) if random.random() < 0.3 else None)
    calls: list[Call] = [
        *[("put", (expiring, tuple(some), now))] * 5,
        ("take", (now,)),
        ("confirm", (random.randint(0, queue.sent_up_to),)),
        ("pause", (now,)),
        ("resume", (random.randint(max(0, queue.sent_up_to - 2), queue.sent_up_to), now)),
        ("set_rules", (random.choice("abc"), random.choice(RULES), now)),
        ("end_rules", (random.choice("abc"),)),
        ("confirmed_up_to", ()),
    ]
    return random.choice(calls)


def _queue_seen(queue: Any) -> Any:
    gone, queue.gone = (queue.gone, []) if len(queue.gone) > 2 else ((), queue.gone)
    return [len(queue), queue.taken, queue.confirmed, queue.expired, sorted(queue.purged.items()), list(gone)]


def _link(random: Random, link: Any, step: int) -> Call:
    now = step * 0.7
    life = random.choice((1, 1, 1, 1, 2))
    sent = link.first + link.in_flight - 1
    number = link.received + random.choice((1, 1, 1, 1, 2, 3, 0))
    hello = Hello(life, random.choice((1, 1, 1, 0)), random.choice((link.first - 1, sent)), 1, random.random() < 0.7)
    if not link.connected:
        return random.choice([("on_up", (now,)), ("sent_by_broker", (made(random), now)), ("on_down", (now,))])
    calls: list[Call] = [
        *[("sent_by_broker", (made(random), now))] * 4,
        *[("heard", (Frame(number, random.randint(link.first - 1, max(sent, 0)), Publish(made(random))), now))] * 4,
        *[("acknowledged", (Ack(random.randint(link.first - 1, max(sent, 0))), now))] * 2,
        *[("on_hello", (hello, now))] * (4 if not link.open else 1),
        ("on_down", (now,)),
        ("on_ack_due", ()),
        ("on_resend_due", (now,)),
        ("give_up", ()),
        ("on_up", (now,)),
    ]
    return random.choice(calls)


class PlayedLink(Link):
    """A link whose effects are returned."""

    def sent_by_broker(self, event: Event, now: float) -> Any:
        effects: list[Any] = []
        self.send(Publish(event), effects, now)
        return effects

    def heard(self, frame: Frame, now: float) -> Any:
        effects: list[Any] = []
        return self.on_frame(frame, effects, now), effects

    def acknowledged(self, ack: Ack, now: float) -> Any:
        effects: list[Any] = []
        self.on_ack(ack, effects, now)
        return effects


def _outgoing(random: Random, out: Any, step: int) -> Call:
    id = (random.choice(("b", "c")), str(random.randrange(4)))
    key = (random.choice(("", "n")), id)
    return random.choice([*[("add", (key, id, random.choice(FILTERS)))] * 3, ("remove", (key,))])


def _gossip(random: Random, gossip: Any, step: int) -> Call:
    key = (random.choice("klm"),)
    value = random.choice((None, RetainedEvent(made(random)), RetainedEvent(made(random))))
    fact = Fact(RETAINED, key, random.randrange(40), random.choice("bc"), value)
    return random.choice(
        [
            ("put", (RETAINED, key, value, step * 1e-6)),
            ("put", (WHEREABOUTS, ("ann",), SessionLocation("a", "s", 1), step * 1e-6)),
            ("learn", (random.choice("bc"), fact)),
            ("learn", (random.choice("bc"), fact)),
            ("untold", (random.choice("bcd"), random.choice((1, 1, 2)))),
            ("untold", (random.choice("bcd"), 1)),
            ("expire", (RETAINED, key)),
            ("forget_told", (random.choice("bc"),)),
            ("why_not", (RETAINED, key, RetainedEvent(made(random)))),
        ]
    )


class PlayedQuenching(Quenching):
    """Quenching where what is wanted is said with each call."""

    def came(self, connection: str, wanted: list[Any]) -> Any:
        return self.attach(connection, lambda: wanted)

    def changed(self, connection: str, wanted: list[Any], now: float) -> Any:
        return self.on_context(connection, lambda: wanted, now)

    def due(self, wanted: list[Any]) -> Any:
        return self.on_timer_due(lambda: wanted)


def _quenching(random: Random, quenching: Any, step: int) -> Call:
    wanted = MANY if random.random() < 0.2 else random.sample(FILTERS, random.randint(1, 5))
    connection = random.choice("ab")
    return random.choice(
        [
            ("came", (connection, wanted)),
            ("detach", (connection,)),
            ("detach", (connection,)),
            ("on_added", (random.choice(FILTERS),)),
            ("on_added", (random.choice(FILTERS),)),
            ("on_removed", (float(step),)),
            ("due", (wanted,)),
            ("changed", (connection, random.choice((wanted, [TRUE])), float(step))),
        ]
    )


def _contexts(random: Random, own: Any, step: int) -> Call:
    value = random.choice((random.randrange(30), random.randrange(30) / 2, "abc"[random.randrange(3)]))
    context = {random.choice(("x", "y", f"z{step}")): value, "floor": random.randrange(3)}
    return "put", (random.choice("abcdefgh"), random.choice((context, context, None)))


def _channels(random: Random, channels: Any, step: int) -> Call:
    now, source = float(step), random.choice("ps")
    known = channels.incoming.get(source)
    number = (known.next if known and known.next else 1) + random.choice((0, 0, 0, 0, 1, 2, 3, -1, -2, -3))
    carried: Any = random.choice(
        [
            *[Publish(made(random))] * 4,
            ChannelStart(1),
            ChannelStart(1),
            ChannelTail(),
            Nack(1, tuple(random.sample(range(1, 6), 2))),
            Nack(1, ()),
            LostNumbers(random.choice((1, 2)), tuple(range(max(1, number - 2), number + 2))),
        ]
    )
    packet = Packet(source, random.choice((1, 1, 1, 1, 2)), {"a": max(number, 1)}, carried)
    calls: list[Call] = [
        *[("on_packet", (packet, now))] * 6,
        ("start", (source, random.choice((1, 1, 2)))),
        ("send_known", (Publish(made(random)),)),
        ("send_known", (Publish(made(random)),)),
        ("on_gap_due", (source, now)),
        ("send_tails", ("p",)),
        ("link", (random.choice("ps"), random.random() < 0.6)),
        ("on_topology_changed", (now,)),
        ("watch_again", (now,)),
    ]
    return random.choice(calls)


class ChannelsAndTopology(msgspec.Struct, frozen=True):
    """Channels, and the overlay that they go by."""

    topology: TopologyState
    channels: ChannelsState


class PlayedChannels(Channels):
    """Channels of broker a, with neighbours p and s whose links come and go."""

    def __init__(self) -> None:
        super().__init__(Topology("a", costs={"p": 2.0}), 5.0, history_max=8, parked_max=3, held_max=4)
        for peer in "ps":
            self.link(peer, True)

    def link(self, peer: str, is_up: bool) -> None:
        known = self.topology.states.get(peer)
        (self.topology.open_link if is_up else self.topology.drop_link)(peer)
        neighbours = {"a": 1.0} if is_up else {}
        self.topology.learn(LinkState(peer, 1, 1 if known is None else known.number + 1, neighbours))

    def send_known(self, message: Any) -> Any:
        return self.send(sorted(self.incarnations), message) if self.incarnations else []

    def snapshot(self) -> Any:
        return ChannelsAndTopology(self.topology.snapshot(), super().snapshot())

    def restore(self, state: Any) -> None:
        self.topology.restore(state.topology)
        super().restore(state.channels)


# ---------------------------------------------------------------- sessions


def _sessions(random: Random, sessions: Any, step: int) -> Call:
    now, client = float(step), random.choice(NAMES[:2])
    session = sessions.session(client)
    connection = f"c{step}" if session is None or session.connection is None else session.connection
    if session is None or session.connection is None or random.random() < 0.05:
        return _attaching(random, session, client, f"c{step}", now)
    name = random.choice("xy")
    wishes: list[Any] = [
        Subscribe((client, name), random.choice(FILTERS), random.choice((None, now + 9)), random.choice(RULES)),
        Subscribe((client, name), random.choice(FILTERS), None, random.choice(RULES)),
        Unsubscribe((client, name)),
        Advertise((client, name), random.choice(FILTERS)),
        Unadvertise((client, name)),
        Publish(made(random, client)),
        *[Context({"mood": random.choice("ab")}, random.choice((None, None, None, None, 2.0)))] * 4,
        Note(name, random.choice((b"1", None))),
        SetSessionExpiry(random.choice((None, 3.0))),
    ]
    request = Request(session.accepted + random.choice((1, 1, 1, 0)), random.choice(wishes))
    received = Received(random.randint(session.queue.confirmed_up_to(), session.queue.sent_up_to))
    ids = [(each, key) for each in NAMES[:2] for key in "xy"]
    calls: list[Call] = [
        *[("admit", (connection, request, now))] * 4,
        *[("deliver", (made(random, expires_at=now + 4 if random.random() < 0.2 else None), ids, now))] * 8,
        ("received", (connection, received, now)),
        *[("detach", (connection, now))] * 2,
        ("vouch", (f"v{step}", random.choice(({}, {"role": "boss"})))),
        ("on_timer_due", (("expiry",), now)),
        ("on_timer_due", (("session", client), now)),
        ("between", (connection, FetchEvents("p", 0, 9), now)),
        ("leave", (connection, now)),
    ]
    return random.choice(calls)


def _attaching(random: Random, session: Any, client: str, connection: str, now: float) -> Call:
    known = session is not None and random.random() < 0.9
    attach = Attach(
        client,
        received=session.queue.confirmed_up_to() if known else 0,
        session=session.name if known else "",
        receipt=random.choice((session.last_receipt(), 0)) if known else 0,
        attempt=random.randrange(4),
        mode=random.choice(("relocate", "named", "explicit")),
        replicated=random.random() < 0.3,
    )
    if random.random() < 0.7:
        return "attach", (connection, attach, now)
    ids = [(each, key) for each in NAMES[:2] for key in "xy"]
    return "deliver", (made(random), ids, now)


LIMITS = Limits(
    window=2, queue_events_max=5, queue_bytes_max=700, session_expiry_s=20.0, seen_window=4, seen_publishers_max=4
)


def _sessions_seen(sessions: Any) -> Any:
    touched = list(sessions.touched)
    if len(touched) > 1:
        sessions.touched = {}
    held = [(s.client, s.mode, s.named, s.has_published, s.dwell_s, s.suppressed, s.whole_context()) for s in sessions]
    return touched, held


# ---------------------------------------------------------------- whole brokers

MODEL = MovementModel({"b": {"n": 1, "m": 2}}, {"n": {"b": {"n": 9}}})
PEERS = ("n", "m", "k")


def _broker(config: BrokerConfig) -> Callable[[], Any]:
    def make() -> Broker:
        moving = PublisherConfig(delay_s=5.0, nearest={"b": ("b", "n"), "n": ("n", "m")}, proxies=2, predictor=MODEL)
        movements = Movements({"location": line(5)})
        return mobile_broker("b", {"n": 1.0, "m": 2.0, "k": 1.0}, config, movements=movements, moving=moving)

    return make


def _inputs(random: Random, broker: Any, step: int) -> Call:
    return "handle", (_input(random, broker, step), step * 0.9 + step // 50 * 25.0)


def _input(random: Random, broker: Any, step: int) -> Any:
    peer, client = random.choice(PEERS), random.choice(NAMES)
    link, session = broker.links[peer], broker.sessions.session(client)
    chance = random.random()
    if not link.connected:
        return LinkUp(peer)
    if not link.open or chance < 0.03:
        return Arrived(peer, _hello(random, broker, link))
    if chance < 0.05:
        return LinkDown(peer)
    if chance < 0.12:
        return TimerDue(_timer(random, broker, client, peer))
    if chance < 0.14:
        limits = Limits(sessions_max=random.randint(3, 9), seen_window=4, retained_max=random.randint(1, 4))
        proxies: dict[str, tuple[str, ...]] = {"b": ("m",)} if random.random() < 0.5 else {}
        settings = PublisherSettings(delay_s=random.choice((3.0, 4.0)), proxies=proxies, model=MODEL.to_text())
        return PublisherReconfigured({"n": 1.0, "m": random.choice((2.0, 3.0)), "k": 1.0}, limits, settings)
    if isinstance(broker.routing, TreeRouting) and peer in broker.routing.awaiting["subscriptions"] and chance < 0.4:
        what: Any = "advertisements" if peer in broker.routing.awaiting["advertisements"] else "subscriptions"
        return Arrived(peer, Frame(link.received + 1, link.first + link.in_flight - 1, Synced(what)))
    if chance < 0.5:
        said = _said(random, broker, peer, client, step)
        return Arrived(peer, Frame(link.received + 1, link.first + link.in_flight - 1, said))
    if session is None or session.connection is None or chance < 0.55:
        waits = [
            arrival.connection
            for arrival in broker.component(Relocation).arrivals.values()
            if arrival.connection is not None
        ]
        if waits and random.random() < 0.3:
            return Closed(random.choice(waits))
        if random.random() < 0.3:
            return Opened(f"c{step}", random.choice(({}, {"role": "boss"})) if broker.config.asserted else {})
        return Heard(
            random.choice((f"c{step - 1}", f"c{step - 1}", f"c{step}")),
            _greeting(random, broker, session, client, step),
        )
    return _by_client(random, session, client, step)


def _hello(random: Random, broker: Any, link: Any) -> Hello:
    """A neighbour's greeting. A new life has received nothing; one that was at fault is heard no more."""
    life = link.peer_incarnation
    if link.fault is not None or not random.randrange(7):
        return Hello(life + 1, broker.incarnation, 0, 1, True)
    return Hello(life or 1, broker.incarnation, link.first - 1, 1, True)


def _timer(random: Random, broker: Any, client: str, peer: str) -> tuple[str, ...]:
    keys: list[tuple[str, ...]] = [
        ("relocate", client),
        ("named", client),
        ("collect", client),
        ("leaving", client),
        ("holding", client),
    ]
    keys += [("predicted", client), ("renew", client), ("session", client), ("resend", peer), ("ack", peer)]
    keys += [("expiry",), ("quench",), ("hold moves",), ("brokers",), ("unsent", "x")]
    if broker.component(OverlayRoutes).graph is not None:
        keys += [("dead", peer), ("gap", peer), ("newborn",), ("flushed", client, "2", peer)]
        keys += [("calm",), ("confirm",)] if broker.config.matching == "hops" else []
    elif broker.config.family == "tree":
        keys += [("hold",)]
    return random.choice(keys)


def _greeting(random: Random, broker: Any, session: Any, client: str, step: int) -> Attach:
    modes = ("relocate", "relocate", "ask", "named", "explicit", "naive", "prefetching+delayed", "proxy", "standard")
    mode = random.choice(modes if broker.component(OverlayRoutes).graph is not None else (*modes, "carry"))
    known = session is not None and random.random() < 0.7
    wanted: tuple[Any, ...] = ()
    if random.random() < 0.5:
        wanted = (Subscribe((client, "x"), random.choice(FILTERS), None, random.choice(RULES)),)
    if random.random() < 0.5:
        wanted = (*wanted, Advertise((client, "y"), random.choice(FILTERS)))
    return Attach(
        client,
        session=session.name if known else random.choice(("", "n/1/1")),
        received=session.queue.confirmed_up_to() if known else 0,
        receipt=session.last_receipt() if known else 0,
        quench=random.random() < 0.3,
        attempt=step // 4,
        home=random.choice(("", "b", "n", "m", "x")),
        since=random.randrange(1 + step // 4),
        wanted=wanted,
        mode=mode,
        replicated=random.random() < 0.2,
        context=random.choice((None, Context({"location": random.choice("01234")}, 1.0))),
        tried=random.choice(((), (), ("n",), ("m", "x"))),
        log=(PastConnection("n", 1, step * 0.9),) if mode == "carry" else (),
        origin=random.choice(("", "n")),
        renewed_at=step * 0.5,
        fresh_start=random.random() < 0.1,
    )


def _by_client(random: Random, session: Any, client: str, step: int) -> Any:
    name, now = random.choice("xy"), step * 0.9
    if random.random() < 0.12:
        return Closed(session.connection)
    if random.random() < 0.05:
        return Heard(session.connection, random.choice((Bye(), MoveOut(), FetchEvents("p", 0, 9))))
    if random.random() < 0.2:
        received = random.randint(session.queue.confirmed_up_to(), session.queue.sent_up_to)
        return Heard(session.connection, Received(received))
    wishes: list[Any] = [
        Subscribe((client, name), random.choice(FILTERS), random.choice((None, now + 9)), random.choice(RULES)),
        Subscribe((client, name), random.choice(FILTERS), None, None, random.choice(("", "g"))),
        Subscribe((client, name), parse("x >= 0"), None, None, "", retained=True),
        Subscribe((client, name), parse("location = myloc")),
        Subscribe((client, name), parse("x > 0 AND sender.location = '1'")),
        Unsubscribe((client, name)),
        Advertise((client, name), random.choice(FILTERS)),
        Unadvertise((client, name)),
        Publish(made(random, client)),
        Publish(made(random, client, to=parse("location = '1'"))),
        Retain(made(random, client, expires_at=random.choice((None, now + 3))), random.choice("kl")),
        Context({"location": random.choice("01234")}, random.choice((None, 2.0))),
        Note(name, random.choice((b"1", None))),
        SetSessionExpiry(random.choice((None, 3.0))),
    ]
    return Heard(session.connection, Request(session.accepted + 1, random.choice(wishes)))


def _said(random: Random, broker: Any, peer: str, client: str, step: int) -> Any:
    moves = _about_moves(random, client, peer, step)
    facts = (
        Fact(RETAINED, (random.choice("kl"),), step, peer, random.choice((None, RetainedEvent(made(random))))),
        Fact(WHEREABOUTS, (client,), step // 2, peer, SessionLocation(random.choice(("n", "b")), "s", step // 4)),
        Fact(
            GROUPS, ("g", "d", random.choice(("n", "b")), client, "x"), step, peer, GroupMember(random.random() < 0.5)
        ),
    )
    if random.random() < 0.15:
        return GossipUpdate((random.choice(facts),))
    if broker.component(OverlayRoutes).graph is None:
        id = (random.choice(("n", "m", "far")), random.choice("xyz"))
        tables = [
            Subscribe(id, random.choice(FILTERS)),
            Subscribe(id, random.choice(FILTERS)),
            Unsubscribe(id),
            Advertise(id, random.choice(FILTERS)),
            Unadvertise(id),
            Synced("subscriptions"),
            Synced("advertisements"),
            Publish(made(random)),
            Publish(made(random)),
            Follow(
                id,
                parse("location = myloc"),
                {"location": random.choice("01234")},
                1.0,
                0.1,
                random.choice((None, 0.5)),
            ),
            FollowUpdate(id, {"location": random.choice("01234")}, 1.0, 0.1, random.choice((None, 0.9))),
            Unfollow(id),
            ReachableBrokers((random.choice(("x", "far")),)),
        ]
        return random.choice([*tables, random.choice(moves), random.choice(moves)])
    state = LinkState(peer, link_life(broker, peer), step + 1, random.choice(({"b": 1.0}, {"b": 1.0, "far": 1.0}, {})))
    number = next_number(broker, peer) + random.choice((0, 0, 0, 0, 1, 2))
    carried = [
        Subscribe((client, random.choice("xy")), random.choice(FILTERS)),
        Unsubscribe((client, "x")),
        Publish(made(random)),
        ChannelStart(broker.component(OverlayRoutes).graph.channels.incarnation),
        ChannelStart(broker.component(OverlayRoutes).graph.channels.incarnation),
        Synced(),
        ChannelTail(),
        LostNumbers(link_life(broker, peer), (number, number + 1)),
        Nack(broker.component(OverlayRoutes).graph.channels.incarnation, random.choice(((), (1, 2)))),
        *moves,
    ]
    packet = Packet(peer, link_life(broker, peer), {"b": max(number, 1)}, random.choice(carried))
    return random.choice([state, packet, packet, packet])


def link_life(broker: Any, peer: str) -> int:
    return int(broker.links[peer].peer_incarnation or 1)


def next_number(broker: Any, peer: str) -> int:
    known = broker.component(OverlayRoutes).graph.channels.incoming.get(peer)
    return known.next if known is not None and known.next else 1


def _about_moves(random: Random, client: str, peer: str, step: int) -> list[Any]:
    attempt, to, home = step // 4 + random.randrange(3), random.choice(("b", "b", "n", "x")), random.choice(("b", "n"))
    ads = (Advertise((client, "y"), random.choice(FILTERS)),) if random.random() < 0.8 else ()
    wanted = (Subscribe((client, "x"), random.choice(FILTERS)), *ads)
    items = (QueuedEvent(1, made(random), ("x",), 0.0),)
    return [
        Relocate(client, "b", peer, attempt),
        Relocate(client, home, peer, attempt),
        Superseded(client, to, attempt, attempt + 1, peer),
        SessionUnknown(client, to, attempt),
        EndOlderSession(client, to, attempt, peer),
        AskInterests(client, "b", peer, attempt),
        Interests(client, to, attempt, wanted),
        Collect(client, "b", peer, attempt),
        Collected(client, peer, to, attempt, attempt, items, (), random.random() < 0.7),
        Prefetch(client, to, attempt, ads),
        WithdrawPrefetch(client, to, attempt),
        Proxy(client, to, attempt, ads),
        Replay(client, to, attempt, None, items, random.random() < 0.5),
        *[_replay(random, client, to, attempt, items)] * 2,
    ]


def _replay(random: Random, client: str, to: str, attempt: int, items: tuple[QueuedEvent, ...]) -> Replay:
    session = Session(client, "n/1/1", LIMITS)
    wish = Subscribe((client, "x"), random.choice(FILTERS))
    session.filters.put_subscription(wish)
    return Replay(client, to, attempt, session.state(), items, random.random() < 0.6)


CONFIGS = {
    "tree": BrokerConfig(limits=LIMITS),
    "tree, merging": BrokerConfig(limits=LIMITS, reduction="merging", excess_max=0.3, advertisements="off"),
    "tree, asserted": BrokerConfig(limits=LIMITS, reduction="simple", advertisements="off", asserted=("role",)),
    "graph": BrokerConfig(family="graph", limits=LIMITS, asserted=("role",), link=LinkConfig(dead_after_s=2.0)),
    "spcf": BrokerConfig(family="graph", strategy="spcf", contexts_max=2, limits=LIMITS),
}

PLAYS: dict[str, Play] = {
    "seen": Play(lambda: Seen(4, 4), _seen, Seen.restored, lambda seen: seen.data()),
    "chain": Play(lambda: PredecessorChain(3, is_whole=True), _chain, PredecessorChain.restored, len),
    "queue": Play(lambda: Queue(3, 6, 800), _queue, Queue.restored, _queue_seen),
    "link": Play(
        lambda: PlayedLink("n", 1, LinkConfig(window=3, outbox_max=6)), _link, see=lambda link: link.round_trip_s
    ),
    **{name: Play(lambda kind=kind: kind("b", 0.3), _outgoing) for name, kind in REDUCTIONS.items()},  # type: ignore[misc]
    "gossip": Play(
        lambda: Gossip("a", dict.fromkeys((WHEREABOUTS, RETAINED, GROUPS), TableLimit(3, 700))),
        _gossip,
        see=lambda gossip: (list(gossip), gossip.sizes),
    ),
    "quenching": Play(lambda: PlayedQuenching(8), _quenching),
    "own contexts": Play(lambda: OwnContexts(2), _contexts),
    "channels": Play(PlayedChannels, _channels, see=lambda channels: channels.topology.own),
    "sessions": Play(lambda: Sessions(LIMITS, "b", 1, "optional", ("role",)), _sessions, see=_sessions_seen),
    "advertised": Play(advertised, draw_advertised, see=lambda routing: routing.sizes()),
    "broker: junction": Play(at_junction, draw_junction),
    "broker: rights": Play(_broker(BrokerConfig()), draw_rights),
    **{f"broker: {name}": Play(_broker(config), _inputs) for name, config in CONFIGS.items()},
}
"""By name."""
