"""Figures of a run of `pubmob`, from its trace: the cost of moving publishers, and the deliveries to subscribers.

*Theory.* Spark reads the traces of many runs as one table (`pipeline/analytics.py`), and its results are kept
unchanged: counts by number of the probe, and points of the distribution of delivery times. Only ratios of counts are
computed here.

*Rules.*
1. One call computes all runs, each figure in one job.
2. What a run costs is counted after the warm-up; probes of three groups are kept apart: `all` of them, those at the
   `first` connection of their publisher, and those `measured`, after the warm-up and at brokers it has moved to.
3. `rebuilt` is read from messages of control and needs no probes.
4. Where all probes are measured ones, the distribution of their times is computed once.
5. The entries of brokers, the times of trees and those by move are asked for by few experiments, and computed for
   their runs alone.
6. Times `by_move` are those of `measured` probes, by the number of the move before them: 1 is the first move.

*Paper.* [pubmob §4.2]: "Publications are not counted as part of tree rebuilding cost, only (un)advertisements,
(un)subscriptions, and any other control messages. Each hop a message travels is counted." §6: "we plan to develop a
less intrusive technique to determine tree rebuilding time".
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from pyspark.sql import functions as fn

from godwit.pipeline import analytics
from godwit.reproduce.trace_tables import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Also", "MoveTimes", "ProbeCounts", "PubmobFigures", "figures"]

Also = Literal["by_move", "entries", "rebuilt"]
"""Figures that are computed where they are asked for."""

POINTS = 200  # of a distribution
SHARES = tuple(number / POINTS for number in range(POINTS + 1))
TABLES = ("in_ads", "in_subs")  # [pubmob §4.2]: what brokers keep


class ProbeCounts(msgspec.Struct):
    """The deliveries of probes to matching subscribers."""

    pairs: dict[int, tuple[int, int]] = {}  # by number since its publisher connected: pairs, and those that came
    mean: float = float("nan")  # seconds until they came
    quantiles: tuple[float, ...] = ()  # of these, by `SHARES`

    def ratio(self) -> float:
        """The share of them that was delivered."""
        wanted, came = (sum(each) for each in zip(*self.pairs.values(), strict=True)) if self.pairs else (0, 0)
        return came / wanted if wanted else float("nan")

    def ratios(self) -> list[tuple[int, float]]:
        """By number of the probe, the share that was delivered. [pubmob Fig. 5]"""
        return [(number, came / wanted) for number, (wanted, came) in sorted(self.pairs.items())]

    def percentile(self, share: float) -> float:
        """The time that this share of those that came does not exceed; not a number when none came."""
        return self.quantiles[round(share * POINTS)] if self.quantiles else float("nan")

    def distribution(self) -> list[tuple[float, float]]:
        """Times and the share of those that came that took no longer. [pubmob Fig. 6]"""
        return list(zip(self.quantiles, SHARES, strict=True)) if self.quantiles else []


class MoveTimes(msgspec.Struct):
    """The deliveries of probes after moves with the same number."""

    came: int
    median: float  # seconds; not a number when none came


class PubmobFigures(msgspec.Struct):
    """The figures of one run."""

    moves: int = 0  # after the warm-up
    cost: dict[str, int] = {}  # after the warm-up, by type of message
    probes: dict[str, ProbeCounts] = {}  # by group
    by_move: dict[int, MoveTimes] = {}  # (rule 6)
    entries: dict[str, float] = {}  # by broker, on average
    rebuilt: tuple[float, ...] = ()  # seconds until a mover's trees were rebuilt, without its probes: by `SHARES`

    def rebuilt_after(self, share: float) -> float:
        """The time after which this share of the moves measured have their trees; not a number without moves."""
        return self.rebuilt[round(share * POINTS)] if self.rebuilt else float("nan")

    @property
    def rebuilt_by_time(self) -> list[tuple[float, float]]:
        """Times and the share of moves whose trees were rebuilt by then."""
        return list(zip(self.rebuilt, SHARES, strict=True)) if self.rebuilt else []

    def entries_by_depth(self, degree: int) -> dict[int, float]:
        """By distance from the root of a balanced tree, the mean number of entries of a broker."""
        found: dict[int, list[float]] = {}
        for broker, entries in self.entries.items():
            found.setdefault(_depth(int(broker.removeprefix("b")), degree), []).append(entries)
        return {depth: sum(each) / len(each) for depth, each in sorted(found.items())}


def _depth(number: int, degree: int) -> int:
    """The distance from the root of the broker with this number; brokers are numbered level by level."""
    depth = 0
    while number:
        number, depth = (number - 1) // degree, depth + 1
    return depth


def figures(
    spark: "SparkSession", runs: Sequence[analytics.TraceSource], also: Mapping[Also, Collection[str]]
) -> dict[str, PubmobFigures]:
    """The figures of these runs, by name. `also`: for each figure of rule 5 the names of the runs that need it."""
    trace = analytics.read(spark, runs)
    found = {
        each.run: PubmobFigures(probes={group: ProbeCounts() for group in ("all", "first", "measured")})
        for each in runs
    }
    for row in analytics.measured(analytics.moves(trace)).groupBy("run").count().collect():
        found[row.run].moves = row["count"]
    for row in analytics.control(trace, CONTROL).collect():
        found[row.run].cost[row.message] = row.hops
    pairs = _placed(analytics.probes(trace)).persist()
    counts = pairs.groupBy("run", "number", "is_first", "is_measured").agg(
        fn.count("*").alias("wanted"), fn.count("delay").alias("came")
    )
    for row in _grouped(counts).groupBy("run", "group", "number").agg(fn.sum("wanted"), fn.sum("came")).collect():
        found[row.run].probes[row.group].pairs[row.number] = row[3], row[4]
    alike = [run for run, each in found.items() if each.probes["all"] == each.probes["measured"]]  # (rule 4)
    rows = _grouped(pairs).where(~(fn.col("run").isin(alike) & (fn.col("group") == "all")))
    for row in analytics.distribution(rows, ["run", "group"], "delay", SHARES).where("mean is not null").collect():
        probes = found[row.run].probes[row.group]
        probes.mean, probes.quantiles = row["mean"], tuple(row.quantiles)
    for run in alike:
        found[run].probes["all"] = found[run].probes["measured"]
    if these := also.get("by_move"):
        _add_by_move(pairs.where(fn.col("run").isin(*these)), found)
    pairs.unpersist()
    for what, add in _FROM_TRACES.items():
        if sources := [each for each in runs if each.run in also.get(what, ())]:
            add(analytics.read(spark, sources), found)
    return found


def _add_by_move(pairs: "DataFrame", found: Mapping[str, PubmobFigures]) -> None:
    by_move = pairs.where("is_measured").groupBy("run", "stop")
    for row in by_move.agg(fn.count("delay"), fn.percentile("delay", 0.5)).orderBy("run", "stop").collect():
        median = float("nan") if row[3] is None else row[3]
        found[row.run].by_move[row.stop - 1] = MoveTimes(came=row[2], median=median)


def _add_entries(trace: "DataFrame", found: Mapping[str, PubmobFigures]) -> None:
    entries = fn.sum(fn.when(fn.col("table").isin(*TABLES), fn.col("average")).otherwise(0.0))
    sizes = analytics.table_sizes(trace).groupBy("run", "node").agg(entries.alias("entries"))
    for row in sizes.orderBy("run", "node").collect():
        found[row.run].entries[row.node] = row.entries


def _add_rebuilt(trace: "DataFrame", found: Mapping[str, PubmobFigures]) -> None:
    rebuilt = analytics.measured(analytics.rebuilds(trace))
    for row in analytics.distribution(rebuilt, ["run"], "rebuilt", SHARES).collect():
        found[row.run].rebuilt = tuple(row.quantiles)


_FROM_TRACES: dict[Also, Callable[["DataFrame", Mapping[str, PubmobFigures]], None]] = {
    "entries": _add_entries,
    "rebuilt": _add_rebuilt,
}


def _placed(pairs: "DataFrame") -> "DataFrame":
    """Each pair, and whether it is in a group."""
    return pairs.select(
        *("run", "stop", "number", "delay"),
        (fn.col("stop") == 1).alias("is_first"),
        ((fn.col("at") >= fn.col("from_s")) & (fn.col("stop") > 1)).alias("is_measured"),
    )


def _grouped(rows: "DataFrame") -> "DataFrame":
    """Each row once for each group that it is in."""
    groups = fn.array(fn.lit("all"), fn.when(fn.col("is_first"), "first"), fn.when(fn.col("is_measured"), "measured"))
    return rows.select("*", fn.explode(fn.array_compact(groups)).alias("group"))
