"""How fast the pipeline matches archives, beside Spark SQL and DuckDB in the same run. This file, with `--help`.

Everything has two cores. A figure is the median of three runs after one to warm up; the start of Spark is kept apart.
All ways must find the same number of pairs, else nothing is reported. Each part runs in processes of its own, and files
are in a temporary folder that goes when the benchmark ends.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pipeline_data as data
from benchmarks.measuring import this_machine
from benchmarks.pipeline_jobs import Job, Result
from benchmarks.pipeline_reporting import Row, json_line, markdown, print_table
from benchmarks.reporting import number
from benchmarks.workloads import ROOT, SHARED_WORKLOADS

GODWIT, SPARK_SQL, DUCKDB = "Godwit", "Spark SQL", "DuckDB"
TWO_CORES, ONE_CORE = "local[2]", "local[1]"
WAYS = {
    "plain": "plain: one nested loop",
    "tuned": "tuned: hash join on the key, nested loop for the rest",
    "shapes": "a join for each shape of subscription",
    "table": "workers read the table",
    "dataframe": "from a DataFrame",
}
RUN_SECONDS_MAX = 3_600  # of one process


class Part(StrEnum):
    """What can be measured."""

    QUOTES = "quotes"
    WRITE = "write"
    W3 = "W3"
    GROWTH = "growth"
    CORES = "cores"
    LIMITS = "limits"
    CLOCKS = "clocks"
    STREAM = "stream"


NEEDS_QUOTES = (Part.QUOTES, Part.WRITE, Part.CORES, Part.LIMITS, Part.CLOCKS, Part.STREAM)


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    quotes: int = data.QUOTES_ALL
    quote_filters: int = data.QUOTE_FILTERS_ALL
    w3_events: int = 1_000_000
    w3_filters: int = 100_000
    w3_samples: tuple[int, int] = (500, 250)  # one event in so many, for plain SQL
    growth: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    growth_events: int = 500_000
    growth_rival: tuple[int, ...] = (1_000, 10_000)
    growth_rival_of: int = 25
    repeated: int = 32  # the quotes, to see how fast rows can come at all
    repeat: int = 3
    stream_filters: tuple[int, ...] = (100, 10_000)

    @property
    def is_full(self) -> bool:
        return replace(self, repeat=FULL.repeat) == FULL


FULL = Scale()
QUICK = Scale(5_000, 1_000, 5_000, 2_000, (10, 5), (1_000, 10_000), 5_000, (1_000,), 5, 4, 1, (100,))


class Disagreement(Exception):
    """Two ways to match found different numbers of pairs."""


class Bench:
    """One run. Each method measures one part and yields its rows."""

    def __init__(self, scale: Scale, folder: Path, events: Path, workloads: Path, log: Callable[[str], None]) -> None:
        self.scale, self.folder, self.events, self.workloads, self.log = scale, folder, events, workloads, log
        self.works: dict[str, data.Work] = {}
        self.indexes: dict[str, dict[str, float]] = {}
        self.starts: list[float] = []

    def missing(self, part: Part) -> str:
        """Why a part cannot be measured here; empty when it can."""
        if part in NEEDS_QUOTES and not (self.events / data.QUOTES).is_file():
            return f"no {data.QUOTES} in {self.events}: say where it is with --data DIR"
        if part in (Part.W3, Part.CORES) and not (self.workloads / "generate.py").is_file():
            return f"no generate.py in {self.workloads}: say where it is with --workloads DIR"
        return ""

    def rows(self, part: Part) -> Iterator[Row]:
        """The rows of one part."""
        yield from {
            Part.QUOTES: self.quotes_counted,
            Part.WRITE: self.quotes_written,
            Part.W3: self.w3,
            Part.GROWTH: self.growth,
            Part.CORES: self.cores,
            Part.LIMITS: self.limits,
            Part.CLOCKS: self.clocks,
            Part.STREAM: self.stream,
        }[part]()

    # ------------------------------------------------------------ works, and processes that measure

    def work(self, name: str, make: Callable[..., data.Work], *arguments: Any) -> data.Work:
        """A work, made when it is first wanted, in a process of its own for the sake of memory."""
        if name not in self.works:
            self.log(f"making {name}")
            with get_context("spawn").Pool(1) as pool:
                self.works[name] = pool.apply(make, arguments)
        return self.works[name]

    def quotes(self, repeated: int = 1) -> data.Work:
        scale, name = self.scale, f"quotes x {repeated}"
        folder = self.folder / name.replace(" ", "-")
        return self.work(name, data.quotes, self.events, folder, scale.quote_filters, scale.quotes, repeated)

    def w3_work(self) -> data.Work:
        scale = self.scale
        return self.work("W3", data.w3, self.workloads, self.folder / "w3", scale.w3_filters, scale.w3_events)

    def job(self, work: data.Work, who: str, what: str, how: str = "", of: int = 1, repeat: int | None = None) -> Job:
        return Job(f"{who} {what} {how}", who, what, str(work.folder), how, of, repeat or self.scale.repeat)

    def measured(self, master: str, *jobs: Job) -> list[Result]:
        """Results of jobs in a process of their own; one that fails ends the benchmark with what it said."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *_inherited()])}
        command = [sys.executable, str(ROOT / "benchmarks" / "pipeline_jobs.py"), master, str(self.folder)]
        said = json.dumps([asdict(job) for job in jobs])
        found = []
        with subprocess.Popen([*command, said], stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    told = json.loads(line)
                    if "job" in told:
                        found.append(Result.load(told))
                        last = found[-1]
                        self.log(f"  {last.job.name}: {number(median(last.runs))} s, CPU {number(last.cpu_s)} s")
                    elif "start_s" in told and master:
                        self.starts.append(told["start_s"])
                status = process.wait(RUN_SECONDS_MAX)
            except BaseException:
                process.terminate()  # and its JVM goes with it
                raise
        if status:
            raise RuntimeError(f"the process that measures ended with status {status}")
        return found

    def index(self, work: data.Work) -> dict[str, float]:
        """What making the index took, without Spark; made when it is first wanted."""
        name = str(work.folder)
        if name not in self.indexes:
            repeat = self.scale.repeat if work.subscriptions <= self.scale.w3_filters else 1
            results = self.measured("", self.job(work, GODWIT, "index", repeat=repeat))
            self.indexes[name] = results[0].more
        return self.indexes[name]

    # ------------------------------------------------------------ quotes

    def quotes_counted(self) -> Iterator[Row]:
        """All pairs of quotes and subscriptions, counted."""
        work = self.quotes()
        index = self.index(work)
        ways = ("plain", "tuned", "shapes")
        results = self.measured(
            TWO_CORES,
            self.job(work, GODWIT, "count", "table"),
            self.job(work, GODWIT, "count", "dataframe"),
            *(self.job(work, SPARK_SQL, "count", way) for way in reversed(ways)),
        )
        results += self.measured("", *(self.job(work, DUCKDB, "count", way) for way in reversed(ways)))
        what = f"{work.events:,} quotes × {work.subscriptions:,} subscriptions, pairs counted"
        yield from self.compared(Part.QUOTES, what, work, results, index["index_s"])

    def quotes_written(self) -> Iterator[Row]:
        """All pairs of quotes and subscriptions, written to Parquet."""
        work = self.quotes()
        index = self.index(work)
        results = self.measured(
            TWO_CORES,
            self.job(work, GODWIT, "write", "table"),
            self.job(work, GODWIT, "write", "dataframe"),
            *(self.job(work, SPARK_SQL, "write", way) for way in ("tuned", "shapes")),
        )
        results += self.measured("", *(self.job(work, DUCKDB, "write", way) for way in ("tuned", "shapes")))
        what = f"{work.events:,} quotes × {work.subscriptions:,} subscriptions, all pairs to Parquet"
        yield from self.compared(Part.WRITE, what, work, results, index["index_s"])

    def compared(
        self, part: Part, what: str, work: data.Work, results: list[Result], index_s: float, target: float = 1.0
    ) -> Iterator[Row]:
        """Our rows, then the others' with how many times our time they took; ours has the index to make besides."""
        agree(what, results, work.pairs)
        ours = [result for result in results if result.job.who == GODWIT]
        best = min(ours, key=lambda result: median(result.runs))
        total = median(best.runs) + index_s
        for result in results:
            runs, is_ours = result.runs, result.job.who == GODWIT
            notes = [f"{result.bytes / 1e6:,.0f} MB"] if result.bytes is not None else []
            if result is best:
                notes.append(
                    f"and {number(index_s)} s to make the index; {number(result.rows / median(runs))} events/s"
                )
            if not is_ours:
                notes.append(f"{number(median(runs) / median(best.runs))} of ours with the index made before")
            yield Row(
                part, what, f"{result.job.who}, {WAYS[result.job.how]}", runs, "s",
                None if is_ours else median(runs) / total, "" if is_ours else "of ours",
                None if is_ours else target, is_full=self.scale.is_full, pairs=result.pairs, bytes=result.bytes,
                cpu_s=result.cpu_s, note="; ".join(notes), more={"index_s": index_s} if is_ours else {},
            )  # fmt: skip

    # ------------------------------------------------------------ W3

    def w3(self) -> Iterator[Row]:
        """Strings, boxes, OR: all of it by us, a sample by plain SQL, whose time grows with the events."""
        work, (few, more) = self.w3_work(), self.scale.w3_samples
        index = self.index(work)
        ours = self.measured(
            TWO_CORES,
            self.job(work, GODWIT, "count", "table"),
            self.job(work, GODWIT, "count", "dataframe"),
            self.job(work, GODWIT, "write", "table"),
        )
        what = f"W3: {work.events:,} events × {work.subscriptions:,} filters"
        agree(what, ours, None)
        samples = self.measured(
            TWO_CORES,
            *(self.job(work, GODWIT, "count", "dataframe", of, 1) for of in (few, more)),
            *(self.job(work, SPARK_SQL, "count", "plain", of) for of in (few, more)),
        )
        samples += self.measured(
            "", *(self.job(work, DUCKDB, "count", way, of) for way in ("plain", "tuned") for of in (few, more))
        )
        for of in (few, more):
            agree(f"{what}, one event in {of}", [each for each in samples if each.job.of == of], None)
        total = median(ours[0].runs) + index["index_s"]
        for result in ours:
            said = f"{GODWIT}, {WAYS[result.job.how]}" + (
                ", pairs counted" if result.job.what == "count" else ", written"
            )
            notes = [f"{number(result.rows / median(result.runs))} events/s", f"{result.pairs:,} pairs"]
            if result.bytes is not None:
                notes.append(f"{result.bytes / 1e6:,.0f} MB")
            if result is ours[0]:
                notes.append(f"and {number(index['index_s'])} s to make the index")
            yield Row(
                Part.W3, what, said, result.runs, pairs=result.pairs, bytes=result.bytes, cpu_s=result.cpu_s,
                note="; ".join(notes),
            )  # fmt: skip
        for who, how in ((SPARK_SQL, "plain"), (DUCKDB, "plain"), (DUCKDB, "tuned")):
            first, second = (each for each in samples if (each.job.who, each.job.how) == (who, how))
            scaled, a_row = self.scaled(first, second, work.events)
            yield Row(
                Part.W3, what, f"{who}, {WAYS[how]}", [scaled], "s", scaled / total, "of ours",
                50.0 if who == SPARK_SQL else None, is_full=self.scale.is_full,
                note=f"scaled from {first.rows:,} and {second.rows:,} events: {number(median(first.runs))} and "
                f"{number(median(second.runs))} s, so {number(a_row * 1e3)} ms an event",
            )  # fmt: skip

    @staticmethod
    def scaled(first: Result, second: Result, events: int) -> tuple[float, float]:
        """The time for all events from two samples: what does not grow is counted once. And that for an event."""
        low, high = median(first.runs), median(second.runs)
        a_row = max((high - low) / (second.rows - first.rows), 0.0) or high / second.rows
        return high + a_row * (events - second.rows), a_row

    # ------------------------------------------------------------ growth

    def growth(self) -> Iterator[Row]:
        """Ever more subscriptions, of which always about as many match."""
        scale = self.scale
        jobs, rivals, notes = [], [], []
        for count in scale.growth:
            folder = self.folder / f"growth-{count}"
            work = self.work(f"growth, {count:,} subscriptions", data.growing, folder, count, scale.growth_events)
            made = self.index(work)
            notes.append(f"{count:,}: index {number(made['index_s'])} s, {number(made['index_bytes'] / 1e6)} MB")
            jobs.append(self.job(work, GODWIT, "count", "table"))
            if count in scale.growth_rival:
                rivals.append(self.job(work, SPARK_SQL, "count", "plain", scale.growth_rival_of))
                rivals.append(self.job(work, GODWIT, "count", "dataframe", scale.growth_rival_of, 1))
        least, most = scale.growth[0], scale.growth[-1]
        results = self.measured(TWO_CORES, *jobs, *rivals)
        ours = dict(zip(scale.growth, results, strict=False))
        what = f"{least:,} → {most:,} subscriptions, matches fixed, {scale.growth_events:,} events"
        for count, result in ours.items():
            ratio = median(result.runs) / median(ours[least].runs)
            matches = (result.pairs or 0) / result.rows
            yield Row(
                Part.GROWTH, what, f"{GODWIT}, {count:,} subscriptions", result.runs, "s", ratio, "of the first",
                5.0 if count == most else None, True, is_full=scale.is_full, pairs=result.pairs, cpu_s=result.cpu_s,
                note=f"{matches:.1f} matches an event; {notes[scale.growth.index(count)].partition(': ')[2]}",
            )  # fmt: skip
        loops = [result for result in results[len(jobs) :] if result.job.who == SPARK_SQL]
        for place, result in enumerate(loops):
            agree(what, [result, results[len(jobs) + 2 * place + 1]], None)
            yield Row(
                Part.GROWTH, what, f"{SPARK_SQL} plain, {scale.growth_rival[place]:,} subscriptions", result.runs, "s",
                median(result.runs) / median(loops[0].runs), "of the first",
                cpu_s=result.cpu_s, note=f"one event in {scale.growth_rival_of}",
            )  # fmt: skip

    # ------------------------------------------------------------ cores, limits, clocks

    def cores(self) -> Iterator[Row]:
        """One core and two, each in a process of its own."""
        works = {"quotes": self.quotes(), "quotes, repeated": self.quotes(self.scale.repeated), "W3": self.w3_work()}
        for work in works.values():
            self.index(work)
        jobs = [self.job(work, GODWIT, "count", "table") for work in works.values()]
        jobs += [self.job(works["quotes"], GODWIT, "write", "table")]
        one, two = self.measured(ONE_CORE, *jobs), self.measured(TWO_CORES, *jobs)
        names = [*(f"{name}, pairs counted" for name in works), "quotes, all pairs written"]
        for name, alone, both in zip(names, one, two, strict=True):
            agree(name, [alone, both], None)
            what = f"{ONE_CORE} → {TWO_CORES}: {name}"
            yield Row(
                Part.CORES, what, GODWIT, both.runs, "s", median(alone.runs) / median(both.runs), "times as fast",
                1.7 if name.startswith("W3") else None, is_full=self.scale.is_full, cpu_s=both.cpu_s,
                note=f"{number(median(alone.runs))} s with one; {both.rows:,} events",
            )  # fmt: skip

    def limits(self) -> Iterator[Row]:
        """How fast rows come through a job that does nothing, and which share of that a job that matches reaches."""
        work = self.quotes(self.scale.repeated)
        self.index(work)
        jobs = [self.job(work, GODWIT, what, path) for path in ("dataframe", "table") for what in ("no-op", "count")]
        results = self.measured(TWO_CORES, *jobs)
        what = f"rows a second, {work.events:,} quotes × {work.subscriptions:,} subscriptions"
        names = (
            "scan → mapInArrow, no-op",
            "the same, matching",
            "workers read row groups, no-op",
            "the same, matching",
        )
        for place, (result, name) in enumerate(zip(results, names, strict=True)):
            rates = [result.rows / seconds for seconds in result.runs]
            limit = results[place - place % 2]
            ratio = median(limit.runs) / median(result.runs) if place % 2 else None
            note = f"{number((result.pairs or 0) / result.rows)} matches a row" if place % 2 else ""
            means = "of the limit" if place % 2 else ""
            yield Row(Part.LIMITS, what, name, rates, "rows/s", ratio, means, cpu_s=result.cpu_s, note=note)

    def clocks(self) -> Iterator[Row]:
        """Where the time goes, by clocks in the workers."""
        works = {"quotes": self.quotes()}
        if not self.missing(Part.W3):
            works["W3"] = self.w3_work()
        asked = [
            (name, f"{path} {action}")
            for name in works
            for path in ("table", "dataframe")
            for action in ("count", "write")
        ]
        asked = [each for each in asked if each != ("W3", "dataframe write")]
        for work in works.values():
            self.index(work)
        results = self.measured(
            TWO_CORES, *(self.job(works[name], GODWIT, "clocks", how, repeat=1) for name, how in asked)
        )
        for (name, how), result in zip(asked, results, strict=True):
            spent = {key: value for key, value in result.more.items() if key != "wall"}
            total = sum(spent.values())
            note = ", ".join(
                f"{key} {value / total:.0%}" for key, value in sorted(spent.items(), key=lambda item: -item[1])
                if value / total >= 0.005
            )  # fmt: skip
            yield Row(
                Part.CLOCKS, "where the time of two cores goes", f"{GODWIT}, {name}, {how}", [result.more["wall"]],
                note=note, more=spent,
            )  # fmt: skip

    # ------------------------------------------------------------ streams

    def stream(self) -> Iterator[Row]:
        """Batches of 5,000 events as they come: how many a second, how long each takes, and where that goes."""
        work = self.quotes()
        jobs = [
            self.job(work, GODWIT, "stream", f"{min(count, work.subscriptions)}", repeat=1)
            for count in self.scale.stream_filters
        ]
        whole = self.job(work, GODWIT, "stream", "whole", repeat=0)
        found = self.measured(TWO_CORES, whole)[0].more
        what = f"stream, {work.events:,} events a batch × {work.subscriptions:,} subscriptions"
        yield Row(
            Part.STREAM, what, f"{GODWIT}, a backlog", [found["events"] / found["batch_s"]], "events/s",
            found["batch_s"] / found["match_s"], "of the time of match --out", 1.5, at_most=True,
            is_full=self.scale.is_full, more=found,
            note=f"{number(found['batch_s'])} s a batch, its job {number(found['job_s'])} s; match --out "
            f"{number(found['match_s'])} s; {found['bytes'] / 1e6:.1f} MB a batch, "
            f"match --out {found['match_bytes'] / 1e6:.1f} MB; "
            f"{found['files']:.0f} files in all; read back in {number(found['read_s'])} s a batch",
        )  # fmt: skip
        for result in self.measured(TWO_CORES, *jobs):
            found = result.more
            what = f"stream, {found['rows']:,.0f} events a batch × {int(result.job.how):,} subscriptions"
            taken = {key.removesuffix("_s"): value for key, value in found.items() if key.endswith("_s")}
            said = {key: f"{value * 1e3:.0f} ms" for key, value in taken.items()}
            parts = [f"{key} {said[key]}" for key in said if key.startswith(("job", "ledger", "spark"))]
            yield Row(
                Part.STREAM, what, f"{GODWIT}, a backlog", [found["events_a_second"]], "events/s", more=found,
                note=f"{said['batch']} a batch: {', '.join(parts)}; an empty Python job: {said['empty_job']}; "
                f"{found['pairs_a_batch']:,.0f} pairs a batch",
            )  # fmt: skip
            yield Row(
                Part.STREAM, what, f"{GODWIT}, one by one", [found["median_s"]],
                note=f"from a file's arrival until its matches can be read; 95 % within {number(found['p95_s'])} s",
            )  # fmt: skip


def _inherited() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def agree(what: str, results: list[Result], pairs: int | None) -> None:
    """`Disagreement` unless all found as many pairs, and so many if that is known; and some at all."""
    found = {result.job.name: result.pairs for result in results}
    if pairs is not None:
        found["what is known"] = pairs
    if len(set(found.values())) > 1 or not all(found.values()):
        raise Disagreement(f"{what}: {found}")


def main(
    only: Annotated[list[Part] | None, typer.Option(help="What to measure; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and once, to see that all works.")] = False,
    repeat: Annotated[int | None, typer.Option(min=1, help="Runs of which the median is taken.")] = None,
    events: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the quotes are.")] = data.SHARED_EVENTS,
    workloads: Annotated[Path, typer.Option(metavar="DIR", help="Where generate.py is.")] = SHARED_WORKLOADS,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as on a pipe.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The table of BENCHMARKS.md.")] = False,
) -> None:
    """Measure the pipeline. Prints a table on a terminal and JSON lines on a pipe; progress goes to standard error."""
    start = time.perf_counter()

    def log(message: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {message}", file=sys.stderr, flush=True)

    scale = QUICK if quick else FULL
    machine, as_json = this_machine(), not as_markdown and (as_json or not sys.stdout.isatty())
    rows = []

    def take(row: Row) -> None:
        rows.append(replace(row, is_full=scale == FULL))
        if as_json:
            print(json_line(rows[-1], machine), flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    folder = Path(tempfile.mkdtemp(prefix="godwit-bench-"))
    try:
        bench = Bench(replace(scale, repeat=repeat or scale.repeat), folder, events, workloads, log)
        for part in only or Part:
            if missing := bench.missing(part):
                log(f"{part} is skipped: {missing}")
                continue
            log(part)
            for row in bench.rows(part):
                take(row)
        if bench.starts:
            take(Row("start", "start of Spark, kept apart", "Spark", bench.starts))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_markdown:
        print(markdown(rows, machine))
    elif not as_json:
        print_table(rows, machine, f"Spark {version('pyspark')}, DuckDB {version('duckdb')}")


if __name__ == "__main__":
    typer.run(main)
