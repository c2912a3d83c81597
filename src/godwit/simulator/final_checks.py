"""Final checks: after the last fault everything settles, and after the last client has left nothing remains.

*Rules.*
1. The laws about tables, queues and settling need the brokers and are checked here; all others are in `checkers.py`.
2. A client that misses an event of the lost inputs of a disk is told of a possible loss, by a receipt that has arrived
   or that comes with the next greeting (*losses told*). If the disk does not report the loss, neighbours may not notice
   it: then it is sufficient that the event's publisher is told. If a whole disk is lost, the receipts are lost, too,
   and the law does not apply.
3. After a rollback a disk may have a session again that had moved to another broker. No client resumes that copy: it
   stays until it expires, and only then must nothing remain.
"""

from collections.abc import Iterable, Mapping

from godwit.simulator.broker_inspection import idle_entries, is_answered, is_settled, left_behind
from godwit.simulator.in_flight import InFlight
from godwit.simulator.ledger import EventId
from godwit.simulator.network import Network
from godwit.simulator.network_monitor import NetworkMonitor
from godwit.simulator.population import Population
from godwit.simulator.recorder import Recorder
from godwit.simulator.world import World

__all__ = ["FinalChecks"]

LEAVE_S = 60.0


class FinalChecks:
    """The end of a run."""

    def __init__(
        self,
        world: World,
        network: Network,
        population: Population,
        in_flight: InFlight,
        monitor: NetworkMonitor,
        recorder: Recorder,
    ) -> None:
        self.entries_left = 0
        self._world = world
        self._network = network
        self._population = population
        self._in_flight = in_flight
        self._monitor = monitor
        self._recorder = recorder
        self._told: set[str] = set()

    def note_told(self) -> None:
        """Remember which clients are told of a loss. (rule 2)"""
        for name in self._population.homes:
            receipts = self._network.client(name).receipts
            if any(receipt.session_lost or receipt.lost_since is not None for receipt in receipts):
                self._told.add(name)
        for _, broker in self._network.brokers():
            losses = broker.sessions.losses
            self._told |= {each.client for each in broker.sessions if losses.since(each.losses_heard) is not None}

    def check_told(self, died: Iterable[tuple[str, EventId]], rolled_back: Mapping[EventId, bool]) -> None:
        """Check that clients that miss an event of lost inputs were told. (rule 2)"""
        for client, id in died:
            knows = client in self._told or (not rolled_back.get(id, False) and id[0] in self._told)
            if id in rolled_back and not knows:
                text = f"event {id[1]} of {id[0]} was in lost inputs, and nobody was told"
                self._recorder.violate("losses told", text, client)

    def check_settled(self, when: str) -> None:
        """After the last fault everything settles: nothing is in transit, and all queues are empty."""
        violate = self._recorder.violate
        for name, broker in self._network.brokers():
            left = self._in_flight.unfinished(name)
            if not self._world.nodes[name].alive:
                violate("settles", f"the broker is down after {when}", name)
            elif not is_settled(broker):
                violate("settles", f"its tables have not settled after {when}", name)
            elif left:
                violate("settles", f"{len(left)} still under way after {when}: {left[0]}", name)
        for name in self._population.homes:
            if not is_answered(self._network.client(name)):
                violate("settles", f"requests of the client are unanswered after {when}", name)

    def check_idle_entries(self) -> None:
        """A broker has only subscriptions that match the context of one of its clients. [spcf §3.1.2]"""
        for name, broker in self._network.brokers():
            if idle := idle_entries(broker):
                text = f"{idle} subscriptions ask for none of the contexts here"
                self._recorder.violate("no garbage", text, name)

    def leave(self, copies_expire_s: float | None = None) -> None:
        """Everyone leaves, and the tables must be empty; if sessions are left, `copies_expire_s` later. (rule 3)"""
        for name in self._population.homes:
            self._world.command(name, lambda client, now: client.leave(now))
        self._world.run(self._world.now + LEAVE_S)
        if copies_expire_s is not None and any(len(broker.sessions) for _, broker in self._network.brokers()):
            self._world.run(self._world.now + copies_expire_s)
        self.check_settled("leaving")
        if self._recorder.is_tracing:
            self._monitor.record_tables([broker for _, broker in self._network.brokers()])
        for name, broker in self._network.brokers():
            left = left_behind(broker)
            self.entries_left += sum(left.values())
            if left:
                self._recorder.violate("no garbage", f"after everyone has left: {left}", name)
