"""The mode `explicit`: the client sends `MoveOut` before it leaves; a connection that breaks ends its session.

Whatever was kept is relocated as in the mode `relocate`. [rebeca §1: moveIn and moveOut of JEDI]
"""

from godwit.broker.component import Handlers
from godwit.broker.effects import Close, Effect, Tell
from godwit.broker.host import Host
from godwit.broker.messages import Attach, Bye
from godwit.errors import PeerFault
from godwit.mobility.move_messages import MoveOut
from godwit.mobility.relocation import Relocation

__all__ = ["ExplicitPolicy"]

MOVED_OUT = "moved out"


class ExplicitPolicy:
    """Keeps the session of a client that has said so, and of no other that moves explicitly."""

    label = "explicit"
    host: Host

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(client_messages={MoveOut: self.on_move_out}, on_detach=self._on_detach)

    def snapshot(self) -> None:
        """Nothing is kept: sessions know their modes."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """As in the mode `relocate`."""
        return self.relocation.attach(connection, message, now)

    def on_move_out(self, connection: str, message: MoveOut, now: float) -> list[Effect]:
        """The client is about to go: keep its session, and tell it so by closing the connection. [rebeca §1]"""
        client = self.host.sessions.client_of(connection)
        session = None if client is None else self.host.sessions.session(client)
        if session is None:
            raise PeerFault("the first message on a connection must be Attach")
        if session.mode == "explicit":
            effects = self.host.keep_session(connection, now)
        else:  # it goes as if its connection had broken
            effects = self.host.detach(connection, now)
        return [*effects, Tell(connection, Bye(MOVED_OUT)), Close(connection, MOVED_OUT)]

    def _on_detach(self, connection: str, now: float) -> list[Effect] | None:
        """A connection has broken: without a move-out that ends an explicit client's session."""
        host = self.host
        client = host.sessions.client_of(connection)
        session = None if client is None else host.sessions.session(client)
        if client is None or session is None or session.mode != "explicit":
            return None
        effects = host.keep_session(connection, now)
        return effects + host.withdraw(host.sessions.end(client, now, "gone without a move-out"), now, client)
