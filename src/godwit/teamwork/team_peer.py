"""The interface of a peer for people, communities, documents, messages and meetings: a `LivePeer`, or the view
of one user."""

from collections.abc import Iterator
from typing import Protocol

from godwit.teamwork.machine.bus import Here
from godwit.teamwork.machine.changes import Change, Vector
from godwit.teamwork.machine.governance import Governance
from godwit.teamwork.machine.peer import Identity
from godwit.teamwork.machine.peer_effects import Effect, Input
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.scope_log import ScopeLog

__all__ = ["PresentDevices", "ShowingPeer", "TeamMachine", "TeamPeer", "TeamRecords"]


class TeamRecords(Protocol):
    """Records and changes that a user may see."""

    def scopes(self) -> list[str]:
        """Scopes with a change."""
        ...

    def vector(self, scope: str) -> Vector:
        """By device, the number of its last change here."""
        ...

    def clock(self, scope: str) -> int:
        """The highest clock of a change."""
        ...

    def changes_of(self, scope: str, record: str) -> list[Change]:
        """All changes of a record."""
        ...

    def record(self, scope: str, name: str) -> Record | None:
        """The state of a record."""
        ...

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        """All records of a kind, by name."""
        ...


class PresentDevices(Protocol):
    """Who is here."""

    def devices(self) -> dict[str, Here]:
        """By device that is here now, what it said."""
        ...


class TeamMachine(Protocol):
    """Who may do what, and who is here."""

    @property
    def presence(self) -> PresentDevices:
        """Who is here now."""
        ...

    def governance(self, scope: str) -> Governance:
        """Who may do what in a scope."""
        ...

    def log(self, scope: str) -> ScopeLog:
        """The changes of a scope."""
        ...


class TeamPeer(Protocol):
    """A peer, as one user sees it."""

    @property
    def identity(self) -> Identity:
        """Whose it is."""
        ...

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    @property
    def scopes(self) -> list[str]:
        """The scopes that are kept here."""
        ...

    @property
    def repository(self) -> TeamRecords:
        """What the user may see."""
        ...

    @property
    def machine(self) -> TeamMachine:
        """What decides."""
        ...

    def time(self) -> float:
        """The time of day."""
        ...

    def do(self, input: Input) -> list[Effect]:
        """A command of the user; `Refused` if it has changed nothing."""
        ...


class ShowingPeer(TeamPeer, Protocol):
    """A peer that notes what leaves it, and for whom it acts."""

    def check_writer(self) -> None:
        """Refuse what only the user of the peer may do."""
        ...

    def show(self, way: str, scope: str, record: str, detail: str = "") -> None:
        """Something of a record is about to be shown to the user."""
        ...
