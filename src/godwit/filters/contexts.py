"""Contexts: attributes that describe a client, and filters on the context of a publisher or receiver.

*Theory.* A context is a table of attributes, like an event. A subscriber tests the publisher's context with `sender.x`;
a publisher addresses receivers with `Event.to`, a filter on their contexts. A publisher's context travels with the
event, as the attributes `sender.x`. So every filter is a filter on one table, and matching, covering and merging need
no knowledge of contexts. Routing by contexts uses `sender_part`: the condition of a filter on the publisher's context
alone.

A broker with many clients describes their contexts by bounds: for each attribute a set that contains all its values. A
few values are listed; more become the interval or box around them, or everything if they are of several kinds. (An
interval of texts is smaller than the common prefix of its ends, so there are no prefixes.) `may_match` tells whether a
filter *may* match one of the described contexts. `growth` measures how much looser two descriptions become when they
are merged, and so which ones to merge.

*Rules.*
1. `sender_part(f)` matches the context of every publisher of an event that `f` matches. It may match more, where `f`
   joins content and context by OR.
2. `all_of(content_part(f), of_sender(sender_part(f)))` matches what `f` matches, neither more nor less.
3. `without_sender(f)` matches whatever `f` matches, and asks nothing about the publisher.
4. Two contexts have the same key if no filter distinguishes them: neither the order of several values nor a repeated
   value counts; `1` and `1.0` are one value, `1` and `TRUE` are two.
5. References to the subscriber's own context stay where they are: an open filter has open parts.
6. `may_match` is never false for a described context that matches. Adding contexts to bounds never makes it false.
7. An attribute that bounds do not name is missing in every described context.
8. A bound lists at most `LISTED_MAX` values, however many contexts there are.
9. `growth` is symmetric and not negative, and 0 for equal descriptions.

*Paper.* [spcf §3]. *Symbols.* f_ctx → `sender_part`; f_msg → `content_part`; c → a context.
*Departures.* The paper's context filters stand beside the content filter; ours stand in it. It sends every
context as it is; bounds are ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import fsum
from sys import intern
from typing import Any

from godwit.errors import BadEvent, BadValue, FilterError, Unbound
from godwit.filters.events import NAME_LENGTH_MAX, Attributes, Event, flattened, values_of
from godwit.filters.filters import (
    TRUE,
    And,
    Filter,
    Literal,
    Missing,
    Or,
    Some,
    all_of,
    any_of,
    attributes_of,
    literals,
    only,
    some,
)
from godwit.filters.regions import Region, box_around, distance_m
from godwit.filters.relations import common_prefix, hull, is_disjoint, spread
from godwit.filters.sets import Interval, Nothing, OneOf, Places, ValueSet, one_of
from godwit.filters.values import Kind, Point, Value, distinct_sorted, identity, kind_of

__all__ = [
    "AUTHORS",
    "CONTEXT_BYTES_MAX",
    "CONTEXT_MAX",
    "CONTEXT_NAME_MAX",
    "LISTED_MAX",
    "SENDER",
    "Bound",
    "Described",
    "bounds_of",
    "checked_context",
    "checked_context_filter",
    "content_part",
    "context_of",
    "growth",
    "key_of",
    "may_match",
    "of_sender",
    "sender_part",
    "stamped",
    "values_of",
    "why_no_name",
    "why_too_large",
    "without_sender",
]

SENDER = "sender."
MY = "my."
CONTEXT_MAX = 64
"""How many attributes a context has at most."""
CONTEXT_BYTES_MAX = 4_096
"""How large a context may be: the bytes of its names and texts, and eight for each value."""
AUTHORS = 2
"""Number of authors of a context that brokers exchange: the client, and the server that asserts attributes."""
CONTEXT_NAME_MAX = NAME_LENGTH_MAX - len(SENDER)
"""How many characters an attribute's name has at most: with `sender.` before it, it is one of an event's."""
LISTED_MAX = 16
"""How many values of an attribute are listed; more become an interval, a box or everything."""


def checked_context(values: Mapping[str, Any], *, authors: int = 1) -> Attributes:
    """Plain or nested data as a context. `BadValue` says what is wrong with it and what is allowed.

    `authors`: how many have written it, each as much as one may; see `AUTHORS`.
    """
    if not isinstance(values, Mapping):
        raise BadValue(f"a context is a table of names and values, and this is a {type(values).__name__}")
    if len(values) > authors * CONTEXT_MAX:
        raise BadValue(_too_many(values, authors))
    try:
        context = flattened(values)
    except BadEvent as error:
        raise BadValue(f"a context: {error}") from None
    for name in context:
        if len(name) > CONTEXT_NAME_MAX:
            raise BadValue(
                f"a context: attribute {name[:60]!r} has a name of {len(name)} characters: "
                f"at most {CONTEXT_NAME_MAX} are allowed"
            )
        if (reason := why_no_name(name)) is not None:
            raise BadValue(f"a context: attribute {name!r}: {reason}")
    if (reason := why_too_large(context, authors=authors)) is not None:
        raise BadValue(reason)
    return context


def why_no_name(name: str) -> str | None:
    """Why no attribute of a context is called so, or None."""
    return _plainly(name) if name.startswith((SENDER, MY)) else None


def why_too_large(context: Attributes, *, authors: int = 1) -> str | None:
    """Why a context of this size and number of authors is refused, or None."""
    if len(context) > authors * CONTEXT_MAX:
        return _too_many(context, authors)
    if (size := size_of(context)) > authors * CONTEXT_BYTES_MAX:
        return f"a context of {size} bytes: at most {authors * CONTEXT_BYTES_MAX} are allowed"
    return None


def _too_many(values: Mapping[str, Any], authors: int) -> str:
    return f"a context of {len(values)} attributes: at most {authors * CONTEXT_MAX} are allowed"


def checked_context_filter(filter: Filter) -> Filter:
    """A filter on a context: a `FilterError` says so when it names `sender.x`, which no context has."""
    for name in attributes_of(filter):
        if name.startswith((SENDER, MY)):
            raise FilterError(f"a filter on a context cannot name {name}: {_plainly(name)}")
    return filter


def _plainly(name: str) -> str:
    prefix, _, plain = name.partition(".")
    return f"in a context it is called {plain!r}, for {prefix}.{plain} is how filters on events refer to it"


def size_of(context: Attributes) -> int:
    """The bytes that a context takes, about."""
    return sum(len(name.encode()) + sum(map(_bytes, values_of(value))) for name, value in context.items())


def _bytes(value: Value) -> int:
    return 8 + len(value.encode()) if isinstance(value, str) else 8


def key_of(context: Attributes) -> Any:
    """A key under which contexts meet that no filter tells apart, and only those. (rule 4)"""
    return tuple(sorted((name, _key(value)) for name, value in context.items()))


def _key(value: Value | tuple[Value, ...]) -> tuple[Any, ...]:
    if type(value) is tuple:
        return tuple(map(identity, distinct_sorted(value)))
    return (identity(value),)  # type: ignore[arg-type]


# ---------------------------------------------------------------- on events


def stamped(event: Event, context: Attributes) -> Event:
    """The event with this context as its only `sender.` attributes."""
    attributes = {name: value for name, value in event.attributes.items() if not name.startswith(SENDER)}
    attributes.update((intern(SENDER + name), value) for name, value in context.items())
    return replace(event, attributes=attributes)


def context_of(event: Event) -> Attributes:
    """The context of the publisher when it published this."""
    return {name.removeprefix(SENDER): value for name, value in event.attributes.items() if name.startswith(SENDER)}


# ---------------------------------------------------------------- on filters


def of_sender(filter: Filter) -> Filter:
    """A filter on a context, asked of an event's publisher."""
    match filter:
        case And(parts=parts):
            return all_of(*map(of_sender, parts))
        case Or(parts=parts):
            return any_of(*map(of_sender, parts))
    return _named(filter, SENDER + filter.attribute)


def sender_part(filter: Filter) -> Filter:
    """What a filter asks of the publisher's context, as a filter on that context; `TRUE` when it asks nothing."""
    return _projected(filter, of_the_sender=True)


def without_sender(filter: Filter) -> Filter:
    """What a filter asks of all but the publisher's context: it matches more where it asks about that."""
    if not any(literal.attribute.startswith(SENDER) for literal in literals(filter)):  # most do not
        return filter
    return _projected(filter, of_the_sender=False)


def content_part(filter: Filter) -> Filter:
    """What is left to ask of an event when `sender_part` has matched its publisher's context."""
    parts = filter.parts if isinstance(filter, And) else (filter,)
    return all_of(*(part for part in parts if not _is_of_sender(part)))


def _is_of_sender(filter: Filter) -> bool:
    names = attributes_of(filter)
    return bool(names) and all(name.startswith(SENDER) for name in names)


def _projected(filter: Filter, *, of_the_sender: bool) -> Filter:
    """The filter with every other literal taken to match."""
    match filter:
        case And(parts=parts):
            found = (_projected(part, of_the_sender=of_the_sender) for part in parts)
            return all_of(*(part for part in found if part != TRUE))
        case Or(parts=parts):
            either = [_projected(part, of_the_sender=of_the_sender) for part in parts]
            return TRUE if TRUE in either else any_of(*either)
    if filter.attribute.startswith(SENDER) is not of_the_sender:
        return TRUE
    return _named(filter, filter.attribute.removeprefix(SENDER)) if of_the_sender else filter


def _named(literal: Literal, name: str) -> Literal:
    if isinstance(literal, Missing):
        return Missing(intern(name))
    return (some if isinstance(literal, Some) else only)(intern(name), literal.values)


# ---------------------------------------------------------------- many contexts in one


@dataclass(frozen=True, slots=True)
class Bound:
    """All values of `attribute`, in any of several contexts, lie in `values`; some may have none (`optional`)."""

    attribute: str
    values: ValueSet
    optional: bool


Described = dict[str, Any] | tuple[Bound, ...]
"""One context as it is, or bounds around several."""


def bounds_of(described: Iterable[Described]) -> tuple[Bound, ...]:
    """Bounds around all of these, sorted by attribute."""
    listed: dict[str, dict[Any, Value]] = {}
    wide: dict[str, ValueSet] = {}
    present: dict[str, int] = {}
    count = 0
    for each in described:
        count += 1
        if not isinstance(each, tuple):
            for name, value in each.items():
                listed.setdefault(name, {}).update((identity(one), one) for one in values_of(value))
                present[name] = present.get(name, 0) + 1
            continue
        for bound in each:
            name, values = bound.attribute, bound.values
            if isinstance(values, OneOf):
                listed.setdefault(name, {}).update((identity(one), one) for one in values.values)
            else:
                wide[name] = hull(wide[name], values) if name in wide else values
            present[name] = present.get(name, 0) + (not bound.optional)
    return tuple(
        Bound(name, _around(listed.get(name, {}).values(), wide.get(name)), present[name] < count)
        for name in sorted(present)
    )


def _around(listed: Iterable[Value], wide: ValueSet | None) -> ValueSet:
    values = one_of(listed)
    if wide is not None:
        values = hull(wide, values)
    return spread(values) if isinstance(values, OneOf | Places) and len(values.members) > LISTED_MAX else values


def may_match(filter: Filter, described: Described) -> bool:
    """Whether `filter` matches a context, or may match one within bounds; an open filter, whatever it is bound to."""
    if isinstance(described, dict):
        try:
            return filter.holds(described)
        except Unbound:
            described = bounds_of((described,))
    return _may_hold(filter, {bound.attribute: bound for bound in described})


def _may_hold(filter: Filter, bounds: dict[str, Bound]) -> bool:
    match filter:
        case And(parts=parts):
            return all(_may_hold(part, bounds) for part in parts)
        case Or(parts=parts):
            return any(_may_hold(part, bounds) for part in parts)
    bound = bounds.get(filter.attribute)
    if isinstance(filter, Missing):
        return bound is None or bound.optional
    return bound is not None and not is_disjoint(filter.values, bound.values)


# ---------------------------------------------------------------- how loose
#
# How loose a set is can only be guessed, since nobody knows what will be asked: numbers count by their distance in
# proportion to all that is known of their attribute, or else to their size; times, points and texts against what counts
# by half, listed values for less than the stretch that they lie in.

PRESENCE = 0.25
"""What it counts that an attribute is there, and again that it may be missing."""
LISTED_HALF = 8.0
TIME_HALF_S = 86_400.0
DISTANCE_HALF_M = 1_000.0
PREFIX_HALF = 4.0
"""At how many values, seconds, metres and shared characters something counts by half."""


def growth(a: Described, b: Described, spans: Mapping[str, float] | None = None) -> float:
    """How much looser two descriptions become when one does for both: 0 when nothing, more the less they have in
    common. The unit means nothing. `spans` says by attribute how far apart its numbers are known to be."""
    spans = spans or {}
    return max(0.0, 2 * _looseness(bounds_of((a, b)), spans) - (_looseness(a, spans) + _looseness(b, spans)))


def _looseness(described: Described, spans: Mapping[str, float]) -> float:
    if isinstance(described, tuple):
        widths = (_width(bound.values, spans.get(bound.attribute, 0.0)) for bound in described)
        return fsum(widths) + fsum(PRESENCE * (1 + bound.optional) for bound in described)
    several = [(name, value) for name, value in described.items() if type(value) is tuple]
    return PRESENCE * len(described) + fsum(_width(one_of(value), spans.get(name, 0.0)) for name, value in several)


def _width(values: ValueSet, span: float = 0.0) -> float:
    """How loose a set is, from 0 for one value to 1 for anything."""
    match values:
        case OneOf(values=members) | Places(names=members):
            return _width_of_list(members, span)
        case Interval(low=low, high=high) if low is not None and high is not None:
            return _distance(low, high, span)
        case Region():
            west, south, east, north = values.bounds
            return _distance(Point(west, south), Point(east, north)) if west <= east and east - west <= 180 else 1.0
        case Nothing():
            return 0.0
    return 1.0


def _width_of_list(members: tuple[Value, ...], span: float) -> float:
    """The stretch that values lie in, from half of it for two to nearly all of it for many."""
    if len(members) == 1:
        return 0.0
    more = len(members) - 1
    return _distance(*_ends(members), span) * (1 + more / (more + LISTED_HALF)) / 2


def _ends(members: tuple[Value, ...]) -> tuple[Value, Value]:
    """The first and last of sorted values; of points two corners of the box around them."""
    if type(members[0]) is Point and type(members[-1]) is Point:
        around = box_around(point for point in members if type(point) is Point)
        return Point(around.west, around.south), Point(around.east, around.north)
    return members[0], members[-1]


def _distance(a: Value, b: Value, span: float = 0.0) -> float:
    """How far two values are from each other, from 0 for the same to 1, which is `span` for numbers."""
    match a, b:
        case str(), str():
            return PREFIX_HALF / (PREFIX_HALF + len(common_prefix(a, b))) if a != b else 0.0
        case datetime(), datetime():
            seconds = abs((b - a).total_seconds())
            return seconds / (seconds + TIME_HALF_S)
        case Point(), Point():
            metres = distance_m(a, b)
            return metres / (metres + DISTANCE_HALF_M)
    if kind_of(a) is kind_of(b) is Kind.NUMBER:  # by halves, for a sum may overflow
        low, high = float(a) / 2, float(b) / 2  # type: ignore[arg-type]
        if span > 0:
            return min(1.0, 2 * abs(high - low) / span)
        return abs(high - low) / (abs(low) + abs(high) + 0.5)
    return 1.0
