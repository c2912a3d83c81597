"""How much of several runs is done, and how long the rest will take.

*Theory.* A job is one paper with one seed. Before the first is done, its duration is the one that was measured once
(`EXPECTED_S`). Then the seeds of a paper that are done say how long its other seeds take, and what is done of all
papers says how much faster or slower this machine is; so does a job that runs for longer than expected.

*Rules.*
1. No clock: the caller says when something happened.
2. A job that takes longer than expected is expected to end at any moment; it never makes the rest negative.
3. Several threads may use it: one is told what begins, one what ends, and one draws.
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from threading import RLock

__all__ = ["EXPECTED_S", "JobEstimates", "JobKey", "in_words"]

JobKey = tuple[str, int]
"""A paper and a seed."""

EXPECTED_S: Mapping[bool, Mapping[str, float]] = {
    True: {"pubmob": 420, "spcf": 350, "rebeca": 230, "motion": 90, "mobile": 75},
    False: {"pubmob": 110, "spcf": 90, "rebeca": 75, "motion": 30, "mobile": 45},
}
"""By `--full` or not, the seconds of a run of each paper, Spark included, beside another one on two cores."""


class JobEstimates:
    """The jobs of one command, and the time that the rest of them needs in this number of processes."""

    def __init__(self, jobs: Sequence[JobKey], full: bool, workers: int) -> None:
        self._expected = {job: EXPECTED_S[full][job[0]] for job in jobs}
        self._workers = max(1, workers)
        self._began: dict[JobKey, float] = {}
        self._took: dict[JobKey, float] = {}
        self._lock = RLock()  # (rule 3)

    def begin(self, job: JobKey, now: float) -> None:
        """A job has begun. It may have ended already, when one thread is ahead of the other."""
        with self._lock:
            if job in self._expected and job not in self._took:
                self._began.setdefault(job, now)

    def end(self, job: JobKey, took_s: float | None) -> None:
        """A job has ended after this time; None: it has failed, and says nothing about others."""
        with self._lock:
            self._began.pop(job, None)
            if took_s is None:
                self._expected.pop(job, None)
            else:
                self._took[job] = took_s

    @property
    def running(self) -> list[JobKey]:
        """The jobs that have begun and not ended."""
        with self._lock:
            return list(self._began)

    def left_s(self, now: float) -> float:
        """The seconds until all jobs are done."""
        with self._lock:
            pace = self._pace(now)
            left = [
                max(self._duration_s(job, pace) - (now - self._began.get(job, now)), 0.0)
                for job in self._expected
                if job not in self._took
            ]
        return max(sum(left) / self._workers, max(left, default=0.0))

    def _duration_s(self, job: JobKey, pace: float) -> float:
        of_paper = [took for (paper, _), took in self._took.items() if paper == job[0]]
        return mean(of_paper) if of_paper else self._expected[job] * pace

    def _pace(self, now: float) -> float:
        """How many times as long as expected jobs take here."""
        expected = sum(self._expected[job] for job in self._took)
        pace = sum(self._took.values()) / expected if expected else 1.0
        return max([pace, *((now - began) / self._expected[job] for job, began in self._began.items())])


def in_words(seconds: float) -> str:
    """A rough duration."""
    minutes = round(seconds / 60)
    if seconds < 50:
        return "less than a minute"
    return "about a minute" if minutes <= 1 else f"about {minutes} minutes"
