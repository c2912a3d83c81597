"""The cars and desks of the demonstration: some use Godwit's native protocol, some are plain MQTT clients (paho).

Both do the same: they publish their position, subscribe, and move to another broker when that one is nearer. An MQTT
client does not know that the brokers form a network. It disconnects from one and connects to another under the same
name.
"""

import asyncio
import json
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

from godwit.cli.fleet.fleet_ledger import ExpectedReader, FleetLedger
from godwit.cli.local_brokers import LocalBroker
from godwit.filters.language import parse

__all__ = ["Member", "MqttMember", "NativeMember"]

AGAIN_S = 0.25
ANSWER_S = 120.0  # brokers wait as long for a session that is elsewhere
REACH_S = 5.0
EXPIRY_S = 3_600


class Member(ABC):
    """A client of the demonstration, connected to one broker after another."""

    def __init__(self, name: str, ledger: FleetLedger, context: Mapping[str, Any]) -> None:
        self.name = name
        self.ledger = ledger
        self.context = dict(context)
        self.at = ""
        self.hand_overs_s: list[float] = []
        self.n = 0
        self.place = (0.0, 0.0)

    @abstractmethod
    async def go_to(self, process: LocalBroker) -> None:
        """Come in there, with the session from elsewhere."""

    @abstractmethod
    async def want(self, text: str, *, is_fixed: bool = True) -> None:
        """Subscribe."""

    @abstractmethod
    async def flushed(self) -> None:
        """Wait until brokers have accepted all published events."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave: the session ends."""

    def is_at(self, place: tuple[float, float]) -> None:
        """Change the position. An MQTT client reports it only in its events."""
        self.place = place

    def publish(self, attributes: dict[str, Any], to: str = "") -> None:
        """Publish an event with the next number."""
        self.n += 1
        said = {**attributes, "by": self.name, "n": self.n}
        self.ledger.publish(said, self.context, parse(to) if to else None)
        self._send(said, to)

    @abstractmethod
    def _send(self, said: dict[str, Any], to: str) -> None: ...


class NativeMember(Member):
    """A participant with Godwit's client library."""

    def __init__(self, name: str, ledger: FleetLedger, context: Mapping[str, Any]) -> None:
        super().__init__(name, ledger, context)
        self._client: Any = None
        self._reading: list[asyncio.Task[None]] = []

    async def go_to(self, process: LocalBroker) -> None:
        """Come in there, with the session from elsewhere."""
        import godwit

        began = perf_counter()
        address = process.listens["native"]
        if self._client is None:
            self._client = godwit.connect(address, name=self.name)
            await self._client.__aenter__()
            self._client.set_context(self.context)
            await self._client.drain()
        else:
            await self._client.move(address)
            await self._client.attached()
            self.hand_overs_s.append(perf_counter() - began)
        self.at = process.name

    async def want(self, text: str, *, is_fixed: bool = True) -> None:
        """Subscribe."""
        reader = self.ledger.reader(f"{self.name}: {text}", parse(text), self.context, is_fixed=is_fixed)
        subscription = await self._client.subscribe(text)
        self._reading.append(asyncio.create_task(self._read(subscription, reader)))

    @staticmethod
    async def _read(subscription: Any, reader: ExpectedReader) -> None:
        async for event in subscription:
            reader.take(event.attributes)

    def is_at(self, place: tuple[float, float]) -> None:
        """Be somewhere else."""
        from godwit.filters.values import Point

        super().is_at(place)
        self._client.set_place(Point(*place))

    def receipts(self) -> list[Any]:
        """The reports about events that arrived while the client was between brokers."""
        return list(self._client.receipts)

    def _send(self, said: dict[str, Any], to: str) -> None:
        self._client.publish(said, to=to or None)

    async def flushed(self) -> None:
        """Wait until brokers have accepted all published events."""
        await self._client.drain()

    async def leave(self) -> None:
        """Leave: the session ends."""
        await self._client.close(leave=True)
        for task in self._reading:
            task.cancel()


class MqttMember(Member):
    """A participant with a plain MQTT 5 client. Everything is QoS 2: exactly once."""

    def __init__(self, name: str, ledger: FleetLedger, context: Mapping[str, Any]) -> None:
        super().__init__(name, ledger, context)
        from paho.mqtt import client as mqtt

        paho: Any = mqtt
        self._loop = asyncio.get_running_loop()
        self._readers: list[tuple[str, ExpectedReader]] = []
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._unsent: deque[tuple[str, str, str]] = deque()  # topic, payload, receivers; the first one is being sent
        self._changed = asyncio.Event()
        self._paho: Any = paho.Client(
            paho.CallbackAPIVersion.VERSION2, self.name, protocol=paho.MQTTv5, reconnect_on_failure=False
        )
        self._paho.on_connect = lambda *said: self._tell("connect", said[3])
        self._paho.on_subscribe = lambda *said: self._tell("subscribe", said[3])
        self._paho.on_message = lambda _, __, message: self._loop.call_soon_threadsafe(self._take, message)
        self._paho.on_publish = lambda *said: self._loop.call_soon_threadsafe(self._on_published)
        self._paho.on_disconnect = lambda *said: self._loop.call_soon_threadsafe(self._changed.set)

    def _tell(self, what: str, answer: Any) -> None:
        self._loop.call_soon_threadsafe(self._answer, what, answer)

    def _answer(self, what: str, answer: Any) -> None:
        waiting = self._answers.pop(what, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def go_to(self, process: LocalBroker) -> None:
        """Connect to a broker; the session moves there. Retries if the answer takes too long."""
        is_move = self.at != ""
        began = 0.0
        while True:
            with suppress(OSError, TimeoutError):
                self._answers["connect"] = self._loop.create_future()
                waiting = self._answers["connect"]
                await asyncio.to_thread(self._paho.loop_stop)
                began = began or perf_counter()
                await asyncio.to_thread(self._connect, process)
                async with asyncio.timeout(ANSWER_S):
                    if not (await waiting).is_failure:
                        break
            await asyncio.sleep(AGAIN_S)
        if is_move:
            self.hand_overs_s.append(perf_counter() - began)
        self.at = process.name

    def _connect(self, process: LocalBroker) -> None:
        """Drop the old connection without DISCONNECT, and open a new one."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = EXPIRY_S
        if self.context:
            properties.UserProperty = ("$ctx", json.dumps(self.context))
        host, _, port = process.listens["mqtt"].rpartition(":")
        # After two attempts without CONNACK paho publishes again what the broker has already received (PUBREC).
        socket.create_connection((host, int(port)), REACH_S).close()
        self._paho.connect(host, int(port), keepalive=30, clean_start=False, properties=properties)
        self._paho.loop_start()

    async def want(self, text: str, *, is_fixed: bool = True) -> None:
        """Subscribe to `topic?filter`. The ledger stores it as a filter."""
        from godwit.mqtt import topic_filter

        wanted = topic_filter(text)
        self._readers.append((text, self.ledger.reader(f"{self.name}: {text}", wanted.filter, self.context)))
        answer = self._answers["subscribe"] = self._loop.create_future()
        self._paho.subscribe(text, qos=2)
        async with asyncio.timeout(ANSWER_S):
            await answer

    def _take(self, message: Any) -> None:
        from godwit.filters.events import event

        said = json.loads(message.payload)
        came = event({**said, "topic": message.topic})
        for _, reader in self._readers:
            if reader.filter.matches(came):
                reader.take(said)

    def _send(self, said: dict[str, Any], to: str) -> None:
        said = dict(said)
        self._unsent.append((said.pop("topic"), json.dumps(said), to))
        if len(self._unsent) == 1:
            self._send_first()

    def _send_first(self) -> None:
        """Publish one event at a time: after a reconnect paho would send new events before old ones."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        topic, payload, to = self._unsent[0]
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if to:
            properties.UserProperty = ("$to", to)
        self._paho.publish(topic, payload, qos=2, properties=properties)

    def _on_published(self) -> None:
        self._unsent.popleft()
        if self._unsent:
            self._send_first()
        self._changed.set()

    async def flushed(self) -> None:
        """Wait until brokers have accepted all published events."""
        while self._unsent:
            self._changed.clear()
            await self._changed.wait()

    async def leave(self) -> None:
        """Leave: the session ends."""
        await asyncio.to_thread(self._paho.loop_stop)
        await asyncio.to_thread(self._paho.disconnect)
