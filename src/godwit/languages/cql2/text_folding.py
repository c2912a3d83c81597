"""CASEI and ACCENTI: texts without their case, or without their accents.

CASEI is Unicode's full case folding, ACCENTI takes a text apart and leaves the marks out. Other values than texts are
unchanged.

CASEI can be undone (`folded_texts.py`): with the list of all spellings, `CASEI(name) = CASEI('bern')` is a plain
filter, and needs no further test.
"""

import unicodedata
from typing import Any

from godwit.filters.sets import ValueSet, like
from godwit.languages.cql2.expressions import Expression, Folded, Text

__all__ = ["folded", "pattern_set"]


def folded(how: str, value: Any) -> Any:
    """A value without its case (casei) or accents (accenti)."""
    if type(value) is not str:
        return value
    if how == "casei":
        return value.casefold()
    parts = unicodedata.normalize("NFD", value)
    return unicodedata.normalize("NFC", "".join(part for part in parts if not unicodedata.combining(part)))


def pattern_set(pattern: Expression) -> ValueSet:
    """The texts that a pattern of LIKE matches. `BadValue` when it is too long, or ends in its escape character."""
    return like(_pattern_text(pattern))


def _pattern_text(pattern: Expression) -> str:
    if isinstance(pattern, Folded):
        return str(folded(pattern.how, _pattern_text(pattern.operand)))
    assert isinstance(pattern, Text)
    return pattern.value
