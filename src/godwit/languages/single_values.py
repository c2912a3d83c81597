"""Filters for an index of queries: written so that the usual event is found by one selective test.

*Theory.* `lon > 10.1 AND lon < 10.2` are two literals, which two values of one event may meet. An index finds it by
one of the two, and so it finds half of all such filters. Most events have one value for an attribute, and for them it
is one range. Filters on XML documents have another burden: next to the text that is asked for they let through '' and
' ', which say that the document must be looked at. An index cannot find `name LIKE '%abc%' OR name = ' '` by the part
of the text alone, and few events hold a ' ' there. So a filter is split:

    lon of one value BETWEEN 10.1 AND 10.2 AND name LIKE '%abc%'
    OR (lon > 10.1 AND lon < 10.2 AND (name LIKE '%abc%' OR name = ' ') AND special IN ('lon', 'name'))

Which attributes have one value, and which are special (several values, or one that says *look*), is told by further
attributes, which exist in the index only. An alternative of its own for numbers, `name IS NUMBER AND …`, is treated as
a *look*: it is evaluated once for an event, and makes `name` special where it holds.

*Rules.*
1. A split filter matches an event `with_special` exactly if the filter itself matches the event.
2. For one event no more is evaluated than it has attributes, times `RARE_MAX`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from godwit.filters import And, Filter, Or, Some, ValueSet, all_of, any_of, interval, one_of, some
from godwit.filters.events import Attributes
from godwit.filters.sets import NOTHING, Interval, OneOf, Substring, all_of_kind
from godwit.filters.values import Kind

__all__ = ["SpecialCases", "SplitFilter", "split_filter", "with_special"]

ONE = "one value: "
SPECIAL = "special"
"""The attribute that names those which are not as usual."""
LOOKS = frozenset(("", " "))
NUMBERS = all_of_kind(Kind.NUMBER)
ALTERNATIVES_MAX = 4
RARE_MAX = 2  # alternatives for the numbers of one attribute


class SpecialCases:
    """The attributes for which it must be known whether they are special, and why they may be."""

    __slots__ = ("looked", "ranged", "rare")

    def __init__(self) -> None:
        self.ranged: dict[str, None] = {}  # they should have one value
        self.looked: dict[str, None] = {}  # they should not say *look*
        self.rare: dict[str, dict[Filter, None]] = {}  # these should not hold

    def __bool__(self) -> bool:
        return bool(self.ranged or self.looked or self.rare)

    @property
    def names(self) -> frozenset[str]:
        """All of these attributes."""
        return frozenset((*self.ranged, *self.looked, *self.rare))

    def update(self, other: "SpecialCases") -> None:
        """Take up those of another filter."""
        self.ranged.update(other.ranged)
        self.looked.update(other.looked)
        for name, filters in other.rare.items():
            self.rare.setdefault(name, {}).update(filters)

    def among(self, names: Iterable[str]) -> "SpecialCases":
        """Those of some attributes."""
        found, chosen = SpecialCases(), set(names)
        found.ranged = {name: None for name in self.ranged if name in chosen}
        found.looked = {name: None for name in self.looked if name in chosen}
        found.rare = {name: filters for name, filters in self.rare.items() if name in chosen}
        return found


class SplitFilter(NamedTuple):
    """A filter for the index."""

    filter: Filter
    cases: SpecialCases


def split_filter(filter: Filter, *known: SpecialCases) -> SplitFilter:
    """The filter for an index whose filters have these special cases so far. (rule 2)"""
    parts = filter.parts if isinstance(filter, And) else (filter,)
    ends: dict[str, list[Some]] = {}
    for part in parts:
        if isinstance(part, Some) and isinstance(part.values, Interval):
            ends.setdefault(part.attribute, []).append(part)
    ranges = {name: values for name, found in ends.items() if (values := _range(found)) is not None}
    cases = SpecialCases()
    cases.ranged = dict.fromkeys(ranges)
    in_ranges = [part for name in ranges for part in ends[name]]
    usual = [_without_looks(part, cases, known) for part in parts if part not in in_ranges]
    if not cases:
        return SplitFilter(filter, cases)
    special = all_of(*parts, some(SPECIAL, one_of(sorted(cases.names))))
    if NOTHING in ranges.values():
        return SplitFilter(special, cases)
    usual += [some(ONE + name, values) for name, values in ranges.items()]
    return SplitFilter(any_of(*_alternatives(usual), special), cases)


def _range(parts: list[Some]) -> ValueSet | None:
    """The range of a lower and an upper end; None when it is something else."""
    if len(parts) != 2:
        return None
    low, high = (part.values for part in parts)
    assert isinstance(low, Interval)
    assert isinstance(high, Interval)
    if low.low is None:
        low, high = high, low
    if low.kind is not high.kind or low.low is None or low.high is not None or high.low is not None:
        return None
    return interval(low.low, high.high, low_open=low.low_open, high_open=high.high_open)


def _without_looks(part: Filter, cases: SpecialCases, known: tuple[SpecialCases, ...]) -> Filter:
    """A part without the values that say *look*; `cases` is told of which attributes. As it is, if none is left."""
    if isinstance(part, Some):
        kept = _kept(part)
        if kept is None or kept is part:
            return part
        cases.looked[part.attribute] = None
        return kept
    if not isinstance(part, Or):
        return part
    left: list[Filter] = []
    found = SpecialCases()
    for each in part.parts:
        if isinstance(each, Some):
            kept = _kept(each)
            left += [] if kept is None else [kept]
            if kept is not each:
                found.looked[each.attribute] = None
        elif (name := _numbers_of(each)) is not None and _has_room(name, each, known):
            found.rare.setdefault(name, {})[each] = None
        else:
            left.append(each)
    if not left or max(map(len, found.rare.values()), default=0) > 1:
        return part
    cases.update(found)
    return any_of(*left)


def _has_room(name: str, filter: Filter, known: tuple[SpecialCases, ...]) -> bool:
    """Whether an alternative is among those of an attribute, or may be. (rule 2)"""
    there = {each for cases in known for each in cases.rare.get(name, ())}
    return filter in there or len(there) < RARE_MAX


def _numbers_of(filter: Filter) -> str | None:
    """The attribute of whose numbers alone an alternative speaks: `name IS NUMBER AND …`; None: of others, too."""
    first = filter.parts[0] if isinstance(filter, And) and filter.parts else None
    is_of_numbers = isinstance(first, Some) and first.values == NUMBERS
    return first.attribute if is_of_numbers and isinstance(first, Some) else None


def _kept(literal: Some) -> Some | None:
    """The literal without the values that say *look*; None where there are no others."""
    values = literal.values
    if not isinstance(values, OneOf) or LOOKS.isdisjoint(values.values):
        return literal
    others = [value for value in values.values if value not in LOOKS]
    return Some(literal.attribute, one_of(others)) if others else None


def _alternatives(parts: list[Filter]) -> Iterable[Filter]:
    """All parts, as alternatives each of which can be found by a part of a text where one of them can."""
    for place, part in enumerate(parts):
        if isinstance(part, Or) and len(part.parts) <= ALTERNATIVES_MAX and any(map(_is_substring, part.parts)):
            return [all_of(*parts[:place], each, *parts[place + 1 :]) for each in part.parts]
    return [all_of(*parts)]


def _is_substring(filter: Filter) -> bool:
    return isinstance(filter, Some) and isinstance(filter.values, Substring)


def with_special(attributes: Attributes, cases: SpecialCases) -> Attributes:
    """The attributes of an event, with what split filters ask for."""
    more = {}
    special: dict[str, None] = {}
    for name in cases.ranged:
        held = attributes.get(name)
        if type(held) is tuple:
            special[name] = None
        elif held is not None:
            more[ONE + name] = held
    for name in cases.looked:
        held = attributes.get(name)
        if held is not None and (not LOOKS.isdisjoint(held) if type(held) is tuple else held in LOOKS):
            special[name] = None
    for name, filters in cases.rare.items():
        if name in attributes and any(filter.holds(attributes) for filter in filters):
            special[name] = None
    if special:
        more[SPECIAL] = next(iter(special)) if len(special) == 1 else tuple(special)
    return {**attributes, **more}
