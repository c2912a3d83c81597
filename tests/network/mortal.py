"""Brokers in processes of their own, which are killed and come back at the same port."""

import asyncio
import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.mobility.publisher_presence import PublisherSettings
from godwit.runtime import Address

__all__ = ["Mortal", "Nursery", "chain", "nursery"]

PROGRAM = Path(__file__).with_name("broker_process.py")
PATIENCE_S = 120.0


@cache
def program() -> "subprocess.Popen[bytes]":
    """The process that forks brokers, one for all tests of this process."""
    started = subprocess.Popen([sys.executable, str(PROGRAM)], stdin=subprocess.PIPE)
    atexit.register(_end, started)
    return started


def _end(started: "subprocess.Popen[bytes]") -> None:
    assert started.stdin is not None
    started.stdin.close()
    started.wait()


class Nursery:
    """Where brokers are born: it has them forked, and hears what they say."""

    def __init__(self) -> None:
        self.port = 0
        self.born = 0
        self.awaited: dict[str, asyncio.Future[tuple[int, asyncio.StreamReader]]] = {}
        self.writers: list[asyncio.StreamWriter] = []

    async def on_child(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A broker says who it is."""
        self.writers.append(writer)
        token, _, pid = (await reader.readline()).decode().partition(" ")
        self.awaited.pop(token).set_result((int(pid), reader))

    async def fork(self, arguments: list[str]) -> tuple[int, asyncio.StreamReader]:
        """Its process, and what it says from then on."""
        self.born += 1
        token = str(self.born)
        said: asyncio.Future[tuple[int, asyncio.StreamReader]] = asyncio.get_running_loop().create_future()
        self.awaited[token] = said
        arguments = [*arguments, "--tell", str(self.port), "--token", token]
        stdin = program().stdin
        assert stdin is not None
        stdin.write(f"{json.dumps(arguments)}\n".encode())
        stdin.flush()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await said
        except TimeoutError:
            raise AssertionError(f"no broker was born with {arguments}") from None


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    place = Nursery()
    server = await asyncio.start_server(place.on_child, "127.0.0.1", 0)
    place.port = server.sockets[0].getsockname()[1]
    try:
        yield place
    finally:
        server.close()
        for writer in place.writers:
            writer.close()


class Mortal:
    """A broker in another process."""

    def __init__(
        self,
        place: Nursery,
        folder: Path,
        durability: str,
        name: str = "b1",
        *,
        snapshot_bytes: int | None = None,
        config: BrokerConfig | None = None,
        publishers: PublisherSettings | None = None,
    ) -> None:
        self.place, self.folder, self.durability, self.name = place, folder, durability, name
        self.options = [] if snapshot_bytes is None else ["--snapshot-bytes", str(snapshot_bytes)]
        if config is not None:
            self.options += ["--config", msgspec.json.encode(config).decode()]
        if publishers is not None:
            self.options += ["--publishers", msgspec.json.encode(publishers).decode()]
        self.port = 0
        self.neighbours: dict[str, Address | None] = {}
        self.pid = 0  # 0: it is dead
        self.said: asyncio.StreamReader | None = None

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    async def start(self) -> Address:
        """Start it, and wait until it listens."""
        neighbours = [f"{name}={'' if at is None else at}" for name, at in self.neighbours.items()]
        arguments = [self.name, str(self.folder), str(self.port), self.durability, *neighbours, *self.options]
        self.pid, self.said = await self.place.fork(arguments)
        while not (said := await self.line("its port")).isdigit():
            pass  # on a busy machine its disk was slow: "trouble", "relief"
        self.port = int(said)
        return self.address

    async def line(self, what: str) -> str:
        """The next line that it says."""
        assert self.said is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = (await self.said.readline()).decode()
        except TimeoutError:
            raise AssertionError(f"broker {self.name} has not said {what}") from None
        assert said, f"broker {self.name} has ended before it said {what}"
        return said.strip()

    async def kill(self) -> None:
        """End it without a word."""
        if not self.pid:
            return
        os.kill(self.pid, signal.SIGKILL)
        self.pid = 0
        assert self.said is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.said.read()  # until the system has closed all that it had open
        except TimeoutError:
            raise AssertionError(f"broker {self.name} was killed, and lives") from None


async def chain(
    place: Nursery, folder: Path, durability: str, names: Iterable[str], snapshot_bytes: int
) -> dict[str, Mortal]:
    """Brokers in a line, each of which dials the one before it."""
    brokers: dict[str, Mortal] = {}
    before: Mortal | None = None
    names = list(names)
    for at, name in enumerate(names):
        broker = brokers[name] = Mortal(place, folder, durability, name, snapshot_bytes=snapshot_bytes)
        if before is not None:
            broker.neighbours[before.name] = before.address
        if at + 1 < len(names):
            broker.neighbours[names[at + 1]] = None
        await broker.start()
        before = broker
    return brokers
