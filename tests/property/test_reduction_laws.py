"""The laws of reductions: what a neighbour is told covers every entry, after every single change, and little more.

What covers what is not asked of the algebra but of events: whatever an entry matches, something that is told matches.
"""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from godwit.broker import placements
from godwit.broker.messages import EntryId
from godwit.broker.placements import Bundle, BundledGroups, Change, Group, RootGroups
from godwit.broker.reductions import REDUCTIONS, Grouped, Outgoing, covering, merging
from godwit.filters import FALSE, TRUE, Filter, all_of, attributes_of, between, some
from godwit.filters.algebra import covers, intersects
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes
from godwit.filters.filters import present
from godwit.filters.sets import Interval
from tests.property.strategies import filters, number_sets

EVERY = sorted(REDUCTIONS)
INFORMED = [name for name in EVERY if name != "flooding"]  # those that tell anything

# ------------------------------------------------------------ filters that often cover and merge, events on borders

Call = tuple[int, Filter | None]
"""The entry `key` is there with this filter, or, with None, no longer."""


def small_intervals() -> SearchStrategy[Filter]:
    """Intervals on x, on y or on both, between whole numbers from 0 to 6: they touch, overlap and hold one another."""
    ends = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted)
    sides = st.tuples(st.none() | ends, st.none() | ends)
    return sides.map(
        lambda drawn: all_of(
            *(some(name, between(*side)) for name, side in zip("xy", drawn, strict=True) if side is not None)
        )
    )


def all_filters() -> SearchStrategy[Filter]:
    some_of_all = filters(max_leaves=4, names=("x", "y"), sets=number_sets())
    return st.one_of(
        small_intervals(), small_intervals(), small_intervals(), some_of_all, st.sampled_from([TRUE, FALSE])
    )


def calls(of: SearchStrategy[Filter] | None = None) -> SearchStrategy[list[Call]]:
    """Entries come, are replaced and go; some go that never came."""
    filter = all_filters() if of is None else of
    return st.lists(st.tuples(st.integers(0, 7), st.one_of(filter, filter, filter, st.none())), max_size=30)


_VALUES: list[Any] = [None, -1, *(half / 2 for half in range(13)), 10, 2**53 + 1, 1e300, (1, 5), (0, 2**53)]
EVENTS: list[Attributes] = [
    {name: value for name, value in (("x", x), ("y", y)) if value is not None} for x, y in product(_VALUES, _VALUES)
]


@cache
def matched(filter: Filter) -> int:
    """Which of `EVENTS` a filter matches, as bits."""
    return sum(1 << number for number, attributes in enumerate(EVENTS) if filter.holds(attributes))


def matched_by_any(filters: Any) -> int:
    found = 0
    for filter in filters:
        found |= matched(filter)
    return found


# ------------------------------------------------------------ the onlooker


class Onlooker:
    """Makes calls, replays the changes, and after each holds what is told against the entries."""

    def __init__(self, out: Outgoing, id_of: Callable[[int], EntryId] = lambda key: ("client", str(key))) -> None:
        self.out = out
        self.id_of = id_of
        self.entries: dict[int, Filter] = {}
        self.told: dict[EntryId, Filter] = {}

    def call(self, key: int, filter: Filter | None) -> list[Change]:
        if filter is None:
            self.entries.pop(key, None)
            changes = self.out.remove(key)
        else:
            self.entries[key] = filter
            changes = self.out.add(key, self.id_of(key), filter)
        for id, change in changes:
            if change is None:
                del self.told[id]
            else:
                self.told[id] = change
            self.check_cover()
        self.check_cover()
        self.check_in_between()
        return changes

    def check_cover(self) -> None:
        told = matched_by_any(self.told.values())
        for key, filter in self.entries.items():
            assert not matched(filter) & ~told, f"entry {key} ({filter}) is not covered by {list(self.told.values())}"

    def check_in_between(self) -> None:
        assert self.out.told == self.told
        assert set(self.out.keys()) == set(self.entries)
        for told in self.told.values():
            assert any(not matched(filter) & ~matched(told) for filter in self.entries.values()), (
                f"{told} is for nobody"
            )


def made(name: str, **more: Any) -> Onlooker:
    return Onlooker(REDUCTIONS[name]("broker/1", **more))


# ------------------------------------------------------------ the laws


@pytest.mark.parametrize("name", INFORMED)
@given(calls=calls())
def test_after_every_single_change_what_is_told_covers_every_entry(name: str, calls: list[Call]) -> None:
    onlooker = made(name)
    for call in calls:
        onlooker.call(*call)


@given(calls=calls(), excess_max=st.sampled_from([0.1, 0.3, 0.7, 1.0]))
def test_imperfect_merging_covers_every_entry_too(calls: list[Call], excess_max: float) -> None:
    onlooker = made("merging", excess_max=excess_max)
    for call in calls:
        onlooker.call(*call)


@pytest.mark.parametrize("name", INFORMED)
@given(calls=calls())
def test_two_sources_may_use_one_name_for_their_entries(name: str, calls: list[Call]) -> None:
    onlooker = Onlooker(REDUCTIONS[name]("broker/1"), id_of=lambda key: ("client", str(key % 2)))
    for call in calls:
        onlooker.call(*call)


@pytest.mark.parametrize("name", INFORMED)
@given(calls=calls())
def test_when_the_last_entry_has_gone_nothing_is_told(name: str, calls: list[Call]) -> None:
    onlooker = made(name)
    for call in calls:
        onlooker.call(*call)
    for key in list(onlooker.entries):
        onlooker.call(key, None)
    assert onlooker.told == {}


@pytest.mark.parametrize("name", EVERY)
@given(calls=calls())
def test_equal_calls_give_equal_changes(name: str, calls: list[Call]) -> None:
    one, other = REDUCTIONS[name]("b"), REDUCTIONS[name]("b")
    for key, filter in calls:
        id = ("client", str(key))
        if filter is None:
            assert one.remove(key) == other.remove(key)
        else:
            assert one.add(key, id, filter) == other.add(key, id, filter)
            assert one.add(key, id, filter) == []  # again, and nothing is new
    assert list(one.told.items()) == list(other.told.items())


@given(calls=calls())
def test_flooding_tells_nothing(calls: list[Call]) -> None:
    out = REDUCTIONS["flooding"]("b")
    for key, filter in calls:
        assert (out.remove(key) if filter is None else out.add(key, ("client", str(key)), filter)) == []
    assert (out.told, list(out.keys())) == ({}, [])


@given(calls=calls())
def test_simple_tells_every_entry_under_its_own_name(calls: list[Call]) -> None:
    onlooker = made("simple")
    for call in calls:
        onlooker.call(*call)
        assert onlooker.told == {("client", str(key)): filter for key, filter in onlooker.entries.items()}


@given(calls=calls())
def test_identity_tells_one_of_equal_filters(calls: list[Call]) -> None:
    onlooker = made("identity")
    for call in calls:
        onlooker.call(*call)
        assert len(onlooker.told) == len(set(onlooker.told.values()))
        assert set(onlooker.told.values()) == set(onlooker.entries.values())


@given(calls=calls())
def test_covering_tells_no_filter_that_another_told_one_covers(calls: list[Call]) -> None:
    onlooker = made("covering")
    for call in calls:
        onlooker.call(*call)
        told = list(onlooker.told.values())
        assert set(told) <= set(onlooker.entries.values())
        for f, g in product(told, told):
            if f is not g and set(attributes_of(f)) <= set(attributes_of(g)):
                assert not covers(f, g), f"{g} is told, and so is {f}"


@given(calls=calls())
def test_perfect_merging_is_exact(calls: list[Call]) -> None:
    onlooker = made("merging")
    for call in calls:
        onlooker.call(*call)
        assert matched_by_any(onlooker.told.values()) == matched_by_any(onlooker.entries.values())


@given(calls=calls(small_intervals()))
def test_each_reduction_tells_no_more_filters_than_the_one_before(calls: list[Call]) -> None:
    onlookers = [made(name) for name in ("simple", "identity", "covering")]
    for call in calls:
        for onlooker in onlookers:
            onlooker.call(*call)
        simple, identity, covering = (len(onlooker.told) for onlooker in onlookers)
        assert simple >= identity >= covering


@given(
    ends=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 9)), min_size=1, max_size=40),
    excess_max=st.sampled_from([0.1, 0.3, 0.5]),
)
def test_imperfect_merging_lets_in_no_more_than_its_bound_however_often_it_merges(
    ends: list[tuple[int, int]], excess_max: float
) -> None:
    """On one attribute, how much nobody wants is a length that can be counted."""
    out = merging("b", excess_max)
    for key, (low, length) in enumerate(ends):
        out.add(key, ("client", str(key)), some("x", between(low, low + length)))
    assert isinstance(out.placement, BundledGroups)
    for bundle in out.placement.bundles.values():
        told = _spans(bundle.filter)
        wanted = _spans(*bundle.groups)
        assert wanted <= told
        assert len(told - wanted) <= excess_max * len(told) + 1e-9, f"{bundle.filter} for {list(bundle.groups)}"


def _spans(*filters: Any) -> set[int]:
    """The stretches between whole numbers that filters on x hold."""
    found: set[int] = set()
    for filter in filters:
        for part in getattr(filter, "parts", (filter,)):
            assert isinstance(part.values, Interval)
            found.update(range(part.values.low, part.values.high))  # type: ignore[arg-type]
    return found


# ------------------------------------------------------------ planted faults


class ForgetsOrphans(RootGroups):
    """Takes a covering filter back and does not think of what hung under it."""

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        if group.cover is not None:
            return super().take_out(group, effort)
        self.roots.remove(group)
        return [self._told.take_back(group.id)]


class TakesBackFirst(RootGroups):
    """Tells what hung under a filter, after that has gone."""

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        changes = super().take_out(group, effort)
        return changes[-1:] + changes[:-1]


class LeavesBundlesAsTheyAre(BundledGroups):
    """Does not merge anew when a filter leaves a bundle."""

    def take_out(self, group: Group, effort: Effort) -> list[Change]:
        bundle = self.bundle_of.pop(group.filter)
        del bundle.groups[group.filter]
        if bundle.groups:
            return []
        del self.bundles[bundle.id]
        return [self._told.take_back(bundle.id)]


class NeverTakesBack(RootGroups):
    """Leaves what a newer filter covers."""

    def place(self, group: Group, effort: Effort) -> list[Change]:
        changes = super().place(group, effort)
        return [change for change in changes if change[1] is not None]


def _holds_for(out: Callable[[], Outgoing], *, exact: bool = False) -> None:
    """Try the laws on a reduction; raises when they do not hold."""

    @settings(max_examples=300, phases=[Phase.generate], database=None)
    @given(calls=calls(small_intervals()))
    def law(calls: list[Call]) -> None:
        onlooker = Onlooker(out())
        for call in calls:
            onlooker.call(*call)
            assert not exact or matched_by_any(onlooker.told.values()) == matched_by_any(onlooker.entries.values())

    law()


def test_the_laws_hold_for_what_the_planted_faults_are_planted_in() -> None:
    _holds_for(lambda: covering("b"), exact=True)
    _holds_for(lambda: merging("b"), exact=True)


@pytest.mark.parametrize("fault", [ForgetsOrphans, TakesBackFirst, NeverTakesBack])
def test_a_covering_with_a_planted_fault_is_caught(fault: type[RootGroups]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        _holds_for(lambda: Grouped("b", fault))


def test_a_merging_that_does_not_merge_anew_is_caught() -> None:
    with pytest.raises(AssertionError):
        _holds_for(lambda: Grouped("b", LeavesBundlesAsTheyAre), exact=True)


@pytest.mark.parametrize("name", ["covering", "merging"])
def test_a_wrong_covers_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "covers", intersects)
    with pytest.raises(AssertionError):
        _holds_for(lambda: REDUCTIONS[name]("b"))


def test_a_bundle_that_does_not_count_what_it_let_in_before_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Bundle):
        __slots__ = ()
        excess = property(lambda self: 0.0, lambda self, value: None)

    monkeypatch.setattr(placements, "Bundle", Forgetful)
    law = test_imperfect_merging_lets_in_no_more_than_its_bound_however_often_it_merges
    with pytest.raises(AssertionError):
        settings(phases=[Phase.generate], max_examples=5_000)(
            law
        )()  # what is drawn depends on what was imported before


def test_events_tell_filters_apart() -> None:
    """A check of the checker: its events are not all or nothing."""
    assert matched(FALSE) == 0 < matched(present("x")) < matched(TRUE)
