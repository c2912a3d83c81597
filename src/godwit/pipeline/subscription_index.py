"""The index for matching in workers: made by the driver, stored in files, and memory-mapped by every worker.

*Theory.* Subscriptions with equal filters are one row of the matcher, so a match is the number of a filter, to which a
run of subscriptions belongs. The driver writes two files: that of the matcher, and an Arrow file with the ids in the
order of those runs. Both are named by a hash of their content: a worker keeps them open, and never confuses two
indexes. If worker and driver share a file system the worker maps the driver's files; otherwise Spark copies them
(`ship`).

A query in another language with an exact test is a separate row: its routable filter, and with the ids its language and
text, from which workers make the test (`exact_matching.py`). Equal queries are one row. For a query without a test only
its filter is stored. If there are tests, the file also has the modules of user-defined operators
(`worker_operators.py`).

*Rules.*
1. There is one open index per Python worker, not per batch or task; the pages of its file are shared by all workers of
   a machine.
2. Sharing of filters affects only speed, not adding, removing and replacing of subscriptions.
3. Files are written atomically.
4. Without exact tests, matching has no cost for them.
"""

import gc
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from godwit.errors import PipelineError, SubscriptionError
from godwit.files import write_whole
from godwit.filters.filters import Filter
from godwit.languages import Query
from godwit.matching import IndexMatcher
from godwit.matching.counting import count_expanded, expand
from godwit.matching.matcher import Columns
from godwit.pipeline.exact_matching import ExactTests, Found, QueryText, Testing
from godwit.pipeline.worker_operators import OperatorSource, operator_sources, ship_operators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IndexFile", "MatchPart", "OpenIndex", "SubscriptionIndex", "Wanted", "routable", "save_index"]

PAIRS_MAX = 1 << 22  # pairs per part of `OpenIndex.parts`, unless a single event has more
OPEN_MAX = 4  # indexes that a worker keeps open
Longs = npt.NDArray[np.int64]
Wanted = Filter | Query
"""The content of a subscription: a filter, or a query in another language."""

Row = Filter | tuple[Filter, QueryText]  # of the matcher: a filter, or the filter of a query with its exact test


def routable(wanted: Wanted) -> Filter:
    """The routable filter."""
    return wanted.routable if isinstance(wanted, Query) else wanted


def _row(wanted: Wanted) -> Row:
    if not isinstance(wanted, Query):
        return wanted
    return wanted.routable if wanted.test is None else (wanted.routable, QueryText(wanted.language, wanted.text))


def _filter(row: Row) -> Filter:
    return row[0] if isinstance(row, tuple) else row


class MatchPart(NamedTuple):
    """Matches of some events of a batch: event `events[i]` matches `members[offsets[i]:offsets[i + 1]]`."""

    events: Longs
    offsets: npt.NDArray[np.int32]
    members: npt.NDArray[Any]  # unsigned, with as many bytes as the largest needs


class SubscriptionIndex:
    """Subscriptions by id in the driver: may be changed and saved repeatedly."""

    def __init__(self, subscriptions: Mapping[str, Wanted] | Iterable[tuple[str, Wanted]] = ()) -> None:
        self._matcher = IndexMatcher()
        self._wanted: dict[str, Wanted] = {}
        self._numbers: dict[Row, int] = {}
        self._members: dict[int, dict[str, None]] = {}
        self._given = 1  # numbers of filters; 0 stands for removed ones in the matcher
        self.add_many(subscriptions)

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, id: str) -> bool:
        return id in self._wanted

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that filters use."""
        return tuple(sorted(self._matcher.attributes))

    @property
    def distinct(self) -> int:
        """The number of different filters and tests: the rows of the matcher."""
        return len(self._numbers)

    @property
    def tests(self) -> int:
        """The number of rows with an exact test."""
        return sum(isinstance(row, tuple) for row in self._numbers)

    @property
    def subscriptions(self) -> Mapping[str, Wanted]:
        """The content of each subscription."""
        return self._wanted

    def add_many(self, subscriptions: Mapping[str, Wanted] | Iterable[tuple[str, Wanted]]) -> None:
        """Add subscriptions: all of them, or none if one is invalid."""
        new: dict[str, Wanted] = {}
        for id, wanted in subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions:
            if id in new or id in self._wanted:
                raise SubscriptionError(f"subscription {id!r} already exists")
            new[id] = wanted
        rows = [_row(wanted) for wanted in new.values()]
        unknown = [row for row in dict.fromkeys(rows) if row not in self._numbers]
        numbers = range(self._given, self._given + len(unknown))
        self._matcher.add_many(zip(numbers, map(_filter, unknown), strict=True))
        self._given += len(unknown)
        self._numbers.update(zip(unknown, numbers, strict=True))
        for id, row in zip(new, rows, strict=True):
            self._members.setdefault(self._numbers[row], {})[id] = None
        self._wanted.update(new)

    def remove(self, id: str) -> None:
        """End the subscription `id`."""
        if id not in self._wanted:
            raise SubscriptionError(f"there is no subscription {id!r}")
        row = _row(self._wanted.pop(id))
        number = self._numbers[row]
        del self._members[number][id]
        if not self._members[number]:
            del self._members[number], self._numbers[row]
            self._matcher.remove(number)

    def change_to(self, subscriptions: Mapping[str, Wanted]) -> int:
        """Replace all subscriptions. Returns how many were added, removed or changed."""
        gone = [
            id for id, old in self._wanted.items() if id not in subscriptions or _row(subscriptions[id]) != _row(old)
        ]
        for id in gone:
            self.remove(id)
        fresh = {id: wanted for id, wanted in subscriptions.items() if id not in self._wanted}
        self.add_many(fresh)
        return len({*gone, *fresh})

    def learn(self, columns: Columns, length: int) -> None:
        """Optimise the layout for events like these, so that no worker has to.

        The results are the same, but faster.
        """
        if length:
            self._matcher.learn(columns, length)

    def save(self, folder: str | Path | None = None) -> "IndexFile":
        """Write the index to a folder, one for temporary files by default."""
        path = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="godwit-index-"))
        path.mkdir(parents=True, exist_ok=True)
        fresh = path / f".{secrets.token_hex(8)}"
        try:
            self._matcher.save(fresh)
            numbers = self._matcher.numbered.tolist()
            runs = [list(self._members.get(number, ())) for number in numbers]
            ids = pa.array([id for run in runs for id in run], type=pa.string())
            starts = np.cumsum([0, *map(len, runs)], dtype=np.int64)
            tests = {number: row[1] for row, number in self._numbers.items() if isinstance(row, tuple)}
            tested = [place for place, number in enumerate(numbers) if number in tests]
            columns = {
                "ids": ids,
                "starts": pa.array(starts),
                "tested": pa.array(tested, type=pa.int64()),
                "languages": pa.array([tests[numbers[place]].language for place in tested], type=pa.string()),
                "texts": pa.array([tests[numbers[place]].text for place in tested], type=pa.string()),
            }
            if tests and (sources := operator_sources()):
                columns["operators"] = pa.array(["\n".join(source) for source in sources], type=pa.string())
            members = _as_file(columns)
            name = f"{_content_hash(fresh, members)}.godwit"
            write_whole(path / f"{name}.ids", members, draft=f".{name}.ids.{secrets.token_hex(8)}")
            fresh.replace(path / name)
        finally:
            fresh.unlink(missing_ok=True)
        return IndexFile(name, str(path.resolve()), self.attributes, len(self), len(tests))


def save_index(
    subscriptions: Mapping[str, Wanted] | Iterable[tuple[str, Wanted]], folder: str | Path | None = None
) -> "IndexFile":
    """An index of these subscriptions, in a file."""
    return SubscriptionIndex(subscriptions).save(folder)


@dataclass(frozen=True)
class IndexFile:
    """An index in files, as the driver passes it to the workers."""

    name: str  # a hash of its content
    folder: str
    attributes: tuple[str, ...]  # that its filters use
    subscriptions: int
    tests: int = 0  # exact tests: where there are some, workers need all columns of events

    @property
    def path(self) -> Path:
        """The matcher's file."""
        return Path(self.folder) / self.name

    def ship(self, spark: "SparkSession") -> None:
        """Make it available to workers on other machines."""
        if self.tests:
            ship_operators(spark)
        master = spark.sparkContext.master or "local"
        if master.startswith("local") and not master.startswith("local-cluster"):
            return
        for path in (self.path, self.path.with_name(f"{self.name}.ids")):
            if str(path) not in _shipped(spark):
                spark.sparkContext.addFile(str(path))

    def open(self) -> "OpenIndex":
        """Open the index. It stays open, so opening it again costs nothing."""
        return _opened(self.name, self.folder)

    def remove(self) -> None:
        """Delete its files."""
        for path in (self.path, self.path.with_name(f"{self.name}.ids")):
            path.unlink(missing_ok=True)


def _shipped(spark: "SparkSession") -> set[str]:
    return {os.fspath(Path(str(file).removeprefix("file:"))) for file in spark.sparkContext.listFiles}


@lru_cache(maxsize=OPEN_MAX)
def _opened(name: str, folder: str) -> "OpenIndex":
    _spare_modules()
    path = Path(folder) / name
    if not path.exists():
        from pyspark import SparkFiles

        path = Path(SparkFiles.get(name))
        if not path.exists():
            raise PipelineError(f"this worker has no index {name}: neither in {folder} nor sent by the driver")
    batch = pa.ipc.open_file(pa.memory_map(str(path.with_name(f"{name}.ids")))).get_batch(0)
    held = {column: batch.column(column).flatten() for column in batch.schema.names}
    tested = held["tested"].to_pylist() if "tested" in held else []
    tests = None
    if tested:
        written = map(QueryText, held["languages"].to_pylist(), held["texts"].to_pylist())
        operators = held["operators"].to_pylist() if "operators" in held else []
        sources = tuple(OperatorSource(*source.split("\n")) for source in operators)
        tests = ExactTests(tested, list(written), len(held["starts"]) - 1, sources)
    return OpenIndex(IndexMatcher.load(path), held["ids"], held["starts"], tests)


@cache
def _spare_modules() -> None:
    """Exclude permanent objects from a worker's garbage collector.

    Spark's workers collect after each task, and traverse 175,000 objects of loaded modules for that, in 75 ms. Objects
    that exist before the first index is opened are frozen. Indexes are not, because they are replaced.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        gc.freeze()


class OpenIndex:
    """An index that a worker has opened: matches batches of columns."""

    def __init__(self, matcher: IndexMatcher, ids: Any, starts: Any, tests: ExactTests | None = None) -> None:
        self.matcher = matcher
        self.ids = ids  # Arrow array of the subscriptions, in the order of `members`
        self.starts: Longs = starts.to_numpy()  # offsets of the members of each number
        self.weights: Longs = np.diff(self.starts)
        self.attributes = matcher.attributes
        self._narrow = np.min_scalar_type(max(0, len(ids) - 1))
        self._tests = tests

    def testing(self, rest: str = "") -> Testing:
        """The exact tests, for one task. `rest`: the column with other attributes, as JSON."""
        return Testing(self._tests, self.weights, rest)

    def counts(self, columns: Columns, length: int, kept: Callable[[Found], Found] | None = None) -> Longs:
        """The number of matching subscriptions of each event of a batch. `kept`: keeps matches whose exact tests
        hold."""
        if kept is None:
            return self.matcher.count_weighted(columns, length, self.weights)
        totals = np.zeros(length, dtype=np.int64)
        for found in self.matcher.parts(columns, length):
            events, starts, numbers = kept(found)
            totals[events] = np.diff(np.concatenate(([0], np.cumsum(self.weights[numbers])))[starts])
        return totals

    def parts(self, columns: Columns, length: int, kept: Callable[[Found], Found] | None = None) -> Iterator[MatchPart]:
        """The matches of a batch in parts, in any order of events; only of events with matches."""
        for found in self.matcher.parts(columns, length):
            events, starts, numbers = found if kept is None else kept(found)
            offsets = np.zeros(len(starts), dtype=np.int64)
            count_expanded(numbers, starts, self.weights, offsets)
            first = 0
            while first < len(events):
                fits = int(np.searchsorted(offsets, offsets[first] + PAIRS_MAX, side="right")) - 1
                last = min(len(events), max(first + 1, fits))
                here = offsets[first : last + 1] - offsets[first]
                if here[-1]:
                    members = np.empty(here[-1], dtype=self._narrow)
                    expand(numbers[starts[first] : starts[last]], self.starts, members)
                    some = np.diff(here) > 0
                    ends = np.concatenate(([0], here[1:][some]))
                    yield MatchPart(events[first:last][some], ends.astype(np.int32), members)
                first = last


def _as_file(columns: Mapping[str, Any]) -> Any:
    """An Arrow file of one row, with a list of all values in each column."""
    lists = {
        name: pa.ListArray.from_arrays(pa.array([0, len(values)], type=pa.int32()), values)
        for name, values in columns.items()
    }
    batch = pa.record_batch(lists)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _content_hash(matcher: Path, members: Any) -> str:
    found = blake2b(members, digest_size=16)
    with matcher.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
