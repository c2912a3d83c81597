"""Matching a stream: what comes out is what the naive matcher finds, once, whatever fails in between."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from godwit.errors import PipelineError
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.pipeline import matching, streaming
from godwit.pipeline.batch_ledger import BatchLedger, Counts
from godwit.pipeline.stream_tasks import TASKS_MAX
from godwit.pipeline.streaming import CompletedBatch, read_late, read_matches, stream
from godwit.pipeline.subscription_index import IndexFile
from godwit.pipeline.subscription_sources import FixedSubscriptions
from godwit.pipeline.table_events import TableEvents
from tests.spark import agreement, streams, test_agreement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Changing:
    """Subscriptions that a test changes."""

    def __init__(self, found: dict[str, Filter]) -> None:
        self.found, self.number, self.broken = found, 0, False

    def change(self, found: dict[str, Filter]) -> None:
        self.found, self.number = found, self.number + 1

    def version(self) -> str:
        if self.broken:
            raise PipelineError("the line is dead")
        return str(self.number)

    def read(self) -> dict[str, Filter]:
        return self.found


def drain(spark: "SparkSession", folder: Path, source: Any, out: Path, way: str = "rows", **more: Any) -> None:
    stream(**streams.source(spark, folder, way), subscriptions=source, out=out, once=True, **more).wait()


both_ways = pytest.mark.parametrize("way", ["rows", "files"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return streams.make_table(tmp_path / "events")


@both_ways
def test_a_stream_finds_what_the_naive_matcher_finds(
    spark: "SparkSession", folder: Path, tmp_path: Path, way: str
) -> None:
    wanted, all_events = streams.filters(), streams.events(300)
    for first in range(0, 300, 100):
        streams.put(folder, f"part{first}", all_events[first : first + 100])
    told: list[CompletedBatch] = []
    drain(spark, folder, FixedSubscriptions(wanted), tmp_path / "out", way, on_batch=told.append)
    found = streams.collected(read_matches(spark, tmp_path / "out"))
    expected = streams.matches(all_events, wanted)
    assert found == expected
    assert len(told) > 2
    assert told[-1].entry.totals == Counts(300, len(expected), sum(len(ids) for _, _, ids in expected), 0)
    plain = spark.read.parquet(str(tmp_path / "out"))
    assert {str(row.day) for row in plain.select("day").distinct().collect()} == {"2026-11-15", "2026-11-16"}
    assert streams.collected(plain) == expected


def test_no_row_passes_through_spark_if_workers_can_read_the_files(
    spark: "SparkSession", folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, all_events, counted = streams.filters(), streams.events(400), list[int]()
    match_rows = streaming._match_rows

    def counting(frame: Any, task: Any) -> list[Any]:
        counted.append(1)
        return match_rows(frame, task)

    monkeypatch.setattr(streaming, "_match_rows", counting)
    for number in range(12):  # so that Spark merges its own lists of files
        streams.put(folder, f"part {number}%", all_events[30 * number : 30 * number + 30])
    drain(spark, folder, FixedSubscriptions(wanted), tmp_path / "out", "files")
    assert not counted
    monkeypatch.setattr("godwit.pipeline.table_events.files_of_batch", lambda *_: None)  # an unknown version of Spark
    streams.put(folder, "rest", all_events[360:])
    drain(spark, folder, FixedSubscriptions(wanted), tmp_path / "out", "files")
    assert counted
    assert streams.collected(read_matches(spark, tmp_path / "out")) == streams.matches(all_events, wanted)


def test_events_that_are_not_all_of_a_table_are_not_read_from_its_files(
    spark: "SparkSession", folder: Path, tmp_path: Path
) -> None:
    table = TableEvents(folder)
    some = table.read(spark).where("price > 50")
    with pytest.raises(PipelineError, match=r"the events are not what read\(\) of the table .*/events returned"):
        stream(some, FixedSubscriptions({}), tmp_path / "out", table=table)


class Collecting:
    """A sink that collects batches, and fails once at a batch that a test names."""

    def __init__(self, fails_at: int) -> None:
        self.fails_at, self.batches = fails_at, dict[int, list[streams.Row]]()

    def write(self, batch: int, matches: Any) -> None:
        if batch == self.fails_at:
            self.fails_at = -1
            raise OSError("the disk is full")
        self.batches[batch] = streams.collected(matches)


def test_a_sink_gets_the_matches_of_every_batch_also_of_one_at_which_it_failed(
    spark: "SparkSession", folder: Path, tmp_path: Path
) -> None:
    wanted, all_events, sink = streams.filters(), streams.events(60), Collecting(fails_at=1)
    for first in range(0, 60, 30):
        streams.put(folder, f"part{first}", all_events[first : first + 30])
    with pytest.raises(PipelineError, match="the sink failed at batch 1: OSError: the disk is full"):
        drain(spark, folder, FixedSubscriptions(wanted), tmp_path / "out", sink=sink)
    assert list(sink.batches) == [0]
    drain(spark, folder, FixedSubscriptions(wanted), tmp_path / "out", sink=sink)  # the batch was complete before
    assert sorted(sink.batches)[:2] == [0, 1]
    given = sorted(row for rows in sink.batches.values() for row in rows)
    assert given == streams.collected(read_matches(spark, tmp_path / "out")) == streams.matches(all_events, wanted)


def test_naive_is_batch_is_stream_on_all_forms_of_columns(spark: "SparkSession", tmp_path: Path) -> None:
    """Row for row, on generated filters and events, with missing and several values; a file is a batch."""
    numbers = iter(range(1_000_000))

    @settings(max_examples=3, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
    @given(test_agreement.examples())
    def law(example: tuple[agreement.Rows, list[Filter]]) -> None:
        rows, filters = example
        place = tmp_path / str(next(numbers))
        (place / "events").mkdir(parents=True)
        table = agreement.table_of(rows)
        table = table.rename_columns({"row": "sequence"}).append_column("publisher", pa.array(["p"] * len(rows)))
        table = table.append_column("published_at", pa.array([streams.START] * len(rows), pa.timestamp("us", tz="UTC")))
        for part, first in enumerate(range(0, len(rows), len(rows) // 3)):
            pq.write_table(table.slice(first, len(rows) // 3), place / "events" / f"{part}.parquet")
        wanted = {str(number): filter for number, filter in enumerate(filters)}
        archive = spark.read.parquet(str(place / "events"))
        events = spark.readStream.schema(archive.schema).option("maxFilesPerTrigger", 1).parquet(str(place / "events"))
        stream(events, FixedSubscriptions(wanted), place / "out", once=True).wait()
        for who, found in (
            ("the stream", read_matches(spark, place / "out")),
            ("the batch", matching.match(archive, matching.save_index(wanted))),
        ):
            pairs = [(id, row.sequence) for row in found.collect() for id in row.subscriptions]
            assert len(pairs) == len(set(pairs))
            answers = [frozenset(row for id, row in pairs if id == str(number)) for number in range(len(filters))]
            agreement.check(rows, filters, who, answers)

    law()


def test_subscriptions_change_between_batches(
    spark: "SparkSession", folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped: list[str] = []  # Spark would hand each index to every new executor, also when its file is long gone
    monkeypatch.setattr(IndexFile, "ship", lambda self, spark: shipped.append(self.name))
    source, out = Changing(streams.filters(10, seed=1)), tmp_path / "out"
    old, new = dict(source.found), {**streams.filters(10, seed=2), "another": parse("price >= 0")}
    troubles = []

    def told(done: CompletedBatch) -> None:
        troubles.append(done.trouble)
        if done.entry.batch == 0:
            source.change(new)
        if done.entry.batch == 1:
            source.broken = True

    parts = [streams.events(50, first) for first in (0, 50, 100)]
    for number, part in enumerate(parts):
        streams.put(folder, f"part{number}", part)
    drain(spark, folder, source, out, on_batch=told)
    expected = sorted(streams.matches(parts[0], old) + streams.matches(parts[1] + parts[2], new))
    assert streams.collected(read_matches(spark, out)) == expected
    assert troubles == ["", "", "the subscriptions were not updated: the line is dead"]
    assert len({path.name.split(".")[0] for path in (out / "_indexes").iterdir()}) == 1
    assert not shipped


@both_ways
def test_what_is_late_goes_aside_and_what_is_not_goes_to_its_day(
    spark: "SparkSession", folder: Path, tmp_path: Path, way: str
) -> None:
    wanted, out = {"all": parse("price >= 0")}, tmp_path / "out"
    early = streams.events(10, 0, streams.START, 1)
    hour_old = streams.events(10, 10, streams.START - timedelta(hours=1), 1)
    day_old = streams.events(10, 20, streams.START - timedelta(days=1), 1)
    for number, part in enumerate([early, hour_old, day_old]):
        streams.put(folder, f"part{number}", part)
        drain(spark, folder, FixedSubscriptions(wanted), out, way, late_s=7200.0)
    assert streams.collected(read_matches(spark, out)) == streams.matches(early + hour_old, wanted)
    late = read_late(spark, out)
    assert sorted(row.sequence for row in late.collect()) == list(range(20, 30))
    assert late.where("day = '2026-11-14'").count() == 10
    assert {row.symbol for row in late.collect()} <= set(streams.SYMBOLS)
    last = BatchLedger(out).last()
    assert last is not None
    assert last.totals.late == 10


def test_an_event_from_the_future_makes_no_other_late(spark: "SparkSession", folder: Path, tmp_path: Path) -> None:
    wanted, out = {"all": parse("price >= 0")}, tmp_path / "out"
    ahead = streams.events(1, 0, streams.START + timedelta(days=36500))
    now = streams.events(1, 1, datetime.now(UTC))
    for number, part in enumerate([ahead, now]):
        streams.put(folder, f"part{number}", part)
        drain(spark, folder, FixedSubscriptions(wanted), out, late_s=3600.0)
    assert len(streams.collected(read_matches(spark, out))) == 2


@both_ways
def test_a_batch_that_fails_anywhere_is_there_once_after_the_next_start(
    spark: "SparkSession", folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The places where a driver may end, one after the other, in one stream; subscriptions change at each start."""
    out, parts = tmp_path / "out", [streams.events(20, 20 * number) for number in range(8)]
    for number, part in enumerate(parts):
        streams.put(folder, f"part{number}", part)
        for path in folder.rglob(f"part{number}.parquet"):
            os.utime(path, (number, number))  # by which Spark orders them
    wanted = [streams.filters(seed=seed) for seed in range(6)]
    source = Changing(wanted[0])
    places: list[tuple[Any, str]] = [
        (BatchLedger, "begin"),
        (BatchLedger, "attempt"),
        (streaming, "_written"),
        (BatchLedger, "_move"),
        (streaming._Known, "sweep"),
    ]
    for owner, name in places:
        with monkeypatch.context() as patch:
            whole = getattr(owner, name)
            calls: list[int] = []

            def fails(*args: Any, whole: Any = whole, calls: list[int] = calls) -> Any:
                calls.append(1)
                if len(calls) == 2:
                    raise PipelineError("killed here")
                return whole(*args)

            patch.setattr(owner, name, fails)
            with pytest.raises(PipelineError, match="killed here"):
                drain(spark, folder, source, out, way)
            source.change(wanted[source.number + 1])
    drain(spark, folder, source, out, way)
    entries = [json.loads(path.read_text()) for path in sorted((out / "_batches").glob("*.json"))]
    versions = [int(entry["plan"]["version"]) for entry in entries]
    assert versions == [0, 1, 1, 2, 3, 4, 4, 5]  # one that had begun stays with those it began with
    assert streams.collected(read_matches(spark, out)) == sorted(
        row for part, version in zip(parts, versions, strict=True) for row in streams.matches(part, wanted[version])
    )


def test_a_sink_that_appends_is_caught(
    spark: "SparkSession", folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's own test: the same end after a batch is written, with a sink that does not know batches."""
    out, wanted, calls = tmp_path / "out", streams.filters(), []
    streams.put(folder, "part", streams.events(20))

    def appends(self: streaming.Stream, frame: Any, batch: int) -> None:
        matching.match(frame, matching.save_index(wanted)).write.mode("append").parquet(str(tmp_path / "appended"))
        calls.append(batch)
        if len(calls) == 1:
            raise PipelineError("killed here")

    monkeypatch.setattr(streaming.Stream, "_run_batch", appends)
    with pytest.raises(PipelineError, match="killed here"):
        drain(spark, folder, FixedSubscriptions(wanted), out)
    drain(spark, folder, FixedSubscriptions(wanted), out)
    assert calls == [0, 0]
    found = streams.collected(spark.read.parquet(str(tmp_path / "appended")))
    assert found != streams.matches(streams.events(20), wanted)


@both_ways
def test_a_batch_of_many_days_is_a_file_for_each_task_and_files_are_merged_between_batches(
    spark: "SparkSession", folder: Path, tmp_path: Path, way: str
) -> None:
    wanted, out = {"all": parse("price >= 0")}, tmp_path / "out"
    all_events = streams.events(120, step_s=86_400.0)
    for first in range(0, 120, 30):
        rows = all_events[first : first + 30]
        streams.put(tmp_path / "events", f"part{first}", rows)
    told: list[CompletedBatch] = []
    stages: list[str] = []
    stream(
        **streams.source(spark, folder, way, files=30), subscriptions=FixedSubscriptions(wanted), out=out, once=True,
        compact_after=4, on_batch=told.append, on_stage=stages.append,
    ).wait()  # fmt: skip
    assert len(told) == 4
    assert max(len(each.entry.files) for each in told) <= TASKS_MAX
    assert sum(each.compacted.merged for each in told) >= 4
    assert len(list(out.glob("*.parquet"))) < 8
    assert stages[:2] == ["batch 0: reading the subscriptions", "batch 0: matching"]
    expected = streams.matches(all_events, wanted)
    assert streams.collected(read_matches(spark, out)) == streams.collected(spark.read.parquet(str(out))) == expected
    assert all(each.lag_s is not None for each in told)


def test_another_checkpoint_is_refused(spark: "SparkSession", folder: Path, tmp_path: Path) -> None:
    streams.put(folder, "part", streams.events(10))
    drain(spark, folder, FixedSubscriptions(streams.filters()), tmp_path / "out")
    with pytest.raises(PipelineError, match="was written with another checkpoint, up to batch 0"):
        drain(spark, folder, FixedSubscriptions(streams.filters()), tmp_path / "out", checkpoint=tmp_path / "other")


def test_stop_ends_between_batches(spark: "SparkSession", folder: Path, tmp_path: Path) -> None:
    streams.put(folder, "part", streams.events(10))
    found = stream(streams.reader(spark, folder), FixedSubscriptions(streams.filters()), tmp_path / "out")
    assert found.query is not None
    found.query.processAllAvailable()
    found.stop()
    assert found.wait()
    assert streams.collected(read_matches(spark, tmp_path / "out")) == streams.matches(
        streams.events(10), streams.filters()
    )


def test_what_a_stream_does_not_take_is_one_sentence(spark: "SparkSession", folder: Path, tmp_path: Path) -> None:
    source, reader = FixedSubscriptions({}), streams.reader(spark, folder)
    with pytest.raises(PipelineError, match="needs a streaming DataFrame"):
        stream(spark.range(1), source, tmp_path / "out")
    with pytest.raises(PipelineError, match="sequence is missing"):
        stream(reader.drop("sequence"), source, tmp_path / "out")
    with pytest.raises(PipelineError, match=r"is not a folder that this machine"):
        stream(reader, source, "s3://bucket/out")
    with pytest.raises(PipelineError, match="holds a table that no stream has made"):
        stream(reader, source, folder)
