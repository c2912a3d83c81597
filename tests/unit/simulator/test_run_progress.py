"""The progress of a run: it never goes back, moves until the end, and does not race through the quiet time."""

from itertools import pairwise

import pytest

from godwit.simulator.run import run
from godwit.simulator.run_progress import SIMULATED, RunProgress
from godwit.simulator.scenario import Scenario, named, with_changes

SMALL = ("clients.publishers=2", "clients.subscribers=4", "run.warmup_s=2", "run.duration_s=3")
QUIETLY = (*SMALL, "run.settle_s=45")
TWINNED = (*SMALL, "run.settle_s=5")


def told(scenario: Scenario) -> list[float]:
    shares: list[float] = []
    run(scenario, 1, shares.append)
    return shares


@pytest.mark.parametrize(("name", "changes"), [("city", QUIETLY), ("parking", TWINNED)])
def test_progress_grows_in_small_steps_and_ends_with_the_run(name: str, changes: tuple[str, ...]) -> None:
    shares = told(with_changes(named(name), list(changes)))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert max(after - before for before, after in pairwise(shares)) <= 1.01 - SIMULATED


def test_most_of_the_progress_is_before_the_run_settles() -> None:
    shares: list[float] = []
    progress = RunProgress(shares.append, publishing_ends_s=5.0, ends_s=50.0)
    progress.simulated(5.0)
    progress.simulated(50.0)
    progress.ended()
    assert shares == [pytest.approx(SIMULATED * 5.0 / 9.5), pytest.approx(SIMULATED), 1.0]


def test_a_twin_has_the_rest_of_the_work() -> None:
    shares: list[float] = []
    progress = RunProgress(shares.append, publishing_ends_s=5.0, ends_s=10.0, share=0.5)
    progress.ended()
    twin = progress.twin()
    assert twin is not None
    twin(0.5)
    twin(1.0)
    assert shares == [0.5, 0.75, 1.0]
    assert RunProgress(None, 5.0, 10.0).twin() is None
