"""An in-memory network of real brokers and real clients, for tests of programs that use Godwit.

*Theory.* Brokers are the machines and nodes of the runtime, clients are those of `godwit.connect`; they use lists
instead of sockets, a clock that only the test advances, and a journal in memory. So a test needs no ports, no files and
no waiting, and `settled` is exact: it returns when no message is in transit, no broker has inputs to handle and no
client has work to do.

*Rules.*
1. The clock stands still: no timer (an expiry, a retry) is due before `advance`. `now` is the time; it begins at the
   same moment in every network.
2. A message arrives in a later turn of the event loop, in order. Messages in transit on a link or connection that is
   cut are lost; their sender sends them again over the next connection.
3. A broker that crashes loses its memory; `keeps_disk` decides whether its journal is kept.
4. All clients are closed when the network is.
"""

import ssl
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Effect, Notify, Trace
from godwit.broker.messages import NodeId
from godwit.errors import GodwitError, PeerFault
from godwit.filters.events import Event
from godwit.mobility import Movements
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.runtime.authentication import Authenticator, Credentials, LocalAuthenticator
from godwit.runtime.client_transport import Environment, Transport, TransportOwner
from godwit.runtime.clock import Clock
from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.node import Node
from godwit.runtime.tcp import Address
from godwit.testing.broker_factory import NO_PUBLISHERS, Topology, broker, neighbours, topology
from godwit.testing.memory_disk import MemoryJournal, WritesAtOnce
from godwit.testing.memory_wires import ClientWire, LinkEnd, link
from godwit.testing.observations import Recorded
from godwit.testing.virtual_clock import VirtualClock
from godwit.trace import Record

__all__ = ["Arriving", "Network", "network"]

GREETING_S = 1.0  # after this time all brokers of a new network know each other

Pair = tuple[NodeId, NodeId]
Make = Callable[[NodeId, int], Any]
"""Makes a broker's machine, by its name and incarnation."""


class _Broker:
    """A broker, its disk and its connections."""

    def __init__(self, name: NodeId) -> None:
        self.name = name
        self.journal = MemoryJournal()
        self.node: Node | None = None  # None: it has crashed
        self.clients: list[ClientWire] = []


class Arriving:
    """A client to be awaited or entered: `anna = await net.client(…)` or `async with net.client(…) as anna`."""

    def __init__(self, client: NetworkClient, net: "Network") -> None:
        self._client = client
        self._net = net

    def __await__(self) -> Generator[Any, None, NetworkClient]:
        return self._enter().__await__()

    async def _enter(self) -> NetworkClient:
        self._net.clients[self._client.name] = await self._client.__aenter__()
        await self._net.settled()
        return self._client

    async def __aenter__(self) -> NetworkClient:
        return await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)


class Network:
    """Brokers and clients in memory. Made by `network`; the context manager starts and stops it."""

    def __init__(self, links: list[Pair], names: Iterable[NodeId], make: Make, authenticator: Authenticator) -> None:
        self.links = links
        self.trace: list[Recorded] = []  # trace records of brokers and clients
        self.clients: dict[str, NetworkClient] = {}
        self._make = make
        self._authenticator = authenticator
        self._brokers = {name: _Broker(name) for name in names}
        self._ends: dict[Pair, tuple[LinkEnd, LinkEnd]] = {}  # of the links that are there
        self._received: dict[str, list[Event]] = {}
        self._troubles: list[str] = []
        self._connections = 0
        self._clock: VirtualClock

    async def __aenter__(self) -> Self:
        self._clock = VirtualClock()
        for each in self._brokers.values():
            self._start(each)
        for a, b in self.links:
            self.join(a, b)
        await self.settled()
        await self.advance(GREETING_S)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients.values():
            await client.close()
        for each in self._brokers.values():
            if each.node is not None:
                each.node.abandon()
        if kind is None:
            self._raise_trouble()

    # ------------------------------------------------------------ clients

    def client(self, name: str, at: NodeId | tuple[NodeId, ...] = "", **options: Any) -> Arriving:
        """A client at a broker, with the options and the type of `godwit.connect`.

        `at`: the broker, or several, of which the first that is up is used (default: the first of the network).
        """
        seeds = (at,) if isinstance(at, str) else at
        seeds = tuple(seed or next(iter(self._brokers)) for seed in seeds)
        for seed in seeds:
            self._broker(seed)
        received = self._received.setdefault(name, [])

        def watch(effects: list[Effect]) -> None:
            for effect in effects:
                if isinstance(effect, Notify):
                    received.append(effect.event)
                elif isinstance(effect, Trace):
                    self._record(name, effect.record)

        surroundings = Environment(self._clock, self._dial, watch)
        return Arriving(connect(*seeds, name=name, surroundings=surroundings, **options), self)

    async def _dial(self, owner: TransportOwner, name: str, seed: Address, tls: ssl.SSLContext | None) -> Transport:
        """Connect a client to the broker that its address names."""
        each = self._broker(seed.host)
        if each.node is None:
            raise ConnectionRefusedError(f"{seed.host} has crashed")
        intro = owner.intro
        try:
            principal = await self._authenticator.admit(Credentials("", "", intro.user, intro.password, intro.token))
        except PeerFault as fault:
            raise ConnectionAbortedError(0, str(fault)) from None
        if each.node is None:  # it has crashed meanwhile
            raise ConnectionRefusedError(f"{seed.host} has crashed")
        self._connections += 1
        wire = ClientWire(self._clock, owner, name, each.node, f"connection {self._connections}", principal)
        each.clients.append(wire)
        return wire

    def received(self, client: NetworkClient | str) -> list[Event]:
        """All events delivered to a client so far, read by its application or not."""
        return self._received[client if isinstance(client, str) else client.name]

    # ------------------------------------------------------------ links and brokers

    def join(self, a: NodeId, b: NodeId) -> None:
        """Connect two neighbours, if they are not connected and both are up."""
        one, other = self._broker(a), self._broker(b)
        pair = self._pair(a, b)
        ends = self._ends.get(pair)
        if one.node is not None and other.node is not None and (ends is None or not ends[0].is_open):
            self._ends[pair] = link(self._clock, (a, one.node), (b, other.node))

    def cut(self, a: NodeId, b: NodeId) -> None:
        """Break the link between two neighbours, and lose the messages in transit. Both notice."""
        ends = self._ends.pop(self._pair(a, b), None)
        if ends is not None:
            for end in ends:
                end.break_off()

    def _pair(self, a: NodeId, b: NodeId) -> Pair:
        for pair in ((a, b), (b, a)):
            if pair in self.links:
                return pair
        raise GodwitError(f"{a!r} and {b!r} are not neighbours: {', '.join('-'.join(pair) for pair in self.links)}")

    def _broker(self, name: NodeId) -> _Broker:
        if name not in self._brokers:
            raise GodwitError(f"there is no broker {name!r}: {', '.join(self._brokers)}")
        return self._brokers[name]

    def machine(self, name: NodeId) -> Any:
        """The machine of a broker that is up, for inspection."""
        node = self._broker(name).node
        if node is None:
            raise GodwitError(f"broker {name!r} has crashed")
        return node.machine

    def _start(self, each: _Broker) -> None:
        name, journal = each.name, each.journal
        each.node = Node(
            lambda: self._make(name, journal.incarnation),
            journal,
            on_record=lambda record, now: self._record(name, record),
            on_trouble=lambda text: self._troubles.append(f"{name}: {text}"),
            clock=self._clock,
            writer=WritesAtOnce(),
        )

    async def crash(self, name: NodeId, *, keeps_disk: bool = True) -> None:
        """Stop a broker at once, and return when its neighbours and clients have noticed."""
        each = self._broker(name)
        if each.node is None:
            return
        node, each.node = each.node, None
        node.abandon()
        if not keeps_disk:
            each.journal = MemoryJournal(each.journal.incarnation + 1)
        for pair, ends in list(self._ends.items()):
            if name in pair:
                del self._ends[pair]
                for end in ends:
                    if end.name != name:
                        end.break_off()
        for wire in each.clients:
            wire.break_off()
        each.clients.clear()
        await self.settled()

    async def restart(self, name: NodeId) -> None:
        """Start a broker that has crashed, with its links, and return when its clients are back."""
        each = self._broker(name)
        if each.node is not None:
            return
        self._start(each)
        for a, b in self.links:
            if name in (a, b):
                self.join(a, b)
        connected = [wire.owner for other in self._brokers.values() for wire in other.clients if not wire.lost.is_set()]
        for client in self.clients.values():
            if client.state.kind != "closed" and client not in connected:
                await client.move(*client.seeds)  # at once, without waiting for the retry
        await self.settled()

    # ------------------------------------------------------------ time

    @property
    def clock(self) -> Clock:
        """The clock of the network, for a program with timers."""
        return self._clock

    @property
    def now(self) -> float:
        """The time of the network, in seconds since 1970."""
        return self._clock.time()

    async def settled(self) -> None:
        """Wait until no message is in transit and nothing is left to do before the clock advances."""
        while True:
            nodes = [each.node for each in self._brokers.values() if each.node is not None]
            busy = next((node for node in nodes if not node.is_quiet), None)
            at_work = next((client for client in self.clients.values() if not client.is_idle), None)
            if busy is not None:
                await busy.quiet()
            elif self._clock.under_way:
                self._clock.changed.clear()
                await self._clock.changed.wait()
            elif at_work is not None:
                await at_work.idle()
            else:
                self._raise_trouble()
                return

    async def advance(self, seconds: float) -> None:
        """Advance the clock: each timer is called at its time, and the network settles after each."""
        until = self.now + seconds
        await self.settled()
        while self._clock.move(until):
            await self.settled()

    # ------------------------------------------------------------ what was seen

    def _record(self, node: NodeId, record: Record) -> None:
        self.trace.append(Recorded(self.now, node, record))

    def _raise_trouble(self) -> None:
        if self._troubles:
            raise GodwitError(self._troubles.pop())

    def records(self, *kinds: str) -> list[Record]:
        """The records of the trace of some kinds, or all of them."""
        return [each.record for each in self.trace if not kinds or each.record.kind in kinds]


def network(
    brokers: Topology = 1,
    *,
    config: BrokerConfig | None = None,
    movements: Movements | None = None,
    moving: PublisherConfig = NO_PUBLISHERS,
    authenticator: Authenticator | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[Network]:
    """A network of brokers in memory: `async with godwit.testing.network(brokers=3) as net:`.

    `brokers`: a number of them, in a line, named b1, b2, …; `"star 5"`; or links, `"b1-b2 b2-b3"` or pairs of names.
    `settings` are those of `BrokerConfig`, such as `family="graph"`, or `config` is given. `movements` and `moving` are
    the brokers' settings for places and for mobile publishers. `authenticator`: decides which clients may connect
    (default: all).
    """
    links = topology(brokers)
    names = dict.fromkeys(name for pair in links for name in pair) or {"b1": None}
    chosen = config or BrokerConfig(**settings)

    def make(name: NodeId, incarnation: int) -> Any:
        return broker(name, neighbours(name, links), chosen, incarnation, movements=movements, moving=moving)

    return Network(links, names, make, LocalAuthenticator() if authenticator is None else authenticator)
