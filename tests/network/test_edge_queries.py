"""Queries of thin clients in other languages: MQTT, HTTP and WebSocket, tested by their border broker's gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.broker.query_notes import queries_of
from godwit.runtime.edge_tests import EdgeLimits
from tests.network import mqtt_devices
from tests.network.http_broker import Running, broker, listening
from tests.network.mortal import nursery
from tests.network.mqtt_devices import Device, Station, keep_properties, one_broker, properties
from tests.network.test_mqtt_killed import MqttMortal
from tests.network.waiting import run, until

CHEAP = "/car[number(speed) > number(limit)]"  # one attribute against another: no filter can say that


def car(speed: int, limit: int = 50) -> bytes:
    return b"<car><speed>%d</speed><limit>%d</limit></car>" % (speed, limit)


def where(text: str, language: str = "xpath") -> Any:
    return properties("SUBSCRIBE", UserProperty=[("$where", text), ("$language", language)])


async def publish(device: Device, payload: bytes, topic: str = "cars") -> Any:
    return await device.publish(topic, payload, 1, ContentType="application/xml")


def queries(station: Any, client: str) -> Any:
    session = station.node.machine.sessions.session(client)
    return None if session is None else queries_of(session.notes)


# ---------------------------------------------------------------- MQTT


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_mqtt_client_gets_what_its_query_wants_in_order_and_the_rest_is_confirmed(qos: int) -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            assert not (await ann.subscribe("cars", qos, where(CHEAP))).is_failure
            speeds = [40, 60, 50, 70, 30, 80, 20]
            for speed in speeds:
                await publish(bob, car(speed))
            assert await ann.payloads(3) == [car(60), car(70), car(80)]
            session = station.node.machine.sessions.session("ann")  # type: ignore[attr-defined]
            await until(lambda: session.queue.confirmed == len(speeds))
            assert station.gateway.tests.counts == {"wanted": 3, "residue": 4}
            assert ann.came.empty()
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


def test_the_query_is_in_the_session_with_its_subscription_and_goes_with_it() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("cars", 1, where(CHEAP))
            assert queries(station, "ann") == {"cars": (("xpath", CHEAP),)}
            await ann.subscribe("cars", 1, where("//speed"))
            assert queries(station, "ann") == {"cars": (("xpath", "//speed"),)}
            await ann.subscribe("cars", 1)
            assert queries(station, "ann") == {}
            await ann.subscribe("cars", 1, where(CHEAP))
            await ann.unsubscribe("cars")
            assert queries(station, "ann") == {}
            await ann.disconnect()

    run(scene)


@pytest.mark.parametrize(
    ("text", "language", "why"),
    [
        ("//[", "xpath", "line 1, column"),
        ("//a", "klingon", "there is no language 'klingon': known are"),
        ("x =", "filter", "line 1, column"),
        ("sounds_like(//a, 'b')", "xpath", "sounds_like"),
        ("a or " * 10_000 + "a", "xpath", "more than 32768 bytes"),
        (" and ".join(f"//a{i} > {i}" for i in range(400)), "xpath", "4096 are allowed"),
    ],
    ids=["syntax", "language", "native", "operator", "10,000 predicates", "too long for the session"],
)
def test_a_query_that_cannot_be_used_is_refused_with_the_reason_and_nothing_stands(
    text: str, language: str, why: str
) -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            told: list[Any] = []
            await ann.connect(station.port)
            keep_properties(ann, "on_subscribe", told)
            assert (await ann.subscribe("cars", 1, where(text, language))).is_failure
            assert why in told[0].ReasonString
            session = station.node.machine.sessions.session("ann")  # type: ignore[attr-defined]
            assert (session.subscriptions, queries(station, "ann")) == ({}, {})
            await ann.disconnect()

    run(scene)


def test_a_refused_replacement_leaves_the_query_before_it_in_force() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("cars", 1, where(CHEAP))
            long = " and ".join(f"//a{i} > {i}" for i in range(400))
            assert (await ann.subscribe("cars", 1, where(long))).is_failure
            assert queries(station, "ann") == {"cars": (("xpath", CHEAP),)}
            for speed in (40, 60):
                await publish(bob, car(speed))
            assert await ann.payloads(1) == [car(60)]
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


def test_the_exact_part_of_our_own_language_is_tested_too_in_the_context_of_the_client() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann", UserProperty=[("$ctx", '{"limit": 50}')]), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            assert not (await ann.subscribe("cars", 1, where("speed > my.limit + weight", "filter"))).is_failure
            for speed in (60, 40, 70):
                await bob.publish("cars", b'{"speed": %d, "weight": 5}' % speed, 1)
            speeds = [b'{"speed": %d, "weight": 5}' % speed for speed in (60, 70, 90)]
            assert await ann.payloads(2) == speeds[:2]  # what is tested after a change is tested in the new context
            await ann.publish("$ctx", b'{"limit": 80}', 1)
            for speed in (70, 90):
                await bob.publish("cars", b'{"speed": %d, "weight": 5}' % speed, 1)
            assert await ann.payloads(1) == speeds[2:]
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


def test_a_shared_subscription_cannot_have_a_query_with_a_test() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            assert (await ann.subscribe("$share/crew/cars", 1, where(CHEAP))).is_failure
            await ann.disconnect()

    run(scene)


@asynccontextmanager
async def two_stations() -> AsyncIterator[tuple[Station, Station]]:
    b2 = await mqtt_devices.start("b2", {"b1": None})
    b1 = await mqtt_devices.start("b1", {"b2": b2.native})
    try:
        yield b1, b2
    finally:
        for station in (b1, b2):
            await station.stop()


def test_the_query_of_a_roaming_client_is_decided_at_the_new_broker() -> None:
    async def scene() -> None:
        async with two_stations() as (b1, b2):
            ann, bob = Device("ann", clean=False, expiry_s=100), Device("bob")
            await ann.connect(b1.port)
            await ann.subscribe("cars", 1, where(CHEAP))
            await bob.connect(b1.port)
            await publish(bob, car(60))
            assert await ann.payloads(1) == [car(60)]
            await ann.disconnect()
            session = b1.node.machine.sessions.session("ann")  # type: ignore[attr-defined]
            await until(lambda: session.connection is None)
            for speed in (40, 70):  # while she is away
                await publish(bob, car(speed))
            again = Device("ann", clean=False, expiry_s=100)
            await again.connect(b2.port)
            assert again.is_present
            for speed in (30, 80):
                await publish(bob, car(speed))
            assert await again.payloads(2) == [car(70), car(80)]
            await until(lambda: queries(b1, "ann") is None)  # b1 keeps the session until b2 has confirmed it
            assert queries(b2, "ann") == {"cars": (("xpath", CHEAP),)}
            assert b2.gateway.tests.counts == {"wanted": 2, "residue": 2}
            for device in (again, bob):
                await device.disconnect()

    run(scene)


def test_the_query_is_decided_after_the_broker_was_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with nursery() as place:
            mortal = MqttMortal(place, tmp_path, "relaxed")
            await mortal.start()
            ann, bob = Device("ann", clean=False, expiry_s=100), Device("bob", clean=False, expiry_s=100)
            await ann.connect(mortal.mqtt)
            await bob.connect(mortal.mqtt)
            await ann.subscribe("cars", 1, where(CHEAP))
            await ann.vanish()
            for speed in (40, 60, 30):
                await publish(bob, car(speed))
            await bob.vanish()
            await mortal.kill()
            await mortal.start()
            ann, bob = Device("ann", clean=False, expiry_s=100), Device("bob")
            await ann.connect(mortal.mqtt)
            assert ann.is_present
            await bob.connect(mortal.mqtt)
            for speed in (50, 70):
                await publish(bob, car(speed))
            assert await ann.payloads(2) == [car(60), car(70)]
            for device in (ann, bob):
                await device.disconnect()
            await mortal.kill()

    asyncio.run(asyncio.wait_for(scene(), 60))


# ---------------------------------------------------------------- suspended


@asynccontextmanager
async def strict_station(**limits: Any) -> AsyncIterator[Station]:
    station = await mqtt_devices.start()
    station.gateway.tests.limits = EdgeLimits(**limits)
    try:
        yield station
    finally:
        await station.stop()


def test_past_its_budget_a_subscription_is_suspended_and_others_go_on() -> None:
    async def scene() -> None:
        async with strict_station(test_ms_per_s=1e-6) as station:
            ann, bob = Device("ann", clean=False, expiry_s=100), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("cars", 1, where(CHEAP))
            await ann.subscribe("news", 1)
            await publish(bob, car(40))
            await ann.gone.wait()
            assert "suspended" in str(ann.gone_because) or ann.gone_because.value == 0x97
            await ann.connect(station.port)
            await publish(bob, car(60))
            await bob.publish("news", b"hello", 1)
            assert await ann.payloads(1) == [b"hello"]
            query = station.gateway.tests.of("ann", "cars")
            assert query is not None
            assert query.failed >= 1  # the first event comes again if its confirmation was not yet safe
            assert query.suspended == query.last_failure
            assert "limits.test_ms_per_s" in query.suspended
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


# ---------------------------------------------------------------- HTTP


def test_a_stream_over_http_gets_what_its_query_wants_and_resumes_behind_it() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            params = {"filter": CHEAP, "language": "xpath", "client": "page"}
            async with listening(client, **params) as source:
                for speed in (40, 60, 30):
                    answer = await client.post("/events", content=car(speed), headers={"content-type": "text/xml"})
                    assert answer.status_code == 202
                assert await source.take("car/speed", 1) == [60]
                last_id = source.last_id
            await until(lambda: not running.is_attached("page"))
            assert queries(running, "page") == {"events": (("xpath", CHEAP),)}
            for speed in (20, 70):
                await client.post("/events", content=car(speed), headers={"content-type": "text/xml"})
            async with listening(client, last_id, **params) as source:
                assert await source.take("car/speed", 1) == [70]

    run(scene)


def test_residues_alone_do_not_fill_the_window_of_a_stream() -> None:
    async def scene() -> None:
        limits = Limits(window=8, queue_events_max=100)
        async with (
            broker(config=BrokerConfig(limits=limits)) as (_, client),
            listening(client, filter=CHEAP, language="xpath") as source,
        ):
            for speed in (60, *[10] * 40, 70):
                await client.post("/events", content=car(speed), headers={"content-type": "text/xml"})
            assert await source.take("car/speed", 2) == [60, 70]

    run(scene)


def test_a_bad_query_over_http_is_answered_by_400() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            for params, why in (
                ({"filter": "//[", "language": "xpath"}, "line 1, column"),
                ({"filter": "//a", "language": "nope"}, "known are"),
                ({"format": "smoke"}, "allowed are godwit, cloudevents"),
            ):
                answer = await client.get("/events", params=params)
                assert (answer.status_code, why in answer.json()["error"]) == (400, True), answer.text

    run(scene)


def test_a_suspended_stream_is_told_and_ends() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http.tests.limits = EdgeLimits(test_ms_per_s=1e-6)
            async with listening(client, filter=CHEAP, language="xpath") as source:
                await client.post("/events", content=car(40), headers={"content-type": "text/xml"})
                name, told = await source.next()
                assert (name, told["ended"]) == ("suspended", True)
                with pytest.raises(EOFError):
                    await source.next()

    run(scene)


# ---------------------------------------------------------------- WebSocket


def at(running: Running) -> connect:
    return connect(f"ws://{running.web}/ws", proxy=None)


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(msgspec.json.encode(message).decode())


async def heard(socket: ClientConnection) -> Any:
    return msgspec.json.decode(await socket.recv())


async def attached(socket: ClientConnection, client: str) -> Any:
    await say(socket, type="Intro")
    await say(socket, type="Attach", client=client)
    return await heard(socket)


def subscribe(number: int, text: Any, language: str | None = "xpath", name: str = "s") -> dict[str, Any]:
    wish = {"type": "Subscribe", "id": ["page", name], "filter": text}
    return {"type": "Request", "number": number, "wish": wish | ({} if language is None else {"language": language})}


def test_a_browser_names_the_language_and_numbers_stay_its_own() -> None:
    async def scene() -> None:
        async with broker() as (running, client), at(running) as socket:
            await attached(socket, "page")
            await say(socket, **subscribe(1, CHEAP))
            assert await heard(socket) == {"type": "Accepted", "number": 1}
            for speed in (40, 60, 30):
                await client.post("/events", content=car(speed), headers={"content-type": "application/car+xml"})
            delivery = await heard(socket)
            assert (delivery["type"], delivery["number"], delivery["event"]["attributes"]["car/speed"]) == (
                "Delivery", 2, 60,
            )  # fmt: skip
            session = running.machine.sessions.session("page")
            await until(lambda: session.queue.sent_up_to == 3)
            assert session.queue.confirmed == 1
            await say(socket, type="Received", number=2)
            await until(lambda: session.queue.confirmed == 3)
            await say(socket, **subscribe(2, "//["))
            refused = await heard(socket)
            assert (refused["type"], refused["number"]) == ("Refused", 2)
            assert "line 1, column" in refused["reason"]
            await say(socket, **subscribe(3, "n > 1", None))
            assert await heard(socket) == {"type": "Accepted", "number": 3}
            assert queries(running, "page") == {}

    run(scene)


def test_a_browser_is_refused_too_many_values_and_may_send_a_long_text_of_commas() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running) as socket:
            await attached(socket, "page")
            many = {"some": "n", "in": {"one_of": list(range(30_000))}}
            await say(socket, **subscribe(1, many, None))
            refused = await heard(socket)
            assert (refused["type"], refused["number"]) == ("Refused", 1)
            assert "more than 25000 commas" in refused["reason"]
            told = {"attributes": {"text": ',:["' * 15_000}, "publisher": "page", "sequence": 1}
            wish = {"type": "Publish", "event": told}
            await say(socket, type="Request", number=2, wish=wish)
            assert await heard(socket) == {"type": "Accepted", "number": 2}

    run(scene)


def test_a_browser_that_comes_back_finds_its_query_in_force() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            async with at(running) as socket:
                await attached(socket, "page")
                await say(socket, **subscribe(1, CHEAP))
                await heard(socket)
            await until(lambda: not running.is_attached("page"))
            for speed in (40, 60):
                await client.post("/events", content=car(speed), headers={"content-type": "text/xml"})
            async with at(running) as socket:
                told = await attached(socket, "page")
                assert told["accepted"] == 1
                delivery = await heard(socket)
                assert delivery["event"]["attributes"]["car/speed"] == 60

    run(scene)


def test_a_browser_is_told_that_its_subscription_is_suspended() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http.tests.limits = EdgeLimits(test_ms_per_s=1e-6)
            async with at(running) as socket:
                await attached(socket, "page")
                await say(socket, **subscribe(1, CHEAP))
                await heard(socket)
                await client.post("/events", content=car(40), headers={"content-type": "text/xml"})
                told = await heard(socket)
                assert (told["type"], told["subscription"]) == ("Suspended", "s")
                [row] = [row for row in (await client.get("/sessions")).json()["sessions"] if row["client"] == "page"]
                assert row["suspended"] == 1

    run(scene)


def test_why_says_that_a_subscription_is_suspended() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http.tests.limits = EdgeLimits(test_ms_per_s=1e-6)
            async with at(running) as socket:
                await attached(socket, "page")
                await say(socket, **subscribe(1, "a + b > 10", language=None))
                await heard(socket)
                await client.post("/events", json={"a": 30, "b": 4})
                await heard(socket)
                posted = await client.post("/events", json={"a": 40, "b": 4})
                await until(lambda: running.http.activity.counts.get("residue", 0) > 0)
                [event] = posted.json()["ids"]
                asked = {"client": "page", "written": '{"a": 30, "b": 4}'}
                written = (await client.get("/why", params=asked)).json()
                assert not written["delivered"]
                assert written["verdict"].startswith("b1: the subscription 's' is suspended: its tests take more than ")
                asked = {"client": "page", "event": event}
                assert "limits.test_ms_per_s" in (await client.get("/why", params=asked)).json()["verdict"]

    run(scene)


# ---------------------------------------------------------------- seen from outside


def test_sessions_explain_metrics_and_the_trace_tell_of_residues() -> None:
    async def scene() -> None:
        async with broker() as (running, client), at(running) as socket:
            await attached(socket, "page")
            await say(socket, **subscribe(1, CHEAP))
            await heard(socket)
            ids = []
            for speed in (40, 60):
                answer = await client.post("/events", content=car(speed), headers={"content-type": "text/xml"})
                ids += answer.json()["ids"]
            await heard(socket)
            [row] = (await client.get("/sessions/page")).json()["subscribed"]
            assert row["queries"] == [{"language": "xpath", "text": CHEAP}]
            assert (row["wanted"], row["residues"], row["failed"], row["suspended"]) == (1, 1, 0, "")
            verdicts = [
                (await client.get("/explain", params={"event": id, "client": "page"})).json()["verdict"] for id in ids
            ]
            assert verdicts[0] == f"it passed the routable filter, failed the exact test xpath: {CHEAP}"
            assert verdicts[1].startswith("it was")
            text = (await client.get("/metrics")).text
            assert 'godwit_query_tests_total{outcome="residue"} 1.0' in text
            assert 'godwit_query_tests_total{outcome="wanted"} 1.0' in text
            records = [record for _, record in running.http.activity.records if record.kind == "residue"]
            assert [(record.peer, record.subscription) for record in records] == [("page", "s")]

    run(scene)
