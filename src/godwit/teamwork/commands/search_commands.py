"""Searches over all peers of the team, as a command: results as they arrive, then the devices that have not
answered."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.references import community_of
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]


async def search(
    team: Team,
    query: str,
    language: str,
    words: str,
    kinds: Sequence[str],
    communities: Sequence[str],
    wait_s: float,
    stays_open: bool,
) -> AsyncIterator[dict[str, Any]]:
    """Search profiles of documents, people and communities by a query and by words."""
    scopes = [community_of(team, word) for word in communities] if communities else None
    searching = team.search(
        query, language, words=words, kinds=tuple(kinds), scopes=scopes, stays_open=stays_open, wait_s=wait_s
    )
    try:
        async for result in searching:
            yield {"result": msgspec.to_builtins(result)}
        yield {"progress": msgspec.to_builtins(searching.progress)}
    finally:
        searching.end()


COMMANDS: Commands = {"search": search}
