"""Spark's batches give what the naive matcher gives, on any DataFrame whose columns attributes could have."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from godwit.cli.pipeline import app, match_table_command
from godwit.errors import PipelineError
from godwit.filters.events import event
from godwit.filters.language import parse, to_json
from godwit.matching.naive_matcher import NaiveMatcher
from godwit.pipeline import row_ranges, tables
from godwit.pipeline.matching import count, match, pairs, save_index
from godwit.pipeline.subscriptions import read_subscriptions
from godwit.pipeline.table_matching import match_table
from tests.unit.filters.random_filters import random_attributes, random_filter
from tests.unit.pipeline.test_table_matching import event_table

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


# ---------------------------------------------------------------- whole tables


@pytest.fixture
def quotes(tmp_path: Path) -> list[Any]:
    """A table of three days, and what the naive matcher says of its events."""
    draw = Random(3)
    rows = [event(random_attributes(draw)).attributes for _ in range(300)]
    event_table(tmp_path / "events", rows)
    filters = [(str(number), random_filter(draw)) for number in range(60)]
    naive = NaiveMatcher()
    naive.add_many(filters)
    lines = [json.dumps({"id": id, "filter": to_json(filter)}) for id, filter in filters]
    (tmp_path / "subscriptions").write_text("\n".join(lines), encoding="utf-8")
    return [(number, sorted(map(str, ids))) for number, row in enumerate(rows) if (ids := naive.match(event(row)))]


def test_a_table_of_matches_is_what_the_naive_matcher_says(
    spark: "SparkSession", tmp_path: Path, quotes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_ranges, "TASK_ROWS_MIN", 1)
    index = save_index(read_subscriptions(tmp_path / "subscriptions"), tmp_path / "index")
    done = match_table(spark, tmp_path / "events", index, tmp_path / "matches")
    assert done == replace(match_table(spark, tmp_path / "events", index), files=done.files)
    assert (done.events, done.matched, done.pairs) == (300, len(quotes), sum(len(ids) for _, ids in quotes))
    assert done.tasks > 2
    for found in (
        tables.read(spark, tmp_path / "matches", "matches"),
        match(tables.read(spark, tmp_path / "events", "events"), index),
    ):
        rows = found.orderBy("sequence").collect()
        assert [(row.sequence, sorted(row.subscriptions)) for row in rows] == quotes
        assert all(row.day == row.published_at.date() for row in rows)
    with pytest.raises(PipelineError, match=r"there is a table in .*matches already"):
        match_table(spark, tmp_path / "events", index, tmp_path / "matches")


def test_a_job_that_fails_leaves_no_table(spark: "SparkSession", tmp_path: Path, quotes: list[Any]) -> None:
    index = save_index(read_subscriptions(tmp_path / "subscriptions"), tmp_path / "index")
    first = tables.files(tmp_path / "events")[0]
    data = bytearray(first.read_bytes())
    data[4:-2_000] = bytes(len(data) - 2_004)
    first.write_bytes(data)
    with pytest.raises(Exception, match=r"[Tt]hrift|[Pp]arquet|page|Unexpected end"):
        match_table(spark, tmp_path / "events", index, tmp_path / "matches")
    assert not (tmp_path / "matches").exists()


def test_the_command_counts_and_writes(
    spark: "SparkSession", tmp_path: Path, quotes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_table_command, "session", lambda *_: nullcontext(spark))
    inputs = ["--events", str(tmp_path / "events"), "--subscriptions", str(tmp_path / "subscriptions")]
    counted = json.loads(CliRunner().invoke(app, ["match", *inputs, "--count"]).stdout)
    written = json.loads(CliRunner().invoke(app, ["match", *inputs, "--out", str(tmp_path / "out")]).stdout)
    for found in (counted, written):
        assert (found["events"], found["subscriptions"], found["matched_events"]) == (300, 60, len(quotes))
        assert found["pairs"] == sum(len(ids) for _, ids in quotes)
        assert {"seconds_index", "seconds_to_start", "seconds_match"} <= found.keys()
    assert written["files"] == len(tables.files(tmp_path / "out"))


def test_the_command_says_what_is_wrong_before_spark_starts(tmp_path: Path, quotes: list[Any]) -> None:
    def said(*arguments: str) -> str:
        found = CliRunner().invoke(app, ["match", *arguments])
        assert isinstance(found.exception, PipelineError)
        return str(found.exception)

    events, subscriptions = ("--events", str(tmp_path / "events")), ("--subscriptions", str(tmp_path / "subscriptions"))
    assert "there is no" in said("--events", str(tmp_path / "gone"), *subscriptions)
    assert "take one" in said(*events, *subscriptions, "--count", "--out", "x")
    assert "no such file or folder" in said(*events, "--subscriptions", str(tmp_path / "gone"))
