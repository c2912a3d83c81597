"""The process that measures: one Spark session at one master, or none, and jobs one after another.

`pipeline.py` starts it with a list of jobs, for a JVM has one session and memory should be given back between parts.
Each job is run once to warm up and then so many times by the clock; a line of JSON comes out for each. What a job
leaves behind is removed before the clock starts again, and what it found is counted after it has stopped.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pipeline_data import Work
from benchmarks.pipeline_ours import Ours, build_index, peak_rss_mb
from benchmarks.pipeline_rivals import Duck, pairs_in, spark_count, spark_write
from benchmarks.pipeline_stream import streamed, streamed_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure: who does what on which work; a sample of it, one event in `of`, where all would take hours."""

    name: str
    who: str
    what: str  # count, write, index, no-op, clocks, stream
    folder: str  # of the work
    how: str = ""  # plain, tuned, shapes; table, dataframe; of a stream, how many subscriptions
    of: int = 1
    repeat: int = 3  # 0: only the run that warms up, which then counts


@dataclass(frozen=True, slots=True)
class Result:
    """What came out: seconds of each run, and pairs found."""

    job: Job
    runs: list[float]
    pairs: int | None = None
    cpu_s: float = 0.0  # what all processes worked in a run, the JVM and its Python workers too
    rows: int = 0
    bytes: int | None = None
    more: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def load(said: dict[str, Any]) -> "Result":
        """What `asdict` has made of one."""
        return Result(**{**said, "job": Job(**said["job"])})


class Measuring:
    """One process."""

    def __init__(self, spark: "SparkSession | None", scratch: Path) -> None:
        self.spark, self.scratch = spark, scratch

    def result(self, job: Job) -> Result:
        """Run a job as often as it says, after once to warm up."""
        work = Work.load(Path(job.folder))
        out = self.scratch / "out"
        run = self.runner(job, work, out)
        found: Any = None
        runs, worked, told = [], [], []
        warms_up = job.what != "index"
        for _ in range(job.repeat + warms_up):
            shutil.rmtree(out, ignore_errors=True)
            cpu, start = cpu_seconds(), time.perf_counter()
            found = run()
            runs.append(time.perf_counter() - start)
            worked.append(cpu_seconds() - cpu)
            told.append(found if isinstance(found, dict) else {})
        if warms_up and job.repeat:
            runs, worked, told = runs[1:], worked[1:], told[1:]
        more = {name: median(each[name] for each in told) for name in told[-1]}
        pairs, size = found if isinstance(found, int) else None, None
        if job.what == "write":
            pairs = Ours.pairs_in(out) if job.who == "Godwit" else pairs_in(out)
            size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        shutil.rmtree(out, ignore_errors=True)
        rows = len(range(job.of, work.events + 1, job.of))
        return Result(job, runs, pairs, median(worked), rows, size, more)

    def runner(self, job: Job, work: Work, out: Path) -> Callable[[], Any]:
        """What the clock is held to."""
        match job.who, job.what:
            case "DuckDB", "count":
                duck = Duck(work, job.of)
                return lambda: duck.count(job.how)
            case "DuckDB", "write":
                duck = Duck(work, job.of)
                return lambda: duck.write(job.how, out)
            case "Godwit", "index":
                return lambda: build_index(work)
        assert self.spark is not None
        spark = self.spark
        match job.who, job.what:
            case "Spark SQL", "count":
                return lambda: spark_count(spark, work, job.how, job.of)
            case "Spark SQL", "write":
                return lambda: spark_write(spark, work, job.how, out)
        ours = Ours(spark, work)
        match job.what:
            case "count":
                return lambda: ours.count(job.how, job.of)
            case "write":
                return lambda: ours.write(job.how, out)
            case "no-op":
                return lambda: ours.nothing(job.how)
            case "stream" if job.how == "whole":
                return lambda: streamed_whole(spark, work, self.scratch / "stream")
            case "stream":
                return lambda: streamed(spark, work, self.scratch / "stream", int(job.how))
            case "clocks":
                return lambda: ours.clocks(job.how, out)
        raise ValueError(f"nobody knows how to do {job}")


def cpu_seconds() -> float:
    """What this process and all that it has started have worked so far; 0 where the system does not say."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))  # its own, and that of those it has seen end
    found, family = 0, {os.getpid()}
    while family:
        found += sum(ticks.get(process, 0) for process in family)
        family = {process for process, parent in parents.items() if parent in family}
    return found / os.sysconf("SC_CLK_TCK")


def main(master: str, scratch: str, jobs: str) -> None:
    """Measure, and print a line for each job: first one for the start of Spark."""
    start = time.perf_counter()
    spark = None
    if master:
        from godwit.pipeline.spark_session import start as start_spark

        spark = start_spark(master, "godwit benchmark")
    print(json.dumps({"start_s": time.perf_counter() - start}), flush=True)
    try:
        measuring = Measuring(spark, Path(scratch))
        for said in json.loads(jobs):
            print(json.dumps(asdict(measuring.result(Job(**said)))), flush=True)
        print(json.dumps({"peak_rss_mb": peak_rss_mb()}), flush=True)
    finally:
        if spark is not None:
            spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
