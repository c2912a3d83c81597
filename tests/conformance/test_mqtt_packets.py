"""1,483 exchanges of packets with a server, from tables that another project uses for its own: how many hold here.

The tables are no part of this repository (`../shared/suites/mqtt-packets`); without them this is skipped. *Strict*: the
server sends exactly the bytes of the table. *Lenient*: where the table wants the connection closed, it is closed, with
or without a DISCONNECT that says why; the standard (§4.13) asks for one with SHOULD.

Where table and standard say different things we follow the standard:

- A subscription identifier in a client's PUBLISH is refused [MQTT-3.3.4-6]; 8 cases want it accepted. These are the
  only cases that do not hold leniently.
- A property that its packet may not bear makes a malformed packet, 0x81 [§2.2.2.2]; most tables want 0x82.
- What the standard calls a protocol error is 0x82: no topic and no alias, no topic filter, QoS 3 or retain handling 3
  in SUBSCRIBE, subscription identifier 0; the tables want 0x81.
- A packet that a client may never send is 0x82 whatever its flags are; the tables want 0x81 for two of the four.
- A PINGREQ that is too long and a DISCONNECT with a code that does not exist get a DISCONNECT; the tables want none.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from godwit.mqtt import (
    FROM_SERVER,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    MqttSettings,
    Pingreq,
    Pingresp,
    Publish,
    encode,
)
from godwit.mqtt.packet_decoder import SIZE_MAX
from tests.conformance.mqtt_world import World

TABLES = Path(__file__).resolve().parents[3] / "shared" / "suites" / "mqtt-packets"
SETTINGS = MqttSettings(
    topic_alias_maximum=10, receive_maximum=20, maximum_packet_size=SIZE_MAX, in_flight_max=20, reason_strings=False
)
CASES, STRICT_AT_LEAST, LENIENT_AT_LEAST = 1_483, 1_320, 1_475


@dataclass(frozen=True)
class Outcome:
    is_strict: bool
    is_lenient: bool
    got: str


def cases() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{group['group']} {case['name']}", case)
        for path in sorted(TABLES.glob("*.json"))
        for group in json.loads(path.read_text())
        if not group.get("disable")
        for case in group["tests"]
    ]


def unreasoned(data: bytes) -> bytes:
    """The bytes without a DISCONNECT for an error at their end."""
    for size in (3, 4):
        tail = data[-size:]
        if len(tail) == size and tail[0] == 0xE0 and tail[1] == size - 2 and tail[2] >= 0x80:
            return data[:-size]
    return data


def run(name: str, case: dict[str, Any]) -> Outcome:
    level, wants_close = case.get("ver", 4), case.get("expect_disconnect", True)
    world = World(SETTINGS)
    world.open("a")
    if case.get("connect", True):
        world.receive("a", encode(Connect(name, level, keep_alive=60), level))
        [connack] = Decoder(level, FROM_SERVER).feed(bytes(world.lines["a"].out))
        assert isinstance(connack, Connack)
        assert connack.reason_code == 0
        world.lines["a"].out.clear()
    line = world.lines["a"]
    expected = b""
    for step in case["msgs"]:
        match step["type"]:
            case "send":
                world.receive("a", bytes.fromhex(step["payload"].replace(" ", "")))
            case "recv":
                expected += bytes.fromhex(step["payload"].replace(" ", ""))
            case "publish":
                help_publish(world, step)
    got = bytes(line.out)
    if not wants_close:
        line.out.clear()
        world.receive("a", encode(Pingreq(), 4))
        holds = got == expected and line.is_open and bytes(line.out) == encode(Pingresp(), 4)
        return Outcome(holds, holds, got.hex(" ") + ("" if line.is_open else " closed"))
    is_lenient = not line.is_open and unreasoned(got) == unreasoned(expected)
    return Outcome(not line.is_open and got == expected, is_lenient, got.hex(" ") + (" open" if line.is_open else ""))


def help_publish(world: World, step: dict[str, Any]) -> None:
    world.open("helper")
    world.receive("helper", encode(Connect("helper", 4), 4))
    packet = Publish(step["topic"], step["payload"].encode(), step["qos"], packet_id=1 if step["qos"] else 0)
    world.receive("helper", encode(packet, 4))
    world.receive("helper", encode(Disconnect(), 4))


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"no tables of packets in {TABLES.name}")
def test_the_tables_hold():
    outcomes = [(name, case, run(name, case)) for name, case in cases()]
    assert len(outcomes) == CASES
    strict = sum(outcome.is_strict for _, _, outcome in outcomes)
    lenient = sum(outcome.is_lenient for _, _, outcome in outcomes)
    for name, case, outcome in outcomes:
        if not outcome.is_strict:
            wanted = " ".join(step["payload"] for step in case["msgs"] if step["type"] == "recv") or "nothing"
            print(f"{'lenient' if outcome.is_lenient else 'fails'}: {name}: wanted {wanted}, got {outcome.got}")
    print(f"strict {strict}, lenient {lenient} of {len(outcomes)}")
    assert strict >= STRICT_AT_LEAST
    assert lenient >= LENIENT_AT_LEAST
    assert all("subscription-identifier" in name for name, _, outcome in outcomes if not outcome.is_lenient)


@pytest.mark.parametrize(
    ("case", "is_strict", "is_lenient"),
    [
        ({"expect_disconnect": False, "msgs": [{"type": "send", "payload": "C000"}]}, False, False),
        ({"msgs": [{"type": "send", "payload": "C000"}, {"type": "recv", "payload": "D000"}]}, False, False),
        ({"ver": 5, "msgs": [{"type": "send", "payload": "C100"}]}, False, True),
        ({"ver": 5, "msgs": [{"type": "send", "payload": "C100"}, {"type": "recv", "payload": "E00181"}]}, True, True),
        ({"ver": 5, "msgs": [{"type": "send", "payload": "C100"}, {"type": "recv", "payload": "D000"}]}, False, False),
    ],
)
def test_a_case_that_does_not_hold_is_seen(case, is_strict, is_lenient):
    outcome = run("planted", case)
    assert (outcome.is_strict, outcome.is_lenient) == (is_strict, is_lenient)
