"""Teams that are opened as a program opens them, on a network of three brokers in memory, for tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import godwit.testing
from godwit.teamwork import Role, Searching, SearchResult, Team, join_team, new_team, open_team

__all__ = ["OpenTeams", "play"]

ROUNDS = 12
BROKERS = {"ann": "b1", "bob": "b2", "cid": "b3"}


class OpenTeams:
    """Ann, who has founded the team, bob and cid."""

    def __init__(self, net: Any, folder: Path) -> None:
        self.net, self.folder = net, folder
        self._open: list[Team] = []

    @asynccontextmanager
    async def open(self, user: str, at: str = "", **options: Any) -> AsyncIterator[Team]:
        """The team at a peer of a user, whose folder is there."""

        def connected(name: str) -> Any:
            return self.net.client(name, at=at or BROKERS[user], mode="named", confirm="read")

        async with open_team(self.folder / user, clock=self.net.clock, connected=connected, **options) as team:
            self._open.append(team)
            try:
                yield team
            finally:
                self._open.remove(team)

    @asynccontextmanager
    async def together(self, **options: Any) -> AsyncIterator[tuple[Team, Team, Team]]:
        """All three, known to each other."""
        new_team(self.folder / "ann", "ann")
        async with AsyncExitStack() as stack:
            ann = await stack.enter_async_context(self.open("ann", **options))
            others = []
            for user in ("bob", "cid"):
                join_team(self.folder / user, ann.invite(user, {"name": user.title()}, role=Role.EDITOR))
                others.append(await stack.enter_async_context(self.open(user, **options)))
            await self.later()
            yield ann, others[0], others[1]

    async def later(self, seconds: float = 60.0) -> None:
        """Until everything has been sent that can be, and so much time has gone by."""
        for _ in range(ROUNDS):
            await self._sent()
            await self.net.advance(seconds / ROUNDS)
        await self._sent()
        await self.net.settled()

    async def _sent(self) -> None:
        await self.net.settled()
        attached = [team.peer for team in self._open if team.status().connection == "attached"]
        await asyncio.gather(*(peer.sent() for peer in attached))

    async def found(self, searching: Searching) -> list[SearchResult]:
        """The results of a search when it has ended."""
        await self.later(10.0)
        return await searching.finished()


def play(folder: Path, scene: Callable[[OpenTeams], Awaitable[None]]) -> None:
    """Play a scene."""

    async def run() -> None:
        async with godwit.testing.network(brokers=3) as net:
            await scene(OpenTeams(net, folder))

    asyncio.run(run())
