"""What the rules of a queue ask of an event: its key, its mark and its importance."""

from typing import Any

from godwit.filters.events import Event
from godwit.filters.values import ORDERED_KINDS, Kind, identity, kind_of

__all__ = ["LEAST", "importance_of", "key_of", "mark_of"]

LEAST = float("-inf")
"""The importance of an event without one."""


def key_of(event: Event, attribute: str) -> Any:
    """What an event is about: its value or values of `attribute`; None without one."""
    value = event.attributes.get(attribute)
    if type(value) is tuple:
        return tuple(map(identity, value))
    return None if value is None else identity(value)  # type: ignore[arg-type]


def mark_of(event: Event, attribute: str) -> tuple[Kind | None, Any]:
    """The highest of an event's values of `attribute` and its kind; no kind when they have no order."""
    value: Any = event.attributes.get(attribute)
    if value is None:
        return None, None
    values = value if type(value) is tuple else (value,)
    kind = kind_of(values[0])
    if not kind & ORDERED_KINDS or any(kind_of(other) is not kind for other in values):
        return None, None
    return kind, max(values)


def importance_of(event: Event, attribute: str | None) -> float:
    """How important an event is; all are equal without an attribute that says so."""
    if attribute is None:
        return 0.0
    kind, value = mark_of(event, attribute)
    return value if kind is Kind.NUMBER else LEAST
