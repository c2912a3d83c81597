"""A listener over HTTP hears that a broker has lost its last inputs: at once, or when it is back, and once."""

from urllib.parse import urlencode

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

from godwit.broker.effects import TailLost
from tests.network.http_broker import Running, broker, listening, start
from tests.network.waiting import run, until

SINCE = 5.0
LOSS = TailLost(2**50, SINCE)


async def two_brokers() -> tuple[Running, Running]:
    b2 = await start("b2", {"b1": None})
    b1 = await start("b1", {"b2": b2.native})
    for each in (b1, b2):
        await each.ready()
    return b1, b2


def test_a_stream_at_another_broker_is_told_at_once() -> None:
    async def scene() -> None:
        b1, b2 = await two_brokers()
        async with httpx.AsyncClient(base_url=b2.url, trust_env=False) as client:
            async with listening(client, client="screen") as source:
                b1.node.tell(LOSS)
                assert await source.next() == ("losses", {"lost_since": SINCE})
                last_id = source.last_id
            async with listening(client, last_id, client="screen") as source:  # once
                await client.post("/events", json={"n": 1})
                assert await source.take("n", 1) == [1]
        for each in (b1, b2):
            await each.stop()

    run(scene)


def test_a_stream_at_that_broker_is_told_when_it_is_back() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            async with listening(client, client="screen") as source:
                running.node.tell(LOSS)
                with pytest.raises(EOFError):
                    await source.next()
            async with listening(client, source.last_id, client="screen") as source:
                assert await source.next() == ("losses", {"lost_since": SINCE})
            async with listening(client, client="new") as source:  # it has missed nothing
                await client.post("/events", json={"n": 1})
                assert await source.take("n", 1) == [1]

    run(scene)


def test_the_answer_to_a_poll_has_the_time_in_a_header() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            asked = {"format": "cloudevents-batch", "client": "screen", "wait_s": "0"}
            for told in (None, f"{SINCE:.3f}", None):
                if told is not None:
                    running.node.tell(LOSS)
                answer = await client.get("/events", params=asked)
                assert (answer.status_code, answer.headers.get("godwit-lost-since")) == (204, told)

    run(scene)


def test_a_socket_of_cloud_events_is_closed_with_the_time() -> None:
    async def scene() -> None:
        b1, b2 = await two_brokers()
        url = f"{b2.url.replace('http', 'ws')}/events?{urlencode({'client': 'screen'})}"
        async with connect(url, subprotocols=["cloudevents.json"], proxy=None) as socket:  # type: ignore[list-item]
            await until(lambda: b2.is_attached("screen"))
            b1.node.tell(LOSS)
            with pytest.raises(ConnectionClosedOK) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.reason == f"a broker has lost its last inputs: events since {SINCE:.3f} may be missing"
        async with (
            connect(url, subprotocols=["cloudevents.json"], proxy=None) as socket,  # type: ignore[list-item]
            httpx.AsyncClient(base_url=b2.url, trust_env=False) as client,
        ):
            await until(lambda: b2.is_attached("screen"))
            await client.post("/events", json={"n": 1})
            assert '"n":1' in str(await socket.recv())  # it was told once, and stays connected
        for each in (b1, b2):
            await each.stop()

    run(scene)
