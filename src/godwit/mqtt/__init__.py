"""MQTT 3.1, 3.1.1 and 5.0, written from the standard: packets, topics and the server's side of a session. All pure.

>>> from godwit.mqtt import Connect, Decoder, Publish, encode, topic_filter
>>> decoder = Decoder()
>>> decoder.feed(encode(Connect("car-17", level=5, keep_alive=30), level=5))[0].keep_alive
30
>>> [packet] = decoder.feed(encode(Publish("city/car-17/speed", b"42"), level=5))
>>> topic_filter("city/+/speed").levels, packet.topic
('city/+/speed', 'city/car-17/speed')
"""

from godwit.mqtt.decoding import Decoder
from godwit.mqtt.encoding import encode
from godwit.mqtt.exchange import Kept, Settings
from godwit.mqtt.greeting import answer_to_fault, greeting
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
from godwit.mqtt.reasons import Reason
from godwit.mqtt.session import MqttSession
from godwit.mqtt.topics import TopicFilter, matches, topic_filter

__all__ = [
    "FROM_CLIENT",
    "FROM_SERVER",
    "Auth",
    "Connack",
    "Connect",
    "Decoder",
    "Disconnect",
    "Kept",
    "MqttSession",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "Reason",
    "Settings",
    "Suback",
    "Subscribe",
    "Subscription",
    "TopicFilter",
    "Unsuback",
    "Unsubscribe",
    "Will",
    "answer_to_fault",
    "encode",
    "greeting",
    "matches",
    "topic_filter",
]
