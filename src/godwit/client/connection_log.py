"""The log of a client's connections: brokers that may still hold events for it. [mobile §4.3]

*Theory.* In the mode `carry` a client leaves a session behind at each broker it goes away from. It notes every broker
that it greets, and brings the notes to the next one, which collects what is left there. A broker that has answered is
struck from the log; so it is short as long as brokers answer.

*Rules.*
1. A broker is noted when it is greeted: it may have begun a session though its answer never came.
2. A client that dials an address knows the broker's name only from its answer. Until then the log has the address; what
   a broker keeps that has never answered such a client stays there.
3. The log holds at most `LOG_MAX` brokers besides the present one. The oldest goes first, on record.
"""

from godwit.broker.effects import Effect, Trace
from godwit.broker.messages import NodeId, PastConnection
from godwit.mobility.modes import LOG_MAX
from godwit.trace import Record

__all__ = ["ConnectionLog"]


class ConnectionLog:
    """The brokers that may keep something for the client, the one greeted last at the end."""

    def __init__(self) -> None:
        self._connections: dict[NodeId, PastConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def greet(self, broker: NodeId, attempt: int, now: float) -> tuple[tuple[PastConnection, ...], list[Effect]]:
        """The client greets a broker: the others in the log, to be told to it."""
        connections = self._connections
        if connections:
            last = next(reversed(connections.values()))  # wherever it was last, by now it is gone from there
            connections[last.broker] = PastConnection(last.broker, last.attempt, now)
        connections.pop(broker, None)
        effects: list[Effect] = []
        if len(connections) > LOG_MAX:
            dropped = next(iter(connections))
            del connections[dropped]
            effects.append(
                Trace(Record("lost", dropped, "PastConnection", detail="fell out of the log of connections"))
            )
        others = tuple(connections.values())
        connections[broker] = PastConnection(broker, attempt, now)
        return others, effects

    def name(self, connection: str, broker: NodeId) -> None:
        """The broker that was greeted last has said its name. Rule 2."""
        if broker not in ("", connection) and (greeted := self._connections.pop(connection, None)) is not None:
            self._connections.pop(broker, None)
            self._connections[broker] = PastConnection(broker, greeted.attempt, greeted.at)

    def strike(self, brokers: tuple[NodeId, ...], here: NodeId) -> None:
        """These keep nothing any more."""
        for broker in brokers:
            if broker != here:
                self._connections.pop(broker, None)

    def clear(self) -> None:
        """Nobody keeps anything that is still wanted."""
        self._connections.clear()
