"""Updates of the ledger from the records of brokers and clients.

*Theory.* The ledger gets entries, losses and renewed sessions from records. Some depend on other facts: a record of a
loss is excused by a lost disk, and is a violation otherwise.

*Rules.*
1. A client whose mode begins a session with each connection has lost all requests when it connects, and has sent them
   again.
"""

from godwit.broker.effects import Notify
from godwit.broker.lost_tail import LOST_TAIL
from godwit.simulator.client_requests import ClientRequests
from godwit.simulator.in_flight import InFlight
from godwit.simulator.ledger import Dropped, EventId, Ledger
from godwit.simulator.lost_disks import LostDisks
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.recorder import Recorder
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["LedgerUpdates"]

MARGIN_S = 1.0  # a client that learns of a lost session this late may leave out an expired subscription


class LedgerUpdates:
    """Keeps a ledger up to date while a run goes on."""

    def __init__(
        self,
        world: World,
        network: Network,
        population: Population,
        requests: ClientRequests,
        in_flight: InFlight,
        lost_disks: LostDisks,
        ledger: Ledger,
        recorder: Recorder,
    ) -> None:
        self.out_of_context = 0
        self.not_addressed = 0
        self._world = world
        self._network = network
        self._homes = population.homes
        self._requests = requests
        self._in_flight = in_flight
        self._lost_disks = lost_disks
        self._ledger = ledger
        self._recorder = recorder
        recorder.listen(
            (
                "published",
                "out_of_context",
                "not_addressed",
                "purged",
                "expired",
                "quenched",
                "refused",
                "lost",
                "suppressed",
                "session_ended",
                "relocated",
                "closed",
            ),
            self._on_record,
        )
        recorder.listen_to_deliveries(self._on_delivery)
        population.on_connected.append(self._on_connected)

    def _on_delivery(self, client: str, notify: Notify, now: float) -> None:
        self._ledger.delivered(client, notify.event.id, notify.subscriptions, now)

    def _on_record(self, node: str, record: Record, now: float) -> None:
        ledger, id = self._ledger, (record.publisher, record.sequence)
        match record.kind:
            case "published":
                ledger.entered(id, now)
            case "out_of_context":
                self.out_of_context += 1
            case "not_addressed":
                self.not_addressed += 1
            case "purged" | "expired":
                ledger.gone[record.peer, id] = record.kind
            case "quenched":
                ledger.dropped[id] = (self._why_quenched(node), now)
            case "refused":
                ledger.dropped[id] = ("refused", now)
            case "lost":
                self._on_lost(node, record, id)
            case "suppressed" if node in self._homes:
                if self._lost_disks.has_lost_any or self._begins_sessions(record.publisher):
                    ledger.overtaken.add((node, id))
            case "session_ended" if self._begins_sessions(record.peer):  # it asks for everything again elsewhere
                if self._network.client(record.peer).connection is None or self._homes[record.peer] == node:
                    ledger.home_lost(record.peer, now, self._in_flight.events())
            case "relocated" if record.peer in self._lost_disks.clients:  # what the client had asked for stands again
                ledger.home_renewed(record.peer, now, self._in_flight.events())
            case "closed":
                brokers = self._network.overlay.brokers
                if record.peer in brokers and node in brokers and record.detail != LOST_TAIL:
                    text = f"closed the link to {record.peer}: {record.detail}"
                    self._recorder.violate("nobody at fault", text, node)

    def _why_quenched(self, publisher: str) -> Dropped:
        """Whether it knew that nobody wants the event, had no room for it, or dropped it too early. [mobile §3.2]"""
        client = self._network.client(publisher)
        if not client.is_attached and client.outbox.events >= client.config.buffer_events_max:
            return "discarded"
        return "not buffered" if client.connection is None else "quenched"

    def _on_lost(self, node: str, record: Record, id: EventId) -> None:
        """A recorded loss: of a client's buffer, of a session's queue, or of a broker."""
        if node in self._homes:
            self._ledger.dropped[id] = ("lost", self._world.now)
        elif record.peer in self._homes:
            self._ledger.gone[record.peer, id] = "lost"
        elif (
            self._lost_disks.has_lost_any
        ):  # a message of an earlier incarnation of its broker arrived after the next one began
            self._ledger.died.update((client, id) for client in self._in_flight.clients_at([node]))
        else:
            self._recorder.violate("nothing lost", f"event {id} given up: {record.detail}", node)

    def _on_connected(self, name: str) -> None:
        ledger, now = self._ledger, self._world.now
        ledger.connected(name, now)
        if self._begins_sessions(name):
            ledger.home_lost(name, now, self._in_flight.events())  # unless the record of its last broker came first
            ledger.home_renewed(name, now, self._in_flight.events())
        soon = now + self._world.nodes[name].skew_s + MARGIN_S
        if self._lost_disks.has_lost_any:
            self._requests.end_expired(name, soon)
        if name in self._lost_disks.clients:
            over = self._requests.expired_by(name, soon)
            ledger.home_renewed(name, now, self._in_flight.events(), besides=over)

    def _begins_sessions(self, name: str) -> bool:
        """Whether each connection of this client begins a session (mobility/publisher_presence.py)."""
        mode = self._ledger.modes.get(name)
        return mode is not None and mode.for_publishers
