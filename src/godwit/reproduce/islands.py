"""[mobile §3.1, §5]: replicas and islands. Claims H1 and H6, from traces of runs with many seeds."""

from collections import Counter
from pathlib import Path

from godwit import trace
from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.runs import traced
from godwit.reproduce.tables import deliveries, overtaken, rows
from godwit.simulator.replication_experiment import PAPER_TABLE, replication_table, verdicts
from godwit.simulator.scenario import named, with_changes
from godwit.trace import TraceWriter

__all__ = ["ad_hoc", "replication"]

RUNS = {True: 50, False: 10}  # of each filter; full or not
AD_HOC_RUNS = {True: 10, False: 3}
TICKS = {True: "✓", False: "✗"}


def replication(setting: Setting) -> Claim:
    """H1: which properties hold in every run, by filter."""
    seeds = range(setting.seed, setting.seed + RUNS[setting.full])
    folder = setting.folder / "traces" / "replication"
    with TraceWriter(folder, {"seeds": list(seeds)}) as sink:
        for done, seed in enumerate(seeds, start=1):
            replication_table([seed], sink=sink)
            setting.progress("replication", done / len(seeds))
    found = {row.filter: row for row in verdicts(trace.read(folder))}
    ours = {name: row.properties for name, row in found.items()}
    pattern = "; ".join(f"{name} {' '.join(TICKS[held] for held in held_all)}" for name, held_all in ours.items())
    return Claim(
        key="H1",
        where="§5 Table 1",
        claim="ordered, consistent, complete: by no filter ✗ ✗ ✓, duplicate removal ✗ ✓ ✓, out-of-order and duplicate "
        "removal ✓ ✓ ✗",
        paper="none ✗ ✗ ✓; unique ✗ ✓ ✓; ordered ✓ ✓ ✗",
        ours=f"{pattern} (in {len(seeds)} runs each)",
        holds=ours == PAPER_TABLE,
        note="The fourth row is our own filter, which waits until every replica has passed an event.",
    )


def ad_hoc(setting: Setting) -> Claim:
    """H6: elections, refreshes, merges."""
    counts: Counter[str] = Counter()
    polls = leaderless = 0
    seeds = range(setting.seed, setting.seed + AD_HOC_RUNS[setting.full])
    for seed in seeds:
        scenario = with_changes(named("adhoc"), [f"name=adhoc_{seed}"])
        folder = traced(scenario, seed, setting.folder, setting.progress)[0]
        leaderless += _leaders(folder) != 1
        for kind in ("elected", "merged"):
            counts[kind] += len(rows(folder, kind, "node"))
        polls += sum(detail == "Poll" for (detail,) in rows(folder, "handled", "detail"))
        for events in deliveries(folder).values():
            counts["delivered"] += len(events)
            counts["doubled"] += len(events) - len(set(events))
            counts["overtaken"] += overtaken(events)
    return Claim(
        key="H6",
        where="§3.1",
        claim="a broker is elected when none is found, subscriptions are refreshed by polling, two islands merge when "
        "they meet",
        paper="described",
        ours=f"{len(seeds)} runs of 12 walking devices: {counts['elected']} elections, {counts['merged']} merges, "
        f"{polls:,} hops of polls; {counts['delivered']:,} deliveries, {counts['doubled']} doubled, "
        f"{counts['overtaken']} out of order; at the end, when all are in one island, one leader in "
        f"{len(seeds) - leaderless} runs",
        holds=min(counts["elected"], counts["merged"], polls, counts["delivered"]) > 0
        and not any((counts["doubled"], counts["overtaken"], leaderless)),
    )


def _leaders(folder: Path) -> int:
    """How many leaders are left when a run ends."""
    changes = [(at, node, 1) for at, node in rows(folder, "elected", "at", "node")]
    changes += [(at, node, 0) for at, node in rows(folder, "resigned", "at", "node")]
    return sum({node: leads for _, node, leads in sorted(changes)}.values())
