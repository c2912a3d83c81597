"""Filters for an index of queries: ranges with two ends, where an attribute has one value.

*Theory.* `lon > 10.1 AND lon < 10.2` are two literals, which two values of one event may meet. An index finds it by
one of the two, and so it finds half of all such filters. Most events have one value for an attribute, and for them it
is one range:

    lon of one value BETWEEN 10.1 AND 10.2   OR   (lon > 10.1 AND lon < 10.2 AND lon has several values)

Which attributes have one value or several is told by further attributes, which exist in the index only.

*Rules.*
1. A split filter matches an event `with_counts` exactly if the filter itself matches the event.
"""

from collections.abc import Collection

from godwit.filters import And, Filter, Some, ValueSet, all_of, any_of, interval, one_of, some
from godwit.filters.events import Attributes
from godwit.filters.sets import NOTHING, Interval

__all__ = ["split_by_values", "with_counts"]

ONE = "one value: "
SEVERAL = "several values"
"""The attribute that names those with several values."""


def split_by_values(filter: Filter) -> tuple[Filter, tuple[str, ...]]:
    """The filter for the index, and the attributes on which it has ranges with two ends."""
    if not isinstance(filter, And):
        return filter, ()
    ends: dict[str, list[Some]] = {}
    for part in filter.parts:
        if isinstance(part, Some) and isinstance(part.values, Interval):
            ends.setdefault(part.attribute, []).append(part)
    ranges = {name: values for name, parts in ends.items() if (values := _range(parts)) is not None}
    if not ranges:
        return filter, ()
    others = [part for part in filter.parts if not any(part in ends[name] for name in ranges)]
    several = all_of(*filter.parts, some(SEVERAL, one_of(list(ranges))))
    if NOTHING in ranges.values():
        return several, tuple(ranges)
    single = all_of(*others, *(some(ONE + name, values) for name, values in ranges.items()))
    return any_of(single, several), tuple(ranges)


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


def with_counts(attributes: Attributes, ranged: Collection[str]) -> Attributes:
    """The attributes of an event, with what split filters ask for."""
    more = {}
    several = []
    for name in ranged:
        held = attributes.get(name)
        if type(held) is tuple:
            several.append(name)
        elif held is not None:
            more[ONE + name] = held
    if several:
        more[SEVERAL] = several[0] if len(several) == 1 else tuple(several)
    return {**attributes, **more}
