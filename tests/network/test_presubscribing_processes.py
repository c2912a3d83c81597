"""[rebeca §6] Sessions that go ahead of their clients, between brokers in processes of their own.

The broker that a client has left is killed before the client turns up elsewhere: so what it gets can only come from the
broker ahead. A proxy on the link sees when the session has passed.
"""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherSettings
from godwit.runtime import connect
from tests.network.mortal import Mortal, Nursery, nursery
from tests.network.proxy import End, Proxy
from tests.network.waiting import run, until

MODEL = MovementModel({"b0": {"b2": 3, "b1": 1}, "b2": {"b1": 1}}).to_text()


class Row:
    """Brokers b0, b1, b2 in a row, each of which dials the one before it through a proxy."""

    def __init__(self) -> None:
        self.brokers: dict[str, Mortal] = {}
        self.seen: Counter[bytes] = Counter()

    def look(self, _end: End, frames: list[bytes]) -> list[bytes]:
        """Count messages by kinds, which stand in each frame by name, and let them pass."""
        for frame in frames:
            self.seen.update(kind for kind in (b"Presubscribe", b"Replay", b"Relocate") if kind in frame)
        return frames

    async def start(self, stack: AsyncExitStack, place: Nursery, folder: Path, settings: PublisherSettings) -> None:
        names = ("b0", "b1", "b2")
        for at, name in enumerate(names):
            broker = self.brokers[name] = Mortal(place, folder, "relaxed", name, publishers=settings)
            if at:
                proxy = Proxy(self.brokers[names[at - 1]].address)
                proxy.tamper = self.look
                broker.neighbours[names[at - 1]] = await proxy.start()
                stack.push_async_callback(proxy.stop)
            if at + 1 < len(names):
                broker.neighbours[names[at + 1]] = None
            await broker.start()
            stack.push_async_callback(broker.kill)


@pytest.mark.parametrize("to", ["b2", "b1"])
def test_a_session_that_went_ahead_survives_the_broker_that_its_client_has_left(tmp_path: Path, to: str) -> None:
    """At b2 the client is expected; from there the session follows it to b1, where it is not."""

    async def scene() -> None:
        row = Row()
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(nursery())
            await row.start(stack, place, tmp_path, PublisherSettings(model=MODEL))
            brokers = row.brokers
            car = await stack.enter_async_context(connect(brokers["b0"].address, name="car", mode="presubscribe"))
            van = await stack.enter_async_context(connect(brokers["b1"].address, name="van"))
            wanted = await car.subscribe("n >= 0")
            warm = await van.subscribe("back = true")
            await car.publish({"back": True})  # behind its subscription
            await warm.next()
            for n in range(5):
                await van.publish({"n": n})
            got = [(await wanted.next()).attributes["n"] for _ in range(5)]
            await car.move()
            for n in range(5, 10):
                await van.publish({"n": n})
            await until(lambda: row.seen[b"Replay"] >= 2, "the session has passed both links")
            assert row.seen[b"Presubscribe"] >= 2
            if to == "b2":
                await brokers["b0"].kill()
            row.seen.clear()
            for n in range(10, 15):
                await van.publish({"n": n})
            await car.move(brokers[to].address)
            got += [(await wanted.next()).attributes["n"] for _ in range(10)]
            if to == "b2":
                assert row.seen[b"Relocate"] == 0  # it was there already
            for n in range(15, 20):
                await van.publish({"n": n})
            got += [(await wanted.next()).attributes["n"] for _ in range(5)]
            assert got == list(range(20))
            assert not any(receipt.session_lost for receipt in car.receipts)

    run(scene)
