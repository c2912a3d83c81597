"""Messages of a bridge as messages of NATS."""

import pytest

from godwit.errors import BadValue
from godwit.mqtt.client_end import Outgoing

pytest.importorskip("nats")

from godwit.runtime.bridges.nats_remote import headers_of
from godwit.runtime.bridges.routes import PATH

INJECTED = "x\r\nGodwit-Path: other"


def outgoing(payload: bytes = b"x", **properties: object) -> Outgoing:
    return Outgoing(1, "a/b", payload, 1, False, dict(properties))


def test_no_text_of_a_publisher_makes_a_header_of_its_own() -> None:
    """The library writes headers as they are: a line end in one would begin the next."""
    pairs = (("unit", "kmh"), ("place", INJECTED), (INJECTED, "1"), (PATH, INJECTED), (PATH, "b1"))
    headers = headers_of(outgoing(user_property=pairs, content_type=INJECTED), 1_000)
    assert headers == {"unit": "kmh", "Godwit-Path": "b1", "Godwit-QoS": "1"}
    headers = headers_of(outgoing(content_type="text/plain; charset=utf-8"), 1_000)
    assert headers == {"Content-Type": "text/plain; charset=utf-8", "Godwit-Path": "", "Godwit-QoS": "1"}


def test_headers_count_in_the_size_of_a_message() -> None:
    """A server closes the connection of a client that sends more, and the message would be sent again with the next."""
    pairs = (("long", "ü" * 400),)
    assert headers_of(outgoing(b"x" * 150, user_property=pairs), 1_024)["long"] == pairs[0][1]
    with pytest.raises(BadValue, match="the server takes 1024"):
        headers_of(outgoing(b"x" * 250, user_property=pairs), 1_024)
