"""A client with a large backlog catches up over one connection, at its own pace, and the broker keeps little for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from godwit.mqtt import FROM_SERVER, Connect, Decoder, Disconnect, MqttSettings, Puback, Publish, Subscribe, encode
from godwit.mqtt.packets import Subscription
from godwit.runtime import mqtt_gateway
from godwit.runtime.connecting import connect
from tests.network.mqtt_devices import Station, one_broker
from tests.network.waiting import run, until

EVENTS = 40
TEXT = "\N{BAT}" * 10_000  # 10,000 characters, and 40,000 bytes
UNREAD = 256 * 2**10


class RawDevice:
    """An MQTT client of bytes: it reads when it is asked to, and acknowledges what it has read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = Decoder(4, FROM_SERVER)

    @classmethod
    async def come(cls, station: Station) -> "RawDevice":
        device = cls(*await asyncio.open_connection("127.0.0.1", station.port, limit=2**14))
        device.say(Connect("slow", 4, clean_start=False))
        return device

    def say(self, packet: Any) -> None:
        self.writer.write(encode(packet, 4))

    async def packets(self) -> AsyncIterator[Any]:
        while data := await self.reader.read(50_000):
            for packet in self.decoder.feed(data):
                if isinstance(packet, Publish) and packet.qos:
                    self.say(Puback(packet.packet_id))
                yield packet

    async def until(self, kind: type) -> None:
        async for packet in self.packets():
            if isinstance(packet, kind):
                return


@pytest.mark.parametrize("qos", [0, 1])
def test_an_mqtt_client_with_a_backlog_gets_all_of_it_over_one_connection(
    monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    monkeypatch.setattr(mqtt_gateway, "UNREAD_BYTES_MAX", UNREAD)

    async def scene() -> None:
        async with one_broker(settings=MqttSettings(unread_bytes_max=UNREAD)) as station:
            device = await RawDevice.come(station)
            device.say(Subscribe(1, (Subscription("t", qos),)))
            await until(lambda: len(station.node.machine.routing.matcher) == 1)  # type: ignore[attr-defined]
            device.say(Disconnect())
            device.writer.close()
            await until(lambda: not station.gateway.clients)
            async with connect(station.native, name="p") as p:
                for n in range(EVENTS):
                    p.publish({"topic": "t", "n": n, "text": TEXT})
                await p.drain()
            device = await RawDevice.come(station)
            await until(lambda: station.gateway.clients)
            [mine] = station.gateway.clients.values()
            await until(lambda: mine._session.outgoing is not None and mine._session.outgoing.unread)
            assert mine.unread <= UNREAD + 50_000
            numbers: list[int] = []
            async for packet in device.packets():
                if isinstance(packet, Publish):
                    numbers.append(int(packet.payload.split(b'"n":')[1].split(b",")[0]))
                if len(numbers) == EVENTS:
                    break
            assert numbers == list(range(EVENTS))
            device.writer.close()

    run(scene)
