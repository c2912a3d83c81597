"""Reasons change no answer, and what they show is so."""

from hypothesis import given, settings

from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.reasons import failing, why_covers, why_intersects
from tests.property.strategies import attributes, filters

CASES = settings(deadline=None)


@CASES
@given(filters(max_leaves=5), filters(max_leaves=5))
def test_covering_is_told_as_the_algebra_has_it_and_examples_are_true(f: Filter, g: Filter) -> None:
    found = why_covers(f, g)
    assert found.answer == f.covers(g)
    if found.example is not None:
        assert not found.answer
        assert g.holds(found.example)
        assert not f.holds(found.example)


@CASES
@given(filters(max_leaves=5), filters(max_leaves=5))
def test_meeting_is_told_as_the_algebra_has_it_and_examples_are_true(f: Filter, g: Filter) -> None:
    found = why_intersects(f, g)
    assert found.answer == f.intersects(g)
    if found.example is not None:
        assert found.answer
        assert f.holds(found.example)
        assert g.holds(found.example)


@CASES
@given(filters(max_leaves=5), attributes())
def test_what_keeps_a_filter_from_matching_is_a_part_that_does_not_match(f: Filter, held: Attributes) -> None:
    parts = failing(f, held)
    assert bool(parts) == (not f.holds(held))
    assert not any(part.holds(held) for part in parts)
