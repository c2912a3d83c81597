"""Targets that read bytes or texts: each reads what was right once, and has been spoilt in a few places."""

import json
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Heard, Input, LinkUp, Opened, TimerDue
from godwit.codec.journal_entries import entry_of, inputs_of
from godwit.codec.snapshots import DriverState, pack, unpack
from godwit.errors import FilterError, JournalError, MqttFault, PeerFault, SnapshotError
from godwit.filters.language import loads, parse, to_json, to_text
from godwit.mobility import mobile_broker
from godwit.mqtt import packets as mqtt
from godwit.mqtt.packet_decoder import Decoder
from godwit.mqtt.packet_encoder import encode
from godwit.runtime import wire
from tests.fuzz.hostile_peers import busy_broker
from tests.fuzz.spoiling import Case, spoilt, spoilt_text
from tests.property.wrong_messages import fitting, samples

__all__ = ["DECODERS"]

WORDS = (
    *("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "WITHIN", "circle", "polygon", "myloc", "my.x"),
    *("sender.x", "(", ")", ",", "=", "<>", "<", ">=", "'a'", "'%'", "1", "-1", "1e308", "0.1", "TRUE", '"', "'"),
    *("\x00", "\\", "/", "%", "_", "[", "]", "{", "}", ":", ";", "\u2028", "\U0001f427"),
)
FILTERS = (
    "kind = 'parking' AND cost < 3",
    "size IN ('compact', 'van') OR NOT (price BETWEEN 1 AND 2.5)",
    "location WITHIN circle(8.54, 47.37, 500) AND sender.battery > 20",
    "name LIKE 'a%b_c' AND urgency >= my.threshold AND note IS NOT NULL",
    "p WITHIN polygon(0 0, 1 0, 1 1) OR place WITHIN myloc(2)",
)


@cache
def _messages() -> tuple[Any, ...]:
    """One of each kind of message, and of each kind that a field may hold."""
    return tuple(fitting(each) for kind in wire._kinds() for each in samples(kind))


@cache
def _native() -> tuple[bytes, ...]:
    return tuple(wire.NATIVE.encode(message) for message in _messages())


@cache
def _json() -> tuple[bytes, ...]:
    return tuple(wire.JSON.encode(message) for message in _messages())


def native_message(draw: Random) -> None:
    """A message of the native form."""
    data = spoilt(draw.choice(_native()), draw)
    with suppress(PeerFault):
        wire.NATIVE.decode(data)


def json_message(draw: Random) -> None:
    """A message of the JSON form."""
    data = spoilt(draw.choice(_json()), draw)
    with suppress(PeerFault):
        wire.JSON.decode(data)


def native_stream(draw: Random) -> None:
    """Frames, cut anywhere, one of them spoilt."""
    frames = wire.Frames.packed([draw.choice(_messages()) for _ in range(3)])
    data, stream = spoilt(frames, draw), wire.Frames(2**16)

    def read() -> None:
        at = 0
        while at < len(data):
            cut = at + draw.randint(1, 64)
            stream.feed(data[at:cut], draw.randint(1, 4))
            at = cut

    with suppress(PeerFault):
        read()


def mqtt_packets(draw: Random) -> None:
    """Packets of MQTT, of both versions."""
    first, *rest = _packets(draw.choice((3, 4, 5)))
    data = first + b"".join(draw.choice(rest) for _ in range(draw.randint(0, 3)))
    decoder, damaged = Decoder(size_max=2**16, first_size_max=2**12), spoilt(data, draw)
    cut = draw.randrange(len(damaged) + 1)
    with suppress(MqttFault):
        (decoder.feed(damaged[:cut]), decoder.feed(damaged[cut:]))


WILL = mqtt.Will("a/will", b"gone", 1, True)
SAID = {"user_property": (("$to", "floor = 2"), ("a", "b")), "message_expiry_interval": 9, "topic_alias": 3}
PACKETS: tuple[mqtt.Packet, ...] = (
    mqtt.Publish("a/b", b"12", 0),
    mqtt.Publish("a/b", b'{"n": 1}', 1, True, False, 7),
    mqtt.Publish("a/b/c", bytes(40), 2, False, True, 65_535),
    mqtt.Puback(7),
    mqtt.Pubrec(8),
    mqtt.Pubrel(8),
    mqtt.Pubcomp(8),
    mqtt.Subscribe(9, (mqtt.Subscription("a/+/#", 2), mqtt.Subscription("$share/g/a", 1))),
    mqtt.Unsubscribe(10, ("a/+/#", "b")),
    mqtt.Pingreq(),
    mqtt.Disconnect(),
)


@cache
def _packets(level: int) -> tuple[bytes, ...]:
    """CONNECT first."""
    said = {"session_expiry_interval": 100, "receive_maximum": 5} if level == 5 else {}
    first = mqtt.Connect("c1", level, True, 60, WILL, "ann", b"secret", said)
    rest = [*PACKETS, mqtt.Publish("a", b"x", 1, False, False, 3, SAID)] if level == 5 else PACKETS
    return tuple(encode(packet, level) for packet in (first, *rest))


def filter_text(draw: Random) -> None:
    """A filter as text: what is read can be printed, and is read again as the same."""
    text = spoilt_text(draw.choice(FILTERS), WORDS, draw)

    def read() -> None:
        filter = parse(text)
        assert parse(to_text(filter)) == filter, text

    with suppress(FilterError):
        read()


def filter_json(draw: Random) -> None:
    """A filter as JSON."""
    text = spoilt(json.dumps(to_json(parse(draw.choice(FILTERS)))).encode(), draw).decode(errors="replace")
    with suppress(FilterError):
        loads(text)


def journal_batch(draw: Random) -> None:
    """A batch of the journal, and the inputs in it."""
    data = spoilt(_batch(), draw)
    with suppress(JournalError):
        list(inputs_of(data))


@cache
def _batch() -> bytes:
    heard = [message for message in _messages() if type(message) is not wire.Intro][:40]
    inputs: list[Input] = [Opened("1/1", {"role": "x"}), LinkUp("b2"), TimerDue(("expiry",))]
    entries = [entry_of(input, b"", 1.0) for input in inputs]
    entries += [entry_of(Heard("1/1", each), wire.NATIVE.encode(each), 1.0) for each in heard]
    entries += [entry_of(Arrived("b2", each), wire.NATIVE.encode(each), 1.0) for each in heard]
    return msgspec.msgpack.encode(entries)


def snapshot(draw: Random) -> None:
    """A broker's snapshot: a machine takes it whole, or says what is wrong."""
    data = spoilt(_snapshot(), draw)
    with suppress(SnapshotError):
        unpack(data, mobile_broker("here", {"left": 1.0, "right": 1.0}, BrokerConfig()))


@cache
def _snapshot() -> bytes:
    return pack(busy_broker("tree"), DriverState({}, (), 1.0))


DECODERS: dict[str, Case] = {
    "native message": native_message,
    "JSON message": json_message,
    "native stream": native_stream,
    "MQTT packets": mqtt_packets,
    "filter text": filter_text,
    "filter JSON": filter_json,
    "journal batch": journal_batch,
    "snapshot": snapshot,
}
