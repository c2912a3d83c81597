"""Requests and WebSocket messages that have begun to arrive count as those of every other transport do."""

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from godwit.runtime import http_protocols
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.memory_account import MemoryAccount
from godwit.runtime.memory_guard import MemoryGuard
from godwit.runtime.wire import JSON, Intro
from tests.network.http_broker import Running, broker
from tests.network.waiting import run, until

HEAD = b"POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
MIB = 2**20


class Names:
    """Lets in whoever says a name, and nobody else."""

    async def admit(self, credentials: Credentials) -> Principal:
        return Principal(credentials.user)


async def half(running: Running, size: int, more: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A post of which so much has come, and more must."""
    reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
    writer.write(HEAD % (15 * MIB) + more + b"x" * size)
    await writer.drain()
    return reader, writer


def memory(running: Running) -> MemoryAccount:
    return running.server.memory


def make_late(running: Running) -> None:
    """Let what has begun to arrive have begun long ago, and look."""
    for message in memory(running)._partial.values():
        message.began -= 60.0
    memory(running)._check()


def test_bodies_count_while_they_come_and_no_longer() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            _, writer = await half(running, 200_000)
            await until(lambda: memory(running).partial_bytes > 200_000)
            assert (await client.post("/events", json={"n": 1})).status_code == 202
            assert 200_000 < memory(running).partial_bytes < 201_000
            writer.write(b"y" * 300_000)
            await until(lambda: memory(running).partial_bytes > 500_000)
            writer.close()
            await until(lambda: memory(running).partial_bytes == 0)
            _, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: loc")  # half a head
            await until(lambda: memory(running).partial_bytes == 32)
            writer.write(b"alhost\r\n\r\n")
            await until(lambda: memory(running).partial_bytes == 0)
            writer.close()

    run(scene)


def test_forty_half_bodies_are_bounded_together_and_who_holds_most_is_told_why() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            memory(running).partial_bytes_max = 4 * MIB
            small = await half(running, 1_000)
            opened = [await half(running, 900_000) for _ in range(40)]
            await until(lambda: memory(running).shed >= 36)
            assert memory(running).partial_bytes <= 4 * MIB
            assert (await client.post("/events", json={"n": 1})).status_code == 202
            for _, writer in (small, *opened):
                writer.close()

    run(scene)


def test_a_request_that_is_let_go_is_answered_with_the_limit() -> None:
    async def scene() -> None:
        async with broker() as (running, _):
            reader, writer = await half(running, 100)
            await until(lambda: memory(running).partial_bytes > 100)
            memory(running).shed_partial(0)
            answer = await reader.read()
            assert b" 503 " in answer.splitlines()[0]
            assert b"limits.partial_bytes_max" in answer
            writer.close()

    run(scene)


@pytest.mark.parametrize("size", [0, 100])
def test_a_body_that_takes_too_long_ends_with_408_also_when_nothing_of_it_comes(size: int) -> None:
    async def scene() -> None:
        async with broker() as (running, _):
            reader, writer = await half(running, size)
            await until(lambda: memory(running).partial_bytes > size)
            make_late(running)
            answer = await reader.read()
            assert b" 408 " in answer.splitlines()[0]
            assert b"limits.frame_s" in answer
            assert memory(running).partial_bytes == 0
            writer.close()

    run(scene)


def test_a_body_counts_as_its_users_and_strangers_go_first() -> None:
    async def scene() -> None:
        async with broker(authenticator=Names()) as (running, _):
            ann = await half(running, 2_000, b"")
            await until(lambda: [each.party for each in memory(running)._partial] == [""])
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(b"POST /events HTTP/1.1\r\nhost: localhost\r\nx: y")  # and nobody knows who it is
            await until(lambda: len(memory(running)._partial) == 2)
            memory(running).shed_partial(2_100)
            assert [each.is_admitted for each in memory(running)._partial] == [True]
            assert b" 503 " in (await reader.read()).splitlines()[0]
            for each in (ann[1], writer):
                each.close()

    run(scene)


def at(running: Running, path: str, **more: Any) -> connect:
    return connect(f"ws://{running.web}{path}", proxy=None, **more)


def test_half_a_socket_message_counts_and_so_do_fragments_that_hold_nothing() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running, "/ws") as socket:
            await socket.send(JSON.encode(Intro()).decode())
            socket.protocol.send_text(b"x" * 50_000, fin=False)
            for _ in range(1_000):
                socket.protocol.send_continuation(b"", fin=False)
            socket.transport.write(b"".join(socket.protocol.data_to_send()))
            least = 50_000 + 1_000 * http_protocols.FRAGMENT_BYTES
            await until(lambda: memory(running).partial_bytes >= least)
            make_late(running)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.reason.startswith("limits.frame_s")
            assert memory(running).partial_bytes == 0

    run(scene)


async def drained(socket: Any) -> None:
    """Read until the connection is closed."""
    while True:
        await socket.recv()


def test_half_a_frame_of_a_socket_counts() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running, "/ws") as socket:
            socket.protocol.send_text(b"x" * 100_000)
            whole = b"".join(socket.protocol.data_to_send())
            socket.transport.write(whole[:90_000])
            await until(lambda: memory(running).partial_bytes > 89_000)
            assert [each.is_admitted for each in memory(running)._partial] == [False]
            socket.transport.write(whole[90_000:])
            with pytest.raises(ConnectionClosed) as closed:
                await drained(socket)
            assert "limits.intro_bytes_max" in str(closed.value)  # so long a greeting is not parsed
            assert memory(running).partial_bytes == 0

    run(scene)


def test_a_socket_is_not_compressed() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running, "/ws", compression="deflate") as socket:
            assert not socket.protocol.extensions

    run(scene)


def test_clients_are_not_taken_while_the_process_holds_too_much_but_administrators_are() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            guard = MemoryGuard(running.node, memory(running), 2**30)
            guard.servers.append(running.http)
            _, writer = await half(running, 90_000)
            await until(lambda: memory(running).partial_bytes > 90_000)
            assert guard.held()["partial"] > 90_000
            memory(running).is_full = True
            assert (await client.post("/events", json={"n": 1})).status_code == 503
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/sessions")).status_code == 200
            guard.check()
            assert (await client.post("/events", json={"n": 1})).status_code == 202
            writer.close()

    run(scene)
