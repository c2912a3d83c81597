"""Papers and seeds as jobs: what an earlier run has found is taken only if it is of the same job."""

import json
from pathlib import Path

import pytest

from godwit.reproduce import paper_jobs
from godwit.reproduce.claims import PAPERS, Claim
from godwit.reproduce.paper_jobs import LONGEST_FIRST, JobResult, PaperJob, by_paper, decided, run_jobs, write_claims

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
    found = by_paper(list(run_jobs(jobs, workers=2)), ["rebeca"])
    assert found == {"rebeca": {1: [CLAIM], 2: [CLAIM]}}
    assert list(found["rebeca"]) == [1, 2]
