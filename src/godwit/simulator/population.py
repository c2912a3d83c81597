"""The population of a run: its clients, the broker of each, and the absent ones.

*Theory.* A client connects for the first time during the warm-up, and makes its first requests. These are made by the
parts that registered in `before_connecting` and `after_connecting`. From then on it may be away, perhaps for several
reasons at once, and reconnects when the last of them ends, perhaps to another broker.

*Rules.*
1. `homes` has the broker of each client, or the one to which it will reconnect. Clients are in the order in which they
   were added.
2. A client that is away for any reason stays disconnected.
"""

from collections.abc import Callable

from godwit.simulator.network import Network
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["Population"]

RETRY_S = 1.0

Hook = Callable[[str], None]
"""Called with the name of a client."""


class Population:
    """All clients and their brokers."""

    def __init__(self, world: World, network: Network, recorder: Recorder, streams: RandomStreams) -> None:
        self.homes: dict[str, str] = {}
        self.away: dict[str, int] = {}  # by how many reasons
        self.publishers: list[str] = []
        self.subscribers: list[str] = []
        self.before_connecting: list[Hook] = []  # the first time
        self.after_connecting: list[Hook] = []  # the first time
        self.on_connected: list[Hook] = []  # each time
        self.on_return: list[Hook] = []  # each time that a client comes back, connected or not
        self._world = world
        self._network = network
        self._streams = streams
        recorder.listen(("closed",), self._on_closed)

    def members(self, who: str) -> list[str]:
        """The publishers and subscribers that a scenario selects by `who`."""
        named = {"subscribers": self.subscribers, "publishers": self.publishers}
        return named.get(who, [*self.publishers, *self.subscribers])

    def clients_at(self, broker: str) -> list[str]:
        """The clients whose home is that broker."""
        return [client for client, home in self.homes.items() if home == broker]

    def plan(self, within_s: float) -> None:
        """Connect all clients within that time, each at its own moment."""
        for name in self.homes:
            at = self._streams.single_use("arrival", name).uniform(0, within_s)
            self._world.clock.call_at(at, self.come, name)

    # ------------------------------------------------------------ coming and going

    def come(self, name: str) -> None:
        """Connect a client for the first time."""
        for prepare in self.before_connecting:
            prepare(name)
        self.reconnect(name)
        for ask in self.after_connecting:
            ask(name)

    def go_away(self, name: str) -> None:
        """A client is away, for one more reason."""
        self.away[name] = self.away.get(name, 0) + 1
        self._world.disconnect(name, self.homes[name])

    def move_away(self, name: str, to: str) -> bool:
        """A client is away, and will reconnect at `to`; returns whether that is another broker. [rebeca §4]"""
        self.go_away(name)
        is_move = self.homes[name] != to
        self.homes[name] = to
        self._network.wire_client(name, to)
        return is_move

    def come_back(self, name: str) -> None:
        """One reason for being away ends."""
        self.away[name] -= 1
        self.reconnect(name)
        for hook in self.on_return:
            hook(name)

    def reconnect(self, name: str) -> None:
        """Connect a client that is not away, if its broker is up."""
        if self.away.get(name, 0) == 0 and self._world.connect(name, self.homes[name]):
            for hook in self.on_connected:
                hook(name)

    def _on_closed(self, node: str, record: Record, now: float) -> None:
        """A client in mode `named` reconnects when a broker has closed its connection."""
        name = record.peer
        is_closed_by_broker = name in self.homes and node not in self.homes and record.detail != "the client has left"
        if is_closed_by_broker and self._network.client(name).config.mode == "named":
            self._world.clock.call_at(now + RETRY_S, self.reconnect, name)
