"""MQTT clients of other makers at one broker: what every MQTT user expects."""

import pytest

from tests.network.mqtt_devices import Device, one_broker, run


@pytest.mark.parametrize("level", [4, 5])
def test_qos_0_goes_from_one_to_another(level):
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann", level), Device("bob", level)
            assert (await ann.connect(station.port)).value == 0
            await bob.connect(station.port)
            assert (await ann.subscribe("city/+/speed")).value == 0
            await bob.publish("city/car-17/speed", b"42")
            message = await ann.next()
            assert (message.topic, message.payload, message.qos, message.retain) == ("city/car-17/speed", b"42", 0, False)
            await ann.disconnect()
            await bob.disconnect()

    run(scene)
