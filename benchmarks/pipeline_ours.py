"""Our side of the comparison: an index in files, both paths of matching, jobs that do nothing, and clocks in workers.

*Table*: workers read row groups themselves (`match_table`). *DataFrame*: Spark reads and hands over Arrow (`match`).
"""

import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq

from benchmarks.pipeline_data import Work
from godwit.matching import IndexMatcher
from godwit.pipeline import matching
from godwit.pipeline.arrow_columns import ColumnReader
from godwit.pipeline.columns import column_of
from godwit.pipeline.parquet_lists import ListWriter
from godwit.pipeline.subscription_index import IndexFile, OpenIndex, save_index
from godwit.pipeline.table_matching import match_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS = 4
CLOCKS: dict[str, list[tuple[Any, str]]] = {
    "read": [(pq.ParquetFile, "read_row_group"), (pq.ParquetFile, "read_row_groups"), (pq.ParquetFile, "iter_batches")],
    "columns": [(ColumnReader, "read")],
    "encode": [(IndexMatcher, "_encoded")],
    "match": [(OpenIndex, "counts"), (OpenIndex, "parts")],
    "write": [(ListWriter, "write"), (ListWriter, "close")],
}
"""What a worker does, and where its clocks are; `encode` is part of `match`, and taken off it."""


def build_index(work: Work) -> dict[str, float]:
    """Make filters of the expressions, then an index of these in the work's folder; only the latter is ours."""
    filters = list(work.filters())
    shutil.rmtree(work.folder / "index", ignore_errors=True)
    start = time.perf_counter()
    index = save_index(filters, work.folder / "index")
    seconds = time.perf_counter() - start
    (work.folder / "index.json").write_text(json.dumps(asdict(index)), encoding="utf-8")
    return {"index_s": seconds, "index_bytes": index.path.stat().st_size}


def index_of(work: Work) -> IndexFile:
    """The index that `build_index` has made."""
    said = json.loads((work.folder / "index.json").read_text(encoding="utf-8"))
    return IndexFile(**{**said, "attributes": tuple(said["attributes"])})


def peak_rss_mb() -> float:
    """The most memory that this process has had, without its JVM and workers."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Ours:
    """Godwit on one work."""

    def __init__(self, spark: "SparkSession", work: Work) -> None:
        self.spark, self.work = spark, work
        self.index = index_of(work) if (work.folder / "index.json").exists() else None

    def events(self, of: int = 1) -> "DataFrame":
        """The events as a DataFrame; one in `of`."""
        table = self.spark.read.parquet(str(self.work.table))
        return table if of == 1 else table.where(f"sequence % {of} = 0")

    def count(self, path: str, of: int = 1) -> int:
        """Pairs."""
        assert self.index is not None
        if path == "table":
            return match_table(self.spark, self.work.table, self.index).pairs
        return matching.count(self.events(of), self.index)

    def write(self, path: str, out: Path) -> None:
        """A row for each event, with all who match it."""
        assert self.index is not None
        if path == "table":
            match_table(self.spark, self.work.table, self.index, out)
        else:
            matching.match(self.events(), self.index).write.parquet(str(out))

    @staticmethod
    def pairs_in(out: Path) -> int:
        """How many pairs were written: files say how many values their lists have, and no list is empty."""
        total = 0
        for file in out.rglob("*.parquet"):
            about = pq.ParquetFile(file).metadata
            groups = [about.row_group(group) for group in range(about.num_row_groups)]
            columns = [group.column(place) for group in groups for place in range(about.num_columns)]
            total += sum(each.num_values for each in columns if each.path_in_schema.startswith("subscriptions."))
        return total

    # ------------------------------------------------------------ the limits

    def nothing(self, path: str) -> int:
        """All rows and the columns that filters name, through the same kind of job, doing nothing."""
        columns = [column_of(attribute) for attribute in self.work.attributes]
        if path == "table":
            return self._nothing_by_row_groups(columns)
        wanted = self.events().select(*(f"`{column}`" for column in columns))
        return wanted.mapInArrow(same, wanted.schema).count()

    def _nothing_by_row_groups(self, columns: list[str]) -> int:
        files = sorted(str(file) for file in self.work.table.rglob("*.parquet"))
        groups = [(file, group) for file in files for group in range(pq.ParquetFile(file).num_row_groups)]
        tasks = [groups[start::TASKS] for start in range(TASKS)]

        def rows_read(task: list[tuple[str, int]]) -> int:
            rows, opened = 0, {}
            for file, group in task:
                if file not in opened:
                    opened[file] = pq.ParquetFile(file, read_dictionary=columns)
                rows += opened[file].read_row_group(group, columns=columns, use_threads=False).num_rows
            return rows

        return int(self.spark.sparkContext.parallelize(tasks, TASKS).map(rows_read).sum())

    # ------------------------------------------------------------ where the time goes

    def clocks(self, what: str, out: Path) -> dict[str, float]:
        """Seconds of all workers by what they did, in one run of a job: `table count`, `dataframe write` and so on."""
        path, _, action = what.partition(" ")
        seconds: Any = self.spark.sparkContext.accumulator({}, Sums())  # type: ignore[arg-type]
        start = time.perf_counter()
        with clocks_in_workers(seconds):
            self.count(path) if action == "count" else self.write(path, out)
        wall = time.perf_counter() - start
        found = dict(seconds.value)
        found["match"] = found.get("match", 0.0) - found.get("encode", 0.0)
        worked = found.pop("task", 0.0)
        found["other Python"] = worked - sum(found.values())
        slots = self.spark.sparkContext.defaultParallelism
        found["outside tasks"] = max(0.0, wall * slots - worked)
        return {**found, "wall": wall}


def same(batches: Iterator[Any]) -> Iterator[Any]:
    """What comes, goes."""
    yield from batches


class Sums:
    """Dictionaries of numbers, added up: what the clocks of all workers show together. For Spark's accumulators."""

    def zero(self, value: dict[str, float]) -> dict[str, float]:
        return {}

    def addInPlace(self, a: dict[str, float], b: dict[str, float]) -> dict[str, float]:  # noqa: N802 - Spark's name
        for name, seconds in b.items():
            a[name] = a.get(name, 0.0) + seconds
        return a


@contextmanager
def clocks_in_workers(seconds: Any) -> Iterator[None]:
    """Meanwhile, whatever is given to `mapInArrow` or to an RDD's `mapPartitions` runs with clocks in its worker."""
    from pyspark import RDD
    from pyspark.sql.classic.dataframe import DataFrame

    def wrapping(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def started(self: Any, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            is_ours = function.__module__.startswith("godwit.")
            return original(self, with_clocks(function, seconds) if is_ours else function, *arguments, **named)

        return started

    with ExitStack() as stack:
        for owner, name in ((DataFrame, "mapInArrow"), (RDD, "mapPartitions")):
            stack.enter_context(patch.object(owner, name, wrapping(getattr(owner, name))))
        yield


def with_clocks(function: Callable[..., Any], seconds: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A worker's function, with clocks at what it calls, at what it waits for and at what it gives away."""

    def run(given: Iterator[Any]) -> Iterator[Any]:
        from benchmarks.pipeline_ours import clocked_task

        return clocked_task(function, given, seconds)

    return run


def clocked_task(function: Callable[..., Any], given: Iterator[Any], seconds: Any) -> Iterator[Any]:
    """One task."""
    spent: dict[str, float] = {}
    began = time.perf_counter()
    with ExitStack() as stack:
        for name, places in CLOCKS.items():
            for owner, attribute in places:
                if original := getattr(owner, attribute, None):
                    stack.enter_context(patch.object(owner, attribute, _with_clock(name, original, spent)))
        results = iter(function(_timed_items(given, "arrow in", spent)))
        for item in results:
            since = time.perf_counter()
            yield item
            spent["arrow out"] = spent.get("arrow out", 0.0) + time.perf_counter() - since
    spent["task"] = time.perf_counter() - began
    seconds.add(spent)


def _with_clock(name: str, function: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    inside = False  # of another that the same clock is at

    @wraps(function, updated=())
    def run(*arguments: Any, **named: Any) -> Any:
        nonlocal inside
        if inside:
            return function(*arguments, **named)
        inside, since = True, time.perf_counter()
        try:
            found = function(*arguments, **named)
        finally:
            inside = False
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - since
        return _timed_items(found, name, spent) if hasattr(found, "__next__") else found

    return run


def _timed_items(items: Iterator[Any], name: str, spent: dict[str, float]) -> Iterator[Any]:
    while True:
        since = time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - since
        yield item
