"""Traces of 50 runs of the simulator, each summed up by a hash over its text.

The runs are scenarios of the swarm, over every strategy and fault, and the scenarios that come with Godwit, made
smaller, in every mode of moving.
"""

import json
from hashlib import sha256
from typing import Any

import msgspec

from godwit.simulator.random_scenarios import drawn
from godwit.simulator.run import run
from godwit.simulator.scenario import Scenario, named, with_changes
from godwit.trace import Record
from tests.simulation.rightless import without_rights
from tests.transcripts.comparing import Renames

__all__ = ["QUICK", "RUNS", "Hash", "traced", "written"]

SWARM_SEED = 7
SWARM_NUMBERS = (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 20, 22, 28, 42, 43, 44, 45, 46, 61)
SEED = 1

SMALLER = {
    "adhoc": ["run.duration_s=30"],
    "campus": ["run.duration_s=4", "run.settle_s=10", "clients.subscribers=12"],
    "city": [
        "clients.publishers=10",
        "clients.subscribers=40",
        "clients.events=5",
        "overlay.height=3",
        "overlay.degree=3",
    ],
    "fair": ["run.duration_s=20", "run.settle_s=30", "overlay.degree=3"],
    "ferries": ["run.duration_s=40", "run.settle_s=20"],
    "fire": [
        "overlay.brokers=8",
        "fire.detectors=4",
        "fire.sprinklers=8",
        "fire.signals=4",
        "fire.fires=3",
        "run.duration_s=16",
    ],
    "mesh": [
        "overlay.brokers=8",
        "clients.subscribers=12",
        "clients.publishers=4",
        "run.duration_s=8",
        "faults.until_s=10",
        "run.settle_s=60",
    ],
    "parking": ["clients.subscribers=30", "clients.publishers=4", "run.duration_s=6"],
    "pubmob": [
        "clients.publishers=6",
        "clients.subscribers=20",
        "overlay.height=3",
        "overlay.degree=3",
        "run.duration_s=40",
    ],
    "quench": ["run.duration_s=10"],
    "roam": ["clients.subscribers=10", "clients.publishers=3", "run.duration_s=10", "run.settle_s=60"],
    "storm": ["run.duration_s=8", "faults.until_s=9"],
    "stroll": ["clients.publishers=8", "overlay.degree=3", "run.duration_s=10"],
}
"""The scenarios that come with Godwit, so that each takes about a second."""

MODES = {
    **{f"roam {mode}": ("roam", [f"clients.roaming.subscriber_mode={mode}"]) for mode in ("ask", "carry", "explicit")},
    "roam named": ("roam", ["clients.roaming.subscriber_mode=named", "clients.roaming.publisher_mode=named"]),
    "roam naive": ("roam", ["clients.roaming.subscriber_mode=naive", "clients.roaming.session_s=30"]),
    **{
        f"pubmob {mode}": ("pubmob", [f"clients.roaming.publisher_mode={mode}"])
        for mode in ("standard", "delayed", "prefetching", "prefetching+delayed", "proxy")
    },
}

RUNS = [
    *(f"swarm {number}" for number in SWARM_NUMBERS),
    *SMALLER,
    *MODES,
    "adhoc again",
]
"""The names of the runs, in their order in `traces.json`."""

QUICK = (
    *("swarm 2", "swarm 9", "swarm 13", "swarm 16", "swarm 19", "swarm 44"),
    *("fire", "mesh", "storm", "stroll", "roam named", "pubmob proxy"),
)
"""Those that every run of the tests makes."""


def _scenario(name: str) -> tuple[Scenario, int]:
    if name.startswith("swarm "):
        scenario, seed = drawn(SWARM_SEED, int(name.removeprefix("swarm ")))
        return without_rights(scenario), seed
    if name == "adhoc again":
        return with_changes(named("adhoc"), SMALLER["adhoc"]), SEED + 1
    base, changes = MODES.get(name, (name, []))
    return with_changes(named(base), [*SMALLER[base], *changes]), SEED


class Hash:
    """A sink of records that hashes their text."""

    def __init__(self, renames: Renames) -> None:
        self.records = self.handled = 0
        self._renames = renames
        self._hash = sha256()

    def write(self, at: float, node: str, record: Record) -> None:
        """Add a record."""
        self.records += 1
        self.handled += record.kind == "handled"
        fields = ", ".join(map(repr, msgspec.structs.astuple(record)))
        self._hash.update(f"{self._renames.restored(f'{at!r} {node} Record({fields})')}\n".encode())

    def hex(self) -> str:
        return self._hash.hexdigest()


def traced(name: str, renames: Renames) -> dict[str, Any]:
    """A run, and what came of it."""
    scenario, seed = _scenario(name)
    sink = Hash(renames)
    run(scenario, seed, trace=sink)
    return {"run": name, "seed": seed, "records": sink.records, "handled": sink.handled, "sha256": sink.hex()}


def written(lines: list[dict[str, Any]]) -> str:
    """One run on a line."""
    return "[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n"
