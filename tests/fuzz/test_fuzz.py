"""A short run of every target; and a planted fault of each kind is found."""

from random import Random
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from godwit.broker import sessions
from godwit.broker.tree import TreeRouting
from godwit.errors import PeerFault
from godwit.runtime import wire
from godwit.runtime.http_protocols import HttpProtocol
from tests.fuzz.__main__ import plan, work
from tests.fuzz.spoiling import spoilt
from tests.fuzz.targets import SHARES, TARGETS

CASES = 300


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_unexpected_comes_of_what_is_spoilt(target: str) -> None:
    *_, fault = work(target, 7, CASES)
    assert fault == ""


def test_a_decoder_that_lets_its_own_errors_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the decoder raises what its library raises."""
    decode = wire.NATIVE.decode

    def loose(data: bytes) -> Any:
        try:
            return decode(data)
        except PeerFault as fault:
            raise ValueError("as the library says it") from fault

    monkeypatch.setattr(wire.NATIVE, "decode", loose)
    name, count, _, fault = work("native message", 7, CASES)
    assert "ValueError: as the library says it" in fault
    assert f"{name}, seed 7, case {count - 1}" in fault


def test_an_error_of_http_that_is_not_handled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what follows a wrong request is left to the library."""
    monkeypatch.setattr(HttpProtocol, "send_400_response", H11Protocol.send_400_response)
    monkeypatch.setattr(HttpProtocol, "handle_events", H11Protocol.handle_events)
    *_, fault = work("HTTP requests", 7, 10 * CASES)
    assert "LocalProtocolError" in fault


@pytest.mark.parametrize(("peer", "checks"), [("neighbour", "_check_known"), ("client", "check_request")])
def test_a_machine_that_fails_at_what_is_wrong_is_found(
    peer: str, checks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a check fails where it should refuse."""
    room: Any = {"_check_known": TreeRouting, "check_request": sessions}[checks]
    check = getattr(room, checks)

    def loose(*said: Any) -> None:
        try:
            check(*said)
        except PeerFault as fault:
            raise RuntimeError("a fault that nobody catches") from fault

    monkeypatch.setattr(room, checks, loose)
    *_, fault = work(f"hostile {peer}, tree", 7, 10 * CASES)
    assert "a fault that nobody catches" in fault


def test_every_target_has_its_share_and_all_cases_are_planned() -> None:
    assert SHARES.keys() == TARGETS.keys()
    pieces = list(plan(100_000, 1, ""))
    assert 99_000 < sum(count for _, _, count in pieces) <= 100_000
    assert len({(name, seed) for name, seed, _ in pieces}) == len(pieces)


def test_what_is_spoilt_is_drawn_from_the_seed() -> None:
    assert [spoilt(b"abcdef", Random(3)) for _ in range(2)] == [spoilt(b"abcdef", Random(3))] * 2
