"""The kernels without Numba answer the same; with Numba they are compiled once and kept on disk."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from godwit.matching import (
    access_paths,
    batch_kernels,
    compiled_kernels,
    counting,
    event_encoder,
    kernels,
    masks,
    match_counter,
    rewriting,
    substrings,
)

ROOT = Path(__file__).resolve().parents[3]

EVERY = "tests.unit.matching.every_kernel"
MODULES = [
    access_paths,
    batch_kernels,
    compiled_kernels,
    counting,
    event_encoder,
    kernels,
    masks,
    match_counter,
    rewriting,
    substrings,
]

SMALL = """
import numpy as np
from godwit.matching import kernels
from godwit.matching.layout import empty_table
assert kernels.COMPILED
assert kernels.bucket_of(np.int64(7), empty_table(16)) == -1
print(sum(kernels.bucket_of.stats.cache_misses.values()))
"""


def run(*words: str, **environment: str) -> str:
    """What a process of Python prints, with every warning an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_kernels_without_numba_give_what_naive_gives() -> None:
    assert run("-m", EVERY, GODWIT_NUMBA="0") == "agreed, with NumPy"


needs_numba = pytest.mark.skipif(not kernels.COMPILED, reason="without Numba nothing is compiled")


def files(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


@needs_numba
@pytest.mark.parametrize(
    "words",
    [("-c", SMALL), pytest.param(("-m", EVERY), marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
    ids=["one kernel", "all"],
)
def test_a_second_process_finds_compiled_kernels_on_disk(words: tuple[str, ...], tmp_path: Path) -> None:
    run(*words, NUMBA_CACHE_DIR=str(tmp_path))
    after_first = files(tmp_path)
    assert after_first
    said = run(*words, NUMBA_CACHE_DIR=str(tmp_path))
    assert files(tmp_path) == after_first
    assert said in ("0", "agreed, compiled")  # the small one counts what it did not find
    if words == ("-m", EVERY):
        kept = {tuple(file.name.split("-")[0].split(".")) for file in tmp_path.rglob("*.nbi")}
        assert kept == {(module.__name__.rpartition(".")[2], name) for module in MODULES for name in compiled(module)}


def compiled(module: ModuleType) -> dict[str, Any]:
    """The kernels of a module by their names, but for those that are inlined into others."""
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    found = {name: each for name, each in own.items() if hasattr(each, "py_func")}
    return {name: each for name, each in found.items() if each.targetoptions.get("inline") != "always"}


@needs_numba
@pytest.mark.parametrize("module", MODULES)
def test_every_kernel_is_kept_on_disk(module: ModuleType) -> None:
    kernels_here = compiled(module)
    assert kernels_here
    assert [name for name, each in kernels_here.items() if type(each._cache).__name__ == "NullCache"] == []
