"""Documents that clients publish: XML, and CloudEvents in structured and binary mode, as parts of events.

*Theory.* A transport knows the content type and the headers of what it was given. From these follows the *mode*: how
the bytes are to be read. What is read has attributes, which brokers route by, and a payload. What else an event has
(publisher, number, topic, time) the transport adds.

*Rules.*
1. A document that is not well formed is a `BadEvent`, for XML with line and column.
2. A document does not say who sent it: a root element that is called as a sender's attribute is refused.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, Attributes, Event
from godwit.languages import cloud_events
from godwit.languages.cloud_events import BinaryMode
from godwit.languages.xml_names import is_xml

__all__ = [
    "Document",
    "Mode",
    "as_cloud_event",
    "checked_attributes",
    "mode_of",
    "read_document",
]

NO_LXML = "XML documents need lxml, which this broker does not have: install godwit[languages]"
RESERVED = ("sender.", "my.", "mqtt.")  # of names: what the broker says, and no publisher
BROKERS_OWN = ("mqtt.", "retained")  # attributes that the publisher did not write
FROM_MQTT = "mqtt.qos"  # an event that has this has its MQTT topic as an attribute

Mode = Literal["", "xml", "structured", "batch", "binary"]


class Document(NamedTuple):
    """What a document makes of an event."""

    attributes: Attributes
    payload: bytes | None
    content_type: str | None


def mode_of(content_type: str | None, names: Iterable[str], binary: BinaryMode) -> Mode:
    """How a body is to be read that has this type, and headers of these names; "" if it is not a document."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == cloud_events.STRUCTURED:
        return "structured"
    if kind == cloud_events.BATCH:
        return "batch"
    if cloud_events.is_binary(names, binary):
        return "binary"
    return "xml" if is_xml(content_type) else ""


def read_document(
    mode: Mode, data: bytes, content_type: str | None, headers: Mapping[str, str], binary: BinaryMode
) -> list[Document]:
    """The documents in a body: one, but for a batch. (rule 1)"""
    match mode:
        case "xml":
            return [Document(_flattened(data), data, content_type)]
        case "structured":
            return [_document(cloud_events.event_from_structured(data))]
        case "batch":
            return [_document(event) for event in cloud_events.events_from_batch(data)]
        case _:
            return [_document(cloud_events.event_from_binary(headers, data, binary))]


def _document(event: Event) -> Document:
    return Document(event.attributes, event.payload, event.content_type)


def _flattened(data: bytes) -> Attributes:
    try:
        from godwit.languages.xml_documents import flattened_document, parsed_document
        from godwit.languages.xml_trees import local_name
    except ImportError:
        raise BadEvent(NO_LXML) from None
    root = parsed_document(data)
    if local_name(root.tag).startswith(RESERVED):  # rule 2
        raise BadEvent(
            f"line {root.sourceline}, column 1: the root element {root.tag!r} is called as an attribute that "
            f"the broker writes: allowed are names that do not begin with {', '.join(RESERVED)}"
        )
    return flattened_document(root)


def checked_attributes(attributes: Attributes) -> Attributes:
    """The attributes of a document with what the transport has added. `BadEvent`: they are too many."""
    if len(attributes) > ATTRIBUTES_MAX:
        raise BadEvent(f"an event of {len(attributes)} attributes: at most {ATTRIBUTES_MAX} are allowed")
    return attributes


def as_cloud_event(event: Event) -> Event | None:
    """The event without what brokers added to it, if it was published as a CloudEvent; else None.

    Over MQTT a CloudEvent may come with a topic, and with user properties that are none of its attributes.
    """
    said = event.attributes
    if said.get("specversion") != cloud_events.SPECVERSION or not all(
        isinstance(said.get(name), str) for name in cloud_events.REQUIRED
    ):
        return None
    own = {name: value for name, value in said.items() if not name.startswith(BROKERS_OWN)}
    if FROM_MQTT in said:
        own = {name: value for name, value in own.items() if name != "topic" and cloud_events.is_attribute_name(name)}
    return Event(own, event.publisher, event.sequence, event.payload, event.content_type)
