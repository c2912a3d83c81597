"""Removals: the members and devices that were removed from a scope, and which of these a peer knew at a certain time.

*Theory.* The order of changes does not say what an author knew: a change that was made offline comes to others late,
and may still stand before theirs in the order. A vector says it: by device, the last change that was known. Only
devices that removed somebody matter here, so the vector has no others.

*Rules.*
1. A removal is a change after which a user has no role, who had one just before it in the order; or the first one that
   ends a device.
2. A vector has at most `DEVICES_MAX` devices: those whose last removals are the latest in the order. Of the others
   it has the highest clock, and all removals up to this clock count as known.
3. Without a vector, or with one that is no such thing, no removal counts as known.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from godwit.teamwork.machine.changes import Order, Vector
from godwit.teamwork.machine.governance import Governance, Role

__all__ = ["KnownRemovals", "known_removals", "removals"]

DEVICES_MAX = 500

Number = Annotated[int, msgspec.Meta(ge=0)]


class KnownRemovals(msgspec.Struct, frozen=True, omit_defaults=True):
    """The removals that were known to a peer; fields of the record of a key."""

    removals: dict[str, Number] = {}
    """By device, its last removal."""
    removals_to_clock: Number = 0
    """Removals up to this clock were known, too. (rule 2)"""

    def has(self, removal: Order) -> bool:
        """Whether a removal was known."""
        clock, device, number = removal
        return number <= self.removals.get(device, 0) or clock <= self.removals_to_clock

    def are_in(self, vector: Vector) -> bool:
        """Whether a peer with these changes knows all of them, too."""
        return all(number <= vector.get(device, 0) for device, number in self.removals.items())

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "KnownRemovals":
        """From the fields of a record. (rule 3)"""
        try:
            return msgspec.convert(fields, cls)
        except msgspec.ValidationError:
            return cls()


def removals(governance: Governance) -> Iterator[Order]:
    """The place of each removal in the order of the scope. (rule 1)"""
    for held in governance.roles.values():
        for (_, before), (order, role) in pairwise(held):
            if before is not Role.NONE and role is Role.NONE:
                yield order
    yield from governance.ends


def known_removals(governance: Governance) -> KnownRemovals:
    """The removals that are known to a peer that knows these roles."""
    last: dict[str, Order] = {}
    for order in removals(governance):
        last[order[1]] = max(order, last.get(order[1], order))
    latest = sorted(last.values(), reverse=True)
    to_clock = latest[DEVICES_MAX][0] if len(latest) > DEVICES_MAX else 0
    return KnownRemovals({device: number for _, device, number in latest[:DEVICES_MAX]}, to_clock)
