"""Bytes that are no MQTT, and clients that misbehave: they cost nobody else anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.broker.broker_config import BrokerConfig
from godwit.errors import BadEvent
from godwit.languages.event_documents import Document
from godwit.mobility import mobile_broker
from godwit.mqtt import Connect, Decoder, Disconnect, MqttSettings, Pingreq, Publish, Subscribe, Subscription, encode
from godwit.mqtt.packets import FROM_SERVER, Will
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.mqtt_connection import MqttConnection
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.node import Node
from godwit.runtime.packet_slices import PACKETS_AT_ONCE_MAX
from tests.network.mqtt_devices import Device, one_broker
from tests.network.waiting import a_turn, run, until

PINGRESP = b"\xd0\x00"
CONNECT = encode(Connect("evil", 5, properties={"session_expiry_interval": 9}), 5)
PIECES = st.lists(
    st.binary(max_size=30)
    | st.sampled_from(
        [
            CONNECT,
            encode(Subscribe(1, (Subscription("#", 2), Subscription("a?x > 3", 1))), 5),
            encode(Publish("a", b'{"x": 4}', 2, packet_id=1), 5),
            encode(Publish("$ctx", b'{"x": 4}', 1, packet_id=2), 5),
            bytes.fromhex("62020001"),
            bytes.fromhex("50020001"),
            bytes.fromhex("70020001"),
            bytes.fromhex("40020001"),
            encode(Pingreq(), 5),
            bytes.fromhex("e000"),
        ]
    ),
    max_size=12,
)


async def settled(node: Node, connection: Any) -> None:
    """Wait until all that came over a connection is handled: it may wait for its turn."""
    await until(lambda: not connection._packets.has_more)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await node.quiet()


async def bombard(pieces: list[bytes], cuts: list[int]) -> None:
    """Say all this to a gateway, cut anywhere; its node has no trouble, and goes on."""
    troubles: list[str] = []
    node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()), on_trouble=troubles.append)
    gateway = MqttGateway(node)
    out = bytearray()
    connection = gateway.open(out.extend, lambda: None, "127.0.0.1")
    data = b"".join(pieces)
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for begin, end in pairwise(places):
        connection.data_received(data[begin:end])
        await settled(node, connection)
    connection.connection_lost()
    await node.quiet()
    assert troubles == []
    assert gateway.connections == {}
    good = gateway.open(out.extend, lambda: None, "127.0.0.1")
    out.clear()
    good.data_received(encode(Connect("good", 4), 4))
    await settled(node, good)
    assert out == bytes.fromhex("20020000")
    await gateway.close()
    await node.close()


@settings(max_examples=60, deadline=None)
@given(PIECES, st.lists(st.integers(0, 400), max_size=4), st.booleans())
def test_a_gateway_survives_whatever_comes(pieces, cuts, begins_well):
    run(lambda: bombard([CONNECT, *pieces] if begins_well else pieces, cuts))


def test_strangers_and_slow_readers_do_not_disturb():
    async def scene() -> None:
        rng = Random(1)
        async with one_broker(settings=MqttSettings(maximum_packet_size=2**20)) as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("t", 1)
            for _ in range(20):  # noise
                _, writer = await asyncio.open_connection("127.0.0.1", station.port)
                writer.write(rng.randbytes(200))
                await writer.drain()
                writer.close()
            _, slow = await asyncio.open_connection("127.0.0.1", station.port)
            slow.write(encode(Connect("slow", 4), 4) + encode(Subscribe(1, (Subscription("t", 0),)), 4))
            await slow.drain()
            payload = bytes(50_000)
            for _ in range(300):  # 15 MB that one of them does not read
                await bob.publish("t", payload, 1)
            assert {len(each) for each in await ann.payloads(300)} == {50_000}
            slow.close()
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_all_of_a_long_read_is_published_though_its_client_has_gone_at_once():
    async def scene() -> None:
        node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()))
        gateway = MqttGateway(node)
        heard, out = bytearray(), bytearray()
        listener = gateway.open(heard.extend, lambda: None, "127.0.0.1")
        listener.data_received(encode(Connect("listener", 5), 5) + encode(Subscribe(1, (Subscription("t", 0),)), 5))
        client = gateway.open(out.extend, lambda: None, "127.0.0.1")
        client.data_received(encode(Connect("client", 5), 5))
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        await node.quiet()
        many = 1_000
        client.data_received(b"".join(encode(Publish("t", b"%d" % number), 5) for number in range(many)))
        client.connection_lost()
        decoder, came = Decoder(5, FROM_SERVER), list[bytes]()

        def all_came() -> bool:
            came.extend(packet.payload for packet in decoder.feed(bytes(heard)) if isinstance(packet, Publish))
            heard.clear()
            return len(came) >= many

        await until(all_came)
        assert came == [b"%d" % number for number in range(many)]
        listener.connection_lost()
        await node.quiet()
        assert gateway.connections == {}
        await gateway.close()
        await node.close()

    run(scene)


@asynccontextmanager
async def connected(
    keep_alive: int = 0, **carrier: Any
) -> AsyncIterator[tuple[MqttGateway, MqttConnection, bytearray]]:
    """A gateway, a client that is connected to it without a socket, and what that client gets."""
    node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()))
    gateway, out = MqttGateway(node), bytearray()
    client = gateway.open(out.extend, carrier.pop("close", lambda: None), "127.0.0.1", **carrier)
    client.data_received(encode(Connect("client", 5, keep_alive=keep_alive), 5))
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    await node.quiet()
    yield gateway, client, out
    client.connection_lost()
    await node.quiet()
    await gateway.close()
    await node.close()


def test_nothing_is_decoded_or_counted_after_a_client_has_disconnected():
    async def scene() -> None:
        async with connected() as (gateway, client, _):
            pings = encode(Pingreq(), 5) * 4 * PACKETS_AT_ONCE_MAX
            client.data_received(encode(Disconnect(), 5) + pings + b"\x30")
            assert not client._packets.has_more
            client.data_received(pings)
            await a_turn()
            assert not client._packets.has_more
            assert gateway.memory.partial_bytes == 0

    run(scene)


def test_a_client_that_disconnects_and_is_back_at_once_loses_nothing_and_no_will_is_published() -> None:
    async def scene() -> None:
        async with connected() as (gateway, listener, heard):
            listener.data_received(encode(Subscribe(1, (Subscription("#", 0),)), 5))
            will = Will("will", b"gone", 0, False)
            first, later = (gateway.open(lambda data: None, lambda: None, "127.0.0.1") for _ in range(2))
            first.data_received(encode(Connect("c", 5, will=will, properties={"session_expiry_interval": 9}), 5))
            await settled(gateway.node, first)
            many = 5 * PACKETS_AT_ONCE_MAX
            sent = b"".join(encode(Publish("t", b"%d" % number), 5) for number in range(many))
            first.data_received(sent + encode(Disconnect(), 5))
            later.data_received(encode(Connect("c", 5, properties={"session_expiry_interval": 9}), 5))
            await settled(gateway.node, later)
            later.data_received(encode(Publish("t", b"later"), 5))
            decoder, came = Decoder(5, FROM_SERVER), list[Publish]()

            def all_came() -> bool:
                came.extend(packet for packet in decoder.feed(bytes(heard)) if isinstance(packet, Publish))
                heard.clear()
                return bool(came) and came[-1].payload == b"later"

            await until(all_came)
            assert [packet.payload for packet in came] == [*(b"%d" % number for number in range(many)), b"later"]
            for each in (first, later):
                each.connection_lost()

    run(scene)


def test_a_client_that_is_not_read_is_not_closed_for_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with connected(keep_alive=1) as (gateway, client, _):
            now, moment, reading = gateway.now(), 0.0, client._reading
            monkeypatch.setattr(gateway, "now", lambda: now + moment)
            monkeypatch.setattr(reading, "_clock", lambda: asyncio.get_running_loop().time() + moment)
            reading.hold_back(True)
            moment = 10.0
            client._on_timer(("keep alive",))
            assert client.closed_because == ""
            client.data_received(encode(Pingreq(), 5))
            reading.hold_back(False)
            client._on_timer(("keep alive",))
            moment = 20.0
            client._on_timer(("keep alive",))
            assert client.closed_because == "no packet was received for too long"

    run(scene)


def test_packets_behind_a_document_that_is_read_are_handled_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        sizes = list[int]()
        take = MqttConnection._take

        def noted(self: MqttConnection, packets: list[Any], fault: Any) -> None:
            sizes.append(len(packets))
            take(self, packets, fault)

        monkeypatch.setattr(MqttConnection, "_take", noted)
        async with connected() as (gateway, client, out):
            found: asyncio.Future[list[Document]] = asyncio.get_running_loop().create_future()

            async def read(*said: Any) -> list[Document]:
                return await found

            monkeypatch.setattr(gateway.tests.helper, "read", read)
            large = Publish("t", bytes(2 * SMALL_BYTES), 0, properties={"content_type": "application/xml"})
            client.data_received(encode(large, 5) + encode(Pingreq(), 5) * 9 * PACKETS_AT_ONCE_MAX)
            for _ in range(9):
                await a_turn()
            assert out.count(PINGRESP) == 0
            found.set_exception(BadEvent("no document"))
            await until(lambda: out.count(PINGRESP) == 9 * PACKETS_AT_ONCE_MAX)
            assert max(sizes) == PACKETS_AT_ONCE_MAX

    run(scene)


def test_an_error_of_this_program_in_a_later_turn_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        errors, closed = list[str](), list[bool]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: errors.append(str(told["exception"])))
        async with connected(close=lambda: closed.append(True)) as (gateway, client, _):

            def broken(*said: Any) -> None:
                raise AssertionError("planted")

            client.data_received(encode(Pingreq(), 5) * (PACKETS_AT_ONCE_MAX + 1))
            monkeypatch.setattr(client, "_take", broken)
            await until(lambda: closed == [True])
            assert errors == ["planted"]
            client.connection_lost()  # as its carrier says then
            await gateway.node.quiet()
            assert gateway.connections == {}

    run(scene)


def test_a_client_is_read_again_when_bytes_came_although_reading_was_paused():
    async def scene() -> None:
        paused = list[bool]()
        async with connected(pause=paused.append) as (_, client, out):
            paused.clear()
            ping = encode(Pingreq(), 5)
            client.data_received(ping * (PACKETS_AT_ONCE_MAX + 1))
            assert paused == [True]
            client.data_received(ping)  # as TLS and WebSocket do: it was received before
            await until(lambda: paused == [True, False], "the client is read again")
            assert out.count(PINGRESP) == PACKETS_AT_ONCE_MAX + 2

    run(scene)
