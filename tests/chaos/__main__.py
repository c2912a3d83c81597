"""`python -m tests.chaos`: rounds of faults on real brokers, and a table of what became of every event."""

import dataclasses
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.measuring import this_machine
from tests.chaos.check_history import LAWS, SHOWN, Judgement
from tests.chaos.run import draw_plan, hasten, run_chaos
from tests.network.waiting import run

ROUNDS_ON_A_NETWORK = 5
LIMIT_S = 1_200.0


def main(
    rounds: Annotated[int, typer.Option(help="How many rounds of faults.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="What networks, clients and faults are drawn from.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Keep histories, logs and journals in this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
) -> None:
    """Run networks of real brokers under faults, and count what is lost, doubled, out of order or stuck."""
    hasten()
    total, faults, bad = Counter[str](), Counter[str](), 0
    shows_bar = sys.stderr.isatty()
    with Progress(console=Console(stderr=True), disable=not shows_bar) as progress:
        task = progress.add_task("rounds", total=rounds)
        for first in range(0, rounds, ROUNDS_ON_A_NETWORK):
            count = min(ROUNDS_ON_A_NETWORK, rounds - first)
            drawn = seed * 10_000 + first
            plan = draw_plan(Random(drawn))
            with tempfile.TemporaryDirectory(prefix="godwit-chaos-") as temporary:
                folder = Path(temporary) if keep is None else keep / str(drawn)
                folder.mkdir(parents=True, exist_ok=True)
                found = run(
                    lambda folder=folder, drawn=drawn, count=count: run_chaos(  # type: ignore[misc]
                        folder, drawn, count, on_round=lambda *_: progress.advance(task)
                    ),
                    LIMIT_S,
                )
            total.update(_counts(found))
            faults.update(found.faults)
            bad += not found.is_good
            _tell(drawn, str(plan), count, found, as_json or not sys.stdout.isatty())
    _sum_up(rounds, total, faults, as_json or not sys.stdout.isatty())
    raise typer.Exit(1 if bad else 0)


def _counts(found: Judgement) -> dict[str, int]:
    names = ("published", "acknowledged", "owed", "delivered", "repeated", "excused")
    return {**{name: getattr(found, name) for name in names}, **{law: len(found.broken[law]) for law in LAWS}}


def _tell(seed: int, plan: str, rounds: int, found: Judgement, as_json: bool) -> None:
    counts = _counts(found)
    if as_json:
        print(
            json.dumps({"seed": seed, "network": plan, "rounds": rounds, **counts, "faults": found.faults}), flush=True
        )
    else:
        broken = ", ".join(f"{law} {counts[law]}" for law in LAWS if counts[law])
        print(f"seed {seed}: {plan}: {counts['delivered']:,} delivered, {broken or 'every law held'}")
    for law in LAWS:
        for text in found.broken[law][:SHOWN]:
            print(f"  {law}: {text}", file=sys.stderr)


def _sum_up(rounds: int, total: Counter[str], faults: Counter[str], as_json: bool) -> None:
    if as_json:
        where = dataclasses.asdict(this_machine())
        print(json.dumps({"rounds": rounds, **total, "faults": faults, "machine": where}))
        return
    machine = this_machine()
    table = Table(title=f"{rounds} rounds of chaos on commit {machine.commit}, {machine.cpu}, {machine}")
    table.add_column("what")
    table.add_column("count", justify="right")
    for name, count in (*total.items(), *(("fault: " + kind, count) for kind, count in sorted(faults.items()))):
        table.add_row(name, f"{count:,}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
