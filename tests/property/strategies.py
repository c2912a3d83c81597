"""What the laws are tried on: values, value sets, literals, filters and events, from pools so small that they collide.

*Theory.* A law about filters is seldom broken by a random number and often by the neighbour of a bound. So every
value here comes from a pool of a few dozen, and every bound of a set from the same pool: 2**53 next to 2**53 + 1,
`False` next to `0`, a text next to the least text above it, a point on the corner that two boxes share, both sides of
the antimeridian.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, Literal, all_of, any_of, missing, negation, only, present, some
from godwit.filters.regions import Region, box, circle, polygon
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    ValueSet,
    all_of_kind,
    complement,
    ends_with,
    holds_text,
    interval,
    like,
    one_of,
    places,
    starts_with,
    topic_pattern,
)
from godwit.filters.values import Kind, Point, Value

NAMES = ("x", "y", "z")

SMALL_NUMBERS: tuple[Value, ...] = (-1, 0, -0.0, 0.5, 1, 1.0, 1.5, 2, 3, 10)
LARGE_NUMBERS: tuple[Value, ...] = (
    *(2**53 - 1, 2**53, float(2**53), 2**53 + 1, 2**53 + 2, float(2**53 + 2)),
    *(-(2**63), 2**63 - 1, 2**63, float(2**63), 2**64 - 1),
    *(5e-324, 0.1, -1e300, 1e300),
)
NUMBERS = SMALL_NUMBERS + LARGE_NUMBERS

TEXTS: tuple[Value, ...] = (
    *("", "\0", "a", "a\0", "aa", "ab", "aba", "abab", "abb", "abc", "ac", "b", "ba", "bab", "c"),
    *("é", "aé", "éa", "ñ", "a\U0010ffff", "\U0010ffff", "\ud7ff", "\ue000", "😀", "a😀b"),
    *("%", "_", "\\", "a%b", "a_b", "a\\b", "1", "true"),
    *("/", "a/", "/a", "a/b", "a/b/a", "ab/b", "$", "$a", "$a/b", "a/+", "#"),
)

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
TIMES: tuple[Value, ...] = (
    datetime.min.replace(tzinfo=UTC),
    *(NEW_YEAR + timedelta(microseconds=step) for step in (-1, 0, 1)),
    *(NEW_YEAR + timedelta(hours=step) for step in (1, 2, 24)),
    datetime.max.replace(tzinfo=UTC),
)

REGIONS: tuple[Region, ...] = (
    *(box(0, 0, 10, 10), box(10, 0, 20, 10), box(5, 5, 15, 15), box(2, 2, 8, 8), box(0, 10, 10, 20)),
    *(box(5, 5, 5, 5), box(0, 5, 10, 5), box(-180, -90, 180, 90), box(-180, 0, 180, 10)),
    *(
        box(170, -10, -170, 10),
        box(175, -5, 180, 5),
        box(-180, -5, -175, 5),
        box(165, -20, -165, 20),
        box(180, -5, -180, 5),
    ),
    *(circle(5, 5, 0), circle(5, 5, 200_000), circle(5, 5, 800_000), circle(5, 5, 1_000_000), circle(15, 5, 500_000)),
    *(circle(180, 0, 300_000), circle(-179, 0, 300_000), circle(180, 0, 2_000_000), circle(178, 0, 100_000)),
    *(circle(0, 89, 500_000), circle(90, 90, 1_000_000), circle(0, -90, 300_000)),
    *(circle(0, 0, 10_000_000), circle(0, 0, 20_015_000), circle(0, 0, 20_016_000)),
    polygon([(0, 0), (10, 0), (10, 10), (0, 10)]),
    polygon([(0, 0), (10, 0), (0, 10)]),
    polygon([(10, 10), (10, 0), (0, 10)]),
    polygon([(0, 0), (10, 0), (10, 4), (4, 4), (4, 10), (0, 10)]),
    polygon([(1, 1), (3, 1), (3, 3), (1, 3)]),
    polygon([(170, -10), (180, 0), (170, 10)]),
    polygon([(-180, -5), (-170, 0), (-180, 5)]),
)

_BORDER_LONS = (0.0, 4.0, 5.0, 10.0, math.nextafter(10, 11), math.nextafter(10, 9), 15.0, 20.0)
_BORDER_LATS = (0.0, 4.0, 5.0, 10.0, math.nextafter(10, 11), math.nextafter(10, 9))
_FAR_LONS = (-180.0, math.nextafter(-180, 0), -179.0, -175.0, -170.0, 170.0, 175.0, math.nextafter(180, 0), 180.0)
_FAR_LATS = (-90.0, -87.5, -10.0, 0.0, 5.0, 89.0, 90.0)
POINTS: tuple[Value, ...] = tuple(
    Point(lon, lat) for lon, lat in [*product(_BORDER_LONS, _BORDER_LATS), *product(_FAR_LONS, _FAR_LATS)]
)

BOOLS: tuple[Value, ...] = (False, True)
PLACES = ("a", "ab", "é", "market")

_POOLS: dict[Kind, tuple[Value, ...]] = {
    Kind.BOOL: BOOLS,
    Kind.NUMBER: NUMBERS,
    Kind.TIME: TIMES,
    Kind.TEXT: TEXTS,
    Kind.POINT: POINTS,
}
ORDERED = (Kind.NUMBER, Kind.TIME, Kind.TEXT)
_PATTERN_PIECES = ("a", "b", "é", "%", "_", "%", "_", "\\%", "\\_", "\\\\")


def many(times: int) -> settings:
    """So many times as many examples as the profile says."""
    assert settings.default is not None
    return settings(max_examples=times * settings.default.max_examples)


def values(*kinds: Kind) -> SearchStrategy[Value]:
    """A value of one of `kinds`, or of any."""
    return st.one_of([_from(_POOLS[kind]) for kind in kinds or _POOLS])


def _from(pool: Sequence[Any]) -> SearchStrategy[Any]:
    """One of `pool`: like `sampled_from`, but a report does not print the pool."""
    return st.integers(0, len(pool) - 1).map(pool.__getitem__)


def intervals(*kinds: Kind) -> SearchStrategy[ValueSet]:
    """An interval of an ordered kind: bounded on both sides, on one or on none, at times empty or a single point."""
    return st.one_of([_intervals_of(kind) for kind in kinds or ORDERED])


def _intervals_of(kind: Kind) -> SearchStrategy[ValueSet]:
    end = _from(_POOLS[kind])
    two = st.builds(_interval, end, end, st.booleans(), st.booleans())
    low = st.builds(lambda at, is_open: interval(low=at, low_open=is_open), end, st.booleans())
    high = st.builds(lambda at, is_open: interval(high=at, high_open=is_open), end, st.booleans())
    return st.one_of(two, two, low, high, st.just(all_of_kind(kind)))


def _interval(a: Any, b: Any, low_open: bool, high_open: bool) -> ValueSet:
    return interval(min(a, b), max(a, b), low_open=low_open, high_open=high_open)


def finite_sets(*kinds: Kind) -> SearchStrategy[ValueSet]:
    """A set of up to four values."""
    return st.lists(values(*kinds), min_size=1, max_size=4).map(one_of)


def patterns() -> SearchStrategy[str]:
    """A LIKE pattern."""
    return st.lists(st.sampled_from(_PATTERN_PIECES), max_size=6).map("".join)


def topic_patterns() -> SearchStrategy[str]:
    """A topic pattern, most with wildcards."""
    level = st.sampled_from(["", "a", "b", "ab", "$a", "+", "+"])
    last = st.sampled_from([[], ["#"]])
    levels = st.lists(level, max_size=3)
    return st.builds(lambda some, end: "/".join([*some, *end]) or "+", levels, last)


def text_sets() -> SearchStrategy[ValueSet]:
    """A prefix, suffix, substring, LIKE or topic pattern, interval or finite set of texts."""
    text: SearchStrategy[Any] = values(Kind.TEXT)
    shapes = [text.map(starts_with), text.map(ends_with), text.map(holds_text), patterns().map(like)]
    shapes.append(topic_patterns().map(topic_pattern))
    return st.one_of(
        *shapes, intervals(Kind.TEXT), finite_sets(Kind.TEXT), st.sets(st.sampled_from(PLACES)).map(places)
    )


def regions() -> SearchStrategy[Region]:
    """A box, circle or polygon; many share a border, hold one another or lie across the antimeridian."""
    return _from(REGIONS)


def simple_sets() -> SearchStrategy[ValueSet]:
    """A value set that is no complement."""
    return st.one_of(
        intervals(Kind.NUMBER),
        finite_sets(Kind.NUMBER, Kind.BOOL),
        text_sets(),
        intervals(Kind.TIME),
        regions(),
        finite_sets(),
        st.sampled_from([EVERYTHING, NOTHING]),
    )


def value_sets() -> SearchStrategy[ValueSet]:
    """Any value set."""
    return st.one_of(simple_sets(), simple_sets(), simple_sets().map(complement))


def number_sets() -> SearchStrategy[ValueSet]:
    """A set of numbers, or a complement of one: sets that often hold one another."""
    sets = st.one_of(intervals(Kind.NUMBER), finite_sets(Kind.NUMBER))
    return st.one_of(sets, sets, sets.map(complement))


def literals(names: Sequence[str] = NAMES, sets: SearchStrategy[ValueSet] | None = None) -> SearchStrategy[Literal]:
    """A literal on one of `names`."""
    name = st.sampled_from(names)
    on = value_sets() if sets is None else sets
    wanted = st.builds(some, name, on)
    return st.one_of(wanted, wanted, st.builds(only, name, on), st.builds(missing, name), st.builds(present, name))


def conjunctions(names: Sequence[str] = NAMES, sets: SearchStrategy[ValueSet] | None = None) -> SearchStrategy[Filter]:
    """An AND with at most one literal on each of `names`."""
    on_each = [st.none() | literals([name], sets) for name in names]
    return st.tuples(*on_each).map(lambda found: all_of(*(literal for literal in found if literal is not None)))


def filters(
    max_leaves: int = 8, names: Sequence[str] = NAMES, sets: SearchStrategy[ValueSet] | None = None
) -> SearchStrategy[Filter]:
    """A filter of up to `max_leaves` literals under AND, OR and NOT."""
    leaves: SearchStrategy[Filter] = literals(names, sets)

    def combined(inner: SearchStrategy[Filter]) -> SearchStrategy[Filter]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(several.map(_all), several.map(_any), inner.map(negation))

    return st.recursive(leaves, combined, max_leaves=max_leaves)


def _all(filters: Iterable[Filter]) -> Filter:
    return all_of(*filters)


def _any(filters: Iterable[Filter]) -> Filter:
    return any_of(*filters)


def attributes(
    names: Sequence[str] = NAMES, of: SearchStrategy[Value] | None = None, *, values_max: int = 3
) -> SearchStrategy[Attributes]:
    """Checked attributes: each name absent, with one value or with several."""
    single = values() if of is None else of
    held: SearchStrategy[Any] = st.one_of(st.none(), single, single)
    if values_max > 1:
        held |= st.lists(single, min_size=2, max_size=values_max).map(tuple)
    return st.tuples(*[held for _ in names]).map(
        lambda drawn: {name: value for name, value in zip(names, drawn, strict=True) if value is not None}
    )


def events(
    names: Sequence[str] = NAMES, of: SearchStrategy[Value] | None = None, *, values_max: int = 3
) -> SearchStrategy[Event]:
    """An event with `attributes`."""
    return attributes(names, of, values_max=values_max).map(Event)
