"""The graph family at work: who hears of a subscription, which way an event goes, brokers and links that come and go.

The network of these tests is `tests/property/routing_network.py`; the laws are in `tests/property/test_graph_laws.py`.
"""

import math
from typing import Any

import pytest

from godwit.broker.effects import Trace
from godwit.broker.graph import EARLY_MAX, GraphRouting
from godwit.broker.messages import (
    Advertise,
    ChannelStart,
    ChannelTail,
    EntryId,
    LinkState,
    LostNumbers,
    Message,
    Nack,
    NodeId,
    Packet,
    Publish,
    Subscribe,
    Synced,
    Unsubscribe,
)
from godwit.broker.routing import DeliverLocally, Forward, Routing
from godwit.errors import PeerFault
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from tests.property.routing_network import GraphNetwork
from tests.raw_messages import read
from tests.snapshots import restored

ID = ("client", "s")
EVENT = event({"x": 5}, publisher="p", sequence=1)

# [spcf Fig. 2] is a drawing; this is an overlay of our own, a ring with a leaf.
LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "leaf")]


def network(links: list[tuple[str, str]] = LINKS, **options: Any) -> GraphNetwork:
    return GraphNetwork(links, **options).start()


def under_way(net: GraphNetwork) -> dict[tuple[NodeId, NodeId], list[Message]]:
    return {pair: messages for pair, messages in net.under_way() if messages}


def received(net: GraphNetwork, name: NodeId, id: EntryId = ID) -> list[int]:
    return [sequence for _, sequence in net.deliveries[name, id]]


def trace_of_packets(net: GraphNetwork) -> list[tuple[NodeId, NodeId, list[NodeId]]]:
    """Deliver all that is under way; which packet with an event went over which link to which targets."""
    hops = []
    while pairs := net.can_deliver():
        for a, b in pairs:
            message = net.deliver(a, b)
            if isinstance(message, Packet) and isinstance(message.message, Publish):
                hops.append((a, b, list(message.targets)))
    return hops


# ------------------------------------------------------------ subscriptions and events


def test_it_is_a_routing_family() -> None:
    routing: Routing = GraphRouting("a")
    assert routing.wanted() == [TRUE]  # a newborn has not heard what others want
    routing.on_timer_due(("newborn",), 60.0)
    assert routing.wanted() == []


def test_a_subscription_comes_to_every_broker_and_its_end_too() -> None:
    net = network()
    net.subscribe("a", ID, parse("x > 3"))
    net.drain()
    for name in ("b", "c", "d", "leaf"):
        assert net.brokers[name].remote["a"] == {ID: parse("x > 3")}
        assert net.brokers[name].wanted() == [parse("x > 3")]
    net.subscribe("a", ID, parse("x > 9"))
    net.drain()
    assert net.brokers["leaf"].wanted() == [parse("x > 9")]
    assert net.brokers["a"].wanted() == [parse("x > 9")]
    net.unsubscribe("a", ID)
    net.drain()
    assert [routing.wanted() for routing in net.brokers.values()] == [[]] * 5


def test_taking_back_what_was_never_told_does_nothing() -> None:
    assert GraphRouting("a").unsubscribe(ID, 0.0) == []


def test_advertisements_are_accepted_and_ignored() -> None:
    routing = GraphRouting("a")
    assert routing.advertise(ID, TRUE, 0.0) == []
    assert routing.unadvertise(ID, 0.0) == []


def test_an_event_goes_down_the_branches_of_the_publishers_tree_that_have_a_target_and_no_other() -> None:
    net = network()
    net.subscribe("leaf", ID, parse("x > 3"))
    net.subscribe("d", ID, parse("x > 8"))
    net.drain()
    net.publish("a", x=1)
    assert trace_of_packets(net) == []
    net.publish("a", x=5)
    assert trace_of_packets(net) == [("a", "b", ["leaf"]), ("b", "c", ["leaf"]), ("c", "leaf", ["leaf"])]
    net.publish("a", x=9)
    assert sorted(trace_of_packets(net)) == [
        ("a", "b", ["leaf"]),
        ("a", "d", ["d"]),
        ("b", "c", ["leaf"]),
        ("c", "leaf", ["leaf"]),
    ]
    assert received(net, "leaf") == [2, 3]
    assert received(net, "d") == [3]


def test_a_link_that_costs_more_is_gone_round() -> None:
    net = network(LINKS, costs={("a", "b"): 5.0})
    net.subscribe("leaf", ID, TRUE)
    net.drain()
    net.publish("a", x=1)
    assert [hop[:2] for hop in trace_of_packets(net)] == [("a", "d"), ("d", "c"), ("c", "leaf")]


def test_an_event_comes_once_to_each_broker_and_to_its_clients_together_and_sorted() -> None:
    net = network()
    for name in ("s2", "s1", "s3"):
        net.subscribe("c", ("client", name), parse("x > 3"))
    net.subscribe("c", ("client", "other"), parse("x < 3"))
    net.drain()
    answers = net.brokers["a"].publish(EVENT, 0.0)
    [forward] = answers
    assert isinstance(forward, Forward)
    [passed] = net.brokers["b"].on_message("a", forward.message, 0.0)
    assert isinstance(passed, Forward)
    assert net.brokers["c"].on_message("b", passed.message, 0.0) == [
        DeliverLocally(EVENT, [("client", "s1"), ("client", "s2"), ("client", "s3")])
    ]
    assert net.brokers["c"].on_message("b", passed.message, 0.0) == []


def test_clients_of_the_publishers_own_broker_get_the_event_at_once() -> None:
    routing = GraphRouting("a")
    routing.subscribe(ID, parse("x > 3"), 0.0)
    assert routing.publish(EVENT, 0.0) == [DeliverLocally(EVENT, [ID])]


# ------------------------------------------------------------ links that come and go


def test_a_link_that_is_down_for_a_short_time_keeps_its_packets_and_the_tree() -> None:
    net = network()
    net.subscribe("b", ID, TRUE)
    net.drain()
    net.take_down(("a", "b"))
    net.publish("a", x=1)
    net.drain()
    assert received(net, "b") == []
    net.bring_up(("a", "b"))
    net.drain()
    assert received(net, "b") == [1]


def test_what_waited_for_a_dead_link_goes_another_way_and_comes_once() -> None:
    net = network()
    net.subscribe("b", ID, TRUE)
    net.drain()
    net.publish("a", x=1)
    net.deliver("a", "b")  # it came, and the acknowledgement did not
    net.take_down(("a", "b"))
    net.publish("a", x=2)
    net.give_up("a", "b")
    net.publish("a", x=3)
    net.drain()
    assert received(net, "b") == [1, 2, 3]
    assert net.records == []


def test_events_on_a_new_shorter_way_do_not_overtake_older_ones() -> None:
    links = [("a", "b"), ("b", "c"), ("a", "c")]
    net = GraphNetwork(links)
    net.bring_up(("a", "b"))
    net.bring_up(("b", "c"))
    net.drain()
    net.subscribe("c", ID, TRUE)
    net.drain()
    net.publish("a", x=1)  # under way by b
    net.bring_up(("a", "c"))
    while ("a", "c") in net.can_deliver():
        net.deliver("a", "c")
    while ("c", "a") in net.can_deliver():
        net.deliver("c", "a")
    net.publish("a", x=2)
    while ("a", "c") in net.can_deliver():
        net.deliver("a", "c")
    assert received(net, "c") == []  # 2 is there, and waits for 1
    net.drain()
    assert received(net, "c") == [1, 2]


def test_while_an_overlay_is_in_two_parts_packets_wait_and_then_go_on() -> None:
    net = network([("a", "b"), ("b", "c")])
    net.subscribe("c", ID, TRUE)
    net.drain()
    net.take_down(("b", "c"))
    net.give_up("b", "c")
    net.give_up("c", "b")
    for x in range(3):
        net.publish("a", x=x)
    net.subscribe("c", ("client", "new"), TRUE)
    net.drain()
    assert received(net, "c") == []
    net.settle()
    assert received(net, "c") == [1, 2, 3]
    net.publish("a", x=4)
    net.drain()
    assert received(net, "c", ("client", "new"))[-1] == 4
    assert net.records == []


def test_what_died_with_a_broker_that_never_returns_is_sent_again_by_its_source() -> None:
    net = network([("a", "b"), ("b", "c"), ("a", "d"), ("d", "c")])
    net.subscribe("c", ID, TRUE)
    net.drain()
    net.publish("a", x=1)
    net.deliver("a", "b")
    net.acknowledge("a", "b")  # b has it in hand
    net.forget("b")
    for name in ("a", "c"):
        net.give_up(name, "b")
    net.drain()
    assert received(net, "c") == []
    while not received(net, "c"):
        assert net.fire_timer()
        net.drain()
    assert received(net, "c") == [1]


# ------------------------------------------------------------ brokers that come and go


def test_a_new_broker_is_told_everything_and_tells_everything() -> None:
    net = GraphNetwork([("a", "b"), ("b", "new")])
    net.subscribe("a", ID, parse("x > 3"))
    net.subscribe("new", ID, parse("x > 4"))
    net.bring_up(("a", "b"))
    net.drain()
    for routing in net.brokers.values():
        routing.on_timer_due(("newborn",), 60.0)
    assert net.brokers["a"].wanted() == [parse("x > 3")]
    net.bring_up(("b", "new"))
    net.drain()
    assert net.brokers["new"].wanted() == [parse("x > 4"), parse("x > 3")]
    assert net.brokers["a"].wanted() == [parse("x > 3"), parse("x > 4")]


def test_every_event_goes_to_a_broker_that_has_not_told_everything_yet() -> None:
    net = GraphNetwork([("a", "b")])
    net.subscribe("b", ID, TRUE)
    net.bring_up(("a", "b"))
    while ("b", "a") in net.can_deliver() and not net.brokers["a"].untold:
        net.deliver("b", "a")
    net.publish("a", x=1)
    net.drain()
    assert received(net, "b") == [1]
    assert net.brokers["a"].untold == {}


def test_what_a_newborn_publishes_before_it_knows_anybody_goes_to_all_it_meets() -> None:
    net = network()
    net.subscribe("leaf", ID, TRUE)
    net.drain()
    net.forget("a")
    net.publish("a", x=1)
    net.settle()
    assert received(net, "leaf") == [1]
    assert net.brokers["a"].early is None


def test_what_a_newborn_that_knows_nobody_cannot_keep_is_recorded_as_lost() -> None:
    routing = GraphRouting("a")
    for number in range(EARLY_MAX):
        assert routing.publish(event({"x": 1}, publisher="p", sequence=number), 0.0) == []
    [lost] = routing.publish(event({"x": 1}, publisher="p", sequence=EARLY_MAX), 0.0)
    assert isinstance(lost, Trace)
    assert (lost.record.kind, lost.record.publisher, lost.record.sequence) == ("lost", "p", 0)


def test_subscriptions_of_a_past_life_end_when_the_new_one_has_told_everything() -> None:
    net = network([("a", "b"), ("b", "c")])
    net.subscribe("a", ID, parse("x > 3"))
    net.subscribe("a", ("client", "kept"), parse("x > 4"))
    net.drain()
    net.forget("a")
    net.subscribe("a", ("client", "kept"), parse("x > 4"))
    assert len(net.brokers["c"].wanted()) == 2
    net.settle()
    assert net.brokers["c"].remote["a"] == {("client", "kept"): parse("x > 4")}
    net.publish("c", x=5)
    net.drain()
    assert received(net, "a", ("client", "kept")) == [1]


def test_a_source_may_be_met_by_a_packet_before_its_link_state() -> None:
    routing = GraphRouting("me")
    routing.on_peer_up("b", 0.0)
    routing.on_message("b", LinkState("b", 1, 1, {"me": 1.0}), 0.0)
    routing.on_message("b", Packet("far", 1, {"me": 1}, ChannelStart(1)), 0.0)
    routing.on_message("b", Packet("far", 1, {"me": 2}, Subscribe(ID, TRUE)), 0.0)
    assert [type(each.message) for each in routing.channels.parked["far"]] == [ChannelStart, Synced]
    answers = routing.on_message("b", LinkState("b", 1, 2, {"me": 1.0, "far": 1.0}), 0.0)
    assert answers == []
    answers = routing.on_message("b", LinkState("far", 1, 1, {"b": 1.0}), 0.0)
    assert [answer.message.message for answer in answers] == [ChannelStart(1), Synced()]  # type: ignore[union-attr]
    [forward] = routing.publish(EVENT, 0.0)
    assert forward == Forward("b", Packet("me", 1, {"b": 3, "far": 3}, Publish(EVENT)))  # b has not told everything


def test_a_broker_that_hears_of_a_higher_life_of_its_own_starts_another_above_it() -> None:
    routing = GraphRouting("me", incarnation=2)
    routing.subscribe(ID, TRUE, 0.0)
    routing.on_peer_up("b", 0.0)
    routing.on_message("b", LinkState("b", 1, 1, {"me": 1.0}), 0.0)
    answers = routing.on_message("b", LinkState("me", 6, 40, {}), 0.0)
    assert answers[0] == Forward("b", LinkState("me", 7, 1, {"b": 1.0}))
    assert [answer.message for answer in answers[1:]] == [  # type: ignore[union-attr]
        Packet("me", 7, {"b": 1}, ChannelStart(1)),
        Packet("me", 7, {"b": 2}, Subscribe(ID, TRUE)),
        Packet("me", 7, {"b": 3}, Synced()),
    ]


def test_an_older_link_state_is_not_passed_on_and_a_newer_one_to_all_but_its_sender() -> None:
    net = network()
    state = LinkState("leaf", 1, 99, {"c": 1.0})
    assert net.brokers["c"].on_message("leaf", state, 0.0) == [Forward("b", state), Forward("d", state)]
    assert net.brokers["c"].on_message("b", state, 0.0) == []


def test_lost_subscriptions_are_told_again_when_the_source_cannot_send_them_again() -> None:
    net = network([("a", "b")])
    net.subscribe("a", ID, TRUE)
    net.wires.lose("a", "b", -1)  # a link never does this: it stands for whatever loses a packet
    net.brokers["a"].channels.history.clear()
    net.subscribe("a", ("client", "next"), TRUE)
    net.drain()
    assert net.brokers["b"].remote.get("a", {}) == {}
    net.settle()
    assert net.brokers["b"].remote["a"] == {ID: TRUE, ("client", "next"): TRUE}
    assert [record.kind for record in net.records] == ["lost"]
    assert net.brokers["b"].untold == {}


def test_a_broker_whose_subscription_may_be_lost_gets_every_event_until_it_has_told_everything_again() -> None:
    routing = GraphRouting("me")
    routing.on_peer_up("b", 0.0)
    routing.on_message("b", LinkState("b", 1, 1, {"me": 1.0}), 0.0)
    for number, message in [(1, ChannelStart(1)), (3, Synced()), (4, LostNumbers(1, (2,)))]:
        routing.on_message("b", carrying(message, source="b", targets={"me": number}), 0.0)
    assert routing.untold == {"b": None}
    assert routing.publish(EVENT, 0.0) == [Forward("b", Packet("me", 1, {"b": 4}, Publish(EVENT)))]
    for number, message in [(5, ChannelStart(1)), (6, Synced())]:
        routing.on_message("b", carrying(message, source="b", targets={"me": number}), 0.0)
    assert routing.publish(EVENT, 0.0) == []


# ------------------------------------------------------------ snapshots, order, faults


def test_a_subscription_that_came_before_its_turn_is_wanted_already() -> None:
    """Sources heard of it when it came; a filter made anew meanwhile must not leave it out again."""
    net = network()
    routing = net.brokers["b"]
    number = net.brokers["a"].channels.numbers["b"]
    routing.on_message("a", carrying(Subscribe(ID, parse("x > 3")), source="a", targets={"b": number + 2}), 0.0)
    assert routing.remote.get("a", {}) == {}
    assert routing.wanted() == [parse("x > 3")]
    routing.on_message("a", carrying(Publish(EVENT), source="a", targets={"b": number + 1}), 0.0)
    assert routing.remote["a"] == {ID: parse("x > 3")}
    assert routing.wanted() == [parse("x > 3")]


def test_a_snapshot_goes_on_where_the_broker_stopped() -> None:
    net = network()
    net.subscribe("leaf", ID, parse("x > 3"))
    net.subscribe("a", ID, parse("x > 4"))
    net.drain()
    again = restored(net.brokers["a"], GraphRouting("a"))
    assert again.publish(EVENT, 0.0) == net.brokers["a"].publish(EVENT, 0.0)
    assert again.wanted() == net.brokers["a"].wanted()
    assert again.open == net.brokers["a"].open


def test_targets_are_sorted_whatever_the_order_in_which_they_subscribed() -> None:
    routing = GraphRouting("me")
    routing.on_peer_up("hub", 0.0)
    for name in ("z", "b", "m", "a"):
        routing.on_message("hub", Packet(name, 1, {"me": 1}, ChannelStart(1)), 0.0)
        routing.on_message("hub", Packet(name, 1, {"me": 2}, Subscribe(ID, TRUE)), 0.0)
    routing.publish(EVENT, 0.0)
    assert list(routing.channels.history[-1].targets) == ["a", "b", "m", "z"]


def carrying(message: Any, **changes: Any) -> Packet:
    return Packet(**{"source": "far", "incarnation": 1, "targets": {"me": 1}, "message": message, **changes})


@pytest.mark.parametrize(
    "message",
    [
        None,
        "hello",
        Subscribe(ID, TRUE),
        Publish(EVENT),
        Synced(),
        Advertise(ID, TRUE),
        LinkState("b", 1, 1, {"me": 0.0}),
        LinkState("b", 1, 1, {"me": math.nan}),
        LinkState("b", 1, 1, None),  # type: ignore[arg-type]
        LinkState("b", -1, 1, {}),
        carrying(ChannelTail(), targets={}),
        carrying(ChannelTail(), targets=None),
        carrying(ChannelTail(), targets={"me": 0}),
        carrying(ChannelTail(), targets={"me": True}),
        carrying(ChannelTail(), targets={"me": "1"}),
        carrying(ChannelTail(), targets={7: 1}),
        carrying(ChannelTail(), targets={"me": 1, "far": 1}),
        carrying(ChannelTail(), source=""),
        carrying(ChannelTail(), source=None),
        carrying(ChannelTail(), incarnation=0),
        carrying(ChannelTail(), incarnation=1.5),
        carrying(ChannelTail(), source="me", targets={"b": 1}, incarnation=9),
        carrying(ChannelTail(), source="me"),
        carrying(None),
        carrying(Advertise(ID, TRUE)),
        carrying(Publish(None)),  # type: ignore[arg-type]
        carrying(Subscribe("s", TRUE)),  # type: ignore[arg-type]
        carrying(Subscribe(ID, None)),  # type: ignore[arg-type]
        carrying(Subscribe(ID, parse("x > my.threshold"))),
        carrying(Unsubscribe(("client", 3))),  # type: ignore[arg-type]
        carrying(ChannelStart(0)),
        carrying(Nack(1, ["1"])),  # type: ignore[arg-type]
        carrying(Nack(1, tuple(range(1, 5_000)))),
        carrying(LostNumbers(1, (0,))),
        carrying(LostNumbers("1", (1,))),  # type: ignore[arg-type]
    ],
)
def test_what_no_honest_neighbour_sends_is_a_fault_and_changes_nothing(message: Any) -> None:
    routing = GraphRouting("me")
    routing.on_peer_up("b", 0.0)
    before = repr(routing.snapshot())
    with pytest.raises(PeerFault):
        routing.on_message("b", read(message), 0.0)
    assert repr(routing.snapshot()) == before


def test_a_source_more_than_allowed_is_a_fault() -> None:
    routing = GraphRouting("me", brokers_max=2)
    routing.on_message("b", carrying(ChannelStart(1), source="one"), 0.0)
    routing.on_message("b", carrying(ChannelStart(1), source="two"), 0.0)
    with pytest.raises(PeerFault, match="one broker too many"):
        routing.on_message("b", carrying(ChannelStart(1), source="three"), 0.0)
