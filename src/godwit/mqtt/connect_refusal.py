"""The answer of a server to a refused client, with the reason.

*Rules.*
1. Before CONNACK a server says nothing, unless the client speaks a level that is not spoken here. [MQTT-3.14.0-1]
2. A reason string goes out only with an error, to a client that did not decline it, and where it fits. [MQTT-3.4.2-2]
3. A packet longer than the client takes is not sent. [MQTT-3.1.2-25]

*Standard.* [mqtt5 §3.1.4, §3.2.2, §3.1.2.11.7], [mqtt311 §3.1.4].
"""

from typing import Any

import msgspec

from godwit.errors import MqttFault
from godwit.mqtt.mqtt_effects import MqttSettings
from godwit.mqtt.packet_decoder import SIZE_MAX
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import Connack, Connect, Disconnect
from godwit.mqtt.reason_codes import ReasonCode, return_code

__all__ = ["answer_to_fault", "packet_with_reason", "refusing_connack"]

WORDS_MAX = 1_000  # characters of a reason string


def refusing_connack(connect: Connect) -> bytes | None:
    """The CONNACK that refuses a CONNECT before anyone asks who it is, or None. Close the connection after it."""
    if "authentication_method" in connect.properties:
        return encode(Connack(ReasonCode.BAD_AUTHENTICATION_METHOD), connect.level)  # [MQTT-4.12.0-1]
    if not connect.client_id and (connect.level == 3 or (connect.level == 4 and not connect.clean_start)):
        return encode(
            Connack(return_code(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)), connect.level
        )  # [mqtt311 MQTT-3.1.3-8]
    return None


def answer_to_fault(fault: MqttFault) -> bytes:
    """What to send before closing a connection whose first packet is at fault: nothing, unless its level is unknown."""
    if fault.reason_code == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        return encode(Connack(return_code(fault.reason_code)), 4)  # [mqtt311 MQTT-3.1.2-2]
    return b""


def packet_with_reason(packet: Any, reason: str, connect: Connect, settings: MqttSettings) -> bytes:
    """The bytes of a packet, with the reason in words if it may bear them; nothing if the client cannot take it."""
    size_max = connect.properties.get("maximum_packet_size", SIZE_MAX)
    if reason and connect.level == 5 and settings.reason_strings and _is_bad(packet):
        wants_words = connect.properties.get("request_problem_information", 1)
        if wants_words or isinstance(packet, Connack | Disconnect):  # [MQTT-3.1.2-29]
            words = _on_one_line(reason)[:WORDS_MAX].encode(errors="replace").decode()
            data = encode(msgspec.structs.replace(packet, properties={**packet.properties, "reason_string": words}), 5)
            if len(data) <= size_max:
                return data
    data = encode(packet, connect.level)
    return data if len(data) <= size_max else b""


def _on_one_line(reason: str) -> str:
    """Without control characters: a client may close the connection for them, and Mosquitto's do."""
    return " ".join("".join(char if char.isprintable() else " " for char in reason).split())


def _is_bad(packet: Any) -> bool:
    codes = packet.reason_codes if hasattr(packet, "reason_codes") else (getattr(packet, "reason_code", 0),)
    return any(code >= 0x80 for code in codes)
