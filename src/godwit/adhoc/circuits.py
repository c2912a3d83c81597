"""Circuits: exactly-once, ordered channels between two nodes of an ad hoc network, over paths that appear and
disappear.

*Theory.* A circuit is a `Link` (`broker/links.py`) whose frames are relayed from node to node. Ways break, change and
overtake; the link's numbers and acknowledgements make up for it. So a client's session sees the same as elsewhere: a
connection that carries everything in order until it is closed.

*Rules.*
1. A circuit has one permanent name: the node that opened it, and a number that this node never reuses.
2. The node at the other end holds one circuit of an opener at most: the one with the highest number.
3. What waits on a circuit goes with it; sessions and clients keep what has to be said again.
"""

from typing import Any

from godwit.adhoc.radio_messages import CircuitId
from godwit.broker.effects import Effect
from godwit.broker.links import Link, LinkConfig
from godwit.broker.messages import Ack, Frame, Goodbye, Hello, NodeId
from godwit.errors import PeerFault
from godwit.mobility.move_messages import Replay

__all__ = ["CIRCUIT_LINK", "Circuit", "named"]

CIRCUIT_LINK = LinkConfig(
    ack_s=0.02, resend_s=0.5, resend_s_max=2.0, window=256, outbox_max=10_000, outbox_bytes_max=16 * 2**20
)


def named(circuit: CircuitId) -> str:
    """The name of a circuit as connections have one."""
    return f"{circuit[0]}#{circuit[1]}"


class Circuit:
    """One end of a circuit to the node `far`. Without a link both ends are here."""

    def __init__(self, id: CircuitId, far: NodeId, *, is_local: bool = False) -> None:
        self.id = id
        self.name = named(id)
        self.far = far
        self.link = None if is_local else Link(self.name, 1, CIRCUIT_LINK)
        self.until = 0.0  # at the event broker: when the lease ends
        self.held: list[Any] = []  # what must wait until everybody has come, or the session of its client
        self.may_fetch = True  # its client has not said yet where its session was
        self.has_published = False  # at the event broker: an event came over it
        self.parts: list[Replay] = []  # of sessions that another event broker hands over

    @property
    def is_open(self) -> bool:
        """Whether the other end has answered."""
        return self.link is None or self.link.open

    def open(self, now: float) -> list[Effect]:
        """Greet the other end."""
        return [] if self.link is None else self.link.on_up(now)

    def close(self, now: float) -> list[Effect]:
        """Forget the conversation."""
        return [] if self.link is None else self.link.on_down(now)

    def send(self, message: Any, now: float) -> list[Effect]:
        """Say something; it comes once and in order."""
        effects: list[Effect] = []
        assert self.link is not None
        self.link.send(message, effects, now)
        return effects

    def on_frame(self, frame: Any, now: float) -> tuple[list[Effect], list[Any]]:
        """A frame came: effects of the link, and what has been said."""
        effects: list[Effect] = []
        if self.link is None:
            raise PeerFault("a frame for a circuit that leaves no node")
        if type(frame) is Frame:
            return effects, list(self.link.on_frame(frame, effects, now))
        if type(frame) is Ack:
            self.link.on_ack(frame, effects, now)
        elif type(frame) is Hello:
            greeting, _, forgotten = self.link.on_hello(frame, now)
            if forgotten is not None:
                raise PeerFault("a circuit has one life")
            effects += greeting
        else:
            assert type(frame) is Goodbye
            raise PeerFault(f"closed by the other end: {frame.reason}")
        return effects, []

    def on_timer_due(self, what: str, now: float) -> list[Effect]:
        """A timer of the link."""
        if self.link is None:
            return []
        return self.link.on_ack_due() if what == "ack" else self.link.on_resend_due(now)
