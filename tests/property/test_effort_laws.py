"""Laws of effort: an answer within a bound is never wrong, only weaker; where the bound is enough it is the unbounded
one; and no answer takes many more steps than it was given."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.reductions import ADDING_EFFORT_MAX, are_covered
from godwit.filters.algebra import covers, intersects, is_never, normal_form
from godwit.filters.alternatives import joined
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes
from godwit.filters.filters import Filter, all_of, any_of
from godwit.filters.like_patterns import Plan, TextRow, matches, planned, segments_of
from godwit.filters.merging import merge_all, merged, simplify, weaken
from godwit.filters.sets import like
from tests.property import strategies as draw

PLENTY = 10_000_000
STEPS = st.integers(min_value=0, max_value=400)
FILTERS = draw.filters(max_leaves=12)
EVENTS = st.lists(draw.attributes(), min_size=6, max_size=6)
ONE_PIECE = 64
"""Steps that one piece of work may take past the bound: filters drawn here have few literals."""


@given(FILTERS, FILTERS, STEPS)
def test_a_bounded_answer_is_the_unbounded_one_or_the_safe_one(f: Filter, g: Filter, steps: int) -> None:
    for ask, safe in ((covers, False), (intersects, True)):
        plenty, few = Effort(PLENTY), Effort(steps)
        unbounded, bounded = ask(f, g, plenty), ask(f, g, few)
        assert bounded in (unbounded, safe)
        if plenty.spent <= steps:
            assert (bounded, few.spent) == (unbounded, plenty.spent)
        assert few.spent <= steps + ONE_PIECE * (1 + f.weight + g.weight)


@given(FILTERS, FILTERS, STEPS, STEPS)
def test_with_more_steps_an_answer_only_becomes_more_exact(f: Filter, g: Filter, a: int, b: int) -> None:
    fewer, more = sorted((a, b))
    assert covers(f, g, Effort(more)) or not covers(f, g, Effort(fewer))
    assert intersects(f, g, Effort(fewer)) or not intersects(f, g, Effort(more))
    assert is_never(f, Effort(more)) or not is_never(f, Effort(fewer))


@given(st.lists(FILTERS, max_size=5), st.lists(FILTERS, max_size=2), st.integers(1, 40), st.integers(0, 99))
def test_what_was_asked_before_changes_no_answer_about_an_advertisement(
    known: list[Filter], asked: list[Filter], times: int, besides: int
) -> None:
    entries = {("pat", str(number)): filter for number, filter in enumerate(known * times)}
    effort, own = Effort(ADDING_EFFORT_MAX), ("pat", str(besides))

    def is_covered(filter: Filter) -> bool:
        looked_at = takewhile(lambda entry: effort.spend(1), entries.items())
        return any(id != own and covers(other, filter, effort) for id, other in looked_at)

    expected = all(map(is_covered, asked))
    assert [are_covered(asked, entries, own) for _ in range(2)] == [expected, expected]


@given(FILTERS, FILTERS, STEPS, EVENTS)
def test_what_is_changed_within_a_bound_matches_what_it_must(
    f: Filter, g: Filter, steps: int, seen: list[Attributes]
) -> None:
    same = [(simplify(f, Effort(steps)), f), (any_of(*joined((f, g), Effort(steps))), any_of(f, g))]
    one = merged(f, g, effort=Effort(steps))
    if one is not None:
        same.append((one.filter, any_of(f, g)))
    wider = [
        (weaken(f, 2, Effort(steps)), f),
        (merge_all((f, g), excess_max=0.5, size_max=3, effort=Effort(steps)), any_of(f, g)),
        (any_of(*(all_of(*each) for each in normal_form(f, effort=Effort(steps)).conjunctions)), f),
    ]
    assert all(filter.size <= bound for (filter, _), bound in zip(wider[:2], (2, 3), strict=True))
    for attributes in seen:
        for changed, before in same:
            assert changed.holds(attributes) is before.holds(attributes)
        for changed, before in wider:
            assert changed.holds(attributes) or not before.holds(attributes)


@given(st.text("ab%_é😀", max_size=9), st.lists(st.text("abé😀", max_size=9), min_size=1, max_size=4))
def test_a_pattern_matches_alike_however_it_is_looked_for(pattern: str, texts: list[str]) -> None:
    segments = segments_of(pattern)
    plan = planned(segments)
    one_by_one = [matches(text, segments, plan) for text in texts]
    assert one_by_one == [matches(text, segments, Plan(-1)) for text in texts]
    assert one_by_one == [like(pattern).contains(text) for text in texts]
    row = TextRow(texts, texts)
    assert row.some(segments) is any(one_by_one)
    assert row.every(segments) is all(one_by_one)
