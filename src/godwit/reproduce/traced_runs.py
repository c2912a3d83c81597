"""Runs of scenarios with stored traces, one by one or in several processes."""

import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from godwit.reproduce.garbage import no_garbage
from godwit.simulator.run import run
from godwit.simulator.scenario import Scenario
from godwit.simulator.summary import Summary
from godwit.trace import TraceWriter

__all__ = ["traced", "traced_by_processes"]


def traced(
    scenario: Scenario, seed: int, folder: Path, progress: Callable[[str, float], None] | None = None
) -> tuple[Path, Summary]:
    """Run a scenario, with its trace in a subfolder of `folder` named after it; returns that path and the summary."""
    where = folder / "traces" / scenario.name
    if where.exists():
        shutil.rmtree(where)
    about = {"scenario": msgspec.to_builtins(scenario), "seed": seed}
    tell = None if progress is None else lambda share: progress(scenario.name, share)
    with no_garbage(), TraceWriter(where, about) as sink:
        summary = run(scenario, seed, tell, sink)
    return where, summary


def traced_by_processes(
    scenarios: Sequence[Scenario],
    seed: int,
    folder: Path,
    progress: Callable[[str, float], None] | None = None,
    processes: int | None = None,
) -> list[Path]:
    """Run scenarios in so many processes (None: one for each processor); returns the paths of their traces, in order.

    A process begins afresh, and so shares nothing with a Spark session that runs here.
    """
    workers = max(1, min(processes or os.cpu_count() or 1, len(scenarios)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        runs = [pool.submit(_trace_folder, scenario, seed, folder) for scenario in scenarios]
        for done, run in enumerate(as_completed(runs), start=1):
            run.result()  # what went wrong there is raised here
            if progress is not None:
                progress(f"{done} of {len(runs)} runs done", done / len(runs))
        return [run.result() for run in runs]


def _trace_folder(scenario: Scenario, seed: int, folder: Path) -> Path:
    return traced(scenario, seed, folder)[0]
