"""A broker that is killed at any moment loses nothing that it has acknowledged, and nothing comes twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from godwit.runtime import connect
from tests.network.mortal import Mortal, nursery

LIMIT_S = 240.0
PATIENCE_S = 30.0  # with one event, on loopback
EVENTS = 60  # in a round


async def scene(folder: Path, durability: str, rounds: int, seed: int) -> None:
    async with nursery() as place:
        await rounds_of(Mortal(place, folder, durability), rounds, seed)


async def rounds_of(broker: Mortal, rounds: int, seed: int) -> None:
    rng = Random(seed)
    address = await broker.start()
    async with connect(address, name="p") as p, connect(address, name="s") as s:
        subscription = await s.subscribe("n >= 0")
        came: list[int] = []

        async def read() -> None:
            async for event in subscription:
                came.append(event.attributes["n"])  # type: ignore[arg-type]  # noqa: PERF401 (they are counted meanwhile)

        reading = asyncio.create_task(read())
        n = 0
        for _ in range(rounds):
            dies_after = rng.randrange(EVENTS)
            for k in range(EVENTS):
                p.publish({"n": n})
                n += 1
                if k == dies_after:
                    await broker.kill()
                    await broker.start()
                elif rng.random() < 0.2:
                    await p.drain()  # it has them: from now on they must not be lost
        await p.drain()
        await s.attached()
        await s.drain()  # also at a broker that had forgotten it
        p.publish({"n": n})
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not came or came[-1] != n:
                    subscription.changed.clear()
                    await subscription.changed.wait()
        except TimeoutError:
            raise AssertionError("the last event never came") from None
        assert came == list(range(n + 1))
        assert not any(receipt.session_lost for receipt in s.receipts)
        reading.cancel()
    await broker.kill()


@pytest.mark.parametrize("durability", ["relaxed", "full"])
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, durability: str) -> None:
    asyncio.run(asyncio.wait_for(scene(tmp_path, durability, rounds=3, seed=1), LIMIT_S))


def test_a_broker_that_forgets_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        asyncio.run(asyncio.wait_for(scene(tmp_path, "memory", rounds=3, seed=1), LIMIT_S))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_twenty_rounds(tmp_path: Path, seed: int) -> None:
    asyncio.run(asyncio.wait_for(scene(tmp_path, "full", rounds=20, seed=seed), LIMIT_S))
