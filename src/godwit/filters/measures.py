"""Measures: the share of a hull that two sets fill. An estimate, used only to choose what to merge.

*Theory.* Nobody knows which events will come, so all values of a hull count alike: numbers and times by length,
finite sets by count, regions by area. Texts that share a prefix or suffix are taken to go on in `FAN_OUT` ways. A set
that cannot be measured (a substring, a complement, an interval without end) counts as nothing unless it is the whole
hull, so that the excess is over- rather than underestimated.
"""

from datetime import datetime
from typing import NamedTuple

from godwit.filters.regions import Region, area
from godwit.filters.relations import intersection, is_subset
from godwit.filters.sets import (
    Complement,
    Everything,
    Interval,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Suffix,
    TopicPattern,
    ValueSet,
)
from godwit.filters.topic_patterns import ANY_LEVEL, SEPARATOR
from godwit.filters.values import Kind

FAN_OUT = 8.0


class Shares(NamedTuple):
    """The shares of a hull that two sets and their common part take."""

    a: float
    b: float
    both: float


def shares(a: ValueSet, b: ValueSet, hull: ValueSet, *, exact: bool) -> Shares:
    """How much of `hull` is taken by `a` and `b`; `exact` says that together they are the hull."""
    whole = _extent(hull, hull)
    if not whole:
        share_a, share_b = float(is_subset(hull, a)), float(is_subset(hull, b))
        return (
            Shares(0.5, 0.5, 0.0)
            if exact and not share_a and not share_b
            else Shares(share_a, share_b, share_a * share_b)
        )
    share_a, share_b = _extent(a, hull) / whole, _extent(b, hull) / whole
    common = intersection(a, b)
    return Shares(share_a, share_b, min(share_a, share_b) if common is None else _extent(common, hull) / whole)


def _extent(values: ValueSet, hull: ValueSet) -> float:
    """The length, count or area of a set, whichever its hull is measured in; 0 for what has none."""
    if isinstance(hull, OneOf | Places):
        return len(values.members) if isinstance(values, OneOf | Places) else 0
    if isinstance(values, Prefix | Suffix) and isinstance(hull, Prefix | Suffix):
        return FAN_OUT ** (len(hull.text) - len(values.text))
    if isinstance(hull, TopicPattern):
        return _share_of_topics(values)
    if isinstance(values, Interval):
        return _length(values)
    if isinstance(values, Region):
        return area(values)
    return 0


def _share_of_topics(values: ValueSet) -> float:
    """The share of all topics that match: each level that is named, and an end, leaves one of `FAN_OUT` ways to go."""
    match values:
        case TopicPattern(levels=(levels, is_open)):
            return FAN_OUT ** -(sum(level != ANY_LEVEL for level in levels) + (not is_open))
        case OneOf(values=members) | Places(names=members):
            return sum(FAN_OUT ** -(text.count(SEPARATOR) + 2) for text in members if isinstance(text, str))
    return 0


def _length(interval: Interval) -> float:
    low, high = interval.low, interval.high
    if isinstance(low, datetime) and isinstance(high, datetime):
        return (high - low).total_seconds()
    if interval.kind is Kind.NUMBER and low is not None and high is not None:
        return float(high) / 2 - float(low) / 2  # type: ignore[arg-type]  # halves, since the difference may overflow
    return 0


def looseness(values: ValueSet) -> tuple[int, int]:
    """A rough order of sets by how much they let through: the strictest first."""
    match values:
        case Nothing():
            return (0, 0)
        case OneOf() | Places():
            return (1, len(values.members))
        case Interval(low=low, high=high):
            return (3 if low is None or high is None else 2, 0)
        case Complement():
            return (4, 0)
        case Everything():
            return (5, 0)
    return (2, 0)  # texts, regions, and sets that are still open, which are mostly comparisons
