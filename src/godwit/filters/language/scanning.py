"""The scanner: cuts a filter's text into words.

*Theory.* One regular expression finds all words, and a table says of each what kind of word it is. Nothing knows where
in the text a word stands, because only an error has to say it: then the text is scanned once more, for words that know
their offsets. A hundred thousand filters are read at the start of a run, and nearly all of them are right.

*Rules.*
1. Every character that is not blank belongs to a word. A character that begins no word becomes a separate word, of kind
   `FAULT`.
2. A text of more than `WORDS_MAX` words is refused before it is parsed.
"""

import re

from godwit.errors import FilterTooBig
from godwit.filters.language.grammar import BLANKS, KEYWORDS, TERMINALS

WORDS_MAX = 250_000

END = "END"
FAULT = "FAULT"
"""Kinds of words: those of `TERMINALS`, each reserved word, each of `( ) ,`, and these two."""
ENDS = 4  # after the last word, so that a parser may look ahead

_STRING, _QUOTED, _NUMBER, _NAME, _OP = (TERMINALS[name] for name in ("STRING", "QUOTED", "NUMBER", "NAME", "OP"))
_QUOTE_FOLLOWS = r"""[uU]&['"]|(?:my|sender)\.(?:[uU]&)?\""""
_WORD = re.compile(
    rf"[{BLANKS}]*((?!{_QUOTE_FOLLOWS})(?:{_NAME})|{_OP}|[(),]|{_NUMBER}|{_STRING}|{_QUOTED}|{_NAME}|.)", re.DOTALL
)
"""Names come first because most words are names; one that is the beginning of a quoted word comes last."""


class Word(str):
    """A piece of the text, its kind (`type`), and the offset at which it begins."""

    __slots__ = ("start_pos", "type")

    type: str
    start_pos: int


class Fault(Exception):
    """The text is wrong at an offset, which is 0 for a word without a position."""

    def __init__(self, message: str, at: str | int, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message, at, expected)
        self.message = message
        self.offset = at if isinstance(at, int) else offset_of(at)
        self.expected = expected


def offset_of(word: str) -> int:
    """The offset at which a word begins; 0 if it does not know."""
    return word.start_pos if isinstance(word, Word) else 0


def is_double_equals(first: str, second: str) -> bool:
    """Whether two words that know where they stand are the two halves of ==."""
    return first == second == "=" and offset_of(second) == offset_of(first) + 1


class _Kinds(dict[str, str]):
    """The kind of each word. What is not in the table is told by its first or last character, and not kept."""

    def __missing__(self, word: str) -> str:
        if word[0] in "0123456789+-.":
            return "NUMBER"
        last = word[-1]
        if last == "'":
            return "STRING"
        if last == '"':
            return "QUOTED"
        if len(word) == 1 and not (word.isalnum() and not word.isdecimal()):  # in words, \w without \d
            return FAULT
        upper = word.upper()
        return upper if upper in KEYWORDS else "NAME"


_KINDS = _Kinds(
    {
        **{word: word for word in ("(", ")", ",")},
        **dict.fromkeys(("<>", "!=", "<=", ">=", "=", "<", ">"), "OP"),
        **{spelt: word for word in KEYWORDS for spelt in (word, word.lower())},
        **dict.fromkeys("_@$", "NAME"),
        **dict.fromkeys("+-.'\"", FAULT),
    }
)


def words_of(text: str) -> list[str]:
    """The words of a text, and empty ones at its end."""
    words: list[str] = _WORD.findall(text.rstrip(BLANKS))
    if len(words) > WORDS_MAX:
        raise FilterTooBig(f"a filter of more than {WORDS_MAX} words and signs, which are the most allowed")
    words += [""] * ENDS
    return words


def kinds_of(words: list[str]) -> list[str]:
    """The kind of each of `words_of` a text."""
    kinds = list(map(_KINDS.__getitem__, words[:-ENDS]))
    kinds += [END] * ENDS
    return kinds


def located(text: str, words: list[str], kinds: list[str]) -> list[str]:
    """The same words, which know where in the text they stand."""
    text = text.rstrip(BLANKS)
    offsets = [found.start(1) for found in _WORD.finditer(text)]
    offsets += [len(text)] * ENDS
    made: list[str] = []
    for piece, kind, offset in zip(words, kinds, offsets, strict=True):
        word = Word(piece)
        word.type, word.start_pos = kind, offset
        made.append(word)
    return made


EXACT_PART = "is allowed in subscriptions only; a filter compares one attribute with values"
ARITHMETIC = f"arithmetic {EXACT_PART}"
REGULAR_EXPRESSION = f"a regular expression {EXACT_PART}; LIKE takes a pattern"
DOUBLE_EQUALS = "use = instead of =="
MATCHES = "MATCHES"
"""What stands between a text and a regular expression, in an exact part. It is not a reserved word."""
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
    """Error message for a character that begins no token."""
    return _INSTEAD.get(character, f"the character {character!a} has no meaning here")
