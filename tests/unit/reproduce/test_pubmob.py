"""Verdicts on `pubmob` that figures of runs are judged by."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from godwit.reproduce import pubmob, pubmob_figures, pubmob_runs
from godwit.reproduce.city import Runs
from godwit.reproduce.claims import Setting
from godwit.reproduce.pubmob_bounds import MODES
from godwit.reproduce.pubmob_metrics import ProbeCounts
from godwit.reproduce.pubmob_sizes import FULL, QUICK


def costs(*, is_line: bool, proxy_keeps: float) -> Any:
    """By mode and number of publishers, what runs came to; PROXY's cost may be no line, and its state larger."""

    def seen(mode: str, publishers: int) -> SimpleNamespace:
        total = publishers * (50 if mode == "proxy" and not is_line and publishers == 50 else 10)
        mean = publishers * 0.1 * (proxy_keeps if mode == "proxy" else 1)
        return SimpleNamespace(
            total=total, each=0.4, each_second=total / 40, mean_entries=mean, entries_by_depth={0: 10.0, 1: 3.0}
        )

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


def test_p1_shows_the_cost_of_a_second_because_proxy_runs_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(pubmob, "draw", lambda setting, name, series, **words: drawn.update({name: (series, words)}))
    pubmob._linear(Setting(folder=tmp_path, full=True), FULL, costs(is_line=True, proxy_keeps=1.1))
    series, words = drawn["fig4_tree_building_cost"]
    assert series["STANDARD"][0] == (50.0, 50 * 10 / 40)
    assert "a second" in words["y"]


@pytest.mark.parametrize(
    ("costs_by_count", "grade"),
    [
        ({500: 100, 2_500: 104, 5_000: 106}, "holds"),
        ({500: 100, 2_500: 140, 5_000: 150}, "holds under a stated reading"),
        ({500: 100, 2_500: 104, 5_000: 150}, "does not hold"),
    ],
)
def test_p5_is_decided_by_the_increase_and_then_by_what_each_further_subscriber_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, costs_by_count: dict[int, int], grade: str
) -> None:
    monkeypatch.setattr(pubmob_figures, "lines", lambda *points, **words: None)
    probes = SimpleNamespace(ratio=lambda: 1.0)
    runs: Any = {
        mode: {n: SimpleNamespace(total=cost, each=cost / 10, measured=probes) for n, cost in costs_by_count.items()}
        for mode in ("standard", "delayed")
    }
    assert pubmob._subscribers(Setting(folder=tmp_path, full=True), FULL, runs).grade == grade


@pytest.mark.parametrize(
    ("straight", "standard", "grade", "said"),
    [
        ((0.0, 2.0, 6.0, 6.5), 180.0, "holds", "which settles"),
        ((0.0, 2.0, 6.0, 9.5), 180.0, "holds under a stated reading", "more and more moves"),
        ((0.0, 2.0, 6.0, 6.5), 50.0, "does not hold", "which settles"),
    ],
)
def test_p7_is_decided_by_where_the_cost_settles_and_by_how_small_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Any, standard: float, grade: str, said: str
) -> None:
    monkeypatch.setattr(pubmob_figures, "lines", lambda *points, **words: None)

    def seen(*costs: float) -> Any:
        return {delta: SimpleNamespace(each=cost) for delta, cost in zip((0, 2, 5, 8), costs, strict=True)}

    runs = {"turning at random": seen(0.0, 1.0, 1.5, 1.5), "going all the way": seen(*straight)}
    claim = pubmob._overshoot(Setting(folder=tmp_path), runs, standard)
    assert claim.grade == grade
    assert said in claim.note


def test_p3_names_each_condition_that_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubmob_figures, "lines", lambda *points, **words: None)

    def run(mode: str, lost: int) -> Any:
        probes = ProbeCounts(pairs={1: (1_000, 1_000 - lost), 2: (1_000, 1_000)})
        rebuilt = SimpleNamespace(rebuilt_by_time=[(0.0, 1.0)], rebuilt_after=lambda share: 0.5)
        return SimpleNamespace(measured=probes, figures=rebuilt)

    runs = {"standard": run("standard", 200), "prefetching": run("prefetching", 20)}
    runs |= {mode: run(mode, 0) for mode in ("proxy", "delayed")}
    claim = pubmob._probe_delivery(Setting(folder=tmp_path, full=True), FULL, runs, runs)
    assert claim.grade == "does not hold"
    assert "PREFETCHING's first probes arrive" in claim.reading
    assert "nearly 4 s" in claim.reading
    assert "more than 99.5% of PREFETCHING's first probes" in claim.bound


def test_proxy_runs_for_p1_are_as_long_as_quick_ones_and_as_no_other() -> None:
    asked: list[tuple[str, int, float]] = []
    runs = SimpleNamespace(seen=lambda mode, **each: asked.append((mode, each["publishers"], each["duration_s"])))
    pubmob_runs.publisher_runs(FULL, cast(Runs, runs))
    assert {seconds for mode, _, seconds in asked if mode == "proxy"} == {FULL.proxy_s} == {QUICK.duration_s}
    assert {seconds for mode, _, seconds in asked if mode != "proxy"} == {FULL.duration_s}
    assert [publishers for mode, publishers, _ in asked if mode == "proxy"] == list(FULL.publishers)
