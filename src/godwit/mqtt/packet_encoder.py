"""From packets to bytes.

*Rules.*
1. `decode(encode(p)) == p` for each packet that its level can say. What a level has no words for is left out:
   properties and reason codes of acknowledgements below level 5.
2. A reason code and properties that say nothing are not written where the standard lets them go.
3. A packet that no level can say (a text of 70,000 bytes, a property in the wrong packet) raises `BadValue`: our fault.

*Standard.* [mqtt5 §3], [mqtt311 §3].
"""

from collections.abc import Callable
from typing import Any

from godwit.errors import BadValue
from godwit.mqtt.packets import (
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
    Unsuback,
    Unsubscribe,
)
from godwit.mqtt.properties import prefixed, text, varint, write

__all__ = ["encode"]


def encode(packet: Packet, level: int) -> bytes:
    """The bytes of a packet at a protocol level."""
    if type(packet) is Publish:
        return _publish(packet, level)
    if level not in LEVELS:
        raise ValueError(f"level {level}: 3, 4 and 5 are allowed")
    kind = type(packet)
    body = _WRITERS[kind](packet, level)
    flags = 2 if kind in (Pubrel, Subscribe, Unsubscribe) else 0
    return bytes((TYPES[kind] << 4 | flags,)) + varint(len(body)) + body


def _publish(packet: Publish, level: int) -> bytes:
    """[mqtt5 §3.3]"""
    topic = packet.topic.encode()
    if len(topic) > 65_535:
        raise BadValue(f"a topic of {len(topic)} bytes: at most 65535 are allowed")
    head = len(topic).to_bytes(2, "big") + topic
    if packet.qos:
        head += _packet_id(packet.packet_id)
    if level == 5:
        head += write(packet.properties, "Publish") if packet.properties else b"\0"
    first = 0x30 | packet.qos << 1 | packet.retain | packet.dup << 3
    length = len(head) + len(packet.payload)
    if length < 0x80:
        return b"%c%c%b%b" % (first, length, head, packet.payload)
    return b"%c%b%b%b" % (first, varint(length), head, packet.payload)


def _packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id < 65_536:
        raise BadValue(f"packet identifier {packet_id}: 1 to 65535 are allowed")
    return packet_id.to_bytes(2, "big")


def _connect(packet: Connect, level: int) -> bytes:
    """[mqtt5 §3.1]"""
    if packet.level != level:
        raise BadValue(f"CONNECT of level {packet.level} on a connection of level {level}")
    will, user_name, password = packet.will, packet.user_name, packet.password
    if password is not None and user_name is None and level < 5:
        raise BadValue("a password without a user name: level 5 allows that, 3 and 4 do not")
    bits = packet.clean_start << 1 | (password is not None) << 6 | (user_name is not None) << 7
    if will is not None:
        bits |= 0x04 | will.qos << 3 | will.retain << 5
    parts = [text("MQIsdp" if level == 3 else "MQTT"), bytes((level, bits)), packet.keep_alive.to_bytes(2, "big")]
    if level == 5:
        parts.append(write(packet.properties, "Connect"))
    parts.append(text(packet.client_id))
    if will is not None:
        if level == 5:
            parts.append(write(will.properties, "Will"))
        parts += [text(will.topic), prefixed(will.payload)]
    if user_name is not None:
        parts.append(text(user_name))
    if password is not None:
        parts.append(prefixed(password))
    return b"".join(parts)


def _connack(packet: Connack, level: int) -> bytes:
    """[mqtt5 §3.2]"""
    present = packet.session_present and level > 3
    body = bytes((present, packet.reason_code))
    return body + write(packet.properties, "Connack") if level == 5 else body


def _acknowledgement(packet: Any, level: int) -> bytes:
    """[mqtt5 §3.4 to §3.7]"""
    body = _packet_id(packet.packet_id)
    if level < 5 or not (packet.reason_code or packet.properties):
        return body
    return body + _ending(packet, level)


def _ending(packet: Any, level: int) -> bytes:
    """[mqtt5 §3.14, §3.15], and the end of acknowledgements."""
    if level < 5 or not (packet.reason_code or packet.properties):
        return b""
    code = bytes((packet.reason_code,))
    return code + write(packet.properties, type(packet).__name__) if packet.properties else code


def _subscribe(packet: Subscribe, level: int) -> bytes:
    """[mqtt5 §3.8]"""
    parts = [_opening(packet, level)]
    for each in packet.subscriptions:
        options = each.qos
        if level == 5:
            options |= each.no_local << 2 | each.retain_as_published << 3 | each.retain_handling << 4
        parts.append(text(each.filter) + bytes((options,)))
    return b"".join(parts)


def _unsubscribe(packet: Unsubscribe, level: int) -> bytes:
    """[mqtt5 §3.10]"""
    return _opening(packet, level) + b"".join(map(text, packet.filters))


def _suback(packet: Suback, level: int) -> bytes:
    """[mqtt5 §3.9]. Below level 5 there is one code for every failure."""
    codes = packet.reason_codes if level == 5 else tuple(min(code, 0x80) for code in packet.reason_codes)
    return _opening(packet, level) + bytes(codes)


def _unsuback(packet: Unsuback, level: int) -> bytes:
    """[mqtt5 §3.11]"""
    return _opening(packet, level) + (bytes(packet.reason_codes) if level == 5 else b"")


def _opening(packet: Any, level: int) -> bytes:
    head = _packet_id(packet.packet_id)
    return head + write(packet.properties, type(packet).__name__) if level == 5 else head


def _nothing(packet: Packet, level: int) -> bytes:
    return b""


_WRITERS: dict[type[Packet], Callable[[Any, int], bytes]] = {
    Connect: _connect,
    Connack: _connack,
    Puback: _acknowledgement,
    Pubrec: _acknowledgement,
    Pubrel: _acknowledgement,
    Pubcomp: _acknowledgement,
    Subscribe: _subscribe,
    Suback: _suback,
    Unsubscribe: _unsubscribe,
    Unsuback: _unsuback,
    Pingreq: _nothing,
    Pingresp: _nothing,
    Disconnect: _ending,
    Auth: _ending,
}
