"""Contexts: what is true of a client rather than of what it says, and filters on it from either side.

*Theory.* A context is a table of attributes, as an event's. A subscriber asks about the publisher's with `sender.x`; a
publisher says whom it means with `Event.to`, a filter on the receiver's. A publisher's context travels with the event,
as the attributes `sender.x`: so every filter is a filter on one table, and matching, covering and merging know nothing
of contexts. What routing may know of them is taken out here: `sender_part` is what a filter asks of the publisher, said
about the context alone.

Who has many clients describes their contexts by bounds: for each attribute a set that holds all its values. Whether a
filter *may* match one of them is then asked with `may_match`.

*Rules.*
1. `sender_part(f)` matches the context of whoever publishes something that `f` matches. It may match more, where `f`
   ties content and context together by OR.
2. `all_of(content_part(f), of_sender(sender_part(f)))` matches what `f` matches, neither more nor less.
3. `may_match` never says no of a context that is described and matches.
4. An attribute that bounds do not name is missing in all that they describe.

*Paper.* [spcf §3]. *Symbols.* f_ctx → `sender_part`; f_msg → `content_part`; c → a context.
*Departures.* The paper's context filters stand beside the content filter; ours stand in it. Bounds are ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

from godwit.errors import BadEvent, BadValue
from godwit.filters.events import NAME_LENGTH_MAX, Attributes, Event, flattened
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
    only,
    some,
)
from godwit.filters.relations import hull, is_disjoint
from godwit.filters.sets import ValueSet, one_of
from godwit.filters.values import Value, identity

__all__ = [
    "CONTEXT_BYTES_MAX",
    "CONTEXT_MAX",
    "CONTEXT_NAME_MAX",
    "SENDER",
    "Bound",
    "Described",
    "bounds_of",
    "checked_context",
    "content_part",
    "context_of",
    "key_of",
    "may_match",
    "of_sender",
    "sender_part",
    "stamped",
    "why_too_large",
    "without_sender",
]

SENDER = "sender."
CONTEXT_MAX = 64
"""How many attributes a context has at most."""
CONTEXT_NAME_MAX = NAME_LENGTH_MAX - len(SENDER)
"""How long a name in a context may be, so that an event can bear it."""
CONTEXT_BYTES_MAX = 4_096
"""How large a context may be: the bytes of its names and texts, and eight for any other value."""


def checked_context(values: Mapping[str, Any]) -> Attributes:
    """Plain or nested data as a context. `BadValue` says what is wrong with it and what is allowed."""
    try:
        context = flattened(values)
    except BadEvent as error:
        raise BadValue(f"a context: {error}") from None
    for name in context:
        if len(name) > CONTEXT_NAME_MAX:
            raise BadValue(f"a context: the name {name[:60]!r}… is longer than {CONTEXT_NAME_MAX} characters")
    if (reason := why_too_large(context)) is not None:
        raise BadValue(reason)
    return context


def why_too_large(context: Attributes) -> str | None:
    """Why nobody takes a context of this size, or None."""
    if len(context) > CONTEXT_MAX:
        return f"a context of {len(context)} attributes: at most {CONTEXT_MAX} are allowed"
    if (size := size_of(context)) > CONTEXT_BYTES_MAX:
        return f"a context of {size} bytes: at most {CONTEXT_BYTES_MAX} are allowed"
    return None


def size_of(context: Attributes) -> int:
    """The bytes that a context takes, about."""
    return sum(len(name.encode()) + sum(map(_bytes, values_of(value))) for name, value in context.items())


def _bytes(value: Value) -> int:
    return len(value.encode()) if isinstance(value, str) else 8


def values_of(value: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """One value, or several, as a tuple."""
    return value if type(value) is tuple else (value,)  # type: ignore[return-value]


def key_of(context: Attributes) -> Any:
    """A key under which equal contexts, and only those, meet."""
    return tuple(sorted((name, tuple(map(identity, values_of(value)))) for name, value in context.items()))


# ---------------------------------------------------------------- on events


def stamped(event: Event, context: Attributes) -> Event:
    """The event of a publisher in this context: what it says of its sender is this and nothing else."""
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
    found: dict[str, ValueSet] = {}
    present: dict[str, int] = {}
    count = 0
    for each in described:
        count += 1
        bounds = each if isinstance(each, tuple) else _exact_bounds(each)
        for bound in bounds:
            known = found.get(bound.attribute)
            found[bound.attribute] = bound.values if known is None else hull(known, bound.values)
            present[bound.attribute] = present.get(bound.attribute, 0) + (not bound.optional)
    return tuple(Bound(name, found[name], present[name] < count) for name in sorted(found))


def _exact_bounds(context: Attributes) -> tuple[Bound, ...]:
    return tuple(Bound(name, one_of(values_of(value)), optional=False) for name, value in context.items())


def may_match(filter: Filter, described: Described) -> bool:
    """Whether `filter` matches a context, or may match one within bounds."""
    if isinstance(described, dict):
        return filter.holds(described)
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
