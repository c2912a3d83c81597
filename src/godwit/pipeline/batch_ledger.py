"""The ledger of a stream: which batches its output holds, so that each is there once, whenever it was killed.

*Theory.* Spark numbers the batches of a stream and runs one after the other; one that it has not written down as
committed is run again after a crash, with the same number and the same events. The output has to be the same then, and
there once. So each batch has an entry, a small file in `OUT/_batches`, that is only ever replaced whole, and goes
through three states:

| state | what is true | after a kill |
|---|---|---|
| `begun` | what it is matched with is decided; workers write an attempt | it is matched again, with the same |
| `written` | one attempt's files are the batch, and are to be moved | those that are not moved are moved |
| `complete` | its files are where readers look | it is skipped |

The step from `begun` to `written` decides. It is one rename, by the one process that holds the lock. Whatever a killed
driver's workers may still write lies in an attempt that no entry names, and is swept.

    OUT/_batches/0000000012.json                     the entry
    OUT/_attempts/0000000012-9f3c/…                  what workers write; Spark does not look into `_` folders
    OUT/day=2026-11-15/b0000000012-0.parquet         where it is moved to

*Rules.*
1. A file is below `OUT/day=…` or `OUT/_late/day=…` only when its batch is `written`: whoever reads the folder never
   sees two attempts. Who reads only batches up to `complete_up_to` never sees part of one either.
2. At most the last entry is not complete. A batch begins only when the one before it is complete.
3. An output belongs to one checkpoint. Another's batches, which have the same numbers, are refused and never skipped.
4. One process at a time: a lock that the system lets go when the process ends, however it ends.
5. Entries carry what all batches until then came to, so old ones can go: `KEPT` stay.

6. It is so also when the machine loses power: an attempt's files are on the disk before the entry that names them is,
   they are in their places there before it is `complete`, and what Spark has written down of a batch before it is
   `written`. Spark waits for no disk, so `complete` is told what it has written (`before`).
"""

import fcntl
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from godwit.errors import PipelineError
from godwit.files import synced, write_whole

__all__ = [
    "BatchLedger",
    "BatchPlan",
    "Counts",
    "LedgerEntry",
    "Written",
    "complete_up_to",
    "file_name",
    "first_name_after",
]

BATCHES, ATTEMPTS = "_batches", "_attempts"
KEPT = 100
DIGITS = 10  # so that names sort as numbers do


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch is matched with: decided and written down before it is matched, and the same when it is run again.

    Times are microseconds since 1970, None where there are none.
    """

    index: str
    attributes: tuple[str, ...] = ()  # that its filters name
    version: str
    subscriptions: int
    began_us: int
    late_before_us: int | None = None
    tests: int = 0  # exact tests in the index


class Counts(msgspec.Struct, frozen=True):
    """How many events came, how many of them matched, with how many subscriptions in all, and how many were late;
    pairs that passed a filter and failed its exact test, and pairs whose test could not be decided."""

    events: int = 0
    matched: int = 0
    pairs: int = 0
    late: int = 0
    residues: int = 0
    undecided: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Written(msgspec.Struct, frozen=True):
    """What workers have made of a batch: files and where each goes, below OUT; counts; the newest event's time."""

    files: tuple[tuple[str, str], ...]
    counts: Counts
    newest_us: int | None = None


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger says of one batch. `totals` and `newest_us` are those of all batches up to it."""

    batch: int
    stream: str
    state: Literal["begun", "written", "complete"]
    plan: BatchPlan
    files: tuple[tuple[str, str], ...] = ()
    counts: Counts = Counts()
    totals: Counts = Counts()
    newest_us: int | None = None


class BatchLedger:
    """The ledger of the stream that writes to `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._batches, self._attempts = out / BATCHES, out / ATTEMPTS

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the output for oneself, with all that a killed process has left behind put in order."""
        self._batches.mkdir(parents=True, exist_ok=True)
        with (self._batches / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another stream writes to {self.out}: one at a time may") from None
            self.settle()
            yield

    def settle(self) -> None:
        """Move what is written to its place, and sweep what no entry names."""
        last = self.last()
        if last is not None and last.state == "written":
            self._finish(last)
        shutil.rmtree(self._attempts, ignore_errors=True)  # a worker of a killed driver may still write into it
        for left in self._batches.glob("*.new"):
            left.unlink(missing_ok=True)

    def last(self) -> LedgerEntry | None:
        """The entry of the last batch, None when there was none."""
        return _last(self._batches)

    # ------------------------------------------------------------ the life of a batch

    def begin(self, batch: int, stream: str, plan: Callable[[int | None], BatchPlan]) -> LedgerEntry:
        """The entry of a batch that is to be run: the one it was begun with before, or a new one with a new plan.

        `plan` is given the time of the newest event of all batches before.
        """
        last = self.last()
        self._check(batch, stream, last)
        if last is not None and last.batch == batch:
            return last
        totals, newest = (Counts(), None) if last is None else (last.totals, last.newest_us)
        begun = LedgerEntry(
            batch=batch, stream=stream, state="begun", plan=plan(newest), totals=totals, newest_us=newest
        )
        self._put(begun)
        return begun

    def begin_again(self, entry: LedgerEntry, plan: BatchPlan) -> LedgerEntry:
        """The same batch with another plan, where the first can no longer be carried out. Nothing of it was seen."""
        assert entry.state == "begun"
        again = msgspec.structs.replace(entry, plan=plan)
        self._put(again)
        return again

    def attempt(self, entry: LedgerEntry) -> Path:
        """A new folder for the files that workers write."""
        folder = self._attempts / f"{entry.batch:0{DIGITS}}-{uuid.uuid4().hex}"
        folder.mkdir(parents=True)
        return folder

    def complete(self, entry: LedgerEntry, written: Written, before: Iterable[Path] = ()) -> LedgerEntry:
        """Make what an attempt has written the batch. When this returns, readers have it.

        `before`: other files and folders that must be on the disk by then.
        """
        assert entry.state == "begun"
        newest = max((each for each in (entry.newest_us, written.newest_us) if each is not None), default=None)
        decided = msgspec.structs.replace(
            entry,
            state="written",
            files=written.files,
            counts=written.counts,
            totals=entry.totals + written.counts,
            newest_us=newest,
        )
        sources = [self.out / source for source, _ in written.files]
        try:
            synced([*before, *sources, *dict.fromkeys(path.parent for path in sources)])
        except FileNotFoundError as error:
            raise PipelineError(f"{error.filename} was written for batch {entry.batch} and is gone") from None
        self._put(decided)  # from here on it is so
        return self._finish(decided)

    # ------------------------------------------------------------ parts

    def _check(self, batch: int, stream: str, last: LedgerEntry | None) -> None:
        if last is not None and last.stream != stream:
            raise PipelineError(
                f"{self.out} was written with another checkpoint, up to batch {last.batch}: "
                "go on with that one, or write to another folder"
            )
        expected = (0,) if last is None else (last.batch, last.batch + 1) if last.state == "complete" else (last.batch,)
        if batch not in expected:
            raise PipelineError(
                f"the checkpoint goes on with batch {batch}, and {self.out} with {' or '.join(map(str, expected))}: "
                "one of the two was changed or put back; start again with both empty"
            )

    def _finish(self, entry: LedgerEntry) -> LedgerEntry:
        for source, target in entry.files:
            self._move(self.out / source, self.out / target)
        changed = {folder for _, target in entry.files for folder in (self.out / target).parents}
        synced(sorted((each for each in changed if each.is_relative_to(self.out)), reverse=True))
        done = msgspec.structs.replace(entry, state="complete")
        self._put(done)
        shutil.rmtree(self._attempts, ignore_errors=True)
        self._forget(entry.batch - KEPT)
        return done

    def _move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            source.replace(target)
        except FileNotFoundError:
            if not target.exists():  # else it was moved before
                raise PipelineError(f"{source} is written down in {self._batches} and is gone") from None

    def _forget(self, up_to: int) -> None:
        for old in _entries(self._batches):
            if int(old.stem) <= up_to:
                old.unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._batches / f"{batch:0{DIGITS}}.json"

    def _put(self, entry: LedgerEntry) -> None:
        write_whole(self._path(entry.batch), msgspec.json.format(msgspec.json.encode(entry), indent=1))


# ---------------------------------------------------------------- for readers


def complete_up_to(out: Path) -> int | None:
    """The last batch that is complete, and all before it are; -1 when none is, None for a folder without a ledger."""
    batches = out / BATCHES
    if not batches.is_dir():
        return None
    last = _last(batches)
    return -1 if last is None else last.batch if last.state == "complete" else last.batch - 1


def file_name(batch: int, number: int) -> str:
    """The name of a batch's file: names of later batches sort behind."""
    return f"b{batch:0{DIGITS}}-{number}.parquet"


def first_name_after(batch: int) -> str:
    """Files of batches up to this one have names that sort before this text, those of later ones do not."""
    return f"b{batch + 1:0{DIGITS}}"


def _last(batches: Path) -> LedgerEntry | None:
    path = max(_entries(batches), default=None)
    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=LedgerEntry)
    except FileNotFoundError:  # forgotten meanwhile, as there are newer ones
        return _last(batches)
    except (OSError, msgspec.MsgspecError) as error:
        raise PipelineError(f"{path} is not an entry of a ledger: {error}") from None


def _entries(batches: Path) -> list[Path]:
    return [path for path in batches.iterdir() if path.suffix == ".json"]
