"""Spellings of a text: every text that a change of case makes into it, and no other."""

import sys
from collections.abc import Callable

import pytest

from godwit.languages.folded_texts import CASED_MAX, texts_folded_to

FOLDS = (str.lower, str.upper, str.casefold)


@pytest.mark.parametrize("fold", FOLDS)
def test_what_a_change_of_case_has_made_it_leaves_as_it_is(fold: Callable[[str], str]) -> None:
    for code in range(CASED_MAX):
        assert all(fold(each) == each for each in fold(chr(code))), hex(code)


@pytest.mark.parametrize("fold", FOLDS)
def test_characters_beyond_have_no_case(fold: Callable[[str], str]) -> None:
    beyond = "".join(map(chr, range(CASED_MAX, sys.maxunicode + 1)))
    assert fold(beyond) == beyond


@pytest.mark.parametrize(
    ("fold", "text", "spelled"),
    [
        (str.lower, "ab", {"ab", "Ab", "aB", "AB"}),
        (str.lower, "k", {"k", "K", "\u212a"}),
        (str.lower, "i\u0307", {"i\u0307", "I\u0307", "İ"}),
        (str.lower, "A", set()),
        (str.lower, "", {""}),
        (str.lower, "5", {"5"}),
        (str.upper, "S", {"S", "s", "ſ"}),
        (str.upper, "a", set()),
        (str.casefold, "ss", {"ss", "sS", "Ss", "SS", "ß", "ẞ", "sſ", "ſs", "Sſ", "ſS", "ſſ"}),
    ],
)
def test_every_spelling_is_listed(fold: Callable[[str], str], text: str, spelled: set[str]) -> None:
    found = texts_folded_to(text, 256, fold)
    assert found is not None
    assert set(found) == spelled
    assert all(fold(each) == text for each in spelled)


def test_too_many_spellings_and_a_sigma_are_not_listed() -> None:
    assert texts_folded_to("abcdefghi", 256, str.lower) is None
    assert texts_folded_to("σ", 256, str.lower) is None
    assert "ΑΣ".lower() == "ας"
