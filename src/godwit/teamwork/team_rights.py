"""What owners and editors let others see and ask for: the writing side of `access.py`."""

from collections.abc import Iterable
from typing import Any

from godwit.teamwork.access import SETTINGS, Grant, checked_grants
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.names import not_there
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["TeamRights"]


class TeamRights:
    """Grants, as one user may give them. A grant that is a text names a user."""

    def __init__(self, peer: TeamPeer) -> None:
        self._peer = peer

    def show(self, scope: str, id: str, grants: Iterable[Grant | str]) -> None:
        """Let others than members find a document and read its current version; without grants, nobody any more."""
        if self._peer.repository.record(scope, f"artefact/{id}") is None:
            raise not_there("document", id, [])
        self._set(scope, f"artefact/{id}", "shown_to", grants)

    def show_scope(self, scope: str, grants: Iterable[Grant | str]) -> None:
        """The same for all documents of a scope, or those that `Grant.what` matches. Owners of the scope only."""
        self._set(scope, SETTINGS, "shown_to", grants)

    def limit_searches(self, grants: Iterable[Grant | str] | None) -> None:
        """Let members of the team search for what a grant covers, and nothing else. None: for everything.

        Owners of the team only. `Grant.what` is in the filter language, whose `covers` decides.
        """
        self._set(self._peer.team, SETTINGS, "may_search", grants)

    def limit_subscriptions(self, grants: Iterable[Grant | str] | None) -> None:
        """The same for subscriptions of users."""
        self._set(self._peer.team, SETTINGS, "may_subscribe", grants)

    def _set(self, scope: str, record: str, field: str, grants: Iterable[Grant | str] | None) -> None:
        written: Any = None if grants is None else checked_grants(grants)
        if field == "shown_to":
            written = written or None
        self._peer.do(ChangeRecord(scope, record, {field: written}))
