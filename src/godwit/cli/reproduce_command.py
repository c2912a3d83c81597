"""`godwit reproduce`: run a paper's experiments and say claim by claim whether it holds."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit import __version__
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.reproduce import Claim

__all__ = ["reproduce"]

STATUS_NO = 1
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""Of a session for small traces: most of its time would go into compiling what runs once."""


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Paper: pubmob, rebeca, mobile, spcf or motion.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small runs, in under two minutes (default).")] = False,
    full: Annotated[bool, typer.Option("--full", help="Runs with the paper's parameters, in 4 to 16 minutes.")] = False,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder for figures and traces; each paper has a subfolder.")
    ] = "reproduced",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.", min=0)] = 1,
) -> None:
    """Run the experiments of a paper and compare its claims with the results.

    Prints each claim with the paper's numbers, the measured ones, and whether it holds. Figures are written as PNG and
    SVG. All numbers are computed by Spark from the traces, which are kept beside them (spcf, motion: see
    measured.json). Exit status 0 means that every claim holds, 1 that one does not.

    Example: godwit reproduce pubmob --quick
    """
    from godwit.cli.match_command import progress
    from godwit.reproduce import Setting, check_paper, claims_of

    if quick and full:
        raise typer.BadParameter("use only one of --quick and --full")
    check_paper(paper)
    folder = _made(Path(out) / paper)
    found: list[Claim] = []
    with _spark(paper, full), progress() as bar:
        task = bar.add_task(paper, total=1.0)

        def advance(what: str, share: float) -> None:
            bar.update(task, description=what, completed=share)

        for claim in claims_of(paper, Setting(folder=folder, full=full, seed=seed, progress=advance)):
            found.append(claim)
            if not sys.stdout.isatty():
                typer.echo(json.dumps(_data(claim), ensure_ascii=False))
    about = {
        "version": __version__,
        "paper": paper,
        "full": full,
        "seed": seed,
        "claims": [_data(one) for one in found],
    }
    (folder / "claims.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if sys.stdout.isatty():
        _show(paper, found)
    typer.echo(f"{_contents(folder)}: {folder}", err=True)
    if not all(claim.holds for claim in found):
        raise typer.Exit(STATUS_NO)


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
    return data


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
    table.add_column("holds", overflow="fold", width=5)
    for claim in found:
        verdict = Text("holds", style="bold green") if claim.holds else Text("does not hold", style="bold red")
        what = Text.assemble((f"[{paper} {claim.where}] ", "dim"), claim.claim)
        table.add_row(Text(claim.key, style="bold cyan"), what, Text(claim.paper), Text(claim.ours), verdict)
    console = Console()
    console.print(table)
    for claim in found:
        if claim.note:
            console.print(Text(claim.key, style="bold cyan"))
            console.print(Padding(Text(claim.note), (0, 0, 0, 4)))
