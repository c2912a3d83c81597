"""Sealed payloads open for those they are meant for, and for nobody else, in no other place."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from godwit.teamwork.sealing import KeyRing, Sealed, key_name, opened_by_device, sealed_for_device
from tests.simulation.team_bus import MemorySecrets


@given(st.binary(max_size=200))
def test_what_is_sealed_for_a_scope_opens_with_its_key(payload: bytes) -> None:
    ring = KeyRing(MemorySecrets())
    name = ring.made("community/ann.1")
    assert ring.opened(ring.sealed("community/ann.1", name, payload)) == payload


def test_without_the_key_it_stays_sealed_and_says_which_key_is_missing() -> None:
    ring, other = KeyRing(MemorySecrets()), KeyRing(MemorySecrets())
    name = ring.made("s")
    sealed = other.opened(ring.sealed("s", name, b"plan"))
    assert isinstance(sealed, Sealed)
    assert (sealed.scope, sealed.name) == ("s", name)


def test_a_payload_that_was_altered_or_moved_to_another_scope_does_not_open() -> None:
    ring = KeyRing(MemorySecrets())
    name = ring.made("s")
    key = ring.key("s", name)
    assert key is not None
    ring.keep("t", name, key)
    sealed = msgspec.msgpack.decode(ring.sealed("s", name, b"plan"), type=Sealed)
    moved = msgspec.structs.replace(sealed, scope="t")
    spoilt = msgspec.structs.replace(sealed, data=bytes([sealed.data[0] ^ 1]) + sealed.data[1:])
    short = msgspec.structs.replace(sealed, nonce=b"")
    assert [ring.opened(msgspec.msgpack.encode(each)) for each in (moved, spoilt, short)] == [None] * 3
    assert ring.opened(b"no message") is None


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 32])
def test_a_key_of_another_name_is_not_kept(key: bytes) -> None:
    ring = KeyRing(MemorySecrets())
    assert not ring.keep("s", key_name(b"y" * 32), key)
    assert not ring.has("s", key_name(b"y" * 32))


@given(st.binary(max_size=200))
def test_what_is_sealed_for_a_device_opens_there_alone(payload: bytes) -> None:
    ann, bob = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    box = sealed_for_device(ann.public_key().public_bytes_raw(), "d1", payload)
    assert opened_by_device(ann, "d1", box) == payload
    assert opened_by_device(bob, "d1", box) is None
    assert opened_by_device(ann, "d2", box) is None


@given(st.binary(max_size=80))
def test_bytes_that_are_no_box_do_not_open(box: bytes) -> None:
    assert opened_by_device(X25519PrivateKey.from_private_bytes(b"k" * 32), "d1", box) is None
