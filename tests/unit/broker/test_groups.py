"""Groups: each event goes to one of the subscriptions that share it."""

from collections import Counter
from typing import Any

import pytest

from godwit.broker import groups
from godwit.broker.groups import Groups
from godwit.broker.messages import Attach, Bye, Delivery, Publish, Request, Subscribe, Unsubscribe
from godwit.filters.events import event
from godwit.filters.filters import Filter
from godwit.filters.language import parse, to_text
from tests.property.roaming_line import RoamingLine

FILTER = parse("x > 0")


class Net(RoamingLine):
    """A publisher at b, and members `m1`, `m2`, … each over a connection of its name."""

    def __init__(self, family: str = "tree") -> None:
        super().__init__(family=family)
        self.say("b", "p", Attach("pub", mode="named"))
        self.published = 0

    def enter(self, at: str, client: str, share: str = "g", filter: str = "x > 0", number: int = 1) -> None:
        if number == 1:
            self.say(at, client, Attach(client, mode="named"))
        self.say(at, client, Request(number, Subscribe((client, f"s{number}"), parse(filter), share=share)))
        self.pass_time(1.0)

    def publish(self, count: int) -> list[int]:
        for _ in range(count):
            self.published += 1
            happened = event({"x": self.published}, publisher="pub", sequence=self.published)
            self.say("b", "p", Request(self.published, Publish(happened)))
        self.pass_time(1.0)
        return list(range(self.published - count + 1, self.published + 1))

    def got(self, *clients: str) -> list[int]:
        """What came to any of these, each as often as it came."""
        found = [said.event for _, over, said in self.told if over in clients and isinstance(said, Delivery)]
        return sorted(each.sequence for each in found)

    def members(self) -> list[dict[Any, bool]]:
        return [broker.component(Groups).members("g", FILTER) for broker in self.brokers.values()]


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_each_event_goes_to_one_member_and_to_every_other_subscriber(family):
    net = Net(family)
    for at, client in (("a", "m1"), ("a", "m2"), ("b", "m3"), ("c", "m4")):
        net.enter(at, client)
    net.enter("c", "alone", share="")
    net.enter("a", "n1", share="h")
    net.enter("c", "n2", share="h")
    events = net.publish(60)
    assert net.got("m1", "m2", "m3", "m4") == net.got("n1", "n2") == net.got("alone") == events
    shares = Counter({client: len(net.got(client)) for client in ("m1", "m2", "m3", "m4")})
    assert min(shares.values()) > 5


def test_groups_of_one_name_and_other_filters_are_others():
    net = Net()
    net.enter("a", "m1")
    net.enter("c", "m2", filter="x > 1")
    net.publish(3)
    assert net.got("m1") == [1, 2, 3]
    assert net.got("m2") == [2, 3]


def test_a_member_that_is_away_is_left_out_and_gets_all_if_nobody_else_is_there():
    net = Net()
    net.enter("a", "m1")
    net.enter("c", "m2")
    net.hang_up("a", "m1")
    net.pass_time(1.0)
    first = net.publish(10)
    assert net.got("m2") == first
    net.hang_up("c", "m2")
    net.pass_time(1.0)
    second = net.publish(10)
    for at, client in (("a", "m1"), ("c", "m2")):
        net.say(at, client, Attach(client, mode="named"))
    net.pass_time(1.0)
    assert sorted({*net.got("m1", "m2")}) == first + second  # the second ten waited at one of the two


@pytest.mark.parametrize("how", ["unsubscribe", "bye", "no share"])
def test_who_leaves_a_group_is_no_member_any_more(how):
    net = Net()
    net.enter("a", "m1")
    net.enter("c", "m2")
    said: dict[str, Any] = {
        "unsubscribe": Request(2, Unsubscribe(("m1", "s1"))),
        "bye": Bye(),
        "no share": Request(2, Subscribe(("m1", "s1"), FILTER)),
    }
    net.say("a", "m1", said[how])
    net.pass_time(1.0)
    assert [list(members) for members in net.members()] == [[("c", "m2", "s1")]] * 3
    assert net.publish(10) == net.got("m2")


def test_a_member_that_moves_stays_one():
    net = Net()
    net.enter("a", "m1")
    net.enter("c", "m2")
    net.say("b", "m1b", Attach("m1", mode="named"))
    net.pass_time(2.0)
    assert [sorted(members) for members in net.members()] == [[("b", "m1", "s1"), ("c", "m2", "s1")]] * 3
    events = net.publish(40)
    assert net.got("m1b", "m2") == events
    assert net.got("m1b") != []


def test_two_subscriptions_of_one_client_are_two_members_and_the_event_comes_once():
    net = Net()
    net.enter("a", "m1")
    net.enter("a", "m1", number=2)
    assert net.publish(20) == net.got("m1")


def test_what_a_past_life_of_a_broker_said_of_its_members_is_over():
    net = Net()
    net.enter("a", "m1")
    net.enter("c", "m2")
    net.start_again("a", keeps_disk=False)
    net.pass_time(2.0)
    assert [list(members) for members in net.members()] == [[("c", "m2", "s1")]] * 3
    assert net.publish(10) == net.got("m2")


def test_the_digest_of_a_filter_is_computed_once_whatever_its_session_does(monkeypatch):
    texts: list[str] = []

    def noted(filter: Filter) -> str:
        texts.append(to_text(filter))
        return texts[-1]

    monkeypatch.setattr(groups, "to_text", noted)
    net = Net()
    for number in range(1, 4):
        net.enter("a", "m1", filter=f"x > {number}", number=number)
    net.hang_up("a", "m1")
    net.say("a", "m1", Attach("m1", mode="named"))
    net.pass_time(1.0)
    assert sorted(texts) == ["x > 1", "x > 2", "x > 3"]
    net.say("a", "m1", Request(4, Subscribe(("m1", "s1"), parse("x > 7"), share="g")))
    net.say("a", "m1", Request(5, Unsubscribe(("m1", "s2"))))
    assert len(texts) == 4
    kept = net.brokers["a"].component(Groups)._digests
    assert {name for _, name in kept} == {"s1", "s3"}


def test_a_session_that_has_come_looks_at_each_of_its_groups_once(monkeypatch):
    net = Net()
    net.enter("a", "m1")
    net.pass_time(1.0)
    part = net.brokers["b"].component(Groups)
    subscribe = next(iter(net.brokers["a"].sessions.session("m1").subscriptions.values()))
    texts: list[str] = []

    def noted(filter: Filter) -> str:
        texts.append(to_text(filter))
        return texts[-1]

    monkeypatch.setattr(groups, "to_text", noted)
    takes = part.takes()
    events = [event({"x": 1}, publisher="p", sequence=number) for number in range(5)]
    alone = Subscribe(("m2", "s"), subscribe.filter)
    assert [takes(each, subscribe) for each in events] == [False] * 5  # the member at the broker a gets them
    assert all(takes(each, alone) for each in events)
    assert len(texts) == 1
