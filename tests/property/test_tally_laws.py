"""Tallies count what the naive matcher finds, on filters that can be tallied, on others, and on both together."""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of, any_of, missing, some
from godwit.filters.sets import at_least, at_most, between, less_than, more_than, one_of
from godwit.matching import event_encoder, index_matcher, match_counter
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.pipeline.subscription_index import SubscriptionIndex
from tests.property import strategies as draw

NAMES = ("a", "b", "c")
NUMBERS = st.integers(0, 5)


def equalities() -> st.SearchStrategy[Filter]:
    return st.builds(lambda name, value: some(name, one_of([value])), st.sampled_from(NAMES), NUMBERS) | st.builds(
        missing, st.sampled_from(NAMES)
    )


def ranges() -> st.SearchStrategy[Filter]:
    bounds = st.one_of(
        *(st.builds(make, NUMBERS) for make in (at_least, at_most, less_than, more_than)),
        st.tuples(NUMBERS, NUMBERS).map(lambda ends: between(min(ends), max(ends))),
    )
    return st.builds(some, st.sampled_from(NAMES), bounds)


def tallied() -> st.SearchStrategy[Filter]:
    """A few equalities and perhaps a range: most of these can be tallied, some contradict themselves."""
    return st.tuples(st.lists(equalities(), max_size=3), st.lists(ranges(), max_size=1)).map(
        lambda parts: all_of(*parts[0], *parts[1])
    )


def others() -> st.SearchStrategy[Filter]:
    return draw.filters(names=NAMES) | st.builds(any_of, tallied(), tallied()) | st.builds(all_of, ranges(), ranges())


VALUES = st.none() | NUMBERS | st.sampled_from([0.5, "x", True])
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)), min_size=1, max_size=30)
SEVERAL = st.lists(
    st.fixed_dictionaries({name: VALUES | st.tuples(NUMBERS, NUMBERS) for name in NAMES}), min_size=1, max_size=30
)
FILTERS = st.lists(st.one_of(tallied(), tallied(), tallied(), others()), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def _for_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_matcher, "TALLIED_FROM", 1)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in NAMES}


def check(matcher: IndexMatcher, wanted: dict[int, Filter], rows: list[dict[str, Any]]) -> None:
    naive = NaiveMatcher()
    naive.add_many(wanted.items())
    expected = [len(naive.match(event({k: v for k, v in row.items() if v is not None}))) for row in rows]
    assert matcher.count_batch(columns_of(rows)).tolist() == expected


def law(filters: list[Filter], rows: list[dict[str, Any]], data: st.DataObject) -> None:
    matcher, wanted = IndexMatcher(), dict(enumerate(filters))
    matcher.add_many(wanted.items())
    check(matcher, wanted, rows)
    for id in data.draw(st.lists(st.sampled_from(sorted(wanted)), unique=True, max_size=3), label="gone"):
        matcher.remove(id)
        del wanted[id]
    check(matcher, wanted, rows)
    more = dict(enumerate(data.draw(st.lists(tallied() | others(), max_size=3), label="new"), 1_000))
    matcher.add_many(more.items())
    check(matcher, wanted | more, rows)


def test_counts_are_what_the_naive_matcher_finds_while_subscriptions_change() -> None:
    settings(max_examples=settings().max_examples // 2)(given(FILTERS, ROWS | SEVERAL, st.data())(law))()


@given(FILTERS, ROWS | SEVERAL, st.data())
def test_an_index_in_a_file_counts_everyone_who_has_a_filter(
    filters: list[Filter], rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Filters weigh as many as have them; those of some are gone before the index is written."""
    wanted = {f"{number}.{copy}": filter for number, filter in enumerate(filters) for copy in range(number % 3 + 1)}
    found = SubscriptionIndex(wanted)
    for id in data.draw(st.lists(st.sampled_from(sorted(wanted)), unique=True, max_size=6), label="gone"):
        found.remove(id)
        del wanted[id]
    naive = NaiveMatcher()
    naive.add_many(wanted.items())
    expected = [len(naive.match(event({k: v for k, v in row.items() if v is not None}))) for row in rows]
    with TemporaryDirectory() as folder:
        opened = found.save(folder).open()
        for _ in range(2):
            assert opened.counts(columns_of(rows), len(rows)).tolist() == expected
        assert len(opened.ids) == len(wanted)


@pytest.mark.parametrize("planted", ["ended", "shape"])
def test_a_wrong_tally_is_caught(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = match_counter.MatchCounter.__init__

    def wrong(self: Any, *parts: Any) -> None:
        made(self, *parts)
        if self.worth and planted == "ended":
            self.ended_weights = self.ended_weights + np.arange(len(self.ended_weights))
        elif self.worth:
            self.shapes = self.shapes[:1]

    monkeypatch.setattr(match_counter.MatchCounter, "__init__", wrong)
    with pytest.raises(AssertionError):
        settings(max_examples=200, phases=[Phase.generate])(given(FILTERS, ROWS | SEVERAL, st.data())(law))()


def test_most_of_a_real_mixture_is_tallied_and_the_rest_is_counted() -> None:
    matcher = IndexMatcher()
    wanted: dict[int, Filter] = {k: all_of(some("a", one_of([k % 7])), some("b", more_than(k))) for k in range(300)}
    wanted |= {1_000 + k: all_of(some("b", more_than(k)), some("c", more_than(k))) for k in range(20)}
    matcher.add_many(wanted.items())
    rows = [{"a": k % 9, "b": k, "c": k // 2} for k in range(200)]
    check(matcher, wanted, rows)
    assert matcher._tallies is not None
    assert matcher._tallies.worth
    assert len(matcher._tallies.subscriptions) == 300
    assert matcher._rest is not None
    assert len(matcher._rest) == 20


def test_the_rest_is_not_asked_to_look_at_columns_that_only_tallies_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """To check all values of a column once more takes longer than all else."""
    matcher = IndexMatcher()
    wanted: dict[int, Filter] = {k: some("a", one_of([k])) for k in range(30)}
    wanted |= {1_000 + k: all_of(some("b", more_than(k)), some("c", more_than(k))) for k in range(20)}
    matcher.add_many(wanted.items())
    rows = [{"a": k % 9, "b": k, "c": k // 2} for k in range(50)]
    monkeypatch.setattr(event_encoder, "check_column", lambda *_: pytest.fail("a column was looked at twice"))
    check(matcher, wanted, rows)
    assert matcher._rest is not None
