"""[mobile §3.1, §5]: replicas and islands. Claims H1 and H6, from traces of runs with many seeds."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from godwit.pipeline import analytics
from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.trace_tables import ID, counted, read
from godwit.reproduce.traced_runs import traced
from godwit.simulator.replication_experiment import PAPER_TABLE, SUBSCRIPTION, replication_table
from godwit.simulator.scenario import named, with_changes
from godwit.trace import TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ad_hoc", "replication"]

RUNS = {True: 20, False: 10}  # of each filter; full or not
AD_HOC_RUNS = {True: 3, False: 2}
SEEDS_MAX = 100  # of the runs of one claim
TICKS = {True: "✓", False: "✗"}


def own_seeds(seed: int, count: int) -> range:
    """The seeds of the runs of one claim; those of another seed are other ones."""
    assert count <= SEEDS_MAX
    return range(seed * SEEDS_MAX, seed * SEEDS_MAX + count)


def replication(setting: Setting) -> Claim:
    """H1: which properties hold in every run, by filter."""
    seeds = own_seeds(setting.seed, RUNS[setting.full])
    folder = setting.folder / "traces" / "replication"
    with TraceWriter(folder, {"seeds": list(seeds)}) as sink:
        for done, seed in enumerate(seeds, start=1):
            replication_table([seed], sink=sink)
            setting.progress("replication", done / len(seeds))
    rows = verdicts(read(setting.spark(), {"replication": folder})).collect()
    found = {row.filter: (row.ordered, row.consistent, row.complete) for row in rows}
    ours = {name: found[name] for name in PAPER_TABLE if name in found}
    pattern = "; ".join(f"{name} {' '.join(TICKS[held] for held in held_all)}" for name, held_all in ours.items())
    return Claim(
        key="H1",
        where="§5 Table 1",
        claim="ordered, consistent, complete: by no filter ✗ ✗ ✓, duplicate removal ✗ ✓ ✓, out-of-order and duplicate "
        "removal ✓ ✓ ✗",
        paper="none ✗ ✗ ✓; unique ✗ ✓ ✓; ordered ✓ ✓ ✗",
        ours=f"{pattern} (in {len(seeds)} runs each)",
        holds=ours == PAPER_TABLE,
        bound="a property that the table grants holds in every run, and one that it denies fails in some",
        note="The fourth row is our own filter, which waits until every replica has passed an event.",
    )


def ad_hoc(setting: Setting) -> Claim:
    """H6: elections, refreshes, merges."""
    seeds = own_seeds(setting.seed, AD_HOC_RUNS[setting.full])
    folders = {}
    owed = lost = 0
    for seed in seeds:
        scenario = with_changes(named("adhoc"), [f"name=adhoc_{seed}"])
        folders[f"adhoc_{seed}"], summary = traced(scenario, seed, setting.folder, setting.progress)
        owed, lost = owed + summary.owed, lost + summary.lost
    trace = read(setting.spark(), folders)
    kinds = counted(trace)
    elected, merged = (sum(each.get(kind, 0) for each in kinds.values()) for kind in ("elected", "merged"))
    polls = trace.where("kind = 'handled' and detail = 'Poll'").count()
    came = analytics.delivered(trace).collect()
    delivered, doubled = sum(row.deliveries for row in came), sum(row.duplicated for row in came)
    overtaken = sum(row.out_of_order for row in came)
    excused = trace.where("kind = 'lost'").count()
    one_leader = sum(row.leaders == 1 for row in _leaders(trace).collect())
    return Claim(
        key="H6",
        where="§3.1",
        claim="a broker is elected when none is found, subscriptions are refreshed by polling, two islands merge when "
        "they meet",
        paper="described",
        ours=f"{len(seeds)} runs of 12 walking devices: {elected} elections, {merged} merges, "
        f"{polls:,} hops of polls; {delivered:,} deliveries, {doubled} doubled, "
        f"{overtaken} out of order, {lost} of {owed:,} owed ones lost ({excused} more with a lease that ended); at "
        "the end, when all are in one island, one leader in "
        f"{one_leader} runs",
        holds=min(elected, merged, polls, delivered) > 0
        and not any((doubled, overtaken, lost))
        and one_leader == len(seeds),
        bound="elections, merges and polls in the runs; one leader when all are in one island; no delivery twice, "
        "out of order or lost that an event broker took for a client whose lease had not ended",
        note="What is owed, and what of it is lost, is counted by the simulator's checker during the run, because a "
        "trace does not have the sessions of event brokers. All else is counted in the traces.",
    )


def _leaders(trace: "DataFrame") -> "DataFrame":
    """By run, how many leaders are left when it ends."""
    changes = trace.where("kind in ('elected', 'resigned')").groupBy("run", "node")
    last = changes.agg(fn.max_by("kind", "place").alias("last"))
    return last.groupBy("run").agg(fn.count_if(fn.col("last") == "elected").alias("leaders"))


def verdicts(trace: "DataFrame") -> "DataFrame":
    """By filter, which of the properties of [mobile §5] every run had. A node is called `filter/seed/name`.

    What is *wanted* of a run is what a single broker that had received all that any replica did would display.
    """
    run = fn.regexp_extract("node", "^(.*)/", 1)
    rows = trace.where("kind in ('offered', 'published', 'delivered')").select(
        run.alias("history"), "kind", "place", *ID, fn.split("subscription", " ").alias("matched")
    )
    before = Window.partitionBy("history", "kind", "publisher").orderBy("place")
    rows = rows.withColumn("is_back", fn.col("sequence") < fn.lag("sequence").over(before))
    is_shown = fn.col("kind") == "delivered"
    is_matching = (fn.col("kind") == "offered") & fn.array_contains("matched", SUBSCRIPTION)
    events = rows.groupBy("history", *ID).agg(
        fn.count_if(is_shown).alias("shown"),
        fn.count_if(is_shown & fn.col("is_back")).alias("back"),
        (fn.bool_or(is_matching) & fn.bool_or(fn.col("kind") == "published")).alias("is_wanted"),
    )
    is_fitting = (fn.col("shown") == 0) | (fn.col("shown") == 1) & fn.col("is_wanted")
    histories = events.groupBy(fn.split_part("history", fn.lit("/"), fn.lit(1)).alias("filter"))
    return histories.agg(
        (fn.sum("back") == 0).alias("ordered"),
        fn.bool_and(is_fitting).alias("consistent"),
        fn.bool_and(~fn.col("is_wanted") | (fn.col("shown") > 0)).alias("complete"),
    )
