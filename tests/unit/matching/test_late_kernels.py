"""Numba loaded into a process that matches: the same answers before, meanwhile and after, and no kernel is left out."""

import os
import subprocess
import sys

import pytest

from godwit.matching import kernel_cache, late_kernels, numpy_kernels
from tests.conventions.repository import ROOT

needs_numba = pytest.mark.skipif(not kernel_cache.COMPILED, reason="without Numba nothing is loaded later")


@needs_numba
def test_answers_are_the_same_before_meanwhile_and_after() -> None:
    said = in_a_process_of_its_own("loads")
    assert said == ["matched meanwhile", "compiled by Numba", "none is plain"]


@needs_numba
def test_a_process_that_cannot_load_numba_goes_on_without_it_and_tries_again_for_a_large_index() -> None:
    assert in_a_process_of_its_own("fails") == ["planted", "goes on", "compiled by Numba"]


def in_a_process_of_its_own(part: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.unit.matching.late_loading", part],
        cwd=ROOT,
        env=os.environ | {"GODWIT_NUMBA": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_that_are_loaded_are_not_postponed() -> None:
    kernel_cache.postpone()
    assert not kernel_cache.is_postponed()


@pytest.mark.parametrize(
    ("matched", "rows", "wanted"), [(99, 999, False), (100, 0, True), (0, 1_000, True), (0, 0, False)]
)
def test_numba_is_wanted_for_many_events_in_a_second_or_many_rows(
    monkeypatch: pytest.MonkeyPatch, matched: int, rows: int, wanted: bool
) -> None:
    demand = numpy_kernels.Demand()
    demand.matched, demand.rows = 5_000 + matched, rows
    monkeypatch.setattr(numpy_kernels, "DEMAND", demand)
    assert late_kernels.matched() == 5_000 + matched
    assert late_kernels.is_wanted(5_000) == wanted


@pytest.mark.parametrize("serves", [False, True])
def test_a_large_index_waits_for_numba_unless_others_wait_for_it(monkeypatch: pytest.MonkeyPatch, serves: bool) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(numpy_kernels, "DEMAND", numpy_kernels.Demand())
    monkeypatch.setattr(late_kernels, "load", lambda: loaded.append("loaded"))
    if serves:
        late_kernels.wait_no_more()
    late_kernels.note_rows(late_kernels.PLAIN_ROWS_MAX)
    late_kernels.note_rows(late_kernels.PLAIN_ROWS_MAX + 1)
    assert loaded == ([] if serves else ["loaded"])
    assert late_kernels.is_wanted(0)
