"""Requests for files: targets, signatures, manifests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import ContentError
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.file_requests import (
    Asker,
    Credentials,
    Form,
    Target,
    WantedFile,
    authorization,
    challenge_header,
    challenge_in,
    manifest_bytes,
    read_authorization,
    read_manifest,
    sealed_bytes,
    signed_bytes,
)
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from tests.unit.teamwork.file_peers import Keys, me

NAME = bytes(range(32))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(form=st.sampled_from(Form), scope=TEXTS, record=TEXTS, first=st.integers(0, 10**8), count=st.integers(1, 99))
def test_a_target_is_read_as_it_was_written(form: Form, scope: str, record: str, first: int, count: int) -> None:
    chunks = range(first, first + count) if form is Form.SEALED_CHUNKS else range(0)
    target = Target(form, scope, record, NAME, chunks)
    assert str(target).isascii()
    assert " " not in str(target)
    assert Target.read(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        "/",
        f"/files/{NAME.hex()}",
        f"/files/{NAME.hex()[:-1]}?scope=a&record=b",
        f"/files/{NAME.hex().upper()}?scope=a&record=b",
        f"/files/{NAME.hex()}/0-1?scope=a&record=b",
        f"/sealed/{NAME.hex()}?scope=a&record=b",
        f"/sealed/{NAME.hex()}/1-?scope=a&record=b",
        f"/files/../{NAME.hex()}?scope=a&record=b",
        f"/files/{NAME.hex()}?scope=a&record=b&more=c",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    assert Target.read(text) is None


def test_a_signature_is_for_one_request_to_one_peer_on_one_connection() -> None:
    team: dict[str, DeviceKeys] = {}
    ann, bob = Keys("ann.laptop", team), me("bob.phone", team)
    request = ("GET", "/files/x", "bytes=0-1")
    header = authorization(bob.devices, "c1", "ann.laptop", bob.asker, request)
    said = read_authorization(header)
    assert isinstance(said, Credentials)

    def problem(challenge: str, peer: str, asker: Asker, request: tuple[str, str, str]) -> str:
        assert said is not None
        return ann.check(asker.device, asker.user, signed_bytes(challenge, peer, asker, request), said.signature)

    assert not problem("c1", "ann.laptop", said.asker, request)
    assert problem("c2", "ann.laptop", said.asker, request)
    assert problem("c1", "cid.laptop", said.asker, request)
    assert problem("c1", "ann.laptop", Asker("ann", "bob.phone"), request)
    for other in (("HEAD", *request[1:]), ("GET", "/files/y", request[2]), (*request[:2], "bytes=0-2")):
        assert problem("c1", "ann.laptop", said.asker, other)


@pytest.mark.parametrize("header", ["", "Godwit", "Basic QQ==", "Godwit !", "Godwit QQ==", "Godwit " + "A" * 4_000])
def test_a_header_that_is_none_of_ours_says_nothing(header: str) -> None:
    assert read_authorization(header) is None


def test_a_challenge_is_read_as_it_was_written() -> None:
    assert challenge_in(challenge_header("00ff")) == "00ff"
    assert not challenge_in('Basic realm="x"')


def test_a_manifest_counts_if_it_has_the_root_and_the_name() -> None:
    manifest = Manifest(NAME, CHUNK_BYTES + 1, b"x" * 64)
    assert read_manifest(WantedFile("s", "r", NAME, manifest.root), manifest_bytes(manifest)) == manifest
    with pytest.raises(ContentError, match="has another hash"):
        read_manifest(WantedFile("s", "r", NAME, manifest.root), manifest_bytes(manifest) + b"x")
    with pytest.raises(ContentError, match="is that of 0001"):
        read_manifest(WantedFile("s", "r", b"y" * 32, manifest.root), manifest_bytes(manifest))
    short = Manifest(NAME, CHUNK_BYTES + 1, b"x" * 32)
    with pytest.raises(ContentError, match="has 2 chunks, and the manifest has 1 hashes"):
        read_manifest(WantedFile("s", "r", NAME, short.root), manifest_bytes(short))


def test_boxes_are_48_bytes_longer() -> None:
    manifest = Manifest(NAME, 2 * CHUNK_BYTES + 5, b"x" * 96)
    assert sealed_bytes(manifest, range(3)) == manifest.size + 3 * 48
    assert sealed_bytes(manifest, range(2, 3)) == 5 + 48
