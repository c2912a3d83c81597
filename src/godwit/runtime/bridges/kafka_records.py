"""Messages of a bridge as records of Kafka, and back.

*Theory.* A topic of Kafka is a log for many keys, and a cluster has few thousands of them. A topic here is an address,
and there may be one for each vehicle. So a route has two forms:

| route | topic of Kafka | key |
|---|---|---|
| without `kafka_topic` | the topic, with dots for slashes: `fleet/a` is `fleet.a` | the topic |
| with `kafka_topic` | that one | the topic: events of one topic stay in one partition, in order |

*Rules.*
1. For a record without a key, or with a key that is not text, the name of its Kafka topic is used.
2. User properties are headers, several of one name too. Ours are `content-type`, `godwit-qos`, `godwit-retain`,
   `godwit-expires-at` (seconds since 1970) and `godwit-delivery`: session and number, and the same
   whenever it is sent again.
3. An empty retained message, which deletes the retained one, is a record without a value: what compaction removes.
4. Topics of Kafka that begin with two underscores are its own, and are not read.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from time import time
from typing import Any, Protocol

import msgspec

from godwit.errors import BadValue
from godwit.mqtt.client_end import Outgoing
from godwit.mqtt.packets import Publish
from godwit.mqtt.topics import matches
from godwit.runtime.bridges.routes import Route

__all__ = ["Record", "Sent", "kafka_topic_of", "message_of", "reads", "record_of", "topic_of"]

TYPE_HEADER, QOS_HEADER, RETAIN_HEADER = "content-type", "godwit-qos", "godwit-retain"
EXPIRY_HEADER, DELIVERY_HEADER = "godwit-expires-at", "godwit-delivery"
LEVEL = re.compile(r"[A-Za-z0-9_-]+")
NAME_LENGTH_MAX = 249  # Kafka's


class Record(Protocol):
    """What comes from Kafka."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Sent(msgspec.Struct, frozen=True):
    """A record that goes to Kafka."""

    topic: str
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


def kafka_topic_of(topic: str) -> str:
    """A topic as a topic of Kafka. BadValue if Kafka does not allow it."""
    for level in topic.split("/"):
        if not LEVEL.fullmatch(level):
            allowed = "each level must have letters, digits, '_' and '-' only; or set kafka_topic"
            raise BadValue(f"{topic!r} cannot be a topic of Kafka: {allowed}")
    if len(topic) > NAME_LENGTH_MAX:
        raise BadValue(f"{topic!r} cannot be a topic of Kafka: it has more than {NAME_LENGTH_MAX} characters")
    return topic.replace("/", ".")


def topic_of(kafka_topic: str) -> str:
    """A topic of Kafka as a topic."""
    return kafka_topic.replace(".", "/")


def reads(route: Route, kafka_topic: str) -> bool:
    """Whether a route carries in the records of a Kafka topic. (rule 4)"""
    if kafka_topic.startswith("__"):
        return False
    return (
        kafka_topic == route.kafka_topic if route.kafka_topic else matches(route.remote_filter, topic_of(kafka_topic))
    )


def record_of(route: Route, message: Outgoing, session: str) -> Sent:
    """A message as a record. BadValue if Kafka does not allow its topic."""
    topic = route.kafka_topic or kafka_topic_of(message.topic)
    properties = message.properties
    headers = [(name, value.encode()) for name, value in properties.get("user_property", ())]
    said: dict[str, Any] = {
        TYPE_HEADER: properties.get("content_type"),
        QOS_HEADER: message.qos,
        RETAIN_HEADER: 1 if message.retain else None,
        DELIVERY_HEADER: f"{session}.{message.number}",
    }
    if (expiry_s := properties.get("message_expiry_interval")) is not None:
        said[EXPIRY_HEADER] = ceil(time() + expiry_s)
    headers += [(name, str(value).encode()) for name, value in said.items() if value is not None]
    value = None if message.retain and not message.payload else message.payload  # rule 3
    return Sent(topic, message.topic.encode(), value, headers)


def message_of(record: Record, *, by_key: bool) -> Publish:
    """A record as a message of the remote. `by_key`: its key is the topic. (rule 1)"""
    topic = ""
    if by_key and record.key:
        with suppress(UnicodeDecodeError):
            topic = record.key.decode()
    ours, pairs = dict[str, str](), list[tuple[str, str]]()
    for name, value in record.headers:
        text = (value or b"").decode(errors="replace")
        if name in (TYPE_HEADER, QOS_HEADER, RETAIN_HEADER, EXPIRY_HEADER):
            ours[name] = text
        elif name != DELIVERY_HEADER:
            pairs.append((name, text))
    properties: dict[str, Any] = {"user_property": tuple(pairs)}
    if content_type := ours.get(TYPE_HEADER):
        properties["content_type"] = content_type
    if (expires_at := ours.get(EXPIRY_HEADER, "")).isdecimal():
        properties["message_expiry_interval"] = max(int(expires_at) - int(time()), 0)
    said = ours.get(QOS_HEADER, "")
    qos = int(said) if said in ("0", "1", "2") else 2
    is_retained = ours.get(RETAIN_HEADER) == "1"
    return Publish(topic or topic_of(record.topic), record.value or b"", qos, is_retained, properties=properties)
