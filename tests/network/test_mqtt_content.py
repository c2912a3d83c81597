"""What MQTT clients get from Godwit beyond the standard: content filters, context, and native clients beside them."""

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.runtime.connecting import connect
from tests.network.mqtt_devices import Device, one_broker, properties, property_of
from tests.network.waiting import run


@pytest.mark.parametrize("by", ["property", "question mark"])
def test_content_filters_see_json_fields_user_properties_and_the_sender(by):
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob", UserProperty=[("$ctx", '{"battery": 80}')])
            await ann.connect(station.port)
            await bob.connect(station.port)
            where = "cost < 3 AND kind = 'parking' AND sender.battery > 20"
            if by == "property":
                said = properties("SUBSCRIBE", UserProperty=[("$where", where)])
                await ann.subscribe("city/+", 1, said)
            else:
                await ann.subscribe(f"city/+/?{where}", 1)
            await ann.subscribe("end", 1)
            kind = [("kind", "parking")]
            await bob.publish("city/a", b'{"cost": 5}', 1, UserProperty=kind)
            await bob.publish("city/b", b'{"cost": 2}', 1)
            await bob.publish("city/c", b'{"cost": 1}', 1, UserProperty=kind)
            await bob.publish("$ctx/battery", b"10", 1)
            await bob.publish("city/d", b'{"cost": 1}', 1, UserProperty=kind)
            await bob.publish("end", b"", 1)
            assert [(await ann.next()).topic for _ in range(2)] == ["city/c", "end"]
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_events_cross_between_native_and_mqtt_clients_both_ways():
    async def scene() -> None:
        async with one_broker() as station, connect(station.native, name="native") as native:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("city/#", 1)
            speeds = await native.subscribe("topic = 'car/7' AND speed > 50")
            native.publish({"topic": "city/zurich", "temperature": 21.5, "tags": ["warm", "dry"]})
            message = await ann.next()
            assert (message.topic, message.qos) == ("city/zurich", 1)
            assert message.payload == b'{"temperature":21.5,"tags":["warm","dry"]}'
            assert property_of(message, "ContentType") == "application/json"
            await ann.publish("car/7", b'{"speed": 40}', 1)
            await ann.publish(
                "car/7", b'{"speed": 60, "at": {"lon": 8.5, "lat": 47.4}}', 1, UserProperty=[("driver", "eva")]
            )
            event = await speeds.next()
            assert event.publisher == "ann"
            assert event.payload == b'{"speed": 60, "at": {"lon": 8.5, "lat": 47.4}}'
            assert (event.attributes["speed"], event.attributes["driver"]) == (60, "eva")
            await ann.disconnect()

    run(scene)


def test_an_event_is_for_those_whose_context_it_is_to():
    async def scene() -> None:
        async with one_broker() as station:
            near = Device("near", UserProperty=[("$ctx.zone", "north"), ("$ctx.role", "driver")])
            far = Device("far", UserProperty=[("$ctx.zone", "south")])
            bob = Device("bob")
            for device in (near, far):
                await device.connect(station.port)
                await device.subscribe("news", 1)
            await bob.connect(station.port)
            await bob.publish("news", b"closed", 1, UserProperty=[("$to", "zone = 'north'")])
            await bob.publish("news", b"all", 1)
            assert await near.payloads(2) == [b"closed", b"all"]
            assert await far.payloads(1) == [b"all"]
            await far.publish("$ctx", b'{"zone": "north"}', 1)
            await bob.publish("news", b"again", 1, UserProperty=[("$to", "zone = 'north'")])
            assert await far.payloads(1) == [b"again"]
            for device in (near, far, bob):
                await device.disconnect()

    run(scene)


def test_the_context_and_filters_on_it_are_there_after_a_resume(tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path, config=BrokerConfig()) as station:
            ann = Device("ann", clean=False, expiry_s=100, UserProperty=[("$ctx", '{"zone": "north"}')])
            bob = Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("news", 1)
            await bob.subscribe("from?sender.zone = 'north'", 1)
            await ann.disconnect()
            await bob.publish("news", b"north", 1, UserProperty=[("$to", "zone = 'north'")])
            await bob.publish("news", b"south", 1, UserProperty=[("$to", "zone = 'south'")])
            await bob.publish("news", b"end", 1)
            again = Device("ann", clean=False, expiry_s=100)
            await again.connect(station.port)
            assert await again.payloads(2) == [b"north", b"end"]
            await again.publish("from", b"", 1)
            assert (await bob.next()).topic == "from"
            await again.disconnect()
            await bob.disconnect()

    run(scene)
