"""MQTT clients while a broker's disk fails, and at a broker where every publisher must advertise."""

from pathlib import Path

import pytest
from msgspec import structs

from godwit.runtime.mqtt_connection import UNANSWERED_MAX
from tests.network import mqtt_devices
from tests.network.full_disk import FullDisk
from tests.network.mqtt_devices import CONFIG, Device, one_broker, start
from tests.network.waiting import run, until

EVENTS = 20
MORE = b"more"


def test_while_the_disk_fails_clients_are_not_read_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("godwit.runtime.node.RETRY_S", 0.01)
    monkeypatch.setattr(mqtt_devices, "Journal", FullDisk)

    async def scene() -> None:
        station = await start(folder=tmp_path)
        journal = station.node.journal
        assert isinstance(journal, FullDisk)
        ann, bob = Device("ann"), Device("bob")
        await ann.connect(station.port)
        await bob.connect(station.port)
        await ann.subscribe("t", 2)
        journal.is_full = True
        for n in range(EVENTS):
            bob.paho.publish("t", b"%d" % n, 2)
        mine = station.gateway.clients["bob"]
        await until(lambda: station.node.trouble)
        bob.paho.publish("t", MORE, 0)  # something is read, and after that nothing more
        await until(lambda: mine._reading.is_paused)
        assert mine._wishes is not None
        assert mine._wishes.requests.unanswered < UNANSWERED_MAX // 2  # it is the disk that holds it back
        journal.is_full = False
        came: list[bytes] = []
        while len(came) < EVENTS:
            [payload] = await ann.payloads(1)
            came += [payload] if payload != MORE else []
        assert came == [b"%d" % n for n in range(EVENTS)]
        await bob.publish("t", b"last", 1)
        while (await ann.payloads(1)) != [b"last"]:
            pass
        await ann.disconnect()
        await bob.disconnect()
        await station.stop()

    run(scene)


def test_where_publishers_must_advertise_mqtt_clients_publish_all_the_same() -> None:
    async def scene() -> None:
        async with one_broker(config=structs.replace(CONFIG, advertisements="required")) as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("t", 1)
            code = await bob.publish("t", b"1", 1)
            assert not code.is_failure, code
            assert await ann.payloads(1) == [b"1"]
            await ann.disconnect()
            await bob.disconnect()

    run(scene)
