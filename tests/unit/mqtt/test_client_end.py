"""The client's end of an MQTT session: exchanges, packet identifiers, and what is kept over crashes of either side."""

import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import MqttFault
from godwit.mqtt.client_end import (
    RECEIVE_MAXIMUM,
    ClientEnd,
    Done,
    Outgoing,
    SendPacket,
    SubscribeAnswered,
    TakeMessage,
    connect_packet,
    note_of,
)
from godwit.mqtt.mqtt_effects import StoreNote
from godwit.mqtt.packets import (
    Connack,
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscription,
)
from godwit.mqtt.reason_codes import ReasonCode


def opened(notes: dict[str, bytes] | None = None, level: int = 5, present: bool = True, **offered: int) -> ClientEnd:
    end = ClientEnd(level, notes or {})
    end.on_connack(Connack(session_present=present, properties=dict(offered)))
    return end


def message(number: int, qos: int = 2, payload: bytes = b"x") -> Outgoing:
    return Outgoing(number, "t", payload, qos, False, {})


def sent(effects: Sequence[object]) -> list[object]:
    return [effect.packet for effect in effects if isinstance(effect, SendPacket)]


def test_qos_0_is_done_when_it_is_sent() -> None:
    effects = opened().publish(message(1, 0))
    assert effects == [SendPacket(Publish("t", b"x")), Done(1)]


def test_qos_1_is_done_with_its_puback() -> None:
    end = opened()
    assert end.publish(message(1, 1)) == [SendPacket(Publish("t", b"x", 1, packet_id=1))]
    assert end.on_packet(Puback(1)) == [Done(1)]


def test_qos_2_notes_that_the_server_has_it_before_it_is_released() -> None:
    end = opened()
    end.publish(message(7))
    assert end.on_packet(Pubrec(7)) == [StoreNote(note_of(7), b""), SendPacket(Pubrel(7))]
    assert end.on_packet(Pubcomp(7)) == [Done(7)]


def test_a_delivery_that_the_server_has_is_released_again_and_not_sent_again() -> None:
    end = ClientEnd(5, {note_of(7): b""})
    assert end.on_connack(Connack(session_present=True)) == [SendPacket(Pubrel(7))]
    assert end.publish(message(7)) == []
    assert end.on_packet(Pubcomp(7, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)) == [Done(7)]
    assert end.publish(message(7)) == []  # should it come late


def test_a_server_without_our_session_gets_everything_again_and_nothing_is_taken_for_a_copy() -> None:
    end = ClientEnd(5, {note_of(7): b"", "in/3": b"", "other": b""})
    assert set(end.on_connack(Connack())) == {StoreNote(note_of(7), None), StoreNote("in/3", None)}
    assert sent(end.publish(message(7))) == [Publish("t", b"x", 2, packet_id=7)]
    assert TakeMessage(Publish("u", b"", 2, packet_id=3)) in end.on_packet(Publish("u", b"", 2, packet_id=3))


def test_incoming_qos_2_is_stored_once_over_connections_and_forgotten_when_it_is_released() -> None:
    packet = Publish("u", b"y", 2, packet_id=3)
    first = opened().on_packet(packet)
    assert first == [TakeMessage(packet), StoreNote("in/3", b""), SendPacket(Pubrec(3))]
    again = opened({"in/3": b""})
    assert again.on_packet(packet) == [SendPacket(Pubrec(3))]
    assert again.on_packet(Pubrel(3)) == [StoreNote("in/3", None), SendPacket(Pubcomp(3))]
    assert again.on_packet(Pubrel(3)) == [SendPacket(Pubcomp(3, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))]


def test_what_the_server_refuses_is_done_with_its_reason() -> None:
    end = opened()
    end.publish(message(1, 1))
    end.publish(message(2, 2))
    assert end.on_packet(Puback(1, ReasonCode.NOT_AUTHORIZED)) == [Done(1, "not authorized")]
    quota = Pubrec(2, ReasonCode.QUOTA_EXCEEDED, {"reason_string": "full"})
    assert end.on_packet(quota) == [Done(2, "quota exceeded (full)")]


def test_a_server_that_has_the_identifier_already_has_the_message() -> None:
    end = opened()
    end.publish(message(2))
    assert sent(end.on_packet(Pubrec(2, ReasonCode.PACKET_IDENTIFIER_IN_USE))) == [Pubrel(2)]


def test_what_the_server_offers_is_kept_to() -> None:
    end = opened(receive_maximum=2, maximum_qos=1, retain_available=0, maximum_packet_size=10)
    packets = [packet for number in range(1, 5) for packet in sent(end.publish(message(number)))]
    assert [(packet.packet_id, packet.qos) for packet in packets] == [(1, 1), (2, 1)]  # type: ignore[attr-defined]
    [done, third] = end.on_packet(Puback(2))
    assert done == Done(2)
    assert isinstance(third, SendPacket)
    assert opened(maximum_packet_size=10).publish(message(1, payload=bytes(10)))[0] == Done(
        1, "the server takes packets of 10 bytes at most"
    )
    [kept] = sent(opened(retain_available=0).publish(Outgoing(1, "t", b"", 0, True, {})))
    assert kept == Publish("t", b"")


def test_a_server_that_refuses_or_breaks_the_standard_is_a_fault() -> None:
    for level, code, reason in ((5, 0x87, "not authorized"), (4, 4, "bad user name or password")):
        with pytest.raises(MqttFault, match=reason):
            ClientEnd(level, {}).on_connack(Connack(code))
    for packet in (Puback(9), Suback(1, (0,)), Pingreq(), Disconnect(0x8B)):
        with pytest.raises(MqttFault):
            opened().on_packet(packet)
    crowded = opened({f"in/{number}": b"" for number in range(1, RECEIVE_MAXIMUM + 1)})
    with pytest.raises(MqttFault, match="not released"):
        crowded.on_packet(Publish("t", b"", 2, packet_id=2_000))


def test_refused_subscriptions_are_named() -> None:
    end = opened()
    [asked] = sent(end.subscribe([Subscription("a"), Subscription("b")], []))
    refused = end.on_packet(Suback(asked.packet_id, (2, ReasonCode.NOT_AUTHORIZED)))  # type: ignore[attr-defined]
    assert refused == [SubscribeAnswered({"b": "not authorized"})]


def test_below_level_5_nothing_is_said_that_the_level_does_not_know() -> None:
    connect = connect_packet(4, "me", 30, 60, "", None, 1_024, is_clean=False)
    assert connect.properties == {}
    [packet] = sent(opened(level=4).publish(Outgoing(1, "t", b"", 0, False, {"user_property": (("a", "b"),)})))
    assert packet == Publish("t", b"")


@given(st.lists(st.tuples(st.sampled_from(["publish", "crash", "answer"]), st.booleans()), max_size=60))
def test_a_server_gets_each_message_once_whenever_the_client_crashes(deeds: list[tuple[str, bool]]) -> None:
    """The client is made anew from its notes; unconfirmed deliveries come again; answers may be lost in the crash."""
    notes: dict[str, bytes] = {}
    confirmed, published = set[int](), 0
    held: set[int] = set()  # the server: identifiers that are not released
    got: list[int] = []
    answers: list[object] = []

    def carry_out(effects: Sequence[object]) -> None:
        for effect in effects:
            match effect:
                case StoreNote(key=key, value=value):
                    notes.pop(key, None) if value is None else notes.update({key: value})
                case SendPacket(packet=Publish(packet_id=identifier)):
                    if identifier not in held:
                        held.add(identifier)
                        got.append(identifier)
                    answers.append(Pubrec(identifier))
                case SendPacket(packet=Pubrel(packet_id=identifier)):
                    held.discard(identifier)
                    answers.append(Pubcomp(identifier))
                case Done(number=number):
                    confirmed.add(number)

    end = opened()
    for deed, removes_notes in deeds:
        if deed == "publish":
            published += 1
            carry_out(end.publish(message(published)))
        elif deed == "answer" and answers:
            carry_out(end.on_packet(answers.pop(0)))  # type: ignore[arg-type]
        elif deed == "crash":
            answers.clear()
            if removes_notes:
                for number in confirmed:
                    notes.pop(note_of(number), None)
            end = ClientEnd(5, notes)
            carry_out(end.on_connack(Connack(session_present=True)))
            for number in range(1, published + 1):
                if number not in confirmed:
                    carry_out(end.publish(message(number)))
    while answers:
        carry_out(end.on_packet(answers.pop(0)))  # type: ignore[arg-type]
    assert sorted(got) == list(range(1, published + 1))
    assert confirmed == set(got)


# ---------------------------------------------------------------- what cannot be sent


@pytest.mark.parametrize(
    ("properties", "size_max", "reason"),
    [
        ({"content_type": "text/\0"}, 10_000, "no packet can hold it: a text of MQTT cannot hold U\\+0000"),
        ({"user_property": (("long", "x" * 100),)}, 100, "the server takes packets of 100"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_in_its_turn_and_the_others_are_sent(
    properties: dict[str, object], size_max: int, reason: str
) -> None:
    end = opened(receive_maximum=1, maximum_packet_size=size_max)
    assert len(sent(end.publish(message(1, 1)))) == 1
    assert end.publish(msgspec.structs.replace(message(2, 1), properties=properties)) == []
    assert end.publish(message(3, 1)) == []
    done, refused, following = end.on_packet(Puback(1))
    assert done == Done(1)
    assert isinstance(refused, Done)
    assert refused.number == 2
    assert re.match(reason, refused.refused)
    assert following == SendPacket(Publish("t", b"x", 1, packet_id=3))
    assert end.on_packet(Puback(3)) == [Done(3)]
