"""Everything in transit in the network: events on links and in queues, and the sessions that brokers hold.

*Theory.* A message on a wire is also in the outbox or queue of its sender until it is acknowledged; so the messages in
brokers, minus those that the other end has accepted and not acknowledged yet, are everything in transit
(`broker_inspection.py`). A broker that has lost its disk holds nothing.

*Rules.*
1. Nothing here changes a machine.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from godwit.broker.broker import Broker
from godwit.simulator.broker_inspection import (
    early_and_taken,
    events_at_stake,
    events_on_the_way,
    events_queued,
    is_quiet,
    last_taken,
    sessions_at,
    unfinished,
)
from godwit.simulator.ledger import EventId, Ledger
from godwit.simulator.lost_disks import LostDisks
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.scenario import Scenario
from godwit.simulator.world import World

__all__ = ["InFlight"]


class InFlight:
    """The events and sessions that brokers hold, as far as the ledger and the laws need them."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        network: Network,
        population: Population,
        lost_disks: LostDisks,
        ledger: Ledger,
    ) -> None:
        self._world = world
        self._network = network
        self._population = population
        self._lost_disks = lost_disks
        self._ledger = ledger
        self._is_judged = scenario.run.judge
        self._has_copies = scenario.faults.lose_tails
        self._taken_lasts = not scenario.faults.lose_disks  # otherwise what was taken may be sent again

    def events(self) -> list[EventId]:
        """Every event in transit, also on the disk of a broker that is down."""
        found: list[EventId] = []
        if not self._is_judged:
            return found
        for _, broker in self._network.brokers() if self._ledger.facts else ():
            taken = self._taken if self._taken_lasts else _nothing_taken
            found += events_on_the_way(broker, self._network.overlay, taken)
            found += [id for _, id in events_queued(broker, self._other)]
        return [*found, *(id for _, id in self._ledger.died)]  # of these some may be sent again by their source

    def is_quiet(self) -> bool:
        """Whether no control message is in transit, and no broker has lost its memory."""
        overlay = self._network.overlay
        return not self._lost_disks.brokers and all(
            is_quiet(broker, overlay, self._taken) for _, broker in self._network.brokers()
        )

    def clients_at(self, brokers: Iterable[str]) -> dict[str, None]:
        """The clients at one of these brokers, or whose session is there, or in transit from or to one."""
        found: dict[str, None] = {}
        for name in brokers:
            found.update(dict.fromkeys(self._population.clients_at(name)))
            if (broker := self._other(name)) is not None:
                found.update(sessions_at(broker, self._other))
        return found

    # ------------------------------------------------------------ of one broker

    def at_stake(self, name: str) -> dict[EventId, dict[str, None]]:
        """The events that a broker holds, and the brokers that would miss each if it were lost."""
        return events_at_stake(self._network.broker(name), self._network.overlay, self._taken)

    def in_hand(self, name: str) -> dict[EventId, None]:
        """The events that a broker will send or deliver, including repeated ones."""
        broker = self._network.broker(name)
        found = dict.fromkeys(events_on_the_way(broker, self._network.overlay, _nothing_taken))
        return {**found, **dict.fromkeys(id for _, id in self.queued(name))}

    def taken_since(self, name: str, count: int) -> list[Any]:
        """The last inputs of a broker's disk, and earlier messages that were accepted with them."""
        before = cast(Broker, self._world.before_tail(name, count))
        return [*self._world.tail(name, count), *early_and_taken(before, self._network.broker(name))]

    def queued(self, name: str) -> Iterator[tuple[str, EventId]]:
        """Client and event, for all unconfirmed events at a broker."""
        return events_queued(self._network.broker(name), self._other)

    def sessions(self, name: str) -> dict[str, None]:
        """The clients whose session a broker holds."""
        return sessions_at(self._network.broker(name), self._other)

    def unfinished(self, name: str) -> list[str]:
        """Descriptions of everything that a broker has not finished, including unacknowledged messages.

        Except in copies of sessions that went elsewhere. (rule 3 of `final_checks.py`)
        """
        broker = self._network.broker(name)
        homes = self._population.homes
        copies = {session.client for session in broker.sessions if homes.get(session.client, name) != name}
        return unfinished(broker, self._network.overlay, self._other, copies if self._has_copies else ())

    def _taken(self, sender: str, receiver: str) -> int:
        """The number of the last message that a broker has accepted durably from another."""
        node = self._world.nodes[receiver]
        is_safe = receiver not in self._lost_disks.brokers and len(node.journal) == node.durable
        return last_taken(self._network.broker(sender), self._network.broker(receiver)) if is_safe else 0

    def _other(self, name: str) -> Broker | None:
        """The machine of a broker, unless it has lost its memory."""
        return None if name in self._lost_disks.brokers else self._network.broker(name)


def _nothing_taken(_sender: str, _receiver: str) -> int:
    return 0
