"""Brokers whose clients roam, in a line a – b – c, for tests: clients say whatever a test lets them say."""

from collections import deque
from typing import Any

from godwit.broker.config import BrokerConfig
from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Heard,
    LinkUp,
    Send,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    TimerKey,
    Trace,
)
from godwit.broker.messages import Attached, NodeId
from godwit.mobility import mobile_broker
from godwit.trace import Record

NAMES = ("a", "b", "c")
LINKS = (("a", "b"), ("b", "c"))
DUE_MAX = 20_000


class RoamingNetwork:
    """Messages arrive at once and in order; what is sent over a link in `cut` is dropped, and links send it again."""

    def __init__(self, **config: Any) -> None:
        near: dict[NodeId, dict[NodeId, float]] = {name: {} for name in NAMES}
        for one, other in LINKS:
            near[one][other] = near[other][one] = 1.0
        self.brokers = {name: mobile_broker(name, near[name], BrokerConfig(**config)) for name in NAMES}
        self.pending: deque[tuple[NodeId, Any]] = deque()
        self.told: list[tuple[NodeId, str, Any]] = []
        self.open: dict[tuple[NodeId, str], None] = {}  # clients' connections
        self.timers: dict[tuple[NodeId, TimerKey], float] = {}
        self.records: list[Record] = []
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.now = 0.0
        for one, other in LINKS:
            self.pending += [(one, LinkUp(other)), (other, LinkUp(one))]
        self.settle()
        self.wait(1.0)

    def say(self, at: NodeId, connection: str, message: Any) -> None:
        """A client says something over a connection, which may be new."""
        self.open[at, connection] = None
        self.put(at, Heard(connection, message))

    def close(self, at: NodeId, connection: str) -> None:
        self.open.pop((at, connection), None)
        self.put(at, Closed(connection))

    def put(self, at: NodeId, input: Any) -> None:
        self.pending.append((at, input))
        self.settle()

    def forge(self, source: NodeId, to: NodeId, message: Any) -> None:
        """Let a broker send its neighbour whatever a test makes up."""
        effects: list[Any] = []
        self.brokers[source].links[to].send(message, effects, self.now)
        self.pending += [(to, Arrived(source, each.frame)) for each in effects if isinstance(each, Send)]
        self.settle()

    def settle(self) -> None:
        while self.pending:
            at, input = self.pending.popleft()
            for effect in self.brokers[at].handle(input, self.now):
                match effect:
                    case Send(peer=peer, frame=frame):
                        if (at, peer) not in self.cut:
                            self.pending.append((peer, Arrived(at, frame)))
                    case Tell(connection=connection, message=message):
                        self.told.append((at, connection, message))
                    case Close(peer=connection):
                        self.open.pop((at, connection), None)
                    case StartTimer(key=key, at=due):
                        self.timers[at, key] = due
                    case StopTimer(key=key):
                        self.timers.pop((at, key), None)
                    case Trace(record=record):
                        self.records.append(record)

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(DUE_MAX):
            due = min(((at, where) for where, at in self.timers.items() if at <= until), default=None)
            if due is None:
                self.now = until
                return
            self.now = max(self.now, due[0])
            del self.timers[due[1]]
            self.put(due[1][0], TimerDue(due[1][1]))
        raise AssertionError("timers without end")

    def sessions_told(self) -> list[str]:
        """The names of all sessions that clients have heard of."""
        return [message.session for _, _, message in self.told if isinstance(message, Attached)]

    def is_attached(self, at: NodeId, connection: str) -> bool:
        return any(isinstance(said, Attached) for where, over, said in self.told if (where, over) == (at, connection))
