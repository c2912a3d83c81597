"""Properties: the named values that packets of level 5 may bear.

*Theory.* A block of properties is its length, then pairs of an identifier and a value whose type the identifier
tells. We read it into a dict from the standard's name, such as `topic_alias`, to the value. `user_property` is a
tuple of pairs of texts, in the order they were sent, and `subscription_identifier` in PUBLISH a tuple of numbers,
since these two may come several times. Everything is checked while it is read, so nothing behind has to ask again.

*Rules.*
1. A block that ends in the middle of a property, an identifier that does not exist and one that its packet may not bear
   are malformed packets [mqtt5 §2.2.2.2]. A property that comes twice and a value out of range are protocol errors.
2. A text is strict UTF-8 without U+0000. Only names (topics, identifiers, users) are held to more, see `topics`.
3. A packet has at most `USER_PROPERTIES_MAX` user properties.
4. What is written is checked as well: a value that cannot be written raises `BadValue`, for it is our own fault.

*Standard.* [mqtt5 §1.5, §2.2.2].
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from godwit.errors import BadValue, MqttFault
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.topics import checked_name

__all__ = ["ALLOWED", "NAMES", "Properties", "malformed", "protocol_error", "read", "read_varint", "varint", "write"]

Properties = dict[str, Any]

VARINT_MAX = 268_435_455
TEXT_BYTES_MAX = 65_535
USER_PROPERTIES_MAX = 11_000  # of one packet: as many values as an event has; 5 ms

BYTE, TWO, FOUR, VARINT, TEXT, BINARY, PAIR = range(7)

USER_PROPERTY: Final = 0x26
SUBSCRIPTION_IDENTIFIER: Final = 0x0B
_WIDTH = {BYTE: 1, TWO: 2, FOUR: 4}

EVERYWHERE: Final = (
    "Connect Connack Publish Will Puback Pubrec Pubrel Pubcomp Subscribe Suback Unsubscribe Unsuback Disconnect Auth"
)

_TABLE: dict[int, tuple[str, int, str]] = {
    0x01: ("payload_format_indicator", BYTE, "Publish Will"),
    0x02: ("message_expiry_interval", FOUR, "Publish Will"),
    0x03: ("content_type", TEXT, "Publish Will"),
    0x08: ("response_topic", TEXT, "Publish Will"),
    0x09: ("correlation_data", BINARY, "Publish Will"),
    0x0B: ("subscription_identifier", VARINT, "Publish Subscribe"),
    0x11: ("session_expiry_interval", FOUR, "Connect Connack Disconnect"),
    0x12: ("assigned_client_identifier", TEXT, "Connack"),
    0x13: ("server_keep_alive", TWO, "Connack"),
    0x15: ("authentication_method", TEXT, "Connect Connack Auth"),
    0x16: ("authentication_data", BINARY, "Connect Connack Auth"),
    0x17: ("request_problem_information", BYTE, "Connect"),
    0x18: ("will_delay_interval", FOUR, "Will"),
    0x19: ("request_response_information", BYTE, "Connect"),
    0x1A: ("response_information", TEXT, "Connack"),
    0x1C: ("server_reference", TEXT, "Connack Disconnect"),
    0x1F: ("reason_string", TEXT, "Connack Puback Pubrec Pubrel Pubcomp Suback Unsuback Disconnect Auth"),
    0x21: ("receive_maximum", TWO, "Connect Connack"),
    0x22: ("topic_alias_maximum", TWO, "Connect Connack"),
    0x23: ("topic_alias", TWO, "Publish"),
    0x24: ("maximum_qos", BYTE, "Connack"),
    0x25: ("retain_available", BYTE, "Connack"),
    0x26: (
        "user_property",
        PAIR,
        EVERYWHERE,
    ),
    0x27: ("maximum_packet_size", FOUR, "Connect Connack"),
    0x28: ("wildcard_subscription_available", BYTE, "Connack"),
    0x29: ("subscription_identifier_available", BYTE, "Connack"),
    0x2A: ("shared_subscription_available", BYTE, "Connack"),
}

NAMES = {name: (identifier, kind) for identifier, (name, kind, _) in _TABLE.items()}
"""By name, the identifier and the type of each property."""

ALLOWED: dict[str, dict[int, tuple[str, int]]] = {
    packet: {number: (name, kind) for number, (name, kind, bearers) in _TABLE.items() if packet in bearers.split()}
    for packet in EVERYWHERE.split()
}
"""By packet (`Will` is the one inside CONNECT), the properties it may bear."""

_ABOVE_ZERO = {
    "receive_maximum": ReasonCode.PROTOCOL_ERROR,
    "maximum_packet_size": ReasonCode.PROTOCOL_ERROR,
    "subscription_identifier": ReasonCode.PROTOCOL_ERROR,
    "topic_alias": ReasonCode.TOPIC_ALIAS_INVALID,
}


def malformed(text: str) -> NoReturn:
    """The packet cannot be read."""
    raise MqttFault(ReasonCode.MALFORMED_PACKET, text)


def protocol_error(text: str) -> NoReturn:
    """The packet can be read and is not allowed."""
    raise MqttFault(ReasonCode.PROTOCOL_ERROR, text)


# ------------------------------------------------------------ reading


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer and where it ends. More bytes than needed, or than four, are malformed. [mqtt5 §1.5.5]"""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for place in (1, 2, 3):
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if byte == 0:
                malformed("a variable byte integer has more bytes than it needs")
            return value, at + place + 1
    malformed("a variable byte integer has more than four bytes")


def read(data: bytes, at: int, end: int, bearer: str) -> tuple[Properties, int]:
    """The block of properties at `at`, and where it ends. `end` is where its packet ends."""
    length, at = read_varint(data, at)
    stop = at + length
    if stop > end:
        malformed("the properties are longer than their packet")
    allowed = ALLOWED[bearer]
    found: Properties = {}
    pairs: list[tuple[str, str]] = []
    while at < stop:
        identifier = data[at]
        if identifier == USER_PROPERTY:
            start = at + 3
            at = start + (data[at + 1] << 8 | data[at + 2])
            key = data[start:at].decode()
            start = at + 2
            at = start + (data[at] << 8 | data[at + 1])
            value = data[start:at].decode()
            if "\0" in key or "\0" in value:
                malformed("user_property holds U+0000")
            pairs.append((key, value))
            if len(pairs) > USER_PROPERTIES_MAX:
                many = f"a packet with more than {USER_PROPERTIES_MAX} user properties"
                raise MqttFault(ReasonCode.QUOTA_EXCEEDED, many)
        else:
            if identifier not in allowed:
                _refuse(identifier, bearer)
            at = _read_one(data, at + 1, stop, allowed[identifier], bearer, found)
    if at != stop:
        malformed("the last property runs past the end of the properties")
    if pairs:
        found["user_property"] = tuple(pairs)
    if "authentication_data" in found and "authentication_method" not in found:
        protocol_error("authentication_data without authentication_method")  # [mqtt5 §3.1.2.11.10]
    return found, at


def _refuse(identifier: int, bearer: str) -> NoReturn:
    known = _TABLE.get(identifier)
    malformed(f"{bearer} may not bear {known[0]}" if known else f"there is no property 0x{identifier:02X}")


def _read_one(data: bytes, at: int, stop: int, row: tuple[str, int], bearer: str, found: Properties) -> int:
    """Read the value of one property into `found`, and say where it ends."""
    name, kind = row
    value: Any
    if kind <= FOUR:
        start, at = at, at + _WIDTH[kind]
        value = int.from_bytes(data[start:at], "big")
    elif kind == VARINT:
        value, at = read_varint(data, at)
    else:
        start = at + 2
        at = start + (data[at] << 8 | data[at + 1])
        value = data[start:at]
        if kind == TEXT:
            value = str(value, "utf-8")
    if at > stop:
        malformed(f"{name} runs past the end of the properties")
    if kind == TEXT and "\0" in value:
        malformed(f"{name} holds U+0000")
    if kind == BYTE and value > 1:
        protocol_error(f"{name} is {value}: 0 or 1 is allowed")
    if value == 0 and name in _ABOVE_ZERO:
        raise MqttFault(_ABOVE_ZERO[name], f"{name} is 0")
    if name == "response_topic":
        try:
            checked_name(value)
        except MqttFault as fault:
            protocol_error(f"response_topic: {fault.text}")  # [MQTT-3.3.2-14]
    if name == "subscription_identifier" and bearer == "Publish":
        found[name] = (*found.get(name, ()), value)
        return at
    if name in found:
        protocol_error(f"{name} comes twice")
    found[name] = value
    return at


# ------------------------------------------------------------ writing


def varint(value: int) -> bytes:
    """A variable byte integer."""
    if value < 0x80:
        return bytes((value,))
    if value > VARINT_MAX:
        raise BadValue(f"{value} is too long for a packet: at most {VARINT_MAX} is allowed")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def prefixed(data: bytes) -> bytes:
    """Binary data after its length in two bytes."""
    if len(data) > TEXT_BYTES_MAX:
        raise BadValue(f"{len(data)} bytes: at most {TEXT_BYTES_MAX} are allowed here")
    return len(data).to_bytes(2, "big") + data


def text(value: str) -> bytes:
    """A text, encoded, after its length."""
    if "\0" in value:
        raise BadValue("a text of MQTT cannot hold U+0000")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise BadValue("a text of MQTT cannot hold surrogates") from None
    return len(data).to_bytes(2, "big") + data if len(data) <= TEXT_BYTES_MAX else prefixed(data)


def write(properties: Mapping[str, Any], bearer: str) -> bytes:
    """A block of properties, in the order of the mapping."""
    if not properties:
        return b"\0"
    out: list[bytes] = []
    for name, value in properties.items():
        identifier, kind = NAMES.get(name, (-1, BYTE))
        if identifier not in ALLOWED[bearer]:
            raise BadValue(f"{bearer} has no property {name!r}")
        mark = bytes((identifier,))
        if kind == PAIR:
            for key, said in value:
                out.append(mark + text(key) + text(said))
        elif kind == VARINT:
            out += (mark + varint(number) for number in (value if isinstance(value, tuple) else (value,)))
        elif kind == TEXT:
            out.append(mark + text(value))
        elif kind == BINARY:
            out.append(mark + prefixed(value))
        else:
            out.append(mark + _fixed(name, value, _WIDTH[kind]))
    block = b"".join(out)
    return varint(len(block)) + block


def _fixed(name: str, value: int, width: int) -> bytes:
    try:
        return int(value).to_bytes(width, "big")
    except OverflowError:
        raise BadValue(f"{name} is {value}: it takes {width} bytes") from None
