"""The exact test of a condition for an event.

*Theory.* A condition is compiled once into functions. A predicate is asked for one choice of values after the other,
one value of each attribute that it names, until one decides. Most attributes have one value: then there is one choice.

*Rules.*
1. A predicate is unknown where one of its attributes is missing. Otherwise it is true when some choice meets it, and
   false when none does. NOT, AND and OR are SQL's: what is unknown does not match, and neither does its NOT.
2. A reference to the subscriber's own context is one more variable. Values of it that do not fit where it stands are
   left out; with none left it is missing, as in filters.
3. What has no result meets no comparison. An operator that raises has no answer: the test fails.
4. Each choice costs as many steps as the predicate has terms, and long texts cost more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import cast

from godwit.errors import BadValue, FilterError, Unbound
from godwit.filters import Filter, Kind, Reference, Value, bind, is_open, negation, references_of
from godwit.filters.events import values_of
from godwit.filters.values import ALL_KINDS, KIND_OF_TYPE, checked_value
from godwit.languages.comparisons import holds
from godwit.languages.native.built_in_functions import FUNCTIONS, calculated
from godwit.languages.native.expressions import (
    All,
    Any,
    Arithmetic,
    Attribute,
    Call,
    Compared,
    Condition,
    Constant,
    Count,
    Every,
    Holds,
    InSet,
    Matches,
    Not,
    Own,
    Plain,
    Predicate,
    Term,
    Variable,
    predicates_of,
    size_of,
    variables_of,
)
from godwit.languages.native.regular_expressions import regular_expression
from godwit.languages.native.term_kinds import kinds_needed
from godwit.languages.operators import Operator
from godwit.languages.query import Subject

__all__ = ["ExactTest", "references_in"]

CHARACTERS_PER_STEP = 64

Truth = bool | None
Choice = tuple[Value, ...]
Operators = Mapping[str, Operator]
Calculation = Callable[[Subject, Choice], "Value | None"]


@dataclass(frozen=True, slots=True)
class ExactTest:
    """Conditions that all must hold. Two tests of equal conditions with the same operators are equal."""

    conditions: tuple[Condition, ...]
    operators: tuple[Operator, ...] = ()
    _tests: tuple[Callable[[Subject], Truth], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        operators = {operator.name: operator for operator in self.operators}
        object.__setattr__(self, "_tests", tuple(_test(condition, operators) for condition in self.conditions))

    def __call__(self, subject: Subject) -> bool:
        return all(test(subject) is True for test in self._tests)


def references_in(condition: Condition) -> tuple[Reference, ...]:
    """What a condition asks of the subscriber's own context, each once."""
    found: list[Reference] = []
    match condition:
        case All(parts=parts) | Any(parts=parts):
            for part in parts:
                found += references_in(part)
        case Plain(filter=filter):
            found += references_of(filter)
        case _:
            for predicate in predicates_of(condition):
                found += [each.reference for each in variables_of(predicate) if isinstance(each, Own)]
    return tuple(dict.fromkeys(found))


# ---------------------------------------------------------------- conditions


def _test(condition: Condition, operators: Operators) -> Callable[[Subject], Truth]:
    match condition:
        case All(parts=parts):
            return _combined(True, [_test(part, operators) for part in parts])
        case Any(parts=parts):
            return _combined(False, [_test(part, operators) for part in parts])
        case Not(predicate=predicate):
            inner = _predicate(predicate, operators)
            return lambda subject: None if (truth := inner(subject)) is None else not truth
        case Plain(filter=filter):
            return _plain(filter)
    return _predicate(condition, operators)


def _combined(is_and: bool, parts: list[Callable[[Subject], Truth]]) -> Callable[[Subject], Truth]:
    def combined(subject: Subject) -> Truth:
        answer: Truth = is_and
        for part in parts:
            truth = part(subject)
            if truth is None:
                answer = None
            elif truth is not is_and:
                return truth
        return answer

    return combined


def _plain(filter: Filter) -> Callable[[Subject], Truth]:
    opposite = negation(filter)

    def plain(subject: Subject) -> Truth:
        subject.spend(1)
        if filter.matches(subject.event):
            return True
        return False if opposite.matches(subject.event) else None

    def bound(subject: Subject) -> Truth:
        subject.spend(filter.weight)
        if subject.context is None:
            raise Unbound(*map(str, references_of(filter)))
        if bind(filter, subject.context).matches(subject.event):
            return True
        return False if bind(opposite, subject.context).matches(subject.event) else None

    return bound if is_open(filter) else plain


def _predicate(predicate: Predicate, operators: Operators) -> Callable[[Subject], Truth]:
    is_every = isinstance(predicate, Every)
    decided = predicate.predicate if isinstance(predicate, Every) else predicate
    variables = variables_of(predicate)
    slots = {variable: at for at, variable in enumerate(variables)}
    needed = kinds_needed(predicate) if any(isinstance(each, Own) for each in variables) else {}
    sources = [_source(variable, needed.get(variable, ALL_KINDS)) for variable in variables]
    met = _met(decided, slots, operators)
    size = size_of(predicate)

    def tested(subject: Subject) -> Truth:
        columns: list[Choice] = []
        for source in sources:
            values = source(subject)
            if not values:
                return None
            columns.append(values)
        for choice in product(*columns):
            subject.spend(size)
            if met(subject, choice) is not is_every:
                return not is_every
        return is_every

    return tested


def _source(variable: Variable, fits: Kind) -> Callable[[Subject], Choice]:
    """The values that a variable may take. (rules 1, 2)"""
    match variable:
        case Attribute(name=name):
            return lambda subject: _values(subject, name)
        case Count(name=name):
            return lambda subject: (len(values),) if (values := _values(subject, name)) else ()
        case Own(reference=reference):

            def own(subject: Subject) -> Choice:
                if subject.context is None:
                    raise Unbound(str(reference))
                held = subject.context.get(reference.name)
                values = () if held is None else values_of(held)
                return tuple(value for value in values if KIND_OF_TYPE[type(value)] & fits)

            return own


def _values(subject: Subject, name: str) -> Choice:
    held = subject.event.attributes.get(name)
    return () if held is None else values_of(held)


def _met(
    predicate: Compared | InSet | Matches | Holds, slots: Mapping[Variable, int], operators: Operators
) -> Callable[[Subject, Choice], bool]:
    """Whether a choice of values meets a predicate."""
    match predicate:
        case Compared(first=first, steps=steps):
            return _compared(
                _calculation(first, slots, operators),
                [(sign, _calculation(term, slots, operators)) for sign, term in steps],
            )
        case InSet(term=term, values=values):
            value = _calculation(term, slots, operators)

            def in_set(subject: Subject, choice: Choice) -> bool:
                found = value(subject, choice)
                _spend_for(subject, found)
                return found is not None and values.contains(found)

            return in_set
        case Matches(term=term, pattern=pattern):
            text, expression = _calculation(term, slots, operators), regular_expression(pattern)

            def matches(subject: Subject, choice: Choice) -> bool:
                found = text(subject, choice)
                if type(found) is not str:
                    return False
                subject.spend(expression.steps(found))
                return expression.is_found_in(found)

            return matches
        case Holds(call=call):
            result = _operator_result(call, slots, operators)
            return lambda subject, choice: bool(result(subject, choice))


def _compared(first: Calculation, steps: list[tuple[str, Calculation]]) -> Callable[[Subject, Choice], bool]:
    def compared(subject: Subject, choice: Choice) -> bool:
        left = first(subject, choice)
        for sign, calculation in steps:
            right = calculation(subject, choice)
            if left is None or right is None or not holds(sign, left, right):
                return False
            left = right
        return True

    return compared


# ---------------------------------------------------------------- terms


def _calculation(term: Term, slots: Mapping[Variable, int], operators: Operators) -> Calculation:
    """The value of a term for a choice of values, or None. (rule 3)"""
    match term:
        case Constant(value=value):
            return lambda subject, choice: value
        case Attribute() | Own() | Count():
            slot = slots[term]
            return lambda subject, choice: choice[slot]
        case Arithmetic(first=first, steps=steps):
            return _arithmetic(
                _calculation(first, slots, operators),
                [(sign, _calculation(step, slots, operators)) for sign, step in steps],
            )
        case Call(name=name, is_operator=True):
            result = _operator_result(term, slots, operators)
            return lambda subject, choice: _checked_result(name, result(subject, choice))
        case Call(name=name, arguments=arguments):
            return _function(name, [_calculation(argument, slots, operators) for argument in arguments])


def _arithmetic(first: Calculation, steps: list[tuple[str, Calculation]]) -> Calculation:
    def arithmetic(subject: Subject, choice: Choice) -> Value | None:
        result = first(subject, choice)
        for sign, calculation in steps:
            operand = calculation(subject, choice)
            if result is None or operand is None:
                return None
            result = calculated(sign, result, operand)
        return result

    return arithmetic


def _function(name: str, arguments: list[Calculation]) -> Calculation:
    function = FUNCTIONS[name]
    parameters = function.parameters[: len(arguments)]

    def called(subject: Subject, choice: Choice) -> Value | None:
        given = [argument(subject, choice) for argument in arguments]
        for value, kind in zip(given, parameters, strict=True):
            if value is None or KIND_OF_TYPE[type(value)] is not kind:
                return None
            _spend_for(subject, value)
        return cast("Value | None", function.calculate(*given))

    return called


def _spend_for(subject: Subject, value: Value | None) -> None:
    if type(value) is str and len(value) >= CHARACTERS_PER_STEP:
        subject.spend(len(value) // CHARACTERS_PER_STEP)


def _operator_result(
    call: Call, slots: Mapping[Variable, int], operators: Operators
) -> Callable[[Subject, Choice], object]:
    """What an operator returns; None when an argument has no value."""
    arguments = [_calculation(argument, slots, operators) for argument in call.arguments]
    operator = operators[call.name]

    def result(subject: Subject, choice: Choice) -> object:
        given = [argument(subject, choice) for argument in arguments]
        if any(value is None for value in given):
            return None
        try:
            return operator.holds(*given)
        except Exception as error:
            raise FilterError(f"the operator {call.name!r} failed: {type(error).__name__}: {error}") from error

    return result


def _checked_result(name: str, result: object) -> Value | None:
    try:
        return None if result is None else checked_value(result)
    except BadValue as error:
        raise FilterError(f"the operator {name!r} returned what is not a value: {error}") from None
