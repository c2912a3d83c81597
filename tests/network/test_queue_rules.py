"""What may leave a queue, how long a subscription stands, receipts, and modes of publishers: by HTTP, WebSocket, MQTT
and the command line.
"""

import json
from time import time
from typing import Any

import pytest

from godwit.broker.messages import Accepted, Advertise, Attach, Attached, Delivery, QueueRules, Request, Subscribe
from godwit.filters.language import parse
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.runtime.connecting import connect
from godwit.runtime.wire import Intro
from tests.network.cli_broker import broker_apart, godwit, lines
from tests.network.http_broker import broker, listening
from tests.network.mqtt_devices import Device, one_broker, properties
from tests.network.test_http_sockets import at, heard, say
from tests.network.waiting import run, until

HOUR_S = 3_600


def session_of(node: Any, client: str) -> Any:
    return node.machine.sessions.session(client)


def test_a_stream_says_what_may_leave_its_queue_and_gets_a_receipt() -> None:
    async def scene() -> None:
        wanted = {"client": "map", "filter": "n >= 0", "queue.newest_per": "vehicle", "expires_in": str(HOUR_S)}
        async with broker() as (running, client), connect(running.native, name="van") as van:
            async with listening(client, **wanted):
                expires = session_of(running.node, "map").subscriptions["events"].expires
                assert time() < expires <= time() + HOUR_S
            await until(lambda: session_of(running.node, "map").connection is None, "the stream has ended")
            for n in range(3):
                await van.publish({"n": n, "vehicle": 7})
            async with listening(client, **wanted, receipt="") as source:
                name, receipt = await source.next()
                assert (name, receipt["replayed"], receipt["purged"]) == ("receipt", 1, {"newest_per": 2})
                assert await source.take("n", 1) == [2]
            for wrong, text in (
                ({"queue.count": "1"}, "queue.count is not a rule of a queue"),
                ({"queue.count_max": "x"}, "a whole number, 0 or more"),
                ({"expires_in": "-1"}, "expires_in is '-1'"),
            ):
                answer = await client.get("/events", params=wrong)
                assert answer.status_code == 400
                assert text in answer.text

    run(scene)


def test_a_websocket_says_it_in_its_messages() -> None:
    async def scene() -> None:
        until_s = time() + HOUR_S
        wanted = Subscribe(("map", "s"), parse("n >= 0"), queue=QueueRules(newest_per="vehicle"), expires=until_s)
        async with broker() as (running, _), connect(running.native, name="van") as van:
            async with at(running, "/ws") as socket:
                await say(socket, Intro(), Attach("map"), Request(1, wanted))
                attached = await heard(socket)
                assert isinstance(attached, Attached)
                assert await heard(socket) == Accepted(1)
                assert session_of(running.node, "map").subscriptions["s"].expires == until_s
            await until(lambda: session_of(running.node, "map").connection is None, "it is away")
            for n in range(3):
                await van.publish({"n": n, "vehicle": 7})
            async with at(running, "/ws") as socket:
                await say(socket, Intro(), Attach("map", session=attached.session, attempt=1))
                back = await heard(socket)
                assert isinstance(back, Attached)
                assert (back.receipt.replayed, back.receipt.purged) == (1, {"newest_per": 2})
                delivery = await heard(socket)
                assert isinstance(delivery, Delivery)
                assert delivery.event.attributes["n"] == 2

    run(scene)


def test_a_publisher_names_its_mode_over_a_websocket() -> None:
    """Its broker goes on advertising for it after it has gone."""

    async def scene() -> None:
        async with broker() as (running, _):
            held = running.machine.component(PublisherPresence).holdings
            async with at(running, "/ws") as socket:
                await say(socket, Intro(), Attach("van", mode="delayed"))
                assert isinstance(await heard(socket), Attached)
                await say(socket, Request(1, Advertise(("van", "a"), parse("n >= 0"))))
                assert await heard(socket) == Accepted(1)
            await until(lambda: "van" in held and held["van"].kind == "delayed", "its broker advertises for it")

    run(scene)


def test_an_mqtt_client_says_it_by_user_properties() -> None:
    async def scene() -> None:
        async with one_broker() as station, connect(station.native, name="van") as van:
            said = [("$queue.newest_per", "vehicle"), ("$queue.count_max", "5"), ("$expires_in", str(HOUR_S))]
            car = Device("map", clean=False, expiry_s=HOUR_S, UserProperty=[("$receipt", "yes")])
            await car.connect(station.port)
            assert not hasattr(car.connack, "UserProperty")
            code = await car.subscribe("position/+", 1, properties("SUBSCRIBE", UserProperty=said))
            assert code.value == 1
            [wanted] = session_of(station.node, "map").subscriptions.values()
            assert (wanted.queue.newest_per, wanted.queue.count_max) == ("vehicle", 5)
            assert time() < wanted.expires <= time() + HOUR_S
            await car.disconnect()
            await until(lambda: session_of(station.node, "map").connection is None, "it is away")
            for n in range(3):
                await van.publish({"topic": "position/7", "vehicle": 7, "n": n})
            await car.connect(station.port)
            assert json.loads((await car.next()).payload)["n"] == 2
            told = dict(car.connack.UserProperty)
            assert json.loads(told["$receipt"])["purged"] == {"newest_per": 2}
            for wrong in (("$queue.count", "1"), ("$queue.age_s_max", "old"), ("$expires_in", "0")):
                code = await car.subscribe("other", 1, properties("SUBSCRIBE", UserProperty=[wrong]))
                assert code.value == 0x8F
            await car.disconnect()

    run(scene)


def test_who_does_not_ask_for_a_receipt_gets_none() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            car = Device("map", clean=False, expiry_s=HOUR_S)
            for is_present in (False, True):
                await car.connect(station.port)
                assert car.is_present is is_present
                assert not hasattr(car.connack, "UserProperty")
                await car.disconnect()

    run(scene)


def test_the_command_line_says_it_by_options() -> None:
    with broker_apart() as (apart, running):
        at = ["--broker", str(running.address)]
        words = ["sub", "n >= 0", "--name", "map", "--queue", "newest_per=vehicle", "--expires", str(HOUR_S), *at]
        assert godwit(*words, "-W", "0").exit_code == 0
        apart.until(lambda: session_of(running.node, "map").connection is None)
        [wanted] = session_of(running.node, "map").subscriptions.values()
        assert wanted.expires > time()
        for n in range(3):
            assert godwit("pub", f"n={n}", "vehicle=7", "--mode", "delayed", "--name", "van", *at).exit_code == 0
        result = godwit(*words, "-C", "1", "--receipt")
        assert [each["attributes"]["n"] for each in lines(result.stdout)] == [2]
        assert json.loads(result.stderr)["purged"] == {"newest_per": 2}


@pytest.mark.parametrize("mode", ["junction", "presubscribe", "carry"])
def test_a_subscriber_names_its_mode_on_the_command_line(mode: str) -> None:
    with broker_apart() as (apart, running):
        at = ["--broker", str(running.address)]
        assert godwit("sub", "n >= 0", "--name", "map", "--mode", mode, *at, "-W", "0").exit_code == 0
        apart.until(lambda: session_of(running.node, "map").connection is None)
        assert session_of(running.node, "map").mode == mode


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["sub", "TRUE", "--queue", "count=1"], "--queue count is not a rule of a queue"),
        (["sub", "TRUE", "--expires", "never"], "--expires is 'never'"),
        (["pub", "n=1", "--mode", "ask"], "--mode ask: allowed are relocate"),
        (["sub", "TRUE", "--mode", "delayed"], "--mode delayed: allowed are relocate"),
        (["sub", "TRUE", "--mode", "ask", "--replicas"], "--mode cannot be used with --replicas"),
    ],
)
def test_what_is_no_rule_time_or_mode_is_an_error(words: list[str], text: str) -> None:
    result = godwit(*words)
    assert result.exit_code != 0
    assert text in result.output
