"""Commands about communities: found, open, join, leave, and list members."""

from collections.abc import Mapping
from typing import Any

import msgspec

from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.references import community_of
from godwit.teamwork.commands.roles import role_of
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]


def communities(team: Team) -> list[dict[str, Any]]:
    """Those of the user, and those that the team may know of."""
    mine = {community.id: community for community in team.communities.mine()}
    others = [listing for listing in team.communities.listed() if listing.get("id") not in mine]
    return [
        *({**msgspec.to_builtins(community), "is_member": True} for community in mine.values()),
        *(
            {name: listing.get(name, "") for name in ("id", "name", "description", "join")} | {"is_member": False}
            for listing in others
        ),
    ]


def community(team: Team, community: str) -> dict[str, Any]:
    """One community."""
    return _shown(team, community_of(team, community))


def create_community(
    team: Team, name: str, description: str, join: str, rule: str, language: str, sealed: bool, listed: bool
) -> dict[str, Any]:
    """Found a community."""
    id = team.communities.create(
        name, description=description, join=join, rule=rule, language=language, sealed=sealed, listed=listed
    )
    return _shown(team, id)


def change_community(team: Team, community: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Change settings of a community."""
    id = community_of(team, community)
    team.communities.change(id, **fields)
    return _shown(team, id)


def invite_member(team: Team, community: str, user: str, role: str) -> dict[str, Any]:
    """Invite a user to a community."""
    id = community_of(team, community)
    team.communities.invite(id, user, role_of(role))
    return _shown(team, id)


def add_member(team: Team, community: str, user: str, role: str) -> dict[str, Any]:
    """Make a user a member of a community, or change the role."""
    id = community_of(team, community)
    team.communities.add(id, user, role_of(role))
    return _shown(team, id)


def remove_member(team: Team, community: str, user: str) -> dict[str, Any]:
    """End the membership of a user."""
    id = community_of(team, community)
    team.communities.remove(id, user)
    return _shown(team, id)


def community_history(team: Team, community: str) -> list[dict[str, Any]]:
    """Who has changed the settings and the members of a community."""
    return list(msgspec.to_builtins(team.communities.history(community_of(team, community))))


def join_community(team: Team, community: str) -> dict[str, Any]:
    """Join a community that is open or has invited the user."""
    id = community_of(team, community)
    team.communities.join(id)
    return {"id": id, "state": "joined"}


def ask_community(team: Team, community: str) -> dict[str, Any]:
    """Ask the owners of a community to be taken in."""
    id = community_of(team, community)
    team.communities.ask(id)
    return {"id": id, "state": "asking"}


def leave_community(team: Team, community: str) -> dict[str, Any]:
    """End the membership of the user."""
    id = community_of(team, community)
    team.communities.leave(id)
    return {"id": id, "state": "left"}


def _shown(team: Team, id: str) -> dict[str, Any]:
    return dict(msgspec.to_builtins(team.communities.get(id)))


COMMANDS: Commands = {
    "communities": communities,
    "community": community,
    "create community": create_community,
    "change community": change_community,
    "invite member": invite_member,
    "add member": add_member,
    "remove member": remove_member,
    "community history": community_history,
    "join community": join_community,
    "ask community": ask_community,
    "leave community": leave_community,
}
