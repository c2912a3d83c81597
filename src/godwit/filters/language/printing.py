"""Filters as text: `to_text` on one line, `pretty` on as many as it takes to be read. Both parse back to an equal
filter.

*Theory.* Every value set has one phrase with an attribute's name in it (`x < 5`, `1 < x <= 5`, `x LIKE 'a%'`), and most
have a denied one (`x NOT LIKE 'a%'`). A literal is such a phrase, with a quantifier or a NOT where it does not go
without:

    Some(x, S)        x IN (1, 2)             Only(x, S)        ALL x IN (1, 2)
    Some(x, not S)    ANY x NOT IN (1, 2)     Only(x, not S)    x NOT IN (1, 2)
"""

import re
from collections.abc import Iterable
from datetime import datetime

from godwit.filters.contexts import SENDER
from godwit.filters.filters import FALSE, TRUE, And, Filter, Literal, Missing, Or, Some
from godwit.filters.language.grammar import KEYWORDS, PLAIN_NAME
from godwit.filters.like_patterns import escaped
from godwit.filters.references import LOCATION, OpenSet, Operand, Reference
from godwit.filters.regions import Box, Circle, Polygon
from godwit.filters.sets import (
    EVERYTHING,
    Complement,
    Interval,
    Like,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
)
from godwit.filters.values import Point, kind_name

WIDTH = 100
INDENT = "    "

QUOTE, BACKSLASH = '"', "\\"

_PATH = r"[\w@:$]+(?:/[\w@:$]+)*"
_PLAIN = re.compile(rf"(?:sender\.{_PATH}|{PLAIN_NAME})")
_PLAIN_REFERENCE = re.compile(_PATH)
_UNREADABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
)  # controls, line ends, and what turns text round
_EVERYWHERE = Box(-180, -90, 180, 90)
_BOTH = OneOf((False, True))


def to_text(filter: Filter) -> str:
    """The filter on one line."""
    match filter:
        case And(parts=()):
            return "TRUE"
        case Or(parts=()):
            return "FALSE"
        case And(parts=parts):
            return " AND ".join(f"({to_text(part)})" if _is_group(part) else to_text(part) for part in parts)
        case Or(parts=parts):
            return " OR ".join(map(to_text, parts))
    return literal_text(filter)


def pretty(filter: Filter, width: int = WIDTH) -> str:
    """The filter on as many lines as it takes for none to be much wider than `width`."""
    return "\n".join(_lines(filter, width))


def _lines(filter: Filter, width: int) -> list[str]:
    line = to_text(filter)
    if len(line) <= width or filter in (TRUE, FALSE):
        return [line]
    if not isinstance(filter, And | Or):
        return _wrapped(line, width)
    word = "AND" if isinstance(filter, And) else "OR"
    lines: list[str] = []
    for part in filter.parts:
        inner = _lines(part, width - len(INDENT))
        if isinstance(filter, And) and _is_group(part):
            inner = [f"({inner[0]})"] if len(inner) == 1 else ["(", *(f"{INDENT}{line}" for line in inner), ")"]
        lines += [f"{word} {inner[0]}", *inner[1:]] if lines else inner
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    """A long literal, broken after the commas of its list, if it has one; a text with a comma in it is not broken."""
    pieces = re.findall(r"(?:'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^,'\"])+,? ?", line)
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append(INDENT)
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _is_group(filter: Filter) -> bool:
    """Whether a part of an AND needs parentheses."""
    return isinstance(filter, Or) and bool(filter.parts)


# ---------------------------------------------------------------- literals


def literal_text(literal: Literal) -> str:
    """One literal."""
    name = name_text(literal.attribute)
    if isinstance(literal, Missing):
        return f"{name} IS NULL"
    values = literal.values
    if isinstance(literal, Some):
        if values == EVERYTHING:
            return f"{name} IS NOT NULL"
        if not isinstance(values, Complement):
            return phrase(name, values)
        element = _only_element(values.inner)
        return f"{name} <> {element}" if element is not None else f"ANY {phrase(name, values.inner, denied=True)}"
    if values == EVERYTHING:
        return f"{name} NOT IN ()"
    return phrase(name, values.inner, denied=True) if isinstance(values, Complement) else f"ALL {phrase(name, values)}"


def phrase(name: str, values: ValueSet, *, denied: bool = False) -> str:
    """That a value of `name` lies in `values`, or that it does not."""
    no = "NOT " if denied else ""
    element = _only_element(values)
    if element is not None:
        return f"{no}{name} = {element}"
    if values == _BOTH:
        return f"{name} IS {no}BOOL"
    if values == _EVERYWHERE:
        return f"{name} IS {no}POINT"
    match values:
        case Nothing():
            return f"{name} {no}IN ()"
        case OneOf(values=members) | OpenSet(builder="one_of", operands=members):
            return f"{name} {no}IN ({_list(map(value_text, members))})"
        case Interval(kind=kind, low=None, high=None):
            return f"{name} IS {no}{kind_name(kind).upper()}"
        case (
            Interval(low=low, high=high, low_open=low_open, high_open=high_open)
            | OpenSet(builder="interval", operands=(low, high, low_open, high_open))
        ):
            if low is not None and high is not None and not low_open and not high_open:
                return f"{name} {no}BETWEEN {value_text(low)} AND {value_text(high)}"
            return no + _comparison(name, low, high, "<" if low_open else "<=", "<" if high_open else "<=")
        case OpenSet(builder="like", operands=(reference,)):
            return f"{name} {no}LIKE {value_text(reference)}"
        case TopicPattern(pattern):
            return f"{name} {no}LIKE TOPIC {text_text(pattern)}"
    wanted = _pattern(values)
    return f"{name} {no}WITHIN {region_text(values)}" if wanted is None else f"{name} {no}LIKE {text_text(wanted)}"


def _only_element(values: ValueSet) -> str | None:
    """The one value of a set of one."""
    match values:
        case OneOf(values=(value,)) | OpenSet(builder="one_of", operands=(value,)):
            return value_text(value)
    return None


def _comparison(name: str, low: Operand, high: Operand, above: str, below: str) -> str:
    if low is None:
        return f"{name} {below} {value_text(high)}"
    if high is None:
        return f"{name} {above.replace('<', '>')} {value_text(low)}"
    return f"{value_text(low)} {above} {name} {below} {value_text(high)}"


def _pattern(values: ValueSet) -> str | None:
    match values:
        case Prefix(text):
            return f"{escaped(text)}%"
        case Suffix(text):
            return f"%{escaped(text)}"
        case Substring(text):
            return f"%{escaped(text)}%"
        case Like(pattern):
            return pattern
    return None


def region_text(values: ValueSet) -> str:
    """A region or a set of places, as it stands after WITHIN."""
    match values:
        case Circle(centre, radius):
            return f"circle({_list(map(value_text, (centre.lon, centre.lat, radius)))})"
        case OpenSet(builder="circle", operands=(Point(lon, lat), radius)):
            return f"circle({_list(map(value_text, (lon, lat, radius)))})"
        case OpenSet(builder="circle", operands=operands):
            return f"circle({_list(map(value_text, operands))})"
        case OpenSet(builder="vicinity", operands=(place, steps)):
            return f"{value_text(place)}({steps})" if steps else value_text(place)
        case Box(west, south, east, north):
            return f"box({_list(map(value_text, (west, south, east, north)))})"
        case Polygon(corners):
            return f"polygon({_list(f'{value_text(p.lon)} {value_text(p.lat)}' for p in corners)})"
        case Places(names):
            return f"places({_list(map(text_text, names))})"
    raise TypeError(f"a {type(values).__name__} has no text")


def _list(pieces: Iterable[str]) -> str:
    return ", ".join(pieces)


# ---------------------------------------------------------------- values and names


def value_text(value: Operand) -> str:
    """A value or a reference to one."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text_text(value)
        case datetime():
            return f"TIMESTAMP '{value.isoformat().replace('+00:00', 'Z')}'"
        case Point(lon, lat):
            return f"point({lon!r}, {lat!r})"
        case Reference(name):
            if name == LOCATION:
                return "myloc"
            return f"my.{name}" if _PLAIN_REFERENCE.fullmatch(name) else f"my.{_quoted(name, QUOTE)}"
    return repr(value)


def text_text(text: str) -> str:
    """A text in single quotes."""
    return _quoted(text, "'")


def name_text(name: str) -> str:
    """An attribute's name, in double quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS and name.lower() != "myloc":
        return name
    if name.startswith(SENDER) and name != SENDER:
        return SENDER + _quoted(name.removeprefix(SENDER), QUOTE)
    return _quoted(name, QUOTE)


def _quoted(text: str, quote: str) -> str:
    doubled = text.replace(quote, quote * 2)
    if not _UNREADABLE.search(text):
        return f"{quote}{doubled}{quote}"
    return f"U&{quote}{_UNREADABLE.sub(_code_point, doubled.replace(BACKSLASH, BACKSLASH * 2))}{quote}"


def _code_point(character: re.Match[str]) -> str:
    return f"\\{ord(character[0]):04X}"
