"""Reading the traces of a plan: in this process if they are small, by Spark if they are large.

*Theory.* Both readers return two things: the summed tallies of all clients (`movement_tallies.py`), and a sample of
fixes in a time window, for the simulator.

*Rules.*
1. Files of CSV or Parquet with time, id, lon and lat, of `LOCAL_BYTES_MAX` together at most, are read in this process.
   Everything else (tables of fixes, the text of taxi archives, compressed and large files) needs Spark.
2. An unreadable row is an error in this process, and is counted by Spark, as everywhere in the pipeline.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from godwit.errors import BadValue, PipelineError
from godwit.pipeline.mobility.cells import BrokerPlacement
from godwit.pipeline.mobility.cleaning import CleaningOptions
from godwit.pipeline.mobility.fix_sources import read, sorted_out
from godwit.planning.movement_tallies import SCHEMA, tallies_of
from godwit.simulator.tracks import FIXES_MAX, Fixes, fixes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Engine", "Fix", "LocalReader", "SparkReader", "Tally", "TraceReader", "engine_for"]

LOCAL_BYTES_MAX = 64 * 2**20  # about a million fixes as CSV
LOCAL_SUFFIXES = (".csv", ".parquet")

Engine = Literal["local", "spark"]


class Tally(msgspec.Struct, frozen=True):
    """Tallies of all clients with equal `what`, `a` and `b`: their sum, the least and the most."""

    total: float
    least: float
    most: float


class Fix(NamedTuple):
    """The position of a client at a time."""

    client: str
    at_s: float
    lon: float
    lat: float


Tallies = dict[tuple[str, str, str], Tally]


class TraceReader(Protocol):
    """Traces of moving clients."""

    unread: int  # rows

    def tally(self, placement: BrokerPlacement, cleaning: CleaningOptions) -> Tallies:
        """The tallies of the traces for a placement."""

    def sample(self, begins_s: float, ends_s: float, clients_max: int) -> list[Fix]:
        """The fixes in a time window, of the clients with the most fixes there."""


def engine_for(sources: Sequence[str], wanted: str = "auto") -> Engine:
    """The reader for traces. PipelineError if they cannot be read in that way. (rule 1)"""
    tables, files = sorted_out(sources)
    size = sum(file.stat().st_size for file in files)
    why = ""
    if tables:
        why = f"{tables[0]} is a table"
    elif other := next((file for file in files if file.suffix not in LOCAL_SUFFIXES), None):
        why = f"{other} is neither .csv nor .parquet"
    elif size > LOCAL_BYTES_MAX:
        why = f"the traces have {size:,} bytes, and {LOCAL_BYTES_MAX:,} are read without Spark"
    if wanted not in ("auto", "local", "spark"):
        raise BadValue(f"engine {wanted!r}: allowed is auto, local or spark")
    if wanted == "local" and why:
        raise PipelineError(f"{why}: this needs Spark; take --engine auto")
    if wanted == "local" or (wanted == "auto" and not why):
        return "local"
    if parquet := next((file for file in files if file.suffix == ".parquet"), None):
        raise PipelineError(
            f"{parquet}: Spark reads CSV and tables of fixes here; "
            "make a table of it first (godwit pipeline ingest), or give less than "
            f"{LOCAL_BYTES_MAX:,} bytes"
        )
    if find_spec("pyspark") is None:
        raise PipelineError(f"{why or '--engine spark'}: this needs Spark (pip install 'godwit[pipeline]')")
    return "spark"


class LocalReader:
    """Small files, in this process."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.unread = 0
        self._fixes: dict[str, Fixes] = {}
        for file in sorted_out(sources)[1]:
            for client, fixes in fixes_of(str(file)).items():
                known = self._fixes.setdefault(client, fixes)
                if known is not fixes:
                    for row in fixes.rows():
                        known.add(*row)
            if sum(map(len, self._fixes.values())) > FIXES_MAX:
                raise PipelineError(f"more than {FIXES_MAX:,} fixes: this needs Spark; take --engine spark")

    def tally(self, placement: BrokerPlacement, cleaning: CleaningOptions) -> Tallies:
        """See `TraceReader`."""
        found: Tallies = {}
        for client, fixes in self._fixes.items():
            rows = tallies_of(_table(client, fixes), placement, cleaning).to_pylist()
            _add(found, ((row["what"], row["a"], row["b"], *(row["number"],) * 3) for row in rows))
        return found

    def sample(self, begins_s: float, ends_s: float, clients_max: int) -> list[Fix]:
        """See `TraceReader`."""
        inside = {
            client: [Fix(client, *row) for row in fixes.in_order().rows() if begins_s <= row[0] < ends_s]
            for client, fixes in self._fixes.items()
        }
        most = sorted(inside, key=lambda client: (-len(inside[client]), client))[:clients_max]
        return [fix for client in most for fix in inside[client]]


def _table(client: str, fixes: Fixes) -> Any:
    """The fixes of a client as the pipeline has them."""
    at_us = [round(at * 1e6) for at in fixes.times]
    columns = {
        "client": pa.array([client] * len(fixes), pa.string()),
        "at": pa.array(at_us, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "lon": pa.array(fixes.lons, pa.float64()),
        "lat": pa.array(fixes.lats, pa.float64()),
        "occupied": pa.nulls(len(fixes), pa.bool_()),
    }
    return pa.table(columns)


class SparkReader:
    """Traces of any size. Files are converted to a table in `folder`."""

    def __init__(self, spark: "SparkSession", sources: Sequence[str], folder: Path) -> None:
        self._frame, self.unread = read(spark, sources, folder)

    def tally(self, placement: BrokerPlacement, cleaning: CleaningOptions) -> Tallies:
        """See `TraceReader`."""
        from pyspark.sql import functions as fn

        of_clients = self._frame.groupBy("client").applyInArrow(
            lambda table: tallies_of(table, placement, cleaning), SCHEMA
        )
        number = fn.col("number")
        added = of_clients.groupBy("what", "a", "b").agg(fn.sum(number), fn.min(number), fn.max(number))
        found: Tallies = {}
        _add(found, (tuple(row) for row in added.collect()))
        return found

    def sample(self, begins_s: float, ends_s: float, clients_max: int) -> list[Fix]:
        """See `TraceReader`."""
        from pyspark.sql import functions as fn

        at_s = (fn.unix_micros("at") / 1e6).alias("at_s")
        inside = self._frame.select("client", at_s, "lon", "lat").where(
            (fn.col("at_s") >= begins_s) & (fn.col("at_s") < ends_s)
        )
        most = inside.groupBy("client").count().orderBy(fn.desc("count"), "client").limit(clients_max)
        rows = inside.join(most.select("client"), "client").select("client", "at_s", "lon", "lat").collect()
        return sorted(Fix(*row) for row in rows)


def _add(found: Tallies, rows: Iterable[tuple[Any, ...]]) -> None:
    for what, a, b, total, least, most in rows:
        key, known = (what, a, b), found.get((what, a, b))
        if known is None:
            found[key] = Tally(total, least, most)
        else:
            found[key] = Tally(known.total + total, min(known.least, least), max(known.most, most))
