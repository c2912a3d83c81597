"""Values: what an attribute may hold, checked once when they enter.

A value is a bool, a number (int or float), a time, a text or a point. Python's own types carry them, with two traps
closed here: a bool is not a number (though `True == 1` in Python), and NaN and the infinities, which have no place in
an order, are refused. Ints and floats are one kind and compare exactly, also beyond 2**53.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntFlag
from typing import Any

from godwit.errors import BadValue

INT_MIN = -(2**63)
INT_MAX = 2**64 - 1
TEXT_LENGTH_MAX = 65_536


class Kind(IntFlag):
    """The five kinds of values, as flags, so that a value set can say which kinds it may hold."""

    BOOL = 1
    NUMBER = 2
    TIME = 4
    TEXT = 8
    POINT = 16


ALL_KINDS = Kind.BOOL | Kind.NUMBER | Kind.TIME | Kind.TEXT | Kind.POINT
ORDERED_KINDS = Kind.NUMBER | Kind.TIME | Kind.TEXT


@dataclass(frozen=True, slots=True)
class Point:
    """A place on the globe in degrees: longitude first, as GeoJSON has it."""

    lon: float
    lat: float

    def __post_init__(self) -> None:
        for name, degrees, limit in (("lon", self.lon, 180), ("lat", self.lat, 90)):
            if type(degrees) not in (int, float) or not -limit <= degrees <= limit:
                raise BadValue(f"{name} of a point is {degrees!r}: it must be a number from {-limit} to {limit}")


Value = bool | int | float | datetime | str | Point

KIND_OF_TYPE: dict[type, Kind] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    datetime: Kind.TIME,
    str: Kind.TEXT,
    Point: Kind.POINT,
}
_WORD_FOR = {Kind.BOOL: "bool", Kind.NUMBER: "number", Kind.TIME: "time", Kind.TEXT: "text", Kind.POINT: "point"}


def kind_of(value: Value) -> Kind:
    """The kind of a checked value."""
    return KIND_OF_TYPE[type(value)]


def kind_name(kind: Kind) -> str:
    """The word people use for a kind."""
    return _WORD_FOR[kind]


def checked_value(value: Any) -> Value:
    """`value` as one of the five kinds, or `BadValue` saying what is wrong with it and what is allowed."""
    kind = type(value)
    if kind is str:
        return _checked_text(value)
    if kind is bool or kind is Point:
        return value  # type: ignore[no-any-return]
    if kind is int:
        if INT_MIN <= value <= INT_MAX:
            return value  # type: ignore[no-any-return]
        raise BadValue("an int beyond 64 bits: allowed are -2**63 to 2**64-1")
    if kind is float:
        if math.isfinite(value):
            return value  # type: ignore[no-any-return]
        raise BadValue(f"{value!r} is not a finite number: NaN and infinities have no place in an order")
    if kind is datetime:
        return _checked_time(value)
    if isinstance(value, str):  # a subclass, such as a string enum, whose str() would be its name
        return _checked_text(str.__str__(value))
    if isinstance(value, int):
        return checked_value(int(value))
    if isinstance(value, float):
        return checked_value(float(value))
    if isinstance(value, datetime):
        return _checked_time(value)
    raise BadValue(f"a {kind.__name__} is not a value: allowed are bool, int, float, text, an aware datetime and Point")


def _checked_text(text: str) -> str:
    if len(text) > TEXT_LENGTH_MAX:
        raise BadValue(
            f"a text of {len(text)} characters: at most {TEXT_LENGTH_MAX} are allowed, the payload takes more"
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadValue(f"a text that is not valid Unicode (a lone surrogate at character {error.start})") from None
    return text


def _checked_time(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise BadValue(f"the time {time.isoformat()} has no time zone: say which, for example +00:00")
    try:
        return datetime.combine(time.date(), time.timetz()).astimezone(UTC)  # of a subclass, the plain datetime
    except (OverflowError, TypeError, ValueError) as error:
        raise BadValue(f"{time!r} is not a time in the years 1 to 9999 of UTC") from error


def identity(value: Value) -> Any:
    """A key under which equal values, and only those, meet: `True` and `1` differ, `1` and `1.0` do not."""
    return (Kind.BOOL, value) if type(value) is bool else value


def order_key(value: Value) -> tuple[int, Any]:
    """A key that sorts values of any kinds together: by kind, then in the kind's own order."""
    if type(value) is Point:
        return (Kind.POINT, (value.lon, value.lat))
    return (kind_of(value), value)


def distinct_sorted(values: Iterable[Value]) -> tuple[Value, ...]:
    """The distinct values in their one canonical order."""
    return tuple(sorted({identity(value): value for value in values}.values(), key=order_key))
