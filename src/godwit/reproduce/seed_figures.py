"""The figures of several seeds combined: the mean of each point, and a band from the minimum to the maximum.

*Theory.* A claim's experiment draws a figure for its seed and keeps the drawing as JSON beside it. Spark reads the
drawings of all seeds as one table with a row for each point, and returns mean, least and most over the seeds. Points
belong together when they have the same x; in a distribution, which gives times by share, when they have the same share.

*Rules.*
1. A figure combines all seeds that have it. Title, axes and the paper's values are those of the first seed.
2. All values are computed by Spark.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from godwit.reproduce.figures import DRAWING_SUFFIX, Drawing, draw, write_drawing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["draw_all_seeds"]

COLUMNS = "figure string, label string, number int, seed int, x double, y double, is_by_share boolean"


def draw_all_seeds(spark: "SparkSession", folder: Path, seed_folders: Mapping[int, Path]) -> list[Path]:
    """Draw each figure of these folders, one for each seed, once for all seeds into `folder`. The PNG files."""
    first: dict[str, Drawing] = {}
    seeds: dict[str, list[int]] = {}
    rows: list[tuple[Any, ...]] = []
    for seed, place in seed_folders.items():
        for path in sorted(place.glob(f"*{DRAWING_SUFFIX}")):
            name = path.name.removesuffix(DRAWING_SUFFIX)
            drawing = msgspec.json.decode(path.read_bytes(), type=Drawing)
            first.setdefault(name, drawing)
            seeds.setdefault(name, []).append(seed)
            rows += _points(name, seed, drawing)
    if not rows:
        return []
    merged: dict[str, dict[str, list[Any]]] = {}
    for row in _merged(spark, rows):
        merged.setdefault(row.figure, {}).setdefault(row.label, []).append(row)
    files: list[Path] = []
    for name, drawing in first.items():
        over_seeds = _over_seeds(drawing, merged.get(name, {}), seeds[name])
        files.append(draw(folder, name, over_seeds)[0])
        write_drawing(folder, name, over_seeds)
    return files


def _points(name: str, seed: int, drawing: Drawing) -> list[tuple[Any, ...]]:
    return [
        (name, label, number, seed, x, y, drawing.steps)
        for number, (label, points) in enumerate(drawing.series.items())
        for x, y in points
    ]


def _merged(spark: "SparkSession", rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """For each point of each line: where it belongs, and mean, least and most of its other coordinate."""
    from pyspark.sql import functions as fn

    table = spark.createDataFrame(list(rows), COLUMNS)
    by_share = fn.col("is_by_share")
    at = fn.round(fn.when(by_share, fn.col("y")).otherwise(fn.col("x")), 9)
    value = fn.when(by_share, fn.col("x")).otherwise(fn.col("y"))
    keyed = table.select("figure", "label", "number", at.alias("at"), value.alias("value"))
    found = keyed.groupBy("figure", "label", "at").agg(
        fn.min("number").alias("number"),
        fn.mean("value").alias("mean"),
        fn.min("value").alias("least"),
        fn.max("value").alias("most"),
    )
    return found.orderBy("figure", "number", "label", "at").collect()


def _over_seeds(drawing: Drawing, lines: Mapping[str, Sequence[Any]], seeds: Sequence[int]) -> Drawing:
    def point(row: Any) -> tuple[float, float]:
        return (row.mean, row.at) if drawing.steps else (row.at, row.mean)

    return structs.replace(
        drawing,
        series={label: tuple(map(point, lines[label])) for label in drawing.series if label in lines},
        bands={label: tuple((row.least, row.most) for row in rows) for label, rows in lines.items()},
        seeds=tuple(seeds),
    )
