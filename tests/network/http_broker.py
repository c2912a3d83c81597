"""A broker with HTTP on a port of its own, and a reader of server-sent events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.mobility import mobile_broker
from godwit.runtime.authentication import LocalAuthenticator
from godwit.runtime.http import HttpServer
from godwit.runtime.journal import Journal
from godwit.runtime.node import Node
from godwit.runtime.tcp import Address, NativeServer
from godwit.runtime.wire import FRAME_BYTES_MAX
from tests.network.waiting import until

LIMIT_S = 300.0


class Running:
    """A broker with its native side and its HTTP side."""

    def __init__(self, node: Node, server: NativeServer, http: HttpServer, native: Address, web: Address) -> None:
        self.node, self.server, self.http, self.native, self.web = node, server, http, native, web

    @property
    def url(self) -> str:
        return f"http://{self.web}"

    @property
    def machine(self) -> Any:
        return self.node.machine

    def is_attached(self, client: str) -> bool:
        session = self.machine.sessions.session(client)
        return session is not None and session.connection is not None

    async def ready(self) -> None:
        """Until it can be given work, and knows all that its neighbours know."""
        await until(lambda: not self.http.reasons() and self.machine.routing.is_settled())

    async def stop(self) -> None:
        await self.http.close()
        await self.server.close()
        await self.node.close()


async def start(
    name: str = "b1",
    neighbours: dict[str, Address | None] | None = None,
    *,
    journal: Any = None,
    folder: Path | None = None,
    authenticator: Any = None,
    config: BrokerConfig = BrokerConfig(),  # noqa: B008
    frame_bytes_max: int = FRAME_BYTES_MAX,
    **more: Any,
) -> Running:
    neighbours = neighbours or {}
    journal = journal or (None if folder is None else Journal(folder / name, name, "relaxed"))
    node = Node(lambda: mobile_broker(name, dict.fromkeys(neighbours, 1.0), config), journal)
    server = NativeServer(name, node, neighbours, authenticator=authenticator, frame_bytes_max=frame_bytes_max)
    http = HttpServer(node, server, authenticator or LocalAuthenticator(), **more)
    native, web = await server.listen("127.0.0.1", 0), await http.listen("127.0.0.1", 0)
    server.dial_all()
    return Running(node, server, http, native, web)


@asynccontextmanager
async def broker(*args: Any, **more: Any) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    running = await start(*args, **more)
    try:
        async with httpx.AsyncClient(base_url=running.url, timeout=LIMIT_S, trust_env=False) as client:
            yield running, client
    finally:
        await running.stop()


class Source:
    """What an EventSource does, one event at a time."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self._lines = response.aiter_lines()

    async def next(self) -> tuple[str, Any]:
        """The name of the next event, and its data."""
        name, data = "message", ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            match field:
                case "id":
                    self.last_id = value
                case "event":
                    name = value
                case "data":
                    data = value
                case "" if data:
                    return name, msgspec.json.decode(data)
        raise EOFError("the stream is over")

    async def take(self, attribute: str, count: int) -> list[Any]:
        """The values of an attribute in the next events."""
        return [(await self.next())[1]["attributes"][attribute] for _ in range(count)]


@asynccontextmanager
async def listening(client: httpx.AsyncClient, last_id: str = "", /, **params: str) -> AsyncIterator[Source]:
    """A stream that has begun."""
    headers = {"last-event-id": last_id} if last_id else {}
    async with client.stream("GET", "/events", params=params, headers=headers) as response:
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(response.text)
        source = Source(response)
        name, _ = await source.next()
        assert name == "session"
        yield source
