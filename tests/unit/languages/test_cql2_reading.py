"""CQL2 in both encodings: what is read, what is printed, and what an error says."""

import json

import pytest

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig
from godwit.languages import Operator, parse_query
from godwit.languages.cql2 import parse_json, parse_text, to_json, to_text
from godwit.languages.cql2.expressions import (
    NESTING_MAX,
    Arithmetic,
    Array,
    Compared,
    Function,
    Not,
    Number,
    Property,
    Text,
)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a=1 and b=2", "a = 1 AND b = 2"),
        ("((a = 1))", "a = 1"),
        ("a NOT IN (1,2)", "NOT a IN (1, 2)"),
        ("a IS NOT NULL", "NOT a IS NULL"),
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = 1 AND b = 2", "(NOT (a = 1)) AND b = 2"),
        ("a = 1 + 2 * 3 ^ 2", "a = 1 + (2 * (3 ^ 2))"),
        ("a = 1 - 2 - 3", "a = (1 - 2) - 3"),
        ("a = -b", "a = -1 * b"),
        ("a = - 5 - -5", "a = -5 - -5"),
        ("a = 'it''s'", "a = 'it\\'s'"),
        ('"a" = 1', "a = 1"),
        ("s_intersects(a, point(1 2))", "S_INTERSECTS(a, POINT (1 2))"),
        ("S_WITHIN(a, POINT(1 2 3))", "S_WITHIN(a, POINT Z (1 2 3))"),
        ("casei(a) LIKE Casei('X%')", "CASEI(a) LIKE CASEI('X%')"),
        ("date > DATE('2026-01-01')", "\"date\" > DATE('2026-01-01')"),
        ("a = TIMESTAMP('2026-01-01T00:00:00.5Z')", "a = TIMESTAMP('2026-01-01T00:00:00.500000Z')"),
        ("f((a + 1) * 2)", "f(((a+1))*2)"),
    ],
)
def test_two_texts_say_the_same(text: str, same: str) -> None:
    assert parse_text(text) == parse_text(same)


def test_an_argument_in_parentheses_is_an_array_unless_an_operator_follows() -> None:
    assert parse_text("f((1))") == Function("f", (Array((Number(1),)),))
    assert parse_text("f(((a)) + 1)") == Function("f", (Arithmetic("+", Property("a"), Number(1)),))
    assert parse_text("f(())") == Function("f", (Array(()),))


@pytest.mark.parametrize("text", ["ends in \\", "a \\' quote"])
def test_what_no_text_can_say_is_printed_as_json(text: str) -> None:
    expression = Not(Compared("=", Property("a"), Text(text)))
    assert json.loads(to_text(expression)) == to_json(expression)
    query = parse_query(to_text(expression), "cql2-text")
    assert parse_query(query.text, "cql2-text") == query


def test_a_function_whose_name_is_no_identifier_is_printed_as_json() -> None:
    expression = parse_json('{"op": "my function", "args": []}')
    assert parse_json(to_text(expression)) == expression


@pytest.mark.parametrize(
    ("text", "column", "fault", "expected"),
    [
        ("a = = 1", 5, "= has no place here", "a number"),
        ("a AND b = 1", 1, "a property has no place here", "a condition"),
        ("a < b < c", 7, "< has no place here", "the end of the query"),
        ("a LIKE b", 8, "b has no place here", "a 'pattern'"),
        ("a = 'x", 5, "has no end", None),
        ("a != 1", 3, "write NOT, or <> for unequal", None),
        ("a = NULL", 5, "NULL is not a value: ask IS NULL", "a number"),
        ("a BETWEEN 1 OR 2", 13, "OR has no place here", "AND"),
        ("S_INTERSECTS(a, 5)", 17, "a number has no place here", "a property"),
        ("S_INTERSECTS(a)", 13, "1 operands, and 2 are needed", None),
        ("S_WITHIN(g, BBOX(0,5,5,0))", 13, "south must not lie above north", None),
        ("S_WITHIN(g, POLYGON((0 0, 1 0, 1 1, 0 1)))", 13, "its last position must be its first", None),
        ("S_WITHIN(g, LINESTRING(0 0))", 13, "a line of 1 positions", None),
        ("a = DATE('2026-02-30')", 5, "there is no time '2026-02-30'", None),
        ("a = TIMESTAMP('2026-02-03')", 5, "is no TIMESTAMP", None),
        ("b = 1 AND a LIKE 'x\\'", 18, "has no end", None),
        ("taller(a)", 1, "there is no function 'taller'", "shorter"),
        ("a = 1e999", 5, "not a finite number", None),
        (f"a = {'1' * 5_000}", 5, "a number of 5000 characters", None),
        ("", 1, "the query is empty", "a condition"),
        ("a = 1 AND\n  (b = 2", 9, "the query ends too early", ")"),
    ],
)
def test_an_error_says_where_and_what_was_expected(text: str, column: int, fault: str, expected: str | None) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse_query(text, "cql2-text", {"shorter": Operator("shorter", lambda value: True)})
    assert (raised.value.line, raised.value.column) == (text.count("\n") + 1, column)
    assert fault in raised.value.message
    assert expected is None or expected in raised.value.expected


@pytest.mark.parametrize(
    ("text", "line", "column", "fault"),
    [
        ('{"op": ,}', 1, 8, "no JSON"),
        ('{"op": "=",\n "args": [{"property": "a"}, null]}', 2, 30, "null is not a value"),
        ('{"op": "and", "args": [true]}', 1, 23, "two at least"),
        ('{"op": "=", "args": [1]}', 1, 21, "1 args, and 2 are needed"),
        ('{"op": "foo", "args": []}', 1, 8, "there is no function 'foo'"),
        ('{"op": "not", "args": [{"property": ""}]}', 1, 37, "a property without a name"),
        ('{"op": "like", "args": [{"property": "a"}, {"property": "b"}]}', 1, 44, "has no place here"),
        ('{"op": "t_after", "args": [{"property": "a"}, {"date": "x"}]}', 1, 47, "not a time"),
        ('{"op": "s_within", "args": [{"property": "a"}, {"type": "Point"}]}', 1, 48, "no GeoJSON geometry"),
        (
            '{"op": "s_within", "args": [{"property": "a"}, {"type": "MultiPoint", "coordinates": []}]}',
            1,
            48,
            "positions",
        ),
        ('{"op": "=", "args": [{"property": "a"}, {}]}', 1, 41, "an object that says nothing"),
        ('{"op": "=", "args": [{"property": "a"}, NaN]}', 1, 1, "NaN is not a number"),
        ('"a = 1"', 1, 1, "has no place here"),
    ],
)
def test_an_error_in_a_document_says_where(text: str, line: int, column: int, fault: str) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse_query(text, "cql2-json")
    assert (raised.value.line, raised.value.column) == (line, column), str(raised.value)
    assert fault in raised.value.message


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (" AND ".join(f"a{n} = {n}" for n in range(10_000)), FilterTooBig),
        (" AND ".join(["a=1"] * 10_000), FilterTooBig),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, FilterSyntaxError),
        ("NOT " * 10_000 + "a = 1", FilterSyntaxError),
        ("a < " + "-" * 10_000 + "b", FilterSyntaxError),
        ("a < " + " + ".join(["b"] * 4_000), FilterSyntaxError),
        ("f(" + "(" * 5_000 + ")" * 5_000 + ")", FilterSyntaxError),
        ("a LIKE " + "CASEI(" * 5_000 + "'a'" + ")" * 5_000, FilterSyntaxError),
        ('{"op":"not","args":[' * 5_000 + "true" + "]}" * 5_000, FilterSyntaxError),
        ('{"op":"not","args":[' * (NESTING_MAX + 1) + "true" + "]}" * (NESTING_MAX + 1), FilterSyntaxError),
        ("S_WITHIN(g, LINESTRING(" + ", ".join(f"{n % 180} 1" for n in range(10_000)) + "))", FilterSyntaxError),
        ("a = '" + "x" * 200_000 + "'", FilterTooBig),
        ("'" * 100_001, FilterError),
    ],
)
def test_what_is_too_large_is_refused_at_once(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_query(text, "cql2-text", {"f": Operator("f", lambda value: True)})


def test_nesting_up_to_the_limit_is_read_and_tested() -> None:
    depth = NESTING_MAX - 1
    query = parse_query("(" * depth + "a = b" + ")" * depth, "cql2-text")
    assert query.text == "a = b"
    parse_query("NOT (" * (depth // 2) + "a = b" + ")" * (depth // 2), "cql2-text")
