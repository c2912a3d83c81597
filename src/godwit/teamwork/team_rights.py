"""Rights that owners and editors grant: the grants that `access.py` evaluates."""

from collections.abc import Iterable
from typing import Any

from godwit.errors import Refused
from godwit.teamwork.access import SETTINGS, Grant, checked_grants, grants_of
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.names import not_there
from godwit.teamwork.query_languages import parse_profile_query
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["TeamRights"]


class TeamRights:
    """Grants, as one user may read and give them. A grant that is a text names a user."""

    def __init__(self, peer: TeamPeer) -> None:
        self._peer = peer

    # ------------------------------------------------------------ documents

    def show(self, scope: str, id: str, grants: Iterable[Grant | str]) -> None:
        """Let others than members find a document and read its current version; without grants, nobody any more."""
        if self._peer.repository.record(scope, f"artefact/{id}") is None:
            raise not_there("document", id, [])
        self._set(scope, f"artefact/{id}", "shown_to", checked_grants(grants) or None)

    def shown(self, scope: str, id: str) -> list[Grant]:
        """The grants of a document, for members of its scope."""
        record = self._peer.repository.record(scope, f"artefact/{id}")
        if record is None or self._role(scope) is Role.NONE:  # only members learn who else has rights
            raise not_there("document", id, [])
        return grants_of(record.fields.get("shown_to"))

    def show_scope(self, scope: str, grants: Iterable[Grant | str]) -> None:
        """The same for all documents of a scope, or those that `Grant.what` matches. Owners of the scope only."""
        self._set(scope, SETTINGS, "shown_to", checked_grants(grants) or None)

    def shown_scope(self, scope: str) -> list[Grant]:
        """The grants of a whole scope, for its members."""
        return grants_of(self._setting(scope, "shown_to"))

    # ------------------------------------------------------------ searches and subscriptions

    def limit_searches(self, grants: Iterable[Grant | str] | None) -> None:
        """Let members of the team search for what a grant covers, and nothing else. None: for everything.

        Owners of the team only. `Grant.what` is in the filter language, whose `covers` decides.
        """
        self._limit("may_search", grants)

    def search_limits(self) -> list[Grant] | None:
        """The grants that limit searches. None: members search for everything."""
        return self._limits("may_search")

    def limit_subscriptions(self, grants: Iterable[Grant | str] | None) -> None:
        """The same for subscriptions of users."""
        self._limit("may_subscribe", grants)

    def subscription_limits(self) -> list[Grant] | None:
        """The grants that limit subscriptions. None: members subscribe to everything."""
        return self._limits("may_subscribe")

    def _limit(self, field: str, grants: Iterable[Grant | str] | None) -> None:
        written = None if grants is None else checked_grants(grants)
        if written == []:
            raise Refused("a limit without grants would let nobody ask for anything: add a grant, or end the limit")
        for grant in grants_of(written):
            if grant.what and parse_profile_query(grant.language, grant.what).test is not None:
                raise Refused(
                    f"{grant.what!r} ({grant.language}) cannot be compared with what users ask for: "
                    'write it in the language "filter", without operators that need an exact test'
                )
        self._set(self._peer.team, SETTINGS, field, written)

    def _limits(self, field: str) -> list[Grant] | None:
        limits = self._setting(self._peer.team, field)
        return None if limits is None else grants_of(limits)

    # ------------------------------------------------------------ records

    def _role(self, scope: str) -> Role:
        return self._peer.machine.governance(scope).role(self._peer.identity.user)

    def _setting(self, scope: str, field: str) -> Any:
        if self._role(scope) is Role.NONE:
            raise not_there("community", scope.partition("/")[2], [])
        return self._peer.machine.governance(scope).settings.get(field)

    def _set(self, scope: str, record: str, field: str, written: Any) -> None:
        self._peer.do(ChangeRecord(scope, record, {field: written}))
