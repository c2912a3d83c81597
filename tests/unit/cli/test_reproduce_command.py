"""`godwit reproduce` with several runs: what is told while they run, and when one fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from godwit.cli import reproduce_command
from godwit.cli.main import app
from godwit.errors import PipelineError
from godwit.pipeline import spark_session
from godwit.reproduce import Claim, Setting, paper_jobs, pubmob_confirm
from godwit.reproduce.paper_jobs import JobFailure, JobResult, PaperJob
from godwit.reproduce.pubmob_confirm import ConfirmedSetting

CLAIM = Claim(key="M2", where="§5", claim="listings", paper="", ours="the same", holds=True)


def reproduced(*words: str) -> Any:
    return CliRunner().invoke(app, ["reproduce", *words], env={"COLUMNS": "300"})


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """By paper, why its runs fail."""
    failing: dict[str, str] = {}

    def run_jobs(
        jobs: Sequence[PaperJob], workers: int, on_begin: Callable[[tuple[str, int]], None]
    ) -> Iterator[JobResult | JobFailure]:
        for job in jobs:
            on_begin((job.paper, job.seed))
            if job.paper in failing:
                yield JobFailure(paper=job.paper, seed=job.seed, reason=failing[job.paper])
            else:
                yield JobResult(paper=job.paper, seed=job.seed, claims=[CLAIM], wall_s=30.0, cpu_s=20.0)

    monkeypatch.setattr(paper_jobs, "run_jobs", run_jobs)
    monkeypatch.setattr(spark_session, "check_java", lambda: None)
    return failing


@pytest.mark.usefixtures("runs")
def test_each_run_that_is_done_is_told_with_the_time_that_is_left(tmp_path: Path) -> None:
    result = reproduced("all", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "1 of 5 runs done; mobile with seed 1 took 30 s; about " in result.stderr
    assert "5 of 5 runs done; spcf with seed 1 took 30 s; less than a minute left" in result.stderr
    assert result.stdout.count('"key": "M2"') == 5
    assert (tmp_path / "report.html").exists()


def test_a_run_that_fails_is_told_at_the_end_without_a_report_of_the_others(
    tmp_path: Path, runs: dict[str, str]
) -> None:
    runs["mobile"] = "no room"
    result = reproduced("all", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "4 of 5 runs done; spcf" in result.stderr, "the others go on"
    assert "error: 1 of 5 runs failed: mobile with seed 1: no room. The others are kept" in result.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("words", [("mobile", "--resume"), ("motion", "--seeds", "2")])
def test_without_java_nothing_runs(
    tmp_path: Path, runs: dict[str, str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def fail() -> None:
        raise PipelineError("no Java")

    monkeypatch.setattr(spark_session, "check_java", fail)
    result = reproduced(*words, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "error: no Java" in result.stderr
    assert "runs done" not in result.stderr


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[int], int | None]]:
    """What `--confirm` repeats: settings, seeds and processes."""
    seen: list[tuple[list[str], list[int], int | None]] = []

    def confirm(setting: Setting, seeds: Sequence[int], settings: Sequence[ConfirmedSetting], told: Any) -> list[Any]:
        seen.append(([each.key for each in settings], list(seeds), setting.processes))
        return []

    monkeypatch.setattr(pubmob_confirm, "confirm", confirm)
    monkeypatch.setattr(pubmob_confirm, "show", lambda folder, found: None)
    monkeypatch.setattr(reproduce_command, "_spark", lambda paper, full: nullcontext())
    return seen


def test_all_settings_are_repeated_or_those_that_are_named(tmp_path: Path, repeated: list[Any]) -> None:
    where = ("--out", str(tmp_path))
    assert reproduced("pubmob", "--confirm", *where).exit_code == 0
    assert reproduced("pubmob", "--confirm", "--setting", "I, G", "--seeds", "2", "--jobs", "1", *where).exit_code == 0
    assert repeated == [
        ([each.key for each in pubmob_confirm.SETTINGS], [1, 2, 3, 4, 5], None),
        (["G", "I"], [1, 2], 1),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--confirm", "--setting", "G,Z"), "--setting Z: allowed are A, B, C"),
        (("--full", "--setting", "G,H"), "--setting G,H: allowed is one setting; several can be repeated"),
    ],
)
def test_a_setting_that_cannot_be_run_is_an_error(
    tmp_path: Path, repeated: list[Any], words: tuple[str, ...], said: str
) -> None:
    result = reproduced("pubmob", *words, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert said in result.stderr
    assert repeated == []
