"""Peers in memory that make changes and exchange them, for tests."""

from collections.abc import Collection
from hashlib import sha256
from typing import Any

from godwit.errors import FilterError
from godwit.teamwork.machine.bus import Found, Wanted
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.scope_log import Added, ScopeLog
from godwit.teamwork.machine.store import MemoryStore, Store

__all__ = ["Keys", "PlainIndex", "Replica"]


class Keys:
    """Signatures that anybody could make: a device's name, hashed with the data."""

    def __init__(self, device: str) -> None:
        self._device = device

    def sign(self, data: bytes) -> bytes:
        return sha256(self._device.encode() + data).digest()

    def check(self, device: str, user: str, data: bytes, signature: bytes) -> str:
        return "" if signature == sha256(device.encode() + data).digest() else f"no signature of {device}"


class PlainIndex:
    """Finds records whose name or fields have the words of a search."""

    def __init__(self, device: str, store: Store) -> None:
        self._device, self._store = device, store

    def find(self, wanted: Wanted, scopes: Collection[str], user: str, *, only_made_here: bool) -> list[Found]:
        if wanted.query.startswith("?"):
            raise FilterError("a query does not begin with ?")
        found = []
        for scope in self._store.scopes():
            for kind in wanted.kinds:
                for record in self._store.records(scope, kind):
                    first = min(self._store.changes_of(scope, record.name), key=lambda change: change.order)
                    is_shown = scope in scopes or user in record.fields.get("shown_to", ())
                    is_here = first.device == self._device or not only_made_here
                    if is_shown and is_here and wanted.words in str(record.fields):
                        found.append(Found(scope, record.name, b"<record/>"))
        return found


class Replica:
    """One scope at one device of one user."""

    def __init__(self, scope: str, user: str, device: str, store: Store | None = None) -> None:
        self.user, self.device = user, device
        self.store = MemoryStore() if store is None else store
        self.log = ScopeLog(scope, self.store, Keys(device))

    def change(self, record: str, time: float = 0.0, **fields: Any) -> Added:
        """Make a change here, also one without a right."""
        return self.log.add(self.log.make(self.device, self.user, record, fields, time))

    def take(self, change: Change) -> Added | None:
        """Take a change of another, if it is new and all before it are here."""
        problem = self.log.problem(change)
        assert not problem, problem
        return self.log.add(change) if self.log.is_next(change) else None

    def learn_from(self, other: "Replica", count: int = 10**6) -> None:
        """Take what another has and this one lacks."""
        scope = self.log.scope
        for change in other.store.changes_after(scope, self.store.vector(scope), count):
            self.take(change)

    def records(self) -> dict[str, Any]:
        """Every record, with its conflicts and refused changes."""
        scope = self.log.scope
        names = {change.record for change in self.store.changes_after(scope, {}, 10**6)}
        return {name: self.store.record(scope, name) for name in sorted(names)}

    def fields(self, record: str) -> dict[str, Any]:
        """The fields of a record."""
        known = self.store.record(self.log.scope, record)
        return known.fields if known else {}
