"""The cars and desks of the demonstration: some speak Godwit's own protocol, some are plain MQTT clients (paho).

Both do the same: they publish where they are, want something, and go to another broker when that is nearer. An MQTT
client knows nothing of brokers that belong together. It disconnects here and connects there, under its name.
"""

import asyncio
import json
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
ANSWER_S = 20.0
EXPIRY_S = 3_600


class Member(ABC):
    """Somebody who takes part, at one broker after the other."""

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
        """Until brokers have taken all that was published."""

    @abstractmethod
    async def leave(self) -> None:
        """Go for good."""

    def is_at(self, place: tuple[float, float]) -> None:
        """Be somewhere else. An MQTT client says so only in what it publishes."""
        self.place = place

    def publish(self, attributes: dict[str, Any], to: str = "") -> None:
        """Publish an event, numbered."""
        self.n += 1
        said = {**attributes, "by": self.name, "n": self.n}
        self.ledger.publish(said, self.context, parse(to) if to else None)
        self._send(said, to)

    @abstractmethod
    def _send(self, said: dict[str, Any], to: str) -> None: ...


class NativeMember(Member):
    """One with Godwit's own client."""

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
        """What it was told of events that came while it was under way."""
        return list(self._client.receipts)

    def _send(self, said: dict[str, Any], to: str) -> None:
        self._client.publish(said, to=to or None)

    async def flushed(self) -> None:
        """Until brokers have taken all that was published."""
        await self._client.drain()

    async def leave(self) -> None:
        """Go for good."""
        await self._client.close(leave=True)
        for task in self._reading:
            task.cancel()


class MqttMember(Member):
    """One with a plain MQTT 5 client. Everything is QoS 2: once, and once only."""

    def __init__(self, name: str, ledger: FleetLedger, context: Mapping[str, Any]) -> None:
        super().__init__(name, ledger, context)
        from paho.mqtt import client as mqtt

        paho: Any = mqtt
        self._loop = asyncio.get_running_loop()
        self._readers: list[tuple[str, ExpectedReader]] = []
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._unsent: deque[tuple[str, str, str]] = deque()  # topic, payload, whom it is to; the first is under way
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
        """Come in there, with the session from elsewhere. A broker whose answer takes too long is asked again."""
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
        """Leave the old connection without a word, and make a new one."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = EXPIRY_S
        if self.context:
            properties.UserProperty = ("$ctx", json.dumps(self.context))
        host, _, port = process.listens["mqtt"].rpartition(":")
        self._paho.connect(host, int(port), keepalive=30, clean_start=False, properties=properties)
        self._paho.loop_start()

    async def want(self, text: str, *, is_fixed: bool = True) -> None:
        """Subscribe: `topic?filter`. The ledger holds the same as a filter."""
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
        """One at a time: of several, paho sends the new ones before the old ones at a broker that it comes to."""
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
        """Until brokers have taken all that was published."""
        while self._unsent:
            self._changed.clear()
            await self._changed.wait()

    async def leave(self) -> None:
        """Go for good."""
        await asyncio.to_thread(self._paho.loop_stop)
        await asyncio.to_thread(self._paho.disconnect)
