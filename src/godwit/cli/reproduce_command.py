"""`godwit reproduce`: run the experiments of a paper, and report for each claim whether it holds."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit import __version__
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Indented, Table, Text
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.cli.terminal.live import Task
    from godwit.reproduce import Claim
    from godwit.reproduce.paper_jobs import JobFailure, JobResult, PaperJob
    from godwit.reproduce.pubmob_confirm import ConfirmedSetting

__all__ = ["reproduce"]

ALL = "all"
SEARCHED = "pubmob"
STYLES = {
    "holds": "bold green",
    "holds under a stated reading": "bold yellow",
    "does not hold": "bold red",
    "not decided": "dim",
}
SEEDS_FULL = 5


def reproduce(
    paper: Annotated[str, Argument(metavar="PAPER", help="Paper: pubmob, rebeca, mobile, spcf, motion, or all.")],
    quick: Annotated[bool, Option("--quick", help="Small runs; all papers take under 5 minutes (default).")] = False,
    full: Annotated[
        bool, Option("--full", help="The papers' parameters, 5 seeds; all papers take about 46 minutes on 2 cores.")
    ] = False,
    out: Annotated[
        str, Option(metavar="DIR", help="Folder for figures and traces; each paper has a subfolder.")
    ] = "reproduced",
    seed: Annotated[int, Option(metavar="N", help="Random seed.", min=0)] = 1,
    seeds: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Number of seeds, from --seed on (default: 5 with --full, else 1); a claim's grade is its worst.",
            min=1,
        ),
    ] = None,
    jobs: Annotated[
        int | None, Option(metavar="N", help="Processes at once (default: number of processors).", min=1)
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue an interrupted run in --out: run only what is missing.")
    ] = False,
    confirm: Annotated[
        bool,
        Option(
            "--confirm",
            help="pubmob: only repeat the settings that tell most about claims P3 and P4 (default of --seeds: 5); "
            "with --setting only these.",
        ),
    ] = False,
    repeated: Annotated[
        str,
        Option(
            "--setting",
            metavar="KEYS",
            help="pubmob: check all claims in one of the settings of --confirm, A to K (default: the usual setting). "
            "With --confirm: repeat only these, such as G,H,I.",
        ),
    ] = "",
    search: Annotated[
        int,
        Option(
            metavar="N",
            help="pubmob: try at most N settings of the parameters that the paper does not state, to find one where "
            "claims P2, P3 and P4 hold together (0: no search). With --full, then check all claims in the best one.",
            min=0,
        ),
    ] = 0,
) -> None:
    """Run the experiments of a paper, and check its claims.

    Prints each claim with the paper's numbers, the measured ones, and a grade: holds, holds under a stated reading,
    does not hold, or not decided (by a quick run). Figures are written as PNG and SVG, and shown with the claims in
    report.html. All numbers are computed by Spark from the traces, which are kept beside them (spcf, motion: see
    measured.json). Exit status 1 means that a claim does not hold under any reading.

    Example: godwit reproduce pubmob --quick
    """
    from godwit.reproduce import check_paper
    from godwit.reproduce.claims import PAPERS
    from godwit.reproduce.report import grades

    if quick and full:
        raise BadParameter("use only one of --quick and --full")
    papers = list(PAPERS) if paper == ALL else [paper]
    for each in papers:
        check_paper(each)
    for option, is_given in (("--search", bool(search)), ("--confirm", confirm), ("--setting", bool(repeated))):
        if is_given and papers != [SEARCHED]:
            raise BadParameter(f"{option} is for {SEARCHED}, whose settings are searched; not for {paper}")
    if confirm:
        repeats = range(seed, seed + (seeds or SEEDS_FULL))
        _confirmed(_made(Path(out) / SEARCHED), repeats, _settings(repeated), jobs)
        return
    if repeated and search:
        raise BadParameter("use only one of --setting and --search")
    changes = _changes_of(repeated) if repeated else {}
    if search:
        changes = _searched(_made(Path(out) / SEARCHED), seed, search)
    if search and not full:
        return
    chosen = range(seed, seed + (seeds or (SEEDS_FULL if full else 1)))
    if len(papers) * len(chosen) == 1 and not resume:
        found = {paper: _run(paper, _made(Path(out) / paper), full, seed, changes)}
        _report(Path(out), found, full, "")
    else:
        found = _run_jobs(Path(out), papers, full, chosen, changes, jobs, resume)
    if "does not hold" in grades(found).values():
        raise Exit(STATUS_NO)


def _settings(keys: str) -> "list[ConfirmedSetting]":
    """The repeated settings with these keys, separated by commas, in the order of the list; all without keys."""
    from godwit.reproduce.pubmob_confirm import SETTINGS

    chosen = [key.strip() for key in keys.split(",")] if keys else [each.key for each in SETTINGS]
    known = {each.key: each for each in SETTINGS}
    for key in chosen:
        if key not in known:
            raise BadParameter(f"--setting {key}: allowed are {', '.join(known)}")
    return [each for key, each in known.items() if key in chosen]


def _changes_of(key: str) -> dict[str, Any]:
    """The changes of a repeated setting to the usual one."""
    settings = _settings(key)
    if len(settings) > 1:
        raise BadParameter(f"--setting {key}: allowed is one setting; several can be repeated with --confirm")
    return settings[0].choice.changes()


def _report(out: Path, found: "dict[str, dict[int, list[Claim]]]", full: bool, took: str) -> None:
    from godwit.reproduce.report import write_report

    for paper in found:
        echo(f"{_contents(out / paper)}: {out / paper}", err=True)
    echo(f"report: {write_report(out, found, full, __version__, took)}", err=True)


def _run_jobs(
    out: Path, papers: list[str], full: bool, seeds: range, changes: dict[str, Any], jobs: int | None, resume: bool
) -> "dict[str, dict[int, list[Claim]]]":
    """Run all papers with all seeds in several processes; write the figures of all seeds, and the report."""
    from godwit.pipeline.spark_session import check_java
    from godwit.reproduce.claims import WITHOUT_TRACES
    from godwit.reproduce.paper_jobs import PaperJob, by_paper, check_failures, cores

    def place(paper: str, seed: int) -> Path:
        return out / paper / f"seed_{seed}" if len(seeds) > 1 else out / paper

    planned = [
        PaperJob(
            paper=paper,
            seed=seed,
            folder=_made(place(paper, seed)),
            full=full,
            version=__version__,
            changes=changes,
            resume=resume,
        )
        for paper in papers
        for seed in seeds
    ]
    began, workers = time.monotonic(), jobs or cores()
    if len(seeds) > 1 or not set(papers) <= set(WITHOUT_TRACES):
        check_java()  # before anything runs
    results, failures = _results(planned, full, workers)
    check_failures(failures, len(planned))
    found = by_paper(results, papers)
    if len(seeds) > 1:
        _draw_all_seeds({paper: {seed: place(paper, seed) for seed in seeds} for paper in papers}, out)
    minutes = (time.monotonic() - began) / 60
    processes = f"{workers} process{'es' if workers > 1 else ''}"
    took = f"{len(planned)} runs of experiments took {minutes:.1f} minutes in {processes}"
    took += f" ({sum(each.cpu_s for each in results) / 60:.1f} minutes of processor time without Spark's)."
    if sys.stdout.isatty():
        for paper, runs in found.items():
            for seed, claims in runs.items():
                _show(paper if len(seeds) == 1 else f"{paper}, seed {seed}", claims)
    echo(took, err=True)
    _report(out, found, full, took)
    return found


def _results(planned: "list[PaperJob]", full: bool, workers: int) -> "tuple[list[JobResult], list[JobFailure]]":
    """Run all jobs, with what runs and an estimate of the rest on standard error."""
    from godwit.cli.terminal import Progress
    from godwit.cli.terminal.live import clock_of
    from godwit.reproduce.job_estimates import JobEstimates, JobKey, in_words
    from godwit.reproduce.paper_jobs import JobFailure, run_jobs

    estimates = JobEstimates([(job.paper, job.seed) for job in planned], full, workers)
    results: list[JobResult] = []
    failures: list[JobFailure] = []
    began = time.monotonic()

    def on_begin(job: JobKey) -> None:
        estimates.begin(job, time.monotonic())

    def tail(task: "Task") -> str:
        now = time.monotonic()
        left, running = estimates.left_s(now), ", ".join(f"{paper} {seed}" for paper, seed in estimates.running)
        task.completed = (now - began) / (now - began + left) if results or running else 0.0
        return f"{task.share:>4.0%}  {clock_of(now - began)}, {in_words(left)} left  {running}"

    with Progress(tail, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"0 of {len(planned)} runs done", total=1.0)
        for result in run_jobs(planned, workers, on_begin):
            key = result.paper, result.seed
            name = f"{result.paper} with seed {result.seed}"
            if isinstance(result, JobFailure):
                failures.append(result)
                estimates.end(key, None)
                what = f"{name} failed: {result.reason}"
            else:
                results.append(result)
                estimates.end(key, result.wall_s)
                _tell_claims(result.paper, result.seed, result.claims)
                what = f"{name} took {result.wall_s:.0f} s"
            done = f"{len(results)} of {len(planned)} runs done"
            bar.update(task, description=done)
            bar.print(f"{done}; {what}; {in_words(estimates.left_s(time.monotonic()))} left")
    return results, failures


def _draw_all_seeds(folders: dict[str, dict[int, Path]], out: Path) -> None:
    """Draw the figures over all seeds, in the folder of each paper."""
    from godwit.cli.pipeline import spark_runner
    from godwit.pipeline.spark_session import start
    from godwit.reproduce.paper_jobs import SHORT_LIVED
    from godwit.reproduce.seed_figures import draw_all_seeds

    with spark_runner.one_line_errors():
        spark = start(name="godwit reproduce", more=SHORT_LIVED)
        try:
            for paper, of_seeds in folders.items():
                draw_all_seeds(spark, out / paper, of_seeds)
        finally:
            spark.stop()


def _confirmed(folder: Path, seeds: range, settings: "list[ConfirmedSetting]", jobs: int | None) -> None:
    """Repeat settings of `pubmob_confirm`, print every trial, and draw the figure."""
    import msgspec

    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, pubmob_confirm

    with _spark(SEARCHED, full=False), progress() as bar:
        task = bar.add_task("settings", total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        def tell(trial: pubmob_confirm.SeedTrial) -> None:
            echo(json.dumps(msgspec.to_builtins(trial), ensure_ascii=False))

        setting = Setting(folder=folder, processes=jobs, progress=advance)
        found = pubmob_confirm.confirm(setting, seeds, settings, tell)
    pubmob_confirm.show(folder, found)
    echo(f"confirmed.json and figures: {folder}", err=True)


def _searched(folder: Path, seed: int, choices_max: int) -> dict[str, Any]:
    """Search, print every trial, and draw the figure. Returns the changes of the best choice."""
    import msgspec

    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, pubmob_search

    with _spark(SEARCHED, full=False), progress() as bar:
        task = bar.add_task("search", total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        def tell(trial: pubmob_search.Trial) -> None:
            echo(json.dumps(msgspec.to_builtins(trial), ensure_ascii=False))

        setting = Setting(folder=folder, seed=seed, progress=advance)
        trials = pubmob_search.search(setting, choices_max, tell)
    pubmob_search.show(folder, trials)
    best = pubmob_search.best(trials)
    met = [claim for claim in ("P2", "P3", "P4") if best.holds(claim)]
    echo(f"best setting: {best.choice}, counted {best.counted}; claims that hold: {', '.join(met) or 'none'}", err=True)
    for one, other in pubmob_search.conflicts(trials):
        echo(f"never met together: {one}; {other}", err=True)
    echo(f"search.json and figures: {folder}", err=True)
    return best.choice.changes()


def _run(paper: str, folder: Path, full: bool, seed: int, changes: dict[str, Any]) -> "dict[int, list[Claim]]":
    """Run the claims of one paper with one seed in this process."""
    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, claims_of
    from godwit.reproduce.paper_jobs import JobResult, write_claims

    claims: list[Claim] = []
    began, cpu = time.monotonic(), time.process_time()
    with _spark(paper, full), progress() as bar:
        task = bar.add_task(paper, total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        setting = Setting(folder=folder, full=full, seed=seed, changes=changes, progress=advance)
        for claim in claims_of(paper, setting):
            claims.append(claim)
            _tell_claims("", seed, [claim])
    result = JobResult(
        paper=paper, seed=seed, claims=claims, wall_s=time.monotonic() - began, cpu_s=time.process_time() - cpu
    )
    write_claims(folder, result, full, __version__, changes)
    if sys.stdout.isatty():
        _show(paper, claims)
    return {seed: claims}


def _tell_claims(paper: str, seed: int, claims: "list[Claim]") -> None:
    """Print a line of JSON for each claim on a pipe; with paper and seed if there are several."""
    from godwit.reproduce.paper_jobs import claim_data

    if sys.stdout.isatty():
        return
    more = {"paper_key": paper, "seed": seed} if paper else {}
    for claim in claims:
        echo(json.dumps({**claim_data(claim), **more}, ensure_ascii=False))


@contextmanager
def _spark(paper: str, full: bool) -> Iterator[None]:
    """Start a Spark session before the experiments, for a paper whose figures are computed from traces."""
    from godwit.cli.pipeline import spark_runner
    from godwit.pipeline.spark_session import start
    from godwit.reproduce.claims import WITHOUT_TRACES
    from godwit.reproduce.paper_jobs import SHORT_LIVED

    with spark_runner.one_line_errors():
        if paper in WITHOUT_TRACES:
            yield
            return
        spark = start(name="godwit reproduce", more=None if full else SHORT_LIVED)
        try:
            yield
        finally:
            spark.stop()


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GodwitError(f"--out {folder.parent}: {error.strerror or error}") from None
    return folder


def _contents(folder: Path) -> str:
    """A description of the files in the folder."""
    named = {path.name for path in folder.iterdir()}
    kinds = {
        "figures": any(name.endswith(".png") for name in named),
        "traces": "traces" in named,
        "measured.json": "measured.json" in named,
        "ways_to_move.md": "ways_to_move.md" in named,
    }
    there = [kind for kind, is_there in kinds.items() if is_there]
    return f"{', '.join(there)} and claims.json" if there else "claims.json"


def _show(paper: str, found: "list[Claim]") -> None:
    """Print the claims as a table, and the remarks on each below it."""

    table = Table(title=f"{paper}: what the paper claims, and what we found", show_lines=True)
    table.add_column("", no_wrap=True)
    for column, ratio in {"claim": 4, "paper": 3, "ours": 7}.items():
        table.add_column(column, ratio=ratio)
    table.add_column("grade", width=8)
    for claim in found:
        verdict = Text(claim.grade, style=STYLES[claim.grade])
        what = Text.assemble((f"[{paper} {claim.where}] ", "dim"), claim.claim)
        table.add_row(Text(claim.key, style="bold cyan"), what, Text(claim.paper), Text(claim.ours), verdict)
    console = Console()
    console.print(table)
    for claim in found:
        said = {"bound": claim.bound, "not decided": "" if claim.holds else claim.undecided}
        said |= {"reading": "" if claim.holds else claim.reading, "": claim.note}
        if any(said.values()):
            console.print(Text(claim.key, style="bold cyan"))
        for name, text in said.items():
            if text:
                console.print(Indented(f"{name}: {text}" if name else text, 4))
