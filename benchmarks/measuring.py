"""How time and space are taken: one core, no garbage collection in between, medians; and on what machine."""

import gc
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.workloads import ROOT

SHARE_LOW = 0.95  # of a core; below, something else ran in between


@dataclass(frozen=True, slots=True)
class Timing:
    """How long something took, and what share of a core it had meanwhile."""

    seconds: float
    share: float


@contextmanager
def one_core() -> Iterator[None]:
    """Stay on one core for a while, where the system allows to say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection, as in timeit; and what already exists is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def timed(run: Callable[[], object]) -> Timing:
    """How long one run takes."""
    with undisturbed():
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        seconds = time.perf_counter() - wall
        return Timing(seconds, min(1.0, (time.process_time() - cpu) / seconds))


def median_of(timings: list[Timing]) -> Timing:
    """The median time, and the median share of a core."""
    return Timing(median(each.seconds for each in timings), median(each.share for each in timings))


@dataclass(frozen=True, slots=True)
class Machine:
    """What a figure depends on."""

    cpu: str
    cores: int
    python: str
    numpy: str
    numba: str
    commit: str

    def __str__(self) -> str:
        return f"{self.cores} cores, Python {self.python}, NumPy {self.numpy}, Numba {self.numba}"


def this_machine() -> Machine:
    """The machine and the commit we are on."""
    return Machine(
        _cpu(), os.cpu_count() or 1, platform.python_version(), version("numpy"), version("numba"), _commit()
    )  # fmt: skip


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return " ".join(models[0].replace("(R)", "").replace("(TM)", "").split()) if models else platform.machine()


def _commit() -> str:
    """The commit, and `-dirty` when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
