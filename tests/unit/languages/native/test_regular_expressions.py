"""Regular expressions: bounded in size and steps, and what filters can tell of them."""

import sys

import pytest

from godwit.errors import BadValue
from godwit.filters import parse
from godwit.languages.native import regular_expressions
from godwit.languages.native.regular_expressions import regular_expression, texts_around


@pytest.mark.parametrize(
    ("pattern", "around", "is_all"),
    [
        ("^ann$", "x = 'ann'", True),
        ("^ann", "x LIKE 'ann%'", True),
        ("ann$", "x LIKE '%ann'", True),
        ("ann", "x LIKE '%ann%'", True),
        ("", "x IS TEXT", True),
        ("^", "x IS TEXT", True),
        ("^$", "x = ''", True),
        (r"^a\.b\/\_", "x LIKE 'a.b/\\_%'", True),
        ("^a.b", "x LIKE 'a%'", False),
        ("^ab*c", "x LIKE 'a%'", False),
        ("^ab?c", "x LIKE 'a%'", False),
        ("^ab+c", "x LIKE 'ab%'", False),
        ("^ab{0}c", "x LIKE 'a%'", False),
        ("^a*", "x IS TEXT", False),
        ("^ab|c", "x IS TEXT", False),
        ("^(ab)?c", "x IS TEXT", False),
        (r"^\d5", "x IS TEXT", False),
        (r"ab\d", "x LIKE '%ab%'", False),
        ("(?i)^ab", "x IS TEXT", False),
        ("^(?i)ab", "x IS TEXT", False),
        ("(?m)^ab", "x IS TEXT", False),
        ("^*ab", "x IS TEXT", False),
        ("[^a]", "x IS TEXT", False),
        ("é$x", "x LIKE '%é%'", False),
    ],
)
def test_what_a_filter_can_tell(pattern: str, around: str, is_all: bool) -> None:
    assert texts_around(pattern) == (parse(around).values, is_all)  # type: ignore[union-attr]


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(a*)*b", "(a|aa)+$", "(.*)*y"])
def test_a_catastrophic_pattern_is_searched_for_in_a_few_steps(pattern: str) -> None:
    expression = regular_expression(pattern)
    assert not expression.is_found_in("x" * 60_000 + "z")
    assert expression.steps("x" * 60_000) < 60_000


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a" * 1_025, "1025 characters: at most 1024"),
        (r"\pL{900}", "too large"),
        ("a{1001}", "invalid repetition size"),
        ("(a{40}b){25}", "instructions: at most 1000"),
        ("(", "missing"),
        (r"(a)\1", "invalid escape"),
        ("a(?=b)", "invalid perl operator"),
    ],
)
def test_a_pattern_that_is_none_or_too_large_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        regular_expression(pattern)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(BadValue, match="need google-re2: pip install 'godwit\\[languages\\]'"):
        regular_expressions.RegularExpression("a")
