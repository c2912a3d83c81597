"""All steps from fixes to the files for the simulator and brokers.

*Theory.* Fixes are read and marked once, and cached by Spark. All further steps are done for cells and, if a placement
is given, also for brokers. The results, in a folder:

| file | is |
|---|---|
| `movement.json`, `model.json`, `dwell.json`, `proxies.json` | see `mined_files.py` |
| `accuracy.json` | accuracy of the next-place model and of a baseline (`prediction.py`) |
| `tables/visits`, `tables/transitions`, `tables/pairs`, `tables/stays`, `tables/proxies` | Parquet |
| `tables/fixes` | the table of the input files, with a quarantine for unreadable lines |
| `movement.png`, `accuracy.png` | plots, where matplotlib is installed |
| `brokers/` | all of this for brokers, with `coverage.json` and `tables/cells` |

*Rules.*
1. Every line is accounted for: read = used + unread + left out, by reason.
2. An input without a usable fix, or without a transition, is an error.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from godwit.errors import PipelineError
from godwit.pipeline.mobility import coverage, fix_sources, mined_files, prediction, staypoints, visits
from godwit.pipeline.mobility.cells import BrokerPlacement, Cells, H3Cells, PlaceMap
from godwit.pipeline.mobility.cleaning import CleaningOptions, marked
from godwit.pipeline.mobility.staypoints import StayOptions
from godwit.pipeline.schemas import ABOUT
from godwit.pipeline.tables import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MiningSettings", "check_out", "mine"]


@dataclass(frozen=True)
class MiningSettings:
    """The settings of mining."""

    cells: Cells = field(default_factory=lambda: H3Cells(8))
    brokers: BrokerPlacement | None = None
    cleaning: CleaningOptions = field(default_factory=CleaningOptions)
    staying: StayOptions = field(default_factory=StayOptions)
    steps_min: int = 3
    proxy_share: float = 0.9

    def __post_init__(self) -> None:
        if self.steps_min < 1:
            raise PipelineError(f"steps that are seen {self.steps_min} times at least: allowed is 1 or more")
        mined_files.check_share(self.proxy_share)


def mine(
    spark: "SparkSession",
    sources: Sequence[str],
    out: Path,
    settings: MiningSettings,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Mine fixes, write the files, and return the figures. `tell` is called with each step."""
    check_out(out)
    tell("reading positions")
    read, unread = fix_sources.read(spark, sources, out / "tables" / "fixes")
    fixes = marked(read, settings.cleaning).persist()
    try:
        tell("cleaning")
        summary, usual_s = _accounted(fixes, unread)
        tell("stay points")
        stays = staypoints.stay_points(fixes, settings.staying)
        _save(stays, out / "tables" / "stays")
        summary["stay_points"] = spark.read.parquet(spark_path(out / "tables" / "stays")).count()
        in_cells = visits.placed(fixes.where("trip is not null").drop("fault"), settings.cells)
        summary |= _mined(spark, in_cells, settings.cells, out, settings, usual_s, tell)
        if settings.brokers is not None:
            at_brokers = visits.placed(in_cells.withColumnRenamed("place", "cell"), settings.brokers).persist()
            found = _mined(spark, at_brokers, settings.brokers, out / "brokers", settings, usual_s, tell)
            summary |= {f"brokers_{name}": held for name, held in found.items()}
            summary |= _covered(spark, at_brokers, out / "brokers")
            at_brokers.unpersist()
    finally:
        fixes.unpersist()
    return summary


def check_out(out: Path) -> None:
    """Raise `PipelineError` if files must not or cannot be written to a folder."""
    if (out / ABOUT).exists():
        raise PipelineError(f"{out} is a table: use another --out")
    if out.exists() and not out.is_dir():
        raise PipelineError(f"{out} is not a folder: use another --out")


def _accounted(fixes: "DataFrame", unread: int) -> tuple[dict[str, Any], float]:
    """The counts of lines (rule 1), and the median time between two fixes of a trip."""
    from pyspark.sql import functions as fn

    begins = fn.count_if(fn.col("trip").isNotNull() & fn.col("elapsed_s").isNull())
    found = fixes.groupBy("fault").agg(
        fn.count("*").alias("fixes"),
        fn.countDistinct("client").alias("clients"),
        begins.alias("trips"),
        fn.median("elapsed_s").alias("usual_s"),
    )
    by_fault = {row["fault"]: row for row in found.collect()}
    used = by_fault.pop(None, None)
    left_out = {f"left_out_{fault.replace(' ', '_')}": by_fault[fault]["fixes"] for fault in sorted(by_fault)}
    if used is None:
        raise PipelineError(f"there is no position that can be used, and {unread:,} lines cannot be read")
    counts = {"unread": unread, **left_out, "used": used["fixes"]}
    summary = {"read": sum(counts.values()), **counts, "clients": used["clients"], "trips": used["trips"]}
    return summary, float(used["usual_s"] or 60.0)


def _mined(
    spark: "SparkSession",
    fixes: "DataFrame",
    places: PlaceMap,
    out: Path,
    settings: MiningSettings,
    usual_s: float,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Visits and all results from them, for cells or for brokers."""
    tables = out / "tables"
    tell("visits")
    _save(visits.visits(fixes), tables / "visits")
    visited = spark.read.parquet(spark_path(tables / "visits"))
    _save(visits.transitions(visited).coalesce(1).sortWithinPartitions("place", "to"), tables / "transitions")
    _save(visits.pairs(visited).coalesce(1).sortWithinPartitions("before", "place", "to"), tables / "pairs")
    _save(
        mined_files.proxies(visited, settings.proxy_share).coalesce(1).sortWithinPartitions("client"),
        tables / "proxies",
    )
    steps = mined_files.rows(spark.read.parquet(spark_path(tables / "transitions")), "place", "to")
    pairs = mined_files.commonest(spark.read.parquet(spark_path(tables / "pairs")))
    proxy_sets = mined_files.rows(spark.read.parquet(spark_path(tables / "proxies")), "client")
    dwells = mined_files.rows(visits.dwells(visited), "place")
    if not steps:
        raise PipelineError(
            "no client moved from one place to another: use smaller cells, longer traces, or more brokers"
        )
    made = mined_files.write(
        out,
        places,
        dwells=dwells,
        steps=steps,
        pairs=mined_files.rows(pairs, "before", "place", "to"),
        proxy_sets=proxy_sets,
        share=settings.proxy_share,
        steps_min=settings.steps_min,
    )
    tell("predicting")
    keyed = prediction.contexts(visited, places, usual_s)
    found = prediction.accuracy(keyed, sorted(made["places"]))
    _write_json(out / "accuracy.json", found)
    _drawn(out, made, steps, found)
    baseline, best = found["models"]["first order"], found["models"]["all"]
    sizes = sorted(len(row["places"]) for row in proxy_sets)
    return {
        "places": len(made["places"]),
        "visits": sum(row["visits"] for row in dwells),
        "transitions": sum(row["count"] for row in steps),
        "edges": len(made["edges"]),
        "proxies_median": sizes[len(sizes) // 2],
        "top_1_first_order": baseline["top_1"],
        "top_1": best["top_1"],
        "top_3_first_order": baseline["top_3"],
        "top_3": best["top_3"],
        "log_loss_first_order": baseline["log_loss"],
        "log_loss": best["log_loss"],
    }


def _covered(spark: "SparkSession", fixes: "DataFrame", out: Path) -> dict[str, Any]:
    found = coverage.coverage(fixes, spark.read.parquet(spark_path(out / "tables" / "visits")))
    _write_json(out / "coverage.json", found)
    _save(coverage.cells_to_brokers(fixes).coalesce(1).sortWithinPartitions("cell", "broker"), out / "tables" / "cells")
    return {"covered": found["covered"], "handovers_per_client_hour": found["handovers_per_client_hour"]}


def _drawn(out: Path, made: dict[str, Any], steps: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Draw plots, if matplotlib is installed."""
    try:
        from godwit.pipeline.mobility import plots
    except ImportError:
        return
    draw: tuple[tuple[str, Callable[[Path], None]], ...] = (
        ("movement.png", lambda file: plots.movement(file, made, steps)),
        ("accuracy.png", lambda file: plots.accuracy(file, found)),
    )
    for name, drawn in draw:
        drawn(out / name)


def _save(frame: "DataFrame", folder: Path) -> None:
    frame.write.mode("overwrite").parquet(str(folder))


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
