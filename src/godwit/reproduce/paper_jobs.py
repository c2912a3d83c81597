"""The experiments of papers, each with each of its seeds, spread over processes.

*Theory.* A job is one paper with one seed. Jobs are independent, so each process runs one after the other, the longest
first; a process keeps its Spark session, which has one thread, for all of its jobs. The result of a job is written to
its folder (`claims.json`) by the process that ran it, and returned.

*Rules.*
1. Results do not depend on the number of processes, except the times that `spcf` and `motion` measure.
2. A job that fails keeps no other from running: what is done is kept, and the failures are told at the end, together.
   The traceback of an unexpected error is in `failed.txt` in the folder of its job.
3. A process that is killed ends all jobs that are not done, with the reason.
"""

import json
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from godwit.errors import GodwitError
from godwit.reproduce.claims import Claim, Setting, claims_of
from godwit.reproduce.job_estimates import JobKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "KILLED",
    "SHORT_LIVED",
    "JobFailure",
    "JobResult",
    "PaperJob",
    "attempted",
    "by_paper",
    "check_failures",
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


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed, and why."""

    paper: str
    seed: int
    reason: str


def run_jobs(
    jobs: Sequence[PaperJob], workers: int, on_begin: Callable[[JobKey], None] = lambda job: None
) -> Iterator[JobResult | JobFailure]:
    """Run all jobs in this number of processes; yields a result or a failure for each, in the order of completion.

    `on_begin` is called from another thread when a job begins.
    """
    in_order = sorted(jobs, key=lambda job: LONGEST_FIRST.index(job.paper))
    workers = max(1, min(workers, len(jobs)))
    context = multiprocessing.get_context("spawn")
    begun: SimpleQueue[JobKey] = context.SimpleQueue()
    threading.Thread(target=_pass_on, args=(begun, on_begin), daemon=True).start()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_tell_begun, initargs=(begun,)) as pool:
        running = {pool.submit(attempted, job): job for job in in_order}
        try:
            for done in as_completed(running):
                try:
                    yield done.result()
                except BrokenProcessPool:  # (rule 3)
                    job = running[done]
                    yield JobFailure(paper=job.paper, seed=job.seed, reason=KILLED)
        finally:
            for each in running:
                each.cancel()


def check_failures(failures: Sequence[JobFailure], count: int) -> None:
    """Raise `GodwitError` if a job has failed. `count`: of all jobs. (rule 2)"""
    if not failures:
        return
    by_reason: dict[str, list[str]] = {}
    for each in failures:
        by_reason.setdefault(each.reason, []).append(f"{each.paper} with seed {each.seed}")
    told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    raise GodwitError(
        f"{len(failures)} of {count} runs failed: {told}. The others are kept: the same command with --resume runs "
        "only what is missing"
    )


KILLED = "not finished, because a process was killed (often by the system, for lack of memory: use fewer --jobs)"
_begun: "SimpleQueue[JobKey] | None" = None  # of this process, if it runs jobs for another


def _tell_begun(begun: "SimpleQueue[JobKey]") -> None:
    global _begun  # noqa: PLW0603 - a process of the pool gets it once, when it starts
    _begun = begun


def _pass_on(begun: "SimpleQueue[JobKey]", on_begin: Callable[[JobKey], None]) -> None:
    with suppress(EOFError, OSError):  # the command ends
        while True:
            on_begin(begun.get())


def attempted(job: PaperJob) -> JobResult | JobFailure:
    """Run one job in this process; an error is a result, since exceptions of Spark do not cross processes."""
    report = job.folder / "failed.txt"
    if _begun is not None:
        _begun.put((job.paper, job.seed))
    try:
        result = decided(job)
    except GodwitError as error:
        return JobFailure(paper=job.paper, seed=job.seed, reason=str(error))
    except Exception as error:
        report.write_text(traceback.format_exc(), encoding="utf-8")
        first = next(iter(str(error).splitlines()), "")
        reason = f"{type(error).__name__}: {first} (traceback: {report})"
        return JobFailure(paper=job.paper, seed=job.seed, reason=reason)
    report.unlink(missing_ok=True)
    return result


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
