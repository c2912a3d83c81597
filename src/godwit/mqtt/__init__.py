"""MQTT 3.1, 3.1.1 and 5.0, written from the standard: packets, topics and the server's side of a session. All pure.

>>> from godwit.mqtt import Connect, Decoder, Publish, encode, topic_filter
>>> decoder = Decoder()
>>> decoder.feed(encode(Connect("car-17", level=5, keep_alive=30), level=5))[0].keep_alive
30
>>> [packet] = decoder.feed(encode(Publish("city/car-17/speed", b"42"), level=5))
>>> topic_filter("city/+/speed").levels, packet.topic
('city/+/speed', 'city/car-17/speed')
"""

from godwit.mqtt.connect_refusal import answer_to_fault, refusing_connack
from godwit.mqtt.mqtt_effects import MqttSettings, PersistentState
from godwit.mqtt.mqtt_session import MqttSession
from godwit.mqtt.packet_decoder import Decoder
from godwit.mqtt.packet_encoder import encode
from godwit.mqtt.packets import (
    FROM_CLIENT,
    FROM_SERVER,
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
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.topics import TopicFilter, matches, topic_filter

__all__ = [
    "FROM_CLIENT",
    "FROM_SERVER",
    "Auth",
    "Connack",
    "Connect",
    "Decoder",
    "Disconnect",
    "MqttSession",
    "MqttSettings",
    "Packet",
    "PersistentState",
    "Pingreq",
    "Pingresp",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "ReasonCode",
    "Suback",
    "Subscribe",
    "Subscription",
    "TopicFilter",
    "Unsuback",
    "Unsubscribe",
    "Will",
    "answer_to_fault",
    "encode",
    "matches",
    "refusing_connack",
    "topic_filter",
]
