"""The ledger of a stream, killed before each thing it does to the disk: the output is the same, and there once."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from godwit.errors import PipelineError
from godwit.files import synced
from godwit.pipeline.batch_ledger import (
    KEPT,
    BatchLedger,
    BatchPlan,
    Counts,
    LedgerEntry,
    Written,
    complete_up_to,
    file_name,
    first_name_after,
)
from tests.unit.disk import recorded

BATCHES = 2
ROWS = 6
ALL = [(batch, row) for batch in range(BATCHES) for row in range(ROWS)]
STREAM = "the stream"
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Killed(BaseException):
    """What a process does after this, it does not do."""


class Killer:
    """Kills at the nth change to a folder, in mid-write, and lets nothing be changed until it is told to."""

    def __init__(self) -> None:
        self.folder, self.left, self.dead = "", -1, False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.folder or event not in CHANGES or not str(args[0]).startswith(self.folder):
            return
        writes = event == "open" and isinstance(args[1], str) and args[1] != "r" and args[1] != "rb"
        if event == "open" and not writes:
            return
        if self.dead:
            raise Killed
        if self.left == 0:
            self.dead = True
            if writes and not str(args[0]).endswith("lock"):
                folder, self.folder = self.folder, ""
                Path(args[0]).write_bytes(b'{"batch": 1')  # torn
                self.folder = folder
            raise Killed
        self.left -= 1

    @contextmanager
    def at(self, number: int, folder: Path) -> Iterator[None]:
        self.folder, self.left, self.dead = str(folder), number, False
        try:
            yield
        finally:
            self.folder = ""


KILLER = Killer()
sys.addaudithook(KILLER)  # stays for good, and does nothing without a folder


def run(out: Path, first: int, version: str, kind: type[BatchLedger] = BatchLedger) -> Iterator[int]:
    """What Spark does after a start: runs what is not committed, in order; yields what it commits."""
    ledger = kind(out)
    with ledger.held():
        for batch in range(first, BATCHES):
            write_batch(ledger, batch, version)
            yield batch


def write_batch(ledger: BatchLedger, batch: int, version: str) -> None:
    """Rows of a batch, in as many files as this run happens to split it into: not as many as the run before."""
    entry = ledger.begin(batch, STREAM, lambda newest: plan_after(newest, version))
    if entry.state == "complete":
        return
    folder, parts = ledger.attempt(entry), 3 if version == "before" else 2
    files = []
    for part in range(parts):
        made = folder / f"{part}.parquet"
        made.write_text("".join(f"{batch} {row} {entry.plan.version}\n" for row in range(part, ROWS, parts)))
        files.append((str(made.relative_to(ledger.out)), f"day={part}/{file_name(batch, part)}"))
    ledger.complete(entry, Written(tuple(files), Counts(10, 5, 7, 1), newest_us=1000 * batch))


def plan_after(newest: int | None, version: str) -> BatchPlan:
    return BatchPlan(index="i", version=version, subscriptions=1, began_us=0, late_before_us=newest)


def rows(out: Path, up_to: int = BATCHES) -> list[tuple[int, int, str]]:
    """What a reader of the plain folder sees, which looks into no `_` folder."""
    found = [
        line.split()
        for path in out.glob("day=*/*.parquet")
        if path.name < first_name_after(up_to)
        for line in path.read_text().splitlines()
    ]
    return sorted((int(batch), int(row), version) for batch, row, version in found)


def whole_rows(out: Path) -> list[tuple[int, int, str]]:
    """What a reader of complete batches sees."""
    up_to = complete_up_to(out)
    return [] if up_to is None else rows(out, up_to)


def drained(out: Path, kill_at: int, kind: type[BatchLedger]) -> tuple[bool, list[list[tuple[int, int, str]]]]:
    """Run all batches, killed once at a change of the disk, then again to the end. Whether it was killed; what readers
    of whole batches saw on the way. The versions of the subscriptions differ before and after."""
    views, killed, first = [], False, 0
    try:
        with KILLER.at(kill_at, out):
            for batch in run(out, first, "before", kind):
                first = batch + 1
                views.append(whole_rows(out))
    except Killed:
        killed = True
    views.append(whole_rows(out))
    views.extend(whole_rows(out) for _ in run(out, first, "after", kind))
    return killed, views


def kill_points(
    folder: Path, kind: type[BatchLedger] = BatchLedger
) -> Iterator[tuple[Path, list[list[tuple[int, int, str]]]]]:
    for number in range(1000):
        out = folder / str(number)
        killed, views = drained(out, number, kind)
        yield out, views
        if not killed:
            assert number > BATCHES * 10
            return


def test_killed_before_any_change_to_the_disk_every_row_is_there_once(tmp_path: Path) -> None:
    for out, views in kill_points(tmp_path):
        found = rows(out)
        assert [(batch, row) for batch, row, _ in found] == ALL
        assert whole_rows(out) == found
        versions = [version for _, _, version in found]
        assert versions == sorted(versions, reverse=True)  # before …, then after …
        assert all(len(set(versions[at : at + ROWS])) == 1 for at in range(0, len(versions), ROWS))  # a batch, a plan
        for view in views:  # of who reads complete batches only
            assert len(view) % ROWS == 0
            assert view == found[: len(view)]
        last = BatchLedger(out).last()
        assert last is not None
        assert (last.totals, last.newest_us, last.plan.late_before_us) == (Counts(20, 10, 14, 2), 1000, 0)
        assert not list(out.glob("_attempts/*"))
        assert not list(out.glob("_batches/*.new"))


def test_a_ledger_that_moves_files_before_it_says_so_is_caught(tmp_path: Path) -> None:
    class Hasty(BatchLedger):
        def complete(self, entry: LedgerEntry, written: Written, before: Iterable[Path] = ()) -> LedgerEntry:
            for source, target in written.files:
                (self.out / target).parent.mkdir(exist_ok=True)
                (self.out / target).unlink(missing_ok=True)
                (self.out / target).hardlink_to(self.out / source)
            return super().complete(entry, written, before)

    wrong = [out for out, _ in kill_points(tmp_path, Hasty) if [(batch, row) for batch, row, _ in rows(out)] != ALL]
    assert wrong


def order_faults(done: list[tuple[str, str]], targets: list[str]) -> list[str]:
    """What was not on the disk when something that relies on it was done."""
    entry = "_batches/0000000000.json"
    notes = [place for place, step in enumerate(done) if step == ("rename", entry)]
    begun, written, complete = notes
    before, moved = done[:written], done[written:complete]
    attempt = next((path.rpartition("/")[0] for step, path in before if path.endswith("0.parquet")), "nowhere")
    faults = [
        *(f"{path} not written" for path in ("note", "notes") if ("fsync", path) not in before[begun:]),
        *(f"{n} not written" for n in range(len(targets)) if ("fsync", f"{attempt}/{n}.parquet") not in before),
        *(["its folder not written"] if ("fsync", attempt) not in before else []),
        *(["the decision not written"] if ("fsync", "_batches") not in moved[:2] else []),
    ]
    for target in targets:
        folder = target.rpartition("/")[0]
        at = moved.index(("rename", target))
        faults += [f"{target}: {path}" for path in (folder, ".") if ("fsync", path) not in moved[at:]]
    if done[written - 1][0] != "fsync" or done[complete + 1] != ("fsync", "_batches"):
        faults.append("the entries")
    return faults


def test_when_the_power_ends_what_an_entry_says_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(name: str, kind: Any) -> tuple[list[tuple[str, str]], list[str]]:
        out = tmp_path / name
        ledger = BatchLedger(out)
        (out / "notes").mkdir(parents=True)
        (out / "note").touch()
        with recorded(monkeypatch, out) as done, monkeypatch.context() as patched, ledger.held():
            if kind is not None:
                patched.setattr("godwit.pipeline.batch_ledger.synced", kind)
            entry = ledger.begin(0, STREAM, lambda newest: plan_after(newest, "v"))
            folder, files = ledger.attempt(entry), []
            for n in range(2):
                (folder / f"{n}.parquet").write_text("row\n")
                files.append((f"{folder.relative_to(out)}/{n}.parquet", f"day={n}/{file_name(0, n)}"))
            ledger.complete(entry, Written(tuple(files), Counts()), [out / "note", out / "notes"])
        return done, [target for _, target in files]

    assert order_faults(*steps("right", None)) == []
    assert len(order_faults(*steps("wrong", lambda paths: None))) == 9  # a planted fault: nothing waits for the disk
    part = order_faults(*steps("half", lambda paths: synced(list(paths)[:-1])))
    assert part  # another: the folder is forgotten


def test_what_begun_batches_are_matched_with_stays(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    with ledger.held():
        ledger.begin(0, STREAM, lambda newest: plan_after(newest, "old"))
    with ledger.held():
        assert ledger.begin(0, STREAM, lambda newest: plan_after(newest, "new")).plan.version == "old"


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    assert list(run(tmp_path, 0, "v")) == [0, 1]
    with pytest.raises(PipelineError, match="was written with another checkpoint, up to batch 1"):
        BatchLedger(tmp_path).begin(1, "another", lambda newest: plan_after(newest, "v"))


@pytest.mark.parametrize("batch", [0, 3])
def test_a_batch_that_does_not_follow_is_refused(tmp_path: Path, batch: int) -> None:
    assert list(run(tmp_path, 0, "v")) == [0, 1]
    with pytest.raises(PipelineError, match=f"goes on with batch {batch}, and .* with 1 or 2"):
        BatchLedger(tmp_path).begin(batch, STREAM, lambda newest: plan_after(newest, "v"))


def test_an_output_that_was_emptied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"goes on with batch 7, and .* with 0"), BatchLedger(tmp_path).held():
        BatchLedger(tmp_path).begin(7, STREAM, lambda newest: plan_after(newest, "v"))


def test_a_second_stream_is_refused(tmp_path: Path) -> None:
    with (
        BatchLedger(tmp_path).held(),
        pytest.raises(PipelineError, match="another stream writes to"),
        BatchLedger(tmp_path).held(),
    ):
        pass


def test_a_file_that_is_gone_before_it_is_moved_is_said(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    with ledger.held():
        entry = ledger.begin(0, STREAM, lambda newest: plan_after(newest, "v"))
    files = (("_attempts/x/0.parquet", "day=0/b.parquet"),)
    with pytest.raises(PipelineError, match=r"0\.parquet was written for batch 0 and is missing"):
        ledger.complete(entry, Written(files, Counts()))
    with pytest.raises(PipelineError, match=r"is recorded in .*, but is missing"):
        ledger._finish(msgspec.structs.replace(entry, state="written", files=files))


def test_old_entries_go(tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path)
    with ledger.held():
        for batch in range(KEPT + 20):
            write_batch(ledger, batch, "v")
    assert len(list(tmp_path.glob("_batches/*.json"))) == KEPT
    assert complete_up_to(tmp_path) == KEPT + 19


def test_a_folder_without_a_ledger_has_no_batches(tmp_path: Path) -> None:
    assert complete_up_to(tmp_path) is None


def test_a_broken_entry_is_one_sentence(tmp_path: Path) -> None:
    assert list(run(tmp_path, 0, "v")) == [0, 1]
    (tmp_path / "_batches" / "0000000003.json").write_text('{"batch": 3}')
    with pytest.raises(PipelineError, match=r"0000000003\.json is not an entry of a ledger"):
        complete_up_to(tmp_path)
