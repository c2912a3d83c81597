"""What brokers route by for an expression of CESQL, and which need no further test."""

import pytest

from godwit.errors import FilterError
from godwit.filters import Event, Filter, parse, starts_with
from godwit.filters.filters import some
from godwit.languages import Operator, parse_query
from godwit.languages.cesql.routable_bounds import LITERALS_MAX


@pytest.mark.parametrize(
    ("text", "routable"),
    [
        ("TRUE", "TRUE"),
        ("1 = 1", "TRUE"),
        ("FALSE", "FALSE"),
        ("a = 'x'", "a = 'x'"),
        ("a != 'x'", "NOT a = 'x'"),
        ("NOT (a = 'x')", "NOT a = 'x'"),
        ("a = '5'", "a IN (5, '5')"),
        ("'x' = a", "a = 'x'"),
        ("a = CONCAT('x', 'y')", "a = 'xy'"),
        ("STRING(a) = 'x'", "a = 'x'"),
        ("a IN ('x', 'y')", "a IN ('x', 'y')"),
        ("a NOT IN ('x', 'y')", "a NOT IN ('x', 'y') AND a IS NOT NUMBER AND a IS NOT BOOL"),
        ("a IN (2, 3)", "a IN (TRUE, 2, 3, '2', '3')"),
        ("a LIKE 'http:%'", "a LIKE 'http:%'"),
        ("a LIKE 'N12%'", "a LIKE 'N12%'"),
        ("a NOT LIKE '%.error'", "a NOT LIKE '%.error'"),
        ("a LIKE 'x'", "a = 'x'"),
        ("a LIKE 't%'", "a LIKE 't%' OR a = TRUE"),
        ("EXISTS a", "a IS NOT NULL"),
        ("NOT EXISTS a", "a IS NULL"),
        ("a = 'x' AND b = 'y'", "a = 'x' AND b = 'y'"),
        ("a = 'x' OR a = 'y'", "a = 'x' OR a = 'y'"),
        ("a = 'x' OR b = 'y'", "a = 'x' OR a IS NOT NULL AND b = 'y'"),
        ("EXISTS a OR b = 'y'", "a IS NOT NULL OR b = 'y'"),
        ("NOT (a = 'x' AND b = 'y')", "NOT a = 'x' OR a IS NOT NULL AND NOT b = 'y'"),
        ("a = 'x' XOR b = 'y'", "a = 'x' AND NOT b = 'y' OR NOT a = 'x' AND b = 'y'"),
        ("a", "a = TRUE"),
    ],
)
def test_such_an_expression_is_a_filter_and_has_no_test(text: str, routable: str) -> None:
    query = parse_query(text, "cesql")
    assert query.routable == parse(routable)
    assert query.test is None


@pytest.mark.parametrize(
    ("text", "routable"),
    [
        ("a = 5", "a IN (5, '5', '+5') OR a LIKE '%05'"),
        ("a = 0", "a IN (FALSE, 0, '0', '+0', '-0') OR a LIKE '%00'"),
        ("a = -5", "a IN (-5, '-5') OR a LIKE '%05'"),
        ("a > 10", "a > 10 OR '+' <= a < ':'"),
        ("10 < a", "a > 10 OR '+' <= a < ':'"),
        ("INT(a) > 10", "a > 10 OR '+' <= a < ':'"),
        ("a LIKE 'P%'", "a LIKE 'P%' OR a IS POINT"),
        ("a LIKE '%Z'", "a LIKE '%Z' OR a IS TIME"),
        ("a LIKE '1%'", "a LIKE '1%' OR a IS NUMBER OR a IS TIME"),
        ("a < b", "a IS NOT NULL AND b IS NOT NULL"),
        ("LOWER(a) = 'x' AND b = 'y'", "a IS NOT NULL AND b = 'y'"),
        ("NOT (LOWER(a) = 'x') AND b = 'y'", "a IS NOT NULL AND b = 'y'"),
    ],
)
def test_such_an_expression_is_routed_by_more_than_it_wants_and_tested(text: str, routable: str) -> None:
    query = parse_query(text, "cesql")
    assert query.routable == parse(routable)
    assert query.test is not None


def test_the_filter_that_the_author_of_an_operator_gives_is_used_and_needs_the_attribute() -> None:
    alike = Operator("alike", lambda a, b: a[0] == b[0], lambda name, text: some(name, starts_with(text[0])))
    operators = {"alike": alike}
    query = parse_query("alike(a, 'xyz')", "cesql", operators)
    assert query.routable == parse("a LIKE 'x%'")
    assert query.matches(Event({"a": "xa"}))
    assert not query.matches(Event({"a": "ya"}))
    assert parse_query("NOT alike(a, 'xyz')", "cesql", operators).routable == parse("a IS NOT NULL")
    assert parse_query("alike('xyz', LOWER(a))", "cesql", operators).routable == parse("a IS NOT NULL")


def test_an_operator_whose_filter_cannot_be_made_is_refused_with_its_name() -> None:
    def no_filter(name: str) -> Filter:
        raise ZeroDivisionError(name)

    broken = {"broken": Operator("broken", lambda a: True, no_filter)}
    with pytest.raises(FilterError, match="operator 'broken' has no filter for 'a': ZeroDivisionError"):
        parse_query("broken(a)", "cesql", broken)


def test_a_filter_that_would_be_too_large_lets_all_through() -> None:
    text = " OR ".join(f"a{n} = 'x'" for n in range(200))
    query = parse_query(text, "cesql")
    assert query.routable.size <= LITERALS_MAX
    assert query.test is not None
    assert query.matches(Event({f"a{n}": "x" for n in range(200)}))
    assert not query.matches(Event({f"a{n}": "y" for n in range(200)}))
