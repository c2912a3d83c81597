"""HTTP when it is full, and when it is spoken to in a way that h11 cannot answer."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress

import pytest

from tests.network.http_broker import Running, broker, listening
from tests.network.waiting import run, until


async def raw(running: Running, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
    writer.write(said)
    return reader, writer


async def status(running: Running, path: str, more: bytes = b"") -> int:
    """The status of an answer, over a connection of its own."""
    reader, writer = await raw(running, b"GET %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % (path.encode(), more))
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


def test_health_and_administration_are_answered_when_clients_have_taken_every_place() -> None:
    async def scene() -> None:
        async with broker(connections_max=20) as (running, client), AsyncExitStack() as open_streams:
            for number in range(20):
                await open_streams.enter_async_context(listening(client, filter="n > 0", client=f"c{number}"))
            assert await status(running, "/events?filter=n") == 503
            socket = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            assert await status(running, "/ws", socket + b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n") == 403
            for path in ("/healthz", "/readyz", "/metrics", "/sessions", "/"):
                assert await status(running, path) == 200
        async with broker(connections_max=1) as (running, client):
            assert (await client.get("/healthz")).status_code == 200  # and keeps its place
            reader, writer = await raw(running, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b" 200 " in await reader.readline()
            await client.aclose()
            await until(lambda: len(running.http.connections) == 1)
            writer.write(b"GET /events?filter=%3C HTTP/1.1\r\nhost: localhost\r\n\r\n")  # there is a place now
            while b"400" not in (line := await reader.readline()):
                assert b" 503 " not in line
            writer.close()

    run(scene)


def test_connections_that_ask_for_nothing_do_not_keep_the_reserved_places() -> None:
    async def scene() -> None:
        async with broker(connections_max=1) as (running, client), AsyncExitStack() as stack:
            await stack.enter_async_context(listening(client, filter="n > 0", client="c"))
            silent = [await raw(running, b"") for _ in range(100)]
            await until(lambda: len(running.http.connections) >= 60)
            assert await status(running, "/healthz") == 200
            for _, writer in silent:
                writer.close()

    run(scene)


def test_a_stranger_who_does_not_read_an_answer_is_let_go_and_a_user_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = b"GET /dashboard/vendor/leaflet/leaflet.js HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100

    async def scene() -> None:
        async with broker() as (running, _):
            monkeypatch.setattr("godwit.runtime.http_protocols.HEAD_S", 0.05)
            stream = await raw(running, b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await until(lambda: len(running.machine.sessions) == 1)
            _, stranger = await raw(running, asked)
            await until(lambda: len(running.http.connections) == 2)
            await until(lambda: len(running.http.connections) == 1)
            assert len(running.machine.sessions) == 1
            stranger.close()
            stream[1].close()

    run(scene)


@pytest.mark.parametrize("path", ["/events", "/trace"])
def test_head_opens_no_stream(path: str) -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            answer = await client.head(path)
            assert answer.status_code == 405
            assert len(running.machine.sessions) == 0
            assert (await client.head("/healthz")).status_code == 200

    run(scene)


POST = b"POST /events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        POST + b"40\r\n" + b"x" * 64 + b"\r\n",
        POST + b"5\r\n{}   \r\nnonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n\0\0\0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /healthz HTTP/1.0\r\nconnection: close\r\ncontent-length: 9\r\n\r\nx",
    ],
)
def test_bytes_that_are_no_http_close_the_connection_without_a_traceback(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: faults.append(about))
        async with broker(body_bytes_max=32) as (running, client):
            reader, writer = await raw(running, said)
            with suppress(ConnectionError):
                await reader.readline()  # the answer, if there is one
                writer.write(b"nonsense\r\n\r\n")
                await reader.read()
            writer.close()
            assert (await client.get("/healthz")).status_code == 200
        assert faults == []

    with caplog.at_level(logging.ERROR):
        run(scene)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
