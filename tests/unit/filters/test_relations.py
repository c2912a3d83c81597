"""How two value sets relate: one example for each rule; the laws are in tests/property/test_set_laws.py."""

from datetime import UTC, datetime, timedelta

import pytest

from godwit.filters.references import Reference
from godwit.filters.references import interval as open_interval
from godwit.filters.regions import box, circle
from godwit.filters.relations import hull, intersection, intersections, is_disjoint, is_subset, range_of, union, unions
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
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
OPEN = open_interval(Reference("threshold"), None)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (less_than(5), less_than(10)),
        (less_than(5), at_most(5)),
        (between(1, 2), all_of_kind(Kind.NUMBER)),
        (interval(1, 2, low_open=True), more_than(1)),
        (one_of([1, 2]), between(1, 2)),
        (one_of(["a"]), places(["a", "b"])),
        (places(["a"]), starts_with("a")),
        (between(NOON, NOON + timedelta(hours=1)), at_least(NOON)),
        (starts_with("abc"), starts_with("ab")),
        (starts_with("abc"), holds_text("bc")),
        (starts_with("abc"), between("abc", "abd")),
        (interval("ab", "ac", high_open=True), starts_with("ab")),
        (starts_with("\U0010ffff"), at_least("\U0010ffff")),
        (starts_with("a\ud7ff"), less_than("a\ue000")),
        (ends_with("abc"), ends_with("bc")),
        (like("a%bc"), starts_with("a")),
        (like("a%bc"), ends_with("c")),
        (like("a%xyz%b"), holds_text("xy")),
        (like("ab_%d"), like("a_%d")),
        (like("abc"), like("a_c")),
        (like("%_"), like("_%")),
        (between(1, 2), complement(one_of([3]))),
        (complement(less_than(10)), complement(less_than(5))),
        (one_of([True]), complement(one_of([1]))),
        (circle(5, 5, 1_000), box(0, 0, 10, 10)),
        (one_of([Point(1, 1)]), box(0, 0, 10, 10)),
    ],
)
def test_a_subset(a, b):
    assert is_subset(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (at_most(5), less_than(5)),
        (one_of([1]), one_of([True])),
        (one_of([2**53 + 1]), one_of([float(2**53)])),
        (all_of_kind(Kind.NUMBER), all_of_kind(Kind.TIME)),
        (starts_with("ab"), ends_with("ab")),
        (like("a_%"), starts_with("a_")),
        (like("a%"), like("a_%")),
        (complement(one_of([1])), all_of_kind(Kind.NUMBER)),
        (EVERYTHING, complement(one_of([1]))),
    ],
)
def test_no_subset(a, b):
    assert not is_subset(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (less_than(5), at_least(5)),
        (interval(0, 5, high_open=True), between(5, 6)),
        (less_than(5), less_than("5")),
        (one_of([1]), one_of([True])),
        (starts_with("ab"), starts_with("ac")),
        (ends_with("ab"), like("%cb")),
        (starts_with("b"), less_than("b")),
        (box(0, 0, 1, 1), box(2, 2, 3, 3)),
        (box(0, 0, 1, 1), less_than(3)),
        (less_than(5), complement(less_than(10))),
        (NOTHING, EVERYTHING),
    ],
)
def test_disjoint_sets(a, b):
    assert is_disjoint(a, b)
    assert is_disjoint(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (at_most(5), at_least(5)),
        (starts_with("ab"), ends_with("cd")),
        (holds_text("a"), holds_text("b")),
        (complement(one_of([1])), complement(one_of([2]))),
        (box(0, 0, 1, 1), box(1, 1, 2, 2)),
    ],
)
def test_sets_that_meet(a, b):
    assert not is_disjoint(a, b)


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (less_than(5), between(5, 9), at_most(9)),
        (less_than(5), at_least(5), all_of_kind(Kind.NUMBER)),
        (less_than(5), more_than(5), None),
        (between(0, 1), between(2, 3), None),
        (interval(0, 5, high_open=True), one_of([5, 3]), between(0, 5)),
        (more_than(""), one_of([""]), all_of_kind(Kind.TEXT)),
        (between(0, 5), one_of([7]), None),
        (interval(1, 5, low_open=True), one_of([True]), None),
        (one_of([1]), one_of(["a"]), one_of([1, "a"])),
        (places(["a"]), places(["b"]), places(["a", "b"])),
        (complement(one_of([1, 2])), one_of([2]), complement(one_of([1]))),
        (complement(less_than(5)), less_than(9), EVERYTHING),
        (complement(less_than(5)), complement(at_least(3)), complement(interval(3, 5, high_open=True))),
        (starts_with("ab"), between("ac", "b"), between("ab", "b")),
        (starts_with("alert/a"), starts_with("alert/b"), interval("alert/a", "alert/c", high_open=True)),
        (box(0, 0, 1, 1), box(1, 0, 2, 1), box(0, 0, 2, 1)),
        (box(0, 0, 1, 1), box(1, 1, 2, 2), None),
        (starts_with("a"), ends_with("b"), None),
    ],
)
def test_union_is_exact_or_none(a, b, joined):
    assert union(a, b) == joined
    assert union(b, a) == joined


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (less_than(5), at_least(3), interval(3, 5, high_open=True)),
        (at_most(5), at_least(5), one_of([5])),
        (less_than(5), one_of([4, 5, "a"]), one_of([4])),
        (complement(one_of([1])), complement(one_of([2])), complement(one_of([1, 2]))),
        (starts_with("ab"), at_most("abc"), between("ab", "abc")),
        (box(0, 0, 2, 2), box(1, 1, 3, 3), box(1, 1, 2, 2)),
        (less_than(5), more_than(7), NOTHING),
        (starts_with("a"), ends_with("b"), None),
    ],
)
def test_intersection_is_exact_or_none(a, b, common):
    assert intersection(a, b) == common
    assert intersection(b, a) == common


@pytest.mark.parametrize(
    ("a", "b", "around"),
    [
        (between(0, 1), between(2, 3), between(0, 3)),
        (less_than(0), one_of([5]), at_most(5)),
        (starts_with("alert/a"), starts_with("alert/c"), starts_with("alert/")),
        (ends_with("xa"), ends_with("ya"), ends_with("a")),
        (starts_with("a"), ends_with("b"), all_of_kind(Kind.TEXT)),
        (between(0, 1), starts_with("a"), EVERYTHING),
        (box(0, 0, 1, 1), circle(0.5, 0.5, 10), box(0, 0, 1, 1)),
    ],
)
def test_hull_holds_both(a, b, around):
    assert hull(a, b) == around


def test_many_sets_are_joined_into_few():
    assert unions([one_of([n]) for n in range(10_000)]) == [one_of(range(10_000))]
    assert unions([between(n, n + 1) for n in range(999, -1, -1)]) == [between(0, 1000)]
    assert unions([between(2, 3), between(0, 1), one_of([5]), one_of([6])]) == [
        *(between(0, 1), between(2, 3), one_of([5, 6])),
    ]
    assert unions([places(["a"]), places(["b"])]) == [places(["a", "b"])]
    assert unions([]) == []
    assert intersections([complement(one_of([1])), complement(one_of([2]))]) == [complement(one_of([1, 2]))]


def test_a_range_is_the_narrowest_interval_around_a_set():
    assert range_of(one_of([3, 1, 2])) == between(1, 3)
    assert range_of(starts_with("ab")) == interval("ab", "ac", high_open=True)
    assert range_of(starts_with("a\U0010ffff")) == interval("a\U0010ffff", "b", high_open=True)
    assert range_of(ends_with("x")) == all_of_kind(Kind.TEXT)


def test_an_open_set_relates_to_itself_alone():
    assert is_subset(OPEN, OPEN)
    assert is_disjoint(OPEN, complement(OPEN))
    assert is_subset(OPEN, EVERYTHING)
    assert is_subset(NOTHING, OPEN)
    for other in (
        less_than(5),
        one_of([1]),
        complement(OPEN),
        complement(one_of([1])),
        starts_with("a"),
        box(0, 0, 1, 1),
    ):
        assert not is_subset(OPEN, other)
        assert not is_subset(other, OPEN)
        assert union(OPEN, other) is None
        assert other == complement(OPEN) or not is_disjoint(OPEN, other)
        assert hull(OPEN, other) == EVERYTHING
