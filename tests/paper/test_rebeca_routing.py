"""[rebeca §2.1, §2.2]: routing tables, and what each strategy puts into them, sentence by sentence.

Each test quotes the sentence that it holds the code to.
"""

from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.messages import Accepted, Advertise, Refused, Subscribe, Unadvertise, Unsubscribe
from godwit.filters import Filter, parse
from godwit.testing import Machines, machines
from tests.property.routing_network import TreeNetwork

LINE = ["ab", "bc"]
F1, F2, OTHER = parse("cost < 3"), parse("cost < 2"), parse("size = 'van'")


def line(reduction: str, **options: Any) -> TreeNetwork:
    """Brokers a, b and c in a line, without advertisements."""
    return TreeNetwork(LINE, reduction=reduction, advertised=False, **options).start()


def table(network: TreeNetwork, at: str = "b", of: str = "a") -> list[Filter]:
    """The routing table of a broker: the filters F of its pairs (F, L) where L is the link to `of`."""
    return list(network.brokers[at].in_subs[of].values())


def subscribe(network: TreeNetwork, *filters: Filter, at: str = "a") -> None:
    for number, filter in enumerate(filters):
        network.subscribe(at, f"client {number}", filter)
    network.settle()


# ------------------------------------------------------------ tables


def test_an_entry_is_a_filter_and_the_link_it_came_from_and_a_match_is_forwarded_along_it() -> None:
    """ "Each table entry is a pair (F, L) containing a filter and the link from which it was received, denoting that a
    matching [notification] is to be forwarded along L." """
    network = line("simple")
    subscribe(network, F1)
    assert (table(network, "b", "a"), table(network, "b", "c"), table(network, "c", "b")) == ([F1], [], [F1])
    network.messages()
    network.publish("c", cost=2.5)
    network.publish("c", cost=4)
    network.settle()
    assert network.messages() == [("c", "b"), ("b", "a")]


def test_what_one_sender_publishes_arrives_in_its_order() -> None:
    """ "The routing decision is assumed to be an atomic operation so that the end-to-end sender FIFO characteristic
    holds." """
    network = line("covering")
    subscribe(network, F1)
    for cost in (1, 2, 0, 2.5):
        network.publish("c", cost=cost)
    network.settle()
    assert network.delivered["client 0"] == [1, 2, 3, 4]


def test_notifications_are_conveyed_to_those_consumers_that_have_registered_a_matching_subscription() -> None:
    """§2.1: "They are conveyed by the underlying notification service to those consumers that have registered a
    matching subscription" """
    for reduction in ("flooding", "simple", "identity", "covering", "merging"):
        network = line(reduction)
        subscribe(network, F1, F2, OTHER)
        network.publish("c", cost=2.5)
        network.settle()
        network.publish("b", cost=1, size="van")
        network.settle()
        assert network.delivered == {"client 0": [1, 2], "client 1": [2], "client 2": [2]}, reduction


# ------------------------------------------------------------ strategies


def test_simple_routing_adds_every_active_filter_to_the_tables() -> None:
    """ "simple routing: active filters are simply added to the routing tables with the link they originated from.
    … this is not optimal with respect to routing table sizes, which grow with the number of subscriptions." """
    network = line("simple")
    subscribe(network, F1, F1, F2, OTHER)
    assert table(network) == [F1, F1, F2, OTHER]
    assert table(network, "c", "b") == [F1, F1, F2, OTHER]


def test_identity_combines_filters_that_are_equal() -> None:
    """ "A first improvement is to check and combine filters that are equal." """
    network = line("identity")
    subscribe(network, F1, F1, F2, F2, F1)
    assert table(network) == [F1, F2]
    network.unsubscribe("a", "client 0")
    network.settle()
    assert table(network) == [F1, F2]
    network.unsubscribe("a", "client 1")
    network.unsubscribe("a", "client 4")
    network.settle()
    assert table(network) == table(network, "c", "b") == [F2]


def test_covering_replaces_what_a_wider_filter_accepts_as_well() -> None:
    """ "tests whether a filter F1 accepts a superset of notifications of a second filter F2, and in this case replaces
    all occurrences of F2 assigned to the same link in the routing table" """
    network = line("covering")
    subscribe(network, F2, OTHER, F1)
    assert table(network) == table(network, "c", "b") == [OTHER, F1]


def test_covering_replaces_only_what_is_assigned_to_the_same_link() -> None:
    network = line("covering")
    network.subscribe("c", "far", F2)
    network.settle()
    network.subscribe("a", "near", F1)
    network.settle()
    assert (table(network, "b", "a"), table(network, "b", "c")) == ([F1], [F2])


def test_merging_creates_a_new_filter_that_covers_existing_ones() -> None:
    """ "if no cover can be found in a given set of filters, merging can be used to create new filters that are covers
    of existing ones" """
    network = line("merging")
    subscribe(network, parse("cost BETWEEN 0 AND 2"), parse("cost BETWEEN 2 AND 5"))
    assert table(network) == [parse("cost BETWEEN 0 AND 5")]


def test_only_the_merged_filter_is_forwarded_and_it_replaces_the_base_filters() -> None:
    """ "Only the resulting merged filter is forwarded to neighbor brokers, where it covers and replaces the base
    filters." """
    network = line("merging")
    subscribe(network, parse("cost BETWEEN 0 AND 2"), parse("cost BETWEEN 3 AND 4"))
    assert len(table(network, "c", "b")) == 2
    network.subscribe("a", "third", parse("cost BETWEEN 2 AND 6"))
    network.settle()
    assert table(network) == table(network, "c", "b") == [parse("cost BETWEEN 0 AND 6")]


def test_imperfect_merging_forwards_a_filter_that_lets_in_a_little_more_and_delivers_no_more() -> None:
    network = line("merging", excess_max=0.3)
    subscribe(network, parse("cost BETWEEN 0 AND 5"), parse("cost BETWEEN 6 AND 10"))
    assert table(network) == [parse("cost BETWEEN 0 AND 10")]
    network.messages()
    network.publish("c", cost=5.5)
    network.settle()
    assert network.messages() == [("c", "b"), ("b", "a")]
    assert network.delivered == {}


@pytest.mark.parametrize("reduction", ["simple", "identity", "covering", "merging"])
def test_each_strategy_forgets_what_is_no_longer_wanted(reduction: str) -> None:
    """ "The routing tables are maintained to correspond to the available information about active consumers and their
    subscriptions." """
    network = line(reduction)
    subscribe(network, F1, F1, F2, OTHER, parse("cost BETWEEN 2 AND 5"))
    for number in range(5):
        network.unsubscribe("a", f"client {number}")
        network.settle()
    assert set(network.sizes().values()) == {0}


@pytest.mark.parametrize("reduction", ["simple", "identity", "covering", "merging"])
def test_no_event_falls_between_a_cover_that_goes_and_what_it_covered(reduction: str) -> None:
    """Events and changes travel at once: whatever order they meet in, the narrower subscription misses nothing."""
    for steps in range(6):
        network = line(reduction)
        subscribe(network, F1, F2)
        network.unsubscribe("a", "client 0")
        for _ in range(steps):
            for link in network.ready():
                network.deliver(*link)
        network.publish("c", cost=1)
        network.settle()
        assert network.delivered["client 1"] == [1]


@pytest.mark.parametrize("reduction", ["simple", "identity", "covering", "merging"])
def test_two_sources_of_one_name_do_not_take_each_other_back(reduction: str) -> None:
    """A client that has moved may be known at two border brokers for a while, under one name."""
    network = TreeNetwork(["ab", "bc", "bd"], reduction=reduction, advertised=False).start()
    network.subscribe("a", "ann", F1)
    network.settle()
    network.subscribe("c", "ann", F2)
    network.settle()
    network.unsubscribe("a", "ann")
    network.settle()
    network.publish("d", cost=1)
    network.settle()
    assert network.delivered == {"ann": [1]}
    network.unsubscribe("c", "ann")
    network.settle()
    assert set(network.sizes().values()) == {0}


# ------------------------------------------------------------ advertisements: required, optional, off


def answers(network: Machines, client: str) -> list[Any]:
    """What a client was told of its requests."""
    return [message for _, name, message in network.told if name == client and isinstance(message, Accepted | Refused)]


def with_clients(**options: Any) -> Machines:
    """Brokers a, b and c in a line; ann is at a and pat at c."""
    network = machines(LINE, **options, make=Broker)
    network.attach("ann", "a")
    network.attach("pat", "c")
    return network


def test_where_advertisements_are_required_a_publisher_is_refused_what_it_has_not_advertised() -> None:
    """§2.1: "In some systems producers are required to issue advertisements to describe the notifications they are
    about to publish." """
    network = with_clients(advertisements="required")
    ann, pat = network.clients["ann"], network.clients["pat"]
    network.ask("ann", ann.subscribe("s", F1, 0.0))
    network.ask("pat", pat.publish({"cost": 1}, 0.0))
    assert answers(network, "pat") == [Refused(1, "the event matches none of your advertisements")]
    network.ask("pat", pat.advertise("a", F2, 0.0))
    network.ask("pat", pat.publish({"cost": 2.5}, 0.0))
    network.ask("pat", pat.publish({"cost": 1}, 0.0))
    assert [type(answer) for answer in answers(network, "pat")] == [Refused, Accepted, Refused, Accepted]
    assert network.notified("ann") == [("pat", 3)]
    assert [refusal.reason for refusal in pat.refusals] == ["the event matches none of your advertisements"] * 2


def test_where_advertisements_are_required_nobody_subscribes_anywhere_before_one_comes() -> None:
    network = with_clients(advertisements="required")
    network.messages()
    network.ask("ann", network.clients["ann"].subscribe("s", F1, 0.0))
    assert network.messages() == []
    network.ask("pat", network.clients["pat"].advertise("a", F1, 0.0))
    assert network.messages() == [("c", "b"), ("b", "a"), ("a", "b"), ("b", "c")]


def test_where_they_are_optional_a_client_that_never_advertises_counts_as_advertising_everything() -> None:
    network = with_clients(advertisements="optional")
    network.ask("ann", network.clients["ann"].subscribe("s", F1, 0.0))
    network.ask("pat", network.clients["pat"].publish({"cost": 1}, 0.0))
    assert network.notified("ann") == [("pat", 1)]


@pytest.mark.parametrize("name", ["a", "*", "everything"])
def test_where_they_are_optional_a_client_counts_as_every_other_from_its_first_advertisement_on(name: str) -> None:
    network = with_clients(advertisements="optional")
    ann, pat = network.clients["ann"], network.clients["pat"]
    network.ask("ann", ann.subscribe("s", parse("cost < 9"), 0.0))
    network.ask("pat", pat.advertise(name, F2, 0.0))
    network.ask("pat", pat.publish({"cost": 1}, 0.0))
    network.ask("pat", pat.publish({"cost": 5}, 0.0))
    assert network.notified("ann") == [("pat", 1)]
    assert [refusal.reason for refusal in pat.refusals] == ["the event matches none of your advertisements"]
    assert list(network.brokers["b"].routing.in_ads["c"].values()) == [F2]


def test_where_they_are_optional_a_client_that_takes_all_its_advertisements_back_publishes_nothing() -> None:
    network = with_clients(advertisements="optional")
    pat = network.clients["pat"]
    network.ask("pat", pat.advertise("a", F2, 0.0))
    network.ask("pat", pat.unadvertise("a", 0.0))
    network.ask("pat", pat.publish({"cost": 1}, 0.0))
    assert len(pat.refusals) == 1


def test_where_they_are_off_nobody_advertises_and_subscriptions_go_everywhere() -> None:
    network = with_clients(advertisements="off")
    network.messages()
    network.ask("ann", network.clients["ann"].subscribe("s", F1, 0.0))
    assert network.messages() == [("a", "b"), ("b", "c")]
    network.ask("pat", network.clients["pat"].advertise("a", OTHER, 0.0))
    assert network.messages() == []
    network.ask("pat", network.clients["pat"].publish({"cost": 1}, 0.0))
    assert network.notified("ann") == [("pat", 1)]


@pytest.mark.parametrize("advertisements", ["required", "optional", "off"])
def test_a_client_that_leaves_takes_everything_with_it(advertisements: str) -> None:
    network = with_clients(advertisements=advertisements)
    for name in ("ann", "pat"):
        client = network.clients[name]
        network.ask(name, client.advertise("a", F1, 0.0))
        network.ask(name, client.subscribe("s", F2, 0.0))
    for name in ("ann", "pat"):
        network.ask(name, network.clients[name].leave(0.0))
    assert all(not any(broker.routing.sizes().values()) for broker in network.brokers.values())


def test_taking_back_travels_like_telling() -> None:
    network = with_clients(advertisements="required")
    ann, pat = network.clients["ann"], network.clients["pat"]
    network.ask("ann", ann.subscribe("s", F1, 0.0))
    network.ask("pat", pat.advertise("a", F1, 0.0))
    assert network.messages(Subscribe) == [("a", "b"), ("b", "c")]
    network.ask("pat", pat.unadvertise("a", 0.0))
    frames = network.sent
    assert [(a, b) for a, b, message in frames if type(message) is Unadvertise] == [("c", "b"), ("b", "a")]
    assert sorted((a, b) for a, b, message in frames if type(message) is Unsubscribe) == [("a", "b"), ("b", "c")]
    network.ask("pat", pat.advertise("a", F1, 0.0))
    network.messages()
    network.ask("ann", ann.unsubscribe("s", 0.0))
    assert network.messages() == [("a", "b"), ("b", "c")]
    assert not network.messages(Advertise)
