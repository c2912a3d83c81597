"""Bytes that are no MQTT, and clients that misbehave: they cost nobody else anything."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.broker.broker_config import BrokerConfig
from godwit.mobility import mobile_broker
from godwit.mqtt import Connect, Decoder, MqttSettings, Pingreq, Publish, Subscribe, Subscription, encode
from godwit.mqtt.packets import FROM_SERVER
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.node import Node
from tests.network.mqtt_devices import Device, one_broker
from tests.network.waiting import run, until

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
