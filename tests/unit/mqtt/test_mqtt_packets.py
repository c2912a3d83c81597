"""The MQTT codec: bytes written out by hand, and what it refuses."""

import pytest

from godwit.errors import BadValue, MqttFault, PeerFault
from godwit.mqtt import (
    FROM_SERVER,
    Auth,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
)
from godwit.mqtt.properties import read_varint, varint
from godwit.mqtt.reason_codes import return_code

KNOWN = [
    (3, Connect("p", 3, True, 10), "10 0F 0006 4D5149736470 03 02 000A 0001 70"),
    (4, Connect("p", 4, True, 10), "10 0D 0004 4D515454 04 02 000A 0001 70"),
    (5, Connect("p", 5, True, 10), "10 0E 0004 4D515454 05 02 000A 00 0001 70"),
    (
        4,
        Connect("p", 4, False, 10, Will("w", b"gone", 1, True), "u", b"\0"),
        "10 1C 0004 4D515454 04 EC 000A 0001 70 0001 77 0004 676F6E65 0001 75 0001 00",
    ),
    (
        5,
        Connect(
            "p", 5, True, 0, Will("w", b"x", properties={"will_delay_interval": 5}), None, b"s", {"receive_maximum": 9}
        ),
        "10 20 0004 4D515454 05 46 0000 03 210009 0001 70 05 1800000005 0001 77 0001 78 0001 73",
    ),
    (4, Connack(0, True), "20 02 01 00"),
    (5, Connack(0, True, {"topic_alias_maximum": 10, "receive_maximum": 20}), "20 09 01 00 06 22000A 210014"),
    (4, Publish("a/b", b"hi"), "30 07 0003 612F62 6869"),
    (5, Publish("a/b", b"hi", 1, True, True, 10, {"topic_alias": 3}), "3B 0D 0003 612F62 000A 03 230003 6869"),
    (5, Publish("", b"hi", properties={"topic_alias": 3}), "30 08 0000 03 230003 6869"),
    (
        5,
        Publish("a", b"", properties={"user_property": (("k", "v"), ("k", "w"))}),
        "30 12 0001 61 0E 26 0001 6B 0001 76 26 0001 6B 0001 77",
    ),
    (4, Puback(1), "40 02 0001"),
    (5, Puback(1, 0x10), "40 03 0001 10"),
    (5, Pubrec(1, 0x87, {"reason_string": "no"}), "50 09 0001 87 05 1F 0002 6E6F"),
    (5, Pubrel(1, 0x92), "62 03 0001 92"),
    (4, Pubcomp(0xFFFF), "70 02 FFFF"),
    (4, Subscribe(10, (Subscription("a/b", 1), Subscription("c/d", 2))), "82 0E 000A 0003 612F62 01 0003 632F64 02"),
    (
        5,
        Subscribe(10, (Subscription("a", 2, True, True, 2),), {"subscription_identifier": 200}),
        "82 0A 000A 03 0B C801 0001 61 2E",
    ),
    (4, Suback(10, (0, 2, 0x80)), "90 05 000A 00 02 80"),
    (5, Suback(10, (1, 0x8F)), "90 05 000A 00 01 8F"),
    (4, Unsubscribe(10, ("a/b", "c/d")), "A2 0C 000A 0003 612F62 0003 632F64"),
    (4, Unsuback(10), "B0 02 000A"),
    (5, Unsuback(10, (0, 0x11)), "B0 05 000A 00 00 11"),
    (4, Pingreq(), "C0 00"),
    (4, Pingresp(), "D0 00"),
    (4, Disconnect(), "E0 00"),
    (5, Disconnect(), "E0 00"),
    (5, Disconnect(0x04), "E0 01 04"),
    (5, Disconnect(0, {"session_expiry_interval": 7}), "E0 07 00 05 11 00000007"),
    (5, Auth(0x18, {"authentication_method": "m"}), "F0 06 18 04 15 0001 6D"),
]


@pytest.mark.parametrize(("level", "packet", "known"), KNOWN)
def test_each_packet_is_written_and_read_as_the_standard_lays_it_out(level, packet, known):
    assert encode(packet, level).hex() == bytes.fromhex(known).hex()
    assert Decoder(level).feed(bytes.fromhex(known)) == [packet]


MALFORMED, PROTOCOL = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("level", "sent", "reason_code"),
    [
        (4, "00 00", PROTOCOL),  # type 0
        (4, "F0 00", PROTOCOL),  # AUTH below level 5
        (4, "C1 00", MALFORMED),  # flags
        (4, "C0 8000", MALFORMED),  # a length with a byte too many
        (4, "C0 80808000", MALFORMED),
        (4, "30 FFFFFFFF", MALFORMED),  # a length of five bytes
        (5, "10 0D 0004 4D515454 05 02 000A 00 0001", MALFORMED),  # ends too early
        (4, "10 0D 0004 4D515458 04 02 000A 0001 70", PROTOCOL),  # MQTX
        (4, "10 0D 0004 4D515454 03 02 000A 0001 70", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),  # MQTT is not level 3
        (4, "10 0D 0004 4D515454 04 03 000A 0001 70", MALFORMED),  # reserved flag
        (4, "10 0D 0004 4D515454 04 42 000A 0001 70", MALFORMED),  # password without user
        (4, "10 0D 0004 4D515454 04 0A 000A 0001 70", MALFORMED),  # will QoS without will
        (5, "10 12 0004 4D515454 05 02 000A 04 16 000131 0001 70", PROTOCOL),  # data without method
        (5, "10 11 0004 4D515454 05 02 000A 03 210000 0001 70", PROTOCOL),  # receive maximum 0
        (5, "10 13 0004 4D515454 05 02 000A 05 2700000000 0001 70", PROTOCOL),  # maximum packet size 0
        (4, "20 02 02 00", MALFORMED),
        (4, "20 02 01 01", PROTOCOL),  # present, and refused
        (4, "20 02 00 06", PROTOCOL),
        (4, "36 05 0001 61 0001", MALFORMED),  # QoS 3
        (4, "38 03 0001 61", MALFORMED),  # DUP with QoS 0
        (4, "30 02 0000", MALFORMED),  # no topic
        (5, "30 03 0000 00", PROTOCOL),  # nor alias
        (4, "30 03 0001 2B", MALFORMED),  # wildcard
        (4, "30 03 0001 00", MALFORMED),  # U+0000
        (4, "30 03 0001 0A", MALFORMED),  # control character
        (4, "30 05 0003 EFBFBF", MALFORMED),  # U+FFFF
        (4, "30 06 0004 F09FBFBF", MALFORMED),  # U+1FFFF
        (4, "30 05 0003 EDA080", MALFORMED),  # a surrogate
        (4, "30 04 0002 C080", MALFORMED),  # overlong
        (4, "32 05 0001 61 0000", PROTOCOL),  # packet identifier 0
        (4, "32 03 0001 61", MALFORMED),
        (5, "30 06 0001 61 02 0102", PROTOCOL),  # payload format 2
        (5, "30 08 0001 61 04 0101 0101", PROTOCOL),  # twice
        (5, "30 07 0001 61 03 230000", ReasonCode.TOPIC_ALIAS_INVALID),
        (5, "30 08 0001 61 04 08 0001 23", PROTOCOL),  # wildcard in the response topic
        (5, "30 05 0001 61 01 24", MALFORMED),  # not in PUBLISH
        (5, "30 06 0001 61 02 0401", MALFORMED),  # no such property
        (5, "30 08 0001 61 04 26 0001 6B", MALFORMED),  # half a user property
        (5, "30 0B 0001 61 07 26 0001 00 0001 76", MALFORMED),  # U+0000 in its name
        (5, "30 04 0001 61 05", MALFORMED),  # properties longer than the packet
        (5, "40 03 0001 92", PROTOCOL),  # PUBREL's code
        (4, "40 03 0001 00", MALFORMED),
        (4, "80 06 0001 0001 61 00", MALFORMED),
        (4, "82 06 0001 0001 61 03", PROTOCOL),
        (4, "82 06 0001 0001 61 04", MALFORMED),  # no local below level 5
        (5, "82 07 0001 00 0001 61 30", PROTOCOL),
        (5, "82 07 0001 00 0001 61 40", MALFORMED),
        (4, "82 02 0001", PROTOCOL),
        (4, "82 08 0001 0003 612B62 00", MALFORMED),
        (4, "82 08 0001 0003 232F62 00", MALFORMED),
        (4, "A2 04 0001 0000", MALFORMED),
        (5, "A2 03 0001 00", PROTOCOL),
        (5, "90 03 0001 00", PROTOCOL),
        (5, "B0 04 0001 00 01", PROTOCOL),
        (4, "E0 01 00", MALFORMED),
        (5, "E0 01 01", PROTOCOL),
    ],
)  # fmt: skip
def test_what_the_standard_forbids_is_refused_with_its_reason(level, sent, reason_code):
    decoder = Decoder(level)
    with pytest.raises(MqttFault) as caught:
        decoder.feed(bytes.fromhex(sent))
    assert caught.value.reason_code == reason_code
    assert f"0x{reason_code:02X}" in str(caught.value)
    with pytest.raises(PeerFault):  # the stream is dead
        decoder.feed(encode(Pingreq(), level))


def test_packets_before_a_fault_are_handed_over_with_it():
    with pytest.raises(MqttFault) as caught:
        Decoder(4).feed(encode(Pingreq(), 4) + encode(Puback(3), 4) + b"\xc1\0")
    assert caught.value.packets == [Pingreq(), Puback(3)]


def test_a_servers_decoder_takes_its_level_from_connect_and_nothing_before_it():
    decoder = Decoder()
    data = encode(Connect("p", 5), 5) + encode(Publish("a", b"", properties={"topic_alias": 1}), 5)
    assert len(decoder.feed(data)) == 2
    assert decoder.level == 5
    with pytest.raises(MqttFault):
        Decoder().feed(encode(Pingreq(), 4))
    with pytest.raises(MqttFault):
        Decoder().feed(encode(Puback(1), 4))


@pytest.mark.parametrize("packet", [Connack(), Suback(1, (0,)), Unsuback(1, (0,)), Pingresp(), Auth()])
def test_a_server_refuses_what_only_servers_send_by_its_first_byte(packet):
    decoder = Decoder()
    decoder.feed(encode(Connect("p", 5), 5))
    with pytest.raises(MqttFault) as caught:
        decoder.feed(encode(packet, 5)[:1])
    assert caught.value.reason_code == PROTOCOL


def test_a_client_refuses_what_only_clients_send():
    with pytest.raises(MqttFault):
        Decoder(4, FROM_SERVER).feed(encode(Pingreq(), 4))


def test_a_packet_that_is_too_large_is_refused_at_its_header():
    decoder = Decoder(4, size_max=100)
    assert decoder.feed(encode(Publish("a", bytes(95)), 4))
    with pytest.raises(MqttFault) as caught:
        decoder.feed(encode(Publish("a", bytes(96)), 4)[:2])
    assert caught.value.reason_code == ReasonCode.PACKET_TOO_LARGE


def test_level_3_is_lenient_where_its_text_is():
    [connect] = Decoder().feed(bytes.fromhex("14 0F 0006 4D5149736470 03 01 000A 0001 70"))
    assert connect == Connect("p", 3, False, 10)
    assert Decoder(3).feed(bytes.fromhex("8A 06 0001 0001 61 00")) == [Subscribe(1, (Subscription("a"),))]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455])
def test_variable_byte_integers_are_as_short_as_they_can_be(value):
    data = varint(value)
    assert read_varint(data, 0) == (value, len(data))
    assert len(data) == 1 + sum(value >= 1 << bits for bits in (7, 14, 21))


@pytest.mark.parametrize(
    ("packet", "level"),
    [
        (Publish("a", b"", 1), 4),  # packet identifier 0
        (Publish("a" * 65_536, b""), 4),
        (Publish("a", b"", properties={"receive_maximum": 1}), 5),
        (Publish("a", b"", properties={"colour": 1}), 5),
        (Publish("a", b"", properties={"topic_alias": 70_000}), 5),
        (Connect("a\0", 4), 4),
        (Connect("\ud800", 4), 4),
        (Connect("a", 4, password=b"x"), 4),
        (Connect("a", 5), 4),
        (Puback(65_536), 4),
    ],
)
def test_what_no_packet_can_say_is_not_written(packet, level):
    with pytest.raises(BadValue):
        encode(packet, level)


def test_below_level_5_what_it_has_no_words_for_is_left_out():
    assert encode(Publish("a", b"", properties={"topic_alias": 1}), 4) == encode(Publish("a", b""), 4)
    assert encode(Puback(1, 0x87, {"reason_string": "no"}), 4) == encode(Puback(1), 4)
    assert encode(Suback(1, (0x8F, 1)), 4) == encode(Suback(1, (0x80, 1)), 4)
    assert encode(Connack(0, True), 3) == encode(Connack(0), 3)
    assert [return_code(code) for code in (0x00, 0x84, 0x85, 0x86, 0x87, 0x97)] == [0, 1, 2, 4, 5, 3]


def test_there_are_three_levels():
    with pytest.raises(ValueError, match="3, 4 and 5"):
        Decoder(6)
    with pytest.raises(ValueError, match="3, 4 and 5"):
        encode(Pingreq(), 2)
