"""Events: checked and flattened once, when they enter, so that later code need not check them.

*Theory.* An event's attributes map a name to one value or to several (a tuple of two or more). Nested data is flattened
to paths and repeated elements become several values: `{"user": {"zip": [1050, 5473]}}` is `user/zip` with two values.
This is the intermediate event language of [motion §5], and it is the native model here.

*Rules.*
1. An attribute with no value is absent: there are no empty tuples and no tuples of one.
2. `attributes` holds checked values only; an `Event` is never changed.
3. Attribute names are interned: there are few of them, and looking one up in a table of the matcher is then a
   comparison of pointers.
4. Two objects are no nested data but one value: `{"lon": 8.5, "lat": 47.4}` (also as a GeoJSON Point, whose altitude is
   left out) and `{"$time": "2026-11-15T06:00:00Z"}`. Another GeoJSON geometry is flattened to its bounding box and its
   text (`geometries.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import TYPE_CHECKING, Any

from godwit.errors import BadEvent, BadValue
from godwit.filters.geometries import flattened_geometry, is_geojson_geometry
from godwit.filters.values import KIND_OF_TYPE, Point, Value, checked_value

if TYPE_CHECKING:
    from godwit.filters.filters import Filter

ATTRIBUTES_MAX = 1_000
VALUES_MAX = 10_000
NAME_LENGTH_MAX = 256
NESTING_MAX = 32

Attributes = Mapping[str, Value | tuple[Value, ...]]


def values_of(held: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """The one value of an attribute, or the several, as a tuple."""
    return held if type(held) is tuple else (held,)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Event:
    """What is published: `attributes` to match on, a payload to carry, its publisher and its sequence number there."""

    attributes: Attributes
    publisher: str = ""
    sequence: int = 0
    payload: bytes | None = None
    content_type: str | None = None
    published_at: float | None = None
    expires_at: float | None = None
    to: "Filter | None" = field(default=None)

    @property
    def id(self) -> tuple[str, int]:
        """Publisher and sequence number: no two events share both."""
        return (self.publisher, self.sequence)


def event(attributes: Mapping[str, Any], **details: Any) -> Event:
    """An event from plain data: checks and flattens `attributes`. `details` are the other fields of `Event`."""
    return Event(flattened(attributes), **details)


def flattened(data: Mapping[str, Any]) -> Attributes:
    """Plain or nested data as checked attributes."""
    if not isinstance(data, Mapping):
        raise BadEvent(f"a {type(data).__name__} is not an event: attributes are a mapping of names to values")
    if len(data) > VALUES_MAX:
        raise BadEvent(
            f"an event of {len(data)} attributes: at most {ATTRIBUTES_MAX} are allowed, the payload takes more"
        )
    if len(data) <= ATTRIBUTES_MAX:
        flat: dict[str, Value | tuple[Value, ...]] = {}
        for name, value in data.items():
            if type(value) not in KIND_OF_TYPE or type(name) is not str or not name.isascii():
                break
            if not 0 < len(name) <= NAME_LENGTH_MAX:
                break
            try:
                flat[intern(name)] = checked_value(value)
            except BadValue as error:
                raise BadEvent(f"attribute {name!r}: {error}") from None
        else:
            return flat
    return _flattened(data)


def _flattened(data: Mapping[str, Any]) -> Attributes:
    """The same for data of any form, without recursion."""
    found: dict[str, list[Value]] = {}
    visited = 0
    pending: list[tuple[str, Any, int]] = [(name, data[name], 1) for name in reversed(list(data))]
    while pending:
        name, value, depth = pending.pop()
        visited += 1
        if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX:
            raise BadEvent(f"attribute name {str(name)[:60]!r}: a name is a text of 1 to {NAME_LENGTH_MAX} characters")
        if isinstance(value, Mapping):
            value = _value_object(name, value) or [
                (f"{name}/{key}" if type(key) is str else key, child) for key, child in _members(name, value).items()
            ]
        elif isinstance(value, list | tuple):
            value = [(name, child) for child in value]
        if type(value) is list:
            if depth > NESTING_MAX:
                raise BadEvent(f"attribute {name[:60]!r} is nested deeper than {NESTING_MAX} levels")
            if len(value) + len(pending) > VALUES_MAX:
                raise BadEvent(f"attribute {name[:60]!r} takes the event past {VALUES_MAX} values")
            pending.extend((child_name, child, depth + 1) for child_name, child in reversed(value))
        elif value is not None:
            try:
                if name not in found:
                    checked_value(name)
                    found[name] = []
                found[name].append(checked_value(value))
            except BadValue as error:
                raise BadEvent(f"attribute {name!r}: {error}") from None
        if len(found) > ATTRIBUTES_MAX or visited > VALUES_MAX:
            raise BadEvent(f"more than {ATTRIBUTES_MAX} attributes or {VALUES_MAX} values: the payload takes more")
    return {intern(name): values[0] if len(values) == 1 else tuple(values) for name, values in found.items()}


def _value_object(name: str, value: Mapping[str, Any]) -> Value | None:
    """The one value that an object stands for, or None when it is nested data."""
    try:
        if value.keys() == {"lon", "lat"}:
            return Point(value["lon"], value["lat"])
        if value.keys() == {"type", "coordinates"} and value["type"] == "Point" and len(value["coordinates"]) in (2, 3):
            return Point(*value["coordinates"][:2])
        if value.keys() == {"$time"}:
            return checked_value(datetime.fromisoformat(value["$time"]))
    except (TypeError, ValueError) as error:
        raise BadEvent(f"attribute {name!r}: {error}") from None
    return None


def _members(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The flattened form of an object that is not a single value."""
    if not is_geojson_geometry(value):
        return value
    try:
        return flattened_geometry(value)
    except BadValue as error:
        raise BadEvent(f"attribute {name!r}: {error}") from None
