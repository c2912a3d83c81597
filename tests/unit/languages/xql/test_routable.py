"""What an XQL query is routed by."""

import pytest

from godwit.filters import parse, some, starts_with
from godwit.languages import Operator, parse_query
from godwit.languages.xml_documents import xml_event


@pytest.mark.parametrize(
    ("query", "filter"),
    [
        ("./User/Role", "User/Role IS NOT NULL"),
        ("./User?[./Address/Zip $gt$ 1040 ]/Role", "User/Address/Zip > 1040 AND User/Role IS NOT NULL"),
        ("User/Sex = 'female'", "User/Sex IN ('', ' ', 'female')"),
        ("User/@id = 'x'", "User/@id IN ('', ' ', 'x')"),
        ("User/Zip = '1050'", "User/Zip IN ('', ' ', 1050)"),
        ("User/Zip = '1050.0'", "User/Zip IN ('', ' ', '1050.0')"),
        ("User/Zip $ne$ 3", "User/Zip < 3 OR User/Zip > 3"),
        ("1040 < User/Zip", "User/Zip > 1040"),
        ("User/Zip!text() $ge$ 3", "User/Zip >= 3"),
        ("User[Name $contains$ 'a c']", "User/Name LIKE '%a c%' OR User/Name = ' '"),
        ("User[Name $contains$ 'a  c']", "User/Name LIKE '%a  c%' OR User/Name IN ('', ' ')"),
        ("User[Name $contains$ ' c']", "User/Name LIKE '% c%' OR User/Name IN ('', ' ')"),
        (
            "User[Zip $contains$ '048']",
            """User/Zip LIKE '%048%' OR User/Zip = ' '
            OR (User/Zip IS NUMBER AND (xml:numerals IS NULL OR NOT xml:numerals = 'Zip'))""",
        ),
        ("User[Name $contains$ 'abc']", "User/Name LIKE '%abc%' OR User/Name = ' '"),
        ("User[a!count() $ge$ 1]", "User/a IS NOT NULL"),
        ("User[a $ieq$ 'X']/b[0]", "User/a IS NOT NULL AND User/b IS NOT NULL"),
        ("User/(a | b)", "User/a IS NOT NULL OR User/b IS NOT NULL"),
        ("User[a = b]", "User/a IS NOT NULL AND User/b IS NOT NULL"),
        ("User//x[y = 'z']", "User IS NOT NULL AND \"//x\" IS NOT NULL AND \"//y\" IN ('', ' ', 'z')"),
        ("//x", '"//x" IS NOT NULL'),
        ("//Zip[. = '1040']", "\"//Zip\" IN ('', ' ', 1040)"),
        ("//x[@id = 'a']", "\"//x/@id\" IN ('', ' ', 'a')"),
        ("User/*/x > 3", 'User IS NOT NULL AND "//x" > 3'),
        ("//*", "xml:namespace IS NOT NULL"),
        (
            "User/Address[$not$ Zip]",
            """User/Address IS NOT NULL
            AND (User/Address/Zip IS NULL OR xml:repeated = 'User/Address' OR xml:prefix IS NOT NULL)""",
        ),
        (
            "$not$ User/Zip = 3",
            "User/Zip IS NULL OR NOT User/Zip = 3 OR User/Zip IN ('', ' ') OR xml:prefix IS NOT NULL",
        ),
        (
            "$all$ x $lt$ 5",
            "x IS NULL OR NOT x >= 5 OR x IN ('', ' ') OR xml:prefix IS NOT NULL",
        ),
    ],
)
def test_what_is_routed_by(query: str, filter: str) -> None:
    assert parse_query(query, "xql").routable == parse(filter)


def test_the_author_of_an_operator_may_say_what_it_is_routed_by() -> None:
    prefixed = Operator("like_it", lambda left, right: left == right, lambda path, text: some(path, starts_with(text)))
    told = {"like_it": prefixed}
    untold = {"like_it": Operator("like_it", lambda left, right: left == right)}
    assert parse_query("a/@b $like_it$ 'x'", "xql", told).routable == parse("a/@b LIKE 'x%' OR a/@b IN ('', ' ')")
    assert parse_query("a/@b $like_it$ 'x'", "xql", untold).routable == parse("a/@b IS NOT NULL")
    assert parse_query("$not$ a/@b $like_it$ 'x'", "xql", told).routable == parse("xml:namespace IS NOT NULL")


@pytest.mark.parametrize(
    "query",
    [
        "/".join(["a"] * 900),
        "/".join(["(a | b)"] * 60),
        "a" + "[b]" * 900,
        "a[b/" * 39 + "c" + "]" * 39,
        "a[" + " $and$ ".join([f"$not$ ($all$ b = {n})" for n in range(150)]) + "]",
        "a[" + "$not$ (b = 1 $and$ " * 38 + "c" + ")" * 38 + "]",
        f"a = '{'x' * 32_000}'",
    ],
)
def test_large_queries_have_a_filter(query: str) -> None:
    said = parse_query(query, "xql")
    assert not said.matches(xml_event(b"<z/>"))
