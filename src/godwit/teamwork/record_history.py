"""The history of a record: its changes in their deciding order, with those that lost or were refused."""

from collections.abc import Iterable
from typing import Any

import msgspec

from godwit.teamwork.team_peer import TeamRecords

__all__ = ["HistoryEntry", "history_of"]


class HistoryEntry(msgspec.Struct, frozen=True):
    """One change."""

    user: str
    device: str
    time: float
    fields: dict[str, Any]
    refused: str = ""
    """Why it set nothing."""
    lost: tuple[str, ...] = ()
    """Fields that a change without knowledge of it has decided otherwise."""
    record: str = ""
    """What was changed: its kind and identifier."""


def history_of(repository: TeamRecords, scope: str, names: Iterable[str]) -> list[HistoryEntry]:
    """All changes of some records of a scope, as far as the user may see them."""
    ordered = []
    for name in names:
        record = repository.record(scope, name)
        if record is None:
            continue
        reasons = {each.change: each.reason for each in record.refused}
        for change in repository.changes_of(scope, name):
            lost = tuple(each.field for each in record.conflicts if each.lost == change.id)
            refused, fields = reasons.get(change.id, ""), dict(change.fields)
            entry = HistoryEntry(change.user, change.device, change.time, fields, refused, lost, name)
            ordered.append((change.order, entry))
    return [entry for _, entry in sorted(ordered, key=lambda each: each[0])]
