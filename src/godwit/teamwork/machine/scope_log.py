"""The log of one scope at one peer: changes made here or received, combined to records.

*Rules.*
1. A change is taken when those before it of the same device are here, once. One that comes too early is left to the
   next exchange with a peer that has them all (`exchange.py`): it is not lost, since nobody counts it as received.
2. Records follow the changes at once. When a governing change comes, the records that it may concern are folded again:
   those changed by a user who had another role at some place in the order, or on a device that was ended. Usually there
   are none: a governing change stands at the end of the order.
3. A second change with the number of another one is a *fork*: the disk of the device was put back, or its key was
   copied. The first one that came stays, and the fork is reported. (The device takes another name, and makes its
   changes again.)
4. What is over a bound of `quotas.py` is not taken, and not made.
"""

from typing import Any, Protocol

import msgspec

from godwit.teamwork.machine.changes import CLOCK_STEP_MAX, Change, ChangeId, check_change, hash_of, signed_bytes
from godwit.teamwork.machine.governance import GOVERNING, Governance, Role, governance
from godwit.teamwork.machine.quotas import (
    RESERVED,
    RESERVED_BYTES,
    ROLELESS_MAX,
    Usage,
    largest,
    over,
    quota_of,
)
from godwit.teamwork.machine.records import Conflict, Record, folded
from godwit.teamwork.machine.store import Store

__all__ = ["Added", "Devices", "ScopeLog"]


class Devices(Protocol):
    """The keys of the team's devices, and that of this one."""

    def sign(self, data: bytes) -> bytes:
        """A signature of this device."""
        ...

    def check(self, device: str, user: str, data: bytes, signature: bytes) -> str:
        """Why this is not a valid signature of a device of that user, or ""."""
        ...


class Added(msgspec.Struct, frozen=True):
    """What a change has brought about."""

    change: Change
    records: tuple[Record, ...] = ()
    """The records that are different now."""
    conflicts: tuple[Conflict, ...] = ()
    """Conflicts that were not there before."""
    refused: str = ""
    """Why the change sets nothing."""


class ScopeLog:
    """The log of one scope."""

    def __init__(self, scope: str, store: Store, devices: Devices) -> None:
        self.scope, self._store, self._devices = scope, store, devices
        self._governance: Governance | None = None
        self._roleless: dict[str, int] = {}  # by device, its changes where its user had no role; while these are known

    @property
    def governance(self) -> Governance:
        """Who may do what in this scope."""
        if self._governance is None:
            self._governance = governance(self.scope, self._store.changes_of_kinds(self.scope, GOVERNING))
        return self._governance

    # ------------------------------------------------------------ changes of this device

    def make(self, device: str, user: str, record: str, fields: dict[str, Any], time: float) -> Change:
        """A change of this device, signed and not yet added."""
        number = self._store.vector(self.scope).get(device, 0)
        last = self._store.change(self.scope, (device, number))
        known = self._store.record(self.scope, record)
        change = Change(
            self.scope, device, number + 1, self._store.clock(self.scope) + 1, user, record, fields,
            parents=known.heads if known else (),
            previous=hash_of(last) if last else b"",
            time=time,
        )  # fmt: skip
        return msgspec.structs.replace(change, signature=self._devices.sign(signed_bytes(change)))

    def refusal(self, change: Change) -> str:
        """Why a change would set nothing, as far as is known here, or nothing: to refuse it before it is made.

        A user who joins does not know the scope yet: the other members judge that.
        """
        if wrong := check_change(change):
            return wrong
        if change.record == f"member/{change.user}" and not self.governance.settings:
            return ""
        known = self._store.record(self.scope, change.record)
        return self.governance.refusal(change, known.fields if known else {})

    def over_quota(self, change: Change) -> str:
        """Why a change of this device may not be made although its user has a right to it, or nothing."""
        if change.kind in GOVERNING or change.kind == "key":
            return ""
        more, settings = Usage(1, len(signed_bytes(change)), int(change.kind == "message")), self.governance.settings
        used, used_by_user = self._store.usage(self.scope), self._store.usage(self.scope, user=change.user)
        return over(
            quota_of("user_quota", settings), used_by_user, more, f"{change.user} in {self.scope}", "user_quota"
        ) or over(quota_of("quota", settings), used, more, self.scope, "quota")

    def raise_clock(self, clock: int) -> str:
        """Let the next change come after this clock, which others have used; why not, if that cannot be."""
        if wrong := self._clock_problem(clock):
            return wrong
        self._store.raise_clock(self.scope, clock)
        return ""

    def _clock_problem(self, clock: int) -> str:
        known = self._store.clock(self.scope)
        return f"its clock {clock:,} is too far ahead of {known:,}" if clock > known + CLOCK_STEP_MAX else ""

    # ------------------------------------------------------------ changes of all devices

    def problem(self, change: Change) -> str:
        """Why a change cannot be taken, as far as is known here, or nothing."""
        if wrong := check_change(change):
            return wrong
        if wrong := self._devices.check(change.device, change.user, signed_bytes(change), change.signature):
            return wrong
        if wrong := self._clock_problem(change.clock):
            return wrong
        known = self._store.change(self.scope, change.id)
        if known is not None and hash_of(known) != hash_of(change):
            return (
                f"there is another change {change.number} of {change.device}: its disk was put back, or its key copied"
            )
        before = self._store.change(self.scope, (change.device, change.number - 1))
        if before is not None and (hash_of(before) != change.previous or before.clock >= change.clock):
            return f"change {change.number} of {change.device} does not follow the change {before.number} known here"
        return ""

    def excess(self, change: Change) -> str:
        """Why a change is not taken now although it has no problem, or nothing. (rule 4)"""
        roles = self.governance
        if roles.role(change.user, change.order) is Role.NONE and roles.role(change.user) is Role.NONE:
            if self._roleless_changes(change.device) >= ROLELESS_MAX:
                return f"{change.user} has no role, and {ROLELESS_MAX} changes of {change.device} are kept already"
            return ""
        used = self._store.usage(self.scope, device=change.device)
        limit, size = largest("user_quota", roles.user_quotas), len(signed_bytes(change))
        if used.changes >= limit.changes + RESERVED or used.bytes + size > limit.bytes + RESERVED_BYTES:
            return (
                f"{change.device} has written {used.changes:,} changes and {used.bytes:,} bytes, "
                f"more than user_quota allows ({limit.changes:,} and {limit.bytes:,})"
            )
        return ""

    def _roleless_changes(self, device: str) -> int:
        if device not in self._roleless:
            roles, changes = self.governance, self._store.changes_by(self.scope, device)
            self._roleless[device] = sum(roles.role(each.user, each.order) is Role.NONE for each in changes)
        return self._roleless[device]

    def is_next(self, change: Change) -> bool:
        """Whether it is the one that follows the last of its device here."""
        return change.number == self._store.vector(self.scope).get(change.device, 0) + 1

    def add(self, change: Change) -> Added:
        """Take a change without a problem that is next, and let the records follow."""
        names = [change.record]
        self._roleless.pop(change.device, None)
        if change.kind in GOVERNING:
            self._roleless.clear()
            earlier = self.governance
            self._store.add(change)
            governing = self._store.changes_of_kinds(self.scope, GOVERNING)
            self._governance = governance(self.scope, governing)
            names += [each.record for each in governing]  # who was an owner decides about all of them
            users, devices = self._governance.differences(earlier)
            names += self._store.records_changed_by(self.scope, users, devices)
        else:
            self._store.add(change)
        before: dict[str, Record | None] = {name: self._store.record(self.scope, name) for name in names}
        different = []
        for name in dict.fromkeys(names):
            record = self.fold(name)
            if record != before[name]:
                self._store.put(self.scope, record)
                different.append(record)
        conflicts = tuple(
            conflict
            for record in different
            for conflict in record.conflicts
            if conflict not in _conflicts(before[record.name])
        )
        return Added(change, tuple(different), conflicts, _reason(different, change.id))

    def fold(self, name: str) -> Record:
        """A record, from its changes and the rights of their authors."""
        return folded(name, self._store.changes_of(self.scope, name), self.governance.refusal)


def _conflicts(record: Record | None) -> tuple[Conflict, ...]:
    return record.conflicts if record else ()


def _reason(records: list[Record], id: ChangeId) -> str:
    return next((each.reason for record in records for each in record.refused if each.change == id), "")
