"""Text with styles: how wide it is, and how it is wrapped."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Self
from unicodedata import category, east_asian_width

__all__ = ["Line", "Piece", "Text", "coded", "plain", "width_of"]

Piece = tuple[str, str]
"""A text and its style."""
Line = list[Piece]

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
CODES = {"bold": "1", "dim": "2", "italic": "3", "reverse": "7"}
CODES |= {name: f"3{number}" for number, name in enumerate(COLOURS)}
GROUND = {name: f"4{number}" for number, name in enumerate(COLOURS)}  # `on red`
NO_WIDTH = ("Mn", "Me", "Cf")
WIDE = ("W", "F")


class Text:
    """Pieces of text, each with a style. `justify` aligns it in a column: left or right."""

    def __init__(self, text: str = "", style: str = "", *, justify: str = "") -> None:
        self._pieces: list[Piece] = [(text, style)] if text else []
        self.justify = justify

    @classmethod
    def assemble(cls, *parts: "str | Piece | Text") -> "Text":
        """A text of parts: each a text, or a text with its style."""
        made = cls()
        for part in parts:
            if isinstance(part, tuple):
                made.append(*part)
            else:
                made.append(part)
        return made

    def append(self, text: "str | Text", style: str = "") -> Self:
        """Add a text at the end."""
        self._pieces += text._pieces if isinstance(text, Text) else [(text, style)]
        return self

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its pieces, each with its style."""
        return tuple(self._pieces)

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self._pieces)

    def lines(self, width: int | None) -> list[Line]:
        """Its lines, wrapped at spaces; a longer word is divided. With None, nothing is wrapped."""
        whole = self.plain
        if "\n" not in whole and (width is None or width_of(whole) <= width):
            return [list(self._pieces)]
        found: list[Line] = []
        for paragraph in _paragraphs(self._pieces):
            found += _wrapped(paragraph, width)
        return found


def width_of(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    return 0 if category(char) in NO_WIDTH else 2 if east_asian_width(char) in WIDE else 1


def plain(line: Line) -> str:
    """A line without styles."""
    return "".join(text for text, _ in line)


def coded(line: Line) -> str:
    """A line with the codes that a terminal takes for styles."""
    return "".join(f"\x1b[{_codes(style)}m{text}\x1b[0m" if style and text else text for text, style in line)


def _codes(style: str) -> str:
    words, is_ground, codes = style.split(), False, []
    for word in words:
        if word == "on":
            is_ground = True
        else:
            codes.append(GROUND[word] if is_ground else CODES[word])
    return ";".join(codes)


def _paragraphs(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces between line breaks, character by character."""
    found: list[Piece] = []
    for text, style in pieces:
        for char in text:
            if char == "\n":
                yield found
                found = []
            else:
                found.append((char, style))
    yield found


def _wrapped(chars: list[Piece], width: int | None) -> Iterator[Line]:
    start = 0
    while width is not None:
        end, used = start, 0
        while end < len(chars) and (used := used + _width(chars[end][0])) <= width:
            end += 1
        if end == len(chars):
            break
        spaces = (place for place in range(end, start, -1) if chars[place][0] == " ")
        cut = next(spaces, None)
        stop, following = (max(end, start + 1), max(end, start + 1)) if cut is None else (cut, cut + 1)
        yield _joined(chars[start:stop])
        start = following
    yield _joined(chars[start:])


def _joined(chars: list[Piece]) -> Line:
    return [("".join(char for char, _ in same), style) for style, same in groupby(chars, key=lambda each: each[1])]
