"""A broker with users and all transports: native, HTTP, WebSocket and MQTT. Its user file changes while it runs."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.mobility import mobile_broker
from godwit.runtime.connecting import connect
from godwit.runtime.http import HttpServer
from godwit.runtime.journal import Journal
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.node import Node
from godwit.runtime.security import SecuritySettings, authenticator_from
from godwit.runtime.tcp import Address, NativeServer
from godwit.runtime.wire import JSON, Intro
from tests.network.guarded import entry
from tests.network.mqtt_devices import Device

SECRET = "a secret that is long enough, isn't it?"


def user(name: str, publish: Iterable[str] = (), subscribe: Iterable[str] = (), *more: str) -> str:
    """An entry of a user file."""
    return entry(name, f"publish = {list(publish)}", f"subscribe = {list(subscribe)}", *more)


class Secured:
    """A broker that knows users and tokens."""

    def __init__(
        self,
        folder: Path,
        *entries: str,
        name: str = "b1",
        neighbours: dict[str, Address | None] | None = None,
        keeps_journal: bool = False,
        **settings: Any,
    ) -> None:
        self.name, self.folder = name, folder
        self.users = folder / f"{name}.toml"
        self.users.write_text("\n".join(entries))
        (folder / "key").write_text(SECRET)
        said = {"users": str(self.users), "token_key": str(folder / "key"), "anonymous": "never", **settings}
        self.authenticator = authenticator_from(SecuritySettings(**said))
        around, self.trouble = neighbours or {}, list[str]()
        config = BrokerConfig(limits=Limits(session_expiry_s=None), asserted=said.get("asserted", ()))
        self.node = Node(
            lambda: mobile_broker(name, dict.fromkeys(around, 1.0), config),
            Journal(folder / name, name, "relaxed") if keeps_journal else None,
            on_trouble=self.trouble.append,
        )
        self.server = NativeServer(name, self.node, around, authenticator=self.authenticator)
        self.gateway = MqttGateway(self.node, self.authenticator, name)
        self.http = HttpServer(self.node, self.server, self.authenticator, gateway=self.gateway)
        self.native = self.web = self.mqtt = Address("", 0)

    @property
    def machine(self) -> Any:
        return self.node.machine

    async def start(self) -> None:
        self.native = await self.server.listen("127.0.0.1", 0)
        self.mqtt = await self.gateway.listen("127.0.0.1", 0)
        self.web = await self.http.listen("127.0.0.1", 0)
        self.server.dial_all()

    async def stop(self) -> None:
        await self.http.close()
        await self.gateway.close()
        await self.server.close()
        await self.node.close()
        assert self.trouble == []

    def client(self, user: str, name: str = "", **more: Any) -> NetworkClient:
        """A native client."""
        return connect(self.native, name=name or user, user=user, password=f"{user}-password", **more)

    @asynccontextmanager
    async def device(self, user: str, level: int, name: str = "", **more: Any) -> AsyncIterator[Device]:
        """An MQTT client."""
        device = Device(name or user, level, **more)
        device.paho.username_pw_set(user, f"{user}-password")
        await device.connect(self.mqtt.port)
        try:
            yield device
        finally:
            await device.vanish()

    def web_client(self, user: str) -> httpx.AsyncClient:
        """An HTTP client."""
        return httpx.AsyncClient(
            base_url=f"http://{self.web}", auth=(user, f"{user}-password"), timeout=60.0, trust_env=False
        )

    @asynccontextmanager
    async def socket(self, user: str) -> AsyncIterator["JsonSocket"]:
        """A WebSocket."""
        async with connect_socket(f"ws://{self.web}/ws", proxy=None) as socket:
            client = JsonSocket(socket)
            await client.say(Intro(user=user, password=f"{user}-password"))
            yield client


class JsonSocket:
    """A WebSocket that speaks the JSON twin."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, *messages: Any) -> None:
        for message in messages:
            await self.socket.send(JSON.encode(message).decode())

    async def heard(self) -> Any:
        text = await self.socket.recv()
        assert isinstance(text, str)
        return JSON.decode(text.encode())

    async def hears(self, kind: type) -> Any:
        """The next message of a kind."""
        while not isinstance(message := await self.heard(), kind):
            pass
        return message


@asynccontextmanager
async def secured(folder: Path, *entries: str, **settings: Any) -> AsyncIterator[Secured]:
    broker = Secured(folder, *entries, **settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
