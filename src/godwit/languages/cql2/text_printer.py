"""Writes the text encoding of CQL2.

A text cannot say everything that JSON can: a text with a backslash before a quote or at its end, a function whose name
is no identifier. Such an expression is written as JSON, which both languages read.
"""

from godwit.filters.geometries import COLLECTION, LEVELS, Geometry
from godwit.languages.cql2.expressions import (
    RELATIONS,
    Arithmetic,
    Array,
    BBox,
    Between,
    Combined,
    Compared,
    Date,
    Expression,
    Folded,
    Function,
    InList,
    Interval,
    IsNull,
    Like,
    Not,
    Number,
    Property,
    Related,
    Sort,
    Text,
    Timestamp,
    Truth,
    sort_of,
)
from godwit.languages.cql2.instants import written
from godwit.languages.cql2.json_encoding import to_json_text
from godwit.languages.cql2.words import IDENTIFIER, RESERVED

__all__ = ["KEYWORDS", "to_text"]

KEYWORDS = frozenset(
    {
        *RESERVED,
        *(relation.upper() for relation in RELATIONS),
        *(kind.upper() for kind in (*LEVELS, COLLECTION)),
        *("CASEI", "ACCENTI", "DATE", "TIMESTAMP", "INTERVAL", "BBOX"),
    }
)
"""Words that name no function; a property of such a name is written in quotes."""

_POSITION_NUMBERS = 2


class _NoText(Exception):
    """Only JSON can say this."""


def to_text(expression: Expression) -> str:
    """The text of an expression, which reads as an equal one."""
    try:
        return _written(expression)
    except _NoText:
        return to_json_text(expression)


def _written(expression: Expression) -> str:
    match expression:
        case Property(name=name):
            plain = IDENTIFIER.fullmatch(name) and name.upper() not in KEYWORDS
            return name if plain else '"{}"'.format(name.replace('"', '""'))
        case Text(value=value):
            return _quoted(value)
        case Number(value=value):
            return repr(value)
        case Truth(value=value):
            return "TRUE" if value else "FALSE"
        case Date() | Timestamp():
            return f"{type(expression).__name__.upper()}('{written(expression)}')"
        case Interval(start=start, end=end):
            return f"INTERVAL({_end(start)}, {_end(end)})"
        case Geometry():
            return _geometry(expression)
        case BBox(numbers=numbers):
            return f"BBOX({', '.join(map(repr, numbers))})"
        case Array(items=items):
            return _list(items)
        case Function(name=name, arguments=arguments):
            if not IDENTIFIER.fullmatch(name) or name.upper() in KEYWORDS:
                raise _NoText
            return f"{name}{_list(arguments)}"
        case Folded(how=how, operand=operand):
            return f"{how.upper()}({_written(operand)})"
        case Arithmetic(sign=sign, left=left, right=right):
            return f"{_term(left)} {sign} {_term(right)}"
    return _condition(expression)


def _condition(expression: Expression) -> str:
    match expression:
        case Compared(sign=sign, left=left, right=right):
            return f"{_written(left)} {sign} {_written(right)}"
        case Like(operand=operand, pattern=pattern):
            return f"{_written(operand)} LIKE {_written(pattern)}"
        case Between(operand=operand, low=low, high=high):
            return f"{_written(operand)} BETWEEN {_written(low)} AND {_written(high)}"
        case InList(operand=operand, items=items):
            return f"{_written(operand)} IN {_list(items)}"
        case IsNull(operand=operand):
            return f"{_nested(operand)} IS NULL"
        case Related(relation=relation, left=left, right=right):
            return f"{relation.upper()}({_written(left)}, {_written(right)})"
        case Not(operand=operand):
            return f"NOT {_nested(operand)}"
        case Combined(sign=sign, parts=parts):
            return f" {sign.upper()} ".join(
                _nested(part) if isinstance(part, Combined) else _written(part) for part in parts
            )
    raise AssertionError(expression)


def _nested(expression: Expression) -> str:
    """A condition in parentheses; what is none as it is."""
    text = _written(expression)
    return f"({text})" if sort_of(expression) is Sort.CONDITION else text


def _term(expression: Expression) -> str:
    text = _written(expression)
    return f"({text})" if isinstance(expression, Arithmetic) else text


def _quoted(text: str) -> str:
    if "\\'" in text or text.endswith("\\"):
        raise _NoText
    return "'{}'".format(text.replace("'", "''"))


def _end(end: Expression | None) -> str:
    if end is None:
        return "'..'"
    return f"'{written(end)}'" if isinstance(end, Date | Timestamp) else _written(end)


def _list(items: tuple[Expression, ...]) -> str:
    return f"({', '.join(map(_written, items))})"


def _geometry(geometry: Geometry) -> str:
    kind = geometry.kind.upper()
    if geometry.kind == COLLECTION:
        return f"{kind}({', '.join(map(_geometry, geometry.coordinates))})"
    text = _coordinates(geometry.coordinates, LEVELS[geometry.kind], geometry.kind)
    first = geometry.coordinates
    for _ in range(LEVELS[geometry.kind]):
        first = first[0]
    return f"{kind}{' Z' if len(first) > _POSITION_NUMBERS else ''}{text}"


def _coordinates(coordinates: tuple[object, ...], level: int, kind: str) -> str:
    if level == 0:
        return f"({' '.join(map(repr, coordinates))})"
    if level == 1 and kind != "MultiPoint":
        return "({})".format(", ".join(" ".join(map(repr, position)) for position in coordinates))  # type: ignore[call-overload]
    return f"({', '.join(_coordinates(inner, level - 1, kind) for inner in coordinates)})"  # type: ignore[arg-type]
