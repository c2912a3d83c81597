"""The server's side of one MQTT client: a pure machine over its connections and what outlives them.

*Theory.* There is one machine per client identifier and gateway. A connection begins as a *candidate*: its CONNECT was
read, and the gateway is asked to attach (who is this, and where is its session?). Packets it sends meanwhile wait. Once
attached it is *the* connection; one that was there before is told that it was taken over. So a stranger who knows a
client's identifier cannot disturb it. What arrives turns into effects; `outgoing` has the other direction.

    away ──Opened──▶ candidate ──Attached──▶ connected ──Disconnect, Closed, fault, Stop──▶ away ──expiry──▶ forgotten
                         └──Refused, Closed──▶ away

*Rules.*
1. A publication of QoS 2 is asked for once by number: its packet identifier is remembered from PUBLISH to PUBREL, and a
   second PUBLISH under it changes nothing [MQTT-4.3.3-10]. An answer (PUBACK, PUBREC) goes out only after `Accepted`.
2. A fault closes the connection, at level 5 after a DISCONNECT with its reason; the session stays.
3. The will is published when a connection ends without DISCONNECT or with one that says so, after its delay, but not
   later than the end of the session, and not when the client is back before. [MQTT-3.1.3-9]
4. A session ends when its expiry has passed since its connection ended, or by a clean start. [mqtt5 §4.1]
5. Keep alive is looked at when its timer is due: 1.5 times the interval after the last packet. [MQTT-3.1.2-22]
6. Words (reason strings) go only to clients that did not decline them, and only where they fit. [MQTT-3.4.2-2]

*Standard.* [mqtt5 §3, §4], [mqtt311 §3, §4].

*Departures.* PUBREL and PUBCOMP for an identifier that nobody knows answer with success: that happens after every lost
PUBCOMP. A DISCONNECT with a code that only servers may send ends the connection like any other with an error. At levels
3 and 4 a publication that is refused is acknowledged all the same, for they have no word for it. [mqtt311 §3.3.5]
"""

from collections.abc import Callable
from typing import Any

import msgspec

from godwit.broker.effects import StartTimer, StopTimer, TimerDue
from godwit.errors import MqttFault
from godwit.languages.client_queries import ParseClientQuery, client_query
from godwit.mqtt.connect_refusal import packet_with_reason
from godwit.mqtt.loss_notice import told_of_loss, told_receipt
from godwit.mqtt.mqtt_effects import (
    NEVER,
    Accepted,
    Acknowledged,
    AddSubscriptions,
    AllAccepted,
    Attach,
    Attached,
    Close,
    Closed,
    Deliver,
    DiscardSession,
    Drained,
    Effect,
    EndSubscriptions,
    Faulted,
    Heard,
    Input,
    MqttSettings,
    Opened,
    PersistentState,
    PublishEvent,
    PublishWill,
    Refused,
    Send,
    Stop,
    StoreNote,
    Subscribed,
    Withheld,
)
from godwit.mqtt.outgoing_deliveries import OutgoingDeliveries
from godwit.mqtt.packet_decoder import SIZE_MAX
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from godwit.mqtt.properties import Properties, protocol_error
from godwit.mqtt.reason_codes import ALLOWED, ReasonCode, return_code
from godwit.mqtt.session_notes import in_key
from godwit.mqtt.subscribe_requests import SubscribeRequests

__all__ = ["MqttSession"]

KEEP_ALIVE = ("keep alive",)
WILL = ("will",)
EXPIRY = ("expiry",)
PUBACK_BYTES = 4
DISCONNECT_BY_CLIENT = frozenset({0x00, 0x04, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)})


class PendingConnection(msgspec.Struct):
    """A connection that is not attached yet, and what it has sent."""

    connect: Connect
    client_id: str
    is_clean: bool
    early: list[Heard] = []


class AttachedConnection(msgspec.Struct):
    """The connection that stands, and what was agreed on it."""

    name: str
    connect: Connect
    outgoing: OutgoingDeliveries
    size_max: int  # bytes that the client takes in a packet
    keep_alive_s: int
    heard_at: float
    aliases: dict[int, str] = {}
    receiving: dict[int, bool] = {}  # packet identifiers of publications of QoS 1 and 2 under way

    @property
    def level(self) -> int:
        return self.connect.level


class MqttSession:
    """The protocol with one MQTT client."""

    def __init__(
        self, settings: MqttSettings, kept: PersistentState | None = None, parse: ParseClientQuery = client_query
    ) -> None:
        self.kept = kept or PersistentState()
        self._settings = settings
        self._candidates: dict[str, PendingConnection] = {}
        self._connection: AttachedConnection | None = None
        self._will: Will | None = None
        self._expiry_s = 0
        self._asked: dict[int, tuple[int, int]] = {}  # publications without an answer: packet identifier and QoS
        self._subscribing = SubscribeRequests(settings, parse)

    @property
    def connection(self) -> str | None:
        """The name of the connection that stands."""
        return self._connection.name if self._connection else None

    @property
    def outgoing(self) -> OutgoingDeliveries | None:
        """What goes to the client, for gateways in a hurry (`OutgoingDeliveries.quick`)."""
        return self._connection.outgoing if self._connection else None

    @property
    def expiry_s(self) -> int:
        """For how long the session stays when its connection has ended."""
        return self._expiry_s

    def handle(self, input: Input, now: float) -> list[Effect]:
        """What follows from an input. `now` is in seconds and never goes back."""
        try:
            return _HANDLERS[type(input)](self, input, now)
        except MqttFault as fault:
            return self._fail(fault.reason_code, fault.text, now)

    # ------------------------------------------------------------ coming

    def _on_opened(self, input: Opened, now: float) -> list[Effect]:
        connect = input.connect
        is_clean = connect.clean_start or (self._connection is not None and self._expiry_s == 0)  # it ends on takeover
        self._candidates[input.connection] = PendingConnection(connect, input.client_id, is_clean)
        return [Attach(input.connection, input.client_id, is_clean, self._expiry_of(connect), connect)]

    def _expiry_of(self, connect: Connect) -> int:
        if connect.level == 5:
            wanted: int = connect.properties.get("session_expiry_interval", 0)
        else:
            wanted = 0 if connect.clean_start else NEVER
        return min(wanted, self._settings.session_expiry_max_s)

    def _on_refused(self, input: Refused, now: float) -> list[Effect]:
        candidate = self._candidates.pop(input.connection, None)
        if candidate is None:
            return []
        level, code = candidate.connect.level, input.reason_code
        properties: Properties = {"server_reference": input.server_reference} if input.server_reference else {}
        connack = Connack(code if level == 5 else return_code(code), False, properties)
        data = packet_with_reason(connack, input.reason, candidate.connect, self._settings)
        return [*([Send(input.connection, data)] if data else []), Close(input.connection, input.reason or "refused")]

    def _on_attached(self, input: Attached, now: float) -> list[Effect]:
        candidate = self._candidates.pop(input.connection, None)
        if candidate is None:
            return []
        connect, settings = candidate.connect, self._settings
        is_present = input.is_present and not candidate.is_clean
        effects: list[Effect] = []
        if self._connection is not None:
            effects += self._taken_over(is_present, now)
        elif self._will is not None and not is_present:
            effects += self._publish_will()  # the session it belongs to has ended
        self._will = connect.will
        if not is_present or input.kept is not None:
            self._renew(input.kept if is_present else None)
        self._expiry_s = self._expiry_of(connect)
        keep_alive_s = connect.keep_alive
        if connect.level == 5 and settings.keep_alive_max_s:
            keep_alive_s = min(keep_alive_s or settings.keep_alive_max_s, settings.keep_alive_max_s)
        said = connect.properties.get
        size_max = said("maximum_packet_size", SIZE_MAX)
        outgoing = OutgoingDeliveries(
            self.kept,
            input.connection,
            connect.level,
            min(said("receive_maximum", 65_535), settings.in_flight_max),
            size_max,
            min(said("topic_alias_maximum", 0), settings.topic_aliases_out_max),
            settings.queue_max,
            input.doubtful if is_present else 0,
            settings.unread_bytes_max,
        )
        self._connection = AttachedConnection(input.connection, connect, outgoing, size_max, keep_alive_s, now)
        connack = Connack(0, is_present, self._offer(candidate) if connect.level == 5 else {})
        data = encode(connack, connect.level)
        if input.receipt and is_present and connect.level == 5:
            with_receipt = told_receipt(connack, input.receipt)
            told = encode(with_receipt, 5)
            connack, data = (with_receipt, told) if len(told) <= size_max else (connack, data)
        if input.lost_since is not None and is_present and connect.level == 5:
            told = told_of_loss(connack, input.lost_since, settings)
            data = told if len(told) <= size_max else data  # [MQTT-3.2.2-19], [MQTT-3.2.2-20]
        effects += [StopTimer(WILL), StopTimer(EXPIRY)]
        if len(data) > size_max:
            return [*effects, Close(input.connection, "CONNACK is longer than it takes"), *self._gone(now, True)]
        effects.append(Send(input.connection, data))
        if keep_alive_s:
            effects.append(StartTimer(KEEP_ALIVE, now + 1.5 * keep_alive_s))
        effects += outgoing.resume()
        for heard in candidate.early:
            effects += self.handle(heard, now)
        return effects

    def _offer(self, candidate: PendingConnection) -> Properties:
        """What CONNACK says of this server, where it is not what a client assumes anyway. [mqtt5 §3.2.2.3]"""
        settings, connect = self._settings, candidate.connect
        offer: Properties = {}
        if settings.topic_alias_maximum:
            offer["topic_alias_maximum"] = settings.topic_alias_maximum
        if settings.receive_maximum < 65_535:
            offer["receive_maximum"] = settings.receive_maximum
        if settings.maximum_packet_size < SIZE_MAX:
            offer["maximum_packet_size"] = settings.maximum_packet_size
        if not connect.client_id:
            offer["assigned_client_identifier"] = candidate.client_id
        if self._expiry_s != connect.properties.get("session_expiry_interval", 0):
            offer["session_expiry_interval"] = self._expiry_s
        if self._connection is not None and self._connection.keep_alive_s != connect.keep_alive:
            offer["server_keep_alive"] = self._connection.keep_alive_s
        return offer

    def _taken_over(self, is_present: bool, now: float) -> list[Effect]:
        """The client is here again. Of the connection that stood, the will counts unless it has a delay to wait out."""
        connection, will = self._connection, self._will
        assert connection is not None
        effects = self._good_bye(connection, ReasonCode.SESSION_TAKEN_OVER, "the client has connected again")
        if will is not None and not (is_present and will.properties.get("will_delay_interval", 0)):
            effects += self._publish_will()  # [mqtt5 §3.1.4, step 3]
        self._connection = None
        return effects

    # ------------------------------------------------------------ going

    def _on_closed(self, input: Closed, now: float) -> list[Effect]:
        self._candidates.pop(input.connection, None)
        return self._gone(now, True) if input.connection == self.connection else []

    def _on_faulted(self, input: Faulted, now: float) -> list[Effect]:
        if self._candidates.pop(input.connection, None) is not None:
            return [Close(input.connection, input.text)]
        return self._fail(input.reason_code, input.text, now) if input.connection == self.connection else []

    def _on_stop(self, input: Stop, now: float) -> list[Effect]:
        if self._connection is None:
            return []
        properties: Properties = {"server_reference": input.server_reference} if input.server_reference else {}
        effects = self._good_bye(self._connection, input.reason_code, input.reason, properties)
        return effects + self._gone(now, True)

    def _fail(self, reason_code: int, text: str, now: float) -> list[Effect]:
        """The client broke the protocol: say so, close, and keep the session. [mqtt5 §4.13]"""
        if self._connection is None:
            return []
        return self._good_bye(self._connection, reason_code, text) + self._gone(now, True)

    def _good_bye(
        self, connection: AttachedConnection, reason_code: int, text: str, properties: Properties | None = None
    ) -> list[Effect]:
        effects: list[Effect] = []
        if connection.level == 5:
            code = reason_code if reason_code in ALLOWED["Disconnect"] else ReasonCode.PROTOCOL_ERROR
            data = packet_with_reason(Disconnect(code, properties or {}), text, connection.connect, self._settings)
            effects += [Send(connection.name, data)] if data else []
        return [*effects, Close(connection.name, text)]

    def _gone(self, now: float, has_will: bool) -> list[Effect]:
        """The connection has ended."""
        self._connection = None
        for number in [number for number, (_, qos) in self._asked.items() if qos == 1]:
            del self._asked[number]  # the client sends it again
        effects: list[Effect] = [StopTimer(KEEP_ALIVE)]
        if not has_will:
            self._will = None
        if self._will is not None:
            delay_s = min(self._will.properties.get("will_delay_interval", 0), self._expiry_s)
            effects += [StartTimer(WILL, now + delay_s)] if delay_s else self._publish_will()
        if self._expiry_s == 0:
            return effects + self._over()
        if self._expiry_s < NEVER:
            effects.append(StartTimer(EXPIRY, now + self._expiry_s))
        return effects

    def _over(self) -> list[Effect]:
        will = [StopTimer(WILL), *self._publish_will()] if self._will is not None else []
        self._renew(None)
        return [*will, DiscardSession()]

    def _renew(self, kept: PersistentState | None) -> None:
        """Go on with another state: that of another gateway, or none."""
        self.kept, self._asked = kept or PersistentState(), {}
        self._subscribing.clear()

    def _publish_will(self) -> list[Effect]:
        will, self._will = self._will, None
        assert will is not None
        kept = {name: value for name, value in will.properties.items() if name != "will_delay_interval"}
        return [PublishWill(msgspec.structs.replace(will, properties=kept))]

    def _on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        connection = self._connection
        if input.key == KEEP_ALIVE and connection is not None and connection.keep_alive_s:
            ends_at = connection.heard_at + 1.5 * connection.keep_alive_s
            if now < ends_at:
                return [StartTimer(KEEP_ALIVE, ends_at)]
            return self._fail(ReasonCode.KEEP_ALIVE_TIMEOUT, "no packet was received for too long", now)
        if input.key == WILL and connection is None and self._will is not None:
            return self._publish_will()
        if input.key == EXPIRY and connection is None:
            return self._over()
        return []

    # ------------------------------------------------------------ what the client says

    def _on_heard(self, input: Heard, now: float) -> list[Effect]:
        connection = self._connection
        if connection is None or input.connection != connection.name:
            return self._on_early(input)
        connection.heard_at = now
        handler = _PACKETS.get(type(input.packet))
        if handler is None:
            protocol_error(f"a client may not send {type(input.packet).__name__} here")
        return handler(self, connection, input.packet, now)

    def _on_early(self, input: Heard) -> list[Effect]:
        candidate = self._candidates.get(input.connection)
        if candidate is None:
            return []
        candidate.early.append(input)
        if len(candidate.early) > self._settings.packets_before_connack_max:
            del self._candidates[input.connection]
            return [Close(input.connection, "too many packets before CONNACK")]
        return []

    def _publish(self, connection: AttachedConnection, packet: Publish, now: float) -> list[Effect]:
        """[mqtt5 §3.3.4, §4.3]"""
        topic, properties, qos, packet_id = packet.topic, packet.properties, packet.qos, packet.packet_id
        if properties:
            topic, properties = self._unaliased(connection, topic, properties)
        if qos == 0:
            return [PublishEvent(0, topic, packet.payload, 0, packet.retain, properties)]
        connection.receiving[packet_id] = True
        if connection.level == 5 and len(connection.receiving) > self._settings.receive_maximum:
            raise MqttFault(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._settings.receive_maximum} under way"
            )
        number = 0
        if qos == 2 and packet_id in self.kept.received:
            number = self.kept.received[packet_id]
            if number == 0:
                return self._tell(Pubrec(packet_id))
            if number in self._asked:
                return []  # rule 1: its answer is on the way
        if number == 0:
            self.kept.published += 1
            number = self.kept.published
        self._asked[number] = (packet_id, qos)
        publish = PublishEvent(number, topic, packet.payload, qos, packet.retain, properties)
        if qos == 1:
            return [publish]
        if len(self.kept.received) >= self._settings.received_max:
            raise MqttFault(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, f"{self._settings.received_max} are not released")
        self.kept.received[packet_id] = number
        return [StoreNote(in_key(packet_id), b""), publish]

    def _unaliased(self, connection: AttachedConnection, topic: str, properties: Properties) -> tuple[str, Properties]:
        """The topic that is meant, and the properties to carry on. [mqtt5 §3.3.2.3.4]"""
        if "subscription_identifier" in properties:
            protocol_error("a client may not send subscription identifiers")  # [MQTT-3.3.4-6]
        alias = properties.get("topic_alias")
        if alias is None:
            return topic, properties
        if alias > self._settings.topic_alias_maximum:
            raise MqttFault(
                ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias}: at most {self._settings.topic_alias_maximum}"
            )
        if topic:
            connection.aliases[alias] = topic
        elif alias in connection.aliases:
            topic = connection.aliases[alias]
        else:
            protocol_error(f"topic alias {alias} is not known")
        return topic, {name: value for name, value in properties.items() if name != "topic_alias"}

    def _on_accepted(self, input: Accepted, now: float) -> list[Effect]:
        packet_id, qos = self._asked.pop(input.number, (0, 0))
        is_refused = input.reason_code >= 0x80
        effects: list[Effect] = []
        if qos == 2:
            if is_refused:
                self.kept.received.pop(packet_id, None)
                effects.append(StoreNote(in_key(packet_id), None))
            else:
                self.kept.received[packet_id] = 0
        connection = self._connection
        if connection is None or packet_id not in connection.receiving:
            return effects  # the client will ask again
        if qos == 1 or is_refused:
            del connection.receiving[packet_id]
        answer = Puback(packet_id, input.reason_code) if qos == 1 else Pubrec(packet_id, input.reason_code)
        return effects + self._tell(answer, input.reason)

    def _on_all_accepted(self, input: AllAccepted, now: float) -> list[Effect]:
        """Most often all are of QoS 1, and the answer is all their PUBACKs in one."""
        connection, asked = self._connection, self._asked
        effects: list[Effect] = []
        packet_ids: list[int] = []
        for number in input.numbers:
            packet_id, qos = asked.get(number, (0, 0))
            if qos == 1 and connection is not None and connection.receiving.pop(packet_id, False):
                del asked[number]
                packet_ids.append(packet_id)
            else:
                effects += self._on_accepted(Accepted(number), now)
        if connection is not None and packet_ids and connection.size_max >= PUBACK_BYTES:
            data = b"".join([b"\x40\x02%c%c" % (packet_id >> 8, packet_id & 0xFF) for packet_id in packet_ids])
            effects.append(Send(connection.name, data))
        return effects

    def quick(self, packet: Publish, now: float) -> int | None:
        """Take in a publication where nothing is special, as `Heard` would; None: it is for that.

        The answer is the number of the `PublishEvent` that would follow, which is this packet's in all else.
        """
        connection, qos = self._connection, packet.qos
        if connection is None or packet.properties or qos == 2:
            return None
        if not qos:
            connection.heard_at = now
            return 0
        receiving, packet_id = connection.receiving, packet.packet_id
        if len(receiving) >= self._settings.receive_maximum or packet_id in receiving:
            return None
        connection.heard_at = now
        receiving[packet_id] = True
        self.kept.published = number = self.kept.published + 1
        self._asked[number] = (packet_id, 1)
        return number

    def _pubrel(self, connection: AttachedConnection, packet: Pubrel, now: float) -> list[Effect]:
        if self.kept.received.get(packet.packet_id):
            protocol_error(f"PUBREL for {packet.packet_id} before its PUBREC")
        was_known = self.kept.received.pop(packet.packet_id, None) is not None
        connection.receiving.pop(packet.packet_id, None)
        forgotten: list[Effect] = [StoreNote(in_key(packet.packet_id), None)] if was_known else []
        return forgotten + self._tell(Pubcomp(packet.packet_id))

    def _puback(self, connection: AttachedConnection, packet: Puback, now: float) -> list[Effect]:
        return connection.outgoing.on_puback(packet, now)

    def _on_acknowledged(self, input: Acknowledged, now: float) -> list[Effect]:
        connection = self._connection
        if connection is None or input.connection != connection.name:
            return [effect for id in input.packet_ids for effect in self._on_early(Heard(input.connection, Puback(id)))]
        connection.heard_at = now
        effects, fault = connection.outgoing.on_pubacks(input.packet_ids, now)
        return effects + self._fail(ReasonCode.PROTOCOL_ERROR, fault, now) if fault else effects

    def _pubrec(self, connection: AttachedConnection, packet: Pubrec, now: float) -> list[Effect]:
        return connection.outgoing.on_pubrec(packet, now)

    def _pubcomp(self, connection: AttachedConnection, packet: Pubcomp, now: float) -> list[Effect]:
        return connection.outgoing.on_pubcomp(packet, now)

    def _on_deliver(self, input: Deliver, now: float) -> list[Effect]:
        if self._connection is None:
            return []  # Godwit keeps it
        return self._connection.outgoing.take(input, now)

    def _on_withheld(self, input: Withheld, now: float) -> list[Effect]:
        return [] if self._connection is None else self._connection.outgoing.withhold(input.numbers, now)

    def _on_drained(self, input: Drained, now: float) -> list[Effect]:
        connection = self._connection
        return [] if connection is None or input.connection != connection.name else connection.outgoing.on_drained(now)

    def _pingreq(self, connection: AttachedConnection, packet: Pingreq, now: float) -> list[Effect]:
        return self._tell(Pingresp())

    def _disconnect(self, connection: AttachedConnection, packet: Disconnect, now: float) -> list[Effect]:
        """[mqtt5 §3.14.4]"""
        expiry_s = packet.properties.get("session_expiry_interval")
        if expiry_s is not None and packet.reason_code in DISCONNECT_BY_CLIENT:
            if expiry_s and not connection.connect.properties.get("session_expiry_interval", 0):
                protocol_error(
                    "a session that was to end with its connection cannot be prolonged"
                )  # [mqtt5 §3.14.2.2.2]
            self._expiry_s = min(expiry_s, self._settings.session_expiry_max_s)
        return [Close(connection.name, "the client disconnected"), *self._gone(now, packet.reason_code != 0)]

    # ------------------------------------------------------------ subscriptions

    def _subscribe(self, connection: AttachedConnection, packet: Subscribe, now: float) -> list[Effect]:
        asked = self._subscribing.ask(self.kept, connection.name, packet)
        return [asked] if isinstance(asked, AddSubscriptions) else self._tell(*asked)

    def _on_subscribed(self, input: Subscribed, now: float) -> list[Effect]:
        answer = self._subscribing.answer(self.kept, input)
        return self._tell(answer[1], input.reason) if answer and answer[0] == self.connection else []

    def _unsubscribe(self, connection: AttachedConnection, packet: Unsubscribe, now: float) -> list[Effect]:
        """[mqtt5 §3.10.4]"""
        ended: list[str] = []
        codes: list[int] = []
        for filter in packet.filters:
            if self.kept.subscriptions.pop(filter, None) is None:
                codes.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
            else:
                codes.append(ReasonCode.SUCCESS)
                ended.append(filter)
        ending: list[Effect] = [EndSubscriptions(tuple(ended))] if ended else []
        return ending + self._tell(Unsuback(packet.packet_id, tuple(codes)))

    # ------------------------------------------------------------ saying it

    def _tell(self, packet: Packet, reason: str = "") -> list[Effect]:
        connection = self._connection
        if connection is None:
            return []
        data = packet_with_reason(packet, reason, connection.connect, self._settings)
        return [Send(connection.name, data)] if data else []


_HANDLERS: dict[type, Callable[[MqttSession, Any, float], list[Effect]]] = {
    Opened: MqttSession._on_opened,
    Attached: MqttSession._on_attached,
    Refused: MqttSession._on_refused,
    Heard: MqttSession._on_heard,
    Faulted: MqttSession._on_faulted,
    Closed: MqttSession._on_closed,
    Stop: MqttSession._on_stop,
    Acknowledged: MqttSession._on_acknowledged,
    Accepted: MqttSession._on_accepted,
    AllAccepted: MqttSession._on_all_accepted,
    Subscribed: MqttSession._on_subscribed,
    Deliver: MqttSession._on_deliver,
    Drained: MqttSession._on_drained,
    Withheld: MqttSession._on_withheld,
    TimerDue: MqttSession._on_timer_due,
}

_PACKETS: dict[type, Callable[[MqttSession, AttachedConnection, Any, float], list[Effect]]] = {
    Publish: MqttSession._publish,
    Puback: MqttSession._puback,
    Pubrec: MqttSession._pubrec,
    Pubrel: MqttSession._pubrel,
    Pubcomp: MqttSession._pubcomp,
    Subscribe: MqttSession._subscribe,
    Unsubscribe: MqttSession._unsubscribe,
    Pingreq: MqttSession._pingreq,
    Disconnect: MqttSession._disconnect,
}
