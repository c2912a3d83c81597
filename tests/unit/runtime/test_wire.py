"""The first message of a connection: what is wrong with it is said in words that an operator can act on."""

import pytest

from godwit.errors import PeerFault
from godwit.runtime.wire import first_intro


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"GET / HTTP/1.1\r\n", "is it an HTTP request?"),
        (b"POST /events HTTP/1.1\r\n", "is it an HTTP request?"),
        (bytes.fromhex("1603010200010001fc0303"), "is it a TLS handshake?"),
        (bytes.fromhex("101600044d51545404"), "is it an MQTT CONNECT?"),
    ],
)
def test_a_connection_that_was_meant_for_another_port_is_named(start: bytes, kind: str) -> None:
    with pytest.raises(PeerFault, match="This port speaks Godwit's native protocol") as fault:
        first_intro(bytearray(start), 65_536)
    assert kind in str(fault.value)


def test_any_other_first_message_that_is_too_long_is_refused_with_the_limit() -> None:
    with pytest.raises(PeerFault, match=r"a first frame of 4294967295 bytes: at most 65536 are allowed$"):
        first_intro(bytearray(b"\xff" * 16), 65_536)
