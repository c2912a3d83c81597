"""`python -m tests.fuzz`: a million cases over all targets, in about ten minutes on two cores."""

import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.fuzz.targets import SHARES, TARGETS

CHUNK = 5_000


def work(target: str, seed: int, count: int) -> tuple[str, int, float, str]:
    """So many cases of a target: how many were done, how long it took, and what went wrong."""
    started = time.perf_counter()
    case, draw = TARGETS[target](), Random(f"{target} {seed}")
    for number in range(count):
        try:
            case(draw)
        except Exception:
            fault = f"{target}, seed {seed}, case {number}:\n{traceback.format_exc()}"
            return target, number + 1, time.perf_counter() - started, fault
    return target, count, time.perf_counter() - started, ""


def plan(cases: int, seed: int, only: str) -> Iterator[tuple[str, int, int]]:
    """Pieces of work: target, seed, count."""
    chosen = {name: share for name, share in SHARES.items() if only in name}
    whole = sum(chosen.values())
    for name, share in chosen.items():
        left, piece = max(1, cases * share // whole), 0
        while left > 0:
            yield name, seed + piece, min(CHUNK, left)
            left, piece = left - CHUNK, piece + 1


def main(
    cases: Annotated[int, typer.Option(help="How many, over all targets.", min=1)] = 1_000_000,
    seed: Annotated[int, typer.Option(help="What everything is drawn from.")] = 1,
    only: Annotated[str, typer.Option(help="Only targets whose name has this in it.")] = "",
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
) -> None:
    """Spoil what comes from outside, and see that nothing but the errors that are meant comes of it."""
    pieces = list(plan(cases, seed, only))
    if not pieces:
        raise typer.BadParameter(f"no target has {only!r} in its name: there are {', '.join(TARGETS)}")
    done: dict[str, list[float]] = {name: [0, 0.0, 0] for name, _, _ in pieces}
    faults: list[str] = []
    console = Console(stderr=True)
    with Progress(console=console, disable=not sys.stderr.isatty()) as progress, ProcessPoolExecutor(workers) as pool:
        task = progress.add_task("fuzzing", total=sum(count for _, _, count in pieces))
        for future in as_completed([pool.submit(work, *piece) for piece in pieces]):
            name, count, took_s, fault = future.result()
            done[name][0] += count
            done[name][1] += took_s
            progress.advance(task, count)
            if fault:
                done[name][2] += 1
                faults.append(fault)
    table = Table("target", "cases", "a second", "faults")
    for name, (cases_done, took_s, wrong) in done.items():
        table.add_row(name, f"{cases_done:,.0f}", f"{cases_done / max(took_s, 1e-9):,.0f}", f"{wrong:.0f}")
    Console().print(table)
    for fault in faults[:5]:
        console.print(fault, markup=False)
    raise typer.Exit(1 if faults else 0)


if __name__ == "__main__":
    typer.run(main)
