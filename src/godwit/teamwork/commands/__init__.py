"""Commands of users, by name: functions over a `Team` whose answers can be written as JSON.

They are called by the process that has the folder: `godwit team serve`, or the command itself when none runs.
"""

import inspect
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from godwit.errors import Refused
from godwit.teamwork.commands import (
    community_commands,
    document_commands,
    message_commands,
    peer_commands,
    people_commands,
    right_commands,
    search_commands,
)
from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.names import MissingRole, NotReceived, NotThere
from godwit.teamwork.team import Team

__all__ = ["COMMANDS", "run"]

COMMANDS: Commands = {
    **people_commands.COMMANDS,
    **community_commands.COMMANDS,
    **document_commands.COMMANDS,
    **right_commands.COMMANDS,
    **search_commands.COMMANDS,
    **message_commands.COMMANDS,
    **peer_commands.COMMANDS,
}


async def run(team: Team, name: str, arguments: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    """Carry out a command; its answers, as they come. `Refused` if there is no such command.

    A new peer knows nothing of the team yet. If something is not there, or the user lacks a role, the error says so.
    """
    try:
        async with aclosing(_answers(team, name, arguments)) as answers:
            async for answer in answers:
                yield answer
    except (NotThere, MissingRole) as error:
        if team.is_new:
            raise NotReceived(str(error)) from error
        raise


async def _answers(team: Team, name: str, arguments: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    command = COMMANDS.get(name)
    if command is None:
        raise Refused(f"there is no command {name!r}: is the peer of another version?")
    try:
        inspect.signature(command).bind(team, **arguments)
    except TypeError as error:
        raise Refused(f"the command {name!r} has other arguments ({error}): is the peer of another version?") from None
    answers = command(team, **arguments)
    if inspect.isasyncgen(answers):
        try:
            async for answer in answers:
                yield answer
        finally:
            await answers.aclose()
    else:
        for answer in answers if isinstance(answers, list) else [answers]:
            yield answer
