"""Requests of administrators: end a session, empty a queue, clear a retained event.

*Theory.* An administrator's request is an input like any other (`EndSession`, `DropQueue`, `ClearRetained`): it is in
the journal, and a replay does the same. The driver has decided who may ask. To disconnect a client is the driver's own
matter: the machine hears that the connection is gone.

*Rules.*
1. A client whose session ends is told why, and may begin another one: to keep it out, change its rights first.
2. What leaves a queue is counted as purged by the rule `administrator`, and receipts say so. What was sent and is not
   confirmed stays until the client has come back: the client may have it.
3. A retained event is cleared in the whole network, as if a client had cleared it.
4. A request for a client or key that is not here changes nothing.

*Paper.* None.
"""

from typing import Any

from godwit.broker.component import Handlers
from godwit.broker.effects import ComponentInput, Effect
from godwit.broker.gossip import Gossip
from godwit.broker.host import Host
from godwit.broker.messages import NodeId
from godwit.broker.retained import Retained

__all__ = ["BY_ADMINISTRATOR", "Administration", "ClearRetained", "DropQueue", "EndSession", "reason_of"]

RULE = "administrator"
BY_ADMINISTRATOR = "an administrator has "  # the beginning of every reason


class EndSession(ComponentInput, frozen=True):
    """End the session of a client, and close its connection."""

    client: NodeId
    reason: str = ""


class DropQueue(ComponentInput, frozen=True):
    """Drop what waits for a client."""

    client: NodeId


class ClearRetained(ComponentInput, frozen=True):
    """Clear the event that is retained by a key."""

    key: str


class Administration:
    """Carries out what administrators ask for."""

    label = "administration"
    host: Host

    def __init__(self, retained: Retained, gossip: Gossip) -> None:
        self._retained = retained
        self._gossip = gossip

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            inputs={
                EndSession: self.on_end_session,
                DropQueue: self.on_drop_queue,
                ClearRetained: self.on_clear_retained,
            }
        )

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: Any) -> None:
        """Nothing to take over."""

    def on_end_session(self, input: EndSession, now: float) -> list[Effect]:
        """End a session, whether its client is here or away. (rule 1)"""
        host, session = self.host, self.host.sessions.session(input.client)
        if session is None:
            return []
        effects = [] if session.connection is None else host.unlink(session.connection)
        reason = reason_of("ended the session", input.reason)
        return effects + host.withdraw(host.sessions.end(input.client, now, reason), now, input.client)

    def on_drop_queue(self, input: DropQueue, now: float) -> list[Effect]:
        """Empty a queue. (rule 2)"""
        session = self.host.sessions.session(input.client)
        if session is None:
            return []
        session.queue.withhold([number for _, number, _ in session.queue.waiting_after(0)], RULE)
        return session.gone()

    def on_clear_retained(self, input: ClearRetained, now: float) -> list[Effect]:
        """Clear a retained event. (rule 3)"""
        effects: list[Effect] = []
        if self._retained.event(input.key) is not None:
            self._retained.put(input.key, None, now)
            self._gossip.spread(effects, now)
        return effects


def reason_of(what: str, why: str) -> str:
    """What a client is told."""
    return f"{BY_ADMINISTRATOR}{what}{': ' if why else ''}{why}"
