"""Costs and losses of each mode of moving; and the blackout of a client that subscribes again.

*Theory.* One scenario is run once for each mode, with the same seed: publishers, subscribers, filters, events and moves
are the same, and only the mode differs. **Lost** events need a reference, since a trace does not have the expected
deliveries. The reference is a twin run without moves. Its subscriptions settle before the first event and never change,
so it delivers exactly what is owed; a delivery of the twin that the run does not have is lost. **Duplicates** and
deliveries **out of order** (after a later event of the same publisher) are counted in the run itself. The **cost** of a
move is the difference to the twin, divided by the number of moves: control messages and their bytes, hop by hop,
between brokers and over the air.

The **gap** is the time from a client's connection to a new broker to its next delivery; the gap to *new* events counts
only events that were published after it connected, for which a client that waits for its old session must wait longer.

The **blackout** [rebeca §3.3, Fig. 3a] is the time from the acceptance of a subscription by a new border broker to the
first event for it; t_d is the time of a message between the border brokers of publisher and subscriber. Only
subscriptions count that begin after the one before is removed everywhere: as long as events still flow to the old
broker, they may pass the new one.

*Rules.*
1. All figures are computed by Spark from the traces, none inside a run. Compared runs are one table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs
from pyspark.sql import Window
from pyspark.sql import functions as fn

from godwit.pipeline import analytics
from godwit.reproduce.claims import Setting
from godwit.reproduce.trace_tables import CONTROL, ID, given, read
from godwit.reproduce.traced_runs import traced
from godwit.simulator.scenario import Clients, OverlaySpec, Rate, Roaming, RoutingSection, Run, Scenario
from godwit.simulator.workloads import WorkloadSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["WAYS", "Blackout", "HandoffFigures", "blackouts", "figures", "run_ways", "scenario_of"]

EVENTS = ("Delivery", "Received")  # between a client and its broker
MOVING_S = {True: 25.0, False: 20.0}  # in which subscribers move; full or not
BLACKOUT_S = {True: 40.0, False: 30.0}  # in which one subscriber moves along a line
SESSION_S = 30.0  # of what naive clients leave behind

WAYS: dict[str, tuple[str, float]] = {
    "relocate": ("relocate", 1.0),
    "ask": ("ask", 1.0),
    "junction": ("junction", 1.0),
    "named": ("named", 1.0),
    "presubscribe": ("presubscribe", 1.0),
    "carry": ("carry", 1.0),
    "explicit, move-out said": ("explicit", 1.0),
    "explicit, none said": ("explicit", 0.0),
    "naive, unsubscribing": ("naive", 1.0),
    "naive, leaving": ("naive", 0.0),
}
"""The compared modes: a name, the mode (`mobility/modes.py`), and the share of announced moves."""


class HandoffFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a mode."""

    moves: int
    old_down: int  # of these, while the broker that the client came from was down
    owed: int
    lost: int
    twice: int
    out_of_order: int
    control_per_move: float  # messages between brokers, each hop
    bytes_per_move: float  # of these
    air_per_move: float  # messages of control between clients and brokers
    gap_s: float | None  # median over moves, to the first event
    new_gap_s: float | None  # to the first that entered after the client had connected


# ---------------------------------------------------------------- runs


def scenario_of(way: str, *, full: bool, old_broker_down: bool = False, moving_s: float | None = None) -> Scenario:
    """The scenario of one mode; "": the twin without moves."""
    mode, announced = WAYS.get(way, ("relocate", 1.0))
    height, degree = (4, 4) if full else (3, 3)
    roaming = Roaming(
        who="subscribers",
        per_s=0 if way == "" else 2 if full else 1,
        away_s=2,
        subscriber_mode=mode,
        announced=announced,
        session_s=SESSION_S if mode == "naive" else None,
    )
    scenario = Scenario(
        name=f"handoff-{way.replace(', ', '-').replace(' ', '-') or 'nobody-moves'}",
        description="subscribers move over a tree of brokers; how they are followed is compared",
        overlay=OverlaySpec(kind="balanced_tree", height=height, degree=degree, latency_ms=25),
        routing=RoutingSection(reduction="covering", advertisements="required"),
        clients=Clients(
            publishers=10 if full else 6,
            subscribers=40 if full else 12,
            publish_per_s=10,
            placement="leaves",
            roaming=roaming,
        ),
        workload=WorkloadSpec(selectivity=0.5),
        run=Run(duration_s=moving_s or MOVING_S[full], settle_s=90, leave=False, judge=False),
    )
    if not old_broker_down:
        return scenario
    crash = Rate(per_s=1.5, lasts_s=4)
    return structs.replace(scenario, name=f"{scenario.name}-down", faults=structs.replace(scenario.faults, crash=crash))


def run_ways(
    setting: Setting,
    ways: Mapping[str, tuple[str, float]] = WAYS,
    *,
    old_broker_down: bool = False,
    moving_s: float | None = None,
) -> dict[str, tuple[Path, Path]]:
    """Run every way, and the twin. By way, its trace and that of the twin, for `figures`."""

    def trace_of(way: str) -> Path:
        scenario = scenario_of(way, full=setting.full, old_broker_down=old_broker_down, moving_s=moving_s)
        return traced(scenario, setting.seed, setting.folder, setting.progress)[0]

    twin = trace_of("")
    return {way: (trace_of(way), twin) for way in ways}


# ---------------------------------------------------------------- figures


def figures(spark: "SparkSession", pairs: Mapping[str, tuple[Path, Path]]) -> dict[str, HandoffFigures]:
    """The figures of runs compared with their twins; each pair has the run first."""
    twins = {str(twin): twin for _, twin in pairs.values()}
    trace = read(spark, {name: run for name, (run, _) in pairs.items()} | twins)
    beside = {name: str(twin) for name, (_, twin) in pairs.items()}
    lost = {row.run: row for row in _lost(spark, trace, beside).collect()}
    came = {row.run: row for row in analytics.delivered(trace).collect()}
    moved = {row.run: row for row in _moved(trace).collect()}
    down = {row.run: row["count"] for row in analytics.moves_from_down(trace).groupBy("run").count().collect()}
    spent = {row.run: row for row in _control(trace).collect()}
    return {name: _figures(name, beside[name], lost, came, moved, down, spent) for name in pairs}


def _figures(
    run: str,
    twin: str,
    lost: Mapping[str, Any],
    came: Mapping[str, Any],
    moved: Mapping[str, Any],
    down: Mapping[str, int],
    spent: Mapping[str, Any],
) -> HandoffFigures:
    moves = moved[run].moves if run in moved else 0

    def more(what: str) -> float:
        """The additional cost of the run per move, compared with its twin."""
        ours, theirs = (spent[each][what] if each in spent else 0 for each in (run, twin))
        return float(ours - theirs) / max(moves, 1)

    return HandoffFigures(
        moves=moves,
        old_down=down.get(run, 0),
        owed=lost[run].owed if run in lost else 0,
        lost=lost[run].lost if run in lost else 0,
        twice=came[run].duplicated if run in came else 0,
        out_of_order=came[run].out_of_order if run in came else 0,
        control_per_move=more("hops"),
        bytes_per_move=more("bytes"),
        air_per_move=more("air"),
        gap_s=moved[run].gap if run in moved else None,
        new_gap_s=moved[run].new_gap if run in moved else None,
    )


def _lost(spark: "SparkSession", trace: "DataFrame", beside: Mapping[str, str]) -> "DataFrame":
    """By run, the number of deliveries of its twin, and of those that the run lacks."""
    pairs = spark.createDataFrame(list(beside.items()), "run string, twin string")
    got = given(trace)
    owed = got.withColumnRenamed("run", "twin").join(fn.broadcast(pairs), "twin")
    found = owed.join(got.withColumn("is_there", fn.lit(True)), ["run", "node", *ID], "left").groupBy("run")
    return found.agg(fn.count("*").alias("owed"), fn.count_if(fn.col("is_there").isNull()).alias("lost"))


def _moved(trace: "DataFrame") -> "DataFrame":
    """By run, how many moves there were, and the median gaps of those that were followed by an event."""
    found = analytics.gaps(trace).groupBy("run")
    return found.agg(fn.count("*").alias("moves"), fn.median("gap").alias("gap"), fn.median("new_gap").alias("new_gap"))


def _control(trace: "DataFrame") -> "DataFrame":
    """By run, messages of control between brokers and their bytes, each hop, and those between clients and brokers."""
    is_control = ~fn.col("air") & fn.col("message").isin(*CONTROL)
    is_air = fn.col("air") & ~fn.col("message").isin(*EVENTS)

    def total(which: "Column", what: str) -> "Column":
        return fn.sum(fn.when(which, fn.col(what)).otherwise(0))

    return (
        analytics.traffic(trace)
        .groupBy("run")
        .agg(
            total(is_control, "hops").alias("hops"),
            total(is_control, "bytes").alias("bytes"),
            total(is_air, "hops").alias("air"),
        )
    )


# ---------------------------------------------------------------- blackout


class Blackout(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription made again, and when its first event came."""

    delay_s: float  # t_d: between the border brokers of publisher and subscriber
    blackout_s: float


def blackouts(setting: Setting, reduction: str = "simple", latency_ms: float = 50.0) -> list[Blackout]:
    """Run a naive subscriber that moves along a line of brokers, with a continuous publisher at one of them.

    It unsubscribes before it goes. The delays of clients' own connections are near zero.
    """
    brokers = 12 if setting.full else 8
    scenario = Scenario(
        name=f"blackout-{reduction}",
        overlay=OverlaySpec(kind="line", brokers=brokers, latency_ms=latency_ms, client_latency_ms=0.1),
        routing=RoutingSection(reduction=reduction, advertisements="off"),
        clients=Clients(
            publishers=1,
            subscribers=1,
            publish_per_s=400,
            roaming=Roaming(who="subscribers", per_s=0.4, away_s=2, subscriber_mode="naive", session_s=SESSION_S),
        ),
        workload=WorkloadSpec(kind="publications"),
        run=Run(duration_s=BLACKOUT_S[setting.full], settle_s=40, leave=False),
    )
    folder, _ = traced(scenario, setting.seed, setting.folder, setting.progress)
    return _blackouts(setting.spark(), folder, latency_ms / 1_000, brokers)


def _blackouts(spark: "SparkSession", folder: Path, latency_s: float, brokers: int) -> list[Blackout]:
    """Of the subscriber `s0`, whenever the session before is gone everywhere; the publisher is `p0`."""
    trace = read(spark, {"run": folder})
    links = trace.where("kind = 'link_up' and node = 'p0'")
    source = links.agg(fn.min_by("peer", "place").alias("source"))
    begun = trace.where("kind = 'subscribed' and peer = 's0'").select(
        fn.col("at").alias("start"),
        fn.col("node").alias("border"),
        fn.lead("at").over(Window.orderBy("place")).alias("end"),
    )
    others = trace.where("kind = 'delivered' and node = 's0' or kind = 'session_ended' and peer = 's0'")
    is_first = (fn.col("kind") == "delivered") & (fn.col("at") >= fn.col("start"))
    is_first &= fn.col("end").isNull() | (fn.col("at") < fn.col("end"))
    is_before = (fn.col("kind") == "session_ended") & (fn.col("at") < fn.col("start"))
    found = (
        begun.crossJoin(others.select("kind", "at"))
        .groupBy("start", "border")
        .agg(
            fn.min(fn.when(is_first, fn.col("at"))).alias("first"),
            fn.max(fn.when(is_before, fn.col("at"))).alias("gone"),
        )
    )
    found = found.where(fn.col("first").isNotNull() & (fn.col("start") - fn.col("gone") > brokers * latency_s))

    def number(broker: str) -> "Column":
        return fn.substring(broker, 2, 9).cast("int")

    hops = fn.abs(number("border") - number("source"))
    rows = found.crossJoin(source).select(
        (hops * latency_s).alias("delay"), (fn.col("first") - fn.col("start")).alias("dark")
    )
    return [Blackout(delay_s=row.delay, blackout_s=row.dark) for row in rows.orderBy("start").collect()]
