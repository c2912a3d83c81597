"""Streams of server-sent events: bounded, counted, and only for those who may see."""

import msgspec
import pytest

from godwit.runtime.http_requests import Problem
from godwit.teamwork.web_streams import STREAMS_MAX, WAITING_MAX, Streams


def events(data: bytes) -> list[tuple[str, object]]:
    """Name and data of each event."""
    parts = [part.split("\n") for part in data.decode().split("\n\n") if part]
    return [(name.removeprefix("event: "), msgspec.json.decode(said.removeprefix("data: "))) for name, said in parts]


def test_an_event_goes_to_those_who_may_see_it() -> None:
    streams = Streams()
    ann, bob = streams.new("ann", None), streams.new("bob", None)
    streams.tell("change", {"n": 1}, lambda user: user == "ann")
    assert events(ann.next_part()) == [("change", {"n": 1})]
    assert ann.next_part() == b""
    assert bob.next_part() == b""


def test_line_breaks_do_not_end_an_event() -> None:
    stream = Streams().new("ann", None)
    stream.tell("change", {"text": "a\n\nevent: evil\ndata: b\r\n"})
    assert events(stream.next_part()) == [("change", {"text": "a\n\nevent: evil\ndata: b\r\n"})]


def test_who_does_not_read_is_told_that_something_was_missed() -> None:
    stream = Streams().new("ann", None)
    for number in range(WAITING_MAX + 2):
        stream.tell("change", number)
    assert events(stream.next_part()) == [("missed", {}), ("change", WAITING_MAX + 1)]


def test_streams_of_a_user_are_counted_and_places_come_back() -> None:
    gone = []
    streams = Streams()
    first = streams.new("ann", None, on_gone=lambda: gone.append("first"))
    for _ in range(STREAMS_MAX - 1):
        streams.new("ann", None)
    with pytest.raises(Problem, match="at most 32 streams"):
        streams.new("ann", None)
    streams.new("bob", None)
    first.on_gone()
    assert gone == ["first"]
    assert len(streams) == STREAMS_MAX
    streams.new("ann", None)
