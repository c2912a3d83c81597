"""The exact test of a CQL2 expression for an event.

*Theory.* An expression is compiled once into functions of the event. A condition is true, false or unknown (None); an
operand is the tuple of its values, since an attribute may have several, and is empty when it has none.

*Rules.*
1. What a missing value is compared with is unknown, and NOT of unknown is unknown. Only what is true matches.
2. A predicate over several values is true when it is true of some of them, as in our own filters: of 5 and 6, `x = 5`
   and `x <> 5` are both true, and `NOT x = 5` is false.
3. Values of two kinds are unequal, and none is less than the other.
4. Arithmetic that has no result (a text, a division by zero, an overflow) has no value.
5. A function is called with values, never with a missing one. One that raises has no answer: the test fails.
6. A test spends a step for each node, and more where there are several values, long texts or geometries.
"""

import math
import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from godwit.errors import BadValue, FilterError
from godwit.filters import Event, Value
from godwit.filters.events import values_of
from godwit.filters.geometries import GEOJSON, Geometry
from godwit.filters.regions import load_shapely
from godwit.filters.sets import ValueSet
from godwit.filters.values import checked_value, identity
from godwit.languages.comparisons import holds
from godwit.languages.cql2.expressions import (
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
    operands_of,
    sort_of,
)
from godwit.languages.cql2.geometry_literals import (
    Shape,
    geometries_of_event,
    is_shape,
    positions_of,
    related,
    shape_of,
)
from godwit.languages.cql2.instants import ENDS, FIRST, LAST, moment_of
from godwit.languages.cql2.text_folding import folded, pattern_set
from godwit.languages.operators import Operator
from godwit.languages.query import Subject

__all__ = ["Operators", "constant_values", "is_constant", "size_of", "truth_of"]

Operators = Mapping[str, Operator]
"""Operators by their names in small letters."""
Values = tuple[Any, ...]
Truth3 = bool | None
Condition = Callable[[Subject], Truth3]
Operand = Callable[[Subject], Values]

CHARACTERS_PER_STEP = 64


def size_of(expression: Expression) -> int:
    """How many nodes an expression has: the steps that its test takes at least. (rule 6)"""
    return 1 + sum(map(size_of, operands_of(expression)))


def is_constant(expression: Expression) -> bool:
    """Whether an expression says the same of every event."""
    return not isinstance(expression, Property | Function) and all(map(is_constant, operands_of(expression)))


def constant_values(expression: Expression) -> Values:
    """The values of a constant operand."""
    if isinstance(expression, Text | Number | Truth):
        return (expression.value,)
    return _operand(expression, {})(Subject(Event({})))


# ---------------------------------------------------------------- conditions


def truth_of(expression: Expression, operators: Operators) -> Condition:
    """The test of a condition."""
    match expression:
        case Truth(value=value):
            return lambda subject: value
        case Not(operand=operand):
            inner = truth_of(operand, operators)
            return lambda subject: None if (truth := inner(subject)) is None else not truth
        case Combined(sign=sign, parts=parts):
            return _combined(sign == "and", [truth_of(part, operators) for part in parts])
        case Compared(sign=sign, left=left, right=right):
            return _compared(sign, _operand(left, operators), _operand(right, operators))
        case Between(operand=operand, low=low, high=high):
            return _between(*(_operand(each, operators) for each in (operand, low, high)))
        case InList(operand=operand, items=items):
            return _in_list(_operand(operand, operators), [_operand(item, operators) for item in items])
        case Like(operand=operand, pattern=pattern):
            return _like(_operand(operand, operators), pattern_set(pattern))
        case IsNull(operand=operand):
            return _is_null(operand, operators)
        case Related(relation=relation, left=left, right=right):
            return _related(relation, left, right, operators)
        case Function():
            call = _called(expression, operators)
            return lambda subject: None if (result := call(subject)) is None else bool(result)
    raise AssertionError(expression)


def _combined(is_and: bool, parts: list[Condition]) -> Condition:
    def combined(subject: Subject) -> Truth3:
        answer: Truth3 = is_and
        for part in parts:
            truth = part(subject)
            if truth is None:
                answer = None
            elif truth is not is_and:
                return truth
        return answer

    return combined


def _compared(sign: str, left: Operand, right: Operand) -> Condition:
    def compared(subject: Subject) -> Truth3:
        lefts, rights = left(subject), right(subject)
        if not lefts or not rights:
            return None
        subject.spend(len(lefts) * len(rights))
        return any(holds(sign, one, other) for one in lefts for other in rights)

    return compared


def _between(operand: Operand, low: Operand, high: Operand) -> Condition:
    def between(subject: Subject) -> Truth3:
        values, lows, highs = operand(subject), low(subject), high(subject)
        if not values or not lows or not highs:
            return None
        subject.spend(len(values) * len(lows) * len(highs))
        return any(
            holds(">=", value, least) and holds("<=", value, most)
            for value, least, most in product(values, lows, highs)
        )

    return between


def _in_list(operand: Operand, items: list[Operand]) -> Condition:
    def in_list(subject: Subject) -> Truth3:
        values = operand(subject)
        if not values:
            return None
        answer: Truth3 = False
        for item in items:
            others = item(subject)
            subject.spend(len(values) * len(others))
            if any(holds("=", value, other) for value in values for other in others):
                return True
            if not others:
                answer = None
        return answer

    return in_list


def _like(operand: Operand, wanted: ValueSet) -> Condition:
    def matches(subject: Subject) -> Truth3:
        values = operand(subject)
        if not values:
            return None
        subject.spend(len(values) + sum(len(value) for value in values if type(value) is str) // CHARACTERS_PER_STEP)
        return any(type(value) is str and wanted.contains(value) for value in values)

    return matches


def _is_null(operand: Expression, operators: Operators) -> Condition:
    if isinstance(operand, Property):
        name, text = operand.name, f"{operand.name}/{GEOJSON}"
        return lambda subject: name not in subject.event.attributes and text not in subject.event.attributes
    if sort_of(operand) is Sort.CONDITION:
        inner = truth_of(operand, operators)
        return lambda subject: inner(subject) is None
    argument = _argument(operand, operators)
    return lambda subject: argument(subject) is None


def _related(relation: str, left: Expression, right: Expression, operators: Operators) -> Condition:
    if relation.endswith("_disjoint"):  # of several values, none may intersect (rule 2)
        intersects = _related(relation.replace("disjoint", "intersects"), left, right, operators)
        return lambda subject: None if (truth := intersects(subject)) is None else not truth
    if relation in ENDS:
        return _times_related(relation, _times(left, operators), _times(right, operators))
    if relation.startswith("a_"):
        return _arrays_related(relation, _elements(left, operators), _elements(right, operators))
    return _shapes_related(relation, _shapes(left, operators), _shapes(right, operators))


# ---------------------------------------------------------------- operands


def _operand(expression: Expression, operators: Operators) -> Operand:
    """The values of a scalar operand."""
    match expression:
        case Property(name=name):
            return lambda subject: _values(subject.event, name)
        case Text(value=value) | Number(value=value) | Truth(value=value):
            held: Values = (value,)
            return lambda subject: held
        case Date() | Timestamp():
            moment = (moment_of(expression),)
            return lambda subject: moment
        case Folded(how=how, operand=operand):
            return _folded(how, _operand(operand, operators))
        case Arithmetic(sign=sign, left=left, right=right):
            return _calculated(_CALCULATIONS[sign], _operand(left, operators), _operand(right, operators))
        case Function():
            call = _called(expression, operators)
            return lambda subject: _as_values(expression.name, call(subject))
    raise AssertionError(expression)


def _values(event: Event, name: str) -> Values:
    held = event.attributes.get(name)
    return () if held is None else values_of(held)


def _folded(how: str, operand: Operand) -> Operand:
    def fold(subject: Subject) -> Values:
        values = operand(subject)
        subject.spend(sum(len(value) for value in values if type(value) is str) // CHARACTERS_PER_STEP)
        return tuple(folded(how, value) for value in values)

    return fold


def _calculated(calculate: Callable[[Any, Any], Any], left: Operand, right: Operand) -> Operand:
    def calculated(subject: Subject) -> Values:
        lefts, rights = left(subject), right(subject)
        subject.spend(len(lefts) * len(rights))
        results = (_result(calculate, one, other) for one, other in product(lefts, rights))
        return tuple(result for result in results if result is not None)

    return calculated


def _result(calculate: Callable[[Any, Any], Any], one: Any, other: Any) -> int | float | None:
    """The result of a calculation, or None when it has none. (rule 4)"""
    if type(one) not in (int, float) or type(other) not in (int, float):
        return None
    try:
        result = calculate(one, other)
        return result if type(result) in (int, float) and math.isfinite(result) else None
    except (ArithmeticError, ValueError):
        return None


def _whole_quotient(one: float, other: float) -> float:
    """Division without the remainder, towards zero as in SQL."""
    if type(one) is int and type(other) is int:
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) is (other < 0) else -quotient
    return float(math.trunc(one / other))


def _remainder(one: float, other: float) -> float:
    """What `div` leaves: it has the sign of the first number."""
    return one - other * _whole_quotient(one, other) if type(one) is type(other) is int else math.fmod(one, other)


_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "div": _whole_quotient,
    "%": _remainder,
    "^": math.pow,
}


# ---------------------------------------------------------------- functions


def _called(function: Function, operators: Operators) -> Callable[[Subject], Any]:
    """The result of a function, None when an argument is missing. (rule 5)"""
    arguments = [_argument(argument, operators) for argument in function.arguments]
    call = operators[function.name.lower()].holds

    def called(subject: Subject) -> Any:
        given = [argument(subject) for argument in arguments]
        if any(each is None for each in given):
            return None
        try:
            return call(*given)
        except Exception as error:
            raise FilterError(f"the operator {function.name!r} failed: {type(error).__name__}: {error}") from error

    return called


def _as_values(name: str, result: Any) -> Values:
    """What a function has returned, as the values of an operand."""
    if result is None:
        return ()
    if isinstance(result, list | tuple | set | frozenset):
        return tuple(value for each in result for value in _as_values(name, each))
    if isinstance(result, np.bool_):
        return (bool(result),)
    if is_shape(result):
        return (result,)
    try:
        return (checked_value(result),)
    except BadValue as error:
        raise FilterError(f"the operator {name!r} returned what is not a value: {error}") from None


def _argument(expression: Expression, operators: Operators) -> Callable[[Subject], Any]:
    """What a function is given: a value, several as a tuple, a Shapely geometry; None when it is missing."""
    match expression:
        case Geometry() | BBox():
            shape = shape_of(expression)
            return lambda subject: shape
        case Property(name=name):
            return lambda subject: _one_or_several(_values(subject.event, name) or _shapes_of(subject, name))
        case Interval():
            times = _times(expression, operators)
            return lambda subject: _one_or_several(times(subject))
        case Array(items=items):
            arguments = [_argument(item, operators) for item in items]
            return lambda subject: _all_or_none([argument(subject) for argument in arguments])
        case Function():
            return _called(expression, operators)
    if sort_of(expression) is Sort.CONDITION:
        return truth_of(expression, operators)
    operand = _operand(expression, operators)
    return lambda subject: _one_or_several(operand(subject))


def _one_or_several(values: Values) -> Any:
    return (values[0] if len(values) == 1 else values) if values else None


def _all_or_none(values: list[Any]) -> Any:
    return None if any(value is None for value in values) else values


# ---------------------------------------------------------------- times, arrays, geometries


def _times(expression: Expression, operators: Operators) -> Operand:
    """The pairs of start and end of a temporal operand."""
    if not isinstance(expression, Interval):
        instants = _operand(expression, operators)
        return lambda subject: tuple((instant, instant) for instant in instants(subject))
    starts = _end(expression.start, FIRST, operators)
    ends = _end(expression.end, LAST, operators)

    def intervals(subject: Subject) -> Values:
        first, last = starts(subject), ends(subject)
        subject.spend(len(first) * len(last))
        return tuple(product(first, last))

    return intervals


def _end(end: Expression | None, open_end: Value, operators: Operators) -> Operand:
    return (lambda subject: (open_end,)) if end is None else _operand(end, operators)


def _times_related(relation: str, left: Operand, right: Operand) -> Condition:
    places = {"start": 0, "end": 1}
    comparisons = [(places[one], sign, places[other]) for one, sign, other in ENDS[relation]]

    def times_related(subject: Subject) -> Truth3:
        lefts, rights = left(subject), right(subject)
        if not lefts or not rights:
            return None
        subject.spend(len(lefts) * len(rights))
        return any(
            all(holds(sign, ours[one], theirs[other]) for one, sign, other in comparisons)
            for ours, theirs in product(lefts, rights)
        )

    return times_related


def _elements(expression: Expression, operators: Operators) -> Callable[[Subject], "frozenset[Any] | None"]:
    """The elements of an array by which they compare; None when the array or an element of it is missing."""
    if isinstance(expression, Array):
        items = [_element(item, operators) for item in expression.items]

        def elements(subject: Subject) -> frozenset[Any] | None:
            found = [item(subject) for item in items]
            return None if any(each is None for each in found) else frozenset().union(*found)

        return elements
    operand = _operand(expression, operators)

    def values(subject: Subject) -> frozenset[Any] | None:
        held = operand(subject)
        subject.spend(len(held))
        return frozenset(map(_key, held)) if held else None

    return values


def _element(item: Expression, operators: Operators) -> Callable[[Subject], Any]:
    """The keys of one item of an array literal: one, or more for an attribute with several values."""
    if isinstance(item, Array):
        inner = _elements(item, operators)
        return lambda subject: None if (keys := inner(subject)) is None else ((Array, keys),)
    if sort_of(item) is Sort.CONDITION:
        truth = truth_of(item, operators)
        return lambda subject: None if (held := truth(subject)) is None else (identity(held),)
    if isinstance(item, Geometry | BBox | Interval):
        argument = _argument(item, operators)
        return lambda subject: None if (value := argument(subject)) is None else (_key(value),)
    operand = _operand(item, operators)
    return lambda subject: tuple(map(_key, operand(subject))) or None


def _key(value: Any) -> Any:
    """By what elements of arrays compare."""
    if is_shape(value):
        return load_shapely().normalize(value).wkb
    return (Interval, *value) if type(value) is tuple else identity(value)


_ARRAY_TESTS: dict[str, Callable[[frozenset[Any], frozenset[Any]], bool]] = {
    "a_equals": operator.eq,
    "a_contains": frozenset.issuperset,
    "a_containedby": frozenset.issubset,
    "a_overlaps": lambda left, right: not left.isdisjoint(right),
}


def _arrays_related(relation: str, left: Callable[[Subject], Any], right: Callable[[Subject], Any]) -> Condition:
    test = _ARRAY_TESTS[relation]

    def arrays_related(subject: Subject) -> Truth3:
        ours, theirs = left(subject), right(subject)
        return None if ours is None or theirs is None else test(ours, theirs)

    return arrays_related


def _shapes(expression: Expression, operators: Operators) -> Operand:
    """The geometries of a spatial operand."""
    match expression:
        case Geometry() | BBox():
            shape = shape_of(expression)
            load_shapely().prepare(shape)
            held = (shape,)
            return lambda subject: held
        case Property(name=name):
            return lambda subject: _shapes_of(subject, name)
    operand = _operand(expression, operators)
    return lambda subject: tuple(value for value in operand(subject) if is_shape(value))


def _shapes_of(subject: Subject, name: str) -> tuple[Shape, ...]:
    return subject.derived(f"cql2 geometries {name}", lambda event: geometries_of_event(event, name))


def _shapes_related(relation: str, left: Operand, right: Operand) -> Condition:
    def shapes_related(subject: Subject) -> Truth3:
        lefts, rights = left(subject), right(subject)
        if not lefts or not rights:
            return None
        answer: Truth3 = False
        for ours, theirs in product(lefts, rights):
            subject.spend(positions_of(ours) + positions_of(theirs))
            truth = related(relation, ours, theirs)
            if truth:
                return True
            if truth is None:
                answer = None
        return answer

    return shapes_related
