"""XQL texts: spellings, binding, printing, errors."""

import pytest

from godwit.errors import FilterSyntaxError, FilterTooBig
from godwit.languages.xql.parsing import parsed_query
from godwit.languages.xql.printing import printed_query
from godwit.languages.xql.tree import And, Compare, Element, Filtered, Index, Literal, Not, Or, Path, Step

LISTING_2 = [
    "./User/Role",
    "./User?[./Address/Zip $gt$ 1040 ]/Role",
    "./User?[./Address/Zip $gt$ 1040 $and$\nSex='female' ]/Role",
    "./User?[($all$ ./Address/Zip $gt$ 1040) $and$\nSex='female' ][$any$ ./Role='manager']",
]


@pytest.mark.parametrize("query", LISTING_2)
def test_the_examples_of_the_paper_are_read(query: str) -> None:
    said = parsed_query(query)
    assert parsed_query(printed_query(said)) == said


@pytest.mark.parametrize(
    ("later", "of_1998"),
    [
        ("a and b or not(c)", "a $and$ b $or$ $not$ c"),
        ("a[not b]", "a[$not$ b]"),
        ("a[all b = 3]", "a[$all$ b $eq$ 3]"),
        ("a[any b = 3]", "a[$any$ b = 3]"),
        ("a union b intersect c", "a $union$ b $intersect$ c"),
        ("a | b", "a $union$ b"),
        ("a ieq 'x' and b contains 'y'", "a $ieq$ 'x' $and$ b $contains$ 'y'"),
        ("a[1 to 2]", "a[1 $to$ 2]"),
        ("a?[b]?[c]", "a[b][c]"),
        ('a = "x"', "a $eq$ 'x'"),
        ("$any$ a = 1", "a = 1"),
        ("((a))", "a"),
        ("(a/b)/c", "a/b/c"),
    ],
)
def test_spellings_that_mean_the_same(later: str, of_1998: str) -> None:
    assert parsed_query(later) == parsed_query(of_1998)


def test_words_without_dollars_may_be_names() -> None:
    assert parsed_query("and/or[not]") == Path(
        False, (Step(Element("and")), Step(Filtered(Element("or"), (Element("not"),))))
    )
    assert parsed_query("all/x") == Path(False, (Step(Element("all")), Step(Element("x"))))


def test_operators_bind_as_the_proposal_says() -> None:
    a, b, c = Element("a"), Element("b"), Element("c")
    assert parsed_query("a $or$ b $and$ $not$ c") == Or((a, And((b, Not(c)))))
    assert parsed_query("$not$ a = 1") == Not(Compare("eq", a, Literal(1)))
    assert parsed_query("(a/b)[0]") == Filtered(Path(False, (Step(a), Step(b))), (Index(((0, 0),)),))
    assert parsed_query("a/b[0]") == Path(False, (Step(a), Step(Filtered(b, (Index(((0, 0),)),)))))


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("", 1, 1, "the query is empty"),
        ("a[", 1, 3, "the query ends too early"),
        ("a\n[b c]", 2, 4, "c has no place here"),
        ("a[]", 1, 3, "] has no place here"),
        ("a = 'x", 1, 5, "the text that begins here has no end"),
        ("a & b", 1, 3, "the character '&' has no meaning here"),
        ("a $foo$ 3", 1, 3, "there is no operator $foo$: operators that users defined are sounds_like"),
        ("foo(a)", 1, 1, "there is no function foo(): operators that users defined are sounds_like"),
        ("a!ancestor(b)", 1, 3, "ancestor() is not a method"),
        ("a/@b/c", 1, 5, "an attribute holds no elements"),
        ("$all$ a", 1, 8, "the query ends too early"),
        ("a[3 $to$ 1]", 1, 10, "a range from 3 to 1 is empty"),
        ("a[0, x]", 1, 6, "x has no place here"),
        ("text(1)", 1, 1, "text() has 1 arguments: 0 are allowed"),
        ("'x'", 1, 4, "the query ends too early"),
    ],
)
def test_an_error_tells_the_place(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(FilterSyntaxError) as wrong:
        parsed_query(query, ["sounds_like"])
    assert (wrong.value.line, wrong.value.column) == (line, column)
    assert message in wrong.value.message


def test_an_unknown_operator_is_answered_with_the_known_ones() -> None:
    with pytest.raises(FilterSyntaxError, match="sounds_like") as wrong:
        parsed_query("a $foo$ 3", ["sounds_like"])
    assert "$sounds_like$" in wrong.value.expected


@pytest.mark.parametrize(
    "query",
    [
        "a" + "[b]" * 10_000,
        "a[" + " $and$ ".join(["b"] * 10_000) + "]",
        "a/" * 10_000 + "a",
        "(" * 1_000 + "a" + ")" * 1_000,
        "a[" * 1_000 + "a" + "]" * 1_000,
        "$not$ " * 5_000 + "a",
        "x" * 40_000,
    ],
)
def test_a_query_beyond_the_limits_is_refused(query: str) -> None:
    with pytest.raises(FilterTooBig):
        parsed_query(query)


def test_long_chains_within_the_limits_are_read_and_printed() -> None:
    for query in ("a" + "[b]" * 900, "/".join(["a"] * 900), " $or$ ".join(["a"] * 900), "$not$ " * 900 + "a"):
        said = parsed_query(query)
        assert parsed_query(printed_query(said)) == said
