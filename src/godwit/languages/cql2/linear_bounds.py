"""Arithmetic that a filter can follow: one property and constants, combined by `+ - * /`.

What cannot be undone (two properties, a factor of zero, `% div ^`) gives no set. See `inverse_ranges.py`.
"""

from godwit.filters import ValueSet
from godwit.languages.cql2.evaluation import constant_values, is_constant
from godwit.languages.cql2.expressions import Arithmetic, Expression, Property
from godwit.languages.inverse_ranges import Range, numbers_in, range_of, undone

__all__ = ["solved"]


def solved(sign: str, left: Arithmetic, value: float) -> ValueSet | None:
    """Numbers of the property in `left`, among them all for which `left` compares so with `value`."""
    try:
        found: Range | None = range_of(sign, float(value))
        expression: Expression = left
        while isinstance(expression, Arithmetic) and found is not None:
            expression, found = _undone(expression, found)
    except OverflowError:
        return None
    return None if found is None or not isinstance(expression, Property) else numbers_in(found)


def _undone(step: Arithmetic, result: Range) -> tuple[Expression, Range | None]:
    """The non-constant operand of a step, and its range when the step's result is in a range."""
    is_left = is_constant(step.right)
    operand, other = (step.left, step.right) if is_left else (step.right, step.left)
    if not is_constant(other):
        return operand, None
    values = constant_values(other)
    if not values or type(values[0]) not in (int, float):
        return operand, None
    return operand, undone(step.sign, is_left, float(values[0]), result)
