"""CloudEvents 1.0 as events, and events as CloudEvents: the JSON format and the binary mode.

*Theory.* All attributes of a CloudEvent, extensions included, are attributes of the event under the same names. Its
data is the payload, and `datacontenttype` also the content type of the payload. Data that is JSON may besides be
flattened to attributes `data` and `data/…`, so that filters see it. On the way back these are left out: no attribute of
a CloudEvent may be called `data`, or have a `/` in its name, so they can be told apart.

*Rules.*
1. An event that was made from a CloudEvent gives the same attributes and the same bytes of data back; JSON keeps its
   spelling, but for blanks around it. Binary mode has no types: an Integer or a Boolean comes back as its text.
2. `time` stays a text: an instant of ours has no time zone of its own, and would come back as another text.
3. What a CloudEvent cannot be is a `BadEvent` that names the attribute; nothing is left out silently but `data/…` and
   the sender's context (`sender.…`), which are not what was published.
   In binary mode, neither are they sent with a content type that no header can have.
4. An event that is not from a CloudEvent gets the required attributes that it lacks from its publisher and number.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from godwit.errors import BadEvent
from godwit.filters import Attributes, Event, Value, flattened
from godwit.languages.cesql.casts import INTEGER_MAX, INTEGER_MIN

__all__ = [
    "BATCH",
    "HTTP",
    "MQTT",
    "STRUCTURED",
    "BinaryMode",
    "event_from_binary",
    "event_from_structured",
    "events_from_batch",
    "is_attribute_name",
    "is_binary",
    "is_structured",
    "to_batch",
    "to_binary",
    "to_structured",
]

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
SPECVERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")
NATIVE_TYPE = "godwit.event"
JSON, BYTES = "application/json", "application/octet-stream"
DATA, DATA_BASE64, CONTENT_TYPE = "data", "data_base64", "datacontenttype"
SENDER = "sender."
SHOWN_LENGTH_MAX = 60
CONTENT_TYPE_LENGTH_MAX = 4_096  # in a header

_NAME = re.compile(r"[a-z0-9]+")
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BinaryMode:
    """How a transport carries attributes in binary mode: what stands before their names, and whether `%` encodes."""

    prefix: str
    is_percent_encoded: bool
    content_type: str


HTTP = BinaryMode("ce-", True, "content-type")
MQTT = BinaryMode("", False, "content-type")
"""User properties of MQTT 5. The content type is a property of its own there: pass it in, and take it, as a header."""


def is_structured(content_type: str | None) -> bool:
    """Whether a body of this type is one CloudEvent in JSON."""
    return _media_type(content_type) == STRUCTURED


def is_binary(headers: Iterable[str], mode: BinaryMode = HTTP) -> bool:
    """Whether headers of these names bring a CloudEvent in binary mode."""
    return f"{mode.prefix}specversion" in {name.lower() for name in headers}


def is_attribute_name(name: str) -> bool:
    """Whether an attribute of a CloudEvent may be called so."""
    return _NAME.fullmatch(name) is not None and name != DATA


# ---------------------------------------------------------------- in


def event_from_structured(body: bytes | str, flatten: bool = True) -> Event:
    """The event that a CloudEvent in JSON is. `flatten` says whether its JSON data becomes attributes as well."""
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadEvent(f"a CloudEvent in structured mode is a JSON object: {error}") from None
    return _event_of_members(members, flatten)


def events_from_batch(body: bytes | str, flatten: bool = True) -> list[Event]:
    """The events of a batch in JSON."""
    try:
        batch = msgspec.json.decode(body, type=list[dict[str, msgspec.Raw]])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadEvent(f"a batch of CloudEvents is a JSON array of objects: {error}") from None
    return [_event_of_members(members, flatten) for members in batch]


def event_from_binary(
    headers: Mapping[str, str], body: bytes | None, mode: BinaryMode = HTTP, flatten: bool = True
) -> Event:
    """The event that a CloudEvent in binary mode is. Names of headers may be in any case."""
    attributes: dict[str, Any] = {}
    for header, written in headers.items():
        name = header.lower()
        if name == mode.content_type:
            attributes[CONTENT_TYPE] = written
        elif name.startswith(mode.prefix):
            attribute = name.removeprefix(mode.prefix)
            if attribute == CONTENT_TYPE:
                raise BadEvent(f"{header}: the content type of the data is that of the message")
            attributes[attribute] = _decoded(header, written) if mode.is_percent_encoded else written
    return _event(attributes, body or None, attributes.get(CONTENT_TYPE), flatten)


def _event_of_members(members: dict[str, msgspec.Raw], flatten: bool) -> Event:
    data, encoded = members.pop(DATA, None), members.pop(DATA_BASE64, None)
    attributes = {name: value for name, raw in members.items() if (value := _json(name, raw)) is not None}
    payload: bytes | None = None
    if data is not None and _json(DATA, data) is not None:
        if encoded is not None:
            raise BadEvent("a CloudEvent has data or data_base64, not both")
        payload = _payload(bytes(data), attributes.get(CONTENT_TYPE))
    elif encoded is not None:
        try:
            payload = base64.b64decode(_json(DATA_BASE64, encoded), validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadEvent("data_base64: not valid base64") from None
    return _event(attributes, payload, attributes.get(CONTENT_TYPE, None if payload is None else JSON), flatten)


def _json(name: str, raw: msgspec.Raw | bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadEvent(f"{name[:SHOWN_LENGTH_MAX]} is not valid JSON: {error}") from None


def _payload(data: bytes, content_type: Any) -> bytes:
    """Data as it stands in JSON: JSON stays as it is written; of any other type, a text is its content."""
    if content_type is None or _is_json(content_type):  # whose type is not said is JSON, in the JSON format
        return data
    value = _json(DATA, data)
    if not isinstance(value, str):
        raise BadEvent(f"data of type {content_type!r} is a text, or stands in data_base64")
    return value.encode()


def _event(attributes: dict[str, Any], payload: bytes | None, content_type: Any, flatten: bool) -> Event:
    for name, value in attributes.items():
        _check(name, value)
    for name in REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise BadEvent(f"a CloudEvent needs the attribute {name!r}, a text that is not empty")
    if attributes["specversion"] != SPECVERSION:
        raise BadEvent(f"specversion {attributes['specversion']!r}: supported is {SPECVERSION!r}")
    if content_type is not None and not isinstance(content_type, str):
        raise BadEvent(f"attribute {CONTENT_TYPE!r} is a text such as {JSON!r}")
    flat: Attributes = flattened(attributes)
    if flatten and payload is not None and _is_json(content_type):
        flat = {**flat, **flattened({DATA: _json(DATA, payload)})}
    return Event(flat, payload=payload, content_type=content_type)


def _check(name: str, value: Any) -> None:
    """Whether a CloudEvent may have such an attribute. (rule 3)"""
    shown = repr(name[:SHOWN_LENGTH_MAX])
    if not is_attribute_name(name):
        raise BadEvent(f"attribute {shown}: names of CloudEvents have small letters and digits, and are not 'data'")
    if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise BadEvent(f"attribute {shown}: integers of CloudEvents are from {INTEGER_MIN} to {INTEGER_MAX}")
    if not isinstance(value, bool | int | str):
        raise BadEvent(f"attribute {shown}: a CloudEvent has a text, an integer, true or false there")


def _decoded(header: str, written: str) -> str:
    """The value of a header: without quotes, and after one round of percent-decoding."""
    if len(written) >= 2 and written[0] == written[-1] == '"':
        written = _QUOTED_PAIR.sub(r"\1", written[1:-1])
    try:
        return _ENCODED.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(), written)
    except UnicodeDecodeError:
        raise BadEvent(f"{header}: what is encoded with % is not valid UTF-8") from None


# ---------------------------------------------------------------- out


def to_structured(event: Event) -> bytes:
    """An event as a CloudEvent in JSON."""
    attributes = dict(_attributes_of(event))
    members: dict[str, Any] = dict(attributes)
    if event.payload is not None:
        kind = attributes.get(CONTENT_TYPE, event.content_type) or BYTES
        if kind != JSON:
            members[CONTENT_TYPE] = kind
        members |= _data_member(event.payload, kind)
    return msgspec.json.encode(members)


def to_batch(events: Iterable[Event]) -> bytes:
    """Events as a batch of CloudEvents in JSON."""
    return msgspec.json.encode([msgspec.Raw(to_structured(event)) for event in events])


def to_binary(event: Event, mode: BinaryMode = HTTP) -> tuple[dict[str, str], bytes]:
    """An event as a CloudEvent in binary mode: headers, and the body."""
    attributes = dict(_attributes_of(event))
    content_type = attributes.pop(CONTENT_TYPE, event.content_type)
    headers = {f"{mode.prefix}{name}": _header_text(value, mode) for name, value in attributes.items()}
    if content_type is not None:
        headers[mode.content_type] = _checked_content_type(str(content_type), mode)
    return headers, event.payload or b""


def _checked_content_type(content_type: str, mode: BinaryMode) -> str:
    """A content type as a header. `BadEvent`: no header can have it. (rule 3)"""
    is_text = content_type.isprintable() and (content_type.isascii() or not mode.is_percent_encoded)
    if not is_text or len(content_type) > CONTENT_TYPE_LENGTH_MAX:
        allowed = f"{CONTENT_TYPE_LENGTH_MAX} printable characters at most"
        raise BadEvent(f"content type {content_type[:SHOWN_LENGTH_MAX]!r}: a header has {allowed}")
    return content_type


def _attributes_of(event: Event) -> Iterator[tuple[str, bool | int | str]]:
    """The attributes of an event as those of a CloudEvent, the required ones first. (rules 3, 4)"""
    attributes: dict[str, Any] = {
        "specversion": SPECVERSION,
        "id": f"{event.publisher}/{event.sequence}",
        "source": f"/{_percent_encoded(event.publisher)}",
        "type": NATIVE_TYPE,
        **event.attributes,
    }
    for name, value in attributes.items():
        if name == DATA or name.startswith((f"{DATA}/", SENDER)):
            continue
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        _check(name, number)
        yield name, number


def _data_member(payload: bytes, kind: Any) -> dict[str, Any]:
    """The member of a JSON object that holds the data."""
    if _is_json(kind):
        try:
            if msgspec.json.decode(payload) is not None:
                return {DATA: msgspec.Raw(payload)}
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            pass  # it is not what its type says
        return {DATA_BASE64: base64.b64encode(payload).decode()}
    try:
        return {DATA: payload.decode()}
    except UnicodeDecodeError:
        return {DATA_BASE64: base64.b64encode(payload).decode()}


def _header_text(value: Value, mode: BinaryMode) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return _percent_encoded(text) if mode.is_percent_encoded else text


def _percent_encoded(text: str) -> str:
    """A text with `%` for blanks, quotes, `%` itself, and whatever is no printable ASCII."""
    return "".join(
        character
        if "!" <= character <= "~" and character not in '"%'
        else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in text
    )


# ---------------------------------------------------------------- content types


def _media_type(content_type: Any) -> str:
    return content_type.partition(";")[0].strip().lower() if isinstance(content_type, str) else ""


def _is_json(content_type: Any) -> bool:
    """Whether data of this type is JSON."""
    kind = _media_type(content_type)
    return kind.rpartition("/")[2] == "json" or kind.endswith("+json")
