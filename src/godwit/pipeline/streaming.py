"""Matching a stream: events are matched as they arrive, with changing subscriptions, and each match is written once.

*Theory.* Spark divides a stream into batches and runs `foreachBatch` for each. The plan of a batch is decided and
stored first (`batch_ledger.py`): an index file, and the time before which an event is late. Then one job matches it.
The workers write the files of matches themselves, one for each task (`match_files.py`), and return only the names and
row counts of the files; files of a repeated task, or of a killed driver, are in no plan and are removed. So there is
one job per batch, no shuffle, and no second pass to count. If the stream is a table (`table_events.py`), the
workers also read the files of the batch themselves; otherwise Spark passes them the rows (`stream_tasks.py`). Files of
many batches are merged between batches (`stream_compaction.py`).

Subscriptions come from a `SubscriptionSource` (`subscription_sources.py`). Between two batches the driver requests its
version; if that has changed, the index is updated and saved as another file.

*Rules.*
1. Each event of the source is matched once, whatever is killed: the rows are those of `matching.match` over the same
   events, with the subscriptions at the beginning of their batch.
2. An event is late if it was published more than `late_s` before the newest event of the earlier batches. It goes to
   the table `OUT/_late`, unmatched and counted. All others get the day of their time. An event from the future makes no
   other late: the newest time counts only up to the beginning of its batch.
3. If subscriptions cannot be read while the stream runs, it continues with the last ones, and reports it.
4. `stop` ends the stream between two batches. `failure` has the reason of a failed stream in one sentence.

5. A batch has at most `TASKS_MAX` tasks, and each writes one file of matches and one of late events: an entry of the
   ledger is of bounded size, and the number of files does not depend on how many days the events are of.

*Limits.* The output is in a folder that driver and workers share; workers find the index there.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from godwit.errors import GodwitError, PipelineError
from godwit.pipeline.batch_ledger import (
    BatchLedger,
    BatchPlan,
    Counts,
    LedgerEntry,
    Written,
    complete_up_to,
    file_name,
    first_name_after,
)
from godwit.pipeline.columns import attribute_of, column_of, form_of_arrow
from godwit.pipeline.match_files import KEPT
from godwit.pipeline.match_sink import MatchSink, hand_over
from godwit.pipeline.schemas import ABOUT, About, about, arrow_schema, schema, write_about
from godwit.pipeline.stream_compaction import (
    AFTER,
    NOTHING_COMPACTED,
    Compacted,
    Compactor,
    has_day_folders,
    settled_generation,
)
from godwit.pipeline.stream_tasks import LATE, REPORT, TASKS_MAX, FileRows, StreamTask, divided
from godwit.pipeline.subscription_index import IndexFile, SubscriptionIndex, Wanted
from godwit.pipeline.table_events import TableEvents, shared_folder
from godwit.pipeline.tables import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["CompletedBatch", "Stream", "SubscriptionSource", "read_late", "read_matches", "stream"]

INDEXES, CHECKPOINT = "_indexes", "_checkpoint"
LOOK_EVERY_S = 0.2
SECONDS_MAX = 1e12
LISTINGS_MAX = 10  # tries to list the files of an output while they are being merged


class SubscriptionSource(Protocol):
    """The source of subscriptions of a running stream."""

    def version(self) -> str:
        """A text that changes when the subscriptions change. It is requested before every batch."""

    def read(self) -> dict[str, Wanted]:
        """The subscriptions by id."""


# ---------------------------------------------------------------- the driver


def stream(
    events: "DataFrame",
    subscriptions: SubscriptionSource,
    out: str | Path,
    checkpoint: str | Path | None = None,
    *,
    late_s: float | None = None,
    once: bool = False,
    every_s: float = 0.0,
    rest: str = "",
    compact_after: int = AFTER,
    before_batch: Callable[[], None] | None = None,
    on_batch: "Callable[[CompletedBatch], None] | None" = None,
    on_stage: Callable[[str], None] | None = None,
    learn: Callable[[SubscriptionIndex], None] | None = None,
    sink: MatchSink | None = None,
    table: TableEvents | None = None,
) -> "Stream":
    """Match a streaming DataFrame of events until `stop`, or with `once` until all present events are matched.

    `every_s`: shortest time between the starts of two batches. `rest`: a column with the JSON of attributes without a
    column, for exact tests. `compact_after`: number of files of one level that are merged; 0: never. `before_batch` may
    raise an error, which ends the stream; `on_batch` is called with every complete batch, `on_stage` with the present
    activity. `learn` optimises the layout of an index for the events before it is saved. `sink` gets the matches of
    each batch, too (`match_sink.py`). `table`: the table whose `read` returned `events`; workers then read its files
    themselves, which is faster. The checkpoint is in the output's folder by default.
    """
    folder = shared_folder(out)
    if not events.isStreaming:
        raise PipelineError("stream() needs a streaming DataFrame; use matching.match() for any other")
    lacking = [name for name in ("publisher", "sequence", "published_at") if name not in events.columns]
    if lacking:
        raise PipelineError(f"events need the columns publisher, sequence and published_at: {lacking[0]} is missing")
    for name, seconds in {"late_s": late_s or 0.0, "every_s": every_s}.items():
        if not 0 <= seconds <= SECONDS_MAX:
            raise PipelineError(f"{name} is {seconds}: it must be 0 to {SECONDS_MAX:.0e} seconds")
    if rest and rest not in events.columns:
        raise PipelineError(f"rest is {rest!r}, and events have no such column")
    if table is not None and not table.is_source(events):
        raise PipelineError(f"the events are not what read() of the table {table.folder} returned: leave out `table`")
    place = shared_folder(checkpoint or folder / CHECKPOINT)
    hooks = Hooks(before_batch, on_batch, on_stage, learn)
    found = Stream(folder, place, subscriptions, late_s, hooks, rest, compact_after, sink, table)
    found.start(events, once, every_s)
    return found


@dataclass(frozen=True)
class CompletedBatch:
    """A complete batch: its entry, its duration and that of its job, and problems meanwhile.

    `lag_s`: time from the publication of its newest event until its matches could be read; None if no event has a time.
    `compacted`: the merge after it, which is not part of `took_s`.
    """

    entry: LedgerEntry
    took_s: float
    job_s: float
    trouble: str = ""
    lag_s: float | None = None
    compacted: Compacted = NOTHING_COMPACTED


@dataclass(frozen=True)
class Hooks:
    """The optional callbacks of a stream."""

    before_batch: Callable[[], None] | None = None
    on_batch: Callable[[CompletedBatch], None] | None = None
    on_stage: Callable[[str], None] | None = None
    learn: Callable[[SubscriptionIndex], None] | None = None


class Stopped(Exception):
    """A batch that began after the stream was stopped."""


class Stream:
    """A running stream. Make one with `stream`."""

    def __init__(
        self,
        out: Path,
        checkpoint: Path,
        source: SubscriptionSource,
        late_s: float | None,
        hooks: Hooks = Hooks(),  # noqa: B008 - it is frozen
        rest: str = "",
        compact_after: int = AFTER,
        sink: MatchSink | None = None,
        table: TableEvents | None = None,
    ) -> None:
        self.out, self.checkpoint, self.sink, self.table = out, checkpoint, sink, table
        self.failure: Exception | None = None
        self.query: StreamingQuery | None = None
        self._ledger = BatchLedger(out)
        self._compactor = Compactor(out, compact_after)
        self._known = _Known(source, out / INDEXES, hooks.learn)
        self._late_s, self._hooks, self._rest = late_s, hooks, rest
        self._busy, self._stopping = threading.Lock(), threading.Event()
        self._held = ExitStack()

    # ------------------------------------------------------------ from beginning to end

    def start(self, events: "DataFrame", once: bool, every_s: float) -> None:
        """Start, or continue from the checkpoint."""
        _check_folder(self.out)
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)  # it also prints what `wait` raises
        with ExitStack() as held:
            held.enter_context(self._ledger.held())  # first: a folder with a ledger is the output of a stream
            self._compactor.settle()
            self._known.look(must=True)
            write_about(self.out, About("matches"))
            if self._late_s is not None:
                (self.out / LATE).mkdir(exist_ok=True)
                write_about(self.out / LATE, _about_events(events))
            writer = events.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(self._run)
            writer = (
                writer.trigger(availableNow=True)
                if once
                else writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
            )
            self.query = writer.start()
            self._held = held.pop_all()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the stream has ended, or for a timeout; returns whether it has ended. Raises its failure."""
        assert self.query is not None
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self.query.isActive and (until is None or time.monotonic() < until):
            threading.Event().wait(LOOK_EVERY_S)
        if self.query.isActive:
            return False
        self._held.close()
        if isinstance(self.failure, GodwitError | OSError):  # the original error, not that of Spark
            raise self.failure
        if (self.failure is not None or not self._stopping.is_set()) and (error := self.query.exception()) is not None:
            raise error
        return True

    def stop(self) -> None:
        """End after the running batch."""
        assert self.query is not None
        self._stopping.set()
        with self._busy:
            pass
        self.query.stop()
        self._held.close()

    # ------------------------------------------------------------ a batch

    def _run(self, frame: "DataFrame", batch: int) -> None:
        with self._busy:
            if self._stopping.is_set():
                raise Stopped
            try:
                self._run_batch(frame, batch)
            except Exception as error:
                self.failure = error
                raise

    def _run_batch(self, frame: "DataFrame", batch: int) -> None:
        began = time.monotonic()
        if self._hooks.before_batch is not None:
            self._hooks.before_batch()
        self._tell(f"batch {batch}: reading the subscriptions")
        entry = self._ledger.begin(batch, _stream_id(self.checkpoint), self._plan)
        if entry.state == "complete":  # Spark was killed before it committed the batch
            self._hand_over(entry, frame.sparkSession)
            return
        entry, index = self._usable(entry)
        attempt = self._ledger.attempt(entry).relative_to(self.out)
        task = StreamTask(self.out, attempt, index, entry.plan.late_before_us, self._rest)
        job = time.monotonic()
        self._tell(f"batch {batch}: matching")
        files = self._file_rows(frame.sparkSession, batch)
        reports = _match_rows(frame, task) if files is None else _match_files(frame.sparkSession, task, files)
        job_s = time.monotonic() - job
        self._tell(f"batch {batch}: committing")
        written = _written(reports, entry)
        done = self._ledger.complete(entry, written, _noted(self.checkpoint, batch))
        self._known.sweep(done.plan.index)
        lag_s = None if written.newest_us is None else max(0.0, (_now_us() - written.newest_us) / 1e6)
        self._hand_over(done, frame.sparkSession)
        took_s = time.monotonic() - began
        self._tell(f"batch {batch}: merging files")
        compacted = self._compactor.after_batch()
        if self._hooks.on_batch is not None:
            self._hooks.on_batch(CompletedBatch(done, took_s, job_s, self._known.trouble, lag_s, compacted))
        self._tell("waiting for events")

    def _file_rows(self, spark: "SparkSession", batch: int) -> FileRows | None:
        """The rows of a batch as ranges of files; None if workers cannot read its files."""
        ranges = None if self.table is None else self.table.ranges(self.checkpoint, batch)
        if self.table is None or ranges is None:
            return None
        tasks = divided(ranges, spark.sparkContext.defaultParallelism)
        return FileRows(tasks, self.table.attributes, arrow_schema(self.table.attributes))

    def _hand_over(self, entry: LedgerEntry, spark: "SparkSession") -> None:
        """Pass the matches of a batch to the sink, unless its files are merged: then the sink has had them."""
        files = [self.out / target for _, target in entry.files if not target.startswith(f"{LATE}/")]
        if self.sink is None or not files or not all(path.exists() for path in files):
            return
        self._tell(f"batch {entry.batch}: handing over to the sink")
        hand_over(self.sink, entry.batch, spark.read.schema(schema("matches")).parquet(*map(str, files)))

    def _tell(self, stage: str) -> None:
        if self._hooks.on_stage is not None:
            self._hooks.on_stage(stage)

    def _plan(self, newest_us: int | None) -> BatchPlan:
        self._known.look()
        index = self._known.index
        late = self._late_s is not None and newest_us is not None
        return BatchPlan(
            index=index.name,
            attributes=index.attributes,
            version=self._known.version,
            subscriptions=index.subscriptions,
            tests=index.tests,
            began_us=_now_us(),
            late_before_us=newest_us - round(self._late_s * 1e6) if late else None,  # type: ignore[operator]
        )

    def _usable(self, entry: LedgerEntry) -> tuple[LedgerEntry, IndexFile]:
        """The index of a batch's plan; a new one if that is of an older version, which cannot be opened."""
        index = self._known.at(entry.plan)
        try:
            index.open()
        except GodwitError as error:
            entry = self._ledger.begin_again(entry, self._plan(entry.newest_us))
            index = self._known.index
            self._known.trouble = f"batch {entry.batch} began with an index that cannot be opened: {error}"
        return entry, index


class _Known:
    """The subscriptions of the driver, their index, and its file."""

    def __init__(
        self, source: SubscriptionSource, folder: Path, learn: Callable[[SubscriptionIndex], None] | None = None
    ) -> None:
        self.version, self.trouble = "", ""
        self.index: IndexFile
        self._source, self._folder, self._learn = source, folder, learn
        self._subscriptions = SubscriptionIndex()

    def look(self, must: bool = False) -> None:
        """Update the index if the subscriptions have changed. Errors are recorded, or raised if it `must`."""
        try:
            version = self._source.version()
            if version != self.version:
                self._subscriptions.change_to(self._source.read())
                if self._learn is not None:
                    self._learn(self._subscriptions)
                self.index = self._subscriptions.save(self._folder)
                self.version = version
        except (GodwitError, OSError) as error:
            if must:
                raise
            self.trouble = f"the subscriptions were not updated: {error}"
        else:
            self.trouble = ""

    def at(self, plan: BatchPlan) -> IndexFile:
        """The index of a plan."""
        return IndexFile(plan.index, str(self._folder.resolve()), plan.attributes, plan.subscriptions, plan.tests)

    def sweep(self, used: str) -> None:
        """Delete index files that no batch will need again."""
        kept = {used, self.index.name}
        for path in self._folder.iterdir():
            if path.name.removesuffix(".ids") not in kept:
                path.unlink(missing_ok=True)


# ---------------------------------------------------------------- the job of a batch


def _match_rows(frame: "DataFrame", task: StreamTask) -> list[Any]:
    """The reports of the tasks that get rows from Spark."""
    needed = _needed(frame, task.index, whole=task.keeps_all_columns)
    columns = tuple(needed)
    # Columns are numbered, because `mapInArrow` splits names at dots.
    numbered = frame.select([each.alias(f"c{place}") for place, each in enumerate(needed.values())])
    work = partial(task.of_rows, columns)
    return numbered.coalesce(TASKS_MAX).mapInArrow(work, REPORT).collect()


def _match_files(spark: "SparkSession", task: StreamTask, rows: FileRows) -> list[Any]:
    """The reports of the tasks that read files; Spark passes them their numbers."""
    if not rows.tasks:
        return []
    numbers = spark.range(0, len(rows.tasks), 1, len(rows.tasks))
    return numbers.mapInArrow(partial(task.of_files, rows), REPORT).collect()


def _written(reports: list[Any], entry: LedgerEntry) -> Written:
    """The results of the tasks, with the final names of the files."""
    files = sorted((row.folder, row.file) for row in reports if row.file is not None)
    counts = [row for row in reports if row.file is None]
    times = [row.newest_us for row in counts if row.newest_us is not None]
    return Written(
        tuple((file, f"{folder}{file_name(entry.batch, number)}") for number, (folder, file) in enumerate(files)),
        sum((Counts(*(row[name] for name in Counts.__struct_fields__)) for row in counts), Counts()),
        min(max(times), entry.plan.began_us) if times else None,
    )


# ---------------------------------------------------------------- what is where


def _check_folder(out: Path) -> None:
    """Raise `PipelineError` if the folder is not a stream's output."""
    if complete_up_to(out) is None and out.is_dir() and any(out.iterdir()):
        what = "holds a table that no stream has made" if (out / ABOUT).exists() else "is not empty"
        raise PipelineError(f"{out} {what}: name another folder")
    if has_day_folders(out):
        raise PipelineError(
            f"{out} has a folder for each day, as earlier versions wrote it: `godwit pipeline compact {out}` "
            "rewrites it, and then the stream can continue"
        )


def _noted(checkpoint: Path, batch: int) -> list[Path]:
    """Spark's files of a batch: the offsets of its events, and the commit of the batch before."""
    folders = [checkpoint / "offsets", *(checkpoint / "sources").glob("*")]
    names = [f"{dot}{batch}{more}" for more in ("", ".compact") for dot in ("", ".")]
    found = [folder / f"{name}.crc" if name[0] == "." else folder / name for folder in folders for name in names]
    found += [checkpoint / name for name in ("metadata", ".metadata.crc")]
    found += [checkpoint / "commits" / name for name in (f"{batch - 1}", f".{batch - 1}.crc")]
    files = [path for path in found if path.exists()]
    above = dict.fromkeys(folder for path in files for folder in (path.parent, path.parent.parent))
    return [*files, *above, checkpoint]


def _stream_id(checkpoint: Path) -> str:
    """The id of a stream in its checkpoint."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def _about_events(events: "DataFrame") -> About:
    from pyspark.sql.pandas.types import to_arrow_type

    forms = {
        name: form_of_arrow(each.name, to_arrow_type(each.dataType, timezone="UTC"))
        for each in events.schema.fields
        if (name := attribute_of(each.name)) is not None
    }
    return About("events", attributes=forms)


def _needed(frame: "DataFrame", index: IndexFile, whole: bool) -> "dict[str, Column]":
    """The columns that a batch's job needs: all if late events are kept or there are tests, else those that filters
    use."""
    from pyspark.sql import functions

    wanted = {*KEPT, *map(column_of, index.attributes)}
    found = {name: column(name) for name in frame.columns if whole or name in wanted}
    day = functions.to_date("published_at")
    return {**found, "day": functions.coalesce("day", day) if "day" in found else day}


def _now_us() -> int:
    return round(datetime.now(UTC).timestamp() * 1e6)


# ---------------------------------------------------------------- reading


def read_matches(spark: "SparkSession", out: str | Path) -> "DataFrame":
    """The matches of a stream's complete batches; all matches of any other table.

    It is safe while the stream runs. A job on the result may fail while files are merged, because Spark listed files
    that were removed: call this again.
    """
    folder = Path(out)
    about(folder, "matches")
    return _read(spark, folder, folder, schema("matches"))


def read_late(spark: "SparkSession", out: str | Path) -> "DataFrame":
    """The late events, which were not matched."""
    folder = Path(out)
    found = about(folder / LATE, "events")
    return _read(spark, folder, folder / LATE, schema("events", found.attributes))


def _read(spark: "SparkSession", out: Path, folder: Path, wanted: Any) -> "DataFrame":
    from pyspark.sql import functions

    for _ in range(LISTINGS_MAX):
        generation = settled_generation(out)
        up_to = complete_up_to(out)
        frame = spark.read.schema(wanted).parquet(str(folder))  # this lists the files
        if up_to is not None:
            frame = frame.where(functions.col("_metadata.file_name") < first_name_after(up_to))
        if settled_generation(out) == generation:
            return frame.select([column(name) for name in wanted.names])
    raise PipelineError(f"the files of {out} were exchanged {LISTINGS_MAX} times while they were listed: try again")
