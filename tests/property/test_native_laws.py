"""The exact part of the native language: it agrees with a naive evaluator, brokers let through all that it wants, and
what is printed parses to the same query."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import example, given

from godwit.errors import FilterError
from godwit.filters import FALSE, Event, bind, parse, to_text
from godwit.languages import Query, Subject, parse_query
from godwit.languages.bounds import Bounds, exactly
from godwit.languages.native import exact_bounds
from tests.property.native_texts import (
    OPERATORS,
    VALUES,
    DrawnCondition,
    conditions,
    contexts,
    events,
    predicate,
    variable,
)
from tests.property.strategies import filters, many


def query_of(text: str) -> Query:
    return parse_query(text, operators=OPERATORS)


def is_wanted(query: Query, event: Event, context: Mapping[str, Any]) -> bool:
    """What the broker's filter, bound to the context, and then the exact test say."""
    is_routed = bind(query.routable, context).matches(event)
    return is_routed and query.wants(Subject(event, context=context))


@many(5)
@given(conditions(), events(), contexts())
def test_a_query_wants_what_it_says_and_its_not_wants_the_opposite(
    condition: DrawnCondition, event: Event, context: dict[str, Any]
) -> None:
    truth = condition.truth(event, context)
    assert is_wanted(query_of(condition.text), event, context) == (truth is True)
    assert is_wanted(query_of(f"NOT ({condition.text})"), event, context) == (truth is False)


@many(2)
@given(conditions())
def test_what_is_printed_parses_to_the_same_query(condition: DrawnCondition) -> None:
    query = query_of(condition.text)
    assert query_of(query.text) == query
    assert query_of(query.text).text == query.text
    assert query_of(f"NOT NOT ({condition.text})") == query


@many(2)
@given(conditions(), conditions(), events(), contexts())
def test_what_filters_decide_alone_is_not_tested_again(
    one: DrawnCondition, other: DrawnCondition, event: Event, context: dict[str, Any]
) -> None:
    query = query_of(f"({one.text}) AND ({other.text})")
    parts = [query_of(one.text), query_of(other.text)]
    assert is_wanted(query, event, context) == all(is_wanted(part, event, context) for part in parts)
    if all(part.test is None for part in parts):
        assert query.test is None


@many(2)
@given(filters())
@example(FALSE)
def test_a_filter_is_a_query_without_a_test(filter: Any) -> None:
    text = to_text(filter)
    assert query_of(text) == Query("filter", text, parse(text))


# ---------------------------------------------------------------- planted faults

CASES = [
    *(
        predicate(f"abs(x) {sign} 2", (variable("x", "x"),), met)
        for sign, met in (
            ("<", lambda x: type(x) in (int, float) and abs(x) < 2),
            (">", lambda x: type(x) in (int, float) and abs(x) > 2),
        )
    ),
    predicate("x MATCHES '^an*'", (variable("x", "x"),), lambda x: type(x) is str and x.startswith("a")),
    predicate("x MATCHES 'n+$'", (variable("x", "x"),), lambda x: type(x) is str and x.endswith("n")),
    predicate("x * 3 > 4", (variable("x", "x"),), lambda x: type(x) in (int, float) and x * 3 > 4),
]


def faults() -> Iterator[str]:
    held = [*({"x": value} for value in VALUES), {"x": ("ann", 1)}, {"x": (-3, 1)}, {}]
    for case in CASES:
        for text, wanted in ((case.text, True), (f"NOT {case.text}", False)):
            query = query_of(text)
            for attributes in held:
                event = Event(attributes)
                if is_wanted(query, event, {}) != (case.truth(event, {}) is wanted):
                    yield f"{text}: {attributes}"


def test_there_is_no_fault_in_the_cases_below() -> None:
    assert next(faults(), None) is None


def _two_valued_not(predicate: Any, operators: Any) -> Bounds:
    return exactly(~exact_bounds._where_true(predicate, operators).upper)


@pytest.mark.parametrize(
    ("function", "planted"),
    [
        ("_where_false", _two_valued_not),
        ("texts_around", lambda pattern: (parse("x LIKE 'an%'").values, False)),  # type: ignore[union-attr]
        ("range_of", lambda sign, number: (number, number)),
        ("_abs", lambda name, sign, value: exactly(parse("x < 2"))),
    ],
)
def test_a_fault_in_the_bounds_is_caught(
    function: str, planted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_bounds, function, planted)
    if function == "_abs":
        monkeypatch.setitem(exact_bounds._SOLVERS, "abs", planted)
    assert next(faults(), None) is not None


@many(2)
@given(conditions(), conditions())
def test_any_mixture_of_texts_is_a_query_or_an_error_that_says_where(
    one: DrawnCondition, other: DrawnCondition
) -> None:
    text = one.text[: len(one.text) // 2] + other.text[len(other.text) // 2 :]
    found = read_or_told(text)
    assert found.startswith("line ") if isinstance(found, str) else query_of(found.text) == found


def read_or_told(text: str) -> Query | str:
    """The query, or what the error says."""
    try:
        return query_of(text)
    except FilterError as error:
        return str(error)
