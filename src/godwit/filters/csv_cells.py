"""Cells of tables without types, such as CSV: their type follows from their text.

*Rules.*
1. true and false, in any case, are bools; a number is one as JSON has it, so that 007 is a text; an empty cell is
   nothing; all else is a text.
2. A number of very many digits is an infinite float, which an event refuses with an error.
"""

import re

__all__ = ["cell", "number"]

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
DIGITS_MAX = 1_000  # of an int: beyond 4,300 Python reads none, and long before it is not a value
BOOLS = {"true": True, "false": False}


def cell(text: str) -> bool | int | float | str | None:
    """What a cell holds."""
    if not text:
        return None
    found = number(text)
    return BOOLS.get(text.lower(), text) if found is None else found


def number(text: str) -> int | float | None:
    """The number that a text is in JSON, or None."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    return float(text) if found["fraction"] or len(text) > DIGITS_MAX else int(text)
