"""Operations of the HTTP API: communities and their members."""

from typing import Annotated, Any, Literal

import msgspec

from godwit.teamwork.communities import Community
from godwit.teamwork.machine.governance import ROLES
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP
from godwit.teamwork.record_history import HistoryEntry
from godwit.teamwork.web_calls import Call, Operation
from godwit.teamwork.web_people import RoleName

__all__ = ["OPERATIONS"]

JoinBy = Literal["open", "approval", "rule"]


class Listing(msgspec.Struct, frozen=True):
    """What the team may know of a community."""

    id: str
    name: str
    description: str
    join: str
    author: str


class CommunityList(msgspec.Struct, frozen=True):
    """Communities of the user, and others that are listed."""

    mine: list[Community]
    others: list[Listing]


class NewCommunity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A community to be made. `rule`: with `join` "rule", a query over profiles of users."""

    name: str
    description: str = ""
    join: JoinBy = "approval"
    rule: str = ""
    language: Annotated[str, msgspec.Meta(description=LANGUAGE_HELP)] = DEFAULT
    sealed: bool = True
    listed: bool = True


class CommunityChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to be changed; those that are left out stay."""

    name: str | None = None
    description: str | None = None
    join: JoinBy | None = None
    rule: str | None = None
    language: str | None = None
    archived: bool | None = None


class NewMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to be invited, or, with `invite` false, to be made a member or given another role."""

    user: str
    role: RoleName = "reader"
    invite: bool = True


def communities(call: Call) -> CommunityList:
    """Communities of the user, and others that are listed."""
    mine = call.team.communities.mine()
    known = {community.id for community in mine}
    listed = [_listing(fields) for fields in call.team.communities.listed()]
    return CommunityList(mine, [each for each in listed if each.id not in known])


def community(call: Call) -> Community:
    """One community."""
    return call.team.communities.get(_id(call))


def create_community(call: Call) -> Community:
    """Make a community."""
    said: NewCommunity = call.takes
    fields = msgspec.structs.asdict(said)
    return call.team.communities.get(call.team.communities.create(fields.pop("name"), **fields))


def change_community(call: Call) -> Community:
    """Change the settings of a community."""
    said = {name: value for name, value in msgspec.structs.asdict(call.takes).items() if value is not None}
    call.team.communities.change(_id(call), **said)
    return community(call)


def community_history(call: Call) -> list[HistoryEntry]:
    """All changes of settings and members."""
    return call.team.communities.history(_id(call))


def join_community(call: Call) -> None:
    """Join an open community, or accept an invitation."""
    call.team.communities.join(_id(call))


def ask_community(call: Call) -> None:
    """Ask the owners for membership."""
    call.team.communities.ask(_id(call))


def leave_community(call: Call) -> None:
    """Be a member no longer."""
    call.team.communities.leave(_id(call))


def add_member(call: Call) -> Community:
    """Invite a user, or make one a member."""
    said: NewMember = call.takes
    change = call.team.communities.invite if said.invite else call.team.communities.add
    change(_id(call), said.user, ROLES[said.role])
    return community(call)


def remove_member(call: Call) -> Community:
    """Take a user's role away."""
    call.team.communities.remove(_id(call), call.part("user"))
    return community(call)


def _id(call: Call) -> str:
    return f"community/{call.part('community')}"


def _listing(fields: dict[str, Any]) -> Listing:
    """A listing is written by peers, so any field may be missing or of another type."""
    return Listing(*(str(fields.get(name) or "") for name in ("id", "name", "description", "join", "author")))


ONE = "/api/communities/{community}"
OPERATIONS = (
    Operation("GET", "/api/communities", communities, "List communities.", gives=CommunityList),
    Operation("POST", "/api/communities", create_community, "Make a community.", NewCommunity, Community, status=201),
    Operation("GET", ONE, community, "Show a community.", gives=Community),
    Operation("PATCH", ONE, change_community, "Change or archive a community.", CommunityChange, Community),
    Operation("GET", f"{ONE}/history", community_history, "List changes.", gives=list[HistoryEntry]),
    Operation("POST", f"{ONE}/join", join_community, "Join, or accept an invitation.", status=204),
    Operation("POST", f"{ONE}/ask", ask_community, "Ask the owners for membership.", status=204),
    Operation("POST", f"{ONE}/leave", leave_community, "Leave.", status=204),
    Operation("POST", f"{ONE}/members", add_member, "Invite or add a member.", NewMember, Community),
    Operation("DELETE", f"{ONE}/members/{{user}}", remove_member, "Remove a member.", gives=Community),
)
