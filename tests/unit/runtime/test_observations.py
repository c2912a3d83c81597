"""What is observed only while somebody asks: it begins with what is remembered, is bounded, and ends by itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from godwit.broker.effects import Arrived, Heard
from godwit.broker.messages import Frame, Publish, Request, Subscribe
from godwit.broker.queues import event_size
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.runtime import observations
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.observations import LEASE_S, LinkTraffic, RecentEvents


def monitor() -> ActivityMonitor:
    node: Any = SimpleNamespace(watch=None)
    return ActivityMonitor(node)


def published(n: int) -> tuple[Any, bytes]:
    return Heard("c1", Request(n, Publish(Event({"n": n}, "van", n)))), b"event"


def arrived(n: int, peer: str) -> tuple[Any, bytes]:
    return Arrived(peer, Frame(n, 0, Publish(Event({"n": n}, "bus", n)))), b"event"


def numbers(recent: RecentEvents, now: float) -> list[int]:
    return [event.sequence for _, event in recent.latest(now)]


def test_nothing_is_observed_before_somebody_asks() -> None:
    watch = monitor()
    recent, traffic = RecentEvents(watch), LinkTraffic(watch)
    watch.on_turn([published(1), arrived(1, "b2")], 0.0, 1.0)
    assert not watch.observers
    assert (len(recent), recent.since, traffic.is_counted) == (0, None, False)


def test_the_last_events_begin_with_those_that_are_remembered() -> None:
    watch = monitor()
    recent = RecentEvents(watch)
    watch.on_turn([published(1), arrived(1, "b2")], 0.0, 5.0)
    watch.on_turn([published(2)], 0.0, 6.0)
    assert numbers(recent, 7.0) == [2, 1]  # and not what a neighbour has sent: that is kept there
    assert recent.since == 5.0
    watch.on_turn([published(3), published(4)], 0.0, 8.0)
    assert numbers(recent, 9.0) == [4, 3, 2, 1]


def test_an_observation_that_nobody_asks_for_ends_with_the_next_turn_and_keeps_nothing() -> None:
    watch = monitor()
    recent, traffic = RecentEvents(watch), LinkTraffic(watch)
    recent.latest(0.0)
    traffic.received(0.0)
    watch.on_turn([published(1), arrived(1, "b2")], 0.0, LEASE_S)
    assert (len(recent), traffic.received(LEASE_S)) == (1, {"b2": 1})
    watch.on_turn([published(2)], 0.0, LEASE_S + 1)
    assert (len(recent), recent.since, traffic.is_counted) == (0, None, True)  # which was asked for once more
    watch.on_turn([published(3)], 0.0, 2 * LEASE_S + 1)
    assert not watch.observers
    assert traffic.received(2 * LEASE_S + 2) == {}


@pytest.mark.parametrize("bound", ["EVENTS_MAX", "BYTES_MAX"])
def test_the_last_events_are_bounded_by_number_and_by_bytes(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = event_size(Event({"n": 1}, "van", 1))
    monkeypatch.setattr(observations, bound, 3 if bound == "EVENTS_MAX" else 3 * size)
    watch = monitor()
    recent = RecentEvents(watch)
    recent.latest(0.0)
    for n in range(1, 6):
        watch.on_turn([published(n)], 0.0, float(n))
    assert numbers(recent, 6.0) == [5, 4, 3]
    assert recent.since == 3.0


def test_events_are_counted_by_the_neighbour_that_they_come_from() -> None:
    watch = monitor()
    traffic = LinkTraffic(watch)
    assert traffic.received(0.0) == {}
    wish: Any = Arrived("b3", Frame(9, 0, Subscribe(("a", "s"), TRUE)))
    watch.on_turn([arrived(1, "b2"), arrived(2, "b2"), arrived(1, "b3"), (wish, b""), published(1)], 0.0, 1.0)
    assert traffic.received(1.0) == {"b2": 2, "b3": 1}
