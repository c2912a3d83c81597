"""The connection of a client: what it says while it is there, and nothing after that."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.runtime import client_transport
from godwit.runtime.client_transport import TcpTransport
from godwit.runtime.wire import Frames, Intro
from tests.network.waiting import a_turn, run, until


class Socket:
    """A transport that cannot be written to once it is closed, as one of TLS cannot."""

    def __init__(self) -> None:
        self.written = 0
        self._is_closed = False

    def write(self, data: bytes) -> None:
        assert not self._is_closed, "it is closed"
        self.written += 1

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True

    abort = close


@pytest.mark.parametrize("ends", ["close", "abort", "connection_lost", "by the peer"])
def test_a_client_that_has_no_connection_any_more_says_nothing(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_transport, "BEAT_S", 0.0)

    async def scene() -> tuple[int, int]:
        faults: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: faults.append(context))
        owner: Any = SimpleNamespace(intro=Intro(), closed_because="")
        wire, socket = TcpTransport(owner, "c1"), Socket()
        wire.connection_made(socket)  # type: ignore[arg-type]
        await until(lambda: socket.written >= 3)
        if ends == "connection_lost":
            wire.connection_lost(None)
        elif ends == "by the peer":
            socket.close()
        else:
            getattr(wire, ends)()
        before = socket.written
        for _ in range(5):
            await a_turn()
        assert faults == []
        return before, socket.written

    before, after = run(scene)
    assert after == before


@pytest.mark.parametrize(
    ("heard", "reason"),
    [([], "connection reset (does this port use TLS?)"), ([Intro()], "connection reset")],
)
def test_a_reset_asks_for_tls_only_if_no_broker_has_answered(heard: list[Intro], reason: str) -> None:
    async def scene() -> str:
        owner: Any = SimpleNamespace(intro=Intro(), closed_because="")
        wire = TcpTransport(owner, "c1")
        wire.connection_made(Socket())  # type: ignore[arg-type]
        wire.data_received(Frames.packed(heard))
        wire.connection_lost(ConnectionResetError())
        return str(owner.closed_because)

    assert run(scene) == reason


@pytest.mark.parametrize(
    ("heard", "reason"),
    [(b"", "not Godwit's native protocol"), (Frames.packed([Intro()]), "a frame of 1213486160 bytes")],
)
def test_bytes_of_another_protocol_are_told_from_a_fault_of_a_broker(heard: bytes, reason: str) -> None:
    async def scene() -> str:
        owner: Any = SimpleNamespace(intro=Intro(), closed_because="")
        wire = TcpTransport(owner, "c1")
        wire.connection_made(Socket())  # type: ignore[arg-type]
        wire.data_received(heard)
        wire.data_received(b"HTTP/1.1 400 Bad Request")
        return str(owner.closed_because)

    assert run(scene).startswith(reason)
