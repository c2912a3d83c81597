"""How two values compare, for languages that follow our own filters.

*Rules.*
1. Values of two kinds are unequal, and none is less than the other.
2. Numbers, times and texts have an order; bools and points have none.
"""

import operator
from collections.abc import Callable
from typing import Any

from godwit.filters.values import KIND_OF_TYPE, ORDERED_KINDS

__all__ = ["FLIPPED", "OPPOSITE", "holds"]

FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The sign of a comparison whose sides change places."""

OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The sign that holds for two values of one ordered kind when this one does not."""

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(sign: str, left: Any, right: Any) -> bool:
    """Whether two values compare so."""
    if sign == "<>":
        return not holds("=", left, right)
    kind = KIND_OF_TYPE.get(type(left))
    if kind is None or kind is not KIND_OF_TYPE.get(type(right)):
        return False
    if sign == "=":
        return bool(left == right)
    return kind in ORDERED_KINDS and _ORDERS[sign](left, right)
