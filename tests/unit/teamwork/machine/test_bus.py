"""Messages of peers as bytes: what is none is told, whatever it is."""

import msgspec
import pytest

from godwit.teamwork.machine.bus import Have, decoded


def test_a_message_is_what_was_encoded() -> None:
    message = Have("d0", "team/ann.0", {"d0": 3})
    assert decoded(msgspec.msgpack.encode(message)) == message


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\xa2\x8e\x8e", b"\x81\xa4type\xa4\xff\xff\xff\xff", b"\x01"])
def test_what_is_no_message_is_told(payload: bytes) -> None:
    assert str(decoded(payload)).startswith("not a message of a peer: ")
