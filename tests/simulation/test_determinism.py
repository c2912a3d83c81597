"""The same scenario and seed give the same trace, byte for byte, in every process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from godwit.simulator.run import Simulation
from godwit.simulator.scenario import with_changes
from godwit.trace import read
from tests.seeds import slow
from tests.simulation.scenarios import ALL_FAULTS, AWAY, CHURN, GRAPH, TREE, outcome

CALL = "from godwit.cli.main import app; app()"
WALL_TIMES = {"wall_s", "messages_per_second"}
SHORTER = ["--set", "run.duration_s=3", "--set", "faults.until_s=6"]


def written(folder: Path, hash_seed: str, *words: str) -> tuple[bytes, bytes, dict[str, Any]]:
    """The files of a trace that another process writes, and its summary without wall time."""
    ran = subprocess.run(
        [sys.executable, "-c", CALL, "simulate", *words, *SHORTER, "--trace", str(folder)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    summary = {key: value for key, value in json.loads(ran.stdout).items() if key not in WALL_TIMES}
    return (folder / "trace.parquet").read_bytes(), (folder / "scenario.json").read_bytes(), summary


@pytest.mark.parametrize("name", ["storm", slow("mesh")])
def test_two_processes_that_hash_differently_write_the_same_trace(name: str, tmp_path: Path) -> None:
    one = written(tmp_path / "one", "1", name, "--seed", "7")
    other = written(tmp_path / "other", "4242", name, "--seed", "7")
    assert one == other
    kinds = set(read(tmp_path / "one")["kind"].to_pylist())
    assert {"published", "delivered", "crashed", "restarted", "link_down", "handled"} <= kinds


@pytest.mark.slow
def test_another_seed_gives_another_trace(tmp_path: Path) -> None:
    one = written(tmp_path / "one", "0", "storm", "--seed", "5")
    other = written(tmp_path / "other", "0", "storm", "--seed", "6")
    assert one[0] != other[0]
    assert one[2]["delivered"] != other[2]["delivered"]


@pytest.mark.parametrize("scenario", [TREE, GRAPH], ids=["tree", "graph"])
def test_two_runs_in_one_process_have_the_same_outcome(scenario: Any) -> None:
    """Caches that the first run has filled change nothing in the second."""
    scenario = with_changes(scenario, [*ALL_FAULTS, *CHURN, *AWAY])
    one, other, third = (outcome(scenario, seed).to_data() for seed in (1, 1, 2))
    for data in (one, other, third):
        for key in WALL_TIMES:
            del data[key]
    assert one == other != third


def test_faults_change_nothing_about_who_says_and_wants_what() -> None:
    """Each purpose has its own generator: a scenario with another fault has the same workload."""
    said = []
    for changes in ([], ALL_FAULTS):
        simulation = Simulation(with_changes(TREE, changes), 1)
        simulation.run()
        ledger = simulation.ledger
        events = [(id, fact.event.attributes, fact.published_at) for id, fact in ledger.facts.items()]
        filters = [(key, [v.filter for v in standing.versions][:1]) for key, standing in ledger.subscriptions.items()]
        said.append((events, filters, simulation.homes))
    assert said[0] == said[1]
