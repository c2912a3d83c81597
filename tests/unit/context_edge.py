"""Clients at border brokers, for tests of contexts: what is under way waits until a test lets it arrive."""

import itertools
from collections import deque
from typing import Any

from godwit.broker.config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    LinkUp,
    Notify,
    Opened,
    Send,
    StartTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.messages import Quench
from godwit.client import Client, ClientConfig
from godwit.filters.events import Attributes, Event
from godwit.mobility import Movements, mobile_broker
from godwit.trace import Record

STEPS_MAX = 100_000


class Edge:
    """Some mobile brokers in a row, and their clients. A client's connection bears its name."""

    def __init__(self, brokers: str = "b", movements: Movements | None = None, **config: Any) -> None:
        self.config = BrokerConfig(**config)
        beside: dict[str, dict[str, float]] = {name: {} for name in brokers}
        for one, other in itertools.pairwise(brokers):
            beside[one][other] = beside[other][one] = 1.0
        self.brokers = {
            name: mobile_broker(name, neighbours, self.config, movements=movements)
            for name, neighbours in beside.items()
        }
        self.clients: dict[str, Client] = {}
        self.at: dict[str, str] = {}
        self.now = 0.0
        self.pending: deque[tuple[str, Any]] = deque()  # to whom, and which input
        self.got: list[tuple[str, Event]] = []
        self.told: list[tuple[str, Any]] = []  # to clients
        self.records: list[Record] = []
        self.timers: dict[tuple[str, Any], float] = {}
        for one, neighbours in beside.items():
            self.pending += [(one, LinkUp(other)) for other in neighbours]
        self.settle()
        for who, key in [due for due in self.timers if due[1] == ("brokers",)] * len(brokers):
            self.due(who, key)  # everybody hears of everybody

    def client(self, name: str, at: str = "b", asserted: Attributes | None = None, **config: Any) -> Client:
        """A client that is there; it may be a new one."""
        if name not in self.clients:
            self.clients[name] = Client(name, ClientConfig(**config))
        if name in self.at:
            self.go(name)
        self.arrive(name, at, asserted or {})
        self.settle()
        return self.clients[name]

    def arrive(self, name: str, at: str, asserted: Attributes) -> None:
        """A client connects, and what it says is under way."""
        self.at[name] = at
        self.take(at, self.brokers[at].handle(Opened(name, asserted), self.now))
        self.take(name, self.clients[name].handle(Opened(at), self.now))

    def go(self, name: str) -> None:
        """The connection of a client breaks, with whatever is under way on it."""
        at = self.at.pop(name)
        lost = [
            (to, input) for to, input in self.pending if isinstance(input, Heard) and name in (to, input.connection)
        ]
        self.pending = deque(each for each in self.pending if each not in lost)
        self.take(at, self.brokers[at].handle(Closed(name), self.now))
        self.take(name, self.clients[name].handle(Closed(at), self.now))

    def do(self, name: str, effects: list[Effect]) -> None:
        """What a client asks for, and all that follows."""
        self.take(name, effects)
        self.settle()

    def take(self, who: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer=peer, frame=frame):
                    self.pending.append((peer, Arrived(who, frame)))
                case Tell(connection=connection, message=message) if who in self.clients:
                    self.pending.append((connection, Heard(who, message)))
                case Tell(connection=connection, message=message):
                    self.told.append((connection, message))
                    self.pending.append((connection, Heard(who, message)))
                case Close(peer=peer) if who in self.brokers and self.at.get(peer) == who:
                    self.pending.append((peer, Closed(who)))
                case Notify(event=event):
                    self.got.append((who, event))
                case Trace(record=record):
                    self.records.append(record)
                case StartTimer(key=key, at=at):
                    self.timers[who, key] = at

    def step(self) -> None:
        """The oldest thing under way arrives."""
        to, input = self.pending.popleft()
        machine = self.clients.get(to) or self.brokers[to]
        if isinstance(input, Heard) and to in self.clients and self.at.get(to) != input.connection:
            return
        if isinstance(input, Heard) and to in self.brokers and self.at.get(input.connection) != to:
            return
        if isinstance(input, Closed):
            del self.at[to]
        self.take(to, machine.handle(input, self.now))

    def settle(self) -> None:
        """Everything arrives; no time passes."""
        for _ in range(STEPS_MAX):
            if not self.pending:
                return
            self.step()
        raise AssertionError("it never ends")

    def due(self, who: str, key: Any) -> None:
        """A timer of a machine comes due."""
        self.now = max(self.now, self.timers[who, key])
        machine = self.clients.get(who) or self.brokers[who]
        self.do(who, machine.handle(TimerDue(key), self.now))

    def context_at(self, broker: str, client: str) -> Attributes:
        """What a broker knows of a client."""
        session = self.brokers[broker].sessions.session(client)
        assert session is not None
        return session.whole_context()

    def ids(self, client: str) -> list[tuple[str, int]]:
        return [event.id for who, event in self.got if who == client]

    def kinds(self, kind: str) -> list[Record]:
        return [record for record in self.records if record.kind == kind]

    def quenches(self, client: str) -> list[Quench]:
        return [message for who, message in self.told if who == client and isinstance(message, Quench)]
