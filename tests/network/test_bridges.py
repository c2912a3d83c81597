"""Bridges between a broker and the real Mosquitto: both ways, renamed, filtered, never round, and over restarts."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from godwit.runtime.broker_server import BrokerServer
from godwit.runtime.configuration import load
from godwit.runtime.log import make_log
from godwit.runtime.reloading import reload
from tests.conventions.repository import ROOT
from tests.network.mosquitto import mosquitto, needs_mosquitto
from tests.network.mqtt_devices import Device, property_of
from tests.network.serving import free_address, serving
from tests.network.waiting import run, until

pytestmark = needs_mosquitto

HEAD = """
[broker]
name = "{name}"
[listen]
native = "127.0.0.1:0"
mqtt = "127.0.0.1:{mqtt}"
http = ""
[journal]
folder = "{name}"
"""
BRIDGE = """
[[bridge]]
name = "plant"
address = "127.0.0.1:{port}"
retry_s_max = 0.1
"""
BOTH = BRIDGE + '[[bridge.topics]]\npattern = "#"\n'


def configured(folder: Path, text: str, name: str = "b1", mqtt: int = 0, **values: Any) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(HEAD.format(name=name, mqtt=mqtt) + text.format(**values))
    return file


@asynccontextmanager
async def broker(file: Path) -> AsyncIterator[BrokerServer]:
    server = BrokerServer(load(file), make_log("error"))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def devices(*ports: int) -> AsyncIterator[list[Device]]:
    """A client at each of these brokers, which listens to everything."""
    made = [Device(f"device-{place}") for place in range(len(ports))]
    for device, port in zip(made, ports, strict=True):
        await device.connect(port)
        await device.subscribe("#", 2, retainAsPublished=True)
    try:
        yield made
    finally:
        for device in made:
            await device.disconnect()


async def up(server: BrokerServer, name: str = "plant") -> None:
    bridge = server.bridges.bridges[name]
    session = server.node.machine.sessions  # type: ignore[attr-defined]
    wanted = {f"sub/{route.remote_filter}" for route in bridge.incoming}
    await until(lambda: bridge.is_up and wanted <= set(session.session(bridge.client).notes), "the bridge is up")


def counted(server: BrokerServer, direction: str, outcome: str, name: str = "plant") -> int:
    return server.bridges.bridges[name].tally.counts[direction, outcome]


def port_of(server: BrokerServer) -> int:
    return server.listening["mqtt"].port


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_bridge_carries_both_ways_and_keeps_the_qos(tmp_path: Path, qos: int) -> None:
    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other, broker(configured(tmp_path, BOTH, port=other.port)) as server:
            await up(server)
            async with devices(port_of(server), other.port) as (here, there):
                await here.publish("from/here", b"1", qos, UserProperty=[("unit", "m")])
                came = await there.next()
                assert (came.topic, came.payload, came.qos) == ("from/here", b"1", qos)
                assert ("unit", "m") in property_of(came, "UserProperty")
                await there.publish("from/there", b"2", qos)
                topics = {}
                for _ in range(2):
                    came = await here.next()
                    topics[came.topic] = (came.payload, came.qos)
                assert topics == {"from/here": (b"1", qos), "from/there": (b"2", qos)}
                assert (await there.next()).topic == "from/there"
                assert here.came.empty()
                assert there.came.empty()

    run(scene)


@pytest.mark.parametrize("level", ["5", "3.1.1"])
def test_topics_are_renamed_and_filtered_on_both_ways(tmp_path: Path, level: str) -> None:
    topics = """
    level = "{level}"
    [[bridge.topics]]
    pattern = "+/speed"
    direction = "out"
    local_prefix = "fleet/"
    remote_prefix = "site7/vehicles/"
    where = "kmh > 50"
    [[bridge.topics]]
    pattern = "orders/#"
    direction = "in"
    remote_prefix = "site7/"
    where = "urgent = true"
    qos = 1
    """

    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other:
            file = configured(tmp_path, BRIDGE + topics, port=other.port, level=level)
            async with broker(file) as server:
                await up(server)
                async with devices(port_of(server), other.port) as (here, there):
                    for topic, kmh in (("fleet/a/speed", 40), ("fleet/b/speed", 60), ("fleet/b/height", 70)):
                        await here.publish(topic, b'{"kmh": %d}' % kmh, 2)
                    came = await there.next()
                    assert (came.topic, came.payload, came.qos) == ("site7/vehicles/b/speed", b'{"kmh": 60}', 2)
                    for number, urgent in enumerate((b"false", b"true")):
                        await there.publish(f"site7/orders/{number}", b'{"urgent": %s}' % urgent, 2)
                    await there.publish("site8/orders/1", b'{"urgent": true}', 2)
                    ours = [(await here.next()).topic for _ in range(4)]
                    assert sorted(ours) == ["fleet/a/speed", "fleet/b/height", "fleet/b/speed", "orders/1"]
                    await until(lambda: counted(server, "in", "filtered") == 1)
                    assert here.came.empty()

    run(scene)


def test_retained_messages_cross_once_and_are_cleared_on_both_sides(tmp_path: Path) -> None:
    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other, devices(other.port) as (there,):
            await there.publish("kept/there", b"old", 1, retain=True)
            file = configured(tmp_path, BOTH, port=other.port)
            async with broker(file) as server:
                await up(server)
                await until(lambda: counted(server, "in", "carried") == 1)
                async with devices(port_of(server)) as (here,):
                    came = await here.next()
                    assert (came.topic, came.payload, came.retain) == ("kept/there", b"old", True)
                    await here.publish("kept/here", b"new", 1, retain=True)
                    assert [(await there.next()).topic for _ in range(2)] == ["kept/there", "kept/here"]
            async with broker(file) as server:  # a restart brings no retained message twice
                await up(server)
                async with devices(port_of(server), other.port) as (here, later):
                    assert {(await here.next()).topic for _ in range(2)} == {"kept/there", "kept/here"}
                    assert {(await later.next()).topic for _ in range(2)} == {"kept/there", "kept/here"}
                    await here.publish("kept/there", b"", 1, retain=True)
                    assert (await later.next()).payload == b""
                    await later.publish("kept/here", b"", 1, retain=True)
                    assert [bytes((await here.next()).payload) for _ in range(2)] == [b"", b""]
                    assert counted(server, "in", "carried") == 1
                async with devices(port_of(server), other.port) as (here, later):
                    await here.publish("end", b"", 1)
                    assert (await here.next()).topic == (await later.next()).topic == "end"

    run(scene)


def test_a_ring_of_two_bridges_neither_doubles_nor_loops(tmp_path: Path) -> None:
    """b1 and b2 are one network: b1 takes everything out to Mosquitto, and b2 brings everything in."""
    ring = BRIDGE + 'network = "ours"\n[[bridge.topics]]\npattern = "#"\n'

    async def scene() -> None:
        native = free_address()
        async with mosquitto(tmp_path / "m") as other:
            first = configured(tmp_path, ring + 'direction = "out"\n[neighbours]\nb2 = ""\n', "b1", port=other.port)
            first.write_text(first.read_text().replace('native = "127.0.0.1:0"', f'native = "{native}"'))
            inwards = f'direction = "in"\n[neighbours]\nb1 = "{native}"\n'
            second = configured(tmp_path, ring + inwards, "b2", port=other.port)
            async with broker(first) as one, broker(second) as two:
                await up(one)
                await up(two)
                async with devices(port_of(one), port_of(two), other.port) as clients:
                    routes = one.node.machine.routing  # type: ignore[attr-defined]
                    await until(lambda: len(routes.out_subs) or len(routes.in_subs), "subscriptions have arrived")
                    for number, device in enumerate(clients):
                        await device.publish(f"from/{number}", b"", 2)
                        for each in clients:
                            assert (await each.next()).topic == f"from/{number}"
                    await until(lambda: counted(two, "in", "looped") == 2, "what came from here is not taken in")
                    await until(lambda: counted(one, "out", "looped") == 1, "what came from there is not taken out")
                    assert all(device.came.empty() for device in clients)

    run(scene)


def test_a_ring_of_networks_carries_each_message_once(tmp_path: Path) -> None:
    """Three networks in a ring: b1, b2 and Mosquitto; b1 and b2 are bridged by MQTT, too."""

    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other, broker(configured(tmp_path, BOTH, "b1", port=other.port)) as one:
            further = BOTH.replace("plant", "peer").replace("{port}", "{peer}") + 'direction = "out"\n'
            further = further.replace("retry_s_max", 'remote = "b1"\nretry_s_max')
            text = BRIDGE + '[[bridge.topics]]\npattern = "#"\ndirection = "in"\n' + further
            file = configured(tmp_path, text, "b2", port=other.port, peer=port_of(one))
            async with broker(file) as two:
                await up(one)
                await up(two)
                await up(two, "peer")
                async with devices(port_of(one), port_of(two), other.port) as (first, second, third):
                    await first.publish("x", b"", 2)  # b1 → Mosquitto → b2, and not from b2 to b1
                    assert [(await each.next()).topic for each in (first, second, third)] == ["x"] * 3
                    await until(lambda: counted(two, "out", "looped", "peer") == 1)
                    assert first.came.empty()

    run(scene)


def test_what_is_published_while_mosquitto_is_away_waits_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other:
            listener = Device("listener", clean=False, expiry_s=1_000)
            await listener.connect(other.port)
            await listener.subscribe("#", 2)
            await listener.disconnect()
            await other.stop()
            text = BRIDGE + 'queue_events_max = 50\n[[bridge.topics]]\npattern = "#"\n'
            file = configured(tmp_path, text, port=other.port)
            async with broker(file) as server:
                bridge = server.bridges.bridges["plant"]
                sessions = server.node.machine.sessions  # type: ignore[attr-defined]
                await until(lambda: (found := sessions.session(bridge.client)) is not None and found.subscriptions)
                async with devices(port_of(server)) as (here,):
                    for number in range(60):
                        await here.publish("x", b"%d" % number, 1)
                await until(lambda: bridge.waiting == 50)
            async with broker(file) as server:  # the queue is in the journal
                await other.start()
                await listener.connect(other.port)
                numbers = [int(each) for each in await listener.payloads(50)]
                assert numbers == list(range(10, 60))
                assert server.bridges.bridges["plant"].purged == 10
                await listener.disconnect()

    run(scene)


def a_device(name: str) -> Device:
    made = Device(name, clean=False, expiry_s=1_000)
    made.paho.reconnect_delay_set(0.02, 0.1)  # type: ignore[arg-type]
    return made


async def heard(listener: Device, end: bytes) -> list[int]:
    came = []
    while (message := await listener.next()).payload != end:
        came.append(int(message.payload))
    return came


@pytest.mark.parametrize("seed", [1, 2])
def test_qos_2_is_exactly_once_both_ways_when_both_sides_are_killed_and_restarted(tmp_path: Path, seed: int) -> None:
    topics = (
        BRIDGE
        + """
    [[bridge.topics]]
    pattern = "out/#"
    direction = "out"
    [[bridge.topics]]
    pattern = "in/#"
    direction = "in"
    """
    )
    count, rng = 40, Random(seed)

    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other:
            file = configured(tmp_path, topics, mqtt=free_address().port, port=other.port)
            port = load(file).address("mqtt").port  # type: ignore[union-attr]
            here, there = [a_device(f"here-{role}") for role in "ab"], [a_device(f"there-{role}") for role in "ab"]
            answers: list[asyncio.Task[Any]] = []
            sent = 0

            def publish() -> None:
                nonlocal sent
                for device, topic in ((here[0], "out/x"), (there[0], "in/x")):
                    answers.append(asyncio.create_task(device.publish(topic, b"%d" % sent, 2)))
                sent += 1

            async with AsyncExitStack() as last:
                served = await last.enter_async_context(
                    serving(file.name, "--mqtt", f"127.0.0.1:{port}", folder=tmp_path)
                )
                await served.log("bridge up")
                for device, at in ((here[0], port), (here[1], port), (there[0], other.port), (there[1], other.port)):
                    await device.connect(at)
                    last.push_async_callback(device.disconnect)
                await here[1].subscribe("in/#", 2)
                await there[1].subscribe("out/#", 2)
                for deed in ("kill", "restart", "kill"):
                    falls_after = rng.randrange(count)
                    for number in range(count):
                        publish()
                        if rng.random() < 0.3:
                            await asyncio.wait(answers[-2:])
                        if number == falls_after and deed == "kill":
                            assert await served.stop(signal.SIGKILL) == -signal.SIGKILL
                            served = await last.enter_async_context(serving(file.name, folder=tmp_path))
                        elif number == falls_after:
                            await other.stop()
                            await other.start()
                await asyncio.gather(*answers)
                await here[0].publish("out/x", b"end", 2)
                await there[0].publish("in/x", b"end", 2)
                assert sorted(await heard(there[1], b"end")) == list(range(sent))
                assert sorted(await heard(here[1], b"end")) == list(range(sent))

    run(scene)


def test_a_bridge_whose_configuration_is_reloaded_changes_and_ends_without_a_restart(tmp_path: Path) -> None:
    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other:
            text = BRIDGE + '[[bridge.topics]]\npattern = "{pattern}"\n'
            file = configured(tmp_path, text, port=other.port, pattern="a/#")
            async with broker(file) as server, devices(other.port) as (there,):
                await up(server)
                changed = await reload(server, load(configured(tmp_path, text, port=other.port, pattern="b/#")))
                assert changed.in_force == ("bridge",)
                await up(server)
                async with devices(port_of(server)) as (here,):
                    for topic in ("a/1", "b/1"):
                        await there.publish(topic, b"", 2)
                    assert (await here.next()).topic == "b/1"
                    for topic in ("a/2", "b/2"):
                        await here.publish(topic, b"", 2)
                    assert [(await there.next()).topic for _ in range(3)] == ["a/1", "b/1", "b/2"]
                await reload(server, load(configured(tmp_path, "")))
                assert server.bridges.bridges == {}
                sessions = server.node.machine.sessions  # type: ignore[attr-defined]
                await until(lambda: not [each for each in sessions if each.client.startswith("bridge/")])

    run(scene)


def test_a_bridge_that_is_refused_says_why_and_tries_again(tmp_path: Path) -> None:
    guarded = "user {user}\nlistener {port} 127.0.0.1\npassword_file {folder}/users\nlog_dest stderr\n"

    async def scene() -> None:
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "users").write_text("")
        (tmp_path / "secret").write_text("wrong\n")
        async with mosquitto(tmp_path / "m", guarded) as other:
            text = BOTH.replace("retry_s_max", 'user = "me"\npassword = "secret"\nretry_s_max')
            async with serving(configured(tmp_path, text, port=other.port).name, folder=tmp_path) as served:
                line = await served.log("bridge down")
                assert line["bridge"] == "plant"
                assert "not authorized" in line["reason"]

    run(scene)


def test_the_configuration_of_the_guide_carries_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "bridges.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```toml\n(\[broker\].*?)^```$", page, re.MULTILINE | re.DOTALL)

    async def scene() -> None:
        async with mosquitto(tmp_path / "m") as other:
            file = tmp_path / "broker.toml"
            nowhere = '[listen]\nnative = "127.0.0.1:0"\nmqtt = "127.0.0.1:0"\nhttp = ""\n'
            file.write_text(nowhere + '[journal]\nfolder = "b1"\n' + shown.replace("1884", str(other.port)))
            async with broker(file) as server, devices(port_of(server), other.port) as (here, there):
                await up(server)
                await here.publish("fleet/a/speed", b'{"kmh": 60}', 2)
                assert (await there.next()).topic == "site7/vehicles/a/speed"
                await there.publish("site7/orders/1", b"", 2)
                assert [(await here.next()).topic for _ in range(2)] == ["fleet/a/speed", "orders/1"]

    run(scene)
