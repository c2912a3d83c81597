"""A broker with an MQTT gateway, and MQTT clients of other makers, for tests: all is waited for, nothing slept."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from godwit.broker.broker_config import BrokerConfig
from godwit.mobility import mobile_broker
from godwit.mqtt import MqttSettings
from godwit.runtime.journal import Journal
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.node import Node
from godwit.runtime.tcp import Address, NativeServer

LIMIT_S = 300.0
CONFIG = BrokerConfig()


class Station:
    """A broker, its native server and its gateway."""

    def __init__(self, name: str, node: Node, server: NativeServer, gateway: MqttGateway) -> None:
        self.name, self.node, self.server, self.gateway = name, node, server, gateway
        self.faults: list[str] = []

    @property
    def native(self) -> Address:
        return self.server.listening[0]

    @property
    def port(self) -> int:
        return self.gateway.listening[0].port

    async def stop(self) -> None:
        await self.gateway.close()
        await self.server.close()
        await self.node.close()


async def start(
    name: str = "b1",
    neighbours: dict[str, Address | None] | None = None,
    folder: Path | None = None,
    settings: MqttSettings | None = None,
    config: BrokerConfig = CONFIG,
) -> Station:
    around = neighbours or {}
    journal = None if folder is None else Journal(folder / name, name, "relaxed")
    faults: list[str] = []
    node = Node(lambda: mobile_broker(name, dict.fromkeys(around, 1.0), config), journal, on_trouble=faults.append)
    server = NativeServer(name, node, around)
    await server.listen("127.0.0.1", 0)
    gateway = MqttGateway(node, broker_name=name, settings=settings)
    await gateway.listen("127.0.0.1", 0)
    server.dial_all()
    station = Station(name, node, server, gateway)
    station.faults = faults
    return station


@asynccontextmanager
async def one_broker(**details: Any) -> AsyncIterator[Station]:
    station = await start(**details)
    try:
        yield station
    finally:
        await station.stop()
        assert station.faults == []


def properties(kind: str, **values: Any) -> Properties:
    """Properties of a packet, as paho has them: `UserProperty=[("a", "b")]`."""
    made = Properties(getattr(PacketTypes, kind))
    for name, value in values.items():
        if name == "UserProperty":
            for pair in value:
                made.UserProperty = pair
        else:
            setattr(made, name, value)
    return made


def property_of(message: paho.MQTTMessage, name: str) -> Any:
    """A property of a message that came: paho makes attributes of properties as they come, which no type tells."""
    return getattr(message.properties, name)


def keep_properties(device: "Device", callback: str, told: list[Any]) -> None:
    """Have the properties of each packet that calls paho's `callback` kept in a list."""
    before = getattr(device.paho, callback)

    def keep(*said: Any) -> None:
        told.append(said[-1])
        before(*said)

    setattr(device.paho, callback, keep)


class Device:
    """An MQTT client: paho, in a thread of its own, seen from the test's loop."""

    def __init__(self, client_id: str, level: int = 5, clean: bool = True, expiry_s: int = 0, **details: Any) -> None:
        version = MQTTProtocolVersion.MQTTv5 if level == 5 else MQTTProtocolVersion.MQTTv311
        more: dict[str, Any] = {} if level == 5 else {"clean_session": clean}
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=version, **more)
        self.level, self._clean, self._expiry_s, self._details = level, clean, expiry_s, details
        self._loop = asyncio.get_running_loop()
        self.came: asyncio.Queue[paho.MQTTMessage] = asyncio.Queue()
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self.connack: Any = None
        self.gone = asyncio.Event()
        self.gone_because: Any = None
        self.is_present = False
        self.on_connected: Callable[[], None] = lambda: None
        self.paho.on_connect = lambda c, u, flags, reason, p: self._soon(self._on_connect, flags, reason, p)
        self.paho.on_disconnect = lambda c, u, flags, reason, p: self._soon(self._on_disconnect, reason)
        self.paho.on_message = lambda c, u, message: self._soon(self.came.put_nowait, message)
        self.paho.on_subscribe = lambda c, u, mid, codes, p: self._soon(self._answer, ("s", mid), codes)
        self.paho.on_unsubscribe = lambda c, u, mid, codes, p: self._soon(self._answer, ("u", mid), codes)
        self.paho.on_publish = lambda c, u, mid, code, p: self._soon(self._answer, ("p", mid), code)
        self._connected: asyncio.Future[Any] = self._loop.create_future()

    def _soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_connect(self, flags: Any, reason: Any, said: Any) -> None:
        self.is_present, self.connack = flags.session_present, said
        self.on_connected()
        if not self._connected.done():
            self._connected.set_result(reason)

    def _on_disconnect(self, reason: Any) -> None:
        self.gone_because = reason
        self.gone.set()

    def _answer(self, key: Any, value: Any) -> None:
        future = self._answers.setdefault(key, self._loop.create_future())
        if not future.done():
            future.set_result(value)

    async def _answered(self, key: Any) -> Any:
        try:
            return await self._answers.setdefault(key, self._loop.create_future())
        finally:
            del self._answers[key]

    async def connect(self, port: int, **more: Any) -> Any:
        """Connect, and wait for CONNACK: its reason."""
        self._connected = self._loop.create_future()
        self.gone.clear()
        details = {**self._details, **more}
        if self.level == 5:
            said = properties("CONNECT", **details)
            if self._expiry_s:
                said.SessionExpiryInterval = self._expiry_s
            arguments: dict[str, Any] = {"clean_start": self._clean, "properties": said}
        else:
            arguments = {}
        await asyncio.to_thread(self.paho.connect, "127.0.0.1", port, 60, **arguments)
        self.paho.loop_start()
        return await self._connected

    async def subscribe(self, topics: str, qos: int = 0, said: Properties | None = None, **options: Any) -> Any:
        """Subscribe, and wait for SUBACK: its first code. None: there is no connection."""
        if self.level == 5:
            _, mid = self.paho.subscribe(topics, options=SubscribeOptions(qos, **options), properties=said)
        else:
            _, mid = self.paho.subscribe(topics, qos)
        if mid is None:
            return None
        return (await self._answered(("s", mid)))[0]

    async def unsubscribe(self, topics: str) -> None:
        _, mid = self.paho.unsubscribe(topics)
        await self._answered(("u", mid))

    async def publish(self, topic: str, payload: Any = b"", qos: int = 0, retain: bool = False, **said: Any) -> Any:
        """Publish, and wait until it is out (QoS 0) or answered: the code."""
        info = self.paho.publish(
            topic, payload, qos, retain, properties=properties("PUBLISH", **said) if self.level == 5 else None
        )
        return await self._answered(("p", info.mid))

    async def next(self) -> paho.MQTTMessage:
        """The next message."""
        return await self.came.get()

    async def payloads(self, count: int) -> list[bytes]:
        return [bytes((await self.next()).payload) for _ in range(count)]

    async def disconnect(self, **said: Any) -> None:
        """Say DISCONNECT, and wait until it is over."""
        code = said.pop("reason", None)
        self.paho.disconnect(reasoncode=code, properties=properties("DISCONNECT", **said) if said else None)
        await asyncio.to_thread(self.paho.loop_stop)
        self.paho._reset_sockets()

    async def vanish(self) -> None:
        """Be gone without a word."""
        self.paho.on_disconnect = None
        sock = self.paho.socket()

        def stop() -> None:
            self.paho._thread_terminate = True  # so that paho does not connect again by itself
            if sock is not None:
                sock.close()
            self.paho.loop_stop()
            self.paho._reset_sockets()

        await asyncio.to_thread(stop)
