"""Compaction: merges small files of a stream's output into few large ones, with each row exactly once.

*Theory.* Every batch of a stream adds a file for each task. Files have *levels*: those of batches are on level 0; when
there are `after` of one level, they are merged into a file of the next. So a row is written once for each level, and a
stream of n batches has about `after` times log n files. `compact` merges all levels, as far as `MERGED_BYTES` allows.

A merge is written to `OUT/_compacting`. Then `OUT/_compaction.json` lists the files that it replaces: this decides the
merge, and moving its files to their places and removing the old ones can be repeated as often as needed.

    OUT/b0000000012-0.parquet          level 0: batch 12, its first file
    OUT/a01-0000000003-0.parquet       level 1: made by the third compaction; `a` sorts before every `b`

*Rules.*
1. Only files of complete batches are merged, by the process that holds the ledger's lock.
2. After a kill or power failure at any moment each row exists once, as soon as the next stream, `compact` or reader
   runs. `BatchLedger` is not affected: it names files of the last batch only, which is complete before it is merged.
3. Readers that list the files between two equal values of `generation` get each row once. Programs that list the plain
   folder during the milliseconds in which files are exchanged may see rows twice.
4. `_compaction.json` is of bounded size: a merge takes `FILES_MERGED` files at most.
5. Late events (`OUT/_late`) are merged in the same way.
"""

import fcntl
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import PipelineError
from godwit.files import synced, write_whole
from godwit.pipeline.batch_ledger import BATCHES, BatchLedger, complete_up_to, first_name_after
from godwit.pipeline.match_files import day_of_folder, merge_matches

__all__ = ["AFTER", "NOTHING_COMPACTED", "Compacted", "Compactor", "compact", "has_day_folders", "settled_generation"]

AFTER = 100  # files of a level, that are merged
FILES_MERGED = 1_000  # at once
MERGED_BYTES = 1 << 29  # of a merged file, about; larger ones are not merged again
LEVELS = 10
LATE = "_late"
COMPACTING, DECIDED = "_compacting", "_compaction.json"
SETTLE_S = 30.0
LOOK_EVERY_S = 0.05


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `_compaction.json`: the number of compactions, and the files that the last one replaces."""

    format: Literal[1] = 1
    generation: int
    state: Literal["decided", "complete"]
    files: tuple[tuple[str, str], ...] = ()  # files of `_compacting`, and their targets below OUT
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compacted:
    """The result of compaction: the number of files before and after, and the duration."""

    merged: int = 0
    written: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Compacted") -> "Compacted":
        return Compacted(self.merged + other.merged, self.written + other.written, self.seconds + other.seconds)


NOTHING_COMPACTED = Compacted()


class Compactor:
    """Merges files of a stream's output. The caller must hold the ledger's lock. (rule 1)"""

    def __init__(self, out: Path, after: int = AFTER) -> None:
        if after < 2 and after != 0:
            raise PipelineError(f"compaction past {after} files: it must be at least 2, or 0 for none")
        self.out, self.after = out, after

    def settle(self) -> None:
        """Complete a decided merge, and remove files of a killed process."""
        decision = _decision(self.out)
        if decision.state == "decided":
            self._carry_out(decision)
        shutil.rmtree(self.out / COMPACTING, ignore_errors=True)
        (self.out / f"{DECIDED}.new").unlink(missing_ok=True)

    def after_batch(self) -> Compacted:
        """Merge levels that have `after` files or more."""
        done = NOTHING_COMPACTED
        if not self.after:
            return done
        for below in ("", LATE):
            for level in range(LEVELS - 1):
                files = self._files(below, level)
                if len(files) < self.after:
                    break
                for some in _portions(files):
                    done += self._merge(below, some, level + 1)
        return done

    def everything(self) -> Compacted:
        """Merge all files into as few as possible."""
        done = NOTHING_COMPACTED
        for below in ("", LATE):
            for level in range(LEVELS - 1):
                files = self._files(below, level)
                if len(files) > 1 or any(day_of_folder(path)[0] for path in files):
                    for some in _portions(files):
                        done += self._merge(below, some, level + 1)
            left = [path for level in range(LEVELS) for path in self._files(below, level)]
            for some in _portions(left):
                if len(some) > 1:
                    done += self._merge(below, some, LEVELS - 1)
        return done

    # ------------------------------------------------------------ parts

    def _files(self, below: str, level: int) -> list[Path]:
        """The mergeable files of a level, in order."""
        folder, up_to = self.out / below, complete_up_to(self.out)
        if up_to is None or not folder.is_dir():
            return []
        if level:
            found = [*folder.glob(f"a{level:02d}-*.parquet")]
        else:
            end = first_name_after(up_to)
            found = [*folder.glob("b*.parquet"), *folder.glob("day=*/b*.parquet")]
            found = [path for path in found if path.name < end]
        return sorted((path for path in found if path.stat().st_size < MERGED_BYTES), key=lambda path: path.name)

    def _merge(self, below: str, paths: list[Path], level: int) -> Compacted:
        """Merge some files into one. One rename decides it."""
        if len(paths) < 2 and not any(day_of_folder(path)[0] for path in paths):
            return NOTHING_COMPACTED
        began = time.monotonic()
        before = _decision(self.out)
        assert before.state == "complete"
        staged = self.out / COMPACTING
        staged.mkdir(exist_ok=True)
        generation = before.generation + 1
        name = f"a{level:02d}-{generation:010d}-0.parquet"
        source, target = staged / name, self.out / below / name
        source.unlink(missing_ok=True)
        if below:
            _merge_events(paths, source)
        else:
            merge_matches(paths, source)
        synced([source, staged])
        decision = Decision(
            generation=generation,
            state="decided",
            files=((self._name(source), self._name(target)),),
            removed=tuple(map(self._name, paths)),
        )
        self._put(decision)  # this rename decides
        self._carry_out(decision)
        return Compacted(len(paths), 1, time.monotonic() - began)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.out).as_posix()

    def _carry_out(self, decision: Decision) -> None:
        for source, target in decision.files:
            try:
                (self.out / source).replace(self.out / target)
            except FileNotFoundError:
                if not (self.out / target).exists():  # otherwise it was moved before
                    raise PipelineError(
                        f"{self.out / source} is named in {self.out / DECIDED} and is missing"
                    ) from None
        synced({(self.out / target).parent for _, target in decision.files})
        for path in (self.out / name for name in decision.removed):
            path.unlink(missing_ok=True)
            if day_of_folder(path)[0] and path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()
        synced([self.out, *([self.out / LATE] if (self.out / LATE).is_dir() else [])])
        self._put(Decision(generation=decision.generation, state="complete"))
        shutil.rmtree(self.out / COMPACTING, ignore_errors=True)

    def _put(self, decision: Decision) -> None:
        write_whole(self.out / DECIDED, msgspec.json.format(msgspec.json.encode(decision), indent=1))


def compact(out: str | Path) -> Compacted:
    """Merge all files of a stream's output into as few as possible; no stream may be running."""
    folder = Path(out)
    if complete_up_to(folder) is None:
        raise PipelineError(f"{out} is not the output of a stream: `godwit pipeline stream --out` makes one")
    with BatchLedger(folder).held():
        compactor = Compactor(folder)
        compactor.settle()
        return compactor.everything()


def has_day_folders(out: Path) -> bool:
    """Whether an earlier version wrote the output, with a folder for each day."""
    return any(any((out / below).glob("day=*/*.parquet")) for below in ("", LATE))


def settled_generation(out: Path) -> int:
    """The number of compactions, when none is under way. One whose process was killed is completed. (rule 3)"""
    until = time.monotonic() + SETTLE_S
    while True:
        decision = _decision(out)
        if decision.state == "complete":
            return decision.generation
        with (out / BATCHES / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # its process is alive, and completes it now
                if time.monotonic() > until:
                    raise PipelineError(f"files of {out} are being exchanged for {SETTLE_S:.0f} s: try again") from None
                threading.Event().wait(LOOK_EVERY_S)
            else:
                Compactor(out).settle()


def _decision(out: Path) -> Decision:
    path = out / DECIDED
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Decision)
    except FileNotFoundError:
        return Decision(generation=0, state="complete")
    except (OSError, msgspec.MsgspecError) as error:
        raise PipelineError(f"{path} is not a record of a compaction: {error}") from None
    root = out.resolve()
    for name in (*found.removed, *(each for pair in found.files for each in pair)):
        if not (out / name).parent.resolve().is_relative_to(root):  # the file may be from elsewhere
            raise PipelineError(f"{path} names {name!r}, which is not a file of {out}")
    return found


def _portions(paths: list[Path]) -> Iterator[list[Path]]:
    """Files in order, grouped by merges. (rule 4)"""
    some: list[Path] = []
    size = 0
    for path in paths:
        more = path.stat().st_size
        if some and (len(some) == FILES_MERGED or size + more > MERGED_BYTES):
            yield some
            some, size = [], 0
        some.append(path)
        size += more
    if some:
        yield some


def _merge_events(paths: list[Path], target: Path) -> None:
    """Write the rows of some files of events as one; a column that a file lacks is null."""
    schemas = [pq.read_schema(path).remove_metadata() for path in paths]
    day = pa.schema([pa.field("day", pa.date32())])
    schema = pa.unify_schemas([*schemas, day], promote_options="default")
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in paths:
            in_folder, its_day = day_of_folder(path)
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                writer.write_table(_with_schema(file.read_row_group(group), schema, in_folder, its_day))


def _with_schema(table: Any, schema: Any, in_folder: bool, day: Any) -> Any:
    if in_folder:
        table = table.append_column("day", pa.array([day] * table.num_rows, pa.date32()))
    there = set(table.schema.names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in there else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
