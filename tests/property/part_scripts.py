"""Courses of things that chance does not come to, each of which shows what one field of a state is for."""

from collections.abc import Callable
from typing import Any

import msgspec

from godwit.baselines.hop_messages import ContextBegins, ContextEnds, SubscribePacket
from godwit.baselines.hop_routing import HopRouting
from godwit.broker.authorisation import Authorisation, RightsChanged, RightsGranted
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.channels import Channels
from godwit.broker.client_rights import ClientRights
from godwit.broker.early_copies import EarlyCopy
from godwit.broker.effects import Arrived, Closed, Heard, LinkUp, Opened, TailLost, TimerDue
from godwit.broker.gossip import LOSSES, RETAINED
from godwit.broker.gossip_messages import Fact, GossipUpdate, LostInputs, RetainedEvent
from godwit.broker.graph import GraphRouting
from godwit.broker.hop_stream import HopStream
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Bye,
    ChannelStart,
    Context,
    ContextAdded,
    Frame,
    Hello,
    LinkState,
    LostNumbers,
    Packet,
    PastConnection,
    Publish,
    Request,
    Retain,
    Subscribe,
    Synced,
    Unadvertise,
)
from godwit.broker.quenching import Quenching
from godwit.broker.reductions import merging
from godwit.broker.rights_reviews import REVIEWING, RightsReviewState
from godwit.broker.session import Session
from godwit.broker.sessions import Sessions
from godwit.broker.spcf import spcf_routing
from godwit.broker.stream_messages import ViewReached
from godwit.broker.topology import Topology
from godwit.broker.tree import HOLD_S, HOLD_TIMER, TreeRouting
from godwit.filters.events import Event
from godwit.filters.filters import TRUE, any_of
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.mobility.location_tree import FollowedFilters
from godwit.mobility.move_messages import (
    Follow,
    ReachableBrokers,
    Relocate,
    Replay,
    SessionElsewhere,
    SessionUnknown,
    Superseded,
    Unfollow,
)
from godwit.mobility.movement_graphs import line
from godwit.mobility.possible_values import Movements
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherConfig

__all__ = ["IN_NETWORKS", "OF_BASELINES", "SCRIPTS", "Script"]

Call = tuple[str, tuple[Any, ...]]


class Script(msgspec.Struct):
    """A part, what happens to it before it is written down, and after."""

    make: Callable[[], Any]
    before: list[Call]
    after: list[Call]
    see: Callable[[Any], Any] = lambda part: None


def inputs(*told: Any) -> list[Call]:
    return [("handle", (input, float(at))) for at, input in enumerate(told)]


def frames(peer: str, *messages: Any, first: int = 1) -> list[Any]:
    return [Arrived(peer, Frame(first + at, 0, message)) for at, message in enumerate(messages)]


def packets(*messages: Any, first: int = 1, source: str = "n", target: str = "b") -> list[Packet]:
    return [Packet(source, 1, {target: first + at}, message) for at, message in enumerate(messages)]


def said_by(*messages: Any, first: int = 1) -> list[Call]:
    return [("on_message", ("n", packet, 0.0)) for packet in packets(*messages, first=first)]


OPEN = [LinkUp("n"), Arrived("n", Hello(1, 1, 0, 1, True))]
KNOWS_MORE = Hello(1, 5, 7, 1, True)  # of a life 5 of ours, which has sent 7 messages
REPLAY = Replay("ann", "b", 1, Session("ann", "n/1/1", Limits()).state(), (), is_last=True)
LOST_STATE = msgspec.structs.replace(Session("ann", "n/1/1", Limits()).state(), lost_since=3.0)
EVENT = Event({"x": 1}, "p", 1)
SAID = Advertise(("ann", "x"), TRUE)
UNFOLLOW: Any = Unfollow(("c", "x"))


MET: list[Call] = [("on_peer_up", ("n", 0.0)), ("on_message", ("n", LinkState("n", 1, 2, {"b": 1.0}), 0.0))]


def at_hops() -> GraphRouting:
    return GraphRouting("b", hops=HopStream())


def views_reached() -> list[ViewReached]:
    """What `n` says when it has the view that `at_hops` has after `MET`."""
    met = at_hops()
    for name, arguments in MET:
        getattr(met, name)(*arguments)
    return [ViewReached(met.topology.view), ViewReached(met.topology.view, complete=True)]


def tree() -> Broker:
    return mobile_broker("b", {"n": 1.0}, BrokerConfig(advertisements="off"))


def predicting() -> Broker:
    model = MovementModel({"b": {"n": 1, "m": 2}}, {"n": {"b": {"n": 9}}})
    return mobile_broker("b", {"n": 1.0}, BrokerConfig(), moving=PublisherConfig(predictor=model))


def coming(connection: str, **details: Any) -> list[Any]:
    return [Opened(connection), Heard(connection, Attach("ann", mode="prefetching", **details))]


class Quenched(Quenching):
    """Quenching where nobody wants much."""

    def came(self, connection: str) -> Any:
        return self.attach(connection, lambda: [parse("x = 1")])


def graph() -> Broker:
    return mobile_broker("b", {"n": 1.0}, BrokerConfig(family="graph"))


class Followers(TreeRouting):
    """A tree that follows the states of clients."""

    def __init__(self) -> None:
        self.followed = FollowedFilters(Movements({"location": line(9)}))
        super().__init__("b", ["n", "m", "k"], advertised=False, further=self.followed)

    def measure(self, neighbour: str, round_trip_s: float) -> Any:
        return self.followed.measure(neighbour, round_trip_s)


def follow(name: str, link_s: float | None = None) -> Any:
    return Follow(("c", name), parse("location = myloc"), {"location": "4"}, 1.0, 0.1, link_s)


def channels() -> Channels:
    topology = Topology("b")
    topology.open_link("n")
    topology.learn(LinkState("n", 1, 1, {"b": 1.0}))
    return Channels(topology, 5.0)


def taken(*those: tuple[int, Any]) -> list[Call]:
    return [("on_packet", (Packet("n", 1, {"b": number}, message), 0.0)) for number, message in those]


def contexts(first: int, count: int) -> list[Call]:
    return [("admit", ("c", Request(n, Context({"x": n % 2})), float(n))) for n in range(first, first + count)]


CLIENTS = [
    step
    for name in ("ann", "bob")
    for step in (
        Opened(name),
        Heard(name, Attach(name, attempt=1)),
        Heard(name, Request(1, Subscribe((name, "x"), TRUE))),
    )
]

LOSS = GossipUpdate((Fact(LOSSES, ("far",), 1, "far", LostInputs(5.0)),))
AGAIN = [Opened("again"), Heard("again", Attach("ann", attempt=2))]
HEARD_OF_A_LOSS = Script(tree, inputs(*OPEN, *CLIENTS, *frames("n", LOSS)), inputs(*AGAIN))
MOVING = Heard("c", Attach("ann", session="n/1/1", home="n", attempt=1))

MANY = any_of(*(parse(f"x = 1 AND a{n} IS NULL") for n in range(450)))  # so that an event takes half a slice
RETAINING = [Retain(Event({"x": 1}, "ann", n, payload=bytes(60_000)), f"k{n}") for n in range(1, 4)]
IN_SLICES = Script(
    tree,
    inputs(
        *(Opened("ann"), Heard("ann", Attach("ann"))),
        *(Heard("ann", Request(n, wish)) for n, wish in enumerate(RETAINING, 1)),
        Heard("ann", Request(4, Subscribe(("ann", "s"), MANY, retained=True))),
    ),
    inputs(*3 * (TimerDue(("retained",)),)),
)

RETAINED_FACT = GossipUpdate((Fact(RETAINED, ("k",), 1, "far", RetainedEvent(EVENT)),))
EARLY = Script(
    tree,
    inputs(
        *(*OPEN, *CLIENTS, *frames("n", Synced("subscriptions"), RETAINED_FACT)),
        Heard("ann", Request(2, Subscribe(("ann", "s"), TRUE, retained=True))),
    ),
    inputs(*frames("n", Publish(EVENT), first=3)),
)
"""An event of which a subscription has had the copy, and which comes then."""

LARGE = [
    Subscribe(("ann", f"large{n}"), any_of(*(parse(f"x = {at} AND y > {n}") for at in range(450)))) for n in range(6)
]
REACHED = [*OPEN, *frames("n", Synced("subscriptions"), ReachableBrokers(("n",))), Opened("c")]
BRINGING = Script(
    tree,
    inputs(*REACHED, Heard("c", Attach("ann", session="n/1/1", home="n", attempt=1, wanted=tuple(LARGE)))),
    inputs(*5 * (TimerDue(("placing", "ann")),)),
)
LARGE_STATE = msgspec.structs.replace(Session("ann", "n/1/1", Limits()).state(), subscriptions=tuple(LARGE))
BROUGHT = Script(
    tree,
    inputs(*REACHED, MOVING, *frames("n", msgspec.structs.replace(REPLAY, state=LARGE_STATE), first=3)),
    inputs(*5 * (TimerDue(("placing", "ann")),)),
)
GOING = Script(
    tree,
    inputs(
        *(*OPEN, Opened("ann"), Heard("ann", Attach("ann"))),
        *(Heard("ann", Request(n, wish)) for n, wish in enumerate(LARGE, 1)),
        Heard("ann", Bye()),
    ),
    inputs(*5 * (TimerDue(("withdrawing",)),)),
)
CARRYING = Script(
    tree,
    inputs(
        *REACHED,
        Heard(
            "c",
            Attach(
                "ann", attempt=1, session="n/1/1", mode="carry", log=(PastConnection("n", 1, 0.0),), wanted=tuple(LARGE)
            ),
        ),
    ),
    inputs(*5 * (TimerDue(("beginning", "ann")),)),
)
"""Entries that are placed and withdrawn in slices, of which some are still to come."""

GRANTED = [RightsGranted(f"bob/{number}", ClientRights("bob", TRUE, TRUE)) for number in range(1_024)]

REVIEWED = Script(
    lambda: TreeRouting("b", ("n", "m")),
    [
        ("subscribe", (("ann", f"{number}"), parse(f"ALL x {wanted}"), 0.0))
        for number, wanted in enumerate(
            [
                "= -5000",
                *(f"= {each}" for each in range(300)),
                *(f"= {-each}" for each in range(300, 320)),
                "BETWEEN 1000 AND 2000",
                *(f"= {each}" for each in range(1_000, 1_010)),
            ]
        )
    ]
    + [
        ("on_message", ("n", Advertise(("pat", "first"), parse("ALL x = -5000")), 0.0)),
        ("on_message", ("n", Advertise(("pat", "many"), parse("ALL x >= 0")), 0.0)),  # of which some are told
        ("follow", ("n", SessionUnknown("ann", "n", 1))),
        ("on_message", ("n", Unadvertise(("pat", "first")), 0.0)),
        ("on_message", ("n", Advertise(("pat", "later"), parse("ALL x < -310 AND ALL x > -400")), 0.0)),
        ("follow", ("n", SessionUnknown("ann", "n", 2))),
    ],
    [("on_timer_due", (("review", "n"), 0.0))] * 5,
)
"""Neighbours advertise, and not all subscriptions have been compared yet."""

BOTH = ("ann", "ann/2")
WIDE = any_of(*(parse(f"a{number} > 0") for number in range(300)))


def _large_event(number: int) -> Heard:
    event = Event({"x": number, "a1": number % 2}, "ann/2", number, b"." * 30_000)
    return Heard("ann/2", Request(number, Publish(event)))


COMPARED = Script(  # of one session what waits is being compared with rights; the other one waits for its turn
    tree,
    inputs(
        *OPEN,
        *frames("n", Synced("subscriptions"), ReachableBrokers(("n",))),
        *(RightsGranted(client, ClientRights("ann")) for client in BOTH),
        *(Heard(client, Attach(client, mode="named")) for client in BOTH),
        *(Heard(client, Request(1, Subscribe((client, "s"), parse("x >= 0")))) for client in BOTH),
        Heard("ann", Request(2, Subscribe(("ann", "covered"), parse("a1 > 0")))),
        Closed("ann"),
        *map(_large_event, range(2, 15)),
        RightsChanged("ann", ClientRights("ann", TRUE, WIDE)),
    ),
    inputs(*map(_large_event, range(15, 35)), *[TimerDue((REVIEWING, "ann"))] * 4),
)

SCRIPTS: dict[str, Script] = {
    "AuthorisationState.reviews": COMPARED,
    **{f"RightsReviewState.{field}": COMPARED for field in RightsReviewState.__struct_fields__},
    "TreeState.reviews": REVIEWED,
    "ReviewState.changed": REVIEWED,
    "ReviewState.is_adding": REVIEWED,
    "ReviewState.later_added": REVIEWED,
    "ReviewState.later_withdrawn": REVIEWED,
    "ReviewState.left": REVIEWED,
    "ReviewState.comparing_left": REVIEWED,
    "ReviewState.placing_left": REVIEWED,
    "ReviewState.following": REVIEWED,
    "ReviewState.later_following": REVIEWED,
    "RetainedState.rests": IN_SLICES,
    "RetainedState.early": EARLY,
    **{f"EarlyCopy.{field}": EARLY for field in EarlyCopy.__struct_fields__},
    "ArrivalState.unplaced": BRINGING,
    "ArrivalState.asks_later": BRINGING,
    "ArrivalState.finishes_later": BROUGHT,
    "BrokerState.withdrawals": GOING,
    "SessionEntriesState.unplaced": CARRYING,
    "RightsEntryState.granted_at": Script(
        tree,
        inputs(*GRANTED[:-1]),
        [("handle", (GRANTED[-1], 1_024.0))],
        see=lambda broker: len(broker.component(Authorisation).clients()),
    ),
    "GraphState.hops": Script(
        at_hops, [*MET, ("on_timer_due", (("calm",), 1.0))], [("on_timer_due", (("calm",), 2.0))]
    ),
    "TreeState.had_past_life": Script(
        lambda: TreeRouting("b", ("n", "m")),
        [("note_past_life", ())],
        [("on_timer_due", (HOLD_TIMER, HOLD_S)), ("publish", (EVENT, HOLD_S))],  # to neighbours that stay away
    ),
    "SessionsState.losses": HEARD_OF_A_LOSS,
    "LostTailState.has_begun": Script(tree, inputs(TailLost(5)), inputs(LinkUp("n"), Arrived("n", KNOWS_MORE))),
    "LostTailState.untold": Script(tree, inputs(*OPEN, *CLIENTS, *frames("n", LOSS)), inputs(TimerDue(("losses",)))),
    "HeardLossesState.count": HEARD_OF_A_LOSS,
    "HeardLossesState.losses": HEARD_OF_A_LOSS,
    "StoredSessionState.losses_heard": Script(
        tree, inputs(*OPEN, *frames("n", LOSS), *CLIENTS), inputs(Closed("ann"), *AGAIN)
    ),
    "StoredSessionState.lost_since": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n",))),
            Opened("c"),
            MOVING,
            Closed("c"),
            *frames("n", msgspec.structs.replace(REPLAY, state=LOST_STATE), first=3),
        ),
        inputs(*AGAIN),
    ),
    "ArrivalState.losses_heard": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n",)), LOSS),
            Opened("c"),
            MOVING,
        ),
        inputs(*frames("n", REPLAY, first=4)),
    ),
    "RelocationState.received": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n",))),
            Opened("c"),
            Heard("c", Attach("ann", session="n/1/1", home="n", attempt=1)),
            *frames("n", REPLAY, first=3),
            Heard("c", Bye()),
        ),
        inputs(*frames("n", REPLAY, first=4)),
    ),
    "ArrivalState.superseded_by": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n", "far", "x"))),
            Opened("c"),
            Heard("c", Attach("ann", session="n/1/1", home="n", attempt=1)),
            TimerDue(("relocate", "ann")),
            *frames("n", Superseded("ann", "b", 1, 2, "far"), first=3),
        ),
        inputs(*frames("n", Relocate("ann", "b", "x", 3), first=4)),
    ),
    "ArrivalState.trail": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n", "far"))),
            Opened("c"),
            Heard("c", Attach("ann", session="n/1/1", home="n", attempt=1, tried=("far",))),
        ),
        inputs(*frames("n", SessionUnknown("ann", "b", 1), first=3)),
    ),
    "CollectingState.pause_s": Script(
        tree,
        inputs(
            *OPEN,
            *frames("n", Synced("subscriptions"), ReachableBrokers(("n",))),
            Opened("c"),
            Heard("c", Attach("ann", attempt=1, mode="carry", log=(PastConnection("n", 1, 0.0),))),
        ),
        inputs(TimerDue(("collect", "ann"))),
    ),
    "LinkEndState.fault": Script(tree, inputs(*OPEN, Arrived("n", Ack(99))), inputs(*OPEN)),
    "PresentPublisherState.told": Script(
        tree,
        inputs(Opened("c"), Heard("c", Attach("ann", attempt=1, mode="proxy")), Heard("c", Request(1, SAID))),
        inputs(Heard("c", Request(2, SAID))),
    ),
    "PresubscribeState.before": Script(
        predicting,
        inputs(
            *OPEN,
            *frames("n", Synced("advertisements"), Synced("subscriptions"), ReachableBrokers(("n", "m"))),
            Opened("c"),
            Heard("c", Attach("ann", attempt=2, home="n", mode="presubscribe")),
            *frames("n", msgspec.structs.replace(REPLAY, attempt=2), first=4),
            Closed("c"),
        ),
        inputs(TimerDue(("ahead", "ann"))),
    ),
    "PredictedMove.before": Script(
        predicting,
        inputs(
            *OPEN,
            *frames("n", Synced("advertisements"), Synced("subscriptions"), ReachableBrokers(("n", "m"))),
            *coming("c1", attempt=1, home="n"),
            Closed("c1"),
        ),
        inputs(*coming("c2", attempt=2, home="b", since=1), Closed("c2")),
    ),
    "QuenchingState.missed": Script(
        Quenched, [("came", ("a",)), ("detach", ("a",)), ("on_added", (parse("x = 7"),))], [("came", ("a",))]
    ),
    "TransferBarrierState.absent": Script(
        graph,
        inputs(
            *OPEN,
            *frames(
                "n", LinkState("n", 1, 1, {"b": 1.0}), LinkState("far", 1, 1, {}), *packets(ChannelStart(1), Synced())
            ),
            *CLIENTS,
            *frames("n", *packets(Relocate("ann", "b", "n", 2), first=3), first=5),
            TimerDue(("leaving", "ann")),
        ),
        inputs(*frames("n", *packets(Relocate("bob", "b", "n", 2), first=4), first=6)),
    ),
    "ArrivalState.followed": Script(
        graph,
        inputs(
            *OPEN,
            *frames("n", LinkState("n", 1, 1, {"b": 1.0}), *packets(ChannelStart(1), Synced())),
            *(Opened("c"), MOVING),
            *frames("n", *packets(SessionElsewhere("ann", "b", 1, "n", 5), first=3), first=4),
        ),
        inputs(TimerDue(("relocate", "ann"))),
    ),
    "BundleState.excess": Script(
        lambda: merging("b", 0.3),
        [
            ("add", (("", ("c", "1")), ("c", "1"), parse("x BETWEEN 0 AND 8"))),
            ("add", (("", ("c", "2")), ("c", "2"), parse("x BETWEEN 9 AND 20"))),
        ],
        [("add", (("", ("c", "3")), ("c", "3"), parse("x BETWEEN 28 AND 30")))],
    ),
    "HopState.has_gap": Script(
        lambda: HopRouting("b", ["a"], [("a", "b", 1.0)]), [("on_peer_forgot", ("a", (), 0.0))], [("is_settled", ())]
    ),
    "ContextsState.latest": Script(
        lambda: HopRouting("b", ["a", "c"], [("a", "b", 1.0), ("b", "c", 1.0)]),
        [
            ("on_message", ("c", ContextBegins("c", 1, {"x": 1}), 0.0)),
            ("on_message", ("c", ContextEnds("c", 1), 0.0)),
            ("on_message", ("c", ContextBegins("c", 2, {"x": 1}), 0.0)),
        ],
        [("on_message", ("a", SubscribePacket("a", 1, ("s", "1"), TRUE, parse("x = 1"), {"c": 1}), 0.0))],
        see=lambda routing: routing.sizes(),
    ),
    "GraphState.remote": Script(
        lambda: GraphRouting("b"),
        said_by(ChannelStart(1), Subscribe(("s", "1"), TRUE), Synced()),
        said_by(Subscribe(("s", "2"), TRUE), first=4),
        see=lambda routing: routing.sizes(),
    ),
    "HopStreamState.announced": Script(
        at_hops, [*MET, ("on_timer_due", (("calm",), 1.0))], [("on_timer_due", (("calm",), 2.0))]
    ),
    "HopStreamState.asked": Script(
        at_hops,
        [
            *MET,
            ("on_timer_due", (("calm",), 1.0)),
            *said_by(ChannelStart(1), Subscribe(("s", "1"), TRUE), Synced(), *views_reached()),
            ("publish", (EVENT, 2.0)),
            ("on_timer_due", (("confirm",), 3.0)),
        ],
        [("on_timer_due", (("confirm",), 4.0))],
    ),
    "GraphState.stale": Script(
        lambda: GraphRouting("b"),
        said_by(ChannelStart(1), Subscribe(("s", "1"), TRUE), Synced(), ChannelStart(1)),
        said_by(Synced(), first=5),
        see=lambda routing: routing.sizes(),
    ),
    "OtherBrokerState.stale": Script(
        lambda: spcf_routing("b"),
        said_by(ChannelStart(1), ContextAdded(1, 1, {"x": 1}), Synced(), ChannelStart(1)),
        said_by(Synced(), first=5),
        see=lambda routing: routing.sizes(),
    ),
    "IncomingState.first": Script(channels, taken((3, ChannelStart(1))), taken((2, Publish(EVENT)))),
    "IncomingState.doubts": Script(
        channels,
        [("start", ("n", 1)), *taken((1, ChannelStart(1)), (5, Publish(EVENT)), (6, LostNumbers(1, (2,))))],
        taken((3, Publish(EVENT)), (4, Publish(EVENT))),
    ),
    "FollowedFiltersState.ids_made": Script(
        Followers,
        [("on_message", (peer, said, 0.0)) for peer, said in (("n", follow("x")), ("m", follow("x")), ("m", UNFOLLOW))],
        [("on_message", ("m", follow("x"), 0.0))],
    ),
    "FollowedState.link_s": Script(
        Followers, [("on_message", ("n", follow("x", 5.0), 0.0))], [("measure", ("n", 0.2)), ("measure", ("m", 0.2))]
    ),
    "StoredSessionState.context_since": Script(
        lambda: Sessions(Limits(), "b"),
        [("attach", ("c", Attach("ann"), 0.0)), *contexts(1, 7)],
        contexts(8, 3),
        see=lambda sessions: sessions.session("ann").dwell_s,
    ),
    "StoredSessionState.dwells": Script(
        lambda: Sessions(Limits(), "b"),
        [("attach", ("c", Attach("ann"), 0.0)), *contexts(1, 7)],
        contexts(8, 3),
        see=lambda sessions: sessions.session("ann").dwell_s,
    ),
}
"""By field."""

IN_NETWORKS = {
    "ArrivalState.flushes",
    "ArrivalState.parts",
    "HopStreamState.complete",
    "HopStreamState.number",
    "HopStreamState.reached",
    "HopStreamState.taken",
    "HopStreamState.unconfirmed",
    "HopStreamState.view",
    "LinkEndState.unacknowledged",
    "OtherBrokerState.described",
    "OtherBrokerState.firsts",
    "OtherBrokerState.places",
    "SenderClassState.reach",
    "SenderClassState.ways",
    "SpcfState.held_by",
    "StoredSessionState.exact",
    "TransferBarrierState.flushed",
    "TreeState.stale",
    "UnconfirmedState.number",
    "UnconfirmedState.targets",
}
"""What no script tells apart, a play only by luck, and simulated networks do (`tests/simulation/test_snapshots.py`)."""

OF_BASELINES = {
    "ContextsState.changes",
    "ContextsState.live",
    "HopState.clients",
    "HopState.contexts",
    "HopState.last_number",
    "HopState.local",
    "HopState.routes",
    "Pair.asks",
    "Pair.filter",
    "Pair.subscriber",
}
"""What restarted brokers of `test_hops_laws.py` alone ask for: no simulated network has brokers of a baseline."""
