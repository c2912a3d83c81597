"""The words of a text with an exact part: those of a filter, and the signs of arithmetic.

*Rules.*
1. A sign before digits belongs to the number where a value may stand, and is arithmetic after a value: `x -1` is a
   difference. (Between the two numbers of a polygon's corner the parser puts it back.)
2. A slash within a name is a path: `a/b` is one attribute, `a / b` a quotient.
"""

import re

from godwit.filters.language.grammar import BLANKS, KEYWORDS, TERMINALS
from godwit.filters.language.scanning import END, Fault, Word, complaint

__all__ = ["END", "SIGN", "exact_words"]

SIGN = "SIGN"

_MATCH = re.compile(
    rf"[{BLANKS}]*(?:"
    + "|".join(f"(?P<{name}>{pattern})" for name, pattern in TERMINALS.items())
    + r"|(?P<SIGN>[-+*/%])|(?P<PUNCTUATION>[(),])|(?P<END>\Z)|(?P<FAULT>.))",
    re.DOTALL,
).match
_ENDS_A_VALUE = frozenset(("STRING", "QUOTED", "NUMBER", "NAME", "TRUE", "FALSE", ")"))
_INSTEAD = {"~": "write LIKE, or MATCHES for a regular expression"}


def exact_words(text: str) -> list[Word]:
    """The words of a text, and its end."""
    words: list[Word] = []
    offset, before = 0, ""
    while before != END:
        found = _MATCH(text, offset)
        assert found is not None, "the last choice takes any character"
        terminal = found.lastgroup or ""
        piece = found[terminal]
        start = found.start(terminal)
        if terminal == "FAULT":
            raise Fault(_INSTEAD.get(piece) or complaint(piece), start)
        if terminal == "NUMBER" and piece[0] in "+-" and before in _ENDS_A_VALUE:  # rule 1
            terminal, piece = SIGN, piece[0]
        if terminal == END:
            start = len(text.rstrip())
        if terminal == "PUNCTUATION":
            terminal = piece
        elif terminal == "NAME" and piece.upper() in KEYWORDS:
            terminal = piece.upper()
        word = Word(piece)
        before = word.type = terminal
        word.start_pos = start
        words.append(word)
        offset = start + len(piece)
    return words
