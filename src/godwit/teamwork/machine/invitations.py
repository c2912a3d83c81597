"""Invitations: how users learn of a scope that has invited them, and communities with members by rule.

*Rules.*
1. The device that invites a user, or makes the user a member, tells all devices of that user. The invitation bears a
   clock of the scope: a user who joins does not know its changes yet, and the change that joins must come after the
   invitation. The device that founds a scope, or joins one, tells the other devices of its own user in the same way.
2. An invitation is believed if its signature is good. Whether it is true shows when the user joins: the other members
   judge that by their own records.
3. A community with `join = rule` has as members the users whose profile matches `rule`, a filter in any language over
   profiles. Whenever a profile or the rule changes, the devices of its owners make those changes of members that are
   due. Two of them may make the same change, which does no harm.
4. A user who was suspended in the team is suspended in communities, by the devices of their owners, in the same way,
   and a member again when the team resumes the user.
   A device that was ended in the team is ended there and in conversations, too, where its user is a member.
5. A peer follows at most `SCOPES_MAX` scopes: an invitation to one more is refused, and says so.
6. A user whom an owner has removed by hand is not taken back by the rule.
7. A device that lacks changes of the team may never have heard of invitations: it is new, or brokers no longer had its
   session. When it says what it has, the devices that invited its user do so again, `AGAIN_S` later: until then it has
   subscribed. An invitation that is known already is not told to the user again.
8. An invitation of a device that is not known yet is refused, and looked at again when it is: a peer that is new learns
   the devices of the team one after another. At most `WAITING_MAX` are remembered for this.
"""

from collections.abc import Collection
from typing import Protocol

import msgspec

from godwit.errors import GodwitError
from godwit.teamwork.machine.bus import Have, Invite, signed_bytes_of
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import INVITED, JOIN_BY_RULE, JOINED, LEFT, SUSPENDED, Governance, Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.store import Store

__all__ = ["InvitationHost", "Invitations", "ProfileTest"]


SCOPES_MAX = 2_000
AGAIN, AGAIN_S = "invite again", 1.0
WAITING_MAX = 1_000


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

    @property
    def followed(self) -> Collection[str]:
        """Scopes that this peer follows."""
        ...

    def invited(self, message: Invite) -> None:
        """Tell the user of an invitation."""
        ...


class Invitations:
    """The part of a peer that brings users and scopes together."""

    def __init__(self, host: InvitationHost, store: Store, devices: Devices, matches: ProfileTest) -> None:
        self._host, self._store, self._devices, self._matches = host, store, devices, matches
        self._waiting: dict[tuple[str, str], Invite] = {}  # by device that is not known yet, and scope

    # ------------------------------------------------------------ invitations

    def on_own_change(self, change: Change) -> None:
        """A change of this device: tell a user who was invited, made a member, or has founded the scope. (rule 1)"""
        user, state = change.record.partition("/")[2], change.fields.get("state")
        if change.kind == "member" and state in ((JOINED,) if user == self._host.user else (INVITED, JOINED)):
            self._invite(change.scope, user, change.clock)
        elif change.kind == "scope" and change.number == 1 and change.scope != self._host.team:
            self._invite(change.scope, self._host.user, change.clock)

    def _invite(self, scope: str, user: str, clock: int) -> None:
        title = str(self._host.governance(scope).settings.get("name", scope))
        invite = Invite(self._host.device, self._host.user, user, scope, title, clock)
        self._host.publish(msgspec.structs.replace(invite, signature=self._devices.sign(signed_bytes_of(invite))))

    def on_have(self, message: Have) -> None:
        """A device says what it has of the team. (rule 7)"""
        known = self._store.vector(message.scope)
        if message.scope != self._host.team or not any(
            number > message.vector.get(device, 0) for device, number in known.items()
        ):
            return
        record = self._store.record(message.scope, f"device/{message.device}")
        if record is not None and message.device != self._host.device:
            self._host.start_timer((AGAIN, str(record.fields.get("user"))), AGAIN_S)

    def on_timer(self, what: str, user: str) -> None:
        """Invite a user again to all scopes to which this device has, or its own user to all of that user. (rule 7)"""
        if user == self._host.user:
            for scope in sorted({*self._host.followed} - {self._host.team}):
                if self._host.governance(scope).role(user) > Role.NONE:
                    self._invite(scope, user, self._store.clock(scope))
            return
        for scope in self._store.scopes():
            record = self._store.record(scope, f"member/{user}") if scope != self._host.team else None
            if record is None or record.fields.get("state") not in (INVITED, JOINED):
                continue
            change = self._store.change(scope, record.decided_by["state"])
            if change is not None and change.device == self._host.device:
                self._invite(scope, user, change.clock)

    def on_invite(self, message: Invite) -> None:
        """Another device invites this user. (rule 2)"""
        if message.for_user != self._host.user:
            return
        reason = self._devices.check(message.device, message.user, signed_bytes_of(message), message.signature)
        is_known = self._store.record(self._host.team, f"device/{message.device}") is not None
        if reason and not is_known and len(self._waiting) < WAITING_MAX:  # (rule 8)
            self._waiting[message.device, message.scope] = message
        if not reason and message.scope not in self._host.followed and len(self._host.followed) >= SCOPES_MAX:
            reason = f"this peer follows {SCOPES_MAX:,} communities and conversations: leave one of them first"
        if reason := reason or self._host.log(message.scope).raise_clock(message.clock):
            self._host.reject(f"invitation to {message.scope}", reason)
            return
        known = self._host.governance(message.scope).state(self._host.user).get("state")
        if message.scope not in self._host.followed or known not in (INVITED, JOINED):
            self._host.invited(message)

    # ------------------------------------------------------------ members by rule

    def on_record(self, scope: str, name: str) -> None:
        """A record is another one now: see which members this makes, and which invitations can be believed."""
        kind, _, id = name.partition("/")
        if scope == self._host.team and kind == "device":
            for key in [key for key in self._waiting if key[0] == id]:
                self.on_invite(self._waiting.pop(key))
            for owned in self._own_scopes():
                self._end_devices(owned)
        elif scope == self._host.team and kind in ("user", "member"):
            for community in self._own_communities():
                self._settle(community, [id])
        elif kind == "scope" and scope in self._own_communities():
            self._settle(
                scope, [record.name.partition("/")[2] for record in self._store.records(self._host.team, "user")]
            )
        elif kind == "member" and scope in self._own_scopes():
            self._end_devices(scope)

    def _own_scopes(self) -> list[str]:
        """Communities and conversations of which this user is an owner."""
        return [
            scope
            for scope in self._store.scopes()
            if scope != self._host.team and self._host.governance(scope).role(self._host.user) is Role.OWNER
        ]

    def _own_communities(self) -> list[str]:
        """Communities of which this user is an owner."""
        return [scope for scope in self._own_scopes() if scope.startswith("community/")]

    def _end_devices(self, scope: str) -> None:
        """End devices of members that were ended in the team. (rule 4)"""
        for device in sorted(self._host.governance(self._host.team).ended):
            record = self._store.record(self._host.team, f"device/{device}")
            governance = self._host.governance(scope)
            is_of_member = record is not None and governance.role(str(record.fields.get("user"))) is not Role.NONE
            if is_of_member and device not in governance.ended:
                last = self._store.vector(scope).get(device, 0)
                self._host.change_fields(scope, f"device/{device}", {"last": last})

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
            elif state == SUSPENDED and not is_by_rule and team.role(user) > Role.NONE:
                fields = {"state": JOINED}
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
