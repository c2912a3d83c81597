"""`[[bridge]]` of a broker's configuration: every key, its allowed values and its default."""

from typing import Annotated, Literal

import msgspec

__all__ = ["FILE_KEYS", "FOREIGN_KEYS", "BridgeSection", "BridgeTopic"]

Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
FILE_KEYS = ("password", "secret", "authorities", "certificate", "key")
"""Keys that name files."""

MQTT_KEYS = ("level", "keep_alive_s", "session_expiry_s")
STREAM_KEYS = ("client_id", "packet_bytes_max")
KAFKA_KEYS = ("sasl", "start")
LOGIN_KEYS = ("user", "password", "tls", "authorities", "certificate", "key")
FOREIGN_KEYS = {
    "kafka": ("secret", *MQTT_KEYS),
    "mqtt": ("secret", *KAFKA_KEYS),
    "nats": ("secret", *MQTT_KEYS, *STREAM_KEYS, *KAFKA_KEYS),
    "webhook": (*LOGIN_KEYS, *MQTT_KEYS, *STREAM_KEYS, *KAFKA_KEYS),
}
"""By kind, the keys that it does not have."""


class BridgeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that cross a bridge, the direction, and their names on either side."""

    pattern: Text
    direction: Literal["in", "out", "both"] = "both"
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 2
    local_prefix: str = ""
    remote_prefix: str = ""
    where: str = ""
    retain: bool = True
    kafka_topic: str = ""  # "": the topic, with dots for slashes


class BridgeSection(msgspec.Struct, frozen=True, kw_only=True):
    """A remote system, and the topics that are carried to it and from it."""

    name: Text
    kind: Literal["mqtt", "nats", "kafka", "webhook"] = "mqtt"
    address: Text
    topics: tuple[BridgeTopic, ...]
    level: Literal["5", "3.1.1"] = "5"
    client_id: str = ""  # "": godwit-BROKER-NAME
    user: str = ""
    password: str = ""  # a file
    secret: str = ""  # a file
    sasl: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    start: Literal["latest", "earliest"] = "latest"
    tls: bool = False
    authorities: str = ""  # a file
    certificate: str = ""  # a file
    key: str = ""  # a file
    network: str = ""  # "": the broker's name
    remote: str = ""  # "": the address
    keep_alive_s: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 30
    session_expiry_s: Annotated[int, msgspec.Meta(ge=0, le=4_294_967_295)] = 604_800
    packet_bytes_max: Annotated[int, msgspec.Meta(ge=1_024, le=268_435_460)] = 1_048_576
    retry_s_max: Annotated[float, msgspec.Meta(ge=0.1, le=3_600)] = 60.0
    queue_events_max: Count = 10_000
    queue_bytes_max: Count = 16_777_216
