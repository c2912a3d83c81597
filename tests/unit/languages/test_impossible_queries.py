"""A query that nothing can match says so, in every language."""

import pytest

from godwit.languages import parse_query


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("filter", "FALSE"),
        ("xpath", "/a[false()]"),
        ("xpath", "false()"),
        ("xpath", "not(true())"),
        ("xpath", "a[b and false()]"),
        ("xpath", "//a[false()]/b"),
        ("xql", "a[false()]"),
        ("xql", "$not$ true()"),
        ("xql", "a[b $and$ false()]"),
        ("filter", "a > 5 AND NOT a > 5"),
        ("cesql", "FALSE"),
        ("cesql", "1 = 2"),
        ("cesql", "type = 'x' AND FALSE"),
        ("cesql", "type < 'x'"),
        ("cql2-text", "FALSE"),
        ("cql2-text", "1 = 2"),
        ("cql2-text", "kind = 'x' AND FALSE"),
        ("cql2-json", '{"op": "=", "args": [1, 2]}'),
    ],
)
def test_a_query_that_nothing_can_match_says_so(language: str, text: str) -> None:
    assert parse_query(text, language).is_impossible


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("filter", "a = 1 AND a = 2"),
        ("xpath", "/a[b = 1 and b = 2]"),
        ("xql", "a[b = 1 $and$ b = 2]"),
        ("cesql", "a = 'x' AND a = 'y'"),
        ("cql2-text", "a = 1 AND a = 2"),
    ],
)
def test_an_attribute_may_have_two_values_so_this_is_possible(language: str, text: str) -> None:
    assert not parse_query(text, language).is_impossible
