"""The population of a run: which clients there are, at which broker each is, and who of them is away.

*Theory.* A client comes once, during the warm-up: it prepares, connects, and makes its first requests. What these are
is for the parts that know the client: they register in `before_connecting` and `after_connecting`. From then on
it may be away, perhaps for several reasons at once, and is back when the last of them is over; it may come back
elsewhere.

*Rules.*
1. `homes` has the broker at which each client is, or will be when it comes back. Clients are in the order in which they
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
    """All clients, and where they are."""

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
        """Those of the publishers and subscribers that a scenario means by `who`."""
        named = {"subscribers": self.subscribers, "publishers": self.publishers}
        return named.get(who, [*self.publishers, *self.subscribers])

    def clients_at(self, broker: str) -> list[str]:
        """The clients whose home is that broker."""
        return [client for client, home in self.homes.items() if home == broker]

    def plan(self, within_s: float) -> None:
        """All clients come, each at its own time, within that time."""
        for name in self.homes:
            at = self._streams.single_use("arrival", name).uniform(0, within_s)
            self._world.clock.call_at(at, self.come, name)

    # ------------------------------------------------------------ coming and going

    def come(self, name: str) -> None:
        """A client comes for the first time."""
        for prepare in self.before_connecting:
            prepare(name)
        self.reconnect(name)
        for ask in self.after_connecting:
            ask(name)

    def go_away(self, name: str) -> None:
        """A client is away, for one reason more."""
        self.away[name] = self.away.get(name, 0) + 1
        self._world.disconnect(name, self.homes[name])

    def move_away(self, name: str, to: str) -> bool:
        """A client is away, and will come back at `to`; whether that is another broker. [rebeca §4]"""
        self.go_away(name)
        is_move = self.homes[name] != to
        self.homes[name] = to
        self._network.wire_client(name, to)
        return is_move

    def come_back(self, name: str) -> None:
        """One reason for being away is over."""
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
        """A client that is known by its name alone tries again when a broker has closed its connection."""
        name = record.peer
        is_closed_by_broker = name in self.homes and node not in self.homes and record.detail != "the client has left"
        if is_closed_by_broker and self._network.client(name).config.mode == "named":
            self._world.clock.call_at(now + RETRY_S, self.reconnect, name)
