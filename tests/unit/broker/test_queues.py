"""The queue of a session: what waits, what is kept until confirmed, what rules and budgets take out and count."""

from typing import Any

import pytest

from godwit.broker.messages import QueueRules
from godwit.broker.queues import RULED_MAX, Queue, event_size
from godwit.broker.ranking import SPARE, Ranking
from godwit.filters.events import Event, event
from godwit.filters.values import Point
from godwit.seen import Seen


def make(number: int, expires_at: float | None = None, payload: bytes | None = None, **attributes: Any) -> Event:
    return event(attributes, publisher="p", sequence=number, expires_at=expires_at, payload=payload)


def away(rules: QueueRules | None = None, *, events_max: int = 100, bytes_max: int = 100_000) -> Queue:
    """The queue of a client that is away and has one subscription, x."""
    queue = Queue(window=4, events_max=events_max, bytes_max=bytes_max)
    queue.set_rules("x", rules, 0.0)
    return queue


def put(queue: Queue, *events: Event, now: float = 0.0, names: tuple[str, ...] = ("x",)) -> None:
    for each in events:
        queue.put(each, names, now)


def returned(queue: Queue, now: float = 0.0, received: int = 0) -> list[int]:
    """The sequence numbers that a client gets which comes back."""
    queue.resume(received, now)
    got: list[int] = []
    while deliveries := queue.take(now):
        got += [delivery.event.sequence for delivery in deliveries]
        queue.confirm(deliveries[-1].number)
    return got


# ------------------------------------------------------------ in and out


def test_a_client_that_is_present_gets_each_event_at_once() -> None:
    queue = away()
    queue.resume(0, 0.0)
    delivery = queue.put(make(7), ("x", "y"), 1.0)
    assert delivery is not None
    assert (delivery.number, delivery.event.sequence, delivery.subscriptions) == (1, 7, ("x", "y"))
    assert len(queue) == 1  # kept until confirmed
    queue.confirm(1)
    assert (len(queue), queue.confirmed, queue.taken) == (0, 1, 1)


def test_no_more_than_the_window_is_sent_before_a_confirmation() -> None:
    queue = away()
    queue.resume(0, 0.0)
    sent = [queue.put(make(n), ("x",), 0.0) is not None for n in range(1, 7)]
    assert sent == [True] * 4 + [False] * 2
    assert queue.take(0.0) == []
    queue.confirm(1)
    assert [delivery.number for delivery in queue.take(0.0)] == [5]
    queue.confirm(5)
    assert [delivery.number for delivery in queue.take(0.0)] == [6]


def test_an_event_does_not_overtake_those_that_wait() -> None:
    queue = away()
    queue.resume(0, 0.0)
    put(queue, *(make(n) for n in range(1, 6)))
    queue.confirm(4)  # room, but number 5 waits
    assert queue.put(make(6), ("x",), 0.0) is None
    assert [delivery.number for delivery in queue.take(0.0)] == [5, 6]


def test_what_was_sent_and_not_confirmed_is_sent_again_in_its_order_and_before_what_waited() -> None:
    queue = away()
    queue.resume(0, 0.0)
    put(queue, *(make(n) for n in range(1, 4)))
    queue.pause(0.0)
    put(queue, make(4))
    assert returned(queue, received=1) == [2, 3, 4]


def test_numbers_are_never_given_twice() -> None:
    queue = away(QueueRules(count_max=1))
    put(queue, make(1), make(2), make(3))
    queue.resume(0, 0.0)
    assert [delivery.number for delivery in queue.take(0.0)] == [3]
    assert queue.put(make(4), ("x",), 0.0).number == 4  # type: ignore[union-attr]


def test_what_was_sent_is_not_purged_while_the_client_is_away() -> None:
    queue = away(QueueRules(newest_per="key"))
    queue.resume(0, 0.0)
    put(queue, make(1, key=1))
    queue.pause(0.0)
    put(queue, make(2, key=1))
    assert [each.number for each in queue.waiting()] == [1, 2]
    assert queue.purged == {}


def test_what_was_sent_and_did_not_come_is_under_the_rules_again_when_the_client_returns() -> None:
    queue = away(QueueRules(newest_per="key"))
    queue.resume(0, 0.0)
    put(queue, make(1, key=1), make(2, key=2))
    queue.pause(0.0)
    put(queue, make(3, key=1))
    assert returned(queue) == [2, 3]
    assert queue.purged == {"newest_per": 1}


# ------------------------------------------------------------ rules


def test_age_takes_out_what_has_waited_too_long() -> None:
    queue = away(QueueRules(age_s_max=10))
    put(queue, make(1), now=0.0)
    put(queue, make(2), now=5.0)
    assert returned(queue, now=10.0) == [2]
    assert queue.purged == {"age": 1}


def test_newest_per_keeps_the_newest_of_each_value() -> None:
    queue = away(QueueRules(newest_per="key"))
    put(queue, make(1, key="a"), make(2, key="b"), make(3, key="a"), make(4), make(5), make(6, key=("a", "b")))
    assert returned(queue) == [2, 3, 4, 5, 6]
    assert queue.purged == {"newest_per": 1}


def test_true_and_one_are_two_keys() -> None:
    queue = away(QueueRules(newest_per="key"))
    put(queue, make(1, key=True), make(2, key=1), make(3, key=1.0))
    assert returned(queue) == [1, 3]


def test_high_water_keeps_the_highest_and_of_equals_the_newest() -> None:
    queue = away(QueueRules(high_water="level"))
    put(queue, make(1, level=3), make(2, level=7), make(3, level=5), make(4, level=7.0))
    assert returned(queue) == [4]
    assert queue.purged == {"high_water": 3}


def test_high_water_leaves_alone_what_has_no_order() -> None:
    queue = away(QueueRules(high_water="level"))
    place = Point(8.5, 47.4)
    put(queue, make(1), make(2, level=True), make(3, level=place), make(4, level=(1, "a")), make(5, level=1))
    put(queue, make(6, level="a"), make(7, level="b"), make(8, level=(0, 2)))
    assert returned(queue) == [1, 2, 3, 4, 7, 8]


def test_a_new_mark_begins_when_the_old_one_has_been_sent() -> None:
    queue = away(QueueRules(high_water="level"))
    put(queue, make(1, level=9))
    assert returned(queue) == [1]
    queue.pause(0.0)
    put(queue, make(2, level=1))
    assert returned(queue, received=1) == [2]


def test_over_a_count_the_oldest_goes_first() -> None:
    queue = away(QueueRules(count_max=2))
    put(queue, *(make(n) for n in range(1, 5)))
    assert returned(queue) == [3, 4]
    assert queue.purged == {"count": 2}


def test_over_a_count_the_least_important_goes_first_and_the_oldest_of_equals() -> None:
    queue = away(QueueRules(count_max=3, importance="urgency"))
    put(queue, make(1, urgency=5), make(2, urgency=1), make(3, urgency=5), make(4, urgency=2), make(5, urgency=2))
    assert returned(queue) == [1, 3, 5]


def test_an_event_that_does_not_say_how_important_it_is_is_the_least_important() -> None:
    queue = away(QueueRules(count_max=2, importance="urgency"))
    put(queue, make(1, urgency=-5), make(2), make(3, urgency="high"), make(4, urgency=0))
    assert returned(queue) == [1, 4]


def test_over_a_number_of_bytes_the_least_important_goes_first() -> None:
    size = event_size(make(1, payload=b"x" * 100, urgency=1))
    queue = away(QueueRules(bytes_max=2 * size, importance="urgency"))
    put(queue, *(make(n, payload=b"x" * 100, urgency=n % 3) for n in range(1, 5)))
    assert returned(queue) == [2, 4]
    assert queue.purged == {"bytes": 2}


def test_an_event_larger_than_the_budget_is_not_kept() -> None:
    queue = away(QueueRules(bytes_max=50))
    put(queue, make(1, payload=b"x" * 100))
    assert queue.purged == {"bytes": 1}


def test_a_client_that_is_present_and_slow_is_under_the_rules_too() -> None:
    queue = away(QueueRules(newest_per="key"))
    queue.resume(0, 0.0)
    put(queue, *(make(n, key=1) for n in range(1, 9)))
    queue.confirm(4)
    assert [delivery.event.sequence for delivery in queue.take(0.0)] == [8]
    assert queue.purged == {"newest_per": 3}


# ------------------------------------------------------------ several subscriptions


def test_an_event_stays_while_any_subscription_wants_it_and_is_delivered_for_that_one() -> None:
    queue = away(QueueRules(newest_per="key"))
    put(queue, make(1, key=1), names=("x", "y"))
    put(queue, make(2, key=1), names=("x",))
    queue.resume(0, 0.0)
    assert [(delivery.number, delivery.subscriptions) for delivery in queue.take(0.0)] == [(1, ("y",)), (2, ("x",))]
    assert queue.purged == {}


def test_an_event_is_counted_under_the_rule_that_took_it_from_the_last_who_wanted_it() -> None:
    queue = away(QueueRules(newest_per="key"))
    queue.set_rules("y", QueueRules(age_s_max=10), 0.0)
    put(queue, make(1, key=1), names=("x", "y"))
    put(queue, make(2, key=1), names=("x",))
    assert returned(queue, now=11.0) == [2]
    assert queue.purged == {"age": 1}


def test_rules_that_change_hold_for_what_waits_already() -> None:
    queue = away()
    put(queue, *(make(n, key=n % 2) for n in range(1, 6)))
    queue.set_rules("x", QueueRules(newest_per="key"), 0.0)
    assert [each.number for each in queue.waiting()] == [4, 5]
    queue.set_rules("x", QueueRules(age_s_max=10), 20.0)
    assert [each.number for each in queue.waiting()] == []
    put(queue, make(6), now=20.0)
    queue.set_rules("x", None, 40.0)
    assert returned(queue, now=40.0) == [6]
    assert queue.purged == {"newest_per": 3, "age": 2}


def test_what_a_subscription_let_in_stays_under_its_rules_when_it_ends() -> None:
    queue = away(QueueRules(age_s_max=10))
    put(queue, make(1), now=0.0)
    put(queue, make(2), now=5.0)
    queue.end_rules("x")
    assert returned(queue, now=12.0) == [2]
    assert queue._lanes == {}  # and are forgotten with the last of its events


# ------------------------------------------------------------ expiry and hard budgets


def test_an_event_whose_time_is_over_is_never_delivered() -> None:
    queue = away()
    put(queue, make(1, expires_at=5.0), make(2, expires_at=9.0), make(3), make(4, expires_at=0.0))
    assert returned(queue, now=5.0) == [2, 3]
    assert (queue.expired, queue.purged) == (2, {})
    assert queue.put(make(5, expires_at=5.0), ("x",), 5.0) is None
    assert queue.expired == 3


def test_an_event_that_was_sent_in_vain_is_not_sent_again_when_its_time_is_over() -> None:
    queue = away()
    queue.resume(0, 0.0)
    assert queue.put(make(1, expires_at=5.0), ("x",), 0.0) is not None
    queue.pause(1.0)
    assert returned(queue, now=6.0) == []
    assert queue.expired == 1


def test_over_the_hard_budgets_the_oldest_is_lost() -> None:
    queue = away(events_max=4)
    put(queue, *(make(n) for n in range(1, 7)))
    assert returned(queue) == [3, 4, 5, 6]
    assert queue.purged == {"count": 2}
    assert [(gone.event.sequence, gone.reason, gone.lost) for gone in queue.gone] == [
        (1, "count", True),
        (2, "count", True),
    ]


def test_over_the_hard_budgets_what_names_an_importance_goes_first_and_is_not_lost() -> None:
    queue = away(QueueRules(importance="urgency"), events_max=4)
    put(queue, make(1), names=("y",))
    put(queue, make(2, urgency=3), make(3, urgency=1), make(4, urgency=2))
    put(queue, make(5), names=("x", "y"))
    put(queue, make(6), names=("y",))
    assert [(gone.event.sequence, gone.lost) for gone in queue.gone] == [(3, False), (4, False)]
    assert returned(queue) == [1, 2, 5, 6]


def test_the_bytes_of_what_was_sent_count_while_the_client_is_away() -> None:
    size = event_size(make(1, payload=b"x" * 100))
    queue = away(bytes_max=3 * size)
    queue.resume(0, 0.0)
    put(queue, *(make(n, payload=b"x" * 100) for n in range(1, 3)))
    queue.pause(0.0)
    put(queue, *(make(n, payload=b"x" * 100) for n in range(3, 6)))
    assert [each.number for each in queue.waiting()] == [1, 2, 5]
    assert queue.purged == {"bytes": 2}


@pytest.mark.parametrize(
    "rules",
    [
        QueueRules(newest_per="key", age_s_max=1e9),
        QueueRules(high_water="level", importance="level"),
        QueueRules(count_max=3, importance="level"),
        QueueRules(bytes_max=500),
    ],
)
def test_what_left_leaves_nothing_behind(rules: QueueRules) -> None:
    queue = away(rules, events_max=50)
    for n in range(1, 2_001):
        put(queue, make(n, key=n % 5, level=n % 7), now=float(n))
    heaps: list[list[Any]] = [queue._due._heap, queue._expendable._heap, queue._lanes["x"].ranking._heap]
    assert all(len(heap) <= 2 * 50 + SPARE + 1 for heap in heaps)
    assert len(queue.snapshot().waiting) <= 50
    assert queue.taken == len(queue) + sum(queue.purged.values())


def test_the_size_of_an_event_counts_names_texts_and_payload() -> None:
    small, large = make(1, a=1), make(1, a=("x" * 100, 5), payload=b"y" * 50)
    assert event_size(large) - event_size(small) >= 150


# ------------------------------------------------------------ rankings, and what has been seen


def test_a_ranking_gives_the_lowest_and_forgets_what_left_or_was_ranked_anew() -> None:
    ranking: Ranking[int] = Ranking()
    for key, rank in ((1, 5), (2, 3), (3, 3), (4, 1)):
        ranking.put(key, rank)
    assert ranking.lowest() == (1, 4)
    ranking.discard(4)
    assert ranking.lowest() == (3, 2)
    ranking.put(2, 9)
    assert ranking.lowest() == (3, 3)
    assert (len(ranking), 4 in ranking, ranking.keys()) == (3, False, [1, 2, 3])
    for key in (1, 2, 3):
        ranking.discard(key)
    assert ranking.lowest() is None


def test_an_event_is_new_once_in_whatever_order_events_come() -> None:
    seen = Seen(window=8)
    assert [seen.add("p", n) for n in (3, 5, 4, 5, 3, 4, 6)] == [True, True, True, False, False, False, True]
    assert seen.add("q", 3)


def test_a_number_beyond_the_window_counts_as_seen() -> None:
    seen = Seen(window=8)
    assert seen.add("p", 100)
    assert seen.add("p", 93)
    assert not seen.add("p", 92)
    assert seen.add("p", 10**30)
    assert not seen.add("p", 100)


def test_the_publishers_that_were_silent_longest_are_forgotten() -> None:
    seen = Seen(window=8, publishers_max=4)
    for name in "abcd":
        assert seen.add(name, 1)
    assert not seen.add("d", 1)
    for name in "efg":
        assert seen.add(name, 1)
    assert len(seen) <= 4
    assert seen.add("a", 1)


def test_what_is_under_way_to_a_client_takes_no_more_than_half_of_the_budget_and_one_event() -> None:
    queue = Queue(window=100, events_max=100, bytes_max=2_000)
    queue.resume(0, 0.0)
    sent = [queue.put(make(n, payload=b"x" * 400), ("x",), 0.0) for n in range(1, 5)]
    assert [delivery is not None for delivery in sent] == [True, True, True, False]
    queue.confirm(2)
    assert [delivery.number for delivery in queue.take(0.0)] == [4]


def test_the_oldest_go_first_before_there_are_rules_and_after() -> None:
    queue = Queue(window=1, events_max=3, bytes_max=10**6)
    put(queue, *(make(n) for n in range(1, 5)))
    assert [each.number for each in queue.waiting()] == [2, 3, 4]
    queue.set_rules("x", QueueRules(count_max=3), 0.0)
    put(queue, make(5))
    queue.set_rules("x", None, 0.0)
    put(queue, make(6))
    assert [each.number for each in queue.waiting()] == [4, 5, 6]


def test_the_size_of_an_event_is_that_of_its_texts_as_bytes() -> None:
    plain, wide = (event_size(make(1, name=text)) for text in ("x" * 100, "😀" * 100))
    assert wide - plain == 300
    several = event_size(make(1, name=("é" * 10, "x")))
    assert several - event_size(make(1, name=("e" * 10, "x"))) == 10


def test_rules_apply_to_an_event_of_few_subscriptions_and_not_to_one_of_many() -> None:
    queue = away()
    names = tuple(f"s{number}" for number in range(RULED_MAX + 1))
    for name in names:
        queue.set_rules(name, QueueRules(newest_per="k", importance="n"), 0.0)
    put(queue, make(1, k=1, n=1), make(2, k=1, n=2), names=names)  # in no lane: each would cost work for each event
    put(queue, make(3, k=1, n=3), make(4, k=1, n=4), names=names[1:])
    assert all(len(queue._lanes[name].ranking) == (name != names[0]) for name in names)
    queue.set_rules(names[0], QueueRules(count_max=1), 0.0)  # nor by rules that come later
    assert returned(queue) == [1, 2, 4]
    assert queue.purged == {"newest_per": 1}


def test_an_event_of_many_subscriptions_is_lost_when_it_leaves_for_a_budget() -> None:
    queue = away(events_max=4)
    names = tuple(f"s{number}" for number in range(RULED_MAX + 1))
    for name in names:
        queue.set_rules(name, QueueRules(importance="n"), 0.0)
    put(queue, *(make(number, n=number) for number in range(1, 6)), names=names)
    assert [(gone.event.sequence, gone.lost) for gone in queue.gone] == [(1, True)]
