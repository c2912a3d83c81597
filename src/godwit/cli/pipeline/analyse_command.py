"""`godwit pipeline analyse`: deliveries, delays and costs of runs, computed from their traces."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.pipeline import spark_runner
from godwit.cli.signatures import Argument, Option, echo
from godwit.cli.terminal import Console, Table, Text
from godwit.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["analyse"]

DRAWN_MAX = 20  # runs in one figure
LATENCY_MIN_S = 1e-6  # smaller values are drawn as this on a logarithmic axis
DIGITS = 6  # digits of a number that is not a count
POINTS = 100  # of a distribution, or of a curve over time
TABLES_DRAWN = {"in_ads": "advertisements", "in_subs": "subscriptions"}  # that brokers received, and their labels
SHOWN = {
    "published": "published",
    "deliveries": "delivered",
    "duplicated": "duplicated",
    "out_of_order": "out of order",
    "latency_s": "ms, p50 / p90 / p99",
    "probe_ratios": "first probe, last",
    "moves": "moves",
    "control": "control",
    "control_per_move": "a move",
    "entries": "entries",
    "residue": "residues",
    "out_of_context": "out of context",
    "not_addressed": "not_addressed",
}
"""Columns on a terminal and their headings; a column that is empty for all runs is left out."""


def analyse(
    traces: Annotated[
        list[str],
        Argument(metavar="TRACE", help="Folders that contain traces at any depth, or a table of traces."),
    ],
    out: Annotated[str | None, Option(metavar="DIR", help="Folder for deliveries, runs.json and figures.")] = None,
    from_s: Annotated[
        float | None,
        Option("--from", metavar="SECONDS", help="Start of the measurement (default: end of the warm-up)."),
    ] = None,
    runs: Annotated[str, Option(metavar="A,B", help="Runs to analyse, separated by commas (default: all).")] = "",
    master: spark_runner.Master = "local[*]",
    debug: spark_runner.Debug = False,
) -> None:
    """Compute deliveries, delays and costs of runs from their traces.

    For each run: deliveries, duplicates, deliveries out of order, delays; the share of probes that arrived; moves, and
    control messages per move; entries in brokers' tables; events sent needlessly.

    Example: godwit pipeline analyse runs/ --out figures
    """
    with spark_runner.one_line_errors(debug):
        from godwit.pipeline import analytics, tables
        from godwit.reproduce.trace_tables import CONTROL

        sources = analytics.find(traces, from_s)  # wrong options are reported before Spark starts
        if out is not None:
            tables.check(Path(out) / "deliveries", "deliveries", "overwrite")
    with spark_runner.session(master, "analyse", debug) as spark:
        trace = _chosen(analytics.read(spark, sources), [each.strip() for each in runs.split(",") if each.strip()])
        found = _rounded(analytics.summaries(trace, CONTROL, spark_runner.tell))
        if out is not None:
            spark_runner.tell("writing")
            _write(Path(out), trace, found)
    _show(found)
    if out is not None:
        echo(f"deliveries, runs.json and figures: {out}", err=True)


def _chosen(trace: "DataFrame", runs: list[str]) -> "DataFrame":
    """The rows of some runs; `PipelineError` when there is no such run."""
    if not runs:
        return trace
    from pyspark.sql import functions as fn

    known = sorted(row.run for row in trace.select("run").distinct().collect())
    for run in runs:
        if run not in known:
            more = ", …" if len(known) > DRAWN_MAX else ""
            raise PipelineError(f"--runs names {run!r}, and the runs are {', '.join(known[:DRAWN_MAX])}{more}")
    return trace.where(fn.col("run").isin(runs))


def _rounded(value: Any) -> Any:
    """The same with fewer digits: the last digits of a sum depend on the order in which Spark adds."""
    if isinstance(value, Mapping):
        return {name: _rounded(held) for name, held in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _show(found: Mapping[str, Mapping[str, Any]]) -> None:
    if not sys.stdout.isatty():
        for run, each in found.items():
            echo(json.dumps({"run": run, **each}, ensure_ascii=False))
        return

    columns = [key for key in SHOWN if any(each.get(key) for each in found.values())]
    table = Table(title="runs")
    table.add_column("run")
    for key in columns:
        table.add_column(SHOWN[key], justify="right")
    for run, each in found.items():
        table.add_row(Text(run), *(Text(_cell(key, each.get(key))) for key in columns))
    Console().print(table)


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "latency_s":
        return " / ".join(f"{1_000 * value[share]:,.0f}" for share in ("p50", "p90", "p99"))
    if key == "probe_ratios":
        ratios = list(value.values())
        return f"{ratios[0]:.1%}, {ratios[-1]:.1%}"
    if isinstance(value, dict):
        value = sum(value.values())
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


# ---------------------------------------------------------------- files


def _write(folder: Path, trace: "DataFrame", found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the table of deliveries, runs.json, and the figures."""
    from godwit.pipeline import analytics, tables

    tables.write(analytics.deliveries(trace), folder / "deliveries", "deliveries", "overwrite")
    (folder / "runs.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _draw(folder, trace, found)


def _draw(folder: Path, trace: "DataFrame", found: Mapping[str, Mapping[str, Any]]) -> None:
    from pyspark.sql import functions as fn

    from godwit.pipeline import analytics
    from godwit.reproduce.figures import lines

    runs = list(found)[:DRAWN_MAX]
    said = "" if len(runs) == len(found) else f"{len(runs)} of {len(found)} runs are drawn; --runs names others."
    some = trace.where(fn.col("run").isin(runs))
    if any("latency_s" in found[run] for run in runs):
        shares = [number / POINTS for number in range(POINTS + 1)]
        rows = {row.run: row.quantiles for row in analytics.latency(some, shares).collect()}
        series = {
            run: [(max(each, LATENCY_MIN_S), share) for each, share in zip(rows[run], shares, strict=True)]
            for run in runs
            if run in rows
        }
        x, y = "seconds from publication to delivery", "share of deliveries"
        lines(folder, "latency", series, title="Time of delivery", x=x, y=y, x_log=True, steps=True, caption=said)
    if any("probe_ratios" in found[run] for run in runs):
        ratios = {
            run: [(float(number), ratio) for number, ratio in found[run].get("probe_ratios", {}).items()]
            for run in runs
        }
        title, x, y = "Probe delivery", "probe since the publisher connected", "delivery ratio"
        lines(folder, "probes", ratios, title=title, x=x, y=y, y_range=(0.0, 1.05), caption=said)
    if any("entries" in found[run] for run in runs):
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in analytics.table_curve(some, POINTS).orderBy("run", "table", "at").collect():
            if table := TABLES_DRAWN.get(row.table):
                name = table if len(runs) == 1 else f"{row.run}: {table}"
                curves.setdefault(name, []).append((row.at, float(row.entries)))
        title, x, y = "Entries in the tables of all brokers", "seconds", "entries"
        if curves:
            lines(folder, "tables", curves, title=title, x=x, y=y, steps=True, caption=said)
