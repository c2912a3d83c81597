"""A journal knows how far it went: no loss of what was safe goes unnoticed, and no crash is taken for one."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from godwit.codec.batch_chains import MARK, SETTLE_S, SLOT_BYTES
from godwit.errors import JournalError
from godwit.runtime import journal_marks
from godwit.runtime.journal import FILE, Durability, Journal
from godwit.runtime.journal_files import inspected
from godwit.runtime.journal_marks import MarkFile

WAL = f"{FILE}-wal"
SHM = f"{FILE}-shm"
BATCHES = 8


def data(number: int) -> bytes:
    return b"batch %d " % number * 200


def killed(do: Callable[[], object]) -> None:
    """Do something in a process that is killed at its end, or before."""
    child = os.fork()
    if not child:
        try:
            do()
        finally:
            os._exit(9)
    os.waitpid(child, 0)


def write(folder: Path, count: int = BATCHES, durability: Durability = "full", snapshot: int = 0) -> None:
    """A journal that a process which was killed has left."""

    def run() -> None:
        journal = Journal(folder, "b1", durability)
        for number in range(journal.number + 1, journal.number + count + 1):
            journal.append(data(number))
            if number == snapshot:
                journal.snapshot(number, b"machine")

    killed(run)


def content(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name in (FILE, WAL, MARK)}


def flip(file: Path, at: int, bit: int = 0) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << bit)]))


def refused(folder: Path, durability: Durability = "full") -> str:
    """Why a journal is refused; nothing of it is changed then."""
    before = content(folder)
    with pytest.raises(JournalError) as error:
        Journal(folder, "b1", durability)
    assert content(folder) == before
    said = str(error.value)
    assert said.endswith("Nothing was changed")
    assert "--accept-loss" in said
    return said


def accepted(folder: Path, kept: int) -> None:
    """A loss is accepted: what is left is there, the machine is to be told, and from then on all is as usual."""
    journal = Journal(folder, "b1", accept_loss=True)
    assert journal.loss is not None
    assert journal.loss.kept == kept
    assert (journal.loss.incarnation > 0) == (kept >= 0)
    assert list(journal.batches(0)) == [data(number) for number in range(1, kept + 1)]
    journal.append(b"told")
    journal.append(b"more")
    journal.close()
    again = Journal(folder, "b1")
    assert again.loss is None
    assert again.losses == 1
    assert list(again.batches(0)) == [data(number) for number in range(1, kept + 1)] + [b"told", b"more"]
    again.close()


# ---------------------------------------------------------------- losses


def test_a_write_ahead_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, 3)
    Journal(tmp_path, "b1").close()  # these are in the main file now
    write(tmp_path, 5)
    (tmp_path / WAL).unlink()
    said = refused(tmp_path)
    assert "batches 4 to 8 are missing at the end of the journal, written after 20" in said
    accepted(tmp_path, kept=3)


@pytest.mark.parametrize("names", [[FILE], [FILE, WAL, SHM]])
@pytest.mark.parametrize("durability", ["relaxed", "full"])
def test_a_journal_that_is_gone_is_noticed(tmp_path: Path, names: list[str], durability: Durability) -> None:
    write(tmp_path)
    for name in names:
        (tmp_path / name).unlink(missing_ok=name == SHM)
    assert "the journal is gone: 8 batches were written, the last at 20" in refused(tmp_path, durability)
    accepted(tmp_path, kept=-1)


def test_a_mark_that_is_gone_or_damaged_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    whole = (tmp_path / MARK).read_bytes()
    for at in (0, SLOT_BYTES):
        flip(tmp_path / MARK, at + 9)
    assert f"{MARK} is damaged: it is unknown whether the journal is complete" in refused(tmp_path, "relaxed")
    (tmp_path / MARK).unlink()
    assert f"{MARK} is gone" in refused(tmp_path)
    (tmp_path / MARK).write_bytes(whole)
    Journal(tmp_path, "b1").close()
    (tmp_path / MARK).unlink()
    accepted(tmp_path, kept=BATCHES)


def test_every_flipped_bit_of_a_write_ahead_file_is_noticed_or_harmless(tmp_path: Path) -> None:
    write(tmp_path / "whole")
    size = (tmp_path / "whole" / WAL).stat().st_size
    outcomes = set()
    rng = random.Random(4)
    for at in [*range(0, 64, 7), *(rng.randrange(size) for _ in range(35))]:
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "whole", folder, dirs_exist_ok=True)
        flip(folder / WAL, at, rng.randrange(8))
        try:
            journal = Journal(folder, "b1")
        except JournalError as error:
            outcomes.add("refused" if "--accept-loss" in str(error) else str(error))
            continue
        assert list(journal.batches(0)) == [data(number) for number in range(1, BATCHES + 1)]
        journal.close()
        outcomes.add("whole")
    assert outcomes <= {"refused", "whole"}
    assert "refused" in outcomes


def test_every_flipped_bit_of_the_main_file_is_noticed_or_harmless(tmp_path: Path) -> None:
    write(tmp_path / "whole", snapshot=2)
    Journal(tmp_path / "whole", "b1").close()
    size = (tmp_path / "whole" / FILE).stat().st_size
    rng = random.Random(6)
    kept = []
    for at in sorted(rng.sample(range(100, size), 50)):
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "whole", folder)
        flip(folder / FILE, at, rng.randrange(8))
        try:
            journal = Journal(folder, "b1")
        except JournalError as error:
            if "accept-loss" not in str(error) and ("format" in str(error) or "of broker" in str(error)):
                continue  # of which format it is, or whose, no longer stands there: this is for a person to see
            journal = Journal(folder, "b1", accept_loss=True)
            assert journal.loss is not None
            kept.append(journal.loss.kept)
            assert len(list(journal.batches(2))) == max(0, journal.loss.kept - 2)
        else:
            assert journal.last_snapshot() == (2, b"machine")
            assert list(journal.batches(2)) == [data(number) for number in range(3, BATCHES + 1)]
        journal.close()
    assert {2, 5} <= set(kept)  # what comes before a damaged place is saved


@pytest.mark.parametrize("value", ["batch 6", 7, 0.5])
def test_a_batch_whose_type_has_changed_costs_none_before_it(tmp_path: Path, value: object) -> None:
    write(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as disk:
        disk.execute("UPDATE batches SET data = ? WHERE number = 6", (value,))
        disk.commit()
    assert "batch 6 is not as it was written. Good up to batch 5 of 20" in refused(tmp_path)
    with pytest.raises(JournalError, match="is damaged"):
        inspected(tmp_path)
    accepted(tmp_path, kept=5)


@pytest.mark.parametrize("at", [1e300, -1e9, float("inf"), "now", b"now"])
def test_a_damaged_time_of_a_batch_is_not_taken_for_the_time_of_a_loss(tmp_path: Path, at: object) -> None:
    write(tmp_path, durability="relaxed")
    with closing(sqlite3.connect(tmp_path / FILE)) as disk:
        disk.execute("UPDATE batches SET at = ? WHERE number = 5", (at,))
        disk.commit()
    lose_tail(tmp_path)
    assert "batches 6 to 8 are missing at the end of the journal, written up to 20" in refused(tmp_path)
    journal = Journal(tmp_path, "b1", "relaxed")
    assert journal.loss is not None
    assert journal.loss.since == 0
    journal.close()


def test_a_write_ahead_file_cut_short_anywhere_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "whole")
    whole = (tmp_path / "whole" / WAL).read_bytes()
    rng = random.Random(6)
    for size in sorted(rng.sample(range(len(whole)), 15)):
        folder = tmp_path / str(size)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / WAL).write_bytes(whole[:size])
        assert "missing at the end" in (said := refused(folder)) or "is gone" in said


def test_an_older_copy_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "now", 5)
    Journal(tmp_path / "now", "b1").close()
    shutil.copytree(tmp_path / "now", tmp_path / "older")
    write(tmp_path / "now", 5)
    Journal(tmp_path / "now", "b1").close()
    shutil.copy(tmp_path / "older" / FILE, tmp_path / "now" / FILE)
    assert "batches 6 to 10 are missing" in refused(tmp_path / "now")
    accepted(tmp_path / "now", kept=5)
    write(tmp_path / "now", 6)
    Journal(tmp_path / "now", "b1").close()
    write(tmp_path / "older", 8)  # goes on as another history, which is longer
    Journal(tmp_path / "older", "b1").close()
    shutil.copy(tmp_path / "older" / FILE, tmp_path / "now" / FILE)
    assert "batch 13 is not the one that was written there" in refused(tmp_path / "now")


def test_a_journal_of_another_life_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "one")
    Journal(tmp_path / "one", "b1").close()
    write(tmp_path / "other")
    Journal(tmp_path / "other", "b1").close()
    shutil.copy(tmp_path / "other" / FILE, tmp_path / "one" / FILE)
    assert f"the journal is not the one that {MARK} belongs to" in refused(tmp_path / "one", "relaxed")


def lose_tail(folder: Path) -> None:
    disk = sqlite3.connect(folder / FILE)
    disk.execute("DELETE FROM batches WHERE number > (SELECT max(number) FROM batches) - 3")
    disk.commit()
    disk.close()


def test_relaxed_goes_on_without_its_tail_and_says_so_until_the_machine_was_told(tmp_path: Path) -> None:
    write(tmp_path, durability="relaxed")
    lose_tail(tmp_path)
    assert "batches 6 to 8 are missing at the end" in refused(tmp_path, "full")
    lives = []
    for _ in range(2):
        journal = Journal(tmp_path, "b1", "relaxed")
        assert journal.loss is not None
        assert (journal.loss.batches, journal.loss.kept, journal.loss.is_tail) == (3, 5, True)
        assert journal.loss.since > 0
        lives.append(journal.loss.incarnation)
        journal.close()
    assert lives[0] >= journal.incarnation
    accepted(tmp_path, kept=5)


def test_more_than_the_last_minute_is_no_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(journal_marks, "time", lambda: now[0])
    journal = Journal(tmp_path, "b1", "relaxed")
    for number in range(1, BATCHES + 1):
        journal.append(data(number))
        now[0] += SETTLE_S / 2
    journal.close()
    mark = MarkFile(tmp_path / MARK).last
    assert mark is not None
    assert BATCHES - 5 <= mark.settled < BATCHES - 1
    for left in (mark.settled, mark.settled - 1):
        disk = sqlite3.connect(tmp_path / FILE)
        disk.execute(f"DELETE FROM batches WHERE number > {left}")
        disk.commit()
        disk.close()
        if left == mark.settled:
            Journal(tmp_path, "b1", "relaxed").close()
    assert "are missing at the end" in refused(tmp_path, "relaxed")


# ---------------------------------------------------------------- crashes, which are no losses

Plant = Callable[[pytest.MonkeyPatch], None]


def die_before_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "append", lambda self, data: os._exit(9))


def die_before_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MarkFile, "write", lambda *args, **named: os._exit(9))


def die_in_mark(patch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite

    def torn(file: int, written: bytes, at: int) -> int:
        whole(file, written[:20], at)
        os._exit(9)

    patch.setattr(os, "pwrite", torn)


def die_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fdatasync", lambda file: os._exit(9))


CRASHES = {
    "before the commit": (die_before_commit, 0),
    "between commit and mark": (die_before_mark, 1),
    "while the mark is written": (die_in_mark, 1),
    "before the mark is on the disk": (die_before_sync, 1),
}


@pytest.mark.parametrize("where", CRASHES)
def test_no_crash_is_taken_for_a_loss(tmp_path: Path, where: str) -> None:
    plant, more = CRASHES[where]
    for first in (0, 1, 2):  # so that each slot is the one that is torn
        folder = tmp_path / str(first)
        write(folder, first)

        def run(folder: Path = folder, first: int = first) -> None:
            journal = Journal(folder, "b1", "full")
            plant(pytest.MonkeyPatch())
            journal.append(data(first + 1))

        killed(run)
        for _ in range(2):
            journal = Journal(folder, "b1")
            assert journal.loss is None
            assert list(journal.batches(0)) == [data(number) for number in range(1, first + more + 1)]
            journal.close()


def test_a_crash_while_a_journal_begins_is_no_loss(tmp_path: Path) -> None:
    def before_the_file() -> None:
        pytest.MonkeyPatch().setattr(sqlite3, "connect", lambda *args, **named: os._exit(9))
        Journal(tmp_path, "b1")

    def before_it_has_said_anything() -> None:
        pytest.MonkeyPatch().setattr(Journal, "_tell_about", lambda *args: os._exit(9))
        Journal(tmp_path, "b1")

    killed(before_the_file)
    assert (tmp_path / MARK).is_file()
    assert not (tmp_path / FILE).exists()
    killed(before_it_has_said_anything)
    assert (tmp_path / FILE).is_file()
    journal = Journal(tmp_path, "b1")
    assert journal.loss is None
    mark = MarkFile(tmp_path / MARK).last
    assert mark is not None
    assert mark.incarnation == journal.incarnation
    journal.close()


def test_a_loss_that_was_told_is_not_found_again_though_the_mark_is_old(tmp_path: Path) -> None:
    for number in range(2):  # with one batch more the journal is as long as the mark says, and another
        folder = tmp_path / str(number)
        write(folder, durability="relaxed")
        lose_tail(folder)

        def run(folder: Path = folder, number: int = number) -> None:
            journal = Journal(folder, "b1", "relaxed")
            pytest.MonkeyPatch().setattr(MarkFile, "write", lambda *args, **named: None)
            for _ in range(1 + 2 * number):
                journal.append(b"told")

        killed(run)
        journal = Journal(folder, "b1", "full")
        assert (journal.loss, journal.losses) == (None, 1)
        assert journal.number == 6 + 2 * number
        journal.close()


def test_a_mark_that_cannot_be_written_costs_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, "b1", "full")
    journal.append(data(1))

    def fail(*args: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        assert journal.append(data(2)) == 2
    journal.close()
    again = Journal(tmp_path, "b1")
    assert list(again.batches(0)) == [data(1), data(2)]
    again.append(data(3))
    again.close()
    mark = MarkFile(tmp_path / MARK).last
    assert mark is not None
    assert mark.number == 3


def test_what_is_given_up_is_kept_aside(tmp_path: Path) -> None:
    write(tmp_path, 6)
    Journal(tmp_path, "b1").close()
    before = content(tmp_path)
    (tmp_path / FILE).write_bytes(before[FILE].replace(data(4)[:16], b"x" * 16))
    damaged = content(tmp_path)
    Journal(tmp_path, "b1", accept_loss=True).close()
    (aside,) = tmp_path.glob("lost-*")
    assert {name: (aside / name).read_bytes() for name in (FILE, MARK)} == {
        name: damaged[name] for name in (FILE, MARK)
    }


# ---------------------------------------------------------------- a second loss


def damage_snapshot(folder: Path) -> None:
    """Nothing can be restored: a new journal begins, and a new mark."""
    with closing(sqlite3.connect(folder / FILE)) as disk:
        disk.execute("UPDATE snapshots SET data = 'another'")
        disk.commit()


def remove_mark(folder: Path) -> None:
    """The mark begins again, in the same journal."""
    (folder / MARK).unlink()


def lose_and_remove_mark(folder: Path) -> None:
    lose_tail(folder)
    Journal(folder, "b1", accept_loss=True).close()
    killed(lambda: Journal(folder, "b1", accept_loss=True).append(b"told"))
    remove_mark(folder)


def put_older_mark_back(folder: Path) -> None:
    older = (folder / MARK).read_bytes()
    write(folder, 20)
    lose_tail(folder)
    killed(lambda: Journal(folder, "b1", accept_loss=True).append(b"told"))
    (folder / MARK).write_bytes(older)


@pytest.mark.parametrize("damage", [damage_snapshot, remove_mark, lose_and_remove_mark, put_older_mark_back])
def test_what_is_lost_after_an_accepted_loss_is_noticed_too(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    write(tmp_path, 40, snapshot=30)
    damage(tmp_path)
    killed(lambda: Journal(tmp_path, "b1", accept_loss=True).append(b"told"))
    write(tmp_path, 4)
    whole = Journal(tmp_path, "b1")
    assert whole.loss is None
    whole.close()
    write(tmp_path, 4)
    lose_tail(tmp_path)
    assert "missing at the end of the journal" in refused(tmp_path)


@pytest.mark.parametrize("value", [10**9, -1, "'x'"])
@pytest.mark.parametrize("is_old", [False, True])
def test_a_damaged_list_of_losses_hides_no_loss(tmp_path: Path, value: object, is_old: bool) -> None:
    write(tmp_path)
    lose_tail(tmp_path)
    killed(lambda: Journal(tmp_path, "b1", accept_loss=True).append(b"told"))
    with closing(sqlite3.connect(tmp_path / FILE)) as disk:
        disk.execute(f"UPDATE losses SET mark_sequence = {value}")
        if is_old:  # an earlier version has written no checksum
            disk.execute("DELETE FROM about WHERE name = 'losses'")
        disk.commit()
    whole = Journal(tmp_path, "b1")
    assert whole.loss is None
    whole.close()
    write(tmp_path, 4)
    lose_tail(tmp_path)
    assert "missing at the end of the journal" in refused(tmp_path)


@pytest.mark.parametrize("names", [[MARK, WAL], [MARK, FILE], [MARK, FILE, WAL]])
def test_remains_of_a_journal_without_its_mark_are_not_taken_for_a_new_one(tmp_path: Path, names: list[str]) -> None:
    write(tmp_path)
    for name in names:
        (tmp_path / name).unlink()
    assert "the journal is gone" in refused(tmp_path)
    accepted(tmp_path, -1)


def test_a_bad_page_that_the_write_ahead_file_replaces_is_harmless(tmp_path: Path) -> None:
    write(tmp_path)
    for at in range(0, 100, 7):
        flip(tmp_path / FILE, at)
    journal = Journal(tmp_path, "b1")
    assert journal.loss is None
    assert list(journal.batches(0)) == [data(number) for number in range(1, BATCHES + 1)]
    journal.close()


def test_a_description_without_a_format_is_put_aside_if_the_loss_is_accepted(tmp_path: Path) -> None:
    write(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as disk:
        disk.execute("DELETE FROM about WHERE name = 'format'")
        disk.commit()
    with pytest.raises(JournalError, match="it has no format number"):
        Journal(tmp_path, "b1")
    accepted(tmp_path, -1)
