"""Hosted users: their peer runs in the process of another user's peer, for thin clients. [motion §2]

*Theory.* A change is signed by a device of its author. So a peer on which several people work has a device for each of
them, in a folder below its own, and runs all of them. To the rest of the team they are peers as any others. An owner of
the team makes such a device; the user, and owners, can end it.

*Rules.*
1. A folder that cannot be opened is reported, and hinders neither the peer nor other users.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from godwit.errors import GodwitError
from godwit.teamwork.names import new_id
from godwit.teamwork.team_folder import FILE, join_team

__all__ = ["HostedUsers"]


class OfOneUser(Protocol):
    """A team, as one user sees it."""

    @property
    def user(self) -> str: ...


Opened = TypeVar("Opened", bound=OfOneUser)


class HostedUsers(Generic[Opened]):
    """The teams of hosted users, each opened from a folder of its own."""

    def __init__(
        self,
        folder: Path,
        opened: Callable[[Path], AbstractAsyncContextManager[Opened]],
        report: Callable[[str], None],
    ) -> None:
        """`opened`: opens the team of a folder."""
        self._folder, self._opened, self._report = folder, opened, report
        self._stack = AsyncExitStack()
        self.teams: dict[str, Opened] = {}

    async def open_all(self) -> None:
        """Open the teams of all users that were hosted before. (rule 1)"""
        for path in sorted(self._folder.glob(f"*/{FILE}")):
            try:
                await self._open(path.parent)
            except GodwitError as error:
                self._report(f"a hosted user is missing: {error}")

    async def add(self, invitation: str) -> Opened:
        """Host the user of an invitation, from now on."""
        folder = self._folder / new_id()
        join_team(folder, invitation)
        return await self._open(folder)

    async def _open(self, folder: Path) -> Opened:
        team = await self._stack.enter_async_context(self._opened(folder))
        self.teams[team.user] = team
        return team

    async def close(self) -> None:
        """Close them all."""
        self.teams.clear()
        await self._stack.aclose()
