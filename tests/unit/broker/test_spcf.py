"""SPCF at work: who hears of which subscription, and which broker gets which event, as contexts come and go.

The network of these tests is `tests/property/routing_network.py`; the laws are in `tests/property/test_spcf_laws.py`.
"""

import random
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.context_table import SPANS_MAX, OwnContexts
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import (
    ChannelStart,
    ContextAdded,
    ContextRemoved,
    DropSubscriptions,
    EntryId,
    InContext,
    LostNumbers,
    Nack,
    NodeId,
    Packet,
    Publish,
    Subscribe,
    SubscriptionsComplete,
    Synced,
    Unsubscribe,
)
from godwit.broker.routing import DeliverLocally, Forward, Routing
from godwit.broker.spcf import ContextForwarding, spcf_routing
from godwit.errors import PeerFault
from godwit.filters.contexts import AUTHORS, CONTEXT_MAX, LISTED_MAX, Bound, bounds_of, may_match, stamped
from godwit.filters.events import Event, event
from godwit.filters.filters import TRUE, all_of, some
from godwit.filters.language import parse
from godwit.filters.sets import EVERYTHING, NOTHING, between, one_of
from tests.property.routing_network import GraphNetwork
from tests.raw_messages import read
from tests.snapshots import restored

LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "leaf")]
ID = ("subscriber", "s")
FLOOR_1 = parse("temperature > 50 AND sender.floor = 1")
FLOOR_2 = parse("temperature > 50 AND sender.floor = 2")


class Contexts(GraphNetwork):
    """The same network with clients that have contexts."""

    brokers: dict[NodeId, Any]

    def __init__(self, links: list[tuple[str, str]] | None = None, **options: Any) -> None:
        make = options.pop("make", spcf_routing)
        super().__init__(LINKS if links is None else links, make=lambda *all: make(*all, **options))
        self.contexts: dict[tuple[NodeId, str], Any] = {}

    def at(self, name: NodeId) -> ContextForwarding:
        """What a broker knows of contexts."""
        forwarding = self.brokers[name].forwarding
        assert isinstance(forwarding, ContextForwarding)
        return forwarding

    def set_context(self, name: NodeId, client: str, context: Any) -> None:
        self.contexts[name, client] = context
        self.carry_out(name, self.brokers[name].set_context(client, context, self.now))

    def say(self, name: NodeId, client: str, to: str | None = None, context: Any = None, **attributes: Any) -> Event:
        """A client publishes, in its context or, as if it had been long under way, in another."""
        self.sequences[client] += 1
        what = event(
            attributes, publisher=client, sequence=self.sequences[client], to=None if to is None else parse(to)
        )
        what = stamped(what, self.contexts[name, client] if context is None else context)
        self.carry_out(name, self.brokers[name].publish(what, self.now))
        return what

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

    def holders(self, home: NodeId) -> dict[NodeId, list[str]]:
        """Who holds which subscriptions of the broker `home`."""
        held = {name: routing.remote.get(home, {}) for name, routing in self.brokers.items()}
        return {name: sorted(id[1] for id in entries) for name, entries in held.items() if entries}


def network(**options: Any) -> Contexts:
    net = Contexts(**options)
    net.start()
    return net


def ids(net: GraphNetwork, name: NodeId, id: EntryId = ID) -> list[int]:
    return [sequence for _, sequence in net.deliveries[name, id]]


def targets_of(answers: Any, kind: type = Publish) -> list[NodeId]:
    packets = [answer.message for answer in answers if isinstance(answer, Forward)]
    return sorted(
        name
        for packet in packets
        if isinstance(packet, Packet) and isinstance(packet.message, kind)
        for name in packet.targets
    )


# ------------------------------------------------------------ who hears of a subscription


def test_it_is_a_routing_family_and_a_broker_chooses_it() -> None:
    routing: Routing = spcf_routing("a")
    assert routing.sizes() == dict.fromkeys(("local", "remote", "matcher", "contexts", "placed", "classes"), 0)
    broker = Broker("a", {"b": 1.0}, BrokerConfig(family="graph", strategy="spcf", contexts_max=7))
    assert isinstance(broker.routing, GraphRouting)
    assert isinstance(broker.routing.forwarding, ContextForwarding)
    assert broker.routing.forwarding.own.contexts_max == 7
    other = Broker("a", {}, BrokerConfig(family="graph")).routing
    assert isinstance(other, GraphRouting)
    assert not isinstance(other.forwarding, ContextForwarding)


def test_a_broker_without_clients_hears_of_no_subscription() -> None:
    net = network()
    net.subscribe("a", ID, parse("x > 3"))
    assert net.sent() == {}
    assert net.holders("a") == {}


def test_a_subscription_goes_to_the_brokers_with_a_context_that_it_may_match_and_to_no_other() -> None:
    net = network()
    net.set_context("b", "p1", {"floor": 1})
    net.set_context("c", "p2", {"floor": 2})
    net.set_context("leaf", "p3", {"floor": 1})
    net.drain()
    net.subscribe("a", ID, FLOOR_1)
    assert net.sent() == {"b": [Subscribe(ID, FLOOR_1)], "leaf": [Subscribe(ID, FLOOR_1)]}
    net.unsubscribe("a", ID)
    assert net.sent() == {"b": [Unsubscribe(ID)], "leaf": [Unsubscribe(ID)]}
    assert all(routing.sizes()["remote"] == 0 for routing in net.brokers.values())


def test_a_subscription_that_asks_nothing_of_the_sender_goes_wherever_clients_are() -> None:
    net = network()
    net.set_context("b", "p", {})
    net.set_context("d", "p", {"floor": 2})
    net.drain()
    net.subscribe("a", ID, parse("x > 3"))
    net.drain()
    assert net.holders("a") == {"b": ["s"], "d": ["s"]}


def test_a_replaced_filter_goes_to_its_own_d_and_leaves_the_brokers_that_are_only_in_the_old_one() -> None:
    net = network()
    for name, floor in (("b", 1), ("c", 2), ("d", 3)):
        net.set_context(name, "p", {"floor": floor})
    net.drain()
    net.subscribe("a", ID, parse("sender.floor <= 2"))
    net.drain()
    assert net.holders("a") == {"b": ["s"], "c": ["s"]}
    net.subscribe("a", ID, parse("sender.floor >= 2"))
    sent = net.sent()
    assert [type(message) for message in sent["b"]] == [Unsubscribe]
    assert [type(message) for message in sent["c"]] == [Subscribe]
    assert [type(message) for message in sent["d"]] == [Subscribe]
    assert net.holders("a") == {"c": ["s"], "d": ["s"]}
    net.subscribe("a", ID, parse("x = 1 AND sender.floor >= 2"))  # another content, the same class
    assert {name: list(map(type, said)) for name, said in net.sent().items()} == {"c": [Subscribe], "d": [Subscribe]}
    net.unsubscribe("a", ID)
    net.drain()
    assert net.holders("a") == {}
    known: Any = net.at("a")
    assert known.classes == known.class_of == known.held_by == {}


# ------------------------------------------------------------ a context changes [spcf §3.1.2]


def changing() -> Contexts:
    """One at a wants what is said on floors 1 and 2, apart; p and q say something at c."""
    net = network()
    net.subscribe("a", ("subscriber", "one"), FLOOR_1)
    net.subscribe("a", ("subscriber", "two"), FLOOR_2)
    net.set_context("a", "subscriber", {"role": "guard"})
    net.set_context("c", "p", {"floor": 1})
    net.drain()
    return net


def test_case_i_the_set_of_contexts_stays_the_same_and_nobody_hears_anything() -> None:
    net = changing()
    net.set_context("c", "q", {"floor": 1})
    net.set_context("c", "r", {"floor": 2})
    net.drain()
    assert net.brokers["c"].sizes()["contexts"] == 3
    net.set_context("c", "q", {"floor": 2})
    assert net.sent() == {}
    net.set_context("c", "q", {"floor": 2})  # the same again
    assert net.sent() == {}


def test_case_ii_a_context_takes_the_place_of_another_and_attracts_and_gives_back() -> None:
    net = changing()
    assert net.holders("a") == {"c": ["one"]}
    net.set_context("c", "p", {"floor": 2})
    sent = net.sent()
    assert sent["a"] == [ContextAdded(1, 2, {"floor": 2}, replaces=1)]
    assert sorted(type(message).__name__ for message in sent["c"]) == [
        "DropSubscriptions",
        "Subscribe",
        *["SubscriptionsComplete"] * 4,
    ]
    assert net.holders("a") == {"c": ["two"]}
    assert net.at("a").others["c"].described == {1: (2, {"floor": 2})}


def test_case_iii_a_context_is_added_and_the_other_stays_for_whoever_is_still_in_it() -> None:
    net = changing()
    net.set_context("c", "q", {"floor": 1})
    net.set_context("c", "p", {"floor": 2})
    sent = net.sent()
    assert sent["b"] == [ContextAdded(1, 2, {"floor": 2})]
    assert net.holders("a") == {"c": ["one", "two"]}


def test_a_context_that_is_left_for_a_known_one_is_removed_and_what_it_attracted_goes() -> None:
    net = changing()
    net.set_context("c", "q", {"floor": 2})
    net.drain()
    assert net.holders("a") == {"c": ["one", "two"]}
    net.set_context("c", "p", {"floor": 2})
    assert net.sent()["a"] == [ContextRemoved(1)]
    assert net.holders("a") == {"c": ["two"]}
    net.set_context("c", "p", None)
    net.set_context("c", "q", None)
    net.drain()
    assert net.holders("a") == {}
    net.set_context("a", "subscriber", None)
    net.unsubscribe("a", ("subscriber", "one"))
    net.unsubscribe("a", ("subscriber", "two"))
    net.drain()
    for routing in net.brokers.values():
        assert not any(routing.sizes().values())
        assert routing.is_settled()


def test_a_subscriber_that_changes_its_context_says_so_once_and_does_not_subscribe_again() -> None:
    net = changing()
    net.subscribe("a", ("subscriber", "all"), TRUE)
    net.drain()
    net.set_context("a", "other", {"role": "guest"})
    net.drain()
    net.set_context("a", "subscriber", {"role": "guest"})  # c holds two of its subscriptions
    sent = net.sent()
    assert sent["c"] == [InContext("subscriber", 2), ContextRemoved(1)]
    assert sent["b"] == [ContextRemoved(1)]


# ------------------------------------------------------------ no gap


def test_an_event_published_right_after_its_context_has_changed_reaches_all_that_want_it() -> None:
    net = changing()
    net.set_context("c", "p", {"floor": 2})
    assert sorted(net.at("c").awaiting[2]) == ["a", "b", "d", "leaf"]
    assert net.brokers["c"].wanted() == [TRUE]
    assert not net.brokers["c"].is_settled()
    net.say("c", "p", temperature=60)
    net.drain()
    assert ids(net, "a", ("subscriber", "two")) == [1]
    assert net.at("c").awaiting == {}
    assert net.brokers["c"].is_settled()
    assert FLOOR_2 in net.brokers["c"].wanted()


def test_an_event_from_a_context_that_is_not_ours_goes_to_everybody() -> None:
    net = changing()
    net.say("c", "p", context={"floor": 2}, temperature=60)
    sent = net.sent()
    assert sorted(name for name, said in sent.items() if any(isinstance(one, Publish) for one in said)) == [
        "a",
        "b",
        "d",
        "leaf",
    ]
    assert ids(net, "a", ("subscriber", "two")) == [1]


def test_a_settled_context_sends_events_only_to_whom_they_match() -> None:
    net = changing()
    net.say("c", "p", temperature=40)
    assert net.sent() == {}
    net.say("c", "p", temperature=60)
    assert list(net.sent()) == ["a"]
    assert ids(net, "a", ("subscriber", "one")) == [2]
    assert net.brokers["a"].publish(event({"temperature": 60}), 0.0) != []  # the empty context is not a's


def test_clients_of_the_publishers_own_broker_get_the_event_at_once() -> None:
    routing = spcf_routing("a")
    routing.subscribe(ID, FLOOR_1, 0.0)
    said = stamped(event({"temperature": 60}, publisher="p", sequence=1), {"floor": 1})
    assert routing.publish(said, 0.0) == [DeliverLocally(said, [ID])]


# ------------------------------------------------------------ whom an event is meant for


def meant() -> Contexts:
    net = network()
    for name, role in (("a", "guard"), ("b", "guest"), ("d", "guard")):
        net.set_context(name, "subscriber", {"role": role})
        net.subscribe(name, ID, TRUE)
    net.set_context("c", "p", {})
    net.drain()
    return net


def test_an_event_goes_only_to_brokers_with_a_client_that_may_be_meant() -> None:
    net = meant()
    net.say("c", "p", to="role = 'guard'", x=1)
    net.drain()
    net.say("c", "p", to="role = 'cook'", x=1)
    net.drain()
    assert [ids(net, name) for name in "abd"] == [[1], [], [1]]


def test_a_client_whose_context_is_not_known_may_be_meant_by_everything() -> None:
    net = meant()
    net.set_context("b", "subscriber", None)
    net.subscribe("leaf", ID, TRUE)
    net.drain()
    net.say("c", "p", to="role = 'cook'", x=1)
    net.drain()
    assert [ids(net, name) for name in ("a", "b", "d", "leaf")] == [[], [1], [], [1]]


def test_a_client_that_left_a_shared_context_is_not_taken_to_be_in_it_still() -> None:
    net = meant()
    net.set_context("b", "other", {"role": "guest"})
    net.drain()
    net.set_context("b", "subscriber", None)
    assert net.sent()["c"] == [InContext("subscriber", 0)]
    net.say("c", "p", to="role = 'guard'", x=1)
    net.drain()
    assert ids(net, "b") == [1]


def test_where_a_client_is_is_kept_as_long_as_a_subscription_of_it_and_told_again_with_the_next() -> None:
    net = meant()
    other: Any = net.at("c").others["b"]
    assert other.context_of("subscriber") == (1, {"role": "guest"})
    net.unsubscribe("b", ID)
    net.drain()
    assert other.places == other.counts == other.classes == {}
    net.subscribe("b", ID, TRUE)
    assert net.sent()["c"] == [Subscribe(ID, TRUE), InContext("subscriber", 1)]
    net.subscribe("b", ("subscriber", "t"), TRUE)
    assert net.sent()["c"] == [Subscribe(("subscriber", "t"), TRUE)]


def test_a_client_whose_context_is_replaced_is_meant_by_what_means_the_new_one() -> None:
    net = meant()
    net.set_context("b", "subscriber", {"role": "guard"})
    assert net.sent()["c"] == [ContextAdded(1, 2, {"role": "guard"}, replaces=1)]
    net.say("c", "p", to="role = 'guard'", x=1)
    net.drain()
    assert ids(net, "b") == [1]


# ------------------------------------------------------------ races


def test_a_removal_that_crosses_a_subscription_leaves_nothing_behind() -> None:
    net = changing()
    net.set_context("c", "p", None)
    net.subscribe("a", ("subscriber", "late"), FLOOR_1)  # a has not heard yet
    net.drain()
    assert net.holders("a") == {}
    assert not any(net.brokers["c"].sizes()[table] for table in ("remote", "matcher", "placed"))


def test_what_ends_between_a_removal_and_an_addition_does_not_come_back() -> None:
    net = changing()
    net.set_context("c", "p", None)
    net.drain()
    net.unsubscribe("a", ("subscriber", "one"))
    net.subscribe("a", ("subscriber", "three"), FLOOR_1)
    net.set_context("c", "p", {"floor": 1})
    net.drain()
    assert net.holders("a") == {"c": ["three"]}


def test_a_context_that_comes_and_goes_before_anybody_answers_is_awaited_by_nobody() -> None:
    net = changing()
    for floor in (2, 3, 2, 1, 2):
        net.set_context("c", "p", {"floor": floor})
        assert len(net.at("c").awaiting) == 1
    net.say("c", "p", temperature=60)
    net.drain()
    assert net.at("c").awaiting == {}
    assert ids(net, "a", ("subscriber", "two")) == [1]
    assert net.holders("a") == {"c": ["two"]}


def test_a_new_life_in_the_middle_of_a_change_is_told_everything_again() -> None:
    net = changing()
    net.set_context("c", "p", {"floor": 2})
    net.deliver(*net.can_deliver()[0])
    net.forget("c")
    net.set_context("c", "p", {"floor": 1})
    net.settle()
    assert net.holders("a") == {"c": ["one"]}
    net.forget("a")
    net.subscribe("a", ID, FLOOR_1)
    net.settle()
    assert net.holders("a") == {"c": ["s"]}
    assert all(routing.is_settled() for routing in net.brokers.values())
    net.say("c", "p", temperature=60)
    net.drain()
    assert ids(net, "a") == [1]


def test_what_an_old_life_had_been_told_counts_for_nothing_in_the_new_one() -> None:
    """`SubscriptionsComplete` for context 1 of a past life must not stand for context 1 of the present one."""
    routing: Any = spcf_routing("c", 2)
    routing.on_message("a", _link_state("a", "c"), 0.0)
    routing.set_context("p", {"floor": 1}, 0.0)
    assert list(routing.forwarding.awaiting) == [1]
    routing.take("a", SubscriptionsComplete(1, 1), 0.0)
    assert list(routing.forwarding.awaiting) == [1]
    routing.take("a", SubscriptionsComplete(2, 1), 0.0)
    assert routing.forwarding.awaiting == {}
    routing.take("a", ContextAdded(5, 1, {"floor": 1}), 0.0)  # a's first life said nothing of a fifth
    assert routing.forwarding.others["a"].described == {}


def _link_state(broker: NodeId, *neighbours: NodeId) -> Any:
    from godwit.broker.messages import LinkState

    return LinkState(broker, 1, 1, dict.fromkeys(neighbours, 1.0))


def test_whoever_tells_everything_from_the_start_is_awaited_until_it_has_told() -> None:
    net = changing()
    routing = net.brokers["c"]
    assert routing.forwarding.awaiting == {}
    routing.take("a", ChannelStart(1), 0.0)
    assert routing.forwarding.awaiting == {1: {"a": None}}
    assert routing.forwarding.others["a"].stale == {1: None}
    assert not routing.is_settled()
    for message in net.at("a").everything("c"):
        routing.take("a", message, 0.0)
    assert routing.forwarding.awaiting == {}
    routing.take("a", Synced(), 0.0)
    assert routing.is_settled()
    assert net.holders("a") == {"c": ["one"]}


def test_a_context_that_is_not_told_again_is_over_at_synced_and_takes_with_it_what_it_attracted() -> None:
    net = changing()
    routing = net.brokers["a"]
    routing.take("c", ChannelStart(1), 0.0)
    answers = routing.take("c", Synced(), 0.0)
    assert targets_of(answers, DropSubscriptions) == ["c"]
    assert routing.forwarding.others["c"].described == {}
    assert routing.forwarding.classes[parse("floor = 1")].reach == {}


def without_history(*options: Any) -> GraphRouting:
    routing = spcf_routing(*options)
    routing.channels.history = type(routing.channels.history)(maxlen=1)
    return routing


def test_what_a_source_cannot_send_again_is_told_anew() -> None:
    """A `LostNumbers` stands for contexts and subscriptions alike: whoever lost them asks for everything."""
    net = Contexts([("a", "b"), ("b", "c")], make=without_history)
    net.start()
    net.set_context("c", "p", {"floor": 1})
    net.subscribe("a", ("subscriber", "one"), FLOOR_1)
    net.set_context("a", "subscriber", {"role": "guard"})
    net.drain()
    net.set_context("c", "p", {"floor": 2})
    net.subscribe("a", ("subscriber", "two"), FLOOR_2)
    net.set_context("a", "subscriber", {"role": "guest"})
    for pair in (("a", "b"), ("c", "b")):
        while net.wires.under_way(*pair):
            net.deliver(*pair)
        net.acknowledge(*pair)
    net.forget("b")  # with all that it had in hand
    net.settle()
    assert any(record.message == "Packet" for record in net.records)
    assert net.holders("a") == {"c": ["two"]}
    assert net.at("c").others["a"].context_of("subscriber") == (2, {"role": "guest"})
    assert all(routing.is_settled() for routing in net.brokers.values())


def test_a_snapshot_goes_on_as_the_broker_would_have() -> None:
    net = changing()
    again = restored(net.brokers["c"], spcf_routing("c"))
    said = stamped(event({"temperature": 60}, publisher="p", sequence=1), {"floor": 1})
    assert again.publish(said, 1.0) == net.brokers["c"].publish(said, 1.0) != []
    assert again.set_context("p", {"floor": 2}, 1.0) == net.brokers["c"].set_context("p", {"floor": 2}, 1.0) != []


# ------------------------------------------------------------ what others may say


def test_nothing_said_of_the_unknown_does_harm() -> None:
    net = changing()
    routing = net.brokers["c"]
    before = routing.sizes()
    for message in (
        SubscriptionsComplete(1, 99),
        DropSubscriptions(parse("floor = 9")),
        InContext("nobody", 1),
        InContext("subscriber", 99),
    ):
        assert routing.take("a", message, 0.0) == []
    assert routing.take("a", ContextRemoved(99), 0.0) == []
    assert routing.sizes() == {**before, "placed": 0}  # the subscriber may be meant by everything now


@pytest.mark.parametrize(
    "message",
    [
        ContextAdded(1, 0, {}),
        ContextAdded(0, 1, {}),
        ContextAdded(1, True, {}),
        ContextAdded(1, 2, {}, replaces=2),
        ContextAdded(1, 2, {}, replaces=-1),
        ContextAdded(1, 1, {"x": {}}),
        ContextAdded(1, 1, {"x": [1, [2]]}),
        ContextAdded(1, 1, {1: 1}),  # type: ignore[dict-item]
        ContextAdded(1, 1, {"x": float("nan")}),
        ContextAdded(1, 1, {f"x{number}": 1 for number in range(AUTHORS * CONTEXT_MAX + 1)}),
        ContextAdded(1, 1, {"x": "long" * AUTHORS * 1_024}),
        ContextAdded(1, 1, {"sender.x": 1}),
        ContextAdded(1, 1, [1]),  # type: ignore[arg-type]
        ContextAdded(1, 1, (1,)),  # type: ignore[arg-type]
        ContextAdded(1, 1, (Bound("x", one_of(range(LISTED_MAX + 1)), False),)),
        ContextAdded(1, 1, (Bound("x", EVERYTHING, False), Bound("x", NOTHING, False))),
        ContextAdded(1, 1, (Bound("y", EVERYTHING, False), Bound("x", EVERYTHING, False))),
        ContextAdded(1, 1, (Bound("", EVERYTHING, False),)),
        ContextAdded(1, 1, (Bound("x", 5, False),)),  # type: ignore[arg-type]
        ContextAdded(1, 1, (Bound("x", EVERYTHING, 1),)),  # type: ignore[arg-type]
        ContextAdded(1, 1, tuple(Bound(f"x{number:03}", EVERYTHING, False) for number in range(CONTEXT_MAX + 1))),
        ContextRemoved(0),
        ContextRemoved("1"),  # type: ignore[arg-type]
        InContext(5, 1),  # type: ignore[arg-type]
        InContext("client", -1),
        SubscriptionsComplete(0, 1),
        SubscriptionsComplete(1, 0),
        DropSubscriptions("x >"),  # type: ignore[arg-type]
        DropSubscriptions(parse("x = my.x")),
    ],
)
def test_what_no_honest_broker_says_is_a_fault_and_changes_nothing(message: Any) -> None:
    net = changing()
    before = repr(net.brokers["b"].snapshot())
    with pytest.raises(PeerFault):
        net.brokers["b"].on_message("a", Packet("a", 1, {"b": 99}, read(message)), 0.0)
    assert repr(net.brokers["b"].snapshot()) == before


@pytest.mark.parametrize(
    "message",
    [
        ContextAdded(1, 2, {"roles": ("a", "b"), "x": 1.5}, replaces=1),
        ContextAdded(1, 1, bounds_of([{"x": 1}, {"y": "a"}])),
        ContextAdded(1, 1, (Bound("x", between(1, 5), True),)),
        ContextAdded(1, 1, ()),
        InContext("client", 0),
        SubscriptionsComplete(1, 1),
        DropSubscriptions(TRUE),
    ],
)
def test_what_honest_brokers_say_is_none(message: Any) -> None:
    changing().brokers["b"].on_message("a", Packet("a", 1, {"b": 99}, message), 0.0)


def test_brokers_that_do_not_go_by_contexts_do_not_take_them() -> None:
    """One network has one strategy: a broker of the other closes the link."""
    with pytest.raises(PeerFault, match="ContextAdded"):
        GraphRouting("b").on_message("a", Packet("a", 1, {"b": 1}, ContextAdded(1, 1, {})), 0.0)


def test_of_too_many_contexts_one_more_is_refused_on_record_and_never_answered(monkeypatch: Any) -> None:
    monkeypatch.setattr("godwit.broker.spcf.CONTEXTS_HELD_MAX", 2)
    net = network()
    for number in range(3):
        net.set_context("c", f"p{number}", {"floor": number})
    net.drain()
    assert net.brokers["a"].sizes()["contexts"] == 2
    assert [record.kind for record in net.records] == ["refused"] * 4
    assert sorted(net.at("c").awaiting) == [3]  # so what is published from it goes to everybody
    net.set_context("c", "p2", None)
    assert net.at("c").awaiting == {}


# ------------------------------------------------------------ summaries


def described(own: OwnContexts) -> list[Any]:
    return list(own.described.values())


def test_contexts_beyond_the_limit_join_the_summary_that_grows_least() -> None:
    own: Any = OwnContexts(2)
    own.put("a", {"x": 0})
    own.put("b", {"x": 100})
    [step] = own.put("c", {"x": 10})
    assert (step.number, step.replaces, step.is_within) == (3, 1, False)
    assert sorted(map(repr, described(own))) == sorted(map(repr, [{"x": 100}, (Bound("x", between(0, 10), False),)]))
    assert own.put("d", {"x": 5}) == []  # it lies within
    assert own.number_of({"x": 5}) == own.number_of_client("a") == 3
    assert own.number_of({"x": 6}) == 0


def test_a_summary_that_most_have_left_is_drawn_anew_and_the_last_one_in_it_alone_is_exact() -> None:
    own: Any = OwnContexts(1)
    for name, x in (("a", 0), ("b", 10), ("c", 20), ("d", 30)):
        own.put(name, {"x": x})
    assert described(own) == [(Bound("x", between(0, 30), False),)]
    assert own.put("d", None) == []
    assert own.put("c", None) == []
    [step] = own.put("b", None)
    assert (step.described, step.is_within) == ({"x": 0}, True)
    [step] = own.put("a", None)
    assert own.described == own.members == own.numbers == own.exact == own.clients == own.keys == own.left == {}


def test_a_summary_tells_of_texts_points_and_missing_attributes() -> None:
    own: Any = OwnContexts(1)
    own.put("a", event({"floor": 1, "at": {"lon": 8.5, "lat": 47.4}}).attributes)
    own.put("b", event({"role": "cook", "at": {"lon": 8.6, "lat": 47.5}}).attributes)
    [bounds] = described(own)
    at, floor, role = bounds
    assert at.values.contains(event({"p": {"lon": 8.55, "lat": 47.45}}).attributes["p"])
    assert not at.values.contains(event({"p": {"lon": 9.0, "lat": 47.45}}).attributes["p"])
    assert (floor.optional, role.optional, at.optional) == (True, True, False)
    for number in range(LISTED_MAX + 1):
        own.put(f"c{number}", {"role": f"r{number:02}"})
    [bounds] = described(own)
    assert not hasattr(bounds[2].values, "members")  # no long list


def test_contexts_that_no_summary_can_take_in_stay_alone() -> None:
    own: Any = OwnContexts(1)
    own.put("a", {f"a{number}": 1 for number in range(CONTEXT_MAX)})
    own.put("b", {"b": 1})
    assert len(own) == 2


def in_vain(forwarding: ContextForwarding) -> int:
    """How many subscriptions of others a broker has that match no client's context: summaries have attracted them."""
    exact = list(forwarding.own.exact.values())
    asked = [(each, ids) for other in forwarding.others.values() for each, ids in other.classes.items()]
    return sum(len(ids) for each, ids in asked if not any(each.holds(context) for context in exact))


def test_summaries_attract_in_vain_and_no_event_is_missed() -> None:
    net = network(contexts_max=1)
    net.set_context("c", "p", {"floor": 1})
    net.set_context("c", "q", {"floor": 3})
    net.subscribe("a", ("subscriber", "one"), FLOOR_1)
    net.subscribe("a", ("subscriber", "two"), FLOOR_2)
    net.drain()
    assert net.holders("a") == {"c": ["one", "two"]}
    assert in_vain(net.at("c")) == 1
    net.set_context("c", "q", {"floor": 5})
    net.say("c", "p", temperature=60)
    net.set_context("c", "q", {"floor": 1})
    net.say("c", "q", temperature=60)
    net.drain()
    assert len(net.deliveries["a", ("subscriber", "one")]) == 2
    net.set_context("c", "p", None)
    net.drain()
    net.set_context("c", "q", None)
    net.drain()
    assert net.holders("a") == {}


@pytest.mark.parametrize("groups", [None, 40])
def test_more_summaries_attract_less_in_vain(groups: int | None) -> None:
    """Much less where clients stand in groups. (docs/architecture.md, SPCF)"""
    random_ = random.Random(3)

    def anywhere() -> dict[str, float]:
        return {"x": random_.uniform(0, 1_000), "y": random_.uniform(0, 1_000)}

    centres = [anywhere() for _ in range(groups or 1)]
    near = [{name: at + random_.gauss(0, 15) for name, at in random_.choice(centres).items()} for _ in range(200)]
    places = near if groups else [anywhere() for _ in range(200)]
    squares = [all_of(*(some(name, between(at - 5, at + 5)) for name, at in anywhere().items())) for _ in range(400)]
    vain = []
    for contexts_max in (4, 16, 64, 200):
        own = OwnContexts(contexts_max)
        for number, context in enumerate(places):
            own.put(f"client {number}", context)
        needed = [any(square.holds(context) for context in places) for square in squares]
        told = [any(may_match(square, each) for each in own.described.values()) for square in squares]
        assert all(known for known, need in zip(told, needed, strict=True) if need)
        vain.append((sum(told) - sum(needed)) / len(squares))
        assert len(own) <= contexts_max
    assert vain == sorted(vain, reverse=True)
    assert vain[3] == 0
    assert vain[2] < (0.1 if groups else 0.6)


def test_one_message_tells_of_all_clients_of_a_summary_that_grows() -> None:
    net = network(contexts_max=1)
    for number in range(3):
        net.set_context("a", f"s{number}", {"x": number})
        net.subscribe("a", (f"s{number}", "s"), TRUE)
    net.set_context("c", "p", {})
    net.drain()
    net.set_context("a", "s2", {"x": 9})
    sent = net.sent()["c"]
    assert [type(message) for message in sent] == [ContextAdded]
    net.say("c", "p", to="x = 5", y=1)
    net.say("c", "p", to="x = 10", y=1)
    net.drain()
    assert [ids(net, "a", (f"s{number}", "s")) for number in range(3)] == [[1]] * 3  # the edge will test it exactly


def test_void_and_nack_are_still_what_they_are_in_every_graph() -> None:
    net = changing()
    assert net.brokers["a"].take("c", LostNumbers(1, (1,)), 0.0) == []
    assert "c" in net.brokers["a"].untold
    assert targets_of(net.brokers["a"].take("c", Nack(1, ()), 0.0), Subscribe) == ["c"]


def test_names_that_nobody_uses_any_more_are_forgotten() -> None:
    own = OwnContexts(1)
    for number in range(4 * SPANS_MAX):
        own.put("restless", {f"x{number}": number})
        own.put("other", {"y": number})
    assert len(own.spans) <= SPANS_MAX
    assert own.spans["y"][1] == 4 * SPANS_MAX - 1
    many = {client: {f"{client}{number}": number for number in range(60)} for client in "abcdefghij"}
    for client, context in many.items():
        own.put(client, context)
    assert all(name in own.spans for context in many.values() for name in context)  # these are in use
