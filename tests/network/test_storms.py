"""Connections that close at once, requests and frames that come at once: a few are handled in each turn of the loop."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sized
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from godwit.broker.messages import Attach, Publish, Request
from godwit.filters.events import Event
from godwit.mqtt import Connect, encode
from godwit.runtime import tcp
from godwit.runtime.authentication import Principal
from godwit.runtime.http import HttpServer
from godwit.runtime.pacing import PER_TURN
from godwit.runtime.tcp import Address
from godwit.runtime.wire import Frames, Intro
from tests.network import http_broker
from tests.network.guarded import guarded
from tests.network.mqtt_devices import one_broker
from tests.network.waiting import run, until

COUNT = 5 * PER_TURN
READINGS_PER_TURN = 2
SOCKET_HEAD = (
    b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Turns:
    """Turns of the loop, counted; and what was done in each."""

    def __init__(self, look: Callable[[], Any] = lambda: None) -> None:
        self.number = 0
        self.done: Counter[int] = Counter()
        self._look = look
        self._tick()

    def _tick(self) -> None:
        self.number += 1
        self._look()
        asyncio.get_running_loop().call_soon(self._tick)

    def note(self) -> None:
        """Something is done in this turn."""
        self.done[self.number] += 1

    @property
    def most(self) -> int:
        """How much was done in one turn, at most."""
        return max(self.done.values())


def dialled(stack: ExitStack, address: Address, said: bytes) -> list[socket.socket]:
    """Connections that are open and have said this."""
    found = [stack.enter_context(socket.create_connection((address.host, address.port))) for _ in range(COUNT)]
    for each in found:
        each.sendall(said)
    return found


async def most_gone_in_a_turn(sockets: list[socket.socket], connections: Callable[[], Sized]) -> int:
    """Close all of them at once; by how many the connections of a server become fewer in one turn, at most."""
    counts = [len(connections())]
    Turns(lambda: counts.append(len(connections())))
    for each in sockets:
        each.close()
    await until(lambda: counts[-1] == 0)
    return max(before - after for before, after in pairwise(counts))


def test_native_connections_that_close_at_once_are_handled_a_few_in_each_turn() -> None:
    async def scene() -> None:
        async with guarded() as broker:
            with ExitStack() as stack:
                sockets = dialled(stack, broker.address, Frames.packed([Intro()]))
                await until(lambda: len(broker.node.ports) == COUNT)
                assert await most_gone_in_a_turn(sockets, lambda: broker.server.connections) <= PER_TURN

    run(scene)


def test_mqtt_connections_that_close_at_once_are_handled_a_few_in_each_turn() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            with ExitStack() as stack:
                sockets = dialled(stack, station.gateway.listening[0], b"")
                for number, each in enumerate(sockets):
                    each.sendall(encode(Connect(f"c{number}", 5), 5))
                await until(lambda: len(station.gateway.clients) == COUNT)
                assert await most_gone_in_a_turn(sockets, lambda: station.gateway.connections) <= PER_TURN

    run(scene)


@pytest.mark.parametrize("said", [b"", SOCKET_HEAD], ids=["http", "websocket"])
def test_http_connections_that_close_at_once_are_handled_a_few_in_each_turn(said: bytes) -> None:
    async def scene() -> None:
        async with http_broker.broker() as (running, _):
            with ExitStack() as stack:
                sockets = dialled(stack, running.web, said)
                name = "SocketProtocol" if said else "HttpProtocol"
                await until(lambda: [type(each).__name__ for each in running.http.connections] == [name] * COUNT)
                assert await most_gone_in_a_turn(sockets, lambda: running.http.connections) <= PER_TURN

    run(scene)


def test_http_requests_that_come_at_once_are_begun_a_few_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        answer, turns = HttpServer.healthz, Turns()

        async def noted(self: HttpServer, principal: Principal, request: Any) -> Any:
            turns.note()
            return await answer(self, principal, request)

        monkeypatch.setattr(HttpServer, "healthz", noted)
        async with http_broker.broker() as (running, _):
            with ExitStack() as stack:
                sockets = dialled(stack, running.web, b"")
                await until(lambda: len(running.http.connections) == COUNT)
                for each in sockets:
                    each.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await until(lambda: turns.done.total() == COUNT)
                assert turns.most <= PER_TURN

    run(scene)


def test_frames_that_wait_are_decoded_of_a_few_peers_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        turns = Turns()

        class Noted(Frames):
            def feed(
                self, data: bytes, count_max: int = 2**30, *, counts_items: bool = False
            ) -> list[tuple[Any, bytes]]:
                if not data:  # what has come before is decoded now
                    turns.note()
                return super().feed(data, count_max, counts_items=counts_items)

        monkeypatch.setattr(tcp, "Frames", Noted)
        async with guarded() as broker:
            with ExitStack() as stack:
                sockets = dialled(stack, broker.address, Frames.packed([Intro()]))
                await until(lambda: len(broker.node.ports) == COUNT)
                for number, each in enumerate(sockets):
                    events = [Request(n, Publish(Event({"n": n}))) for n in range(1, 31)]
                    each.sendall(Frames.packed([Attach(f"c{number}"), *events]))
                await until(lambda: turns.done.total() >= COUNT)
                assert turns.most <= READINGS_PER_TURN

    run(scene)
