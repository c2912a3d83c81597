"""Deliveries to an MQTT client over one connection: packet identifiers, windows, aliases, and what is confirmed.

*Theory.* A delivery waits in one queue, goes out when the client's window has room, and is done with at PUBACK or
PUBREC: the client has it then. Godwit confirms cumulatively, so the lowest delivery that is not done holds back the
others. What was sent and not answered on the last connection is *inherited*: Godwit sends it again, and it goes out
under its old packet identifier, marked DUP. Where Godwit has no more of it (it expired meanwhile) a QoS 2 identifier
is released all the same, so that the client may forget it; else a new event under that identifier would look like an
old one.

*Rules.*
1. A packet identifier in `kept.sent` is not given to another delivery.
2. At most `window` PUBLISH of QoS 1 and 2 are without their last answer [MQTT-4.9.0-1]. Deliveries go out in the order
   they came, those of QoS 0 too. [MQTT-4.6.0-6]
3. `kept.confirmed` rises only past deliveries that are done. `kept.done` holds what is done above it, and no more.
4. A packet longer than the client takes is not sent and counts as done. [MQTT-3.1.2-25]

*Departures.* The window is counted by identifier: PUBCOMP for a release of the last connection makes no room in it,
though the standard's quota [mqtt5 §4.9] would let it.

*Standard.* [mqtt5 §4.3, §4.4, §4.6, §4.9, §3.3.2.3].
"""

from collections import deque
from math import ceil

from godwit.errors import BadValue, MqttFault
from godwit.mqtt.encoding import encode
from godwit.mqtt.exchange import NEVER, Confirm, Deliver, Effect, GiveUp, Granted, Kept, Send, Sent
from godwit.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from godwit.mqtt.properties import Properties, protocol_error
from godwit.mqtt.topics import checked_name

__all__ = ["Outgoing"]

IDS_MAX = 65_535
RELEASED = 3  # the phase after PUBREC


class Outgoing:
    """What goes to a client on one connection."""

    def __init__(
        self, kept: Kept, connection: str, level: int, window: int, size_max: int, alias_max: int, queue_max: int
    ) -> None:
        self._kept = kept
        self._connection = connection
        self._level = level
        self._window = window
        self._in_window: dict[int, bool] = {}  # packet identifiers sent on this connection, without their last answer
        self._size_max = size_max
        self._alias_max = alias_max
        self._queue_max = queue_max
        self._aliases: dict[str, int] = {}
        self._waiting: deque[Deliver] = deque()
        self._open: dict[int, bool] = {}  # taken on this connection and not done, in order
        self._highest = kept.confirmed
        self._id_of = {sent.number: packet_id for packet_id, sent in kept.sent.items() if sent.phase != RELEASED}
        self._inherited = deque(sorted(self._id_of))

    def resume(self) -> list[Effect]:
        """Release again what was released on the last connection. [MQTT-4.4.0-1]"""
        return [self._pubrel(packet_id) for packet_id, sent in self._kept.sent.items() if sent.phase == RELEASED]

    def take(self, delivery: Deliver, now: float) -> list[Effect]:
        """An event for the client."""
        number, kept = delivery.number, self._kept
        if number in self._open:
            return []
        if number <= kept.confirmed:
            return [Confirm(kept.confirmed)]
        is_done = number in kept.done  # though not confirmed: the client has it
        if not is_done:
            self._open[number] = True
        self._highest = max(self._highest, number)
        effects: list[Effect] = []
        while self._inherited and self._inherited[0] <= number:
            gone = self._inherited.popleft()
            if gone < number and gone in self._id_of:  # and the client has not answered late
                effects += self._vanished(gone)
        if is_done:
            return effects + self._done(number)
        if len(self._waiting) >= self._queue_max:
            return effects + self._give_up(number, f"{self._queue_max} deliveries wait already")
        self._waiting.append(delivery)
        return effects + self.pump(now)

    def pump(self, now: float) -> list[Effect]:
        """Send what waits, as far as the window allows."""
        effects: list[Effect] = []
        waiting, standing = self._waiting, self._kept.subscriptions
        while waiting:
            delivery = waiting[0]
            number = delivery.number
            packet_id = self._id_of.get(number, 0)
            grants = [standing[name] for name in delivery.subscriptions if name in standing]
            if packet_id:
                qos = self._kept.sent[packet_id].phase
            else:
                qos = delivery.qos and min(delivery.qos, max([grant.qos for grant in grants], default=0))
            if qos and (len(self._in_window) >= self._window or (not packet_id and len(self._kept.sent) >= IDS_MAX)):
                break
            waiting.popleft()
            if not grants and not packet_id:
                effects += self._give_up(number, "its subscriptions have ended")
            elif delivery.expires_at is not None and now >= delivery.expires_at and not packet_id:
                effects += self._give_up(number, "it expired")
            else:
                effects += self._send(delivery, qos, packet_id, grants, now)
        return effects

    def _send(self, delivery: Deliver, qos: int, known_id: int, grants: list[Granted], now: float) -> list[Effect]:
        number, topic = delivery.number, delivery.topic
        packet_id = known_id or (self._fresh_id() if qos else 0)
        retain = delivery.is_retained or (delivery.retain and any(grant.retain_as_published for grant in grants))
        properties: Properties = {}
        alias = 0
        if self._level == 5:
            properties = self._properties(delivery, grants, now)
            alias = self._aliases.get(topic, 0)
            if alias:
                topic = ""
            elif len(self._aliases) < self._alias_max:
                alias = len(self._aliases) + 1
            if alias:
                properties["topic_alias"] = alias
        try:
            checked_name(delivery.topic)
            data = encode(
                Publish(topic, delivery.payload, qos, retain, known_id != 0, packet_id, properties), self._level
            )
        except (BadValue, MqttFault, UnicodeEncodeError) as error:  # a native client's event: topics are texts there
            return self._unsendable(number, known_id, f"MQTT cannot say it: {error}")
        if len(data) > self._size_max:
            return self._unsendable(number, known_id, f"{len(data)} bytes: the client takes {self._size_max}")
        if alias and topic:
            self._aliases[topic] = alias
        send = Send(self._connection, data)
        if not qos:
            return [send, *self._done(number)]
        self._in_window[packet_id] = True
        self._id_of[number] = packet_id
        self._kept.sent[packet_id] = Sent(number, qos)
        return [send]

    def _properties(self, delivery: Deliver, grants: list[Granted], now: float) -> Properties:
        properties = dict(delivery.properties)
        if delivery.expires_at is not None:
            properties["message_expiry_interval"] = min(
                max(0, ceil(delivery.expires_at - now)), NEVER
            )  # [MQTT-3.3.2-6]
        identifiers = [grant.identifier for grant in grants if grant.identifier]
        if identifiers:
            properties["subscription_identifier"] = tuple(dict.fromkeys(identifiers))  # [MQTT-3.3.4-3], [MQTT-3.3.4-4]
        return properties

    def _fresh_id(self) -> int:
        packet_id = self._kept.next_id
        while packet_id in self._kept.sent:
            packet_id = packet_id % IDS_MAX + 1
        self._kept.next_id = packet_id % IDS_MAX + 1
        return packet_id

    # ------------------------------------------------------------ answers

    def on_puback(self, packet: Puback, now: float) -> list[Effect]:
        """The client has a QoS 1 event, or refuses it."""
        sent = self._kept.sent.get(packet.packet_id)
        if sent is None:
            return []
        if sent.phase != 1:
            protocol_error(f"PUBACK for {packet.packet_id}, which is QoS 2")
        self._free(packet.packet_id)
        return self._done(sent.number) + self.pump(now)

    def on_pubrec(self, packet: Pubrec, now: float) -> list[Effect]:
        """The client has a QoS 2 event, or refuses it. It may say so again."""
        packet_id = packet.packet_id
        sent = self._kept.sent.get(packet_id)
        is_refused = packet.reason_code >= 0x80
        if sent is None:
            return [] if is_refused else [self._pubrel(packet_id)]
        if sent.phase == 1:
            protocol_error(f"PUBREC for {packet_id}, which is QoS 1")
        if is_refused and sent.phase == 2:
            self._free(packet_id)
            return self._done(sent.number) + self.pump(now)
        return [*self._released(packet_id), self._pubrel(packet_id)]

    def on_pubcomp(self, packet: Pubcomp, now: float) -> list[Effect]:
        """The client has forgotten a packet identifier."""
        sent = self._kept.sent.get(packet.packet_id)
        if sent is None:
            return []
        if sent.phase != RELEASED:
            protocol_error(f"PUBCOMP for {packet.packet_id}, which was not released")
        self._free(packet.packet_id)
        return self.pump(now)

    # ------------------------------------------------------------ what is done

    def _pubrel(self, packet_id: int) -> Send:
        return Send(self._connection, encode(Pubrel(packet_id), self._level))

    def _free(self, packet_id: int) -> None:
        sent = self._kept.sent.pop(packet_id)
        if sent.phase != RELEASED:
            self._id_of.pop(sent.number, None)
        self._in_window.pop(packet_id, None)

    def _released(self, packet_id: int) -> list[Effect]:
        sent = self._kept.sent[packet_id]
        if sent.phase == RELEASED:
            return []
        self._id_of.pop(sent.number, None)
        del self._kept.sent[packet_id]  # so that releases stand in their own order [MQTT-4.6.0-4]
        self._kept.sent[packet_id] = Sent(sent.number, RELEASED)
        return self._done(sent.number)

    def _vanished(self, number: int) -> list[Effect]:
        """An inherited delivery that Godwit has no more."""
        packet_id = self._id_of[number]
        if self._kept.sent[packet_id].phase == 1:
            del self._kept.sent[packet_id], self._id_of[number]
            return self._done(number)
        return [*self._released(packet_id), self._pubrel(packet_id)]

    def _unsendable(self, number: int, known_id: int, reason: str) -> list[Effect]:
        gone = self._vanished(number) if known_id else []
        return gone + self._give_up(number, reason)

    def _give_up(self, number: int, reason: str) -> list[Effect]:
        return [GiveUp(number, reason), *self._done(number)]

    def _done(self, number: int) -> list[Effect]:
        kept = self._kept
        self._open.pop(number, None)
        confirmed = next(iter(self._open)) - 1 if self._open else self._highest
        if number > confirmed:
            kept.done[number] = True
        if confirmed <= kept.confirmed:
            return []
        kept.confirmed = confirmed
        if kept.done:
            for each in [each for each in kept.done if each <= confirmed]:
                del kept.done[each]
        return [Confirm(confirmed)]
