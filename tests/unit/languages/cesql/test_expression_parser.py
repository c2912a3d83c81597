"""The parser of CESQL: precedence, literals, and errors that say where."""

import pytest

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.languages import Operator, parse_query
from godwit.languages.cesql import expression_text, parse_expression
from godwit.languages.cesql.expression_parser import TEXT_BYTES_MAX
from godwit.languages.cesql.expressions import (
    DEPTH_MAX,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    In,
    Like,
    Literal,
    Logic,
    Negative,
    Not,
)

A, B, C, D = (Attribute(name) for name in "abcd")


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("NOT a = b", Comparison("=", Not(A), B)),
        ("NOT a LIKE 'x'", Like(Not(A), "x")),
        ("a OR b AND c", Logic("AND", (Logic("OR", (A, B)), C))),
        ("a AND b OR c AND d", Logic("AND", (Logic("OR", (Logic("AND", (A, B)), C)), D))),
        ("a AND (b AND c) AND d", Logic("AND", (A, B, C, D))),
        ("a XOR b XOR c", Logic("XOR", (A, B, C))),
        ("a + b * c = d", Comparison("=", Arithmetic("+", A, Arithmetic("*", B, C)), D)),
        ("a - b - c", Arithmetic("-", Arithmetic("-", A, B), C)),
        ("a < b = c", Comparison("=", Comparison("<", A, B), C)),
        ("a <> b", Comparison("!=", A, B)),
        ("a = b IN (c)", Comparison("=", A, In(B, (C,)))),
        ("a IN (b) NOT IN (c, d)", In(In(A, (B,)), (C, D), True)),
        ("-5", Literal(-5)),
        ("+5", Literal(5)),
        ("- 5", Negative(Literal(5))),
        ("--5", Negative(Literal(-5))),
        ("-(5)", Negative(Literal(5))),
        ("4 -1", Arithmetic("-", Literal(4), Literal(1))),
        ("4 - -1", Arithmetic("-", Literal(4), Literal(-1))),
        ("-5a", Negative(Attribute("5a"))),
        ("007", Literal(7)),
        ("-2147483648", Literal(-(2**31))),
        ("SourcE", Attribute("source")),
        ("length(a)", Call("LENGTH", (A,))),
        ("length", Attribute("length")),
        ("concat()", Call("CONCAT", ())),
        (r"'it\'s'", Literal("it's")),
        (r"'a\\b\n\"'", Literal(r"a\\b\n" + '\\"')),
        (r'"it\'s \"so\""', Literal('it\\\'s "so"')),
        ("'a\nb'", Literal("a\nb")),
        ("a\tLIKE\r\n'%'", Like(A, "%")),
    ],
)
def test_a_text_is_read_as_the_specification_has_it(text: str, expression: object) -> None:
    found = parse_expression(text)
    assert found == expression
    assert parse_expression(expression_text(found)) == found


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a or b and c", "(a OR b) AND c"),
        ("(a and b) and c", "a AND b AND c"),
        ("not(a=b)", "NOT (a = b)"),
        ("((a))", "a"),
        ("a<>+5", "a != 5"),
        ("-(-a)", "--a"),
        ("- 5", "-(5)"),
        ("(a+b)*c", "(a + b) * c"),
        ("a+(b*c)", "a + b * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a=b) like 'x'", "(a = b) LIKE 'x'"),
        ("lower( a ) not in('x',\"y\")", "LOWER(a) NOT IN ('x', 'y')"),
        ("exists A", "EXISTS a"),
        (r'''"it's"''', r"'it\'s'"),
        (r'''"\'"''', r'''"\'"'''),
    ],
)
def test_an_expression_is_printed_in_one_way(text: str, printed: str) -> None:
    assert expression_text(parse_expression(text)) == printed
    assert expression_text(parse_expression(printed)) == printed


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "expected"),
    [
        ("", 1, 1, "the expression is empty", "a value"),
        ("  \n ", 1, 1, "the expression is empty", "a value"),
        ("a =", 1, 4, "the expression ends too early", "an attribute"),
        ("a =\n= b", 2, 1, "= has no place here", "a value"),
        ("a b", 1, 3, "b has no place here", "the end of the expression"),
        ("(a", 1, 3, "the expression ends too early", ")"),
        ("a)", 1, 2, ") has no place here", "AND"),
        ("ABC(", 1, 5, "the expression ends too early", "a value"),
        ("a LIKE 123", 1, 8, "123 has no place here", "a 'pattern' in quotes"),
        ("a LIKE b", 1, 8, "b has no place here", "a 'pattern' in quotes"),
        ("a NOT b", 1, 7, "b has no place here", "LIKE"),
        ("a IN b", 1, 6, "b has no place here", "("),
        ("a IN ()", 1, 7, ") has no place here", "a value"),
        ("EXISTS 5", 1, 8, "5 has no place here", "the name of an attribute"),
        ("my_ext = 1", 1, 1, "my_ext is not a name of an attribute", ""),
        ("2147483648", 1, 1, "an integer beyond 32 bits", ""),
        ("- 2147483648", 1, 3, "an integer beyond 32 bits", ""),
        ("9" * 30_000, 1, 1, "an integer beyond 32 bits", ""),
        ("a = 'x", 1, 5, "has no end: a ' is missing", ""),
        ('a = "x', 1, 5, 'has no end: a " is missing', ""),
        ("a = 'it''s'", 1, 9, "is written \\'", ""),
        ("a && b", 1, 3, "write AND", ""),
        ("a = §", 1, 5, "has no meaning here", ""),
        ("a = '\ud800'", 1, 6, "lone surrogate", ""),
        ("+a", 1, 1, "+ has no place here", "a value"),
        ("5(a)", 1, 2, "( has no place here", "AND"),
        ("a LIKE '" + "_a" * 1_000 + "'", 1, 8, "at most 1024 are allowed", ""),
        ("1 + 1", 1, 1, "of type Integer", "a condition, such as a comparison"),
        ("LOWER(a)", 1, 1, "of type String", "a condition, such as a comparison"),
        ("SUBSTRING(a) = 'x'", 1, 1, "SUBSTRING does not take 1 argument", ""),
        ("TRUE AND\n near(a)", 2, 2, "there is no function near", "LENGTH"),
    ],
)
def test_an_error_says_where_it_is_and_what_was_expected(
    text: str, line: int, column: int, message: str, expected: str
) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_query(text, "cesql")
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (line, column)
    assert expected in error.expected or not expected


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a" + ")" * 10_000,
        "(" * 10_000,
        "NOT " * 8_000 + "a",
        "-" * 10_000 + "a",
        "ABS(" * 6_000,
        "a IN (" * 5_000,
        "1+" * 10_000 + "1 = 1",
        "a=" * 10_000 + "a",
        "a AND b OR " * 2_000 + "c",
        " LIKE 'x'".join(["a"] * 2) + " LIKE 'x'" * 3_000,
    ],
)
def test_what_is_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError, match=f"nested deeper than {DEPTH_MAX} levels|has no place here"):
        parse_query(text, "cesql")


def test_ten_thousand_predicates_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(FilterTooBig, match=f"more than {TEXT_BYTES_MAX} bytes"):
        parse_query(" AND ".join(f"a{n} = 'x'" for n in range(10_000)), "cesql")
    with pytest.raises(FilterTooBig):
        parse_query("a = '" + "é" * (TEXT_BYTES_MAX // 2) + "'", "cesql")


@pytest.mark.parametrize("operator", ["AND", "OR", "XOR"])
def test_as_many_predicates_as_fit_are_taken(operator: str) -> None:
    text = f" {operator} ".join(f"a{n} = 'x'" for n in range(1_900))
    query = parse_query(text, "cesql")
    assert query.text == text
    assert query.routable.size <= 1_900
    assert parse_query(query.text, "cesql") == query


def test_operators_of_users_are_found_in_any_case_and_unknown_functions_list_the_known_ones() -> None:
    operators = {"sounds_like": Operator("sounds_like", lambda a, b: a == b)}
    query = parse_query("Sounds_Like(a, 'x') AND TRUE", "cesql", operators)
    assert query.text == "sounds_like(a, 'x') AND TRUE"
    with pytest.raises(FilterSyntaxError, match="there is no function near") as caught:
        parse_query("near(a)", "cesql", operators)
    assert {"sounds_like", "ABS", "CONCAT_WS"} <= set(caught.value.expected)
