"""Verdicts on `pubmob` that figures of runs are judged by."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from godwit.reproduce import pubmob, pubmob_figures, pubmob_runs
from godwit.reproduce.city import Runs
from godwit.reproduce.claims import Setting
from godwit.reproduce.pubmob_bounds import MODES
from godwit.reproduce.pubmob_sizes import FULL, QUICK


def costs(*, is_line: bool, proxy_keeps: float) -> Any:
    """By mode and number of publishers, what runs came to; PROXY's cost may be no line, and its state larger."""

    def seen(mode: str, publishers: int) -> SimpleNamespace:
        total = publishers * (50 if mode == "proxy" and not is_line and publishers == 50 else 10)
        mean = publishers * 0.1 * (proxy_keeps if mode == "proxy" else 1)
        return SimpleNamespace(total=total, each=0.4, mean_entries=mean, entries_by_depth={0: 10.0, 1: 3.0})

    return {mode: {publishers: seen(mode, publishers) for publishers in FULL.publishers} for mode in MODES}


@pytest.mark.parametrize(
    ("is_line", "proxy_keeps", "grade"),
    [(False, 1.1, "does not hold"), (True, 1.1, "holds"), (True, 2.0, "holds under a stated reading")],
)
def test_p1_is_decided_by_the_lines_of_cost_and_by_the_state_of_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_line: bool, proxy_keeps: float, grade: str
) -> None:
    monkeypatch.setattr(pubmob_figures, "lines", lambda *points, **words: None)
    claim = pubmob._linear(Setting(folder=tmp_path, full=True), FULL, costs(is_line=is_line, proxy_keeps=proxy_keeps))
    assert claim.grade == grade, claim.ours
    assert f"standard {' '.join(f'{publishers * 0.1:.0f}' for publishers in FULL.publishers)} (10, 3)" in claim.ours


def test_proxy_runs_for_p1_are_as_long_as_quick_ones_and_as_no_other() -> None:
    asked: list[tuple[str, int, float]] = []
    runs = SimpleNamespace(seen=lambda mode, **each: asked.append((mode, each["publishers"], each["duration_s"])))
    pubmob_runs.publisher_runs(FULL, cast(Runs, runs))
    assert {seconds for mode, _, seconds in asked if mode == "proxy"} == {FULL.proxy_s} == {QUICK.duration_s}
    assert {seconds for mode, _, seconds in asked if mode != "proxy"} == {FULL.duration_s}
    assert [publishers for mode, publishers, _ in asked if mode == "proxy"] == list(FULL.publishers)
