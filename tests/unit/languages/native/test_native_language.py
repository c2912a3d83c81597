"""The native language: what is routed, what is tested, and where an exact part has no place."""

from collections.abc import Callable
from typing import Any

import pytest

from godwit.client.own_context import asked, written
from godwit.errors import FilterError, QueryTooCostly, Unbound
from godwit.filters import FALSE, Point, Reference, bind, event, is_never, one_of, parse, some, to_text
from godwit.filters.language import as_filter, read
from godwit.filters.language.parsing import parse_if_filter
from godwit.languages import Operator, Query, Subject, parse_query
from godwit.languages.native.exact_test import ExactTest
from godwit.runtime.grants import Grants
from tests.unit.filters.language.test_parsing import ERRORS, SETS


@pytest.mark.parametrize(
    ("text", "routable", "is_exact"),
    [
        ("speed > limit + 10", "speed IS NOT NULL AND limit IS NOT NULL", False),
        ("NOT speed > limit + 10", "speed IS NOT NULL AND limit IS NOT NULL", False),
        ("speed * 2 > limit", "speed IS NUMBER AND limit IS NUMBER", False),
        ("a < b", "a IS NOT NULL AND b IS NOT NULL", False),
        ("lower(name) = 'al'", "name IN ('AL', 'Al', 'aL', 'al')", True),
        ("NOT lower(name) = 'al'", "name NOT IN ('AL', 'Al', 'aL', 'al')", True),
        ("lower(name) IN ('a', '5')", "name IN ('A', 'a', '5')", True),
        ("lower(name) = 'alexandria'", "name IS TEXT", False),
        ("NOT lower(name) = 'alexandria'", "name IS NOT NULL", False),
        ("upper(name) = 'SS'", "name IN ('SS', 'Ss', 'sS', 'ss', 'ß', 'ſS', 'Sſ', 'ſs', 'sſ', 'ſſ')", True),
        ("trim(name) = 'ann'", "name LIKE '%ann%'", False),
        ("length(name) > 3", "name LIKE '____%'", True),
        ("length(name) >= 3.5", "name LIKE '____%'", True),
        ("length(name) = 2", "name LIKE '__'", True),
        ("length(name) < 3", "name IS TEXT", False),
        ("ALL length(name) > 3", "ALL name LIKE '____%'", True),
        ("ALL a < b", "a IS NOT NULL AND b IS NOT NULL", False),
        ("abs(x) < 5", "-5 < x < 5", True),
        ("abs(x) >= 5", "x <= -5 OR x >= 5", True),
        ("NOT abs(x) >= 5", "NOT x <= -5 AND NOT x >= 5", True),
        ("abs(x) > -1", "x IS NUMBER", True),
        ("distance(p, point(8.5, 47)) <= 500", "p WITHIN circle(8.5, 47, 500)", True),
        ("500 >= distance(myloc, p)", "p WITHIN circle(myloc, 500)", True),
        ("NOT distance(p, myloc) <= 500", "p NOT WITHIN circle(myloc, 500)", True),
        ("distance(p, myloc) < my.radius", "p IS POINT AND p WITHIN circle(myloc, my.radius)", False),
        ("distance(p, q) < 500", "p IS POINT AND q IS POINT", False),
        ("name MATCHES '^A.*n$'", "name LIKE 'A%'", False),
        ("NOT name MATCHES '^A.*n$'", "name IS NOT NULL", False),
        ("name MATCHES '^ann$'", "name = 'ann'", True),
        ("name MATCHES '^alert/'", "name LIKE 'alert/%'", True),
        ("name MATCHES 'fire'", "name LIKE '%fire%'", True),
        ("name MATCHES 'a|b'", "name IS TEXT", False),
        ("count(tags) > 2", "tags IS NOT NULL", False),
        ("sounds_like(name, 'ann')", "name IS NOT NULL", False),
        ("NOT sounds_like(name, 'ann')", "name IS NOT NULL", False),
        ("x = 5 AND a < b", "x = 5 AND a IS NOT NULL AND b IS NOT NULL", False),
        ("x = 5 OR a < b", "x = 5 OR a IS NOT NULL AND b IS NOT NULL", False),
        ("arrival - departure < 600", "arrival IS NOT NULL AND departure IS NOT NULL", False),
    ],
)
def test_brokers_route_by_what_filters_can_tell(text: str, routable: str, is_exact: bool) -> None:
    query = parse_query(text, operators={"sounds_like": Operator("sounds_like", lambda one, other: one == other)})
    assert query.routable == parse(routable), to_text(query.routable)
    assert (query.test is None) is is_exact


@pytest.mark.parametrize(("text", "low", "high"), [("speed * 3.6 > 100", 27.7, 27.8), ("10 - 2 * x < 4 + 0", 2.9, 3.1)])
def test_arithmetic_on_one_attribute_is_routed_by_a_range(text: str, low: float, high: float) -> None:
    routable = parse_query(text).routable
    [name] = {"speed", "x"} & set(text.replace("*", " ").split())
    assert not routable.matches(event({name: low}))
    assert routable.matches(event({name: high}))
    assert not routable.matches(event({name: "fast"}))


@pytest.mark.parametrize(
    "text",
    [
        "lower(x) = 'Ann'",
        "upper(x) IN ('a', 'b')",
        "trim(x) = ' a'",
        "length(x) < 0",
        "length(x) = 1.5",
        "abs(x) <= -1",
        "distance(p, myloc) < 0",
        "distance(p, q) = -5",
        "count(x) < 1",
        "a < a",
        "a + 1 <> a + 1",
        "a < b AND FALSE",
        "a < b AND x < 5 AND x IN ()",
        "length(lower(x)) < abs(x)",
    ],
)
def test_a_query_that_nothing_can_match_says_so(text: str) -> None:
    query = parse_query(text)
    assert (query.routable, query.test) == (FALSE, None)
    assert parse_query(query.text) == query


@pytest.mark.parametrize("text", [text for text, _ in SETS])
def test_a_text_that_is_a_filter_gives_that_filter_and_no_test(text: str) -> None:
    for each in (text, f"NOT {text}", f"ALL {text} AND y = 1"):
        assert parse_if_filter(each) == parse(each)
        assert parse_query(each) == Query("filter", to_text(parse(each)), parse(each))


@pytest.mark.parametrize("text", [text for text, _ in SETS])
def test_a_literal_beside_an_exact_part_is_that_of_a_filter(text: str) -> None:
    for each in (text, f"NOT {text}", f"ALL {text}"):
        routable = parse(f"{each} AND a IS NOT NULL AND b IS NOT NULL")
        assert parse_query(f"{each} AND a < b").routable == (FALSE if is_never(routable) else routable)


@pytest.mark.parametrize(("text", "message"), [(text, message) for text, _, message, _ in ERRORS])
def test_what_is_wrong_in_a_filter_is_wrong_or_has_an_exact_part(text: str, message: str) -> None:
    assert parse_if_filter(text) is None
    found = read_or_told(text)
    if isinstance(found, str):
        assert found.startswith(("line ", "a text of more than"))
    else:
        assert found.test is not None or "in subscriptions only" in message


def read_or_told(text: str) -> Query | str:
    """The query, or what the error says."""
    try:
        return parse_query(text)
    except FilterError as error:
        return str(error)


# ---------------------------------------------------------------- the test


@pytest.mark.parametrize(
    ("text", "held", "is_wanted"),
    [
        ("speed > limit + 10", {"speed": 70, "limit": 50}, True),
        ("speed > limit + 10", {"speed": 60, "limit": 50}, False),
        ("speed > limit + 10", {"speed": 60}, False),
        ("NOT speed > limit + 10", {"speed": 60, "limit": 50}, True),
        ("NOT speed > limit + 10", {"speed": 60}, False),
        ("NOT speed > limit + 10", {"speed": 60, "limit": "none"}, True),
        ("speed > limit + 10", {"speed": [10, 70], "limit": [200, 50]}, True),
        ("x / y > 1", {"x": 5, "y": 0}, False),
        ("NOT x / y > 1", {"x": 5, "y": 0}, True),
        ("x / y > 1", {"x": 5, "y": [0, 2]}, True),
        ("x <> y", {"x": 1, "y": "1"}, True),
        ("x = y", {"x": True, "y": 1}, False),
        ("x * x < 0 - 1", {"x": [-2, 2]}, False),
        ("x - x = 0", {"x": ["a", 2]}, True),
        ("x < y OR z = 1", {"z": 1}, True),
        ("NOT (x < y OR z = 1)", {"z": 2}, False),
        ("ALL lower(tags) = 'new'", {"tags": ["New", "NEW"]}, True),
        ("ALL lower(tags) = 'new'", {"tags": ["New", "old"]}, False),
        ("ANY NOT length(tags) < 3", {"tags": ["a", 5]}, True),
        ("count(tags) = 2", {"tags": ["a", "b"]}, True),
        ("count(tags) = 1", {"tags": "a"}, True),
        (
            "eta > plan + 60",
            {"eta": {"$time": "2026-01-01T00:02:00Z"}, "plan": {"$time": "2026-01-01T00:00:30Z"}},
            True,
        ),
        ("round(x) = 3", {"x": 2.5}, True),
        ("round(x) = -3", {"x": -2.5}, True),
        ("round(x, 1) = 0.3", {"x": 0.25}, True),
        ("round(x, y) = 0.3", {"x": 0.25, "y": 99}, False),
        ("x % 4 = -3", {"x": -7}, True),
        ("x + y = 18446744073709551616.0", {"x": 2**64 - 1, "y": 1}, True),
        ("x + y > 9007199254740993", {"x": 2**53, "y": 2}, True),
        ("name MATCHES '^b$'", {"name": "a\nb"}, False),
        ("name MATCHES 'a.b'", {"name": "axb"}, True),
    ],
)
def test_an_event_is_tested(text: str, held: dict[str, Any], is_wanted: bool) -> None:
    assert parse_query(text).matches(event(held)) is is_wanted


def test_operators_are_called_with_one_value_each_and_may_return_values() -> None:
    operators = {
        "shorter": Operator("shorter", lambda text, length=3: len(text) < length),
        "Initial": Operator("Initial", lambda text: text[:1] or None),
        "broken": Operator("broken", lambda value: value.x),
        "strange": Operator("strange", lambda value: [value]),
        "odd": Operator("odd", lambda value: value % 2, lambda name: some(name, one_of((1, 3)))),
    }

    def matches(text: str, held: dict[str, Any]) -> bool:
        return parse_query(text, operators=operators).matches(event(held))

    assert matches("shorter(tags)", {"tags": ["long", "ab"]})
    assert not matches("shorter(tags, 2)", {"tags": ["long", "ab"]})
    assert matches("NOT shorter(tags, 2)", {"tags": ["long", "ab"]})
    assert not matches("NOT shorter(tags, 2)", {})
    assert matches("initial(name) = lower(initial(name))", {"name": "ann"})
    assert not matches("initial(name) = 'a'", {"name": ""})
    assert parse_query("odd(x)", operators=operators).routable == parse("x IN (1, 3)")
    assert parse_query("NOT odd(x)", operators=operators).routable == parse("x IS NOT NULL")
    assert parse_query("odd(x + 1)", operators=operators).routable == parse("x IS NOT NULL")
    with pytest.raises(FilterError, match="the operator 'broken' failed: AttributeError"):
        matches("broken(x)", {"x": 1})
    with pytest.raises(FilterError, match="the operator 'strange' returned what is not a value"):
        matches("strange(x) = 1", {"x": 1})
    failing = {"f": Operator("f", lambda value: True, lambda name: 1 / 0)}  # type: ignore[arg-type, return-value]
    with pytest.raises(FilterError, match="the filter of the operator 'f' failed"):
        parse_query("f(x)", operators=failing)


def test_equal_conditions_are_equal_tests_and_unequal_constants_are_not() -> None:
    assert parse_query("a < b + 1").test == parse_query("a<b+1").test
    assert hash(parse_query("a < b + 1").test) == hash(parse_query("a<b+1").test)
    assert parse_query("a < b + 1").test != parse_query("a < b + 1.0").test
    operator = Operator("f", lambda value: True)
    other = Operator("f", lambda value: False)
    assert parse_query("f(a)", operators={"f": operator}).test != parse_query("f(a)", operators={"f": other}).test


def test_only_what_filters_do_not_decide_is_tested() -> None:
    test = parse_query("x = 5 AND abs(y) > 2 AND a < b AND urgency >= my.threshold").test
    assert isinstance(test, ExactTest)
    assert test.conditions == parse_query("a < b").test.conditions  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("a + b + c < 0", {name: list(range(60)) for name in "abc"}),
        ("x MATCHES '(x+x+)+y'", {"x": ["x" * 60_000] * 20}),
        ("length(lower(x)) < 0 - y", {"x": ["x" * 60_000] * 100, "y": 1}),
    ],
    ids=["combinations", "regular expression", "texts"],
)
def test_a_test_has_a_bounded_number_of_steps(text: str, held: dict[str, Any]) -> None:
    with pytest.raises(QueryTooCostly):
        parse_query(text).matches(event(held))


# ---------------------------------------------------------------- the subscriber's own context


def test_a_test_that_asks_for_the_subscribers_context_says_so_and_is_given_it() -> None:
    query = parse_query("speed > my.limit + 10 OR urgency >= my.threshold")
    assert query.references == (Reference("limit"), Reference("threshold"))
    fast = event({"speed": 70})
    assert query.wants(Subject(fast, context={"limit": 50}))
    assert query.wants(Subject(fast, context={"limit": (500, 50)}))
    assert not query.wants(Subject(fast, context={"limit": 65}))
    assert not query.wants(Subject(fast, context={}))
    assert query.wants(Subject(event({"urgency": 3}), context={"threshold": 2}))
    with pytest.raises(Unbound, match=r"my\.limit"):
        query.wants(Subject(fast))


def test_a_reference_that_does_not_fit_is_unknown_as_in_a_filter() -> None:
    denied = parse_query("NOT speed > my.limit + 10")
    assert not denied.wants(Subject(event({"speed": 5}), context={"limit": "none"}))
    assert denied.wants(Subject(event({"speed": 5}), context={"limit": ("none", 1)}))
    near = parse_query("NOT distance(p, myloc) < 500")
    here = event({"p": {"lon": 8.5, "lat": 47}})
    assert not bind(near.routable, {"location": "market"}).matches(here)
    assert bind(near.routable, {"location": Point(9.5, 47)}).matches(here)


def test_references_that_brokers_decide_need_no_context_at_the_edge() -> None:
    assert parse_query("distance(p, myloc) < 500").references == ()
    assert parse_query("a < b AND urgency >= my.threshold").references == ()


def test_places_around_a_reference_stand_beside_an_exact_part_and_not_in_it() -> None:
    assert parse_query("a < b AND stop WITHIN myloc(2)").references == ()
    with pytest.raises(FilterError, match="movement graph"):
        parse_query("a < b OR stop WITHIN myloc(2)")
    assert parse_query("a < b OR stop WITHIN myloc").references == (Reference("location"),)


# ---------------------------------------------------------------- where only filters are understood

EXACT_TEXTS = ("speed > limit + 10", "a < b", "x * 2 > 5", "length(x) > 3", "x MATCHES 'a'", "distance(p, q) < 5")
ENTRIES: dict[str, Callable[[str], Any]] = {
    "a filter": parse,
    "an advertisement": as_filter,
    "a sender": lambda text: asked("x = 1", text),
    "the receivers of an event": lambda text: written({"x": 1}, {}, text),
    "a grant": lambda text: Grants.of([], [text]),
    "a filter of a file": read,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("text", EXACT_TEXTS)
def test_where_brokers_decide_an_exact_part_is_refused_by_name(entry: str, text: str) -> None:
    with pytest.raises(Exception, match="is allowed in subscriptions only"):
        ENTRIES[entry](text)
