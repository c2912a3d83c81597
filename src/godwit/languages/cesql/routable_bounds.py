"""Which events an expression of CESQL can be true for: two filters around it. [motion §4]

*Theory.* A condition has three outcomes: it holds, it fails, or it is an error; and an event for which anything is an
error is not wanted. So a condition is described by three bounds (`bounds.py`): where it `holds`, where it `fails`, and
where it is `defined`, which is either. NOT swaps the first two and leaves the third. AND and OR are evaluated from the
left, and what is not evaluated cannot be an error:

    a AND b   holds: both hold    fails: a fails, or a is defined and b fails
    a OR b    holds: a holds, or a is defined and b holds    fails: both fail

A comparison of an attribute with a constant is two sets of values, of all kinds: those for which it is true after
casts, and those for which it is false. Both are exact for texts and IN, and nearly so for Booleans. An Integer can be
written in any number of ways as a text (`5`, `+5`, `005`), which no value set can say: there the sets are too large
above and too small below.

*Rules.*
1. For each event, and each of the three: the lower bound implies the outcome, the outcome implies the upper bound.
2. A condition on an attribute is an error if the event has none. So `some` and `only`, which need one, say it.
3. For an attribute with several values: it holds for some in the set of those for which it is true, and fails for
   only those for which it is false (`evaluation.py`).
4. Bounds of more than `LITERALS_MAX` literals become the widest.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeGuard

from godwit.errors import FilterError, FilterTooBig
from godwit.filters import (
    EVERYTHING,
    FALSE,
    TRUE,
    And,
    Event,
    Filter,
    Kind,
    Missing,
    Or,
    Some,
    Value,
    ValueSet,
    all_of,
    all_of_kind,
    any_of,
    at_least,
    at_most,
    box,
    complement,
    ends_with,
    interval,
    less_than,
    missing,
    more_than,
    one_of,
    only,
    present,
    some,
)
from godwit.languages.bounds import ALWAYS, NEVER, UNKNOWN, Bounds, all_hold, exactly, some_hold
from godwit.languages.cesql.builtin_functions import BOOLEAN, CASTS, INTEGER, STRING, function_for
from godwit.languages.cesql.casts import (
    FALSE_TEXTS,
    NUMBER_TEXT,
    POINT_TEXT,
    TIME_TEXT,
    TRUE_TEXTS,
    CastFailed,
    boolean_of,
    number_of,
    text_of,
    values_with_text,
)
from godwit.languages.cesql.evaluation import evaluate
from godwit.languages.cesql.expressions import (
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Not,
    Scalar,
    attributes_needed,
    children,
)
from godwit.languages.cesql.like_sets import like_pattern
from godwit.languages.operators import Operator

__all__ = ["LITERALS_MAX", "Condition", "condition_of"]

ODD_PARTS_MAX = 8  # of an XOR: its bounds are twice as large with each
LITERALS_MAX = 1_000
"""Literals of one bound. (rule 4)"""

Operators = Mapping[str, Operator]
Make = Callable[[], Bounds]

_NO_EVENT = Event({})
_BOOLEANS = (True, False)
_BOOLEAN_SETS: dict[tuple[bool, ...], ValueSet] = {
    booleans: one_of(booleans) for booleans in ((True,), (False,), _BOOLEANS)
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RANGES: dict[str, tuple[Callable[[Any], ValueSet], Callable[[Any], ValueSet]]] = {
    "<": (less_than, at_least),
    "<=": (at_most, more_than),
    ">": (more_than, at_most),
    ">=": (at_least, less_than),
}
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_INTEGER_TEXTS = interval("+", ":", high_open=True)
"""Texts that begin with a sign or a digit, and few others: all that can be cast to an Integer."""
_NO_INTEGER_TEXTS = (less_than("+"), at_least(":"))
_TRUE_VALUES = one_of((True, *TRUE_TEXTS))
_FALSE_VALUES = one_of((False, *FALSE_TEXTS))
_FALSE_VALUES_AND_0 = one_of((False, 0, *FALSE_TEXTS))
_NUMBERS, _TIMES = all_of_kind(Kind.NUMBER), all_of_kind(Kind.TIME)
_POINTS = box(-180, -90, 180, 90)
_SETS_OF_FORMS = ((NUMBER_TEXT, _NUMBERS), (TIME_TEXT, _TIMES), (POINT_TEXT, _POINTS))


class Condition:
    """Where a condition holds, fails, and is defined. Each is worked out when it is first asked for."""

    __slots__ = ("_defined", "_fails", "_holds", "_make_defined", "_make_fails", "_make_holds")

    def __init__(self, holds: Make, fails: Make, defined: Make | None = None) -> None:
        self._make_holds, self._make_fails, self._make_defined = holds, fails, defined
        self._holds: Bounds | None = None
        self._fails: Bounds | None = None
        self._defined: Bounds | None = None

    @property
    def holds(self) -> Bounds:
        """Where the condition is true."""
        if self._holds is None:
            self._holds = self._make_holds()
        return self._holds

    @property
    def fails(self) -> Bounds:
        """Where the condition is false."""
        if self._fails is None:
            self._fails = self._make_fails()
        return self._fails

    @property
    def defined(self) -> Bounds:
        """Where the condition is no error."""
        if self._defined is None:
            make = self._make_defined
            self._defined = _any(self.holds, self.fails) if make is None else make()
        return self._defined


def condition_of(expression: Expression, operators: Operators) -> Condition:
    """The condition that an expression, as a whole, is TRUE. [CESQL §1.2: another type than Boolean is never TRUE]"""
    match expression:
        case Attribute(name):
            return _given(exactly(some(name, one_of([True]))), exactly(only(name, one_of([False]))))
    return _condition(expression, operators, _whole)


# ---------------------------------------------------------------- combinations


def _condition(node: Expression, operators: Operators, truth: Callable[[Scalar], bool]) -> Condition:
    """The condition that an expression is true; `truth` is the cast to a Boolean where it stands."""
    if _is_constant(node):
        return _constant(node, truth)
    match node:
        case Logic(operator, parts):
            conditions = [_condition(part, operators, boolean_of) for part in parts]
            return _LOGIC[operator](conditions)
        case Not(operand):
            return _opposite(_condition(operand, operators, _for_not))
        case Exists(name):
            return Condition(lambda: exactly(present(name)), lambda: exactly(missing(name)), lambda: ALWAYS)
        case Comparison("!=", left, right):
            return _opposite(_equal(left, right))
        case Comparison("=", left, right):
            return _equal(left, right)
        case Comparison(operator, left, right):
            return _ordered(operator, left, right)
        case Like(operand, pattern, negated):
            found = _like(operand, pattern)
            return _opposite(found) if negated else found
        case In(operand, elements, negated):
            found = _in(operand, elements)
            return _opposite(found) if negated else found
        case Attribute(name):
            return _boolean(name, takes_numbers=truth is not _for_not)
        case Call("BOOL", (Attribute(name),)):
            return _boolean(name)
        case Call(name) if function_for(name, len(node.arguments)) is None:
            return _user_defined(node, operators[name])
    return _unknown(node)


def _whole(value: Scalar) -> bool:
    return value is True


def _for_not(value: Scalar) -> bool:
    if not isinstance(value, bool | str):
        raise CastFailed(value, "Boolean", False)
    return boolean_of(value)


def _opposite(condition: Condition) -> Condition:
    return Condition(lambda: condition.fails, lambda: condition.holds, lambda: condition.defined)


def _all_parts(parts: list[Condition]) -> Condition:
    return Condition(
        lambda: _all(*(part.holds for part in parts)),
        lambda: _first_of([part.fails for part in parts], parts),
        lambda: _first_of([*(part.fails for part in parts), ALWAYS], parts),
    )


def _some_part(parts: list[Condition]) -> Condition:
    return Condition(
        lambda: _first_of([part.holds for part in parts], parts),
        lambda: _all(*(part.fails for part in parts)),
        lambda: _first_of([*(part.holds for part in parts), ALWAYS], parts),
    )


def _first_of(ends: list[Bounds], parts: list[Condition]) -> Bounds:
    """One of `ends`, with all parts before it defined."""
    choices: list[Bounds] = []
    before, size = ALWAYS, 0
    for number, end in enumerate(ends):
        if number:
            before = _all(before, parts[number - 1].defined)
        choices.append(_all(before, end))
        size += choices[-1].upper.size
        if size > LITERALS_MAX:
            return UNKNOWN
    return _any(*choices)


def _odd_parts(parts: list[Condition]) -> Condition:
    def defined() -> Bounds:
        return _all(*(part.defined for part in parts))

    if len(parts) > ODD_PARTS_MAX:
        return Condition(partial(_at_most, defined), partial(_at_most, defined), defined)

    def outcome() -> tuple[Bounds, Bounds]:
        holds, fails = NEVER, ALWAYS
        for part in parts:
            holds, fails = (
                _any(_all(holds, part.fails), _all(fails, part.holds)),
                _any(_all(holds, part.holds), _all(fails, part.fails)),
            )
        return holds, fails

    return Condition(lambda: outcome()[0], lambda: outcome()[1], defined)


_LOGIC = {"AND": _all_parts, "OR": _some_part, "XOR": _odd_parts}


def _at_most(make: Make) -> Bounds:
    """Bounds of which only the upper one is known."""
    return Bounds(make().upper, FALSE)


def _all(*bounds: Bounds) -> Bounds:
    if all(each.upper is each.lower for each in bounds):
        return _exactly(bounds, all_of, TRUE, FALSE)
    left = [each for each in bounds if each is not ALWAYS]
    found = left[0] if len(left) == 1 else all_hold(left)
    return _within_limit(Bounds(_tidy(found.upper), _tidy(found.lower)))


def _any(*bounds: Bounds) -> Bounds:
    if all(each.upper is each.lower for each in bounds):
        return _exactly(bounds, any_of, FALSE, TRUE)
    return _within_limit(some_hold(bounds))


def _exactly(bounds: tuple[Bounds, ...], combine: Callable[..., Filter], neutral: Filter, absorbing: Filter) -> Bounds:
    """The same where all are exact: once is enough."""
    filters = [each.upper for each in bounds if each.upper != neutral]
    if len(filters) == 1:
        return exactly(filters[0])
    if absorbing in filters:
        return exactly(absorbing)
    try:
        found = _tidy(combine(*filters))
    except FilterTooBig:
        return UNKNOWN
    return exactly(found) if found.size <= LITERALS_MAX else UNKNOWN


def _within_limit(found: Bounds) -> Bounds:
    """Rule 4."""
    upper = found.upper if found.upper.size <= LITERALS_MAX else TRUE
    lower = found.lower if found.lower.size <= LITERALS_MAX else FALSE
    return Bounds(upper, lower)


def _tidy(filter: Filter) -> Filter:
    """A conjunction without the parts that ask for an attribute which others cannot do without."""
    if not isinstance(filter, And) or not any(map(_asks_only, filter.parts)):
        return filter
    others = [part for part in filter.parts if not _asks_only(part)]
    needed = frozenset[str]().union(*map(_needed, others))
    return all_of(*(part for part in filter.parts if not _asks_only(part) or part.attribute not in needed))


def _asks_only(filter: Filter) -> TypeGuard[Some]:
    return isinstance(filter, Some) and filter.values == EVERYTHING


def _needed(filter: Filter) -> frozenset[str]:
    """Attributes without which a filter does not match."""
    match filter:
        case Missing():
            return frozenset()
        case And(parts=parts):
            return frozenset[str]().union(*map(_needed, parts))
        case Or(parts=parts):
            return frozenset[str]().union(*map(_needed, parts[:1])).intersection(*map(_needed, parts[1:]))
    return frozenset((filter.attribute,))


# ---------------------------------------------------------------- conditions on one attribute


def _given(holds: Bounds, fails: Bounds, defined: Bounds | None = None) -> Condition:
    return Condition(lambda: holds, lambda: fails, None if defined is None else lambda: defined)


_ERROR = _given(NEVER, NEVER, NEVER)


def _none_of(name: str, *sets: ValueSet) -> Filter:
    """The attribute has values, and none lies in one of the sets."""
    return all_of(*(only(name, complement(values)) for values in sets))


def _one_of_sets(name: str, *sets: ValueSet) -> Filter:
    return any_of(*(some(name, values) for values in sets))


def _attribute(node: Expression, *wanted: str) -> str | None:
    """The attribute that an operand is, maybe cast to one of the wanted types, to which it is cast anyway."""
    match node:
        case Attribute(name):
            return name
        case Call(function, (Attribute(name),)) if CASTS.get(function) in wanted:
            return name
    return None


def _value(node: Expression) -> Scalar | None:
    """The value of a constant; None if it is none, or an error."""
    if not _is_constant(node):
        return None
    if isinstance(node, Literal):
        return node.value
    outcome = evaluate(node, _NO_EVENT)
    return None if outcome.failures else outcome.value


def _type_of(value: Scalar) -> str:
    return BOOLEAN if isinstance(value, bool) else STRING if isinstance(value, str) else INTEGER


def _equal(left: Expression, right: Expression) -> Condition:
    """`left = right`: the left one is cast to the type of the right one."""
    value = _value(right)
    if value is None:
        constant = _value(left)
        if isinstance(right, Attribute) and constant is not None:
            return _element(right.name, [constant])  # cast to the type of the attribute, as for IN
        return _unknown(Comparison("=", left, right))
    name = _attribute(left, _type_of(value))
    if name is None:
        return _unknown(Comparison("=", left, right))
    match value:
        case bool():
            return _boolean(name, value)
        case str():
            return _text_in(name, one_of(values_with_text(value)))
    found = _integer_equal(name, int(value))
    return found if isinstance(left, Attribute) else _upper_only(found)


def _text_in(name: str, values: ValueSet) -> Condition:
    """The text of the attribute is that of one of these values. Every value has a text, so that is never an error."""
    return Condition(
        lambda: exactly(some(name, values)),
        lambda: exactly(only(name, complement(values))),
        lambda: exactly(present(name)),
    )


def _boolean(name: str, wanted: bool = True, takes_numbers: bool = True) -> Condition:
    """The attribute, cast to a Boolean, is the wanted one."""
    if not takes_numbers:
        return _given(exactly(some(name, _TRUE_VALUES)), exactly(only(name, _FALSE_VALUES)))
    truths = (_TRUE_VALUES, less_than(0), more_than(0))
    if wanted:
        return _given(exactly(_one_of_sets(name, *truths)), exactly(only(name, _FALSE_VALUES_AND_0)))
    fails = Bounds(_none_of(name, _FALSE_VALUES_AND_0), any_of(*(only(name, values) for values in truths)))
    return _given(exactly(some(name, _FALSE_VALUES_AND_0)), fails)


def _integer_equal(name: str, number: int) -> Condition:
    """The attribute, cast to an Integer, is this one."""
    written = [str(number), *([f"+{number}"] if number >= 0 else []), *(["-0"] if number == 0 else [])]
    booleans = [each for each in _BOOLEANS if int(each) == number]
    equal = one_of([number, *written, *booleans])
    padded = ends_with(f"0{abs(number)}")  # with zeros before it
    other_numbers = complement(one_of([number]))
    return _partly(
        name,
        lambda: Bounds(_one_of_sets(name, equal, padded), some(name, equal)),
        lambda: Bounds(
            _none_of(name, equal, *_NO_INTEGER_TEXTS), all_of(only(name, _NUMBERS), only(name, other_numbers))
        ),
    )


def _partly(name: str, holds: Make, fails: Make) -> Condition:
    """A condition that is an error for some values of its attribute."""
    return Condition(holds, fails, lambda: Bounds(present(name), _any(holds(), fails()).lower))


def _ordered(operator: str, left: Expression, right: Expression) -> Condition:
    """A comparison by size: both are cast to Integer."""
    for operand, other, said in ((left, right, operator), (right, left, _MIRRORED[operator])):
        name, constant = _attribute(operand, INTEGER), _value(other)
        if name is not None and constant is not None:
            found = _ordered_by(said, name, constant)
            return found if isinstance(operand, Attribute) else _upper_only(found)
    return _unknown(Comparison(operator, left, right))


def _ordered_by(operator: str, name: str, constant: Scalar) -> Condition:
    try:
        number = number_of(constant)
    except CastFailed:
        return _ERROR
    make_inside, make_outside = _RANGES[operator]
    booleans = tuple(each for each in _BOOLEANS if _HOLDS[operator](int(each), number))
    within = (make_inside(number), _BOOLEAN_SETS[booleans]) if booleans else (make_inside(number),)
    return _partly(
        name,
        lambda: Bounds(_one_of_sets(name, *within, _INTEGER_TEXTS), _one_of_sets(name, *within)),
        lambda: Bounds(_none_of(name, *within, *_NO_INTEGER_TEXTS), only(name, make_outside(number))),
    )


def _in(operand: Expression, elements: tuple[Expression, ...]) -> Condition:
    constants = [constant for each in elements if (constant := _value(each)) is not None]
    if isinstance(operand, Attribute) and len(constants) == len(elements):
        return _element(operand.name, constants)
    return _unknown(In(operand, elements))


def _element(name: str, constants: list[Scalar]) -> Condition:
    """The attribute is one of the constants, each cast to the type of the attribute."""
    values: list[Value] = []
    for constant in constants:
        values += [each for each in values_with_text(text_of(constant)) if not isinstance(each, bool | int | float)]
    errors: list[ValueSet] = []
    try:
        values += [number_of(constant) for constant in constants]
    except CastFailed:
        errors.append(_NUMBERS)
    try:
        values += [boolean_of(constant) for constant in constants]
    except CastFailed:
        errors.append(one_of(_BOOLEANS))
    equal = one_of(values)
    return Condition(
        lambda: exactly(some(name, equal)),
        lambda: exactly(_none_of(name, equal, *errors)),
        None if errors else lambda: exactly(present(name)),
    )


def _like(operand: Expression, pattern: str) -> Condition:
    """The text of the attribute matches the pattern."""
    name = _attribute(operand, STRING)
    if name is None:
        return _unknown(Like(operand, pattern))
    asked = like_pattern(pattern)
    texts = asked.texts
    if not asked.has_wildcard:
        [text] = texts.values  # type: ignore[attr-defined]
        return _text_in(name, one_of(values_with_text(text)))
    booleans = tuple(each for each in _BOOLEANS if texts.contains(text_of(each)))
    certain = (texts, _BOOLEAN_SETS[booleans]) if booleans else (texts,)
    possible = [values for form, values in _SETS_OF_FORMS if asked.may_match(form)]
    if not possible:
        return Condition(
            lambda: exactly(_one_of_sets(name, *certain)),
            lambda: exactly(_none_of(name, *certain)),
            lambda: exactly(present(name)),
        )
    return Condition(
        lambda: Bounds(_one_of_sets(name, *certain, *possible), _one_of_sets(name, *certain)),
        lambda: Bounds(_none_of(name, *certain), _none_of(name, *certain, *possible)),
        lambda: exactly(present(name)),
    )


# ---------------------------------------------------------------- what filters cannot say


def _upper_only(condition: Condition) -> Condition:
    return Condition(*(partial(_at_most, partial(getattr, condition, each)) for each in ("holds", "fails", "defined")))


def _unknown(node: Expression) -> Condition:
    """A condition of which it is known only which attributes it needs."""
    needed = Bounds(all_of(*(present(name) for name in attributes_needed(node))), FALSE)
    return _given(needed, needed, needed)


def _user_defined(node: Call, operator: Operator) -> Condition:
    """An operator of a user, whose author may have said which filter stands for it. [motion §5]"""
    needed = _unknown(node)
    attributes = [each.name for each in node.arguments if isinstance(each, Attribute)]
    constants = [constant for each in node.arguments if (constant := _value(each)) is not None]
    if operator.routable is None or len(attributes) != 1 or 1 + len(constants) != len(node.arguments):
        return needed
    try:
        filter = operator.routable(attributes[0], *constants)
    except Exception as error:  # whatever the author of the operator has not thought of
        raise FilterError(f"operator {operator.name!r} has no filter for {attributes[0]!r}: {error!r}") from error
    holds = _all(needed.holds, Bounds(filter, FALSE))
    return _given(holds, needed.fails, needed.defined)


def _is_constant(node: Expression) -> bool:
    """Whether an expression has the same value for all events."""
    if isinstance(node, Literal):
        return True
    if isinstance(node, Attribute | Exists):
        return False
    if isinstance(node, Call) and function_for(node.name, len(node.arguments)) is None:
        return False
    return all(map(_is_constant, children(node)))


def _constant(node: Expression, truth: Callable[[Scalar], bool]) -> Condition:
    value = _value(node)
    if value is None:
        return _ERROR
    try:
        return _given(ALWAYS, NEVER, ALWAYS) if truth(value) else _given(NEVER, ALWAYS, ALWAYS)
    except CastFailed:
        return _ERROR
