"""The view of one user on a peer: every read by the facade is checked here.

*Rules.*
1. A record is there if the user may see it (`access.py`), and not there otherwise: the same answer, so that a refusal
   does not reveal that it exists.
2. The user of the peer may change things. Another user may not: a change is signed by a device of its author, and this
   device belongs to somebody else.
3. What another user reads here is in the audit log before it is returned.
4. Who is here is known to the user of the peer alone: the devices of others have said so to this user, and perhaps to
   nobody else.
5. Nothing is written into a community before it is known here whether it is sealed, and with which key.
"""

from collections.abc import Callable, Iterator
from functools import partial

from godwit.errors import Refused
from godwit.teamwork.access import Access
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.machine.bus import Here
from godwit.teamwork.machine.changes import Change, Vector
from godwit.teamwork.machine.governance import Governance, Role
from godwit.teamwork.machine.peer import Identity
from godwit.teamwork.machine.peer_effects import ChangeRecord, Effect, Input
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.scope_log import ScopeLog
from godwit.teamwork.repository import Repository

__all__ = ["PeerView", "VisibleRecords"]

Show = Callable[[list[tuple[str, str]], str, str, str], None]
"""Told, before something is returned, scope and name of the record, to whom, by which way, and a detail."""


class VisibleRecords:
    """The records of a repository that one user may see."""

    def __init__(self, repository: Repository, access: Access, user: str, show: Callable[[str, str], None]) -> None:
        self._repository, self._access, self._user, self._show = repository, access, user, show

    def scopes(self) -> list[str]:
        """Scopes in which the user has a role."""
        return [scope for scope in self._repository.scopes() if self._access.role(self._user, scope) > Role.NONE]

    def vector(self, scope: str) -> Vector:
        """By device, the number of its last change here."""
        return self._repository.vector(scope) if self._is_member(scope) else {}

    def clock(self, scope: str) -> int:
        """The highest clock of a change."""
        return self._repository.clock(scope)

    def changes_of(self, scope: str, record: str) -> list[Change]:
        """All changes of a record, for members; for others, to whom it is shown, that of the current version."""
        changes = self._repository.changes_of(scope, record)
        if self._is_member(scope):
            return changes
        known = self.record(scope, record)
        current = known.decided_by.get("content") if known is not None else None
        return [change for change in changes if change.id == current]

    def record(self, scope: str, name: str) -> Record | None:
        """The state of a record."""
        found = self._repository.record(scope, name)
        if found is None or not self._access.may_see(self._user, scope, name):
            return None
        self._show(scope, name)
        return found

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        """All records of a kind, by name."""
        is_member = self._is_member(scope)
        for record in self._repository.records(scope, kind):
            if is_member or self._access.is_shown(self._user, scope, record.name):
                self._show(scope, record.name)
                yield record

    def _is_member(self, scope: str) -> bool:
        return self._access.role(self._user, scope) > Role.NONE


class _VisiblePresence:
    def __init__(self, view: "PeerView") -> None:
        self._view = view

    def devices(self) -> dict[str, Here]:
        """By device that is here, what it said. (rule 4)"""
        view, user = self._view, self._view.identity.user
        is_told = user == view.peer.identity.user and view.access.role(user, view.team) > Role.NONE
        return view.peer.machine.presence.devices() if is_told else {}


class _VisibleMachine:
    def __init__(self, view: "PeerView") -> None:
        self._view = view
        self.presence = _VisiblePresence(view)

    def governance(self, scope: str) -> Governance:
        """Who may do what in a scope; of a scope that the user may not know of, nothing but its founder."""
        known = self._view.peer.machine.governance(scope)
        return known if self._view.access.knows_of(self._view.identity.user, scope) else Governance(scope)

    def log(self, scope: str) -> ScopeLog:
        self._view.check_writer()
        return self._view.peer.machine.log(scope)


class PeerView:
    """A peer, as a user may see it: a `TeamPeer`."""

    def __init__(self, peer: LivePeer, access: Access, user: str, show: Show) -> None:
        self.peer, self.access, self._show = peer, access, show
        self.identity = Identity(peer.team, user, peer.identity.device)
        self.repository = VisibleRecords(peer.repository, access, user, partial(self.show, "view"))
        self.machine = _VisibleMachine(self)

    @property
    def team(self) -> str:
        """The scope of the team."""
        return self.peer.team

    @property
    def scopes(self) -> list[str]:
        """The scopes that are kept here and of which the user may know."""
        return [scope for scope in self.peer.scopes if self.access.knows_of(self.identity.user, scope)]

    def time(self) -> float:
        """The time of day."""
        return self.peer.time()

    def do(self, input: Input) -> list[Effect]:
        """A command of the user. (rule 2)"""
        self.check_writer()
        if isinstance(input, ChangeRecord) and (reason := self.peer.machine.unsendable(input)):
            raise Refused(reason)  # (rule 5)
        return self.peer.do(input)

    def show(self, way: str, scope: str, record: str, detail: str = "") -> None:
        """Something of a record is about to be shown to the user. (rule 3)"""
        self._show([(scope, record)], self.identity.user, way, detail)

    def check_writer(self) -> None:
        """Refuse changes of anybody but the user of the peer. (rule 2)"""
        owner, user = self.peer.identity.user, self.identity.user
        if user != owner:
            raise Refused(
                f"this peer signs for {owner} alone: {user} can read here, and change things at a peer of {user}"
            )
