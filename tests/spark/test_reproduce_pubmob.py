"""The experiment of pubmob, very small: what must hold at any size does, and every claim gives one row."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from godwit.reproduce import PAPERS, Setting, claims_of, pubmob, pubmob_runs
from godwit.reproduce.city import AnalysedRun, Runs
from godwit.reproduce.pubmob_bounds import MODES
from godwit.reproduce.pubmob_sizes import Size
from godwit.simulator.scenario import overlay_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Size(
    publishers=(3, 6),
    usual=4,
    subscribers=12,
    more_subscribers=(12, 24),
    warmup_s=12,
    duration_s=40,
    proxy_s=40,
    speed_s=40,
    short_s=10,
    overshoots=(0, 2, 5, 8),
    overshoot_s=40,
    localities=(0.0, 0.9),
)


@pytest.fixture(scope="module")
def runs(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(Setting(folder=tmp_path_factory.mktemp("pubmob"), spark=lambda: spark))


@pytest.fixture(scope="module")
def seen(runs: Runs) -> dict[str, AnalysedRun]:
    fast = {"clients.roaming.speeds_kmh": [100]}
    return {
        mode: runs.seen(mode, publishers=6, subscribers=12, duration_s=40, warmup_s=10, changes=fast)
        for mode in (*MODES, pubmob_runs.BOTH)
    }


def test_the_city_is_the_papers(seen: dict[str, AnalysedRun]) -> None:
    from random import Random

    scenario = seen["standard"].scenario
    assert len(overlay_of(scenario, Random(1)).brokers) == 85
    network, roaming, probes = scenario.overlay, scenario.clients.roaming, scenario.clients.probes
    assert (network.bandwidth_kbps, network.latency_ms, network.client_bandwidth_kbps) == (256, 10, 128)
    assert (roaming.cell_km, roaming.away_s, roaming.publishers.proxies, roaming.publishers.delay_s) == (0.5, 3, 5, 10)
    assert (probes.count, probes.first_ms, probes.every_ms) == (20, 200, 200)


def test_everybody_moves_the_same_ways_whatever_the_mode(seen: dict[str, AnalysedRun]) -> None:
    assert len({one.moves for one in seen.values()}) == 1
    assert seen["standard"].moves > 6


def test_costs_are_in_the_papers_order(seen: dict[str, AnalysedRun]) -> None:
    cost = {mode: one.total for mode, one in seen.items()}
    assert cost["prefetching"] > cost["standard"] > 10 * cost["delayed"]
    assert cost["prefetching+delayed"] < cost["prefetching"] / 5


def test_first_probes_are_lost_by_standard_and_delivered_by_prefetching(seen: dict[str, AnalysedRun]) -> None:
    first = {mode: dict(one.measured.ratios())[1] for mode, one in seen.items()}
    assert first["standard"] < 0.6
    assert first["prefetching"] == first["prefetching+delayed"] == 1.0
    assert dict(seen["standard"].measured.ratios())[20] == 1.0


def test_the_same_run_is_not_run_twice(runs: Runs, seen: dict[str, AnalysedRun]) -> None:
    fast = {"clients.roaming.speeds_kmh": [100]}
    again = runs.seen("standard", publishers=6, subscribers=12, duration_s=40, warmup_s=10, changes=fast)
    assert again is seen["standard"]


def test_the_same_scenario_by_another_name_is_not_run_twice(runs: Runs) -> None:
    def begun(changes: dict[str, Any]) -> AnalysedRun:
        return runs.seen("proxy", publishers=2, subscribers=2, duration_s=5, warmup_s=2, changes=changes)

    assert begun({"workload.locality": 0.0}) is begun({})
    assert begun({"workload.locality": 0.5}) is not begun({})


def test_what_is_measured_is_the_same_without_probes_in_the_warm_up(runs: Runs) -> None:
    fast = {"clients.roaming.speeds_kmh": [100]}
    every, later = (
        runs.seen("standard", publishers=6, subscribers=12, duration_s=40, warmup_s=12, changes={**fast, **more})
        for more in ({}, {"clients.probes.from_s": 12})
    )
    assert later.measured == later.probes
    assert later.measured.pairs == every.measured.pairs != every.probes.pairs
    assert later.figures.cost == every.figures.cost


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_claim_gives_one_row_and_every_figure_is_drawn(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubmob, "QUICK", TINY)
    monkeypatch.setattr(pubmob_runs, "LONG_S", 60)
    found = list(claims_of("pubmob", Setting(folder=tmp_path, spark=lambda: spark)))
    assert tuple(claim.key for claim in found) == PAPERS["pubmob"][1]
    drawn = {path.stem.partition("_")[0] for path in tmp_path.glob("*.png")}
    assert drawn == {"fig4", "fig5", "fig6", "fig7", "fig8", "fig9", "fig10", "p1", "p3", "p5", "p7", "p9"}
    assert {path.stem for path in tmp_path.glob("*.svg")} == {path.stem for path in tmp_path.glob("*.png")}
