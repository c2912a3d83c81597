"""Some brokers in a row, which know of each other, and their clients, for tests of contexts."""

from itertools import pairwise
from typing import Any

import godwit.baselines  # noqa: F401 (it has the mode naive)
from godwit.broker.messages import Quench
from godwit.client import Client
from godwit.filters.events import Attributes
from godwit.mobility import Movements
from godwit.testing import Machines, build


class Edge(Machines):
    def __init__(self, brokers: str = "b", movements: Movements | None = None, **config: Any) -> None:
        super().__init__()
        config = {"attach_policies": ("naive",), **config}
        build(self, list(pairwise(brokers)), brokers, movements=movements, **config)
        for who, key in [due for due in self.timers if due[1] == ("brokers",)] * len(brokers):
            if (who, key) in self.timers:  # everybody hears of everybody
                self.fire(who, key)
                self.run()

    def client(self, name: str, at: str = "b", asserted: Attributes | None = None, **config: Any) -> Client:
        """A client that is there; it may be a new one."""
        machine = self.attach(name, at, asserted, **config)
        assert isinstance(machine, Client)
        return machine

    def context_at(self, broker: str, client: str) -> Attributes:
        """What a broker knows of a client."""
        session = self.brokers[broker].sessions.session(client)
        assert session is not None
        known: Attributes = session.whole_context()
        return known

    def quenches(self, client: str) -> list[Quench]:
        return [message for _, who, message in self.told if who == client and isinstance(message, Quench)]
