"""Spark reads files of `ListWriter` as it reads those of pyarrow, with either of its readers."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.pipeline import parquet_lists
from tests.property.test_parquet_list_laws import check, varied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.enableNestedColumnVectorizedReader")


@pytest.mark.parametrize("is_vectorized", ["true", "false"])
def test_spark_reads_what_pyarrow_writes(
    spark: "SparkSession", is_vectorized: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_lists, "PAGE_ITEMS", 5_000)
    check(tmp_path, varied())
    before = {name: spark.conf.get(name) for name in READERS}
    try:
        for name in READERS:
            spark.conf.set(name, is_vectorized)
        ours, theirs = (spark.read.parquet(str(tmp_path / name)) for name in ("ours", "theirs"))
        assert ours.schema == theirs.schema
        assert ours.collect() == theirs.collect()
        for condition in ("sequence = 2999", "publisher IS NULL", "published_at > '2026-11-16 22:30:00'"):
            found = ours.where(condition).collect()
            assert found == theirs.where(condition).collect() != []
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
