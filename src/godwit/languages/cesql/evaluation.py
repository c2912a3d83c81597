"""Evaluation of CESQL: the value of an expression for an event, and the errors on the way. [CESQL §3, §4.1]

*Theory.* Every operator is total: after an error it has the zero value of its type, and evaluation goes on ("complete
evaluation mode"). `evaluate` does so. A subscription wants an event if the value is TRUE and there was no error (§1.2),
so its test stops at the first one ("fail fast mode").

An attribute of a CloudEvent has one value. Events of others may have attributes with several. There a condition (what
stands at the top, or directly below AND, OR, XOR or NOT) is tried with each value. It holds if it holds for one.
Otherwise it is an error if it is one for any value, and otherwise it does not hold. `x != y`, NOT LIKE and NOT IN are
NOT of the others (§3.4). This is what `some` and `only` of our filters say.

*Rules.*
1. Each node that is evaluated is a step, and so are so many characters of a text that is made or looked through
   (`Subject.spend`).
2. An operator whose operand had an error has the zero value of its own type: `NOT missing` is false, and so is
   `1 != 1 / 0`.
3. NOT of an Integer is a cast error, as the conformance tests have it (`NOT 10`). Everywhere else an Integer is cast to
   a Boolean, as the text of the specification has it.
4. All elements after IN are evaluated and cast: one that fails is an error, also if another one is equal.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any

from godwit.errors import FilterSyntaxError
from godwit.filters import Attributes, Event
from godwit.filters.events import values_of
from godwit.languages.cesql.builtin_functions import (
    BOOLEAN,
    INTEGER,
    STRING,
    BuiltinFunction,
    FunctionFailed,
    function_for,
)
from godwit.languages.cesql.casts import (
    INTEGER_MAX,
    INTEGER_MIN,
    CastFailed,
    boolean_of,
    integer_of,
    number_of,
    scalar_of,
    text_of,
)
from godwit.languages.cesql.expression_parser import parse_expression
from godwit.languages.cesql.expressions import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Logic,
    Negative,
    Not,
    Scalar,
    attributes_of,
)
from godwit.languages.cesql.like_sets import like_pattern
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import Subject

__all__ = ["ExpressionOutcome", "ExpressionTest", "Failure", "evaluate", "evaluate_text"]

CHARACTERS_PER_STEP = 256
PATTERN_CHARACTERS_PER_STEP = 16

PARSE, MATH, CAST, GENERIC = "parse", "math", "cast", "generic"
MISSING_ATTRIBUTE, MISSING_FUNCTION, FUNCTION = "missingAttribute", "missingFunction", "functionEvaluation"
"""Kinds of errors, by the names that the conformance tests have for them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error: its kind, and what happened."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExpressionOutcome:
    """The value of an expression, and the errors that occurred."""

    value: Scalar
    failures: tuple[Failure, ...] = ()

    @property
    def is_match(self) -> bool:
        """Whether a subscription with this expression wants the event. [§1.2]"""
        return self.value is True and not self.failures


def evaluate(
    expression: Expression, event: Event, operators: Mapping[str, Operator] = NO_OPERATORS
) -> ExpressionOutcome:
    """The outcome of an expression for an event, after all errors."""
    failures: list[Failure] = []
    subject = Subject(event)
    in_any_case = {**{name.upper(): one for name, one in operators.items()}, **operators}
    evaluation = _Evaluation(subject, in_any_case, failures, _has_several(expression, event.attributes))
    value = evaluation.whole(expression)
    return ExpressionOutcome(False if isinstance(value, _Failed) else value, tuple(failures))


def evaluate_text(text: str, event: Event, operators: Mapping[str, Operator] = NO_OPERATORS) -> ExpressionOutcome:
    """The same for the text of an expression. A text that is none is an error, too."""
    try:
        return evaluate(parse_expression(text), event, operators)
    except FilterSyntaxError as error:
        return ExpressionOutcome(False, (Failure(PARSE, str(error)),))


@dataclass(frozen=True, slots=True)
class ExpressionTest:
    """Whether an expression is TRUE for an event, without an error. Equal expressions have equal tests."""

    expression: Expression
    operators: tuple[tuple[str, Operator], ...] = ()

    def __call__(self, subject: Subject) -> bool:
        """Test an event, at the cost of its `effort`."""
        several = _has_several(self.expression, subject.event.attributes)
        evaluation = _Evaluation(subject, dict(self.operators), None, several)
        try:
            return evaluation.whole(self.expression) is True
        except _Stopped:
            return False


class _Stopped(Exception):
    """There was an error, and nobody wants to know more."""


class _Failed:
    """What stands for an operand that had an error. (rule 2)"""


FAILED = _Failed()
Found = Scalar | _Failed
Cast = Callable[[Scalar], Scalar]

_ZERO: dict[str, Scalar] = {BOOLEAN: False, INTEGER: 0, STRING: ""}
_CASTS: dict[str, Cast] = {BOOLEAN: boolean_of, INTEGER: integer_of, STRING: text_of}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _as_it_is(value: Scalar) -> Scalar:
    return value


def _boolean_for_not(value: Scalar) -> bool:
    if not isinstance(value, bool | str):
        raise CastFailed(value, "Boolean", False)  # rule 3
    return boolean_of(value)


def _has_several(expression: Expression, attributes: Attributes) -> bool:
    """Whether an attribute that the expression looks at has several values."""
    return any(type(held) is tuple for held in attributes.values()) and any(
        type(attributes.get(name)) is tuple for name in attributes_of(expression)
    )


class _Evaluation:
    """One expression, one event. `failures` is None in fail fast mode; `chosen` has one of several values."""

    __slots__ = ("_attributes", "_chosen", "_failures", "_operators", "_several", "_subject")

    def __init__(
        self,
        subject: Subject,
        operators: Mapping[str, Operator],
        failures: list[Failure] | None,
        several: bool,
        chosen: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._subject = subject
        self._attributes = subject.event.attributes
        self._operators = operators
        self._failures = failures
        self._several = several
        self._chosen = chosen

    def _fail(self, kind: str, reason: str) -> None:
        if self._failures is None:
            raise _Stopped
        self._failures.append(Failure(kind, reason))

    def _cast(self, cast: Cast, value: Scalar) -> Any:
        try:
            return cast(value)
        except CastFailed as error:
            self._fail(CAST, str(error))
            return error.zero

    # ------------------------------------------------------------ conditions

    def whole(self, node: Expression) -> Found:
        """The value of what stands at the top of an expression."""
        return self.condition(node, _as_it_is) if self._several else self.value(node)

    def condition(self, node: Expression, cast: Cast) -> Found:
        """The value of what stands below an operator of logic."""
        if not self._several or isinstance(node, Logic | Not):
            found = self._operand(node)
            return found if isinstance(found, _Failed) else self._cast(cast, found)
        match node:
            case Comparison("!=", left, right):
                return self._for_some(Comparison("=", left, right), cast, negated=True)
            case Like(operand, pattern, True):
                return self._for_some(Like(operand, pattern), cast, negated=True)
            case In(operand, elements, True):
                return self._for_some(In(operand, elements), cast, negated=True)
        return self._for_some(node, cast, negated=False)

    def _for_some(self, node: Expression, cast: Cast, negated: bool) -> Found:
        """Whether a condition, or none, holds for some of the values that attributes have."""
        has_failed = False
        for chosen in self._choices(node):
            self._subject.spend(1)
            one = _Evaluation(self._subject, self._operators, None, False, chosen)
            try:
                if one.condition(node, cast) is True:
                    return not negated
            except _Stopped:
                has_failed = True
        if has_failed:
            self._fail(GENERIC, "for some of the values of an attribute a condition is an error")
            return FAILED
        return negated

    def _choices(self, node: Expression) -> Iterator[dict[str, Any]]:
        """One value for each attribute that has several, in all ways."""
        several = [name for name in dict.fromkeys(attributes_of(node)) if type(self._attributes.get(name)) is tuple]
        for values in product(*(values_of(self._attributes[name]) for name in several)):
            yield dict(zip(several, values, strict=True))

    # ------------------------------------------------------------ values

    def _operand(self, node: Expression) -> Found:
        """The value of an operand. (rule 2)"""
        if self._failures is None:
            return self.value(node)
        before = len(self._failures)
        found = self.value(node)
        return found if len(self._failures) == before else FAILED

    def value(self, node: Expression) -> Found:
        """The value of an expression. (rule 1)"""
        self._subject.spend(1)
        match node:
            case Literal(value):
                return value
            case Attribute(name):
                return self._attribute(name)
            case Comparison(operator, left, right):
                return self._comparison(operator, self._operand(left), self._operand(right))
            case Logic(operator, parts):
                return self._logic(operator, parts)
            case Like(operand, pattern, negated):
                return self._like(self._operand(operand), pattern, negated)
            case In(operand, elements, negated):
                return self._in(self._operand(operand), [self._operand(each) for each in elements], negated)
            case Exists(name):
                return name in self._attributes
            case Not(operand):
                found = self.condition(operand, _boolean_for_not)
                return False if isinstance(found, _Failed) else not found
            case Negative(operand):
                return self._arithmetic("-", 0, self._operand(operand))
            case Arithmetic(operator, left, right):
                return self._arithmetic(operator, self._operand(left), self._operand(right))
            case Call(name, arguments):
                return self._call(name, [self._operand(each) for each in arguments])

    def _attribute(self, name: str) -> Found:
        held = self._attributes.get(name)
        if held is None:
            self._fail(MISSING_ATTRIBUTE, f"the event has no attribute {name}")
            return FAILED
        if type(held) is tuple:
            held = self._chosen.get(name, held[0])
        return scalar_of(held)  # type: ignore[arg-type]

    def _logic(self, operator: str, parts: tuple[Expression, ...]) -> bool:
        is_odd = False
        for part in parts:
            found = self.condition(part, boolean_of)
            if isinstance(found, _Failed):
                return False
            if operator == "XOR":
                is_odd = is_odd is not found
            elif found is (operator == "OR"):
                return operator == "OR"
        return is_odd if operator == "XOR" else operator == "AND"

    def _comparison(self, operator: str, left: Found, right: Found) -> bool:
        if isinstance(left, _Failed) or isinstance(right, _Failed):
            return False
        if operator in _ORDER:
            return _ORDER[operator](self._cast(number_of, left), self._cast(number_of, right))
        return (self._cast(_cast_like(right), left) == right) is (operator == "=")

    def _like(self, found: Found, pattern: str, negated: bool) -> bool:
        if isinstance(found, _Failed):
            return False
        text = text_of(found)
        self._subject.spend(len(text) // CHARACTERS_PER_STEP * (1 + len(pattern) // PATTERN_CHARACTERS_PER_STEP))
        return like_pattern(pattern).texts.contains(text) is not negated

    def _in(self, found: Found, elements: list[Found], negated: bool) -> bool:
        if isinstance(found, _Failed) or any(isinstance(each, _Failed) for each in elements):
            return False
        cast = _cast_like(found)
        listed = [self._cast(cast, each) for each in elements]  # type: ignore[arg-type]
        return (found in listed) is not negated

    def _arithmetic(self, operator: str, left: Found, right: Found) -> int:
        if isinstance(left, _Failed) or isinstance(right, _Failed):
            return 0
        a, b = self._cast(integer_of, left), self._cast(integer_of, right)
        if operator in ("/", "%") and b == 0:
            self._fail(MATH, f"{a} {operator} 0")
            return 0
        result = _calculated(operator, a, b)
        if INTEGER_MIN <= result <= INTEGER_MAX:
            return result
        self._fail(MATH, f"{a} {operator} {b} is beyond 32 bits")
        return 0

    # ------------------------------------------------------------ functions

    def _call(self, name: str, arguments: list[Found]) -> Scalar:
        function = function_for(name, len(arguments))
        if function is not None:
            return self._builtin(function, arguments)
        if name not in self._operators:
            self._fail(MISSING_FUNCTION, f"there is no function {name} of {len(arguments)} arguments")
            return False
        if any(isinstance(each, _Failed) for each in arguments):
            return False
        try:
            return bool(self._operators[name].holds(*arguments))
        except Exception as error:  # whatever the author of the operator has not thought of
            self._fail(FUNCTION, f"{name}: {error!r}")
            return False

    def _builtin(self, function: BuiltinFunction, arguments: list[Found]) -> Scalar:
        types = (*function.parameters, *[function.rest] * (len(arguments) - len(function.parameters)))
        known = [each for each in arguments if not isinstance(each, _Failed)]
        if len(known) < len(arguments):
            return _ZERO[function.result]
        values = [self._cast(_CASTS[wanted], each) for wanted, each in zip(types, known, strict=True)]  # type: ignore[index]
        length = sum(len(each) for each in values if isinstance(each, str))
        if function.name == "CONCAT_WS":
            length += len(values[0]) * len(values)
        self._subject.spend(length // CHARACTERS_PER_STEP)
        try:
            result: Scalar = function.call(*values)
        except FunctionFailed as error:
            self._fail(MATH if error.is_math else FUNCTION, str(error))
            return error.value
        return result


def _cast_like(value: Scalar) -> Cast:
    """The cast to the type of a value."""
    if isinstance(value, bool):
        return boolean_of
    return text_of if isinstance(value, str) else number_of


def _calculated(operator: str, a: int, b: int) -> int:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    quotient = abs(a) // abs(b) if (a < 0) is (b < 0) else -(abs(a) // abs(b))  # towards 0
    return quotient if operator == "/" else a - b * quotient
