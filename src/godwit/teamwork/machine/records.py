"""A record: the result of a set of changes. Peers with the same changes have the same record.

*Theory.* The changes of a record are taken in their order (`changes.py`), and each sets its fields. So **the change
that comes later in the order decides a field**: one made with knowledge of the other always; of two concurrent ones,
that with the higher clock, and if the clocks are equal, that of the device whose name sorts last. The order in which
changes arrive plays no part.

A concurrent change that lost a field is not lost itself: it stays in the history, and is listed as a conflict, so that
its author can be told and its value can be taken back.

*Rules.*
1. `folded(changes)` depends on the set of changes alone.
2. A conflict names a field, the change that lost it and the change that decided it, where these are concurrent and set
   different values.
3. A change whose author had no right to make it at its place in the order sets nothing. It is kept, since the right
   may still become known, and listed as refused.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from godwit.teamwork.machine.changes import Change, ChangeId

__all__ = ["Conflict", "Record", "RefusedChange", "folded"]


class Conflict(msgspec.Struct, frozen=True):
    """A field that two changes set without knowing of each other."""

    field: str
    lost: ChangeId
    decided: ChangeId


class RefusedChange(msgspec.Struct, frozen=True):
    """A change without a right, and why."""

    change: ChangeId
    reason: str


class Record(msgspec.Struct, frozen=True):
    """The state of a record."""

    name: str
    fields: dict[str, Any]
    decided_by: dict[str, ChangeId]
    """By field, the change that set it last, also if it removed it."""
    heads: tuple[ChangeId, ...]
    """The changes without children: the parents of the next one."""
    conflicts: tuple[Conflict, ...] = ()
    refused: tuple[RefusedChange, ...] = ()


Refusal = Callable[[Change, dict[str, Any]], str]
"""Why an author may not make a change to a record with these fields, or nothing."""


def folded(name: str, changes: Iterable[Change], refusal: Refusal = lambda change, fields: "") -> Record:
    """What the changes of one record add up to."""
    ordered = sorted(changes, key=lambda change: change.order)
    places = {change.id: place for place, change in enumerate(ordered)}
    ancestors = _ancestors(ordered, places)
    fields: dict[str, Any] = {}
    decided_by: dict[str, ChangeId] = {}
    setters: dict[str, list[Change]] = {}  # by field, all that have set it and were not seen by a later setter
    conflicts: list[Conflict] = []
    refused: list[RefusedChange] = []
    for change in ordered:
        if reason := refusal(change, fields):
            refused.append(RefusedChange(change.id, reason))
            continue
        seen = ancestors[change.id]
        for field, value in change.fields.items():
            unseen = [other for other in setters.get(field, ()) if not seen >> places[other.id] & 1]
            conflicts += [Conflict(field, other.id, change.id) for other in unseen if other.fields[field] != value]
            setters[field] = [*unseen, change]
            decided_by[field] = change.id
            if value is None:
                fields.pop(field, None)
            else:
                fields[field] = value
    parents = {parent for change in ordered for parent in change.parents}
    heads = tuple(change.id for change in ordered if change.id not in parents)
    return Record(name, fields, decided_by, heads, _still_open(conflicts, decided_by), tuple(refused))


def _ancestors(ordered: list[Change], places: dict[ChangeId, int]) -> dict[ChangeId, int]:
    """By change, all that its author knew of, as bits by place in the order. Parents come before their children."""
    known: dict[ChangeId, int] = {}
    for change in ordered:
        seen = 0
        for parent in change.parents:
            if parent in known:
                seen |= known[parent] | 1 << places[parent]
        known[change.id] = seen
    return known


def _still_open(conflicts: list[Conflict], decided_by: dict[str, ChangeId]) -> tuple[Conflict, ...]:
    """Conflicts of fields that nobody has set since with knowledge of both."""
    return tuple(each for each in conflicts if decided_by[each.field] == each.decided)
