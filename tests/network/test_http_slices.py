"""What comes over HTTP in very many pieces is parsed a few bytes at a time, so that others are served in between."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from godwit.runtime.http_protocols import SocketProtocol
from godwit.runtime.read_slices import SLICE_BYTES
from tests.network.http_broker import broker
from tests.network.waiting import run, until

HEAD = b"POST /events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)
CLOSING = b"\x03\xf0"  # the code of a refusal
CLOSED = b"\x88\x82" + bytes(4) + CLOSING
PING, PONG = b"\x89\x80\0\0\0\0", b"\x8a\0"


def parsed_sizes(monkeypatch: pytest.MonkeyPatch, protocol: Any) -> list[int]:
    """How many bytes are parsed in one go, each time."""
    sizes: list[int] = []
    parse = protocol.data_received

    def noted(self: Any, data: bytes) -> None:
        sizes.append(len(data))
        parse(self, data)

    monkeypatch.setattr(protocol, "data_received", noted)
    return sizes


def test_body_in_chunks_of_one_byte_is_parsed_a_few_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        sizes = parsed_sizes(monkeypatch, H11Protocol)
        async with broker() as (running, _):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            body = b'{"kind": "' + b"x" * 20_000 + b'"}'
            writer.write(HEAD + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 202 " in head
            assert max(sizes) <= SLICE_BYTES
            writer.close()

    run(scene)


def test_large_body_comes_whole() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            body = b'{"kind": "x"' + b"".join(b', "t%d": "%s"' % (n, b"x" * 50_000) for n in range(8)) + b"}"
            writer.write(b"POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 202 " in head, await reader.read(1_000)
            assert (await client.get("/healthz")).status_code == 200
            writer.close()

    run(scene)


def test_thousands_of_pings_are_answered_a_few_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        sizes = parsed_sizes(monkeypatch, WebSocketsSansIOProtocol)
        async with broker() as (running, _):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(UPGRADE)
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(PING * 20_000)
            assert await reader.readexactly(2 * 20_000) == PONG * 20_000
            assert max(sizes) <= SLICE_BYTES
            writer.close()

    run(scene)


def text_frame(text: bytes) -> bytes:
    return b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text


def test_a_websocket_that_the_broker_closes_ends_at_once_though_messages_of_its_client_wait() -> None:
    async def scene() -> None:
        async with broker() as (running, _):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(UPGRADE)
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            writer.write(text_frame(b"nonsense") * (20_000 // 14))
            came = bytearray()
            while CLOSING not in came:
                came += await reader.read(1_000)
            [connection] = running.http.connections
            writer.write(CLOSED)
            while await reader.read(1_000):
                pass
            assert connection.conn.close_rcvd is not None  # it has not ended because that did not come in time
            writer.close()

    run(scene)


def test_bytes_that_are_no_frame_before_the_handshake_is_answered_close_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        errors: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: errors.append(told))
        connect = SocketProtocol.handle_connect

        def followed(self: Any, event: Any) -> None:
            connect(self, event)
            self.data_received(b"\xff\xff")

        monkeypatch.setattr(SocketProtocol, "handle_connect", followed)
        async with broker() as (running, _):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(UPGRADE)
            with suppress(ConnectionError):
                assert await reader.read() == b""
            await until(lambda: not running.http.connections)
            assert errors == []
            writer.close()

    run(scene)
