"""MQTT over several brokers: clients roam by their client identifier, and retained events and groups are everywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.network.mqtt_devices import Device, Station, one_broker, start
from tests.network.waiting import run


@asynccontextmanager
async def three_brokers() -> AsyncIterator[list[Station]]:
    b3 = await start("b3", {"b2": None})
    b2 = await start("b2", {"b1": None, "b3": b3.native})
    b1 = await start("b1", {"b2": b2.native})
    stations = [b1, b2, b3]
    try:
        yield stations
    finally:
        for station in stations:
            await station.stop()
        assert [station.faults for station in stations] == [[], [], []]


async def known_everywhere(stations: list[Station], device: Device, pilot: Device, topic: str) -> None:
    """Until what `pilot` publishes comes to `device`, all the way."""
    while True:
        await pilot.publish(topic, b"ping", 1)
        try:
            async with asyncio.timeout(0.2):
                await device.next()
                break
        except TimeoutError:
            continue


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_roams_by_its_identifier_and_nothing_is_lost_or_doubled(level, qos):
    async def scene() -> None:
        async with three_brokers() as stations:
            bob = Device("bob", level)
            await bob.connect(stations[1].port)
            ann = Device("ann", level, clean=False, expiry_s=1_000)
            await ann.connect(stations[0].port)
            await ann.subscribe("probe", 1)
            await ann.subscribe("t/+", qos)
            await known_everywhere(stations, ann, bob, "probe")
            got: list[bytes] = []
            sent = 0

            async def publish(count: int) -> None:
                nonlocal sent
                for _ in range(count):
                    await bob.publish("t/x", b"%d" % sent, qos)
                    sent += 1

            for round in range(6):
                publishing = asyncio.create_task(publish(40))
                for _ in range(10):
                    message = await ann.next()
                    if message.topic == "t/x":
                        got.append(bytes(message.payload))
                await (ann.vanish() if round % 2 else ann.disconnect())
                while not ann.came.empty():
                    message = ann.came.get_nowait()
                    if message.topic == "t/x":
                        got.append(bytes(message.payload))
                ann, old = Device("ann", level, clean=False, expiry_s=1_000), ann
                if qos == 2:  # what a client remembers of QoS 2 is the client's
                    ann.paho._in_messages = old.paho._in_messages
                await ann.connect(stations[(round + 1) % 3].port)
                assert ann.is_present
                await publishing
            await bob.publish("t/x", b"end", qos)
            while True:
                message = await ann.next()
                if message.payload == b"end":
                    break
                if message.topic == "t/x":
                    got.append(bytes(message.payload))
            wanted = [b"%d" % number for number in range(sent)]
            assert (got if qos == 2 else list(dict.fromkeys(got))) == wanted
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


@pytest.mark.parametrize("level", [4, 5])
def test_retained_events_are_there_for_whoever_comes_later_at_any_broker(level):
    async def scene() -> None:
        async with three_brokers() as stations:
            bob = Device("bob", level)
            await bob.connect(stations[0].port)
            watcher = Device("watcher", level)
            await watcher.connect(stations[2].port)
            await watcher.subscribe("lamp/#", 1)
            await known_everywhere(stations, watcher, bob, "lamp/probe")
            for topic, payload in [
                ("lamp/1", b"on"),
                ("lamp/1", b"off"),
                ("lamp/2", b"on"),
                ("lamp/3", b"on"),
                ("lamp/3", b""),
            ]:
                await bob.publish(topic, payload, 1, retain=True)
            seen: list[tuple[bytes, bool]] = []
            while len(seen) < 5:
                message = await watcher.next()
                if message.topic != "lamp/probe":
                    seen.append((bytes(message.payload), message.retain))
            assert seen == [(b"on", False), (b"off", False), (b"on", False), (b"on", False), (b"", False)]
            late = Device("late", level)
            await late.connect(stations[2].port)
            await late.subscribe("lamp/+", 1)
            messages = sorted([await late.next() for _ in range(2)], key=lambda each: each.topic)
            assert [(each.topic, each.payload, each.retain) for each in messages] == [
                ("lamp/1", b"off", True),
                ("lamp/2", b"on", True),
            ]
            for device in (bob, watcher, late):
                await device.disconnect()

    run(scene)


def test_retain_handling_and_retain_as_published():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await bob.publish("t", b"kept", 1, retain=True)
            await ann.subscribe("t", 1, retainHandling=2)
            await bob.publish("t", b"1", 1)
            assert await ann.payloads(1) == [b"1"]
            await ann.subscribe("t", 1, retainHandling=1)  # not new
            await ann.subscribe("t", 1, retainHandling=0, retainAsPublished=True)
            await bob.publish("t", b"2", 1, retain=True)
            messages = [await ann.next() for _ in range(2)]
            assert [(each.payload, each.retain) for each in messages] == [(b"kept", True), (b"2", True)]
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_of_a_group_one_member_gets_each_event():
    async def scene() -> None:
        async with three_brokers() as stations:
            bob = Device("bob")
            await bob.connect(stations[1].port)
            workers = [Device(f"worker {number}") for number in range(3)]
            for worker, station in zip(workers, stations, strict=True):
                await worker.connect(station.port)
                await worker.subscribe("$share/crew/job/+", 1)
                await worker.subscribe("all", 1)
                await known_everywhere(stations, worker, bob, "all")
            for number in range(60):
                await bob.publish(f"job/{number}", b"%d" % number, 1)
            await bob.publish("all", b"end", 1)
            got: list[bytes] = []
            for worker in workers:
                mine = []
                while (message := await worker.next()).payload != b"end":
                    if message.payload != b"ping":
                        mine.append(bytes(message.payload))
                assert 0 < len(mine) < 60
                got += mine
            assert sorted(got, key=int) == [b"%d" % number for number in range(60)]
            for device in (bob, *workers):
                await device.disconnect()

    run(scene)
