"""Who may see what of the data on this peer, and who may ask. [motion §2.1, requirement 3]

*Theory.* Members of a scope see all of it. Others see what was *shown* to them: the field `shown_to` of a record, or of
the settings of a scope, is a list of grants. A grant names readers by user, by community and role, or by a query over
their profiles; one of a whole scope may say by a second query which documents it shows. It shows the profile and the
current version of a document, and nothing of its history. Messages, meetings and members are shown to members alone.

The settings of the team may limit what people ask for: `may_search` and `may_subscribe` are lists of grants, too. A
search, or a subscription, is let through if the query of a grant covers it (`filters`, the same question that decides
about subscriptions at brokers).

*Rules.*
1. Every way out of a peer asks here, with the state of that moment: a role that was removed counts at once.
2. A user without a role in the team sees nothing, whatever was granted.
3. What cannot be read as a grant, or be tested, grants nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from godwit.broker.client_rights import left_of
from godwit.errors import GodwitError, Refused
from godwit.languages import Query
from godwit.teamwork.machine.governance import ROLES, Governance, Role
from godwit.teamwork.machine.records import Record
from godwit.teamwork.names import NotReceived
from godwit.teamwork.query_languages import full_name, parse_profile_query
from godwit.teamwork.team_peer import TeamRecords

__all__ = ["SETTINGS", "Access", "Grant", "RecordTest", "checked_grants", "grants_of"]

GRANTS_MAX = 100
SHOWN_KINDS = frozenset({"artefact"})
SETTINGS = "scope/self"
"""The record of a scope in which its own grants are."""

RecordTest = Callable[[str, str, Record], bool]
"""Whether a query, in a language, matches the profile of a record."""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A right: who has it, and for a whole scope, to what. Everything that is given must hold."""

    user: str = ""
    community: str = ""
    """A scope: its members."""
    role: str = "reader"
    """With a community, or the team: this role or a higher one."""
    query: str = ""
    """Over the profiles of users."""
    what: str = ""
    """Over the profiles of documents; empty: all. For searches and subscriptions: over what is looked for."""
    language: str = "xql"


def checked_grants(grants: Iterable[Grant | str]) -> list[Any]:
    """Grants as they are written into records; a text is the name of a user."""
    written: list[Any] = []
    for each in grants:
        grant = Grant(user=each) if isinstance(each, str) else each
        if grant.role not in ROLES:
            raise Refused(f"a role is one of {', '.join(ROLES)}, not {grant.role!r}")
        for text in filter(None, (grant.query, grant.what)):
            parse_profile_query(grant.language, text)
        written.append(msgspec.to_builtins(replace(grant, language=full_name(grant.language))))
    if len(written) > GRANTS_MAX:
        raise Refused(f"at most {GRANTS_MAX} grants are allowed, not {len(written)}")
    return written


def grants_of(field: Any) -> list[Grant]:
    """The grants that a field holds. (rule 3)"""
    found = []
    for each in field[:GRANTS_MAX] if isinstance(field, list | tuple) else ():
        try:
            found.append(Grant(user=each) if isinstance(each, str) else msgspec.convert(each, Grant))
        except msgspec.ValidationError:
            continue
    return found


class Access:
    """The rights at one peer."""

    def __init__(
        self, team: str, records: TeamRecords, governance: Callable[[str], Governance], matches: RecordTest
    ) -> None:
        self._team, self._records, self._governance, self._matches = team, records, governance, matches

    def role(self, user: str, scope: str) -> Role:
        """The role of a user in a scope; none without a role in the team. (rule 2)"""
        if self._governance(self._team).role(user) is Role.NONE:
            return Role.NONE
        return self._governance(scope).role(user)

    def knows_of(self, user: str, scope: str) -> bool:
        """Whether a user may know that a scope is there, and its settings: a member, somebody invited, or a listing."""
        if self.role(user, scope) > Role.NONE:
            return True
        if self.role(user, self._team) is Role.NONE:
            return False
        if self._governance(scope).state(user).get("state") in ("invited", "asking"):
            return True
        return self._records.record(self._team, f"listing/{scope.partition('/')[2]}") is not None

    def may_see(self, user: str, scope: str, name: str) -> bool:
        """Whether a user may see a record: its fields, and the current version if it is a document."""
        return self.role(user, scope) > Role.NONE or self.is_shown(user, scope, name)

    def is_shown(self, user: str, scope: str, name: str) -> bool:
        """Whether a record is shown to a user by a grant."""
        if name.partition("/")[0] not in SHOWN_KINDS or self.role(user, self._team) is Role.NONE:
            return False
        record = self._records.record(scope, name)
        if record is None or record.fields.get("deleted"):
            return False
        if any(self.is_for(grant, user) for grant in grants_of(record.fields.get("shown_to"))):
            return True
        of_scope = [grant for grant in grants_of(self._settings(scope).get("shown_to")) if self.is_for(grant, user)]
        return any(not grant.what or self._is_match(grant.language, grant.what, record) for grant in of_scope)

    def may_read_content(self, user: str, scope: str, name: str, content: str) -> bool:
        """Whether a user may have a content of a document: members each version, others the current one."""
        record = self._records.record(scope, name)
        if record is None or not name.startswith("artefact/"):
            return False
        if self.role(user, scope) > Role.NONE:
            return any(change.fields.get("content") == content for change in self._records.changes_of(scope, name))
        return record.fields.get("content") == content and self.is_shown(user, scope, name)

    def check_query(self, user: str, right: str, query: Query | None) -> None:
        """Refuse a search (`may_search`) or subscription (`may_subscribe`) that no grant of the team covers."""
        if self.role(user, self._team) is Role.NONE:
            if not self._records.vector(self._team):
                raise NotReceived
            raise Refused(f"{user} is not a member of the team")
        limits = self._settings(self._team).get(right)
        if limits is None:
            return
        for grant in grants_of(limits):
            if self.is_for(grant, user) and (not grant.what or _covers(grant, query)):
                return
        name = right.removeprefix("may_")
        raise Refused(
            f"the team does not let {user} ask for this: no grant of {name} covers it "
            '("godwit team right list" shows what the team has granted)'
        )

    def is_for(self, grant: Grant, user: str) -> bool:
        """Whether a user is one of those whom a grant names. (rule 3)"""
        if not (grant.user or grant.community or grant.query) and grant.role == "reader" and not grant.what:
            return False  # it names nobody
        if grant.user and grant.user != user:
            return False
        if self.role(user, grant.community or self._team) < ROLES.get(grant.role, Role.OWNER):
            return False
        if not grant.query:
            return True
        profile = self._records.record(self._team, f"user/{user}")
        return profile is not None and self._is_match(grant.language, grant.query, profile)

    def _settings(self, scope: str) -> Mapping[str, Any]:
        return self._governance(scope).settings

    def _is_match(self, language: str, query: str, record: Record) -> bool:
        try:
            return self._matches(language, query, record)
        except GodwitError:
            return False


def _covers(grant: Grant, query: Query | None) -> bool:
    """Whether everything that a query can find is within a grant. (rule 3)"""
    if query is None:
        return False  # words alone may be found in anything
    try:
        within = parse_profile_query(grant.language, grant.what)
    except GodwitError:
        return False
    return within.test is None and left_of(query.routable, within.routable, "refuse") is not None
