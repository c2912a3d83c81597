"""Scripts: input that no honest neighbour or client sends. Its link or connection is closed, all else goes on."""

from collections.abc import Callable
from functools import partial
from typing import Any

from godwit.baselines.hop_messages import ContextPacket
from godwit.broker.effects import Arrived, Closed, LinkDown, LinkUp
from godwit.broker.gossip_messages import Fact, GossipUpdate
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Bye,
    Context,
    Denied,
    FetchEvents,
    Frame,
    Goodbye,
    Hello,
    LinkState,
    LostNumbers,
    Nack,
    Packet,
    PastConnection,
    Publish,
    Received,
    Request,
    Subscribe,
    Synced,
    Unsubscribe,
)
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility.move_messages import (
    AskInterests,
    Collect,
    Collected,
    EndOlderSession,
    Flush,
    Flushed,
    Interests,
    MoveOut,
    Prefetch,
    Proxy,
    ReachableBrokers,
    Relocate,
    Replay,
    SessionElsewhere,
    SessionUnknown,
    Superseded,
    WithdrawPrefetch,
)
from tests.transcripts.network import Network
from tests.transcripts.puppets import Puppets

EVENT = event({"x": 1}, publisher="P", sequence=99)


def neighbours(family: str) -> Network:
    """Frames that break the protocol."""
    net = Network("", apart="here", puppets="left right", family=family)
    peers = Puppets(net)
    net.come("C", "here")
    net.subscribe("C")
    net.run(0.5)
    net.give("here", LinkUp("nobody"))
    net.give("here", LinkDown("nobody"))
    net.give("here", Arrived("nobody", Ack(1)))
    wrong: list[Any] = [
        Frame(10**9, 0, Publish(EVENT)),
        Ack(10**6),
        Hello(0, 0, 0, 0, heard=True),
        Goodbye("no reason"),
        Request(1, Publish(EVENT)),
        MoveOut(),
    ]
    for frame in wrong:
        net.give("here", Arrived("left", frame))
        net.run(0.1)
        net.give("here", LinkUp("left"))
        net.give("here", Arrived("left", Hello(peers.lives["left"], 0, 0, 1, heard=True)))
        peers.begin("left")
    peers.tell("left", Publish(EVENT))
    net.run(0.5)
    return net


def messages(family: str) -> Network:
    """Messages that are malformed, or belong to the other family."""
    net = Network("", apart="here", puppets="left right", family=family)
    peers = Puppets(net)
    wrong: list[Any] = [
        Subscribe(("C", "F"), parse("x = my.y")),
        Unsubscribe(("C", "unknown")),
        Relocate("", "here", "far", 1),
        EndOlderSession("C", "here", 1, ""),
        LinkState("left", 9, 1, {"here": -1.0}),
        Packet("left", 1, {"here": 99}, Publish(EVENT)),
        Packet("left", 1, {"here": 0}, Publish(EVENT)),
        ContextPacket("left", 0, EVENT),
        GossipUpdate((Fact("nothing", ("a",), 1, "left", None),)),
        Attach("ann"),
    ]
    for message in wrong:
        closes = len(net.lines)
        peers.send("left", message)
        net.run(0.1)
        if any(line.startswith("    Close(") for line in net.lines[closes:]):
            peers.begin("left")
    for message in (Flushed("ann", 1, ""), Relocate("", "here", "far", 1), ReachableBrokers(("far",))):
        peers.carry("left", message)
        net.run(0.1)
        peers.begin("left")
    return net


def gaps() -> Network:
    """Packets with holes between them: asked for, sent again, given up; and a neighbour that asks for all again."""
    net = Network("", apart="here", puppets="left right", family="graph")
    peers = Puppets(net)
    net.come("C", "here")
    net.subscribe("C")
    net.run(0.5)
    first = peers.packets["left"]
    peers.packets["left"] += 2
    peers.carry("left", Publish(EVENT))
    net.run(6.0)
    peers.carry("left", LostNumbers(1, (first + 1,)))
    peers.carry("left", Nack(1, (2,)))
    peers.carry("left", Nack(1, (1_000,)))
    peers.begin("left")
    peers.carry("left", Nack(1, ()))
    peers.packets["left"] += 1
    peers.carry("left", Subscribe(("D", "F"), parse("x > 0")))
    net.run(6.0)
    peers.carry("left", LostNumbers(2, (peers.packets["left"] - 2,)))
    peers.carry("left", LostNumbers(2, (peers.packets["left"] - 3,)))
    net.run(6.0)
    return net


def unasked(family: str) -> Network:
    """Messages about moves that nobody waits for, or about brokers that nobody knows."""
    net = Network("", apart="here", puppets="left right", family=family)
    peers = Puppets(net)
    net.come("C", "here")
    net.subscribe("C")
    net.run(0.5)
    only_in_a_graph = (SessionElsewhere("ann", "here", 1, "right"), Flush("ann", "here", 1), Flushed("ann", 1, "right"))
    for message in (
        Superseded("ann", "here", 1, 2, "far"),
        SessionUnknown("ann", "here", 1),
        EndOlderSession("ann", "here", 1, "far"),
        EndOlderSession("C", "here", 9, "far"),
        Interests("ann", "here", 1, ()),
        Collected("ann", "far", "here", 1, 1, (), (), is_last=True),
        WithdrawPrefetch("ann", "here", 1),
        Prefetch("ann", "here", 1, (Advertise(("ann", "A"), TRUE),)),
        Proxy("ann", "here", 2, (Advertise(("ann", "A"), TRUE),)),
        Proxy("ann", "here", 3, ()),
        AskInterests("ann", "here", "left", 1),
        Collect("ann", "here", "left", 1),
        Relocate("ann", "here", "left", 1),
        Relocate("ann", "here", "nowhere", 2),
        SessionUnknown("ann", "far", 1),
        SessionUnknown("ann", "right", 1),
        Replay("ann", "here", 1, None, (), is_last=True),
        *(only_in_a_graph if family == "graph" else ()),
    ):
        peers.tell("left", message)
        net.run(0.1)
    net.run(130.0)
    return net


def clients() -> Network:
    """Clients that say what no honest client says."""
    net = Network("b1-b2", asserted=("role",))
    net.run(0.5)
    subscribe = Subscribe(("ann", "s"), parse("x > 0"))
    wrong: list[list[Any]] = [
        [Request(1, subscribe)],
        [MoveOut()],
        [Synced()],
        [Attach("ann"), Attach("ann")],
        [Attach("", mode="relocate")],
        [Attach("ann", mode="by air")],
        [Attach("ann", attempt=-1)],
        [Attach("ann", attempt=1, home="b2", session="s", mode="carry", log=(PastConnection("b2", 1, 0.0),))],
        [Attach("bob"), Request(2, Subscribe(("bob", "s"), TRUE))],
        [Attach("bob"), Request(1, Subscribe(("eve", "s"), TRUE))],
        [Attach("bob"), Request(1, Publish(EVENT))],
        [Attach("bob"), Request(1, Denied("not allowed")), Request(2, Context({"role": "boss"}))],
        [Attach("bob"), Received(7)],
        [Attach("bob"), FetchEvents("P", 0, 3)],
        [Attach("bob", replicated=True), FetchEvents("P", 5, 3)],
        [Attach("bob"), Ack(1)],
        [Attach("bob"), Bye("I go")],
    ]
    for number, said in enumerate(wrong):
        net.open(f"k{number}", "b1", {"role": "guest"})
        for message in said:
            net.say("b1", f"k{number}", message)
        net.run(0.2)
    net.give("b1", Closed("nobody"))
    net.run(1.0)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{f"hostile_neighbours_{family}": partial(neighbours, family) for family in ("tree", "graph")},
    **{f"hostile_messages_{family}": partial(messages, family) for family in ("tree", "graph")},
    **{f"hostile_unasked_{family}": partial(unasked, family) for family in ("tree", "graph")},
    "hostile_gaps": gaps,
    "hostile_clients": clients,
}
