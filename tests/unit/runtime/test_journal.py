"""The journal: what is appended is there after any end of the process, and what is wrong with a file is said."""

import os
import sqlite3
from pathlib import Path
from typing import get_args

import pytest

from godwit.codec.journal_entries import ENTRIES
from godwit.errors import JournalError
from godwit.runtime.journal import FILE, FORMAT, Journal, about
from godwit.runtime.journal_events import events_in


def test_what_was_appended_is_there_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1")
    assert [journal.append(data) for data in (b"one", b"two")] == [1, 2]
    journal.close()
    again = Journal(tmp_path, "b1")
    assert list(again.batches(0)) == [b"one", b"two"]
    assert list(again.batches(1)) == [b"two"]
    assert again.append(b"three") == 3
    again.close()


def test_what_was_appended_is_there_though_nobody_closed_it(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        journal = Journal(tmp_path, "b1", "full")
        journal.append(b"one")
        os._exit(9)
    os.waitpid(child, 0)
    again = Journal(tmp_path, "b1")
    assert list(again.batches(0)) == [b"one"]
    again.close()


def test_a_snapshot_takes_the_place_of_what_came_before(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1", "relaxed")
    for number in range(5):
        journal.append(b"%d" % number)
    journal.snapshot(3, b"machine")
    assert journal.last_snapshot() == (3, b"machine")
    assert list(journal.batches(3)) == [b"3", b"4"]
    journal.snapshot(5, b"later")
    assert journal.last_snapshot() == (5, b"later")
    journal.close()
    again = Journal(tmp_path, "b1")
    assert again.append(b"six") == 6
    assert list(again.batches(5)) == [b"six"]
    again.close()


def test_the_write_ahead_file_is_emptied_in_small_pieces(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1", "relaxed")
    for _ in range(200):
        journal.append(bytes(50_000))
    assert (tmp_path / f"{FILE}-wal").stat().st_size < 2 * 2**20
    assert (tmp_path / FILE).stat().st_size > 8 * 2**20
    journal.close()


def test_a_description_that_cannot_be_read_is_said_with_what_to_do(tmp_path: Path) -> None:
    Journal(tmp_path, "b1").close()
    disk = sqlite3.connect(tmp_path / FILE)
    disk.execute("UPDATE about SET value = CAST(x'ff' AS TEXT) WHERE name = 'broker'")
    disk.commit()
    disk.close()
    with pytest.raises(JournalError, match=r"is damaged: its table about .* restore it from a copy"):
        about(tmp_path / FILE)


def test_a_batch_that_is_missing_is_said(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1")
    for number in range(3):
        journal.append(b"%d" % number)
    journal.close()
    disk = sqlite3.connect(tmp_path / FILE)
    disk.execute("DELETE FROM batches WHERE number = 2")
    disk.commit()
    disk.close()
    with pytest.raises(JournalError, match=r"batch 2 is missing before batch 3\. Good up to batch 1"):
        Journal(tmp_path, "b1")


def test_a_journal_of_another_broker_or_format_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path, "b1").close()
    with pytest.raises(JournalError, match="is the journal of broker 'b1', not 'b2'"):
        Journal(tmp_path, "b2")
    disk = sqlite3.connect(tmp_path / FILE)
    disk.execute("UPDATE about SET value = 99 WHERE name = 'format'")
    disk.commit()
    disk.close()
    later = f"this journal of broker 'b1' has format 99, written by a later version .* reads formats 4 and {FORMAT}\\."
    with pytest.raises(JournalError, match=later):
        Journal(tmp_path, "b1")


FORMAT_2 = """
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE batches (number INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
INSERT INTO about VALUES ('format', 2), ('broker', 'b1'), ('incarnation', 7);
"""


def of_format_2(folder: Path, *, is_killed: bool) -> dict[str, tuple[bytes, int]]:
    """A journal as versions before wrote it, closed well or left by a process that was killed; all files of it."""
    child = os.fork()
    if not child:
        disk = sqlite3.connect(folder / FILE, isolation_level=None)
        disk.execute("PRAGMA journal_mode = WAL")
        disk.executescript(FORMAT_2)
        disk.execute("INSERT INTO batches VALUES (1, ?, 0)", (bytes(10_000),))
        if not is_killed:
            disk.close()
        os._exit(9)
    os.waitpid(child, 0)
    (folder / "journal.lock").write_text("17")
    return files(folder)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_journal_of_an_earlier_format_is_refused_with_advice_and_not_touched(tmp_path: Path, is_killed: bool) -> None:
    before = of_format_2(tmp_path, is_killed=is_killed)
    assert (f"{FILE}-wal" in before) == is_killed
    for look in (lambda: Journal(tmp_path, "b1"), lambda: list(events_in(tmp_path))):
        with pytest.raises(JournalError) as refused:
            look()
        said = str(refused.value)
        assert f"{FILE}: this journal of broker 'b1' has format 2 (snapshots are pickles)" in said
        assert f"written by an earlier version of Godwit; this version reads formats 4 and {FORMAT}. Either" in said
        assert "start that version to drain it, or move the folder away and start with an empty journal" in said
        assert said.endswith("Nothing was changed")
        assert files(tmp_path) == before


def test_a_journal_of_another_broker_is_not_touched(tmp_path: Path) -> None:
    Journal(tmp_path, "b1").close()
    before = files(tmp_path)
    with pytest.raises(JournalError, match="of broker 'b1', not 'b2'"):
        Journal(tmp_path, "b2")
    assert files(tmp_path) == before


def test_a_journal_says_what_it_is(tmp_path: Path) -> None:
    Journal(tmp_path, "b1").close()
    said = about(tmp_path / FILE)
    assert (said["what"], said["format"], said["broker"]) == ("godwit journal", FORMAT, "b1")
    assert said["snapshots"] == "godwit snapshot, version 1"
    assert "{at, kind, name, data}" in said["batches"]
    assert tuple(get_args(ENTRIES.type)[0].__struct_fields__) == ("at", "kind", "name", "data")


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is a letter to a friend" * 100)
    with pytest.raises(JournalError, match="not a database"):
        Journal(tmp_path, "b1")
    assert (tmp_path / FILE).read_bytes().startswith(b"this is a letter")


def test_a_journal_in_use_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1")
    with pytest.raises(JournalError, match=f"in use by another broker \\(process {os.getpid()}\\)"):
        Journal(tmp_path, "b1")
    journal.close()
    Journal(tmp_path, "b1").close()


def test_a_place_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(tmp_path / "file", "b1")


def test_a_full_disk_loses_nothing_and_what_failed_can_be_tried_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1")
    journal.append(b"one")
    pages = journal._disk.execute("PRAGMA page_count").fetchone()[0]
    journal._disk.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalError, match="full"):
        journal.append(bytes(100_000))
    assert journal.number == 1
    journal._disk.execute("PRAGMA max_page_count = 1000000")
    assert journal.append(bytes(100_000)) == 2
    assert list(journal.batches(0)) == [b"one", bytes(100_000)]
    journal.close()


def test_a_journal_that_begins_is_for_its_owner_alone(tmp_path: Path) -> None:
    Journal(tmp_path / "data" / "b1", "b1").close()
    assert (tmp_path / "data" / "b1").stat().st_mode & 0o777 == 0o700
