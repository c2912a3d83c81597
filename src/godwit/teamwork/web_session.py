"""Operations of the HTTP API: login and logout, passwords, tokens of programs, login links for others."""

import asyncio

import msgspec
from starlette.responses import Response

from godwit.errors import PeerFault
from godwit.runtime.http_requests import Problem, json_response
from godwit.teamwork.profile_schema import added_elements
from godwit.teamwork.query_languages import OFFERED
from godwit.teamwork.team import Team
from godwit.teamwork.web_accounts import TOKEN, Key, new_hash
from godwit.teamwork.web_calls import ANYBODY, OPERATOR, Call, Operation, Web

__all__ = ["OPERATIONS"]

DAY_S = 86_400.0


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user and password, or the code of a login link."""

    user: str = ""
    password: str = ""
    code: str = ""


class AddedElement(msgspec.Struct, frozen=True):
    """An element of profiles: what it holds, and whether it may be there several times."""

    type: str
    repeatable: bool


class Session(msgspec.Struct, frozen=True):
    """Who is logged in; nobody, if `user` is empty."""

    user: str = ""
    role: str = ""
    """In the team."""
    team: str = ""
    """The scope of the team."""
    may_write: bool = False
    """Whether a device of the user is here, which signs what the user changes. Others read only."""
    is_operator: bool = False
    """Whether this is the user who runs this peer."""
    has_password: bool = False
    expires: float = 0.0
    languages: dict[str, str] = msgspec.field(default_factory=lambda: dict(OFFERED))
    """By language of queries, an example."""
    added_elements: dict[str, AddedElement] = {}
    """By name, the elements that the organisation has added to profiles of users."""


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new password, and the one until now, where there is one."""

    new: str
    old: str = ""


class TokenWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token that is wanted: a label to know it by, and for how many seconds."""

    label: str
    expires_s: float = 90 * DAY_S


class NewToken(msgspec.Struct, frozen=True):
    """A token, whose secret is shown this once."""

    secret: str
    token: Key


class LinkWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For whom a login link is wanted."""

    user: str


class LoginLink(msgspec.Struct, frozen=True):
    """An address by which a user logs in, once, within a day."""

    path: str


async def login(call: Call) -> Response:
    """Log in, and set the cookie of the session."""
    said: Login = call.takes
    web, host = call.web, call.web.host_of(call.request)
    if said.code:
        user = web.accounts.user_of_code(said.code, host)
    else:
        await web.accounts.check_password(said.user, said.password, host)
        user = said.user
    team = web.team_of(user)  # which refuses who is no member any more
    secret, key = web.accounts.new_session(user, call.request.headers.get("user-agent", ""))
    answer = json_response(_session(web, team, key))
    web.set_cookie(call.request, answer, secret, key)
    return answer


def logout(call: Call) -> Response:
    """End the session."""
    call.web.end_key(_key(call))
    answer = Response(status_code=204)
    call.web.delete_cookie(answer)
    return answer


def session(call: Call) -> Session:
    """Who is logged in: an empty user, if nobody is."""
    try:
        key = call.web.key_of(call.request)
        return _session(call.web, call.web.team_of(key.user), key)
    except PeerFault:
        return Session()


async def change_password(call: Call) -> None:
    """Set the password; other sessions of the user end."""
    accounts = call.web.accounts
    if accounts.has_password(call.user):
        await accounts.check_password(call.user, call.takes.old, call.web.host_of(call.request))
    hash = await asyncio.to_thread(new_hash, call.takes.new)
    accounts.set_hash(call.user, hash, _key(call).id)
    call.web.check_streams()


def tokens(call: Call) -> list[Key]:
    """The tokens of the user."""
    return call.web.accounts.keys(call.user, TOKEN)


def create_token(call: Call) -> NewToken:
    """Make a token for a program."""
    return NewToken(*call.web.accounts.new_token(call.user, call.takes.label, call.takes.expires_s))


def end_token(call: Call) -> None:
    """End a token."""
    call.web.accounts.end(call.user, call.part("id"))
    call.web.check_streams()


def create_login_link(call: Call) -> LoginLink:
    """Make a login link for a user of the team. Only the operator may: the holder of the link is that user here."""
    user = call.team.people.get(call.takes.user).name
    return LoginLink(f"/team/login#{call.web.accounts.new_code(user)}")


def _session(web: Web, team: Team, key: Key) -> Session:
    added = added_elements(team.schema, "user")
    return Session(
        key.user,
        team.access.role(key.user, team.scope).name.lower(),
        team.scope,
        key.user == team.peer.identity.user,
        key.user == web.operator,
        web.accounts.has_password(key.user),
        key.expires,
        added_elements={name: AddedElement(each.type, each.repeatable) for name, each in added.items()},
    )


def _key(call: Call) -> Key:
    if call.key is None:
        raise Problem(401, "log in first")
    return call.key


OPERATIONS = (
    Operation("POST", "/api/login", login, "Log in.", Login, Session, right=ANYBODY),
    Operation("POST", "/api/logout", logout, "Log out.", status=204),
    Operation("GET", "/api/session", session, "Show who is logged in.", gives=Session, right=ANYBODY),
    Operation("PUT", "/api/password", change_password, "Set the password.", NewPassword, status=204),
    Operation("GET", "/api/tokens", tokens, "List tokens of programs.", gives=list[Key]),
    Operation("POST", "/api/tokens", create_token, "Make a token.", TokenWish, NewToken, status=201),
    Operation("DELETE", "/api/tokens/{id}", end_token, "End a token.", status=204),
    Operation(
        *("POST", "/api/login_links", create_login_link, "Make a login link for a user (operator only)."),
        *(LinkWish, LoginLink),
        right=OPERATOR,
        status=201,
    ),
)
