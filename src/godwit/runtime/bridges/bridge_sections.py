"""`[[bridge]]` of a broker's configuration: every key, what may stand there, and what holds when nothing does."""

from typing import Annotated, Literal

import msgspec

__all__ = ["FILE_KEYS", "FOREIGN_KEYS", "BridgeSection", "BridgeTopic"]

Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
FILE_KEYS = ("password", "secret", "authorities", "certificate", "key")
"""Keys that name files."""

MQTT_KEYS = ("level", "client_id", "keep_alive_s", "session_expiry_s", "packet_bytes_max")
LOGIN_KEYS = ("user", "password", "tls", "authorities", "certificate", "key")
FOREIGN_KEYS = {
    "mqtt": ("secret",),
    "nats": ("secret", *MQTT_KEYS),
    "webhook": (*LOGIN_KEYS, *MQTT_KEYS),
}
"""By kind, the keys that it has not."""


class BridgeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Which topics cross a bridge, which way, and what they are called on either side."""

    pattern: Text
    direction: Literal["in", "out", "both"] = "both"
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 2
    local_prefix: str = ""
    remote_prefix: str = ""
    where: str = ""
    retain: bool = True


class BridgeSection(msgspec.Struct, frozen=True, kw_only=True):
    """Another system, and what is carried to it and from it."""

    name: Text
    kind: Literal["mqtt", "nats", "webhook"] = "mqtt"
    address: Text
    topics: tuple[BridgeTopic, ...]
    level: Literal["5", "3.1.1"] = "5"
    client_id: str = ""  # "": godwit-BROKER-NAME
    user: str = ""
    password: str = ""  # a file
    secret: str = ""  # a file
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
