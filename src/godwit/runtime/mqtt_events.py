"""Conversion between MQTT messages and Godwit's events: pure functions, in both directions.

*Theory.* A topic is the attribute `topic`. User properties are attributes, as texts; so are the fields of a payload
that is a JSON object, with their types: numbers, texts, times and places can be filtered on. The payload itself is
unchanged. Properties that an MQTT client must receive unchanged are in attributes that begin with `mqtt.`.

| attribute | holds |
|---|---|
| `topic` | the topic |
| `mqtt.qos` | the QoS it was published with: it is there if, and only if, the event comes from an MQTT client |
| `mqtt.retain` | true, if it was published so |
| `mqtt.properties` | user properties in order, response topic, correlation data and payload format, as JSON |
| `mqtt.structured` | true, if it was published as a CloudEvent in structured mode |
| `sender.X` | the context of its publisher, as for every event |

XML documents and CloudEvents are read by `documents.py`; their attributes replace the payload's fields. A CloudEvent is
sent in structured mode if it was published so, or if the client has no user properties (level 4 and below); else in
binary mode. A subscription can choose the mode, and then gets every event as a CloudEvent.

An event of a native client is sent with its payload, or, without one, with its attributes as a JSON object.

*Rules.*
1. If several have the same name, the topic takes precedence, then a user property, then a field.
2. Invalid attributes (a bad name, a value that is too long) are left out; the event is not. Of more than
   `ATTRIBUTES_MAX` attributes the fields are dropped first.
3. User properties and fields cannot set `topic`, `retained`, or names that begin with `mqtt.`, `sender.`, `my.` or `$`.
4. A message that crosses Godwit is the same on the other side: topic, payload, QoS, retain flag, and properties, but
   for user properties of more than 64 KiB together, which are dropped.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from sys import intern
from typing import Any

import msgspec

from godwit.broker.messages import Receipt
from godwit.errors import BadEvent, BadValue, MqttFault
from godwit.filters.contexts import SENDER, checked_context
from godwit.filters.events import ATTRIBUTES_MAX, Attributes, Event, flattened
from godwit.filters.values import Point
from godwit.languages import cloud_events
from godwit.languages.cloud_events import MQTT, is_attribute_name, is_structured, to_binary, to_structured
from godwit.languages.event_documents import Document, as_cloud_event, checked_attributes
from godwit.languages.xml_names import is_xml
from godwit.mqtt.loss_notice import RECEIPT
from godwit.mqtt.mqtt_effects import Message
from godwit.mqtt.packets import Connect
from godwit.mqtt.properties import Properties
from godwit.mqtt.properties import text as written_text
from godwit.mqtt.topics import checked_name
from godwit.runtime import given_cloud_events

__all__ = [
    "Message",
    "attributes_of",
    "attributes_of_document",
    "cloud_headers",
    "cloud_message_of",
    "context_of_payload",
    "context_of_properties",
    "message_of",
    "mode_of",
    "properties_of",
]

TOPIC, QOS, RETAIN, KEPT, STRUCTURED = "topic", "mqtt.qos", "mqtt.retain", "mqtt.properties", "mqtt.structured"
RETAINED = "retained"  # a retained copy
JSON_BYTES_MAX = 64 * 1024
TEXT_MAX = 65_536
OUR_OWN = 8  # attributes that the client does not set, at most
CONTEXT, MODE, NAMED = "$ctx", "$mode", "named"
RECEIPT_LOST_MAX = 100  # lost events that a CONNACK names
ABOUT_PAYLOAD = ("content_type", "user_property", "payload_format_indicator")  # which a CloudEvent has elsewhere
QOS_OF_NATIVE = 2  # independent of the subscription's QoS

_RESERVED = re.compile(r"topic$|retained$|mqtt\.|sender\.|my\.|\$")
_JSON = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


class _Kept(msgspec.Struct, omit_defaults=True):
    """What `mqtt.properties` says."""

    user: list[tuple[str, str]] = []
    response_topic: str | None = None
    correlation: str | None = None  # base64
    format: int | None = None


_KEPT = msgspec.json.Decoder(_Kept)


# ------------------------------------------------------------ from MQTT


def attributes_of(
    topic: str, payload: bytes, qos: int, retain: bool, properties: Properties, stamps: Attributes
) -> Attributes:
    """The attributes of a client's message; `stamps`: its context, as `sender.x`."""
    attributes: dict[str, Any] = _fields(payload, properties.get("content_type"))
    if properties:
        said = _user_attributes(properties)
        room = ATTRIBUTES_MAX - OUR_OWN - len(stamps)
        if len(attributes) + len(said) > room:
            attributes = {}
            said = dict(list(said.items())[:room])
        attributes.update(said)
        kept = _kept(properties)
        if kept and len(kept) <= TEXT_MAX:
            attributes[KEPT] = kept
    if len(attributes) + len(stamps) > ATTRIBUTES_MAX - OUR_OWN and not properties:
        attributes = {}
    attributes[TOPIC] = topic
    attributes[QOS] = qos
    if retain:
        attributes[RETAIN] = True
    if stamps:
        attributes.update(stamps)
    return attributes


def attributes_of_document(
    document: Document, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties, stamps: Attributes
) -> Attributes:
    """The same for a payload that is a document. `BadEvent` if there are too many."""
    attributes: dict[str, Any] = {**_user_attributes(properties), **document.attributes}
    above = attributes.get(TOPIC)  # a root element may have this name: filters on it must match
    attributes[TOPIC] = topic if above is None or not is_xml(document.content_type) else (topic, *_values(above))
    attributes[QOS] = qos
    if retain:
        attributes[RETAIN] = True
    if is_structured(properties.get("content_type")):
        attributes[STRUCTURED] = True
    kept = _kept(properties)
    if kept and len(kept) <= TEXT_MAX:
        attributes[KEPT] = kept
    return checked_attributes({**attributes, **stamps})


def cloud_headers(properties: Properties) -> dict[str, str]:
    """The properties of a CloudEvent in binary mode: user properties that are attributes, and the content type."""
    headers = {name: value for name, value in properties.get("user_property", ()) if is_attribute_name(name)}
    content_type = properties.get("content_type")
    return headers if content_type is None else {**headers, MQTT.content_type: content_type}


def _values(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _fields(payload: bytes, content_type: str | None) -> dict[str, Any]:
    """The fields of a payload that is a JSON object."""
    if len(payload) > JSON_BYTES_MAX or (payload[:1] != b"{" and content_type != "application/json"):
        return {}
    try:
        said = _JSON.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return _unreserved(said) if type(said) is dict else {}


def _unreserved(said: dict[str, Any]) -> dict[str, Any]:
    """The attributes in plain data."""
    data = {name: value for name, value in said.items() if not _RESERVED.match(name)}
    try:
        return dict(flattened(data))
    except BadEvent:
        pass
    fit: dict[str, Any] = {}
    for name, value in data.items():
        try:
            fit.update(flattened({name: value}))
        except BadEvent:
            continue
    return fit


def _user_attributes(properties: Properties) -> dict[str, Any]:
    """User properties as attributes; a repeated one has several values."""
    pairs = properties.get("user_property")
    if not pairs:
        return {}
    said: dict[str, Any] = {}
    for name, value in pairs:
        said.setdefault(name, []).append(value)
    return _unreserved(said)


def _kept(properties: Properties) -> str:
    """The properties that attributes do not preserve; empty if there are none."""
    pairs, correlation = properties.get("user_property", ()), properties.get("correlation_data")
    kept = _Kept(
        [(name, value) for name, value in pairs],
        properties.get("response_topic"),
        None if correlation is None else b64encode(correlation).decode(),
        properties.get("payload_format_indicator"),
    )
    text = _ENCODER.encode(kept).decode()
    return "" if text == "{}" else text


# ------------------------------------------------------------ to MQTT


def message_of(event: Event) -> Message:
    """An event as MQTT clients receive it."""
    attributes = event.attributes
    topics = attributes.get(TOPIC, ())
    given: tuple[Any, ...] = topics if isinstance(topics, tuple) else (topics,)
    qos = attributes.get(QOS, QOS_OF_NATIVE)
    payload, structured = event.payload, None
    properties = properties_of(event)
    if "specversion" in attributes and (cloud_event := as_cloud_event(event)) is not None:
        payload, structured = _as_cloud_event(cloud_event, attributes, properties)
    if payload is None:
        payload = _ENCODER.encode({name: _plain(value) for name, value in attributes.items() if _is_shown(name)})
        properties.setdefault("content_type", "application/json")
    return Message(
        (topics,) if type(topics) is str else tuple([topic for topic in given if isinstance(topic, str)]),
        payload,
        qos if type(qos) is int and 0 <= qos <= 2 else QOS_OF_NATIVE,
        attributes.get(RETAIN) is True,
        attributes.get(RETAINED) is True,
        properties,
        plain_payload=structured,
    )


def _as_cloud_event(event: Event, said: Attributes, properties: Properties) -> tuple[bytes | None, bytes | None]:
    """The payload for clients of level 5, and for those below; `properties` are changed for the former."""
    try:
        structured = to_structured(event)
        if said.get(STRUCTURED) is True:
            properties["content_type"] = cloud_events.STRUCTURED
            return structured, structured
        if "user_property" not in properties:
            headers, _ = to_binary(event, MQTT)
            headers.pop(MQTT.content_type, None)
            properties["user_property"] = tuple(headers.items())
    except BadEvent:  # it has further attributes that no CloudEvent can have
        return event.payload, event.payload
    return event.payload or b"", structured


def cloud_message_of(event: Event, message: Message, mode: str) -> Message:
    """The message of an event, for a subscription that gets CloudEvents in this mode."""
    structured = given_cloud_events.structured(event)
    properties = {name: value for name, value in message.properties.items() if name not in ABOUT_PAYLOAD}
    if mode == "structured":
        payload, properties["content_type"] = structured, cloud_events.STRUCTURED
    else:
        headers, payload = given_cloud_events.binary(event, MQTT)
        if content_type := headers.pop(MQTT.content_type, None):
            properties["content_type"] = content_type
        properties["user_property"] = tuple(headers.items())
    return msgspec.structs.replace(message, payload=payload, properties=properties, shared={}, plain_payload=structured)


def properties_of(event: Event) -> Properties:
    """The properties of PUBLISH in an event, without its expiry."""
    properties: Properties = {}
    if event.content_type is not None and _passes(written_text, event.content_type):
        properties["content_type"] = event.content_type
    text = event.attributes.get(KEPT)
    if not isinstance(text, str):
        return properties
    try:
        kept = _KEPT.decode(text)
        correlation = None if kept.correlation is None else b64decode(kept.correlation, validate=True)
    except (msgspec.MsgspecError, ValueError):  # a native client may set any value
        return properties
    if kept.format in (0, 1):
        properties["payload_format_indicator"] = kept.format
    if kept.response_topic is not None and _passes(checked_name, kept.response_topic):
        properties["response_topic"] = kept.response_topic
    if correlation is not None:
        properties["correlation_data"] = correlation
    if kept.user:
        properties["user_property"] = tuple(kept.user)
    return properties


def _passes(check: Callable[[str], object], text: str) -> bool:
    """Whether a property can have a text: an event may come from a client of another protocol, which may set any."""
    try:
        check(text)
    except (BadValue, MqttFault):
        return False
    return True


def _is_shown(name: str) -> bool:
    return name not in (TOPIC, RETAINED) and not name.startswith("mqtt.")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Point):
        return {"lon": value.lon, "lat": value.lat}
    return {"$time": value.isoformat()} if isinstance(value, datetime) else value


# ------------------------------------------------------------ context


def context_of_properties(properties: Properties) -> Attributes | None:
    """The context in user properties: `$ctx` is a JSON object, `$ctx.x` the text of x. None if there is none."""
    said: dict[str, Any] = {}
    pairs = [pair for pair in properties.get("user_property", ()) if pair[0].startswith(CONTEXT)]
    for name, value in pairs:
        if name == CONTEXT:
            said.update(_object(value.encode()))
        elif name.startswith(f"{CONTEXT}."):
            said[name.removeprefix(f"{CONTEXT}.")] = value
    return checked_context(said) if pairs else None


def context_of_payload(topic: str, payload: bytes, before: Attributes) -> Attributes:
    """The context after a PUBLISH to `$ctx` (a JSON object: all of it) or `$ctx/x` (that of x; no payload: none)."""
    if topic == CONTEXT:
        return checked_context(_object(payload) if payload else {})
    name = topic.removeprefix(f"{CONTEXT}/")
    said: dict[str, Any] = {each: value for each, value in before.items() if each != name}
    if payload:
        try:
            said[name] = _JSON.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            said[name] = payload.decode(errors="replace")
    return checked_context(said)


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        said = _JSON.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadValue(f"a context must be a JSON object: {error}") from None
    if not isinstance(said, dict):
        raise BadValue(f"a context must be a JSON object, not a {type(said).__name__}")
    return said


def stamps_of(context: Attributes) -> Attributes:
    """A context as attributes of events."""
    return {intern(SENDER + name): value for name, value in context.items()}


# ------------------------------------------------------------ receipts


def receipt_for(connect: Connect, receipt: Receipt) -> str:
    """What happened to events while a client was away, as JSON for its CONNACK; "" unless its CONNECT asks for it."""
    if all(name != RECEIPT for name, _ in connect.properties.get("user_property", ())):
        return ""
    lost, more = receipt.lost[:RECEIPT_LOST_MAX], max(0, len(receipt.lost) - RECEIPT_LOST_MAX)
    told = msgspec.structs.replace(receipt, lost=lost, lost_more=receipt.lost_more + more)
    return msgspec.json.encode(told).decode()


# ------------------------------------------------------------ modes of moving


def mode_of(connect: Connect) -> str:
    """The mode of moving in the user property `$mode` of CONNECT."""
    said: list[str] = [value for name, value in connect.properties.get("user_property", ()) if name == MODE]
    return said[-1] if said else NAMED
