"""What many walkers cost: tables and messages, each open filter told by itself and united. This file with `--help`.

The city of [pubmob §4], 85 brokers in a tree of degree 4. Walkers stand anywhere on a grid of places and want one
service where they are: `service = 'parking' AND location WITHIN myloc`. Each stays for ten seconds and five more on
average, then takes a step. Counted are, for half a minute of walking, messages between brokers about open filters (each
hop), their bytes, and events on links; and at its end the entries that brokers hold for their neighbours, in all and at
the broker that holds most. All are counts of the simulator: the same on every machine. Every run is compared with its
twin that floods, so nothing that a walker should receive is missing.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.reporting import Row, json_line, print_tables
from godwit.broker.tree import HERE
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Clients, OverlaySpec, RoutingSection, Run, Scenario, Walking
from godwit.simulator.workloads import WorkloadSpec
from godwit.trace import Record

SEED = 1
ABOUT_STATES = {"Follow", "FollowUpdate", "FollowPlaces", "Unfollow"}


def scenario_of(walkers: int, side: int, open_filters: Any, minutes: float) -> Scenario:
    """Some walkers on a grid of so many places each way."""
    return Scenario(
        name="walkers",
        overlay=OverlaySpec(kind="balanced_tree", height=4, degree=4, latency_ms=10.0),
        routing=RoutingSection(reduction="covering", open_filters=open_filters, advertisements="required"),
        clients=Clients(
            placement="leaves",
            publishers=8,
            subscribers=walkers,
            publish_per_s=5.0,
            walking=Walking(graph=f"grid {side}x{side}", dwell_s=10.0, linger_s=5.0),
        ),
        workload=WorkloadSpec(kind="places", topics=1, radius=0),
        run=Run(warmup_s=5.0, duration_s=60.0 * minutes, settle_s=10.0, leave=False),
    )


def by_setting(walkers: int, side: int, open_filters: str, minutes: float) -> Iterator[Row]:
    """What one run counts."""
    simulation = Simulation(scenario_of(walkers, side, open_filters, minutes), SEED)
    brokers = dict.fromkeys(simulation.overlay.brokers)
    counts = {"about states": 0, "bytes": 0, "events": 0}
    recorded = simulation.recorder.on_record
    begins_s = simulation.scenario.run.warmup_s

    def count(node: str, record: Record, now: float) -> None:
        if record.kind == "handled" and node in brokers and record.peer in brokers and now >= begins_s:
            if record.message in ABOUT_STATES:
                counts["about states"] += 1
                counts["bytes"] += record.size
            counts["events"] += record.message == "Publish"
        recorded(node, record, now)

    simulation.world.on_record, simulation.world.traces_messages = count, True
    summary = simulation.run()
    if summary.violations:
        raise SystemExit(f"a law is broken: {summary.violations[0]}")
    tables = []
    for name in brokers:
        followed = simulation.broker(name).routing.further.followed  # type: ignore[attr-defined]
        tables.append(sum(len(entries) for source, entries in followed.items() if source != HERE))
    name = f"{walkers:,} walkers, {side * side:,} places, {open_filters}"
    yield Row(name, "steps", summary.walked, "steps")
    yield Row(name, "messages about states a step", counts["about states"] / max(1, summary.walked), "messages")
    yield Row(name, "bytes about states a step", counts["bytes"] / max(1, summary.walked), "bytes")
    yield Row(name, "entries of neighbours, all brokers", sum(tables), "entries")
    yield Row(name, "entries of neighbours, the largest table", max(tables), "entries")
    yield Row(name, "events on links", counts["events"], "messages")
    yield Row(name, "delivered", summary.delivered, "events")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few walkers, few seconds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
) -> None:
    """Count what walkers cost."""
    rows: list[Row] = []
    machine, shows_lines = this_machine(), json or not sys.stdout.isatty()
    for walkers, side in ((50, 10),) if quick else ((100, 30), (1_000, 30)):
        for open_filters in ("united", "each"):
            found = list(by_setting(walkers, side, open_filters, 0.2 if quick else 0.5))
            rows += found
            if shows_lines:
                print(*(json_line(row, machine) for row in found), sep="\n", flush=True)
    if not shows_lines:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
