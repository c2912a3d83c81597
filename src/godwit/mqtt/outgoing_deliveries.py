"""Deliveries to an MQTT client over one connection: packet identifiers, windows, aliases, and what is confirmed.

*Theory.* A delivery waits in one queue, goes out when the client's window has room, and is done with at PUBACK or
PUBREC: the client has it then. Godwit confirms cumulatively, so the lowest delivery that is not done holds back the
others. The packet identifier of a delivery follows from its number, so what was sent and not answered goes out again
under the same one, on whatever connection and from whatever gateway. Only what the client has, and has not forgotten
(between PUBREC and PUBCOMP), must be written down. Where Godwit has no more of what may have been sent with QoS 2 (it
expired meanwhile), its identifier is released all the same, so that the client may forget it; else a new event under
that identifier would look like an old one.

*Rules.*
1. A packet identifier that is under way, or released and not forgotten, is not used for another delivery: that one
   waits, and what is behind it too.
2. At most `window` PUBLISH of QoS 1 and 2 are without their last answer [MQTT-4.9.0-1]. Deliveries go out in the order
   they came, those of QoS 0 too. [MQTT-4.6.0-6]
3. `kept.confirmed` rises only past deliveries that are done. `kept.done` holds what is done above it, and no more.
4. A packet longer than the client takes is not sent and counts as done. [MQTT-3.1.2-25]
5. What may have been sent on another connection is marked DUP. [MQTT-3.3.1-1] (The standard says *might*.)
6. Behind `queue_max` that wait, one of QoS 0 is given up. One of QoS 1 or 2 never is: a client may take as few at once
   as it likes (its Receive Maximum), and must get all. Godwit tells no more than its own window of what is unconfirmed.
   What waits because the client does not read (rule 8) is not given up here, of QoS 0 neither: the rules of its Godwit
   queue decide what goes.
7. What the client has forgotten (PUBCOMP) is not sent again, though something before it is open and a crash follows.
8. At most `unread_max` bytes of PUBLISH, and one packet more, are on their way to a client that does not read. The rest
   waits here until the driver reports that the client has read (`on_drained`).
9. What waits and must not be sent any more (`withhold`), because rights have ended, counts as done in its turn.

*Speed.* The bytes of an event for clients without aliases and identifiers are made once for each level, QoS and retain
flag, and kept in `Deliver.shared`: in two halves, between which the packet identifier goes. `quick` is the way of most
deliveries: it decides as `take` and `pump` do, without a list of effects.

*Departures.* The window is counted by identifier: PUBCOMP for a release of the last connection makes no room in it,
though the standard's quota [mqtt5 §4.9] would let it. PUBREC for an identifier that is not under way on this connection
waits for its delivery to go out again, if that may be sent before. After a crash nobody knows what was sent: then the
identifier of an event of QoS 2 that was sent, and expired before the client came back, is not released; the client may
take the event that has this identifier 65,535 deliveries later for an old one.

*Standard.* [mqtt5 §4.3, §4.4, §4.6, §4.9, §3.3.2.3].
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from math import ceil

from msgspec import structs

from godwit.broker.messages import Delivery
from godwit.errors import BadValue, MqttFault
from godwit.filters.events import Event
from godwit.mqtt.mqtt_effects import (
    NEVER,
    Confirm,
    Deliver,
    DropDelivery,
    Effect,
    Granted,
    Message,
    PersistentState,
    Send,
    StoreNote,
)
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from godwit.mqtt.properties import Properties, protocol_error, varint, write
from godwit.mqtt.session_notes import did_key, rel_key, rel_note
from godwit.mqtt.topics import checked_name

__all__ = ["OutgoingDeliveries"]

IDS_MAX = 65_535
TEXT_BYTES_MAX = 65_535
RELEASED = 3  # the phase after PUBREC
UNSAYABLE = (BadValue, MqttFault, UnicodeEncodeError)
GAP_MAX = 1_024  # deliveries that are gone, and are looked at one by one


class OutgoingDeliveries:
    """What goes to a client on one connection. `doubtful`: so many of the first may have been sent on another."""

    def __init__(
        self,
        kept: PersistentState,
        connection: str,
        level: int,
        window: int,
        size_max: int,
        alias_max: int,
        queue_max: int,
        doubtful: int = 0,
        unread_max: int = 4 * 2**20,
    ) -> None:
        self._kept = kept
        self._connection = connection
        self._level = level
        self._window = window
        self._size_max = size_max
        self._alias_max = alias_max
        self._queue_max = queue_max
        self._aliases: dict[str, int] = {}
        self._waiting: deque[Deliver] = deque()
        self._open: dict[int, bool] = {}  # taken on this connection and not done, in order
        self._under_way: dict[int, tuple[int, int]] = {}  # sent on this connection: by identifier, number and phase
        self._highest = kept.confirmed
        self._inherited_up_to = kept.sent_up_to  # may have been sent on another connection
        self._doubtful = doubtful
        self._stuck = 0  # the delivery that waits for the window, when it was last looked at
        self._unread_max = unread_max
        self.unread = 0  # bytes of PUBLISH that were put out since the client last had read all

    @property
    def level(self) -> int:
        """The protocol level of the client."""
        return self._level

    def resume(self) -> list[Effect]:
        """Release again what was released on the last connection. [MQTT-4.4.0-1]"""
        return [self._pubrel(packet_id) for packet_id in self._kept.released]

    def take(self, delivery: Deliver, now: float) -> list[Effect]:
        """An event for the client."""
        number, kept = delivery.number, self._kept
        if number in self._open:
            return []
        if number <= kept.confirmed:
            return [Confirm(kept.confirmed)]
        effects: list[Effect] = []
        if self._doubtful:
            self._doubtful -= 1
            self._inherited_up_to = max(self._inherited_up_to, number)
        if self._highest < self._inherited_up_to and self._highest < number - 1:
            effects += self._vanished(range(self._highest + 1, min(number, self._inherited_up_to + 1)))
        is_done = number in kept.done  # though not confirmed: the client has it
        self._highest = max(self._highest, number)
        if is_done:
            return effects + self._done(number)
        self._open[number] = True
        is_read = self.unread < self._unread_max
        if len(self._waiting) >= self._queue_max and is_read and not self._qos(delivery):  # rule 6
            return effects + self._give_up(number, f"{self._queue_max} deliveries wait already")
        self._waiting.append(delivery)
        return effects + self.pump(now)

    def _qos(self, delivery: Deliver) -> int:
        """With which QoS a delivery is to go out, as its subscriptions stand."""
        standing = self._kept.subscriptions
        return min(
            delivery.qos, max([standing[name].qos for name in delivery.subscriptions if name in standing] or [0])
        )

    def quick(
        self,
        deliveries: Sequence[Delivery],
        first: int,
        message_of: Callable[[Event], Message],
        exact: Container[str],
        out: list[bytes],
    ) -> int:
        """Put out packets for the deliveries from the `first` on, as far as nothing is special: that of the next one.

        So long it is what `take` would send, and nothing else; with QoS 0 a delivery is confirmed then. Other messages
        than deliveries are special, too. `exact`: subscriptions that want whatever comes because of them.
        """
        kept, level, last = self._kept, self._level, len(deliveries)
        if self._waiting or self._doubtful or self._highest < self._inherited_up_to:
            return first
        under_way, opened, size_max, window = self._under_way, self._open, self._size_max, self._window
        unread_max = self._unread_max
        name, granted_qos, keeps_retain = "", 0, False
        for at in range(first, last):
            delivery = deliveries[at]
            if type(delivery) is not Delivery or len(delivery.subscriptions) != 1:
                return at
            number, event = delivery.number, delivery.event
            if delivery.subscriptions[0] != name or not name:
                name = delivery.subscriptions[0]
                grant = kept.subscriptions.get(name)
                if grant is None or name not in exact or (level == 5 and (self._alias_max or grant.identifier)):
                    return at
                granted_qos, keeps_retain = grant.qos, grant.retain_as_published
            message = message_of(event)
            if number <= self._highest or event.expires_at is not None or len(message.topics) != 1:
                return at
            qos = min(granted_qos, message.qos)
            retain = message.is_retained or (message.retain and keeps_retain)
            halves = message.shared.get((level, qos, retain))
            if halves is None:
                try:
                    payload = message.payload_at(level)
                    halves = _halves(message.topics[0], payload, message.properties, qos, retain, level)
                except UNSAYABLE:
                    return at
                message.shared[level, qos, retain] = halves
            size = len(halves[0]) + len(halves[1]) + 2
            if size > size_max or self.unread >= unread_max:
                return at
            if not qos:
                if opened or kept.done:
                    return at
                self._highest = kept.confirmed = number
                self.unread += size
                out.append(halves[0])
                continue
            packet_id = (number - 1) % IDS_MAX + 1
            if len(under_way) >= window or packet_id in under_way or packet_id in kept.released:
                return at
            self._highest = kept.sent_up_to = number
            self.unread += size
            opened[number] = True
            under_way[packet_id] = (number, qos)
            out.append(b"%b%c%c%b" % (halves[0], packet_id >> 8, packet_id & 0xFF, halves[1]))
        return last

    def pump(self, now: float) -> list[Effect]:
        """Send what waits, as far as the window and the bytes that the client has not read allow."""
        waiting, standing = self._waiting, self._kept.subscriptions
        if waiting and waiting[0].number == self._stuck and len(self._under_way) >= self._window:
            return []
        effects: list[Effect] = []
        while waiting and self.unread < self._unread_max:
            delivery = waiting[0]
            number = delivery.number
            grants = [standing[name] for name in delivery.subscriptions if name in standing]
            qos = delivery.qos and min(delivery.qos, max([grant.qos for grant in grants], default=0))
            packet_id = 0
            if qos:
                packet_id = (number - 1) % IDS_MAX + 1
                if (
                    len(self._under_way) >= self._window
                    or packet_id in self._under_way
                    or packet_id in self._kept.released
                ):
                    self._stuck = number
                    break
            waiting.popleft()
            is_inherited = number <= self._inherited_up_to
            if not grants:
                gone = self._let_go(number) if is_inherited and delivery.qos == 2 else []
                reason = "its subscriptions have ended"
                effects += gone + (self._give_up(number, reason) if delivery.subscriptions else self._done(number))
            elif delivery.expires_at is not None and now >= delivery.expires_at and not (qos and is_inherited):
                effects += self._give_up(number, "it expired")
            else:
                effects += self._send(delivery, qos, packet_id, grants, now)
        return effects

    @property
    def waiting(self) -> Sequence[Deliver]:
        """The deliveries that have not been sent on this connection, in order."""
        return self._waiting

    def withhold(self, numbers: Iterable[int], now: float) -> list[Effect]:
        """Some of those that wait are for no subscription any more, and are done with in their turn. (rule 9)"""
        gone = frozenset(numbers)
        self._waiting = deque(
            structs.replace(each, subscriptions=(), payload=b"", event=None) if each.number in gone else each
            for each in self._waiting
        )
        self._stuck = 0
        return self.pump(now)

    def on_drained(self, now: float) -> list[Effect]:
        """The client has read all that was put out, or nearly so. (rule 8)"""
        self.unread = 0
        return self.pump(now)

    def _send(self, delivery: Deliver, qos: int, packet_id: int, grants: list[Granted], now: float) -> list[Effect]:
        number = delivery.number
        is_double = qos > 0 and number <= self._inherited_up_to
        retain = delivery.is_retained or (delivery.retain and any(grant.retain_as_published for grant in grants))
        try:
            data = self._bytes(delivery, qos, packet_id, grants, retain, is_double, now)
        except UNSAYABLE as error:  # a native client's event: topics are texts there
            return self._unsendable(delivery, qos, f"MQTT cannot carry it: {error}")
        if len(data) > self._size_max:
            return self._unsendable(delivery, qos, f"{len(data)} bytes: the client takes {self._size_max}")
        send = Send(self._connection, data)
        self.unread += len(data)
        if not qos:
            return [send, *self._done(number)]
        self._under_way[packet_id] = (number, qos)
        self._kept.sent_up_to = max(self._kept.sent_up_to, number)
        return [send]

    def _bytes(
        self,
        delivery: Deliver,
        qos: int,
        packet_id: int,
        grants: list[Granted],
        retain: bool,
        is_double: bool,
        now: float,
    ) -> bytes:
        shared, level, topic = delivery.shared, self._level, delivery.topic
        has_identifier = any(grant.identifier for grant in grants)
        is_common = (
            shared is not None
            and not is_double
            and (level < 5 or (not self._alias_max and not has_identifier and delivery.expires_at is None))
        )
        if is_common:
            assert shared is not None
            halves = shared.get((level, qos, retain))
            if halves is None:
                halves = _halves(topic, delivery.payload, delivery.properties, qos, retain, level)
                shared[level, qos, retain] = halves
            return halves[0] + packet_id.to_bytes(2, "big") + halves[1] if qos else halves[0]
        properties: Properties = {}
        alias = 0
        if level == 5:
            properties = self._properties(delivery, grants, now)
            alias = self._aliases.get(topic, 0)
            if alias:
                topic = ""
            elif len(self._aliases) < self._alias_max:
                alias = len(self._aliases) + 1
            if alias:
                properties["topic_alias"] = alias
        checked_name(delivery.topic)
        data = encode(Publish(topic, delivery.payload, qos, retain, is_double, packet_id, properties), level)
        if alias and topic and len(data) <= self._size_max:
            self._aliases[topic] = alias
        return data

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

    # ------------------------------------------------------------ answers

    def on_puback(self, packet: Puback, now: float) -> list[Effect]:
        """The client has a QoS 1 event, or refuses it."""
        number, phase = self._under_way.get(packet.packet_id, (0, 1))
        if phase != 1:
            protocol_error(f"PUBACK for {packet.packet_id}, which is QoS 2")
        if not number:
            return []
        del self._under_way[packet.packet_id]
        return self._done(number) + self.pump(now)

    def on_pubacks(self, packet_ids: list[int], now: float) -> tuple[list[Effect], str]:
        """The same for many in a row: one confirmation, one look at what waits; and the fault in it, if there is one.

        Packets before a fault count.
        """
        under_way, kept, fault = self._under_way, self._kept, ""
        done: list[int] = []
        for packet_id in packet_ids:
            number, phase = under_way.get(packet_id, (0, 1))
            if phase != 1:
                fault = f"PUBACK for {packet_id}, which is QoS 2"
                break
            if number:
                del under_way[packet_id]
                self._open.pop(number, None)
                done.append(number)
        if not done:
            return [], fault
        confirmed = next(iter(self._open)) - 1 if self._open else self._highest
        for number in done:
            if number > confirmed:
                kept.done[number] = True
        return self._confirm_up_to(confirmed) + self.pump(now), fault

    def on_pubrec(self, packet: Pubrec, now: float) -> list[Effect]:
        """The client has a QoS 2 event, or refuses it. It may say so again."""
        packet_id = packet.packet_id
        is_refused = packet.reason_code >= 0x80
        number, phase = self._under_way.get(packet_id, (0, 2))
        if phase == 1:
            protocol_error(f"PUBREC for {packet_id}, which is QoS 1")
        if packet_id in self._kept.released:
            return [self._pubrel(packet_id)]
        if not number:
            number = self._inherited_up_to - (self._inherited_up_to - packet_id) % IDS_MAX
            if self._doubtful or self._kept.confirmed < number:
                return []  # it goes out again, or is gone and will be released
            return [] if is_refused else [self._pubrel(packet_id)]
        if is_refused:
            del self._under_way[packet_id]
            return self._done(number) + self.pump(now)
        self._under_way[packet_id] = (number, RELEASED)
        return self._release(number) + self._done(number) + [self._pubrel(packet_id)]

    def on_pubcomp(self, packet: Pubcomp, now: float) -> list[Effect]:
        """The client has forgotten a packet identifier."""
        packet_id = packet.packet_id
        if self._under_way.get(packet_id, (0, RELEASED))[1] != RELEASED:
            protocol_error(f"PUBCOMP for {packet_id}, which was not released")
        self._under_way.pop(packet_id, None)
        number = self._kept.released.pop(packet_id, None)
        if number is None:
            return []
        effects: list[Effect] = [StoreNote(rel_key(packet_id), None)]
        if number in self._kept.done:  # rule 7
            self._kept.settled[number] = True
            effects.insert(0, StoreNote(did_key(number), b""))
        return effects + self.pump(now)

    # ------------------------------------------------------------ what is done

    def _pubrel(self, packet_id: int) -> Send:
        return Send(self._connection, encode(Pubrel(packet_id), self._level))

    def _release(self, number: int) -> list[Effect]:
        """Write down that the identifier of a delivery is to be forgotten by the client."""
        packet_id = (number - 1) % IDS_MAX + 1
        self._kept.released[packet_id] = number
        return [StoreNote(rel_key(packet_id), rel_note(number))]

    def _vanished(self, numbers: range) -> list[Effect]:
        """Deliveries that may have been sent before, and that Godwit has no more."""
        effects: list[Effect] = []
        if not any(granted.qos == 2 for granted in self._kept.subscriptions.values()):
            return effects
        for number in numbers[-GAP_MAX:]:
            packet_id = (number - 1) % IDS_MAX + 1
            if number in self._kept.done or packet_id in self._kept.released or packet_id in self._under_way:
                continue
            effects += self._let_go(number)
        return effects

    def _let_go(self, number: int) -> list[Effect]:
        """Have the client forget the identifier of a delivery that it may have or not."""
        return [*self._release(number), self._pubrel((number - 1) % IDS_MAX + 1)]

    def _unsendable(self, delivery: Deliver, qos: int, reason: str) -> list[Effect]:
        number = delivery.number
        if qos != 2 or number > self._inherited_up_to:
            return self._give_up(number, reason)
        return self._let_go(number) + self._give_up(number, reason)

    def _give_up(self, number: int, reason: str) -> list[Effect]:
        return [DropDelivery(number, reason), *self._done(number)]

    def _done(self, number: int) -> list[Effect]:
        kept = self._kept
        self._open.pop(number, None)
        confirmed = next(iter(self._open)) - 1 if self._open else self._highest
        if number > confirmed:
            kept.done[number] = True
        return self._confirm_up_to(confirmed)

    def _confirm_up_to(self, confirmed: int) -> list[Effect]:
        kept = self._kept
        if confirmed <= kept.confirmed:
            return []
        kept.confirmed = confirmed
        if kept.done:
            for each in [each for each in kept.done if each <= confirmed]:
                del kept.done[each]
        effects: list[Effect] = [Confirm(confirmed)]
        if kept.settled:
            for each in [each for each in kept.settled if each <= confirmed]:
                del kept.settled[each]
                effects.append(StoreNote(did_key(each), None))
        return effects


def _halves(
    topic: str, payload: bytes, properties: Properties, qos: int, retain: bool, level: int
) -> tuple[bytes, bytes]:
    """A packet, in two parts around its identifier; without one, it is the first part."""
    checked_name(topic)
    text = topic.encode()
    if len(text) > TEXT_BYTES_MAX:
        raise BadValue(f"a topic of {len(text)} bytes: at most {TEXT_BYTES_MAX} are allowed")
    rest = payload if level < 5 else b"%b%b" % (write(properties, "Publish") if properties else b"\0", payload)
    length = 2 + len(text) + (2 if qos else 0) + len(rest)
    start = b"%c%b%c%c%b" % (0x30 | qos << 1 | retain, varint(length), len(text) >> 8, len(text) & 0xFF, text)
    return (start, rest) if qos else (start + rest, b"")
