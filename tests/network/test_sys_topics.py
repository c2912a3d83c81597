"""`$SYS/broker/…` over MQTT, as users of Mosquitto expect it."""

from typing import Any

import pytest

from godwit.mqtt import MqttSettings
from godwit.mqtt.reason_codes import ReasonCode
from godwit.runtime.sys_topics import TOPICS
from tests.network.mqtt_devices import Device, keep_properties, one_broker, start
from tests.network.waiting import run, until


def test_a_subscriber_gets_all_values_at_once() -> None:
    async def scene() -> None:
        async with one_broker(settings=MqttSettings(sys_interval_s=3_600)) as station:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("t", 0)
            await ann.publish("t", b"x", 1)
            assert (await ann.next()).topic == "t"
            assert await ann.subscribe("$SYS/#", 0) == 0
            values = {}
            for _ in TOPICS:
                message = await ann.next()
                values[message.topic.removeprefix("$SYS/broker/")] = message.payload.decode()
            await ann.disconnect()
        assert set(values) == set(TOPICS)
        assert values["version"].startswith("godwit version ")
        assert values["uptime"].endswith(" seconds")
        assert (values["clients/connected"], values["clients/total"], values["clients/maximum"]) == ("1", "1", "1")
        assert (values["messages/received"], values["messages/sent"]) == ("1", "1")
        assert values["subscriptions/count"] == "2"
        assert int(values["bytes/received"]) > 0
        assert values["load/messages/received/1min"] == "0.00"

    run(scene)


def test_a_wildcard_at_the_first_level_does_not_match_them_and_nothing_is_computed() -> None:
    async def scene() -> None:
        async with one_broker(settings=MqttSettings(sys_interval_s=3_600)) as station:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("#", 0)
            await ann.subscribe("+/broker/uptime", 0)
            assert station.gateway.sys.wanted() == []
            await ann.subscribe("$SYS/broker/uptime", 0)
            assert station.gateway.sys.wanted() == ["uptime"]
            assert (await ann.next()).topic == "$SYS/broker/uptime"
            await ann.unsubscribe("$SYS/broker/uptime")
            await until(lambda: station.gateway.sys.wanted() == [])
            await ann.disconnect()

    run(scene)


def test_values_come_again_and_again_and_of_this_broker_alone() -> None:
    async def scene() -> None:
        settings = MqttSettings(sys_interval_s=1)
        first = await start("b1", {"b2": None}, settings=settings)
        second = await start("b2", {"b1": first.native}, settings=settings)
        ann, bob = Device("ann"), Device("bob")
        await ann.connect(first.port)
        await bob.connect(second.port)
        await ann.subscribe("$SYS/broker/clients/connected", 0)
        await bob.subscribe("$SYS/broker/version", 0)
        assert [(await ann.next()).topic for _ in range(2)] == ["$SYS/broker/clients/connected"] * 2
        assert [(await bob.next()).topic for _ in range(2)] == ["$SYS/broker/version"] * 2
        await ann.disconnect()
        await bob.disconnect()
        await second.stop()
        await first.stop()

    run(scene)


def test_where_they_are_off_a_subscription_is_refused_with_the_reason() -> None:
    async def scene() -> None:
        async with one_broker(settings=MqttSettings(sys_interval_s=0)) as station:
            ann, told = Device("ann"), list[Any]()
            await ann.connect(station.port)
            keep_properties(ann, "on_subscribe", told)
            assert await ann.subscribe("$SYS/#", 0) == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
            assert "$SYS topics are off here" in str(told[0])
            await ann.disconnect()

    run(scene)


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$SYS/x"])
def test_nobody_publishes_there(topic: str) -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            assert await ann.publish(topic, b"forged", 1) == ReasonCode.TOPIC_NAME_INVALID
            await ann.disconnect()

    run(scene)
