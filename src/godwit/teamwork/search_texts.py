"""The text of a search field as an expression of SQLite's full-text search.

Words must all be there, in any order: `annual report`. A phrase stands in quotes: `"annual report"`. A star at the end
of a word stands for any end: `annu*`. Case and accents play no part.
"""

import re

from godwit.errors import ProfileError

__all__ = ["match_expression"]

PIECE = re.compile(r'"([^"]*)"|([^\s"]+)')
WORDS_MAX = 32
CHARS_MAX = 1_000


def match_expression(text: str) -> str:
    """The expression for MATCH."""
    if len(text) > CHARS_MAX:
        raise ProfileError(f"a search text of {len(text):,} characters: at most {CHARS_MAX:,} are allowed")
    printable = "".join(character if character.isprintable() else " " for character in text)
    pieces = []
    for phrase, word in PIECE.findall(printable):
        said = phrase or word
        if any(character.isalnum() for character in said):
            pieces.append(f'"{said.rstrip("*")}"*' if word.endswith("*") else f'"{said}"')
    if not pieces:
        raise ProfileError(f"the search text {text!r} has no word: letters or digits are needed")
    if len(pieces) > WORDS_MAX:
        raise ProfileError(f"a search text of {len(pieces)} words: at most {WORDS_MAX} are allowed")
    return " ".join(pieces)
