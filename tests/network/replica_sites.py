"""Replicas in processes of their own, each behind a proxy, and what they and the client have seen, for the checkers.

`received` of a history is what a broker's journal holds: events from clients and from other brokers. A disk is read
before it is lost, so that what the broker had received in its former life counts, too.
"""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from godwit.runtime.journal_events import events_in
from godwit.runtime.pending_requests import Subscription
from godwit.runtime.replicated_client import ReplicatedNetworkClient
from godwit.runtime.tcp import Address
from godwit.simulator.replication_checkers import EventId, History, complete, consistent, ordered
from tests.network.mortal import Mortal, chain, nursery
from tests.network.proxy import Proxy

__all__ = ["LAWS", "Site", "Sites", "broken", "replica_sites", "sites_apart"]

NO_SNAPSHOT_BYTES = 2**40  # the journal then holds all that the broker has been told
LAWS: dict[str, Callable[[History], bool]] = {"ordered": ordered, "consistent": consistent, "complete": complete}


def broken(history: History) -> list[str]:
    """The laws that a history breaks."""
    return [name for name, law in LAWS.items() if not law(history)]


class Site:
    """One replica, its proxy, and all events that its disks have held."""

    def __init__(self, broker: Mortal, proxy: Proxy) -> None:
        self.broker, self.proxy = broker, proxy
        self.received: set[EventId] = set()

    @property
    def address(self) -> Address:
        return self.proxy.address

    def read_disk(self) -> None:
        self.received |= {event.id for event in events_in(self.broker.folder / self.broker.name)}

    async def lose_disk(self) -> None:
        """Kill the broker and start it again with an empty disk."""
        await self.broker.kill()
        self.read_disk()
        shutil.rmtree(self.broker.folder / self.broker.name)
        await self.broker.start()


class Sites(list[Site]):
    """All replicas."""

    @property
    def addresses(self) -> list[Address]:
        return [site.address for site in self]

    def history(self, matching: set[EventId], displayed: list[EventId]) -> History:
        for site in self:
            site.read_disk()
        received = {site.broker.name: frozenset(site.received) for site in self}
        return History(frozenset(matching), received, tuple(displayed))


async def took(client: ReplicatedNetworkClient, subscription: Subscription, last: EventId) -> list[EventId]:
    """The events that are displayed, up to this one."""
    displayed: list[EventId] = []
    while last not in displayed:
        displayed.append((await subscription.next()).id)
    return displayed


async def all_attached(*clients: ReplicatedNetworkClient) -> None:
    for client in clients:
        await client.attached(replicas=len(client.replicas))


@asynccontextmanager
async def replica_sites(folder: Path, names: tuple[str, ...] = ("b1", "b2", "b3")) -> AsyncIterator[Sites]:
    """Brokers in a line, and a proxy before each."""
    async with nursery() as place, AsyncExitStack() as stack:
        brokers = await chain(place, folder, "relaxed", names, NO_SNAPSHOT_BYTES)
        yield await _behind_proxies(list(brokers.values()), stack)


@asynccontextmanager
async def sites_apart(folder: Path, names: tuple[str, ...] = ("b1", "b2", "b3")) -> AsyncIterator[Sites]:
    """Brokers without links between them, as in [mobile §5, Figure 6]: only clients bring them events."""
    async with nursery() as place, AsyncExitStack() as stack:
        brokers = [Mortal(place, folder, "relaxed", name, snapshot_bytes=NO_SNAPSHOT_BYTES) for name in names]
        for broker in brokers:
            await broker.start()
        yield await _behind_proxies(brokers, stack)


async def _behind_proxies(brokers: list[Mortal], stack: AsyncExitStack) -> Sites:
    sites = Sites()
    for broker in brokers:
        stack.push_async_callback(broker.kill)
        proxy = Proxy(broker.address)
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        sites.append(Site(broker, proxy))
    return sites
