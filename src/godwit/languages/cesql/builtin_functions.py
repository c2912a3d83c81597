"""The functions that every engine of CESQL has. [CESQL §3.5]

A function is found by its name, in any case, and the number of its arguments. Each says the types of its parameters, to
which arguments are cast, and the type that it returns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from godwit.languages.cesql.casts import INTEGER_MAX, INTEGER_MIN
from godwit.languages.cesql.expressions import Scalar

__all__ = ["BOOLEAN", "CASTS", "FUNCTIONS", "INTEGER", "STRING", "BuiltinFunction", "FunctionFailed", "function_for"]

BOOLEAN, INTEGER, STRING = "Boolean", "Integer", "String"
CASTS = {"INT": INTEGER, "BOOL": BOOLEAN, "STRING": STRING}
"""The functions that do nothing but cast, and the type to which."""

WHITE_SPACE = "".join(
    map(
        chr,
        (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
    )
)
"""White space as Unicode defines it. `str.strip` would take four control characters as well."""


class FunctionFailed(Exception):
    """A function has no result; `value` stands for it."""

    def __init__(self, reason: str, value: Scalar, is_math: bool = False) -> None:
        super().__init__(reason)
        self.value = value
        self.is_math = is_math


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """A function: types of its parameters, type of its result. `rest` is the type of any number of further ones."""

    name: str
    parameters: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    rest: str | None = None

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))


def _left(text: str, length: int) -> str:
    if length < 0:
        raise FunctionFailed(f"LEFT of {length} characters", text)
    return text[:length]


def _right(text: str, length: int) -> str:
    if length < 0:
        raise FunctionFailed(f"RIGHT of {length} characters", text)
    return text[max(len(text) - length, 0) :]


def _substring(text: str, position: int, length: int | None = None) -> str:
    if abs(position) > len(text):
        raise FunctionFailed(f"SUBSTRING from {position} of a text of {len(text)} characters", "")
    if length is not None and length < 0:
        raise FunctionFailed(f"SUBSTRING of {length} characters", "")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start:] if length is None else text[start : start + length]


def _abs(number: int) -> int:
    if number == INTEGER_MIN:
        raise FunctionFailed(f"ABS({number}) is beyond 32 bits", INTEGER_MAX, is_math=True)
    return abs(number)


def _same(value: Scalar) -> Scalar:
    return value


FUNCTIONS = (
    BuiltinFunction("LENGTH", (STRING,), INTEGER, len),
    BuiltinFunction("CONCAT", (), STRING, lambda *texts: "".join(texts), rest=STRING),
    BuiltinFunction("CONCAT_WS", (STRING,), STRING, lambda delimiter, *texts: delimiter.join(texts), rest=STRING),
    BuiltinFunction("LOWER", (STRING,), STRING, str.lower),
    BuiltinFunction("UPPER", (STRING,), STRING, str.upper),
    BuiltinFunction("TRIM", (STRING,), STRING, lambda text: text.strip(WHITE_SPACE)),
    BuiltinFunction("LEFT", (STRING, INTEGER), STRING, _left),
    BuiltinFunction("RIGHT", (STRING, INTEGER), STRING, _right),
    BuiltinFunction("SUBSTRING", (STRING, INTEGER), STRING, _substring),
    BuiltinFunction("SUBSTRING", (STRING, INTEGER, INTEGER), STRING, _substring),
    BuiltinFunction("ABS", (INTEGER,), INTEGER, _abs),
    *(BuiltinFunction(name, (wanted,), wanted, _same) for name, wanted in CASTS.items()),
)
_BY_NAME: dict[str, list[BuiltinFunction]] = {}
for _function in FUNCTIONS:
    _BY_NAME.setdefault(_function.name, []).append(_function)


def function_for(name: str, count: int) -> BuiltinFunction | None:
    """The function of that name, in capitals, which takes so many arguments."""
    for function in _BY_NAME.get(name, ()):
        if function.takes(count):
            return function
    return None
