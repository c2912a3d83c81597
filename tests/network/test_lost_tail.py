"""Real brokers whose disks have lost what came last: they say so, rejoin their neighbours, and tell their clients."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from godwit.runtime import connect
from godwit.runtime.journal import FILE
from godwit.runtime.network_client import NetworkClient
from tests.network.mortal import chain, nursery
from tests.network.waiting import PATIENCE_S, run
from tests.seeds import slow

NAMES = ("b0", "b1", "b2")
SNAPSHOT_BYTES = 10_000_000


class Reader:
    """A subscriber, and what came to it."""

    def __init__(self, client: NetworkClient) -> None:
        self.client = client
        self.came: list[tuple[str, int]] = []
        self.changed = asyncio.Event()

    async def read(self) -> None:
        subscription = await self.client.subscribe("n >= 0")

        async def take() -> None:
            async for event in subscription:
                self.came.append((event.publisher, event.attributes["n"]))  # type: ignore[arg-type]
                self.changed.set()

        self.task = asyncio.create_task(take())

    async def until(self, publisher: str, n: int, publish: Callable[[], None] | None = None) -> None:
        """Until an event has come; if it was published too early, another one is."""
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + PATIENCE_S
        while not any(who == publisher and number >= n for who, number in self.came):
            assert loop.time() < gives_up_at, f"{n} of {publisher} never came to {self.client.machine.name}"
            self.changed.clear()
            try:
                async with asyncio.timeout(0.3):
                    await self.changed.wait()
            except TimeoutError:
                if publish is not None:
                    publish()


async def rolled_back(folder: Path, durability: str, *, with_mark: bool) -> None:
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(nursery())
        brokers = await chain(place, folder, durability, NAMES, SNAPSHOT_BYTES)
        for broker in brokers.values():
            stack.push_async_callback(broker.kill)
        victim = brokers["b1"]
        publishers, readers = {}, {}
        for at in NAMES:
            publishers[at] = await stack.enter_async_context(connect(brokers[at].address, name=f"p-{at}"))
            client = await stack.enter_async_context(connect(brokers[at].address, name=f"s-{at}"))
            readers[at] = Reader(client)
            await readers[at].read()
        number = 0

        async def publish(count: int) -> None:
            nonlocal number
            for _ in range(count):
                number += 1
                for each in publishers.values():
                    each.publish({"n": number})
            for each in publishers.values():
                await each.drain()

        async def all_came() -> None:
            """An event of each publisher comes to each subscriber, again."""
            nonlocal number
            number += 1
            least = number

            def another() -> None:
                nonlocal number
                number += 1
                for each in publishers.values():
                    each.publish({"n": number})

            another()
            for reader in readers.values():
                for each in publishers.values():
                    await reader.until(each.machine.name, least, another)

        await all_came()
        await publish(10)
        await victim.kill()
        shutil.copytree(folder / "b1", folder / "older")
        await victim.start()
        await all_came()
        await publish(50)
        await all_came()
        await victim.kill()
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", *(["journal.mark"] if with_mark else [])):
            (folder / "b1" / name).unlink(missing_ok=True)
            if (folder / "older" / name).is_file():
                shutil.copy2(folder / "older" / name, folder / "b1" / name)
        await victim.start()
        await all_came()
        before = number
        await publish(20)
        await all_came()
        for reader in readers.values():
            for each in publishers.values():
                numbers = [n for who, n in reader.came if who == each.machine.name]
                assert numbers == sorted(set(numbers)), "nothing comes twice, and all in order"
                assert set(range(before + 1, before + 21)) <= set(numbers), "after that nothing is lost"
        receipt = readers["b1"].client.receipts[-1]
        assert receipt.session_lost
        assert receipt.lost_since is not None
        assert not readers["b0"].client.receipts[-1].session_lost
        for reader in readers.values():
            reader.task.cancel()


def test_a_journal_that_was_put_back_alone_is_noticed_and_the_broker_rejoins(tmp_path: Path) -> None:
    run(lambda: rolled_back(tmp_path, "relaxed", with_mark=False))


@pytest.mark.parametrize("durability", ["relaxed", slow("full")])
def test_a_folder_that_was_put_back_is_noticed_by_neighbours_and_the_broker_rejoins(
    tmp_path: Path, durability: str
) -> None:
    run(lambda: rolled_back(tmp_path, durability, with_mark=True))
