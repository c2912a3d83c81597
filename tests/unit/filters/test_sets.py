"""Value sets: each builder gives the one canonical set for what is meant."""

import pickle
from datetime import UTC, datetime

import pytest

from godwit.errors import BadValue
from godwit.filters.like_patterns import escaped
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    PATTERN_LENGTH_MAX,
    Complement,
    Interval,
    Like,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    all_of_kind,
    at_least,
    at_most,
    between,
    complement,
    ends_with,
    holds_text,
    interval,
    less_than,
    like,
    more_than,
    one_of,
    places,
    starts_with,
)
from godwit.filters.values import Kind, Point

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_ends_are_open_or_closed_as_named():
    for values, wanted in [
        (less_than(2), [1]),
        (at_most(2), [1, 2]),
        (more_than(2), [3]),
        (at_least(2), [2, 3]),
        (between(2, 3), [2, 3]),
        (interval(1, 3, low_open=True, high_open=True), [2]),
    ]:
        assert [n for n in (1, 2, 3) if values.contains(n)] == wanted


def test_an_interval_of_one_point_is_a_finite_set_and_an_empty_one_is_nothing():
    assert between(2, 2) == one_of([2])
    assert between(2, 2.0) == one_of([2])
    assert between(3, 2) == NOTHING
    assert interval(2, 2, low_open=True) == NOTHING


def test_the_least_text_bounds_nothing_from_below_and_leaves_nothing_below_it():
    assert at_least("") == all_of_kind(Kind.TEXT)
    assert between("", "b") == at_most("b")
    assert at_most("") == one_of([""])
    assert between("", "") == one_of([""])
    assert less_than("") == NOTHING
    assert more_than("").contains("\0")
    assert not more_than("").contains("")


def test_an_interval_holds_values_of_its_own_kind_only():
    assert not less_than(10).contains(True)
    assert not less_than(10).contains("5")
    assert not less_than("b").contains(1)
    assert not at_least(NOON).contains(0)
    assert all_of_kind(Kind.NUMBER).contains(2**64 - 1)


@pytest.mark.parametrize("ends", [(1, "a"), ("", 5), (NOON, 3)])
def test_an_interval_of_two_kinds_is_refused(ends):
    with pytest.raises(BadValue, match="mixes two kinds"):
        interval(*ends)


@pytest.mark.parametrize("end", [True, Point(0, 0)])
def test_what_has_no_order_bounds_no_interval(end):
    with pytest.raises(BadValue, match="has no order"):
        at_least(end)


def test_an_interval_without_ends_is_refused_with_advice():
    with pytest.raises(BadValue, match="all_of_kind"):
        interval()


def test_finite_sets_are_equal_in_any_order_and_an_empty_one_is_nothing():
    assert one_of(["b", "a", "b"]) == one_of(["a", "b"])
    assert one_of([1, True]) == one_of([True, 1.0])
    assert one_of([]) == NOTHING
    assert places([]) == NOTHING


def test_a_finite_set_tells_bools_from_numbers():
    assert one_of([1]).contains(1.0)
    assert not one_of([1]).contains(True)
    assert one_of([True]).contains(True)
    assert not one_of([True]).contains(1)
    assert one_of([True, 1]).kinds == Kind.BOOL | Kind.NUMBER


def test_numbers_beyond_two_to_the_53_are_told_apart():
    assert one_of([2**53]).contains(float(2**53))
    assert not one_of([2**53 + 1]).contains(float(2**53))
    assert less_than(2**53 + 1).contains(float(2**53))
    assert not less_than(float(2**53)).contains(2**53)


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("abc", one_of(["abc"])),
        ("", one_of([""])),
        ("%", all_of_kind(Kind.TEXT)),
        ("%%", all_of_kind(Kind.TEXT)),
        ("abc%", Prefix("abc")),
        ("%abc", Suffix("abc")),
        ("%abc%%", Substring("abc")),
        ("50\\%", one_of(["50%"])),
        ("50\\%%", Prefix("50%")),
        ("a%b", Like("a%b")),
        ("a_", Like("a_")),
        ("%_", Like("_%")),
        ("a%_%_b", Like("a__%b")),
        ("\\_%\\\\", Like("\\_%\\\\")),
    ],
)
def test_like_gives_the_simplest_set_that_says_so(pattern, values):
    assert like(pattern) == values


def test_like_takes_another_escape_or_none():
    assert like("a!%b!!", escape="!") == one_of(["a%b!"])
    assert like("a\\%", escape=None) == Prefix("a\\")
    assert like("a\\b", escape="!") == one_of(["a\\b"])


@pytest.mark.parametrize(
    ("pattern", "escape", "fault"),
    [
        ("a\\", "\\", "ends in its escape character"),
        ("a", "%", "cannot escape"),
        ("a", "ab", "cannot escape"),
        ("_" * (PATTERN_LENGTH_MAX + 1), "\\", "at most 1024"),
        ("\ud800", "\\", "lone surrogate"),
    ],
)
def test_a_bad_pattern_is_refused(pattern, escape, fault):
    with pytest.raises(BadValue, match=fault):
        like(pattern, escape)


def test_a_pattern_made_to_explode_a_backtracking_matcher_is_quick():
    bomb = like("%" + "a%" * 500 + "b")
    assert not bomb.contains("a" * 60_000)
    assert not like("%" + "a_" * 500 + "b%").contains("a" * 60_000)


def test_underscore_is_one_character_and_not_one_byte():
    assert like("_").contains("é")
    assert like("_").contains("😀")
    assert like("a_c%").contains("aéccc")
    assert not like("_").contains("")


def test_escaped_text_means_itself():
    assert like(escaped("100%_\\")) == one_of(["100%_\\"])


def test_text_builders_with_nothing_to_look_for_hold_every_text():
    assert starts_with("") == ends_with("") == holds_text("") == all_of_kind(Kind.TEXT)


def test_places_hold_their_names():
    market = places(["market", "port", "market"])
    assert market == Places(("market", "port"))
    assert market.contains("port")
    assert not market.contains(1)


def test_a_complement_holds_values_of_every_other_kind():
    not_small = complement(less_than(10))
    assert not_small.contains(10)
    assert not_small.contains("text")
    assert not not_small.contains(9)
    assert complement(not_small) == less_than(10)
    assert complement(EVERYTHING) == NOTHING
    assert complement(NOTHING) == EVERYTHING


@pytest.mark.parametrize(
    "values",
    [
        EVERYTHING,
        NOTHING,
        OneOf((1, "a")),
        Interval(Kind.NUMBER, 1, 2),
        Like("a%b_"),
        Places(("a",)),
        Complement(Prefix("a")),
    ],
)
def test_sets_survive_pickling(values):
    again = pickle.loads(pickle.dumps(values))
    assert again == values
    assert hash(again) == hash(values)
