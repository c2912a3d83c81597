"""What goes wrong on a stage: links that break, brokers that crash, with and without their disk, and so on."""

from typing import Any

from godwit.simulator.broker_inspection import (
    events_at_stake,
    events_queued,
    sessions_at,
)
from godwit.simulator.fault_plan import Fault
from godwit.simulator.fire import Firefighters
from godwit.trace import Record

__all__ = ["Misfortune"]

RECONNECT_S = 0.2


class Misfortune(Firefighters):
    """A stage with people on it, whom bad luck befalls."""

    # ------------------------------------------------------------ faults

    def _set_frame_faults(self, loss: float, duplicate: float, delay: float) -> None:
        delay_s = self.scenario.faults.delay_ms_max / 1_000
        for link in self.overlay.links:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                wire = self.world.nodes[a].wires[b]
                wire.set_faults(loss, duplicate, delay, delay_s, blocked=self.blocked.get((a, b), 0) > 0)

    def _begin(self, fault: Fault, _b: Any, _c: Any) -> None:
        self.fault_counts[fault.kind] = self.fault_counts.get(fault.kind, 0) + 1
        where = fault.where
        match fault.kind:
            case "link_break":
                _count(self.broken, where, 1)
                self.world.disconnect(*where)
            case "partition_one_way":
                _count(self.blocked, where, 1)
                wire = self.world.nodes[where[0]].wires[where[1]]
                wire.blocked = wire.faulty = True
            case "slow_node":
                _count(self.slow, where[0], 1)
                self.world.nodes[where[0]].slow_s = self.scenario.faults.slow_ms / 1_000
            case "crash":
                _count(self.crashed, where[0], 1)
                self.world.crash(where[0], keeps_disk=True)
            case "crash_diskless":
                _count(self.crashed, where[0], 1)
                self._lose_disk(where[0])

    def _end(self, fault: Fault, _b: Any, _c: Any) -> None:
        where = fault.where
        match fault.kind:
            case "link_break":
                _count(self.broken, where, -1)
                self._reconnect_link(where[0], where[1], None)
            case "partition_one_way":
                if _count(self.blocked, where, -1) == 0:
                    wire = self.world.nodes[where[0]].wires[where[1]]
                    wire.set_faults(wire.loss_rate, wire.duplicate_rate, wire.delay_rate, wire.delay_s, blocked=False)
            case "slow_node":
                if _count(self.slow, where[0], -1) == 0:
                    self.world.nodes[where[0]].slow_s = 0.0
            case "crash" | "crash_diskless":
                if _count(self.crashed, where[0], -1) == 0:
                    self._restart(where[0])

    def _lose_disk(self, name: str) -> None:
        """A broker goes down with its disk: write down what dies with it."""
        if not self.world.nodes[name].alive:
            return
        broker = self.broker(name)
        for id, missed_at in events_at_stake(broker, self.overlay, self._taken).items():
            self.ledger.died.update((client, id) for client in self._clients_at(missed_at))
            detail = f"on the way to {', '.join(missed_at)}"
            self._on_record(name, Record("died", publisher=id[0], sequence=id[1], detail=detail), self.world.now)
        for client, id in events_queued(broker, self._other):
            self.ledger.died.add((client, id))
            self._on_record(name, Record("died", client, publisher=id[0], sequence=id[1]), self.world.now)
        in_flight = self._in_flight()
        self.quiet_since = None
        self.without_disk[name] = None
        at_home = [client for client, home in self.homes.items() if home == name]
        for client in dict.fromkeys([*at_home, *sessions_at(broker, self._other)]):
            self.ledger.home_lost(client, self.world.now, in_flight)
            self.unrenewed[client] = None
        self.world.crash(name, keeps_disk=False)

    def _restart(self, name: str) -> None:
        self.world.restart(name)
        self.without_disk.pop(name, None)
        for link in self.overlay.links:
            if name in (link.a, link.b):
                self._reconnect_link(link.a, link.b, None)
        for client, home in self.homes.items():
            if home == name:
                self.world.at(self.world.now + RECONNECT_S, self._reconnect_client, client)

    def _reconnect_link(self, a: str, b: str, _: Any) -> None:
        if self.broken.get((a, b), 0) == 0 and self.broken.get((b, a), 0) == 0:
            self.world.connect(a, b)


def _count(counts: dict[Any, int], key: Any, change: int) -> int:
    counts[key] = counts.get(key, 0) + change
    return counts[key]
