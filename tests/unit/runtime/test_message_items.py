"""Values of a message are counted before it is decoded."""

import json
from typing import Any

import msgspec
import pytest

from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Publish, Request, Subscribe
from godwit.codec.message_codec import Codec
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import DEPTH_MAX
from godwit.filters.language import parse
from godwit.runtime import wire
from godwit.runtime.http_events import SEPARATORS_MAX, BadBody, events_in
from godwit.runtime.message_items import (
    GREETING_ITEMS_MAX,
    ITEMS_MAX,
    SMALL_BYTES,
    check_items,
    check_separators,
    separators_in,
)
from godwit.runtime.wire import JSON, NATIVE, Frames

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


@pytest.mark.parametrize("broken", [b"\xc1", b"\x81\x01\x01", b"\x81\xa1\xff\x01", b"\xdd\x00\x00\x0f\xff"])
def test_many_values_before_a_fault_are_refused_without_being_built(broken: bytes) -> None:
    """The decoder builds all that comes before the fault."""
    many = msgspec.msgpack.encode({f"a{number}": 1 for number in range(10 * ITEMS_MAX)})
    decoded: list[bytes] = []
    frame = b"\x92" + many + broken
    with pytest.raises(PeerFault):
        Frames(decode=decoded.append).feed(wire.LENGTH.pack(len(frame)) + frame, counts_items=True)
    assert decoded == []


@pytest.mark.parametrize(("depth", "words"), [(501, "more than 500 deep"), (10 * ITEMS_MAX, "")])
def test_deep_nesting_is_refused(depth: int, words: str) -> None:
    with pytest.raises(PeerFault, match=words or None):
        check_items(b"\x92" * depth + b"\x01" * depth + msgspec.msgpack.encode(TEXT))


def test_a_filter_of_the_deepest_nesting_that_is_allowed_passes() -> None:
    filter = parse("n = 0")
    for level in range(1, DEPTH_MAX // 2):
        filter = parse(f"a{level} = 1") & filter | parse(f"b{level} = 1")
    frame = NATIVE.encode(Request(1, Subscribe(("ann", TEXT), filter)))
    check_items(frame)


@pytest.mark.parametrize("wire_form", [NATIVE, JSON])
def test_a_greeting_may_bring_all_subscriptions_of_a_client(wire_form: Codec) -> None:
    """More values than other messages have: a client that moves brings everything at once."""
    filter = "kind = 'parking' AND n > {} AND x < 7 AND y < 9 AND y > 3"
    wanted = tuple(
        Subscribe(("ann", f"s{number}"), parse(filter.format(number))) for number in range(Limits().subscriptions_max)
    )
    check = check_items if wire_form is NATIVE else check_separators
    check(wire_form.encode(Attach("ann", wanted=wanted)))
    with pytest.raises(PeerFault, match="400000"):
        check(wire_form.encode(Attach("ann", tried=("b",) * (GREETING_ITEMS_MAX + 1))))


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
