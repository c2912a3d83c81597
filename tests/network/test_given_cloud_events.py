"""CloudEvents as receivers ask for them: by polling, over WebSocket, and in the mode of an MQTT subscription."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from httpx import AsyncClient, Response
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from godwit.filters.events import Event
from godwit.languages.cloud_events import event_from_binary, event_from_structured, events_from_batch
from godwit.runtime.connecting import connect as connect_native
from godwit.runtime.edge_tests import EdgeLimits
from tests.network.http_broker import Running, broker, listening
from tests.network.mqtt_devices import Device, keep_properties, one_broker, properties, property_of
from tests.network.waiting import run, until

CLOUD = {"specversion": "1.0", "id": "7", "source": "/cars", "type": "car.moved"}
SPEED = {"datacontenttype": "application/json", "data": {"speed": 60}}
BYTES = {"datacontenttype": "application/octet-stream", "data_base64": "/wA="}
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
CAR = {"filter": "type = 'car.moved'", "language": "cesql", "client": "ann"}
BY_TEST = {"filter": "LENGTH(id) = 1 AND type = 'car.moved'", "language": "cesql", "client": "ann"}


def cloud(id: str = "7", **more: Any) -> dict[str, Any]:
    return {**CLOUD, "id": id, **SPEED, **more}


async def post(client: AsyncClient, *events: dict[str, Any]) -> None:
    answer = await client.post("/events", content=msgspec.json.encode(events), headers={"content-type": BATCH})
    assert answer.status_code == 202, answer.text


async def poll(client: AsyncClient, /, accept: str = BATCH, last_id: str = "", **params: str) -> Response:
    headers = {"accept": accept, **({"last-event-id": last_id} if last_id else {})}
    return await client.get("/events", params={"wait_s": "0", **CAR, **params}, headers=headers)


async def begun(client: AsyncClient, /, **params: str) -> str:
    """The id with which a listener goes on that has a session, and nothing in it."""
    answer = await poll(client, **params)
    assert (answer.status_code, answer.content) == (204, b"")
    return answer.headers["last-event-id"]


# ---------------------------------------------------------------- polling


def test_a_batch_holds_what_came_since_the_id_that_comes_back() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            last_id = await begun(client)
            await post(client, *[cloud(str(number)) for number in range(5)])
            first = await poll(client, last_id=last_id, events_max="3")
            assert (first.status_code, first.headers["content-type"]) == (200, BATCH)
            assert first.json() == [cloud(str(number)) for number in range(3)]
            again = await poll(client, last_id=last_id, events_max="2")  # the answer was lost
            assert [one["id"] for one in again.json()] == ["0", "1"]
            rest = await poll(client, last_id=first.headers["last-event-id"])
            assert [one["id"] for one in rest.json()] == ["3", "4"]
            await begun(client, last_id=rest.headers["last-event-id"])

    run(scene)


@pytest.mark.parametrize("format", ["structured", "binary", "batch"])
@pytest.mark.parametrize(
    "event",
    [cloud(), cloud(wheels=4, isold=True), {**CLOUD, "subject": "Zürich 50 %"}, {**CLOUD, **BYTES}],
    ids=["json", "typed", "no data", "bytes"],
)
def test_each_mode_gives_back_the_cloud_event_that_came(format: str, event: dict[str, Any]) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            last_id = await begun(client)
            await post(client, event)
            answer = await poll(client, last_id=last_id, format=f"cloudevents-{format}", accept="*/*")
            assert answer.status_code == 200
            came = event_from_structured(msgspec.json.encode(event))
            match format:
                case "structured":
                    assert is_same(event_from_structured(answer.content), came)
                case "batch":
                    [given] = events_from_batch(answer.content)
                    assert is_same(given, came)
                case _:
                    assert is_same(event_from_binary(answer.headers, answer.content), came, as_texts=True)

    run(scene)


@pytest.mark.parametrize(
    "event",
    [
        {"attributes": {"type": "car.moved", "id": "7"}, "payload": "x", "content_type": "text/\0\r\nx: y"},
        {"attributes": {"type": "car.moved", "id": "7"}, "payload": "x", "content_type": "text/\u2603"},
        {"type": "car.moved", "id": "7", "text": "ü" * 20_000},
        {"type": "car.moved", "id": "7", **{f"n{number}": 1 for number in range(100)}},
    ],
    ids=["line end", "not ASCII", "long", "many"],
)
def test_an_event_with_headers_that_no_client_takes_comes_as_the_data_of_a_cloud_event(event: dict[str, Any]) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            last_id = await begun(client, format="cloudevents-binary")
            assert (await client.post("/events", json=event)).status_code == 202
            answer = await poll(client, last_id=last_id, format="cloudevents-binary")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            assert len(answer.headers) < 20
            assert answer.json()["attributes"]["type"] == "car.moved"
            await begun(client, last_id=answer.headers["last-event-id"], format="cloudevents-binary")

    run(scene)


def is_same(given: Event, came: Event, *, as_texts: bool = False) -> bool:
    """Whether an event is what came; binary mode has no types."""
    said = {name: value for name, value in came.attributes.items() if not name.startswith("data/")}
    if as_texts:
        said = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in said.items()}
    return given.attributes.items() >= said.items() and (given.payload or None) == (came.payload or None)


def test_the_accept_header_chooses_and_the_parameter_counts_more() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            last_id = await begun(client)
            await post(client, cloud())
            for accept, kind in (
                (STRUCTURED, STRUCTURED),
                (f"{STRUCTURED};q=0.1, {BATCH};q=0.9", BATCH),
                (f"text/event-stream;q=0.5, {STRUCTURED}", STRUCTURED),
            ):
                answer = await poll(client, accept, last_id)
                assert answer.headers["content-type"] == kind
            answer = await poll(client, BATCH, last_id, format="cloudevents-structured")
            assert answer.headers["content-type"] == STRUCTURED
            async with listening(client, filter="TRUE"):  # which accepts anything
                pass

    run(scene)


def test_a_poll_waits_for_the_first_event_that_its_query_wants() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            last_id = await begun(client, **BY_TEST)
            waiting = asyncio.create_task(poll(client, last_id=last_id, **{**BY_TEST, "wait_s": "60"}))
            await until(lambda: running.is_attached("ann"))
            await post(client, cloud("too long"))
            await post(client, cloud("7"))
            answer = await waiting
            assert [one["id"] for one in answer.json()] == ["7"]
            await post(client, cloud("too long"))
            skipped = await begun(client, **BY_TEST, last_id=answer.headers["last-event-id"])
            assert skipped != answer.headers["last-event-id"]  # what no query wants need not be tested again

    run(scene)


def test_an_event_that_no_cloud_event_can_be_is_the_data_of_one() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            last_id = await begun(client, filter="speed > 2", language="filter")
            await client.post("/events", json={"speed": 2.5})
            for format in ("structured", "binary"):
                answer = await poll(
                    client, "*/*", last_id, filter="speed > 2", language="filter", format=f"cloudevents-{format}"
                )
                data = answer.json()["data"] if format == "structured" else answer.json()
                assert data["attributes"] == {"speed": 2.5}

    run(scene)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"format": "avro"}, "allowed are godwit, cloudevents, cloudevents-structured"),
        ({"wait_s": "soon"}, "wait_s is 'soon'"),
        ({"wait_s": "3600"}, "from 0 to 60"),
        ({"events_max": "0"}, "from 1 to 1000"),
        ({"filter": "type ="}, "line 1, column"),
    ],
)
def test_a_bad_poll_is_answered_by_400(params: dict[str, str], why: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            answer = await poll(client, **params)
            assert (answer.status_code, why in answer.json()["error"]) == (400, True), answer.text

    run(scene)


def test_a_poll_whose_query_takes_too_long_and_one_whose_session_is_taken_are_told() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            waiting = asyncio.create_task(poll(client, wait_s="60"))
            await until(lambda: running.is_attached("ann"))
            await begun(client)
            assert (await waiting).status_code == 503
            running.http.tests.limits = EdgeLimits(test_ms_per_s=1e-6)
            waiting = asyncio.create_task(poll(client, **{**BY_TEST, "wait_s": "60"}))
            await until(lambda: running.is_attached("ann"))
            await post(client, cloud("too long"))
            assert (await waiting).status_code == 403

    run(scene)


# ---------------------------------------------------------------- WebSocket


def socket_at(running: Running, path: str = "/events", **params: str) -> connect:
    query = urlencode(params)
    subprotocols: Any = ["cloudevents.avro", "cloudevents.json"]
    return connect(f"ws://{running.web}{path}?{query}", subprotocols=subprotocols, proxy=None)


@pytest.mark.parametrize("path", ["/events", "/ws"])
def test_cloud_events_go_both_ways_over_the_subprotocol(path: str) -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            socket_at(running, path, **CAR) as ann,
            socket_at(running, path, filter="FALSE", client="bob") as bob,
        ):
            assert ann.subprotocol == "cloudevents.json"
            await until(lambda: running.is_attached("ann"))
            for number in range(50):
                await bob.send(msgspec.json.encode(cloud(str(number), wheels=4)).decode())
            for number in range(50):
                assert msgspec.json.decode(await ann.recv()) == cloud(str(number), wheels=4)
            await client.post("/events", json={"type": "car.moved", "speed": 2.5})
            assert msgspec.json.decode(await ann.recv())["data"]["attributes"]["speed"] == 2.5

    run(scene)


def test_a_client_that_comes_back_by_its_name_misses_nothing() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            async with socket_at(running, **CAR) as ann:
                await until(lambda: running.is_attached("ann"))
                await post(client, cloud("1"))
                assert msgspec.json.decode(await ann.recv())["id"] == "1"
            await until(lambda: not running.is_attached("ann"))
            await post(client, cloud("2"))
            async with socket_at(running, **CAR) as ann:
                assert [msgspec.json.decode(await ann.recv())["id"] for _ in range(2)] == ["1", "2"]

    run(scene)


def test_what_came_before_a_bad_frame_is_published_and_the_frame_closes_the_connection() -> None:
    async def scene() -> None:
        async with broker() as (running, client), listening(client, filter="type = 'car.moved'") as source:
            for frame, code, why in (
                ("{}", 1007, "needs the attribute"),
                ("[" * 10_000, 1007, "JSON object"),
                (b"\x00", 1003, "binary frame"),
            ):
                async with socket_at(running, filter="FALSE") as bob:
                    await bob.send(msgspec.json.encode(cloud()).decode())
                    await bob.send(frame)
                    with pytest.raises(ConnectionClosedError) as closed:
                        await bob.recv()
                    assert closed.value.rcvd is not None
                    assert (closed.value.rcvd.code, why in closed.value.rcvd.reason) == (code, True)
                assert (await source.next())[1]["attributes"]["id"] == "7"

    run(scene)


@pytest.mark.parametrize(
    ("params", "why"),
    [({"filter": "type =", "language": "cesql"}, "line 1, column"), ({"language": "nope"}, "known are")],
)
def test_a_bad_request_of_a_socket_is_told_in_the_close_frame(params: dict[str, str], why: str) -> None:
    async def scene() -> None:
        async with broker() as (running, _), socket_at(running, **params) as ann:
            with pytest.raises(ConnectionClosedError) as closed:
                await ann.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, why in closed.value.rcvd.reason) == (1008, True)

    run(scene)


def test_a_socket_whose_query_takes_too_long_is_closed_with_the_reason() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http.tests.limits = EdgeLimits(test_ms_per_s=1e-6)
            async with socket_at(running, **BY_TEST) as ann:
                await until(lambda: running.is_attached("ann"))
                await post(client, cloud("too long"))
                with pytest.raises(ConnectionClosedError) as closed:
                    await ann.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1008

    run(scene)


# ---------------------------------------------------------------- MQTT


def mode(name: str) -> Any:
    return properties("SUBSCRIBE", UserProperty=[("$cloudevents", name)])


def test_an_mqtt_subscription_chooses_the_mode_and_its_session_remembers() -> None:
    async def scene() -> None:
        async with one_broker() as station, connect_native(station.native, name="native") as native:
            ann, bob = Device("ann", clean=False, expiry_s=60), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("cars/a", 1, mode("structured"))
            await ann.subscribe("cars/b", 1, mode("binary"))
            await ann.disconnect()
            await ann.connect(station.port)
            binary = [*CLOUD.items(), ("wheels", "4"), ("Not-One", "x")]
            for topic in ("cars/a", "cars/b"):
                await bob.publish(topic, b'{"speed":60}', 1, ContentType="application/json", UserProperty=binary)
                await bob.publish(topic, msgspec.json.encode(cloud(wheels=4)), 1, ContentType=STRUCTURED)
            came = [await ann.next() for _ in range(4)]
            for message, wheels in zip(came[:2], ("4", 4), strict=True):
                assert property_of(message, "ContentType") == STRUCTURED
                assert msgspec.json.decode(message.payload) == cloud(wheels=wheels)
            for message in came[2:]:
                assert (message.payload, property_of(message, "ContentType")) == (b'{"speed":60}', "application/json")
                assert dict(property_of(message, "UserProperty")) == {**CLOUD, "wheels": "4"}
            native.publish({"topic": "cars/a", "speed": 2.5})  # no CloudEvent: it is the data of one
            told = msgspec.json.decode((await ann.next()).payload)
            assert (told["type"], told["data"]["attributes"]["speed"]) == ("godwit.event", 2.5)
            for device in (ann, bob):
                await device.disconnect()

    run(scene)


def test_an_unknown_mode_is_refused_with_those_that_are_known() -> None:
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            told: list[Any] = []
            await ann.connect(station.port)
            keep_properties(ann, "on_subscribe", told)
            assert (await ann.subscribe("cars", 1, mode("avro"))).value == 0x8F
            assert "allowed is structured or binary" in told[0].ReasonString
            await ann.disconnect()

    run(scene)
