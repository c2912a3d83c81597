"""Scripts: every mode of moving, in both routing families, and what happens when a move is disturbed."""

from collections.abc import Callable
from functools import partial

from msgspec import structs

from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Attach,
    Note,
    Publish,
    QueuedEvent,
    Received,
    Request,
    SetSessionExpiry,
    Subscribe,
    SubscribeQuery,
    Unsubscribe,
)
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility.move_messages import Flushed, Relocate, Replay, SessionElsewhere, SessionUnknown, Superseded
from godwit.mobility.predictors import Itineraries, MovementModel, NoisyPredictor
from godwit.mobility.publisher_presence import PublisherConfig
from tests.session_states import session_state
from tests.transcripts.network import Network
from tests.transcripts.puppets import Puppets

STAR = "b1-b2 b2-b3 b2-b4"
RING = "b1-b2 b2-b3 b3-b1"
RING4 = "b1-b2 b2-b3 b3-b4 b4-b1"
LINE = "b1-b2 b2-b3"
LEAVES = "r-l1 r-l2 r-l3"
FAMILIES = {"tree": STAR, "graph": RING}
SOURCE = {"tree": "b4", "graph": "b2"}
SUBSCRIBER_MODES = ("relocate", "ask", "junction", "named", "carry", "explicit", "naive")
PUBLISHER_MODES = ("standard", "delayed", "prefetching", "prefetching+delayed", "proxy")


def begin(
    net: Network, source: str, home: str, mode: str = "relocate", *, start_s: float = 1.0, run_s: float = 1.0
) -> None:
    """Let a publisher come to its broker, and a subscriber to its own."""
    net.start(start_s)
    net.come("P", source)
    net.come("C", home, mode)
    net.subscribe("C")
    net.run(run_s)


def subscriber(mode: str, family: str, reduction: str = "covering") -> Network:
    """A subscriber moves twice, the first time while events are under way, and leaves."""
    net = Network(FAMILIES[family], family=family, reduction=reduction)
    begin(net, SOURCE[family], "b1", mode)
    net.publish("P", 1, 2)
    net.run(0.5)
    net.publish("P", 3)
    if mode in ("explicit", "naive"):
        net.move_out("C")
    net.go("C")
    net.publish("P", 4)
    net.run(1.0)
    net.publish("P", 5)
    net.come("C", "b3")
    net.run(0.015)
    net.publish("P", 6)
    net.run(2.0)
    net.go("C")
    net.run(0.2)
    net.publish("P", 7)
    net.come("C", "b1")
    net.run(2.0)
    net.unsubscribe("C")
    net.subscribe("C", "x > 7", "G")
    net.run(0.5)
    net.publish("P", 7, 8)
    net.run(0.5)
    net.leave("C")
    net.run(1.0)
    return net


def expected(family: str) -> Network:
    """A subscriber moves to where it is expected, then elsewhere, and comes back to the broker that it has left."""
    model = MovementModel({"b1": {"b3": 1}, "b3": {"b2": 1}})
    net = Network(FAMILIES[family], family=family, moving=PublisherConfig(predictor=model))
    begin(net, SOURCE[family], "b1", "presubscribe")
    for number, (away_s, place) in enumerate(((1.0, "b3"), (1.0, "b1"), (0.52, "b2"), (2.0, "b2"), (1.0, "b1"))):
        net.publish("P", 2 * number)
        net.go("C")
        net.run(away_s)
        net.publish("P", 2 * number + 1)
        net.come("C", place)
        net.run(1.0)
    net.leave("C")
    net.run(1.0)
    return net


def relocating_publisher(mode: str, family: str) -> Network:
    """A publisher that advertises moves with its session."""
    net = Network(FAMILIES[family], family=family)
    net.start(1.0)
    net.come("S", "b1")
    net.subscribe("S")
    net.come("P", SOURCE[family], mode)
    net.advertise("P", "x >= 0")
    net.run(1.0)
    net.publish("P", 1)
    net.go("P")
    net.publish("P", 2)
    net.run(0.1)
    net.come("P", "b3")
    net.publish("P", 3)
    net.run(2.0)
    net.publish("P", 4)
    net.run(1.0)
    return net


def publisher(mode: str, family: str = "tree") -> Network:
    """A publisher moves as predicted, otherwise than predicted, and back; then it leaves for good."""
    itinerary = NoisyPredictor(Itineraries({"P": ("l1", "l2", "l3", "l1")}), 0.4, ("l1", "l2", "l3"))
    nearest = {"l1": ("l1", "l2", "l3"), "l2": ("l2", "l1", "l3"), "l3": ("l3", "l2", "l1")}
    moving = PublisherConfig(delay_s=2.0, prefetch_s=4.0, lease_s=6.0, proxies=2, nearest=nearest, predictor=itinerary)
    net = Network(LEAVES, family=family, moving=moving, advertisements="required" if family == "tree" else "optional")
    net.start(1.0)
    net.come("S", "l3")
    net.subscribe("S")
    net.come("P", "l1", mode)
    net.advertise("P")
    net.run(1.0)
    net.publish("P", 1)
    net.run(0.5)
    for place, away_s, number in (("l2", 1.0, 2), ("l3", 3.0, 3), ("l1", 0.2, 4), ("l1", 0.1, 5)):
        net.go("P")
        net.run(away_s)
        net.come("P", place)
        net.run(0.03)
        net.publish("P", number)
        net.run(1.0)
    net.advertise("P", "y = 1", "B")
    net.run(0.5)
    net.go("P")
    net.run(10.0)
    net.come("P", "l2")
    net.run(3.0)
    net.leave("P")
    net.run(1.0)
    return net


def silent_publisher(mode: str) -> Network:
    """A publisher that never advertises counts as advertising everything, and predictions come from a model."""
    model = MovementModel({"b1": {"b3": 2.0, "b2": 1.0}, "b3": {"b2": 1.0}}, {"b1": {"b3": {"b1": 3}}})
    net = Network(LINE, moving=PublisherConfig(delay_s=1.0, prefetch_s=2.0, predictor=model))
    net.start(0.5)
    net.come("S", "b2")
    net.subscribe("S")
    net.come("P", "b1", mode)
    net.run(0.5)
    net.publish("P", 1)
    for place in ("b3", "b1"):
        net.go("P")
        net.run(0.5)
        net.come("P", place)
        net.publish("P", 2)
        net.run(0.5)
    net.move_out("P")
    net.run(3.0)
    return net


def superseded(family: str, mode: str = "relocate", reduction: str = "covering") -> Network:
    """A client moves on before its session has come, twice, and comes back to where it was."""
    net = Network(STAR if family == "tree" else RING4, family=family, reduction=reduction)
    net.latency["b2", "b3"] = net.latency["b1", "b2"] = 0.2
    begin(net, "b4", "b1", mode, start_s=3.0)
    net.publish("P", 1)
    net.come("C", "b3")
    net.run(0.25)
    net.publish("P", 2)
    net.come("C", "b4")
    net.run(0.1)
    net.come("C", "b2")
    net.run(0.1)
    net.publish("P", 3)
    net.come("C", "b3")
    net.run(12.0)
    net.publish("P", 4)
    net.come("C", "b4")
    net.run(0.05)
    net.come("C", "b3")
    net.run(3.0)
    return net


def asked_again(family: str) -> Network:
    """The old broker is down while its client comes elsewhere: asked again, it answers from its journal."""
    net = Network(FAMILIES[family], family=family)
    begin(net, SOURCE[family], "b1")
    net.go("C")
    net.publish("P", 1)
    net.run(0.5)
    net.crash("b1")
    net.come("C", "b3")
    net.run(0.5)
    net.publish("P", 2)
    net.run(11.0)
    net.restart("b1")
    net.run(15.0)
    return net


def session_lost(mode: str, family: str) -> Network:
    """The old broker has lost its disk: the client goes on without its session."""
    net = Network(FAMILIES[family], family=family)
    begin(net, SOURCE[family], "b1", mode)
    net.go("C")
    net.publish("P", 1)
    net.run(0.5)
    net.crash("b1")
    net.run(0.5)
    net.restart("b1", keeps_disk=False)
    net.run(2.0)
    net.come("C", "b3")
    net.run(2.0)
    net.publish("P", 2)
    net.run(1.0)
    return net


def given_up(mode: str) -> Network:
    """The old broker never comes back: after a time the client goes on without its session."""
    net = Network(STAR, limits=Limits(session_expiry_s=300.0))
    begin(net, "b4", "b1", mode)
    net.crash("b1")
    net.come("C", "b3")
    net.run(1.0)
    net.publish("P", 1)
    net.run(130.0)
    net.publish("P", 2)
    net.run(1.0)
    return net


def trail() -> Network:
    """The session is with a broker that the client has greeted in vain; who knew that has lost its disk."""
    net = Network(STAR)
    net.latency["b2", "b3"] = 0.1
    begin(net, "b4", "b1", start_s=2.0)
    net.come("C", "b3")
    net.run(0.15)
    net.go("C")
    net.run(2.0)
    net.publish("P", 1)
    net.crash("b1")
    net.restart("b1", keeps_disk=False)
    net.run(3.0)
    net.come("C", "b1")
    net.run(0.2)
    net.publish("P", 2)
    net.run(15.0)
    return net


def waiting_for_each_other(family: str) -> Network:
    """Two brokers ask each other for a session that died with a disk, then a third asks them."""
    net = Network(STAR if family == "tree" else RING4, family=family)
    net.latency["b2", "b3"] = net.latency["b3", "b4"] = 0.2
    begin(net, "b1", "b3", start_s=3.0)
    net.come("C", "b4")
    net.run(0.1)
    net.crash("b3")
    net.restart("b3", keeps_disk=False)
    net.come("C", "b3")
    net.run(0.5)
    net.publish("P", 1)
    net.come("C", "b4")
    net.run(0.3)
    net.come("C", "b1")
    net.run(0.1)
    net.come("C", "b3")
    net.run(15.0)
    net.publish("P", 2)
    net.run(130.0)
    return net


def coming_again(family: str, mode: str) -> Network:
    """The session is out of reach: its client comes again, wants less, goes on and comes back; another has its name."""
    net = Network(STAR if family == "tree" else RING4, family=family)
    net.start(1.0)
    net.come("P", "b4")
    net.come("C", "b1", mode)
    net.subscribe("C")
    net.subscribe("C", "y = 1", "G")
    net.run(1.0)
    net.crash("b1")
    net.come("C", "b3")
    net.run(1.0)
    net.unsubscribe("C", "G")
    net.come("C", "b3")
    net.publish("P", 1, {"y": 1})
    net.run(1.0)
    net.come("C", "b2")
    net.run(1.0)
    net.come("C", "b3")
    net.run(1.0)
    net.open("k1", "b3")
    net.say("b3", "k1", Attach("C", attempt=1, mode=mode))
    net.run(0.5)
    net.restart("b1")
    net.run(25.0)
    net.publish("P", 2)
    net.run(1.0)
    return net


def held_back() -> Network:
    """A broker whose neighbours have not told all yet holds back what it has to ask."""
    net = Network(STAR)
    net.latency["b2", "b4"] = 0.5
    begin(net, "b4", "b1", start_s=5.0, run_s=3.0)
    net.crash("b2")
    net.restart("b2", keeps_disk=False)
    net.run(0.1)
    net.come("C", "b2")
    net.publish("P", 1)
    net.run(0.1)
    net.come("C", "b3")
    net.run(0.5)
    net.come("C", "b2")
    net.run(3.0)
    net.publish("P", 2)
    net.crash("b2")
    net.restart("b2", keeps_disk=False)
    net.cut("b2", "b4")
    net.come("C", "b3")
    net.run(70.0)
    return net


def two_devices(mode: str, family: str) -> Network:
    """Two devices with one name at two brokers: the one that came last goes on."""
    net = Network(FAMILIES[family], family=family)
    net.start(1.0)
    net.come("P", SOURCE[family])
    for broker, connection in (("b1", "k1"), ("b3", "k2")):
        net.open(connection, broker)
        net.say(broker, connection, Attach("ann", mode=mode, attempt=1))
        net.say(broker, connection, Request(1, Subscribe(("ann", "s"), parse("x > 0"))))
        net.run(0.5)
        net.publish("P", 1)
        net.run(0.5)
    net.open("k3", "b3")
    net.say("b3", "k3", Attach("ann", mode=mode, attempt=2, home="b1", session="b1/1/1", since=1, tried=("b4",)))
    net.run(1.0)
    net.say("b3", "k3", Received(1))
    net.run(1.0)
    return net


def long_queue() -> Network:
    """A queue that takes several replays."""
    net = Network("b1-b2")
    begin(net, "b1", "b1", start_s=0.5, run_s=0.5)
    net.go("C")
    net.publish("P", *range(70))
    net.run(0.5)
    net.come("C", "b2")
    net.run(1.0)
    return net


def named_by_hand() -> Network:
    """Clients that bring nothing but a name: notes, a shorter stay, a second connection, a fresh start, silence."""
    net = Network(LINE)
    net.start(0.5)
    net.open("p", "b2")
    net.say("b2", "p", Attach("pub", mode="named"))
    net.open("k1", "b1")
    net.say("b1", "k1", Attach("ann", mode="named"))
    net.say("b1", "k1", Request(1, Subscribe(("ann", "s"), parse("x > 0"))))
    net.say("b1", "k1", Request(2, Note("topic", b"t/1")))
    net.say("b1", "k1", Request(3, SetSessionExpiry(30.0)))
    net.run(0.5)
    net.say("b2", "p", Request(1, Publish(event({"x": 1}, publisher="pub", sequence=1))))
    net.run(0.5)
    net.open("k2", "b1")
    net.say("b1", "k2", Attach("ann", mode="named"))
    net.run(0.5)
    net.open("k3", "b3")
    net.say("b3", "k3", Attach("ann", mode="named"))
    net.run(0.5)
    net.say("b3", "k3", Received(1))
    net.open("k4", "b1")
    net.say("b1", "k4", Attach("ann", mode="named", fresh_start=True))
    net.run(0.5)
    net.say("b1", "k4", Request(1, Subscribe(("ann", "t"), parse("x > 1"))))
    net.run(0.5)
    net.cut("b1", "b2")
    net.open("k5", "b3")
    net.say("b3", "k5", Attach("ann", mode="named"))
    net.run(11.0)
    net.join("b1", "b2")
    net.run(15.0)
    net.open("k6", "b3")
    net.say("b3", "k6", Attach("ann", mode="named"))
    net.run(1.0)
    return net


def query_by_hand() -> Network:
    """A client whose queries are kept with its session: asked for, moved, too long, replaced, over."""
    net = Network(LINE, limits=Limits(note_bytes_max=100))
    net.start(0.5)
    net.open("k1", "b1")
    net.say("b1", "k1", Attach("ann", mode="named"))
    wanted = Subscribe(("ann", "s"), parse("x > 0"))
    net.say("b1", "k1", Request(1, SubscribeQuery(wanted, (("xpath", "//x > 0"), ("filter", "x > y")))))
    net.run(0.5)
    net.open("k2", "b3")
    net.say("b3", "k2", Attach("ann", mode="named"))
    net.run(0.5)
    net.say("b3", "k2", Request(2, SubscribeQuery(wanted, (("xpath", "//x" * 50),))))
    net.say("b3", "k2", Request(3, SubscribeQuery(wanted, (("xql", "x"),))))
    net.say("b3", "k2", Request(4, Unsubscribe(("ann", "s"))))
    net.run(0.5)
    return net


def late_collection() -> Network:
    """Mode carry: a broker that is out of reach answers late, when the client has already moved on."""
    net = Network(STAR)
    net.start(0.5)
    net.come("P", "b4")
    net.come("C", "b1", "carry")
    net.subscribe("C")
    net.subscribe("C", "y = 1", "G")
    net.run(0.5)
    net.go("C")
    net.publish("P", 1, {"y": 1})
    net.run(0.5)
    net.cut("b1", "b2")
    net.come("C", "b3")
    net.publish("P", 2)
    net.run(1.0)
    net.unsubscribe("C", "G")
    net.run(0.5)
    net.come("C", "b4")
    net.run(0.5)
    net.join("b1", "b2")
    net.run(12.0)
    net.publish("P", 3)
    net.run(1.0)
    return net


STATE = session_state(subscriptions=(Subscribe(("ann", "s"), parse("x > 0")),), taken=2)


def _ann_comes(net: Network, connection: str, attempt: int, client: str = "ann") -> None:
    """A client comes whose session is at the broker right, or where it has been since."""
    wanted = (Subscribe((client, "s"), parse("x > 0")), Subscribe((client, "t"), parse("y > 0")))
    attach = Attach(client, session="far/1/1", attempt=attempt, home="right", since=1, wanted=wanted, tried=("left",))
    net.open(connection, "here")
    net.say("here", connection, attach)


def awaited(family: str) -> Network:
    """A broker waits for a session and others ask it for the same one, supersede it, or answer otherwise."""
    net = Network("", apart="here", puppets="left right", family=family)
    peers = Puppets(net)
    net.run(1.0)
    _ann_comes(net, "k1", 2)
    net.run(0.1)
    for to, attempt in (("left", 3), ("left", 3), ("right", 4), ("left", 3)):
        peers.tell(to, Relocate("ann", "here", to, attempt))
    peers.tell("right", Superseded("ann", "here", 2, 5, "left"))
    net.run(0.1)
    net.note("asked twice, it waits for a session that may still come")
    _ann_comes(net, "k2", 6)
    net.run(11.0)
    peers.tell("right", Superseded("ann", "here", 6, 7, "left"))
    peers.tell("right", Relocate("ann", "here", "right", 8))
    peers.tell("left", Relocate("ann", "here", "left", 9))
    items = tuple(QueuedEvent(n, event({"x": n}, publisher="P", sequence=n), ("s",), 0.0) for n in (1, 2))
    peers.tell("right", Replay("ann", "here", 6, STATE, items[:1], is_last=False))
    peers.tell("right", Replay("ann", "here", 6, None, items[1:], is_last=True))
    peers.tell("right", Replay("ann", "here", 6, STATE, items, is_last=True))
    net.run(1.0)
    net.note("a session that nobody waits for stays until somebody asks")
    state = structs.replace(STATE, client="bob", subscriptions=())
    peers.tell("right", Replay("bob", "here", 3, structs.replace(state, taken=0), (), is_last=True))
    net.run(1.0)
    peers.tell("right", Replay("bob", "here", 4, structs.replace(state, taken=0), (), is_last=True))
    peers.tell("left", Relocate("bob", "here", "left", 5))
    net.run(1.0)
    net.note("nobody has it")
    _ann_comes(net, "k3", 12, "eve")
    net.run(0.1)
    peers.tell("right", SessionUnknown("eve", "here", 12))
    _ann_comes(net, "k4", 13, "eve")
    peers.tell("left", SessionUnknown("eve", "here", 12))
    net.run(0.1)
    for peer in ("left", "right"):
        peers.tell(peer, SessionUnknown("eve", "here", 13))
    net.run(1.0)
    return net


def elsewhere() -> Network:
    """Graph family: who is asked knows that the session is at another broker."""
    net = Network("", apart="here", puppets="left right", family="graph")
    peers = Puppets(net)
    net.run(1.0)
    _ann_comes(net, "k1", 2)
    net.run(0.1)
    peers.tell("right", SessionElsewhere("ann", "here", 2, "left"))
    net.run(0.1)
    peers.tell("left", Flushed("ann", 2, "right"))
    peers.tell("left", Replay("ann", "here", 2, structs.replace(STATE, taken=0), (), is_last=True, has_published=True))
    net.run(0.1)
    for peer in ("right", "left"):
        peers.tell(peer, Flushed("ann", 2, "left"))
    net.run(1.0)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{
        f"moving_{mode}_{family}": partial(subscriber, mode, family) for mode in SUBSCRIBER_MODES for family in FAMILIES
    },
    **{f"moving_presubscribe_{family}": partial(expected, family) for family in FAMILIES},
    "moving_junction_simple": partial(subscriber, "junction", "tree", "simple"),
    "moving_junction_superseded": partial(superseded, "tree", "junction", "simple"),
    "moving_publisher_junction": partial(relocating_publisher, "junction", "tree"),
    **{f"moving_publisher_relocate_{family}": partial(relocating_publisher, "relocate", family) for family in FAMILIES},
    "moving_publisher_named_tree": partial(relocating_publisher, "named", "tree"),
    **{f"moving_publisher_{mode}": partial(publisher, mode) for mode in PUBLISHER_MODES},
    "moving_publisher_prefetching+delayed_graph": partial(publisher, "prefetching+delayed", "graph"),
    "moving_publisher_proxy_graph": partial(publisher, "proxy", "graph"),
    "moving_publisher_silent": partial(silent_publisher, "prefetching+delayed"),
    **{f"moving_superseded_{family}": partial(superseded, family) for family in FAMILIES},
    **{f"moving_asked_again_{family}": partial(asked_again, family) for family in FAMILIES},
    **{
        f"moving_session_lost_{mode}_{family}": partial(session_lost, mode, family)
        for mode, family in (
            *(("relocate", "tree"), ("relocate", "graph")),
            *(("ask", "tree"), ("junction", "tree"), ("named", "tree")),
        )
    },
    "moving_given_up_relocate": partial(given_up, "relocate"),
    "moving_given_up_named": partial(given_up, "named"),
    "moving_trail": trail,
    **{f"moving_waiting_for_each_other_{family}": partial(waiting_for_each_other, family) for family in FAMILIES},
    "moving_coming_again_relocate_tree": partial(coming_again, "tree", "relocate"),
    "moving_coming_again_relocate_graph": partial(coming_again, "graph", "relocate"),
    "moving_coming_again_named_tree": partial(coming_again, "tree", "named"),
    "moving_held_back": held_back,
    **{f"moving_awaited_{family}": partial(awaited, family) for family in FAMILIES},
    "moving_elsewhere": elsewhere,
    "moving_two_devices_relocate_tree": partial(two_devices, "relocate", "tree"),
    "moving_two_devices_named_graph": partial(two_devices, "named", "graph"),
    "moving_long_queue": long_queue,
    "moving_named_by_hand": named_by_hand,
    "moving_query_by_hand": query_by_hand,
    "moving_late_collection": late_collection,
}
