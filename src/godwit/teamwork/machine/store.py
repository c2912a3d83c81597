"""The store of a peer, as its machine uses it; and a store in memory, for simulated peers.

`repository.py` is the store on a disk. Everything that one input changes is kept in one transaction, which the driver
commits before any effect leaves the peer.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import msgspec

from godwit.teamwork.machine.changes import Change, ChangeId, Vector
from godwit.teamwork.machine.quotas import Usage
from godwit.teamwork.machine.records import Record

__all__ = ["MemoryStore", "Store"]


class Store(Protocol):
    """Changes and records, by scope."""

    def scopes(self) -> Iterable[str]:
        """Scopes with a change."""
        ...

    def vector(self, scope: str) -> Vector:
        """By device, the number of its last change here."""
        ...

    def clock(self, scope: str) -> int:
        """The highest clock of a change, or one that it was raised to."""
        ...

    def raise_clock(self, scope: str, clock: int) -> None:
        """Let the clock be at least this: others have made changes that are not here."""
        ...

    def add(self, change: Change) -> None:
        """Keep a change that follows the last one of its device."""
        ...

    def change(self, scope: str, id: ChangeId) -> Change | None:
        """One change."""
        ...

    def changes_of(self, scope: str, record: str) -> list[Change]:
        """All changes of a record, in any order."""
        ...

    def changes_of_kinds(self, scope: str, kinds: Iterable[str]) -> list[Change]:
        """All changes of records of these kinds, in any order."""
        ...

    def changes_after(self, scope: str, vector: Vector, count: int) -> list[Change]:
        """Some changes that a peer with this vector lacks, by each device in the order of its numbers."""
        ...

    def records_changed_by(self, scope: str, users: Collection[str], devices: Collection[str]) -> list[str]:
        """Names of the records that one of these users has changed, or one of these devices."""
        ...

    def changes_by(self, scope: str, device: str) -> list[Change]:
        """All changes of a device."""
        ...

    def usage(self, scope: str, *, user: str | None = None, device: str | None = None) -> Usage:
        """How much was written into a scope, by a user or device, if one is given."""
        ...

    def put(self, scope: str, record: Record) -> None:
        """Keep the state of a record."""
        ...

    def record(self, scope: str, name: str) -> Record | None:
        """The state of a record."""
        ...

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        """All records of a kind, by name."""
        ...


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[ChangeId, Change]] = {}
        self._records: dict[str, dict[str, Record]] = {}
        self._vectors: dict[str, Vector] = {}
        self._clocks: dict[str, int] = {}

    def scopes(self) -> Iterable[str]:
        return list(self._changes)

    def vector(self, scope: str) -> Vector:
        return dict(self._vectors.get(scope, {}))

    def clock(self, scope: str) -> int:
        return self._clocks.get(scope, 0)

    def raise_clock(self, scope: str, clock: int) -> None:
        self._clocks[scope] = max(clock, self._clocks.get(scope, 0))

    def add(self, change: Change) -> None:
        self._changes.setdefault(change.scope, {})[change.id] = change
        self._vectors.setdefault(change.scope, {})[change.device] = change.number
        self.raise_clock(change.scope, change.clock)

    def change(self, scope: str, id: ChangeId) -> Change | None:
        return self._changes.get(scope, {}).get(id)

    def changes_of(self, scope: str, record: str) -> list[Change]:
        return [change for change in self._changes.get(scope, {}).values() if change.record == record]

    def changes_of_kinds(self, scope: str, kinds: Iterable[str]) -> list[Change]:
        wanted = set(kinds)
        return [change for change in self._changes.get(scope, {}).values() if change.kind in wanted]

    def changes_after(self, scope: str, vector: Vector, count: int) -> list[Change]:
        missing = [
            change for change in self._changes.get(scope, {}).values() if change.number > vector.get(change.device, 0)
        ]
        return sorted(missing, key=lambda change: change.order)[:count]

    def records_changed_by(self, scope: str, users: Collection[str], devices: Collection[str]) -> list[str]:
        changes = self._changes.get(scope, {}).values()
        return sorted({change.record for change in changes if change.user in users or change.device in devices})

    def changes_by(self, scope: str, device: str) -> list[Change]:
        return [change for change in self._changes.get(scope, {}).values() if change.device == device]

    def usage(self, scope: str, *, user: str | None = None, device: str | None = None) -> Usage:
        changes = [
            change
            for change in self._changes.get(scope, {}).values()
            if user in (None, change.user) and device in (None, change.device)
        ]
        messages = sum(change.kind == "message" for change in changes)
        return Usage(len(changes), sum(len(msgspec.msgpack.encode(change)) for change in changes), messages)

    def put(self, scope: str, record: Record) -> None:
        self._records.setdefault(scope, {})[record.name] = record

    def record(self, scope: str, name: str) -> Record | None:
        return self._records.get(scope, {}).get(name)

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        for name, record in sorted(self._records.get(scope, {}).items()):
            if name.partition("/")[0] == kind:
                yield record
