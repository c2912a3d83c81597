"""Attaching: a client greets, and the attach policy of its mode decides what happens to its session.

*Theory.* `Attach.mode` names a policy (`attach_policies/`). A client whose session is already on its way here goes on
waiting for it, in whatever mode it comes again; any other is attached by the policy of its mode.

*Rules.*
1. A greeting is checked before any policy sees it: its form, its mode, what it brings, and that its connection has not
   greeted before.
2. A client that waits for its session counts as a session does: without room for one more it is turned away.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from godwit.broker.component import Component, Handlers
from godwit.broker.effects import Close, Effect, Tell
from godwit.broker.host import Host
from godwit.broker.message_checks import check_attach, shown
from godwit.broker.messages import Attach, Bye
from godwit.errors import PeerFault
from godwit.mobility.move_checks import check_wanted, within_budget
from godwit.mobility.relocation import Relocation

__all__ = ["AttachPolicy", "Attaching", "Greet", "admit"]

Greet = Callable[[str, Attach, float], list[Effect]]
"""`(connection, message, now)`: a client greets."""


class AttachPolicy(Component, Protocol):
    """One way to attach: a component that is asked when a client comes in its mode."""

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client comes whose session is not on its way here: attach it, or set its session going."""


class Attaching:
    """Where clients greet."""

    label = "attaching"
    host: Host

    def __init__(
        self,
        relocation: Relocation,
        policies: Mapping[str, AttachPolicy],
        greeters: Mapping[str, Greet] | None = None,
    ) -> None:
        self.relocation = relocation
        self.policies = dict(policies)
        self._greeters = dict(greeters or {})  # by mode: what completes a greeting before the client is admitted

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(attach=self.attach)

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A client greets. (rule 1)"""
        check_attach(message)
        if message.mode not in self.policies:
            raise PeerFault(f"Attach.mode is {shown(message.mode)}: allowed are {', '.join(self.policies)}")
        check_wanted(message, self.host.config.limits)
        message = within_budget(message, self.host.config.limits)
        waiting = (arrival.connection for arrival in self.relocation.arrivals.values())
        if self.host.sessions.client_of(connection) is not None or connection in waiting:
            raise PeerFault("a second Attach on one connection")
        greet = self._greeters.get(message.mode)
        if greet is not None:
            return greet(connection, message, now)
        return admit(self.relocation, self.policies[message.mode], connection, message, now)


def admit(relocation: Relocation, policy: AttachPolicy, connection: str, message: Attach, now: float) -> list[Effect]:
    """Let a client go on waiting for its session, or attach it by its policy. (rule 2)

    The greeting says where the session is, as far as anybody knows.
    """
    client, host = message.client, relocation.host
    arrival = relocation.arrivals.get(client)
    if arrival is not None:
        return relocation.attach_again(arrival, connection, message, now)
    if host.sessions.session(client) is None and not relocation.has_room():
        reason = f"this broker has no room for more than {host.config.limits.sessions_max} sessions"
        return [Tell(connection, Bye(reason)), Close(connection, reason)]
    return policy.attach(connection, message, now)
