"""Inputs and effects of an MQTT client's session, as exchanged with a gateway.

    session.handle(input, now) -> list[Effect]

The gateway owns sockets, timers, retained events and routing; the session owns the protocol. A connection is named by
the gateway. Timers are those of brokers: `StartTimer`, `StopTimer`, `TimerDue`.

*The seam to Godwit.* A Godwit session numbers its deliveries, keeps them until they are confirmed, and sends again what
is not confirmed when its client comes back. So the MQTT session keeps no payload beyond its connection: `Deliver` bears
Godwit's number, from which its packet identifier follows, and `Confirm` confirms all up to a number. `PersistentState`
is all that has to move when the client moves. It is written down as it changes, note by note (`StoreNote`, and
`session_notes.py`): a note that comes before another effect in one answer must be safe before that effect is seen by
anyone. Publications are numbered too: one that is asked for again bears the same number, and is to be carried out once.
"""

import msgspec

from godwit.broker.effects import StartTimer, StopTimer, TimerDue
from godwit.broker.messages import QueueRules
from godwit.filters.events import Event
from godwit.mqtt.packets import Connect, Packet, Subscription, Will
from godwit.mqtt.properties import Properties
from godwit.mqtt.topics import TopicFilter

__all__ = [
    "Accepted",
    "Acknowledged",
    "AddSubscriptions",
    "AllAccepted",
    "Attach",
    "Attached",
    "Close",
    "Closed",
    "Confirm",
    "Deliver",
    "DiscardSession",
    "Drained",
    "DropDelivery",
    "Effect",
    "EndSubscriptions",
    "Faulted",
    "Granted",
    "Heard",
    "Input",
    "Message",
    "MqttSettings",
    "Opened",
    "PersistentState",
    "PublishEvent",
    "PublishWill",
    "Refused",
    "Send",
    "Shared",
    "Stop",
    "StoreNote",
    "Subscribed",
    "Wish",
    "Withheld",
]

NEVER = 0xFFFFFFFF  # the session expiry interval that means so


class MqttSettings(msgspec.Struct, frozen=True):
    """What a server offers, and its bounds."""

    receive_maximum: int = 1_024  # publications of QoS 1 and 2 that may be under way from a client, level 5
    received_max: int = 1_024  # packet identifiers of QoS 2 that a client has not released, at any level
    topic_alias_maximum: int = 64  # aliases a client may set
    maximum_packet_size: int = 1 << 20  # that a client may send
    in_flight_max: int = 1_024  # deliveries of QoS 1 and 2 under way to a client
    topic_aliases_out_max: int = 64  # aliases we set
    unread_bytes_max: int = 4 * 2**20  # of deliveries on their way to a client that has not read them; the rest waits
    queue_max: int = 1_000  # deliveries that wait for the client's window, before one of QoS 0 is given up
    packets_before_connack_max: int = 100  # that a client may send before its CONNACK
    subscriptions_max: int = 1_000
    keep_alive_max_s: int = 0  # a client that names none or more is told this, level 5; 0: as the client likes
    session_expiry_max_s: int = NEVER
    sys_interval_s: int = 10  # how often `$SYS/broker/…` is told; 0: there are no such topics
    reason_strings: bool = True  # say in words why not, to clients that want to know


# ------------------------------------------------------------ what is kept


class Granted(msgspec.Struct, frozen=True):
    """A subscription that stands."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0  # 0: none
    is_shared: bool = False
    cloud_events: str = (
        ""  # the mode in which it gets CloudEvents: structured, binary; "": events as they were published
    )


class PersistentState(msgspec.Struct):
    """The state of an MQTT session: what outlives its connections, and moves with the client."""

    subscriptions: dict[str, Granted] = {}  # by the text of the topic filter
    released: dict[int, int] = {}  # by packet identifier the delivery: PUBREC has come, PUBCOMP is missing
    received: dict[int, int] = {}  # QoS 2, by packet identifier: the publication that is not answered yet, or 0
    published: int = 0  # publications so far
    confirmed: int = 0  # each delivery up to this number is done with
    done: dict[int, bool] = {}  # so are these above it
    settled: dict[int, bool] = {}  # of these, by number, what was released and forgotten: written down one by one
    sent_up_to: int = 0  # the highest delivery of QoS 1 or 2 that was sent


Shared = dict[tuple[int, int, bool], tuple[bytes, bytes]]
"""The packet of an event by level, QoS and retain flag, in two parts around its identifier."""


class Message(msgspec.Struct):
    """An event as MQTT clients get it. One is made for all of them."""

    topics: tuple[str, ...]
    payload: bytes
    qos: int
    retain: bool
    is_retained: bool
    properties: Properties
    shared: Shared = {}
    plain_payload: bytes | None = None  # for clients below level 5, which get no properties; None: the same

    def payload_at(self, level: int) -> bytes:
        """The payload for clients of a level."""
        return self.payload if level >= 5 or self.plain_payload is None else self.plain_payload


# ------------------------------------------------------------ inputs


class Opened(msgspec.Struct, frozen=True):
    """A connection began with this CONNECT, which `greeting` let through. `client_id` was assigned if it had none."""

    connection: str
    connect: Connect
    client_id: str


class Attached(msgspec.Struct, frozen=True):
    """The client is who it says, and Godwit's session is here. `kept`: the state that came with it from elsewhere."""

    connection: str
    is_present: bool  # the session was there before
    kept: PersistentState | None = None
    doubtful: int = 0  # so many deliveries, the first ones, may have been sent before: nobody knows
    lost_since: float | None = None  # since when events may be lost, in seconds; 0: not known; None: none are
    receipt: str = ""  # what happened to events while it was away, as JSON, if it asked for that


class Refused(msgspec.Struct, frozen=True):
    """The client may not come in, by this reason code of CONNACK."""

    connection: str
    reason_code: int
    reason: str = ""
    server_reference: str = ""


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A packet came."""

    connection: str
    packet: Packet


class Faulted(msgspec.Struct, frozen=True):
    """Received bytes are not a valid packet: the decoder's `MqttFault`."""

    connection: str
    reason_code: int
    text: str


class Closed(msgspec.Struct, frozen=True):
    """A connection is gone, and the gateway was not asked to close it."""

    connection: str


class Stop(msgspec.Struct, frozen=True):
    """Close the client's connection for a reason of the server's: it shuts down, or an operator wants it."""

    reason_code: int
    reason: str = ""
    server_reference: str = ""


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """`PublishEvent` number `number` was carried out, or refused: `reason_code` is one of PUBACK."""

    number: int
    reason_code: int = 0
    reason: str = ""


class AllAccepted(msgspec.Struct, frozen=True, gc=False):
    """`Accepted` for each of these, which were carried out."""

    numbers: list[int]


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """`Heard` for a PUBACK of each of these packet identifiers, one after the other."""

    connection: str
    packet_ids: list[int]


class Drained(msgspec.Struct, frozen=True, gc=False):
    """The client has read what was sent over this connection, or nearly all of it."""

    connection: str


class Subscribed(msgspec.Struct, frozen=True):
    """`AddSubscriptions` number `request` was carried out: for each wish the QoS granted, or why not."""

    request: int
    reason_codes: tuple[int, ...]
    reason: str = ""


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """An event for the client, because of these subscriptions of it. Numbers increase; unconfirmed ones come again."""

    number: int
    topic: str
    payload: bytes
    subscriptions: tuple[str, ...]
    qos: int = 0  # as published
    retain: bool = False  # as published
    is_retained: bool = False  # kept by the server, and sent because the subscription is new
    properties: Properties = {}  # as published, without alias and expiry
    expires_at: float | None = None
    shared: Shared | None = None  # bytes of this event for other clients
    event: Event | None = None  # for a driver that asks what waits (`OutgoingDeliveries.waiting`)


class Withheld(msgspec.Struct, frozen=True):
    """The client's rights have changed: it may not have these deliveries any more, as far as they wait."""

    numbers: tuple[int, ...]


Input = (
    Opened
    | Attached
    | Refused
    | Heard
    | Acknowledged
    | Drained
    | Faulted
    | Closed
    | Stop
    | Accepted
    | AllAccepted
    | Subscribed
    | Deliver
    | Withheld
    | TimerDue
)


# ------------------------------------------------------------ effects


class Send(msgspec.Struct, frozen=True, gc=False):
    """Write these bytes to the connection: one packet."""

    connection: str
    data: bytes


class Close(msgspec.Struct, frozen=True):
    """Close the connection after what was sent before; no `Closed` follows."""

    connection: str
    reason: str


class Attach(msgspec.Struct, frozen=True):
    """Find out whether the client may come in, and bring its Godwit session here; a new one if it `is_clean`.

    Answer with `Attached` or `Refused`.
    """

    connection: str
    client_id: str
    is_clean: bool
    expiry_s: int
    connect: Connect


class PublishEvent(msgspec.Struct, frozen=True, gc=False):
    """Publish this. Answer with `Accepted`, unless `number` is 0: that was QoS 0, and nobody waits."""

    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties


class PublishWill(msgspec.Struct, frozen=True):
    """Publish the will of a client that has gone."""

    will: Will


class Wish(msgspec.Struct, frozen=True):
    """One subscription that is wanted. `wants_retained`: send the retained events that match, once it stands."""

    subscription: Subscription
    topics: TopicFilter
    identifier: int
    wants_retained: bool
    queue: QueueRules | None = None
    expires_in_s: float | None = None  # None: until it is unsubscribed


class AddSubscriptions(msgspec.Struct, frozen=True):
    """Make these subscriptions, each replacing one with the same text. Answer with `Subscribed`."""

    request: int
    wishes: tuple[Wish, ...]
    properties: Properties


class EndSubscriptions(msgspec.Struct, frozen=True):
    """These stand no more."""

    filters: tuple[str, ...]


class Confirm(msgspec.Struct, frozen=True, gc=False):
    """Every delivery up to `number` is done with."""

    number: int


class DropDelivery(msgspec.Struct, frozen=True):
    """Write down that this delivery did not go out, and why. It counts as done."""

    number: int
    reason: str


class StoreNote(msgspec.Struct, frozen=True):
    """Write this down with the session (`session_notes.py`), before any effect after it is seen; None: it is over."""

    key: str
    value: bytes | None


class DiscardSession(msgspec.Struct, frozen=True):
    """The session has ended: its subscriptions and its queue may be removed, and this machine with them."""


Effect = (
    Send
    | Close
    | Attach
    | PublishEvent
    | PublishWill
    | AddSubscriptions
    | EndSubscriptions
    | Confirm
    | DropDelivery
    | StoreNote
    | DiscardSession
    | StartTimer
    | StopTimer
)
