"""`godwit reproduce`: run a paper's experiments and say claim by claim whether it holds."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit import __version__
from godwit.cli.statuses import STATUS_NO
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.reproduce import Claim

__all__ = ["reproduce"]

ALL = "all"
SEARCHED = "pubmob"
STYLES = {
    "holds": "bold green",
    "holds under a stated reading": "bold yellow",
    "does not hold": "bold red",
    "not decided": "dim",
}
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""Of a session for small traces: most of its time would go into compiling what runs once."""


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Paper: pubmob, rebeca, mobile, spcf, motion, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small runs, in under two minutes (default).")] = False,
    full: Annotated[bool, typer.Option("--full", help="Runs with the paper's parameters, in 4 to 16 minutes.")] = False,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder for figures and traces; each paper has a subfolder.")
    ] = "reproduced",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.", min=0)] = 1,
    seeds: Annotated[
        int, typer.Option(metavar="N", help="Number of seeds, from --seed on; a claim's grade is its worst.", min=1)
    ] = 1,
    search: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="pubmob: try at most N settings of what the paper leaves open, and look for one in which "
            "P2, P3 and P4 hold at once (default: no search). With --full, then run all claims in the best one.",
            min=0,
        ),
    ] = 0,
) -> None:
    """Run the experiments of a paper and compare its claims with the results.

    Prints each claim with the paper's numbers, the measured ones, and a grade: holds, holds under a stated reading,
    does not hold, or not decided (by a quick run). Figures are written as PNG and SVG, and shown with the claims in
    report.html. All numbers are computed by Spark from the traces, which are kept beside them (spcf, motion: see
    measured.json). Exit status 1 means that a claim does not hold under any reading.

    Example: godwit reproduce pubmob --quick
    """
    from godwit.reproduce import check_paper
    from godwit.reproduce.claims import PAPERS
    from godwit.reproduce.report import overall, write_report

    if quick and full:
        raise typer.BadParameter("use only one of --quick and --full")
    papers = list(PAPERS) if paper == ALL else [paper]
    for each in papers:
        check_paper(each)
    if search and papers != [SEARCHED]:
        raise typer.BadParameter(f"--search is for {SEARCHED}, whose settings are searched; not for {paper}")
    changes = _searched(_made(Path(out) / SEARCHED), seed, search) if search else {}
    if search and not full:
        return
    found: dict[str, dict[int, list[Claim]]] = {}
    for each in papers:
        folder = _made(Path(out) / each)
        found[each] = _run(each, folder, full, range(seed, seed + seeds), changes)
        typer.echo(f"{_contents(folder)}: {folder}", err=True)
    report = write_report(Path(out), found, full, __version__)
    typer.echo(f"report: {report}", err=True)
    grades = [
        overall([claim.grade for claim in claims])
        for runs in found.values()
        for claims in zip(*runs.values(), strict=True)
    ]
    if "does not hold" in grades:
        raise typer.Exit(STATUS_NO)


def _searched(folder: Path, seed: int, choices_max: int) -> dict[str, Any]:
    """Search, print every trial, and draw the figure. The changes of the best choice."""
    import msgspec

    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, pubmob_search

    with _spark(SEARCHED, full=False), progress() as bar:
        task = bar.add_task("search", total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        def tell(trial: pubmob_search.Trial) -> None:
            typer.echo(json.dumps(msgspec.to_builtins(trial), ensure_ascii=False))

        setting = Setting(folder=folder, seed=seed, progress=advance)
        trials = pubmob_search.search(setting, choices_max, tell)
    pubmob_search.show(folder, trials)
    best = pubmob_search.best(trials)
    met = [claim for claim in ("P2", "P3", "P4") if best.holds(claim)]
    typer.echo(
        f"best setting: {best.choice}, counted {best.counted}; claims that hold: {', '.join(met) or 'none'}", err=True
    )
    for one, other in pubmob_search.conflicts(trials):
        typer.echo(f"never met together: {one}; {other}", err=True)
    typer.echo(f"search.json and figures: {folder}", err=True)
    return best.choice.changes()


def _run(paper: str, folder: Path, full: bool, seeds: range, changes: dict[str, Any]) -> "dict[int, list[Claim]]":
    """The claims of a paper by seed; each seed has a folder of its own where there are several."""
    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, claims_of

    found: dict[int, list[Claim]] = {}
    with _spark(paper, full), progress() as bar:
        task = bar.add_task(paper, total=1.0)
        for number, seed in enumerate(seeds, start=1):
            which = f"seed {number} of {len(seeds)}: " if len(seeds) > 1 else ""

            def advance(what: str, share: float, which: str = which) -> None:
                bar.update(task, description=f"{which}{what}", completed=share)

            place = _made(folder / f"seed_{seed}") if len(seeds) > 1 else folder
            claims = found.setdefault(seed, [])
            setting = Setting(folder=place, full=full, seed=seed, changes=changes, progress=advance)
            for claim in claims_of(paper, setting):
                claims.append(claim)
                if not sys.stdout.isatty():
                    more = {"paper_key": paper, "seed": seed} if len(seeds) > 1 else {}
                    typer.echo(json.dumps({**_data(claim), **more}, ensure_ascii=False))
            about = {"version": __version__, "paper": paper, "full": full, "seed": seed}
            data = {**about, "claims": [_data(one) for one in claims]}
            (place / "claims.json").write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if sys.stdout.isatty():
        for seed, claims in found.items():
            _show(paper if len(seeds) == 1 else f"{paper}, seed {seed}", claims)
    return found


@contextmanager
def _spark(paper: str, full: bool) -> Iterator[None]:
    """A session, before the experiments take their time, for a paper whose figures Spark reads in traces."""
    from godwit.cli.pipeline import spark_runner
    from godwit.pipeline.spark_session import start
    from godwit.reproduce.claims import WITHOUT_TRACES

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
    """What lies in the folder, in words."""
    named = {path.name for path in folder.iterdir()}
    kinds = {
        "figures": any(name.endswith(".png") for name in named),
        "traces": "traces" in named,
        "measured.json": "measured.json" in named,
        "ways_to_move.md": "ways_to_move.md" in named,
    }
    there = [kind for kind, is_there in kinds.items() if is_there]
    return f"{', '.join(there)} and claims.json" if there else "claims.json"


def _data(claim: "Claim") -> dict[str, object]:
    import msgspec

    data: dict[str, object] = msgspec.to_builtins(claim)
    return {**data, "grade": claim.grade}


def _show(paper: str, found: "list[Claim]") -> None:
    """The claims as a table, and under it what is to be said of each."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{paper}: what the paper claims, and what we found", show_lines=True, expand=True)
    table.add_column("", no_wrap=True)
    for column, ratio in {"claim": 4, "paper": 3, "ours": 7}.items():
        table.add_column(column, overflow="fold", ratio=ratio)
    table.add_column("grade", overflow="fold", width=8)
    for claim in found:
        verdict = Text(claim.grade, style=STYLES[claim.grade])
        what = Text.assemble((f"[{paper} {claim.where}] ", "dim"), claim.claim)
        table.add_row(Text(claim.key, style="bold cyan"), what, Text(claim.paper), Text(claim.ours), verdict)
    console = Console()
    console.print(table)
    for claim in found:
        said = {"asked for": claim.bound, "not decided": "" if claim.holds else claim.undecided}
        said |= {"reading": "" if claim.holds else claim.reading, "": claim.note}
        if any(said.values()):
            console.print(Text(claim.key, style="bold cyan"))
        for name, text in said.items():
            if text:
                console.print(Padding(Text(f"{name}: {text}" if name else text), (0, 0, 0, 4)))
