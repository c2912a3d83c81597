"""Links and clients' connections in memory. Messages arrive in the next turn of the event loop, in order."""

import asyncio
from typing import Any

from godwit.broker.effects import Arrived, Heard, LinkDown, LinkUp
from godwit.broker.messages import Bye
from godwit.errors import PeerFault
from godwit.runtime.authentication import Principal
from godwit.runtime.client_transport import TransportOwner
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE
from godwit.testing.virtual_clock import VirtualClock

__all__ = ["ClientWire", "LinkEnd", "link"]


class LinkEnd:
    """One broker's end of a link. A `Port` of its node."""

    def __init__(self, clock: VirtualClock, node: Node, name: str, peer: str) -> None:
        self.node = node
        self.name = name
        self.peer = peer
        self.is_open = True
        self.other: LinkEnd
        self._clock = clock
        self._unsent: list[Any] = []

    def send(self, message: Any) -> None:
        """Queue a message for the next `flush`."""
        self._unsent.append(message)

    def flush(self) -> None:
        """Write the queued messages at once."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._clock.call_soon(self._arrive, unsent)

    def _arrive(self, messages: list[Any]) -> None:
        if self.is_open and self.other.is_open:
            for message in messages:
                self.other.node.tell(Arrived(self.name, message), NATIVE.encode(message))

    def close(self, reason: str) -> None:
        """Write the queued messages, and close: only the other end is notified."""
        self.flush()
        self._clock.call_soon(self.other.break_off)

    def break_off(self) -> None:
        """The connection is closed; this end is notified."""
        self.is_open = self.other.is_open = False
        if self.node.ports.get(self.peer) is self:
            del self.node.ports[self.peer]
            self.node.tell(LinkDown(self.peer))


def link(clock: VirtualClock, one: tuple[str, Node], other: tuple[str, Node]) -> tuple[LinkEnd, LinkEnd]:
    """Connect two brokers: the two ends."""
    (a, at_a), (b, at_b) = one, other
    ends = LinkEnd(clock, at_a, a, b), LinkEnd(clock, at_b, b, a)
    ends[0].other, ends[1].other = ends[1], ends[0]
    for end in ends:
        end.node.ports[end.peer] = end
        end.node.tell(LinkUp(end.peer))
    return ends


class ClientWire:
    """A client's connection: the `Line` of its owner, connected to a port of the broker's node."""

    def __init__(
        self, clock: VirtualClock, owner: TransportOwner, name: str, node: Node, at_broker: str, principal: Principal
    ) -> None:
        self.name = name
        self.lost = asyncio.Event()
        self._clock = clock
        self.owner = owner
        self._held: list[Any] | None = None  # messages that arrived while reading is paused
        self._inner = InProcessConnection(node, at_broker, principal, self._on_messages, self._on_closed)

    # ------------------------------------------------------------ for the client

    def write(self, messages: list[Any]) -> None:
        """Send these messages at once."""
        self._clock.call_soon(self._say, messages)

    def _say(self, messages: list[Any]) -> None:
        try:
            for message in messages:
                self._inner.say(message)
        except PeerFault as fault:
            self._hear([Bye(str(fault))])
            self._end(str(fault))

    def close(self) -> None:
        """Close it when all that was written is sent."""
        self._clock.call_soon(self._end, "")

    def abort(self) -> None:
        """Close it at once."""
        self._end("")

    def pause(self) -> None:
        """Pause reading."""
        self._held = [] if self._held is None else self._held

    def read_on(self) -> None:
        """Read again."""
        held, self._held = self._held, None
        if held:
            self._clock.call_soon(self._hear, held)

    # ------------------------------------------------------------ from the broker

    def _on_messages(self, messages: list[Any]) -> None:
        self._clock.call_soon(self._hear, messages)

    def _hear(self, messages: list[Any]) -> None:
        for message in messages:
            if self._held is not None:
                self._held.append(message)
            elif not self.lost.is_set():
                self.owner.handle(Heard(self.name, message))

    def _on_closed(self, reason: str) -> None:
        self._clock.call_soon(self._end, reason)

    def break_off(self) -> None:
        """The connection is closed."""
        self._end("")

    def _end(self, reason: str) -> None:
        if not self.lost.is_set():
            self.owner.closed_because = self.owner.closed_because or reason
            self._inner.hang_up()
            self.lost.set()
