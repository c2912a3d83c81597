"""The experiments of papers, each with each of its seeds, spread over processes.

*Theory.* A job is one paper with one seed. Jobs are independent, so each process runs one after the other, the longest
first; a process keeps its Spark session, which has one thread, for all of its jobs. The result of a job is written to
its folder (`claims.json`) by the process that ran it, and returned.

*Rules.*
1. Results do not depend on the number of processes, except the times that `spcf` and `motion` measure.
2. A failed job ends the command with its error.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.reproduce.claims import Claim, Setting, claims_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SHORT_LIVED",
    "JobResult",
    "PaperJob",
    "by_paper",
    "claim_data",
    "cores",
    "decided",
    "run_jobs",
    "write_claims",
]

LONGEST_FIRST = ("pubmob", "spcf", "rebeca", "motion", "mobile")
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", "spark.ui.enabled": "false"}
"""Of a session for small traces: most of its time would go into compiling what runs once."""


class PaperJob(msgspec.Struct, frozen=True, kw_only=True):
    """One paper with one seed."""

    paper: str
    seed: int
    folder: Path
    full: bool
    version: str
    changes: dict[str, Any] = {}
    resume: bool = False  # use the results of an earlier run


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job, and its duration."""

    paper: str
    seed: int
    claims: list[Claim]
    wall_s: float
    cpu_s: float  # of the process that ran it, without Spark's


def run_jobs(jobs: Sequence[PaperJob], workers: int) -> Iterator[JobResult]:
    """Run all jobs in this number of processes; yields results in the order of completion."""
    in_order = sorted(jobs, key=lambda job: LONGEST_FIRST.index(job.paper))
    workers = max(1, min(workers, len(jobs)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(decided, job) for job in in_order]
        try:
            for done in as_completed(running):
                yield done.result()
        finally:
            for each in running:
                each.cancel()


def decided(job: PaperJob) -> JobResult:
    """Run one job in this process."""
    if job.resume and (kept := _kept(job)) is not None:
        return kept
    began, cpu = time.monotonic(), time.process_time()
    job.folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(folder=job.folder, full=job.full, seed=job.seed, changes=job.changes, spark=_own_session)
    claims = list(claims_of(job.paper, setting))
    result = JobResult(
        paper=job.paper,
        seed=job.seed,
        claims=claims,
        wall_s=time.monotonic() - began,
        cpu_s=time.process_time() - cpu,
    )
    write_claims(job.folder, result, job.full, job.version, job.changes)
    return result


class ClaimsFile(msgspec.Struct, kw_only=True):
    """The content of `claims.json`, with the grades of the claims."""

    version: str
    paper: str
    full: bool
    seed: int
    wall_s: float
    cpu_s: float
    claims: list[Claim]
    changes: dict[str, Any] = {}


def _kept(job: PaperJob) -> JobResult | None:
    """The result of an earlier run of the same job."""
    try:
        found = msgspec.json.decode((job.folder / "claims.json").read_bytes(), type=ClaimsFile)
    except (OSError, msgspec.DecodeError):
        return None
    same = (found.version, found.paper, found.full, found.seed) == (job.version, job.paper, job.full, job.seed)
    if not same or found.changes != msgspec.to_builtins(job.changes):
        return None
    return JobResult(paper=job.paper, seed=job.seed, claims=found.claims, wall_s=found.wall_s, cpu_s=found.cpu_s)


def write_claims(
    folder: Path, result: JobResult, full: bool, version: str, changes: Mapping[str, Any] | None = None
) -> Path:
    """Write `claims.json`. `changes`: those to the scenario of every run."""
    about: dict[str, Any] = {"version": version, "paper": result.paper, "full": full, "seed": result.seed}
    about |= {"wall_s": round(result.wall_s, 1), "cpu_s": round(result.cpu_s, 1)}
    if changes:
        about["changes"] = dict(changes)
    data = {**about, "claims": [claim_data(each) for each in result.claims]}
    path = folder / "claims.json"
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def claim_data(claim: Claim) -> dict[str, object]:
    """A claim as plain data, with its grade."""
    data: dict[str, object] = msgspec.to_builtins(claim)
    return {**data, "grade": claim.grade}


def _own_session() -> "SparkSession":
    from godwit.pipeline.spark_session import start

    return start("local[1]", "godwit reproduce", SHORT_LIVED)


def cores() -> int:
    """The default number of processes."""
    return os.cpu_count() or 1


def by_paper(results: Sequence[JobResult], papers: Sequence[str]) -> dict[str, dict[int, list[Claim]]]:
    """By paper in this order, and by seed, the claims."""
    return {
        paper: {each.seed: each.claims for each in sorted(results, key=lambda one: one.seed) if each.paper == paper}
        for paper in papers
    }
