"""A journal that is being written can be looked at, as a copy of one moment."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.codec.batch_chains import MARK
from godwit.errors import JournalError
from godwit.runtime import journal_copies
from godwit.runtime.journal import FILE, Journal
from godwit.runtime.journal_copies import copied


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal", "b1", "relaxed")
    yield opened
    opened.close()


def batches_of(file: Path) -> list[bytes]:
    """What is in a copy."""
    (file.parent / "again").mkdir(exist_ok=True)
    for each in file.parent.glob(f"{FILE}*"):
        shutil.copy(each, file.parent / "again")
    opened = Journal(file.parent / "again", "b1", "relaxed", accept_loss=True)  # for it has no mark
    batches = list(opened.batches(0))
    opened.close()
    return batches


def test_a_copy_has_what_was_written_and_the_journal_goes_on(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    for n in range(3):
        journal.append(b"batch %d" % n)
    before = {each.name for each in journal.folder.iterdir()}
    file = copied(journal.folder / FILE, tmp_path / "copy")
    assert {each.name for each in journal.folder.iterdir()} == before
    assert MARK not in {each.name for each in file.parent.iterdir()}
    journal.append(b"batch 3")
    assert batches_of(file) == [b"batch 0", b"batch 1", b"batch 2"]
    assert list(journal.batches(0)) == [b"batch 0", b"batch 1", b"batch 2", b"batch 3"]


def test_a_journal_that_begins_another_write_ahead_file_meanwhile_is_copied_again(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copy").mkdir()
    journal.append(b"first")
    copy, count = shutil.copyfile, 0

    def copyfile(source: Path, target: Path) -> None:
        nonlocal count
        count += 1
        copy(source, target)
        if count == 1:  # between the two files
            journal.snapshot(journal.number, b"machine")
            journal._disk.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            journal.append(b"second")

    monkeypatch.setattr("godwit.runtime.journal_copies.shutil.copyfile", copyfile)
    file = copied(journal.folder / FILE, tmp_path / "copy")
    assert count == 4
    monkeypatch.undo()
    assert batches_of(file) == [b"second"]


def test_a_journal_that_never_rests_is_given_up(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copy").mkdir()
    generations = iter(range(1_000))
    monkeypatch.setattr(journal_copies, "_generation", lambda file: (next(generations), b""))
    with pytest.raises(JournalError, match="is written too fast to be copied"):
        copied(journal.folder / FILE, tmp_path / "copy")
