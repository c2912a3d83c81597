"""Brokers and clients on real sockets and disks, in one process: the same machines as in the simulator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import Accepted, Attach, Request, Subscribe
from godwit.errors import PeerFault
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.connecting import connect
from godwit.runtime.intake import COUNT_MAX
from godwit.runtime.journal import Journal
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.node import Node
from godwit.runtime.slow_messages import SlowFrames
from godwit.runtime.tcp import FRAMES_AT_ONCE_MAX, Address, NativeConnection, NativeServer
from godwit.runtime.wire import Frames, Intro, SlowMessage
from tests.network.waiting import a_turn, run, until

LIMIT_S = 300.0
CONFIG = BrokerConfig(asserted=("role",))


class Running:
    """A broker on a port of its own."""

    def __init__(self, name: str, node: Node, server: NativeServer, address: Address) -> None:
        self.name, self.node, self.server, self.address = name, node, server, address

    async def stop(self) -> None:
        await self.server.close()
        await self.node.close()


async def start(
    name: str, neighbours: dict[str, Address | None], folder: Path | None = None, port: int = 0, **more: Any
) -> Running:
    journal = None if folder is None else Journal(folder / name, name, "relaxed")
    node = Node(lambda: mobile_broker(name, dict.fromkeys(neighbours, 1.0), CONFIG), journal)
    server = NativeServer(name, node, neighbours, **more)
    address = await server.listen("127.0.0.1", port)
    server.dial_all()
    return Running(name, node, server, address)


@asynccontextmanager
async def two_brokers(folder: Path | None = None) -> AsyncIterator[tuple[Running, Running]]:
    b2 = await start("b2", {"b1": None}, folder)
    b1 = await start("b1", {"b2": b2.address}, folder)
    try:
        yield b1, b2
    finally:
        await b1.stop()
        await b2.stop()


async def linked(a: Running, b: Running) -> None:
    """Until both know all that the other knows."""
    await until(lambda: a.node.machine.routing.is_settled() and b.node.machine.routing.is_settled())  # type: ignore[attr-defined]


async def wanted_at(broker: Running, count: int) -> None:
    """Until so many subscriptions are known at a broker."""
    await until(lambda: len(broker.node.machine.routing.matcher) >= count)  # type: ignore[attr-defined]


async def take(subscription: Any, count: int) -> list[int]:
    return [(await subscription.next()).attributes["n"] for _ in range(count)]


def test_an_event_goes_from_a_publisher_over_two_brokers_to_who_wants_it() -> None:
    async def scene() -> None:
        async with two_brokers() as (b1, b2), connect(b1.address, name="p") as p, connect(b2.address, name="s") as s:
            await linked(b1, b2)
            subscription = await s.subscribe("n >= 10", sender="floor = 2")
            await wanted_at(b1, 1)
            p.set_context({"floor": 1})
            p.publish({"n": 11})
            p.set_context({"floor": 2})
            for n in (5, 12, 13):
                p.publish({"n": n})
            await p.drain()
            assert await take(subscription, 2) == [12, 13]

    run(scene)


def test_a_client_that_moves_with_large_filters_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[SlowMessage] = []
    decode = SlowFrames._decode

    async def noting(frames: SlowFrames, slow: SlowMessage, packed: bytes) -> None:
        begun.append(slow)
        await decode(frames, slow, packed)

    monkeypatch.setattr(SlowFrames, "_decode", noting)

    async def scene() -> None:
        async with two_brokers() as (b1, b2), connect(b1.address, name="p") as p, connect(b2.address, name="s") as s:
            await linked(b1, b2)
            subscription = await s.subscribe("n >= 0")
            for number in range(5):
                await s.subscribe(" OR ".join(f"x{n} = {n + number}" for n in range(900)))
            await wanted_at(b1, 6)
            for n in range(60):
                p.publish({"n": n})
                if n == 20:
                    await s.move(b1.address)
                await a_turn()
            await p.drain()
            assert await take(subscription, 60) == list(range(60))
            assert len(begun) == 2  # its greeting, and its session

    run(scene)


def test_a_client_that_moves_to_another_broker_misses_nothing_and_gets_nothing_twice() -> None:
    async def scene() -> None:
        async with two_brokers() as (b1, b2), connect(b1.address, name="p") as p, connect(b2.address, name="s") as s:
            await linked(b1, b2)
            subscription = await s.subscribe("n >= 0")
            await wanted_at(b1, 1)
            for n in range(100):
                p.publish({"n": n})
                if n == 30:
                    await s.move(b1.address)
                if n == 70:
                    await s.move(b2.address)
                await a_turn()
            await p.drain()
            assert await take(subscription, 100) == list(range(100))
            assert s.machine.duplicates == 0

    run(scene)


def test_a_broker_that_stops_comes_back_from_its_journal_with_all_that_it_knew(tmp_path: Path) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            broker = await start("b1", {}, tmp_path)
            port = broker.address.port
            s = await stack.enter_async_context(connect(broker.address, name="s"))
            p = await stack.enter_async_context(connect(broker.address, name="p"))
            subscription = await s.subscribe("n >= 0")
            p.publish({"n": 1})
            await p.drain()
            assert await take(subscription, 1) == [1]
            await broker.stop()
            p.publish({"n": 2})  # nobody is there
            broker = await start("b1", {}, tmp_path, port)
            p.publish({"n": 3})
            await p.drain()
            assert await take(subscription, 2) == [2, 3]
            assert not any(receipt.session_lost for receipt in s.receipts)
            await broker.stop()

    run(scene)


def test_without_a_journal_a_broker_that_comes_back_tells_its_clients_that_it_has_forgotten_them() -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            broker = await start("b1", {})
            s = await stack.enter_async_context(connect(broker.address, name="s"))
            subscription = await s.subscribe("n >= 0")
            await broker.stop()
            broker = await start("b1", {}, None, broker.address.port)
            p = await stack.enter_async_context(connect(broker.address, name="p"))
            await s.attached()
            await until(lambda: s.receipts[-1].session_lost)
            await s.drain()
            p.publish({"n": 1})
            await p.drain()
            assert await take(subscription, 1) == [1]
            await broker.stop()

    run(scene)


def test_what_the_server_vouches_for_nobody_can_forge() -> None:
    async def scene() -> None:
        class Roles:
            async def admit(self, credentials: Credentials) -> Principal:
                if credentials.token not in ("medic", "pilot"):
                    raise PeerFault("there is no such token")
                return Principal(asserted={"role": credentials.token})

        broker = await start("b1", {}, None, 0, authenticator=Roles())
        async with (
            connect(broker.address, name="p", token="pilot") as p,
            connect(broker.address, name="s", token="medic") as s,
            connect(broker.address, name="x", token="pilot") as x,
        ):
            mine = await s.subscribe("n >= 0", sender="role = 'pilot'")
            other = await x.subscribe("n >= 0")
            p.set_context({"role": "medic"})
            p.publish({"n": 1}, to="role = 'medic'")
            p.publish({"n": 2}, to="role = 'pilot'")
            p.publish({"n": 3}, to="role = 'medic'")
            await p.drain()
            assert await take(mine, 2) == [1, 3]
            assert await take(other, 1) == [2]
            assert p.machine.refusals[0].reason.startswith("role")
            stranger = NetworkClient([broker.address], "y", p.machine.config)
            async with stranger:
                await until(lambda: broker.server.audit.connections)
                await until(lambda: stranger.closed_because)
            assert stranger.closed_because == "there is no such token"
        await broker.stop()

    run(scene)


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n" * 400, b"\x00\x00\x00\x03abc", Frames.packed([Intro(version=99)]), b"\xff" * 4]
)
def test_who_speaks_nonsense_is_let_go_and_nobody_else_notices(said: bytes) -> None:
    async def scene() -> None:
        broker = await start("b1", {})
        async with connect(broker.address, name="s") as s:
            subscription = await s.subscribe("n = 1")
            reader, writer = await asyncio.open_connection(broker.address.host, broker.address.port)
            writer.write(said)
            assert await reader.read() == b""
            writer.close()
            s.publish({"n": 1})
            assert await take(subscription, 1) == [1]
        await broker.stop()

    run(scene)


def test_two_brokers_that_dial_each_other_end_with_one_link() -> None:
    async def scene() -> None:
        b1 = await start("b1", {"b2": None})
        b2 = await start("b2", {"b1": b1.address})
        b1.server.neighbours["b2"] = b2.address
        b1.server.dial_all()
        await linked(b1, b2)

        def links(broker: Running) -> list[NativeConnection]:
            return [connection for connection in broker.server.connections if connection.is_link]

        await until(lambda: len(links(b1)) == len(links(b2)) == 1)
        await b1.stop()
        await b2.stop()

    run(scene)


def test_what_comes_in_one_write_is_read_to_its_end_though_few_frames_are_decoded_at_once() -> None:
    wishes = [Request(n, Subscribe(("c", f"s{n}"), parse(f"n = {n}"))) for n in range(1, 1_001)]
    said = [*[Intro()] * 400, Attach("c"), *wishes]

    async def scene() -> None:
        async with two_brokers() as (b1, _):
            reader, writer = await asyncio.open_connection(b1.address.host, b1.address.port)
            frames, most = Frames(), 0

            def look() -> bool:
                nonlocal most
                most = max(most, b1.node.unhandled)
                return False

            async def all_accepted() -> None:
                last = 0
                while last < 1_000:
                    for message, _ in frames.feed(await reader.read(65_536)):
                        last = message.number if isinstance(message, Accepted) else last

            writer.write(b"".join(Frames.packed([each]) for each in said))
            looking = asyncio.ensure_future(until(look))
            await all_accepted()
            looking.cancel()
            writer.close()
            assert most <= COUNT_MAX // 2 + FRAMES_AT_ONCE_MAX

    run(scene)
