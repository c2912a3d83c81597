r"""Patterns of LIKE in CESQL as sets of texts. [CESQL §3.4.3]

`\` escapes `%` and `_` and nothing else: `ab\c` matches `ab\c`. Our own patterns have no `\` that escapes nothing.
"""

from functools import lru_cache
from typing import NamedTuple

from godwit.filters import ValueSet, like
from godwit.filters.like_patterns import ANY_ONE, ANY_RUN, ESCAPE
from godwit.languages.cesql.casts import TextForm

__all__ = ["LikePattern", "like_pattern"]

_WILD = (ANY_RUN, ANY_ONE)


def _pieces(pattern: str) -> list[str]:
    """The characters of a pattern, each with the escape that belongs to it."""
    pieces: list[str] = []
    for character in pattern:
        if character in _WILD and pieces and pieces[-1] == ESCAPE:
            pieces[-1] = ESCAPE + character
        else:
            pieces.append(character)
    return pieces


class LikePattern(NamedTuple):
    """A pattern: the texts that match it, the characters that each of them has, the one that each begins with (''
    where it is not known), whether there are more than one."""

    texts: ValueSet
    characters: frozenset[str]
    first: str
    has_wildcard: bool

    def may_match(self, form: TextForm) -> bool:
        """Whether texts of this form may match the pattern."""
        return self.characters <= form.characters and (not self.first or self.first in form.first)


@lru_cache(maxsize=1_024)
def like_pattern(pattern: str) -> LikePattern:
    """A pattern as it is written. `BadValue` if it is too long."""
    pieces = _pieces(pattern)
    plain = [piece for piece in pieces if piece not in _WILD]
    texts = like("".join(ESCAPE * 2 if piece == ESCAPE else piece for piece in pieces))
    first = pieces[0][-1] if pieces and pieces[0] not in _WILD else ""
    return LikePattern(texts, frozenset(piece[-1] for piece in plain), first, len(plain) < len(pieces))
