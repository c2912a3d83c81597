"""XML and CloudEvents by every transport: published as documents, and given back."""

import asyncio
from typing import Any

import msgspec
import pytest

from godwit.filters.events import event
from godwit.languages.xml_documents import xml_event
from godwit.runtime.connecting import connect as connect_native
from godwit.runtime.document_helper import SMALL_BYTES
from tests.network.http_broker import broker, listening
from tests.network.mqtt_devices import Device, keep_properties, one_broker, properties, property_of
from tests.network.test_edge_queries import at, attached, heard, say
from tests.network.waiting import run, until

ALERT = b"<alert><area>north</area><level>3</level></alert>"
LARGE = b"<alert><area>north</area>%b<level>3</level></alert>" % (b"<x>1</x>" * (SMALL_BYTES // 8))
CLOUD = {"specversion": "1.0", "id": "7", "source": "/cars", "type": "car.moved"}
STRUCTURED = msgspec.json.encode({**CLOUD, "wheels": 4, "datacontenttype": "application/json", "data": {"speed": 60}})
BAD = b"<alert>\n  <area></alert>"


# ---------------------------------------------------------------- XML


@pytest.mark.parametrize("document", [ALERT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("content_type", ["application/xml", "text/xml; charset=utf-8", "application/cap+xml"])
def test_a_document_comes_alike_over_http_mqtt_and_websocket(document: bytes, content_type: str) -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            at(running) as socket,
            connect_native(running.native, name="native") as native,
        ):
            alerts = await native.subscribe("alert/level = 3 AND alert/area = 'north'")
            answer = await client.post("/events", content=document, headers={"content-type": content_type})
            assert answer.status_code == 202
            await attached(socket, "page")
            said = {"attributes": {"n": 1}, "publisher": "page", "sequence": 1, "content_type": content_type}
            wish = {"type": "Publish", "event": {**said, "payload": msgspec.to_builtins(document)}}
            await say(socket, type="Request", number=1, wish=wish)
            assert (await heard(socket))["type"] == "Accepted"
            for _ in range(2):
                came = await alerts.next()
                assert (came.payload, came.content_type) == (document, content_type)
                assert came.attributes.items() >= xml_event(document).attributes.items()

    run(scene)


def test_a_document_over_mqtt_has_its_topic_and_keeps_its_place_among_others() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            said = properties("SUBSCRIBE", UserProperty=[("$where", "/alert/level > 2"), ("$language", "xpath")])
            await ann.subscribe("alerts/#", 1, said)
            await ann.subscribe("end", 1)
            payloads = [LARGE, ALERT, LARGE, b"<alert><level>1</level></alert>"]
            sent = [
                asyncio.create_task(bob.publish("alerts/cap", payload, 1, ContentType="application/xml"))
                for payload in payloads
            ]
            for code in await asyncio.gather(*sent):
                assert not code.is_failure
            await bob.publish("end", b"", 1)
            assert await ann.payloads(4) == [LARGE, ALERT, LARGE, b""]
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


def test_a_large_document_of_qos_0_is_published_though_its_client_leaves_at_once() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await ann.subscribe("alerts", 1)
            await bob.connect(station.port)
            await bob.publish("alerts", LARGE, 0, ContentType="application/xml")
            await bob.disconnect()
            assert await ann.payloads(1) == [LARGE]
            await ann.disconnect()

    run(scene)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (BAD, "line 2, column"),
        (BAD + b" " * SMALL_BYTES, "line 2, column"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares entities"),
        (b"<a>" * 200 + b"</a>" * 200, "nested deeper"),
        (b"<sender.zone>north</sender.zone>", "is called as an attribute that the broker writes"),
        (b"", "not"),
    ],
    ids=["broken", "large and broken", "entities", "deep", "forged sender", "empty"],
)
def test_a_bad_document_is_refused_where_it_was_published_and_nothing_else_is(document: bytes, why: str) -> None:
    async def scene() -> None:
        async with broker() as (running, client), at(running) as socket:
            headers = {"content-type": "application/xml"}
            answer = await client.post("/events", content=document, headers=headers)
            assert answer.status_code == 400
            assert why in answer.json()["error"]
            if "line 2" in why:
                assert (answer.json()["line"], answer.json()["column"] > 0) == (2, True)
            if not document:
                return
            await attached(socket, "page")
            said: dict[str, Any] = {"attributes": {}, "publisher": "page", "sequence": 1}
            said |= {"payload": msgspec.to_builtins(document), "content_type": "application/xml"}
            await say(socket, type="Request", number=1, wish={"type": "Publish", "event": said})
            refused = await heard(socket)
            assert (refused["type"], why in refused["reason"]) == ("Refused", True)
        async with one_broker() as station:
            bob = Device("bob")
            told: list[Any] = []
            await bob.connect(station.port)
            keep_properties(bob, "on_publish", told)
            code = await bob.publish("a", document, 1, ContentType="application/xml")
            assert code.value == 0x99
            assert why in told[0].ReasonString
            assert not (await bob.publish("a", ALERT, 1, ContentType="application/xml")).is_failure
            await bob.disconnect()

    run(scene)


# ---------------------------------------------------------------- CloudEvents


def test_cloud_events_over_http_are_taken_in_every_mode_and_given_back_as_json() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            params = {"filter": "type = 'car.moved' AND wheels = 4", "language": "cesql", "format": "cloudevents"}
            async with listening(client, **params) as source:
                kinds = [
                    (STRUCTURED, {"content-type": "application/cloudevents+json; charset=utf-8"}),
                    (b"[%b,%b]" % (STRUCTURED, STRUCTURED), {"content-type": "application/cloudevents-batch+json"}),
                    (
                        b'{"speed": 60}',
                        {
                            **{f"ce-{name}": value for name, value in CLOUD.items()},
                            "CE-Wheels": "4",
                            "content-type": "application/json",
                        },
                    ),
                ]
                for body, headers in kinds:
                    answer = await client.post("/events", content=body, headers=headers)
                    assert answer.status_code == 202, answer.text
                for number in range(4):
                    _, told = await source.next()
                    assert told["data"] == {"speed": 60}
                    assert told.items() >= CLOUD.items()
                    assert told["wheels"] == (4 if number < 3 else "4")  # binary mode has no types

    run(scene)


BATCH = {"content-type": "application/cloudevents-batch+json"}


def batch(count: int, last: bytes = STRUCTURED) -> bytes:
    """A batch of this many CloudEvents."""
    return b"[%b]" % b",".join([*[STRUCTURED] * (count - 1), last])


def test_documents_of_the_same_user_are_read_between_the_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            read, done = running.http.tests.helper.read, list[str]()

            async def noted(party: str, mode: Any, *details: Any) -> Any:
                documents = await read(party, mode, *details)
                done.append(mode)
                return documents

            monkeypatch.setattr(running.http.tests.helper, "read", noted)
            posted = asyncio.create_task(client.post("/events", content=batch(2_000), headers=BATCH))
            await until(lambda: bool(done))
            answer = await client.post("/events", content=LARGE, headers={"content-type": "application/xml"})
            assert answer.status_code == 202
            answer = await posted
            assert (answer.status_code, len(answer.json()["ids"])) == (202, 2_000)
            assert done[-1] == "batch"
            assert "xml" in done

    run(scene)


@pytest.mark.parametrize(
    ("body", "line", "why"),
    [
        (batch(10_001), 10_001, "10001 events: at most 10000"),
        (b"[%b]" % b",".join([b'{"a":"%b"}' % (b"," * 30)] * 10_001), 10_001, "10001 events: at most 10000"),
        (batch(1_000, last=b'{"id":"1"}'), 981, "events from here on: a CloudEvent needs the attribute"),
        (b"[" + b"1," * 300_000 + b"1]", 1, "more than 250000 commas"),
        (batch(1_000)[:-1], 1, "JSON array of objects"),
    ],
)
def test_a_batch_with_a_fault_publishes_nothing_and_the_place_is_named(body: bytes, line: int, why: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            answer = await client.post("/events", content=body, headers=BATCH)
            told = answer.json()
            assert (answer.status_code, told["line"], why in told["error"]) == (400, line, True), told

    run(scene)


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (b"{", {"content-type": "application/cloudevents+json"}, "JSON object"),
        (b"{}", {"content-type": "application/cloudevents+json"}, "needs the attribute"),
        (b"x", {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t"}, "needs the attribute 'source'"),
        (b"7", {"content-type": "application/cloudevents-batch+json"}, "JSON array"),
    ],
)
def test_what_is_no_cloud_event_is_answered_by_400(body: bytes, headers: dict[str, str], why: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            answer = await client.post("/events", content=body, headers=headers)
            assert (answer.status_code, why in answer.json()["error"]) == (400, True), answer.text

    run(scene)


def test_cloud_events_cross_mqtt_in_the_mode_they_came_in_and_below_level_5_in_structured_mode() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            new, old, bob = Device("new"), Device("old", 4), Device("bob")
            for device in (new, old, bob):
                await device.connect(station.port)
            for device in (new, old):
                await device.subscribe("cars", 1)
            binary = [*CLOUD.items(), ("wheels", "4")]
            await bob.publish("cars", STRUCTURED, 1, ContentType="application/cloudevents+json")
            await bob.publish("cars", b'{"speed": 60}', 1, ContentType="application/json", UserProperty=binary)
            first, second = await new.next(), await new.next()
            assert msgspec.json.decode(first.payload) == msgspec.json.decode(STRUCTURED)
            assert property_of(first, "ContentType") == "application/cloudevents+json"
            assert second.payload == b'{"speed": 60}'
            assert property_of(second, "UserProperty") == binary
            assert msgspec.json.decode((await old.next()).payload) == msgspec.json.decode(STRUCTURED)
            told = msgspec.json.decode((await old.next()).payload)
            assert (told["data"], told["wheels"], told["id"]) == ({"speed": 60}, "4", "7")
            for device in (new, old, bob):
                await device.disconnect()

    run(scene)


def test_a_cloud_event_from_http_goes_to_mqtt_in_binary_mode() -> None:
    async def scene() -> None:
        async with one_broker() as station, connect_native(station.native, name="native") as native:
            ann = Device("ann")
            await ann.connect(station.port)
            said = properties("SUBSCRIBE", UserProperty=[("$where", "type LIKE 'car.%'"), ("$language", "cesql")])
            await ann.subscribe("cars", 1, said)
            native.publish(event({**CLOUD, "topic": "cars"}, payload=b"hello", content_type="text/plain"))
            message = await ann.next()
            assert message.payload == b"hello"
            assert dict(property_of(message, "UserProperty")).items() >= CLOUD.items()
            await ann.disconnect()

    run(scene)


def test_a_cloud_event_over_websocket_is_taken_in_structured_mode() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            at(running) as socket,
            listening(client, filter="type = 'car.moved'", language="cesql") as source,
        ):
            await attached(socket, "page")
            said = {"attributes": {}, "publisher": "page", "sequence": 1}
            said |= {"payload": msgspec.to_builtins(STRUCTURED), "content_type": "application/cloudevents+json"}
            await say(socket, type="Request", number=1, wish={"type": "Publish", "event": said})
            _, told = await source.next()
            assert told["attributes"].items() >= {**CLOUD, "wheels": 4, "data/speed": 60}.items()

    run(scene)
