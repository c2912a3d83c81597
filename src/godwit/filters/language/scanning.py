"""The scanner: cuts a filter's text into words for lark's parser.

It takes the terminals of the grammar as they are, and does in one regular expression and a short loop what lark's own
lexer does in general: a hundred thousand filters are read at the start of a run, and half of the time went there. Lines
are not counted: a word knows its offset, from which an error finds its line and column.
"""

import re
from collections.abc import Iterator
from typing import Any

from lark.lexer import Lexer

from godwit.errors import FilterTooBig
from godwit.filters.language.grammar import KEYWORDS

WORDS_MAX = 250_000

_BLANK = r"[ \t\r\n\f]*"


class Word(str):
    """A piece of the text, the terminal it is (`type`), and where it stands. The other fields are for lark alone."""

    __slots__ = ("start_pos", "type")

    type: str
    start_pos: int
    line = column = end_line = end_column = end_pos = None


class Fault(Exception):
    """The text is wrong at an offset."""

    def __init__(self, message: str, at: Word | int, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message, at, expected)
        self.message = message
        self.offset = at.start_pos if isinstance(at, Word) else at
        self.expected = expected


class Scanner(Lexer):
    """Lark's interface for a lexer of one's own."""

    def __init__(self, lexer_conf: Any) -> None:
        terminals = sorted(lexer_conf.terminals, key=lambda terminal: (-terminal.priority, terminal.name))
        choices = "|".join(f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})" for terminal in terminals)
        self.match = re.compile(f"{_BLANK}(?:{choices})").match
        self.skip_blanks = re.compile(_BLANK).match

    def lex(self, text: str) -> Iterator[Word]:  # type: ignore[override]
        """The words of `text`."""
        match, keyword, offset = self.match, KEYWORDS.get, 0
        for _ in range(WORDS_MAX):
            found = match(text, offset)
            if found is None:
                break
            terminal: str = found.lastgroup  # type: ignore[assignment]
            piece = found[terminal]
            word = Word(piece)
            word.type = keyword(piece.upper(), terminal) if terminal == "NAME" else terminal
            offset = found.end()
            word.start_pos = offset - len(piece)
            yield word
        else:
            raise FilterTooBig(f"a filter of more than {WORDS_MAX} words and signs, which are the most allowed")
        rest: Any = self.skip_blanks(text, offset)
        if rest.end() < len(text):
            raise Fault(complaint(text[rest.end()]), rest.end())


EXACT_PART = "belongs to the exact part of a subscription; a filter compares one attribute with values"
ARITHMETIC = f"arithmetic {EXACT_PART}"
REGULAR_EXPRESSION = f"a regular expression {EXACT_PART}; LIKE takes a pattern"
MATCHES = "MATCHES"
"""What stands between a text and a regular expression, in an exact part. It is no reserved word."""
EXACT_FUNCTIONS = ("abs", "count", "distance", "length", "lower", "round", "trim", "upper")
"""The functions of `languages.native`, so that a filter that calls one is told where it belongs."""

_INSTEAD = {
    **dict.fromkeys("+-*/%", ARITHMETIC),
    "'": "the text that begins here has no end: a ' is missing (within a text it is doubled)",
    '"': 'the name that begins here has no end: a " is missing (within a name it is doubled)',
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or <> for unequal",
    "~": "write LIKE",
}


def complaint(character: str) -> str:
    """What is said about a character that begins no word."""
    return _INSTEAD.get(character, f"the character {character!a} has no meaning here")
