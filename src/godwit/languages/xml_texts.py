"""Texts of a document as attribute values: at their paths, and by the names of their elements.

*Theory.* `xml_documents.py` tells what must be held. Most texts come again (codes, names, empty texts), so what they
are held as is remembered.

*Rules.*
1. A text that is not held at all is told by ' '. By name, these are those of more than `NAMED_LENGTH_MAX` characters.
2. A number that is not read alike by all (`is_plain_number`) is held with the doubles next to it, and with one on each
   side that is farther off than any reader errs.
"""

import re
from collections.abc import Collection, Iterator
from math import inf, nextafter
from typing import NamedTuple

from godwit.filters.values import TEXT_LENGTH_MAX, Value
from godwit.languages.xml_trees import STRING_VALUE, Tree
from godwit.languages.xml_values import is_plain_number, normalised, number_of, values_of_text

__all__ = [
    "BARE",
    "HIDDEN",
    "LOOK",
    "LOOKED",
    "NAMED_LENGTH_MAX",
    "NAMED_SHIFT",
    "REWRITTEN",
    "ROUNDED",
    "STRANGE",
    "UNHELD",
    "VALUES_OF_TEXT_MAX",
    "Held",
    "HeldText",
    "complex_numbers",
    "held_text",
    "remembered_texts",
    "together",
]

LOOK, UNHELD = "", " "
"""The values that say: look into the document. With the first, the text is held but for its white space."""
NAMED_LENGTH_MAX = 256
"""Characters of texts that are held a second time, by the name of their element."""
LOOKED, REWRITTEN, BARE, HIDDEN, ROUNDED, STRANGE = 2, 4, 8, 16, 32, 64
"""Of what is held: there is '' or ' ' among it; a number is held with its text, which is not written as it usually is;
a number is held without its text; there is ' ' among it; numbers are held of which it is not known which is read, or
(`STRANGE`) whether one is read at all."""
NAMED_SHIFT = 7
"""The same of what is held by name is so many bits further left."""
VALUES_OF_TEXT_MAX = 10
REMEMBERED_LENGTH_MAX = 64
FAR = 1e-12  # of a number: libxml2 adds up digits, and errs by half a unit in the last place with each
TEXTS_MAX = 16_384
DECIMAL = re.compile(r"[ \t\r\n]*-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[ \t\r\n]*").fullmatch  # which all read as a number
READS_AS_NUMBER = re.compile(r"[-+.0-9eE \t\r\n]*").fullmatch

Held = Value | tuple[Value, ...]


def together(values: Collection[Value]) -> Held:
    """One value as it is, several as a tuple."""
    return next(iter(values)) if len(values) == 1 else tuple(values)


class HeldText(NamedTuple):
    """How a text is held: at its path, and by a name; of what kind that is; and whether it may be part of a number."""

    values: Held
    short: Held
    flags: int
    is_numeric: bool


def held_text(raw: str | None, preserve: bool) -> HeldText:
    """How a text is held; `preserve` keeps its white space."""
    if not raw:
        return EMPTY
    if len(raw) > TEXT_LENGTH_MAX:
        return _text_of(
            dict.fromkeys([UNHELD, *_numbers(raw)]),
            LOOKED | HIDDEN | ROUNDED | STRANGE,
            READS_AS_NUMBER(raw) is not None,
        )
    made = _made_text(raw, raw if preserve else normalised(raw), preserve)
    if len(raw) <= REMEMBERED_LENGTH_MAX and not preserve:
        if len(remembered_texts) >= TEXTS_MAX:
            remembered_texts.clear()
        remembered_texts[raw] = made
    return made


def _made_text(raw: str, text: str, preserve: bool) -> HeldText:
    """How a text is held, which XQL takes as `text`."""
    values = values_of_text(text)
    flags = REWRITTEN if len(values) > 1 else BARE if type(values[0]) is not str else 0
    if (
        raw == text != ""
        and (type(values[0]) is str or is_plain_number(text))
        and (not preserve or raw == normalised(raw))
    ):
        return _text_of(values, flags, type(values[0]) is not str)
    numbers = list(_numbers(raw))
    if len(numbers) > 1:
        flags |= ROUNDED
    if numbers and not DECIMAL(raw):
        flags |= STRANGE
    return _text_of(
        dict.fromkeys([*values, LOOK, *numbers]), flags | LOOKED, is_numeric=READS_AS_NUMBER(raw) is not None
    )


def _text_of(values: Collection[Value], flags: int, is_numeric: bool) -> HeldText:
    held = together(values)
    if type(held) is str:
        is_long = len(held) > NAMED_LENGTH_MAX
        short: Held = UNHELD if is_long else held
    else:
        short = together(dict.fromkeys(UNHELD if _is_long(value) else value for value in values))
        is_long = short != held
    return HeldText(held, short, flags | (flags | LOOKED | HIDDEN if is_long else flags) << NAMED_SHIFT, is_numeric)


def _is_long(value: Value) -> bool:
    return type(value) is str and len(value) > NAMED_LENGTH_MAX


EMPTY = _text_of([LOOK], LOOKED, True)
remembered_texts: dict[str | None, HeldText] = {}
"""How texts are held, as far as it is known."""


def _numbers(text: str) -> Iterator[Value]:
    """The number that a text reads as, and those next to it where readers may round differently."""
    number = number_of(text)
    if number is None:
        return
    yield number
    if not is_plain_number(normalised(text)):
        low = high = float(number)
        for _ in range(2):
            low, high = nextafter(low, -inf), nextafter(high, inf)
            yield from (near for near in (low, high) if abs(near) != inf)
        far = abs(number) * FAR
        yield from (near for near in (number - far, number + far) if abs(near) != inf)


def complex_numbers(element: Tree) -> list[Value]:
    """The numbers of an element that holds elements: XPath joins its texts, XQL puts spaces between them."""
    joined = str(STRING_VALUE(element))
    if len(joined.split()) != 1 or not READS_AS_NUMBER(joined):  # the usual case: at once
        return []
    return [*_numbers(joined), *_numbers(normalised(" ".join(element.itertext())))]
