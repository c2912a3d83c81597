"""SPEAR's languages: SEL, one value for each attribute, and SSL, Boolean combinations of conditions. [motion §5, Fig.
3, 4]

*Theory.* A set of values is one text, each value between two sentinels: `#1050##5473#`. Of numbers there are the
smallest and the largest besides, as `xmin` and `xmax`. So conditions on sets become conditions on a text and on two
numbers.

*Rules.*
1. A `#` within a value or operand is written as `HASH`, which no XML document holds; an operand that holds `HASH` meets
   nothing.
2. A condition that the tables have no row for is let through: it becomes true, or `defines`; under negation false.
3. `x $eq$ ''` is `x $contains$ '##'`, which also stands between two values: so under negation it is false too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from godwit.filters import (
    FALSE,
    TRUE,
    Event,
    Filter,
    all_of,
    any_of,
    at_least,
    at_most,
    holds_text,
    less_than,
    more_than,
    some,
)
from godwit.languages.bounds import opposite
from godwit.languages.tiers.iel import Iel, is_shown, part_text
from godwit.languages.tiers.isl import Both, Compares, Defines, Either, Isl, Negated
from godwit.languages.xql.printing import literal_text
from godwit.languages.xql.vocabulary import NAMED

__all__ = [
    "HASH",
    "Contains",
    "NumberIs",
    "Sel",
    "Ssl",
    "sel_event",
    "sel_of",
    "sel_text",
    "spearmatch",
    "ssl_filter",
    "ssl_of",
    "ssl_text",
]

SENTINEL = "#"
HASH = "\x01"

Sel = Mapping[str, str | int | float]
"""A SEL element: one value for each attribute."""


def attribute_name(path: str) -> str:
    """The attribute of a path: one that looks like an extreme is told apart from those."""
    return f"{path}{SENTINEL}" if path.endswith(("min", "max")) else path


def _escaped(text: str) -> str:
    return text.replace(SENTINEL, HASH)


def sel_of(iel: Iel) -> Sel:
    """The SEL element of an IEL element."""
    found: dict[str, str | int | float] = {}
    for path, values in iel.items():
        found[attribute_name(path)] = "".join(f"#{_escaped(part_text(value))}#" for value in values) or "##"
        numbers = [value for value in values if not isinstance(value, str)]
        if numbers:
            found[f"{path}min"], found[f"{path}max"] = min(numbers), max(numbers)
    return found


def sel_text(sel: Sel, iel: Iel) -> str:
    """The element as Listing 4 prints it."""
    hidden = {attribute_name(path) for path, values in iel.items() if not is_shown(path, values, iel)}
    lines = [
        f"{name} |-> '{value}'" if isinstance(value, str) else f"{name} |-> {part_text(value)}"
        for name, value in sel.items()
        if name not in hidden
    ]
    return "{ " + ",\n".join(lines) + "}"


@dataclass(frozen=True, slots=True)
class Contains:
    """`x $contains$ 'text'`."""

    attribute: str
    text: str


@dataclass(frozen=True, slots=True)
class NumberIs:
    """`xmin $lt$ a`: the number of the attribute compares so."""

    attribute: str
    operator: str
    number: int | float


@dataclass(frozen=True, slots=True)
class NotSo:
    """`$not$` of one condition."""

    inner: Contains | NumberIs


@dataclass(frozen=True, slots=True)
class AllSo:
    """`$and$`; of no parts it is true."""

    parts: tuple["Ssl", ...]


@dataclass(frozen=True, slots=True)
class AnySo:
    """`$or$`; of no parts it is false."""

    parts: tuple["Ssl", ...]


Ssl = Contains | NumberIs | NotSo | AllSo | AnySo
EXTREMES = {"lt": "min", "le": "min", "gt": "max", "ge": "max"}
AROUND = {"contains": ("", ""), "startsw": ("#", ""), "eq": ("#", "#"), "endsw": ("", "#")}


def ssl_of(said: Isl, positive: bool = True) -> Ssl:
    """The SSL query of an ISL query, by the tables of the paper; `positive`: under an even number of negations."""
    match said:
        case Both(parts=parts):
            return AllSo(tuple(ssl_of(part, positive) for part in parts))
        case Either(parts=parts):
            return AnySo(tuple(ssl_of(part, positive) for part in parts))
        case Negated(inner=inner):
            return _negated(ssl_of(inner, not positive))
        case Defines(path=path):
            return Contains(attribute_name(path), SENTINEL)
        case Compares(path=path, operator=operator, operand=operand):
            if isinstance(operand, str):
                return _of_text(path, operator, operand, positive)
            return _of_number(path, operator, operand, positive)


def _of_text(path: str, operator: str, operand: str, positive: bool) -> Ssl:
    if operator not in NAMED:
        return AllSo(()) if positive else AnySo(())  # "replace their occurences by true ... false"
    if operator not in AROUND:
        return Contains(attribute_name(path), SENTINEL) if positive else AnySo(())  # rule 2
    if HASH in operand or (operand == "" and operator == "eq" and not positive):  # rules 1 and 3
        return AnySo(())
    before, after = AROUND[operator]
    return Contains(attribute_name(path), f"{before}{_escaped(operand)}{after}" or SENTINEL)


def _of_number(path: str, operator: str, operand: int | float, positive: bool) -> Ssl:
    if operator == "eq":
        return Contains(attribute_name(path), f"#{part_text(operand)}#")
    if operator == "ne":
        return AnySo((NumberIs(f"{path}min", "lt", operand), NumberIs(f"{path}max", "gt", operand)))
    if operator in EXTREMES:
        return NumberIs(f"{path}{EXTREMES[operator]}", operator, operand)
    return AllSo(()) if positive else AnySo(())


def _negated(said: Ssl) -> Ssl:
    match said:
        case AllSo(parts=parts):
            return AnySo(tuple(_negated(part) for part in parts))
        case AnySo(parts=parts):
            return AllSo(tuple(_negated(part) for part in parts))
        case NotSo(inner=inner):
            return inner
        case _:
            return NotSo(said)


def spearmatch(event: Sel, query: Ssl) -> bool:
    """Whether an SSL query matches a SEL element."""
    match query:
        case Contains(attribute=attribute, text=text):
            value = event.get(attribute)
            return isinstance(value, str) and text in value
        case NumberIs(attribute=attribute, operator=operator, number=number):
            value = event.get(attribute)
            return not isinstance(value, str | None) and NUMBER_TESTS[operator](value, number)
        case NotSo(inner=inner):
            return not spearmatch(event, inner)
        case AllSo(parts=parts):
            return all(spearmatch(event, part) for part in parts)
        case AnySo(parts=parts):
            return any(spearmatch(event, part) for part in parts)


NUMBER_TESTS = {
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
}
NUMBER_SETS = {"lt": less_than, "le": at_most, "gt": more_than, "ge": at_least}


def sel_event(sel: Sel) -> Event:
    """A SEL element as an event, for matchers."""
    return Event(sel)


def ssl_filter(query: Ssl) -> Filter:
    """An SSL query as a filter on the attributes of SEL, for matchers: such as the BDD matcher, which is SPEAR's."""
    match query:
        case Contains(attribute=attribute, text=text):
            return some(attribute, holds_text(text))
        case NumberIs(attribute=attribute, operator=operator, number=number):
            return some(attribute, NUMBER_SETS[operator](number))
        case NotSo(inner=inner):
            return opposite(ssl_filter(inner))
        case AllSo(parts=parts):
            filters = [ssl_filter(part) for part in parts]
            return FALSE if FALSE in filters else all_of(*(each for each in filters if each != TRUE))
        case AnySo(parts=parts):
            filters = [ssl_filter(part) for part in parts]
            return TRUE if TRUE in filters else any_of(*(each for each in filters if each != FALSE))


def ssl_text(query: Ssl) -> str:
    """The query as the tables write it."""
    match query:
        case AllSo(parts=()):
            return "true()"
        case AnySo(parts=()):
            return "false()"
        case AllSo(parts=parts):
            return f"({' $and$ '.join(map(_inner_text, parts))})"
        case AnySo(parts=parts):
            return f"({' $or$ '.join(map(_inner_text, parts))})"
        case NotSo(inner=inner):
            return f"$not$ ({ssl_text(inner)})"
        case Contains(attribute=attribute, text=text):
            return f"{attribute} $contains$ {literal_text(text)}"
        case NumberIs(attribute=attribute, operator=operator, number=number):
            return f"{attribute} ${operator}$ {part_text(number)}"


def _inner_text(part: Ssl) -> str:
    return ssl_text(part) if isinstance(part, AllSo | AnySo) else f"({ssl_text(part)})"
