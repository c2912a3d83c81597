"""Bounds of conditions: what is wanted lies between them, under every combination and negation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from godwit.filters import FALSE, TRUE, Event, Filter, any_of, missing
from godwit.languages.bounds import UNKNOWN, Bounds, all_hold, exactly, opposite, some_hold
from tests.property.strategies import events, filters

Condition = tuple[Any, ...]


def conditions() -> st.SearchStrategy[Condition]:
    """Trees of filters and of parts that no filter can tell, each of which holds or not."""
    leaves = st.one_of(st.tuples(st.just("filter"), filters()), st.tuples(st.just("unknown"), st.booleans()))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner),
            st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, max_size=3)),
        ),
        max_leaves=6,
    )


def holds(condition: Condition, event: Event) -> bool:
    match condition:
        case ("filter", filter):
            return bool(filter.matches(event))
        case ("unknown", truth):
            return bool(truth)
        case ("not", inner):
            return not holds(inner, event)
        case ("and", parts):
            return all(holds(part, event) for part in parts)
    return any(holds(part, event) for part in condition[1])


def bounds_of(condition: Condition) -> Bounds:
    match condition:
        case ("filter", filter):
            return exactly(filter)
        case ("unknown", _):
            return UNKNOWN
        case ("not", inner):
            return ~bounds_of(inner)
        case ("and", parts):
            return all_hold(bounds_of(part) for part in parts)
    return some_hold(bounds_of(part) for part in condition[1])


@given(conditions(), events())
def test_what_holds_passes_the_upper_bound_and_what_passes_the_lower_one_holds(said: Condition, event: Event) -> None:
    found, truth = bounds_of(said), holds(said, event)
    assert found.upper.matches(event) or not truth
    assert truth or not found.lower.matches(event)


@given(filters(), events())
def test_the_opposite_of_a_filter_matches_exactly_what_the_filter_does_not(filter: Filter, event: Event) -> None:
    assert opposite(filter).matches(event) != filter.matches(event)


@given(conditions())
def test_what_filters_can_say_is_exact_and_two_negations_are_none(said: Condition) -> None:
    if "unknown" not in repr(said):
        assert bounds_of(said).is_exact
    assert ~~UNKNOWN == UNKNOWN


def test_true_and_false_are_not_carried_along() -> None:
    unknown_or, unknown_and = some_hold([UNKNOWN, exactly(FALSE)]), all_hold([UNKNOWN, exactly(TRUE)])
    assert unknown_or == unknown_and == UNKNOWN


def test_bounds_that_would_be_too_big_are_the_widest() -> None:
    big = exactly(any_of(*(missing(f"a{n}") for n in range(15_000))))
    other = exactly(any_of(*(missing(f"b{n}") for n in range(15_000))))
    assert big | other == UNKNOWN
    assert ~(big | other) == UNKNOWN
