"""Clients that bring their name alone find their sessions, wherever these are."""

from typing import Any

import pytest

from godwit.broker.gossip import Gossip
from godwit.broker.limits import Limits
from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Bye,
    Delivery,
    Note,
    Publish,
    Received,
    Request,
    SetSessionExpiry,
    Subscribe,
)
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.mobility.relocation import Relocation
from tests.property.roaming_line import RoamingLine

FAMILIES = ("tree", "graph")


class Net(RoamingLine):
    """With clients that know nothing but their names."""

    def __init__(self, family: str = "tree", **config: Any) -> None:
        super().__init__(family=family, **config)
        self.say("b", "p", Attach("pub", mode="named"))
        self.published = 0

    def come(self, at: str, connection: str, **fields: Any) -> Attached | None:
        self.say(at, connection, Attach("ann", mode="named", **fields))
        self.pass_time(2.0)
        return self.attached(at, connection)

    def attached(self, at: str, connection: str) -> Attached | None:
        found = [said for where, over, said in self.told if (where, over) == (at, connection)]
        return next((said for said in found if isinstance(said, Attached)), None)

    def subscribe(self, at: str, connection: str, number: int = 1) -> None:
        self.say(at, connection, Request(number, Subscribe(("ann", "s"), parse("x > 0"))))
        self.pass_time(1.0)

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.published += 1
            happened = event({"x": self.published}, publisher="pub", sequence=self.published)
            self.say("b", "p", Request(self.published, Publish(happened)))
        self.pass_time(1.0)

    def numbers(self, at: str, connection: str) -> list[int]:
        found = [said for where, over, said in self.told if (where, over) == (at, connection)]
        return [said.event.sequence for said in found if isinstance(said, Delivery)]

    def reasons(self, at: str, connection: str) -> list[str]:
        found = [said for where, over, said in self.told if (where, over) == (at, connection)]
        return [said.reason for said in found if isinstance(said, Bye)]

    def homes(self) -> list[str]:
        return [name for name, broker in self.brokers.items() if broker.sessions.session("ann") is not None]

    def known(self) -> list[Any]:
        return [broker.component(Gossip).value("whereabouts", "ann") for broker in self.brokers.values()]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_without_memory_finds_its_session_at_another_broker(family):
    net = Net(family)
    first = net.come("a", "k1")
    assert first is not None
    assert first.fresh
    net.subscribe("a", "k1")
    net.publish(2)
    assert net.numbers("a", "k1") == [1, 2]
    net.say("a", "k1", Received(1))
    net.hang_up("a", "k1")
    net.publish(2)
    second = net.come("c", "k2")
    assert second is not None
    assert (second.fresh, second.session, second.accepted, second.broker) == (False, first.session, 1, "c")
    assert not second.receipt.session_lost
    assert net.numbers("c", "k2") == [2, 3, 4]  # all that was not confirmed
    assert net.homes() == ["c"]
    assert {value.home for value in net.known()} == {"c"}
    net.publish(1)
    assert net.numbers("c", "k2") == [2, 3, 4, 5]


def test_what_the_client_says_of_its_session_is_not_looked_at():
    net = Net()
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.publish(3)
    fields = {"session": "zz/1/1", "received": 99, "attempt": -5, "home": "zz", "since": 7, "receipt": 3}
    attached = net.come("a", "k2", **fields)
    assert attached is not None
    assert not attached.fresh
    assert not attached.receipt.session_lost
    assert net.numbers("a", "k2") == [1, 2, 3]
    attached = net.come("c", "k3", **fields)
    assert attached is not None
    assert net.numbers("c", "k3") == [1, 2, 3]


def test_the_newest_connection_is_right_at_the_same_broker_and_at_another():
    net = Net()
    net.come("a", "k1")
    net.come("a", "k2")
    assert net.reasons("a", "k1") == ["another connection with the same client name has taken over the session"]
    net.come("b", "k3")
    assert net.reasons("a", "k2") == ["the client has moved to b"]
    net.come("a", "k4")
    assert net.homes() == ["a"]
    assert list(net.open) == [("b", "p"), ("a", "k4")]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_whose_session_is_on_its_way_comes_again_and_waits_for_it(family):
    net = Net(family)
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.publish(1)
    net.hang_up("a", "k1")
    net.block("ab")
    assert net.come("c", "k2") is None
    assert net.come("c", "k3") is None
    assert net.reasons("c", "k2") == ["another connection with the same client name has taken over the session"]
    net.block()
    net.pass_time(30.0)
    assert net.attached("c", "k3") is not None or net.reasons("c", "k3")
    attached = net.come("c", "k4")
    assert attached is not None
    assert net.numbers("c", "k4") == [1]
    assert net.homes() == ["c"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_that_goes_on_before_its_session_has_come_gets_it_where_it_is(family):
    net = Net(family)
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.publish(2)
    net.hang_up("a", "k1")
    net.block("ab")
    net.come("b", "k2")
    net.hang_up("b", "k2")
    net.come("c", "k3")
    net.block()
    net.pass_time(30.0)
    if net.attached("c", "k3") is None:
        net.come("c", "k4")
    assert net.homes() == ["c"]
    assert [*net.numbers("c", "k3"), *net.numbers("c", "k4")] == [1, 2]


def test_when_the_old_broker_does_not_answer_the_client_is_told_so_and_nothing_is_lost():
    net = Net()
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.hang_up("a", "k1")
    net.block("ab")
    net.publish(2)
    for connection in ("k2", "k3", "k4"):
        assert net.come("c", connection) is None
        net.pass_time(60.0)
        assert net.reasons("c", connection) == ["the session of ann is at a, which does not answer"]
    assert net.brokers["c"].component(Relocation).arrivals == {}
    net.block()
    net.pass_time(60.0)
    attached = net.come("c", "k5")
    assert attached is not None
    assert not attached.receipt.session_lost
    assert net.numbers("c", "k5") == [1, 2]
    assert net.homes() == ["c"]


def test_a_home_that_was_silent_for_longer_than_sessions_last_is_given_up():
    net = Net(limits=Limits(session_expiry_s=100.0))
    net.come("a", "k1")
    net.hang_up("a", "k1")
    net.block("ab")
    net.pass_time(150.0)
    net.come("c", "k2")
    net.pass_time(15.0)
    attached = net.attached("c", "k2")
    assert attached is not None
    assert attached.fresh
    assert attached.receipt.session_lost
    net.block()
    net.pass_time(60.0)
    assert net.homes() == ["c"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("comes_to", ["a", "c"])
def test_after_a_broker_has_lost_its_disk_its_clients_begin_anew_and_hear_of_it(family, comes_to):
    net = Net(family)
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.start_again("a", keeps_disk=False)
    net.pass_time(2.0)
    assert net.homes() == []
    attached = net.come(comes_to, "k2")
    assert attached is not None
    assert (attached.fresh, attached.receipt.session_lost, attached.accepted) == (True, True, 0)
    net.subscribe(comes_to, "k2")
    net.publish(1)
    assert net.numbers(comes_to, "k2") == [1]
    assert net.homes() == [comes_to]


def test_a_broker_that_comes_back_from_its_disk_has_its_sessions_still():
    net = Net()
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.crash("a", keeps_disk=True)
    net.publish(2)
    net.restart("a", rejoins=True)
    net.pass_time(1.0)
    attached = net.come("c", "k2")
    assert attached is not None
    assert not attached.fresh
    assert net.numbers("c", "k2") == [1, 2]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("comes_to", ["a", "c"])
def test_a_fresh_start_ends_whatever_session_there_is(family, comes_to):
    net = Net(family)
    first = net.come("a", "k1")
    assert first is not None
    net.subscribe("a", "k1")
    net.publish(1)
    attached = net.come(comes_to, "k2", fresh_start=True)
    assert attached is not None
    assert (attached.fresh, attached.receipt.session_lost, attached.accepted) == (True, False, 0)
    assert attached.session != first.session
    assert net.homes() == [comes_to]
    assert ("a", "k1") not in net.open
    net.publish(1)
    assert net.numbers(comes_to, "k2") == []
    assert {value.home for value in net.known()} == {comes_to}


def test_a_fresh_start_while_the_session_is_on_its_way_ends_that_too():
    net = Net()
    net.come("a", "k1")
    net.subscribe("a", "k1")
    net.publish(1)
    net.block("ab")
    net.come("c", "k2")
    attached = net.come("c", "k3", fresh_start=True)
    assert attached is not None
    assert attached.fresh
    net.block()
    net.pass_time(200.0)
    assert net.homes() == ["c"]
    assert net.numbers("c", "k3") == []
    assert list(net.open) == [("b", "p"), ("c", "k3")]


def test_a_fresh_start_is_for_clients_that_bring_their_name_alone():
    net = Net()
    net.say("a", "k1", Attach("ann", fresh_start=True))
    assert "fresh_start is for the mode named" in net.reasons("a", "k1")[0]


def test_of_two_sessions_that_began_apart_the_later_one_stays():
    net = Net()
    net.block("ab")
    net.come("a", "k1")
    net.come("c", "k2")
    assert net.homes() == ["a", "c"]
    net.block()
    net.pass_time(60.0)
    assert net.homes() == ["c"]
    assert net.reasons("a", "k1") == ["the client has a later session at c"]
    assert {value.home for value in net.known()} == {"c"}


@pytest.mark.parametrize("ends", ["bye", "expiry"])
def test_a_session_that_has_ended_is_forgotten_everywhere(ends):
    net = Net()
    net.come("a", "k1")
    if ends == "expiry":
        net.say("a", "k1", Request(1, SetSessionExpiry(5.0)))
        net.hang_up("a", "k1")
        net.pass_time(6.0)
    else:
        net.say("a", "k1", Bye())
    net.pass_time(1.0)
    assert net.known() == [None, None, None]
    attached = net.come("c", "k2")
    assert attached is not None
    assert attached.fresh
    assert not attached.receipt.session_lost


def test_a_client_that_says_where_it_was_is_not_in_the_table_any_more():
    net = Net()
    first = net.come("a", "k1")
    assert first is not None
    net.say("a", "k2", Attach("ann", session=first.session, home="a", attempt=9))
    net.pass_time(1.0)
    assert net.known() == [None, None, None]


def test_notes_and_numbers_of_requests_go_with_the_session():
    net = Net()
    net.come("a", "k1")
    net.say("a", "k1", Request(1, Note("in/7", b"3")))
    net.say("a", "k1", Request(2, Note("in/8", b"4")))
    attached = net.come("c", "k2")
    assert attached is not None
    assert (attached.accepted, attached.notes) == (2, {"in/7": b"3", "in/8": b"4"})
    net.say("c", "k2", Request(3, Note("in/7", None)))
    assert net.told[-1] == ("c", "k2", Accepted(3))
