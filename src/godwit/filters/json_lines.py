"""Events as lines of JSON: what `godwit sub` prints, `godwit pub` reads, and an event log holds.

*Rules.*
1. `whole_event_of(line_of(event)) == event`: nothing is left out, and nothing is rounded.
2. `event_of` reads what somebody wants to publish: its earlier publisher, time and sequence number are ignored.
"""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from godwit.errors import BadEvent
from godwit.filters.events import Event, event, flattened
from godwit.filters.language import as_filter, to_text

__all__ = ["event_of", "line_of", "plain", "whole_event_of"]

FIELDS = ("attributes", "payload", "payload_base64", "content_type", "to", "expires_in")
IGNORED = ("id", "publisher", "sequence", "published_at", "expires_at", "sender")  # what a line has besides
SENDER = "sender."


# ---------------------------------------------------------------- out


def line_of(event: Event) -> dict[str, Any]:
    """An event as a JSON object."""
    attributes = {name: plain(value) for name, value in event.attributes.items()}
    line: dict[str, Any] = {
        "publisher": event.publisher,
        "sequence": event.sequence,
        "published_at": event.published_at,
        "attributes": {name: value for name, value in attributes.items() if not _is_of_sender(name)},
    }
    sender = {name.removeprefix(SENDER): value for name, value in attributes.items() if _is_of_sender(name)}
    if sender:
        line["sender"] = sender
    if event.payload is not None:
        try:
            line["payload"] = event.payload.decode()
        except UnicodeDecodeError:
            line["payload_base64"] = base64.b64encode(event.payload).decode()
    if event.content_type is not None:
        line["content_type"] = event.content_type
    if event.expires_at is not None:
        line["expires_at"] = event.expires_at
    if event.to is not None:
        line["to"] = to_text(event.to)
    return line


def _is_of_sender(name: str) -> bool:
    return name.startswith(SENDER) and name != SENDER


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if hasattr(value, "lon"):
        return {"lon": value.lon, "lat": value.lat}
    return value


# ---------------------------------------------------------------- in


def event_of(data: Any, now: float) -> Event:
    """An event from a line of JSON: attributes alone, or `attributes` and what else there is."""
    if not isinstance(data, Mapping):
        raise BadEvent("an event is a JSON object")
    if not isinstance(data.get("attributes"), Mapping):
        return event(data)
    expires_in = data.get("expires_in")
    if expires_in is not None and not (type(expires_in) in (int, float) and expires_in > 0):
        raise BadEvent("expires_in: seconds above 0")
    return event(data["attributes"], expires_at=None if expires_in is None else now + expires_in, **_carried(data))


def whole_event_of(data: Any) -> Event:
    """An event as it was, with its publisher, number and times, from what `line_of` has made of it."""
    if not isinstance(data, Mapping) or not isinstance(data.get("attributes"), Mapping):
        raise BadEvent("an event in a log is a JSON object with `attributes`")
    publisher, sequence, sender = data.get("publisher"), data.get("sequence"), data.get("sender", {})
    if not isinstance(publisher, str) or type(sequence) is not int:
        raise BadEvent("an event in a log has a `publisher`, a text, and a `sequence`, a whole number")
    for name in ("published_at", "expires_at"):
        if data.get(name) is not None and type(data[name]) not in (int, float):
            raise BadEvent(f"{name}: seconds since 1970")
    attributes = flattened(data["attributes"])
    if sender:
        said = flattened(sender)
        attributes = {**attributes, **{f"{SENDER}{name}": value for name, value in said.items()}}
    return Event(
        attributes,
        publisher,
        sequence,
        published_at=data.get("published_at"),
        expires_at=data.get("expires_at"),
        **_carried(data),
    )


def _carried(data: Mapping[str, Any]) -> dict[str, Any]:
    """What an event carries besides its attributes."""
    strange = [name for name in data if name not in FIELDS and name not in IGNORED]
    if strange:
        raise BadEvent(f"{strange[0]!r} is not a field of events; allowed are {', '.join(FIELDS)}")
    kind, to = data.get("content_type"), data.get("to")
    if kind is not None and not isinstance(kind, str):
        raise BadEvent("content_type: a text")
    if to is not None and not isinstance(to, str):
        raise BadEvent("to: the text of a filter")
    return {"payload": _payload(data), "content_type": kind, "to": None if to is None else as_filter(to)}


def _payload(data: Mapping[str, Any]) -> bytes | None:
    payload, encoded = data.get("payload"), data.get("payload_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (ValueError, TypeError):
            raise BadEvent("payload_base64: not valid base64") from None
    if payload is None or isinstance(payload, str):
        return None if payload is None else payload.encode()
    return json.dumps(payload, separators=(",", ":")).encode()
