"""The notice of lost events for a client of level 5: properties of its CONNACK.

A broker whose disk has lost its last inputs may have lost events for any client in the network. The session is there,
and so are its subscriptions: Session Present says nothing of it. MQTT has no packet for this while a client is
connected, but for DISCONNECT: to close every connection in a network because of one disk would be worse.

*Standard.* [mqtt5 §3.2.2.3.9, §3.2.2.3.10].
"""

import msgspec

from godwit.mqtt.mqtt_effects import MqttSettings
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import Connack

__all__ = ["LOST_SINCE", "RECEIPT", "told_of_loss", "told_receipt"]

LOST_SINCE = "$lost_since"
RECEIPT = "$receipt"
WORDS = "a broker has lost its last inputs: events for you may be among them"


def told_of_loss(connack: Connack, since: float, settings: MqttSettings) -> bytes:
    """A CONNACK that also says since when events may be lost, in seconds since 1970; 0: not known."""
    others = connack.properties.get("user_property", ())
    properties = {**connack.properties, "user_property": (*others, (LOST_SINCE, f"{since:.3f}"))}
    if settings.reason_strings:
        properties["reason_string"] = WORDS
    return encode(msgspec.structs.replace(connack, properties=properties), 5)


def told_receipt(connack: Connack, receipt: str) -> Connack:
    """A CONNACK that also says what happened to events while the client was away."""
    return msgspec.structs.replace(connack, properties={**connack.properties, "user_property": ((RECEIPT, receipt),)})
