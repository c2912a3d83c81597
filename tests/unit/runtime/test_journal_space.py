"""Room for a journal on a full disk: a snapshot is written in the reserve, and no crash on the way loses anything."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from godwit.errors import JournalError
from godwit.runtime import journal_space
from godwit.runtime.journal import FILE, Journal
from godwit.runtime.journal_space import DRAFT, NEXT, RESERVE, RESERVE_BYTES, JournalSpace

BATCHES = [b"batch %d " % number * 100 for number in range(1, 9)]


def written(folder: Path) -> Journal:
    journal = Journal(folder, "b1")
    for data in BATCHES:
        journal.append(data)
    return journal


def fill(journal: Journal) -> None:
    """From now on there is no room in the file of a journal."""
    pages = journal._disk.execute("PRAGMA page_count").fetchone()[0]
    journal._disk.execute(f"PRAGMA max_page_count = {pages}")


def test_a_snapshot_on_a_full_disk_takes_the_place_of_the_journal(tmp_path: Path) -> None:
    journal = written(tmp_path)
    fill(journal)
    with pytest.raises(JournalError, match="full"):
        journal.append(bytes(100_000))
    journal.snapshot(8, b"machine" * 20_000)
    assert journal.last_snapshot() == (8, b"machine" * 20_000)
    assert journal.append(b"more") == 9
    journal.close()
    assert (tmp_path / RESERVE).stat().st_size >= RESERVE_BYTES
    again = Journal(tmp_path, "b1")
    assert again.loss is None
    assert again.last_snapshot() == (8, b"machine" * 20_000)
    assert list(again.batches(8)) == [b"more"]
    assert again.recall("format") is not None
    again.close()


def test_a_snapshot_may_stand_for_inputs_that_could_not_be_appended(tmp_path: Path) -> None:
    journal = written(tmp_path)
    fill(journal)
    with pytest.raises(JournalError, match="full"):
        journal.append(bytes(100_000))
    journal.snapshot(9, b"a machine that has them")
    assert journal.number == 9
    assert journal.append(b"ten") == 10
    journal.close()
    again = Journal(tmp_path, "b1")
    assert (again.loss, again.last_snapshot()) == (None, (9, b"a machine that has them"))
    assert list(again.batches(9)) == [b"ten"]
    again.close()


def test_what_comes_behind_a_snapshot_goes_along(tmp_path: Path) -> None:
    journal = written(tmp_path)
    journal.is_cramped = True
    journal.snapshot(5, b"machine")
    assert not journal.is_cramped
    assert list(journal.batches(5)) == BATCHES[5:]
    journal.close()
    again = Journal(tmp_path, "b1")
    assert (again.loss, again.last_snapshot(), list(again.batches(5))) == (None, (5, b"machine"), BATCHES[5:])
    again.close()


def die(*args: object) -> None:
    os._exit(9)


def before_it_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalSpace, "commit", die)


def before_it_has_its_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalSpace, "finish", die)


def after_the_older_files_are_gone(patch: pytest.MonkeyPatch) -> None:
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if Path(target).name == FILE:
            die()
        return whole(self, target)

    patch.setattr(Path, "replace", replace)


@pytest.mark.parametrize(
    ("plant", "is_there"),
    [(before_it_counts, False), (before_it_has_its_place, True), (after_the_older_files_are_gone, True)],
)
def test_no_crash_on_the_way_loses_anything(
    tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None], is_there: bool
) -> None:
    child = os.fork()
    if not child:
        try:
            journal = written(tmp_path)
            journal.is_cramped = True
            plant(pytest.MonkeyPatch())
            journal.snapshot(8, b"machine")
        finally:
            os._exit(9)
    os.waitpid(child, 0)
    assert (tmp_path / NEXT).exists() == is_there
    journal = Journal(tmp_path, "b1")
    assert journal.loss is None
    assert journal.number == 8
    assert journal.last_snapshot() == ((8, b"machine") if is_there else None)
    assert list(journal.batches(8 if is_there else 0)) == ([] if is_there else BATCHES)
    assert not (tmp_path / NEXT).exists()
    assert not (tmp_path / DRAFT).exists()
    journal.append(b"more")
    journal.close()
    Journal(tmp_path, "b1").close()


def test_a_snapshot_for_which_there_is_no_room_at_all_leaves_the_journal_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = written(tmp_path)
    journal.is_cramped = True

    def fail(self: JournalSpace) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JournalSpace, "commit", fail)
        with pytest.raises(JournalError, match=r"no room for a snapshot: .*No space left on device"):
            journal.snapshot(8, b"machine")
    assert list(journal.batches(0)) == BATCHES
    assert journal.append(b"more") == 9
    assert (tmp_path / RESERVE).exists()
    journal.close()


def test_a_snapshot_is_due_while_there_is_still_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_space, "LOOK_EVERY_BYTES", 1_000)
    journal = Journal(tmp_path, "b1")
    journal.append(bytes(2_000))
    before: bool = journal.is_cramped
    assert not before
    disk = os.statvfs(tmp_path)

    class Full:
        f_bavail, f_frsize = 0, disk.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda folder: Full)
    (tmp_path / RESERVE).unlink()
    journal.append(bytes(2_000))
    is_cramped: bool = journal.is_cramped
    journal.close()
    assert is_cramped
