"""Values: what an attribute may hold, and what is refused at the door."""

import enum
from datetime import UTC, datetime, timedelta, timezone

import pytest

from godwit.errors import BadValue, GodwitError
from godwit.filters.values import (
    INT_MAX,
    INT_MIN,
    TEXT_LENGTH_MAX,
    Kind,
    Point,
    checked_value,
    distinct_sorted,
    identity,
    kind_name,
    kind_of,
)


class Size(str, enum.Enum):  # noqa: UP042 (the kind whose str() is its name)
    VAN = "van"


class Level(enum.IntEnum):
    HIGH = 3


class Metres(float):
    pass


class Stamp(datetime):
    pass


@pytest.mark.parametrize(
    ("value", "kind", "word"),
    [
        (True, Kind.BOOL, "bool"),
        (1, Kind.NUMBER, "number"),
        (1.5, Kind.NUMBER, "number"),
        ("x", Kind.TEXT, "text"),
        (datetime(2026, 1, 1, tzinfo=UTC), Kind.TIME, "time"),
        (Point(8.5, 47.4), Kind.POINT, "point"),
    ],
)
def test_each_value_has_a_kind(value, kind, word):
    assert checked_value(value) == value
    assert kind_of(value) is kind
    assert kind_name(kind) == word


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_has_no_place_in_an_order_is_refused(number):
    with pytest.raises(BadValue, match="not a finite number"):
        checked_value(number)


@pytest.mark.parametrize("number", [INT_MIN - 1, INT_MAX + 1, 10**400])
def test_an_int_beyond_64_bits_is_refused(number):
    with pytest.raises(BadValue, match="beyond 64 bits"):
        checked_value(number)


def test_ints_at_the_edges_of_64_bits_are_values():
    assert checked_value(INT_MIN) == INT_MIN
    assert checked_value(INT_MAX) == INT_MAX


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(BadValue, match="has no time zone"):
        checked_value(datetime(2026, 1, 1))


def test_times_are_kept_in_utc():
    in_zurich = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert checked_value(in_zurich) == in_zurich
    assert checked_value(in_zurich).isoformat() == "2026-07-01T10:00:00+00:00"  # type: ignore[union-attr]


def test_a_time_that_leaves_the_calendar_in_utc_is_refused():
    with pytest.raises(BadValue, match="years 1 to 9999"):
        checked_value(datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused(text):
    with pytest.raises(BadValue, match="lone surrogate"):
        checked_value(text)


def test_a_text_too_long_is_refused_and_the_error_does_not_repeat_it():
    assert checked_value("x" * TEXT_LENGTH_MAX)
    with pytest.raises(BadValue) as caught:
        checked_value("x" * 10_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("thing", [None, b"bytes", [1], {"a": 1}, object(), 1j])
def test_other_types_are_refused_with_a_list_of_what_is_allowed(thing):
    with pytest.raises(BadValue, match="allowed are bool, int, float, text, an aware datetime and Point"):
        checked_value(thing)


def test_subclasses_become_the_plain_value():
    for given, plain in [(Size.VAN, "van"), (Level.HIGH, 3), (Metres(1.5), 1.5)]:
        assert checked_value(given) == plain
        assert type(checked_value(given)) is type(plain)
    assert type(checked_value(Stamp(2026, 1, 1, tzinfo=UTC))) is datetime


@pytest.mark.parametrize("lon_lat", [(181, 0), (0, 91), (float("nan"), 0), (0, float("inf")), ("8", 0), (True, 0)])
def test_a_point_off_the_globe_is_refused(lon_lat):
    with pytest.raises(BadValue, match="of a point is"):
        Point(*lon_lat)


def test_true_and_one_are_two_values_while_one_and_one_point_nought_are_the_same():
    assert identity(True) != identity(1)
    assert identity(False) != identity(0)
    assert identity(1) == identity(1.0)
    assert identity(0.0) == identity(-0.0)
    assert len(distinct_sorted([True, 1, 1.0, False, 0, -0.0])) == 4


def test_values_of_all_kinds_sort_by_kind_and_then_in_their_own_order():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert distinct_sorted([Point(1, 2), "b", noon, 2**53 + 1, 2.0**53, "a", True]) == (
        *(True, 2.0**53, 2**53 + 1, noon, "a", "b", Point(1, 2)),
    )


def test_every_refusal_is_a_godwit_error_and_a_value_error():
    assert issubclass(BadValue, GodwitError)
    assert issubclass(BadValue, ValueError)
