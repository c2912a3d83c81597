"""The network part of `godwit tour`: one small network that breaks, and every strategy side by side."""

from typing import TYPE_CHECKING

from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.simulator.summary import Summary

__all__ = ["STRATEGIES", "outcome_of", "show_network"]

SEED = 2

SCENE = [
    "clients.publishers=6",
    "clients.subscribers=24",
    "clients.publish_per_s=4",
    "overlay.disk_sync_ms=0",
    "faults.crash.per_s=0.2",
    "run.duration_s=10",
]
"""Changes to the scenario `campus`: smaller, and brokers crash."""

STRATEGIES = {
    "flooding": ["routing.reduction=flooding"],
    "simple": ["routing.reduction=simple"],
    "identity": ["routing.reduction=identity"],
    "covering": ["routing.reduction=covering"],
    "merging": ["routing.reduction=merging"],
    "graph": [
        "routing.family=graph",
        "overlay.kind=random_graph",
        "overlay.brokers=13",
        "overlay.degree=4",
    ],
}
CONTROL = ("Subscribe", "Unsubscribe", "Advertise", "Unadvertise", "Synced", "LinkState")


def show_network(console: "Console") -> None:
    """Run the network once for each strategy, and show what each costs and that none loses anything."""

    table = Table()
    table.add_column("strategy", style="bold cyan", no_wrap=True)
    for heading in ("events between brokers", "control", "table entries", "owed", "lost", "twice"):
        table.add_column(heading, justify="right")
    faults: dict[str, int] = {}
    for name, changes in STRATEGIES.items():
        with console.status(f"13 brokers route by {name}"):
            outcome = outcome_of(changes)
        faults = outcome.faults
        events = outcome.messages.get("Publish", 0) + outcome.packets.get("Publish", 0)
        packets = sum(outcome.packets.values()) - outcome.packets.get("Publish", 0)
        control = sum(outcome.messages.get(kind, 0) for kind in CONTROL) + packets
        shown = [events, control, outcome.table_entries, outcome.owed, outcome.lost, outcome.duplicated]
        table.add_row(name, *(f"{each:,}" for each in shown))
    happened = ", ".join(f"{count} × {kind.replace('_', ' ')}" for kind, count in faults.items())
    console.print(
        Text.assemble(
            ("A network that breaks", "bold"),
            f": 13 brokers, 6 publishers, 24 subscribers that connect and disconnect; {happened}.\n"
            "The same machines run on sockets in production; here time is virtual, and checkers count.\n",
        )
    )
    console.print(table)
    console.print()


def outcome_of(changes: list[str]) -> "Summary":
    """The row of one strategy."""
    from godwit.simulator.run import run
    from godwit.simulator.scenario import named, with_changes

    return run(with_changes(named("campus"), [*SCENE, *changes]), SEED)
