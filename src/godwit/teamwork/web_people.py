"""Operations of the HTTP API: users of the team, their profiles and presence."""

from typing import Any, Literal

import msgspec

from godwit.teamwork.machine.governance import ROLES
from godwit.teamwork.people import User
from godwit.teamwork.profiles import checked_fields
from godwit.teamwork.record_history import HistoryEntry
from godwit.teamwork.web_calls import OPERATOR, ROWS, Call, First, Limit, Operation, Page, page_of

__all__ = ["OPERATIONS", "RoleName"]

RoleName = Literal["reader", "editor", "owner"]


class PeopleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which users are asked for: those with this text in their name or profile."""

    text: str = ""
    first: First = 0
    limit: Limit = ROWS


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user to be made."""

    name: str
    role: RoleName = "editor"
    profile: dict[str, Any] = {}


class ProfileChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of a profile; null removes one."""

    profile: dict[str, Any]


class PresenceChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How available the user is, with a note, and who sees it: everyone, if nobody is named."""

    availability: Literal["available", "busy", "do not disturb", "hidden"]
    status: str = ""
    shown_to: list[str] = []


def people(call: Call) -> Page[User]:
    """The users of the team, by name."""
    text = call.query.text.casefold()
    found = [user for user in call.team.people.all() if text in f"{user.name} {user.profile}".casefold()]
    page = page_of(found, call.query)
    return Page([_visible(call, user) for user in page.items], page.total)


def person(call: Call) -> User:
    """One user."""
    return _told(call, call.part("user"))


def create_user(call: Call) -> User:
    """Make a user."""
    said: NewUser = call.takes
    call.team.people.create(said.name, checked_fields("user", said.profile, call.team.schema), ROLES[said.role])
    return _told(call, said.name)


def change_profile(call: Call) -> User:
    """Change a profile."""
    user = call.part("user")
    call.team.people.change_profile(checked_fields("user", call.takes.profile, call.team.schema), user)
    return _told(call, user)


def user_history(call: Call) -> list[HistoryEntry]:
    """All changes of a user's profile and membership."""
    return call.team.people.history(call.part("user"))


def suspend_user(call: Call) -> User:
    """Take all rights of a user away."""
    call.team.people.suspend(call.part("user"))
    return _told(call, call.part("user"))


def resume_user(call: Call) -> User:
    """Let a suspended user be a member again."""
    call.team.people.resume(call.part("user"))
    return _told(call, call.part("user"))


async def host_user(call: Call) -> User:
    """Make a device for a user on this peer, so that the user can also write here."""
    await call.team.host(call.part("user"))
    return _told(call, call.part("user"))


def set_presence(call: Call) -> None:
    """Tell the team how available the user is."""
    call.team.presence.set(call.takes.availability, call.takes.status, call.takes.shown_to)


def _told(call: Call, name: str) -> User:
    return _visible(call, call.team.people.get(name))


def _visible(call: Call, user: User) -> User:
    """Presence may be shown to some alone, and this peer knows what is shown to its own user: others get none of it."""
    return user if call.is_own_peer else msgspec.structs.replace(user, presence="")


OPERATIONS = (
    Operation("GET", "/api/people", people, "List users.", gives=Page[User], query=PeopleQuery),
    Operation("POST", "/api/people", create_user, "Make a user (owners of the team).", NewUser, User, status=201),
    Operation("GET", "/api/people/{user}", person, "Show a user.", gives=User),
    Operation("PATCH", "/api/people/{user}", change_profile, "Change a profile.", ProfileChange, User),
    Operation("GET", "/api/people/{user}/history", user_history, "List changes.", gives=list[HistoryEntry]),
    Operation("POST", "/api/people/{user}/suspend", suspend_user, "Suspend all rights of a user.", gives=User),
    Operation("POST", "/api/people/{user}/resume", resume_user, "Restore the rights of a user.", gives=User),
    Operation(
        *("POST", "/api/people/{user}/host", host_user, "Let a user also write at this peer (operator only)."),
        gives=User,
        right=OPERATOR,
    ),
    Operation("PUT", "/api/presence", set_presence, "Set how available the user is.", PresenceChange, status=204),
)
