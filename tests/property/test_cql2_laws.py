"""CQL2: what is wanted passes the routable filter, under every negation; what is printed reads the same."""

import json

from hypothesis import given

from godwit.filters import Event
from godwit.languages import Query, Subject
from godwit.languages.cql2 import Expression, parse_json, parse_text, to_json, to_text
from godwit.languages.cql2.evaluation import truth_of
from godwit.languages.cql2.expressions import Not
from godwit.languages.cql2.language import Cql2Language
from godwit.languages.cql2.routable_bounds import truth_bounds
from tests.property.cql2_expressions import OPERATORS, conditions, events
from tests.property.strategies import many


def query_of(expression: Expression) -> Query:
    return Cql2Language("cql2-text").parse(to_text(expression), OPERATORS)


def truth(expression: Expression, event: Event) -> bool | None:
    return truth_of(expression, OPERATORS)(Subject(event))


@many(5)
@given(conditions(), events())
def test_what_is_true_or_false_lies_between_its_bounds(expression: Expression, event: Event) -> None:
    bounds, found = truth_bounds(expression, OPERATORS), truth(expression, event)
    assert bounds.true.upper.matches(event) or found is not True
    assert found is True or not bounds.true.lower.matches(event)
    assert bounds.false.upper.matches(event) or found is not False
    assert found is False or not bounds.false.lower.matches(event)


@many(2)
@given(conditions(), events())
def test_a_query_matches_exactly_what_is_true_and_without_a_test_its_filter_does(
    expression: Expression, event: Event
) -> None:
    query = query_of(expression)
    assert query.matches(event) is (truth(expression, event) is True)
    assert (query.test is None) is truth_bounds(expression, OPERATORS).true.is_exact
    if query.test is not None:
        assert query.routable.matches(event) or not query.test(Subject(event))


@given(conditions(), events())
def test_unknown_matches_neither_a_condition_nor_its_negation(expression: Expression, event: Event) -> None:
    found = truth(expression, event)
    assert truth(Not(expression), event) is (None if found is None else not found)
    assert query_of(Not(expression)).matches(event) is (found is False)


@many(2)
@given(conditions())
def test_what_is_printed_reads_as_the_same_in_both_encodings(expression: Expression) -> None:
    assert _read(to_text(expression)) == expression
    assert parse_json(json.dumps(to_json(expression))) == expression
    query = query_of(expression)
    assert Cql2Language("cql2-text").parse(query.text, OPERATORS) == query


def _read(text: str) -> Expression:
    return parse_json(text) if text.startswith("{") else parse_text(text)
