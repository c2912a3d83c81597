"""Texts of XML as values: XML has no types, and queries cast by what they compare with.

*Theory.* A query may compare the text of an element as a text (`zip = '1050'`) or as a number (`zip > 1040`). So that a
filter can answer both, a text that reads as a number is held as that number; and as a text besides, unless it is
written just as the number is (`canonical`). `1050` is held as 1050; `1050.0` as 1050 and '1050.0'. A filter that asks
for the text '1050' asks for the number 1050: the one text that is held as this number and nothing else.

*Rules.*
1. Numbers are doubles, as in XPath: `number_of` rounds. Beyond doubles they are the largest one.
2. For a comparison with a literal, the literal is read by `number_of`, too, so that both sides are rounded alike.
3. Only space, tab and line ends are white space in XML. A no-break space is a character like any other.
"""

import re
import sys

from godwit.filters.values import TEXT_LENGTH_MAX, Value

__all__ = [
    "EXACT_INT_MAX",
    "NUMBER_CHARACTERS",
    "PART_OF_NUMBER",
    "WHITE",
    "canonical",
    "is_plain_number",
    "normalised",
    "number_of",
    "values_of_text",
]

EXACT_INT_MAX = 2**53
NUMBER = re.compile(r"[ \t\r\n]*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\r\n]*")
PLAIN_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
PLAIN_DIGITS_MAX = 15  # of these a double keeps all
NUMBER_CHARACTERS = frozenset("0123456789.-")  # of canonical writings
PART_OF_NUMBER = re.compile(r"-?[0-9]*\.?[0-9]*").fullmatch
WHITE = " \t\r\n"
SPACES = re.compile(rf"[{WHITE}]+")


def normalised(text: str) -> str:
    """A text without space around it, and one space wherever there is any within. (rule 3)"""
    if not text or (
        text[0] not in WHITE
        and text[-1] not in WHITE
        and "  " not in text
        and "\n" not in text
        and "\t" not in text
        and "\r" not in text
    ):
        return text
    return SPACES.sub(" ", text).strip(" ")


def number_of(text: str) -> int | float | None:
    """The number that a text reads as, or None. (rule 1)"""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    value = min(max(float(found[1]), -sys.float_info.max), sys.float_info.max)
    return int(value) if abs(value) <= EXACT_INT_MAX and value.is_integer() else value


def is_plain_number(text: str) -> bool:
    """Whether every reader of numbers reads a text alike: no exponent, no plus sign, not too many digits."""
    return PLAIN_NUMBER.fullmatch(text) is not None and len(text) <= PLAIN_DIGITS_MAX


def canonical(number: int | float) -> str | None:
    """The text that is held as this number alone; None when there is none."""
    text = repr(number)
    return None if "e" in text or abs(number) > EXACT_INT_MAX else text


def values_of_text(text: str) -> tuple[Value, ...]:
    """The values as which a text is held, of `TEXT_LENGTH_MAX` characters at most."""
    number = number_of(text) if text and text[0] in "0123456789.+- \t\r\n" else None
    if number is None:
        return (text,)
    return (number,) if text == canonical(number) else (number, text)


assert TEXT_LENGTH_MAX > PLAIN_DIGITS_MAX
