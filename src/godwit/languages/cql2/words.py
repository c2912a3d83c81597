"""The words of a CQL2 text, and faults at a place of it.

Names and blanks are those of the standard's grammar. Within a text, a quote is written `''` or `\\'`; any other
backslash is itself. A name in double quotes may hold any character; a double quote in it is doubled."""

import re
from typing import NamedTuple

from godwit.errors import FilterTooBig
from godwit.filters.language.scanning import Fault

__all__ = ["IDENTIFIER", "RESERVED", "TEXT_BYTES_MAX", "Word", "check_size", "words_of"]

TEXT_BYTES_MAX = 131_072
"""Of a query in either encoding: reading takes about a microsecond for each."""

RESERVED = frozenset({"AND", "OR", "NOT", "LIKE", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "DIV"})

_START = (
    ":_A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1ffe\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_PART = f"{_START}.0-9\u0300-\u036f\u203f-\u2040"
_BLANK = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

IDENTIFIER = re.compile(f"[{_START}][{_PART}]*")
_WORD = re.compile(
    f"[{_BLANK}]*(?:"
    f"(?P<NAME>[{_START}][{_PART}]*)"
    r"|(?P<NUMBER>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<SIGN><>|<=|>=|[=<>(),+\-*/%^])"
    r"|(?P<STRING>'(?:[^'\\]|''|\\'|\\(?!'))*')"
    r'|(?P<QUOTED>"(?:[^"]|"")*")'
    ")"
)
_BLANKS = re.compile(f"[{_BLANK}]*")

_INSTEAD = {
    "'": "the text that begins here has no end: a ' is missing (within a text it is doubled)",
    '"': 'the name that begins here has no end: a " is missing (within a name it is doubled)',
    "!": "write NOT, or <> for unequal",
    "&": "write AND",
    "|": "write OR",
    "[": "write arrays in parentheses, as in ('a', 'b')",
    "\\": "the character '\\\\' has no meaning here",
}


class Word(NamedTuple):
    """A piece of the text: NAME, NUMBER, STRING, QUOTED, END, or for a sign or reserved word itself."""

    kind: str
    text: str
    offset: int


def check_size(text: str) -> None:
    """Refuse a text that is too long before anybody looks at it."""
    if len(text) > TEXT_BYTES_MAX or len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
        raise FilterTooBig(f"a CQL2 query of more than {TEXT_BYTES_MAX} bytes, which are the most allowed")


def words_of(text: str) -> list[Word]:
    """The words of a text, with one END behind the last."""
    words: list[Word] = []
    offset, match = 0, _WORD.match
    while (found := match(text, offset)) is not None:
        kind: str = found.lastgroup  # type: ignore[assignment]
        piece = found[kind]
        offset = found.end()
        if kind == "SIGN":
            kind = piece
        elif kind == "NAME" and piece.upper() in RESERVED:
            kind = piece.upper()
        words.append(Word(kind, piece, offset - len(piece)))
    rest = _BLANKS.match(text, offset)
    end = rest.end() if rest else offset
    if end < len(text):
        raise Fault(_INSTEAD.get(text[end], f"the character {text[end]!a} has no meaning here"), end)
    words.append(Word("END", "", len(text.rstrip())))
    return words
