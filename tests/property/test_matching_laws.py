"""Every matcher gives what the naive one gives, for single events and batches, whatever is added, removed and replaced.

The matchers under test are a parameter of the machine, so the same machine is also run on matchers with a planted
fault: it must catch each of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from godwit.filters.events import Event, event
from godwit.filters.filters import And, Filter, Only, Or, only, some
from godwit.filters.sets import one_of
from godwit.matching import Matcher
from godwit.matching.bdd_matcher import BddMatcher, plain_manager
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.matcher import SubscriptionId
from godwit.matching.naive_matcher import NaiveMatcher
from tests.property import strategies as draw
from tests.seeds import slow
from tests.unit.matching.numpy_index import NumpyIndexMatcher

NewMatcher = Callable[[], Matcher]

MATCHERS: dict[str, NewMatcher] = {
    "index": IndexMatcher,
    "index without Numba": NumpyIndexMatcher,
    "bdd": BddMatcher,
    "bdd in Python": lambda: BddMatcher(plain_manager),
}

NAMES = ("x", "sender.x", "price")  # a content, a context; columns of arrays are drawn for `price`
IDS = st.one_of(st.integers(0, 12), st.sampled_from(["a", "b"]), st.tuples(st.sampled_from("pq"), st.integers(0, 2)))
TIMES = st.integers(0, 20)
FILTERS = draw.filters(names=NAMES)
VALUES = draw.values()
CELLS: st.SearchStrategy[Any] = st.one_of(
    st.none(), VALUES, VALUES, st.lists(VALUES, max_size=3), st.lists(VALUES, min_size=2, max_size=3).map(tuple)
)


def arrays(length: int) -> st.SearchStrategy[Any]:
    """A column as NumPy has it: bools, ints or floats, some of them next to the bounds that filters have."""
    ints = st.sampled_from([-1, 0, 1, 2, 3, 10, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    unsigned = st.sampled_from([0, 1, 2**53 + 1, 2**63, 2**64 - 1])
    floats = st.sampled_from([-1.0, -0.0, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 5e-324, 2.0**53, 2.0**63, 1e300, -1e300])
    small = st.integers(-3, 10)
    halves = st.sampled_from([0.0, 0.5, 1.0, 1.5])
    return st.one_of(
        _array(st.booleans(), np.bool_, length),
        _array(ints, np.int64, length),
        _array(small, np.int8, length),
        _array(unsigned, np.uint64, length),
        _array(floats, np.float64, length),
        _array(halves, np.float32, length),
    )


def _array(elements: st.SearchStrategy[Any], dtype: type, length: int) -> st.SearchStrategy[Any]:
    return st.lists(elements, min_size=length, max_size=length).map(lambda drawn: np.array(drawn, dtype))


@st.composite
def batches(draw_one: st.DrawFn) -> dict[str, Sequence[Any]]:
    length = draw_one(st.integers(0, 5))
    cells = st.lists(CELLS, min_size=length, max_size=length)
    columns: dict[str, Sequence[Any]] = {name: draw_one(cells) for name in NAMES[:2]}
    columns["price"] = draw_one(arrays(length) | cells)
    return columns


class Agreement(RuleBasedStateMachine):
    """The naive matcher beside the matchers under test, all told the same."""

    under_test: Sequence[NewMatcher] = ()

    def __init__(self) -> None:
        super().__init__()
        self.naive = NaiveMatcher()
        self.others = [new() for new in self.under_test]
        self.now = 0
        self.filters: dict[SubscriptionId, Filter] = {}

    @property
    def all(self) -> list[Matcher]:
        return [self.naive, *self.others]

    def known(self, data: st.DataObject) -> SubscriptionId:
        return data.draw(st.sampled_from(list(self.filters)), label="id")

    @rule(id=IDS, filter=FILTERS, lasts=st.none() | TIMES)
    def add_or_replace(self, id: SubscriptionId, filter: Filter, lasts: int | None) -> None:
        expires = None if lasts is None else self.now + lasts
        for matcher in self.all:
            (matcher.replace if id in matcher else matcher.add)(id, filter, expires)
        self.filters[id] = filter

    @rule(subscriptions=st.dictionaries(IDS, FILTERS, max_size=8))
    def add_many(self, subscriptions: dict[SubscriptionId, Filter]) -> None:
        new = [(id, filter) for id, filter in subscriptions.items() if id not in self.naive]
        for matcher in self.all:
            matcher.add_many(iter(new))
        self.filters.update(new)

    @precondition(lambda self: self.filters)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        id = self.known(data)
        for matcher in self.all:
            matcher.remove(id)
        del self.filters[id]

    @precondition(lambda self: self.filters)
    @rule(data=st.data(), expires=st.none() | TIMES)
    def replace_by_the_filter_of_another(self, data: st.DataObject, expires: int | None) -> None:
        id, other = self.known(data), self.known(data)
        for matcher in self.all:
            matcher.replace(id, self.filters[other], None if expires is None else self.now + expires)
        self.filters[id] = self.filters[other]

    @rule(steps=st.integers(0, 10))
    def expire(self, steps: int) -> None:
        self.now += steps
        gone = self.naive.expire(self.now)
        for matcher in self.others:
            assert matcher.expire(self.now) == gone
        for id in gone:
            del self.filters[id]

    @rule(event=draw.events(NAMES))
    def match(self, event: Event) -> None:
        expected = set(self.naive.match(event))
        for matcher in self.others:
            found = matcher.match(event)
            assert set(found) == expected
            assert len(found) == len(expected)

    @rule(columns=batches())
    def match_batch(self, columns: dict[str, Sequence[Any]]) -> None:
        expected = [set(ids) for ids in self.naive.match_batch(columns)]
        for matcher in self.others:
            found = list(matcher.match_batch(columns))
            assert [set(ids) for ids in found] == expected
            assert [len(ids) for ids in found] == [len(ids) for ids in expected]
            assert matcher.count_batch(columns).tolist() == [len(ids) for ids in expected]

    @rule(event=draw.events(NAMES), steps=st.integers(0, 10))
    def match_later(self, event: Event, steps: int) -> None:
        self.now += steps
        expected = set(self.naive.match(event, now=self.now))
        for matcher in self.others:
            assert set(matcher.match(event, now=self.now)) == expected
        self.filters = {id: filter for id, filter in self.filters.items() if id in self.naive}

    @invariant()
    def they_know_the_same(self) -> None:
        for matcher in self.others:
            assert len(matcher) == len(self.naive) == len(self.filters)
            assert all(id in matcher for id in self.filters)


def run(*under_test: NewMatcher, **options: Any) -> None:
    machine = type("Agreement", (Agreement,), {"under_test": under_test})
    run_state_machine_as_test(machine, settings=settings(**options))


@pytest.mark.parametrize("name", MATCHERS)
def test_a_matcher_gives_what_naive_gives_whatever_happens(name: str) -> None:
    run(MATCHERS[name], stateful_step_count=30)


def differing(found: list[set[SubscriptionId]], expected: list[set[SubscriptionId]]) -> list[int]:
    """The rows with other subscriptions than expected: to show all of both takes seconds when they differ."""
    return [row for row, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other]


def run_many(new_matcher: NewMatcher, max_examples: int, **options: Any) -> None:
    """One event against hundreds of filters, so that what is shared between them matters."""

    @settings(max_examples=max_examples, **options)
    @given(st.lists(FILTERS, min_size=50, max_size=150), st.lists(draw.attributes(NAMES), min_size=1, max_size=100))
    def law(filters: list[Filter], rows: list[dict[str, Any]]) -> None:
        check_many(new_matcher, filters, rows)

    law()


def check_many(new_matcher: NewMatcher, filters: list[Filter], rows: list[dict[str, Any]]) -> None:
    """Hold a matcher against the naive one, event by event and as a batch."""
    naive, matcher = NaiveMatcher(), new_matcher()
    for each in (naive, matcher):
        each.add_many(enumerate(filters))
    columns = {name: [row.get(name) for row in rows] for name in NAMES}
    expected = [set(naive.match(event(row))) for row in rows]
    assert differing([set(matcher.match(event(row))) for row in rows], expected) == []
    assert differing([set(ids) for ids in matcher.match_batch(columns)], expected) == []
    assert matcher.count_batch(columns).tolist() == [len(ids) for ids in expected]


@pytest.mark.parametrize("name", MATCHERS)
def test_many_subscriptions_and_many_events_give_what_naive_gives(name: str) -> None:
    run_many(MATCHERS[name], settings().max_examples // 4)


# ---------------------------------------------------------------- planted faults: each must be caught


class ForgetsRemoval(NaiveMatcher):
    """Says it has removed a subscription, and goes on matching it."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: dict[SubscriptionId, Filter] = {}

    def _delete(self, id: SubscriptionId) -> None:
        self.removed[id] = self._filters.pop(id)

    def _match(self, event: Event) -> list[SubscriptionId]:
        left = [id for id, filter in self.removed.items() if id not in self and filter.holds(event.attributes)]
        return super()._match(event) + left


class TakesOnlyForSome(NaiveMatcher):
    """Is content when some value of several lies in the set of an `Only`."""

    def _insert(self, id: SubscriptionId, filter: Filter) -> None:
        super()._insert(id, _only_as_some(filter))


def _only_as_some(filter: Filter) -> Filter:
    match filter:
        case Only(attribute=attribute, values=values):
            return some(attribute, values)
        case And(parts=parts) | Or(parts=parts):
            return type(filter)(tuple(map(_only_as_some, parts)))
    return filter


class ForgetsExpiry(NaiveMatcher):
    """Forgets when a replaced subscription ends."""

    def replace(self, id: SubscriptionId, filter: Filter, expires: float | None = None) -> None:
        super().replace(id, filter)


class RoundsNumbers(NaiveMatcher):
    """Reads every number as a whole one."""

    def _match(self, event: Event) -> list[SubscriptionId]:
        return super()._match(Event({name: _rounded(value) for name, value in event.attributes.items()}))


def _rounded(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_rounded, value))
    return round(value) if type(value) is float else value


class LosesTheLastOfABatch(NaiveMatcher):
    """Matches all events of a batch but the last."""

    def _match_batch(self, columns: Any, length: int) -> Any:
        matches = super()._match_batch(columns, length)
        if length:
            matches.offsets[-1] = matches.offsets[-2]
        return matches


class SharesTooMuch(NaiveMatcher):
    """Takes a filter it has seen before for all that look alike: it compares their attributes only."""

    def _insert(self, id: SubscriptionId, filter: Filter) -> None:
        alike = {_shape(known): known for known in self._filters.values()}
        super()._insert(id, alike.get(_shape(filter), filter))


def _shape(filter: Filter) -> Any:
    if isinstance(filter, And | Or):
        return type(filter), tuple(map(_shape, filter.parts))
    return type(filter), filter.attribute


QUICK = (Phase.explicit, Phase.generate)  # a fault need not be made small to be caught
SEEN_WITH_MANY = [TakesOnlyForSome, LosesTheLastOfABatch, SharesTooMuch]


@pytest.mark.parametrize("faulty", SEEN_WITH_MANY)
def test_a_planted_fault_is_caught_with_several_subscriptions(faulty: NewMatcher) -> None:
    name = NAMES[0]
    filters: list[Filter] = [only(name, one_of([1])), some(name, one_of([1])), some(name, one_of([2]))]
    rows: list[dict[str, Any]] = [{name: [1, 2]}, {name: 1}]
    check_many(NaiveMatcher, filters, rows)
    with pytest.raises(AssertionError):
        check_many(faulty, filters, rows)


@pytest.mark.parametrize(
    "faulty", [ForgetsRemoval, slow(ForgetsExpiry), slow(RoundsNumbers), *map(slow, SEEN_WITH_MANY)]
)
def test_a_planted_fault_is_caught(faulty: NewMatcher) -> None:
    with pytest.raises(AssertionError):
        run(faulty, max_examples=3_000, stateful_step_count=30, report_multiple_bugs=False, phases=QUICK)
