"""Compare reductions: run the papers' scenarios once with each, and put the results side by side.

*Rules.*
1. All runs of a scenario have the same seed, so the same clients publish the same events and make the same moves.
2. A run that violates a delivery guarantee is part of the table and marked: a reduction that loses events is not cheap.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from godwit.simulator.run import run
from godwit.simulator.scenario import SUFFIX, load, named, with_changes
from godwit.simulator.summary import Summary

__all__ = ["PAPER_SCENARIOS", "REDUCTIONS", "Row", "compare", "draw"]

REDUCTIONS = ("flooding", "simple", "identity", "covering", "merging")
PAPER_SCENARIOS = ("city", "roam")
"""The city of [pubmob §4], and clients that roam over a tree while links break [rebeca §4]."""

EVENTS = ("Publish", "Delivery")  # what carries events; all else is control


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One reduction in one scenario."""

    scenario: str
    reduction: str
    passed: bool
    published: int
    delivered: int
    lost: int
    duplicated: int
    event_messages: int  # messages that carry events, each hop counted
    control_messages: int  # subscriptions, advertisements, moves and the like
    table_entries: int  # the most that all brokers' tables held together
    bytes_sent: int
    latency_p50_ms: float | None
    seconds: float


def compare(
    reductions: Sequence[str],
    scenarios: Sequence[str],
    seed: int,
    changes: Sequence[str] = (),
    before_run: Callable[[int, int, str], None] = lambda number, total, name: None,
) -> list[Row]:
    """A row for each scenario and reduction. `before_run` is called with the number of the run, their total, and its
    name."""
    pairs = [(scenario, reduction) for scenario in scenarios for reduction in reductions]
    prepared = [_prepared(scenario, [*changes, f"routing.reduction={reduction}"]) for scenario, reduction in pairs]
    rows = []
    for number, ((scenario, reduction), chosen) in enumerate(zip(pairs, prepared, strict=True), start=1):
        before_run(number, len(pairs), f"{scenario}, {reduction}")
        rows.append(_row(scenario, reduction, run(chosen, seed, lambda _: None, None)))
    return rows


def _prepared(scenario: str, changes: list[str]) -> Any:
    return load(scenario, changes) if scenario.endswith(SUFFIX) else with_changes(named(scenario), changes)


def _row(scenario: str, reduction: str, summary: Summary) -> Row:
    events = sum(summary.messages.get(kind, 0) for kind in EVENTS)
    return Row(
        scenario=scenario,
        reduction=reduction,
        passed=summary.passed,
        published=summary.published,
        delivered=summary.delivered,
        lost=summary.lost,
        duplicated=summary.duplicated,
        event_messages=events,
        control_messages=summary.messages_sent - events,
        table_entries=summary.table_entries,
        bytes_sent=summary.bytes_sent,
        latency_p50_ms=summary.latency_p50_ms,
        seconds=round(summary.wall_s, 2),
    )


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Bars of each reduction, a row of panels for each scenario, as PNG and SVG: the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    measures = {
        "event_messages": "messages with events",
        "control_messages": "control messages",
        "table_entries": "table entries",
    }
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    figure = Figure(figsize=(9.0, 2.6 * len(scenarios) + 0.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(scenarios), len(measures), squeeze=False)
    for scenario, across in zip(scenarios, panels, strict=True):
        shown = [row for row in rows if row.scenario == scenario]
        for (field, label), panel in zip(measures.items(), across, strict=True):
            colours = ["#4477aa" if row.reduction in REDUCTIONS else "#cc6677" for row in shown]
            panel.barh([row.reduction for row in shown], [getattr(row, field) for row in shown], color=colours)
            panel.invert_yaxis()
            panel.set_title(f"{scenario}: {label}", fontsize=9)
            panel.tick_params(labelsize=8)
            panel.locator_params(axis="x", nbins=4)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"comparison.{kind}" for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files
