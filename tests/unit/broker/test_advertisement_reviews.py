"""A neighbour's advertisement is compared with many subscriptions a part at a time, and ends as if it were at once."""

from random import Random

import pytest

from godwit.broker import advertisement_reviews
from godwit.broker.advertisement_reviews import AT_ONCE_MAX, REVIEW, STEPS_OF_CHANGE
from godwit.broker.effects import StartTimer
from godwit.broker.messages import Advertise, Publish, Subscribe, Synced, Unadvertise
from godwit.broker.routing import Answer, DeliverLocally, Forward
from godwit.broker.tree import TreeRouting
from godwit.filters import TRUE, Event, parse

MANY = 1_500
ADS, SUBS = Synced("advertisements"), Synced("subscriptions")


def with_subscriptions(count: int = MANY, neighbours: str = "nm") -> TreeRouting:
    routing = TreeRouting("b", neighbours)
    for number in range(count):
        routing.subscribe((f"c{number}", "s"), parse(f"ALL x = {number}"), 0.0)
    return routing


def parts(routing: TreeRouting, neighbour: str = "n") -> list[list[Answer]]:
    """What the parts of a review answer that are left."""
    found = []
    while neighbour in routing.reviews:
        found.append(routing.on_timer_due((REVIEW, neighbour), 0.0))
    return found


def told(answers: list[Answer]) -> list[object]:
    return [each.message for each in answers if isinstance(each, Forward) and each.peer == "n"]


def test_no_part_of_a_review_tells_more_than_a_few_subscriptions() -> None:
    routing = with_subscriptions()
    first = routing.on_message("n", Advertise(("pat", "a"), TRUE), 1.0)
    assert isinstance(first[-1], StartTimer)
    assert first[-1].key == (REVIEW, "n")
    every = [first, *parts(routing)]
    assert max(len(told(part)) for part in every) <= AT_ONCE_MAX // STEPS_OF_CHANGE + 1 < MANY // 5
    assert sum(len(told(part)) for part in every) == MANY
    assert not any(isinstance(each, StartTimer) for each in every[-1])
    assert len(routing.out_subs["n"].told) == MANY


def test_what_is_told_already_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    routing = with_subscriptions()
    routing.on_message("n", Advertise(("pat", "a"), parse("ALL x >= 0")), 0.0)
    parts(routing)
    monkeypatch.setattr(advertisement_reviews, "intersects", None)  # which would be called
    assert told(routing.on_message("n", Advertise(("pat", "b"), parse("y = 1")), 0.0)) == []
    assert "n" not in routing.reviews


def test_events_and_subscriptions_of_others_pass_between_two_parts() -> None:
    routing = with_subscriptions()
    for n in "nm":
        routing.on_message(n, ADS, 0.0)
        routing.on_message(n, SUBS, 0.0)
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    assert "n" in routing.reviews
    event = Event({"x": 7}, "p", 1)
    assert routing.on_message("m", Publish(event), 0.0) == [DeliverLocally(event, [("c7", "s")])]
    assert [type(each) for each in told(routing.subscribe(("new", "s"), parse("y = 1"), 0.0))] == [Subscribe]
    assert not routing.is_settled()
    parts(routing)
    assert routing.is_settled()


def test_a_neighbour_has_been_told_all_only_when_its_review_is_over() -> None:
    routing = with_subscriptions(neighbours="n")
    routing.on_peer_up("n", 0.0)
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    assert SUBS not in told(routing.on_message("n", ADS, 0.0))
    every = parts(routing)
    assert [SUBS in told(part) for part in every] == [False] * (len(every) - 1) + [True]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("reduction", ["simple", "identity"])
def test_changes_during_a_review_end_as_if_each_had_been_made_at_once(
    reduction: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(f"reviews {seed}")
    slow, fast = (TreeRouting("b", "nm", reduction=reduction) for _ in range(2))
    values = range(30)
    waited = 0
    for step in range(400):
        id, low = ("c", f"{draw.choice(values)}"), draw.choice(values)
        filter = parse(draw.choice(["ALL x = {}", "ALL x >= {}", "x = {}", "ALL y < {}"]).format(low))
        choice, source = draw.random(), draw.choice(["", "m"])
        ad = ("pat", f"{draw.randrange(5)}")
        for routing, at_once_max in ((slow, 60), (fast, 10**9)):
            monkeypatch.setattr(advertisement_reviews, "AT_ONCE_MAX", at_once_max)
            if choice < 0.5:
                routing.on_subscribe(id, filter, source)
            elif choice < 0.65:
                routing.on_unsubscribe(id, source)
            elif choice < 0.8:
                routing.on_message("n", Advertise(ad, filter), 0.0)
            elif ad in routing.in_ads["n"]:
                routing.on_message("n", Unadvertise(ad), 0.0)
        monkeypatch.setattr(advertisement_reviews, "AT_ONCE_MAX", 60)
        assert "n" not in fast.reviews
        if "n" in slow.reviews:
            waited += 1
            if draw.random() < 0.3:
                slow.on_timer_due((REVIEW, "n"), 0.0)
        if "n" not in slow.reviews or step % 50 == 49:
            parts(slow)
            assert set(slow.out_subs["n"].keys()) == set(fast.out_subs["n"].keys())
            assert sorted(map(str, slow.out_subs["n"].told.values())) == sorted(
                map(str, fast.out_subs["n"].told.values())
            )
    assert waited > 50


def test_a_timer_of_a_review_that_is_over_does_nothing() -> None:
    routing = with_subscriptions()
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    routing.begin_life(2, {}, 0.0)
    assert "n" not in routing.reviews
    assert not any(isinstance(each, Forward) for each in routing.on_timer_due((REVIEW, "n"), 0.0))


def test_after_many_withdrawals_subscriptions_are_compared_with_what_is_advertised_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advertisement_reviews, "WITHDRAWN_MAX", 3)
    routing = with_subscriptions(300)
    for number in range(20):
        routing.on_message("n", Advertise(("pat", f"{number}"), parse(f"ALL x = {number}")), 0.0)
    routing.on_message("n", Advertise(("pat", "all"), parse("ALL x >= 15")), 0.0)
    assert "n" in routing.reviews
    for number in range(20):
        routing.on_message("n", Unadvertise(("pat", f"{number}")), 0.0)
    parts(routing)
    assert len(routing.out_subs["n"].told) == 300 - 15


def test_a_message_that_follows_the_tables_waits_for_what_the_neighbour_has_called_by_then() -> None:
    """What is added later, and what is withdrawn, delays it no longer."""
    routing = with_subscriptions()
    message = Synced("advertisements")  # as any message
    assert routing.follow("n", message) == [Forward("n", message)]
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    assert routing.follow("m", message) == [Forward("m", message)]
    assert routing.follow("n", ADS) == []
    routing.on_message("n", Advertise(("pat", "b"), parse("y = 1")), 0.0)
    assert routing.follow("n", SUBS) == []
    assert routing.held_back() == [ADS, SUBS]
    every = [told(part) for part in parts(routing)]
    assert [part for part in every if ADS in part or SUBS in part] == [every[-1]]
    assert every[-1][-2:] == [ADS, SUBS]
    routing.on_message("n", Unadvertise(("pat", "a")), 0.0)
    assert "n" in routing.reviews
    assert routing.follow("n", message) == [Forward("n", message)]


def test_a_message_does_not_wait_for_what_a_neighbour_calls_after_it() -> None:
    routing = with_subscriptions()
    routing.on_message("n", Advertise(("pat", "a"), parse("ALL x < 700")), 0.0)
    assert routing.follow("n", ADS) == []
    for number in range(700, MANY, 100):
        routing.on_message(
            "n", Advertise(("pat", f"{number}"), parse(f"ALL x BETWEEN {number} AND {number + 99}")), 0.0
        )
    every = [told(part) for part in parts(routing)]
    at = [ADS in part for part in every].index(True)
    assert 0 < at < len(every) - 1
    assert sum(len(part) for part in every[at + 1 :]) > 0


def test_of_many_messages_that_follow_a_review_all_go_at_once_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advertisement_reviews, "FOLLOWING_MAX", 2)
    routing = with_subscriptions()
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    assert [routing.follow("n", each) for each in (ADS, SUBS)] == [[], []]
    assert routing.follow("n", ADS) == [Forward("n", each) for each in (ADS, SUBS, ADS)]
    assert routing.held_back() == []


def test_in_another_life_what_follows_a_review_goes_behind_all_that_is_told_again() -> None:
    routing = with_subscriptions()
    routing.on_message("n", Advertise(("pat", "a"), TRUE), 0.0)
    routing.follow("n", ADS)
    again = told(routing.begin_life(2, {}, 0.0))
    assert again[-1] == ADS
    assert len([each for each in again if isinstance(each, Subscribe)]) == MANY
