"""The kernels as plain Python answer the same; with Numba they are compiled once and kept on disk."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from godwit.matching import access_paths, kernels, masks

ROOT = Path(__file__).resolve().parents[3]

PLAIN = """
from random import Random
from godwit.filters.events import event
from godwit.filters.filters import all_of
from godwit.matching import kernels, masks
from godwit.filters.language import parse
from godwit.matching.index_matcher import TALLIED_FROM, IndexMatcher
from godwit.matching.naive_matcher import NaiveMatcher
from tests.unit.filters.random_filters import assert_same, columns_of, literal, random_attributes, random_filter
assert not kernels.COMPILED

def check_batch(index, naive, rows, by_masks):
    found = index.match_batch(columns_of(rows))
    assert [set(ids) for ids in found] == [set(naive.match(event(row))) for row in rows]
    assert index._turns_round(len(rows)) == by_masks

def pair(filters):
    index, naive, filters = IndexMatcher(), NaiveMatcher(), list(filters)
    for each in (index, naive):
        each.add_many(enumerate(filters))
    return index, naive

draw = Random(1)
rows = [random_attributes(draw) for _ in range(masks.EVENTS // 2 + 9)]

index, naive = pair(random_filter(draw) for _ in range(250))
assert_same(index, naive, rows[:70])  # past the sample, by which it is laid out anew
for n in range(0, 250, 5):
    for each in (index, naive):
        each.remove(n)
for n in range(60):
    filter = random_filter(draw)
    for each in (index, naive):
        each.replace(5 * n + 1, filter) if 5 * n + 1 < 250 else each.add(("new", n), filter)
    index.match(event(rows[n]))
check_batch(index, naive, rows, by_masks=False)
index._compact()
assert_same(index, naive, rows[:20])

shared = [literal(draw) for _ in range(20)]
index, naive = pair(all_of(*draw.sample(shared, 2)) for _ in range(200))
check_batch(index, naive, rows, by_masks=True)

index, naive = pair(parse(f"a = 'x{n % 3}' AND b = 'y{n % 2}' AND c IS NULL AND d > {n}") for n in range(30))
rows = [{"a": f"x{n % 4}", "b": f"y{n % 3}", "d": n} for n in range(TALLIED_FROM)]
counts = index.count_batch(columns_of(rows))
assert index._tallies.worth
assert counts.tolist() == [len(naive.match(event(row))) for row in rows]
print("agreed")
"""

SMALL = """
import numpy as np
from godwit.matching import kernels
from godwit.matching.layout import empty_table
assert kernels.COMPILED
assert kernels.bucket_of(np.int64(7), empty_table(16)) == -1
print(sum(kernels.bucket_of.stats.cache_misses.values()))
"""

WHOLE = """
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.matching.index_matcher import IndexMatcher
index = IndexMatcher()
for n, text in enumerate(["x < 10", "x = 3 OR (y > 2 AND name LIKE '%a%')", "NOT x IN (1, 2)"]):
    index.add(n, parse(text))
assert sorted(index.match(event({"x": 3, "name": "bar"}))) == [0, 1, 2]
assert len(index.match_batch({"x": [3, 4], "name": ["bar", None]})) == 2
print("matched")
"""


def run(script: str, **environment: str) -> str:
    """What a script prints, run by itself with every warning an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_plain_python_kernels_give_what_naive_gives() -> None:
    assert run(PLAIN, GODWIT_NUMBA="0") == "agreed"


needs_numba = pytest.mark.skipif(not kernels.COMPILED, reason="without Numba nothing is compiled")


def files(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


@needs_numba
@pytest.mark.parametrize("script", [SMALL, pytest.param(WHOLE, marks=pytest.mark.slow)], ids=["one kernel", "all"])
def test_a_second_process_finds_compiled_kernels_on_disk(script: str, tmp_path: Path) -> None:
    run(script, NUMBA_CACHE_DIR=str(tmp_path))
    after_first = files(tmp_path)
    assert after_first
    said = run(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert files(tmp_path) == after_first
    assert said in ("0", "matched")  # the small one counts what it did not find


@needs_numba
@pytest.mark.parametrize("module", [kernels, access_paths, masks])
def test_every_kernel_is_kept_on_disk(module: ModuleType) -> None:
    """But for those that are inlined into others."""
    dispatchers = {name: each for name, each in vars(module).items() if hasattr(each, "py_func")}
    assert dispatchers
    inlined = {name for name, each in dispatchers.items() if each.targetoptions.get("inline") == "always"}
    forgotten = {name for name, each in dispatchers.items() if type(each._cache).__name__ == "NullCache"}
    assert forgotten == inlined
