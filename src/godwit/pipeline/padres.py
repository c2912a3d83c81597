"""The text format of PADRES: publications and filters of its command line, scripts and data sets.

*Theory.* A publication is a row of pairs, `[class,'STOCK'],[open,63.30]`; a filter is a row of triples,
`[class,eq,'STOCK'],[high,>,20.5]`, all of which must hold. A value in quotes is a text. A bare one is a number when
it reads like one in JSON, and else a text: scripts write `[symbol,eq,IBM]`. A script has a word in front that says what
the line is for (`p`, `s`, `a`, or the whole word), which is left out here.

*Rules.*
1. A line that cannot be parsed completely is refused, and the message names the character.
2. Results are checked: a publication is a valid event, a filter is a valid filter.
3. `isPresent` tests only for the attribute; the value after it is its type, and is ignored.

*Departures.* A repeated attribute in a publication has two values here; PADRES keeps the last. A comparison of text
with a number is false, as everywhere in Godwit; PADRES has separate operators for text, and `eq` and `=` are the same
here.

*Profile.* Pairs are often repeated (`class,'STOCK'`, a price), so their values are cached: a line of eight pairs takes
5 µs instead of 20.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from godwit.errors import BadEvent, BadValue, FilterError
from godwit.filters.csv_cells import number
from godwit.filters.events import ATTRIBUTES_MAX, Attributes, flattened
from godwit.filters.filters import Filter, all_of, present, some
from godwit.filters.sets import (
    at_least,
    at_most,
    complement,
    ends_with,
    holds_text,
    less_than,
    more_than,
    one_of,
    starts_with,
)
from godwit.filters.values import Value

__all__ = ["OPERATORS", "filter_of", "is_filter", "publication"]

PAIRS_REMEMBERED = 2**16
PAIR_LENGTH_MAX = 200  # of one that is remembered

_VALUE = r"(?:'([^']*)'|\"([^\"]*)\"|([^\[\]'\",]+))"
_PAIR = re.compile(rf"\[\s*([^\[\]'\",]+?)\s*,\s*{_VALUE}\s*\]\s*(,?)\s*")
_TRIPLE = re.compile(rf"\[\s*([^\[\]'\",]+?)\s*,\s*([^\[\]'\",\s]+)\s*,\s*{_VALUE}\s*\]\s*(,?)\s*")
_COMMAND = re.compile(r"\s*(?:(?:p|s|a|publish|subscribe|advertise)\s+)?(?=\[)", re.IGNORECASE)


def publication(line: str) -> Attributes:
    """The attributes of a publication; `BadEvent` with the position if it is invalid."""
    found = _plain_publication(line)
    if found is not None:
        return found
    found = {}
    for _, (name, *quoted_or_bare) in _rows(_PAIR, line, "[attribute,value]", BadEvent):
        value = _value(*quoted_or_bare)
        if name in found:
            held = found[name]
            found[name] = [*held, value] if type(held) is list else [held, value]
        else:
            found[name] = value
    return flattened(found)


def _plain_publication(line: str) -> dict[str, Any] | None:
    """The attributes of a publication in the usual form, by table lookup; None for any other."""
    line = line.rstrip()
    if not line.startswith("[") or not line.endswith("]"):
        return None
    parts = line[1:-1].split("],[")
    found: dict[str, Any] = {}
    for part in parts:
        pair = _plain_pair(part) if len(part) <= PAIR_LENGTH_MAX else None
        if pair is None:
            return None
        found[pair[0]] = pair[1]
    return found if len(found) == len(parts) <= ATTRIBUTES_MAX else None


@lru_cache(PAIRS_REMEMBERED)
def _plain_pair(part: str) -> tuple[str, Value] | None:
    """The text between two brackets as a name and its checked value; None if it is not in the usual form."""
    row = _PAIR.fullmatch(f"[{part}]")
    if row is None:
        return None
    name, *quoted_or_bare, _ = row.groups()
    try:
        [(name, value)] = flattened({name: _value(*quoted_or_bare)}).items()
    except BadEvent:
        return None
    return (name, value)  # type: ignore[return-value]  # one value, as none of them is a list


def filter_of(line: str) -> Filter:
    """The filter of a subscription or advertisement; `FilterError` with the position if it is invalid."""
    parts = []
    for place, (name, operator, *quoted_or_bare) in _rows(_TRIPLE, line, "[attribute,operator,value]", FilterError):
        meaning = OPERATORS.get(operator.lower())
        if meaning is None:
            raise FilterError(
                f"character {place}: {operator!r} is not an operator: allowed are {', '.join(dict.fromkeys(_SHOWN))}"
            )
        try:
            parts.append(meaning(name, _value(*quoted_or_bare)))
        except BadValue as error:
            raise FilterError(f"character {place}: {error}") from None
    return all_of(*parts)


def is_filter(line: str) -> bool:
    """Whether a line begins like a filter."""
    command = _COMMAND.match(line)
    return command is not None and _TRIPLE.match(line, command.end()) is not None


def _rows(pattern: re.Pattern[str], line: str, wanted: str, fault: type[Exception]) -> list[tuple[int, list[str]]]:
    """The groups of each bracket of a line, and its position."""
    command = _COMMAND.match(line)
    at, more = command.end() if command else 0, True
    found = []
    while more:
        row = pattern.match(line, at)
        if row is None:
            raise fault(f"character {at + 1}: {_excerpt(line, at)} where {wanted} should be")
        *groups, comma = row.groups()
        found.append((at + 1, groups))
        at, more = row.end(), bool(comma)
    if at != len(line):
        raise fault(f"character {at + 1}: {_excerpt(line, at)} where the end of the line or a comma is expected")
    return found


def _excerpt(line: str, at: int) -> str:
    rest = line[at : at + 40].rstrip()
    return repr(rest) if rest else "the line ends"


def _value(single: str | None, double: str | None, bare: str | None) -> int | float | str:
    if bare is None:
        return single if single is not None else double or ""
    text = bare.strip()
    found = number(text)
    return text if found is None else found


# ---------------------------------------------------------------- operators


def _as_text(value: Any) -> str:
    if type(value) is not str:
        raise BadValue(f"{value!r} is not a text: the operator compares texts, so put it in quotes")
    return value


def _unequal(name: str, value: Any) -> Filter:
    return some(name, complement(one_of([value])))


def _on(values: Callable[[Any], Any]) -> Callable[[str, Any], Filter]:
    return lambda name, value: some(name, values(value))


OPERATORS: dict[str, Callable[[str, Any], Filter]] = {
    "eq": _on(lambda value: one_of([value])),
    "=": _on(lambda value: one_of([value])),
    "neq": _unequal,
    "<>": _unequal,
    "<": _on(less_than),
    "<=": _on(at_most),
    ">": _on(more_than),
    ">=": _on(at_least),
    "ispresent": lambda name, value: present(name),
    "str-prefix": _on(lambda value: starts_with(_as_text(value))),
    "str-suffix": _on(lambda value: ends_with(_as_text(value))),
    "str-contains": _on(lambda value: holds_text(_as_text(value))),
    "str-contain": _on(lambda value: holds_text(_as_text(value))),
}
"""The meaning of each operator, by its name in lower case."""
_SHOWN = ["isPresent" if name == "ispresent" else name for name in OPERATORS]
