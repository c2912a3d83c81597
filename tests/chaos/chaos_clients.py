"""Clients of a chaos run, of Godwit and of MQTT. All that they say, are told and get goes into the history."""

import asyncio
import json
import ssl
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import MessageState

from godwit.broker.messages import Receipt
from godwit.errors import GodwitError
from godwit.runtime import connect
from tests.chaos.broker_processes import Network
from tests.chaos.history import History
from tests.network.mqtt_devices import Device
from tests.network.waiting import pause

__all__ = ["ChaosClient", "MqttClient", "NativeClient"]

CONNECT_AGAIN_S = 0.1
LOSSES = "$SYS/broker/losses/count"


class ChaosClient(Protocol):
    """What a run does with a client."""

    name: str
    at: str  # the broker where it is
    promise: str  # `once` or `repeated`

    async def start(self, broker: str) -> None: ...
    async def subscribe(self, topics: Iterable[str]) -> None: ...
    def publish(self, topic: str) -> str: ...
    async def roam(self, broker: str) -> None: ...
    async def close(self) -> None: ...


class Tasks:
    """What a client does at the same time. A fault in one of them is told at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None

    def keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._fault = self._fault or task.exception()

    async def close(self) -> None:
        running = list(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._fault is not None:
            raise self._fault


class NativeClient:
    """A client of Godwit: everything comes once."""

    def __init__(self, name: str, network: Network, history: History) -> None:
        self.name, self.at, self.promise = name, "", "once"
        self._network, self._history = network, history
        self._tasks = Tasks()
        self._published = 0
        self._read: list[Receipt] = []  # each once: another session counts from 1 again
        tls: ssl.SSLContext | None = None
        if network.authority is not None:
            tls = ssl.create_default_context()
            network.authority.configure_trust(tls)
        self._client = connect(name=name, tls=tls, on_state=lambda _: self._read_receipts())

    async def start(self, broker: str) -> None:
        await self.roam(broker)
        await self._client.__aenter__()
        await self._client.attached(60)

    async def subscribe(self, topics: Iterable[str]) -> None:
        quoted = ", ".join(f"'{topic}'" for topic in topics)
        subscription = await self._client.subscribe(f"topic IN ({quoted})", name="all")

        async def read() -> None:
            async for event in subscription:
                self._history.deliver(self.name, str(event.attributes["id"]))

        self._tasks.keep(read())

    def publish(self, topic: str) -> str:
        self._published += 1
        id = f"{self.name}/{self._published}"
        self._history.publish(self.name, id, topic, self.promise)
        request = self._client.publish({"topic": topic, "id": id})

        async def answered() -> None:
            await request
            self._history.acknowledge(id)

        self._tasks.keep(answered())
        return id

    async def roam(self, broker: str) -> None:
        self.at = broker
        await self._client.move(self._network.brokers[broker].doors["native"].address)

    async def greet_again(self) -> None:
        """Connect again, and read what the receipt says."""
        others = [name for name in self._network.brokers if name != self.at]
        await self.roam(others[0])
        await self._client.attached(60)
        self._read_receipts()

    def _read_receipts(self) -> None:
        for receipt in self._client.receipts:
            if any(receipt is known for known in self._read):
                continue
            self._read.append(receipt)
            lost = len(receipt.lost) + receipt.lost_more
            says = ["session lost"] * receipt.session_lost + [f"lost {lost}"] * bool(lost)
            says += ["lost its last inputs"] * (receipt.lost_since is not None)
            if says:
                self._history.write("receipt", to=self.name, says=", ".join(says))

    async def close(self) -> None:
        self._read_receipts()
        await self._tasks.close()
        with suppress(GodwitError):
            await self._client.close()


def _remember_pubrecs(client: paho.Client) -> None:
    """Let paho send PUBREL again after several attempts to connect.

    After the second one it has forgotten that PUBREC came, and publishes again what the broker has released.
    """
    reset = client._messages_reconnect_reset_out

    def reset_remembering() -> None:
        for message in client._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        reset()

    client._messages_reconnect_reset_out = reset_remembering  # type: ignore[method-assign]


class MqttClient:
    """A client of MQTT, by paho.

    It publishes one event at a time: what paho is given while it connects, it sends before what it has to send again.
    """

    def __init__(self, name: str, network: Network, history: History, folder: Path, *, level: int, qos: int) -> None:
        self.name, self.at = name, ""
        self.promise = "once" if qos == 2 else "repeated"
        self._network, self._history, self._qos = network, history, qos
        self._device = Device(name, level, clean=False, expiry_s=10_000)
        self._device.paho.reconnect_delay_set(0.05, 0.5)  # type: ignore[arg-type]
        self._device.paho.max_queued_messages_set(0)
        _remember_pubrecs(self._device.paho)
        if network.authority is not None:
            trusted = folder / "authority.pem"
            self._device.paho.tls_set(ca_certs=str(trusted))
        self._tasks = Tasks()
        self._published = 0
        self._has_heard = asyncio.Event()
        self._losses = ""  # the number that it was told last
        self._is_moving = asyncio.Lock()
        self._is_publishing = asyncio.Lock()

    async def start(self, broker: str) -> None:
        self.at = broker
        door = self._network.brokers[broker].doors["mqtt"]
        while True:
            try:
                await self._device.connect(door.address.port)
                return
            except OSError:  # in the middle of a handshake; paho goes on by itself only later
                await pause(CONNECT_AGAIN_S)

    async def subscribe(self, topics: Iterable[str]) -> None:
        wanted = [*topics, LOSSES]
        unanswered = dict.fromkeys(wanted)

        async def ask() -> None:
            for topic in list(unanswered):
                if await self._device.subscribe(topic, self._qos) is not None:
                    unanswered.pop(topic, None)

        def ask_again() -> None:
            if not self._device.is_present:  # the broker has lost the session: MQTT's way to say so
                self._history.write("receipt", to=self.name, says="session lost")
                unanswered.update(dict.fromkeys(wanted))
            if unanswered:
                self._tasks.keep(ask())

        await ask()
        self._device.on_connected = ask_again

        async def read() -> None:
            while True:
                message = await self._device.next()
                if message.topic == LOSSES:
                    self._hear_of_losses(message.payload.decode())
                    continue
                self._history.deliver(self.name, json.loads(message.payload)["id"])

        self._tasks.keep(read())

    async def ask_of_losses(self) -> None:
        """Hear from the broker where it is now whether a disk has lost events."""
        self._has_heard.clear()
        await self._device.subscribe(LOSSES, self._qos)
        await self._has_heard.wait()

    def _hear_of_losses(self, count: str) -> None:
        """How often a disk in the network has lost events; it is said again with each subscription."""
        self._has_heard.set()
        if int(count) and count != self._losses:
            self._losses = count
            self._history.write("receipt", to=self.name, says=f"losses {count}")

    def publish(self, topic: str) -> str:
        self._published += 1
        id = f"{self.name}/{self._published}"
        self._history.publish(self.name, id, topic, self.promise)

        async def answered() -> None:
            async with self._is_publishing:
                await self._device.publish(topic, json.dumps({"id": id}).encode(), self._qos)
            self._history.acknowledge(id)

        self._tasks.keep(answered())
        return id

    async def roam(self, broker: str) -> None:
        async with self._is_moving:
            await self._device.disconnect()
            await self.start(broker)

    async def close(self) -> None:
        await self._tasks.close()
        await self._device.disconnect()
