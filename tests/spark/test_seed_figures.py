"""Figures of several seeds as one: means and bands are those of the points, by x or by share."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from godwit.reproduce.figures import DRAWING_SUFFIX, Drawing, PaperValue, lines
from godwit.reproduce.seed_figures import draw_all_seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Points = list[tuple[float, float]]


def drawn(spark: "SparkSession", folder: Path, of_seeds: dict[int, Points], **more: object) -> Drawing:
    """The drawing of all seeds of one line."""
    places = {seed: folder / f"seed_{seed}" for seed in of_seeds}
    for seed, points in of_seeds.items():
        lines(places[seed], "figure", {"a": points}, title="t", x="x", y="y", seed=seed, **more)  # type: ignore[arg-type]
    assert draw_all_seeds(spark, folder, places) == [folder / "figure.png"]
    assert (folder / "figure.png").exists()
    return msgspec.json.decode((folder / f"figure{DRAWING_SUFFIX}").read_bytes(), type=Drawing)


def test_points_of_the_same_x_are_one_with_a_band_from_the_least_to_the_most(
    spark: "SparkSession", tmp_path: Path
) -> None:
    of_seeds = {1: [(1.0, 2.0), (2.0, 10.0)], 2: [(1.0, 4.0), (2.0, 20.0)], 3: [(2.0, 60.0)]}
    drawing = drawn(spark, tmp_path, of_seeds, paper=[PaperValue("three", y=3.0)])
    assert drawing.series == {"a": ((1.0, 3.0), (2.0, 30.0))}
    assert drawing.bands == {"a": ((2.0, 4.0), (10.0, 60.0))}
    assert drawing.seeds == (1, 2, 3)
    assert "Mean of 3 seeds" in drawing.said
    assert "paper: three" in (tmp_path / "figure.svg").read_text()


def test_times_of_a_distribution_are_put_together_by_share(spark: "SparkSession", tmp_path: Path) -> None:
    of_seeds = {1: [(0.25, 0.5), (0.5, 1.0)], 2: [(0.75, 0.5), (1.0, 1.0)]}
    drawing = drawn(spark, tmp_path, of_seeds, steps=True)
    assert drawing.series["a"] == ((0.5, 0.5), (0.75, 1.0))
    assert drawing.bands["a"] == ((0.25, 0.75), (0.5, 1.0))


def test_without_drawings_there_is_nothing_to_draw(spark: "SparkSession", tmp_path: Path) -> None:
    assert draw_all_seeds(spark, tmp_path, {1: tmp_path}) == []
