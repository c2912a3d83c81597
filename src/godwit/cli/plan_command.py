"""`godwit plan`: settings for brokers, with simulated evidence, from traces of clients and positions of brokers."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session
from godwit.cli.signatures import Argument, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.planning.plan import Plan, PlanSettings

__all__ = ["plan"]

PAIRS_SHOWN = 10
BROKERS_SHOWN = 30


def plan(
    fixes: Annotated[
        list[str],
        Argument(
            metavar="FIXES",
            help="Traces: CSV or Parquet files with time, id, lon and lat, folders of these, or tables of fixes.",
        ),
    ],
    brokers: Annotated[
        str,
        Option(
            metavar="FILE", help="Positions of brokers: CSV with broker, lon, lat, and optionally radius_m and address."
        ),
    ],
    radius: Annotated[float | None, Option(metavar="METRES", help="Range of brokers without radius_m.")] = None,
    out: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder for plan.json, the configuration files and the simulated scenario."),
    ] = None,
    rate: Annotated[float, Option(metavar="NUMBER", help="Events that a client publishes per second.")] = 1.0,
    wanted: Annotated[float, Option(metavar="SHARE", help="Share of all events that a client receives.")] = 0.1,
    mode: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Mode of moving to simulate; repeatable (default: relocate, ask, named, carry)."),
    ] = None,
    reduction: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Routing reduction to simulate; repeatable (default: flooding, identity, covering, merging).",
        ),
    ] = None,
    seed: Annotated[int, Option(metavar="N", help="Random seed of the simulation.", min=0)] = 1,
    speed_max: Annotated[
        float, Option(metavar="KMH", help="Highest plausible speed; positions that imply more are left out.")
    ] = 200.0,
    gap: Annotated[float, Option(metavar="SECONDS", help="Longest gap between two positions of one trip.")] = 300.0,
    engine: Annotated[
        str,
        Option(metavar="NAME", help="Reader of the traces: local, spark, or auto, by their size and form."),
    ] = "auto",
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Plan a network of brokers for clients that move.

    Reports the share of positions in range of each broker, the gaps, the moves between brokers, and the expected load.
    Simulates the busiest hour in each mode of moving with each routing reduction, chooses the best of the safe ones,
    and writes a configuration file for each broker. Exit status 1 if no simulated setting is safe.

    Example: godwit plan cabs.csv --brokers masts.csv --radius 800 --out plan
    """
    with one_line_errors(debug):
        from godwit.pipeline.mobility.cleaning import CleaningOptions
        from godwit.planning.assessment import Rates
        from godwit.planning.evidence import MODES, REDUCTIONS
        from godwit.planning.plan import PlanSettings, check_out, placement_of
        from godwit.planning.trace_readers import engine_for

        settings = PlanSettings(
            rates=Rates(events_per_s=rate, wanted=wanted),
            cleaning=CleaningOptions(speed_max, gap),
            modes=tuple(mode or MODES),
            reductions=tuple(reduction or REDUCTIONS),
            seed=seed,
        )
        placement_of(brokers, radius)  # wrong options and files are reported before any long computation
        chosen = engine_for(fixes, engine)
        if out is not None:
            check_out(out)
    if chosen == "spark":
        made = _by_spark(fixes, brokers, radius, settings, out, master, debug)
    else:
        made = _local(fixes, brokers, radius, settings, out, debug)
    _show(made, out)
    if made.choice is None:
        echo("no simulated setting is safe: see the evidence; no configuration was written", err=True)
        raise Exit(STATUS_NO)


def _local(
    fixes: list[str], brokers: str, radius: float | None, settings: "PlanSettings", out: Path | None, debug: bool
) -> "Plan":
    from godwit.planning.plan import make_plan
    from godwit.planning.trace_readers import LocalReader

    with one_line_errors(debug), _progress() as tell:
        tell("reading positions (without Spark)", 0.0)
        return make_plan(LocalReader(fixes), "local", brokers, radius, settings, out, tell)


def _by_spark(
    fixes: list[str],
    brokers: str,
    radius: float | None,
    settings: "PlanSettings",
    out: Path | None,
    master: str,
    debug: bool,
) -> "Plan":
    from tempfile import TemporaryDirectory

    from godwit.cli.pipeline.spark_runner import tell as say
    from godwit.planning.plan import make_plan
    from godwit.planning.trace_readers import SparkReader

    with TemporaryDirectory() as scratch, session(master, "plan", debug) as spark:
        say("reading positions (with Spark)")
        folder = Path(scratch) / "fixes" if out is None else out / "tables" / "fixes"
        reader = SparkReader(spark, fixes, folder)
        return make_plan(reader, "spark", brokers, radius, settings, out, lambda word, _: say(word))


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on standard error if it is a terminal, otherwise a line for each step."""
    from godwit.cli.match_command import progress

    with progress() as bar:
        task = bar.add_task("plan", total=1.0)

        def tell(word: str, done: float) -> None:
            bar.update(task, completed=done, description=word)
            if not sys.stderr.isatty():
                echo(f"{100 * done:.0f} % {word}", err=True)

        yield tell


# ---------------------------------------------------------------- showing


def _show(made: "Plan", out: Path | None) -> None:
    """Tables on a terminal; on a pipe a line of JSON for each subject."""
    if sys.stdout.isatty():
        _draw(made, out)
        return
    for line in lines_of(made.to_data()):
        echo(json.dumps(line, ensure_ascii=False))


def lines_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan as JSON documents of one subject each, named by `part`."""
    assessment = dict(data["assessment"])
    loads, pairs, gaps = (assessment.pop(name) for name in ("brokers", "pairs", "gaps"))
    yield {"part": "trace", "version": data["version"], "engine": data["engine"], **assessment}
    yield from ({"part": "broker", **row} for row in loads)
    yield from ({"part": "gap", **row} for row in gaps)
    yield from ({"part": "pair", **row} for row in pairs)
    yield from ({"part": "link", **row} for row in data["links"])
    yield {"part": "simulation", **(data["evidence"]["setup"] or {})}
    yield from ({"part": "evidence", **row} for row in data["evidence"]["rows"])
    yield {"part": "choice", **(data["choice"] or {"mode": None, "reduction": None, "reasons": []})}
    yield from ({"part": "file", "name": name} for name in data["files"])


def _draw(made: "Plan", out: Path | None) -> None:
    console = Console()
    found = made.assessment
    left_out = sum(found.left_out.values()) + found.unread
    console.print(
        Text(
            f"{found.clients:,} clients, {found.fixes:,} positions in {found.hours:,.1f} hours, {left_out:,} left out "
            f"(read {'by Spark' if made.engine == 'spark' else 'without Spark'})"
        )
    )
    rows = [
        [
            each.broker,
            f"{each.within:.1%}",
            f"{each.served:.1%}",
            f"{each.clients_mean:,.1f}",
            f"{each.clients_peak:,}",
            f"{each.published_per_s:,.1f}",
            f"{each.delivered_per_s:,.1f}",
        ]
        for each in sorted(found.brokers, key=lambda each: -each.served)
    ]
    head = ["broker", "in area", "nearest", "clients", "at most", "events/s in", "events/s out"]
    _table(console, f"coverage {found.covered:.1%}", head, rows, BROKERS_SHOWN)
    gaps = [[f"{each.lat:.4f}, {each.lon:.4f}", f"{each.fixes:,}", f"{each.share:.1%}"] for each in found.gaps]
    if gaps:
        _table(console, f"gaps, cells of {found.gap_cell_m:,} m", ["lat, lon", "positions", "share"], gaps, PAIRS_SHOWN)
    linked = {(link.a, link.b) for link in made.links} | {(link.b, link.a) for link in made.links}
    pairs = [
        [
            f"{each.a} – {each.b}",
            f"{each.moves:,}",
            f"{each.clients:,}",
            f"{each.share:.1%}",
            "linked" if (each.a, each.b) in linked else "",
        ]
        for each in found.pairs
    ]
    title = (
        f"moves: {found.moves_per_hour:,.1f} an hour, {found.moves_per_client_hour:,.2f} by a client; "
        f"{found.handovers:,} hand-overs, {found.returns:,} after silence"
    )
    _table(console, title, ["between", "moves", "clients", "share", "link"], pairs, PAIRS_SHOWN)
    _draw_evidence(made, console, out)


def _draw_evidence(made: "Plan", console: "Console", out: Path | None) -> None:
    setup, choice = made.evidence.setup, made.choice
    if setup is not None:
        rows = [
            [
                each.mode,
                each.reduction,
                "yes" if each.safe else "NO",
                f"{each.lost:,}",
                f"{each.out_of_order:,}",
                f"{each.messages:,}",
                f"{each.bytes_sent:,}",
                _ms(each.gap_p50_ms),
                _ms(each.gap_p99_ms),
            ]
            for each in made.evidence.rows
        ]
        head = ["mode", "reduction", "safe", "lost", "out of order", "messages", "bytes", "gap p50", "gap p99"]
        title = (
            f"simulated: {setup.clients} of {setup.clients_of:,} clients, {setup.brokers} of {setup.brokers_of:,} "
            f"brokers, {setup.seconds:,.0f} s of the trace"
        )
        _table(console, title, head, rows, len(rows))
    if choice is not None:
        console.print(Text(f"mode {choice.mode}, reduction {choice.reduction}", style="bold green"))
        for reason in choice.reasons:
            console.print(Text(f"  {reason}"))
    if out is not None and made.files:
        console.print(Text(f"{len(made.files):,} configuration files: {out / 'brokers'}"))


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


def _table(console: "Console", title: str, head: list[str], rows: list[list[str]], shown_max: int) -> None:
    table = Table(title=title)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows[:shown_max]:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    if len(rows) > shown_max:
        console.print(Text(f"… and {len(rows) - shown_max:,} more"))
