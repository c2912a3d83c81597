"""A broker with its own authenticator, for tests: real sockets, users of a file, and what it said about trouble."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.mobility import mobile_broker
from godwit.runtime.connecting import connect
from godwit.runtime.journal import Journal
from godwit.runtime.network_client import NetworkClient, Subscription
from godwit.runtime.node import Node
from godwit.runtime.security import SecuritySettings, authenticator_from
from godwit.runtime.tcp import Address, NativeConnection, NativeServer
from godwit.runtime.users import hashed
from godwit.runtime.wire import Frames

LIMIT_S = 300.0
ASSERTED = ("role",)
HASHES: dict[str, str] = {}


def entry(name: str, *more: str) -> str:
    """An entry of a user file; the password is the name and `-password`."""
    if name not in HASHES:
        HASHES[name] = hashed(f"{name}-password", rounds=1, memory_kib=8, lanes=1)
    return "\n".join([f"[users.{name}]", f"password = '{HASHES[name]}'", *more, ""])


def users(folder: Path, *entries: str) -> dict[str, Any]:
    """What to start a broker with that knows these users."""
    path = folder / "users.toml"
    path.write_text("\n".join(entries))
    return {"authenticator": authenticator_from(SecuritySettings(users=str(path), asserted=ASSERTED))}


class Guarded:
    """A broker on a port of its own."""

    def __init__(self, name: str, neighbours: dict[str, Address | None], folder: Path | None, **more: Any) -> None:
        self.trouble: list[str] = []
        self.closed: list[tuple[str, str]] = []
        config = BrokerConfig(asserted=ASSERTED, limits=Limits(session_expiry_s=None))
        journal = None if folder is None else Journal(folder / name, name, "relaxed")
        self.node = Node(
            lambda: mobile_broker(name, dict.fromkeys(neighbours, 1.0), config),
            journal,
            on_trouble=self.trouble.append,
        )
        self.server = NativeServer(
            name, self.node, neighbours, on_closed=lambda who, why: self.closed.append((who, why)), **more
        )
        self.address = Address("", 0)

    @property
    def clients(self) -> list[NativeConnection]:
        return [connection for connection in self.server.connections if not connection.is_link]

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A raw connection to it."""
        return await asyncio.open_connection(self.address.host, self.address.port)

    async def closes(self, *said: Any, raw: bytes = b"") -> bytes:
        """What it answers to messages or bytes, until it closes the connection."""
        reader, writer = await self.open()
        writer.write(Frames.packed(said) + raw)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def guarded(
    name: str = "b1",
    neighbours: dict[str, Address | None] | None = None,
    folder: Path | None = None,
    tls: Any = None,
    **more: Any,
) -> AsyncIterator[Guarded]:
    broker = Guarded(name, neighbours or {}, folder, **more)
    broker.address = await broker.server.listen("127.0.0.1", 0, tls)
    broker.server.dial_all()
    try:
        yield broker
    finally:
        await broker.server.close()
        await broker.node.close()


@asynccontextmanager
async def good_client(broker: Guarded) -> AsyncIterator[Callable[[], Coroutine[Any, Any, None]]]:
    """A client that does nothing wrong; call what is given to see that it is served still."""
    async with connect(broker.address, name="good") as good:
        mine = await good.subscribe("good = TRUE")
        count = 0

        async def is_served() -> None:
            nonlocal count
            count += 1
            good.publish({"good": True, "n": count})
            assert (await mine.next()).attributes["n"] == count
            assert not broker.trouble
            assert not good.closed_because

        await is_served()
        yield is_served
        await is_served()


def as_user(broker: Guarded, user: str, **more: Any) -> NetworkClient:
    """A client of a user of the file."""
    more = {"name": user, "user": user, "password": f"{user}-password", **more}
    return connect(broker.address, **more)


async def heard(reader: asyncio.StreamReader, count: int) -> list[Any]:
    """So many messages that the broker says, or fewer when it closes before."""
    frames = Frames()
    messages: list[Any] = []
    while len(messages) < count and (data := await reader.read(65_536)):
        messages += [message for message, _ in frames.feed(data)]
    return messages


async def numbers(subscription: Subscription, count: int) -> list[Any]:
    return [(await subscription.next()).attributes["n"] for _ in range(count)]
