"""Trunks between event brokers that coordinate: what is on its way, or is published while they are parted, arrives."""

from collections.abc import Iterable
from typing import Any

import pytest

from godwit.adhoc.device import AdHocConfig
from godwit.adhoc.event_broker import EventBroker
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.simulator.adhoc_world import AdHocWorld, Pair
from godwit.simulator.run import run
from godwit.simulator.scenario import named, with_changes
from tests.seeds import few

HERE: list[Pair] = [("a", "b")]  # the island of the event broker a
THERE: list[Pair] = [("y", "z")]  # and that of z
PRIORITIES = {"a": 1.0, "b": 0.1, "y": 0.1, "z": 0.6}


def coordinating(lease_s: float = 30.0, priorities: dict[str, float] = PRIORITIES, **settings: Any) -> AdHocWorld:
    """Two islands, each with an event broker."""
    configs = {
        name: AdHocConfig(priority=priority, meeting="coordinate", lease_s=lease_s)
        for name, priority in priorities.items()
    }
    net = AdHocWorld(1, configs, **settings)
    net.set_links([*HERE, *THERE])
    net.run(30)
    return net


def joined(net: AdHocWorld, *more: Pair) -> None:
    net.set_links([*HERE, *THERE, ("b", "y"), *more])
    net.run(30)


def parted(net: AdHocWorld, *more: Pair) -> None:
    net.set_links([*HERE, *THERE, *more])


def publish(net: AdHocWorld, publishers: Iterable[str], times: int, pause_s: float) -> None:
    for _ in range(times):
        for name in publishers:
            net.publish(name, {"x": 1})
        net.run(pause_s)


def numbers(net: AdHocWorld, client: str, publisher: str) -> list[int]:
    return [number for name, number in net.delivered[client] if name == publisher]


def judged(net: AdHocWorld) -> AdHocWorld:
    net.check_islands()
    net.judge()
    assert net.violations == []
    return net


@pytest.mark.parametrize("after_s", [0.001, 0.006, 0.011, 0.016, 0.021])
def test_an_event_that_is_on_its_way_when_the_trunk_breaks_arrives_when_the_event_brokers_meet_again(after_s):
    """At one of these times the event is at `a`, at the next nearer to `z`, and at the last its acknowledgement is."""
    net = coordinating()
    net.subscribe("y", "all", TRUE)
    joined(net)
    net.publish("a", {"x": 1})
    net.run(after_s)
    parted(net)
    net.run(10)
    joined(net)
    assert numbers(net, "y", "a") == [1]
    judged(net)


@pytest.mark.parametrize("apart_s", [1.0, 5.0, 20.0])
def test_what_is_published_while_event_brokers_are_parted_arrives_once_and_in_order_when_they_meet_again(apart_s):
    net = coordinating(lease_s=30.0)
    for name in PRIORITIES:
        net.subscribe(name, "all", TRUE)
    joined(net)
    publish(net, "by", 50, 0.013)
    parted(net)
    publish(net, "by", 100, apart_s / 100)
    net.set_links([*HERE, *THERE, ("b", "y")])
    publish(net, "by", 100, 0.113)
    net.run(30)
    for name in PRIORITIES:
        assert numbers(net, name, "b") == list(range(1, 251))
        assert numbers(net, name, "y") == list(range(1, 251))
    assert net.counts.get("lost", 0) == 0
    judged(net)


def test_what_is_kept_for_an_event_broker_that_stays_away_is_recorded_as_lost_when_the_lease_ends():
    net = coordinating()
    net.subscribe("y", "all", parse("x = 1"))
    joined(net)
    parted(net)
    publish(net, "b", 10, 0.5)
    net.publish("b", {"x": 2})  # which nobody there wants
    net.run(60)
    assert net.counts["lost"] == 10
    joined(net)
    assert numbers(net, "y", "b") == []
    judged(net)


def test_what_is_kept_for_an_event_broker_goes_to_a_client_that_comes_over_from_it():
    net = coordinating()
    net.subscribe("y", "all", parse("x = 1"))
    joined(net)
    net.publish("b", {"x": 1})
    net.publish("b", {"x": 2})
    net.run(0.012)
    net.set_links(HERE)
    publish(net, "b", 10, 0.3)
    net.set_links([*HERE, ("b", "y")])
    net.run(15)
    assert net.node("y").leader == "a"
    assert [number for number in numbers(net, "y", "b") if number != 2] == [1, *range(3, 13)]
    judged(net)


def test_what_is_kept_for_an_event_broker_that_comes_back_behind_another_one_is_fetched():
    """`a` loses `z`, and meets it again where `m`, of a higher rank, leads: then both have trunks to `m`."""
    net = coordinating(priorities={**PRIORITIES, "a": 0.8, "m": 1.0, "n": 0.1}, lease_s=60.0)
    net.subscribe("y", "all", TRUE)
    joined(net)
    net.set_links([*HERE, *THERE, ("m", "n")])
    publish(net, "b", 10, 1.0)
    net.run(10)
    assert net.leaders(net.configs) == ["a", "z", "m"]
    net.set_links([*HERE, *THERE, ("m", "n"), ("b", "n"), ("n", "y")])
    net.run(40)
    assert [net.node(name).device.trunk.far for name in "az"] == ["m", "m"]  # type: ignore[union-attr]
    assert numbers(net, "y", "b") == list(range(1, 11))
    judged(net)


def test_an_event_broker_that_is_left_alone_keeps_what_is_for_others():
    """`a` has no members any more, and loses `z` before it has acknowledged the event."""
    net = coordinating()
    net.subscribe("z", "all", TRUE)
    joined(net, ("a", "z"))
    net.set_links([*THERE, ("a", "z")])
    net.run(60)
    broker = net.node("a").broker
    assert broker is not None
    assert [session.client for session in broker.sessions] == ["a"]
    net.publish("a", {"x": 1})
    net.run(0.001)
    net.set_links(THERE)
    net.run(10)
    net.set_links([*THERE, ("a", "z")])
    net.run(30)
    assert numbers(net, "z", "a") == [1]
    judged(net)


@pytest.mark.parametrize("after_s", [0.001, 0.006, 0.011, 0.016])
def test_an_event_that_is_on_its_way_over_a_trunk_is_on_the_disk_of_the_event_broker_that_sends_it(after_s):
    net = coordinating(has_disks=True)
    net.subscribe("y", "all", TRUE)
    joined(net)
    net.publish("b", {"x": 1})
    net.run(after_s)
    parted(net)
    net.run(2)
    net.crash("a")
    net.run(3)
    net.restart("a")
    joined(net)
    assert numbers(net, "y", "b") == [1]
    judged(net)


@pytest.mark.parametrize("seed", few(range(8), 2))
@pytest.mark.parametrize("more", [["radio.move_s=110"], ["radio.crashes_per_s=0.05", "radio.keeps_disk=true"]])
def test_trunks_that_break_all_the_time_lose_nothing_that_an_event_broker_accepted(seed, more):
    changes = ["run.duration_s=110", "run.settle_s=80", "radio.speed_mps=25", "radio.meeting=coordinate"]
    summary = run(with_changes(named("adhoc"), [*changes, *more]), seed)
    assert summary.violations == ()
    assert (summary.duplicated, summary.out_of_order) == (0, 0)
    assert summary.islands["coordinated"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "more"),
    [
        # a session was fetched before its client had subscribed
        (5_084, ["run.duration_s=110", "run.settle_s=80", "radio.speed_mps=25", "radio.lease_s=8", "radio.move_s=110"]),
        # what a client had received before it crashed was forgotten by the checker
        (
            6_149,
            [
                *("run.duration_s=60", "run.settle_s=300", "radio.speed_mps=40", "radio.devices=20"),
                *("radio.lease_s=60", "radio.crashes_per_s=0.1", "radio.keeps_disk=true"),
            ],
        ),
        # numbers of a publisher's earlier life counted as too old for what is kept for a lost event broker
        (
            7_055,
            [
                *("run.duration_s=110", "run.settle_s=300", "radio.speed_mps=40", "radio.devices=12"),
                *("radio.lease_s=60", "radio.crashes_per_s=0.1", "radio.keeps_disk=true", "radio.loss=0.2"),
            ],
        ),
    ],
)
def test_a_run_that_once_broke_holds(seed, more):
    assert run(with_changes(named("adhoc"), ["radio.meeting=coordinate", *more]), seed).violations == ()


def test_event_brokers_that_keep_nothing_for_each_other_are_seen(monkeypatch):
    monkeypatch.setattr(EventBroker, "_keep", lambda self, island, wanted, events, until, now: [])
    changes = ["run.duration_s=110", "run.settle_s=80", "radio.speed_mps=25", "radio.meeting=coordinate"]
    summary = run(with_changes(named("adhoc"), [*changes, "radio.move_s=110"]), 0)
    assert {violation.law for violation in summary.violations} == {"nothing held is lost"}
