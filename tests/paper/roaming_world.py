"""A small network of mobile brokers on virtual time, and clients that a test moves about."""

from functools import partial
from typing import Any

from godwit.broker.config import BrokerConfig
from godwit.broker.effects import Effect, Notify
from godwit.client.client import Client, ClientConfig
from godwit.filters.language import parse
from godwit.mobility import Movements, mobile_broker
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.simulator.world import World
from godwit.trace import Record

LATENCY_S = 0.01


class Roaming:
    """Brokers joined by `edges`, such as `"B1-B2 B2-B3"`; what clients get, in order; what is recorded."""

    def __init__(
        self,
        edges: str,
        movements: Movements | None = None,
        moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
        **config: Any,
    ) -> None:
        self.world = World(seed=1)
        pairs = [tuple(edge.split("-")) for edge in edges.split()]
        beside: dict[str, dict[str, float]] = {}
        for a, b in pairs:
            beside.setdefault(a, {})[b] = 1.0
            beside.setdefault(b, {})[a] = 1.0
        for name, neighbours in beside.items():
            make = partial(mobile_broker, name, neighbours, BrokerConfig(**config), movements=movements, moving=moving)
            self.world.add_broker(name, make, journaled=True)
        for a, b in pairs:
            self.world.wire(a, b, LATENCY_S, None)
            self.world.connect(a, b)
        self.got: dict[str, list[tuple[str, int]]] = {}
        self.times: dict[str, list[tuple[float, float]]] = {}  # published and delivered
        self.records: list[tuple[str, Record]] = []
        self.world.on_notify = self._on_notify
        self.world.on_record = lambda node, record, _: self.records.append((node, record))
        self.at: dict[str, str | None] = {}
        self.settle()

    def _on_notify(self, client: str, notify: Notify, now: float) -> None:
        self.got.setdefault(client, []).append(notify.event.id)
        self.times.setdefault(client, []).append((notify.event.published_at or 0.0, now))

    def broker(self, name: str) -> Broker:
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Broker)
        return machine

    def client(self, name: str) -> Client:
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Client)
        return machine

    def come(self, client: str, broker: str, mode: str = "relocate") -> None:
        """The client turns up at a broker, without a word to the one before. How it moves is said the first time."""
        if client not in self.world.nodes:
            self.world.add_client(client, Client(client, ClientConfig(mode=mode)))
        self.go(client)
        if broker not in self.world.nodes[client].wires:
            self.world.wire(client, broker, LATENCY_S, None)
        self.world.connect(client, broker)
        self.at[client] = broker

    def go(self, client: str) -> None:
        """The client is out of reach."""
        before = self.at.get(client)
        if before is not None:
            self.world.disconnect(client, before)
        self.at[client] = None

    def say_move_out(self, client: str) -> None:
        """The client says that it goes, and waits until its broker has heard it."""
        self.world.command(client, lambda machine, now: machine.move_out(now))
        self.run(4 * LATENCY_S)

    def subscribe(self, client: str, text: str = "x >= 0", name: str = "F") -> None:
        self.world.command(client, lambda machine, now: machine.subscribe(name, parse(text), now))

    def advertise(self, client: str, text: str = "x >= 0") -> None:
        self.world.command(client, lambda machine, now: machine.advertise("all", parse(text), now))

    def publish(self, client: str, *values: int) -> None:
        for value in values:
            self.world.command(client, partial(_said, value))

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def settle(self) -> None:
        self.run(5.0)

    def numbers(self, client: str, publisher: str) -> list[int]:
        """The sequence numbers of one publisher's events, as the client got them."""
        return [sequence for who, sequence in self.got.get(client, []) if who == publisher]

    def holds_nothing_of(self, broker: str, client: str) -> bool:
        """Whether a broker keeps no entry, session or queue of a client."""
        machine = self.broker(broker)
        routing: Any = machine.routing
        if machine.graph is not None:
            tables: list[dict[Any, Any]] = [routing.local]
        else:
            tables = [routing.in_subs[""], routing.in_ads[""], routing.followed[""]]
        entries = [id for table in tables for id in table if id[0] == client]
        waits = [
            *machine.leaving,
            *machine.arrivals,
            *machine.collecting,
            *machine.publishers,
            *machine.holdings,
            *machine.predicted,
            *(key[0] for key in machine.flushed),
        ]
        return not entries and machine.sessions.session(client) is None and client not in waits


def _said(value: int, machine: Client, now: float) -> list[Effect]:
    return machine.publish({"x": value}, now)
