"""Advertisements on real sockets, on an overlay with a cycle: three brokers in processes of their own.

Publishers advertise, move between brokers in the modes of [pubmob §3] and publish all the time; the broker
that one has left and the broker of a subscriber are killed and come back meanwhile. In this strategy no move leaves a
gap (decision 366), so every subscriber gets every event once, and those of a publisher in their order.

A publisher moves only when all it published has come: what it publishes elsewhere may overtake the rest in all modes.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.links import LinkConfig
from godwit.mobility.predictors import MovementModel
from godwit.mobility.publisher_presence import PublisherSettings
from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import PendingRequest, Subscription
from tests.network.mortal import Mortal, Nursery, nursery
from tests.network.proxy import End, Proxy
from tests.network.waiting import PATIENCE_S, run, until

NAMES = ("b0", "b1", "b2")
RING = (("b1", "b0"), ("b2", "b1"), ("b2", "b0"))  # the first of each dials the second
KINDS = (b"AdvertisementAdded", b"SubscriptionsComplete")
CONFIG = BrokerConfig(
    family="graph", strategy="advertised", advertisements="required", link=LinkConfig(dead_after_s=0.5)
)
MOVING = PublisherSettings(
    delay_s=2.0,
    prefetch_s=5.0,
    proxies={"b0": ("b0", "b1")},
    model=MovementModel({"b0": {"b1": 1}, "b1": {"b0": 1}}).to_text(),
)
PUBLISHERS = ("van", "lorry")
AGAIN_S = 0.2


class Publisher:
    """A client that publishes numbers."""

    def __init__(self, client: NetworkClient, name: str) -> None:
        self.client, self.name, self.published = client, name, 0

    def publish(self, count: int) -> PendingRequest:
        """Publish so many; the last one, to wait until a broker has it."""
        for _ in range(count):
            last = self.client.publish({"n": self.published, "by": self.name})
            self.published += 1
        return last


class Scene:
    """The brokers, the publishers, and by subscriber and publisher the numbers that came."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.brokers: dict[str, Mortal] = {}
        self.publishers: list[Publisher] = []
        self.came: dict[str, dict[str, list[int]]] = {}
        self.seen: Counter[bytes] = Counter()

    def look(self, _end: End, frames: list[bytes]) -> list[bytes]:
        """Count messages by kinds, which stand in each frame by name, and let them pass."""
        for frame in frames:
            self.seen.update(kind for kind in KINDS if kind in frame)
        return frames

    async def start(self, place: Nursery, folder: Path) -> None:
        """Start the brokers, and wait until what is published at one comes to all others."""
        for name in NAMES:
            broker = self.brokers[name] = Mortal(place, folder, "relaxed", name, config=CONFIG, publishers=MOVING)
            for a, b in RING:
                if name == a:
                    proxy = Proxy(self.brokers[b].address)
                    proxy.tamper = self.look
                    broker.neighbours[b] = await proxy.start()
                    self.stack.push_async_callback(proxy.stop)
                elif name == b:
                    broker.neighbours[a] = None
            await broker.start()
            self.stack.push_async_callback(broker.kill)
        probes = [await self.connect(name, at=name) for name in NAMES]
        known: set[tuple[str, str]] = set()

        async def read(name: str, wanted: Subscription) -> None:
            async for event in wanted:
                known.add((str(event.attributes["by"]), name))

        for name, probe in zip(NAMES, probes, strict=True):
            wanted = await probe.subscribe("ALL by IN ('b0', 'b1', 'b2')")
            await probe.advertise(f"ALL by = '{name}'")

            self.reads(asyncio.create_task(read(name, wanted)))
        gives_up_at = asyncio.get_running_loop().time() + PATIENCE_S
        while len(known) < len(NAMES) ** 2:
            assert asyncio.get_running_loop().time() < gives_up_at, f"only these know each other: {known}"
            for name, probe in zip(NAMES, probes, strict=True):
                probe.publish({"by": name})
            try:
                async with asyncio.timeout(AGAIN_S):
                    await until(lambda: len(known) == len(NAMES) ** 2, "all brokers know each other")
            except TimeoutError:
                continue  # published before all knew each other: again

    async def connect(self, name: str, *, at: str, mode: str = "relocate") -> NetworkClient:
        """A client at a broker."""
        address = self.brokers[at].address
        client: NetworkClient = await self.stack.enter_async_context(connect(address, name=name, mode=mode))
        return client

    def reads(self, task: "asyncio.Task[None]") -> None:
        """It is cancelled in the end."""
        self.stack.callback(task.cancel)

    async def subscriber(self, name: str, *, at: str) -> None:
        """Subscribe to the numbers of each publisher, and write down what comes.

        A subscription that another advertisement at a broker intersects would be there when a publisher comes. Without
        ALL these would: an attribute may have several values.
        """
        client = await self.connect(name, at=at)
        self.came[name] = {by: [] for by in PUBLISHERS}

        async def read(by: str, wanted: Subscription) -> None:
            async for event in wanted:
                self.came[name][by].append(int(str(event.attributes["n"])))

        for by in PUBLISHERS:
            self.reads(asyncio.create_task(read(by, await client.subscribe(f"n >= 0 AND ALL by = '{by}'"))))

    async def publisher(self, name: str, *, at: str, mode: str) -> Publisher:
        """A publisher that has advertised what it publishes, and nothing else."""
        made = Publisher(await self.connect(name, at=at, mode=mode), name)
        await made.client.advertise(f"n >= 0 AND ALL by = '{name}'")
        self.publishers.append(made)
        return made

    async def all_have_all(self, what: str) -> None:
        """Until the last event of every publisher has come to every subscriber; then all before it have come, too."""

        def hold() -> bool:
            return all(
                came[each.name][-1:] == [each.published - 1] for came in self.came.values() for each in self.publishers
            )

        await until(hold, what)
        for subscriber, came in self.came.items():
            for each in self.publishers:
                assert came[each.name] == list(range(each.published)), f"{subscriber}, {each.name}: {what}"


@pytest.mark.parametrize("mode", ["standard", "prefetching", "proxy", "delayed", "prefetching+delayed"])
def test_nothing_is_lost_when_publishers_move_over_a_cycle_and_brokers_are_killed(tmp_path: Path, mode: str) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            on = Scene(stack)
            await on.start(await stack.enter_async_context(nursery()), tmp_path)
            brokers = on.brokers
            await on.subscriber("ann", at="b2")
            await on.subscriber("bob", at="b1")
            on.seen.clear()
            van = await on.publisher("van", at="b0", mode=mode)
            van.publish(10)
            lorry = await on.publisher("lorry", at="b1", mode=mode)
            lorry.publish(10)
            await on.all_have_all("what was published right behind an advertisement")
            assert all(on.seen[kind] for kind in KINDS)

            await van.client.move()
            van.publish(5)  # kept until it is at the next broker
            await van.client.move(brokers["b1"].address)
            van.publish(5)
            lorry.publish(10)
            await on.all_have_all("what was published during a move and right after it")

            await brokers["b0"].kill()
            van.publish(10)  # from here to b2 there is one way left
            lorry.publish(10)
            await on.all_have_all("what was published without the broker that the publisher had left")
            await brokers["b0"].start()
            await van.client.move(brokers["b0"].address)
            van.publish(10)
            await on.all_have_all("what was published at the broker that has come back")

            await brokers["b2"].kill()
            await van.client.move(brokers["b1"].address)
            lorry.publish(10)
            await van.publish(10)  # no gap: its broker has them, and b2 has not answered the advertisement
            await brokers["b2"].start()
            van.publish(10)
            await on.all_have_all("what was published before the subscriber's broker knew of the advertisement")

    run(scene)
