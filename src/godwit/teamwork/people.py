"""Users of a team: their profiles, roles and devices. [motion §2: "user and community management"]

A user is a name in the scope of the team. `member/NAME` says whether the user belongs to the team and in which role,
`user/NAME` is the profile, `device/NAME` a device.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from godwit.teamwork.machine.governance import JOINED, SUSPENDED, Role
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.names import check_name, not_there
from godwit.teamwork.profile_schema import STANDARD, Schema
from godwit.teamwork.profiles import checked_fields
from godwit.teamwork.record_history import HistoryEntry, history_of
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["People", "User"]


class User(msgspec.Struct, frozen=True):
    """A user of the team."""

    name: str
    role: str
    state: str
    profile: dict[str, Any]
    devices: tuple[str, ...]
    presence: str
    """How available, on any device; empty if none of them is here."""


class People:
    """The users of the team of a peer."""

    def __init__(self, peer: TeamPeer, schema: Schema = STANDARD) -> None:
        """`schema`: the elements that profiles may have."""
        self._peer, self._schema = peer, schema

    def all(self) -> list[User]:
        """All users, by name."""
        names = [record.name for record in self._peer.repository.records(self._peer.team, "member")]
        return [self.get(name.partition("/")[2]) for name in [f"member/{self._founder}", *names]]

    def get(self, name: str) -> User:
        """One user."""
        governance = self._peer.machine.governance(self._peer.team)
        membership = governance.state(name)
        if not membership:
            raise not_there("user", name, sorted(governance.members()))
        profile, elements = self._peer.repository.record(self._peer.team, f"user/{name}"), self._schema["user"]
        return User(
            name,
            governance.role(name).name.lower(),
            str(membership.get("state", "")),
            {field: value for field, value in profile.fields.items() if field in elements} if profile else {},
            self.devices(name),
            self._presence(name),
        )

    def devices(self, name: str) -> tuple[str, ...]:
        """The devices of a user that were not ended."""
        records = self._peer.repository.records(self._peer.team, "device")
        of_user = (record for record in records if record.fields.get("user") == name and "last" not in record.fields)
        return tuple(record.name.partition("/")[2] for record in of_user)

    def create(self, name: str, profile: Mapping[str, Any], role: Role = Role.EDITOR) -> None:
        """Make a user. Only an owner of the team may."""
        check_name("user", name)
        fields = checked_fields("user", profile, self._schema)
        self._do(f"member/{name}", {"state": JOINED, "role": role.name.lower()})
        if fields:
            self._do(f"user/{name}", fields)

    def add_device(self, name: str, device: str, public_keys: Mapping[str, str]) -> None:
        """Make a device of a user known to the team."""
        self.get(name)
        self._do(f"device/{device}", {"user": name, **public_keys})

    def end_device(self, device: str) -> None:
        """Take nothing more from a device that was lost: what it did until now, as far as is known here, stays."""
        records = self._peer.repository.records(self._peer.team, "device")
        known = {record.name.partition("/")[2] for record in records if "last" not in record.fields}
        if device not in known:
            raise not_there("device", device, known)
        last = self._peer.repository.vector(self._peer.team).get(device, 0)
        self._do(f"device/{device}", {"last": last})

    def change_profile(self, fields: Mapping[str, Any], name: str = "") -> None:
        """Change a profile, one's own unless told; None removes a field."""
        self._do(f"user/{name or self._peer.identity.user}", checked_fields("user", fields, self._schema))

    def history(self, name: str) -> list[HistoryEntry]:
        """All changes of a user's profile and membership, in the order that decides."""
        self.get(name)
        return history_of(self._peer.repository, self._peer.team, [f"user/{name}", f"member/{name}"])

    def suspend(self, name: str) -> None:
        """Take all rights of a user away, until `resume`."""
        self.get(name)
        self._do(f"member/{name}", {"state": SUSPENDED})

    def resume(self, name: str) -> None:
        """Let a suspended user be a member again."""
        self.get(name)
        self._do(f"member/{name}", {"state": JOINED})

    @property
    def _founder(self) -> str:
        return self._peer.machine.governance(self._peer.team).founder

    def _do(self, record: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(self._peer.team, record, fields))

    def _presence(self, name: str) -> str:
        said = [here.availability for here in self._peer.machine.presence.devices().values() if here.user == name]
        return min(said, default="")  # "available" comes first, also by the alphabet
