"""Reads and writes the JSON encoding of CQL2.

What is wrong is found by its path in the document (`/args/0/property`), and shown at its line and column: the text is
walked along that path only when there is an error to place.
"""

import json
import re
from collections.abc import Collection
from typing import Any

from godwit.errors import BadValue, FilterSyntaxError, FilterTooBig
from godwit.filters.geometries import Geometry, geojson_of, geometry_from_geojson, outline
from godwit.filters.values import checked_value
from godwit.languages.cql2.expressions import (
    ANYTHING,
    CHARACTERS,
    COMPARISONS,
    END_OF_INTERVAL,
    LOGICAL,
    NESTING_MAX,
    NODES_MAX,
    NULLABLE,
    NUMERIC,
    RANGED,
    RELATIONS,
    SCALAR,
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
    expected_words,
    sort_of,
)
from godwit.languages.cql2.geometry_literals import checked_bbox
from godwit.languages.cql2.instants import instant_of, written
from godwit.languages.cql2.text_folding import pattern_set
from godwit.languages.cql2.words import check_size

__all__ = ["parse_json", "to_json", "to_json_text"]

Path = tuple[str | int, ...]

_ARITHMETIC = ("+", "-", "*", "/", "%", "div", "^")
_SPELLED = {
    "isnull": "isNull",
    "t_finishedby": "t_finishedBy",
    "t_metby": "t_metBy",
    "t_overlappedby": "t_overlappedBy",
    "t_startedby": "t_startedBy",
    "a_containedby": "a_containedBy",
}
_OPERATORS = {"and", "or", "not", "like", "between", "in", "isnull", "casei", "accenti", *_ARITHMETIC, *COMPARISONS}
_LEAST_OF_COMBINED = 2
_BOX_NUMBERS = (4, 6)


class _Wrong(Exception):
    """A document that is not an expression, at a path."""

    def __init__(self, message: str, path: Path, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message, path, expected)
        self.message = message
        self.path = path
        self.expected = expected


def parse_json(text: str, functions: Collection[str] | None = None) -> Expression:
    """The expression that a document says. A function that is not among `functions` is an error; None allows all."""
    check_size(text)
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FilterSyntaxError.at(error.pos, f"no JSON: {error.msg}", text) from None
    except RecursionError:
        raise FilterSyntaxError.at(
            0, f"nested deeper than {NESTING_MAX} levels, which are the most allowed", text
        ) from None
    except ValueError as error:
        raise FilterSyntaxError.at(0, f"no JSON: {error}", text) from None
    try:
        return _Reader(functions).fitting(document, LOGICAL, ())
    except _Wrong as wrong:
        where = "".join(f"/{step}" for step in wrong.path)
        message = f"{wrong.message} (at {where})" if where else wrong.message
        raise FilterSyntaxError.at(_offset(text, wrong.path), message, text, wrong.expected) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


class _Reader:
    """Reads one document."""

    def __init__(self, functions: Collection[str] | None) -> None:
        self._nodes = 0
        self._functions = None if functions is None else {name.lower() for name in functions}

    def fitting(self, value: Any, sorts: Sort, path: Path) -> Expression:
        """The expression that a value says, which may stand in this place."""
        expression = self._expression(value, path)
        if not sort_of(expression) & sorts:
            [found] = expected_words(sort_of(expression))
            raise _Wrong(f"{found} has no place here", path, expected_words(sorts))
        return expression

    def _expression(self, value: Any, path: Path) -> Expression:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise FilterTooBig(
                f"a CQL2 query of more than {NODES_MAX} operands and operators, which are the most allowed"
            )
        if len(path) > 2 * NESTING_MAX:  # each level is a member and a place in a list
            raise _Wrong(f"nested deeper than {NESTING_MAX} levels, which are the most allowed", path[:8])
        try:
            if type(value) is bool:
                return Truth(value)
            if type(value) in (int, float):
                return Number(checked_value(value))  # type: ignore[arg-type]
            if type(value) is str:
                return Text(str(checked_value(value)))
            if type(value) is list:
                return Array(tuple(self.fitting(item, ANYTHING, (*path, place)) for place, item in enumerate(value)))
            if type(value) is dict:
                return self._object(value, path)
        except BadValue as error:
            raise _Wrong(str(error), path) from None
        raise _Wrong("null is not a value: ask isNull", path, expected_words(ANYTHING))

    def _object(self, value: dict[str, Any], path: Path) -> Expression:
        if "op" in value:
            return self._operator(value, path)
        if "property" in value:
            name = value["property"]
            if type(name) is not str or not name:
                raise _Wrong("a property without a name", (*path, "property"), ("a text",))
            return Property(str(checked_value(name)))
        for kind in ("date", "timestamp"):
            if kind in value:
                return self._instant(kind, value[kind], (*path, kind))
        if "interval" in value:
            return self._interval(value["interval"], (*path, "interval"))
        if "type" in value:
            geometry = geometry_from_geojson(value)
            if outline(geometry) is None:
                raise BadValue("a geometry without positions")
            return geometry
        if "bbox" in value:
            numbers = value["bbox"]
            is_box = type(numbers) is list and len(numbers) in _BOX_NUMBERS
            if not is_box or not all(type(number) in (int, float) for number in numbers):
                raise _Wrong("a bbox is a list of four or six numbers", (*path, "bbox"))
            for number in numbers:
                checked_value(number)
            return checked_bbox(BBox(tuple(numbers)))
        members = ("op", "property", "date", "timestamp", "interval", "type", "bbox")
        raise _Wrong("an object that says nothing", path, tuple(f'"{member}"' for member in members))

    def _instant(self, kind: str, text: Any, path: Path) -> Expression:
        instant = instant_of(text) if type(text) is str else None
        if type(instant).__name__.lower() != kind:
            raise _Wrong(f"{text!r:.60} is no {kind}", path)
        return instant  # type: ignore[return-value]

    def _interval(self, ends: Any, path: Path) -> Expression:
        if type(ends) is not list or len(ends) != 2:
            raise _Wrong("an interval is a list of two ends", path)
        start, end = (self._end(end, (*path, place)) for place, end in enumerate(ends))
        return Interval(start, end)

    def _end(self, value: Any, path: Path) -> Expression | None:
        if type(value) is not str:
            return self.fitting(value, END_OF_INTERVAL, path)
        try:
            return None if value == ".." else instant_of(value)
        except BadValue as error:
            raise _Wrong(str(error), path) from None

    def _operator(self, value: dict[str, Any], path: Path) -> Expression:
        name, arguments = value["op"], value.get("args")
        if type(name) is not str or not name:
            raise _Wrong("an op without a name", (*path, "op"), ("a text",))
        if type(arguments) is not list:
            raise _Wrong(f"the op {name!r:.60} needs a list of args", path, ('"args"',))
        low = name.lower()
        inside = (*path, "args")
        if low in RELATIONS:
            left, right = self._operands(arguments, [RELATIONS[low]] * 2, inside)
            return Related(low, left, right)
        if low not in _OPERATORS:
            return self._function(name, arguments, path)
        match low:
            case "and" | "or":
                if len(arguments) < _LEAST_OF_COMBINED:
                    raise _Wrong(f"the op {low!r} of {len(arguments)} args: two at least are needed", inside)
                return Combined(low, self._operands(arguments, [LOGICAL] * len(arguments), inside))
            case "not":
                return Not(*self._operands(arguments, [LOGICAL], inside))
            case "isnull":
                return IsNull(*self._operands(arguments, [NULLABLE], inside))
            case "casei" | "accenti":
                return Folded(low, *self._operands(arguments, [CHARACTERS], inside))
            case "between":
                return Between(*self._operands(arguments, [RANGED] * 3, inside))
            case "like":
                operand, pattern = self._operands(arguments, [CHARACTERS, Sort.TEXT], inside)
                self._check_pattern(pattern, (*inside, 1))
                return Like(operand, pattern)
            case "in":
                operand, items = self._operands(arguments, [SCALAR, Sort.ARRAY], inside)
                assert isinstance(items, Array)
                for place, item in enumerate(items.items):
                    if not sort_of(item) & SCALAR:
                        raise _Wrong("this has no place in a list", (*inside, 1, place), expected_words(SCALAR))
                return InList(operand, items.items)
        sorts = SCALAR if low in COMPARISONS else NUMERIC
        return (Compared if low in COMPARISONS else Arithmetic)(low, *self._operands(arguments, [sorts] * 2, inside))

    def _operands(self, arguments: list[Any], sorts: list[Sort], path: Path) -> tuple[Expression, ...]:
        if len(arguments) != len(sorts):
            raise _Wrong(f"{len(arguments)} args, and {len(sorts)} are needed", path)
        return tuple(
            self.fitting(argument, sort, (*path, place))
            for place, (argument, sort) in enumerate(zip(arguments, sorts, strict=True))
        )

    def _check_pattern(self, pattern: Expression, path: Path) -> None:
        literal = pattern
        while isinstance(literal, Folded):
            literal = literal.operand
        if not isinstance(literal, Text):
            raise _Wrong("a pattern is a text, or casei or accenti of one", path, ("a text",))
        try:
            pattern_set(pattern)
        except BadValue as error:
            raise _Wrong(str(error), path) from None

    def _function(self, name: str, arguments: list[Any], path: Path) -> Function:
        if self._functions is not None and name.lower() not in self._functions:
            known = tuple(sorted(self._functions)) or ("a function that is registered: none is",)
            raise _Wrong(f"there is no function {name!r:.60}", (*path, "op"), known)
        checked_value(name)
        return Function(name, self._operands(arguments, [ANYTHING] * len(arguments), (*path, "args")))


# ---------------------------------------------------------------- where something stands

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def _offset(text: str, path: Path) -> int:
    """Where the value at a path begins in a document that is well formed."""
    offset = _after_blanks(text, 0)
    for step in path:
        found = _member(text, offset, step) if type(step) is str else _item(text, offset, int(step))
        if found is None:
            return offset
        offset = found
    return offset


def _member(text: str, offset: int, name: str) -> int | None:
    if text[offset] != "{":
        return None
    offset = _after_blanks(text, offset + 1)
    found = None
    while text[offset] != "}":
        key, offset = _DECODER.raw_decode(text, offset)
        offset = _after_blanks(text, _after_blanks(text, offset) + 1)
        if key == name:
            found = offset  # of several, the last counts
        offset = _next(text, offset)
    return found


def _item(text: str, offset: int, place: int) -> int | None:
    if text[offset] != "[":
        return None
    offset = _after_blanks(text, offset + 1)
    for _ in range(place):
        offset = _next(text, offset)
    return offset


def _next(text: str, offset: int) -> int:
    """Behind a value and the comma after it."""
    _, offset = _DECODER.raw_decode(text, offset)
    offset = _after_blanks(text, offset)
    return _after_blanks(text, offset + 1) if text[offset] == "," else offset


def _after_blanks(text: str, offset: int) -> int:
    blanks = _BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


# ---------------------------------------------------------------- writing


def to_json_text(expression: Expression) -> str:
    """The document of an expression, as short as it can be."""
    return json.dumps(to_json(expression), separators=(",", ":"), ensure_ascii=False)


def to_json(expression: Expression) -> Any:
    """The document of an expression, which reads as an equal one."""
    match expression:
        case Property(name=name):
            return {"property": name}
        case Text(value=value) | Number(value=value) | Truth(value=value):
            return value
        case Date() | Timestamp():
            return {type(expression).__name__.lower(): written(expression)}
        case Interval(start=start, end=end):
            return {"interval": [_written_end(start), _written_end(end)]}
        case Geometry():
            return geojson_of(expression)
        case BBox(numbers=numbers):
            return {"bbox": list(numbers)}
        case Array(items=items):
            return [to_json(item) for item in items]
        case Function(name=name, arguments=arguments):
            return _call(name, *arguments)
        case Folded(how=how, operand=operand):
            return _call(how, operand)
        case Arithmetic(sign=sign, left=left, right=right) | Compared(sign=sign, left=left, right=right):
            return _call(sign, left, right)
    return _condition(expression)


def _condition(expression: Expression) -> Any:
    match expression:
        case Like(operand=operand, pattern=pattern):
            return _call("like", operand, pattern)
        case Between(operand=operand, low=low, high=high):
            return _call("between", operand, low, high)
        case InList(operand=operand, items=items):
            return _call("in", operand, Array(items))
        case IsNull(operand=operand):
            return _call("isnull", operand)
        case Related(relation=relation, left=left, right=right):
            return _call(relation, left, right)
        case Not(operand=operand):
            return _call("not", operand)
        case Combined(sign=sign, parts=parts):
            return _call(sign, *parts)
    raise AssertionError(expression)


def _call(name: str, *operands: Expression) -> dict[str, Any]:
    return {"op": _SPELLED.get(name, name), "args": [to_json(operand) for operand in operands]}


def _written_end(end: Expression | None) -> Any:
    if end is None:
        return ".."
    return written(end) if isinstance(end, Date | Timestamp) else to_json(end)
