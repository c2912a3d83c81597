"""A change: the unit of all stored data of a team, signed by the device that made it.

*Theory.* A scope is a set of records that the same people may see: the directory of the team, a community, a
conversation. Each device numbers its changes of a scope 1, 2, 3, …, and each change names the hash of the one before
it. So a peer says with one number per device what it has, and a device whose disk was put back is noticed: it makes a
second change of the same number.

Changes of a scope have a total order that every peer computes alike: by logical clock, then by device, then by number.
A device gives a change a clock that is one higher than every clock of that scope it knows. So a change comes after all
changes that its author had seen, whatever the clocks on the walls say. Times of day are shown to people and decide
nothing.

*Rules.*
1. A change is never altered. Its name is its device and number; its hash covers everything but the signature.
2. `parents` are the latest changes of the same record that the author knew. Two changes are *concurrent* when neither
   is an ancestor of the other.
3. A clock is at most `CLOCK_STEP_MAX` ahead of all that a peer knows of the scope. Otherwise one change with the
   highest clock there is would leave no clock for anybody else. A change that is too far ahead is not taken now; it is
   taken when others in between are known. So this, too, does not depend on the order of arrival.
"""

from hashlib import sha256
from typing import Any

import msgspec

__all__ = ["CLOCK_STEP_MAX", "Change", "ChangeId", "Order", "Vector", "check_change", "hash_of", "signed_bytes"]

ChangeId = tuple[str, int]
"""The device that made a change, and its number."""

Order = tuple[int, str, int]
"""Where a change stands in its scope: clock, device, number."""

Vector = dict[str, int]
"""By device, the last change that is known; all before it are known, too."""

CLOCK_MAX = 2**62
CLOCK_STEP_MAX = 2**32
NAME_CHARS_MAX = 200
FIELDS_MAX = 200
PARENTS_MAX = 64
CHANGE_BYTES_MAX = 2**20


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user did to one record, on one device."""

    scope: str
    device: str
    number: int
    clock: int
    user: str
    record: str
    """Its kind and identifier: `artefact/3f…`."""
    fields: dict[str, Any]
    """What it sets. None removes a field."""
    parents: tuple[ChangeId, ...] = ()
    previous: bytes = b""
    """Hash of the change of this device and scope before it."""
    time: float = 0.0
    """Time of day on the device. For people: it decides nothing."""
    signature: bytes = b""

    @property
    def id(self) -> ChangeId:
        return self.device, self.number

    @property
    def order(self) -> Order:
        return self.clock, self.device, self.number

    @property
    def kind(self) -> str:
        return self.record.partition("/")[0]


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def signed_bytes(change: Change) -> bytes:
    """What a signature is made over: the change without its signature."""
    return _ENCODER.encode(msgspec.structs.replace(change, signature=b""))


def hash_of(change: Change) -> bytes:
    """The hash by which the next change of the device names this one."""
    return sha256(signed_bytes(change)).digest()


def check_change(change: Change) -> str:
    """Why a change cannot be one, or nothing. Types were checked by the decoder."""
    names = {"scope": change.scope, "device": change.device, "user": change.user, "record": change.record}
    for what, name in names.items():
        if not name or len(name) > NAME_CHARS_MAX:
            return f"{what} must have 1 to {NAME_CHARS_MAX} characters"
        if not name.isprintable():
            return f"{what} has characters that cannot be printed"
    if not (change.kind and change.record.partition("/")[2]):
        return f"record must be KIND/IDENTIFIER, not {change.record!r}"
    if not 1 <= change.number <= CLOCK_MAX or not change.number <= change.clock <= CLOCK_MAX:
        return "number and clock must be 1 or more, and the clock not below the number"
    if len(change.fields) > FIELDS_MAX or len(change.parents) > PARENTS_MAX:
        return f"a change has at most {FIELDS_MAX} fields and {PARENTS_MAX} parents"
    if len(signed_bytes(change)) > CHANGE_BYTES_MAX:
        return f"a change has at most {CHANGE_BYTES_MAX:,} bytes"
    return ""
