"""Conversion of messages that cross a bridge: renaming, filtering and their path; the same for all kinds of systems.

*Theory.* Between the two sides a message has the form of MQTT: topic, payload, QoS, retain flag and properties. Other
systems put their own form around that.

*Rule.* Messages that are not carried are counted here, by outcome.
"""

from math import ceil
from time import time

from godwit.broker.messages import Delivery
from godwit.errors import BadEvent
from godwit.filters.events import Attributes, Event
from godwit.languages.cloud_events import MQTT
from godwit.languages.event_documents import mode_of, read_document
from godwit.mqtt.client_end import Outgoing
from godwit.mqtt.mqtt_effects import NEVER
from godwit.mqtt.packets import Publish
from godwit.mqtt.properties import Properties
from godwit.runtime.bridges.bridge import Bridge
from godwit.runtime.bridges.local_side import Incoming
from godwit.runtime.bridges.routes import PATH, Route, first_route
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.mqtt_events import attributes_of, attributes_of_document, cloud_headers, message_of

__all__ = ["brought_in", "path_of", "taken_out", "way_out"]


def path_of(properties: Properties) -> tuple[str, ...]:
    """The networks that a message has been in."""
    return tuple(value for name, value in properties.get("user_property", ()) if name == PATH)


def with_path(properties: Properties, path: tuple[str, ...]) -> Properties:
    """The properties of a message that has been in these networks."""
    further = tuple(pair for pair in properties.get("user_property", ()) if pair[0] != PATH)
    return {**properties, "user_property": (*further, *((PATH, network) for network in path))}


def brought_in(bridge: Bridge, message: Publish, routes: tuple[Route, ...] | None = None) -> Incoming | None:
    """A message of the remote as an event, by one of these routes; None if it is not carried."""
    found = first_route(bridge.incoming if routes is None else routes, message.topic)
    if found is None:
        bridge.tally.add("in", "filtered")
        return None
    route, topic = found
    path = bridge.networks.entering(path_of(message.properties))
    if path is None:
        bridge.tally.add("in", "looped")
        return None
    event = _event(message, topic, message.retain and route.retain, with_path(message.properties, path))
    if not route.local.matches(Event(event.attributes, bridge.client, 1, event.payload)):
        bridge.tally.add("in", "filtered")
        return None
    return event


def taken_out(bridge: Bridge, delivery: Delivery, level: int = 5) -> Outgoing | None:
    """A delivery as a message for the remote; None if it is not carried."""
    found = way_out(bridge, delivery, level)
    return None if found is None else found[1]


def way_out(bridge: Bridge, delivery: Delivery, level: int = 5) -> tuple[Route, Outgoing] | None:
    """The route of a delivery, and its message for the remote; None if it is not carried."""
    event, now = delivery.event, time()
    found = first_way_out(bridge.outgoing, event)
    if found is None:
        bridge.tally.add("out", "filtered")
        return None
    if event.expires_at is not None and event.expires_at <= now:
        bridge.tally.add("out", "expired")
        return None
    route, topic = found
    message = message_of(event)
    path = bridge.networks.leaving(path_of(message.properties))
    if path is None:
        bridge.tally.add("out", "looped")
        return None
    properties = with_path(message.properties, path)
    if event.expires_at is not None:
        properties["message_expiry_interval"] = min(ceil(event.expires_at - now), NEVER)
    is_retained = (message.retain or message.is_retained) and route.retain
    qos, payload = min(message.qos, route.qos), message.payload_at(level)
    return route, Outgoing(delivery.number, topic, payload, qos, is_retained, properties)


def first_way_out(routes: tuple[Route, ...], event: Event) -> tuple[Route, str] | None:
    """The route of an event, and its remote topic."""
    for route in routes:
        if (topic := route.to_remote(event)) is not None:
            return route, topic
    return None


def _event(message: Publish, topic: str, is_retained: bool, properties: Properties) -> Incoming:
    """A message as an event: a document (CloudEvents, XML) is read, if it is short and well formed."""
    payload, content_type = message.payload, properties.get("content_type")
    no_context: Attributes = {}
    said = (topic, payload, message.qos, is_retained, properties, no_context)
    attributes = attributes_of(*said)
    headers = cloud_headers(message.properties)
    mode = mode_of(content_type, headers, MQTT)
    if mode and mode != "batch" and 0 < len(payload) <= SMALL_BYTES:
        try:
            document = read_document(mode, payload, content_type, headers, MQTT)[0]
            attributes = attributes_of_document(document, *said)
            payload, content_type = document.payload or b"", document.content_type
        except BadEvent:
            pass  # it is carried unchanged
    expiry_s = properties.get("message_expiry_interval")
    expires_at = None if expiry_s is None else time() + expiry_s
    return Incoming(attributes, payload, content_type, expires_at, topic if is_retained else "")
