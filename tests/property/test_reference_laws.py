"""`my.x` with several values means any of them, whatever stands around it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadValue
from godwit.filters.algebra import covers, intersects
from godwit.filters.events import Attributes, Event, values_of
from godwit.filters.filters import Filter, Some, any_of, negation
from godwit.filters.language import parse, to_text
from godwit.filters.open_tests import OpenTests, count_sets, shapes_of
from godwit.filters.references import OpenSet, bind, is_open, references_of, sets_made
from godwit.filters.sets import NOTHING, ValueSet, places
from godwit.filters.values import Kind, Point
from tests.property import strategies as draw

COMPARISONS = (
    "x = my.a",
    "x < my.a",
    "x >= my.a",
    "my.a < x <= my.b",
    "my.a <= x <= 2",
    "x IN (1, my.a, my.b)",
    "x LIKE my.a",
    "x WITHIN my.a",
    "x WITHIN my.a(1)",
    "x WITHIN circle(my.a, my.b)",
    "x WITHIN circle(5, 5, my.b)",
)
ONE_SET = tuple(text for text in COMPARISONS if "LIKE" not in text and "circle" not in text)
"""Those that are one set for any values of one kind."""
UNKNOWN = Some("x", NOTHING)
FORMS = ("{}", "NOT {}", "ALL {}", "NOT ALL {}", "{} AND y = 1", "{} OR y = 1", "NOT ({} AND y = 1)")

OF_ALL_KINDS = draw.attributes(("a", "b"))
NUMBERS = draw.attributes(("a", "b"), draw.values(Kind.NUMBER))
PLACES = draw.attributes(("a", "b"), draw.values(Kind.TEXT))
GEOGRAPHY = st.fixed_dictionaries(
    {"a": st.lists(draw.values(Kind.POINT), min_size=1, max_size=3).map(tuple), "b": st.just((100_000, 0, "far"))}
)
MINE = st.one_of(OF_ALL_KINDS, NUMBERS, PLACES, GEOGRAPHY)


def vicinity(place: Any, steps: int) -> ValueSet:
    """A place and the one that is called after it."""
    if not isinstance(place, str):
        raise BadValue(f"{place!r} is not a place")
    return places([place, place + "b"][: steps + 1])


def bound(filter: Filter, context: Attributes) -> Filter:
    found = bind(filter, context, vicinity)
    assert not is_open(found)
    return found


def choices(filter: Filter, context: Attributes) -> list[Attributes]:
    """The contexts with one value each of what the filter refers to."""
    found: list[Attributes] = [{}]
    for reference in references_of(filter):
        held = values_of(context[reference.name]) if reference.name in context else ()
        found = [{**one, reference.name: value} for one in found for value in held]
    return found


@draw.many(3)
@given(st.sampled_from(COMPARISONS), MINE, draw.events(("x",)))
def test_a_reference_with_several_values_matches_with_any_of_them(text: str, mine: Attributes, event: Event) -> None:
    filter = parse(text)
    any_one = any_of(*(bound(filter, one) for one in choices(filter, mine)))
    assert bound(filter, mine).matches(event) == any_one.matches(event)


@draw.many(3)
@given(st.sampled_from(COMPARISONS), st.sampled_from(("{}", "ALL {}")), MINE, draw.events(("x",)))
def test_a_bound_not_is_the_not_of_what_is_bound_unless_nothing_fits(
    text: str, form: str, mine: Attributes, event: Event
) -> None:
    filter = parse(form.format(text))
    yes, no = bound(filter, mine), bound(negation(filter), mine)
    if yes == no == UNKNOWN:
        assert all(bound(negation(filter), one) == UNKNOWN for one in choices(filter, mine))
        return
    assert no.matches(event) == negation(yes).matches(event)


@draw.many(2)
@given(st.sampled_from(ONE_SET), NUMBERS | PLACES, draw.events(("x",)))
def test_all_values_may_lie_in_the_sets_of_different_values(text: str, mine: Attributes, event: Event) -> None:
    filter, one_by_one = bound(parse(f"ALL {text}"), mine), bound(parse(text), mine)
    if "x" in event.attributes:
        each = [one_by_one.matches(Event({"x": value})) for value in values_of(event.attributes["x"])]
        assert filter.matches(event) == all(each)


OPEN = st.builds(str.format, st.sampled_from(FORMS), st.sampled_from(COMPARISONS)).map(parse)


@draw.many(6)
@given(OPEN, OPEN, MINE, st.lists(draw.events(("x", "y")) | draw.events(("x",), draw.values(Kind.NUMBER, Kind.TEXT))))
def test_an_open_filter_answers_in_a_context_as_the_bound_one_and_makes_no_more_sets_than_counted(
    f: Filter, g: Filter, mine: Attributes, events: list[Event]
) -> None:
    made: list[ValueSet] = []

    def make(waiting: OpenSet, context: Attributes) -> list[ValueSet]:
        found = sets_made(waiting, context, vicinity)
        made.extend(found)
        return found

    tests = OpenTests(make, mine)
    for event in events:
        for filter in (f, g, f & g, f | g):
            assert tests.holds(filter, event.attributes) == bound(filter, mine).matches(event)
    assert len(made) <= 2 * count_sets((shapes_of(f) + shapes_of(g)).items(), mine)  # one for a complement, too


@draw.many(4)
@given(OPEN, OPEN, MINE, draw.events(("x", "y"), draw.values(Kind.NUMBER, Kind.TEXT)))
def test_what_is_said_of_open_filters_holds_for_contexts_with_several_values(
    f: Filter, g: Filter, mine: Attributes, event: Event
) -> None:
    matched_f, matched_g = bound(f, mine).matches(event), bound(g, mine).matches(event)
    if matched_g and not matched_f:
        assert not covers(f, g)
    if matched_f and matched_g:
        assert intersects(f, g)


def test_open_filters_that_exclude_each_other_do_so_for_each_of_several_values() -> None:
    f, g = parse("role = my.roles"), parse("NOT role = my.roles")
    assert not intersects(f, g)
    mine: Attributes = {"roles": ("medic", "pilot")}
    for role in ("medic", "pilot", "press", ("medic", "press")):
        assert bound(f, mine).matches(Event({"role": role})) is not bound(g, mine).matches(Event({"role": role}))


@pytest.mark.parametrize(
    ("text", "bound_text"),
    [
        ("role = my.roles", "role IN ('medic', 'pilot')"),
        ("role <> my.roles", "ANY role NOT IN ('medic', 'pilot')"),
        ("NOT role = my.roles", "role NOT IN ('medic', 'pilot')"),
        ("price < my.limits", "price < 9"),
        ("NOT price < my.limits", "NOT price < 9"),
        ("price > my.limits", "price > 3"),
        ("my.limits <= price <= my.limits", "price BETWEEN 3 AND 9"),
        ("role LIKE my.patterns", "role LIKE 'a%' OR role LIKE '%b'"),
        ("role NOT LIKE my.patterns", "role NOT LIKE 'a%' AND role NOT LIKE '%b'"),
        ("ALL role LIKE my.patterns", "ALL role LIKE 'a%' OR ALL role LIKE '%b'"),
        ("NOT ALL role LIKE my.patterns", "ANY role NOT LIKE 'a%' AND ANY role NOT LIKE '%b'"),
        ("ALL role = my.roles", "ALL role IN ('medic', 'pilot')"),
        ("x < my.kinds", "x < 5 OR x < 'm'"),
        ("p WITHIN circle(my.homes, my.limits)", "p WITHIN circle(8, 47, 9) OR p WITHIN circle(9, 47, 9)"),
        ("p WITHIN circle(my.mixed, 5)", "p WITHIN circle(8, 47, 5)"),
        ("x < my.mixed", "x < 'here'"),
        ("x = my.nothing", "x IN ()"),
    ],
)
def test_several_values_by_example(text: str, bound_text: str) -> None:
    mine: Attributes = {
        "roles": ("pilot", "medic"),
        "limits": (3, 9),
        "patterns": ("a%", "%b"),
        "homes": (Point(8, 47), Point(9, 47)),
        "mixed": ("here", Point(8, 47)),
        "kinds": (5, "m", 3, True),
    }
    assert to_text(bind(parse(text), mine)) == bound_text
