"""SPCF on real sockets, matched at the source and at every hop: brokers in processes of their own, in a ring.

A publisher changes its context and publishes at once, a subscriber roams, and a link goes and comes back meanwhile.
Everybody gets what flooding with filtering at both edges would deliver: all of it, once, and in order.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.links import LinkConfig
from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient
from tests.network.mortal import Mortal, Nursery, nursery
from tests.network.proxy import End, Proxy
from tests.network.waiting import PATIENCE_S, run, until

NAMES = ("b0", "b1", "b2", "b3")
RING = (("b1", "b0"), ("b2", "b1"), ("b3", "b2"), ("b3", "b0"))  # the first of each dials the second
KINDS = (b"HopPacket", b"Packet")


class Ring:
    """The brokers, the proxies on their links, and what has gone over them."""

    def __init__(self) -> None:
        self.brokers: dict[str, Mortal] = {}
        self.links: dict[tuple[str, str], Proxy] = {}
        self.seen: Counter[bytes] = Counter()

    def look(self, _end: End, frames: list[bytes]) -> list[bytes]:
        """Count packets by their kinds, which stand in each frame by name, and let them pass."""
        for frame in frames:
            self.seen.update(kind for kind in KINDS if kind in frame)
        return frames

    async def start(self, stack: AsyncExitStack, place: Nursery, folder: Path, config: BrokerConfig) -> None:
        for name in NAMES:
            broker = self.brokers[name] = Mortal(place, folder, "relaxed", name, config=config)
            for a, b in RING:
                if name == a:
                    proxy = self.links[a, b] = Proxy(self.brokers[b].address)
                    proxy.tamper = self.look
                    broker.neighbours[b] = await proxy.start()
                    stack.push_async_callback(proxy.stop)
                elif name == b:
                    broker.neighbours[a] = None
            await broker.start()
            stack.push_async_callback(broker.kill)


class Listener:
    """A client, and the numbers that came to it."""

    def __init__(self, client: NetworkClient) -> None:
        self.client = client
        self.numbers: list[int] = []
        self.warm = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, filter: str) -> None:
        """Subscribe; behind it to events that show how far subscriptions have got."""
        wanted = await self.client.subscribe(filter)
        warm = await self.client.subscribe("warm = true")

        async def read() -> None:
            async for event in wanted:
                self.numbers.append(int(str(event.attributes["n"])))

        async def read_warm() -> None:
            async for _ in warm:
                self.warm += 1

        self._tasks += [asyncio.create_task(read()), asyncio.create_task(read_warm())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def warm_up(ring: Ring, publisher: NetworkClient, listeners: list[Listener], kind: bytes) -> None:
    """Until events of the publisher come to all, and packets of this kind are under way again."""
    before, came = ring.seen[kind], [listener.warm for listener in listeners]

    def is_warm() -> bool:
        return ring.seen[kind] > before and all(
            listener.warm > past for listener, past in zip(listeners, came, strict=True)
        )

    gives_up_at = asyncio.get_running_loop().time() + PATIENCE_S
    while not is_warm():
        assert asyncio.get_running_loop().time() < gives_up_at, f"no {kind!r}, or somebody gets no events: {came}"
        publisher.publish({"warm": True})
        try:
            async with asyncio.timeout(0.2):
                await until(is_warm, "all get events")
        except TimeoutError:
            continue  # it was published too early: another


def publish(publisher: NetworkClient, numbers: Iterable[int], to: str | None = None) -> list[int]:
    numbers = list(numbers)
    for n in numbers:
        publisher.publish({"n": n}, to=to)
    return numbers


async def scene(folder: Path, config: BrokerConfig, kind: bytes) -> None:
    async with AsyncExitStack() as stack:
        ring = Ring()
        await ring.start(stack, await stack.enter_async_context(nursery()), folder, config)
        at = {name: broker.address for name, broker in ring.brokers.items()}
        publisher = await stack.enter_async_context(connect(at["b0"], name="publisher"))
        guard = Listener(await stack.enter_async_context(connect(at["b2"], name="guard")))
        guest = Listener(await stack.enter_async_context(connect(at["b3"], name="guest")))
        listeners = [guard, guest]
        publisher.set_context({"floor": 1})
        guard.client.set_context({"role": "guard"})
        guest.client.set_context({"role": "guest"})
        await guard.listen("sender.floor = 2 AND n >= 0")
        await guest.listen("n >= 0")
        for listener in listeners:
            stack.push_async_callback(listener.close)
        await warm_up(ring, publisher, listeners, kind)

        only_guest = publish(publisher, range(10))
        publisher.set_context({"floor": 2})
        both = publish(publisher, range(10, 20))  # no gap: the context has attracted nothing yet
        await until(lambda: guard.numbers == both, "what was published right after the context has changed")

        ring.links["b1", "b0"].close()
        both += publish(publisher, range(20, 30))
        await guard.client.move(at["b1"])  # which is reached by a detour now
        both += publish(publisher, range(30, 40))
        only_guard = publish(publisher, range(40, 50), to="role = 'guard'")
        await until(lambda: guard.numbers == [*both, *only_guard], "events on a detour to where the guard has gone")
        await warm_up(ring, publisher, listeners, kind)

        ring.links["b1", "b0"].open()
        last = publish(publisher, range(50, 60))
        await guard.client.move(at["b3"])
        await warm_up(ring, publisher, listeners, kind)
        last += publish(publisher, range(60, 70))
        await until(lambda: guard.numbers[-1:] == guest.numbers[-1:] == [69], "the last events")
        assert guard.numbers == [*both, *only_guard, *last]
        assert guest.numbers == [*only_guest, *both, *last]


@pytest.mark.parametrize(("matching", "kind"), [("source", b"Packet"), ("hops", b"HopPacket")])
def test_nothing_is_lost_when_a_context_changes_a_client_roams_and_a_link_goes_and_comes(
    tmp_path: Path, matching: Literal["source", "hops"], kind: bytes
) -> None:
    config = BrokerConfig(
        family="graph", strategy="spcf", matching=matching, advertisements="off", link=LinkConfig(dead_after_s=0.5)
    )
    run(lambda: scene(tmp_path, config, kind))
