"""LIKE: short texts piece by piece, long ones and many all at once, in as many operations as the pattern is long."""

import re
from typing import Any

import pytest

from godwit.filters import parse
from godwit.filters.like_patterns import SEARCH_STEPS_MAX, Plan, TextRow, matches, planned, row_of, segments_of
from godwit.filters.sets import Like, complement, like

AT_ONCE = Plan(-1)
CASES = [
    ("%q1_z%", "q1q1xz", True),
    ("%q1_z%", "q1q1zx", False),
    ("a_%_b", "axyb", True),
    ("a_%_b", "axb", False),
    ("_", "😀", True),
    ("__", "😀", False),
    ("%é_", "caféx", True),
    ("%a%a_b%c", "aaxbyc", True),
    ("%a%a_b%c", "aabyc", False),
    ("%\\%_x%", "50%!x", True),
    ("a%b%", "b", False),
    ("%_%", "", False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_pattern_matches_the_same_piece_by_piece_and_all_at_once(pattern: str, text: str, expected: bool) -> None:
    segments = segments_of(pattern)
    assert matches(text, segments, planned(segments)) is expected
    assert matches(text, segments, AT_ONCE) is expected


def test_many_texts_are_looked_at_in_one_row() -> None:
    segments = segments_of("a%_b")
    texts = ("ab", "axb", "xab", "", "a😀b")
    assert row_of(texts).some(segments)
    assert not row_of(texts).every(segments)
    assert row_of(("axb", "ayyb")).every(segments)
    assert not row_of(("a", "xb")).some(segments), "a match does not run from one text into the next"
    assert not row_of(()).some(segments)
    assert row_of(()).every(segments)


def test_an_attribute_with_many_values_is_asked_as_one_with_few() -> None:
    pattern = like("%q1_z%")
    assert isinstance(pattern, Like)
    values: tuple[Any, ...] = (*(f"x{i}" for i in range(100)), 5, "q1_z")
    assert pattern.contains_some(values)
    assert not pattern.contains_some(values[:-1])
    assert not pattern.contains_every(values)
    assert pattern.contains_every(("q1.z",) * 50)
    assert not pattern.contains_every(("q1.z",) * 50 + (5,))
    assert complement(pattern).contains_some(values)
    assert not complement(pattern).contains_every(values)
    assert parse("a NOT LIKE '%q1_z%'").holds({"a": values[:-1]})


def test_a_long_text_is_read_once_for_each_character_of_all_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event of 300 KB against a hundred patterns."""
    looks: list[int] = []
    sound = TextRow._look_for

    def counted(row: TextRow, code: int) -> int:
        looks.append(code)
        return sound(row, code)

    monkeypatch.setattr(TextRow, "_look_for", counted)
    values, single = tuple("q1" * 30_000 + str(i) for i in range(5)), "q1" * 20_000
    for i in range(100):
        assert not like(f"%q{i}_z%").contains_some(values)
        assert not like(f"%q{i}_z%").contains(single)
    assert len(looks) <= 2 * 13  # ten digits, q, z, and the symbol of a %


def test_no_regular_expression_gets_a_long_text_or_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """`%a_aaa…ab%` takes a step for each character of both: so one of them is short."""
    seen: list[int] = []
    sound = re.compile

    class Searched:
        def __init__(self, pattern: str) -> None:
            self.pattern, self.length = sound(pattern), len(pattern)

        def search(self, text: str, at: int, end: int) -> Any:
            seen.append(len(text))
            return self.pattern.search(text, at, end)

        match = search

    monkeypatch.setattr(re, "compile", Searched)
    short = like("%a_" + "a" * 28 + "_b%")
    for length in (30, 500, 513, 60_000):
        assert not short.contains("b" + "a" * length), "which has every run of the pattern, but for the end"
    assert seen == [31, 501], SEARCH_STEPS_MAX
    seen.clear()
    assert not like("%a_" + "a" * 900 + "b%").contains("a" * 1_000)
    assert not seen
