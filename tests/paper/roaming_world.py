"""A small network of mobile brokers on virtual time, and clients that a test moves about."""

from functools import partial
from typing import Any

import godwit.baselines  # noqa: F401 (it has the mode naive)
from godwit.broker.broker import Broker
from godwit.broker.effects import Effect
from godwit.broker.graph import GraphRouting
from godwit.client.client import Client
from godwit.filters.language import parse
from godwit.mobility import Movements
from godwit.mobility.attach_policies.carry import CarryPolicy
from godwit.mobility.publisher_presence import PublisherConfig, PublisherPresence
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from godwit.testing import Machines, build

LATENCY_S = 0.01


class Roaming(Machines):
    """Brokers joined by `edges`, such as `"B1-B2 B2-B3"`; what clients get, in order; what is recorded."""

    def __init__(
        self,
        edges: str,
        movements: Movements | None = None,
        moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
        **config: Any,
    ) -> None:
        super().__init__(latency_s=LATENCY_S)
        build(self, edges, movements=movements, moving=moving, attach_policies=("naive",), **config)
        self.settle()

    def broker(self, name: str) -> Broker:
        machine = self.brokers[name]
        assert isinstance(machine, Broker)
        return machine

    def client(self, name: str) -> Client:
        machine = self.clients[name]
        assert isinstance(machine, Client)
        return machine

    def come(self, client: str, broker: str, mode: str = "relocate") -> None:
        """The client turns up at a broker, without a word to the one before. How it moves is said the first time."""
        self.arrive(client, broker, mode=mode)

    def say_move_out(self, client: str) -> None:
        """The client says that it goes, and waits until its broker has heard it."""
        self.command(client, lambda machine, now: machine.move_out(now))
        self.pass_time(4 * LATENCY_S)

    def subscribe(self, client: str, text: str = "x >= 0", name: str = "F") -> None:
        self.command(client, lambda machine, now: machine.subscribe(name, parse(text), now))

    def advertise(self, client: str, text: str = "x >= 0") -> None:
        self.command(client, lambda machine, now: machine.advertise("all", parse(text), now))

    def publish(self, client: str, *values: int) -> None:
        for value in values:
            self.command(client, partial(_said, value))

    def settle(self) -> None:
        self.pass_time(5.0)

    def numbers(self, client: str, publisher: str) -> list[int]:
        """The sequence numbers of one publisher's events, as the client got them."""
        return [sequence for who, sequence in self.notified(client) if who == publisher]

    def times(self, client: str) -> list[tuple[float, float]]:
        """When the events that the client got were published, and when they came."""
        return [(each.event.published_at or 0.0, each.at) for each in self.notifications if each.client == client]

    def holds_nothing_of(self, broker: str, client: str) -> bool:
        """Whether a broker keeps no entry, session or queue of a client."""
        machine = self.broker(broker)
        routing: Any = machine.routing
        barrier = machine.component(Relocation).barrier
        if isinstance(routing, GraphRouting):
            tables: list[dict[Any, Any]] = [routing.local]
        else:
            tables = [routing.in_subs[""], routing.in_ads[""], routing.further.followed[""]]
        entries = [id for table in tables for id in table if id[0] == client]
        waits = [
            *(barrier.departing if isinstance(barrier, GraphBarrier) else ()),
            *machine.component(Relocation).arrivals,
            *machine.component(CarryPolicy).collecting,
            *machine.component(PublisherPresence).publishers,
            *machine.component(PublisherPresence).holdings,
            *machine.component(PublisherPresence).predicted,
            *(key[0] for key in (barrier.flushed if isinstance(barrier, GraphBarrier) else ())),
        ]
        return not entries and machine.sessions.session(client) is None and client not in waits


def _said(value: int, machine: Client, now: float) -> list[Effect]:
    return machine.publish({"x": value}, now)


def check_that_a_lost_trail_is_found(roam: Roaming) -> None:
    """The session went from B6 to B1, the client never heard of that, and B6 forgot where it went."""
    roam.leave("C")
    roam.publish("P", 1, 2)
    roam.settle()
    roam.come("C", "B1")
    roam.pass_time(0.015)  # it has greeted B1
    roam.leave("C")
    roam.settle()
    assert roam.broker("B1").sessions.session("C") is not None
    roam.crash("B6", keeps_disk=False)
    roam.restart("B6")
    roam.join("B5", "B6")
    roam.settle()
    roam.come("C", "B3")
    roam.settle()
    assert roam.numbers("C", "P") == [1, 2]
    assert not roam.client("C").receipts[-1].session_lost
    assert roam.holds_nothing_of("B1", "C")
