"""The grammar of docs/reference/filter_language.md, read by lark: where it refuses a text.

It knows the grammar alone, and not what phrases mean: `5 < 6` is right for it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import Lexer

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "filter_language.md").read_text(encoding="utf-8")
[GRAMMAR] = re.findall(r"```lark\n(.*?)```", PAGE, re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n\f]*")


class _Words(Lexer):
    """The terminals of the page as they are. A NAME that is declared as a word of its own is that word."""

    def __init__(self, lexer_conf: Any) -> None:
        terminals = sorted(lexer_conf.terminals, key=lambda terminal: (-terminal.priority, terminal.name))
        patterns = (f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})" for terminal in terminals)
        self._match = re.compile("|".join(patterns)).match
        [declared] = re.findall(r"%declare (.*)", GRAMMAR)
        self._reserved = {terminal.strip("_"): terminal for terminal in declared.split()}

    def lex(self, lexer_state: str) -> Iterator[Token]:  # type: ignore[override]
        offset = _BLANK.match(lexer_state).end()  # type: ignore[union-attr]
        while offset < len(lexer_state):
            found = self._match(lexer_state, offset)
            if found is None:
                raise UnexpectedCharacters(lexer_state, offset, 0, 0)
            assert found.lastgroup is not None
            piece = found[found.lastgroup]
            kind = self._reserved.get(piece.upper(), "NAME") if found.lastgroup == "NAME" else found.lastgroup
            yield Token(kind, piece, start_pos=offset)
            offset = _BLANK.match(lexer_state, found.end()).end()  # type: ignore[union-attr]


_PARSER = Lark(GRAMMAR, parser="lalr", lexer=_Words, maybe_placeholders=False)


def refused_at(text: str) -> int | None:
    """The offset at which the page's grammar refuses a text; None if it does not."""
    try:
        _PARSER.parse(text)
    except UnexpectedCharacters as error:
        return error.pos_in_stream
    except UnexpectedToken as error:
        return len(text.rstrip()) if error.token.type == "$END" else error.token.start_pos
    return None
