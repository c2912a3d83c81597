"""Values of CESQL: what an attribute of an event is in an expression, and casts between types. [CESQL §3.1, §3.7]

*Theory.* CESQL has Boolean, Integer (32 bits) and String; a value of any other type is a String. Attributes of
CloudEvents have no other numbers than these. Events of other publishers may: a number that is not a 32-bit integer
keeps its value in comparisons and IN (`price < 3` holds for 2.5), and is an error in arithmetic and in functions, which
take integers only.

*Rules.*
1. Each value has one text, and `values_with_text` finds all values of an event that have a given text. Equal values
   have equal texts: 2 and 2.0 are both `2`.
2. A cast that fails gives the zero value of its type, and the reason.
"""

import re
from contextlib import suppress
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

from godwit.errors import BadValue
from godwit.filters import Point, Value
from godwit.filters.values import INT_MAX, INT_MIN, checked_value
from godwit.languages.cesql.expressions import Scalar

__all__ = [
    "FALSE_TEXTS",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "NUMBER_TEXT",
    "POINT_TEXT",
    "TIME_TEXT",
    "TRUE_TEXTS",
    "CastFailed",
    "TextForm",
    "boolean_of",
    "integer_of",
    "number_of",
    "scalar_of",
    "text_of",
    "values_with_text",
]


class TextForm(NamedTuple):
    """What the texts of one kind of values look like: the first characters they may have, and all characters."""

    first: frozenset[str]
    characters: frozenset[str]


INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1
INTEGER_DIGITS_MAX = 10
SHOWN_LENGTH_MAX = 40

NUMBER_TEXT, TIME_TEXT, POINT_TEXT = (
    TextForm(frozenset(first), frozenset(characters))
    for first, characters in (
        ("0123456789-", "0123456789+-.e"),
        ("0123456789", "0123456789+-.:TZ"),
        ("P", "0123456789+-.ePOINT ()"),
    )
)
"""What the texts of numbers, of times and of points look like."""

_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")
_POINT = re.compile(r"POINT \((\S{1,30}) (\S{1,30})\)")
_FIRST_OF_OTHERS = frozenset("0123456789-tfP")  # first characters of other values, written as texts
NUMBER_LENGTH_MAX = 30
TIME_LENGTH_MAX = 40


def _spellings(word: str) -> frozenset[str]:
    return frozenset("".join(letters) for letters in product(*((letter, letter.upper()) for letter in word)))


TRUE_TEXTS, FALSE_TEXTS = _spellings("true"), _spellings("false")
"""The texts that are cast to a Boolean, in all their spellings."""


class CastFailed(Exception):
    """A value cannot be cast; `zero` is what stands for it. (rule 2)"""

    def __init__(self, value: Scalar, wanted: str, zero: bool | int) -> None:
        shown = (
            value if not isinstance(value, str) or len(value) <= SHOWN_LENGTH_MAX else f"{value[:SHOWN_LENGTH_MAX]}…"
        )
        super().__init__(f"{shown!r} is no {wanted}")
        self.zero = zero


# ---------------------------------------------------------------- what an attribute is in an expression


def scalar_of(value: Value) -> Scalar:
    """A value of an event as an expression sees it."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and INT_MIN <= value <= INT_MAX else value
    return _text_of_other(value)


def text_of(value: Scalar) -> str:
    """The cast to String, which never fails."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(scalar_of(value))


def _text_of_other(value: datetime | Point) -> str:
    if isinstance(value, Point):
        return f"POINT ({text_of(value.lon)} {text_of(value.lat)})"
    return value.isoformat().replace("+00:00", "Z")


def values_with_text(text: str) -> list[Value]:
    """All values of an event whose text is this one. (rule 1)"""
    if text[:1] not in _FIRST_OF_OTHERS:
        return [checked_value(text)]
    candidates: list[Any] = [text, True, False]
    with suppress(ValueError, OverflowError):
        if len(text) <= NUMBER_LENGTH_MAX and _NUMBER.fullmatch(text):
            candidates.append(float(text) if "." in text or "e" in text else int(text))
    with suppress(ValueError, OverflowError):
        if len(text) <= TIME_LENGTH_MAX:
            candidates.append(datetime.fromisoformat(text))
    with suppress(ValueError, OverflowError, BadValue):
        if point := _POINT.fullmatch(text):
            candidates.append(Point(float(point[1]), float(point[2])))
    found = []
    for candidate in candidates:
        with suppress(BadValue):
            value = checked_value(candidate)
            if text_of(scalar_of(value)) == text:
                found.append(value)
    return found


# ---------------------------------------------------------------- casts


def integer_of(value: Scalar) -> int:
    """The cast to Integer."""
    number = number_of(value)
    if isinstance(number, int) and INTEGER_MIN <= number <= INTEGER_MAX:
        return number
    raise CastFailed(value, "32-bit integer", 0)


def number_of(value: Scalar) -> int | float:
    """The cast to Integer in a comparison, where any number of an event keeps its value."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    digits = value[1:] if value[:1] in ("+", "-") else value
    if digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= INTEGER_DIGITS_MAX:
        size = int(digits.lstrip("0") or 0)
        number = -size if value[0] == "-" else size
        if INTEGER_MIN <= number <= INTEGER_MAX:
            return number
    raise CastFailed(value, "32-bit integer", 0)


def boolean_of(value: Scalar) -> bool:
    """The cast to Boolean."""
    if isinstance(value, str):
        if value in TRUE_TEXTS:
            return True
        if value in FALSE_TEXTS:
            return False
        raise CastFailed(value, "Boolean", False)
    return bool(value)
