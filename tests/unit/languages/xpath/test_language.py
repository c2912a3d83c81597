"""XPath 1.0 as a language: what lxml finds, what filters know of it, what is refused."""

import pickle

import pytest

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig, QueryTooCostly
from godwit.filters import parse
from godwit.languages import Operator, Subject, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.languages.xpath.parsing import understood

ALERT = xml_event(
    b"<alert xmlns='urn:cap'><sender>x@y</sender><info><severity>Severe</severity><n>1.50</n></info><info/></alert>"
)
PLAIN = xml_event(b"<a k='1'><b>5</b><b>x</b><c/></a>")
CAP = "declare namespace c = 'urn:cap'; "


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("a/b", True),
        ("/a/b = 'x'", True),
        ("./a[b > 4]", True),
        ("b", False),
        ("count(a/b) = 2", True),
        ("a[not(d)]/c", True),
        ("@k", False),
        ("a/@k = 1", True),
        ("'text'", True),
        ("''", False),
        ("0", False),
        ("number('x')", False),
        ("(a | q)/b", True),
        ("string(a/b[2]) = 'x' and a/b[1] = 5", True),
        ("local-name() = 'a'", True),
    ],
)
def test_an_expression_is_asked_of_the_document(query: str, wanted: bool) -> None:
    assert parse_query(query, "xpath").matches(PLAIN) == wanted


def test_prefixes_are_bound_in_front_of_the_expression() -> None:
    assert parse_query(f"{CAP}/c:alert/c:info[c:severity = 'Severe']", "xpath").matches(ALERT)
    assert parse_query(f"{CAP}c:alert[c:info/c:n < 1.6]", "xpath").matches(ALERT)
    assert not parse_query("/alert", "xpath").wants(Subject(ALERT))
    assert parse_query("/*[local-name() = 'alert']", "xpath").matches(ALERT)


@pytest.mark.parametrize(
    ("query", "filter"),
    [
        ("/a/b = 'x'", "a/b IN ('', ' ', 'x')"),
        ("a[b > 3]/c", "a/b > 3 AND a/c IS NOT NULL"),
        ("a[contains(@k, 'x')]", "a/@k LIKE '%x%' OR a/@k = ' '"),
        ("a[count(b) > 2]", "a/b IS NOT NULL"),
        ("//a = 'x'", "\"//a\" IN ('', ' ', 'x')"),
        ("//a[b = 'x']", "\"//a\" IS NOT NULL AND \"//b\" IN ('', ' ', 'x')"),
        ("//a[@k = 'x']", "\"//a/@k\" IN ('', ' ', 'x')"),
        ("/a//b[c > 3]", 'a IS NOT NULL AND "//b" IS NOT NULL AND "//c" > 3'),
        ("a/*/b", 'a IS NOT NULL AND "//b" IS NOT NULL'),
        ("//*[local-name() = 'a'][. = 'x']", "\"//a\" IN ('', ' ', 'x')"),
        ("//*", "xml:namespace IS NOT NULL"),
        ("//@k", "xml:namespace IS NOT NULL"),
        ("a//text()", "a IS NOT NULL"),
        ("not(//a)", '"//a" IS NULL OR "xml:namespace" IS NULL OR NOT ALL "xml:namespace" = \'\''),
        ("a[1]/b[last()]", "a/b IS NOT NULL"),
        (f"{CAP}/c:alert/c:info", "alert/info IS NOT NULL AND xml:namespace = 'urn:cap'"),
        ("/*[local-name() = 'a']/b", "a/b IS NOT NULL"),
        ("a[b/text() = 'y']", "a/b IN ('', ' ', 'y')"),
        ("sum(a/b) > 3", "xml:namespace IS NOT NULL"),
    ],
)
def test_what_is_routed_by(query: str, filter: str) -> None:
    assert parse_query(query, "xpath").routable == parse(filter)


def test_a_query_can_be_carried_to_another_process() -> None:
    query = parse_query(f"{CAP}/c:alert", "xpath")
    again = pickle.loads(pickle.dumps(query))
    assert again == query
    assert again.matches(ALERT)


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("", 1, 1, "the expression is empty"),
        ("a[", 1, 3, "the expression ends too early"),
        ("a\n[b c]", 2, 4, "c has no place here"),
        ("a[foo(b)]", 1, 3, "there is no function foo(): operators that users defined are none"),
        ("re:test(a, 'x')", 1, 1, "the prefix re is not bound"),
        ("p:a", 1, 1, "the prefix p is not bound to a namespace"),
        ("a[$x]", 1, 3, "variables have no value here"),
        ("bad::a", 1, 1, "there is no axis bad"),
        ("a['x]", 1, 3, "the text that begins here has no end"),
        ("a ! b", 1, 3, "the character '!' has no meaning here"),
    ],
)
def test_an_error_tells_the_place(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(FilterSyntaxError) as wrong:
        parse_query(query, "xpath")
    assert (wrong.value.line, wrong.value.column) == (line, column)
    assert message in wrong.value.message


@pytest.mark.parametrize(
    "query", ["a" + "[b]" * 10_000, "a[" * 500 + "a" + "]" * 500, "a" + " or a" * 9_000, "x" * 40_000]
)
def test_a_query_beyond_the_limits_is_refused(query: str) -> None:
    with pytest.raises(FilterTooBig):
        parse_query(query, "xpath")


@pytest.mark.parametrize(
    ("query", "degree"),
    [
        ("a/b[c]", 1),
        ("//a", 1),
        ("//*//*//*", 3),
        ("//a[.//b]", 2),
        ("//a[b = //c]", 2),
        ("a/ancestor::*/following::b", 2),
        ("a[//b[//c]]", 2),
        ("a/b[../b]", 2),
        ("a/b[parent::a/b[../b]]", 3),
        ("a/b[. = /a/b]", 2),
        ("(a/b)[../b]", 2),
        ("a[b/c[d]]", 1),
        ("a/b/../c", 1),
        ("//b/..", 2),
    ],
)
def test_how_evaluation_grows_is_known_before_it_begins(query: str, degree: int) -> None:
    assert understood(query).degree == degree


@pytest.mark.parametrize(
    "query",
    [
        *("//*//*//*", "//*[//*[//*]]", "//b[c = //c]", "a/b[../b[../b = 'q']]", "a/b[. = /a/b]"),
        *("//*[translate(., 'xy', 'XY') = 'Q']" + "[translate(., 'xy', 'XY') = 'Q']" * 9, "//*" + "[*]" * 1_000),
    ],
)
def test_a_test_that_would_take_too_long_is_not_begun(query: str) -> None:
    event = xml_event(b"<a>" + (b"<b>" * 20 + b"<c>x</c>" + b"</b>" * 20) * 200 + b"</a>")
    with pytest.raises(QueryTooCostly):
        parse_query(query, "xpath").wants(Subject(event))


@pytest.mark.parametrize(
    "query",
    [
        f"translate(string(/), '{'b' * 30_000}a', 'x') = 'y'",
        *(f"{search}(/a/b, '{'a' * 3_900}b')" for search in ("contains", "substring-before", "substring-after")),
        "contains(/a/b, /a/c)",
        "translate(/a/b, /a/c, 'x') = 'y'",
        "contains(/a/b, concat('x', 'y'))",
    ],
    ids=lambda query: query[:20],
)
def test_a_search_that_may_be_slow_is_not_begun_with_few_steps(query: str) -> None:
    event = xml_event(b"<a><b>%b</b></a>" % (b"a" * 7_900))
    with pytest.raises(QueryTooCostly):
        parse_query(query, "xpath").wants(Subject(event, steps_max=500))


@pytest.mark.parametrize(
    "query",
    [
        "contains(/a/b, 'a flash flood warning is in effect until further notice')",
        "translate(/a/b, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') = 'x'",
    ],
    ids=lambda query: query[:20],
)
def test_a_search_for_a_short_text_takes_few_steps(query: str) -> None:
    event = xml_event(b"<a><b>%b</b></a>" % (b"a" * 1_000))
    assert not parse_query(query, "xpath").wants(Subject(event, steps_max=1_000))


def test_an_operator_of_a_user_is_a_function() -> None:
    known = {"as_long_as": Operator("as_long_as", lambda left, right: len(left) == len(right))}
    query = parse_query("a[as_long_as(b, 'y')]", "xpath", known)
    assert query.matches(PLAIN)
    assert query.routable == parse("a/b IS NOT NULL")
    assert not parse_query("a[as_long_as(b, 'yyy')]", "xpath", known).matches(PLAIN)


def test_an_operator_that_raises_fails_the_test_and_says_why() -> None:
    known = {"bad": Operator("bad", lambda left: 1 / 0)}
    with pytest.raises(FilterError, match="the operator 'bad' failed: ZeroDivisionError"):
        parse_query("a[bad(b)]", "xpath", known).matches(PLAIN)


def test_what_is_no_document_is_not_wanted() -> None:
    assert not parse_query("not(a)", "xpath").wants(Subject(xml_event(b"<b/>", content_type="text/plain")))


def test_a_long_expression_takes_little_memory_and_knows_the_same() -> None:
    long = " or ".join(f"//b={number}" for number in range(100))
    query, short = parse_query(long, "xpath"), parse_query("//b=1", "xpath")
    assert query.test.readings == []  # type: ignore[union-attr]
    assert short.test.readings != []  # type: ignore[union-attr]
    assert query.test.ready() is not query.test.ready()  # type: ignore[union-attr]
    assert short.test.ready() is short.test.ready()  # type: ignore[union-attr]
    certainty = query.certainty()
    assert certainty is not None
    assert query.certainty() == certainty
    assert query.test.readings == []  # type: ignore[union-attr]


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ufffe"])
def test_a_character_that_no_document_has_is_a_syntax_error_with_its_place(character: str) -> None:
    with pytest.raises(FilterSyntaxError, match="a character that XML does not have") as wrong:
        parse_query(f"/bus[line = '5'\n or line = '{character}']", "xpath")
    assert (wrong.value.line, wrong.value.column) == (2, 13)
