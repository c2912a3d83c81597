"""[rebeca §4, Fig. 5] Relocation by the routing tables, with two producers and brokers in processes of their own.

The old broker is killed while the client is away, and comes back when the client has turned up elsewhere: its session
waits there until the junction fetches it.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient
from tests.network.mortal import Mortal, Nursery, nursery
from tests.network.waiting import run, until

ROW = ("b0", "b1", "b2", "b3")
PRODUCERS = {"van": "b1", "lorry": "b3"}
"""Where they are: beside the way from the old broker, b0, to the new one, b2, and behind it."""


async def row(stack: AsyncExitStack, place: Nursery, folder: Path, config: BrokerConfig) -> dict[str, Mortal]:
    brokers: dict[str, Mortal] = {}
    for at, name in enumerate(ROW):
        broker = brokers[name] = Mortal(place, folder, "relaxed", name, config=config)
        if at:
            broker.neighbours[ROW[at - 1]] = brokers[ROW[at - 1]].address
        if at + 1 < len(ROW):
            broker.neighbours[ROW[at + 1]] = None
        await broker.start()
        stack.push_async_callback(broker.kill)
    return brokers


class Producer:
    """A client that publishes numbers."""

    def __init__(self, client: NetworkClient, name: str) -> None:
        self.client, self.name, self.published = client, name, 0

    async def publish(self, count: int = 1) -> None:
        for _ in range(count):
            await self.client.publish({"n": self.published, "by": self.name})
            self.published += 1


@pytest.mark.parametrize("reduction", ["simple", "covering"])
def test_a_client_gets_all_of_two_producers_once_and_in_order_though_its_old_broker_dies(
    tmp_path: Path, reduction: str
) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(nursery())
            config = BrokerConfig(reduction=reduction, advertisements="required")
            brokers = await row(stack, place, tmp_path, config)
            producers = []
            for name, where in PRODUCERS.items():
                client = await stack.enter_async_context(connect(brokers[where].address, name=name))
                await client.advertise("n >= 0")
                producers.append(Producer(client, name))
            car = await stack.enter_async_context(connect(brokers["b0"].address, name="car", mode="junction"))
            wanted = await car.subscribe("n >= 0")
            got: dict[str, list[int]] = {name: [] for name in PRODUCERS}

            async def read() -> None:
                async for event in wanted:
                    got[str(event.attributes["by"])].append(int(str(event.attributes["n"])))

            reader = asyncio.create_task(read())
            stack.callback(reader.cancel)

            async def all_publish(count: int) -> None:
                for each in producers:
                    await each.publish(count)

            def has_all() -> bool:
                return all(got[each.name][-1] == each.published - 1 for each in producers)

            for each in producers:
                while not got[each.name]:  # until its subscription is there
                    await each.publish()
            await until(has_all, "the client has all events from the old broker")
            await car.move()
            await all_publish(5)
            await brokers["b0"].kill()
            await all_publish(3)
            await car.move(brokers["b2"].address)
            await all_publish(5)
            await brokers["b0"].start()
            await all_publish(5)
            await until(has_all, "the client has all events at the new broker")
            for each in producers:
                first = got[each.name][0]
                assert got[each.name] == list(range(first, each.published))
            assert not any(receipt.session_lost for receipt in car.receipts)
            reader.cancel()

    run(scene)
