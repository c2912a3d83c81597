"""Settings that are repeated: every seed counts, and the figure has a point for each."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from godwit.reproduce.city import Runs
from godwit.reproduce.claims import Setting
from godwit.reproduce.pubmob_bounds import MODES, Condition
from godwit.reproduce.pubmob_confirm import SETTINGS, SeedTrial, confirm, met_by_seed, show, spans, write
from godwit.reproduce.pubmob_metrics import Also, MoveTimes, ProbeCounts, PubmobFigures
from godwit.reproduce.pubmob_search import COUNTED, Choice, Trial
from godwit.simulator.scenario import Scenario, named, with_changes


def repeated(key: str, seed: int, median_s: float, shortfall: float) -> SeedTrial:
    figures = dict.fromkeys(MODES, median_s)
    trial = Trial(
        choice=Choice(),
        counted=COUNTED[0],
        cost=figures,
        stands_after_s=figures,
        first_delivered=figures,
        median_s=figures,
        conditions=(Condition("P4", "STANDARD is slowest", shortfall),),
    )
    return SeedTrial(key=key, seed=seed, trial=trial)


FOUND = [repeated("A", 1, 0.2, 0.0), repeated("A", 2, 0.6, 0.5), repeated("A", 3, 0.4, 0.0), repeated("B", 1, 1.0, 1.0)]


def test_every_setting_has_a_key_of_its_own_and_is_a_scenario() -> None:
    assert len({each.key for each in SETTINGS}) == len(SETTINGS)
    for each in SETTINGS:
        made = with_changes(named("city"), [f"{key}={value}" for key, value in each.choice.changes().items()])
        assert made.overlay.event_bytes == each.choice.event_bytes


def test_a_condition_is_counted_by_the_seeds_that_meet_it() -> None:
    assert met_by_seed(FOUND) == {"A": {"STANDARD is slowest": 2}, "B": {"STANDARD is slowest": 0}}


def test_a_figure_is_told_as_its_median_and_its_extremes() -> None:
    assert spans(FOUND, "A", lambda trial: trial.median_s) == dict.fromkeys(MODES, "0.40 (0.20 to 0.60)")


def test_what_is_kept_has_all_trials_and_the_figure_has_both_settings(tmp_path: Path) -> None:
    kept = msgspec.json.decode(write(tmp_path, FOUND).read_bytes())
    assert [each["seed"] for each in kept["trials"]] == [1, 2, 3, 1]
    assert kept["format"] == 2
    _, svg = show(tmp_path, FOUND)
    assert all(f"setting {key}" in svg.read_text() for key in "AB")


def test_runs_last_as_long_as_their_setting_says_and_have_no_probes_in_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Scenario] = []
    counts = ProbeCounts(pairs={1: (1, 1)}, quantiles=(0.2,) * 201)
    by_move = {2: MoveTimes(came=1, median=0.1), 1: MoveTimes(came=2, median=0.4)}
    result = SimpleNamespace(measured=counts, probes=counts, each=1.0, figures=PubmobFigures(by_move=by_move))

    def run_at_once(runs: Runs, scenarios: Sequence[Scenario], also: Sequence[Also]) -> list[Any]:
        assert also == ["by_move"]
        seen.extend(scenarios)
        (runs.setting.folder / "traces").mkdir()
        return [result for _ in scenarios]

    monkeypatch.setattr(Runs, "run_at_once", run_at_once)
    chosen = [each for each in SETTINGS if each.key in "HK"]
    found = confirm(Setting(folder=tmp_path), [3], chosen)
    assert [(each.key, each.seed) for each in found] == [("H", 3), ("K", 3)]
    assert found[0].trial.median_by_move_s == dict.fromkeys(MODES, (0.4, 0.1))
    assert [each.run.duration_s for each in seen] == [24.0] * 4 + [40.0] * 4
    assert {each.clients.probes.from_s for each in seen} == {12.0}
    assert seen[-1].clients.roaming.speeds_kmh == (100,)
