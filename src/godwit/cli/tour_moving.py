"""The part of `godwit tour` about mobility: subscribers change brokers, and the losses of each mode are compared."""

from typing import TYPE_CHECKING

from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.simulator.summary import Summary

__all__ = ["WAYS", "moved_by", "show_moving"]

SEED = 3
SCENE = [
    "clients.roaming.who=subscribers",
    "clients.roaming.per_s=8",
    "overlay.height=2",
    "clients.publish_per_s=8",
    "run.duration_s=12",
]
"""Changes to the scenario `roam`: only subscribers move, and there are more events."""

WAYS = {
    "relocate": ("relocate", 1.0, "the session follows"),
    "ask": ("ask", 1.0, "the new broker asks the old one first"),
    "carry": ("carry", 1.0, "new events at once, old ones late"),
    "explicit": ("explicit", 0.0, "no move-out was announced"),
    "naive": ("naive", 0.0, "a new session at each broker"),
}
"""By name: the mode, the share of moves that are announced, and what happens."""


def show_moving(console: "Console") -> None:
    """Run the same moves in each mode, and show the events that were missed."""

    table = Table()
    table.add_column("way to move", style="bold cyan", no_wrap=True)
    for heading in ("owed", "lost", "twice", "out of order"):
        table.add_column(heading, justify="right")
    table.add_column("", style="dim", no_wrap=True)
    moves = 0
    for name, (mode, announced, what) in WAYS.items():
        with console.status(f"subscribers move: {name}"):
            outcome = moved_by(mode, announced)
        moves = outcome.moves
        shown = [outcome.owed, outcome.lost, outcome.duplicated, outcome.out_of_order]
        table.add_row(name, *(f"{each:,}" for each in shown), what)
    console.print(
        Text.assemble(
            ("Things that move", "bold"),
            f": {moves} times a subscriber connects to another broker, while links break and brokers crash.\n",
        )
    )
    console.print(table)
    console.print()


def moved_by(mode: str, announced: float) -> "Summary":
    """The row of one mode."""
    from godwit.simulator.run import run
    from godwit.simulator.scenario import named, with_changes

    way = [f"clients.roaming.subscriber_mode={mode}", f"clients.roaming.announced={announced}"]
    if mode == "naive":
        way.append("clients.roaming.session_s=60")
    return run(with_changes(named("roam"), [*SCENE, *way]), SEED)
