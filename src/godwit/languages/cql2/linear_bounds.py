"""Arithmetic that a filter can follow: one property and constants, combined by `+ - * /`.

*Theory.* `balance - 150 > 0` says `balance > 150`. A comparison is an interval for the result of the arithmetic; the
operations are undone one by one, from the outside in, until an interval for the property is left.

*Rules.*
1. The interval may be too wide, never too narrow: each step widens it by far more than floating point can be off.
2. What cannot be undone (two properties, a factor of zero, `% div ^`) gives no interval.
"""

import math

from godwit.filters import Kind, ValueSet, all_of_kind, interval
from godwit.languages.cql2.evaluation import constant_values, is_constant
from godwit.languages.cql2.expressions import Arithmetic, Expression, Property

__all__ = ["solved"]

RELATIVE_MARGIN = 1e-12
ABSOLUTE_MARGIN = 1e-300  # a product that is too small for a float is zero

Range = tuple[float, float]


def solved(sign: str, left: Arithmetic, value: float) -> ValueSet | None:
    """Numbers of the property in `left`, among them all for which `left` compares so with `value`."""
    try:
        number = float(value)
        found: Range | None = {
            "=": (number, number),
            "<>": (-math.inf, math.inf),
            "<": (-math.inf, number),
            "<=": (-math.inf, number),
            ">": (number, math.inf),
            ">=": (number, math.inf),
        }[sign]
        expression: Expression = left
        while isinstance(expression, Arithmetic) and found is not None:
            expression, found = _undone(expression, found)
    except OverflowError:
        return None
    if found is None or not isinstance(expression, Property):
        return None
    low, high = (None if math.isinf(end) else end for end in found)
    return all_of_kind(Kind.NUMBER) if low is None and high is None else interval(low, high)


def _undone(step: Arithmetic, result: Range) -> tuple[Expression, Range | None]:
    """The operand of a step that is no constant, and its range when the step's result is in a range."""
    is_left = is_constant(step.right)
    operand, other = (step.left, step.right) if is_left else (step.right, step.left)
    if not is_constant(other):
        return operand, None
    values = constant_values(other)
    if not values or type(values[0]) not in (int, float):
        return operand, None
    constant = float(values[0])
    low, high = _widened(result, constant)
    match step.sign:
        case "+":
            ends = (low - constant, high - constant)
        case "-":
            ends = (low + constant, high + constant) if is_left else (constant - high, constant - low)
        case "*" if constant:
            ends = (low / constant, high / constant)
        case "/" if constant and is_left:
            ends = (low * constant, high * constant)
        case _:
            return operand, None
    return operand, _widened((min(ends), max(ends)), constant)


def _widened(ends: Range, constant: float) -> Range:
    """A range with a margin on both sides. (rule 1)"""
    low, high = ends
    low -= RELATIVE_MARGIN * (abs(low) + abs(constant)) + ABSOLUTE_MARGIN if math.isfinite(low) else math.inf
    high += RELATIVE_MARGIN * (abs(high) + abs(constant)) + ABSOLUTE_MARGIN if math.isfinite(high) else math.inf
    return low, high
