"""Events on a terminal: a coloured line each. (On a pipe: `filters/json_lines.py`.)

Text from other clients cannot control the terminal: a character that does not print is written as its number. Of an XML
document and of a CloudEvent the payload is shown, without the attributes that were extracted from it.
"""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from godwit.cli.terminal import Text

if TYPE_CHECKING:
    from godwit.filters.events import Event

__all__ = ["safe", "text_of"]

PAYLOAD_CHARS_MAX = 200
SENDER = "sender."
DATA = "data"  # of a CloudEvent


def safe(text: str) -> str:
    """A text that is safe for a terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def text_of(event: "Event", *, has_day: bool = False) -> "Text":
    """An event as a line: time, publisher, attributes, context. The time of an older event includes the day, in UTC."""

    text = Text.assemble((_when(event.published_at, has_day), "dim"), "  ", (safe(event.publisher), "bold cyan"), " ")
    sender: list[tuple[str, Any]] = []
    hidden = _in_payload(event)
    for name, value in event.attributes.items():
        if name.startswith(SENDER):
            sender.append((name.removeprefix(SENDER), value))
        elif name not in hidden:
            _append(text, name, value)
    if event.payload is not None:
        text.append("  ").append(_payload(event.payload), style="italic")
    if sender:
        text.append("  from", style="dim")
        for name, value in sender:
            _append(text, name, value)
    return text


def _in_payload(event: "Event") -> frozenset[str]:
    """The attributes that repeat the payload: those of a document, or of the data of a CloudEvent."""
    kind = event.content_type or ""
    if event.payload is None:
        return frozenset()
    if "xml" in kind:
        from godwit.errors import BadEvent
        from godwit.languages.xml_documents import flattened_document, is_xml, parsed_document

        try:
            return frozenset(flattened_document(parsed_document(event.payload))) if is_xml(kind) else frozenset()
        except BadEvent:  # it was not published as a document
            return frozenset()
    if "specversion" in event.attributes:
        return frozenset(name for name in event.attributes if name == DATA or name.startswith(f"{DATA}/"))
    return frozenset()


def _when(at: float | None, has_day: bool) -> str:
    if not at:
        return "--:--:--"
    if has_day:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3]


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
