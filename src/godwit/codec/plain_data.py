"""Values, filters and events as plain data and back: the part that all stored forms share."""

from datetime import datetime
from typing import Any

import msgspec

from godwit.filters.contexts import Bound
from godwit.filters.events import Attributes, Event, flattened
from godwit.filters.filters import Filter, Some
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX, ParsedTexts, from_json, to_json

__all__ = [
    "AS_THEY_ARE",
    "EventRow",
    "EventTable",
    "attributes_of",
    "bounds_data",
    "described_of",
    "event_of",
    "event_to",
    "filter_of",
    "json_attributes_of",
    "json_event_of",
    "json_value",
    "value_of",
]

AS_THEY_ARE = {bool, int, float, str, datetime}
PLAIN_JSON = {bool, int, float, str}
TEXTS_BYTES_MAX = 4 * 2**20  # of all texts whose filters are remembered


class EventRow(msgspec.Struct, array_like=True, frozen=True):
    """An event on the native wire."""

    publisher: str
    sequence: int
    attributes: dict[str, Any]
    payload: bytes | None = None
    content_type: str | None = None
    published_at: float | None = None
    expires_at: float | None = None
    to: Any = None


class EventTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event with named fields: as JSON, and in a snapshot."""

    attributes: dict[str, Any]
    publisher: str = ""
    sequence: int = 0
    payload: bytes | None = None
    content_type: str | None = None
    published_at: float | None = None
    expires_at: float | None = None
    to: Any = None


def filter_of(tree: Any) -> Filter:
    """A filter from its JSON form, or from its text."""
    return _PARSED.filter(tree) if isinstance(tree, str) else from_json(tree)


_PARSED = ParsedTexts(CLIENT_TEXT_BYTES_MAX, TEXTS_BYTES_MAX)


def event_of(seen: EventRow | EventTable) -> Event:
    """The event that was written so."""
    return event_to(seen, None if seen.to is None else filter_of(seen.to))


def json_event_of(seen: EventTable) -> Event:
    """The event that somebody has written as JSON."""
    return _event(seen, json_attributes_of(seen.attributes), None if seen.to is None else filter_of(seen.to))


def event_to(seen: EventRow | EventTable, to: Filter | None) -> Event:
    """The event that was written so, with this filter on its receivers."""
    return _event(seen, attributes_of(seen.attributes), to)


def _event(seen: EventRow | EventTable, attributes: Attributes, to: Filter | None) -> Event:
    return Event(
        attributes,
        seen.publisher,
        seen.sequence,
        seen.payload,
        seen.content_type,
        seen.published_at,
        seen.expires_at,
        to,
    )


def attributes_of(seen: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they were: most are plain, and then the table that was read is the table that is kept."""
    for value in seen.values():
        if type(value) not in AS_THEY_ARE:
            return {name: value_of(value) for name, value in seen.items()}
    return seen


def json_attributes_of(seen: dict[str, Any]) -> Attributes:
    """Attributes that somebody has written as JSON: they may be nested, and are flattened as those of other doors."""
    return seen if all(type(value) in PLAIN_JSON for value in seen.values()) else flattened(seen)


def bounds_data(described: Any) -> list[Any]:
    """Bounds of contexts: each a filter on its attribute, and whether that may be missing."""
    return [[to_json(Some(bound.attribute, bound.values)), bound.optional] for bound in described]


def described_of(seen: Any) -> Any:
    """A context, or bounds of contexts."""
    if isinstance(seen, dict):
        return attributes_of(seen)
    bounds: list[Bound] = []
    for tree, optional in seen:
        literal = from_json(tree)
        if not isinstance(literal, Some) or type(optional) is not bool:
            raise ValueError("a bound is a set of values of one attribute, and whether that may be missing")
        bounds.append(Bound(literal.attribute, literal.values, optional))
    return tuple(bounds)


def value_of(value: Any) -> Any:
    """One value, or several."""
    if type(value) in AS_THEY_ARE:
        return value
    if type(value) is list:
        return tuple(map(value_of, value))
    if type(value) is dict:
        return next(iter(flattened({"value": value}).values()), None)
    raise ValueError(f"a {type(value).__name__} is not a value of an attribute")


def json_value(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [json_value(one) for one in value]
    return {"$time": value.isoformat()} if isinstance(value, datetime) else value
