"""The fifteen packets of MQTT, as values.

*Theory.* One frozen struct per packet, the same for the levels 3 (MQTT 3.1), 4 (3.1.1) and 5 (5.0). What a level does
not know is left out when a packet of it is written and has its default when one is read: properties below level 5,
reason codes of acknowledgements below level 5. `decoding` reads them from a stream, `encoding` writes them.

*Rules.*
1. `packet_id` is 0 only in a PUBLISH with QoS 0, which has none.
2. `properties` is a dict as `properties.read` makes it, empty when there are none.
3. In CONNACK of levels 3 and 4 `reason_code` is the return code of those levels, 0 to 5.

*Standard.* [mqtt5 §3], [mqtt311 §3]. Names are the standard's.
"""

import msgspec

from godwit.mqtt.properties import Properties

__all__ = [
    "FROM_CLIENT",
    "FROM_SERVER",
    "LEVELS",
    "TYPES",
    "Auth",
    "Connack",
    "Connect",
    "Disconnect",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "Suback",
    "Subscribe",
    "Subscription",
    "Unsuback",
    "Unsubscribe",
    "Will",
]

LEVELS = (3, 4, 5)
"""The protocol levels we speak: MQTT 3.1, 3.1.1 and 5.0."""


class Will(msgspec.Struct, frozen=True):
    """The message that the server publishes for a client that ends without DISCONNECT."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = {}


class Connect(msgspec.Struct, frozen=True, tag=True):
    """A client introduces itself."""

    client_id: str
    level: int = 5
    clean_start: bool = True
    keep_alive: int = 0  # seconds; 0: none
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = {}


class Connack(msgspec.Struct, frozen=True, tag=True):
    """The server's answer to CONNECT."""

    reason_code: int = 0
    session_present: bool = False
    properties: Properties = {}


class Publish(msgspec.Struct, frozen=True, tag=True):
    """An event on its way, to the server or from it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = {}


class _Acknowledgement(msgspec.Struct, frozen=True):
    """What the four answers within a QoS 1 or 2 exchange have in common."""

    packet_id: int
    reason_code: int = 0
    properties: Properties = {}


class Puback(_Acknowledgement, frozen=True, tag=True):
    """QoS 1: the event is taken."""


class Pubrec(_Acknowledgement, frozen=True, tag=True):
    """QoS 2, first answer: the event is taken, or refused."""


class Pubrel(_Acknowledgement, frozen=True, tag=True):
    """QoS 2, to that answer: the packet identifier may be forgotten."""


class Pubcomp(_Acknowledgement, frozen=True, tag=True):
    """QoS 2, the end: it is forgotten."""


class Subscription(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE, and how it is wanted. Levels 3 and 4 know only `qos`."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, tag=True):
    """A client wants events."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = {}


class Suback(msgspec.Struct, frozen=True, tag=True):
    """For each topic filter of a SUBSCRIBE the QoS granted, or why not."""

    packet_id: int
    reason_codes: tuple[int, ...]
    properties: Properties = {}


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    """A client wants these no more."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = {}


class Unsuback(msgspec.Struct, frozen=True, tag=True):
    """The answer to UNSUBSCRIBE. Below level 5 it has no reason codes."""

    packet_id: int
    reason_codes: tuple[int, ...] = ()
    properties: Properties = {}


class Pingreq(msgspec.Struct, frozen=True, tag=True):
    """Are you there?"""


class Pingresp(msgspec.Struct, frozen=True, tag=True):
    """I am."""


class Disconnect(msgspec.Struct, frozen=True, tag=True):
    """The last packet of a connection, from either side."""

    reason_code: int = 0
    properties: Properties = {}


class Auth(msgspec.Struct, frozen=True, tag=True):
    """A step of an extended authentication. Level 5 only."""

    reason_code: int = 0
    properties: Properties = {}


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)

TYPES: dict[type[Packet], int] = {
    Connect: 1,
    Connack: 2,
    Publish: 3,
    Puback: 4,
    Pubrec: 5,
    Pubrel: 6,
    Pubcomp: 7,
    Subscribe: 8,
    Suback: 9,
    Unsubscribe: 10,
    Unsuback: 11,
    Pingreq: 12,
    Pingresp: 13,
    Disconnect: 14,
    Auth: 15,
}
"""By packet, its type: the upper half of its first byte. [mqtt5 §2.1.2]"""

FROM_CLIENT = frozenset({1, 3, 4, 5, 6, 7, 8, 10, 12, 14})
"""The types a server takes. AUTH is not among them: we offer no extended authentication."""

FROM_SERVER = frozenset({2, 3, 4, 5, 6, 7, 9, 11, 13, 14})
"""The types a client takes."""
