"""A class of value sets that nobody knows makes answers weaker, never wrong.

The classes here are defined in this file alone, so no table, `match` or index of the package knows them. Whatever is
said of filters with such sets, no event refutes it; what needs to know the class refuses it, with its name.
"""

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.messages import Subscribe
from godwit.errors import IndexFileError
from godwit.filters import relations
from godwit.filters.algebra import covers, intersects, is_never
from godwit.filters.contexts import bounds_of, may_match
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, all_of, any_of, only, some
from godwit.filters.language import to_json, to_text
from godwit.filters.merging import merge, merge_all, merged, simplify, weaken
from godwit.filters.reasons import failing
from godwit.filters.regions import Bounds, Region
from godwit.filters.sets import ValueSet, between, complement, starts_with
from godwit.filters.values import Kind, Point, Value, identity, kind_of
from godwit.matching.attribute_table import AttributeTable
from godwit.matching.bdd_matcher import BddMatcher, plain_manager
from godwit.matching.caching_matcher import CachingMatcher
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.runtime.wire import NATIVE
from tests.property import strategies as draw

EVERY_VALUE = (*draw.BOOLS, *draw.NUMBERS, *draw.TEXTS, *draw.TIMES, *draw.POINTS)


@dataclass(frozen=True, slots=True)
class Multiples(ValueSet):
    """All multiples of a number. It says what kind of values it holds."""

    of: int

    @property
    def kinds(self) -> Kind:
        return Kind.NUMBER

    def contains(self, value: Value) -> bool:
        return kind_of(value) is Kind.NUMBER and value % self.of == 0  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Long(ValueSet):
    """All texts of some length and more, and `True`. It does not say what kinds of values it holds."""

    length: int

    def contains(self, value: Value) -> bool:
        return value is True or (type(value) is str and len(value) >= self.length)


@dataclass(frozen=True, slots=True)
class Diamond(Region):
    """All points so many degrees from a centre, along the axes."""

    lon: float
    lat: float
    reach: float

    @property
    def bounds(self) -> Bounds:
        return (self.lon - self.reach, self.lat - self.reach, self.lon + self.reach, self.lat + self.reach)

    def contains(self, value: Value) -> bool:
        return type(value) is Point and abs(value.lon - self.lon) + abs(value.lat - self.lat) <= self.reach


@dataclass(frozen=True, slots=True)
class Somewhere(ValueSet):
    """Points, but no region."""

    south: float

    @property
    def kinds(self) -> Kind:
        return Kind.POINT

    def contains(self, value: Value) -> bool:
        return type(value) is Point and value.lat >= self.south


UNKNOWN: tuple[ValueSet, ...] = (
    *(Multiples(1), Multiples(2), Multiples(3)),
    *(Long(0), Long(2), Long(3)),
    *(Diamond(5, 5, 0), Diamond(5, 5, 5), Diamond(5, 5, 10), Diamond(0, 0, 4), Diamond(174, 0, 6)),
    *(Somewhere(-90), Somewhere(5), Somewhere(90)),
)


def sets() -> st.SearchStrategy[ValueSet]:
    """Sets of unknown classes, their complements, and others."""
    unknown = st.sampled_from(UNKNOWN)
    return st.one_of(unknown, unknown.map(complement), draw.value_sets())


FILTERS = draw.filters(max_leaves=5, names=("x", "y"), sets=sets())
EVENTS = st.lists(draw.attributes(("x", "y")), min_size=12, max_size=12)


def held(values: ValueSet) -> set[Any]:
    return {identity(value) for value in EVERY_VALUE if values.contains(value)}


def matched(filter: Filter, events: list[Attributes]) -> list[bool]:
    return [filter.holds(event) for event in events]


def everything_matched(f: Filter, g: Filter, events: list[Attributes]) -> list[bool]:
    return [f.holds(event) or g.holds(event) for event in events]


# ---------------------------------------------------------------- sets


def check(a: ValueSet, b: ValueSet) -> None:
    in_a, in_b = held(a), held(b)
    assert not relations.is_subset(a, b) or in_a <= in_b
    assert not relations.is_disjoint(a, b) or not in_a & in_b
    assert relations.is_disjoint(a, b) == relations.is_disjoint(b, a)
    joined, common = relations.union(a, b), relations.intersection(a, b)
    assert joined is None or held(joined) == in_a | in_b
    assert common is None or held(common) == in_a & in_b
    assert held(relations.hull(a, b)) >= in_a | in_b
    assert held(relations.loose_hull(a, b)) >= in_a | in_b
    assert held(relations.spread(a)) >= in_a


@draw.many(2)
@given(st.sampled_from(UNKNOWN), st.booleans(), sets())
def test_no_value_refutes_how_an_unknown_set_relates_to_any_other(a: ValueSet, turned: bool, b: ValueSet) -> None:
    check(complement(a) if turned else a, b)
    check(b, complement(a) if turned else a)


def test_an_unknown_set_relates_to_itself_and_to_its_complement() -> None:
    for values in UNKNOWN:
        again = copy(values)
        assert again is not values
        assert relations.is_subset(values, again)
        assert relations.is_disjoint(values, complement(again))
        assert relations.union(values, again) == values


@given(st.lists(sets(), max_size=5))
def test_unions_and_intersections_with_unknown_sets_are_exact(several: list[ValueSet]) -> None:
    joined = relations.unions(several)
    assert {one for values in joined for one in held(values)} == {one for values in several for one in held(values)}
    common = [held(values) for values in relations.intersections(several)]
    every = {identity(value) for value in EVERY_VALUE}
    assert every.intersection(*common) == every.intersection(*map(held, several))


# ---------------------------------------------------------------- filters


@draw.many(2)
@given(FILTERS, FILTERS, EVENTS)
def test_no_event_refutes_covers_and_intersects(f: Filter, g: Filter, events: list[Attributes]) -> None:
    for one, other in ((f, g), (f, all_of(f, g)), (any_of(f, g), f)):
        of_one, of_other = matched(one, events), matched(other, events)
        if covers(one, other):
            assert all(a for a, b in zip(of_one, of_other, strict=True) if b)
        if not intersects(one, other):
            assert not any(a and b for a, b in zip(of_one, of_other, strict=True))
    assert not is_never(f) or not any(matched(f, events))


@draw.many(2)
@given(FILTERS, FILTERS, EVENTS)
def test_simplifying_and_merging_lose_no_event(f: Filter, g: Filter, events: list[Attributes]) -> None:
    either = everything_matched(f, g, events)
    assert matched(simplify(f), events) == matched(f, events)
    assert matched(merge_all([f, g]), events) == either
    perfect = merge(f, g)
    assert perfect is None or matched(perfect, events) == either
    loose = merged(f, g, excess_max=1.0)
    assert loose is None or all(a for a, b in zip(matched(loose.filter, events), either, strict=True) if b)
    for size in (0, 1, 2):
        small = weaken(any_of(f, g), size)
        assert all(a for a, b in zip(matched(small, events), either, strict=True) if b)


@given(FILTERS, EVENTS)
def test_bounds_of_contexts_never_rule_out_a_filter_that_matches(f: Filter, events: list[Attributes]) -> None:
    bounds = bounds_of(map(dict, events))
    assert may_match(f, bounds) or not any(matched(f, events))
    for event in events:
        assert bool(failing(f, event)) is not f.holds(event)


def test_a_yes_for_unknown_sets_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the answer for pairs that are not in the table is yes."""
    monkeypatch.setattr(relations, "_disjoint_of_any_class", lambda a, b: True)
    with pytest.raises(AssertionError):
        check(Multiples(2), between(0, 5))
    both = all_of(only("x", Multiples(2)), only("x", between(0, 5)))
    assert both.holds({"x": 2})
    assert not simplify(both).holds({"x": 2})


# ---------------------------------------------------------------- matchers


@draw.many(2)
@given(st.lists(FILTERS, min_size=1, max_size=6), EVENTS)
def test_every_matcher_asks_an_unknown_set_itself(filters: list[Filter], events: list[Attributes]) -> None:
    naive = NaiveMatcher()
    naive.add_many(enumerate(filters))
    for matcher in (IndexMatcher(), CachingMatcher(), BddMatcher(), BddMatcher(plain_manager)):
        matcher.add_many(enumerate(filters))
        for event in events:
            assert set(matcher.match(Event(event))) == set(naive.match(Event(event)))


@draw.many(2)
@given(FILTERS, EVENTS)
def test_a_table_of_attributes_asks_an_unknown_set_itself(filter: Filter, rows: list[Attributes]) -> None:
    table = AttributeTable()
    for number, row in enumerate(rows):
        table.put(str(number), row)
    meant = table.matching(filter)
    assert [str(number) in meant for number in range(len(rows))] == [filter.holds(row) for row in rows]


def test_a_matcher_finds_an_unknown_set_within_formulas_and_lists_of_values() -> None:
    index = IndexMatcher()
    index.add("and", all_of(some("x", Multiples(2)), some("y", starts_with("a"))))
    index.add("or", any_of(*(some("x", Multiples(n)) for n in range(3, 15))))
    index.add("not", some("x", complement(Multiples(2))))
    assert index.match(Event({"x": 4, "y": "ab"})) == ["and", "or"]
    assert set(index.match(Event({"x": (1, 9)}))) == {"not", "or"}
    assert index.match(Event({"y": "ab"})) == []


# ---------------------------------------------------------------- what has to know a class refuses it


@pytest.mark.parametrize("values", [Multiples(2), Long(2), Diamond(5, 5, 5), complement(Multiples(2))])
def test_an_unknown_set_is_not_written_down(values: ValueSet, tmp_path: Path) -> None:
    filter = some("x", values)
    name = type(UNKNOWN[0] if "Multiples" in repr(values) else values).__name__
    with pytest.raises(TypeError, match=f"a {name} has no text"):
        to_text(filter)
    with pytest.raises(TypeError, match=f"a {name} has no JSON form"):
        to_json(filter)
    with pytest.raises(TypeError, match=f"a {name} has no JSON form"):
        NATIVE.encode(Subscribe(("a", "b"), filter))
    index = IndexMatcher()
    index.add("a", filter)
    with pytest.raises(IndexFileError, match=f"a {name} has no JSON form"):
        index.save(tmp_path / "index")


def test_an_unknown_set_has_no_interval_around_it() -> None:
    with pytest.raises(TypeError, match="a Multiples has no interval around it"):
        relations.range_of(Multiples(2))
    assert relations.range_of(between(1, 2)) == between(1, 2)
