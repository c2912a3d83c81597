r"""LIKE patterns: matching in time that depends only on the lengths of the text and the pattern.

*Theory.* A pattern is cut at its `%`s into segments of fixed length. The first is anchored at the start, the last at
the end, each one between is taken at its leftmost place, which for such patterns finds a match whenever there is one.
While text and pattern are short a segment is found with `str.find`, or with a small regular expression if it has a `_`:
there is nothing in it to backtrack over, so it takes at most length of text times length of segment.

For longer texts, and for many texts at once, all positions are worked on together (`TextRow`): the texts stand in a
row, with a gap after each, and a set of positions is one integer with a bit for each. A character of the pattern moves
the set on by one place where the row has that character; a `%` spreads each position to the end of its text, by one
addition whose carry runs through it. So a pattern costs two or three operations on such integers for each of its
characters, whatever the texts are. There is no step in Python for a character of a text.

*Rules.*
1. `matches`, and `TextRow.some` and `every`, agree on every text.
2. Nothing but a `%` matches a `RUN_SYMBOL`, by which `relations.py` reads a `%` of another pattern.
"""

import re
from typing import Any, NamedTuple

__all__ = [
    "ANY_ONE",
    "ANY_RUN",
    "ESCAPE",
    "ONE_SYMBOL",
    "RUN_SYMBOL",
    "Plan",
    "Segment",
    "Segments",
    "TextRow",
    "escaped",
    "matches",
    "planned",
    "row_of",
    "segments_of",
]

ANY_RUN = "%"
ANY_ONE = "_"
ESCAPE = "\\"
RUN_SYMBOL, ONE_SYMBOL = "\ud800", "\ud801"
"""What `%` and `_` become where `relations.py` reads a pattern as a text: lone surrogates, which no value holds."""

FIND_STEPS_MAX = 1 << 18  # characters of a text times those of a segment, without `_`
SEARCH_STEPS_MAX = 1 << 14  # the same, with `_`
SEARCHED_LENGTH_MAX = 32  # of a segment with `_`: compiling a longer expression takes longer than it saves
ROWS_KEPT_MAX = 4
CHARACTERS_KEPT_MAX = 64  # of a row: whose places are remembered for the next pattern

Segment = tuple[str | None, ...]
"""Characters in a row; None stands for `_`."""
Segments = tuple[Segment, ...]


def segments_of(pattern: str) -> Segments:
    """The stretches of fixed length between the `%`s of a pattern, whose escape is a backslash."""
    if ESCAPE not in pattern:
        return tuple(
            tuple(None if character == ANY_ONE else character for character in piece)
            if ANY_ONE in piece
            else tuple(piece)
            for piece in pattern.split(ANY_RUN)
        )
    segments: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == ANY_RUN:
            segments.append([])
        elif character == ANY_ONE:
            segments[-1].append(None)
        elif character == ESCAPE:
            literal = next(characters, None)
            assert literal is not None, "a pattern made by `like`, which has looked"
            segments[-1].append(literal)
        else:
            segments[-1].append(character)
    return tuple(tuple(segment) for segment in segments)


def escaped(text: str) -> str:
    """`text` with the wildcards of LIKE escaped, so that as a pattern it means itself."""
    return "".join(ESCAPE + character if character in (ANY_RUN, ANY_ONE, ESCAPE) else character for character in text)


# ---------------------------------------------------------------- a short text


class _Wild:
    """A segment with `_`, and the expression that finds it. That is made when it is first needed: it takes long."""

    __slots__ = ("_expression", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self._expression: re.Pattern[str] | None = None

    @property
    def expression(self) -> re.Pattern[str]:
        if self._expression is None:
            characters = (f"[^{RUN_SYMBOL}]" if one is None else re.escape(one) for one in self.segment)
            self._expression = re.compile("".join(characters))
        return self._expression


Piece = tuple[int, str | _Wild]
"""How long a segment is, and what finds it."""


class Plan(NamedTuple):
    """How a pattern is looked for in short texts, and which are short enough."""

    length_max: int
    pieces: tuple[Piece, ...] = ()
    runs: tuple[str, ...] = ()  # of segments with `_`: a text without one of them does not match


def planned(segments: Segments) -> Plan:
    """The plan for a pattern of these segments."""
    longest = max(map(len, segments))
    longest_wild = max((len(segment) for segment in segments if None in segment), default=0)
    if longest_wild > SEARCHED_LENGTH_MAX:
        return Plan(-1)
    length_max = FIND_STEPS_MAX // longest if longest else FIND_STEPS_MAX
    if longest_wild:
        length_max = min(length_max, SEARCH_STEPS_MAX // longest_wild)
    runs = (run for segment in segments if None in segment for run in _runs(segment))
    return Plan(length_max, tuple((len(segment), _piece(segment)) for segment in segments), tuple(runs))


def _piece(segment: Segment) -> str | _Wild:
    return _Wild(segment) if None in segment else "".join(segment)  # type: ignore[arg-type]


def _runs(segment: Segment) -> list[str]:
    """The characters between the `_`s of a segment."""
    return [run for run in "".join(ONE_SYMBOL if one is None else one for one in segment).split(ONE_SYMBOL) if run]


def matches(text: str, segments: Segments, plan: Plan) -> bool:
    """Whether a text matches a pattern."""
    if len(text) > plan.length_max:
        return row_of(text).some(segments)
    for run in plan.runs:
        if run not in text:
            return False
    pieces = plan.pieces
    length, first = pieces[0]
    if len(pieces) == 1:
        return len(text) == length and _fits(first, text, 0)
    length_last, last = pieces[-1]
    at, end = length, len(text) - length_last
    if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    for length, piece in pieces[1:-1]:
        if isinstance(piece, str):
            found = text.find(piece, at, end)
        else:
            searched = piece.expression.search(text, at, end)
            found = -1 if searched is None else searched.start()
        if found < 0:
            return False
        at = found + length
    return True


def _fits(piece: str | _Wild, text: str, at: int) -> bool:
    return text.startswith(piece, at) if isinstance(piece, str) else piece.expression.match(text, at) is not None


# ---------------------------------------------------------------- a long text, or many


class TextRow:
    """Texts one after another, each with a gap behind it. A set of positions is an integer, bit i for position i."""

    __slots__ = ("_ends", "_kept", "_one", "_planes", "_starts", "_within", "source")

    def __init__(self, source: object, texts: list[str]) -> None:
        self.source = source
        joined = "\0".join([*texts, ""])
        self._starts, self._ends = _gaps(texts)
        self._within = ((1 << len(joined)) - 1) ^ self._ends
        backwards = joined[::-1]  # the first digit of a number is its highest
        if backwards.isascii():
            self._planes = [backwards.encode()]
        else:
            encoded = backwards.encode("utf-32-le", "surrogatepass")
            self._planes = [encoded[byte::4] for byte in range(3)]
        self._kept: dict[str, int] = {}
        self._one = self._within & ~self._places(RUN_SYMBOL)

    def some(self, segments: Segments) -> bool:
        """Whether some text matches a pattern."""
        return bool(self._reached(segments) & self._ends)

    def every(self, segments: Segments) -> bool:
        """Whether every text matches a pattern."""
        return self._reached(segments) & self._ends == self._ends

    def _reached(self, segments: Segments) -> int:
        """The positions behind all that the pattern matches, from the starts of the texts on."""
        within, reached = self._within, self._starts
        for number, segment in enumerate(segments):
            if number:  # a %: on to any position of the same text, and to its gap
                reached |= ((reached & within) + within) ^ within
            for character in segment:
                if not reached:
                    return 0
                reached = (reached & (self._one if character is None else self._places(character))) << 1
        return reached

    def _places(self, character: str) -> int:
        """Where the row has a character."""
        found = self._kept.get(character)
        if found is None:
            if len(self._kept) >= CHARACTERS_KEPT_MAX:
                self._kept.clear()
            found = self._kept[character] = self._look_for(ord(character)) & self._within
        return found

    def _look_for(self, code: int) -> int:
        if len(self._planes) == 1 and code > 127:
            return 0
        found = -1
        for byte, plane in enumerate(self._planes):
            wanted = code >> 8 * byte & 255
            if wanted not in plane:
                return 0
            found &= int(plane.translate(_ONLY[wanted]), 2)
        return found


_ONLY = [bytes(49 if byte == wanted else 48 for byte in range(256)) for wanted in range(256)]
"""Tables that make one byte the digit 1 and all others 0."""


def _gaps(texts: list[str]) -> tuple[int, int]:
    """The first positions of texts in a row, and the gaps behind them."""
    if not texts:
        return 0, 0
    digits = "".join(["1" + "0" * len(text) for text in texts])
    starts = int(digits[::-1], 2)
    return starts, (starts >> 1) | 1 << len(digits) - 1


_last: list[TextRow] = []


def row_of(source: str | tuple[Any, ...]) -> TextRow:
    """A text, or the texts among several values, as a row. The last are remembered: many patterns look at one event."""
    for row in _last:
        if row.source is source:
            return row
    texts = [source] if isinstance(source, str) else [value for value in source if type(value) is str]
    row = TextRow(source, texts)
    _last.insert(0, row)
    del _last[ROWS_KEPT_MAX:]
    return row
