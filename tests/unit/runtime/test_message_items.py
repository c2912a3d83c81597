"""Values of a message are counted before it is decoded."""

import json
from typing import Any

import msgspec
import pytest

from godwit.broker.messages import Publish, Request
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.runtime import wire
from godwit.runtime.http_events import SEPARATORS_MAX, BadBody, events_in
from godwit.runtime.message_items import ITEMS_MAX, SMALL_BYTES, check_items, check_separators, separators_in
from godwit.runtime.wire import Frames

TEXT = "x" * SMALL_BYTES  # so that a message is looked at


@pytest.mark.parametrize(
    "value",
    [
        {f"a{number}": 1 for number in range(ITEMS_MAX + 1)},
        [1] * (ITEMS_MAX + 1),
        {"a": [0] * (ITEMS_MAX // 2), "b": {"c": [[0] * (ITEMS_MAX // 4)] * 2}},
        [[[]] * 200] * 300,
        {"wish": {"event": ["ann", 1, {f"a{number}": [1] * 10 for number in range(3_000)}]}},
    ],
)
def test_a_message_of_too_many_values_is_refused_at_any_depth(value: Any) -> None:
    with pytest.raises(PeerFault, match="values"):
        check_items(msgspec.msgpack.encode([value, TEXT]))
    with pytest.raises(PeerFault, match="commas"):
        check_separators(msgspec.json.encode([value, TEXT]))


@pytest.mark.parametrize("value", [[0] * (ITEMS_MAX - 10), {"a": "x" * 2**20}, [[[1] * 15] * 15] * 15, [{}], [[]], 1])
def test_other_messages_pass(value: Any) -> None:
    check_items(msgspec.msgpack.encode([value, TEXT]))
    check_separators(msgspec.json.encode([value, TEXT]))


def test_a_small_message_is_not_looked_at() -> None:
    check_items(bytes(SMALL_BYTES))
    assert separators_in(b"," * SMALL_BYTES) == 0


@pytest.mark.parametrize("broken", [b"\xdd\x00\x00\x0f\xff", b"\xdf\x00\x00\x00\x02\x01\x01", b"\xc1"])
def test_what_is_not_valid_is_left_to_the_decoder(broken: bytes) -> None:
    check_items(broken + bytes(SMALL_BYTES))


def test_deep_nesting_is_left_to_the_decoder() -> None:
    deep = b"\x91" * 10 * ITEMS_MAX
    check_items(deep)
    with pytest.raises(PeerFault):
        Frames().feed(wire.LENGTH.pack(len(deep)) + deep, counts_items=True)


def test_frames_of_clients_are_counted_before_they_are_decoded_and_those_of_links_are_not() -> None:
    decoded: list[bytes] = []

    def decode(packed: bytes) -> Any:
        decoded.append(packed)
        return Request(1, Publish(Event({})))

    frame = msgspec.msgpack.encode([[1] * ITEMS_MAX, TEXT])
    data = wire.LENGTH.pack(len(frame)) + frame
    with pytest.raises(PeerFault, match="values"):
        Frames(decode=decode).feed(data, counts_items=True)
    assert decoded == []
    Frames(decode=decode).feed(data)
    assert decoded == [frame]


def test_a_post_of_too_many_values_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(BadBody, match="payload_base64"):
        events_in(b"[" + b"," * (SEPARATORS_MAX + 1), 0.0)
    whole = json.dumps([{"kind": "parking", "n": number} for number in range(10_000)]).encode()
    assert len(events_in(whole, 0.0)) == 10_000
