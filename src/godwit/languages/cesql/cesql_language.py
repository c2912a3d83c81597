"""CESQL as one of the languages of subscriptions."""

from collections.abc import Iterator, Mapping

from godwit.errors import FilterSyntaxError
from godwit.filters import FALSE
from godwit.languages.cesql.builtin_functions import BOOLEAN, FUNCTIONS, INTEGER, STRING, function_for
from godwit.languages.cesql.evaluation import ExpressionTest
from godwit.languages.cesql.expression_parser import UnknownFunction, parse_expression
from godwit.languages.cesql.expression_printer import expression_text
from godwit.languages.cesql.expressions import (
    Arithmetic,
    Attribute,
    Call,
    Expression,
    Literal,
    Negative,
    children,
)
from godwit.languages.cesql.routable_bounds import condition_of
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, Query

__all__ = ["CESQL", "CesqlLanguage"]

CESQL = "cesql"


class CesqlLanguage:
    """The language of docs/reference/cesql.md."""

    name = CESQL

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        names = {name.lower(): name for name in operators}

        def naming(written: str, count: int) -> str:
            if function_for(written.upper(), count) is not None:
                return written.upper()
            if written.lower() in names:
                return names[written.lower()]
            raise _unknown(written, count, operators)

        expression = parse_expression(text, naming)
        kind = type_of(expression)
        if kind not in (BOOLEAN, None):
            message = f"the expression is of type {kind}, and no event passes one that is not Boolean"
            raise FilterSyntaxError(message, 1, 1, text, ("a condition, such as a comparison",))
        bounds = condition_of(expression, operators).holds
        if bounds.is_exact or bounds.upper == FALSE:
            return Query(CESQL, expression_text(expression), bounds.upper)
        called = tuple((name, operators[name]) for name in dict.fromkeys(_called(expression)) if name in operators)
        return Query(CESQL, expression_text(expression), bounds.upper, ExpressionTest(expression, called))


def _unknown(written: str, count: int, operators: Mapping[str, Operator]) -> UnknownFunction:
    known = tuple(sorted({*(function.name for function in FUNCTIONS), *operators}))
    if written.upper() in known:
        return UnknownFunction(f"{written.upper()} does not take {count} argument{'s' * (count != 1)}", ())
    return UnknownFunction(f"there is no function {written}", known)


def type_of(expression: Expression) -> str | None:
    """The type that the value of an expression has for all events, or None."""
    match expression:
        case Literal(value):
            return BOOLEAN if isinstance(value, bool) else INTEGER if isinstance(value, int) else STRING
        case Attribute():
            return None
        case Negative() | Arithmetic():
            return INTEGER
        case Call(name, arguments):
            function = function_for(name, len(arguments))
            return None if function is None else function.result
    return BOOLEAN


def _called(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Call):
        yield expression.name
    for child in children(expression):
        yield from _called(child)


LANGUAGES.register(CESQL, CesqlLanguage())
