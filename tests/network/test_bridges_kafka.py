"""Bridges to Kafka: both ways, renamed, filtered, never round, over breaks and kills."""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from godwit.runtime.broker_server import BrokerServer
from tests.network.kafka_cluster import NOT_ENOUGH_REPLICAS, PRODUCE, kafka_cluster, reading, sending
from tests.network.serving import free_address, serving
from tests.network.test_bridges import a_device, broker, configured, counted, devices, port_of
from tests.network.waiting import run, until

pytest.importorskip("aiokafka")
pytest.importorskip("confluent_kafka")

BRIDGE = """
[[bridge]]
name = "plant"
kind = "kafka"
address = "{address}"
retry_s_max = 0.1
"""
BOTH = BRIDGE + '[[bridge.topics]]\npattern = "#"\nlocal_prefix = "fleet/"\nremote_prefix = "site7/"\n'
NAMED = """
[[bridge.topics]]
pattern = "+/speed"
local_prefix = "fleet/"
kafka_topic = "telemetry"
where = "kmh > 50"
"""


async def up(server: BrokerServer) -> None:
    """Until the bridge has looked where its partitions end."""
    bridge = server.bridges.bridges["plant"]
    sessions = server.node.machine.sessions  # type: ignore[attr-defined]
    wanted = {f"kafka/begun/{route.name}" for route in bridge.incoming}
    await until(lambda: bridge.is_up and wanted <= set(sessions.session(bridge.client).notes), "the bridge is up")


def test_topics_become_topics_of_kafka_both_ways_and_nothing_goes_round(tmp_path: Path) -> None:
    async def scene() -> None:
        with kafka_cluster(site7_orders_1=2) as cluster:
            async with (
                sending(cluster) as producer,
                broker(configured(tmp_path, BOTH, address=cluster.address)) as server,
            ):
                await producer.send_and_wait("site7.orders.1", b"from before the bridge")
                await up(server)
                async with devices(port_of(server)) as (here,):
                    await here.publish("fleet/a/speed", b"60", 2, UserProperty=[("unit", "km"), ("unit", "h")])
                    async with reading(cluster, "site7.a.speed") as consumer:
                        record = await consumer.getone()
                    assert (record.key, record.value) == (b"site7/a/speed", b"60")
                    headers = [(name, value.decode()) for name, value in record.headers]
                    assert headers[:3] == [("unit", "km"), ("unit", "h"), ("bridge.path", "b1")]
                    assert ("godwit-qos", "2") in headers
                    await here.publish("fleet/a b", b"", 2)
                    await until(lambda: counted(server, "out", "refused") == 1)
                    await until(
                        lambda: counted(server, "in", "looped") == 1, "what went out was read, and not taken in"
                    )
                    await producer.send_and_wait("site7.orders.1", b'{"urgent": true}', headers=[("unit", b"kg")])
                    came = [await here.next() for _ in range(3)]
                    assert [each.topic for each in came] == ["fleet/a/speed", "fleet/a b", "fleet/orders/1"]
                    assert came[2].payload == b'{"urgent": true}'
                    await until(lambda: counted(server, "out", "looped") == 1, "what came in does not go back")
                    await producer.send_and_wait("site7.late", b"a topic that is made later")
                    assert (await here.next()).topic == "fleet/late"
                    assert here.came.empty()

    run(scene)


def test_a_named_topic_takes_many_addresses_by_key_and_content_is_filtered(tmp_path: Path) -> None:
    async def scene() -> None:
        with kafka_cluster(telemetry=2) as cluster:
            file = configured(tmp_path, BRIDGE + NAMED, address=cluster.address)
            async with sending(cluster) as producer, broker(file) as server:
                await up(server)
                async with devices(port_of(server)) as (here,):
                    for name, kmh in (("a", 40), ("b", 60), ("c", 70)):
                        await here.publish(f"fleet/{name}/speed", b'{"kmh": %d}' % kmh, 1)
                    async with reading(cluster, "telemetry") as consumer:
                        assert {(await consumer.getone()).key for _ in range(2)} == {b"b/speed", b"c/speed"}
                    for key, kmh in ((b"d/speed", 30), (b"d/speed", 80), (b"d/height", 80), (b"\xff", 80), (None, 80)):
                        await producer.send_and_wait("telemetry", b'{"kmh": %d}' % kmh, key)
                    topics = [(await here.next()).topic for _ in range(4)]
                    assert topics == ["fleet/a/speed", "fleet/b/speed", "fleet/c/speed", "fleet/d/speed"]
                    await until(lambda: counted(server, "in", "filtered") == 4)
                    assert counted(server, "in", "looped") == 2
                    assert here.came.empty()

    run(scene)


def test_what_is_published_while_kafka_is_away_waits_and_is_stored_once(tmp_path: Path) -> None:
    async def scene() -> None:
        with kafka_cluster(site7_x=1) as cluster:
            async with broker(configured(tmp_path, BOTH, address=cluster.address)) as server:
                await up(server)
                bridge = server.bridges.bridges["plant"]
                cluster.go_down()
                await until(lambda: not bridge.is_up)
                async with devices(port_of(server)) as (here,):
                    for number in range(20):
                        await here.publish("fleet/x", b"%d" % number, 1)
                    await until(lambda: bridge.waiting == 20)
                    cluster.answer_errors(PRODUCE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS)
                    cluster.come_up()
                    async with reading(cluster, "site7.x") as consumer:
                        assert [int((await consumer.getone()).value) for _ in range(20)] == list(range(20))
                    await until(lambda: bridge.waiting == 0)
                    assert counted(server, "out", "carried") == 20
                    assert bridge.connections >= 2

    run(scene)


ONE_WAY_EACH = BRIDGE + (
    'start = "earliest"\n[[bridge.topics]]\npattern = "out/#"\ndirection = "out"\n'
    '[[bridge.topics]]\npattern = "in/#"\ndirection = "in"\n'
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_incoming_is_exactly_once_and_outgoing_at_least_once_when_the_broker_is_killed(
    tmp_path: Path, seed: int
) -> None:
    count, rng = 40, Random(seed)

    async def scene() -> None:
        with kafka_cluster(in_x=2, out_x=1) as cluster:
            file = configured(tmp_path, ONE_WAY_EACH, mqtt=free_address().port, address=cluster.address)
            async with AsyncExitStack() as last:
                producer = await last.enter_async_context(sending(cluster))
                served = await last.enter_async_context(serving(file.name, folder=tmp_path))
                port = int(served.said["mqtt"].rpartition(":")[2])
                await served.log("bridge up")
                says, hears, sent = a_device("says"), a_device("hears"), 0
                for device in (says, hears):
                    await device.connect(port)
                    last.push_async_callback(device.disconnect)
                await hears.subscribe("in/#", 2)
                answers: list[asyncio.Task[Any]] = []
                for _ in range(2):
                    falls_after = rng.randrange(count)
                    for number in range(count):
                        answers.append(asyncio.create_task(says.publish("out/x", b"%d" % sent, 2)))
                        await (await producer.send("in.x", b"%d" % sent))
                        sent += 1
                        if number == falls_after:
                            assert await served.stop(signal.SIGKILL) == -signal.SIGKILL
                            served = await last.enter_async_context(serving(file.name, folder=tmp_path))
                await asyncio.gather(*answers)
                came = [int((await hears.next()).payload) for _ in range(sent)]
                assert sorted(came) == list(range(sent))
                await says.publish("out/x", b"end", 2)
                stored: Counter[tuple[int, bytes]] = Counter()
                async with reading(cluster, "out.x") as consumer:
                    while (record := await consumer.getone()).value != b"end":
                        stored[int(record.value), dict(record.headers)["godwit-delivery"]] += 1
                # The publisher's library publishes again what it has released, when it connects twice in vain: then one
                # payload is two events, with two names. One name is never two events.
                assert {number for number, _ in stored} == set(range(sent))
                assert len({name for _, name in stored}) == len(stored)
                await producer.send_and_wait("in.x", b"end")
                assert (await hears.next()).payload == b"end"

    run(scene)
