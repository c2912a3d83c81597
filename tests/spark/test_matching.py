"""Spark's batches give what the naive matcher gives, on any DataFrame whose columns attributes could have."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from godwit.errors import PipelineError
from godwit.filters.language import parse
from godwit.pipeline.matching import count, match, pairs, save_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: list[tuple[Any, ...]] = [
    (1, 20.5, "X", datetime(2026, 11, 15, 6, tzinfo=UTC), (8.5, 47.4), ["a", "b"], "monday"),
    (2, 1.0, "Y", None, (0.0, 0.0), [], None),
    (3, None, "X", None, None, None, "friday"),
    (4, 11.0, None, None, None, ["b"], None),
    (5, None, None, None, None, None, None),
]
SCHEMA = (
    "sequence long, price double, sym string, seen timestamp, at struct<lon: double, lat: double>, tags array<string>,"
    "day_ string"
)
FILTERS = {
    "dear": "price > 10",
    "dear too": "price > 10",
    "x": "sym = 'X'",
    "early": "seen < TIMESTAMP '2026-11-15T07:00:00Z'",
    "here": "at WITHIN BOX(8, 47, 9, 48)",
    "b": "tags = 'b'",
    "no symbol": "sym IS NULL",
    "friday": "day = 'friday'",
    "unheard of": "nothing > 1",
}
EXPECTED = {
    1: ["b", "dear", "dear too", "early", "here", "x"],
    3: ["friday", "x"],
    4: ["b", "dear", "dear too", "no symbol"],
    5: ["no symbol"],
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("index")
    return save_index({id: parse(text) for id, text in FILTERS.items()}, folder)


def test_every_kind_of_column_is_matched(spark: "SparkSession", index: Any) -> None:
    events = spark.createDataFrame(ROWS, SCHEMA)
    found = {row.sequence: sorted(row.subscriptions) for row in match(events, index).collect()}
    assert found == EXPECTED
    assert count(events, index) == sum(map(len, EXPECTED.values()))
    rows = {(row.sequence, row.subscription) for row in pairs(match(events, index)).collect()}
    assert rows == {(sequence, id) for sequence, ids in EXPECTED.items() for id in ids}


def test_the_day_comes_from_the_time_when_there_is_no_column_for_it(spark: "SparkSession", index: Any) -> None:
    at = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
    events = spark.createDataFrame(
        [("p", 7, at, 50.0)], "publisher string, sequence long, published_at timestamp, price double"
    )
    [row] = match(events, index).collect()
    assert (row.publisher, row.sequence, row.day) == ("p", 7, date(2026, 11, 15))
    assert row.published_at.timestamp() == at.timestamp()


def test_events_without_a_column_that_filters_name(spark: "SparkSession", index: Any) -> None:
    assert count(spark.range(3), index) == 3  # who has no symbol


def test_a_column_of_another_type_is_refused_before_anything_runs(spark: "SparkSession", index: Any) -> None:
    with pytest.raises(PipelineError, match=r"column 'price' is of type .*, which no attribute has"):
        match(spark.sql("select cast('a' as binary) as price"), index)


def test_an_index_that_is_gone_is_said_to_be(spark: "SparkSession", tmp_path: Path) -> None:
    gone = save_index({"a": parse("id > 1")}, tmp_path)
    gone.remove()
    with pytest.raises(Exception, match="this worker has no index"):
        count(spark.range(3), gone)
