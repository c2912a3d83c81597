"""Devices of an ad hoc network: discovery, election, relaying, leases, merging, and what they put up with."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from godwit.adhoc.adhoc_node import GATHERS_MAX, AdHocNode
from godwit.adhoc.device import LIFE, AdHocConfig
from godwit.adhoc.event_broker import in_sender_order
from godwit.adhoc.radio_messages import Beacon, Carried, Hangup, Merge, Poll, Relayed
from godwit.adhoc.radio_routes import KnownLeaders, RadioRoutes
from godwit.broker.effects import Arrived, Close, LinkDown, LinkUp, Send, StartTimer, TimerDue, Trace
from godwit.broker.messages import Ack, Attach, Delivery, Frame, Goodbye, Hello, QueuedEvent, Received
from godwit.client import Client
from godwit.filters import parse
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.mobility.move_messages import Replay
from godwit.simulator.adhoc_world import AdHocWorld, islands_of

CONFIG = AdHocConfig()

arrived: Any = Arrived  # much of what arrives here is what no honest device sends
a_beacon: Any = Beacon
a_relayed: Any = Relayed
a_poll: Any = Poll
a_hangup: Any = Hangup
a_carried: Any = Carried
a_frame: Any = Frame
a_merge: Any = Merge
a_replay: Any = Replay
an_ack: Any = Ack


def world(**priorities: float) -> AdHocWorld:
    return AdHocWorld(1, {name: AdHocConfig(priority=priority) for name, priority in priorities.items()})


def row(*names: str) -> list[tuple[str, str]]:
    return list(pairwise(names))


def node(name: str = "n", **settings) -> AdHocNode:
    return AdHocNode(name, Client(name), AdHocConfig(**settings))


def sent(effects, kind):
    return [
        (effect.peer, effect.frame) for effect in effects if isinstance(effect, Send) and type(effect.frame) is kind
    ]


# ---------------------------------------------------------------- ways and sightings


def test_a_way_is_replaced_only_by_newer_news():
    ways = RadioRoutes(nodes_max=10)
    assert ways.learn("far", "a", 5)
    assert not ways.learn("far", "b", 5)
    assert ways.to("far") == "a"
    assert ways.learn("far", "b", 6)
    assert not ways.learn("far", "b", 7)
    assert ways.to("far") == "b"


def test_a_way_over_a_neighbour_that_is_gone_leads_nowhere_until_there_is_news():
    ways = RadioRoutes(nodes_max=10)
    ways.learn("far", "a", 5)
    ways.lose("a")
    assert ways.to("far") is None
    ways.learn("far", "b", 5)
    assert ways.to("far") is None
    ways.learn("far", "b", 6)
    assert ways.to("far") == "b"


def test_ways_are_bounded_and_the_least_recent_goes_first():
    ways = RadioRoutes(nodes_max=2)
    for number, name in enumerate(("x", "y", "x", "z"), start=1):
        ways.learn(name, "a", number)
    assert len(ways) == 2
    assert (ways.to("x"), ways.to("y"), ways.to("z")) == ("a", None, "a")


def test_a_sighting_counts_from_when_its_beacon_was_sent():
    sightings = KnownLeaders(leaders_max=10, lost_s=3.5)
    assert sightings.note(Beacon("b", 0.5, 1, 1, 0, age_s=3.0), now=10.0)
    assert sightings.best(10.4) is not None
    assert sightings.best(10.5) is None
    assert not sightings.note(Beacon("b", 0.5, 1, 2, 0, age_s=3.5), now=10.5)


def test_sightings_are_bounded():
    sightings = KnownLeaders(leaders_max=3, lost_s=3.5)
    for number in range(10):
        sightings.note(Beacon(f"b{number}", 0.5, 1, 1, 0), now=1.0)
    assert len(sightings) == 3


def test_what_waits_twice_is_put_in_each_senders_order_once():
    def item(publisher, sequence):
        return QueuedEvent(0, Event({}, publisher=publisher, sequence=sequence), ("s",), 0.0)

    mixed = [item("p", 4), item("q", 1), item("p", 5), item("p", 2), item("q", 1), item("p", 3)]
    assert [one.event.id for one in in_sender_order(mixed)] == [("p", 2), ("q", 1), ("p", 3), ("p", 4), ("p", 5)]


# ---------------------------------------------------------------- election


def test_a_device_alone_does_not_lead_and_its_client_keeps_what_it_says():
    net = world(a=0.5, b=0.5)
    net.subscribe("b", "s", TRUE)
    net.publish("a", {"x": 1})
    net.run(60)
    assert net.leaders(["a", "b"]) == []
    net.set_links([("a", "b")])
    net.run(30)
    assert list(net.delivered["b"]) == [("a", 1)]


def test_the_device_of_the_highest_priority_is_elected():
    net = world(a=0.1, b=0.4, c=1.0, d=0.7)
    net.set_links(row("a", "b", "c", "d"))
    net.run(30)
    assert net.leaders("abcd") == ["c"]
    assert net.counts["elected"] == 1


def test_of_equals_exactly_one_is_elected():
    names = "abcdefgh"
    net = world(**dict.fromkeys(names, 0.5))
    net.set_links(row(*names))
    net.run(30)
    net.check_islands()
    assert len(net.leaders(names)) == 1
    assert net.violations == []


def test_a_better_device_that_comes_later_follows_who_leads_already():
    net = world(a=0.1, b=0.1, z=1.0)
    net.set_links([("a", "b")])
    net.run(20)
    [leader] = net.leaders("ab")
    net.set_links([("a", "b"), ("b", "z")])
    net.run(20)
    assert net.leaders("abz") == [leader]
    assert net.node("z").leader == leader


def test_a_leader_without_beacons_is_lost_and_another_elected():
    net = world(a=1.0, b=0.5, c=0.2)
    net.set_links([("a", "b"), ("a", "c"), ("b", "c")])
    net.run(20)
    net.set_links([("b", "c")])
    net.run(3)
    assert net.node("b").leader == "a"
    net.run(17)
    assert net.leaders("bc") == ["b"]
    assert net.node("c").leader == "b"


def test_a_leader_that_is_left_alone_gives_up_when_the_last_lease_has_ended():
    net = world(a=1.0, b=0.5)
    net.subscribe("b", "s", TRUE)
    net.set_links([("a", "b")])
    net.run(20)
    net.set_links([])
    net.publish("a", {"x": 1})
    net.run(CONFIG.lease_s - 5)
    assert net.node("a").is_leading
    net.run(10)
    assert not net.node("a").is_leading
    assert net.excused == {("b", ("a", 1)): "the lease has expired"}
    assert not net.node("a").device.circuits


def test_an_event_broker_to_which_nobody_comes_takes_nothing_and_its_client_keeps_what_it_says():
    net = world(a=1.0, b=0.5)
    net.subscribe("b", "s", TRUE)
    net.world.nodes["a"].wires["b"].set_faults(blocked=True)  # b is in range, and hears nothing of a
    net.set_links([("a", "b")])
    net.publish("a", {"x": 1})
    while not net.node("a").is_leading:
        net.run(0.1)
    net.run(2 * CONFIG.gather_s)
    assert net.client("a").unanswered()
    net.set_links([])  # its link is lost at last
    net.run(2 * CONFIG.gather_s)
    assert not net.node("a").is_leading
    net.world.nodes["a"].wires["b"].set_faults()
    net.set_links([("a", "b")])
    net.run(30)
    assert list(net.delivered["b"]) == [("a", 1)]


def test_an_event_broker_whose_neighbours_never_come_takes_events_in_the_end():
    net = world(a=1.0, b=0.5)
    net.world.nodes["a"].wires["b"].set_faults(blocked=True)
    net.set_links([("a", "b")])
    net.subscribe("a", "s", TRUE)
    net.publish("a", {"x": 1})
    net.run(CONFIG.search_s + CONFIG.spread_s + (GATHERS_MAX + 1) * CONFIG.gather_s)
    assert list(net.delivered["a"]) == [("a", 1)]


def test_what_comes_when_the_time_of_gathering_is_over_does_not_overtake_what_was_held():
    """A busy machine handles what has come before a timer that is due."""
    one = node()
    one.handle(LinkUp("b"), 0.0)
    one.handle(TimerDue(("declare",)), 5.0)
    one.ask(lambda client: client.publish({"x": 1}, 5.1), 5.1)
    late = 5.0 + 2 * CONFIG.gather_s
    one.ask(lambda client: client.publish({"x": 2}, late), late)
    assert one.device.own is not None
    assert [message.wish.event.attributes["x"] for message in one.device.own.held] == [1, 2]


def test_a_leader_knows_who_has_not_heard_its_answers_until_they_have():
    net = world(a=1.0, b=0.5)
    net.set_links([("a", "b")])
    net.subscribe("a", "s", TRUE)
    net.run(20)
    device = net.node("a").device
    assert device.unheard() == set()
    net.publish("b", {"x": 1})
    while not net.delivered["a"]:
        net.run(0.001)
    net.set_links([])  # the answer is on its way
    unheard = device.unheard()
    assert unheard == {"b"}
    net.run(5)
    unheard = device.unheard(unheard)
    assert unheard == {"b"}
    net.set_links([("a", "b")])
    while unheard := device.unheard(unheard):
        net.run(0.001)
    assert not net.client("b").unanswered()
    assert list(net.delivered["a"]) == [("b", 1)]


# ---------------------------------------------------------------- relaying


def test_what_is_beyond_range_is_relayed_both_ways():
    names = [f"n{k}" for k in range(12)]
    net = AdHocWorld(1, {name: AdHocConfig(priority=1.0 if name == "n0" else 0.1) for name in names})
    net.subscribe("n11", "s", parse("x > 1"))
    net.set_links(row(*names))
    net.run(30)
    assert net.leaders(names) == ["n0"]
    net.publish("n10", {"x": 2})
    net.publish("n10", {"x": 0})
    net.run(2)
    assert list(net.delivered["n11"]) == [("n10", 1)]


def test_nothing_goes_further_than_the_bound_of_hops():
    one = node(hops_max=3)
    for peer in ("a", "b"):
        one.handle(LinkUp(peer), 0.0)
    one.handle(arrived("b", Beacon("far", 0.5, 1, 7, 1)), 0.1)
    for hops, expected in ((2, 1), (3, 0)):
        relayed = Relayed("x", "far", 10 + hops, hops, Poll(("x", 1)))
        assert len(sent(one.handle(arrived("a", relayed), 0.2), Relayed)) == expected
        assert len(sent(one.handle(arrived("a", Beacon(f"l{hops}", 0.5, 1, 1, hops)), 0.2), Beacon)) == expected


def test_a_beacon_is_passed_on_once_and_not_back():
    one = node()
    for peer in ("a", "b", "c"):
        one.handle(LinkUp(peer), 0.0)
    beacon = Beacon("far", 0.5, 1, 7, 0)
    assert [peer for peer, _ in sent(one.handle(arrived("a", beacon), 0.1), Beacon)] == ["b", "c"]
    assert sent(one.handle(arrived("b", beacon), 0.1), Beacon) == []


def test_a_newcomer_is_told_of_leaders_with_the_age_of_their_beacons():
    one = node()
    one.handle(LinkUp("a"), 0.0)
    one.handle(arrived("a", Beacon("far", 0.5, 1, 7, 0)), 1.0)
    [(_, told)] = sent(one.handle(LinkUp("b"), 3.0), Beacon)
    assert (told.leader, told.hops, told.age_s) == ("far", 1, 2.0)
    assert sent(one.handle(LinkUp("c"), 5.0), Beacon) == []


# ---------------------------------------------------------------- leases


def test_a_lease_is_kept_up_by_polls():
    net = world(a=1.0, b=0.5)
    net.subscribe("b", "s", TRUE)
    net.set_links([("a", "b")])
    net.run(10 * CONFIG.lease_s)
    assert net.check_islands() == 1
    assert net.violations == []
    assert "session_ended" not in net.counts


def test_a_lease_ends_and_leaves_nothing():
    net = world(a=1.0, b=0.5, c=0.5)
    for name in "abc":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("a", "c")])
    net.run(20)
    net.set_links([("a", "b")])
    net.run(CONFIG.lease_s + 5)
    broker = net.node("a").broker
    assert broker is not None
    assert [session.client for session in broker.sessions] == ["a", "b"]
    assert broker.table_sizes()["in_subs"] == 2
    assert "c" not in net.node("a").device.served


def test_a_client_that_comes_back_within_its_lease_gets_what_waited():
    net = world(a=1.0, b=0.5, c=0.5)
    net.subscribe("c", "s", TRUE)
    net.set_links([("a", "b"), ("a", "c")])
    net.run(20)
    net.set_links([("a", "b")])
    net.publish("b", {"x": 1})
    net.run(20)
    net.set_links([("a", "b"), ("b", "c")])
    net.run(5)
    assert list(net.delivered["c"]) == [("b", 1)]
    assert net.client("c").receipts[-1].replayed == 1


# ---------------------------------------------------------------- merging


def test_a_leader_that_hears_another_and_is_not_heard_goes_on_leading():
    net = world(a=0.9, b=0.1, y=0.5, z=0.1)
    for name in "abyz":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("y", "z")])
    net.run(20)
    assert net.leaders("abyz") == ["a", "y"]
    links = [("a", "b"), ("y", "z"), ("b", "z")]
    net.set_links(links)
    net.world.nodes["z"].wires["b"].set_faults(blocked=True)  # a is heard, and what y sends to it never arrives
    net.run(25)
    assert net.leaders("abyz") == ["a", "y"]
    net.publish("z", {"x": 1})
    net.run(1)
    assert ("z", 1) in net.delivered["y"]
    net.world.nodes["z"].wires["b"].set_faults()
    net.run(30)
    assert net.leaders("abyz") == ["a"]
    net.check_islands()
    net.judge()
    assert net.violations == []


def test_a_hand_over_that_arrives_and_whose_answer_is_lost_doubles_nothing():
    net = world(a=0.9, b=0.1, y=0.5, z=0.1)
    for name in "abyz":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("y", "z")])
    net.run(20)
    net.set_links([("a", "b"), ("y", "z"), ("b", "z")])
    while "merged" not in net.counts:
        net.run(0.001)
    net.set_links([("a", "b"), ("y", "z")])  # Merged is on its way
    for k in range(20):
        net.publish("z", {"x": k})
        net.run(1)
    assert net.leaders("abyz") == ["a", "y"]
    assert len(net.delivered["y"]) == 20
    net.set_links([("a", "b"), ("y", "z"), ("b", "z")])
    net.run(30)
    net.check_islands()
    net.judge()
    assert net.violations == []
    assert net.leaders("abyz") == ["a"]


def test_a_hand_over_that_breaks_off_is_given_up_and_everything_goes_on():
    net = world(a=0.9, b=0.1, y=0.5, z=0.1)
    for name in "abyz":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("y", "z")])
    net.run(20)
    net.set_links([("a", "b"), ("y", "z"), ("b", "z")])
    while net.node("y").successor is None:
        net.run(0.001)
    net.set_links([("a", "b"), ("y", "z")])
    net.publish("z", {"x": 1})
    net.run(CONFIG.lost_s + 3)
    assert net.node("y").is_leading
    assert net.node("y").successor is None
    assert list(net.delivered["y"]) == [("z", 1)]
    net.run(30)
    net.check_islands()
    net.judge()
    assert net.violations == []


def test_many_islands_that_meet_at_once_become_one():
    names = [f"n{k}" for k in range(12)]
    net = AdHocWorld(3, {name: AdHocConfig(priority=k % 4 / 4) for k, name in enumerate(names)})
    for name in names:
        net.subscribe(name, "s", TRUE)
    pairs = [pair for k, pair in enumerate(row(*names)) if k % 2 == 0]
    net.set_links(pairs)
    net.run(30)
    assert len(net.leaders(names)) == 6
    net.set_links(row(*names))
    for k in range(40):
        net.publish(names[k % 12], {"x": k})
        net.run(1)
    net.run(10)
    net.check_islands()
    net.judge()
    assert net.violations == []
    assert len(net.leaders(names)) == 1
    assert net.excused == {}


# ---------------------------------------------------------------- what it puts up with

BAD_RADIO = [
    None,
    "hello",
    Hello(1, 0, 0, 1, False),
    a_frame(1, 0, None),
    a_beacon(7, 0.5, 1, 1, 0),
    a_beacon("", 0.5, 1, 1, 0),
    a_beacon("x" * 1_000, 0.5, 1, 1, 0),
    a_beacon("b", "high", 1, 1, 0),
    a_beacon("b", float("nan"), 1, 1, 0),
    a_beacon("b", 0.5, 1, -1, 0),
    a_beacon("b", 0.5, 1, 2**70, 0),
    a_beacon("b", 0.5, 1, 1, "no"),
    a_beacon("b", 0.5, 1, 1, 0, age_s=float("inf")),
    a_beacon("b", 0.5, 1, 1, 0, successor=None),
    a_beacon("b", 0.5, 1, 1, 0, successor="x" * 257),
    a_relayed("x", "n", 1, 0, "body"),
    a_relayed("x", None, 1, 0, a_poll(("x", 1))),
    a_relayed("x", "n", True, 0, a_poll(("x", 1))),
]


@pytest.mark.parametrize("bad", BAD_RADIO, ids=repr)
def test_a_malformed_message_closes_the_link_to_who_sent_it_and_nothing_else(bad):
    one = node()
    for peer in ("a", "b"):
        one.handle(LinkUp(peer), 0.0)
    effects = one.handle(arrived("a", bad), 0.1)
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["a"]
    assert list(one.device.neighbours) == ["b"]
    assert one.handle(arrived("a", Beacon("z", 0.5, 1, 1, 0)), 0.2) == []
    one.handle(arrived("b", Beacon("z", 0.5, 1, 1, 0)), 0.2)
    assert one.leader == "z"


def test_a_successor_may_have_a_name_of_the_greatest_length():
    one = node()
    one.handle(LinkUp("a"), 0.0)
    effects = one.handle(arrived("a", Beacon("z", 0.5, 1, 1, 0, successor="x" * 256)), 0.1)
    assert not any(isinstance(effect, Close) for effect in effects)


def leading() -> AdHocNode:
    one = node(priority=1.0, members_max=4)
    one.handle(LinkUp("a"), 0.0)
    one.handle(TimerDue(("declare",)), 2.0)
    assert one.is_leading
    return one


BAD_BODIES = [
    a_poll(None),
    a_poll(("x",)),
    a_poll(("x", "1")),
    a_hangup(("x", 1), None),
    a_carried(("x", 1), None),
    a_carried(("x", 1), Delivery(1, Event({}), ())),
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=repr)
def test_a_malformed_body_is_ignored_and_recorded(body):
    one = leading()
    effects = one.handle(arrived("a", Relayed("x", "n", 5, 0, body)), 3.0)
    assert [effect.record.kind for effect in effects if isinstance(effect, Trace)] == ["fault"]


BAD_FRAMES = [
    an_ack(99),
    Goodbye("bye"),
    a_frame(9_999, 0, None),
    a_frame(1, 0, "nothing"),
    a_frame(1, 0, Attach("somebody else")),
    a_frame(1, 0, Received(1)),
    a_frame(1, 0, a_merge((30.0,))),
    a_frame(1, 0, a_merge("none")),
    a_frame(1, 0, a_merge((float("nan"),))),
    a_frame(1, 0, a_replay("x", "n", 1, None, (), True)),
    a_frame(1, 0, a_replay("x", "", 1, None, (), True)),
]


@pytest.mark.parametrize("frame", BAD_FRAMES, ids=repr)
def test_a_malformed_frame_ends_its_circuit_and_no_other(frame):
    one = leading()
    for number, who in enumerate(("x", "y"), start=5):
        one.handle(arrived("a", Relayed(who, "n", number, 0, Carried((who, 1), Hello(1, 0, 0, 1, False)))), 3.0)
    assert {"x#1", "y#1"} <= set(one.device.circuits)
    effects = one.handle(arrived("a", Relayed("x", "n", 9, 0, Carried(("x", 1), frame))), 3.1)
    assert "x#1" not in one.device.circuits
    assert "y#1" in one.device.circuits
    assert any(type(message.body) is Hangup for _, message in sent(effects, Relayed))
    assert one.broker is not None
    assert [session.client for session in one.broker.sessions] == ["n"]


def test_no_device_takes_the_session_of_an_island():
    one = leading()
    one.handle(arrived("a", Relayed("z/", "n", 5, 0, Carried(("z/", 1), Hello(1, 0, 0, 1, False)))), 3.0)
    one.handle(arrived("a", Relayed("z/", "n", 6, 0, Carried(("z/", 1), Frame(1, 0, Attach("z/"))))), 3.1)  # type: ignore[arg-type]
    assert "z/#1" not in one.device.circuits
    assert one.broker is not None
    assert [session.client for session in one.broker.sessions] == ["n"]


def test_who_polls_and_is_unknown_is_told_so():
    one = leading()
    [(peer, answer)] = sent(one.handle(arrived("a", Relayed("x", "n", 5, 0, Poll(("x", 3)))), 3.0), Relayed)
    assert (peer, answer.target, answer.body.circuit) == ("a", "x", ("x", 3))
    assert type(answer.body) is Hangup
    assert sent(one.handle(arrived("a", Relayed("x", "n", 6, 0, Hangup(("x", 3), ""))), 3.0), Relayed) == []


def test_neighbours_and_members_are_bounded():
    one = node(neighbours_max=2)
    effects = [effect for peer in "abc" for effect in one.handle(LinkUp(peer), 0.0)]
    assert [effect.peer for effect in effects if isinstance(effect, Close)] == ["c"]
    two = leading()
    for number in range(20):
        hello = Carried((f"x{number}", 1), Hello(1, 0, 0, 1, False))
        two.handle(arrived("a", Relayed(f"x{number}", "n", 5, 0, hello)), 3.0)
    assert len(two.device.served) == len(two.device.circuits) == 4  # with its own


def test_a_device_holds_one_circuit_of_another_at_most():
    one = leading()
    for number in (1, 3, 2):
        hello = Carried(("x", number), Hello(1, 0, 0, 1, False))
        one.handle(arrived("a", Relayed("x", "n", 5 + number, 0, hello)), 3.0)
    assert [name for name in one.device.circuits if name.startswith("x")] == ["x#3"]


def test_numbers_of_a_new_life_are_above_those_of_the_last():
    first, second = (AdHocNode("n", Client("n"), CONFIG, incarnation) for incarnation in (1, 2))
    for one in (first, second):
        one.handle(LinkUp("a"), 0.0)
        one.handle(TimerDue(("declare",)), 2.0)
    assert second.device.number > first.device.number + LIFE / 2


def test_a_device_can_be_kept_and_go_on():
    one = leading()
    other = deepcopy(one)
    beacon = arrived("a", Beacon("z", 1.0, 1, 1, 0))
    assert one.handle(beacon, 3.0) == other.handle(beacon, 3.0)
    assert one.handle(TimerDue(("tick",)), 4.0) == other.handle(TimerDue(("tick",)), 4.0)


def test_a_device_that_hears_nobody_runs_no_timers():
    one = node()
    effects = one.handle(LinkUp("a"), 0.0)
    assert {effect.key for effect in effects if isinstance(effect, StartTimer)} == {("tick",), ("declare",)}
    one.handle(LinkDown("a"), 1.0)
    assert one.handle(TimerDue(("tick",)), 1.5) == []
    assert one.handle(TimerDue(("declare",)), 5.0) == []


@pytest.mark.parametrize(
    "settings",
    [{"priority": 1.5}, {"beacon_s": 0}, {"lost_s": 0.5}, {"lease_s": 3.0}, {"members_max": -1}, {"priority": -0.1}],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        AdHocConfig(**settings)


def test_islands_are_what_can_be_reached():
    assert islands_of("abcd", [("a", "b"), ("b", "c")]) == {
        **dict.fromkeys("abc", ("a", "b", "c")),
        "d": ("d",),
    }
