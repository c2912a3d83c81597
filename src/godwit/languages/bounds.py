"""Bounds of a condition: two filters, one that matches at least the same events and one that matches at most these.

*Theory.* A condition of a rich language cannot always be said as a filter. It always lies between two: `upper` matches
whatever the condition does, and maybe more; `lower` matches nothing that the condition does not. Brokers route by the
upper one. What makes a pair of the lower one as well is negation: NOT changes the places of the two, so that whatever
could not be said is let through under any number of negations. [motion §5: user-defined operators become true or false
"if they occur under a positive/negative number of negations"; the same cure for `$all$`, where the paper has none]

*Rules.*
1. Negation here is Boolean: an event matches a condition or its negation, never neither. (`filters.negation` is SQL's,
   where a missing attribute meets neither a comparison nor its NOT.) A language with three values says for itself what
   it makes of the third.
2. A condition whose bounds are the same filter is exact: there is nothing more to test.
3. A bound that would be too big as a filter becomes the widest one, TRUE above and FALSE below.

*Cost.* Of the time to parse and translate a CESQL or XPath query of three conditions, a profile showed a third to a
half in parsing. The rest is spread over the filters that are made and compared for the bounds: fewer of them would help
more than a faster parser.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from godwit.errors import FilterTooBig
from godwit.filters import (
    EVERYTHING,
    FALSE,
    TRUE,
    And,
    Filter,
    Missing,
    Only,
    Or,
    Some,
    all_of,
    any_of,
    complement,
    missing,
    only,
    present,
    some,
)

__all__ = ["ALWAYS", "NEVER", "UNKNOWN", "Bounds", "all_hold", "either", "every", "exactly", "opposite", "some_hold"]

Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a condition lets through at most (`upper`) and at least (`lower`)."""

    upper: Filter
    lower: Filter

    @property
    def is_exact(self) -> bool:
        """Whether the upper bound is the condition itself. (rule 2)"""
        return self.upper == self.lower

    def __invert__(self) -> "Bounds":
        return Bounds(_unless_too_big(opposite, self.lower, TRUE), _unless_too_big(opposite, self.upper, FALSE))

    def __and__(self, other: "Bounds") -> "Bounds":
        return all_hold((self, other))

    def __or__(self, other: "Bounds") -> "Bounds":
        return some_hold((self, other))


def exactly(filter: Filter) -> Bounds:
    """A condition that is this filter."""
    return Bounds(filter, filter)


ALWAYS = exactly(TRUE)
NEVER = exactly(FALSE)
UNKNOWN = Bounds(TRUE, FALSE)
"""A condition of which no filter can tell anything."""


def all_hold(conditions: Iterable[Bounds]) -> Bounds:
    """All conditions hold."""
    return _combined(every, conditions)


def some_hold(conditions: Iterable[Bounds]) -> Bounds:
    """At least one condition holds."""
    return _combined(either, conditions)


def opposite(filter: Filter) -> Filter:
    """The filter that matches exactly what `filter` does not. (rule 1)"""
    match filter:
        case Some(attribute=attribute, values=values):
            others = only(attribute, complement(values))
            return missing(attribute) if values == EVERYTHING else any_of(missing(attribute), others)
        case Only(attribute=attribute, values=values):
            return any_of(missing(attribute), some(attribute, complement(values)))
        case Missing(attribute=attribute):
            return present(attribute)
        case And(parts=parts):
            return either([opposite(part) for part in parts])
        case _:
            return every([opposite(part) for part in filter.parts])


def every(filters: list[Filter]) -> Filter:
    """All of `filters`, without what always matches; if one of them never does, then neither does this."""
    left: list[Filter] = []
    for each in filters:
        if type(each) is Or and not each.parts:
            return FALSE
        if type(each) is not And or each.parts:
            left.append(each)
    return left[0] if len(left) == 1 else all_of(*left)


def either(filters: list[Filter]) -> Filter:
    """At least one of `filters`, without what never matches; if one of them always does, then so does this."""
    left: list[Filter] = []
    for each in filters:
        if type(each) is And and not each.parts:
            return TRUE
        if type(each) is not Or or each.parts:
            left.append(each)
    return left[0] if len(left) == 1 else any_of(*left)


def _combined(combine: Callable[[list[Filter]], Filter], conditions: Iterable[Bounds]) -> Bounds:
    parts = list(conditions)
    return Bounds(
        _unless_too_big(combine, [each.upper for each in parts], TRUE),
        _unless_too_big(combine, [each.lower for each in parts], FALSE),
    )


def _unless_too_big(make: Callable[[Said], Filter], said: Said, widest: Filter) -> Filter:
    try:
        return make(said)
    except FilterTooBig:  # rule 3
        return widest
