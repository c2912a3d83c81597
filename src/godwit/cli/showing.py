"""Events as the command line shows them: a line of JSON for a pipe, a coloured line for people.

What others have published is shown, never obeyed: a character that does not print is written as its number.
"""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from godwit.filters.events import Event

__all__ = ["event_of", "line_of", "plain", "safe", "text_of"]

FIELDS = ("attributes", "payload", "payload_base64", "content_type", "to", "expires_in")
IGNORED = ("id", "publisher", "sequence", "published_at", "expires_at", "sender")  # what `godwit sub` prints besides
PAYLOAD_CHARS_MAX = 200
SENDER = "sender."


# ---------------------------------------------------------------- out


def line_of(event: "Event") -> dict[str, Any]:
    """An event as JSON: `godwit pub` reads it again."""
    attributes = {name: plain(value) for name, value in event.attributes.items()}
    line: dict[str, Any] = {
        "publisher": event.publisher,
        "sequence": event.sequence,
        "published_at": event.published_at,
        "attributes": {name: value for name, value in attributes.items() if not name.startswith(SENDER)},
    }
    sender = {name.removeprefix(SENDER): value for name, value in attributes.items() if name.startswith(SENDER)}
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
        from godwit.filters.language import to_text

        line["to"] = to_text(event.to)
    return line


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if hasattr(value, "lon"):
        return {"lon": value.lon, "lat": value.lat}
    return value


def safe(text: str) -> str:
    """A text as it may go to a terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def text_of(event: "Event") -> "Text":
    """An event for people: when, who, what, and in which context."""
    from rich.text import Text

    at = datetime.fromtimestamp(event.published_at).strftime("%H:%M:%S.%f")[:-3] if event.published_at else "--:--:--"
    text = Text.assemble((at, "dim"), "  ", (safe(event.publisher), "bold cyan"), " ")
    sender: list[tuple[str, Any]] = []
    for name, value in event.attributes.items():
        if name.startswith(SENDER):
            sender.append((name.removeprefix(SENDER), value))
        else:
            _append(text, name, value)
    if event.payload is not None:
        text.append("  ").append(_payload(event.payload), style="italic")
    if sender:
        text.append("  from", style="dim")
        for name, value in sender:
            _append(text, name, value)
    return text


def _append(text: "Text", name: str, value: Any) -> None:
    style = "green" if isinstance(value, str) else "yellow" if isinstance(value, bool) else "magenta"
    text.append(" ").append(f"{safe(name)}=", style="dim").append(_shown(value), style=style)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, str):
        is_word = value.isprintable() and value and " " not in value and '"' not in value
        return value if is_word else safe(json.dumps(value, ensure_ascii=False))
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "lon"):
        return f"({value.lon:g}, {value.lat:g})"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _payload(payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return f"<{len(payload):,} bytes>"
    shown = safe(" ".join(text.split()))
    return shown if len(shown) <= PAYLOAD_CHARS_MAX else f"{shown[:PAYLOAD_CHARS_MAX]}… ({len(payload):,} bytes)"


# ---------------------------------------------------------------- in


def event_of(data: Any, now: float) -> "Event":
    """An event from a line of JSON: attributes alone, or `attributes` and what else there is."""
    from godwit.errors import BadEvent
    from godwit.filters.events import event
    from godwit.filters.language import said_filter

    if not isinstance(data, Mapping):
        raise BadEvent("an event is a JSON object")
    if not isinstance(data.get("attributes"), Mapping):
        return event(data)
    strange = [name for name in data if name not in FIELDS and name not in IGNORED]
    if strange:
        raise BadEvent(f"{strange[0]!r} is nothing that an event has: allowed are {', '.join(FIELDS)}")
    expires_in, kind, to = data.get("expires_in"), data.get("content_type"), data.get("to")
    if expires_in is not None and not (type(expires_in) in (int, float) and expires_in > 0):
        raise BadEvent("expires_in: seconds above 0")
    if kind is not None and not isinstance(kind, str):
        raise BadEvent("content_type: a text")
    if to is not None and not isinstance(to, str):
        raise BadEvent("to: the text of a filter")
    return event(
        data["attributes"],
        payload=_payload_in(data),
        content_type=kind,
        expires_at=None if expires_in is None else now + expires_in,
        to=None if to is None else said_filter(to),
    )


def _payload_in(data: Mapping[str, Any]) -> bytes | None:
    from godwit.errors import BadEvent

    payload, encoded = data.get("payload"), data.get("payload_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (ValueError, TypeError):
            raise BadEvent("payload_base64: it is no base64") from None
    if payload is None or isinstance(payload, str):
        return None if payload is None else payload.encode()
    return json.dumps(payload, separators=(",", ":")).encode()
