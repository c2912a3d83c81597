"""[mobile §3.2, §4, §4.3]: quenching, broadcast against multicast, and queue purging. Claims H2, H3 and H5.

*Theory.* Each claim is decided by runs that differ in one thing and share a seed. Publishers, subscribers, filters,
events, connections and their times are then the same, so every difference in deliveries is caused by that one thing.
"""

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.segment_multicast import draw_segments
from godwit.reproduce.trace_tables import ID, counted, given, read
from godwit.reproduce.traced_runs import traced
from godwit.simulator.scenario import (
    Churn,
    Clients,
    Disconnections,
    OverlaySpec,
    RoutingSection,
    Run,
    Scenario,
    SessionsSection,
)
from godwit.simulator.workloads import WorkloadSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["broadcast_and_multicast", "purging", "quenching"]


def _differ(trace: "DataFrame", a: str, b: str) -> tuple[int, int]:
    """Deliveries, each once, that are in the run `a` alone, and in `b` alone."""
    there = (
        given(trace).groupBy("node", *ID).agg(_any(fn.col("run") == a).alias("a"), _any(fn.col("run") == b).alias("b"))
    )
    [row] = there.agg(fn.count_if(there.a & ~there.b), fn.count_if(there.b & ~there.a)).collect()
    return row[0], row[1]


def _any(which: "Column") -> "Column":
    return fn.coalesce(fn.bool_or(which), fn.lit(False))


# ---------------------------------------------------------------- H2

CLIENT_LATENCY_MS = 20.0  # so old is the filter of a source that is connected


def _quenched(name: str, full: bool, *, quenching: bool, is_away: bool) -> Scenario:
    size = 4 if full else 1
    return Scenario(
        name=name,
        overlay=OverlaySpec(kind="single", client_latency_ms=CLIENT_LATENCY_MS),
        routing=RoutingSection(reduction="simple", advertisements="off", quenching=quenching),
        clients=Clients(
            publishers=10 * size,
            subscribers=5 * size,
            publish_per_s=4,
            disconnections=Disconnections(who="publishers", per_s=0.5 * size if is_away else 0, lasts_s=2),
        ),
        workload=WorkloadSpec(selectivity=0.02, skew=1.0, topics=50),
        churn=Churn(subscribe_per_s=1 if is_away else 0, burst_s=1, pause_s=2),
        run=Run(duration_s=20, settle_s=20),
    )


def quenching(setting: Setting) -> Claim:
    """H2: sources drop exactly the events that no subscription matches; a disconnected source keeps events that may
    be wanted."""
    folders = {}
    for is_away in (False, True):
        for quenches in (True, False):
            name = f"quenching_{'on' if quenches else 'off'}{'_sources_away' if is_away else ''}"
            scenario = _quenched(name, setting.full, quenching=quenches, is_away=is_away)
            run = f"{'on' if quenches else 'off'}{', away' if is_away else ''}"
            folders[run] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    trace = read(setting.spark(), folders)
    events = _events(trace)
    [found] = events.agg(
        fn.count_if("quenched").alias("quenched"),
        fn.count_if("sent").alias("sent"),
        fn.count_if(events.quenched != (events.said & ~events.wanted)).alias("wrongly"),
    ).collect()
    missed, in_transit = _missed(trace)
    kinds = counted(trace)
    away, delivered = kinds["on, away"], kinds["off, away"].get("delivered", 0)
    is_exact = not found.wrongly and min(found.quenched, delivered, away.get("link_down", 0)) > 0
    return Claim(
        key="H2",
        where="§3.2",
        claim="quenching drops at the source exactly what no subscription matches; a source that buffers while it is "
        "away never drops what a subscription it has not learnt of yet wanted, while there is room",
        paper="exactly; never",
        ours=f"{found.quenched} of {found.sent + found.quenched} events dropped, {found.wrongly} wrongly; with "
        f"sources that go away {away.get('quenched', 0)} dropped, {missed} of {delivered} deliveries missed"
        f"{f', {in_transit} because the subscription was on its way to the source' if missed else ''}",
        bound="no event dropped that somebody wants, none sent that nobody wants; no delivery missed by sources that "
        "go away",
        holds=is_exact and not missed,
        reading="a subscription counts for a source when the source has heard of it. By the plain reading "
        f"{missed} deliveries were missed, in {in_transit} of which a connected source dropped the event while the "
        "subscription was on its way to the broker, or from there to the source",
        reading_holds=is_exact and missed == in_transit,
    )


def _missed(trace: "DataFrame") -> tuple[int, int]:
    """Deliveries that only the run without quenching has; and those of them that no source could know of.

    In these the source was connected, it had heard the filter since it connected, and the subscription reached the
    broker too late for that filter.
    """
    on = trace.where("run = 'on, away'")
    wanted = trace.where("run = 'off, away' AND kind = 'delivered'")
    wanted = wanted.select("node", *ID, fn.explode(fn.split("subscription", ",")).alias("subscription"))
    wanted = wanted.join(given(on).drop("run"), ["node", *ID], "left_anti")
    made = on.where("kind = 'subscribed'").select(
        fn.col("peer").alias("node"), "subscription", fn.col("at").alias("made_at")
    )
    dropped = on.where("kind = 'quenched'").select(*ID, fn.col("at").alias("dropped_at"))
    changes = on.where("kind IN ('link_up', 'link_down') OR kind = 'handled' AND message = 'Quench'")
    changes = changes.select(fn.col("node").alias("publisher"), "at", "kind")
    dropped = dropped.join(changes, "publisher").where("at <= dropped_at")
    dropped = dropped.groupBy(*ID, "dropped_at").agg(fn.max_by("kind", "at").alias("last"))
    is_in_transit = (fn.col("last") == "handled") & (
        fn.col("made_at") > fn.col("dropped_at") - CLIENT_LATENCY_MS / 1_000
    )
    each = wanted.join(dropped, [*ID], "left").join(made, ["node", "subscription"], "left")
    missed = each.groupBy("node", *ID).agg(
        fn.bool_and(fn.coalesce(is_in_transit, fn.lit(False))).alias("is_in_transit")
    )
    [row] = missed.agg(fn.count("*"), fn.count_if("is_in_transit")).collect()
    return row[0], row[1]


def _events(trace: "DataFrame") -> "DataFrame":
    """For each event, whether it was `quenched` or `sent` with quenching, and `said` or `wanted` without."""

    def happened(run: str, kind: str) -> "Column":
        return _any((fn.col("run") == run) & (fn.col("kind") == kind))

    return trace.groupBy(*ID).agg(
        happened("on", "quenched").alias("quenched"),
        happened("on", "published").alias("sent"),
        happened("off", "published").alias("said"),
        happened("off", "delivered").alias("wanted"),
    )


# ---------------------------------------------------------------- H3


def broadcast_and_multicast(setting: Setting) -> Claim:
    """H3: the same deliveries, with fewer messages."""
    found = {}
    for reduction in ("flooding", "covering"):
        scenario = Scenario(
            name="broadcast" if reduction == "flooding" else "multicast",
            overlay=OverlaySpec(kind="balanced_tree", height=4 if setting.full else 3, degree=3),
            routing=RoutingSection(reduction=reduction, advertisements="off"),
            clients=Clients(publishers=10, subscribers=60, publish_per_s=2),
            workload=WorkloadSpec(selectivity=0.02),
            run=Run(duration_s=20, settle_s=10),
        )
        found[reduction] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    brokers = sum(3**level for level in range(4 if setting.full else 3))
    trace = read(setting.spark(), found)
    hops = {row.run: row for row in _hops(trace, brokers).collect()}
    published, to_all = hops["flooding"].published, hops["flooding"].to_all
    same = _differ(trace, "flooding", "covering") == (0, 0)
    before, after = hops["flooding"].hops, hops["covering"].hops
    return Claim(
        key="H3",
        where="§4",
        claim="broadcast sends every event to every broker; multicast delivers the same set with fewer messages",
        paper="all brokers; the same; fewer",
        ours=f"{brokers - 1} hops for each of {published} events{'' if to_all else ' (NOT FOR ALL)'}; deliveries "
        f"{'the same' if same else 'DIFFERENT'}; {before:,} messages against {after:,}",
        holds=to_all and same and after < before,
        bound="every event to every other broker; the same deliveries; fewer messages",
        note=draw_segments(setting.folder, setting.seed),
    )


def _hops(trace: "DataFrame", brokers: int) -> "DataFrame":
    """By run, the number of published events, of their hops, and whether each reached all brokers."""
    is_hop = (fn.col("kind") == "handled") & (fn.col("message") == "Publish")  # clients publish by `Request`
    events = trace.groupBy("run", *ID).agg(
        fn.count_if(is_hop).alias("hops"), _any(fn.col("kind") == "published").alias("is_published")
    )
    is_to_all = ~fn.col("is_published") | (fn.col("hops") == brokers - 1)
    return events.groupBy("run").agg(
        fn.count_if("is_published").alias("published"),
        fn.sum("hops").alias("hops"),
        fn.bool_and(is_to_all).alias("to_all"),
    )


# ---------------------------------------------------------------- H5

AGE_S = 2.0
RULES: dict[str, SessionsSection] = {
    "none": SessionsSection(),
    "age": SessionsSection(age_s_max=AGE_S),
    "newest_per": SessionsSection(newest_per="key"),
    "high_water": SessionsSection(high_water="value"),
}


def purging(setting: Setting) -> Claim:
    """H5: each rule purges only the events that it should, with a record, and all others are delivered."""
    _write_events(setting.folder, Random(setting.seed))
    folders = {}
    for rule, sessions in RULES.items():
        scenario = Scenario(
            name=f"purging_{rule}",
            overlay=OverlaySpec(kind="single"),
            clients=Clients(
                publishers=1,
                subscribers=20 if setting.full else 6,
                publish_per_s=20,
                disconnections=Disconnections(who="subscribers", per_s=2 if setting.full else 0.6, lasts_s=5),
            ),
            workload=WorkloadSpec(
                kind="files",
                subscriptions_file=str(setting.folder / "purging_subscriptions.jsonl"),
                events_file=str(setting.folder / "purging_events.jsonl"),
            ),
            sessions=sessions,
            run=Run(duration_s=30, settle_s=30),
        )
        folders[rule] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    trace = read(setting.spark(), folders)
    counts, wrong = {rule: 0 for rule in RULES if rule != "none"}, 0
    for row in _judged(trace, setting.folder / "purging_events.jsonl").collect():
        counts[row.run] = row.purged
        wrong += row.wrong
    wrong += _unrecorded(trace).count()
    purged = ", ".join(f"{count} by {rule}" for rule, count in counts.items())
    return Claim(
        key="H5",
        where="§4.3",
        claim="a queue may be purged by age, by keeping the newest of each key, and by a high-water mark",
        paper="described",
        ours=f"{purged}; {wrong} that the rule does not allow or that were not on record",
        holds=all(counts.values()) and not wrong,
        bound="every rule removes some events, only those that it allows, and each is on record",
        note="Each run is compared with one without the rule: what is missing is what the trace says was purged.",
    )


def _write_events(folder: Path, rng: Random) -> None:
    """The events of the runs, in the order of the one publisher."""
    folder.mkdir(parents=True, exist_ok=True)
    events = [{"key": rng.randrange(5), "value": rng.randrange(1_000_000)} for _ in range(1_000)]
    lines = (json.dumps({"id": number, "attributes": event}) for number, event in enumerate(events))
    (folder / "purging_events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = json.dumps({"id": 1, "filter": "value >= 0"})
    (folder / "purging_subscriptions.jsonl").write_text(f"{text}\n", encoding="utf-8")


def _judged(trace: "DataFrame", events: Path) -> "DataFrame":
    """By run, named by its rule: the number of purged events, and of wrongly purged ones."""
    said = trace.sparkSession.read.schema("id bigint, attributes struct<key: bigint, value: bigint>").json(str(events))
    said = said.select((fn.col("id") + 1).alias("sequence"), "attributes.key", "attributes.value")
    published = trace.where("kind = 'published'").groupBy("run", *ID).agg(fn.max("at").alias("said_at"))
    published = published.join(fn.broadcast(said), "sequence").drop("publisher")
    purged = trace.where("kind = 'purged'").select("run", "place", "at", "sequence", fn.col("detail").alias("reason"))
    purged = purged.join(published, ["run", "sequence"])
    others = published.withColumnsRenamed(
        {"sequence": "other", "said_at": "other_at", "key": "other_key", "value": "other_value"}
    )
    is_later = (fn.col("other") > fn.col("sequence")) & (fn.col("other_at") <= fn.col("at"))
    is_before = fn.col("other") < fn.col("sequence")  # a higher one was queued before, or arrived since
    allowed = (
        fn.when(fn.col("run") == "age", fn.col("at") - fn.col("said_at") >= AGE_S)
        .when(fn.col("run") == "newest_per", is_later & (fn.col("other_key") == fn.col("key")))
        .when(fn.col("run") == "high_water", (is_later | is_before) & (fn.col("other_value") >= fn.col("value")))
    )
    each = purged.join(others, "run").groupBy("run", "place", "reason").agg(_any(allowed).alias("is_allowed"))
    is_wrong = ~fn.col("is_allowed") | (fn.col("reason") != fn.col("run"))
    return each.groupBy("run").agg(fn.count("*").alias("purged"), fn.count_if(is_wrong).alias("wrong"))


def _unrecorded(trace: "DataFrame") -> "DataFrame":
    """Deliveries of the run `none` that another run lacks without a record of purging, or has in spite of one."""
    rules = trace.select(fn.col("run").alias("rule")).where("rule != 'none'").distinct()
    owed = given(trace).where("run = 'none'").drop("run").crossJoin(rules)
    got = given(trace).withColumnRenamed("run", "rule").withColumn("is_given", fn.lit(True))
    gone = trace.where("kind = 'purged'").select(fn.col("run").alias("rule"), fn.col("peer").alias("node"), *ID)
    gone = gone.distinct().withColumn("is_purged", fn.lit(True))
    keys = ["rule", "node", *ID]
    found = owed.join(got, keys, "left").join(gone, keys, "left")
    return found.where(fn.col("is_given").isNull() != fn.col("is_purged").isNotNull())
