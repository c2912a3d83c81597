"""Other MQTT clients than paho in a thread: aiomqtt, gmqtt, the tools of Mosquitto; and MQTT over TLS."""

import asyncio
import shutil
import ssl
from typing import Any

import aiomqtt
import pytest
import trustme
from gmqtt import Client as Gmqtt  # type: ignore[import-untyped]

from tests.network.mqtt_devices import Device, one_broker
from tests.network.waiting import run


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_aiomqtt(version):
    async def scene() -> None:
        async with one_broker() as station:
            there = {"hostname": "127.0.0.1", "port": station.port, "protocol": version}
            async with aiomqtt.Client(**there) as ann, aiomqtt.Client(**there) as bob:
                await ann.subscribe("city/#", qos=2)
                for qos in (0, 1, 2):
                    await bob.publish("city/zurich", f"qos {qos}", qos=qos)
                    message = await anext(ann.messages)
                    assert (message.payload, message.qos) == (f"qos {qos}".encode(), qos)

    run(scene)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_gmqtt(qos):
    async def scene() -> None:
        async with one_broker() as station:
            came: asyncio.Queue[tuple[str, bytes, Any]] = asyncio.Queue()
            stands = asyncio.Event()
            ann, bob = Gmqtt("ann", session_expiry_interval=100), Gmqtt("bob")
            ann.on_message = lambda client, topic, payload, qos, properties: came.put_nowait(
                (topic, payload, properties)
            )
            ann.on_subscribe = lambda client, mid, qos, properties: stands.set()
            await ann.connect("127.0.0.1", station.port, version=5)
            await bob.connect("127.0.0.1", station.port, version=5)
            ann.subscribe("t/+", qos=qos, user_property=[("$where", "n > 1")])
            await stands.wait()
            for number in range(4):
                bob.publish("t/x", {"n": number}, qos=qos, user_property=("k", "v"), content_type="application/json")
            assert [(await came.get())[1] for _ in range(2)] == [b'{"n": 2}', b'{"n": 3}']
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


async def printed_by(*words: str) -> bytes:
    """What a program prints until it ends, and ends well."""
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    return said


@pytest.mark.skipif(
    shutil.which("mosquitto_sub") is None or shutil.which("mosquitto_pub") is None,
    reason="mosquitto_pub and mosquitto_sub are not installed (Debian: mosquitto-clients)",
)
@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])
def test_the_tools_of_mosquitto(version):
    async def scene() -> None:
        async with one_broker() as station:
            common = ["-h", "127.0.0.1", "-p", str(station.port), "-V", version, "-q", "2"]
            pub = [*common, "-t", "room/1", "-m", "warm", "-r"]
            assert await printed_by("mosquitto_pub", *pub) == b""
            said = await printed_by("mosquitto_sub", *common, "-t", "room/+", "-C", "1", "-v")
            assert said == b"room/1 warm\n"

    run(scene)


def test_tls():
    async def scene() -> None:
        authority = trustme.CA()
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
        client = ssl.create_default_context()
        authority.configure_trust(client)
        async with one_broker() as station:
            taken = await station.gateway.listen("127.0.0.1", 0, server)
            ann = Device("ann")
            ann.paho.tls_set_context(client)
            assert (await ann.connect(taken.port)).value == 0
            await ann.subscribe("t", 1)
            await ann.publish("t", bytes(100_000), 1)
            assert await ann.payloads(1) == [bytes(100_000)]
            await ann.disconnect()

    run(scene)
