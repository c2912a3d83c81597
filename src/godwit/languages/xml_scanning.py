"""The scanner of XQL and XPath: cuts a text into words, numbers, texts and signs.

One pattern finds a token wherever it begins; a character that begins none is a token of its own, and an error.
"""

import re
from typing import NamedTuple

from godwit.filters.language.scanning import Fault

__all__ = ["NAME", "Tokens", "token_pattern", "tokens_of"]

NAME = r"[^\W\d][\w.\-·]*"
"""A name without prefix."""


class Tokens(NamedTuple):
    """The tokens of a text: what kind each is, what it says, and where it begins. The last is the end."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]


def token_pattern(kinds: str) -> re.Pattern[str]:
    """The pattern of a language, given what a token can be besides a text in quotes, as groups with names."""
    texts = r"""(?P<text>"[^"]*"|'[^']*')"""
    return re.compile(rf"[ \t\r\n]*(?:{texts}|{kinds}|(?P<end>\Z)|(?P<fault>.))", re.DOTALL)


def tokens_of(text: str, pattern: re.Pattern[str], start: int = 0) -> Tokens:
    """The tokens of a text, from `start` on."""
    found = list(pattern.finditer(text, start))
    kinds = [str(each.lastgroup) for each in found]
    if kinds[-2:] == ["end", "end"]:  # once behind white space, once behind that
        del found[-1], kinds[-1]
    texts = [each[each.lastindex or 0] for each in found]
    starts = [each.start(each.lastindex or 0) for each in found]
    if "fault" in kinds:
        at = starts[kinds.index("fault")]
        is_quote = text[at] in "'\""
        character = f"the character {text[at]!a} has no meaning here"
        raise Fault("the text that begins here has no end" if is_quote else character, at)
    return Tokens(kinds, texts, starts)
