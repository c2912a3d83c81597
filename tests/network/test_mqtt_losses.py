"""An MQTT client hears that a broker has lost its last inputs: by its next CONNACK, or at once by a topic."""

from typing import Any

import pytest

from godwit.broker.effects import TailLost
from godwit.mqtt import MqttSettings
from godwit.mqtt.loss_notice import LOST_SINCE
from godwit.mqtt.session_notes import LOST
from tests.network.mqtt_devices import Device, start
from tests.network.waiting import run, until


def told(device: Device) -> list[Any]:
    """What the last CONNACK said of losses."""
    pairs = getattr(device.connack, "UserProperty", [])
    return [value for name, value in pairs if name == LOST_SINCE]


@pytest.mark.parametrize("level", [4, 5])
def test_who_is_connected_to_another_broker_hears_of_it_once_by_its_next_connack(level: int) -> None:
    async def scene() -> None:
        b2 = await start("b2", {"b1": None})
        b1 = await start("b1", {"b2": b2.native})
        ann = Device("ann", level, clean=False, expiry_s=1_000)
        await until(lambda: all(each.node.machine.routing.is_whole() for each in (b1, b2)))  # type: ignore[attr-defined]
        await ann.connect(b2.port)
        b1.node.tell(TailLost(2**50, 5.0))
        sessions = b2.node.machine.sessions  # type: ignore[attr-defined]
        await until(lambda: LOST in sessions.session("ann").notes, "the loss is noted with the session")
        assert not ann.gone.is_set()
        await ann.disconnect()
        await ann.connect(b2.port)
        assert ann.is_present
        assert told(ann) == (["5.000"] if level == 5 else [])
        await ann.disconnect()
        await ann.connect(b2.port)
        assert told(ann) == []
        await ann.disconnect()
        for station in (b1, b2):
            await station.stop()
            assert station.faults == []

    run(scene)


def test_who_is_connected_to_that_broker_hears_of_it_when_it_comes_back() -> None:
    async def scene() -> None:
        broker = await start("b1")
        ann = Device("ann", clean=False, expiry_s=1_000)
        await ann.connect(broker.port)
        ann.paho.on_disconnect = None
        broker.node.tell(TailLost(2**50, 5.0))
        await broker.node.quiet()
        await ann.vanish()
        back = Device("ann", clean=False, expiry_s=1_000)
        await back.connect(broker.port)
        assert (back.is_present, told(back)) == (True, ["5.000"])
        await back.disconnect()
        await broker.stop()

    run(scene)


@pytest.mark.parametrize("level", [4, 5])
def test_who_subscribes_to_losses_hears_of_them_at_once(level: int) -> None:
    async def scene() -> None:
        settings = MqttSettings(sys_interval_s=3_600)
        b2 = await start("b2", {"b1": None}, settings=settings)
        b1 = await start("b1", {"b2": b2.native}, settings=settings)
        await until(lambda: all(each.node.machine.routing.is_whole() for each in (b1, b2)))  # type: ignore[attr-defined]
        ann = Device("ann", level)
        await ann.connect(b2.port)
        await ann.subscribe("$SYS/broker/losses/+", 0)
        before = {(message.topic, message.payload) for message in [await ann.next(), await ann.next()]}
        assert before == {("$SYS/broker/losses/count", b"0"), ("$SYS/broker/losses/since", b"")}
        b1.node.tell(TailLost(2**50, 5.0))
        after = {(message.topic, message.payload) for message in [await ann.next(), await ann.next()]}
        assert after == {("$SYS/broker/losses/count", b"1"), ("$SYS/broker/losses/since", b"5.000")}
        await ann.disconnect()
        for station in (b1, b2):
            await station.stop()

    run(scene)
