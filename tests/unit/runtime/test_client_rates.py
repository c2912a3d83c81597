"""How fast clients may be: a user with many connections is one user, and reconnecting gives nothing back."""

from random import Random

import pytest

from godwit.broker.messages import Advertise, Attach, Request, Subscribe
from godwit.filters.language import parse
from godwit.runtime import client_rates
from godwit.runtime.client_rates import COSTLY_WORK, ClientRates
from godwit.runtime.rate_limits import TokenBucket, TrafficLimits, work_of

TRAFFIC = TrafficLimits(work_per_s=10, work_burst=100, bytes_per_s=1_000, bytes_burst=5_000)


def test_connections_of_a_user_share_work_and_bytes_and_those_of_nobody_do_not() -> None:
    rates = ClientRates(TRAFFIC)
    ann = [rates.enter("ann", 0.0) for _ in range(50)]
    assert [each.take(1, 0, 1, 0.0) for each in ann] == [0.0] * 50  # 100 of work
    assert [each.take(1, 0, 0, 0.0) for each in ann[:3]] == pytest.approx([0.1, 0.2, 0.3])
    assert rates.enter("bob", 0.0).take(1, 0, 0, 0.0) == 0
    nobody = [rates.enter("", 0.0) for _ in range(50)]
    assert [each.take(100, 0, 0, 0.0) for each in nobody] == [0.0] * 50
    assert ann[0].take(0, 0, 0, 10.0) == 0
    assert [each.take(0, 3_000, 0, 20.0) for each in ann[:2]] == [0.0, 1.0]
    assert len(rates) == 2


def test_work_is_counted_by_message_and_kib_and_what_is_said() -> None:
    rates = ClientRates(TrafficLimits(work_per_s=1, work_burst=100, bytes_per_s=0))
    assert rates.enter("ann", 0.0).take(10, 20 * 1_024, 80, 0.0) == 10


def test_no_bound_is_no_bound() -> None:
    rates = ClientRates(TrafficLimits(work_per_s=0, bytes_per_s=0))
    assert rates.enter("ann", 0.0).take(10**9, 10**12, 10**9, 0.0) == 0


def test_messages_are_those_of_a_connection_but_of_a_user_where_each_request_has_one() -> None:
    rates = ClientRates(TrafficLimits(messages_per_s=1, messages_burst=10))
    assert [rates.enter("ann", 0.0).take(10, 0, 0, 0.0) for _ in range(3)] == [0.0] * 3
    assert [rates.enter("ann", 0.0, f"host:{port}").take(10, 0, 0, 0.0) for port in (1, 2)] == [0.0, 10.0]
    assert rates.enter("", 0.0, "host:1").take(10, 0, 0, 0.0) == 0
    assert rates.enter("", 0.0, "host:1").take(10, 0, 0, 0.0) == 10
    assert rates.enter("", 0.0, "host:2").take(10, 0, 0, 0.0) == 0


def test_who_comes_back_finds_what_it_left_and_it_is_kept_until_it_is_full_again() -> None:
    rates = ClientRates(TRAFFIC)
    first, second = rates.enter("ann", 0.0), rates.enter("ann", 0.0)
    assert first.take(0, 0, 150, 0.0) == 5
    first.leave(0.0)
    second.leave(0.0)
    assert rates.enter("ann", 1.0).take(0, 0, 0, 1.0) == 4
    assert len(rates) == 1


def test_what_is_full_again_is_forgotten_when_others_go_but_not_while_it_is_used() -> None:
    rates = ClientRates(TRAFFIC)
    here = rates.enter("here", 0.0)
    for n in range(100):
        gone = rates.enter(f"u{n}", 0.0)
        gone.take(0, 0, 150, 0.0)
        gone.leave(0.0)
    assert len(rates) == 101
    for n in range(60):
        rates.enter(f"v{n}", 14.0).leave(14.0)  # those before have a bucket that is nearly full
    assert len(rates) >= 101
    for n in range(60):
        rates.enter(f"w{n}", 15.0).leave(15.0)
    assert len(rates) <= 3
    assert here.take(0, 0, 150, 15.0) == 5
    assert rates.enter("here", 15.0).take(0, 0, 0, 15.0) == 5


def test_there_are_not_too_many_that_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rates, "RESTING_MAX", 10)
    rates = ClientRates(TRAFFIC)
    for n in range(50):
        gone = rates.enter(f"u{n}", 0.0)
        gone.take(0, 0, 150, 0.0)
        gone.leave(0.0)
    assert len(rates) <= 11


def test_after_costly_work_a_user_rests_though_its_bucket_is_full() -> None:
    rates = ClientRates(TrafficLimits(work_per_s=100_000, work_burst=10**6))
    first, second, other = rates.enter("ann", 0.0), rates.enter("ann", 0.0), rates.enter("bob", 0.0)
    assert first.take(1, 0, COSTLY_WORK - 1, 0.0) == 0
    assert first.take(1, 0, COSTLY_WORK, 0.0) == pytest.approx(COSTLY_WORK / 100_000)
    assert second.take(1, 0, 0, 0.005) == pytest.approx(COSTLY_WORK / 100_000 - 0.005)
    assert second.take(1, 0, 3 * COSTLY_WORK, 0.01) == pytest.approx(4 * COSTLY_WORK / 100_000 - 0.01)
    assert other.take(1, 0, 0, 0.01) == 0
    assert first.take(1, 0, 0, 1.0) == 0


def test_the_buckets_of_a_user_are_those_of_work_and_of_bytes_each_by_itself() -> None:
    random, rate = Random(1), ClientRates(TRAFFIC).enter("ann", 0.0)
    work, size_left, now = TokenBucket(10, 100, 0.0), TokenBucket(1_000, 5_000, 0.0), 0.0
    for _ in range(1_000):
        now += random.choice((0.0, 0.0, 0.1, 3.0, 40.0))
        messages, size = random.randrange(20), random.randrange(3_000)
        waits = work.take(messages + (size >> 10), now), size_left.take(size, now)
        assert rate.take(messages, size, 0, now) == pytest.approx(max(waits))


def test_a_greeting_costs_as_much_as_the_filters_that_it_brings() -> None:
    subscribe, advertise = Subscribe(("ann", "s"), parse("x = 1 OR y = 2")), Advertise(("ann", "a"), parse("x = 1"))
    assert work_of(Request(1, subscribe)) == work_of(subscribe) == 40
    assert work_of(Attach("ann", wanted=(subscribe, advertise))) == 70
    assert work_of(Attach("ann")) == 0
