"""What a text with an exact part says, and what is said about one that says nothing."""

import pytest

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.filters import event, parse
from godwit.filters.language.scanning import EXACT_FUNCTIONS
from godwit.languages import Operator, Query, parse_query
from godwit.languages.native.built_in_functions import COUNT, FUNCTIONS
from godwit.languages.native.exact_parser import NESTING_MAX, TERMS_MAX, TEXT_BYTES_MAX

OPERATORS = {"sounds_like": Operator("sounds_like", lambda one, other: one == other)}


def query_of(text: str) -> Query:
    return parse_query(text, operators=OPERATORS)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a+b*c>d", "a + b * c > d"),
        ("(a+b)*c>d", "(a + b) * c > d"),
        ("a-(b-c)>d", "a - (b - c) > d"),
        ("(a-b)-c>d", "(a - b) - c > d"),
        ("a - b - c > d", "a - b - c > d"),
        ("a -1 > b", "a - 1 > b"),
        ("a - -1 > b", "a - -1 > b"),
        ("-a * 2 > b", "(0 - a) * 2 > b"),
        ("+a > b", "a > b"),
        ("a / b > c", "a / b > c"),
        ("a/b > c + 1", "a/b > c + 1"),
        ("a != b", "a <> b"),
        ("NOT a < b AND c = 1 OR d < e", "NOT a < b AND c = 1 OR d < e"),
        ("NOT (a < b OR c = 1)", "NOT a < b AND NOT c = 1"),
        ("a < b AND (c = 1 OR d = 2)", "a < b AND (c = 1 OR d = 2)"),
        ("a < b AND (c = 1 AND a < b)", "a < b AND c = 1"),
        ("((a < b))", "a < b"),
        ("(a) < (b)", "a < b"),
        ("x BETWEEN a AND b + 1 AND c", "a <= x <= b + 1 AND c = TRUE"),
        ("x NOT BETWEEN a AND b", "NOT a <= x <= b"),
        ("5 >= a - b > 1", "5 >= a - b > 1"),
        ("x IN (a, 5, b + 1)", "x = a OR x = 5 OR x = b + 1"),
        ("x NOT IN (a, 5)", "NOT x = a AND NOT x = 5"),
        ("lower(x) IN ('a', 'b')", "lower(x) IN ('a', 'b')"),
        ("lower(x) IN ('a')", "lower(x) = 'a'"),
        ("lower(x) NOT LIKE 'a!%%' ESCAPE '!'", r"NOT lower(x) LIKE 'a\%%'"),
        ("lower(x) IS NOT NUMBER OR TRUE", None),
        ("sounds_like(x, 'a') IS NUMBER", "sounds_like(x, 'a') IS NUMBER"),
        ("within(sounds_like(x, 'a'), circle(8, 47, 5))", "sounds_like(x, 'a') WITHIN circle(8, 47, 5)"),
        ("ANY NOT lower(x) = 'a'", "NOT ALL lower(x) = 'a'"),
        ("ALL NOT lower(x) = 'a'", "NOT lower(x) = 'a'"),
        ("NOT ALL a < b", "NOT ALL a < b"),
        ("ANY sounds_like(x, 'a')", "sounds_like(x, 'a')"),
        ("Sounds_Like(x, my.name)", "sounds_like(x, my.name)"),
        ('"sounds_like"(x, y)', "sounds_like(x, y)"),
        ('LENGTH("odd name") < 3', 'length("odd name") < 3'),
        ("count(tags) > 2", "count(tags) > 2"),
        ("name matches 'it''s'", "name MATCHES 'it''s'"),
        ("matches MATCHES 'a' AND matches > a", "matches MATCHES 'a' AND matches > a"),
        ("t + 60 > TIMESTAMP '2026-01-01T00:00:00Z'", "t + 60 > TIMESTAMP '2026-01-01T00:00:00Z'"),
        ("distance(p, point(8, -47)) < 5", "distance(p, point(8, -47)) < 5"),
        ("p WITHIN polygon(8 -47, 9 -47, 8 +48) AND a < b", "p WITHIN polygon(8 -47, 9 -47, 8 48) AND a < b"),
        ("p WITHIN polygon((8 47), (9 47), (8 48)) AND a < b", "p WITHIN polygon(8 47, 9 47, 8 48) AND a < b"),
        ("p WITHIN polygon((8 47, 9 47, 8 48)) AND a < b", "p WITHIN polygon(8 47, 9 47, 8 48) AND a < b"),
        ("within(p, circle(myloc, 2 * 250)) AND a < b", "p WITHIN circle(myloc, 500) AND a < b"),
        ("sender.battery < limit", "sender.battery < limit"),
        ("a < b AND x IS NULL AND y IS NOT NULL", "a < b AND x IS NULL AND y IS NOT NULL"),
        (r"x = U&'a\000Ab' AND a < b", r"x = U&'a\000Ab' AND a < b"),
    ],
)
def test_a_text_is_read_and_printed(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(FilterSyntaxError):
            query_of(text)
        return
    assert query_of(text).text == printed
    assert query_of(printed) == query_of(text)


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("speed > 10 * 3", "speed > 30"),
        ("speed > -(10 - 40)", "speed > 30"),
        ("x = lower('ANN')", "x = 'ann'"),
        ("x = round(2.5) + abs(-1)", "x = 4"),
        ("x < 7 / 2", "x < 3.5"),
        ("x = 7 % -4", "x = 3"),
        ("x = -7 % 4", "x = -3"),
        ("x < 18446744073709551615 + 1", "x < 1.8446744073709552e19"),
        ("t > TIMESTAMP '2026-01-01T00:00:00Z' + 60", "t > TIMESTAMP '2026-01-01T00:01:00Z'"),
        ("x = TIMESTAMP '2026-01-01T00:01:00Z' - TIMESTAMP '2026-01-01T00:00:00Z'", "x = 60.0"),
        ("1 + 1 < x <= 2 * 3 AND (y = 1)", "2 < x <= 6 AND y = 1"),
        ("p WITHIN circle(8, 47, 100 * 5)", "p WITHIN circle(8, 47, 500)"),
        ("x IN (1 + 1, 3)", "x IN (2, 3)"),
        ("(x) = 5", "x = 5"),
    ],
)
def test_what_is_constant_is_calculated_and_leaves_a_filter(text: str, filter: str) -> None:
    assert query_of(text) == query_of(filter)
    assert query_of(text).routable == parse(filter)
    assert query_of(text).test is None


# text, column, a piece of the message, a piece of what was expected
ERRORS = [
    ("", 1, "the filter is empty", "an attribute"),
    ("a < b AND", 10, "ends too early", "NOT or ("),
    ("a + 1 >", 8, "ends too early", "an attribute, a value, a function or ("),
    ("a <\n b c", 4, "c has no place", "AND, OR or the end of the filter"),
    ("(a < b", 7, "ends too early", ")"),
    ("a < b)", 6, ") has no place", "the end of the filter"),
    ("a < b AND c == d", 14, "use = instead of ==", "an attribute"),
    ("a + 1 = NULL", 9, "NULL is not a value", ""),
    ("lower(x", 8, "ends too early", "a comma or )"),
    ("near(x, 5) > a", 1, "there is no function near", "abs, count, distance, length, lower, round, sounds_like"),
    ("lower(x, y) = 'a'", 1, "lower takes 1 argument: lower(text)", ""),
    ("lower() = 'a'", 1, "lower takes 1 argument", ""),
    ("round(x, 1, 2) = 1", 1, "round takes 1 to 2 arguments", ""),
    ("distance(p) < 5", 1, "distance takes 2 arguments: distance(point, point)", ""),
    ("lower(5) = 'a'", 7, "lower takes a text, and 5 is a number", "a text"),
    ("length(a + b) = 2", 8, "length takes a text, and a … is a number or time", "a text"),
    ("distance(p, 'Bern') < 5", 13, "takes a point, and 'Bern' is a text", "a point"),
    ("count(5) > 1", 1, "count takes one attribute", "an attribute"),
    ("count(a + b) > 1", 1, "count takes one attribute", "an attribute"),
    ("a + 'x' > 1", 5, "+ takes numbers and times, and 'x' is a text", "a number"),
    ("a * TIMESTAMP '2026-01-01T00:00:00Z' > 1", 5, "* takes numbers, and TIMESTAMP is a time", ""),
    ("-lower(a) > 1", 2, "- takes numbers, and lower(…) is a text", ""),
    ("lower(a) = 5", 12, "lower(…) is a text, and 5 is a number: these never compare", ""),
    ("lower(a) < length(b)", 12, "these never compare", ""),
    ("a + 1 < TRUE", 9, "these never compare", ""),
    ("sounds_like(a, b) < TRUE", 21, "TRUE is a bool, which has no order", ""),
    ("length(a) LIKE 'x'", 1, "length(…) is a number, and never lies in what follows", ""),
    ("length(a) MATCHES 'x'", 1, "MATCHES needs a text, and length(…) is a number", ""),
    ("a MATCHES b", 11, "MATCHES takes a regular expression that is written out", "a 'text'"),
    ("a MATCHES '('", 11, "no regular expression", ""),
    ("a MATCHES '(?=b)'", 11, "invalid perl operator", ""),
    (f"a MATCHES '{'a' * 1025}'", 11, "a regular expression of 1025 characters", ""),
    ("a MATCHES '((a{30}){30}){30}'", 11, "no regular expression", ""),
    ("a MATCHES '(a{40}b){25}'", 11, "instructions: at most 1000", ""),
    ("1 / 0 < a", 3, "1 / 0 has no result", ""),
    ("round(a, 1) > round(1, 99)", 15, "round(…) has no result", "round(number, digits)"),
    ("length(a)", 1, "length(…) is not a condition", "a comparison"),
    ("a + b", 1, "a … is not a condition", "a comparison"),
    ("sounds_like('a', 'b')", 1, "names no attribute of the event", "an attribute"),
    ("my.x + 1 > 2", 10, "names no attribute of the event", "an attribute"),
    ("5 < 6 + 1", 3, "neither side of < is an attribute", ""),
    ("a < (b = 1)", 5, "a condition stands where a value is expected", ""),
    ("(a = 1) + 1 > b", 9, "a condition stands where a value is expected", ""),
    ("lower(a) IS NULL", 1, "IS NULL needs an attribute", ""),
    ("lower(a) LIKE my.p", 15, "only with an attribute on the left", ""),
    ("sounds_like(a, b) WITHIN place('bern')", 26, "no places are known here", ""),
    ("a < b AND p WITHIN place('bern')", 20, "no places are known here", ""),
    ("circle(1, 2, 3) < a + 1", 1, "circle(…) is a set, and no value", ""),
    ("p WITHIN circle(1, 2, a + 1)", 23, "the radius of circle must be a number", "a number"),
    ("1 < a + b > 5", 11, "runs one way", ""),
    ("ALL (a < b OR c < d)", 1, "ALL must be followed by one comparison", ""),
    ("a < b AND x BETWEEN 1 AND 'a'", 21, "mixes two kinds", ""),
    ("a < b AND x < TRUE", 15, "has no order", ""),
    ("a < b AND ANY TRUE", 11, "ANY must be followed by a comparison of an attribute", ""),
    ("a ~ 'x'", 3, "write LIKE, or MATCHES", ""),
    ("a < b && c", 7, "write AND", ""),
    ("a < b AND c = 'x", 15, "has no end", ""),
    ("a < other.x", 5, "there is no namespace other", "my or sender"),
    ("a < \0", 5, r"the character '\x00'", ""),
    ("a + '\ud800' > b", 5, "lone surrogate", ""),
    ("a < b AND x NOT 5", 17, "5 has no place here", "BETWEEN, IN, LIKE, MATCHES or WITHIN"),
    ("a < b AND x IS RED", 16, "RED is not a kind", "NUMBER"),
    ("a < b AND p WITHIN polygon(8 - 47, 9 47)", 32, "47 has no place", "a number"),
]


@pytest.mark.parametrize(("text", "column", "message", "expected"), ERRORS)
def test_an_error_says_where_what_and_what_was_expected(text: str, column: int, message: str, expected: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        query_of(text)
    told = str(caught.value)
    assert (caught.value.line, caught.value.column) == (1 + text.count("\n"), column), told
    assert message in caught.value.message
    assert expected in told.rpartition("expected ")[2]
    assert len(told) < 600


DEEP = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEEP + "a < b" + ")" * DEEP,
        "a < " + "(" * DEEP + "b" + ")" * DEEP,
        "a < " + "abs(" * 5_000 + "b" + ")" * 5_000,
        "NOT (" * 5_000 + "a < b" + ")" * 5_000,
    ],
    ids=["conditions", "values", "calls", "not"],
)
def test_what_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError, match=f"nests at most {NESTING_MAX} deep"):
        query_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a < b OR " + "x" * TEXT_BYTES_MAX, f"more than {TEXT_BYTES_MAX} bytes has no exact part"),
        (" OR ".join(["a<b"] * 4_000), f"at most {TERMS_MAX} terms"),
        ("a < " + "+".join(["b"] * DEEP), f"at most {TERMS_MAX} terms"),
        (f"x IN ({','.join(['a'] * DEEP)})", f"at most {TERMS_MAX} terms"),
        (f"{'+'.join(['a'] * 200)} IN ({','.join(['b'] * DEEP)})", f"at most {TERMS_MAX} terms"),
    ],
    ids=["text", "comparisons", "sum", "list", "list of a long term"],
)
def test_what_is_too_long_is_refused(text: str, message: str) -> None:
    with pytest.raises(FilterTooBig, match=message):
        query_of(text)


def test_what_is_long_and_allowed_is_read_and_tested() -> None:
    total = "+".join(["b"] * 3_000)
    assert query_of(f"a < {total}").matches(event({"a": 2_999, "b": 1}))
    assert query_of("NOT " * 5_001 + "a < b").text == "NOT a < b"
    assert query_of(f"a < {'-' * 10_001}b").text == "a < 0 - b"
    depth = NESTING_MAX
    assert query_of(f"a < {'(' * depth}b{')' * depth}").text == "a < b"


def test_the_filter_language_knows_which_functions_belong_to_the_exact_part() -> None:
    assert set(EXACT_FUNCTIONS) == {*FUNCTIONS, COUNT}
