"""Brokers in this process and clients that roam among them, with proxies between, and the simulator's ledger and judge.

Every link goes through a proxy, and so does every client's connection to a broker. What was published and what came is
written into the ledger that the simulator uses, and its checkers say what was lost, doubled or out of order. All
subscriptions stand before the first event, so every event that matches is owed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.mobility.overlay_routes import OverlayRoutes
from godwit.mobility.relocation import Relocation
from godwit.runtime import client_transport, reconnecting, tcp
from godwit.runtime.connecting import connect
from godwit.runtime.journal import Journal
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.node import Machine, Node
from godwit.runtime.tcp import Address, NativeServer
from godwit.simulator.checkers import Verdict, judge
from godwit.simulator.ledger import Ledger
from godwit.trace import Record
from tests.network.proxy import Proxy
from tests.network.waiting import PATIENCE_S, until

__all__ = ["CHAIN", "Book", "Fleet", "Station", "fleet", "hasten"]

CHAIN = (("b0", "b1"), ("b1", "b2"), ("b2", "b3"))


def hasten(monkeypatch: Any) -> None:
    """Find out sooner that a peer is silent, and dial sooner: real networks have more time than tests."""
    for module in (tcp, client_transport):
        monkeypatch.setattr(module, "BEAT_S", 0.25)
        monkeypatch.setattr(module, "SILENCE_S", 2.0)
    monkeypatch.setattr(tcp, "INTRO_S", 2.0)
    monkeypatch.setattr(tcp, "REDIAL_MAX_S", 0.25)
    monkeypatch.setattr(reconnecting, "RETRY_MAX_S", 0.25)


class Book:
    """The ledger of a run on real time, and who listens."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.came = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def listen(self, client: NetworkClient, filter: str, name: str = "all") -> None:
        """Subscribe, and write down all that comes."""
        who = client.machine.name
        self.ledger.asked("subscription", who, name, parse(filter), self.now(), ())
        subscription = await client.subscribe(filter, name=name)

        async def read() -> None:
            async for event in subscription:
                self.ledger.delivered(who, event.id, (name,), self.now())
                self.came.set()

        self._tasks.append(asyncio.create_task(read()))

    def settled(self) -> None:
        """All that was asked for so far stands everywhere."""
        self.ledger.settled(self.now(), lambda client: True)

    def publish(self, client: NetworkClient, attributes: Mapping[str, Any]) -> None:
        client.publish(attributes)
        event = client.machine.unanswered()[-1]
        self.ledger.published(event, self.now())
        self.ledger.entered(event.id, self.now())

    def count(self, client: str) -> int:
        return len(self.ledger.deliveries.get(client, ()))

    async def finished(self, publishers: Iterable[NetworkClient], wanted: int, patience_s: float = PATIENCE_S) -> None:
        """Publish a last event from each, and wait until so many clients have had all of them.

        Events of a publisher come in order, so whatever was published before has come by then, or never will.
        """
        last = []
        for publisher in publishers:
            self.publish(publisher, {"n": -1, "last": True})
            last.append(publisher.machine.unanswered()[-1].id)

        def lacking() -> list[Any]:
            got = [{id for _, id, _ in each} for each in self.ledger.deliveries.values()]
            return [id for id in last if sum(id in ids for ids in got) < wanted]

        try:
            async with asyncio.timeout(patience_s):
                while lacking():
                    self.came.clear()
                    await self.came.wait()
        except TimeoutError:
            raise AssertionError(f"the last events {lacking()} have not come to all {wanted} clients") from None

    def verdict(self) -> Verdict:
        return judge(self.ledger, advertised=False)

    def check(self) -> None:
        """Nothing lost, nothing twice, nothing out of order, nothing unwanted."""
        verdict = self.verdict()
        assert not verdict.violations, "\n".join(f"{v.law}: {v.text} ({v.node})" for v in verdict.violations[:10])
        assert verdict.owed > 0

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Station:
    """A broker, and the proxy that clients come in by."""

    def __init__(self, name: str, make: Callable[[], Machine], folder: Path | None, durability: Any) -> None:
        self.name, self.make, self.folder, self.durability = name, make, folder, durability
        self.peers: dict[str, Address | None] = {}
        self.port = 0
        self.is_up = False
        self.troubles: list[str] = []
        self.records: Counter[str] = Counter()  # of the trace, by kind

    async def start(self) -> None:
        journal = None if self.folder is None else Journal(self.folder / self.name, self.name, self.durability)
        self.node = Node(self.make, journal, on_record=self._on_record, on_trouble=self.troubles.append)
        self.server = NativeServer(self.name, self.node, self.peers)
        self.address = await self.server.listen("127.0.0.1", self.port)
        self.port = self.address.port
        self.server.dial_all()
        self.is_up = True

    def _on_record(self, record: Record, now: float) -> None:
        self.records[record.kind] += 1

    @property
    def machine(self) -> Broker:
        assert isinstance(self.node.machine, Broker)
        return self.node.machine

    async def stop(self) -> None:
        if self.is_up:
            self.is_up = False
            await self.server.close()
            await self.node.close()


class Fleet:
    """All brokers of a run, by name."""

    def __init__(self) -> None:
        self.stations: dict[str, Station] = {}
        self.doors: dict[str, Proxy] = {}  # by broker: where clients come in
        self.links: dict[tuple[str, str], Proxy] = {}  # the first of the pair dials the second
        self.clients: dict[str, NetworkClient] = {}
        self.book = Book()

    def door(self, broker: str) -> Address:
        return self.doors[broker].address

    async def come(self, name: str, broker: str, **more: Any) -> NetworkClient:
        client = connect(self.door(broker), name=name, **more)
        self.clients[name] = client
        await client.__aenter__()
        await client.attached()
        return client

    async def roam(self, name: str, broker: str) -> None:
        await self.clients[name].move(self.door(broker))

    async def linked(self) -> None:
        """Until all brokers know all that the others know."""
        machines = [station.machine for station in self.stations.values()]
        await until(
            lambda: all(
                each.routing.is_settled() and all(link.open for link in each.links.values()) for each in machines
            ),
            "all links are open",
        )

    async def quiet(self) -> None:
        """Until no broker has anything for another one, and no session is on its way."""

        def is_quiet() -> bool:
            for station in self.stations.values():
                machine = station.machine
                if (
                    any(link.outbox for link in machine.links.values())
                    or machine.component(Relocation).arrivals
                    or machine.component(OverlayRoutes).held
                ):
                    return False
                if not machine.routing.is_settled() or not station.node.is_quiet:
                    return False
            return True

        await until(is_quiet, "nothing is under way between brokers")

    async def settled(self) -> None:
        """Until what was asked for so far stands everywhere."""
        await self.quiet()
        self.book.settled()

    def recorded(self, kind: str) -> int:
        """How often brokers have said that."""
        return sum(station.records[kind] for station in self.stations.values())

    def heal(self) -> None:
        for proxy in (*self.links.values(), *self.doors.values()):
            proxy.heal()

    async def close(self) -> None:
        await self.book.close()
        for client in self.clients.values():
            await client.close()
        for proxy in (*self.links.values(), *self.doors.values()):
            await proxy.stop()
        for station in self.stations.values():
            await station.stop()


@asynccontextmanager
async def fleet(
    links: Iterable[tuple[str, str]] = CHAIN,
    folder: Path | None = None,
    durability: str = "relaxed",
    config: BrokerConfig = BrokerConfig(),  # noqa: B008 (it is frozen)
    makes: Mapping[str, Callable[[], Machine]] | None = None,
) -> AsyncIterator[Fleet]:
    """Brokers with these links, each behind proxies, ready for clients."""
    every = Fleet()
    pairs = list(links)
    beside: dict[str, dict[str, float]] = {name: {} for pair in pairs for name in pair}
    for a, b in pairs:
        beside[a][b] = beside[b][a] = 1.0

    def maker(name: str) -> Callable[[], Machine]:
        return lambda: mobile_broker(name, beside[name], config)

    try:
        for name, neighbours in beside.items():
            make = maker(name) if makes is None else makes[name]
            station = every.stations[name] = Station(name, make, folder, durability)
            station.peers = dict.fromkeys(neighbours)
            await station.start()
            door = every.doors[name] = Proxy(station.address)
            await door.start()
        for a, b in pairs:
            proxy = every.links[a, b] = Proxy(every.stations[b].address)
            station = every.stations[a]
            station.peers[b] = station.server.neighbours[b] = await proxy.start()
            station.server.dial_all()
        await every.linked()
        yield every
    finally:
        await every.close()
