"""CESQL: the bounds of an expression hold its exact test between them, and its printed form means the same.

Values come from small pools in which casts meet: `5` as a number, as a text, with a sign, with zeros; `true` in several
spellings; numbers that are no integers of CESQL; several values of one attribute; attributes that are missing.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.filters import FALSE, Event, Point, complement, one_of, only, some
from godwit.languages import Operator, Subject, parse_query
from godwit.languages.bounds import Bounds, exactly
from godwit.languages.cesql import evaluate, expression_text, parse_expression, routable_bounds
from godwit.languages.cesql.builtin_functions import BOOLEAN, FUNCTIONS
from godwit.languages.cesql.casts import scalar_of, text_of, values_with_text
from godwit.languages.cesql.cesql_language import type_of
from godwit.languages.cesql.evaluation import ExpressionTest
from godwit.languages.cesql.expressions import (
    COMPARISONS,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Negative,
    Not,
)
from godwit.languages.cesql.routable_bounds import Condition, condition_of
from tests.property.strategies import many

NAMES = ("a", "b", "c")
TEXTS = (
    *(
        "",
        "x",
        "xy",
        "abc",
        "true",
        "TRUE",
        "tRue",
        "false",
        "False",
        "10",
        "+1",
        "-1",
        "01",
        "005",
        "+005",
        "105",
        "5",
    ),
    *(
        "0",
        "-0",
        "00",
        "2.5",
        "1e+300",
        "4294967296",
        "2147483648",
        " 5",
        "5 ",
        "٥",
        ":",
        "+",
        "%",
        "_",
        "a\\b",
        "it's",
    ),
    *("2026-01-01T00:00:00Z", "POINT (8.5 47)", "\\'", '"'),
)
NUMBERS = (-1, 0, 1, 5, 10, 105, 2**31 - 1, -(2**31))
VALUES = (
    *TEXTS,
    *NUMBERS,
    *(True, False, 0.0, 1.0, 2.5, -0.5, 1e300, 2**31, 2**32, 5.0),
    *(datetime(2026, 1, 1, tzinfo=UTC), Point(8.5, 47), Point(8.5, 47.0)),
)
PATTERNS = (
    "%",
    "_",
    "x%",
    "%5",
    "1%",
    "tr%",
    "%E",
    "a\\b",
    "a\\%",
    "abc",
    "5",
    "%-01-%",
    "POINT%",
    "%.%",
    "%\\_%",
    "%x%y",
)

LONG_OPERATOR = Operator("is_long", lambda value, length=2: len(str(value)) > length)
FEW_OPERATOR = Operator("is_few", lambda value: value in (1, 5), lambda name: some(name, one_of((True, 1, 5))))
OPERATORS = {each.name: each for each in (LONG_OPERATOR, FEW_OPERATOR)}


def expressions() -> st.SearchStrategy[Expression]:
    attributes = st.sampled_from(NAMES).map(Attribute)
    literals = st.sampled_from((*TEXTS, *NUMBERS, True, False)).filter(_can_be_written).map(_literal)
    comparisons = st.sampled_from(COMPARISONS)
    negated = st.booleans()
    simple = st.one_of(  # what filters can say, or nearly
        st.builds(Comparison, comparisons, attributes, literals),
        st.builds(Comparison, comparisons, literals, attributes),
        st.builds(In, attributes, st.lists(literals, min_size=1, max_size=3).map(tuple), negated),
        st.builds(Like, attributes, st.sampled_from(PATTERNS), negated),
        st.builds(Exists, st.sampled_from(NAMES)),
        st.builds(Comparison, comparisons, _cast(attributes), literals),
        _cast(attributes),
        attributes,
        literals,
    )
    return st.recursive(simple, _above, max_leaves=6)


def _can_be_written(value: Any) -> bool:
    return not isinstance(value, str) or parse_expression(expression_text(Literal(value))) == Literal(value)


def _literal(value: Any) -> Expression:
    return Literal(value)


def _cast(operand: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(Call, st.sampled_from(("INT", "BOOL", "STRING")), operand.map(lambda each: (each,)))


def _above(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(_logic, st.sampled_from(("AND", "OR", "XOR")), st.lists(inner, min_size=2, max_size=3)),
        st.builds(_logic, st.sampled_from(("AND", "OR")), st.lists(inner, min_size=2, max_size=3)),
        inner.map(Not),
        inner.map(Not),
        st.builds(Comparison, st.sampled_from(COMPARISONS), inner, inner),
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        inner.map(Negative),
        st.builds(In, inner, st.lists(inner, min_size=1, max_size=2).map(tuple), st.booleans()),
        st.builds(Like, inner, st.sampled_from(PATTERNS), st.booleans()),
        st.sampled_from(FUNCTIONS).flatmap(
            lambda one: st.lists(inner, min_size=len(one.parameters), max_size=len(one.parameters)).map(
                lambda arguments: Call(one.name, tuple(arguments))
            )
        ),
        st.builds(Call, st.just("is_long"), st.tuples(inner, inner)),
        st.builds(Call, st.just("is_few"), st.tuples(inner)),
    )


def _logic(operator: str, parts: list[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, Logic) and part.operator == operator else (part,)
    return Logic(operator, tuple(flat))


def events() -> st.SearchStrategy[Event]:
    one = st.sampled_from(VALUES)
    held: st.SearchStrategy[Any] = st.one_of(one, one, st.lists(one, min_size=2, max_size=3).map(tuple))
    return st.dictionaries(st.sampled_from(NAMES), held, max_size=3).map(Event)


def is_held(bounds: Bounds, truth: bool, event: Event) -> bool:
    return (bounds.upper.matches(event) or not truth) and (truth or not bounds.lower.matches(event))


def fault(expression: Expression, event: Event, condition: Condition) -> str | None:
    """Which of its bounds an event breaks."""
    found = evaluate(expression, event, OPERATORS)
    if not is_held(condition.holds, found.is_match, event):
        return "holds"
    if type_of(expression) != BOOLEAN:
        return None  # what another type is does not matter: it is not TRUE
    if not is_held(condition.fails, found.value is False and not found.failures, event):
        return "fails"
    return None if is_held(condition.defined, not found.failures, event) else "defined"


@many(5)
@given(expressions(), events())
def test_what_an_expression_wants_passes_its_upper_bound_and_what_passes_the_lower_one_is_wanted(
    expression: Expression, event: Event
) -> None:
    assert fault(expression, event, condition_of(expression, OPERATORS)) is None


def simple_expressions() -> Iterator[Expression]:
    """Each condition on one attribute that filters can say, or nearly, with each constant of the pools."""
    a = Attribute("a")
    constants = [Literal(value) for value in (*TEXTS, *NUMBERS, True, False)]
    for constant in constants:
        for operator in COMPARISONS:
            yield Comparison(operator, a, constant)
            yield Comparison(operator, constant, a)
        yield In(a, (constant, Literal("x")))
        yield In(a, (constant, Literal(1)), True)
    for pattern in PATTERNS:
        yield Like(a, pattern)
        yield Like(a, pattern, True)
    operands: list[Expression] = [a, *(Call(name, (a,)) for name in ("INT", "BOOL", "STRING"))]
    for operand in operands:
        yield from (operand, Not(operand), _logic("AND", [operand, Literal(True)]), Not(Not(operand)))
        for constant in (Literal(5), Literal("5"), Literal(True), Literal(False)):
            yield Comparison("=", operand, constant)
            yield Comparison("<", operand, constant)


def simple_faults() -> Iterator[str]:
    events = [Event({}), *(Event({"a": value}) for value in (*VALUES, ("x", 5), ("005", True), (2.5, 1)))]
    for expression in simple_expressions():
        condition = condition_of(expression, OPERATORS)
        for event in events:
            found = fault(expression, event, condition)
            if found is not None:
                yield f"{expression_text(expression)} {found}: {event.attributes}"


def test_each_condition_on_one_attribute_lies_within_its_bounds_for_each_value() -> None:
    assert next(simple_faults(), None) is None


@many(2)
@given(expressions(), events())
def test_a_query_is_its_exact_test_and_printed_and_parsed_it_is_the_same_query(
    expression: Expression, event: Event
) -> None:
    text = expression_text(expression)
    assert parse_expression(text, lambda name, _: name) == expression
    if type_of(expression) not in (BOOLEAN, None):
        return
    query = parse_query(text, "cesql", OPERATORS)
    assert query.text == text
    assert parse_query(query.text, "cesql", OPERATORS) == query
    assert query.matches(event) == ExpressionTest(expression, tuple(OPERATORS.items()))(Subject(event))
    assert query.matches(event) == evaluate(expression, event, OPERATORS).is_match


@given(
    st.one_of(
        st.sampled_from(VALUES), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**64 - 1)
    )
)
def test_a_value_is_among_those_that_have_its_text(value: Any) -> None:
    text = text_of(scalar_of(value))
    assert one_of(values_with_text(text)).contains(value)
    assert all(text_of(scalar_of(each)) == text for each in values_with_text(text))


# ---------------------------------------------------------------- planted faults


def _integers_as_if_texts_were_none(name: str, number: int) -> Condition:
    equal = one_of([number])
    return Condition(lambda: exactly(some(name, equal)), lambda: exactly(only(name, complement(equal))))


def _two_valued_not(condition: Condition) -> Condition:
    return Condition(lambda: ~condition.holds, lambda: condition.holds)


@pytest.mark.parametrize(
    ("function", "planted"),
    [("_integer_equal", _integers_as_if_texts_were_none), ("_opposite", _two_valued_not)],
)
def test_a_fault_in_the_bounds_is_caught(
    function: str, planted: Callable[..., Condition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routable_bounds, function, planted)
    assert next(simple_faults(), None) is not None


def test_what_nothing_can_match_says_so() -> None:
    for text in ("FALSE", "1 = 2", "a = 'x' AND 5 < 'five'", "NOT TRUE", "NOT 10", "a < 'x'"):
        query = parse_query(text, "cesql")
        assert (query.routable, query.test) == (FALSE, None), text
