"""Figures of runs, computed from their traces: deliveries, delays, moves, control messages, table sizes, false
deliveries.

*Theory.* A trace (`docs/reference/trace_format.md`) is a table of records; the traces of many runs are one table with a
column `run`. Every function here maps that table to another with a row for each run, or for each of its probes,
clients, brokers or messages; so a hundred runs need as many jobs as one. Results are small: counts, quantiles, points
of a curve.

`read` adds two columns. `place` is the position of a row in its run: many records have the same time, and their order
decides which filter was the last, or whether an event arrived out of order. `from_s` is the start of the measurement.

| function | a row for each | says |
|---|---|---|
| `kinds` | run, kind | how many rows |
| `deliveries` | delivery | when it was published and delivered, and how often it had come to this client |
| `delivered` | run | deliveries, duplicates, those out of order |
| `latency` | run | quantiles and mean of the time from publication to delivery |
| `probes` | probe and subscriber that wants it | how long until it came, null when it never did |
| `probe_ratios` | run, number of the probe | the share that was delivered [pubmob Fig. 5] |
| `moves` | move | who came from which broker to which, when, and until when it stayed |
| `moves_from_down` | move | only those from a broker that was down |
| `gaps` | move | how long until an event came, and until one that was published since |
| `rebuilds` | move of a client that advertises | how long until its trees were rebuilt |
| `control` | run, type of message | messages and bytes, each hop counted |
| `traffic` | run, type of message, whether over the air | the same, of all messages |
| `table_sizes` | run, broker, table | entries on average over time, and at last |
| `table_curve` | run, table, piece of time | entries of all brokers at its end |
| `in_vain` | run, kind | events that reached the edge for a client that did not want them or was not meant |

*Rules.*
1. A function takes the result of `read` and does not depend on the run or on names of nodes.
2. Measurements begin at `from_s`: [pubmob §4.1] has a warm-up "during which no measurements are made". Earlier
   subscriptions, deliveries and tables affect later measurements.
3. Quantiles are exact, with linear interpolation.

*Departures.* The subscribers of a probe are found by evaluating each distinct filter of the runs once.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Window
from pyspark.sql import functions as fn

from godwit import trace as traces
from godwit.errors import GodwitError, PipelineError
from godwit.filters.events import event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.pipeline import schemas, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SHARES",
    "TraceSource",
    "control",
    "delivered",
    "deliveries",
    "distribution",
    "find",
    "gaps",
    "in_vain",
    "kinds",
    "latency",
    "measured",
    "moves",
    "moves_from_down",
    "probe_ratios",
    "probes",
    "read",
    "rebuilds",
    "summaries",
    "table_curve",
    "table_sizes",
    "traffic",
]

SHARES = (0.5, 0.9, 0.99)
"""The quantiles that `latency` gives."""

TREE_BUILDING = ("Advertise", "Subscribe")
"""Messages that build the trees of a publisher [pubmob §2]; those that take trees down are their opposites."""

IN_VAIN = frozenset({"not_addressed", "out_of_context", "residue"})
"""Kinds of records of events that reached the edge needlessly."""


# ---------------------------------------------------------------- which runs there are


@dataclass(frozen=True)
class TraceSource:
    """A run's trace, or a table of many: its path, name and start of measurement."""

    path: Path
    run: str = ""  # of a table: a column has it
    from_s: float = 0.0


def find(paths: Iterable[str | Path], from_s: float | None = None) -> list[TraceSource]:
    """The traces in these folders and below them, and the tables of traces.

    A run has the name of its folder, with more of its path if necessary. Measurements begin at `from_s` (default: the
    end of the warm-up of the run's scenario). An unreadable or duplicate run is a `PipelineError`.
    """
    given: dict[Path, Path] = {}
    files: dict[Path, None] = {}
    for each in map(Path, paths):
        if (each / schemas.ABOUT).exists():
            schemas.about(each, "trace")
        here = [each] if each.is_file() else sorted(each.rglob(traces.FILE))
        below = [about.parent for about in sorted(each.rglob(schemas.ABOUT)) if _is_of_traces(about.parent)]
        if not here and not below:
            raise PipelineError(
                f"{each} has no {traces.FILE} in it, and no table of traces"
                if each.exists()
                else f"{each}: no such file or folder"
            )
        given.update({table.resolve(): table for table in below})
        files.update(dict.fromkeys(file.resolve() for file in here))
    for file in files:
        _check(file)
    runs = _names(list(files))
    _refuse_twice(list(given.values()), {run: file.parent for file, run in runs.items()})
    return [TraceSource(table, from_s=from_s or 0.0) for table in given.values()] + [
        TraceSource(file, run, _warmup_s(file) if from_s is None else from_s) for file, run in runs.items()
    ]


def _is_of_traces(folder: Path) -> bool:
    try:
        return schemas.about(folder).table == "trace"
    except PipelineError:  # of a newer Godwit, or unreadable
        return False


def _names(files: Sequence[Path]) -> dict[Path, str]:
    """A name for each: that of its folder, with parent folders as far as needed to be unique."""
    parts = {file: (file.parent if file.name == traces.FILE else file.with_suffix("")).parts for file in files}
    names: dict[Path, str] = {}
    for file, own in parts.items():
        depth = 1
        while depth < len(own) and any(own[-depth:] == other[-depth:] for key, other in parts.items() if key != file):
            depth += 1
        names[file] = "/".join(own[-depth:])
    return names


def _warmup_s(file: Path) -> float:
    try:
        return float(traces.about(file.parent)["scenario"]["run"]["warmup_s"])
    except (GodwitError, KeyError, TypeError, ValueError):  # not of a scenario
        return 0.0


def read(spark: "SparkSession", sources: Sequence[TraceSource]) -> "DataFrame":
    """All rows of these traces, with `place` and `from_s`."""
    if not sources:
        raise PipelineError("there is no trace to read")
    columns = [name for name in schemas.TABLES["trace"] if name != "run"]
    parts: list[DataFrame] = []
    files = [each for each in sources if each.run]
    for each in files:
        _check(each.path)
    if files:
        table = spark.read.parquet(*(tables.spark_path(each.path.resolve()) for each in files))
        known = _known(spark, files, table.inputFiles())
        where = fn.col("_metadata.file_path")
        table = table.select(*columns, where.alias("path"), fn.col("_metadata.row_index").alias("place"))
        run = fn.coalesce("run", fn.raise_error(fn.concat(fn.lit("nobody knows the run of "), "path")))  # none is lost
        table = table.join(fn.broadcast(known), "path", "left").withColumn("run", run)
        parts.append(table.select("run", *columns, "place", "from_s"))
    for each in sources:
        if not each.run:
            order = Window.partitionBy("run").orderBy("at", "_file", "_row")
            tables.finish(each.path)
            table = spark.read.parquet(tables.spark_path(each.path))
            table = table.select(
                "*", fn.col("_metadata.file_path").alias("_file"), fn.col("_metadata.row_index").alias("_row")
            )
            table = table.withColumn("place", fn.row_number().over(order).cast("bigint"))
            parts.append(table.select("run", *columns, "place", fn.lit(each.from_s).alias("from_s")))
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found


def _refuse_twice(given: Sequence[Path], named: dict[str, Path]) -> None:
    """Raise `PipelineError` if a run of a table is also in another, or among those `named`."""
    if len(given) + len(named) < 2:
        return
    for table in given:
        tables.finish(table)
        there: dict[str, None] = {}
        for file in tables.files(table):
            column = pq.read_table(file, columns=["run"], partitioning=None, read_dictionary=["run"]).column("run")
            there.update(dict.fromkeys(column.unique().to_pylist()))
        for run in sorted(there):
            if run in named:
                raise PipelineError(
                    f"the run {run!r} is in the table {table} and in {named[run]}: remove one of them, or rename it"
                )
            named[run] = table


def _known(spark: "SparkSession", files: Sequence[TraceSource], names: Iterable[str]) -> "DataFrame":
    """By file name, as Spark has it, the run and the start of its measurement.

    `names` are those that Spark gives: escaped, which is undone here, once for each file and not for each row.
    """
    escaped = {unquote(name.removeprefix("file://")): name.removeprefix("file://") for name in names}
    columns = {
        "path": [f"file:{escaped.get(str(each.path.resolve()), '')}" for each in files],
        "run": [each.run for each in files],
        "from_s": [each.from_s for each in files],
    }
    return spark.createDataFrame(pa.table(columns))


def _check(file: Path) -> None:
    try:
        names = pq.read_schema(file).names
    except (OSError, pa.ArrowInvalid) as error:
        raise PipelineError(f"cannot read the trace {file}: {error}") from None
    if names != traces.schema().names:
        raise PipelineError(f"{file} is not a trace: its columns are {', '.join(names)}")


# ---------------------------------------------------------------- rows


def measured(rows: "DataFrame") -> "DataFrame":
    """The rows within the measurement."""
    return rows.where("at >= from_s")


def kinds(trace: "DataFrame") -> "DataFrame":
    """The number of rows of each kind, by run."""
    return trace.groupBy("run", "kind").count().withColumnRenamed("count", "rows")


def _clients(trace: "DataFrame") -> "DataFrame":
    """The clients of each run: nodes that a broker has attached, or that received an event."""
    return (
        trace.where("kind = 'delivered' or kind = 'handled' and message = 'Attached'").select("run", "node").distinct()
    )


# ---------------------------------------------------------------- deliveries


def _came(trace: "DataFrame") -> "DataFrame":
    """Every delivery, with `number`: which delivery of this event to its client it is, from 1."""
    again = Window.partitionBy("run", "node", "publisher", "sequence").orderBy("place")
    rows = trace.where("kind = 'delivered'").select(
        "run", "publisher", "sequence", "node", "subscription", "at", "place", "from_s"
    )
    return rows.withColumn("number", fn.row_number().over(again).cast("bigint"))


def deliveries(trace: "DataFrame") -> "DataFrame":
    """The table `deliveries`. An event's publication is the record of its client (`probed`), or of its broker."""
    said = trace.where("kind in ('probed', 'published')").groupBy("run", "publisher", "sequence")
    published = said.agg(fn.min("at").alias("published_at"))
    came = _came(trace).withColumnsRenamed({"node": "subscriber", "at": "delivered_at"})
    return came.join(published, ["run", "publisher", "sequence"], "left").select(*schemas.TABLES["deliveries"])


def delivered(trace: "DataFrame") -> "DataFrame":
    """By run: deliveries, duplicates (`duplicated`), and deliveries after a later event of the same publisher.

    From the beginning of the run, because the first of two deliveries may be in the warm-up.
    """
    before = Window.partitionBy("run", "node", "publisher").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    is_first = fn.col("number") == 1
    highest = fn.max(fn.when(is_first, fn.col("sequence"))).over(before)
    rows = _came(trace).withColumn("is_overtaken", is_first & (fn.col("sequence") < highest))
    return rows.groupBy("run").agg(
        fn.count("*").alias("deliveries"),
        fn.count_if(fn.col("number") > 1).alias("duplicated"),
        fn.count_if("is_overtaken").alias("out_of_order"),
    )


def latency(trace: "DataFrame", shares: Sequence[float] = SHARES) -> "DataFrame":
    """By run, the delays of first deliveries of events published within the measurement."""
    begins = trace.groupBy("run").agg(fn.min("from_s").alias("from_s"))
    rows = deliveries(trace).where("number = 1").join(fn.broadcast(begins), "run").where("published_at >= from_s")
    rows = rows.withColumn("delay", fn.col("delivered_at") - fn.col("published_at"))
    return distribution(rows, ["run"], "delay", shares)


def distribution(rows: "DataFrame", by: Sequence[str], column: str, shares: Sequence[float]) -> "DataFrame":
    """By group: `count` and `mean` of the non-null values of a column, and its quantiles as an array."""
    return rows.groupBy(*by).agg(
        fn.count(column).alias("count"),
        fn.mean(column).alias("mean"),
        fn.percentile(column, list(shares)).alias("quantiles"),
    )


# ---------------------------------------------------------------- probes


def probes(trace: "DataFrame") -> "DataFrame":
    """Every probe of a run, with every subscriber whose last filter matches it.

    `number`: its number since its publisher connected, from 1; `stop`: the number of its publisher's connection, from
    1. A connection counts whether it has probes or not.
    """
    so_far = Window.partitionBy("run", "node").orderBy("place")
    said = trace.where("kind in ('link_up', 'probed')").withColumn(
        "stop", fn.count_if(fn.col("kind") == "link_up").over(so_far)
    )
    said = said.where("kind = 'probed'").select(
        "run", "publisher", "sequence", "number", "at", "from_s", "stop", fn.col("detail").alias("said")
    )
    latest = Window.partitionBy("run", "node", "subscription").orderBy(fn.desc("place"))
    asked = trace.where("kind = 'asked' and message = 'subscription'").withColumn("age", fn.row_number().over(latest))
    asked = asked.where("age = 1 and detail != ''").select(
        "run", fn.col("node").alias("subscriber"), fn.col("detail").alias("wanted")
    )
    wants = _wants(said.select("said").distinct(), [row.wanted for row in asked.select("wanted").distinct().collect()])
    owed = said.join(fn.broadcast(wants), "said").join(asked, ["run", "wanted"])
    owed = owed.drop("said", "wanted").distinct()
    given = trace.where("kind = 'delivered'").groupBy(
        "run", fn.col("node").alias("subscriber"), "publisher", "sequence"
    )
    came = given.agg(fn.min("at").alias("came_at"))
    found = owed.join(came, ["run", "subscriber", "publisher", "sequence"], "left")
    return found.withColumn("delay", fn.col("came_at") - fn.col("at")).drop("came_at")


def _wants(said: "DataFrame", filters: Sequence[str]) -> "DataFrame":
    """Pairs of attributes, as JSON, and a filter that they match."""

    def matches(known: Sequence[tuple[str, Filter]], text: str) -> Iterator[str]:
        attributes = event(json.loads(text)).attributes
        return (wanted for wanted, filter in known if filter.holds(attributes))

    return _paired(said, filters, matches, "said", "wanted")


def _paired(
    said: "DataFrame",
    filters: Sequence[str],
    related: Callable[[Sequence[tuple[str, Filter]], str], Iterator[str]],
    left: str,
    right: str,
) -> "DataFrame":
    """Pairs of a text and a filter that is `related` to it, computed once for each distinct text."""

    def pairs(batches: Iterator[Any]) -> Iterator[Any]:
        known = [(text, parse(text)) for text in filters]
        for batch in batches:
            found = [(one, text) for one in batch.column(0).to_pylist() for text in related(known, one)]
            texts = [pa.array([pair[side] for pair in found], pa.string()) for side in (0, 1)]
            yield pa.RecordBatch.from_arrays(texts, names=[left, right])

    return said.mapInArrow(pairs, f"{left} string, {right} string")


def probe_ratios(pairs: "DataFrame") -> "DataFrame":
    """By number of the probe: pairs with a matching subscriber, how many of these arrived, and their share."""
    found = pairs.groupBy("run", "number").agg(fn.count("*").alias("wanted"), fn.count("delay").alias("came"))
    return found.withColumn("ratio", fn.col("came") / fn.col("wanted"))


# ---------------------------------------------------------------- moves


def moves(trace: "DataFrame") -> "DataFrame":
    """Every connection of a client to another broker than before; `until` the next one, or null."""
    mine = Window.partitionBy("run", "node").orderBy("place")
    links = trace.where("kind = 'link_up'").select("run", "node", "at", "place", "from_s", fn.col("peer").alias("new"))
    links = links.join(fn.broadcast(_clients(trace)), ["run", "node"], "left_semi")
    found = links.withColumn("old", fn.lag("new").over(mine)).where("old != new")
    found = found.withColumn("until", fn.lead("at").over(mine)).withColumnRenamed("node", "client")
    return found.select("run", "client", "at", "old", "new", "until", "place", "from_s")


def moves_from_down(trace: "DataFrame") -> "DataFrame":
    """The moves during which the old broker was down."""
    changes = trace.where("kind in ('crashed', 'restarted')").select(
        "run", fn.col("node").alias("old"), "kind", fn.col("at").alias("when")
    )
    pairs = moves(trace).join(changes, ["run", "old"]).where("when <= at")
    last = {kind: fn.max(fn.when(fn.col("kind") == kind, fn.col("when"))) for kind in ("crashed", "restarted")}
    found = pairs.groupBy("run", "client", "place", "at").agg(*(each.alias(kind) for kind, each in last.items()))
    return found.where("crashed is not null and (restarted is null or crashed >= restarted)").drop(*last)


def gaps(trace: "DataFrame") -> "DataFrame":
    """For each move, seconds until an event arrived (`gap`), and until one that was published after the move
    (`new_gap`)."""
    entered = trace.where("kind = 'published'").groupBy("run", "publisher", "sequence").agg(fn.max("at").alias("said"))
    came = trace.where("kind = 'delivered'").select(
        "run", fn.col("node").alias("client"), "publisher", "sequence", fn.col("at").alias("came")
    )
    came = came.join(entered, ["run", "publisher", "sequence"], "left").fillna(0.0, "said")
    here = ["run", "client"]
    stay = (fn.col("came") >= fn.col("at")) & (fn.col("until").isNull() | (fn.col("came") < fn.col("until")))
    pairs = moves(trace).join(came, here, "left")
    first, new = fn.when(stay, fn.col("came")), fn.when(stay & (fn.col("said") >= fn.col("at")), fn.col("came"))
    return pairs.groupBy(*here, "at", "place", "from_s").agg(
        (fn.min(first) - fn.col("at")).alias("gap"), (fn.min(new) - fn.col("at")).alias("new_gap")
    )


def rebuilds(trace: "DataFrame") -> "DataFrame":
    """For each move of a client that advertises, seconds until its trees were `rebuilt`; 0 if they were before.

    A tree is rebuilt when the last message that builds it has been handled: an advertisement or subscription between
    brokers whose filter intersects one of the client's advertisements, from when it left the broker before until it
    leaves this one. No event is needed for that: probes may be among the messages, or not. [pubmob §6]
    """
    asked = trace.where("kind = 'asked' and message = 'advertisement' and detail != ''").select(
        "run", fn.col("node").alias("client"), fn.col("detail").alias("advertised")
    )
    asked = asked.distinct()
    found = _stays(trace).join(asked.select("run", "client").distinct(), ["run", "client"], "left_semi")
    built = trace.where("kind = 'handled' and detail != ''").where(fn.col("message").isin(*TREE_BUILDING))
    built = built.select("run", fn.col("detail").alias("said"), fn.col("at").alias("built_at"))
    theirs = [row.advertised for row in asked.select("advertised").distinct().collect()]
    alike = _intersecting(built.select("said").distinct(), theirs)
    pairs = found.select("run", "client", "place", "left", "leaves").join(asked, ["run", "client"])
    pairs = pairs.join(fn.broadcast(alike), "advertised").join(built, ["run", "said"])
    is_here = (fn.col("built_at") >= fn.col("left")) & (fn.col("built_at") < fn.col("leaves"))
    lasts = pairs.where(is_here).groupBy("run", "client", "place").agg(fn.max("built_at").alias("last"))
    rebuilt = fn.greatest(fn.coalesce(fn.col("last") - fn.col("at"), fn.lit(0.0)), fn.lit(0.0))
    found = found.join(lasts, ["run", "client", "place"], "left").withColumn("rebuilt", rebuilt)
    return found.select("run", "client", "at", "old", "new", "place", "from_s", "rebuilt")


def _stays(trace: "DataFrame") -> "DataFrame":
    """The moves, with when the client `left` the broker before and `leaves` the new one (infinite: never)."""
    links = trace.where("kind in ('link_up', 'link_down')").select(
        "run",
        fn.col("node").alias("client"),
        "place",
        fn.when(fn.col("kind") == "link_down", fn.col("at")).alias("down"),
    )
    mine = Window.partitionBy("run", "client").orderBy("place")
    before, after = (
        mine.rowsBetween(Window.unboundedPreceding, -1),
        mine.rowsBetween(1, Window.unboundedFollowing),
    )
    ends = links.select(
        *("run", "client", "place"),
        fn.coalesce(fn.last("down", ignorenulls=True).over(before), fn.lit(0.0)).alias("left"),
        fn.coalesce(fn.first("down", ignorenulls=True).over(after), fn.lit(float("inf"))).alias("leaves"),
    )
    return moves(trace).join(ends, ["run", "client", "place"])


def _intersecting(said: "DataFrame", advertisements: Sequence[str]) -> "DataFrame":
    """Pairs of a filter's text and the text of an advertisement that it may have an event in common with."""

    def meets(known: Sequence[tuple[str, Filter]], text: str) -> Iterator[str]:
        said = parse(text)
        return (other for other, filter in known if filter.intersects(said))

    return _paired(said, advertisements, meets, "said", "advertised")


# ---------------------------------------------------------------- messages, tables, needless events


def control(trace: "DataFrame", messages: Iterable[str]) -> "DataFrame":
    """By run, the number of arrivals of messages of these types, and their bytes: [pubmob §4.2] counts each hop."""
    rows = measured(trace).where("kind = 'handled'").where(fn.col("message").isin(*messages))
    return rows.groupBy("run", "message").agg(fn.count("*").alias("hops"), fn.sum("size").alias("bytes"))


def traffic(trace: "DataFrame") -> "DataFrame":
    """By run, type of message, and whether a client sent or received it (`air`): hops and bytes."""
    rows = measured(trace).where("kind = 'handled'").groupBy("run", "node", "peer", "message")
    hops = rows.agg(fn.count("*").alias("hops"), fn.sum("size").alias("bytes"))
    clients = _clients(trace).withColumn("is_client", fn.lit(True))
    for end in ("node", "peer"):
        these = clients.withColumnsRenamed({"node": end, "is_client": f"{end}_is_client"})
        hops = hops.join(fn.broadcast(these), ["run", end], "left")
    is_air = fn.coalesce("node_is_client", "peer_is_client", fn.lit(False))
    found = hops.withColumn("air", is_air).groupBy("run", "message", "air")
    return found.agg(fn.sum("hops").alias("hops"), fn.sum("bytes").alias("bytes"))


def _sizes(trace: "DataFrame") -> "DataFrame":
    """Each size of a table, from `at` until the next change (null: to the end), and the size before."""
    own = Window.partitionBy("run", "node", "table").orderBy("place")
    rows = trace.where("kind = 'table'").select(
        "run", "node", fn.col("detail").alias("table"), "at", fn.col("number").alias("entries"), "place", "from_s"
    )
    return rows.withColumn("until", fn.lead("at").over(own)).withColumn(
        "before", fn.lag("entries", 1, 0).over(own).cast("bigint")
    )


def _ends(trace: "DataFrame") -> "DataFrame":
    return trace.groupBy("run").agg(fn.max("at").alias("ends_s"))


def table_sizes(trace: "DataFrame") -> "DataFrame":
    """By broker and table, the `average` number of entries within the measurement, and the `last`."""
    rows = _sizes(trace).join(fn.broadcast(_ends(trace)), "run")
    begins, ends = fn.greatest("at", "from_s"), fn.coalesce("until", "ends_s")
    held = fn.col("entries") * fn.greatest(ends - begins, fn.lit(0.0))
    lasts = fn.greatest(fn.first("ends_s") - fn.first("from_s"), fn.lit(1e-9))
    return rows.groupBy("run", "node", "table").agg(
        (fn.sum(held) / lasts).alias("average"),
        fn.max(fn.when(fn.col("until").isNull(), fn.col("entries"))).alias("last"),
    )


def table_curve(trace: "DataFrame", pieces: int = 100) -> "DataFrame":
    """By table, the entries of all brokers at the end of each interval of a run with a change."""
    rows = _sizes(trace).join(fn.broadcast(_ends(trace)), "run")
    wide = fn.greatest(fn.col("ends_s"), fn.lit(1e-9)) / pieces
    rows = rows.withColumn("at", (fn.floor(fn.col("at") / wide) + 1) * wide)
    change = rows.groupBy("run", "table", "at").agg(fn.sum(fn.col("entries") - fn.col("before")).alias("change"))
    so_far = Window.partitionBy("run", "table").orderBy("at")
    return change.select("run", "table", "at", fn.sum("change").over(so_far).alias("entries"))


def in_vain(trace: "DataFrame") -> "DataFrame":
    """By run, the events that reached the edge needlessly: `residue`, `out_of_context` and `not_addressed`."""
    return kinds(measured(trace).where(fn.col("kind").isin(*sorted(IN_VAIN))))


# ---------------------------------------------------------------- all of it, run by run


def summaries(
    trace: "DataFrame", messages: Iterable[str], tell: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """The figures of each run, by its name, without empty ones. `messages` are the types that count as control.

    `tell` is called with the name of each figure before it is computed.
    """
    tell("reading")
    runs: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, int]] = {}
    for row in kinds(trace).orderBy("run", "kind").collect():
        rows.setdefault(row.run, {})[row.kind] = row.rows
    for run, counts in rows.items():
        runs[run] = {"rows": sum(counts.values()), "published": counts.get("published", 0)}
    there = {kind for counts in rows.values() for kind in counts}
    if "delivered" in there:
        tell("deliveries")
        for row in delivered(trace).collect():
            runs[row.run] |= {
                "deliveries": row.deliveries,
                "duplicated": row.duplicated,
                "out_of_order": row.out_of_order,
            }
        for row in latency(trace).collect():
            shown = {f"p{100 * share:g}": value for share, value in zip(SHARES, row.quantiles, strict=True)}
            runs[row.run]["latency_s"] = {"mean": row["mean"], **shown}
    if "probed" in there:
        tell("probes")
        for row in probe_ratios(measured(probes(trace))).orderBy("run", "number").collect():
            runs[row.run].setdefault("probe_ratios", {})[row.number] = row.ratio
    if "link_up" in there:
        tell("moves")
        for row in measured(moves(trace)).groupBy("run").count().collect():
            runs[row.run]["moves"] = row["count"]
    if "handled" in there:
        tell("messages")
        _add_control(runs, control(trace, messages).orderBy("run", "message").collect())
    if "table" in there:
        tell("tables")
        sizes = table_sizes(trace).groupBy("run", "table").agg(fn.sum("average").alias("entries"))
        for row in sizes.orderBy("run", "table").collect():
            runs[row.run].setdefault("entries", {})[row.table] = row.entries
    for row in in_vain(trace).collect() if there & IN_VAIN else ():
        runs[row.run][row.kind] = row.rows
    return runs


def _add_control(runs: Mapping[str, dict[str, Any]], rows: Iterable[Any]) -> None:
    for row in rows:
        runs[row.run].setdefault("control", {})[row.message] = row.hops
        runs[row.run]["control_bytes"] = runs[row.run].get("control_bytes", 0) + row.bytes
    for found in runs.values():
        if found.get("moves"):
            found["control_per_move"] = sum(found.get("control", {}).values()) / found["moves"]
