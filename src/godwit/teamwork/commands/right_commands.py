"""Commands about rights: to read documents of others, to search, and to subscribe.

A right is `read`, of a document or of all documents of a community, or `search` or `subscribe`, of the whole team. It
has a numbered list of grants. Without a list, nobody but members reads, and members search and subscribe freely.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from godwit.errors import Refused
from godwit.teamwork.access import Grant
from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.references import community_of, document_of, documents_of, scopes_of
from godwit.teamwork.commands.roles import role_of
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]

RIGHTS = ("read", "search", "subscribe")


class GrantList(NamedTuple):
    """The grants of one right, and how they are replaced."""

    right: str
    of: str
    grants: list[Grant] | None
    replace: Callable[[list[Grant] | None], None]

    def rows(self, team: Team) -> list[dict[str, Any]]:
        """A row for each grant, with the number by which it is revoked."""
        names = {community.id: community.name for community in team.communities.mine()} | {team.scope: "team"}
        return [
            {
                "right": self.right,
                "of": self.of,
                "number": number,
                **msgspec.structs.asdict(grant),
                "community": names.get(grant.community, grant.community),
            }
            for number, grant in enumerate(self.grants or (), 1)
        ]


def rights(team: Team) -> list[dict[str, Any]]:
    """All grants of the team, its communities and documents that the user may know of."""
    lists = [
        *(_limits(team, right) for right in ("search", "subscribe")),
        *(_of_scope(team, scope) for scope in scopes_of(team)),
        *(_of_document(team, document.scope, document.id, document.name) for document in documents_of(team)),
    ]
    return [row for each in lists for row in each.rows(team)]


def grant_right(team: Team, right: str, document: str, of: str, grant: Mapping[str, str]) -> list[dict[str, Any]]:
    """Add a grant to a right; the grants that there are then."""
    found = _found(team, right, document, of)
    added = _grant(team, grant)
    if not (added.user or added.community or added.query or added.what) and added.role == Grant().role:
        raise Refused(
            "this grant would be for everybody and everything: name a user, a community, a query over users, "
            "what it is for, or the role editor or owner"
        )
    if right == "read" and document and added.what:
        raise Refused("`what` chooses documents of a community: leave it out for one document")
    if added in (found.grants or ()):
        raise Refused(f"there is such a grant of {right} already")
    found.replace([*(found.grants or ()), added])
    return _found(team, right, document, of).rows(team)


def revoke_right(team: Team, right: str, document: str, of: str, number: int | None) -> list[dict[str, Any]]:
    """Remove a grant by its number, or all of them; the grants that are left."""
    found = _found(team, right, document, of)
    grants = found.grants or []
    if number is None:
        found.replace(None)
    elif not 1 <= number <= len(grants):
        raise Refused(f"{right} has {len(grants)} grants: there is no number {number}")
    elif len(grants) == 1 and right != "read":
        raise Refused(f"this is the last grant of {right}: revoke all of them, and members may {right} freely again")
    else:
        found.replace([*grants[: number - 1], *grants[number:]])
    return _found(team, right, document, of).rows(team)


def _found(team: Team, right: str, document: str, of: str) -> GrantList:
    if right not in RIGHTS:
        raise Refused(f"a right is one of {', '.join(RIGHTS)}, not {right!r}")
    if right != "read":
        if document or of:
            raise Refused(f"{right} is a right of the whole team: name no document and no community")
        return _limits(team, right)
    if bool(document) == bool(of):
        raise Refused("name either the document or the community whose documents may be read")
    if of:
        return _of_scope(team, community_of(team, of))
    found = document_of(team, document)
    return _of_document(team, found.scope, found.id, found.name)


def _of_document(team: Team, scope: str, id: str, name: str) -> GrantList:
    return GrantList(
        "read", name, team.rights.shown(scope, id), lambda grants: team.rights.show(scope, id, grants or [])
    )


def _of_scope(team: Team, scope: str) -> GrantList:
    name = "team" if scope == team.scope else team.communities.get(scope).name
    return GrantList(
        "read", name, team.rights.shown_scope(scope), lambda grants: team.rights.show_scope(scope, grants or [])
    )


def _limits(team: Team, right: str) -> GrantList:
    if right == "search":
        return GrantList(right, "team", team.rights.search_limits(), team.rights.limit_searches)
    return GrantList(right, "team", team.rights.subscription_limits(), team.rights.limit_subscriptions)


def _grant(team: Team, said: Mapping[str, str]) -> Grant:
    try:
        grant = msgspec.convert(dict(said), Grant)
    except msgspec.ValidationError as error:
        raise Refused(f"not a valid grant: {error}") from None
    role_of(grant.role)
    if grant.user:
        team.people.get(grant.user)
    if grant.community:
        grant = msgspec.structs.replace(grant, community=community_of(team, grant.community))
    return grant


COMMANDS: Commands = {
    "rights": rights,
    "grant right": grant_right,
    "revoke right": revoke_right,
}
