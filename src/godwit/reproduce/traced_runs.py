"""Runs of scenarios whose traces stay on disk."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from godwit.simulator.run import run
from godwit.simulator.scenario import Scenario
from godwit.simulator.summary import Summary
from godwit.trace import TraceWriter

__all__ = ["traced"]


def traced(
    scenario: Scenario, seed: int, folder: Path, progress: Callable[[str, float], None] | None = None
) -> tuple[Path, Summary]:
    """Run a scenario, with its trace in a folder of `folder` that is named after it. Where that is, and the summary."""
    where = folder / "traces" / scenario.name
    if where.exists():
        shutil.rmtree(where)
    about = {"scenario": msgspec.to_builtins(scenario), "seed": seed}
    tell = None if progress is None else lambda share: progress(scenario.name, share)
    with TraceWriter(where, about) as sink:
        summary = run(scenario, seed, tell, sink)
    return where, summary
