"""Peers of a team in processes of their own (`godwit team serve`), and commands to them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from godwit.cli.team.peer_connection import ask
from godwit.teamwork.team_folder import join_team, new_team
from tests.network.serving import Process, running

__all__ = ["TeamPeer", "asked", "found", "invited", "team_peer"]


class TeamPeer:
    """One process that serves a folder."""

    def __init__(self, process: Process, folder: Path, said: dict[str, Any]) -> None:
        self.process, self.folder, self.said = process, folder, said

    async def ask(self, command: str, **arguments: Any) -> list[Any]:
        """All answers to a command."""
        return await asked(self.folder, command, **arguments)

    async def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        await self.process.communicate()

    async def stop(self, number: int) -> tuple[int, str]:
        """Send a signal; the exit status, and what it said on standard error."""
        self.process.send_signal(number)
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


async def asked(folder: Path, command: str, **arguments: Any) -> list[Any]:
    """All answers to a command, from the process that serves a folder, or from this one if there is none."""
    answers: list[Any] = []
    await asyncio.to_thread(ask, str(folder), command, arguments, answers.append)
    return answers


@asynccontextmanager
async def team_peer(folder: Path, *words: str, environment: dict[str, str] | None = None) -> AsyncIterator[TeamPeer]:
    """A peer that serves a folder, killed in the end if it still does."""
    arguments = ("team", "serve", str(folder), "--pages", "", *words)
    async with running(*arguments, folder=folder.parent, environment=environment) as process:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            _, errors = await process.communicate()
            raise AssertionError(f"the peer did not start: {errors.decode()}")
        yield TeamPeer(process, folder, json.loads(line))


def found(folder: Path, *brokers: object) -> Path:
    """The folder of ann, who has founded a team."""
    new_team(folder / "ann", "ann", brokers=[str(broker) for broker in brokers])
    return folder / "ann"


async def invited(ann: Path, user: str) -> Path:
    """The folder of a user whom ann has invited."""
    [answer] = await asked(ann, "invite user", name=user, role="editor", fields=[], device="laptop")
    join_team(ann.parent / user, answer["invitation"])
    return ann.parent / user
