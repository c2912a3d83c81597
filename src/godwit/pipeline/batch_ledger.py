"""The ledger of a stream: the batches in its output, so that each is written exactly once, even after a kill.

*Theory.* Spark numbers the batches of a stream and runs one after the other; after a crash, a batch that is not
committed in its checkpoint runs again, with the same number and the same events. The output must then be the same,
once. So each batch has an entry, a small file in `OUT/_batches`, which is replaced atomically and has three states:

| state | what is true | after a kill |
|---|---|---|
| `begun` | what it is matched with is decided; workers write an attempt | it is matched again, with the same |
| `written` | one attempt's files are the batch, and are to be moved | those that are not moved are moved |
| `complete` | its files are where readers look | it is skipped |

The step from `begun` to `written` decides. It is one rename, by the process that holds the lock. Files that workers of
a killed driver still write are in an attempt that no entry names, and are removed.

    OUT/_batches/0000000012.json                     the entry
    OUT/_attempts/0000000012-9f3c/…                  what workers write; Spark does not look into `_` folders
    OUT/day=2026-11-15/b0000000012-0.parquet         where it is moved to

*Rules.*
1. A file is below `OUT/day=…` or `OUT/_late/day=…` only when its batch is `written`: readers of the folder never see
   two attempts. Readers of batches up to `complete_up_to` never see an incomplete one either.
2. At most the last entry is not complete. A batch begins only when the one before it is complete.
3. An output belongs to one checkpoint. Another's batches, which have the same numbers, are refused and never skipped.
4. One process at a time: a lock that the system releases when the process ends.
5. Entries have the totals of all batches so far, so old ones can be removed: `KEPT` are kept.

6. This also holds after a power failure: an attempt's files are on the disk before the entry that names them, they are
   in their final places before it is `complete`, and Spark's checkpoint of a batch is on the disk before it is
   `written`. Spark does not sync, so `complete` gets the paths that Spark has written (`before`).
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
    """The plan of a batch: decided and stored before it is matched, and the same when it runs again.

    Times are microseconds since 1970, or None.
    """

    index: str
    attributes: tuple[str, ...] = ()  # that its filters use
    version: str
    subscriptions: int
    began_us: int
    late_before_us: int | None = None
    tests: int = 0  # exact tests in the index


class Counts(msgspec.Struct, frozen=True):
    """The number of events, of matched events, of pairs with subscriptions, and of late events; pairs that passed a
    filter and failed its exact test, and pairs whose test was undecided."""

    events: int = 0
    matched: int = 0
    pairs: int = 0
    late: int = 0
    residues: int = 0
    undecided: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Written(msgspec.Struct, frozen=True):
    """The result of the workers for a batch: files and their targets below OUT; counts; the newest event's time."""

    files: tuple[tuple[str, str], ...]
    counts: Counts
    newest_us: int | None = None


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of one batch. `totals` and `newest_us` are those of all batches up to it."""

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
        """Lock the output, and finish or remove what a killed process has left behind."""
        self._batches.mkdir(parents=True, exist_ok=True)
        with (self._batches / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another stream writes to {self.out}: only one may") from None
            self.settle()
            yield

    def settle(self) -> None:
        """Move written files to their places, and remove files that no entry names."""
        last = self.last()
        if last is not None and last.state == "written":
            self._finish(last)
        shutil.rmtree(self._attempts, ignore_errors=True)  # a worker of a killed driver may still write into it
        for left in self._batches.glob("*.new"):
            left.unlink(missing_ok=True)

    def last(self) -> LedgerEntry | None:
        """The entry of the last batch, or None."""
        return _last(self._batches)

    # ------------------------------------------------------------ the life of a batch

    def begin(self, batch: int, stream: str, plan: Callable[[int | None], BatchPlan]) -> LedgerEntry:
        """The entry of a batch to run: the existing one if it was begun before, or a new one with a new plan.

        `plan` gets the time of the newest event of all batches before.
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
        """Begin the same batch with another plan, if the first can no longer be carried out. No reader has seen it."""
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
        """Make the files of an attempt the batch. When this returns, readers see it.

        `before`: other files and folders that must be on the disk before.
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
            raise PipelineError(f"{error.filename} was written for batch {entry.batch} and is missing") from None
        self._put(decided)  # this rename decides
        return self._finish(decided)

    # ------------------------------------------------------------ parts

    def _check(self, batch: int, stream: str, last: LedgerEntry | None) -> None:
        if last is not None and last.stream != stream:
            raise PipelineError(
                f"{self.out} was written with another checkpoint, up to batch {last.batch}: "
                "use that one, or write to another folder"
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
                raise PipelineError(f"{source} is recorded in {self._batches}, but is missing") from None

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
    """The last complete batch; -1 if there is none, None for a folder without a ledger."""
    batches = out / BATCHES
    if not batches.is_dir():
        return None
    last = _last(batches)
    return -1 if last is None else last.batch if last.state == "complete" else last.batch - 1


def file_name(batch: int, number: int) -> str:
    """The name of a batch's file: names of later batches sort after it."""
    return f"b{batch:0{DIGITS}}-{number}.parquet"


def first_name_after(batch: int) -> str:
    """A text that sorts after the file names of all batches up to this one, and before those of later ones."""
    return f"b{batch + 1:0{DIGITS}}"


def _last(batches: Path) -> LedgerEntry | None:
    path = max(_entries(batches), default=None)
    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=LedgerEntry)
    except FileNotFoundError:  # removed meanwhile, because there are newer ones
        return _last(batches)
    except (OSError, msgspec.MsgspecError) as error:
        raise PipelineError(f"{path} is not an entry of a ledger: {error}") from None


def _entries(batches: Path) -> list[Path]:
    return [path for path in batches.iterdir() if path.suffix == ".json"]
