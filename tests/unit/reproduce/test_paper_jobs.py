"""Papers and seeds as jobs: what an earlier run has found is taken only if it is of the same job."""

import json
import os
import queue
import signal
from pathlib import Path

import pytest

from godwit.errors import GodwitError
from godwit.reproduce import paper_jobs
from godwit.reproduce.claims import PAPERS, Claim
from godwit.reproduce.paper_jobs import (
    KILLED,
    LONGEST_FIRST,
    JobFailure,
    JobResult,
    PaperJob,
    attempted,
    by_paper,
    check_failures,
    decided,
    run_jobs,
    write_claims,
)

CLAIM = Claim(key="R1", where="§1", claim="", paper="", ours="as it was", holds=False, reading="x", reading_holds=True)


def kept(folder: Path, seed: int = 1, version: str = "1") -> PaperJob:
    """A job that an earlier run has left its claims of."""
    folder.mkdir(parents=True)
    result = JobResult(paper="rebeca", seed=seed, claims=[CLAIM], wall_s=3.0, cpu_s=2.0)
    write_claims(folder, result, full=True, version=version)
    return PaperJob(paper="rebeca", seed=seed, folder=folder, full=True, version=version, resume=True)


def test_every_paper_has_its_place_in_the_order_of_jobs() -> None:
    assert sorted(LONGEST_FIRST) == sorted(PAPERS)


def test_claims_of_an_earlier_run_are_taken_with_their_grades(tmp_path: Path) -> None:
    job = kept(tmp_path / "a")
    assert decided(job).claims == [CLAIM]
    written = json.loads((tmp_path / "a" / "claims.json").read_text())
    assert written["claims"][0]["grade"] == "holds under a stated reading"


@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"full": False}, {"version": "2"}, {"resume": False}, {"changes": {"overlay.event_bytes": 130}}],
)
def test_claims_of_another_job_are_not_taken(
    other: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kept(tmp_path / "a")
    fields = {"paper": "rebeca", "seed": 1, "folder": job.folder, "full": True, "version": "1", "resume": True}
    monkeypatch.setattr(paper_jobs, "claims_of", lambda paper, setting: [])
    assert decided(PaperJob(**{**fields, **other})).claims == []  # type: ignore[arg-type]


def test_claims_in_a_setting_of_their_own_are_taken_again(tmp_path: Path) -> None:
    result = JobResult(paper="rebeca", seed=1, claims=[CLAIM], wall_s=3.0, cpu_s=2.0)
    changes = {"overlay.event_bytes": 130, "clients.roaming.speeds_kmh": [5, 50]}
    write_claims(tmp_path, result, full=True, version="1", changes=changes)
    job = PaperJob(paper="rebeca", seed=1, folder=tmp_path, full=True, version="1", resume=True, changes=changes)
    assert decided(job).claims == [CLAIM]


def test_a_broken_file_of_claims_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = kept(tmp_path / "a")
    (job.folder / "claims.json").write_text("{")
    monkeypatch.setattr(paper_jobs, "claims_of", lambda paper, setting: [])
    assert decided(job).claims == []


def test_jobs_run_in_processes_and_are_sorted_by_paper_and_seed(tmp_path: Path) -> None:
    jobs = [kept(tmp_path / str(seed), seed) for seed in (2, 1)]
    found = by_paper([each for each in run_jobs(jobs, workers=2) if isinstance(each, JobResult)], ["rebeca"])
    assert found == {"rebeca": {1: [CLAIM], 2: [CLAIM]}}
    assert list(found["rebeca"]) == [1, 2]


def die(job: PaperJob) -> JobResult:
    """What the system does to a process when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(job)


def fresh(folder: Path) -> PaperJob:
    """A job that nothing is kept of."""
    folder.mkdir()
    return PaperJob(paper="motion", seed=2, folder=folder, full=True, version="1")


def test_a_job_that_fails_keeps_no_other_from_running_and_all_failures_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlucky(paper: str, setting: object) -> list[Claim]:
        raise ValueError("no luck\nat all")

    monkeypatch.setattr(paper_jobs, "claims_of", unlucky)
    failure = attempted(fresh(tmp_path / "2"))
    reason = f"ValueError: no luck (traceback: {tmp_path / '2' / 'failed.txt'})"
    assert failure == JobFailure(paper="motion", seed=2, reason=reason)
    assert "in unlucky" in (tmp_path / "2" / "failed.txt").read_text()
    other = JobFailure(paper="spcf", seed=1, reason="no room")
    with pytest.raises(GodwitError, match=r"2 of 3 runs failed: motion with seed 2: Val.*spcf with seed 1: no.*--res"):
        check_failures([failure, other], 3)
    check_failures([], 3)


def test_a_failure_report_is_gone_when_its_job_is_done(tmp_path: Path) -> None:
    job = kept(tmp_path / "a")
    (job.folder / "failed.txt").write_text("earlier")
    assert isinstance(attempted(job), JobResult)
    assert not (job.folder / "failed.txt").exists()


def test_a_killed_process_is_told_of_every_job_that_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_jobs, "attempted", die)
    jobs = [kept(tmp_path / str(seed), seed) for seed in (1, 2)]
    found = list(run_jobs(jobs, workers=1))
    assert [each.reason for each in found if isinstance(each, JobFailure)] == [KILLED] * 2


def test_who_waits_is_told_which_job_begins(tmp_path: Path) -> None:
    begun: queue.Queue[tuple[str, int]] = queue.Queue()
    list(run_jobs([kept(tmp_path / "a", seed=3)], workers=1, on_begin=begun.put))
    assert begun.get(timeout=60) == ("rebeca", 3)
