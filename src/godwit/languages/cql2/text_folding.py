"""CASEI and ACCENTI: texts without their case, or without their accents.

CASEI is Unicode's full case folding, ACCENTI takes a text apart and leaves the marks out. Values that are no texts
stay as they are.

Folding goes character by character, so it can be undone: `texts_folded_to` lists every text that folds to a given one,
as long as there are few. With that list `CASEI(name) = CASEI('bern')` is a plain filter, and needs no further test.
"""

import sys
import unicodedata
from collections import defaultdict
from functools import lru_cache
from typing import Any

from godwit.filters.sets import ValueSet, like
from godwit.languages.cql2.expressions import Expression, Folded, Text

__all__ = ["folded", "pattern_set", "texts_folded_to"]


def folded(how: str, value: Any) -> Any:
    """A value without its case (casei) or accents (accenti)."""
    if type(value) is not str:
        return value
    if how == "casei":
        return value.casefold()
    parts = unicodedata.normalize("NFD", value)
    return unicodedata.normalize("NFC", "".join(part for part in parts if not unicodedata.combining(part)))


@lru_cache(maxsize=1)
def _sources() -> tuple[dict[str, list[str]], int]:
    """For each text that a single character folds to, the characters that do, other than itself; its longest key."""
    sources: dict[str, list[str]] = defaultdict(list)
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        target = character.casefold()
        if target != character:
            sources[target].append(character)
    return dict(sources), max(map(len, sources))


def texts_folded_to(text: str, texts_max: int) -> list[str] | None:
    """Every text that CASEI makes `text` of; None when there are more than `texts_max`."""
    sources, longest = _sources()
    if any(character.casefold() != character for character in text):
        return []
    endings: list[list[str]] = [[""]]  # for each number of last characters, the texts that fold to them
    for start in reversed(range(len(text))):
        here = [text[start] + ending for ending in endings[-1]]
        for length in range(1, min(longest, len(text) - start) + 1):
            for source in sources.get(text[start : start + length], ()):
                here += [source + ending for ending in endings[-length]]
        if len(here) > texts_max:
            return None
        endings.append(here)
    return endings[-1]


def pattern_set(pattern: Expression) -> ValueSet:
    """The texts that a pattern of LIKE matches. `BadValue` when it is too long, or ends in its escape character."""
    return like(_pattern_text(pattern))


def _pattern_text(pattern: Expression) -> str:
    if isinstance(pattern, Folded):
        return str(folded(pattern.how, _pattern_text(pattern.operand)))
    assert isinstance(pattern, Text)
    return pattern.value
