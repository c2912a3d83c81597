"""The network monitor: checks at regular intervals whether everything is quiet, and the sizes of queues and tables.

*Theory.* A request has *settled* when its broker has answered it and no control message is in transit anywhere
(`ledger.py`). The monitor checks ten times a simulated second. When nothing was in transit for the round-trip time to a
client, all requests so far have settled.

*Rules.*
1. Every record of a changed table, and every lost disk, ends the quiet time.
2. In a run without checks, the monitor only records the sizes of tables, once a second, and only for a trace.
"""

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.simulator.broker_inspection import entries_in, is_answered, queue_lengths, table_sizes
from godwit.simulator.in_flight import InFlight
from godwit.simulator.ledger import Ledger
from godwit.simulator.lost_disks import LostDisks
from godwit.simulator.network import Network
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import Scenario
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["NetworkMonitor"]

INTERVAL_S = 0.1
UNJUDGED_INTERVAL_S = 1.0
CHANGES = ("subscribed", "unsubscribed", "advertised", "unadvertised", "relocated", "session_ended", "moved")
"""Records of what changes tables."""


class NetworkMonitor:
    """Watches the brokers of a run."""

    def __init__(
        self,
        scenario: Scenario,
        config: BrokerConfig,
        world: World,
        network: Network,
        in_flight: InFlight,
        lost_disks: LostDisks,
        ledger: Ledger,
        recorder: Recorder,
    ) -> None:
        self.queue_max: dict[str, int] = {}  # by kind of queue, the longest that one of them ever was
        self.table_entries_max = 0
        self._is_judged = scenario.run.judge
        self._ends_s = scenario.ends_s
        self._round_trip_s = 2 * scenario.overlay.client_latency_ms / 1_000
        self._bounds = {"session": config.limits.queue_events_max, "outbox": config.link.outbox_max}
        self._world = world
        self._network = network
        self._in_flight = in_flight
        self._lost_disks = lost_disks
        self._ledger = ledger
        self._recorder = recorder
        self._quiet_since: float | None = None
        self._table_sizes: dict[tuple[str, str], int] = {}  # as last recorded
        self._exceeded = False
        recorder.listen(CHANGES, self._on_change)

    def plan(self) -> None:
        """Begin to look."""
        self._world.clock.call_at(INTERVAL_S, self._look)

    def end_quiet(self) -> None:
        """Something has changed: nothing has settled since."""
        self._quiet_since = None

    def _on_change(self, _node: str, _record: Record, _now: float) -> None:
        self._quiet_since = None

    def _look(self) -> None:
        brokers = self._network.brokers_up()
        if self._is_judged:
            self._measure(brokers)
        if self._recorder.is_tracing:
            self.record_tables(brokers)
        if self._is_judged and self._ledger.unsettled:
            self._settle()
        if self._world.now < self._ends_s:
            interval_s = INTERVAL_S if self._is_judged else UNJUDGED_INTERVAL_S
            self._world.clock.call_at(self._world.now + interval_s, self._look)

    def _measure(self, brokers: list[Broker]) -> None:
        """Check the sizes of queues and tables."""
        self.table_entries_max = max(self.table_entries_max, sum(map(entries_in, brokers)))
        for queue, length in queue_lengths(brokers).items():
            self.queue_max[queue] = max(self.queue_max.get(queue, 0), length)
            bound = self._bounds[queue]
            if length > bound and not self._exceeded:
                self._exceeded = True
                text = f"{length} messages in the queue of a {queue}, {bound} are allowed"
                self._recorder.violate("queues bounded", text, "")

    def _settle(self) -> None:
        """Check whether all requests so far have settled."""
        now = self._world.now
        if not self._in_flight.is_quiet():
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since >= self._round_trip_s:  # by now, messages to clients have arrived
            self._lost_disks.forget_clients(lambda name: self._network.client(name).is_attached)
            self._ledger.settled(now, self._is_answered)
            self._recorder.record("", Record("settled"))

    def _is_answered(self, name: str) -> bool:
        return name not in self._lost_disks.clients and is_answered(self._network.client(name))

    def record_tables(self, brokers: list[Broker]) -> None:
        """Record which tables have grown or shrunk."""
        for broker in brokers:
            for table, size in table_sizes(broker).items():
                if self._table_sizes.get((broker.name, table), 0) != size:
                    self._table_sizes[broker.name, table] = size
                    self._recorder.record(broker.name, Record("table", number=size, detail=table))
