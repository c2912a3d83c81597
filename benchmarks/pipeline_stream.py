"""How fast a stream is matched: events a second when there is a backlog, and how long one batch takes from end to end.

Files of 5,000 events each are a batch each. *Backlog*: all files are there, and Spark takes one after the other. *One
by one*: a file is put into the table when the one before is complete, so the time from its rename to the moment at
which readers have its matches is what somebody waits who has just published; finding the file is part of it.

*Whole*: a file with all events is a batch, so many times over, beside `match_table` with the same events and the same
subscriptions: how long a batch takes from the end of the one before to its own, how many bytes and files it has, and
how long Spark needs to read all pairs back.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.pipeline_data import ROWS_PER_GROUP, Work
from godwit.pipeline.schemas import ABOUT
from godwit.pipeline.streaming import CompletedBatch, read_matches, stream
from godwit.pipeline.subscription_index import SubscriptionIndex
from godwit.pipeline.subscription_sources import FixedSubscriptions
from godwit.pipeline.table_events import TableEvents
from godwit.pipeline.table_matching import learn, match_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5_000
BATCHES = 30
WARM = 5  # batches that are not counted
WAITED_S_MAX = 120.0
WHOLE_BATCHES = 5  # of all events, the first of which is not counted
SPARKS_OWN = ("latestOffset", "queryPlanning", "walCommit", "commitOffsets")


class Streaming:
    """One work, cut into files of a batch each."""

    def __init__(self, spark: "SparkSession", work: Work, scratch: Path, subscriptions: int, batches: int) -> None:
        self.spark, self.work, self.scratch = spark, work, scratch
        self.subscriptions = dict(_first(work.filters(), subscriptions))
        self.batches = batches + WARM
        shutil.rmtree(scratch, ignore_errors=True)
        self.staged = scratch / "staged"
        self.staged.mkdir(parents=True)
        self.rows = min(ROWS, work.events // self.batches)
        rows = ds.dataset(work.table, format="parquet").head(self.rows * self.batches)
        for number in range(self.batches):
            pq.write_table(rows.slice(number * self.rows, self.rows), self.staged / f"{number:05d}.parquet")

    def table(self, name: str) -> Path:
        """An empty table for events."""
        folder = self.scratch / name
        folder.mkdir()
        shutil.copy(self.work.table / ABOUT, folder / ABOUT)
        return folder

    def run(self, name: str, folder: Path, once: bool, told: Any) -> Any:
        """A stream over a folder, one file to a batch."""
        table = TableEvents(folder)
        return stream(
            table.read(self.spark, 1), FixedSubscriptions(self.subscriptions), self.scratch / f"{name}-out", once=once,
            before_batch=table.check, on_batch=told, table=table,
        )  # fmt: skip

    def backlog(self) -> dict[str, float]:
        """Events a second, and where the time of a batch goes."""
        folder = self.table("backlog")
        for file in sorted(self.staged.iterdir()):
            shutil.copy(file, folder / file.name)
        ends: list[float] = []
        done: list[CompletedBatch] = []

        def told(batch: CompletedBatch) -> None:
            ends.append(time.perf_counter())
            done.append(batch)

        found = self.run("backlog", folder, True, told)
        found.wait()
        counted = done[WARM:]
        seconds = (ends[-1] - ends[WARM - 1]) / len(counted)
        spark = [each["durationMs"] for each in found.query.recentProgress if each["batchId"] >= WARM]
        pairs = [each.entry.counts.pairs for each in counted]
        return {
            "rows": self.rows,
            "events_a_second": self.rows / seconds,
            "batch_s": seconds,
            "job_s": mean(each.job_s for each in counted),
            "ledger_s": mean(each.took_s - each.job_s for each in counted),
            **{f"spark_{name}_s": mean(each.get(name, 0) for each in spark) / 1e3 for name in SPARKS_OWN},
            "pairs_a_batch": mean(pairs),
        }

    def one_by_one(self) -> dict[str, float]:
        """How long from a file's arrival until its matches can be read."""
        folder = self.table("one")
        complete = threading.Semaphore(0)
        found = self.run("one", folder, False, lambda _: complete.release())
        waited = []
        try:
            for file in sorted(self.staged.iterdir()):
                start = time.perf_counter()
                file.rename(folder / file.name)
                if not complete.acquire(timeout=WAITED_S_MAX):
                    found.wait(0)
                    raise RuntimeError("a batch does not end")
                waited.append(time.perf_counter() - start)
        finally:
            found.stop()
        waited = waited[WARM:]
        return {"median_s": median(waited), "p95_s": quantiles(waited, n=20)[-1], "max_s": max(waited)}

    def empty_job_s(self) -> float:
        """A Python job over one such file that does nothing."""
        taken = []
        for _ in range(WARM + 20):
            start = time.perf_counter()
            self.spark.read.parquet(str(self.scratch / "backlog" / "00000.parquet")).mapInArrow(
                _nothing, "rows bigint"
            ).collect()
            taken.append(time.perf_counter() - start)
        return median(taken[WARM:])


def streamed(spark: "SparkSession", work: Work, scratch: Path, subscriptions: int) -> dict[str, float]:
    """All figures of a stream."""
    streaming = Streaming(spark, work, scratch, subscriptions, BATCHES)
    try:
        return {**streaming.backlog(), "empty_job_s": streaming.empty_job_s(), **streaming.one_by_one()}
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def streamed_whole(spark: "SparkSession", work: Work, scratch: Path) -> dict[str, float]:
    """All events as one batch, again and again, beside `match_table`."""
    shutil.rmtree(scratch, ignore_errors=True)
    events, out = scratch / "events", scratch / "out"
    events.mkdir(parents=True)
    shutil.copy(work.table / ABOUT, events / ABOUT)
    rows = ds.dataset(work.table, format="parquet").to_table()
    for number in range(WHOLE_BATCHES):
        for half in range(2):  # a file is a task
            part = rows.slice(half * (len(rows) // 2 + 1), len(rows) // 2 + 1)
            pq.write_table(part, events / f"{number:05d}-{half}.parquet", row_group_size=ROWS_PER_GROUP)
    table, ends, done = TableEvents(events), list[float](), list[CompletedBatch]()

    def told(batch: CompletedBatch) -> None:
        ends.append(time.perf_counter())
        done.append(batch)

    subscriptions = dict(work.filters())
    try:
        stream(
            table.read(spark, 2), FixedSubscriptions(subscriptions), out, once=True,
            before_batch=table.check, on_batch=told, learn=table.learn, table=table,
        ).wait()  # fmt: skip
        streamed_s = median(b - a for a, b in pairwise(ends))
        files = list(out.glob("*.parquet"))
        index = SubscriptionIndex(subscriptions)
        learn(index, work.table)
        file, taken = index.save(scratch / "index"), list[float]()
        for _ in range(4):
            start = time.perf_counter()
            match_table(spark, work.table, file, scratch / "matched", "overwrite" if taken else "new")
            taken.append(time.perf_counter() - start)
        sizes = [
            sum(path.stat().st_size for path in each) for each in (files, (scratch / "matched").rglob("*.parquet"))
        ]
        start = time.perf_counter()
        pairs = read_matches(spark, out).selectExpr("sum(size(subscriptions))").collect()[0][0]
        read_s = time.perf_counter() - start
        if pairs != sum(each.entry.counts.pairs for each in done):
            raise RuntimeError(f"{pairs} pairs are read back, and {done[-1].entry.totals.pairs} were found")
        return {
            "batch_s": streamed_s,
            "job_s": median(each.job_s for each in done[1:]),
            "match_s": median(taken[1:]),
            "events": float(work.events),
            "bytes": sizes[0] / WHOLE_BATCHES,
            "match_bytes": float(sizes[1]),
            "files": float(len(files)),
            "read_s": read_s / WHOLE_BATCHES,
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _first(items: Iterator[Any], number: int) -> Iterator[Any]:
    return (item for _, item in zip(range(number), items, strict=False))
