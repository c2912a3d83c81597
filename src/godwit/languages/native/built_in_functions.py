"""Arithmetic and the functions that every exact part may call.

*Rules.*
1. What has no result (a division by zero, a text in a sum, a time beyond the year 9999) is None, and no comparison
   holds for it.
2. Whole numbers are exact within 64 bits. A result beyond is a decimal, and one beyond all decimals is none.
3. A time minus a time is a number of seconds; a time plus or minus a number of seconds is a time.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from godwit.filters import Kind, Value
from godwit.filters.regions import distance_m
from godwit.filters.values import INT_MAX, INT_MIN

__all__ = ["COUNT", "FUNCTIONS", "PRODUCT", "ROUND_DIGITS_MAX", "SUM", "Function", "calculated"]

SUM = frozenset("+-")
PRODUCT = frozenset("*/%")

COUNT = "count"
"""The function of an attribute, rather than of one of its values."""

ROUND_DIGITS_MAX = 15
WHOLE_FLOAT_MIN = 2.0**53  # decimals from here on are whole


def calculated(sign: str, left: Value, right: Value) -> Value | None:
    """The result of one step of arithmetic, or None. (rule 1)"""
    try:
        if type(left) in (int, float) and type(right) in (int, float):
            return _settled(_CALCULATIONS[sign](left, right))
        if type(left) is datetime and type(right) is datetime:
            return (left - right).total_seconds() if sign == "-" else None
        if type(left) is datetime and type(right) in (int, float):
            return _moved(left, sign, right)
        if type(right) is datetime and type(left) in (int, float) and sign == "+":
            return _moved(right, sign, left)
    except (ArithmeticError, ValueError):
        pass
    return None


def _settled(result: Any) -> Value | None:
    """A number as a value can be. (rule 2)"""
    if type(result) is int:
        return result if INT_MIN <= result <= INT_MAX else float(result)
    return result if math.isfinite(result) else None


def _moved(time: datetime, sign: str, seconds: Any) -> datetime | None:
    if sign not in SUM:
        return None
    return time + timedelta(seconds=seconds if sign == "+" else -seconds)


def _remainder(left: Any, right: Any) -> Any:
    """What a division leaves: it has the sign of the first number."""
    if type(left) is int and type(right) is int:
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.fmod(left, right)


_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
}


@dataclass(frozen=True, slots=True)
class Function:
    """A built-in function: the kinds that it takes, the kind that it gives, and how it is written in messages."""

    parameters: tuple[Kind, ...]
    result: Kind
    calculate: Callable[..., Any]
    usage: str
    optional: int = 0  # so many of the last parameters may be left out
    least: float | None = None  # no result lies below


def _rounded(number: Any, digits: Any = 0) -> Any:
    """The nearest number of so many decimal places; a half goes away from zero."""
    if type(digits) is not int or not 0 <= digits <= ROUND_DIGITS_MAX:
        return None
    if type(number) is int or abs(number) >= WHOLE_FLOAT_MIN:
        return number
    nearest = Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return int(nearest) if digits == 0 else float(nearest)


def _magnitude(number: Any) -> Any:
    return abs(number)


FUNCTIONS: dict[str, Function] = {
    "abs": Function((Kind.NUMBER,), Kind.NUMBER, _magnitude, "abs(number)", least=0),
    "distance": Function((Kind.POINT, Kind.POINT), Kind.NUMBER, distance_m, "distance(point, point)", least=0),
    "length": Function((Kind.TEXT,), Kind.NUMBER, len, "length(text)", least=0),
    "lower": Function((Kind.TEXT,), Kind.TEXT, str.lower, "lower(text)"),
    "round": Function((Kind.NUMBER, Kind.NUMBER), Kind.NUMBER, _rounded, "round(number, digits)", optional=1),
    "trim": Function((Kind.TEXT,), Kind.TEXT, str.strip, "trim(text)"),
    "upper": Function((Kind.TEXT,), Kind.TEXT, str.upper, "upper(text)"),
}
