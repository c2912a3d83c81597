"""The interface of a peer for its parts. Parts that need more declare it in their own protocol."""

from typing import Protocol

from godwit.teamwork.machine.bus import PeerMessage
from godwit.teamwork.machine.governance import Governance
from godwit.teamwork.machine.scope_log import ScopeLog

__all__ = ["PartHost"]


class PartHost(Protocol):
    """A peer, as its parts see it."""

    now: float
    """The time of day. Nothing that peers must agree on depends on it."""

    @property
    def device(self) -> str:
        """The name of this device."""
        ...

    @property
    def user(self) -> str:
        """The user of this device."""
        ...

    def publish(self, message: PeerMessage, *, until: float | None = None, to: str = "") -> None:
        """Send a message to the peers concerned; after `until`, nobody needs it. `to`: a filter on their contexts."""
        ...

    def start_timer(self, key: tuple[str, ...], after_s: float) -> None:
        """Start a timer, or move it."""
        ...

    def stop_timer(self, key: tuple[str, ...]) -> None:
        """Stop a timer, if it runs."""
        ...

    def log(self, scope: str) -> ScopeLog:
        """The changes of a scope."""
        ...

    def governance(self, scope: str) -> Governance:
        """Who may do what in a scope."""
        ...

    def change_fields(self, scope: str, record: str, fields: dict[str, object]) -> None:
        """Change a record on behalf of the user."""
        ...

    def reject(self, what: str, reason: str) -> None:
        """Report what changed nothing, and why; without a reason there is nothing to report."""
        ...
