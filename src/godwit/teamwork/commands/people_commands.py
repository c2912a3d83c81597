"""Commands about people: the users of the team, their profiles, roles and devices."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from godwit.errors import Refused
from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.profile_fields import fields_of
from godwit.teamwork.commands.roles import role_of
from godwit.teamwork.people import User
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]


def users(team: Team) -> list[dict[str, Any]]:
    """All users."""
    return [_shown(user) for user in team.people.all()]


def user(team: Team, name: str) -> dict[str, Any]:
    """One user."""
    return _shown(team.people.get(name or team.user))


def create_user(team: Team, name: str, role: str, fields: Sequence[str]) -> dict[str, Any]:
    """Make a user who uses another's peer or a team server, and has no device so far."""
    team.people.create(name, fields_of("user", fields, team.schema), role_of(role))
    return user(team, name)


def invite_user(team: Team, name: str, role: str, fields: Sequence[str], device: str) -> dict[str, Any]:
    """Make a user, if there is none of that name, and a device; the text by which that device joins."""
    profile = fields_of("user", fields, team.schema)
    if profile and name in {each.name for each in team.people.all()}:
        raise Refused(f"{name} is in the team already: a profile is given to new users only")
    text = team.invite(name, profile=profile, role=role_of(role), device=device)
    return {"user": name, "invitation": text}


async def host_user(team: Team, name: str) -> AsyncIterator[dict[str, Any]]:
    """Give a user a device at this peer."""
    await team.host(name)
    yield user(team, name)


def change_profile(team: Team, name: str, fields: Sequence[str]) -> dict[str, Any]:
    """Change a profile."""
    team.people.change_profile(fields_of("user", fields, team.schema), name)
    return user(team, name)


def user_history(team: Team, name: str) -> list[dict[str, Any]]:
    """Who has changed the profile and the membership of a user."""
    return list(msgspec.to_builtins(team.people.history(name)))


def suspend_user(team: Team, name: str) -> dict[str, Any]:
    """Take all rights of a user away."""
    team.people.suspend(name)
    return user(team, name)


def resume_user(team: Team, name: str) -> dict[str, Any]:
    """Give them back."""
    team.people.resume(name)
    return user(team, name)


def end_device(team: Team, device: str) -> dict[str, Any]:
    """Take nothing more from a device."""
    team.people.end_device(device)
    return {"device": device, "ended": True}


def _shown(user: User) -> dict[str, Any]:
    return {"user": user.name, **msgspec.to_builtins(user), "name": user.profile.get("name", "")}


COMMANDS: Commands = {
    "users": users,
    "user": user,
    "create user": create_user,
    "invite user": invite_user,
    "host user": host_user,
    "change profile": change_profile,
    "user history": user_history,
    "suspend user": suspend_user,
    "resume user": resume_user,
    "end device": end_device,
}
