"""Prefetching by what was learnt of another run's moves: a model of order two is wrong less often than one of first."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from godwit.mobility.predictors import MovementModel, model_of
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.summary import Summary
from godwit.trace import Record
from tests.simulation.scenarios import TREE

STREET = with_changes(
    TREE,
    [
        "overlay={kind='line', brokers=8}",
        "routing.advertisements=required",
        "clients.publishers=6",
        "clients.publish_per_s=1",
        "clients.roaming={model='line', who='publishers', away_s=0.5, cell_km=0.05, speeds_kmh=[60, 90]}",
        "clients.roaming.publisher_mode=prefetching",
        "run.duration_s=60",
    ],
)
"""Half a second from broker to broker and two or three at each: no prediction stands any more when the next is made."""

LEARNT_FROM, SEED = 1, 2


def visits_of(simulation: Simulation) -> list[tuple[str, ...]]:
    """The brokers that each client which roams will be at."""
    assert simulation.roaming is not None
    return list(simulation.roaming.visits.values())


def learnt(order: int) -> str:
    """A model file, from where the publishers of another run go."""
    transitions: dict[str, Counter[str]] = {}
    pairs: dict[str, dict[str, Counter[str]]] = {}
    for visits in visits_of(Simulation(STREET, LEARNT_FROM)):
        for here, to in pairwise(visits):
            transitions.setdefault(here, Counter())[to] += 1
        for before, here, to in zip(visits, visits[1:], visits[2:], strict=False):
            pairs.setdefault(before, {}).setdefault(here, Counter())[to] += 1
    return json.dumps({"transitions": transitions} | ({"pairs": pairs} if order == 2 else {}))


class Trace:
    """Messages that came to a node, by kind."""

    def __init__(self) -> None:
        self.handled: Counter[str] = Counter()

    def write(self, at: float, node: str, record: Record) -> None:
        if record.kind == "handled":
            self.handled[record.message] += 1


def by_model(folder: Path, order: int, *changes: str) -> Scenario:
    file = folder / f"order_{order}.json"
    file.write_text(learnt(order))
    publishers = f"clients.roaming.publishers={{predictor='model', model_file='{file}', prefetch_s=1.5}}"
    return with_changes(STREET, [publishers, *changes])


def run_with(scenario: Scenario) -> tuple[Summary, Counter[str], list[tuple[str, ...]]]:
    trace = Trace()
    simulation = Simulation(scenario, SEED, trace)
    visits = visits_of(simulation)
    return simulation.run(), trace.handled, visits


def errors(model: MovementModel, visits: list[tuple[str, ...]]) -> int:
    """How often the model is wrong about these ways."""
    moves = [(way[at - 1] if at else None, way[at], way[at + 1]) for way in visits for at in range(len(way) - 1)]
    return sum(model.next_broker("p", here, 1, before) != to for before, here, to in moves)


def test_order_two_is_wrong_less_often_and_the_trace_shows_it(tmp_path: Path) -> None:
    """A wrong prediction takes two `WithdrawPrefetch` on a street: to the broker left, and to the one that waits."""
    wrong = {}
    for order in (1, 2):
        summary, handled, visits = run_with(by_model(tmp_path, order))
        assert summary.violations == ()
        assert handled["Prefetch"] == summary.moves > 100
        assert handled["WithdrawPrefetch"] == 2 * errors(model_of(learnt(order), "model.json"), visits)
        wrong[order] = handled["WithdrawPrefetch"] // 2
    assert wrong[1] > summary.moves / 4  # nearly half, but at the ends of the street
    assert wrong[2] <= len(visits)  # the first move of each: nobody knows yet in which direction it goes


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_promised_holds_with_a_model_when_connections_break_and_brokers_crash(
    order: int, tmp_path: Path
) -> None:
    faults = [
        "clients.disconnections={who='publishers', per_s=0.6, lasts_s=0.5}",
        "faults.crash={per_s=0.2, lasts_s=0.5}",
        "faults.link_break={per_s=0.2, lasts_s=0.5}",
        "run.duration_s=20",
        "run.settle_s=60",
    ]
    summary, _, _ = run_with(by_model(tmp_path, order, *faults))
    assert summary.violations == ()
    assert summary.entries_left == 0
    assert summary.moves > 30
