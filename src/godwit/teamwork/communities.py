"""Virtual communities: people who share documents, messages and meetings. [motion §2: "virtual communities"]

A community is a scope, `community/FOUNDER.ID`. Its settings are the record `scope/self`. What the team may know of it
is a record `listing/ID` in the scope of the team; one without a listing is found by invitation alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from godwit.errors import GodwitError, Refused
from godwit.filters.filters import attributes_of
from godwit.languages import Query
from godwit.teamwork.machine.governance import (
    ASKING,
    INVITED,
    JOIN_BY_APPROVAL,
    JOIN_BY_RULE,
    JOIN_OPEN,
    JOINED,
    LEFT,
    Role,
)
from godwit.teamwork.machine.listings import listing_fields, listing_name
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow
from godwit.teamwork.machine.quotas import problem_of_quota
from godwit.teamwork.names import new_id, not_there
from godwit.teamwork.profile_schema import STANDARD, Element, Schema
from godwit.teamwork.profiles import checked_fields
from godwit.teamwork.query_languages import DEFAULT, full_name, parse_profile_query
from godwit.teamwork.record_history import HistoryEntry, history_of
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["Communities", "Community"]

WAYS_TO_JOIN = (JOIN_OPEN, JOIN_BY_APPROVAL, JOIN_BY_RULE)
TITLE_CHARS_MAX = 200
QUOTAS = ("quota", "user_quota")


class Community(msgspec.Struct, frozen=True):
    """A community, as far as this peer knows it."""

    id: str
    name: str
    description: str
    join: str
    rule: str
    is_sealed: bool
    is_archived: bool
    members: dict[str, str]
    """By user, the role; empty where this user is not a member."""
    asking: tuple[str, ...] = ()
    """Users who want to join, and wait for an owner to add them; for members."""


class Communities:
    """The communities of a team."""

    def __init__(self, peer: TeamPeer, schema: Schema = STANDARD) -> None:
        """`schema`: the elements that profiles may have."""
        self._peer, self._schema = peer, schema

    # ------------------------------------------------------------ seeing

    def mine(self) -> list[Community]:
        """Communities of which this user is a member, by name."""
        user = self._peer.identity.user
        scopes = [scope for scope in self._peer.repository.scopes() if scope.startswith("community/")]
        members = [scope for scope in scopes if self._peer.machine.governance(scope).role(user) > Role.NONE]
        return sorted(map(self.get, members), key=lambda community: community.name)

    def listed(self) -> list[dict[str, Any]]:
        """What the team may know of its communities."""
        return [dict(record.fields) for record in self._peer.repository.records(self._peer.team, "listing")]

    def get(self, id: str) -> Community:
        """One community."""
        governance = self._peer.machine.governance(id)
        settings = governance.settings
        if not settings:
            raise not_there("community", id, [])
        is_member = governance.role(self._peer.identity.user) > Role.NONE
        return Community(
            id,
            str(settings.get("name", "")),
            str(settings.get("description", "")),
            str(settings.get("join", JOIN_BY_APPROVAL)),
            str(settings.get("rule", "")),
            bool(settings.get("sealed")),
            bool(settings.get("archived")),
            {user: role.name.lower() for user, role in governance.members().items()} if is_member else {},
            governance.asking() if is_member else (),
        )

    def history(self, id: str) -> list[HistoryEntry]:
        """All changes of settings and members of a community, in the order that decides. For members."""
        self.get(id)
        members = [record.name for record in self._peer.repository.records(id, "member")]
        return history_of(self._peer.repository, id, ["scope/self", *members])

    # ------------------------------------------------------------ changing

    def create(
        self,
        name: str,
        *,
        description: str = "",
        join: str = JOIN_BY_APPROVAL,
        rule: str = "",
        language: str = DEFAULT,
        sealed: bool = True,
        listed: bool = True,
    ) -> str:
        """Make a community; its identifier. `rule`: with `join="rule"`, a query over the profiles of users."""
        settings = self._checked({"name": name, "description": description, "join": join} | _rule(join, rule, language))
        id = f"community/{self._peer.identity.user}.{new_id()}"
        self._peer.do(Follow(id))
        self._change(id, "scope/self", {**settings, "sealed": sealed})
        if listed:
            self._list(id, settings)
        return id

    def change(self, id: str, **fields: Any) -> None:
        """Change settings: `name`, `description`, `join`, `rule`, `language`, `sealed`, `archived`, and quotas.

        `quota` is how much all together may write into the community, `user_quota` how much each user may: some of
        `changes`, `bytes` and `messages` (`machine/quotas.py`). `topic` and `place` are lists
        of texts, for searches.
        """
        known = self._peer.machine.governance(id).settings
        checked = self._checked(fields, known)
        self._change(id, "scope/self", checked)

    def archive(self, id: str) -> None:
        """Let nobody change anything in it any more, until it is opened again by `change(id, archived=False)`."""
        self.change(id, archived=True)

    # ------------------------------------------------------------ members

    def invite(self, id: str, user: str, role: Role = Role.READER) -> None:
        """Invite a user."""
        self._member(id, user, {"state": INVITED, "role": role.name.lower()})

    def add(self, id: str, user: str, role: Role = Role.READER) -> None:
        """Make a user a member, or change the role."""
        self._member(id, user, {"state": JOINED, "role": role.name.lower()})

    def remove(self, id: str, user: str) -> None:
        """Take a user's role away."""
        self._member(id, user, {"state": LEFT})

    def join(self, id: str) -> None:
        """Join: an open community, or one that has invited this user; otherwise, ask its owners."""
        listing = self._peer.repository.record(self._peer.team, f"listing/{id.partition('/')[2]}")
        if listing is not None:
            clock = listing.fields.get("clock")
            if reason := self._peer.machine.log(id).raise_clock(clock if type(clock) is int else 0):
                raise Refused(f"the listing of the community is wrong: {reason}")
        self._peer.do(Follow(id))
        user = self._peer.identity.user
        if self._peer.machine.governance(id).role(user) is Role.NONE:  # another device of the user may have joined
            self._change(id, f"member/{user}", {"state": JOINED})

    def ask(self, id: str) -> None:
        """Ask the owners of a community to be taken in."""
        self._peer.do(Follow(id))
        self._change(id, f"member/{self._peer.identity.user}", {"state": ASKING})

    def leave(self, id: str) -> None:
        """Be a member no longer. What was shared until now stays on this disk."""
        self._change(id, f"member/{self._peer.identity.user}", {"state": LEFT})

    # ------------------------------------------------------------ in detail

    def _member(self, id: str, user: str, fields: dict[str, Any]) -> None:
        team = self._peer.machine.governance(self._peer.team)
        if team.role(user) is Role.NONE:
            raise not_there("user", user, team.members())
        self._change(id, f"member/{user}", fields)

    def _change(self, id: str, record: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(id, record, fields))

    def _list(self, id: str, settings: dict[str, Any]) -> None:
        listing = listing_fields(id, settings, self._peer.identity.user, self._peer.repository.clock(id))
        self._peer.do(ChangeRecord(self._peer.team, listing_name(id), listing))

    def _checked(self, fields: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
        allowed = ("name", "description", "topic", "place", "join", "rule", "language", "sealed", "archived", *QUOTAS)
        if unknown := fields.keys() - set(allowed):
            raise Refused(f"a community has no {min(unknown)!r}; it has {', '.join(allowed)}")
        about = {"about": fields["description"]} if fields.get("description") else {}
        listed = {name: fields[name] for name in ("topic", "place") if name in fields}
        checked_fields("community", listed | about, self._schema)
        settings = (known or {}) | fields
        name = settings.get("name")
        if not isinstance(name, str) or not name.strip() or len(name) > TITLE_CHARS_MAX or not name.isprintable():
            raise Refused(
                f"the name of a community must have 1 to {TITLE_CHARS_MAX} printable characters, not {name!r}"
            )
        for quota in QUOTAS:
            if quota in fields and (problem := problem_of_quota(quota, fields[quota])):
                raise Refused(problem)
        if settings.get("join") not in WAYS_TO_JOIN:
            raise Refused(f"join must be one of {', '.join(WAYS_TO_JOIN)}, not {settings.get('join')!r}")
        if settings["join"] == JOIN_BY_RULE:
            try:
                rule = parse_profile_query(str(settings.get("language", DEFAULT)), str(settings.get("rule", "")))
            except GodwitError as error:
                raise Refused(f"the rule of a community must be a query over profiles of users: {error}") from error
            if fields.keys() & {"join", "rule", "language"}:
                _check_elements(rule, self._schema)
        return fields | {"language": full_name(fields["language"])} if "language" in fields else fields


def _check_elements(rule: Query, schema: Schema) -> None:
    """Refuse a rule about something else than users: it would never make anybody a member."""
    known = {"user", *_names(schema["user"])}
    for attribute in attributes_of(rule.routable):
        for name in attribute.split("/"):
            if name.isidentifier() and name not in known and not attribute.endswith("/geojson"):
                raise Refused(
                    f"a rule tests profiles of users, and {name!r} is no element of one: "
                    f"use {', '.join(sorted(schema['user']))}"
                )


def _names(elements: Mapping[str, Element]) -> Iterator[str]:
    for name, element in elements.items():
        yield name
        yield from _names(element.parts)


def _rule(join: str, rule: str, language: str) -> dict[str, str]:
    if join == JOIN_BY_RULE:
        return {"rule": rule, "language": language}
    if rule:
        raise Refused(f'a rule needs join="rule", not {join!r}')
    return {}
