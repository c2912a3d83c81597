"""`format("godwit")` and brokers that run: each event once, whoever is killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from godwit.event_log import lines_from
from godwit.runtime import connect
from tests.network.cli_broker import broker_apart
from tests.network.mortal import Mortal, nursery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LIMIT_S = 900.0
EVENTS = 60
DRIVER = Path(__file__).with_name("source_driver.py")


def held(folder: Path) -> list[int]:
    return [json.loads(line)["attributes"]["n"] for line, _ in lines_from(folder)] if folder.exists() else []


def until(query: "StreamingQuery", holds: Callable[[], bool]) -> None:
    """Until it is so; what ends the stream is raised."""
    while not holds():
        query.awaitTermination(0.2)  # type: ignore[arg-type]


def test_events_come_from_a_broker_and_go_to_another_once(spark: "SparkSession", tmp_path: Path) -> None:
    from godwit.pipeline.spark_source import register

    register(spark)
    log, out = tmp_path / "log", tmp_path / "out"
    with broker_apart() as (here, first), broker_apart() as (there, second):
        options = {"broker": str(first.address), "filter": "n >= 0", "attributes": "n int", "name": "spark"}
        events = spark.readStream.format("godwit").options(**options).load(str(log))
        doubled = events.selectExpr("publisher", "sequence", "n * 2 as n")
        target = {"broker": str(second.address), "name": "doubled", "checkpointLocation": str(tmp_path / "checkpoint")}
        query = doubled.writeStream.format("godwit").options(**target).start(str(out))
        try:
            until(query, lambda: "sub" in _subscriptions(first, "spark"))
            received = there.do(_listening(second.address))
            here.do(_publish(first.address, 30))
            until(query, lambda: len(received) >= 30)
            until(query, lambda: query.status["message"].startswith("Waiting"))
        finally:
            query.stop()
        assert [event.attributes["n"] for event in received] == [2 * n for n in range(30)] == held(out)
        assert {event.publisher for event in received} == {"doubled"}
        here.until(lambda: first.node.machine.sessions.session("spark").connection is None)  # type: ignore[attr-defined]
        there.do(_gone())


_LISTENERS: list[Any] = []


async def _listening(address: Any) -> list[Any]:
    """What comes to a subscriber there, from now on."""
    client = connect(address, name="s")
    await client.__aenter__()
    subscription, received = await client.subscribe("TRUE"), []

    async def read() -> None:
        async for event in subscription:
            received.append(event)  # noqa: PERF401 (it is looked at meanwhile)

    _LISTENERS[:] = [client, asyncio.create_task(read())]
    return received


async def _gone() -> None:
    client, reading = _LISTENERS
    reading.cancel()
    await client.close()


async def _publish(address: Any, count: int) -> None:
    async with connect(address, name="p") as p:
        for n in range(count):
            p.publish({"n": n})
        await p.drain()


def _subscriptions(broker: Any, client: str) -> Any:
    session = broker.node.machine.sessions.session(client)
    return () if session is None else session.subscriptions


def test_a_broker_that_is_not_there_ends_the_stream_with_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    from godwit.cli.pipeline.spark_runner import sentence
    from godwit.pipeline.spark_source import register

    register(spark)
    events = spark.readStream.format("godwit").option("broker", "127.0.0.1:1").load(str(tmp_path / "log"))
    query = events.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="connection refused") as caught:
        query.awaitTermination()
    assert "events of the broker are not received any more: 127.0.0.1:1: connection refused" in sentence(caught.value)


# ---------------------------------------------------------------- kills


async def killed(folder: Path, kills: int, seed: int) -> None:
    rng, n = Random(seed), 0
    log, out = folder / "log", folder / "out"
    async with nursery() as place:
        broker = Mortal(place, folder, "relaxed")
        address = await broker.start()
        words = [sys.executable, str(DRIVER), str(address), str(log), str(out), str(folder / "checkpoint")]

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)

        driver = start()
        try:
            async with connect(address, name="p") as p:
                while not held(log):  # until somebody listens, nothing is kept
                    await p.publish({"n": 0})
                for kill in range(kills + 1):
                    begun = len(held(out))
                    for _ in range(EVENTS):
                        n += 1
                        await p.publish({"n": n})
                    if kill < kills:
                        enough = begun + rng.randrange(1, EVENTS)
                        while len(held(out)) < enough:
                            assert driver.poll() is None
                            await asyncio.to_thread(_wait, driver, 0.05)
                        os.killpg(driver.pid, signal.SIGKILL)
                        driver.wait()
                        if kill == 0:
                            await broker.kill()
                            await broker.start()
                        driver = start()
                while n not in held(out):
                    assert driver.poll() is None
                    await asyncio.to_thread(_wait, driver, 0.05)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            await broker.kill()
    for found in (held(log), held(out)):
        assert [each for each in found if each] == list(range(1, n + 1))
    assert held(out) == held(log)[: len(held(out))]


def _wait(driver: "subprocess.Popen[bytes]", seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        driver.wait(seconds)


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("seed", range(2))
def test_a_driver_that_is_killed_and_a_broker_that_is_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    asyncio.run(asyncio.wait_for(killed(tmp_path, 3, seed), LIMIT_S))
