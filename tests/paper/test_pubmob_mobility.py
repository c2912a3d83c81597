"""Publishers that move, sentence by sentence. [pubmob §3, §3.1]

A tree of degree 2 and height 4, as the paper's with fewer branches: R, then A and B, then four, then the eight leaves
L1 to L8, which lie along a street. A subscriber sits at L8, at the far end.
"""

from collections import Counter
from typing import Any

import pytest

from godwit.broker.effects import Heard, Opened, TimerDue
from godwit.broker.messages import Advertise, Attach, Frame, Subscribe, Unadvertise, Unsubscribe
from godwit.mobility.move_messages import EndOlderSession, Prefetch, Proxy, WithdrawPrefetch
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.predictors import Itineraries, MovementModel, NoisyPredictor, model_of
from godwit.mobility.publisher_presence import PublisherConfig, PublisherPresence
from godwit.mobility.relocation import Relocation
from tests.paper.roaming_world import LATENCY_S, Roaming

TREE = "R-A R-B A-C A-D B-E B-F C-L1 C-L2 D-L3 D-L4 E-L5 E-L6 F-L7 F-L8"
LINKS = len(TREE.split())
LEAVES = tuple(f"L{n}" for n in range(1, 9))
CONTROL = (Advertise, Unadvertise, Subscribe, Unsubscribe, Prefetch, WithdrawPrefetch, Proxy)
TO_THE_END = 6  # links from L1 to L8


def nearest() -> dict[str, tuple[str, ...]]:
    """By leaf, all leaves, the nearest along the street first."""
    return {
        leaf: tuple(sorted(LEAVES, key=lambda other: abs(LEAVES.index(other) - at))) for at, leaf in enumerate(LEAVES)
    }


class Street(Roaming):
    """The tree, a publisher P that is at L1, and a subscriber S at L8."""

    def __init__(self, mode: str, visits: tuple[str, ...] = ("L1", "L2"), **moving: object) -> None:
        settings: dict[str, object] = {"predictor": Itineraries({"P": visits}), "nearest": nearest(), "proxies": 3}
        config = PublisherConfig(**{**settings, **moving})  # type: ignore[arg-type]
        super().__init__(TREE, moving=config, advertisements="required", reduction="covering")
        self.counted: Counter[type] = Counter()
        self.come("S", "L8")
        self.subscribe("S")
        self.settle()
        self.come("P", visits[0], mode)
        self.advertise("P")
        self.settle()
        self.forget()

    def forget(self) -> None:
        """Count messages anew."""
        self.counted = Counter(self.handled)

    def travelled(self, *kinds: type) -> int:
        """How many messages of these kinds have travelled a link since then."""
        return sum(self.handled.get(kind, 0) - self.counted[kind] for kind in kinds)

    def moves(self, to: str, away_s: float = 3.0) -> None:
        self.leave("P")
        self.pass_time(away_s)
        self.come("P", to)
        self.pass_time(2.5 * LATENCY_S)  # its greeting is there, and the welcome

    def advertisers(self, client: str = "P") -> list[str]:
        """The brokers that advertise for the client as if it were there."""
        tables = {leaf: self.broker(leaf).routing.in_ads[""] for leaf in LEAVES}  # type: ignore[attr-defined]
        return [leaf for leaf, ads in tables.items() if any(id[0] == client for id in ads)]

    def has_a_tree(self, broker: str) -> bool:
        """Whether the subscription of S has come to a broker along the way that an advertisement has gone."""
        from_others = self.broker(broker).routing.in_subs  # type: ignore[attr-defined]
        return any(entries for source, entries in from_others.items() if source)


# ---------------------------------------------------------------- standard


def test_standard_tears_the_trees_down_when_the_publisher_goes():
    """'Broker 1 will send an unadvertisement message to initiate the teardown … which will induce the teardown of
    corresponding multicast trees'"""
    street = Street("standard")
    street.leave("P")
    street.settle()
    assert street.travelled(Unadvertise) == LINKS
    assert street.travelled(Unsubscribe) == TO_THE_END


def test_after_the_teardown_there_is_no_state_of_the_publisher():
    """'after which there is no state associated with the publisher in the system'"""
    street = Street("standard")
    street.leave("P")
    street.settle()
    for name in street.brokers:
        if name not in ("P", "S"):
            assert street.holds_nothing_of(name, "P")
            tables = street.broker(name).routing.sizes()
            assert tables["in_ads"] == tables["out_ads"] == tables["out_subs"] == 0


def test_standard_rebuilds_the_trees_where_the_publisher_comes():
    """'During period t4 the advertisement and multicast trees are rebuilt'"""
    street = Street("standard")
    street.leave("P")
    street.settle()
    street.forget()
    street.come("P", "L2")
    street.settle()
    assert street.travelled(Advertise) == LINKS
    assert street.travelled(Subscribe) == TO_THE_END


def test_standard_events_published_while_the_tree_is_rebuilt_are_not_delivered():
    """'Publications sent during period t4 may not be delivered to interested subscribers'"""
    street = Street("standard")
    street.moves("L2")
    street.publish("P", 1)
    street.pass_time(LATENCY_S * 2 * TO_THE_END)
    street.publish("P", 2)
    street.settle()
    assert street.numbers("S", "P") == [2]


# ---------------------------------------------------------------- prefetching


def test_with_prefetching_t4_is_zero():
    """'any publications sent immediately after reconnection are delivered to interested subscribers'"""
    street = Street("prefetching")
    street.moves("L2")
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]


def test_prefetching_builds_the_next_tree_while_the_publisher_is_away():
    """'the advertisement and multicast trees are rebuilt during period t2 instead of period t4'"""
    street = Street("prefetching")
    street.leave("P")
    street.pass_time(1.0)
    assert street.advertisers() == ["L2"]
    assert street.has_a_tree("L2")
    assert street.travelled(Prefetch) == 2  # the old broker informs the new one, over the links between them


def test_prefetching_costs_what_standard_costs_and_the_word_to_the_next_broker():
    """'The same is true for PREFETCHING but with an additional cost of having the old broker inform the new broker'"""
    costs = {}
    for mode in ("standard", "prefetching"):
        street = Street(mode, visits=("L1", "L8"))  # so far that nothing is grafted by chance
        street.moves("L8")
        street.settle()
        costs[mode] = street.travelled(*CONTROL)
    assert costs["prefetching"] == costs["standard"] + TO_THE_END


def test_prefetching_to_a_near_broker_does_not_build_the_new_tree_fast_enough_to_graft_onto_the_old_one():
    """'PREFETCHING is not building the new tree fast enough to graft onto the old tree that is being torn down' [§4.3]

    The advertisement runs behind the unadvertisement, through brokers whose subscriptions are just being taken back.
    """
    costs = {}
    for mode in ("standard", "prefetching"):
        street = Street(mode)
        street.moves("L2")
        street.settle()
        costs[mode] = street.travelled(*CONTROL)
        assert street.travelled(Advertise) == street.travelled(Unadvertise) == LINKS
    assert costs["prefetching"] > costs["standard"] == 2 * (LINKS + TO_THE_END)


def test_a_wrong_prediction_is_withdrawn_when_the_publisher_is_seen_elsewhere():
    street = Street("prefetching", visits=("L1", "L5"))
    street.moves("L2")
    street.settle()
    assert street.advertisers() == ["L2"]
    assert street.holds_nothing_of("L5", "P")
    assert street.holds_nothing_of("L1", "P")
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]


@pytest.mark.parametrize("mode", ["prefetching", "prefetching+delayed"])
def test_a_prediction_is_withdrawn_when_the_publisher_comes_back_to_where_it_was(mode):
    street = Street(mode, prefetch_s=1_000.0)
    street.leave("P")
    street.pass_time(1.0)
    assert "P" in street.broker("L2").component(PublisherPresence).holdings
    street.come("P", "L1")
    street.pass_time(1.0)
    assert street.holds_nothing_of("L2", "P")
    assert street.broker("L1").component(PublisherPresence).predicted == {}
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]


def test_nothing_is_withdrawn_at_a_broker_that_nobody_knows():
    broker = Street("prefetching").broker("L3")
    broker.handle(Opened("here"), 100.0)
    broker.handle(Heard("here", Attach("Q", attempt=2, since=1, home="nowhere", mode="prefetching")), 100.0)
    assert broker.sessions.session("Q") is not None
    assert not broker.component(OverlayRoutes).unsent


def test_a_publisher_that_never_comes_is_waited_for_no_longer_than_the_bound():
    street = Street("prefetching", prefetch_s=20.0)
    street.leave("P")
    street.pass_time(19.0)
    assert street.advertisers() == ["L2"]
    street.pass_time(2.0)
    assert street.advertisers() == []
    assert street.holds_nothing_of("L1", "P")


# ---------------------------------------------------------------- delayed


def test_delayed_goes_on_advertising_for_some_time_after_moveout():
    """'The teardown of the old tree at Broker 1 is delayed for some time after moveout'"""
    street = Street("delayed")
    street.leave("P")
    street.pass_time(9.9)
    assert street.travelled(*CONTROL) == 0
    assert street.advertisers() == ["L1"]
    street.pass_time(5.0)
    assert street.travelled(Unadvertise) == LINKS
    assert street.advertisers() == []


@pytest.mark.parametrize(("to", "distance"), [("L2", 2), ("L3", 4), ("L5", 6)])
def test_delayed_grafts_along_the_way_between_the_two_brokers_only(to, distance):
    """'graft the new publication tree to the old one'"""
    street = Street("delayed", visits=("L1", to))
    street.moves(to)
    street.settle()
    # an advertisement goes down the links to the old broker; up to the junction the old one's goes back with it
    assert street.travelled(Advertise) == distance
    assert street.travelled(Subscribe) <= distance
    assert street.travelled(Unadvertise, Unsubscribe) == 0


@pytest.mark.parametrize(("to", "distance"), [("L2", 2), ("L3", 4), ("L5", 6)])
def test_delayed_tears_down_only_the_extraneous_portions(to, distance):
    """'After the delay, the old broker tears down only the extraneous portions of the combined tree'"""
    street = Street("delayed", visits=("L1", to))
    street.moves(to)
    street.settle()
    street.forget()
    street.pass_time(10.0)
    assert 0 < street.travelled(Unadvertise) <= distance
    assert street.travelled(Unsubscribe) <= distance
    assert street.travelled(Advertise, Subscribe) == 0
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]


def test_delayed_coming_back_to_the_same_broker_costs_nothing():
    street = Street("delayed")
    street.moves("L1")
    street.publish("P", 1)
    street.pass_time(20.0)
    assert street.travelled(*CONTROL) == 0
    assert street.numbers("S", "P") == [1]
    assert street.advertisers() == ["L1"]


# ---------------------------------------------------------------- proxy


def test_proxies_always_maintain_a_tree_for_the_publisher():
    """'These proxies always maintain a tree for the publisher'"""
    street = Street("proxy", visits=("L4",))
    assert street.advertisers() == ["L3", "L4", "L5"]
    street.leave("P")
    street.pass_time(1_000.0)
    assert street.advertisers() == ["L3", "L4", "L5"]
    assert all(street.has_a_tree(leaf) for leaf in ("L3", "L4", "L5"))
    assert street.travelled(*CONTROL) == 0


def test_nothing_is_torn_down_or_rebuilt_between_proxies():
    """'there is no teardown or rebuilding of the tree when the publisher disconnects from or connects to one of its
    proxies'"""
    street = Street("proxy", visits=("L4",))
    for to in ("L5", "L4", "L3", "L5"):
        street.forget()
        street.moves(to)
        street.publish("P", 1)
        street.settle()
        assert street.travelled(*CONTROL) == 0  # the client advertises at its broker, no broker at another
    assert street.numbers("S", "P") == [1, 2, 3, 4]


def test_off_its_proxies_the_publisher_is_as_in_standard_but_grafts_onto_their_trees():
    street = Street("proxy", visits=("L2",))
    assert street.advertisers() == ["L1", "L2", "L3"]
    street.moves("L4")
    street.settle()
    assert street.advertisers() == ["L1", "L2", "L3", "L4"]
    assert street.travelled(Advertise) <= 2  # L4, D: the tree of L3 is there
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]
    street.moves("L5")
    assert street.advertisers() == ["L1", "L2", "L3", "L5"]


def test_a_publisher_that_leaves_for_good_leaves_nothing_at_its_proxies():
    street = Street("proxy", visits=("L2",))
    street.moves("L6")
    street.settle()
    street.command("P", lambda client, now: client.leave(now))
    street.settle()
    assert street.advertisers() == []
    assert all(street.holds_nothing_of(leaf, "P") for leaf in LEAVES)


def test_a_publisher_that_stays_away_is_forgotten_by_its_proxies():
    street = Street("proxy", visits=("L2",), lease_s=300.0)
    street.leave("P")
    street.pass_time(290.0)
    assert street.advertisers() == ["L1", "L2", "L3"]
    street.pass_time(20.0)
    assert street.advertisers() == []


def test_a_publisher_that_is_still_about_keeps_its_proxies():
    street = Street("proxy", visits=("L2",), lease_s=300.0)
    for to in ("L5", "L6", "L7", "L6"):
        street.moves(to)
        street.pass_time(150.0)
        assert street.advertisers() == ["L1", "L2", "L3", to]


def test_proxies_hear_what_the_publisher_advertises_anew():
    street = Street("proxy", visits=("L2",))
    street.moves("L5")
    street.settle()
    street.command("P", lambda client, now: client.unadvertise("all", now))
    street.settle()
    assert street.advertisers() == []
    street.advertise("P", "x >= 0 AND y = 1")
    street.settle()
    assert street.advertisers() == ["L1", "L2", "L3", "L5"]


def test_what_a_publisher_takes_back_while_it_is_away_its_proxies_hear_when_it_comes():
    street = Street("proxy", visits=("L2",))
    street.leave("P")
    street.command("P", lambda client, now: client.unadvertise("all", now))
    street.pass_time(3.0)
    street.come("P", "L5")
    street.settle()
    assert street.advertisers() == []


# ---------------------------------------------------------------- together


def test_prefetching_can_be_combined_with_delayed():
    """'PREFETCHING can be combined with DELAYED to potentially achieve even better performance'"""
    costs = {}
    for mode in ("standard", "prefetching", "delayed", "prefetching+delayed"):
        street = Street(mode, visits=("L1", "L4"))
        street.moves("L4")
        street.publish("P", 1)
        street.pass_time(20.0)
        costs[mode] = street.travelled(*CONTROL)
        delivered = street.numbers("S", "P")
        assert delivered == ([1] if "prefetching" in mode else delivered)
    assert costs["prefetching+delayed"] < costs["prefetching"]
    assert costs["prefetching+delayed"] <= costs["delayed"] + 4  # the word to the next broker
    assert costs["delayed"] < costs["standard"]


def test_what_a_proxy_holds_stays_however_the_publishers_session_there_ends():
    street = Street("proxy", proxies=1, lease_s=50.0)
    broker, entry = street.broker("L1"), ("P", "all")
    routing: Any = broker.routing
    broker.component(Relocation).on_end_older_session("L2", EndOlderSession("P", "L1", 9, "L2"), street.now)
    assert broker.sessions.session("P") is None
    assert entry in routing.in_ads[""]
    broker.handle(TimerDue(("holding", "P")), street.now + 60.0)
    assert entry not in routing.in_ads[""]


@pytest.mark.parametrize("mode", ["standard", "prefetching", "proxy", "delayed", "prefetching+delayed"])
def test_a_publisher_that_says_that_it_goes_is_as_gone_as_one_that_just_goes(mode):
    street = Street(mode, delay_s=10.0, prefetch_s=30.0, lease_s=60.0)
    street.say_move_out("P")
    assert street.broker("L1").sessions.session("P") is None
    assert "P" not in street.broker("L1").component(PublisherPresence).publishers
    street.leave("P")
    street.pass_time(70.0)
    assert all(street.holds_nothing_of(name, "P") for name in street.brokers if name not in "PS")


@pytest.mark.parametrize("mode", ["standard", "delayed", "prefetching", "prefetching+delayed", "proxy"])
def test_every_way_leaves_nothing_behind_and_delivers_once_and_in_order(mode):
    visits = ("L1", "L2", "L3", "L2", "L1", "L4")
    street = Street(mode, visits=visits)
    for to in visits[1:]:
        street.moves(to)
        street.settle()
        street.publish("P", 1, 2, 3)
        street.settle()
    assert street.numbers("S", "P") == list(range(1, 16))
    street.command("P", lambda client, now: client.leave(now))
    street.pass_time(60.0)
    assert street.advertisers() == []
    for name in street.brokers:
        if name not in ("P", "S"):
            assert street.holds_nothing_of(name, "P")


@pytest.mark.parametrize("mode", ["standard", "delayed", "prefetching", "proxy"])
def test_who_never_advertises_moves_likewise(mode):
    street = Roaming(TREE, moving=PublisherConfig(predictor=Itineraries({"P": ("L1", "L2")}), nearest=nearest()))
    street.come("S", "L8")
    street.subscribe("S")
    street.come("P", "L1", mode)
    street.settle()
    street.come("P", "L2")
    street.settle()
    street.publish("P", 1)
    street.settle()
    assert street.numbers("S", "P") == [1]
    street.command("P", lambda client, now: client.leave(now))
    street.pass_time(60.0)
    assert all(street.holds_nothing_of(leaf, "P") for leaf in LEAVES)


# ---------------------------------------------------------------- prediction


def test_perfect_prediction_follows_the_itinerary():
    """'PREFETCHING assumes perfect mobility prediction' [§4.1]"""
    known = Itineraries({"P": ("a", "b", "a", "c")})
    assert [known.next_broker("P", here, visit) for visit, here in enumerate("abac", 1)] == ["b", "a", "c", None]
    assert known.next_broker("Q", "a", 1) is None
    assert known.next_broker("P", "b", 9) == "a"  # it has greeted more often than moved


def test_a_movement_model_names_the_likeliest_next_broker():
    model = model_of('{"transitions": {"a": {"b": 0.2, "c": 0.8}, "b": {"d": 3, "c": 3}}}', "model.json")
    assert isinstance(model, MovementModel)
    assert [model.next_broker("P", here, 1) for here in "abc"] == ["c", "c", None]


def test_a_wrong_predictor_is_wrong_at_its_rate_and_always_in_the_same_places():
    visits = tuple(f"b{n % 10}" for n in range(2_000))
    brokers = tuple(f"b{n}" for n in range(10))
    right, wrong = Itineraries({"P": visits}), NoisyPredictor(Itineraries({"P": visits}), 0.3, brokers)
    asked = [("P", visits[visit - 1], visit) for visit in range(1, 1_999)]
    answers = [wrong.next_broker(*each) for each in asked]
    share = sum(answer != right.next_broker(*each) for each, answer in zip(asked, answers, strict=True)) / len(asked)
    assert 0.27 < share < 0.33
    assert answers == [wrong.next_broker(*each) for each in asked]
    assert all(answer != here for (_, here, _), answer in zip(asked, answers, strict=True))


def test_messages_between_brokers_are_counted_hop_by_hop():
    """'Each hop a message travels is counted' [§4.2]"""
    street = Street("prefetching", visits=("L1", "L8"))
    street.leave("P")
    street.settle()
    assert street.travelled(Prefetch) == TO_THE_END
    assert Frame not in street.handled
