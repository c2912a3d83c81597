"""Arithmetic undone: from a range of results to a range of the operand that they come from.

*Theory.* `balance - 150 > 0` says `balance > 150`. A comparison is a range of results; the operations are undone one by
one, from the outside in, until a range of an attribute is left, which filters understand.

*Rules.*
1. A range may be too wide, never too narrow: each step widens it by far more than floating point can be off.
2. What cannot be undone (a factor of zero, `%`) gives no range.
"""

import math

from godwit.filters import Kind, ValueSet, all_of_kind, interval

__all__ = ["Range", "numbers_in", "range_of", "undone", "widened"]

RELATIVE_MARGIN = 1e-12
ABSOLUTE_MARGIN = 1e-300  # a product that is too small for a float is zero

Range = tuple[float, float]


def range_of(sign: str, number: float) -> Range:
    """The numbers that compare so with a number, ends included."""
    return (
        -math.inf if sign in ("<>", "<", "<=") else number,
        math.inf if sign in ("<>", ">", ">=") else number,
    )


def undone(sign: str, is_left: bool, constant: float, result: Range) -> Range | None:
    """The range of an operand that stands left or right of a sign, with a constant on the other side."""
    low, high = widened(result, constant)
    match sign:
        case "+":
            ends = (low - constant, high - constant)
        case "-":
            ends = (low + constant, high + constant) if is_left else (constant - high, constant - low)
        case "*" if constant:
            ends = (low / constant, high / constant)
        case "/" if constant and is_left:
            ends = (low * constant, high * constant)
        case _:
            return None
    return widened((min(ends), max(ends)), constant)


def widened(ends: Range, constant: float) -> Range:
    """A range with a margin on both sides. (rule 1)"""
    low, high = ends
    low -= RELATIVE_MARGIN * (abs(low) + abs(constant)) + ABSOLUTE_MARGIN if math.isfinite(low) else math.inf
    high += RELATIVE_MARGIN * (abs(high) + abs(constant)) + ABSOLUTE_MARGIN if math.isfinite(high) else math.inf
    return low, high


def numbers_in(ends: Range) -> ValueSet:
    """The numbers of a range."""
    low, high = (None if math.isinf(end) else end for end in ends)
    return all_of_kind(Kind.NUMBER) if low is None and high is None else interval(low, high)
