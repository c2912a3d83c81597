"""Advertisements in a graph with a cycle: who hears of which subscription, and which broker gets which event.

An attribute may have several values, so `t > 50` and `t < 0` intersect; `t > 50` and `NOT (t >= 0)` do not.
"""

from typing import Any

import pytest

from godwit.broker.advertised import AdvertisementForwarding
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    DropSubscriptions,
    NodeId,
    Packet,
    Publish,
    Subscribe,
    SubscriptionsComplete,
    Unsubscribe,
)
from godwit.errors import PeerFault
from godwit.filters.events import event
from godwit.filters.language import parse
from tests.property.routing_network import GraphNetwork
from tests.snapshots import restored

LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "leaf")]
COLD, HOT, WARM = parse("NOT (t >= 0)"), parse("t > 50"), parse("t > 20")


def advertised_routing(broker: NodeId, *more: Any) -> GraphRouting:
    return GraphRouting(broker, *more, forwarding=AdvertisementForwarding())


class Advertising(GraphNetwork):
    """A network with publishers that advertise."""

    brokers: dict[NodeId, Any]

    def at(self, name: NodeId) -> AdvertisementForwarding:
        forwarding = self.brokers[name].forwarding
        assert isinstance(forwarding, AdvertisementForwarding)
        return forwarding

    def advertise(self, name: NodeId, text: str, client: str = "publisher", entry: str = "ad") -> None:
        self.carry_out(name, self.brokers[name].advertise((client, entry), parse(text), self.now))

    def unadvertise(self, name: NodeId, client: str = "publisher", entry: str = "ad") -> None:
        self.carry_out(name, self.brokers[name].unadvertise((client, entry), self.now))

    def ask(self, name: NodeId, text: str, entry: str = "s") -> None:
        self.carry_out(name, self.brokers[name].subscribe((f"{name}'s", entry), parse(text), self.now))

    def say(self, name: NodeId, **attributes: Any) -> list[NodeId]:
        """Publish, and return whom the event goes to."""
        self.sequences["publisher"] += 1
        what = event(attributes, publisher="publisher", sequence=self.sequences["publisher"])
        answers = self.brokers[name].publish(what, self.now)
        self.carry_out(name, answers)
        packets = [getattr(answer, "message", None) for answer in answers]
        return sorted(
            {to for each in packets if type(each) is Packet and type(each.message) is Publish for to in each.targets}
        )

    def sent(self) -> dict[NodeId, list[Any]]:
        """By broker, what was carried to it in packets since this was asked last; all of it is delivered."""
        found: dict[NodeId, list[Any]] = {}
        while pairs := self.can_deliver():
            for a, b in pairs:
                message = self.deliver(a, b)
                if isinstance(message, Packet) and b in message.targets:
                    found.setdefault(b, []).append(message.message)
                self.acknowledge(a, b)
        return found

    def held_by(self, name: NodeId) -> list[tuple[str, str]]:
        return sorted(id for entries in self.brokers[name].remote.values() for id in entries)


@pytest.fixture
def net() -> Advertising:
    made = Advertising(LINKS, make=advertised_routing)
    made.start()
    return made


def test_a_subscription_goes_only_to_brokers_that_advertise_what_it_may_match(net: Advertising) -> None:
    net.advertise("a", "t > 20")
    net.advertise("d", "NOT (t >= 0)")
    net.sent()
    net.ask("leaf", "t > 50")
    assert net.sent() == {"a": [Subscribe(("leaf's", "s"), HOT)]}


def test_an_advertisement_attracts_the_subscriptions_that_it_intersects(net: Advertising) -> None:
    net.ask("leaf", "t > 50", "hot")
    net.ask("b", "NOT (t >= 0)", "cold")
    assert net.sent() == {}
    net.advertise("a", "t > 20")
    sent = net.sent()
    assert {name: sent[name] for name in "bcd"} == {name: [AdvertisementAdded(1, 1, WARM)] for name in "bcd"}
    assert sorted(map(str, sent["a"])) == sorted(
        map(str, [*[SubscriptionsComplete(1, 1)] * 4, Subscribe(("leaf's", "hot"), HOT)])
    )
    assert net.held_by("a") == [("leaf's", "hot")]
    assert not net.at("a").is_awaiting()


def test_what_an_advertisement_alone_has_attracted_goes_with_it_in_one_message_for_equal_filters(
    net: Advertising,
) -> None:
    net.ask("leaf", "t > 50", "one")
    net.ask("leaf", "t > 50", "two")
    net.ask("leaf", "NOT (t >= 0)", "cold")
    net.advertise("a", "t > 20", entry="warm")
    net.advertise("a", "NOT (t >= 30)", entry="cool")
    net.sent()
    net.unadvertise("a", entry="warm")
    sent = net.sent()
    assert sent["leaf"] == [AdvertisementRemoved(1)]
    assert sent["a"] == [DropSubscriptions(HOT)]
    assert net.held_by("a") == [("leaf's", "cold")]


def test_equal_advertisements_are_told_once_and_end_with_the_last(net: Advertising) -> None:
    net.advertise("a", "t > 20", client="ann")
    net.sent()
    net.advertise("a", "t > 20", client="bob")
    assert net.sent() == {}
    net.unadvertise("a", client="ann")
    assert net.sent() == {}
    net.unadvertise("a", client="bob")
    assert net.sent()["leaf"] == [AdvertisementRemoved(1)]


def test_an_advertisement_that_is_replaced_keeps_what_both_attract(net: Advertising) -> None:
    net.ask("leaf", "t > 50")
    net.advertise("a", "t > 20")
    net.sent()
    net.advertise("a", "t > 30")
    sent = net.sent()
    assert sent["leaf"] == [AdvertisementAdded(1, 2, parse("t > 30")), AdvertisementRemoved(1)]
    assert sent["a"] == [SubscriptionsComplete(1, 2)] * 4
    assert net.held_by("a") == [("leaf's", "s")]


def test_a_subscription_that_is_replaced_is_taken_back_where_nobody_advertises_it_any_more(net: Advertising) -> None:
    net.advertise("a", "t > 20")
    net.advertise("d", "NOT (t >= 0)")
    net.ask("leaf", "t > 50")
    net.sent()
    net.ask("leaf", "NOT (t >= 0)")
    assert net.sent() == {"d": [Subscribe(("leaf's", "s"), COLD)], "a": [Unsubscribe(("leaf's", "s"))]}


def test_until_everyone_has_answered_an_event_goes_to_those_who_have_not(net: Advertising) -> None:
    net.ask("leaf", "t > 50")
    net.sent()
    net.advertise("a", "t > 20")
    assert net.say("a", t=99) == ["b", "c", "d", "leaf"]
    net.sent()
    assert net.say("a", t=99) == ["leaf"]
    assert net.say("a", t=30) == []


def test_an_event_that_nobody_here_advertises_goes_to_everybody(net: Advertising) -> None:
    net.advertise("a", "t > 20")
    net.sent()
    assert net.say("a", t=-5) == ["b", "c", "d", "leaf"]


def test_one_of_two_advertisements_that_is_answered_is_enough(net: Advertising) -> None:
    net.ask("leaf", "t > 50")
    net.advertise("a", "t > 20", entry="one")
    net.sent()
    net.advertise("a", "t > 40", entry="two")
    assert net.say("a", t=99) == ["leaf"]


def test_an_answer_to_an_advertisement_of_another_life_does_not_count(net: Advertising) -> None:
    net.advertise("a", "t > 20")
    assert net.brokers["a"].take("b", SubscriptionsComplete(7, 1), 0.0) == []
    assert net.at("a").is_awaiting()


def test_what_is_said_of_unknown_advertisements_does_no_harm(net: Advertising) -> None:
    routing = net.brokers["a"]
    for message in (AdvertisementRemoved(99), SubscriptionsComplete(1, 99), DropSubscriptions(HOT)):
        assert routing.take("b", message, 0.0) == []
    assert routing.take("b", AdvertisementAdded(5, 1, HOT), 0.0) == []  # of another life
    assert routing.sizes()["advertised_elsewhere"] == 0


def test_a_broker_that_advertises_without_end_is_not_answered_and_gets_no_more_memory(
    net: Advertising, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("godwit.broker.advertised.ADVERTISEMENTS_HELD_MAX", 2)
    routing = net.brokers["a"]
    for number in (1, 2, 3):
        answers = routing.take("b", AdvertisementAdded(1, number, parse(f"n = {number}")), 0.0)
    assert [answer.record.kind for answer in answers] == ["refused"]
    assert routing.sizes()["advertised_elsewhere"] == 2


@pytest.mark.parametrize(
    "message",
    [
        AdvertisementAdded(0, 1, HOT),
        AdvertisementAdded(1, 0, HOT),
        AdvertisementAdded(1, 1, parse("t = my.t")),
        AdvertisementRemoved(0),
    ],
)
def test_what_no_honest_broker_says_is_a_fault_of_the_neighbour(net: Advertising, message: Any) -> None:
    with pytest.raises(PeerFault):
        net.brokers["a"].on_message("b", Packet("b", 1, {"a": 1}, message), 0.0)


def test_brokers_that_go_by_other_strategies_are_refused_these_messages() -> None:
    routing = GraphRouting("a")
    with pytest.raises(PeerFault, match="AdvertisementAdded"):
        routing.on_message("b", Packet("b", 1, {"a": 1}, AdvertisementAdded(1, 1, HOT)), 0.0)


def test_a_restored_broker_has_the_same_tables(net: Advertising) -> None:
    net.ask("leaf", "t > 50")
    net.advertise("a", "t > 20")
    net.sent()
    net.advertise("a", "NOT (t >= 0)", entry="later")
    for name in ("a", "leaf"):
        again = restored(net.brokers[name], advertised_routing(name))
        assert again.snapshot() == net.brokers[name].snapshot()
        assert again.sizes() == net.brokers[name].sizes()


def test_what_is_not_advertised_any_more_is_not_found_any_more(net: Advertising) -> None:
    net.advertise("a", "t > 20", entry="warm")
    net.advertise("a", "t > 50", entry="hot")
    net.ask("leaf", "t > 50")
    net.sent()
    assert net.say("a", t=60) == ["leaf"]
    net.unadvertise("a", entry="hot")
    net.sent()
    assert net.say("a", t=60) == ["leaf"]
    assert net.at("a").knows_all(event({"t": 60}))
