r"""Patterns of LIKE in CESQL as sets of texts. [CESQL §3.4.3]

`\` escapes `%` and `_` and nothing else: `ab\c` matches `ab\c`. Our own patterns have no `\` that escapes nothing.
"""

from functools import lru_cache

from godwit.filters import ValueSet, like
from godwit.filters.like_patterns import ANY_ONE, ANY_RUN, ESCAPE

__all__ = ["characters_asked", "has_wildcard", "pattern_set"]

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


@lru_cache(maxsize=1_024)
def pattern_set(pattern: str) -> ValueSet:
    """The texts that match a pattern. `BadValue` if it is too long."""
    return like("".join(ESCAPE * 2 if piece == ESCAPE else piece for piece in _pieces(pattern)))


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern matches more than one text."""
    return any(piece in _WILD for piece in _pieces(pattern))


def characters_asked(pattern: str) -> frozenset[str]:
    """The characters that every text which matches has."""
    return frozenset(piece[-1] for piece in _pieces(pattern) if piece not in _WILD)
