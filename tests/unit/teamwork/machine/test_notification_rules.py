"""When a notification goes out: digests, quiet hours, attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from godwit.teamwork.machine.notification_rules import (
    Channel,
    UserSubscription,
    due_at,
    is_given_up,
    problem_of,
    retry_at,
)

PLAIN = UserSubscription("1", "plans", ("artefact",), (Channel("mail", "ann@example.org"),))
DAY_S = 86_400
minutes = st.integers(0, 1439)
times = st.floats(0, 1e10, allow_nan=False)


def minute_of(at: float, subscription: UserSubscription) -> float:
    return (at + subscription.utc_offset_s) / 60 % 1440


@given(times)
def test_without_digest_and_quiet_hours_it_goes_out_at_once(now: float) -> None:
    assert due_at(PLAIN, now) == now


@given(times, minutes, minutes, st.sampled_from([0.0, 3600.0, -18_000.0]), st.sampled_from([0.0, 60.0, 86_400.0]))
def test_nothing_goes_out_in_quiet_hours_and_nothing_waits_longer_than_needed(
    now: float, begin: int, end: int, offset_s: float, digest_s: float
) -> None:
    quiet = replace(PLAIN, quiet=(begin, end), utc_offset_s=offset_s, digest_s=digest_s)
    at = due_at(quiet, now)
    assert now <= at <= now + digest_s + DAY_S + 1
    loud = due_at(replace(quiet, quiet=None), now)
    if begin != end:
        minute = minute_of(at, quiet)
        is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
        assert not is_quiet or abs(minute - end) % 1440 < 0.01 or abs(minute - end) > 1439.99
        assert at == loud or min(abs(minute - end), 1440 - abs(minute - end)) < 0.01
    else:
        assert at == loud


def test_night_is_quiet() -> None:
    night = replace(PLAIN, quiet=(22 * 60, 7 * 60))
    assert due_at(night, 23 * 3600.0) == (24 + 7) * 3600.0
    assert due_at(night, 3 * 3600.0) == 7 * 3600.0
    assert due_at(night, 12 * 3600.0) == 12 * 3600.0


def test_a_digest_waits_for_the_next_hour() -> None:
    hourly = replace(PLAIN, digest_s=3600.0)
    assert due_at(hourly, 100.0) == due_at(hourly, 3500.0) == 3600.0
    assert due_at(hourly, 3600.0) == 7200.0


def test_attempts_are_made_after_longer_and_longer_times_and_given_up_after_a_week() -> None:
    waits = [retry_at(PLAIN, attempts, 0.0) for attempts in range(1, 13)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3840, 7680, 15_360, 21_600, 21_600, 21_600]
    assert not is_given_up(0.0, 7 * 86_400)
    assert is_given_up(0.0, 7 * 86_400 + 1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kinds": ()}, "needs at least one kind"),
        ({"channels": ()}, "needs at least one channel: mail, webhook, message, desktop"),
        ({"channels": (Channel("pigeon"),)}, "a channel is one of mail, webhook, message, desktop, not 'pigeon'"),
        ({"channels": (Channel("mail"),)}, "a mail channel needs an address"),
        ({"digest_s": -1.0}, "a digest collects for 0 to 604,800 seconds, not -1"),
        ({"quiet": (0, 1440)}, "quiet hours are two minutes of the day"),
        ({}, ""),
    ],
)
def test_what_cannot_be_is_named(changed: dict[str, object], said: str) -> None:
    problem = problem_of(replace(PLAIN, **changed))
    assert said in problem
    assert bool(said) == bool(problem)
