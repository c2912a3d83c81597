"""One Spark session for all tests of the pipeline; without Java or pyspark they are skipped, with a word why."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.errors import PipelineError
from godwit.pipeline import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    pytest.importorskip("pyspark", reason="the pipeline extra is not installed")
    try:
        found = spark_session.start("local[2]", "godwit-tests", {"spark.driver.extraJavaOptions": FAST_START})
    except PipelineError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield found
    found.stop()
