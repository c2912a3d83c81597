"""Brokers and clients joined by connections that lose nothing, for tests: everything happens at once and in order.

No time passes unless a test asks for it; what is under way is delivered first in, first out, connection by connection.
"""

import msgspec

from godwit.broker.broker import Broker
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
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Frame, Message, NodeId, Publish
from godwit.client import Client, ClientConfig
from godwit.trace import Record

STEPS_MAX = 100_000


class BrokerNetwork:
    """`links` are pairs of one-letter names of brokers; a client's connection bears its name."""

    def __init__(self, links: list[str], names: str = "", **options: object) -> None:
        self.links = [(pair[0], pair[1]) for pair in links]
        self.names = sorted({*names, *"".join(links)})
        self.config = msgspec.convert(options, BrokerConfig)
        self.brokers = {
            name: Broker(name, dict.fromkeys(self.neighbours(name), 1.0), self.config) for name in self.names
        }
        self.clients: dict[NodeId, Client] = {}
        self.home: dict[NodeId, NodeId] = {}
        self.now = 0.0
        self.pending: list[tuple[NodeId, object]] = []  # to whom, and which input
        self.timers: dict[tuple[NodeId, TimerKey], float] = {}
        self.notified: dict[NodeId, list[tuple[str, int]]] = {}
        self.frames: list[tuple[NodeId, NodeId, Message]] = []  # that were sent between brokers
        self.told: list[tuple[NodeId, object]] = []  # to clients
        self.heard: list[tuple[NodeId, object]] = []  # from clients
        self.records: list[Record] = []
        for a, b in self.links:
            self.pending += [(a, LinkUp(b)), (b, LinkUp(a))]
        self.settle()

    def neighbours(self, name: NodeId) -> list[NodeId]:
        return [b if a == name else a for a, b in self.links if name in (a, b)]

    # ------------------------------------------------------------ clients

    def attach(self, name: NodeId, at: NodeId, **config: object) -> Client:
        """A client comes to a broker, for the first time or again."""
        client = self.clients.setdefault(name, Client(name, msgspec.convert(config, ClientConfig)))
        self.notified.setdefault(name, [])
        self.home[name] = at
        self.pending += [(at, Opened(name)), (name, Opened(name))]
        self.settle()
        return client

    def detach(self, name: NodeId) -> None:
        self.pending += [(self.home[name], Closed(name)), (name, Closed(name))]
        self.settle()

    def ask(self, name: NodeId, effects: list[Effect]) -> None:
        """Carry out what a client's machine answered to its application, and let everything arrive."""
        self.carry_out(name, effects)
        self.settle()

    # ------------------------------------------------------------ the driver

    def carry_out(self, node: NodeId, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer=peer, frame=frame):
                    if isinstance(frame, Frame):
                        self.frames.append((node, peer, frame.message))
                    self.pending.append((peer, Arrived(node, frame)))
                case Tell(connection=connection, message=message) if node in self.clients:
                    self.heard.append((node, message))
                    self.pending.append((self.home[node], Heard(connection, message)))
                case Tell(connection=connection, message=message):
                    self.told.append((connection, message))
                    self.pending.append((connection, Heard(connection, message)))
                case Close(peer=peer):
                    if peer in self.clients:
                        self.pending.append((peer, Closed(peer)))
                case Notify(event=event):
                    self.notified[node].append(event.id)
                case StartTimer(key=key, at=at):
                    self.timers[node, key] = at
                case StopTimer(key=key):
                    self.timers.pop((node, key), None)
                case Trace(record=record):
                    self.records.append(record)

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.pending:
                return
            node, input = self.pending.pop(0)
            machine = self.brokers.get(node) or self.clients[node]
            self.carry_out(node, machine.handle(input, self.now))  # type: ignore[arg-type]
        raise AssertionError("messages go round for ever")

    def pass_time(self, seconds: float) -> None:
        """Let every timer that is due by then go off, each at its time."""
        end = self.now + seconds
        while due := sorted((at, timer) for timer, at in self.timers.items() if at <= end):
            at, (node, key) = due[0]
            del self.timers[node, key]
            self.now = max(self.now, at)
            self.pending.append((node, TimerDue(key)))
            self.settle()
        self.now = end

    # ------------------------------------------------------------ what was seen

    def messages(self, kind: type | None = None) -> list[tuple[NodeId, NodeId]]:
        """Who sent a message (of this kind) to whom between brokers, since the last time this was asked."""
        found = [(a, b) for a, b, message in self.frames if kind is None or type(message) is kind]
        self.frames.clear()
        return found

    def publications(self) -> list[tuple[NodeId, NodeId]]:
        """The same of events."""
        return self.messages(Publish)
