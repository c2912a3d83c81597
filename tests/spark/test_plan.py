"""A plan by Spark is the plan that is made without it."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.pipeline.mobility.cleaning import CleaningOptions
from godwit.planning.plan import placement_of
from godwit.planning.trace_readers import LocalReader, SparkReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCENARIOS = Path(str(files("godwit.simulator").joinpath("scenarios")))


def test_both_readers_tally_and_sample_alike(spark: "SparkSession", tmp_path: Path) -> None:
    file = str(SCENARIOS / "ferries.csv")
    placement, _ = placement_of(str(SCENARIOS / "ferries_piers.csv"), 700.0)
    local, by_spark = LocalReader([file]), SparkReader(spark, [file], tmp_path / "fixes")
    expected, found = (reader.tally(placement, CleaningOptions()) for reader in (local, by_spark))
    assert found.keys() == expected.keys()
    for key, tally in expected.items():
        assert found[key].total == pytest.approx(tally.total), key
        assert (found[key].least, found[key].most) == pytest.approx((tally.least, tally.most)), key
    window = (1718000000.0, 1718000600.0, 3)
    assert sorted(by_spark.sample(*window)) == sorted(local.sample(*window))
    assert by_spark.unread == 0
