"""The index that workers match with: made by the driver, kept in files, mapped by every worker.

*Theory.* Subscriptions with equal filters are one row of the matcher, so what is found is the number of a filter, and a
run of subscriptions belongs to each. The driver writes two files: the matcher's own and one of Arrow with the ids in
the order of those runs. Both are named by a hash of what they hold: a worker that has opened them keeps them open, and
never mistakes one index for another. Where worker and driver share a file system the worker maps the driver's files;
elsewhere Spark carries them there (`ship`).

*Rules.*
1. One open index to a Python worker, not to a batch or a task; the pages of its file are shared by all of a machine.
2. Whether filters are shared shows in nothing but the speed: adding, removing and replacing subscriptions are as ever.
3. A file is whole or not there.
"""

import gc
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
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
from godwit.matching import IndexMatcher
from godwit.matching.counting import count_expanded, expand
from godwit.matching.matcher import Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IndexFile", "MatchPart", "OpenIndex", "SubscriptionIndex", "save_index"]

PAIRS_MAX = 1 << 22  # that `OpenIndex.parts` gives at a time, unless a single event has more
OPEN_MAX = 4  # indexes that a worker keeps open
Longs = npt.NDArray[np.int64]


class MatchPart(NamedTuple):
    """Matches of some events of a batch: event `events[i]` matches `members[offsets[i]:offsets[i + 1]]`."""

    events: Longs
    offsets: npt.NDArray[np.int32]
    members: npt.NDArray[Any]  # unsigned, of as many bytes as the last of them needs


class SubscriptionIndex:
    """Subscriptions by id, as the driver keeps them: may be changed and saved again and again."""

    def __init__(self, subscriptions: Mapping[str, Filter] | Iterable[tuple[str, Filter]] = ()) -> None:
        self._matcher = IndexMatcher()
        self._filters: dict[str, Filter] = {}
        self._numbers: dict[Filter, int] = {}
        self._members: dict[int, dict[str, None]] = {}
        self._given = 1  # numbers of filters; 0 is what the matcher calls those that are gone
        self.add_many(subscriptions)

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: str) -> bool:
        return id in self._filters

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that filters name."""
        return tuple(sorted(self._matcher.attributes))

    @property
    def distinct(self) -> int:
        """How many different filters there are: as many rows the matcher has."""
        return len(self._numbers)

    @property
    def subscriptions(self) -> Mapping[str, Filter]:
        """The filter of each subscription."""
        return self._filters

    def add_many(self, subscriptions: Mapping[str, Filter] | Iterable[tuple[str, Filter]]) -> None:
        """Subscribe each id to its filter: all of them, or none when one is an error."""
        new: dict[str, Filter] = {}
        for id, filter in subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions:
            if id in new or id in self._filters:
                raise SubscriptionError(f"subscription {id!r} is there already")
            new[id] = filter
        unknown = [filter for filter in dict.fromkeys(new.values()) if filter not in self._numbers]
        numbers = range(self._given, self._given + len(unknown))
        self._matcher.add_many(zip(numbers, unknown, strict=True))
        self._given += len(unknown)
        self._numbers.update(zip(unknown, numbers, strict=True))
        for id, filter in new.items():
            self._members.setdefault(self._numbers[filter], {})[id] = None
        self._filters.update(new)

    def remove(self, id: str) -> None:
        """End the subscription `id`."""
        if id not in self._filters:
            raise SubscriptionError(f"there is no subscription {id!r}")
        filter = self._filters.pop(id)
        number = self._numbers[filter]
        del self._members[number][id]
        if not self._members[number]:
            del self._members[number], self._numbers[filter]
            self._matcher.remove(number)

    def change_to(self, subscriptions: Mapping[str, Filter]) -> int:
        """Make these the subscriptions there are. Returns how many were added, removed or given another filter."""
        gone = [id for id, filter in self._filters.items() if subscriptions.get(id) != filter]
        for id in gone:
            self.remove(id)
        fresh = {id: filter for id, filter in subscriptions.items() if id not in self._filters}
        self.add_many(fresh)
        return len({*gone, *fresh})

    def learn(self, columns: Columns, length: int) -> None:
        """Lay the index out for events like these, so that no worker has to.

        What is found is the same; it is found sooner.
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
            sink = pa.BufferOutputStream()
            schema = pa.schema({"ids": pa.list_(pa.string()), "starts": pa.list_(pa.int64())})
            with pa.ipc.new_file(sink, schema) as writer:
                held = {"ids": _one_list(ids), "starts": _one_list(pa.array(starts))}
                writer.write_batch(pa.record_batch(held, schema=schema))
            members = sink.getvalue()
            name = f"{_content_hash(fresh, members)}.godwit"
            write_whole(path / f"{name}.ids", members, draft=f".{name}.ids.{secrets.token_hex(8)}")
            fresh.replace(path / name)
        finally:
            fresh.unlink(missing_ok=True)
        return IndexFile(name, str(path.resolve()), self.attributes, len(self))


def save_index(
    subscriptions: Mapping[str, Filter] | Iterable[tuple[str, Filter]], folder: str | Path | None = None
) -> "IndexFile":
    """An index of these subscriptions, in a file."""
    return SubscriptionIndex(subscriptions).save(folder)


@dataclass(frozen=True)
class IndexFile:
    """An index in files: what the driver gives to the workers."""

    name: str  # says what is in it
    folder: str
    attributes: tuple[str, ...]  # that its filters name
    subscriptions: int

    @property
    def path(self) -> Path:
        """The matcher's file."""
        return Path(self.folder) / self.name

    def ship(self, spark: "SparkSession") -> None:
        """See to it that workers on other machines find it."""
        master = spark.sparkContext.master or "local"
        if master.startswith("local") and not master.startswith("local-cluster"):
            return
        for path in (self.path, self.path.with_name(f"{self.name}.ids")):
            if str(path) not in _shipped(spark):
                spark.sparkContext.addFile(str(path))

    def open(self) -> "OpenIndex":
        """The index, ready to match. It stays open: to open it again costs nothing."""
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
    return OpenIndex(IndexMatcher.load(path), batch.column("ids").flatten(), batch.column("starts").flatten())


@cache
def _spare_modules() -> None:
    """Keep a worker's collector from what never becomes garbage.

    Spark's workers collect after each task, and go through 175,000 objects of loaded modules for that, 75 ms long. What
    is loaded before the first index is opened is not looked at again. Indexes are: they come and go.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        gc.freeze()


class OpenIndex:
    """An index that a worker has opened: matches batches of columns."""

    def __init__(self, matcher: IndexMatcher, ids: Any, starts: Any) -> None:
        self.matcher = matcher
        self.ids = ids  # of Arrow: of the subscriptions, in the order of `members`
        self.starts: Longs = starts.to_numpy()  # where the members of each number start
        self.weights: Longs = np.diff(self.starts)
        self.attributes = matcher.attributes
        self._narrow = np.min_scalar_type(max(0, len(ids) - 1))

    def counts(self, columns: Columns, length: int) -> Longs:
        """How many subscriptions each event of a batch matches."""
        return self.matcher.count_weighted(columns, length, self.weights)

    def parts(self, columns: Columns, length: int) -> Iterator[MatchPart]:
        """The matches of a batch, piece by piece, in any order of events; only of events that have some."""
        for events, starts, numbers in self.matcher.parts(columns, length):
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
                    kept = np.concatenate(([0], here[1:][some]))
                    yield MatchPart(events[first:last][some], kept.astype(np.int32), members)
                first = last


def _one_list(values: Any) -> Any:
    """A list array of one row that holds all values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], type=pa.int32()), values)


def _content_hash(matcher: Path, members: Any) -> str:
    found = blake2b(members, digest_size=16)
    with matcher.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
