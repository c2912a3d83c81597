"""The client's end of an MQTT session, for a broker that is a client of another one (`runtime/bridges`).

*Theory.* A client has two halves. *Outgoing*: messages that bear the numbers of a Godwit session's deliveries; a packet
identifier follows from the number, so a message that is sent again after a crash has the identifier that it had.
*Incoming*: PUBLISH packets, which are answered when the owner has stored the event. What QoS 2 needs beyond a
connection, and beyond a crash of either side, is in two small tables. Each change of them is a `StoreNote`, which the
owner writes down together with the event it belongs to:

| note | means |
|---|---|
| `in/ID` | the message with this packet identifier is stored, and the server has not released it |
| `out/NUMBER` | the server has this delivery (PUBREC), and the delivery is not confirmed yet |

*Rules.*
1. In one answer, notes and events must be safe before a packet that follows them is sent. [mqtt5 §4.3.3]
2. A server that has no session for us (CONNACK) has forgotten identifiers: both tables are emptied, and deliveries that
   are not confirmed are sent again. [mqtt5 §3.2.2.1.1]
3. No more messages are under way than the server allows, or `IN_FLIGHT_MAX`. [mqtt5 §3.3.4]
4. The server's mistake is an `MqttFault`; the owner closes the connection.
5. The owner removes the note of a delivery when it has confirmed the delivery, and not before: a delivery that comes
   again, and has a note, is released again and not sent again.
6. A message that no packet can hold, or that is larger than the server allows, is never under way: it is refused here.
   The others are sent.

*Standard.* [mqtt5 §4.3, §4.4], [mqtt311 §4.3, §4.4].
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from godwit.errors import BadValue, MqttFault
from godwit.mqtt.mqtt_effects import StoreNote
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from godwit.mqtt.properties import Properties
from godwit.mqtt.reason_codes import ReasonCode

__all__ = [
    "ClientEnd",
    "Done",
    "Effect",
    "Outgoing",
    "SendPacket",
    "SubscribeAnswered",
    "TakeMessage",
    "connect_packet",
    "note_of",
]

IN, OUT = "in/", "out/"
IDENTIFIERS = 65_000  # of messages; those above are for SUBSCRIBE and UNSUBSCRIBE
SUBSCRIBE_ID, UNSUBSCRIBE_ID = IDENTIFIERS + 1, IDENTIFIERS + 2
IN_FLIGHT_MAX = 1_000
RECEIVE_MAXIMUM = 1_000
RETURNED = ("accepted", "unacceptable protocol version", "identifier rejected", "server unavailable",
            "bad user name or password", "not authorized")  # fmt: skip
"""What the return codes of levels 3 and 4 mean. [mqtt311 §3.2.2.3]"""


class SendPacket(msgspec.Struct, frozen=True):
    """Send this."""

    packet: Packet


class TakeMessage(msgspec.Struct, frozen=True):
    """A message has come: store it."""

    message: Publish


class Done(msgspec.Struct, frozen=True):
    """Nothing more is to be done for a delivery; `refused`: the server did not take it, for this reason."""

    number: int
    refused: str = ""


class SubscribeAnswered(msgspec.Struct, frozen=True):
    """The server has answered SUBSCRIBE: why it refuses which topic filter."""

    refused: dict[str, str]


Effect = SendPacket | StoreNote | TakeMessage | Done | SubscribeAnswered


class Outgoing(msgspec.Struct, frozen=True):
    """A message on its way, as it is to be published."""

    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties


class ClientEnd:
    """One session, over one connection. The next connection has a new one, made from the notes."""

    def __init__(self, level: int, notes: Mapping[str, bytes]) -> None:
        self.level = level
        self.is_present = False  # whether the server knew our session
        self.qos_max = 2  # that the server takes
        self._retains = True
        self._size_max: int | None = None
        self._window = IN_FLIGHT_MAX
        self._received = {int(key.removeprefix(IN)) for key in notes if key.startswith(IN)}
        self._released = {int(key.removeprefix(OUT)) for key in notes if key.startswith(OUT)}  # before this connection
        self._in_flight: dict[int, Outgoing | int] = {}  # by packet identifier; a number alone: it was released before
        self._waiting: deque[Outgoing] = deque()
        self._asked: tuple[Subscription, ...] = ()
        self._handlers: dict[type[Any], Callable[[Any], list[Effect]]] = {
            Publish: self._on_publish,
            Pubrel: self._on_pubrel,
            Puback: self._on_puback,
            Pubrec: self._on_pubrec,
            Pubcomp: self._on_pubcomp,
            Suback: self._on_suback,
            Unsuback: lambda packet: [],
            Pingresp: lambda packet: [],
            Disconnect: _on_disconnect,
        }

    # ------------------------------------------------------------ the beginning

    def on_connack(self, packet: Connack) -> list[Effect]:
        """The server lets us in, or says why not."""
        if packet.reason_code:
            raise MqttFault(packet.reason_code, f"refused: {_words(packet.reason_code, self.level, packet.properties)}")
        offered = packet.properties
        self.is_present = packet.session_present
        self._window = min(IN_FLIGHT_MAX, int(offered.get("receive_maximum", IN_FLIGHT_MAX)))
        self.qos_max = int(offered.get("maximum_qos", 2))
        self._retains = bool(offered.get("retain_available", 1))
        self._size_max = offered.get("maximum_packet_size")
        if self.is_present:
            self._in_flight = {_identifier(number): number for number in self._released}
            return [SendPacket(Pubrel(identifier)) for identifier in self._in_flight]
        forgotten = [*(f"{IN}{each}" for each in self._received), *map(note_of, self._released)]
        self._received.clear()  # rule 2
        self._released.clear()
        return [StoreNote(key, None) for key in forgotten]

    def subscribe(self, subscriptions: Iterable[Subscription], ended: Iterable[str]) -> list[Effect]:
        """Ask for these, and no more for those."""
        self._asked, filters = tuple(subscriptions), tuple(ended)
        effects: list[Effect] = [SendPacket(Unsubscribe(UNSUBSCRIBE_ID, filters))] if filters else []
        return [*effects, SendPacket(Subscribe(SUBSCRIBE_ID, self._asked))] if self._asked else effects

    # ------------------------------------------------------------ outgoing

    def publish(self, message: Outgoing) -> list[Effect]:
        """A delivery is to be published at the remote."""
        if message.number in self._released:  # rule 5
            return []
        self._waiting.append(message)
        return self._send_waiting()

    def _send_waiting(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and len(self._in_flight) < self._window:  # rule 3
            message = self._waiting.popleft()
            qos, identifier = min(message.qos, self.qos_max), _identifier(message.number)
            packet = Publish(
                message.topic,
                message.payload,
                qos,
                message.retain and self._retains,
                packet_id=identifier if qos else 0,
                properties=message.properties if self.level == 5 else {},
            )
            if reason := self._why_not(packet):
                effects.append(Done(message.number, reason))
                continue
            effects.append(SendPacket(packet))
            if qos:
                self._in_flight[identifier] = message
            else:
                effects.append(Done(message.number))
        return effects

    def _why_not(self, packet: Publish) -> str:
        """Why a message cannot be sent; "": it can. (rule 6)"""
        try:
            size = len(encode(packet, self.level))
        except BadValue as error:
            return f"no packet can hold it: {error}"
        is_too_large = self._size_max is not None and size > self._size_max
        return f"the server takes packets of {self._size_max} bytes at most" if is_too_large else ""

    def _on_puback(self, packet: Puback) -> list[Effect]:
        found = self._in_flight.get(packet.packet_id)
        if not isinstance(found, Outgoing) or min(found.qos, self.qos_max) != 1:
            raise MqttFault(ReasonCode.PROTOCOL_ERROR, f"PUBACK of {packet.packet_id}, which is not under way")
        return self._finish(packet.packet_id, found.number, self._why_refused(packet))

    def _on_pubrec(self, packet: Pubrec) -> list[Effect]:
        found = self._in_flight.get(packet.packet_id)
        if found is None:
            return [SendPacket(Pubrel(packet.packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))]
        if isinstance(found, Outgoing):
            if reason := self._why_refused(packet):
                return self._finish(packet.packet_id, found.number, reason)
            self._in_flight[packet.packet_id] = found.number
            return [StoreNote(note_of(found.number), b""), SendPacket(Pubrel(packet.packet_id))]
        return [SendPacket(Pubrel(packet.packet_id))]

    def _on_pubcomp(self, packet: Pubcomp) -> list[Effect]:
        found = self._in_flight.get(packet.packet_id)
        if not isinstance(found, int):
            return []  # the answer to a PUBREL for what we did not know
        return self._finish(packet.packet_id, found)

    def _finish(self, identifier: int, number: int, refused: str = "") -> list[Effect]:
        del self._in_flight[identifier]
        return [Done(number, refused), *self._send_waiting()]

    def _why_refused(self, packet: Puback | Pubrec) -> str:
        code = packet.reason_code
        is_there = (
            code == ReasonCode.PACKET_IDENTIFIER_IN_USE and type(packet) is Pubrec
        )  # from before the connection broke
        is_refused = code >= ReasonCode.UNSPECIFIED_ERROR and not is_there
        return _words(packet.reason_code, self.level, packet.properties) if is_refused else ""

    # ------------------------------------------------------------ incoming

    def on_packet(self, packet: Packet) -> list[Effect]:
        """The server has said this. `MqttFault`: it may not. (rule 4)"""
        handler = self._handlers.get(type(packet))
        if handler is None:
            raise MqttFault(ReasonCode.PROTOCOL_ERROR, f"the server sent {type(packet).__name__.upper()}")
        return handler(packet)

    def _on_publish(self, packet: Publish) -> list[Effect]:
        if packet.qos == 0:
            return [TakeMessage(packet)]
        identifier = packet.packet_id
        if packet.qos == 1:
            return [TakeMessage(packet), SendPacket(Puback(identifier))]
        if identifier in self._received:  # it came before
            return [SendPacket(Pubrec(identifier))]
        if len(self._received) >= RECEIVE_MAXIMUM:
            raise MqttFault(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, f"over {RECEIVE_MAXIMUM} messages are not released")
        self._received.add(identifier)
        return [TakeMessage(packet), StoreNote(f"{IN}{identifier}", b""), SendPacket(Pubrec(identifier))]

    def _on_pubrel(self, packet: Pubrel) -> list[Effect]:
        identifier = packet.packet_id
        if identifier not in self._received:
            return [SendPacket(Pubcomp(identifier, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))]
        self._received.discard(identifier)
        return [StoreNote(f"{IN}{identifier}", None), SendPacket(Pubcomp(identifier))]

    def _on_suback(self, packet: Suback) -> list[Effect]:
        if packet.packet_id != SUBSCRIBE_ID or len(packet.reason_codes) != len(self._asked):
            raise MqttFault(ReasonCode.PROTOCOL_ERROR, "SUBACK does not answer our SUBSCRIBE")
        answers = zip(self._asked, packet.reason_codes, strict=True)
        failed = ReasonCode.UNSPECIFIED_ERROR
        return [SubscribeAnswered({asked.filter: _words(code, 5, {}) for asked, code in answers if code >= failed})]


def note_of(number: int) -> str:
    """The note that the server has a delivery."""
    return f"{OUT}{number}"


def connect_packet(
    level: int,
    client_id: str,
    keep_alive_s: int,
    expiry_s: int,
    user: str,
    password: bytes | None,
    size_max: int,
    *,
    is_clean: bool,
) -> Connect:
    """How a bridge introduces itself: it comes back to the session that it left, or ends it first."""
    properties: Properties = {
        "session_expiry_interval": expiry_s,
        "receive_maximum": RECEIVE_MAXIMUM,
        "maximum_packet_size": size_max,
    }
    return Connect(
        client_id,
        level,
        clean_start=is_clean,
        keep_alive=keep_alive_s,
        user_name=user or None,
        password=password,
        properties=properties if level == 5 else {},
    )


def _identifier(number: int) -> int:
    """The packet identifier of a delivery."""
    return (number - 1) % IDENTIFIERS + 1


def _on_disconnect(packet: Disconnect) -> list[Effect]:
    raise MqttFault(packet.reason_code, f"the server disconnects: {_words(packet.reason_code, 5, packet.properties)}")


def _words(code: int, level: int, properties: Properties) -> str:
    """A reason code as people say it, with what the server adds."""
    if level < 5:
        return RETURNED[code] if code < len(RETURNED) else f"code {code}"
    known = ReasonCode(code).name.lower().replace("_", " ") if code in set(ReasonCode) else f"code {code}"
    added = properties.get("reason_string", "")
    return f"{known} ({added})" if added else known
