"""Why a client did not get an event: one reason after the other is planted, and named in the verdict."""

from time import time
from typing import Any

import httpx

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.filters.events import Event, event
from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from tests.network.http_broker import Running, broker
from tests.network.waiting import run, until

SMALL = BrokerConfig(limits=Limits(session_expiry_s=None, queue_events_max=2))
LITTLE = BrokerConfig(limits=Limits(session_expiry_s=None, user_bytes_max=2_000))


async def why(client: httpx.AsyncClient, id: str, who: str) -> dict[str, Any]:
    answer = await client.get("/why", params={"event": id, "client": who})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def published(client: NetworkClient, said: dict[str, Any] | Event) -> str:
    """The id of an event that a broker has."""
    await client.publish(said)
    return f"{client.name}:{client.machine.sequence}"


async def left(running: Running, name: str, *filters: str) -> None:
    """A client that subscribes and goes away."""
    async with connect(running.native, name=name) as client:
        for filter in filters:
            await client.subscribe(filter, name=filter)
    await until(lambda: not running.is_attached(name))


def test_an_event_that_failed_the_exact_test_was_not_delivered() -> None:
    async def scene() -> None:
        asked = {"filter": "a + b > 10", "client": "curl"}
        async with (
            broker() as (running, client),
            connect(running.native, name="van") as van,
            client.stream("GET", "/events", params=asked),
        ):
            await until(lambda: running.is_attached("curl"))
            id = await published(van, {"a": 3, "b": 4})
            await until(lambda: running.http.activity.counts.get("residue", 0) > 0)
            told = await why(client, id, "curl")
            assert (told["delivered"], told["basis"]) == (False, "record")
            assert told["verdict"].endswith("failed the exact test filter: a + b > 10")
            [hop] = told["hops"]
            assert hop["deliveries"][0]["state"] == "it failed the exact test, and was not sent"

    run(scene)


def test_the_other_member_of_a_group_that_got_the_event_is_named() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            connect(running.native, name="van") as van,
            connect(running.native, name="ann") as ann,
            connect(running.native, name="bob") as bob,
        ):
            for member in (ann, bob):
                await member.subscribe("kind = 'job'", name="jobs", share="workers")
            id = await published(van, {"kind": "job"})
            told = {name: await why(client, id, name) for name in ("ann", "bob")}
            [taker] = [name for name, each in told.items() if each["delivered"]]
            [other] = set(told) - {taker}
            assert told[other]["verdict"] == (
                f"b1: 'jobs' shares its events in the group 'workers', where one member gets each: "
                f"this one went to {taker} at b1"
            )
            assert told[other]["basis"] == "record"

    run(scene)


def test_an_event_whose_time_is_over_does_not_wait() -> None:
    async def scene() -> None:
        async with broker() as (running, client), connect(running.native, name="van") as van:
            await left(running, "ann", "kind = 'news'")
            expires_at = time() + 0.2
            id = await published(van, event({"kind": "news"}, expires_at=expires_at))
            await until(lambda: time() > expires_at)
            told = await why(client, id, "ann")
            assert (told["delivered"], told["waits"]) == (False, False)
            assert "it expired before the client connected: " in told["verdict"]
            async with connect(running.native, name="ann"):
                await until(lambda: running.http.activity.counts.get("expired", 0) > 0)
            told = await why(client, id, "ann")
            assert "it expired before the client connected: " in told["verdict"]

    run(scene)


def test_the_bound_that_removed_an_event_is_named() -> None:
    async def scene() -> None:
        async with broker(config=SMALL) as (running, client), connect(running.native, name="van") as van:
            await left(running, "ann", "n >= 0")
            first, second, _ = [await published(van, {"n": n}) for n in range(3)]
            verdict = (await why(client, first, "ann"))["verdict"]
            assert (
                verdict
                == "b1: it was removed from the client's queue: the queue was full (limits.queue_events_max = 2)"
            )
            assert (await client.post("/administration/drop-queue", json={"client": "ann"})).status_code == 200
            verdict = (await why(client, second, "ann"))["verdict"]
            assert verdict == "b1: an administrator dropped it from the client's queue"
        async with broker(config=LITTLE) as (running, client), connect(running.native, name="van") as van:
            await left(running, "ann", "n >= 0")
            first, *_ = [await published(van, {"n": n, "text": "x" * 500}) for n in range(8)]
            verdict = (await why(client, first, "ann"))["verdict"]
            assert verdict == (
                "b1: it was removed from the client's queue: "
                "the queues of the user's clients were full (limits.user_bytes_max = 2000)"
            )

    run(scene)


def test_of_many_subscriptions_the_closest_is_named() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            connect(running.native, name="van") as van,
            connect(running.native, name="ann") as ann,
        ):
            for name, filter in {"old": "kind = 'news'", "near": "kind = 'alarm' AND zone = 3", "far": "x > 1"}.items():
                await ann.subscribe(filter, name=name)
            told = await why(client, await published(van, {"kind": "alarm", "zone": 4}), "ann")
            assert told["verdict"] == (
                "b1: no subscription of the client matches the event; "
                "the closest is 'near', where zone = 3 does not hold (the event has zone = 4)"
            )
            told = await why(client, await published(van, {"kind": "other"}), "ann")
            assert (
                "the closest are 'old', where kind = 'news' does not hold (the event has kind = other); "
                in told["verdict"]
            )
            assert "'far', where x > 1 does not hold (the event has no x)" in told["verdict"]

    run(scene)


def test_a_subscription_that_came_too_late_is_named() -> None:
    async def scene() -> None:
        async with (
            broker("b1", {"b2": None}) as (b1, at_b1),
            broker("b2", {"b1": b1.native}) as (b2, _),
            connect(b1.native, name="van") as van,
            connect(b2.native, name="ann") as ann,
        ):
            for each in (b1, b2):
                await each.ready()
            id = await published(van, {"kind": "news"})
            await ann.subscribe("kind = 'news'", name="late")
            told = await why(at_b1, id, "ann")
            assert told["verdict"] == (
                "the event reached b1, which knew of no further subscriber for it at that moment; "
                "'late' of the client matches it now: it was made later, or not yet known there"
            )

    run(scene)
