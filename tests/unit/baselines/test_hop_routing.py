"""Matching at every hop, beside its laws and the paper's sentences: faults, bounds, restarts, brokers around it."""

from functools import partial
from typing import Any

import pytest

from godwit.baselines.hop_messages import (
    ContextBegins,
    ContextEnds,
    ContextPacket,
    SubscribePacket,
    UnsubscribePacket,
)
from godwit.baselines.hop_routing import HISTORY_MAX, Contexts, HopRouting
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.links import LinkConfig
from godwit.broker.messages import Publish
from godwit.broker.routing import Forward, Routing
from godwit.broker.topology import shortest_path_trees
from godwit.errors import PeerFault
from godwit.filters.contexts import of_sender
from godwit.filters.events import Event, event
from godwit.filters.filters import TRUE, all_of
from godwit.filters.language import parse
from godwit.matching import BddMatcher, IndexMatcher, NaiveMatcher
from tests.paper.roaming_world import Roaming
from tests.property.routing_network import HopNetwork
from tests.raw_messages import read

LINE = (("a", "b", 1.0), ("b", "c", 1.0))
RING = (("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0), ("d", "a", 1.0))
ID = ("s", "1")


def line() -> HopNetwork:
    """A subscriber at c, in context {n: 1}, who wants x >= 1 of publishers in {n: 2}, of whom one is at a."""
    network = HopNetwork(LINE)
    network.set_context("p", {"n": 2}, "a")
    network.set_context("s", {"n": 1}, "c")
    network.settle()
    network.subscribe("s", all_of(parse("x >= 1"), of_sender(parse("n = 2"))), "1")
    network.settle().messages()
    return network


def test_it_is_a_routing_and_answers_what_it_does_not_do_with_nothing() -> None:
    routing: Routing = HopRouting("b", ["a", "c"], LINE)
    assert routing.advertise(ID, TRUE, 0.0) == routing.unadvertise(ID, 0.0) == routing.unsubscribe(ID, 0.0) == []
    assert routing.on_peer_up("a", 0.0) == routing.on_peer_down("a", 0.0) == []
    assert not routing.set_context("nobody", None, 0.0)
    assert not routing.held_back()
    assert routing.wanted() == [TRUE]  # somebody may want what nobody has told us yet
    assert not HopRouting("b", ["a", "c"], LINE, strategy="gsf").wanted()
    assert routing.is_whole()
    assert routing.is_settled()
    assert not sum(routing.sizes().values())


def test_the_overlay_must_be_one_and_have_the_brokers_links() -> None:
    with pytest.raises(ValueError, match=r"links a to \['b'\], but its neighbours are \['b', 'c'\]"):
        HopRouting("a", ["b", "c"], LINE)
    for wrong, why in [
        ((("a", "a", 1.0),), "two brokers"),
        ((("a", "", 1.0),), "with names"),
        ((("a", "b", 0.0),), "costs 0.0"),
        ((("a", "b", 1.0), ("b", "a", 1.0)), "one at most"),
    ]:
        with pytest.raises(ValueError, match=why):
            shortest_path_trees(wrong)
    assert shortest_path_trees(()) == {}


def test_a_broker_alone_serves_its_own_clients() -> None:
    for strategy in ("spcf", "gsf"):
        routing = HopRouting("a", [], (), strategy=strategy)
        assert routing.subscribe(ID, parse("x = 1"), 0.0) == []
        [local] = routing.publish(event({"x": 1}, publisher="p", sequence=1), 0.0)
        assert local.subscriptions == [ID]  # type: ignore[union-attr]
        assert routing.hops_max() == 0


def test_where_the_overlay_falls_apart_each_part_works() -> None:
    network = HopNetwork([("a", "b", 1.0), ("c", "d", 1.0)], strategy="gsf")
    network.homes |= {"p": "a", "s": "b", "t": "d"}
    network.subscribe("s", TRUE)
    network.subscribe("t", TRUE)
    network.settle()
    published = network.publish("p", x=1)
    network.settle()
    assert network.got(published) == [("s", "s")]


def test_a_client_of_whom_nothing_was_said_is_in_the_empty_context() -> None:
    network = HopNetwork(LINE)
    network.homes |= {"p": "a", "s": "c"}
    network.subscribe("s", of_sender(parse("n IS NULL")))
    network.settle()
    first = network.publish("p", x=1)
    network.settle()
    assert network.got(first) == [("s", "s")], "its context was none of a's: it went to everyone"
    assert [message.context for _, _, message in network.messages(ContextPacket)] == [0, 0]
    second = network.publish("p", x=1)
    network.settle()
    assert network.got(second) == [("s", "s")]
    assert [message.context for _, _, message in network.messages(ContextPacket)] == [1, 1]


def test_an_event_of_a_context_that_is_over_goes_to_everyone_and_only_who_wants_it_gets_it() -> None:
    network = line()
    old = event({"x": 1, "sender.n": 2}, publisher="p", sequence=99)
    network.set_context("p", {"n": 3})
    network.settle().messages()
    network.carry_out("a", network.brokers["a"].publish(old, 0.0))
    network.settle()
    assert [(a, b) for a, b, _ in network.messages(ContextPacket)] == [("a", "b"), ("b", "c")]
    assert network.got(old) == [("s", "1")]


def test_an_event_right_after_its_context_may_miss_somebody_and_a_later_one_does_not() -> None:
    """The window of the paper's protocol: what the head of hops.py says in Departures 6."""
    network = line()
    network.set_context("p", {"n": 3})
    network.subscribe("s", of_sender(parse("n = 3")), "3")
    early = network.publish("p", x=1)
    network.settle()
    late = network.publish("p", x=1)
    network.settle()
    assert (network.got(early), network.got(late)) == ([], [("s", "3")])


def test_a_subscription_that_changes_whom_it_asks_for_leaves_those_it_asks_no_longer() -> None:
    network = line()
    network.set_context("q", {"n": 3}, "b")
    network.settle().messages()
    network.subscribe("s", all_of(parse("x >= 2"), of_sender(parse("n = 3"))), "1")
    sent = [(a, b, type(message)) for a, b, message in network.settle().messages()]
    assert sent == [("c", "b", UnsubscribePacket), ("c", "b", SubscribePacket), ("b", "a", UnsubscribePacket)]
    assert [network.brokers[name].sizes()["content"] for name in "abc"] == [0, 1, 0]
    network.subscribe("s", all_of(parse("x >= 2"), of_sender(parse("n = 3"))), "1")
    assert network.messages() == [], "the same again"


@pytest.mark.parametrize("matcher", [IndexMatcher, NaiveMatcher, BddMatcher])
def test_any_matcher_may_hold_the_rows(matcher: Any) -> None:
    for matcher_from in (0, 2, 1_000):
        network = HopNetwork(LINE, matcher=matcher, matcher_from=matcher_from)
        network.set_context("p", {}, "a")
        network.set_context("s", {}, "c")
        network.settle()
        for least in range(5):
            network.subscribe("s", parse(f"x >= {least}"), f"{least}")
            published = network.publish("p", x=least)
            network.settle()
        network.unsubscribe("s", "0")
        network.subscribe("s", parse("x >= 9"), "1")
        network.settle()
        published = network.publish("p", x=3)
        network.settle()
        assert network.got(published) == [("s", "2"), ("s", "3")]
        nothing = network.publish("p", x=1)
        network.settle()
        assert (network.got(nothing), network.visits[nothing.id]) == ([], [])


def test_a_restart_with_its_disk_changes_nothing() -> None:
    network = line()
    for name in "abc":
        network.restart(name)
    published = network.publish("p", parse("n = 1"), x=1)
    network.settle()
    assert network.got(published) == [("s", "1")]
    assert {name: broker.sizes()["content"] for name, broker in network.brokers.items()} == {"a": 1, "b": 1, "c": 0}


def test_a_neighbour_that_has_lost_its_memory_is_not_called_settled_and_breaks_nothing() -> None:
    network = line()
    waiting = ContextEnds("a", 1)
    assert network.brokers["a"].on_peer_forgot("b", [waiting], 0.0) == [Forward("b", waiting)]  # type: ignore[arg-type]
    assert not network.brokers["a"].is_settled()
    network.brokers["b"] = HopRouting("b", ["a", "c"], LINE)
    published = network.publish("p", parse("n = 1"), x=1)
    network.settle()
    assert network.got(published) == [("s", "1")], "b does not know the context, and passes it on to everyone"
    network.unsubscribe("s", "1")
    network.set_context("p", {"n": 5})
    network.set_context("s", None)
    network.settle()
    network.brokers["a"] = HopRouting("a", ["b"], LINE)  # counts its contexts anew
    network.set_context("p", {"n": 6})
    network.settle()
    assert list(network.brokers["c"].contexts["a"].live.values()) == [{"n": 5}, {"n": 6}]
    network.set_context("q", {"n": 7}, "a")
    network.settle()
    assert list(network.brokers["c"].contexts["a"].live.values()) == [{"n": 6}, {"n": 7}]


def test_a_link_that_is_given_up_anyway_gets_back_what_waited_for_it() -> None:
    waiting: Any = ContextEnds("a", 1)
    assert HopRouting("a", ["b"], LINE).on_link_dead("b", [waiting], 0.0) == [Forward("b", waiting)]


def test_only_the_last_changes_of_contexts_are_remembered() -> None:
    """Rule 3. Past them a subscription is kept that may be over: no event is lost by that."""
    asks = parse("n = 1")
    table = Contexts()
    table.begin(1, {"n": 1})
    since = table.changes
    assert table.have_matched_since(asks, since)
    table.begin(2, {"n": 1})
    table.end(1)
    assert table.have_matched_since(asks, since), "at no time without one"
    table.end(2)
    assert not table.have_matched_since(asks, since)
    table.begin(3, {"n": 1})
    assert not table.have_matched_since(asks, since), "it was without one"
    assert table.have_matched_since(asks, table.changes)
    for number in range(4, 4 + HISTORY_MAX):
        table.begin(number, {"n": 2})
    assert table.have_matched_since(asks, since)


# ------------------------------------------------------------ what no honest neighbour sends

EVENT = Event({"x": 1}, publisher="p", sequence=1)
SUBSCRIBE = SubscribePacket("c", 1, ID, TRUE, TRUE, {"a": 0})


@pytest.mark.parametrize(
    "message",
    [
        Publish(EVENT),
        None,
        ContextPacket("a", 1, Event({"x": b"1"})),  # type: ignore[dict-item]
        ContextPacket("a", -1, EVENT),
        ContextPacket("a", True, EVENT),
        ContextPacket("a", 1, EVENT, b""),
        ContextPacket("c", 1, EVENT),
        ContextPacket("nobody", 1, EVENT),
        ContextPacket(["a"], 1, EVENT),  # type: ignore[arg-type]
        ContextBegins("a", 0, {}),
        ContextBegins("a", 1, {"n": {}}),  # type: ignore[dict-item]
        ContextBegins("a", 1, {"n": [1, [2]]}),  # type: ignore[dict-item]
        ContextBegins("a", 1, {f"n{number}": 1 for number in range(200)}),
        ContextBegins("a", 1, None),  # type: ignore[arg-type]
        ContextBegins("c", 1, {}),
        ContextBegins("b", 1, {}),
        ContextEnds("a", 2**70),
        ContextEnds("c", 1),
        UnsubscribePacket("a", ID, ()),
        UnsubscribePacket("a", "1", ("c",)),  # type: ignore[arg-type]
        UnsubscribePacket("c", ID, ("a",)),
        UnsubscribePacket("a", ID, (["c"],)),  # type: ignore[arg-type]
        UnsubscribePacket({}, ID, ("c",)),  # type: ignore[arg-type]
        SubscribePacket("c", 1, ID, TRUE, TRUE, {"a": 0}),
        SubscribePacket("a", 1, ID, TRUE, TRUE, {"a": 0}),
        SubscribePacket("a", 1, ID, TRUE, TRUE, {"c": 0, "nobody": 0}),
        SubscribePacket("a", 1, ID, TRUE, TRUE, {}),
        SubscribePacket("a", 1, ID, TRUE, TRUE, ("c",)),  # type: ignore[arg-type]
        SubscribePacket("a", 1, ID, TRUE, TRUE, {"c": "0"}),  # type: ignore[dict-item]
        SubscribePacket("a", 0, ID, TRUE, TRUE, {"c": 0}),
        SubscribePacket("a", 1, ID, "x >", TRUE, {"c": 0}),  # type: ignore[arg-type]
        SubscribePacket("a", 1, ID, TRUE, parse("n = my.n"), {"c": 0}),
    ],
    ids=repr,
)
def test_what_no_honest_neighbour_sends_is_a_fault_and_changes_nothing(message: Any) -> None:
    routing = HopRouting("b", ["a", "c"], LINE)
    before = repr(routing.snapshot())
    with pytest.raises(PeerFault):
        routing.on_message("a", read(message), 0.0)
    assert repr(routing.snapshot()) == before


def test_what_a_neighbour_can_make_grow_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.baselines.hop_routing.ENTRIES_MAX", 2)
    monkeypatch.setattr("godwit.baselines.hop_routing.CONTEXTS_MAX", 2)
    routing = HopRouting("b", ["a", "c"], LINE)
    for number in (1, 2):
        routing.on_message("c", ContextBegins("c", number, {}), 0.0)
        routing.on_message("a", SubscribePacket("a", 1, ("s", str(number)), TRUE, TRUE, {"c": 1}), 0.0)
    with pytest.raises(PeerFault, match="contexts of c"):
        routing.on_message("c", ContextBegins("c", 3, {}), 0.0)
    with pytest.raises(PeerFault, match="subscriptions for one broker"):
        routing.on_message("a", SubscribePacket("a", 1, ("s", "3"), TRUE, TRUE, {"c": 1}), 0.0)


# ------------------------------------------------------------ brokers around it


def config(strategy: str) -> dict[str, Any]:
    overlay = tuple((f"B{a}", f"B{b}", 1.0) for a, b in ((1, 2), (2, 3), (3, 4), (4, 1)))
    return {
        "family": "fixed_hops",
        "strategy": strategy,
        "overlay": overlay,
        "advertisements": "off",
        "link": LinkConfig(dead_after_s=1.0),
    }


@pytest.mark.parametrize("strategy", ["spcf", "gsf"])
def test_brokers_deliver_in_order_and_once_over_links_and_brokers_that_stop_and_come_back(strategy: str) -> None:
    roam = Roaming("B1-B2 B2-B3 B3-B4 B4-B1", **config(strategy))
    assert isinstance(roam.broker("B1").routing, HopRouting)
    roam.come("P", "B1")
    roam.come("C", "B3")
    roam.subscribe("C")
    roam.settle()
    roam.publish("P", 1)
    roam.settle()
    roam.publish("P", *range(2, 10))
    for a, b in (("B1", "B2"), ("B1", "B4")):  # whichever the tree leads over
        roam.cut(a, b)
    roam.publish("P", *range(10, 20))
    roam.pass_time(10.0)
    for a, b in (("B1", "B2"), ("B1", "B4")):
        roam.join(a, b)
    for name in ("B2", "B4", "B3"):
        roam.publish("P", 20)
        roam.crash(name, keeps_disk=True)
        roam.publish("P", 21)
        roam.pass_time(2.0)
        roam.restart(name)
        roam.pass_time(2.0)
        for other in ("B1", "B3") if name != "B3" else ("B2", "B4"):
            roam.join(name, other)
    roam.join("C", "B3")
    roam.settle()
    assert roam.numbers("C", "P") == list(range(1, 26))
    assert not [record for _, _, record in roam.trace if record.kind in ("fault", "lost")]


def test_filters_on_the_own_state_work_with_it() -> None:
    roam = Roaming("B1-B2 B2-B3 B3-B4 B4-B1", **config("spcf"))
    roam.come("P", "B1")
    roam.come("C", "B3")
    roam.command("C", lambda client, now: client.set_context({"least": 5}, now))
    roam.settle()
    roam.subscribe("C", "x >= my.least")
    roam.publish("P", 0)
    roam.settle()
    roam.publish("P", 4, 5, 6)
    roam.settle()
    assert roam.numbers("C", "P") == [3, 4]


def test_a_broker_that_is_given_no_overlay_says_so() -> None:
    make = partial(Broker, "a", {"b": 1.0})
    with pytest.raises(ValueError, match="the overlay links a to"):
        make(BrokerConfig(family="fixed_hops"))
