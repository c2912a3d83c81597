"""The simulated network: the brokers of an overlay, the links between them, and the wires of clients.

*Theory.* The world knows nodes and wires; the network knows which of them are brokers, clients and links of the
overlay. A link may be held down by several faults at once, and comes back when the last of them ends.

*Rules.*
1. No other module connects or disconnects two brokers.
"""

from collections.abc import Iterator

from godwit.broker.broker import Broker
from godwit.client.client import Client
from godwit.simulator.scenario import OverlaySpec
from godwit.simulator.topologies import Overlay
from godwit.simulator.world import World

__all__ = ["Network"]


class Network:
    """Brokers, links and the wires of clients, in a world."""

    def __init__(self, world: World, overlay: Overlay, spec: OverlaySpec) -> None:
        self.overlay = overlay
        self._world = world
        self._client_latency_s = spec.client_latency_ms / 1_000
        bps = None if spec.client_bandwidth_kbps is None else spec.client_bandwidth_kbps * 1_000
        self._client_bandwidth_bps = bps
        self._held_down: dict[tuple[str, str], int] = {}  # links, by how many faults

    def plan(self) -> None:
        """All links come up when the run begins."""
        for link in self.overlay.links:
            self._world.clock.call_at(0.0, self.connect_link, link.a, link.b)

    # ------------------------------------------------------------ machines

    def broker(self, name: str) -> Broker:
        """The machine of a broker."""
        machine = self._world.nodes[name].machine
        assert isinstance(machine, Broker)
        return machine

    def brokers(self) -> Iterator[tuple[str, Broker]]:
        """All brokers, in the order of the overlay."""
        return ((name, self.broker(name)) for name in self.overlay.brokers)

    def brokers_up(self) -> list[Broker]:
        """The machines of the brokers that run."""
        return [self.broker(name) for name in self.overlay.brokers if self._world.nodes[name].alive]

    def client(self, name: str) -> Client:
        """The machine of a client."""
        machine = self._world.nodes[name].machine
        assert isinstance(machine, Client)
        return machine

    # ------------------------------------------------------------ wires

    def wire_client(self, name: str, broker: str) -> None:
        """Wires between a client and a broker, if there are none yet."""
        if broker not in self._world.nodes[name].wires:
            self._world.wire(name, broker, self._client_latency_s, self._client_bandwidth_bps)

    def connect_link(self, a: str, b: str) -> None:
        """Connect two brokers, unless a fault holds their link down."""
        if self._held_down.get((a, b), 0) == 0 and self._held_down.get((b, a), 0) == 0:
            self._world.connect(a, b)

    def connect_links_of(self, broker: str) -> None:
        """Connect a broker to all its neighbours."""
        for link in self.overlay.links:
            if broker in (link.a, link.b):
                self.connect_link(link.a, link.b)

    def break_link(self, a: str, b: str) -> None:
        """Break a link and hold it down."""
        self._held_down[a, b] = self._held_down.get((a, b), 0) + 1
        self._world.disconnect(a, b)

    def mend_link(self, a: str, b: str) -> None:
        """One of the faults that hold a link down ends."""
        self._held_down[a, b] -= 1
        self.connect_link(a, b)
