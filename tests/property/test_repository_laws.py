"""The store on a disk answers as the store in memory does, whatever peers do; also after it was opened again."""

from collections.abc import Collection, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.teamwork.machine.changes import Change, ChangeId, Vector
from godwit.teamwork.machine.quotas import Usage
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.store import MemoryStore, Store
from godwit.teamwork.repository import Repository
from tests.property.test_teamwork_laws import USERS, meet, steps
from tests.unit.teamwork.machine.team_of_peers import Replica

_numbers = count(1)


class Compared:
    """Two stores that are written alike and must answer alike. `calls` counts the answers that were compared."""

    def __init__(self, memory: MemoryStore, disk: Repository) -> None:
        self.memory, self.disk = memory, disk
        self.calls = 0

    def _same(self, ask: Any) -> Any:
        self.calls += 1
        expected, found = ask(self.memory), ask(self.disk)
        assert found == expected
        return found

    def scopes(self) -> Iterable[str]:
        return list(self.disk.scopes())

    def vector(self, scope: str) -> Vector:
        return self._same(lambda store: store.vector(scope))  # type: ignore[no-any-return]

    def clock(self, scope: str) -> int:
        return self._same(lambda store: store.clock(scope))  # type: ignore[no-any-return]

    def raise_clock(self, scope: str, clock: int) -> None:
        self.memory.raise_clock(scope, clock)
        self.disk.raise_clock(scope, clock)

    def add(self, change: Change) -> None:
        self.memory.add(change)
        self.disk.add(change)

    def change(self, scope: str, id: ChangeId) -> Change | None:
        return self._same(lambda store: store.change(scope, id))  # type: ignore[no-any-return]

    def changes_of(self, scope: str, record: str) -> list[Change]:
        return self._same(lambda store: _sorted(store.changes_of(scope, record)))  # type: ignore[no-any-return]

    def changes_of_kinds(self, scope: str, kinds: Iterable[str]) -> list[Change]:
        return self._same(lambda store: _sorted(store.changes_of_kinds(scope, kinds)))  # type: ignore[no-any-return]

    def changes_after(self, scope: str, vector: Vector, count: int) -> list[Change]:
        return self._same(lambda store: store.changes_after(scope, vector, count))  # type: ignore[no-any-return]

    def records_changed_by(self, scope: str, users: Collection[str], devices: Collection[str]) -> list[str]:
        return self._same(lambda store: store.records_changed_by(scope, users, devices))  # type: ignore[no-any-return]

    def changes_by(self, scope: str, device: str) -> list[Change]:
        return self._same(lambda store: _sorted(store.changes_by(scope, device)))  # type: ignore[no-any-return]

    def usage(self, scope: str, *, user: str | None = None, device: str | None = None) -> Usage:
        return self._same(lambda store: store.usage(scope, user=user, device=device))  # type: ignore[no-any-return]

    def put(self, scope: str, record: Record) -> None:
        self.memory.put(scope, record)
        self.disk.put(scope, record)

    def record(self, scope: str, name: str) -> Record | None:
        return self._same(lambda store: store.record(scope, name))  # type: ignore[no-any-return]

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        return iter(self._same(lambda store: list(store.records(scope, kind))))


def _sorted(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.order)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def disk(folder: Path) -> Iterator[Repository]:
    repository = Repository(folder)
    yield repository
    repository.close()


def played(scope: str, steps: list[Any], store: Store) -> list[Replica]:
    """Four devices, the first of them with this store, after these steps; then all learn from all."""
    replicas = [Replica(scope, USERS[place % 3], str(place), None if place else store) for place in range(4)]
    for what, place, detail in steps:
        if what == "change":
            record, fields = detail
            replicas[place].change(record, **fields)
        else:
            other, number = detail
            replicas[place].learn_from(replicas[other], number)
    meet(replicas)
    return replicas


@given(steps=steps, vector=st.dictionaries(st.sampled_from("0123"), st.integers(0, 4)), limit=st.integers(1, 6))
def test_the_store_on_a_disk_answers_as_the_one_in_memory(
    disk: Repository, steps: list[Any], vector: Vector, limit: int
) -> None:
    scope = f"community/ann.{next(_numbers)}"
    store = Compared(MemoryStore(), disk)
    with disk.transaction():
        replicas = played(scope, steps, store)
    assert replicas[0].records() == replicas[3].records()
    for kind in ("artefact", "meeting", "member", "nothing"):
        list(store.records(scope, kind))
    store.changes_after(scope, vector, limit)
    assert (scope in store.scopes()) == bool(store.vector(scope))
    assert store.calls


@given(steps=steps)
def test_what_was_put_is_found_by_its_revision_and_in_a_repository_that_was_opened_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    folder, scope = tmp_path_factory.mktemp("again"), "community/ann.1"
    repository, memory = Repository(folder), MemoryStore()
    with repository.transaction():
        played(scope, steps, Compared(memory, repository))
    repository.close()
    again = Repository(folder)
    try:
        Compared(memory, again).changes_after(scope, {}, 10**6)
        names = {change.record for change in memory.changes_after(scope, {}, 10**6)}
        expected = {name: memory.record(scope, name) for name in names}
        seen: dict[str, Record] = {}
        revision = 0
        while found := again.records_since(revision, 3):
            assert {where for _, where, _ in found} == {scope}
            seen |= {record.name: record for _, _, record in found}
            revision = found[-1][0]
        assert seen == expected
        assert revision == again.revision or not expected
    finally:
        again.close()


def test_a_store_that_forgets_a_change_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "changes_of", lambda *_: [])
    repository = Repository(tmp_path)
    with pytest.raises(AssertionError):
        played("community/ann.1", [("change", 0, ("artefact/1", {"title": "x"}))], Compared(MemoryStore(), repository))
    repository.close()
