"""Brokers that follow the states of clients: requests, entries that come and go, times, faults, lost memory."""

from functools import partial
from typing import Any

import pytest
from msgspec import structs

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Effect, LinkUp, Send
from godwit.broker.messages import Ack, Context, Frame, Goodbye, Hello
from godwit.broker.tree import TreeRouting
from godwit.client.client import Client
from godwit.filters.language import parse
from godwit.mobility import Drift, Movements, line, mobile_broker
from godwit.mobility.location_tree import FollowedFilters
from godwit.mobility.move_messages import Follow, FollowPlaces, FollowUpdate, Unfollow
from godwit.mobility.possible_values import PossibleValues
from tests.paper.roaming_world import Roaming
from tests.snapshots import reborn

STREET = Movements({"location": line(30), "money": Drift(5)})


def street(edges: str = "B1-B2 B2-B3", **config: Any) -> Roaming:
    return Roaming(edges, STREET, **config)


def walk(network: Roaming, place: str, dwell_s: float | None = 1.0) -> None:
    network.command("C", lambda machine, now: machine.move_to(place, now, dwell_s=dwell_s))


def tree(network: Roaming, name: str) -> TreeRouting:
    routing = network.broker(name).routing
    assert isinstance(routing, TreeRouting)
    return routing


def followed(routing: Any) -> FollowedFilters:
    """What a broker follows."""
    further = routing.further
    assert isinstance(further, FollowedFilters)
    return further


def at_each(network: Roaming, *names: str) -> list[int]:
    """How many filters each broker follows."""
    return [tree(network, name).sizes()["followed"] for name in names]


def _said(attributes: dict[str, Any], machine: Client, now: float) -> list[Effect]:
    return machine.publish(attributes, now)


# ------------------------------------------------------------ clients


def test_a_client_remembers_its_state_and_moves_in_it() -> None:
    network = street()
    network.come("C", "B1")
    network.command("C", lambda machine, now: machine.set_context({"money": 3}, now, dwell_s=2.0))
    walk(network, "4", dwell_s=None)
    network.settle()
    assert network.client("C").context == {"money": 3, "location": "4"}
    session = network.broker("B1").sessions.session("C")
    assert session is not None
    assert session.context == Context({"money": 3, "location": "4"}, 2.0)


def test_steps_around_a_place_without_a_graph_are_refused() -> None:
    network = Roaming("B1-B2")
    network.come("C", "B1")
    network.subscribe("C", "location WITHIN myloc(2)")
    network.settle()
    [refusal] = network.client("C").refusals
    assert "no movement graph" in refusal.reason


def test_an_advertisement_cannot_refer_to_a_state() -> None:
    network = street()
    network.come("C", "B1")
    network.advertise("C", "location = myloc")
    network.settle()
    [refusal] = network.client("C").refusals
    assert "advertisement" in refusal.reason


def test_a_state_survives_a_broker_that_has_lost_its_disk() -> None:
    network = street()
    network.come("P", "B3")
    network.come("C", "B1")
    walk(network, "4")
    network.subscribe("C", "location = myloc AND x >= 0")
    network.settle()
    network.crash("B1", keeps_disk=False)
    network.restart("B1")
    for a, b in (("B1", "B2"), ("C", "B1")):
        network.join(a, b)
    network.settle()
    for place in ("4", "5"):
        network.command("P", partial(_said, {"x": 1, "location": place}))
    network.settle()
    assert network.numbers("C", "P") == [1]
    assert at_each(network, "B1", "B2", "B3") == [1, 1, 1]


# ------------------------------------------------------------ entries


def test_an_open_filter_takes_the_place_of_an_ordinary_one_and_back_without_a_gap() -> None:
    network = street(reduction="simple")
    network.come("P", "B3")
    network.come("C", "B1")
    walk(network, "4")
    for text in ("x >= 0", "x >= 0 AND (location = myloc OR x < 9)", "x >= 0", "x < 5 OR location = myloc"):
        network.subscribe("C", text)
        for _ in range(30):
            network.publish("P", 1)
            network.command("P", lambda machine, now: machine.publish({"x": 1, "location": "9"}, now))
            network.pass_time(0.005)
    network.settle()
    got = network.numbers("C", "P")
    assert [number for number in range(20, 241) if number not in got] == []
    assert at_each(network, "B1", "B2", "B3") == [1, 1, 1]
    assert [tree(network, name).sizes()["in_subs"] for name in ("B1", "B2", "B3")] == [0, 0, 0]


def test_open_filters_go_only_where_something_is_advertised_that_they_may_want() -> None:
    network = street("B1-B2 B2-B3 B2-B4", advertisements="required")
    network.come("C", "B1")
    network.come("P", "B3")
    network.come("Q", "B4")
    network.advertise("P", "service = 'parking'")
    network.advertise("Q", "ALL service = 'weather'")
    network.subscribe("C", "service = 'parking' AND location = myloc")
    network.settle()
    assert at_each(network, "B2", "B3", "B4") == [1, 1, 0]
    network.advertise("Q", "ALL service IN ('weather', 'parking')")
    network.settle()
    assert at_each(network, "B2", "B3", "B4") == [1, 1, 1]
    network.command("P", lambda machine, now: machine.unadvertise("all", now))
    network.settle()
    assert at_each(network, "B2", "B3", "B4") == [1, 0, 1]
    network.command("C", lambda machine, now: machine.unsubscribe("F", now))
    network.settle()
    assert at_each(network, "B1", "B2", "B3", "B4") == [0, 0, 0, 0]


def test_a_change_of_what_no_filter_refers_to_is_told_to_nobody() -> None:
    network = street()
    network.come("C", "B1")
    walk(network, "4")
    network.subscribe("C", "location = myloc")
    network.settle()
    network.handled.clear()
    network.command("C", lambda machine, now: machine.set_context({"location": "4", "mood": "fine"}, now, dwell_s=1))
    network.settle()
    assert FollowUpdate not in network.handled


def test_sources_are_told_once_what_a_walker_may_want_anywhere() -> None:
    network = street(reduction="covering")
    network.come("P", "B3")
    network.come("C", "B1")
    walk(network, "4")
    network.subscribe("C", "service = 'parking' AND location = myloc")
    network.settle()
    wanted = tree(network, "B3").wanted()
    assert wanted == [parse("service = 'parking' AND location IS NOT NULL")]


# ------------------------------------------------------------ times


def test_each_end_of_a_link_measures_its_round_trip() -> None:
    network = street()
    for name, neighbour in (("B1", "B2"), ("B2", "B1"), ("B2", "B3")):
        assert network.broker(name).links[neighbour].round_trip_s == pytest.approx(0.02)
        assert followed(tree(network, name)).delays[neighbour] == pytest.approx(0.025)


def test_when_a_link_becomes_slow_those_behind_it_reckon_with_more_steps() -> None:
    network = street()
    network.come("P", "B3")
    network.come("C", "B1")
    walk(network, "10", dwell_s=0.5)
    network.subscribe("C", "location = myloc")
    network.settle()

    def counts() -> list[int]:
        entries = [
            followed(tree(network, at)).followed[source] for at, source in (("B1", ""), ("B2", "B1"), ("B3", "B2"))
        ]
        return [len(entry.possible["location"].values) for each in entries for entry in each.values()]  # type: ignore[union-attr]

    assert counts() == [3, 3, 3]
    for a, b in (("B1", "B2"), ("B2", "B1")):
        network.latencies[a, b] = 0.4
    walk(network, "11", dwell_s=0.5)
    network.settle()
    assert counts() == [3, 7, 7]  # 0.8 s, with slack 1.0 s: three steps
    for a, b in (("B1", "B2"), ("B2", "B1")):
        network.latencies[a, b] = 0.01
    for step in range(60):  # it is believed slowly that the link is fast again
        walk(network, "12" if step % 2 else "11", dwell_s=0.5)
        network.pass_time(0.5)
    assert counts() == [3, 3, 3]


def test_news_is_passed_on_for_as_long_as_times_are_told_that_it_makes_a_difference_for() -> None:
    """B2 has stopped news for which it made no difference; when it reckons with fewer steps, B3 hears where C is."""
    network = street("B1-B2 B2-B3 B3-B4")
    network.come("P", "B4")
    network.come("C", "B1")
    walk(network, "1", dwell_s=0.001)  # any place of the street
    network.subscribe("C", "location = myloc")
    network.settle()
    network.handled.clear()
    walk(network, "2", dwell_s=0.0007)
    walk(network, "3", dwell_s=0.0007)
    network.settle()
    walk(network, "4", dwell_s=1.0)
    network.settle()
    for at, source in (("B2", "B1"), ("B3", "B2"), ("B4", "B3")):
        [entry] = followed(tree(network, at)).followed[source].values()
        assert entry.possible["location"].values == ("3", "4", "5")  # type: ignore[union-attr]


# ------------------------------------------------------------ what no honest neighbour sends


def two_brokers() -> Broker:
    broker = mobile_broker("B1", {"B2": 1.0}, BrokerConfig(), movements=STREET)
    broker.handle(LinkUp("B2"), 0.0)
    broker.handle(Arrived("B2", Hello(1, 0, 0, 1, False)), 0.01)
    broker.handle(Arrived("B2", Hello(1, 1, 0, 1, True)), 0.02)
    return broker


GOOD: Any = Follow(("c", "F"), parse("location = myloc"), {"location": "3"}, 1.0, 0.0, 0.02)


@pytest.mark.parametrize(
    "message",
    [
        Follow(("c", "F"), parse("x = 1"), {}, 1.0, 0.0, 0.02),
        Follow(("c", "F"), parse("at WITHIN myloc"), {"location": [3]}, 1.0, 0.0, 0.02),  # type: ignore[dict-item]
        Follow(("c", "F"), parse("at WITHIN myloc"), {f"n{k}": k for k in range(200)}, 1.0, 0.0, 0.02),
        Follow(("c", "F"), parse("at WITHIN myloc"), {}, 0.0, 0.0, 0.02),
        Follow(("c", "F"), parse("at WITHIN myloc"), {}, float("nan"), 0.0, 0.02),
        Follow(("c", "F"), parse("at WITHIN myloc"), {}, 1.0, -1.0, 0.02),
        Follow(("c", "F"), parse("at WITHIN myloc"), {}, 1.0, 0.0, float("inf")),
        FollowUpdate(("c", "F"), {}, 1.0, 0.0, 0.02),
        Unfollow(("c", "F")),
    ],
)
def test_what_no_honest_neighbour_sends_closes_its_link_and_changes_nothing(message: Any) -> None:
    broker = two_brokers()
    effects = broker.handle(Arrived("B2", Frame(1, 0, message)), 0.05)
    assert any(isinstance(effect, Send) and isinstance(effect.frame, Goodbye) for effect in effects)
    assert broker.routing.sizes()["matcher"] == 0


@pytest.mark.parametrize("places", [((),), ({"a": 1},), ([3],), (None,), (float("nan"),)], ids=str)
@pytest.mark.parametrize("field", ["added", "removed"])
def test_places_that_are_no_values_close_the_link_of_their_sender(field: str, places: Any) -> None:
    broker = two_brokers()
    broker.handle(Arrived("B2", Frame(1, 0, GOOD)), 0.05)
    wrong: Any = structs.replace(FollowPlaces(("c", "F"), (), ()), **{field: places})
    effects = broker.handle(Arrived("B2", Frame(2, 0, wrong)), 0.06)
    [reason] = [effect.frame.reason for effect in effects if isinstance(effect, Send) and type(effect.frame) is Goodbye]
    assert "a place of" in reason


def test_a_snapshot_keeps_what_is_followed() -> None:
    broker = two_brokers()
    broker.handle(Arrived("B2", Frame(1, 0, GOOD)), 0.05)
    again = reborn(broker)
    assert again.routing.sizes() == broker.routing.sizes()
    assert broker.routing.sizes()["matcher"] == 1
    moved: Any = FollowUpdate(("c", "F"), {"location": "9"}, 1.0, 0.0, 0.02)
    change = Arrived("B2", Frame(2, 0, moved))
    assert again.handle(change, 1.0) == broker.handle(change, 1.0)
    for machine in (broker, again):
        [entry] = followed(machine.routing).followed["B2"].values()
        assert entry.possible["location"] == PossibleValues(("8", "9", "10"))


def test_an_answer_that_waits_for_the_next_acknowledgement_is_not_taken_for_a_slow_link() -> None:
    broker = two_brokers()
    link = broker.links["B2"]
    broker.handle(Arrived("B2", Ack(link.sent)), 0.04)
    assert link.round_trip_s == pytest.approx(0.02)
    link.send(GOOD, [], 1.0)
    broker.handle(Arrived("B2", Ack(link.sent)), 1.07)  # 20 ms, and 50 that it waited
    assert link.round_trip_s == pytest.approx(0.02)
    link.send(GOOD, [], 2.0)
    broker.handle(Arrived("B2", Ack(link.sent)), 2.5)
    assert link.round_trip_s == pytest.approx(0.45)


def test_where_no_time_is_known_anything_is_possible() -> None:
    broker = mobile_broker("B1", {"B2": 1.0}, BrokerConfig(), movements=STREET)
    broker.handle(LinkUp("B2"), 0.0)
    broker.handle(Arrived("B2", Hello(1, 0, 0, 1, False)), 0.01)
    broker.handle(Arrived("B2", Frame(1, 0, structs.replace(GOOD, link_s=None))), 0.05)
    [entry] = followed(broker.routing).followed["B2"].values()
    assert entry.loosened == entry.weakest
    broker.handle(Arrived("B2", Hello(1, 1, 0, 1, True)), 0.06)
    [entry] = followed(broker.routing).followed["B2"].values()
    assert entry.possible["location"].values == ("2", "3", "4")  # type: ignore[union-attr]


def test_a_client_that_says_nothing_is_watched() -> None:
    network = street()
    network.come("C", "B1")
    network.subscribe("C", "location = myloc")
    network.settle()
    session = network.broker("B1").sessions.session("C")
    assert session is not None
    for step in range(8):
        walk(network, str(step), dwell_s=None)
        network.pass_time(0.8)
        assert session.dwell_s is None
    walk(network, "8", dwell_s=None)
    network.pass_time(0.8)
    assert session.dwell_s == pytest.approx(0.4)
    walk(network, "9", dwell_s=None)
    network.pass_time(0.3)
    assert session.dwell_s == pytest.approx(0.4)  # as reckoned before: small changes change nothing
    walk(network, "10", dwell_s=None)
    network.pass_time(0.3)
    assert session.dwell_s == pytest.approx(0.15)
