"""Laws of value sets: no value refutes how two of them are said to relate, and where that is exact, none is missed."""

import itertools
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from godwit.filters import relations
from godwit.filters.regions import Box, Circle, Region, apart, box, box_hull, circle, distance_m, inside
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    Complement,
    Interval,
    OneOf,
    ValueSet,
    at_least,
    at_most,
    between,
    complement,
    interval,
    less_than,
    like,
    more_than,
    one_of,
)
from godwit.filters.values import Kind, Point, Value, checked_value, identity, kind_of, order_key
from tests.property import strategies as draw
from tests.seeds import slow

EVERY_VALUE = (*draw.BOOLS, *draw.NUMBERS, *draw.TEXTS, *draw.TIMES, *draw.POINTS)


def held(values: ValueSet) -> set[Any]:
    return {identity(value) for value in EVERY_VALUE if values.contains(value)}


# ---------------------------------------------------------------- relations against contains


def check_relations(a: ValueSet, b: ValueSet) -> None:
    in_a, in_b = held(a), held(b)
    if relations.is_subset(a, b):
        assert in_a <= in_b
    if relations.is_disjoint(a, b):
        assert not in_a & in_b
    assert relations.is_disjoint(a, b) == relations.is_disjoint(b, a)
    joined = relations.union(a, b)
    assert joined is None or held(joined) == in_a | in_b
    common = relations.intersection(a, b)
    assert common is None or held(common) == in_a & in_b
    assert held(relations.hull(a, b)) >= in_a | in_b


@draw.many(2)
@given(draw.value_sets(), draw.value_sets())
def test_no_value_refutes_how_two_sets_relate(a: ValueSet, b: ValueSet) -> None:
    check_relations(a, b)


@draw.many(2)
@given(draw.text_sets(), draw.text_sets())
def test_no_text_refutes_how_two_text_sets_relate(a: ValueSet, b: ValueSet) -> None:
    check_relations(a, b)


@given(st.lists(draw.value_sets(), max_size=6))
def test_unions_hold_exactly_what_the_sets_held(sets: list[ValueSet]) -> None:
    joined = relations.unions(sets)
    assert len(joined) <= len(sets)
    assert {v for s in joined for v in held(s)} == {v for s in sets for v in held(s)}


@given(st.lists(st.one_of(draw.intervals(Kind.NUMBER), draw.intervals(Kind.TIME)), max_size=40))
def test_unions_of_intervals_are_as_few_as_can_be(sets: list[ValueSet]) -> None:
    joined = relations.unions(sets)
    assert all(relations.union(a, b) is None for a, b in itertools.combinations(joined[:16], 2))


@given(draw.value_sets(), draw.values())
def test_a_complement_holds_exactly_what_the_set_leaves_out(a: ValueSet, value: Value) -> None:
    assert complement(a).contains(value) != a.contains(value)
    assert complement(complement(a)) == a


@given(draw.value_sets(), draw.value_sets())
def test_relations_turn_round_under_complement(a: ValueSet, b: ValueSet) -> None:
    assert relations.is_subset(a, b) == relations.is_subset(complement(b), complement(a))
    if b not in (EVERYTHING, NOTHING):
        assert relations.is_disjoint(a, complement(b)) == relations.is_subset(a, b)


@given(draw.value_sets())
def test_every_set_is_a_subset_of_itself_and_of_everything(a: ValueSet) -> None:
    assert relations.is_subset(a, a)
    assert relations.is_subset(NOTHING, a)
    assert relations.is_subset(a, EVERYTHING)
    assert relations.is_disjoint(a, NOTHING)
    assert relations.is_disjoint(a, complement(a))


@given(draw.simple_sets(), draw.values())
def test_kinds_never_leave_out_a_kind_the_set_holds(a: ValueSet, value: Value) -> None:
    assert not a.contains(value) or kind_of(value) & a.kinds


@draw.many(2)
@given(*[st.one_of(draw.number_sets(), draw.text_sets())] * 3)
def test_subset_is_transitive(a: ValueSet, b: ValueSet, c: ValueSet) -> None:
    if relations.is_subset(a, b) and relations.is_subset(b, c):
        assert held(a) <= held(c)


# ---------------------------------------------------------------- exactness


def numbers_around(*sets: ValueSet) -> list[Value]:
    """Every bound of `sets`, something between each two and something beyond: enough to tell the sets apart."""
    ends: list[Any] = []
    for values in sets:
        inner = values.inner if isinstance(values, Complement) else values
        if isinstance(inner, Interval):
            ends += [end for end in (inner.low, inner.high) if end is not None]
        elif isinstance(inner, OneOf):
            ends += inner.values
    ordered = sorted(set(ends))
    between_ends = [_middle(low, high) for low, high in itertools.pairwise(ordered)]
    around = [_below(ordered[0]), _above(ordered[-1])] if ordered else [0]
    return [*ordered, *(value for value in between_ends if value is not None), *around, "a text", True]


def _middle(low: Any, high: Any) -> Any:
    if isinstance(low, datetime):
        return low + (high - low) / 2
    if type(low) is int and type(high) is int and high - low > 1:
        return (low + high) // 2
    middle = low / 2 + high / 2
    return middle if low < middle < high else None


def _below(value: Any) -> Any:
    return value - timedelta(days=1) if isinstance(value, datetime) else -1e308


def _above(value: Any) -> Any:
    return value + timedelta(days=1) if isinstance(value, datetime) else 1e308


DAY = datetime.fromisoformat("2026-03-01T00:00:00+00:00")
DENSE = {
    Kind.NUMBER: (0, 1, 1.5, 2, 3, 2**53, 2**53 + 2, 2**60),
    Kind.TIME: tuple(DAY + timedelta(days=d) for d in range(6)),
}


@st.composite
def dense_sets(draw_from: st.DrawFn, kind: Kind) -> ValueSet:
    """Sets of numbers or times whose bounds leave room between them."""
    low, high = sorted(draw_from(st.lists(st.sampled_from(DENSE[kind]), min_size=2, max_size=2)))
    opened = {"low_open": draw_from(st.booleans()), "high_open": draw_from(st.booleans())}
    shapes = [
        interval(low, high, **opened),
        less_than(low),
        at_most(low),
        more_than(low),
        at_least(low),
        one_of([low, high]),
    ]
    values = draw_from(st.sampled_from(shapes))
    return complement(values) if draw_from(st.booleans()) else values


@st.composite
def dense_pairs(draw_from: st.DrawFn) -> tuple[ValueSet, ValueSet]:
    kind = draw_from(st.sampled_from(list(DENSE)))
    return draw_from(dense_sets(kind)), draw_from(dense_sets(kind))


@draw.many(2)
@given(dense_pairs())
def test_relations_of_intervals_and_finite_sets_are_exact(pair: tuple[ValueSet, ValueSet]) -> None:
    a, b = pair
    universe = numbers_around(a, b)
    assert relations.is_subset(a, b) == all(b.contains(v) for v in universe if a.contains(v))
    assert relations.is_disjoint(a, b) == (not any(a.contains(v) and b.contains(v) for v in universe))


AFFIXES = [
    shape(text)
    for shape in (lambda t: like(f"{t}%"), lambda t: like(f"%{t}"), lambda t: like(f"%{t}%"), lambda t: one_of([t]))
    for text in ("a", "b", "ab", "ba", "aab", "bb")
]


def test_relations_of_prefixes_suffixes_substrings_are_exact() -> None:
    universe = ["".join(letters) for length in range(8) for letters in itertools.product("ab", repeat=length)]
    outside = [text.replace("a", "c") for text in universe] + [text.replace("b", "c") for text in universe]
    universe = list(dict.fromkeys(universe + outside + [f"{x}c{y}" for x in universe[:31] for y in universe[:31]]))
    in_set = {values: {text for text in universe if values.contains(text)} for values in AFFIXES}
    for a, b in itertools.product(AFFIXES, repeat=2):
        assert relations.is_subset(a, b) == (in_set[a] <= in_set[b]), (a, b)
        assert relations.is_disjoint(a, b) == in_set[a].isdisjoint(in_set[b]), (a, b)


BOXES = [
    box(w, s, e, n)
    for w, e in ((0, 2), (2, 4), (0, 4), (1, 3), (179, -179), (178, 180), (-180, 180))
    for s, n in ((0, 2), (1, 3))
]


def test_relations_of_boxes_are_exact() -> None:
    lons = [-180, -179.5, -179, -178.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 178, 178.5, 179, 179.5, 180]
    universe = [Point(lon, lat) for lon in lons for lat in (-1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4)]
    in_box = {a: {p for p in universe if a.contains(p)} for a in BOXES}
    for a, b in itertools.product(BOXES, repeat=2):
        assert relations.is_subset(a, b) == (in_box[a] <= in_box[b]), (a, b)
        assert relations.is_disjoint(a, b) == in_box[a].isdisjoint(in_box[b]), (a, b)


# ---------------------------------------------------------------- numbers


@given(draw.values(Kind.NUMBER), draw.values(Kind.NUMBER))
@example(2**53, float(2**53))
@example(2**53 + 1, float(2**53))
@example(2**64 - 1, float(2**64))
def test_numbers_compare_exactly_however_large(a: Any, b: Any) -> None:
    assert less_than(b).contains(a) == (a < b)
    assert at_least(b).contains(a) == (a >= b)
    assert one_of([b]).contains(a) == (a == b)
    assert between(min(a, b), max(a, b)).contains(a)


@given(draw.values(Kind.BOOL), draw.intervals(Kind.NUMBER), draw.finite_sets(Kind.NUMBER))
def test_a_bool_is_in_no_set_of_numbers(flag: bool, interval_: ValueSet, finite: ValueSet) -> None:
    assert not interval_.contains(flag)
    assert not finite.contains(flag)
    assert not one_of([flag]).contains(int(flag))


@given(st.lists(draw.values(), max_size=8))
def test_a_finite_set_is_the_same_in_whatever_order_it_is_named(values: list[Value]) -> None:
    a, b = one_of(values), one_of([*reversed(values), *values])
    assert a == b
    assert hash(a) == hash(b)
    if isinstance(a, OneOf):
        assert list(a.values) == sorted(a.values, key=order_key)
        assert len(a.values) == len({identity(checked_value(value)) for value in values})


# ---------------------------------------------------------------- LIKE


def like_oracle(pattern: str, text: str) -> bool:
    """LIKE as the standard tells it, one character at a time."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return like_oracle(pattern[1:], text) or (bool(text) and like_oracle(pattern, text[1:]))
    wanted, rest = (pattern[1], pattern[2:]) if pattern[0] == "\\" else (pattern[0], pattern[1:])
    if not text:
        return False
    return (pattern[0] == "_" or text[0] == wanted) and like_oracle(rest, text[1:])


@draw.many(3)
@given(draw.patterns(), st.text("abé%_\\", max_size=8))
def test_like_matches_what_the_standard_says(pattern: str, text: str) -> None:
    assert like(pattern).contains(text) == like_oracle(pattern, text)


@given(draw.patterns(), st.lists(st.text("ab", max_size=3), min_size=8, max_size=8))
def test_like_matches_a_text_made_from_its_pattern(pattern: str, fillings: list[str]) -> None:
    text, characters = "", iter(pattern)
    for character in characters:
        filling = fillings[len(text) % 8]
        text += {"%": filling, "_": (filling or "x")[0]}.get(character) or (
            next(characters) if character == "\\" else ""
        )
        text += character if character not in "%_\\" else ""
    assert like(pattern).contains(text)


@draw.many(3)
@given(draw.patterns(), draw.patterns())
def test_like_relations_are_never_refuted_by_a_short_text(p: str, q: str) -> None:
    a, b = like(p), like(q)
    subset, disjoint = relations.is_subset(a, b), relations.is_disjoint(a, b)
    if subset or disjoint:
        for text in SHORT_TEXTS:
            if a.contains(text):
                assert b.contains(text) == subset


SHORT_TEXTS = ["".join(letters) for length in range(5) for letters in itertools.product("abé%", repeat=length)]

# ---------------------------------------------------------------- regions


def border_points(region: Region) -> list[Point]:
    """Points on and close to the border of a region, and some within."""
    if isinstance(region, Circle):
        steps = [
            (bearing, share) for bearing in range(0, 360, 15) for share in (0.0, 0.5, 0.999, 1 - 1e-12, 1.0, 1.000001)
        ]
        return [travelled(region.centre, bearing, share * region.radius_m) for bearing, share in steps]
    west, south, east, north = region.bounds
    width = east - west if west <= east else east - west + 360
    shares = (0.0, 1e-12, 0.25, 0.5, 0.75, 1 - 1e-12, 1.0)
    lons = [(west + share * width + 180) % 360 - 180 for share in shares] + [west, east]
    return [Point(lon, min(max(south + share * (north - south), south), north)) for lon in lons for share in shares]


def travelled(start: Point, bearing: float, metres: float) -> Point:
    angle, phi, theta = metres / 6_371_008.8, math.radians(start.lat), math.radians(bearing)
    sine = math.sin(phi) * math.cos(angle) + math.cos(phi) * math.sin(angle) * math.cos(theta)
    lat = math.asin(min(1.0, max(-1.0, sine)))
    turn = math.atan2(
        math.sin(theta) * math.sin(angle) * math.cos(phi), math.cos(angle) - math.sin(phi) * math.sin(lat)
    )
    return Point((start.lon + math.degrees(turn) + 180) % 360 - 180, math.degrees(lat))


def small_circles() -> st.SearchStrategy[Region]:
    at = st.sampled_from([0, 5, 10, 170, 178, 179.99, 180, -180, -179.99, -170])
    lat = st.sampled_from([-90, -89, -60, 0, 5, 10, 47, 80, 89.9, 90])
    return st.builds(
        circle, at, lat, st.sampled_from([0, 1, 500, 100_000, 1_000_000, 5_000_000, 10_007_000, 20_000_000])
    )


def any_box() -> st.SearchStrategy[Region]:
    lon = st.sampled_from([-180, -179, -170, -10, 0, 5, 10, 90, 170, 179, 180])
    lat = st.sampled_from([-90, -80, -5, 0, 5, 10, 60, 90])
    return st.builds(lambda w, e, a, b: box(w, min(a, b), e, max(a, b)), lon, lon, lat, lat)


ANY_REGION = st.one_of(draw.regions(), small_circles(), any_box())


@draw.many(2)
@given(ANY_REGION, ANY_REGION)
def test_no_point_refutes_how_two_regions_relate(a: Region, b: Region) -> None:
    points = [*border_points(a), *border_points(b), *draw.POINTS]
    is_inside, is_apart, around = inside(a, b), apart(a, b), box_hull(a, b)
    for point in points:
        assert isinstance(point, Point)
        if a.contains(point):
            assert not is_inside or b.contains(point)
            assert not is_apart or not b.contains(point)
        if a.contains(point) or b.contains(point):
            assert around.contains(point)


@given(ANY_REGION)
def test_bounds_hold_every_point_of_a_region(region: Region) -> None:
    bounds = Box(*region.bounds)
    for point in [*border_points(region), *draw.POINTS]:
        assert not region.contains(point) or bounds.contains(point)


def test_a_circle_and_a_box_in_the_corner_of_its_bounds_are_apart() -> None:
    assert apart(circle(0, 0, 1_000_000), box(8, 8, 9, 9))
    assert not apart(circle(0, 0, 1_000_000), box(5, 5, 9, 9))


def test_a_box_across_the_antimeridian_can_lie_in_a_circle_there() -> None:
    assert inside(box(179, -1, -179, 1), circle(180, 0, 200_000))
    assert inside(box(178, -1, 180, 1), circle(-179.5, 0, 400_000))
    assert not inside(box(179, -1, -179, 1), circle(180, 0, 150_000))


@given(draw.values(Kind.POINT), draw.values(Kind.POINT))
def test_distance_is_symmetric_and_at_most_half_way_round(a: Point, b: Point) -> None:
    assert math.isclose(distance_m(a, b), distance_m(b, a), abs_tol=1e-6)
    assert 0 <= distance_m(a, b) <= math.pi * 6_371_008.8 + 1e-6
    assert distance_m(a, a) == 0


# ---------------------------------------------------------------- a planted fault is caught


def subset_that_ignores_open_ends(a: ValueSet, b: ValueSet) -> bool:
    if isinstance(a, Interval) and isinstance(b, Interval):
        a = Interval(a.kind, a.low, a.high)
        b = Interval(b.kind, b.low, b.high)
    return SOUND_SUBSET(a, b)


def subset_by_float(a: ValueSet, b: ValueSet) -> bool:
    return SOUND_SUBSET(_as_floats(a), _as_floats(b))


def _as_floats(a: ValueSet) -> ValueSet:
    if isinstance(a, Interval) and a.kind is Kind.NUMBER:
        low, high = (None if end is None else float(end) for end in (a.low, a.high))  # type: ignore[arg-type]
        return Interval(a.kind, low, high, a.low_open, a.high_open)
    if isinstance(a, OneOf) and a.kinds == Kind.NUMBER:
        return one_of(float(value) for value in a.values)  # type: ignore[arg-type]
    return a


def subset_that_takes_bools_for_numbers(a: ValueSet, b: ValueSet) -> bool:
    if isinstance(a, OneOf):
        a = one_of(int(value) if type(value) is bool else value for value in a.values)
    return SOUND_SUBSET(a, b)


SOUND_SUBSET = relations.is_subset


@pytest.mark.parametrize(
    "faulty", [subset_that_ignores_open_ends, slow(subset_by_float), subset_that_takes_bools_for_numbers]
)
def test_a_planted_wrong_subset_is_caught(
    faulty: Callable[[ValueSet, ValueSet], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relations, "is_subset", faulty)
    law = settings(max_examples=6_000, phases=[Phase.generate])(
        given(draw.value_sets(), draw.value_sets())(check_relations)
    )
    with pytest.raises(AssertionError):
        law()
