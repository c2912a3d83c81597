"""What a session that goes ahead saves and costs, by how often the prediction is right. This file with `--help`.

Subscribers of `benchmarks/mobility.py` move: ten of them, one at a time, three seconds out of reach, in the city of
[pubmob §4] and in a random tree of 1,000 brokers. In the mode `presubscribe` the next broker is predicted, rightly at a
chosen rate; beside it the same moves in the mode `relocate`. Counted are control messages between brokers, each hop,
their bytes, and the gap from connecting to the first event. All are of the simulator: the same on every machine.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.mobility import MOVING, SEED, Town
from benchmarks.reporting import Row, json_line, print_tables
from godwit.simulator.topologies import Overlay, balanced_tree, random_tree
from godwit.trace import Record

ACCURACIES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.0)


def by_accuracy(overlay: Overlay, where: str, accuracy: float | None, moves: int) -> Iterator[Row]:
    """What a move costs with predictions of this accuracy; None: in the mode `relocate`."""
    town = Town(overlay, "relocate" if accuracy is None else "presubscribe", wrong_rate=1.0 - (accuracy or 0.0))
    predicted: dict[str, str] = {}

    def count(node: str, record: Record, now: float) -> None:
        if record.kind == "predicted":
            predicted[record.peer] = record.detail
        town.count(node, record, now)

    town.world.on_record, town.world.traces_messages = count, True
    gaps: list[float] = []
    right = 0
    for number in range(moves):
        town.move_on(number % MOVING, number // MOVING + 1)
        name = f"s{number % MOVING}"
        right += predicted.get(name) == town.homes[name]
        if town.gap is not None:
            gaps.append(town.gap)
    name = f"{where} relocate" if accuracy is None else f"{where} presubscribe, {accuracy:.0%} right"
    if accuracy is not None:
        yield Row(name, "predictions that were right", right / moves * 100, "%")
    yield Row(name, "control messages a move", town.messages / moves, "messages")
    yield Row(name, "bytes of control a move", town.bytes / moves, "bytes")
    yield Row(name, "gap until the first event, mean", sum(gaps) / len(gaps) * 1_000, "ms")
    yield Row(name, "gap until the first event, median", sorted(gaps)[len(gaps) // 2] * 1_000, "ms")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few moves, small overlays; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
) -> None:
    """Count what moves cost."""
    moves = 10 if quick else 60
    rows: list[Row] = []
    machine, shows_lines = this_machine(), json or not sys.stdout.isatty()
    for where, overlay in (
        ("city", balanced_tree(4, 4)),
        ("large", random_tree(100 if quick else 1_000, Random(SEED))),
    ):
        for accuracy in (None, *ACCURACIES):
            found = list(by_accuracy(overlay, where, accuracy, moves))
            rows += found
            if shows_lines:
                print(*(json_line(row, machine) for row in found), sep="\n", flush=True)
    if not shows_lines:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
