"""[mobile §3, §3.2, §4.1, §4.2]: centralized, quenching, broadcast and multicast, sentence by sentence. Claims H2, H3.

Each test quotes the sentence that it holds the code to. EB is a broker, ES a publisher, ED a subscriber.
"""

from collections import Counter
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.messages import Delivery, Publish, Quench, Request
from godwit.filters import FALSE, parse
from godwit.testing import Machines, machines

STAR = ["ab", "ac", "ad", "de", "df"]
C1, C2 = parse("value > 10"), parse("value > 20")

FAMILIES: list[dict[str, Any]] = [
    *({"reduction": name} for name in ("flooding", "simple", "identity", "covering", "merging")),
    {"reduction": "merging", "excess_max": 0.5},
    {"reduction": "covering", "advertisements": "off"},
    {"family": "graph"},
]


def occupied(links: list[str], names: str = "", **options: Any) -> Machines:
    """A network with one ED at each broker, each wanting something else, and an ES at a."""
    network = machines(links, names, **options, make=Broker)
    for number, name in enumerate(network.brokers):
        client = network.attach(f"ed {name}", name)
        network.ask(client.name, client.subscribe("s", parse(f"value > {10 * number}"), 0.0))
    network.attach("es", "a")
    network.messages()
    return network


def publish(network: Machines, *values: int, source: str = "es") -> None:
    for value in values:
        network.ask(source, network.clients[source].publish({"value": value}, 0.0))


def numbers(network: Machines) -> dict[str, list[int]]:
    """The numbers of the events that each ED was given."""
    return {name: [number for _, number in network.notified(name)] for name in network.clients if name != "es"}


# ------------------------------------------------------------ §3 centralized


def test_a_centralized_system_is_one_broker_that_stores_all_subscriptions_and_does_all_the_matching() -> None:
    """ "The central EB stores all currently active subscriptions in the system. Every new event is published to the EB,
    which is responsible for matching it against all the subscriptions. Afterwards the event is forwarded to all Event
    Displayers whose subscriptions match." """
    network = machines([], "a", make=Broker)
    for name, filter in (("ann", C1), ("bob", C2)):
        client = network.attach(name, "a")
        network.ask(name, client.subscribe("s", filter, 0.0))
    network.attach("es", "a")
    publish(network, 5, 15, 25)
    assert network.brokers["a"].routing.sizes()["in_subs"] == 2
    assert numbers(network) == {"ann": [2, 3], "bob": [3]}
    assert network.sent == []


# ------------------------------------------------------------ §3.2 quenching, H2


def quenched(*filters: Any, at: str = "a", links: list[str] | None = None) -> Machines:
    """A broker with an ES that asks for c_all, and an ED for each of `filters`."""
    network = machines(links or [], "a", make=Broker)
    for number, filter in enumerate(filters):
        client = network.attach(f"ed {number}", at)
        network.ask(client.name, client.subscribe("s", filter, 0.0))
    network.attach("es", "a", quench=True)
    return network


def sent_by_source(network: Machines) -> list[int]:
    """The numbers of the events that left the ES."""
    return [
        message.wish.event.sequence
        for name, message in network.heard
        if name == "es" and isinstance(message, Request) and isinstance(message.wish, Publish)
    ]


def c_all(network: Machines) -> list[Any]:
    """What the ES was given, in order."""
    return [message.filter for _, name, message in network.told if name == "es" and isinstance(message, Quench)]


def test_a_source_is_given_the_logical_or_of_all_active_subscriptions() -> None:
    """ "An Event Source is given a 'combined active subscription expression' (c_all), which represents the logical OR
    of all the currently active subscriptions on the Event Broker." Footnote 1: of these two it is the wider."""
    assert c_all(quenched(C1, C2)) == [C1]
    assert c_all(quenched()) == [FALSE]


def test_quenching_drops_at_the_source_exactly_the_events_that_no_subscription_matches() -> None:
    """H2: "If c_all(e) = false, that means no subscription will match e at the EB. Hence the event is discarded
    (quenched) at the source. If e matches c_all, then at least one subscription will match, and the event is forwarded
    to the EB as usual." """
    network = quenched(C2, parse("value < 0"))
    publish(network, 5, 25, -1, 20, 21)
    assert sent_by_source(network) == [2, 3, 5]
    assert numbers(network) == {"ed 0": [2, 5], "ed 1": [3]}
    assert [(record.publisher, record.sequence) for record in network.records if record.kind == "quenched"] == [
        ("es", 1),
        ("es", 4),
    ]


def test_a_new_subscription_reaches_the_source_at_once_and_one_that_is_gone_after_a_while() -> None:
    network = quenched(C2)
    late = network.attach("late", "a")
    network.ask("late", late.subscribe("s", C1, 0.0))
    publish(network, 15)
    assert (sent_by_source(network), network.notified("late")) == ([1], [("es", 1)])
    network.ask("late", late.unsubscribe("s", 0.0))
    publish(network, 15)
    assert sent_by_source(network) == [1, 2]  # too much is let through, never too little
    network.pass_time(5.0)
    publish(network, 15, 25)
    assert sent_by_source(network) == [1, 2, 4]


def test_a_subscription_at_another_broker_counts_as_well() -> None:
    network = quenched(C1, at="b", links=["ab"])
    publish(network, 5, 15)
    assert sent_by_source(network) == [2]
    assert numbers(network) == {"ed 0": [2]}


def test_what_the_source_buffered_while_it_was_away_is_quenched_by_what_is_wanted_when_it_comes_back() -> None:
    """H2: "a disconnected source that buffers first … never drops an event that a later-learnt subscription wanted
    while there was room" """
    network = quenched(C2)
    network.detach("es")
    publish(network, 5, 15, 25)  # nobody wants 15 yet
    late = network.attach("late", "a")
    network.ask("late", late.subscribe("s", C1, 0.0))
    network.attach("es", "a")
    assert sent_by_source(network) == [2, 3]
    assert numbers(network) == {"ed 0": [3], "late": [2, 3]}


# ------------------------------------------------------------ §4.1 broadcast and §4.2 multicast, H3


def test_broadcast_sends_every_event_to_every_broker_once() -> None:
    """ "That EB is then responsible for forwarding the event to all other EBs in the system (hence the name
    'distributed broadcast')." """
    network = occupied(STAR, reduction="flooding")
    publish(network, 5, -5)
    reached = Counter(receiver for _, receiver in network.messages(Publish))
    assert reached == dict.fromkeys("bcdef", 2)


def test_in_broadcast_each_broker_knows_only_its_own_subscriptions() -> None:
    """ "each responsible for a portion of the N total subscriptions … it only has to match them against a fraction of
    the total subscriptions" """
    network = occupied(STAR, reduction="flooding")
    assert [broker.routing.sizes()["in_subs"] for broker in network.brokers.values()] == [1] * 6


def test_multicast_forwards_an_event_onto_a_branch_only_if_a_subscription_there_might_match() -> None:
    """ "it is forwarded onto one of the EB's outgoing branches only if the event might match a subscription at some EB
    leading from this branch … If the result is false, that branch is 'pruned' for this event." """
    network = occupied(STAR)  # a wants more than 0, b more than 10, … f more than 50
    publish(network, 25)
    assert network.messages(Publish) == [("a", "b"), ("a", "c")]
    publish(network, 45)
    assert sorted(network.messages(Publish)) == [("a", "b"), ("a", "c"), ("a", "d"), ("d", "e")]
    publish(network, 0)
    assert network.messages(Publish) == []


def test_in_multicast_a_broker_has_to_know_of_others_subscriptions() -> None:
    """ "it is no longer sufficient for each Event Broker to know about only its share of the active subscriptions. In
    the worst case, each Event Broker may need to store all the currently active subscriptions" """
    worst = occupied(STAR, reduction="simple")
    assert [broker.routing.sizes()["in_subs"] for broker in worst.brokers.values()] == [6] * 6
    collapsed = occupied(STAR, reduction="covering")  # "multiple subscriptions can be collapsed into one condition"
    assert all(broker.routing.sizes()["in_subs"] < 6 for broker in collapsed.brokers.values())


@pytest.mark.parametrize("options", FAMILIES, ids=lambda options: "-".join(map(str, options.values())))
def test_every_architecture_delivers_what_broadcast_delivers(options: dict[str, Any]) -> None:
    values = [-5, 5, 15, 25, 35, 45, 55, 10, 0]
    broadcast, other = occupied(STAR, reduction="flooding"), occupied(STAR, **options)
    for network in (broadcast, other):
        publish(network, *values)
    assert numbers(other) == numbers(broadcast)
    assert numbers(broadcast)["ed c"] == [number for number, value in enumerate(values, start=1) if value > 20]


@pytest.mark.parametrize("options", FAMILIES[1:], ids=lambda options: "-".join(map(str, options.values())))
def test_multicast_delivers_the_same_with_fewer_messages(options: dict[str, Any]) -> None:
    """H3: "broadcast sends every event to every broker; multicast delivers the same set with fewer messages" """
    sent = []
    for network in (occupied(STAR, reduction="flooding"), occupied(STAR, **options)):
        publish(network, 5, 15, 25, 35, 45, 55)
        sent.append(len([message for _, _, message in network.sent if _bears_event(message)]))
    broadcast, multicast = sent
    assert broadcast == 6 * 5
    assert multicast < broadcast


def _bears_event(message: Any) -> bool:
    return isinstance(getattr(message, "message", message), Publish)


def test_an_event_is_delivered_to_a_displayer_once_though_several_subscriptions_match() -> None:
    network = machines(["ab"], make=Broker)
    ann = network.attach("ann", "b")
    network.ask("ann", ann.subscribe("wide", C1, 0.0))
    network.ask("ann", ann.subscribe("narrow", C2, 0.0))
    network.attach("es", "a")
    publish(network, 25)
    assert network.notified("ann") == [("es", 1)]
    [delivery] = [message for _, name, message in network.told if name == "ann" and isinstance(message, Delivery)]
    assert sorted(delivery.subscriptions) == ["narrow", "wide"]
    assert network.messages(Publish) == [("a", "b")]
