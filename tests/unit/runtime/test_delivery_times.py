"""Latency from what a watch has kept: what counts, what is left out, and how much is looked at."""

from types import SimpleNamespace
from typing import Any

from godwit.broker.effects import Tell
from godwit.broker.messages import Attached, Delivery, Receipt
from godwit.filters.events import event
from godwit.runtime.activity_monitor import SECONDS, ActivityMonitor
from godwit.runtime.delivery_times import AGE_S_MAX, LOOKED_AT_MAX, DeliveryTimes

NOW = 1_000.0


def delivery(published_at: float | None, connection: str = "c") -> Any:
    made = event({"n": 1}, publisher="van", sequence=1, published_at=published_at)
    return Tell(connection, Delivery(1, made, ("s",)))


class Watched:
    """A watch that is shown effects, and the times that are read from it."""

    def __init__(self) -> None:
        node: Any = SimpleNamespace(watch=None)
        self.activity = ActivityMonitor(node)
        self.times = DeliveryTimes(self.activity)

    def carried_out(self, at: float, *effects: Any) -> None:
        self.activity.on_effects(list(effects), at)

    def counted(self) -> dict[float, int]:
        """How many deliveries took at most so long, without those of which there are none."""
        bounds = (*SECONDS, float("inf"))
        return {bound: count for bound, count in zip(bounds, self.times.counts(), strict=True) if count}


def test_each_delivery_counts_once_by_its_time_since_publishing() -> None:
    watched = Watched()
    watched.carried_out(NOW, delivery(NOW - 0.004), delivery(NOW - 0.02))
    assert watched.counted() == {0.005: 1, 0.025: 1}
    watched.carried_out(NOW + 1, delivery(NOW + 2))  # by a clock that is ahead
    assert watched.counted() == {SECONDS[0]: 1, 0.005: 1, 0.025: 1}
    assert sum(watched.counted().values()) == 3


def test_what_waited_for_its_client_is_left_out_and_so_is_what_does_not_say_when_it_was_published() -> None:
    watched = Watched()
    watched.carried_out(
        NOW, Tell("c", Attached(0, fresh=True, receipt=Receipt())), delivery(NOW - 5), delivery(NOW - 5, "other")
    )
    watched.carried_out(NOW + 1, delivery(NOW - 5), delivery(NOW + 0.5), delivery(None))
    watched.carried_out(NOW + 2, delivery(NOW + 2 - AGE_S_MAX - 1, "other"))
    assert watched.counted() == {float("inf"): 1, 0.5: 1}


def test_of_very_many_deliveries_the_latest_are_looked_at() -> None:
    watched = Watched()
    watched.carried_out(NOW, *[delivery(NOW - 0.2)] * LOOKED_AT_MAX)
    watched.carried_out(NOW + 1, *[delivery(NOW + 1 - 0.004)] * LOOKED_AT_MAX)
    assert watched.counted() == {0.005: LOOKED_AT_MAX}
    assert watched.counted() == {0.005: LOOKED_AT_MAX}
