"""The mode `naive`: a session of its own at each broker, to compare with.

What an earlier broker keeps stays there until it expires, or until the client comes back there. Events fall
between two sessions, or are in both. [rebeca §3.2, Fig. 2: sub, unsub, sub]
"""

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import Attach
from godwit.mobility.modes import Mode
from godwit.mobility.relocation import Relocation

__all__ = ["NAIVE", "NaivePolicy"]

NAIVE = Mode(
    paper="rebeca §3.2 Fig. 2",
    what="a new session at each broker; the old sessions stay behind: sub, unsub, sub",
    complete=False,
    unique=False,
    ordered=False,
    cost="a subscription and its removal",
    leaves="a session, until it expires",
    live="if configured",
)


class NaivePolicy:
    """Whatever is elsewhere, what is here counts."""

    label = "naive"
    host: Host

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers()

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """Begin or resume the session here. [rebeca §3.2: "(re-)subscribes at B2"]"""
        self.relocation.forget_moved(message.client)
        stays = self.relocation.barrier.stay(message.client, message.attempt, now)
        return stays + self.host.attach(connection, message, now)
