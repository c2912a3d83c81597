"""The browser client in Chromium and in Node, with brokers that are killed: nothing lost, doubled or out of order."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.browser.kept_browser import run
from tests.browser.network import Broker, network
from tests.browser.stations import Station, station

PLACES = ["node", "chromium"]
STEP = 200  # events between two troubles


def faults(items: list[dict[str, Any]], count: int) -> dict[str, int]:
    """What is lost, doubled or out of order of the events n = 0 … count - 1."""
    numbers = [item["attributes"]["n"] for item in items if item["kind"] == "event"]
    return {
        "lost": len(set(range(count)) - set(numbers)),
        "doubled": len(numbers) - len(set(numbers)),
        "disordered": sum(a > b for a, b in pairwise(numbers)),
    }


NONE = {"lost": 0, "doubled": 0, "disordered": 0}


def test_the_count_of_faults_finds_them() -> None:
    items = [{"kind": "event", "attributes": {"n": n}} for n in (0, 2, 1, 1, 4)]
    assert faults(items, 6) == {"lost": 2, "doubled": 1, "disordered": 1}
    assert faults(items[:1], 1) == NONE


async def begin(at: Station, publisher: Broker, reader: Broker, *others: Broker) -> None:
    """A client that reads and one that publishes, each with its broker first."""
    await at.call(
        "connect", "reader", [broker.web for broker in (reader, *others)], {"name": "reader", "retryMaxS": 0.5}
    )
    await at.call(
        "connect", "publisher", [broker.web for broker in (publisher, *others)], {"name": "p", "retryMaxS": 0.5}
    )
    await at.call("subscribe", "reader", "all", "n >= 0", {"receipts": True})
    await at.call("accepted", "reader", "all")
    await reached(at)
    await at.call("stream", "publisher", {"run": 2})


async def reached(at: Station) -> None:
    """Until what one publishes reaches the other: brokers may still be telling each other who wants what."""
    await at.call("subscribe", "reader", "first", "first >= 0")
    await at.call("accepted", "reader", "first")
    count = 0
    while True:
        count += 1
        await at.call("call", "publisher", "publish", {"first": count})
        read = await at.call("read", "reader", "first")
        if read["items"]:
            return


async def end(at: Station) -> list[dict[str, Any]]:
    """Stop publishing, and see that all has come, once and in order."""
    count = await at.call("stopStream", "publisher")
    await at.call("call", "publisher", "publish", {"n": count})  # behind all others
    while True:
        items: list[dict[str, Any]] = (await at.call("read", "reader", "all"))["items"]
        if items and items[-1].get("attributes", {}).get("n") == count:
            assert faults(items, count + 1) == NONE
            return [item for item in items if item["kind"] == "receipt"]
        await at.call("read", "reader", "all", len(items) + 1)


@pytest.mark.parametrize("place", PLACES)
def test_brokers_are_killed_while_events_stream(place: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1", "b2") as (b1, b2), station(place, b1.web) as at:
            await begin(at, b1, b2)
            await at.call("streamed", "publisher", STEP)
            await b2.kill()  # the reader's
            await at.call("streamed", "publisher", STEP)
            await b2.start()
            await at.call("streamed", "publisher", STEP)
            await b1.kill()  # the publisher's
            await b1.start()
            await at.call("streamed", "publisher", STEP)
            receipts = await end(at)
            assert [receipt["sessionLost"] for receipt in receipts] == [False] * len(receipts)
            assert receipts  # how many were replayed depends on who was back first; test_client.py counts them

    run(scene)


@pytest.mark.parametrize("place", PLACES)
def test_clients_roam_while_events_stream(place: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1", "b2", "b3") as (b1, b2, b3), station(place, b1.web) as at:
            await begin(at, b1, b3)
            for mover, goal in [("reader", b1), ("publisher", b3), ("reader", b2), ("reader", b3), ("publisher", b2)]:
                await at.call("streamed", "publisher", STEP // 2)
                await at.call("call", mover, "moveTo", goal.web)
            await at.call("streamed", "publisher", STEP // 2)
            await end(at)
            assert (await at.call("look", "reader"))["state"]["broker"] == "b3"
            assert (await at.call("look", "publisher"))["state"]["broker"] == "b2"

    run(scene)


@pytest.mark.parametrize("place", PLACES)
def test_a_client_goes_to_another_broker_when_its_own_is_killed(place: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with network(tmp_path, "b1", "b2") as (b1, b2), station(place, b1.web) as at:
            await begin(at, b1, b2, b1)
            await at.call("streamed", "publisher", STEP)
            await b2.kill()
            await at.call("streamed", "publisher", STEP)
            await b2.start()  # which has the session that b1 asks for
            await at.call("streamed", "publisher", STEP)
            await end(at)
            assert (await at.call("look", "reader"))["state"]["broker"] == "b1"

    run(scene)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_in_whatever_order(seed: int, tmp_path: Path) -> None:
    async def scene() -> None:
        draw = Random(seed)
        async with network(tmp_path, "b1", "b2", "b3") as brokers, station("node", brokers[0].web) as at:
            await begin(at, brokers[0], brokers[2])
            urls = [broker.web for broker in brokers]
            for _ in range(12):
                match draw.choice(["kill", "move", "move", "away"]):
                    case "kill":
                        broker = draw.choice(brokers)
                        await broker.kill()
                        await broker.start()
                    case "move":
                        await at.call("call", draw.choice(["reader", "publisher"]), "moveTo", *draw.sample(urls, 2))
                    case "away":
                        await at.call("call", "reader", "moveTo")
                        await at.call("streamed", "publisher", draw.randrange(STEP))
                        await at.call("call", "reader", "moveTo", *draw.sample(urls, 3))
                await at.call("streamed", "publisher", draw.randrange(1, STEP // 2))
            await end(at)

    run(scene, 250.0)
