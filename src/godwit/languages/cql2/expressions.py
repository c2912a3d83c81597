"""The syntax tree of CQL2: what a text and a JSON document of the same meaning have in common.

*Theory.* Both encodings are read into these nodes and written from them. The grammar tells operands apart by what they
are (a text, a number, a geometry ...), and says for each place which of them may stand there; `Sort` and the constants
below it are that table. A property or a function may stand almost anywhere: only an event tells what it is.

*Rules.*
1. Nodes are immutable and compare by meaning: `1` is `1.0`, a timestamp with and without `.000000` is the same.
2. `NOT LIKE` and its like are a `Not` around the plain predicate, as in JSON. `-x` is `-1 * x`.
3. A tree has at most `NODES_MAX` nodes and `NESTING_MAX` levels, so whatever walks one may recurse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntFlag

from godwit.filters.geometries import Geometry

__all__ = [
    "ANYTHING",
    "ARRAYS",
    "CHARACTERS",
    "COMPARISONS",
    "END_OF_INTERVAL",
    "LOGICAL",
    "NESTING_MAX",
    "NODES_MAX",
    "NULLABLE",
    "NUMERIC",
    "RANGED",
    "RELATIONS",
    "SCALAR",
    "SPATIAL",
    "TEMPORAL",
    "Arithmetic",
    "Array",
    "BBox",
    "Between",
    "Combined",
    "Compared",
    "Date",
    "Expression",
    "Folded",
    "Function",
    "InList",
    "Interval",
    "IsNull",
    "Like",
    "Not",
    "Number",
    "Property",
    "Related",
    "Sort",
    "Text",
    "Timestamp",
    "Truth",
    "expected_words",
    "functions_of",
    "operands_of",
    "sort_of",
]

NODES_MAX = 10_000
NESTING_MAX = 64

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Sort(IntFlag):
    """What an expression is, as far as the grammar can tell."""

    TEXT = 1
    NUMBER = 2
    TRUTH = 4
    INSTANT = 8
    INTERVAL = 16
    GEOMETRY = 32
    ARRAY = 64
    CONDITION = 128
    PROPERTY = 256
    FUNCTION = 512


_ANY = Sort.PROPERTY | Sort.FUNCTION
SCALAR = Sort.TEXT | Sort.NUMBER | Sort.TRUTH | Sort.INSTANT | _ANY
CHARACTERS = Sort.TEXT | _ANY
NUMERIC = Sort.NUMBER | _ANY
RANGED = Sort.NUMBER | Sort.TEXT | Sort.INSTANT | _ANY
LOGICAL = Sort.CONDITION | Sort.TRUTH | Sort.FUNCTION
SPATIAL = Sort.GEOMETRY | _ANY
TEMPORAL = Sort.INSTANT | Sort.INTERVAL | _ANY
ARRAYS = Sort.ARRAY | _ANY
END_OF_INTERVAL = Sort.INSTANT | _ANY
ANYTHING = ~Sort(0)
NULLABLE = ANYTHING & ~Sort.ARRAY

_WORDS = {
    Sort.CONDITION: "a condition",
    Sort.TEXT: "a 'text'",
    Sort.NUMBER: "a number",
    Sort.TRUTH: "TRUE or FALSE",
    Sort.INSTANT: "DATE('…') or TIMESTAMP('…')",
    Sort.INTERVAL: "INTERVAL('…', '…')",
    Sort.GEOMETRY: "a geometry such as POINT(8.5 47.4)",
    Sort.ARRAY: "an array such as ('a', 'b')",
    Sort.PROPERTY: "a property",
    Sort.FUNCTION: "a function",
}


def expected_words(sorts: Sort) -> tuple[str, ...]:
    """What may stand in a place, in the reader's words."""
    return tuple(word for sort, word in _WORDS.items() if sort & sorts)


@dataclass(frozen=True, slots=True)
class Property:
    """An attribute of the event."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A character literal."""

    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric literal."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class Date:
    """A day: for comparisons, its first moment in UTC."""

    value: date


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment, in UTC."""

    value: datetime


@dataclass(frozen=True, slots=True)
class Interval:
    """The time from start to end, both included. None is an end that is open: `'..'`."""

    start: "Expression | None"
    end: "Expression | None"


@dataclass(frozen=True, slots=True)
class BBox:
    """A box of four or six numbers; west > east crosses the antimeridian."""

    numbers: tuple[float, ...]

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """West, south, east and north, without the heights."""
        half = len(self.numbers) // 2
        west, south = self.numbers[:2]
        east, north = self.numbers[half : half + 2]
        return (west, south, east, north)


@dataclass(frozen=True, slots=True)
class Array:
    """A list of expressions."""

    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A call of an operator that the user has defined."""

    name: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """A text without its case (`how` is casei) or without its accents (accenti)."""

    how: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers combined by `+ - * / % div ^`."""

    sign: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Compared:
    """Two values compared by `= <> < <= > >=`."""

    sign: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Like:
    """A text that matches a pattern; the pattern is a literal, maybe folded."""

    operand: "Expression"
    pattern: "Expression"


@dataclass(frozen=True, slots=True)
class Between:
    """A value from `low` to `high`, both included."""

    operand: "Expression"
    low: "Expression"
    high: "Expression"


@dataclass(frozen=True, slots=True)
class InList:
    """A value that is one of a list."""

    operand: "Expression"
    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A value that is missing, or a condition that is unknown."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Related:
    """Two geometries, times or arrays in a relation of `RELATIONS`."""

    relation: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Combined:
    """Two conditions or more, combined by `sign`: and, or."""

    sign: str
    parts: tuple["Expression", ...]


Expression = (
    Property
    | Text
    | Number
    | Truth
    | Date
    | Timestamp
    | Interval
    | Geometry
    | BBox
    | Array
    | Function
    | Folded
    | Arithmetic
    | Compared
    | Like
    | Between
    | InList
    | IsNull
    | Related
    | Not
    | Combined
)

_SORTS: dict[type, Sort] = {
    Property: Sort.PROPERTY,
    Function: Sort.FUNCTION,
    Text: Sort.TEXT,
    Folded: Sort.TEXT,
    Number: Sort.NUMBER,
    Arithmetic: Sort.NUMBER,
    Truth: Sort.TRUTH,
    Date: Sort.INSTANT,
    Timestamp: Sort.INSTANT,
    Interval: Sort.INTERVAL,
    Geometry: Sort.GEOMETRY,
    BBox: Sort.GEOMETRY,
    Array: Sort.ARRAY,
}

RELATIONS: dict[str, Sort] = {
    **dict.fromkeys(
        ("s_intersects", "s_equals", "s_disjoint", "s_touches", "s_within", "s_overlaps", "s_crosses", "s_contains"),
        SPATIAL,
    ),
    **dict.fromkeys(("t_after", "t_before", "t_contains", "t_disjoint", "t_during", "t_equals"), TEMPORAL),
    **dict.fromkeys(("t_finishedby", "t_finishes", "t_intersects", "t_meets", "t_metby"), TEMPORAL),
    **dict.fromkeys(("t_overlappedby", "t_overlaps", "t_startedby", "t_starts"), TEMPORAL),
    **dict.fromkeys(("a_equals", "a_contains", "a_containedby", "a_overlaps"), ARRAYS),
}
"""Every relation, and what both of its operands must be."""


def sort_of(expression: Expression) -> Sort:
    """What an expression is."""
    return _SORTS.get(type(expression), Sort.CONDITION)


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly in an expression."""
    match expression:
        case Arithmetic() | Compared() | Related():
            return (expression.left, expression.right)
        case Combined():
            return expression.parts
        case Not() | IsNull() | Folded():
            return (expression.operand,)
        case Like():
            return (expression.operand, expression.pattern)
        case Between():
            return (expression.operand, expression.low, expression.high)
        case InList():
            return (expression.operand, *expression.items)
        case Array():
            return expression.items
        case Function():
            return expression.arguments
        case Interval():
            return tuple(end for end in (expression.start, expression.end) if end is not None)
    return ()


def functions_of(expression: Expression) -> Iterator[Function]:
    """Every call of a function in an expression."""
    if isinstance(expression, Function):
        yield expression
    for operand in operands_of(expression):
        yield from functions_of(operand)
