"""The repository of a peer: what was acknowledged is there; other files are refused and stay as they are."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from godwit.errors import RepositoryError
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.records import Record
from godwit.teamwork.repository import FILE, Repository
from tests.conventions.repository import ROOT
from tests.unit.teamwork.killed_peer import SCOPE

PROGRAM = Path(__file__).with_name("killed_peer.py")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with closing(Repository(tmp_path)) as opened:
        yield opened


def change(number: int, clock: int = 0, record: str = "artefact/1", device: str = "d", **fields: object) -> Change:
    return Change(SCOPE, device, number, clock or number, "ann", record, dict(fields))


# ------------------------------------------------------------ what survives


def killed(folder: Path, lines: int, **environment: str) -> list[int]:
    """What a peer acknowledged before it was killed."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **environment}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    ) as peer:
        assert peer.stdout is not None
        said = [peer.stdout.readline() for _ in range(lines)]
        peer.kill()
        said += peer.stdout.readlines()
    return [int(line) for line in said if line.endswith(b"\n")]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    for round in range(1, 4):
        numbers = killed(tmp_path, 5 * round)
        with closing(Repository(tmp_path)) as repository:
            last = repository.vector(SCOPE)["d"]
            assert last >= numbers[-1]
            assert [each.number for each in repository.changes_after(SCOPE, {}, 10**6)] == list(range(1, last + 1))
            assert [number for number, _ in repository.outbox.first(10**6)] == list(range(1, last + 1))
            record = repository.record(SCOPE, "artefact/1")
            assert record is not None
            assert record.heads == (("d", last),)


def test_a_peer_that_acknowledges_too_early_is_caught(tmp_path: Path) -> None:
    numbers = killed(tmp_path, 1, KILLED_PEER_FORGETS="yes")
    with closing(Repository(tmp_path)) as repository:
        assert repository.vector(SCOPE).get("d", 0) < numbers[-1]


def test_a_transaction_that_fails_changes_nothing(repository: Repository) -> None:
    repository.add(change(1))

    def fail() -> None:
        with repository.transaction():
            repository.add(change(2))
            repository.add(Change("community/bob.2", "d", 1, 1, "bob", "artefact/1", {}))
            repository.put(SCOPE, Record("artefact/1", {}, {}, ()))
            repository.outbox.add(b"x")
            repository.settings.put("a", 1)
            repository.counters.next("c")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert repository.vector(SCOPE) == {"d": 1}
    assert repository.scopes() == [SCOPE]
    assert repository.record(SCOPE, "artefact/1") is None
    assert (len(repository.outbox), repository.settings.get("a"), repository.counters.value("c")) == (0, None, 0)
    repository.add(Change("community/bob.2", "d", 1, 1, "bob", "artefact/1", {}))
    assert repository.scopes() == [SCOPE, "community/bob.2"]


def test_a_change_is_never_replaced(repository: Repository) -> None:
    repository.add(change(1, title="first"))
    with pytest.raises(RepositoryError, match="UNIQUE"):
        repository.add(change(1, title="second"))
    found = repository.change(SCOPE, ("d", 1))
    assert found is not None
    assert found.fields == {"title": "first"}


def test_changes_of_a_device_come_in_the_order_of_its_numbers_whatever_their_clocks(repository: Repository) -> None:
    for number, clock in ((1, 9), (2, 3), (3, 10)):
        repository.add(change(number, clock))
    repository.add(change(1, 4, device="e"))
    assert [each.id for each in repository.changes_after(SCOPE, {}, 10)] == [("e", 1), ("d", 1), ("d", 2), ("d", 3)]
    assert [each.id for each in repository.changes_after(SCOPE, {"e": 1}, 1)] == [("d", 1)]


def test_more_changes_than_a_page_are_found(repository: Repository) -> None:
    with repository.transaction():
        for number in range(1, 451):
            repository.add(change(number))
    assert [each.number for each in repository.changes_after(SCOPE, {"d": 20}, 420)] == list(range(21, 441))


# ------------------------------------------------------------ what is refused


def test_a_second_process_is_refused(repository: Repository) -> None:
    with pytest.raises(RepositoryError, match=f"runs already .process {os.getpid()}"):
        Repository(repository.folder)


def test_a_file_of_another_format_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    Repository(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("UPDATE about SET value = 7 WHERE name = 'format'")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(RepositoryError, match=r"is of format 7, and this version reads format 2: use the version"):
        Repository(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, this is a text and no database", b"SQLite format 3\0" + b"x" * 4096])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RepositoryError, match=FILE):
        Repository(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


def test_an_sqlite_file_of_others_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("CREATE TABLE about (name, value)")
    with pytest.raises(RepositoryError, match="not 'godwit: repository of a peer': it says that it is None"):
        Repository(tmp_path)


def test_a_damaged_row_is_named(repository: Repository) -> None:
    repository.add(change(1))
    with closing(sqlite3.connect(repository.folder / FILE)) as file, file:
        file.execute("UPDATE changes SET body = ?", [b"\xc1"])
    with pytest.raises(RepositoryError, match="is damaged: a row cannot be read"):
        repository.change(SCOPE, ("d", 1))


def test_a_full_disk_is_named_and_changes_nothing(repository: Repository) -> None:
    repository.add(change(1))
    repository.limit(1)
    with pytest.raises(RepositoryError, match=r"there is no room for .* nothing was changed"), repository.transaction():
        repository.add(change(2, text="x" * 100_000))
    assert repository.vector(SCOPE) == {"d": 1}
    repository.limit(10**9)
    with repository.transaction():
        repository.add(change(2))


# ------------------------------------------------------------ what is a peer's own


def test_the_outbox_keeps_its_order_and_never_gives_a_number_twice(repository: Repository) -> None:
    outbox = repository.outbox
    assert [outbox.add(body) for body in (b"a", b"b", b"c")] == [1, 2, 3]
    assert outbox.first(2) == [(1, b"a"), (2, b"b")]
    assert outbox.first(2, after=2) == [(3, b"c")]
    outbox.remove([3, 1, 99])
    assert outbox.add(b"d") == 4
    assert outbox.first(9) == [(2, b"b"), (4, b"d")]


def test_settings_and_counters(repository: Repository) -> None:
    repository.settings.put("quiet.from", 22)
    repository.settings.put("quiet.list", ["a", {"b": b"c"}])
    repository.settings.put("other", "x")
    assert repository.settings.get("quiet.list") == ["a", {"b": b"c"}]
    assert repository.settings.names("quiet.") == ["quiet.from", "quiet.list"]
    repository.settings.put("quiet.from", None)
    assert repository.settings.get("quiet.from", 7) == 7
    assert [repository.counters.next("shown"), repository.counters.next("shown", 5)] == [1, 6]
    assert repository.counters.value("never") == 0


def test_every_repository_has_an_identity_that_stays(tmp_path: Path) -> None:
    with closing(Repository(tmp_path / "a")) as first, closing(Repository(tmp_path / "b")) as second:
        assert first.identity != second.identity
        before = first.identity
    with closing(Repository(tmp_path / "a")) as again:
        assert again.identity == before
