"""A request over WebSocket that is wrong becomes one that the machine refuses; all else that is wrong is a fault."""

from typing import Any

import msgspec
import pytest

from godwit.broker.messages import Denied, Publish, Received, Request, Subscribe
from godwit.errors import PeerFault
from godwit.filters.language import parse
from godwit.runtime.socket_messages import message_of


def request(wish: Any, number: Any = 7) -> bytes:
    return msgspec.json.encode({"type": "Request", "number": number, "wish": wish})


def test_what_is_right_is_read_as_it_is() -> None:
    said = request({"type": "Subscribe", "id": ["c", "s"], "filter": "a > 1"})
    assert message_of(said) == Request(7, Subscribe(("c", "s"), parse("a > 1")))
    assert message_of(b'{"type": "Received", "number": 3}') == Received(3)
    told = message_of(request({"type": "Publish", "event": {"attributes": {"user": {"name": "Ann"}}}}))
    assert isinstance(told.wish, Publish)
    assert told.wish.event.attributes == {"user/name": "Ann"}


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"type": "Subscribe", "id": ["c", "s"], "filter": "a >"}, "expected"),
        ({"type": "Subscribe", "id": ["c", "s"]}, "filter"),
        ({"type": "Publish", "event": {"attributes": {"n": 2**70}}}, "64 bits"),
        ({"type": "Publish", "event": {"attributes": {f"n{n}": n for n in range(2_000)}}}, "at most 1000 attributes"),
        ({"type": "Publish", "event": {"attributes": {"n": 1}, "to": "x = my.x"}}, "own context"),
        ({"type": "Context", "values": {"sender.x": 1}}, "in a context it is called 'x'"),
        ({"type": "Dance"}, "Dance"),
        ({}, "type"),
    ],
)
def test_a_request_whose_wish_is_wrong_is_refused_with_the_reason(wish: Any, reason: str) -> None:
    message = message_of(request(wish))
    assert isinstance(message, Request)
    assert message.number == 7
    assert isinstance(message.wish, Denied)
    assert reason in message.wish.reason


def test_a_text_that_is_no_unicode_is_refused() -> None:
    said = b'{"type": "Request", "number": 7, "wish": {"type": "Publish", "event": {"attributes": {"n": "\\ud800"}}}}'
    message = message_of(said)
    assert isinstance(message.wish, Denied)


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense",
        b"[" * 100_000,
        b'{"type": "Received", "number": "x"}',
        b'{"type": "Request", "number": 7}',
        request({"type": "Dance"}, 0),
        request({"type": "Dance"}, True),
        request({"type": "Dance"}, "7"),
        b'{"type": "Request", "number": 9223372036854775808, "wish": {"type": "Dance"}}',
    ],
)
def test_whatever_else_is_wrong_is_a_fault(said: bytes) -> None:
    with pytest.raises(PeerFault):
        message_of(said)
