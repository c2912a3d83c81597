"""Governance: who may change what in a scope, by the roles at each place in its order of changes.

*Theory.* The records that give rights are records of the scope themselves: its own record, its members, its devices.
Their changes are taken in the order of the scope, and each is judged by the roles that those before it gave. What comes
out is, for each user, a list of roles with the place from which each held; so any other change can be judged at its own
place. All peers with the same governing changes come to the same roles, and so to the same records.

*Rules.*
1. The founder, whose name is in the name of the scope, is its first owner.
2. A role that was removed is gone from that place in the order on. What its holder changed before stays.
3. `device/D` with `last = n` ends a device: its changes beyond the n-th are refused, wherever they stand in the order.
   A device that was stolen could otherwise give its changes an early place.
4. Nothing but members and settings can be changed in a scope from where it was archived on.
5. A scope has an owner always: the last one cannot leave, nor lose the role.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from godwit.teamwork.machine.changes import Change, Order

__all__ = ["GOVERNING", "KINDS", "ROLES", "Governance", "Role", "founder_of", "governance"]

GOVERNING = frozenset({"scope", "member", "device"})
"""Kinds of records that give rights."""


class Role(IntEnum):
    """What a member may do; each role may do what those below it may."""

    NONE = 0
    READER = 1
    EDITOR = 2
    OWNER = 3


class Kind(NamedTuple):
    """Who may make and change the records of a kind."""

    least: Role
    belongs_to_author: bool = False


DOCUMENT = Kind(Role.EDITOR)
KINDS = {
    "user": Kind(Role.READER, belongs_to_author=True),
    "listing": Kind(Role.READER, belongs_to_author=True),
    "artefact": DOCUMENT,
    "meeting": DOCUMENT,
    "message": Kind(Role.READER, belongs_to_author=True),
    "answer": Kind(Role.READER, belongs_to_author=True),
    "receipt": Kind(Role.READER, belongs_to_author=True),
    "key": Kind(Role.OWNER),
}
"""By kind of record. An owner may change all of them, to moderate."""

ROLES = {"reader": Role.READER, "editor": Role.EDITOR, "owner": Role.OWNER}
Held = TypeVar("Held")
NOTHING: Mapping[str, int] = MappingProxyType({})

JOIN_OPEN, JOIN_BY_APPROVAL, JOIN_BY_RULE = "open", "approval", "rule"
JOINED, LEFT, INVITED, ASKING, SUSPENDED = "joined", "left", "invited", "asking", "suspended"


def founder_of(scope: str) -> str:
    """The user who made a scope: `community/ann.9f3c21` is ann's."""
    return scope.partition("/")[2].rpartition(".")[0]


def governance(scope: str, changes: Iterable[Change]) -> "Governance":
    """Roles and devices of a scope, from its governing changes in any order.

    Whose device was ended depends on who is an owner, and the reverse. So roles are found twice: first as if no device
    had been ended, to see which ends an owner ordered, and then with these ends.
    """
    ordered = sorted(changes, key=lambda change: change.order)
    first = Governance(scope, ordered)
    ended: dict[str, int] = {}
    ends: dict[str, Order] = {}
    for change in ordered:
        last = change.fields.get("last")
        if change.kind == "device" and type(last) is int and not first.refusal(change, {}):
            device = change.record.partition("/")[2]
            ended[device] = min(last, ended.get(device, last))
            ends.setdefault(device, change.order)
    return Governance(scope, ordered, ended, tuple(ends.values())) if ended else first


class Governance:
    """Who has had which role since when; made by `governance`."""

    def __init__(
        self,
        scope: str,
        changes: Sequence[Change] = (),
        ended: Mapping[str, int] = NOTHING,
        ends: tuple[Order, ...] = (),
    ) -> None:
        """The changes are in their order; `ended` is by device its last change, `ends` the places where one ended."""
        self.scope = scope
        self.founder = founder = founder_of(scope)
        self.roles: dict[str, list[tuple[Order, Role]]] = {founder: [((0, "", 0), Role.OWNER)]}
        self._states: dict[str, dict[str, Any]] = {founder: {"state": JOINED, "role": "owner"}}
        self.ended, self.ends = dict(ended), ends
        self.settings: dict[str, Any] = {}
        self.user_quotas: list[Any] = []
        """Every quota of a user that was ever set (`quotas.py`)."""
        self.archived: list[tuple[Order, bool]] = []
        for change in changes:
            if not self.refusal(change, {}):
                self._apply(change)

    # ------------------------------------------------------------ answers

    def role(self, user: str, at: Order | None = None) -> Role:
        """The role of a user at a place in the order; the latest without one."""
        return _latest(self.roles.get(user, []), at, default=Role.NONE)

    def members(self) -> dict[str, Role]:
        """Who has a role now."""
        return {user: held[-1][1] for user, held in self.roles.items() if held[-1][1] > Role.NONE}

    def state(self, user: str) -> dict[str, Any]:
        """The membership of a user: state and role, as far as they were set."""
        return self._states.get(user, {})

    def asking(self) -> tuple[str, ...]:
        """Users who have asked to be taken in and got no answer, by name."""
        return tuple(sorted(user for user, state in self._states.items() if state.get("state") == ASKING))

    def refusal(self, change: Change, fields: dict[str, Any]) -> str:
        """Why the author had no right to this change of a record with these fields, or nothing."""
        if change.number > self.ended.get(change.device, change.number):
            return f"device {change.device} was ended after its change {self.ended[change.device]}"
        role = self.role(change.user, change.order)
        match change.kind:
            case "scope" | "device":
                return "" if role is Role.OWNER else "only an owner may do this"
            case "member":
                return self._member_refusal(change, role)
            case _ if _latest(self.archived, change.order, default=False):
                return "the community is archived"
            case _:
                return _content_refusal(change, fields, role)

    def differences(self, earlier: "Governance") -> tuple[set[str], set[str]]:
        """Users and devices whose changes may be judged differently than before."""
        users = _different(self.roles, earlier.roles)
        if self.archived != earlier.archived:
            users |= self.roles.keys() | earlier.roles.keys()
        return users, _different(self.ended, earlier.ended)

    # ------------------------------------------------------------ governing changes

    def _apply(self, change: Change) -> None:
        if change.kind == "scope":
            self.settings |= change.fields
            if "user_quota" in change.fields:
                self.user_quotas.append(change.fields["user_quota"])
            if "archived" in change.fields:
                self.archived.append((change.order, bool(change.fields["archived"])))
        elif change.kind == "member":
            user = change.record.partition("/")[2]
            state = self._states.setdefault(user, {})
            state |= change.fields
            role = ROLES.get(state.get("role", "reader"), Role.NONE) if state.get("state") == JOINED else Role.NONE
            self.roles.setdefault(user, []).append((change.order, role))

    def _member_refusal(self, change: Change, role: Role) -> str:
        user = change.record.partition("/")[2]
        now = self._states.get(user, {})
        wanted = change.fields.get("state")
        if self._is_last_owner(user, change.order) and (
            wanted not in (None, JOINED) or change.fields.get("role", "owner") != "owner"
        ):
            return "the last owner cannot leave or lose the role: make somebody else an owner first"
        if role is Role.OWNER:
            return ""
        if user != change.user or "role" in change.fields:
            return "only an owner may do this"
        if wanted in (LEFT, ASKING):
            return ""
        if wanted == JOINED and (now.get("state") == INVITED or self.settings.get("join") == JOIN_OPEN):
            return ""
        return f"{user} is neither invited, nor is the community open"

    def _is_last_owner(self, user: str, at: Order) -> bool:
        owners = [other for other in self.roles if self.role(other, at) is Role.OWNER]
        return owners == [user]


def _latest(held: Sequence[tuple[Order, Held]], at: Order | None, default: Held) -> Held:
    """What held at a place in the order; the last without one."""
    place = len(held) if at is None else bisect_right(held, at, key=itemgetter(0))
    return held[place - 1][1] if place else default


def _different(these: Mapping[str, object], those: Mapping[str, object]) -> set[str]:
    return {name for name in these.keys() | those.keys() if these.get(name) != those.get(name)}


def _author(change: Change, fields: dict[str, Any]) -> Any:
    """Whose record it is: a profile is its user's."""
    if change.kind == "user":
        return change.record.partition("/")[2]
    return fields.get("author", change.fields.get("author"))


def _content_refusal(change: Change, fields: dict[str, Any], role: Role) -> str:
    rule = KINDS.get(change.kind, DOCUMENT)
    if role is Role.NONE:
        return f"{change.user} is not a member"
    if role < rule.least:
        return f"the role of {change.user} is {role.name.lower()}, and {rule.least.name.lower()} is needed"
    if rule.belongs_to_author and role is not Role.OWNER and _author(change, fields) != change.user:
        return "only its author may change it"
    holder = fields.get("locked_by")
    if holder not in (None, change.user) and role is not Role.OWNER:
        return f"it is locked by {holder}"
    return ""
