"""Values of a message are counted before it is decoded."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Denied, Publish, Request, Subscribe
from godwit.codec.message_codec import Codec
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import DEPTH_MAX
from godwit.filters.language import parse, to_json
from godwit.runtime import message_items, wire
from godwit.runtime.http_events import SEPARATORS_MAX, BadBody, events_in, work_of_events
from godwit.runtime.message_items import (
    GREETING_ITEMS_MAX,
    ITEMS_MAX,
    SMALL_BYTES,
    check_items,
    refused_text,
    separators,
)
from godwit.runtime.wire import JSON, NATIVE, Frames

TEXT = "x" * SMALL_BYTES  # so that a message is looked at
json_bytes = msgspec.json.encode
MANY = [1] * (ITEMS_MAX + 1)


def separators_in(text: bytes) -> int:
    """How many there are."""
    return [0, *separators(text)][-1]


def check_text(text: bytes) -> Request | None:
    """What is to be taken for a message in JSON; None: the message."""
    return refused_text(text, separators_in(text))


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
        check_text(msgspec.json.encode([value, TEXT]))


@pytest.mark.parametrize("value", [[0] * (ITEMS_MAX - 10), {"a": "x" * 2**20}, [[[1] * 15] * 15] * 15, [{}], [[]], 1])
def test_other_messages_pass(value: Any) -> None:
    check_items(msgspec.msgpack.encode([value, TEXT]))
    check_text(msgspec.json.encode([value, TEXT]))


def test_a_small_message_is_not_looked_at() -> None:
    check_items(bytes(SMALL_BYTES))
    assert separators_in(b"," * SMALL_BYTES) == 0


@pytest.mark.parametrize(("encode", "check"), [(msgspec.msgpack.encode, check_items), (json_bytes, check_text)])
def test_a_request_of_too_many_values_is_refused_with_its_number(encode: Any, check: Any) -> None:
    refused = check(encode({"type": "Request", "number": 7, "wish": {"type": "Subscribe", "filter": [MANY, TEXT]}}))
    assert refused.number == 7
    assert "more than 25000" in refused.wish.reason
    assert check(encode({"type": "Request", "number": 7, "wish": [1, TEXT]})) is None


@pytest.mark.parametrize(("encode", "check"), [(msgspec.msgpack.encode, check_items), (json_bytes, check_text)])
@pytest.mark.parametrize(
    "head", [{}, {"type": "Request"}, {"type": "Request", "number": "7"}, {"type": "Request", "number": 0}, {"type": 1}]
)
def test_too_many_values_in_what_is_no_request_are_a_fault(encode: Any, check: Any, head: dict[str, Any]) -> None:
    with pytest.raises(PeerFault, match="more than 25000"):
        check(encode({**head, "wish": [MANY, TEXT]}))


def test_a_refused_request_comes_out_of_its_frame_with_the_bytes_of_the_refusal() -> None:
    frame = msgspec.msgpack.encode({"type": "Request", "number": 7, "wish": [MANY, TEXT]})
    [(message, packed)] = Frames().feed(wire.LENGTH.pack(len(frame)) + frame, counts_items=True)
    assert type(message.wish) is Denied
    assert NATIVE.decode(packed) == message


values = st.recursive(
    st.none() | st.integers(0, 9) | st.text(st.sampled_from('",:[]{}\\\n\té1'), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('":\\,a'), max_size=4), inner),
)


def outside_texts(text: str) -> int:
    """The same, by a simple rule."""
    return len(re.findall(r"[,:\[]", re.sub(r'"(\\.|[^"\\])*"', "", text)))


@given(st.lists(values, max_size=8), st.integers(1, 9))
def test_signs_in_texts_do_not_count(value: Any, piece_bytes: int) -> None:
    text = json.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_items, "SMALL_BYTES", 0)
        patch.setattr(message_items, "PIECE_BYTES", piece_bytes)
        assert separators_in(text.encode()) == outside_texts(text)


def test_a_text_of_commas_passes() -> None:
    check_text(json_bytes({"type": "Request", "number": 1, "wish": ',:["\\' * SMALL_BYTES}))


def test_counting_ends_when_there_are_enough() -> None:
    counts = [*separators(b"," * (8 * SMALL_BYTES), 10)]
    assert len(counts) == 1


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
    check = check_items if wire_form is NATIVE else check_text
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
    with pytest.raises(BadBody, match="commas, colons"):
        events_in(b"[" + b"," * (SEPARATORS_MAX + 1), 0.0)
    whole = json.dumps([{"kind": "parking", "n": number} for number in range(10_000)]).encode()
    assert len(events_in(whole, 0.0)) == 10_000


@pytest.mark.parametrize("body", [b"\n" * 50_000, b'{"a": 1}\r\n' * 30_000])
def test_a_post_of_too_many_lines_is_refused_before_they_are_taken_apart(body: bytes) -> None:
    with pytest.raises(BadBody, match="more than 40000 line ends"):
        events_in(body, 0.0)


def test_as_many_lines_as_events_are_taken_with_empty_ones_between() -> None:
    assert len(events_in(b'{"a": 1}\r\n\r\n' * 10_000, 0.0)) == 10_000


LONG = " OR ".join(f"a = {number}" for number in range(10_000))


@pytest.mark.parametrize("to", [LONG, to_json(parse(LONG))])
def test_a_receiver_filter_of_a_post_is_refused_by_its_size_before_it_is_read(to: Any) -> None:
    with pytest.raises(BadBody, match="to: a filter of more than 32768 bytes"):
        events_in(json.dumps({"attributes": {"a": 1}, "to": to}).encode(), 0.0)


def test_equal_receiver_filters_of_a_post_are_read_once_and_cost_once() -> None:
    events = [{"attributes": {"a": 1}, "to": f"role = 'driver' AND n = {number % 2}"} for number in range(10)]
    taken = events_in(json.dumps(events).encode(), 0.0)
    assert work_of_events(taken) == 2 * (20 + 2 * 10)
    assert work_of_events([Event({"a": 1})]) == 0
