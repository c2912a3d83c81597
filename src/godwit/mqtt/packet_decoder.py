"""From a stream of bytes to packets: incremental, strict, bounded.

*Theory.* A packet is one byte of type and flags, the length of the rest, and the rest. The decoder keeps what does not
make a whole packet yet. It looks at the kept bytes again only when the packet they belong to is whole, so that a peer
that sends byte by byte costs no more than its bytes. PUBLISH is read in place; of other packets the body is cut out.

*Rules.*
1. Any bytes give packets or a `MqttFault`, never anything else.
2. How the stream is cut into pieces changes nothing. Packets before a fault in the same piece are in the fault's
   `packets`; after a fault the decoder is dead and every call raises that fault again.
3. No more than `size_max` bytes are kept, and `first_size_max` of a CONNECT: a longer packet is refused at its header.
4. A server's decoder begins without a level and takes it from the first packet, which must be CONNECT. A packet that
   the other side may not send at all is refused by its type, before it is read.

*Standard.* [mqtt5 §1.5, §2, §3], [mqtt311 §2, §3]. Level 3 is lenient where its text says *unused*: flags of CONNECT,
and DUP in SUBSCRIBE, UNSUBSCRIBE and PUBREL.

*Departures.* Control characters in names are refused (`topics` says why). What a packet may not be by the standard's
words "Protocol Error" is 0x82, all else 0x81.
"""

from collections.abc import Callable, Sized

from godwit.errors import MqttFault
from godwit.mqtt.packets import (
    FROM_CLIENT,
    LEVELS,
    TYPES,
    Auth,
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
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from godwit.mqtt.properties import VARINT_MAX, Properties, malformed, protocol_error, read
from godwit.mqtt.reason_codes import ALLOWED, RETURN_CODES, ReasonCode
from godwit.mqtt.topics import checked_filter, checked_name, checked_text

__all__ = ["SIZE_MAX", "Decoder"]

SIZE_MAX = VARINT_MAX + 5
"""The longest packet that the standard allows."""

EVERY_PACKET = SIZE_MAX  # no chunk has so many packets

EVERY_TYPE = frozenset(range(1, 16))
HEADER_MAX = 5
FILTERS_MAX = 10_000  # topic filters of one packet: 30 ms
PUBACK = 0x40  # its first byte; with a length of 2 it has no more than an identifier


class Decoder:
    """Reads packets from a stream. `level` None: the stream begins with CONNECT, which says it."""

    def __init__(
        self,
        level: int | None = None,
        accepts: frozenset[int] | None = None,
        size_max: int = SIZE_MAX,
        first_size_max: int = SIZE_MAX,  # of CONNECT, where the stream begins with it
    ) -> None:
        if level is not None and level not in LEVELS:
            raise ValueError(f"level {level}: 3, 4 and 5 are allowed")
        self.level = level
        self._accepts = accepts if accepts is not None else FROM_CLIENT if level is None else EVERY_TYPE
        self._size_max = size_max if level is not None else min(size_max, first_size_max)
        self._later_size_max = size_max
        self._kept = bytearray()
        self._needed = 0  # bytes before there is more to read
        self.pending = 0  # how many bytes of an incomplete packet are kept
        self.has_more = False  # packets may be read without further bytes: `feed(b"")`
        self._fault: MqttFault | None = None

    @property
    def undecoded(self) -> int:
        """How many bytes are kept that may have whole packets (`has_more`)."""
        return len(self._kept) if self.has_more else 0

    def feed(self, chunk: bytes, count_max: int = EVERY_PACKET) -> list[Packet]:
        """The packets that are whole with these bytes, but no more than that many at once (`has_more`). Raises
        `MqttFault`, see rule 2."""
        if self._fault is not None:
            raise MqttFault(self._fault.reason_code, self._fault.text)
        if self._kept:
            self.has_more = False
            self._kept += chunk
            self.pending = len(self._kept)
            if self.pending < self._needed:
                return []
            data = bytes(self._kept)
            self._kept.clear()
            self.pending = 0
        else:
            data = bytes(chunk)
        packets: list[Packet] = []
        at, size = 0, len(data)
        is_serving = self.level is not None and 4 in self._accepts
        try:
            while at < size:
                if len(packets) >= count_max:
                    self._kept += data[at:]
                    self._needed, self.has_more = 0, True
                    break
                first = data[at]
                if (
                    first == PUBACK and is_serving and at + 4 <= size and data[at + 1] == 2
                ):  # most of what receivers say
                    packets.append(Puback(_packet_id(data[at + 2 : at + 4])))
                    at += 4
                    continue
                start, end = self._frame(data, at, size)
                if end > size:
                    self._kept += data[at:]
                    self._needed, self.pending = end - at, size - at
                    break
                if first >> 4 == 3 and self.level is not None:
                    packets.append(_publish(first, data, start, end, self.level))
                else:
                    packets.append(self._packet(first, data[start:end]))
                at = end
        except MqttFault as fault:
            fault.packets = packets
            self._fault = fault
            raise
        except (IndexError, UnicodeDecodeError) as error:
            text = "a text is not UTF-8" if isinstance(error, UnicodeDecodeError) else "a packet ends too early"
            self._fault = MqttFault(ReasonCode.MALFORMED_PACKET, text)
            self._fault.packets = packets
            raise self._fault from None
        return packets

    def _frame(self, data: bytes, at: int, size: int) -> tuple[int, int]:
        """Where the body of the packet at `at` begins and ends; an end beyond `size`: so many bytes are needed."""
        kind = data[at] >> 4
        if kind not in self._accepts or (self.level is None and kind != 1):
            protocol_error(
                "the first packet is not a CONNECT" if self.level is None else f"packet type {kind} is refused"
            )
        if at + 1 == size:
            return size, size + 1
        length, start = data[at + 1], at + 2
        if length >= 0x80:
            length &= 0x7F
            for place in (1, 2, 3):
                if start == size:
                    return size, size + 1
                byte = data[start]
                start += 1
                length |= (byte & 0x7F) << (7 * place)
                if byte < 0x80:
                    if byte == 0:
                        malformed("the remaining length has more bytes than it needs")
                    break
            else:
                malformed("the remaining length has more than four bytes")
        if start + length - at > self._size_max:
            raise MqttFault(
                ReasonCode.PACKET_TOO_LARGE,
                f"a packet of {start + length - at} bytes: at most {self._size_max} are allowed",
            )
        return start, start + length

    def _packet(self, first: int, body: bytes) -> Packet:
        kind, flags = first >> 4, first & 0x0F
        if kind == 1:
            connect = _connect(flags, body)
            if self.level is None:
                self.level, self._size_max = connect.level, self._later_size_max
            return connect
        level = self.level
        assert level is not None  # a decoder without one takes nothing but CONNECT
        if kind == 15 and level < 5:
            protocol_error("AUTH is not known below level 5")
        expected = 2 if kind in (6, 8, 10) else 0
        if flags != expected and not (level == 3 and expected and flags == 0x0A):
            malformed(f"flags 0x{flags:X} in packet type {kind}: 0x{expected:X} is allowed")
        return _READERS[kind](body, level)


# ------------------------------------------------------------ pieces


def _text(body: bytes, at: int) -> tuple[str, int]:
    """A text and where it ends."""
    data, at = _binary(body, at)
    text = str(data, "utf-8")
    if "\0" in text:
        malformed("a text holds U+0000")
    return text, at


def _binary(body: bytes, at: int) -> tuple[bytes, int]:
    start = at + 2
    end = start + (body[at] << 8 | body[at + 1])
    if end > len(body):
        malformed("a text or binary field runs past the end of its packet")
    return body[start:end], end


def _packet_id(body: bytes) -> int:
    packet_id = body[0] << 8 | body[1]
    if packet_id == 0:
        protocol_error("packet identifier 0")  # [MQTT-2.2.1-3]
    return packet_id


def _finished(body: bytes, at: int) -> None:
    if at != len(body):
        malformed(f"{len(body) - at} bytes more than the packet has fields")


def _checked_code(code: int, bearer: str) -> int:
    if code not in ALLOWED[bearer]:
        protocol_error(f"{bearer} with reason code 0x{code:02X}")
    return code


# ------------------------------------------------------------ CONNECT and CONNACK


def _connect(flags: int, body: bytes) -> Connect:
    """[mqtt5 §3.1]"""
    name, at = _binary(body, 0)
    if name not in (b"MQTT", b"MQIsdp"):
        protocol_error("the protocol name is not MQTT")
    level, bits = body[at], body[at + 1]
    if level not in LEVELS or (name == b"MQIsdp") != (level == 3):
        raise MqttFault(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"protocol level {level}: 3, 4 and 5 are supported")
    keep_alive = body[at + 2] << 8 | body[at + 3]
    at += 4
    if level > 3 and (flags or bits & 1):
        malformed("a reserved flag of CONNECT is set")
    has_will, will_qos, will_retain = bool(bits & 0x04), bits >> 3 & 3, bool(bits & 0x20)
    has_password, has_user_name = bool(bits & 0x40), bool(bits & 0x80)
    if will_qos == 3 or (not has_will and (will_qos or will_retain)):
        malformed("the flags of the will contradict each other")  # [MQTT-3.1.2-11] to [MQTT-3.1.2-13]
    if has_password and not has_user_name and level < 5:
        malformed("a password without a user name")  # [mqtt311 MQTT-3.1.2-22]
    properties: Properties = {}
    if level == 5:
        properties, at = read(body, at, len(body), "Connect")
    client_id, at = _text(body, at)
    checked_text(client_id, "the client identifier")
    will, user_name, password = None, None, None
    if has_will:
        will_properties: Properties = {}
        if level == 5:
            will_properties, at = read(body, at, len(body), "Will")
        topic, at = _text(body, at)
        payload, at = _binary(body, at)
        will = Will(checked_name(topic), payload, will_qos, will_retain, will_properties)
    if has_user_name:
        user_name, at = _text(body, at)
        checked_text(user_name, "the user name")
    if has_password:
        password, at = _binary(body, at)
    _finished(body, at)
    return Connect(client_id, level, bool(bits & 2), keep_alive, will, user_name, password, properties)


def _connack(body: bytes, level: int) -> Connack:
    """[mqtt5 §3.2]"""
    flags, code = body[0], body[1]
    if flags > (1 if level > 3 else 0):
        malformed("a reserved flag of CONNACK is set")
    if flags and code:
        protocol_error("a session is present on a connection that is refused")  # [MQTT-3.2.2-6]
    properties: Properties = {}
    at = 2
    if level == 5:
        _checked_code(code, "Connack")
        properties, at = read(body, at, len(body), "Connack")
    elif code not in RETURN_CODES:
        protocol_error(f"CONNACK with return code {code}")
    _finished(body, at)
    return Connack(code, bool(flags), properties)


# ------------------------------------------------------------ events


def _publish(first: int, data: bytes, at: int, end: int, level: int) -> Publish:
    """[mqtt5 §3.3]. Reads in place: `data` goes on after `end`, so each step is measured against it."""
    qos = first >> 1 & 3
    if qos == 3 or first & 0x0E == 0x08:
        malformed("QoS 3" if qos == 3 else "DUP with QoS 0")  # [MQTT-3.3.1-4], [MQTT-3.3.1-2]
    start = at + 2
    at = start + (data[at] << 8 | data[at + 1])
    if at > end:
        malformed("the topic runs past the end of PUBLISH")
    topic = str(data[start:at], "utf-8")
    if topic and ("+" in topic or "#" in topic or not topic.isprintable()):
        checked_name(topic)
    packet_id = 0
    if qos:
        packet_id = data[at] << 8 | data[at + 1]
        at += 2
        if at > end:
            malformed("PUBLISH ends before its packet identifier")
        if packet_id == 0:
            protocol_error("packet identifier 0")
    properties: Properties = {}
    if level == 5:
        if at == end:
            malformed("PUBLISH ends before its properties")
        if data[at]:
            properties, at = read(data, at, end, "Publish")
        else:
            at += 1
        if not topic and "topic_alias" not in properties:
            protocol_error("neither a topic nor an alias of one")  # [mqtt5 §3.3.2.1]
    elif not topic:
        malformed("a topic name is empty")
    return Publish(topic, data[at:end], qos, first & 1 == 1, first & 8 == 8, packet_id, properties)


def _acknowledgement(
    packet: type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp],
) -> Callable[[bytes, int], Packet]:
    bearer = packet.__name__

    def acknowledgement(body: bytes, level: int) -> Packet:
        """[mqtt5 §3.4 to §3.7]. Reason code and properties may be left out at the end."""
        size = len(body)
        if size > 2 and level < 5:
            malformed(f"{bearer} of {size} bytes: 2 are allowed")
        packet_id = _packet_id(body)
        if size == 2:
            return packet(packet_id)
        code = _checked_code(body[2], bearer)
        if size == 3:
            return packet(packet_id, code)
        properties, at = read(body, 3, size, bearer)
        _finished(body, at)
        return packet(packet_id, code, properties)

    return acknowledgement


# ------------------------------------------------------------ subscriptions


def _subscribe(body: bytes, level: int) -> Subscribe:
    """[mqtt5 §3.8]"""
    packet_id, at, properties = _opening(body, level, "Subscribe")
    subscriptions: list[Subscription] = []
    while at < len(body):
        filter, at = _text(body, at)
        checked_filter(filter)
        options = body[at]
        at += 1
        if options & (0xC0 if level == 5 else 0xFC):
            malformed("a reserved bit of the subscription options is set")
        qos, no_local, handling = options & 3, bool(options & 4), options >> 4
        if qos == 3 or handling == 3:
            protocol_error("QoS 3" if qos == 3 else "retain handling 3")
        if no_local and filter.startswith("$share/"):
            protocol_error("no local in a shared subscription")  # [MQTT-3.8.3-4]
        subscriptions.append(Subscription(filter, qos, no_local, bool(options & 8), handling))
        _check_count(subscriptions)
    if not subscriptions:
        protocol_error("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _unsubscribe(body: bytes, level: int) -> Unsubscribe:
    """[mqtt5 §3.10]"""
    packet_id, at, properties = _opening(body, level, "Unsubscribe")
    filters: list[str] = []
    while at < len(body):
        filter, at = _text(body, at)
        filters.append(checked_filter(filter))
        _check_count(filters)
    if not filters:
        protocol_error("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    return Unsubscribe(packet_id, tuple(filters), properties)


def _check_count(filters: Sized) -> None:
    if len(filters) > FILTERS_MAX:
        raise MqttFault(ReasonCode.QUOTA_EXCEEDED, f"a packet with more than {FILTERS_MAX} topic filters")


def _suback(body: bytes, level: int) -> Suback:
    """[mqtt5 §3.9]"""
    packet_id, at, properties = _opening(body, level, "Suback")
    codes = tuple(body[at:])
    if not codes:
        protocol_error("SUBACK without a reason code")
    for code in codes:
        if level == 5:
            _checked_code(code, "Suback")
        elif code not in (0, 1, 2, 0x80):
            protocol_error(f"SUBACK with return code 0x{code:02X}")
    return Suback(packet_id, codes, properties)


def _unsuback(body: bytes, level: int) -> Unsuback:
    """[mqtt5 §3.11]"""
    packet_id, at, properties = _opening(body, level, "Unsuback")
    if level < 5:
        _finished(body, at)
        return Unsuback(packet_id)
    codes = tuple(body[at:])
    if not codes:
        protocol_error("UNSUBACK without a reason code")
    for code in codes:
        _checked_code(code, "Unsuback")
    return Unsuback(packet_id, codes, properties)


def _opening(body: bytes, level: int, bearer: str) -> tuple[int, int, Properties]:
    """The packet identifier, where the payload begins, and the properties before it."""
    packet_id = _packet_id(body)
    if level < 5:
        return packet_id, 2, {}
    properties, at = read(body, 2, len(body), bearer)
    return packet_id, at, properties


# ------------------------------------------------------------ the rest


def _pingreq(body: bytes, level: int) -> Pingreq:
    _finished(body, 0)
    return Pingreq()


def _pingresp(body: bytes, level: int) -> Pingresp:
    _finished(body, 0)
    return Pingresp()


def _ending(packet: type[Disconnect] | type[Auth]) -> Callable[[bytes, int], Packet]:
    bearer = packet.__name__

    def ending(body: bytes, level: int) -> Packet:
        """[mqtt5 §3.14, §3.15]. Reason code and properties may be left out at the end."""
        if not body:
            return packet()
        if level < 5:
            _finished(body, 0)
        code = _checked_code(body[0], bearer)
        if len(body) == 1:
            return packet(code)
        properties, at = read(body, 1, len(body), bearer)
        _finished(body, at)
        return packet(code, properties)

    return ending


_READERS: dict[int, Callable[[bytes, int], Packet]] = {
    TYPES[Connack]: _connack,
    TYPES[Puback]: _acknowledgement(Puback),
    TYPES[Pubrec]: _acknowledgement(Pubrec),
    TYPES[Pubrel]: _acknowledgement(Pubrel),
    TYPES[Pubcomp]: _acknowledgement(Pubcomp),
    TYPES[Subscribe]: _subscribe,
    TYPES[Suback]: _suback,
    TYPES[Unsubscribe]: _unsubscribe,
    TYPES[Unsuback]: _unsuback,
    TYPES[Pingreq]: _pingreq,
    TYPES[Pingresp]: _pingresp,
    TYPES[Disconnect]: _ending(Disconnect),
    TYPES[Auth]: _ending(Auth),
}
