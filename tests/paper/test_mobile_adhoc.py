"""Ad hoc networks, sentence by sentence. [mobile §3.1, the last two paragraphs; claim H6]"""

from typing import Any

from godwit.adhoc.device import AdHocConfig
from godwit.filters import parse
from godwit.filters.filters import TRUE
from godwit.simulator.adhoc_world import AdHocWorld

CONFIG = AdHocConfig()


def network(meeting: Any = "merge", **priorities: float) -> AdHocWorld:
    configs = {name: AdHocConfig(priority=priority, meeting=meeting) for name, priority in priorities.items()}
    return AdHocWorld(1, configs)


def held_by(net: AdHocWorld, leader: str) -> dict[str, list[str]]:
    """The subscriptions that an event broker has, by client."""
    broker = net.node(leader).broker
    assert broker is not None
    return {session.client: list(session.subscriptions) for session in broker.sessions}


def test_devices_talk_to_each_other_without_a_fixed_network():
    """ "formed by wireless devices wanting to talk to each other without the benefit of a fixed network" """
    net = network(sensor=0.2, soldier=0.6)
    net.subscribe("soldier", "tanks", parse("kind = 'tank' AND distance < 10"))
    net.set_links([("sensor", "soldier")])
    net.run(10)
    net.publish("sensor", {"kind": "tank", "distance": 3})
    net.publish("sensor", {"kind": "tank", "distance": 30})
    net.run(1)
    assert list(net.delivered["soldier"]) == [("sensor", 1)]


def test_the_event_broker_is_one_of_the_mobile_devices():
    """ "the central EB must also be mobile" """
    net = network(a=0.2, b=0.9, c=0.5)
    net.set_links([("a", "b"), ("b", "c")])
    net.run(20)
    assert net.leaders("abc") == ["b"]


def test_we_can_not_assume_that_it_is_always_connected():
    """ "we can no longer assume that it is always connected": what is published without it waits, and comes later."""
    net = network(a=0.2, b=0.9, c=0.5)
    net.subscribe("c", "s", TRUE)
    net.set_links([("a", "b"), ("b", "c"), ("a", "c")])
    net.run(20)
    net.set_links([("a", "c")])
    net.run(1)
    net.publish("a", {"x": 1})
    net.run(1)
    assert list(net.delivered["c"]) == []
    net.run(20)
    assert list(net.delivered["c"]) == [("a", 1)]


def test_a_source_first_searches_for_an_event_broker_that_is_there():
    """ "When an Event Source wants to publish, it must first search for an existing EB." """
    net = network(a=0.2, b=0.9, source=1.0)
    net.subscribe("a", "s", TRUE)
    net.set_links([("a", "b")])
    net.run(20)
    net.publish("source", {"x": 1})
    net.run(1)
    assert net.client("source").outbox.events == 1
    net.set_links([("a", "b"), ("a", "source")])
    net.run(1)
    assert net.node("source").leader == "b"
    assert list(net.delivered["a"]) == [("source", 1)]
    assert net.counts["elected"] == 1


def test_when_none_is_found_one_is_elected():
    """ "If one cannot be found, a new EB might have to be elected." """
    net = network(a=0.2, b=0.9, c=0.5)
    net.subscribe("c", "s", TRUE)
    net.set_links([("a", "b"), ("b", "c"), ("a", "c")])
    net.run(20)
    net.set_links([("a", "c")])  # b has gone out of reach
    net.run(20)
    assert net.leaders("ac") == ["c"]
    net.publish("a", {"x": 1})
    net.run(1)
    assert ("a", 1) in net.delivered["c"]


def test_a_displayer_polls_and_refreshes_its_subscriptions():
    """ "an Event Displayer must periodically poll the EB and refresh its subscription information" """
    net = network(a=0.9, displayer=0.2)
    net.subscribe("displayer", "s", TRUE)
    net.set_links([("a", "displayer")])
    net.run(5 * CONFIG.lease_s)
    assert held_by(net, "a")["displayer"] == ["s"]


def test_otherwise_what_it_wants_would_be_forgotten(monkeypatch):
    """The same without polls: the lease ends."""
    monkeypatch.setattr("godwit.adhoc.adhoc_node.AdHocNode._poll", lambda self: None)
    net = network(a=0.9, displayer=0.2)
    net.subscribe("displayer", "s", TRUE)
    net.set_links([("a", "displayer")])
    net.run(10)
    assert "displayer" in held_by(net, "a")
    net.run(CONFIG.lease_s + 1)
    assert "displayer" not in held_by(net, "a")


def test_a_new_event_broker_comes_to_know_the_subscriptions_of_all():
    """ "the old EB could have gone out of reach and a new EB elected without knowing about this ED's subscription" """
    net = network(a=0.9, b=0.5, displayer=0.2)
    net.subscribe("displayer", "s", TRUE)
    net.set_links([("a", "b"), ("b", "displayer"), ("a", "displayer")])
    net.run(20)
    net.set_links([("b", "displayer")])
    net.run(20)
    assert held_by(net, "b")["displayer"] == ["s"]


def test_one_event_broker_becomes_aware_of_another_and_they_are_combined_into_one():
    """ "when two previously partitioned wireless subnets come into physical proximity … a merging protocol might have
    to be invoked to combine them into one central EB" """
    net = network(a=0.9, b=0.2, c=0.2, d=0.6)
    for name in "abcd":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("c", "d")])
    net.run(20)
    assert net.leaders("abcd") == ["a", "d"]
    net.set_links([("a", "b"), ("b", "c"), ("c", "d")])
    net.run(5)
    assert net.leaders("abcd") == ["a"]
    assert held_by(net, "a") == {name: ["s"] for name in "abcd"}
    net.publish("d", {"x": 1})
    net.run(1)
    assert all(("d", 1) in net.delivered[name] for name in "abcd")


def test_merging_loses_nothing_and_doubles_nothing_while_everybody_goes_on_publishing():
    net = network(a=0.9, b=0.2, c=0.2, d=0.6)
    for name in "abcd":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("c", "d")])
    net.run(20)
    net.set_links([("a", "b"), ("b", "c"), ("c", "d")])
    for _ in range(200):
        for name in "abcd":
            net.publish(name, {"x": 1})
        net.run(0.025)
    net.run(20)
    net.judge()
    assert net.violations == []
    assert net.excused == {}
    for name in "cd":  # who were with the one that gave up get all that the others of their island said
        assert [number for publisher, number in net.delivered[name] if publisher == "c"] == list(range(1, 201))
        assert [number for publisher, number in net.delivered[name] if publisher == "d"] == list(range(1, 201))


def test_alternatively_both_operate_in_a_coordinated_fashion():
    """ "Alternatively, both could operate in a coordinated fashion as discussed in Section 4." """
    net = network("coordinate", a=0.9, b=0.2, c=0.2, d=0.6)
    for name in "abcd":
        net.subscribe(name, "s", parse("x = 1") if name in "ac" else TRUE)
    net.set_links([("a", "b"), ("c", "d")])
    net.run(20)
    net.set_links([("a", "b"), ("b", "c"), ("c", "d")])
    net.run(30)
    assert net.leaders("abcd") == ["a", "d"]
    assert held_by(net, "a") == {"a": ["s"], "b": ["s"]}
    assert held_by(net, "d") == {"c": ["s"], "d": ["s"]}
    for name in "bc":
        net.publish(name, {"x": 1})
        net.publish(name, {"x": 2})
    net.run(2)
    net.check_islands()
    net.judge()
    assert net.violations == []
    for name in "abcd":
        assert len(net.delivered[name]) == (2 if name in "ac" else 4)
    net.set_links([("a", "b"), ("c", "d")])  # and when they part again nothing of the other is left
    net.run(CONFIG.lost_s + 40)
    for leader in "ad":
        broker = net.node(leader).broker
        assert broker is not None
        assert broker.neighbours == ()
        assert broker.table_sizes()["in_subs"] == 2


def test_three_that_coordinate_form_a_tree():
    net = network("coordinate", a=0.9, b=0.2, c=0.2, d=0.6, e=0.3, f=0.1)
    for name in "abcdef":
        net.subscribe(name, "s", TRUE)
    net.set_links([("a", "b"), ("c", "d"), ("e", "f")])
    net.run(20)
    assert net.leaders("abcdef") == ["a", "d", "e"]
    net.set_links([("c", "d"), ("d", "e"), ("e", "f")])
    net.run(20)
    assert net.node("e").device.trunk is not None
    net.set_links([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")])  # a ring
    net.run(40)
    for name in "abcdef":
        net.publish(name, {"x": 1})
    net.run(3)
    net.check_islands()
    net.judge()
    assert net.violations == []
    assert all(len(got) == 6 for got in net.delivered.values())


def test_a_partition_that_heals_brings_no_duplicates():
    net = network(a=0.9, b=0.2, c=0.2, d=0.6)
    for name in "abcd":
        net.subscribe(name, "s", TRUE)
    whole, parted = [("a", "b"), ("b", "c"), ("c", "d")], [("a", "b"), ("c", "d")]
    for links, seconds in ((whole, 20), (parted, 20), (whole, 20)):
        net.set_links(links)
        for _ in range(seconds):
            for name in "abcd":
                net.publish(name, {"x": 1})
            net.run(1)
    net.run(10)
    net.judge()
    assert net.violations == []
    assert (net.duplicated, net.out_of_order) == (0, 0)
