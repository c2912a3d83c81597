"""Whatever machines send can be written and is read as it was; whatever else comes is a fault of the peer, no more."""

import dataclasses
import types
from itertools import zip_longest
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from godwit.broker.messages import Accepted, Frame, Packet, Publish
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.errors import PeerFault
from godwit.filters.contexts import Described, bounds_of
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.filters.values import Value
from godwit.runtime import wire
from tests.property import strategies as own

KINDS = wire._kinds()
BETWEEN_BROKERS = (wire.Question, wire.Answer)  # which speak the native form only
EVENTS = st.builds(
    dataclasses.replace,
    own.events(),
    publisher=st.sampled_from(["", "p"]),
    sequence=st.integers(0, 2**40),
    payload=st.none() | st.binary(max_size=4),
    published_at=st.none() | st.floats(0, 1e9),
    to=st.none() | own.filters(3),
)
PARTS: dict[Any, SearchStrategy[Any]] = {
    str: st.text(max_size=4),
    int: st.integers(0, 2**40),
    float: st.floats(0, 1e12),
    bool: st.booleans(),
    bytes: st.binary(max_size=4),
    type(None): st.none(),
    Event: EVENTS,
    Filter: own.filters(3),
    Value: own.values(),
    Described: own.attributes()
    | st.lists(own.attributes(), min_size=2, max_size=3).map(lambda found: bounds_of(map(dict, found))),
    Attributes: own.attributes(),
    dict[str, Value | tuple[Value, ...]]: own.attributes(),
}


def of_type(hint: Any) -> SearchStrategy[Any]:
    """Anything that a field of this type may hold."""
    if hint in PARTS:
        return PARTS[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return messages(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        if hint == Filter | None:
            return st.none() | own.filters(3)
        return st.one_of([of_type(each) for each in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(of_type(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of_type, arguments))
    assert origin is dict, hint
    return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=2)


def messages(kind: type) -> SearchStrategy[Any]:
    hints = get_type_hints(kind)
    if kind in (Frame, Packet, HopPacket, SentAgain):
        hints["message"] = Publish
    return st.builds(kind, **{field.name: of_type(hints[field.name]) for field in msgspec.structs.fields(kind)})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_message_is_read_as_it_was_written(kind: type, data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    for form in (wire.NATIVE,) if kind in BETWEEN_BROKERS else (wire.NATIVE, wire.JSON):
        assert_same(form.decode(form.encode(message)), message)


def assert_same(read: Any, written: Any) -> None:
    """Equal, and of the same types all the way down: 1 is not 1.0, and not True."""
    assert read == written
    assert repr(read) == repr(written)


@given(st.lists(st.sampled_from(KINDS).flatmap(messages), max_size=5), st.data())
def test_where_a_stream_is_cut_and_what_is_read_at_once_do_not_matter(written: list[Any], data: st.DataObject) -> None:
    stream = wire.Frames.packed(written)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    count_max = data.draw(st.integers(1, 6))
    frames = wire.Frames()
    read = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read += [message for message, _ in frames.feed(stream[start:end], count_max)]
        while frames.has_more and data.draw(st.booleans()):
            assert frames.pending == 0, "whole frames that wait for us are no half frames of the peer's"
            read += [message for message, _ in frames.feed(b"", count_max)]
    while frames.has_more:
        came = frames.feed(b"", count_max)
        assert 0 < len(came) <= count_max
        read += [message for message, _ in came]
    kept = [
        message
        for message, after in zip_longest(written, written[1:])
        if not (type(message) is Accepted and type(after) is Accepted)  # of several in a row the last says it all
    ]
    assert read == kept
    one_by_one = [wire.Frames.packed_one(message) for message in kept]
    assert b"".join(one_by_one) == stream
    frames = wire.Frames()
    assert [message for each in one_by_one for message, _ in frames.feed(each)] == kept


@given(st.one_of(st.binary(max_size=60), st.sampled_from(KINDS).flatmap(messages).map(wire.NATIVE.encode)), st.data())
def test_whatever_comes_is_a_message_or_a_fault(seen: bytes, data: st.DataObject) -> None:
    changed = bytearray(seen)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        if changed:
            changed[at % len(changed)] = byte
    for form in (wire.NATIVE, wire.JSON):
        try:
            form.decode(bytes(changed))
        except PeerFault:
            continue


def test_a_frame_that_is_too_long_is_a_fault_before_it_has_come() -> None:
    with pytest.raises(PeerFault, match="a frame of 101 bytes: at most 100 are allowed"):
        wire.Frames(100).feed((101).to_bytes(4, "big"))


def test_what_is_no_message_is_said_so() -> None:
    with pytest.raises(PeerFault, match="not a message"):
        wire.NATIVE.decode(msgspec.msgpack.encode({"type": "Sing"}))


def test_a_browser_may_write_a_filter_as_text() -> None:
    seen = wire.JSON.decode(b'{"type": "Subscribe", "id": ["ann", "s"], "filter": "price < 10"}')
    assert seen.filter == parse("price < 10")
