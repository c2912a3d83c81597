"""Contexts: what a filter asks of the sender and what of the event, and bounds around many contexts.

Events have attributes `x` and `y` of their own and `sender.x`, `sender.z` of their sender's.
"""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from godwit.filters.algebra import covers
from godwit.filters.contexts import (
    LISTED_MAX,
    SENDER,
    Bound,
    Described,
    bounds_of,
    content_part,
    context_of,
    growth,
    key_of,
    may_match,
    of_sender,
    sender_part,
    stamped,
    without_sender,
)
from godwit.filters.events import Attributes, Event, values_of
from godwit.filters.filters import TRUE, Filter, all_of, any_of, attributes_of, only, some
from godwit.filters.references import Reference, bind, is_open, references_of
from godwit.filters.references import one_of as open_one_of
from godwit.filters.relations import is_subset
from godwit.filters.sets import OneOf, Places, one_of
from godwit.filters.values import Kind, Value
from tests.property import strategies as draw

OF_BOTH = ("x", "y", "sender.x", "sender.z")
OF_SENDER = ("x", "z")

FILTERS = draw.filters(names=OF_BOTH)
CONTEXT_FILTERS = draw.filters(names=OF_SENDER)
EVENTS = draw.events(OF_BOTH)
CONTEXTS = draw.attributes(OF_SENDER)
ALIKE = draw.attributes(OF_SENDER, draw.values(Kind.NUMBER))
POINTS = draw.attributes(OF_SENDER, draw.values(Kind.POINT))
SEVERAL = st.one_of([st.lists(of, min_size=1, max_size=8) for of in (CONTEXTS, ALIKE, POINTS)])
MANY = st.one_of([st.lists(of, min_size=1, max_size=3 * LISTED_MAX) for of in (CONTEXTS, ALIKE, POINTS)])


# ---------------------------------------------------------------- filters taken apart


@draw.many(3)
@given(FILTERS, EVENTS)
def test_the_sender_of_what_matches_meets_the_sender_part(filter: Filter, event: Event) -> None:
    if filter.matches(event):
        assert sender_part(filter).holds(context_of(event))


@draw.many(3)
@given(FILTERS, EVENTS)
def test_content_part_and_sender_part_together_are_the_filter(filter: Filter, event: Event) -> None:
    whole = all_of(content_part(filter), of_sender(sender_part(filter)))
    assert whole.matches(event) == filter.matches(event)


@draw.many(3)
@given(FILTERS, EVENTS)
def test_without_its_sender_a_filter_matches_no_less_and_asks_nothing_of_one(filter: Filter, event: Event) -> None:
    weaker = without_sender(filter)
    assert not any(name.startswith(SENDER) for name in attributes_of(weaker))
    if filter.matches(event):
        assert weaker.matches(event)
        assert weaker.matches(stamped(event, {}))


@given(FILTERS)
def test_the_sender_part_asks_of_the_context_alone(filter: Filter) -> None:
    assert {f"{SENDER}{name}" for name in attributes_of(sender_part(filter))} <= set(attributes_of(filter))


@given(draw.filters(names=("x", "y")))
def test_who_asks_nothing_of_the_sender_has_no_sender_part(filter: Filter) -> None:
    assume(filter.size)
    assert covers(sender_part(filter), TRUE) or sender_part(filter).size == 0
    assert content_part(filter) == filter
    assert without_sender(filter) == filter


@given(CONTEXT_FILTERS, CONTEXTS)
def test_a_filter_on_a_context_comes_back_from_the_sender(filter: Filter, context: Attributes) -> None:
    asked = of_sender(filter)
    assert asked.matches(stamped(Event({"x": 1}), context)) == filter.holds(context)
    assert sender_part(asked).holds(context) == filter.holds(context)
    if filter.size:
        assert content_part(asked) == TRUE


@given(draw.literals(OF_SENDER) | draw.conjunctions(OF_SENDER))
def test_of_sender_and_sender_part_are_inverse_to_the_letter(filter: Filter) -> None:
    assert sender_part(of_sender(filter)) == filter


@given(EVENTS, CONTEXTS)
def test_a_stamp_says_the_context_and_nothing_else(event: Event, context: Attributes) -> None:
    sent = stamped(event, context)
    assert context_of(sent) == context
    assert {name: value for name, value in sent.attributes.items() if not name.startswith(SENDER)} == {
        name: value for name, value in event.attributes.items() if not name.startswith(SENDER)
    }
    assert stamped(sent, context_of(sent)) == sent


@given(FILTERS, CONTEXTS, EVENTS)
def test_open_filters_pass_through_with_their_references(filter: Filter, context: dict[str, Any], event: Event) -> None:
    mine: dict[str, Value] = {"a": 1}
    reference = some("sender.x", open_one_of([Reference("a"), 2]))
    for wish in (all_of(filter, reference), any_of(filter, reference)):
        for part in (sender_part(wish), content_part(wish), without_sender(wish)):
            assert set(references_of(part)) <= {Reference("a")}
        whole = all_of(content_part(wish), of_sender(sender_part(wish)))
        assert bind(whole, mine).matches(event) == bind(wish, mine).matches(event)
        asked = sender_part(wish)
        if bind(asked, mine).holds(context):
            assert may_match(asked, context)
            assert may_match(asked, bounds_of([context]))
    assert is_open(sender_part(reference))


# ---------------------------------------------------------------- keys


@draw.many(2)
@given(CONTEXTS, CONTEXTS)
def test_contexts_of_one_key_are_those_that_no_filter_tells_apart(one: Attributes, other: Attributes) -> None:
    same = _meaning(one) == _meaning(other)
    assert (key_of(one) == key_of(other)) is same
    if same:
        assert hash(key_of(one)) == hash(key_of(other))
    for there, elsewhere in ((one, other), (other, one)):
        for name in there:
            if name not in elsewhere:
                continue
            exactly = all_of(
                *(some(name, one_of([value])) for value in values_of(there[name])),
                only(name, one_of(values_of(there[name]))),
            )
            assert exactly.holds(there)
            assert not same or exactly.holds(elsewhere)
            if set(one) == set(other) == {name}:
                assert exactly.holds(elsewhere) is same


def _meaning(context: Attributes) -> dict[str, frozenset[Any]]:
    """What a filter can find out: for each attribute which values there are."""
    return {
        name: frozenset((type(value) is bool, value) for value in values_of(values)) for name, values in context.items()
    }


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, {"x": True}, False),
        ({"x": (0, 1)}, {"x": (False, True)}, False),
        ({"x": ("a", "b")}, {"x": ("b", "a")}, True),
        ({"x": ("a", "a")}, {"x": "a"}, True),
        ({"x": ("a", "b", "a")}, {"x": ("a", "b")}, True),
        ({"x": -0.0}, {"x": 0}, True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": 2**53 + 1}, {"x": float(2**53)}, False),
        ({}, {"x": 1}, False),
    ],
)
def test_keys_by_example(one: Attributes, other: Attributes, same: bool) -> None:
    assert (key_of(one) == key_of(other)) is same


# ---------------------------------------------------------------- bounds


@draw.many(3)
@given(CONTEXT_FILTERS, SEVERAL)
def test_bounds_may_match_whatever_matches_one_of_their_contexts(filter: Filter, several: list[dict[str, Any]]) -> None:
    around = bounds_of(several)
    if any(filter.holds(context) for context in several):
        assert may_match(filter, around)
    assert [may_match(filter, context) for context in several] == [filter.holds(context) for context in several]


@draw.many(2)
@given(MANY)
def test_bounds_hold_every_value_of_every_context_and_list_few(several: list[dict[str, Any]]) -> None:
    around = {bound.attribute: bound for bound in bounds_of(several)}
    for context in several:
        assert context.keys() <= around.keys()
        for name, bound in around.items():
            assert name in context or bound.optional
            for value in values_of(context[name]) if name in context else ():
                assert bound.values.contains(value)
    for bound in around.values():
        assert bound.optional == any(bound.attribute not in context for context in several)
        if isinstance(bound.values, OneOf | Places):
            assert len(bound.values.members) <= LISTED_MAX


@draw.many(3)
@given(CONTEXT_FILTERS, MANY, st.data())
def test_bounds_of_bounds_and_of_more_contexts_match_no_less(
    filter: Filter, several: list[dict[str, Any]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(several)))
    parts: list[Described] = [bounds_of(several[:cut]), *several[cut:]]
    nested = bounds_of(parts) if cut else bounds_of(several)
    matched = any(filter.holds(context) for context in several)
    if cut and may_match(filter, bounds_of(several[:cut])):
        assert may_match(filter, nested)
        assert may_match(filter, bounds_of(several))
    if matched:
        assert may_match(filter, nested)
    for fewer in bounds_of(several[:cut]) if cut else ():
        more = next(bound for bound in nested if bound.attribute == fewer.attribute)
        assert is_subset(fewer.values, more.values)
        assert more.optional or not fewer.optional


@given(MANY, st.randoms(use_true_random=False))
def test_bounds_do_not_depend_on_the_order(several: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(several)
    random.shuffle(shuffled)
    assert bounds_of(shuffled) == bounds_of(several)


@given(SEVERAL, SEVERAL)
def test_growth_is_symmetric_and_none_for_the_same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    described: list[tuple[Described, Described]] = [
        (one[0], other[0]),
        (bounds_of(one), other[0]),
        (bounds_of(one), bounds_of(other)),
    ]
    for a, b in described:
        assert growth(a, b) == growth(b, a) >= 0
        assert growth(a, a) == growth(b, b) == 0
        if key_of(one[0]) != key_of(other[0]) and (a, b) == described[0]:
            assert growth(a, b) > 0


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ([{"x": 5}, {"x": 6}], [{"x": 5}, {"x": 60}]),
        ([{"role": "medic"}, {"role": "medic"}], [{"role": "medic"}, {"role": "pilot"}]),
        ([{"id": "van/12"}, {"id": "van/13"}], [{"id": "van/12"}, {"id": "bus/13"}]),
        ([{"x": 5}, {"x": 6}], [{"x": 5}, {"x": "a"}]),
        ([{"x": 5}, {"x": 60}], [{"x": 5}, {"x": 60, "y": 1}]),
        (
            [{"role": "medic", "x": 5}, {"role": "medic", "x": 50}],
            [{"role": "medic", "x": 5}, {"role": "pilot", "x": 50}],
        ),
    ],
)
def test_growth_orders_by_what_contexts_have_in_common(less: list[Described], more: list[Described]) -> None:
    assert growth(less[0], less[1]) < growth(more[0], more[1])


def test_points_become_a_box_also_over_the_antimeridian() -> None:
    from godwit.filters.regions import box
    from godwit.filters.values import Point

    city = [{"p": Point(8.5 + step / 100, 47.4)} for step in range(LISTED_MAX + 1)]
    assert bounds_of(city) == (Bound("p", box(8.5, 47.4, 8.5 + LISTED_MAX / 100, 47.4), optional=False),)
    pacific = [{"p": Point(lon, 0)} for lon in (*range(170, 180), *range(-179, -169))]
    (around,) = bounds_of(pacific)
    assert around.values == box(170, 0, -170, 0)
    (more,) = bounds_of([(around,), {"p": Point(169, 1)}])
    assert more.values == box(169, 0, -170, 1)


def test_a_bound_lists_few_numbers_and_then_says_from_where_to_where() -> None:
    (few,) = bounds_of([{"x": number} for number in range(LISTED_MAX)])
    assert few.values == one_of(range(LISTED_MAX))
    (many,) = bounds_of([{"x": number} for number in range(LISTED_MAX + 1)])
    assert many.values.contains(0.5)
    assert not many.values.contains(LISTED_MAX + 1)
    (texts,) = bounds_of([{"x": f"van/{number}"} for number in range(1_000)])
    assert texts.values.contains("van/7 and more")
    assert not texts.values.contains("bus/7")
