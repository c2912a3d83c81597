"""How users hear that a scope wants them, and communities whose members are found by a rule.

*Rules.*
1. The device that invites a user, or makes the user a member, tells all devices of that user. The invitation bears a
   clock of the scope: a user who joins does not know its changes yet, and the change that joins must come after the
   invitation.
2. An invitation is believed if its signature is good. Whether it is true shows when the user joins: the other members
   judge that by their own records.
3. A community with `join = rule` has as members the users whose profile matches `rule`, a filter in any language over
   profiles. Whenever a profile or the rule changes, the devices of its owners make those changes of members that are
   due. Two of them may make the same change, which does no harm.
4. A user who was suspended in the team is suspended in communities, by the devices of their owners, in the same way.
5. A user whom an owner has removed by hand is not taken back by the rule.
"""

from typing import Protocol

import msgspec

from godwit.errors import GodwitError
from godwit.teamwork.machine.bus import Invite, signed_bytes_of
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import INVITED, JOIN_BY_RULE, JOINED, LEFT, SUSPENDED, Governance, Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.store import Store

__all__ = ["InvitationHost", "Invitations", "ProfileTest"]


class ProfileTest(Protocol):
    """Whether a query of some language matches the profile of a user."""

    def __call__(self, language: str, query: str, record: Record) -> bool:
        """Raises `GodwitError` if the query cannot be read."""
        ...


class InvitationHost(PartHost, Protocol):
    """What invitations need of their peer."""

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    def invited(self, message: Invite) -> None:
        """Tell the user of an invitation."""
        ...


class Invitations:
    """The part of a peer that brings users and scopes together."""

    def __init__(self, host: InvitationHost, store: Store, devices: Devices, matches: ProfileTest) -> None:
        self._host, self._store, self._devices, self._matches = host, store, devices, matches

    # ------------------------------------------------------------ invitations

    def on_own_change(self, change: Change) -> None:
        """A change of this device: tell a user who was invited or made a member. (rule 1)"""
        user = change.record.partition("/")[2]
        if change.kind != "member" or user == self._host.user or change.fields.get("state") not in (INVITED, JOINED):
            return
        title = str(self._host.governance(change.scope).settings.get("name", change.scope))
        invite = Invite(self._host.device, self._host.user, user, change.scope, title, change.clock)
        self._host.publish(msgspec.structs.replace(invite, signature=self._devices.sign(signed_bytes_of(invite))))

    def on_invite(self, message: Invite) -> None:
        """Another device invites this user. (rule 2)"""
        if message.for_user != self._host.user:
            return
        reason = self._devices.check(message.device, message.user, signed_bytes_of(message), message.signature)
        if reason := reason or self._host.log(message.scope).raise_clock(message.clock):
            self._host.reject(f"invitation to {message.scope}", reason)
            return
        self._host.invited(message)

    # ------------------------------------------------------------ members by rule

    def on_record(self, scope: str, name: str) -> None:
        """A record is another one now: see which members this makes."""
        kind, _, user = name.partition("/")
        if scope == self._host.team and kind in ("user", "member"):
            for community in self._own_communities():
                self._settle(community, [user])
        elif kind == "scope" and scope in self._own_communities():
            self._settle(
                scope, [record.name.partition("/")[2] for record in self._store.records(self._host.team, "user")]
            )

    def _own_communities(self) -> list[str]:
        """Communities of which this user is an owner."""
        return [
            scope
            for scope in self._store.scopes()
            if scope.startswith("community/") and self._host.governance(scope).role(self._host.user) is Role.OWNER
        ]

    def _settle(self, community: str, users: list[str]) -> None:
        governance, team = self._host.governance(community), self._host.governance(self._host.team)
        for user in users:
            if user == self._host.user:
                continue
            membership = governance.state(user)
            state, is_by_rule = membership.get("state"), membership.get("by") == JOIN_BY_RULE
            fields: dict[str, object] | None = None
            if team.state(user).get("state") == SUSPENDED:
                fields = {"state": SUSPENDED} if state == JOINED else None
            elif governance.settings.get("join") == JOIN_BY_RULE:
                is_wanted = self._is_wanted(governance, user)
                if is_wanted and (state is None or (is_by_rule and state != JOINED)):
                    fields = {"state": JOINED, "role": governance.settings.get("role", "reader"), "by": JOIN_BY_RULE}
                elif is_wanted is False and is_by_rule and state == JOINED:
                    fields = {"state": LEFT}
            if fields is not None:
                self._host.change_fields(community, f"member/{user}", fields)

    def _is_wanted(self, governance: Governance, user: str) -> bool | None:
        """Whether the rule of a community matches a user; None if the rule cannot be read."""
        profile = self._store.record(self._host.team, f"user/{user}")
        if profile is None:
            return False
        settings = governance.settings
        try:
            return self._matches(str(settings.get("language", "xql")), str(settings.get("rule", "")), profile)
        except GodwitError as error:
            self._host.reject(f"rule of {governance.scope}", str(error))
            return None
