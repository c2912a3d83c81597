"""`format("godwit")`: event logs, running brokers and traces in Spark, and events from Spark in logs and brokers."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import pytest

from godwit.event_log import EventLog, Retention, lines_from, segments
from godwit.filters.events import Event
from godwit.trace import Record, TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = 1_794_700_800.25


@pytest.fixture(scope="module", autouse=True)
def registered(spark: "SparkSession") -> None:
    from godwit.pipeline.spark_source import register

    register(spark)


def filled(folder: Path, numbers: Iterator[int] | range, **more: Any) -> Path:
    log = EventLog(folder, **more)
    for n in numbers:
        log.append([Event({"n": n, "sym": f"s{n % 3}"}, "p", n + 1, published_at=NOW + n)])
    log.close()
    return folder


def held(folder: Path) -> list[Any]:
    return [json.loads(line) for line, _ in lines_from(folder)]


def run_once(frame: "DataFrame", log: Path, checkpoint: Path, **options: str) -> None:
    writer = frame.writeStream.format("godwit").option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start(str(log))
    query.awaitTermination()


def streamed(spark: "SparkSession", log: Path, **options: str) -> "DataFrame":
    return spark.readStream.format("godwit").options(attributes="n int, sym text", **options).load(str(log))


def test_a_log_is_a_table_of_events(spark: "SparkSession", tmp_path: Path) -> None:
    log = filled(tmp_path / "log", range(50), segment_bytes=1_000)
    frame = spark.read.format("godwit").option("attributes", "n int, sym text").load(str(log))
    assert frame.columns[:3] == ["publisher", "sequence", "published_at"]
    row = frame.where("sym = 's1'").selectExpr("count(*) c", "sum(n) s", "max(sequence) m", "min(day) d").first()
    assert row is not None
    assert (row.c, row.s, row.m, str(row.d)) == (17, 425, 50, "2026-11-15")
    plain = spark.read.format("godwit").load(str(log)).where("sequence = 3").first()
    assert plain is not None
    assert json.loads(plain.attributes) == {"n": 2, "sym": "s2"}


def test_a_stream_of_a_log_goes_on_where_it_was_and_gives_each_event_once(
    spark: "SparkSession", tmp_path: Path
) -> None:
    source, out, checkpoint = tmp_path / "log", tmp_path / "out", tmp_path / "checkpoint"
    filled(source, range(25), segment_bytes=1_000)
    run_once(streamed(spark, source, rows_per_batch="10"), out, checkpoint)
    assert [len((out / f"0000000{n}.jsonl").read_bytes().splitlines()) for n in (1, 2, 3)] == [10, 10, 5]
    filled(source, range(25, 40), segment_bytes=1_000)
    run_once(streamed(spark, source), out, checkpoint)
    assert held(out) == held(source)


def test_a_batch_that_is_in_the_log_already_is_not_written_again(spark: "SparkSession", tmp_path: Path) -> None:
    source, out, checkpoint = filled(tmp_path / "log", range(10)), tmp_path / "out", tmp_path / "checkpoint"
    run_once(streamed(spark, source, rows_per_batch="5"), out, checkpoint)
    before = held(out)
    for name in ("1", ".1.crc"):  # as if the driver had been killed behind its last batch
        (checkpoint / "commits" / name).unlink()
    run_once(streamed(spark, source, rows_per_batch="5"), out, checkpoint)
    assert held(out) == before == held(source)


def test_another_stream_is_refused_wherever_its_checkpoint_is(spark: "SparkSession", tmp_path: Path) -> None:
    source, out = filled(tmp_path / "log", range(5)), tmp_path / "out"
    setting = "spark.sql.streaming.checkpointLocation"
    try:
        for name in ("first", "first", "second"):
            spark.conf.set(setting, str(tmp_path))
            writer = streamed(spark, source).writeStream.format("godwit").queryName(name)
            query = writer.trigger(availableNow=True).start(str(out))
            if name == "first":
                query.awaitTermination()
            else:
                with pytest.raises(Exception, match="was filled by another stream"):
                    query.awaitTermination()
    finally:
        spark.conf.unset(setting)
    assert held(out) == held(source)


def test_a_log_that_is_shorter_than_it_was_ends_the_stream_with_a_sentence(
    spark: "SparkSession", tmp_path: Path
) -> None:
    source, out, checkpoint = filled(tmp_path / "log", range(5)), tmp_path / "out", tmp_path / "checkpoint"
    run_once(streamed(spark, source), out, checkpoint)
    segment = source / "00000001.jsonl"
    segment.write_bytes(segment.read_bytes().partition(b"\n")[0] + b"\n")
    with pytest.raises(Exception, match="and is shorter now"):
        run_once(streamed(spark, source), out, checkpoint)


def test_what_was_taken_away_unread_ends_the_stream_with_a_sentence_or_is_skipped(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from godwit.pipeline.spark_source import LogStreamReader, _Options

    source, out, checkpoint = tmp_path / "log", tmp_path / "out", tmp_path / "checkpoint"
    filled(source, range(10), segment_bytes=1)
    run_once(streamed(spark, source, rows_per_batch="4"), out, checkpoint)
    bounded = EventLog(source, segment_bytes=1, keep=Retention(seconds=1.0), now=lambda: time() + 2)
    bounded.close()
    assert segments(source) == [11]
    filled(source, range(10, 14), segment_bytes=1)
    run_once(streamed(spark, source), out, checkpoint)  # all that is gone had been read
    assert [line["attributes"]["n"] for line in held(out)] == list(range(14))
    filled(source, range(14, 20), segment_bytes=1)
    for segment in range(11, 17):
        (source / f"{segment:08}.jsonl").unlink()
    with pytest.raises(Exception, match=r"of segment 14 and all of segments 15 to 16 was removed before it was read"):
        run_once(streamed(spark, source), out, checkpoint)
    run_once(streamed(spark, source, skip_removed="true"), out, checkpoint)
    assert [line["attributes"]["n"] for line in held(out)] == [*range(14), *range(16, 20)]
    reader = LogStreamReader(
        _Options({"log": str(source), "skip_removed": "true"})
    )  # as Spark has it, in a process apart
    assert len(reader.partitions({"segment": 14, "bytes": 9}, {"segment": 18, "bytes": 10})) == 2
    assert "of segments 15 to 16 was removed before it was read, and is skipped" in capsys.readouterr().err


def test_rows_without_a_name_get_that_of_the_log_and_numbers_that_grow(spark: "SparkSession", tmp_path: Path) -> None:
    out = tmp_path / "out"
    frame = spark.range(6, numPartitions=2).selectExpr("id as n", "array(id, id + 1) as several", "null as gone")
    for _ in range(2):
        frame.drop("gone").write.format("godwit").mode("append").option("name", "etl").save(str(out))
    lines = held(out)
    assert [line["attributes"]["n"] for line in lines] == [*range(6), *range(6)]
    assert lines[1]["attributes"]["several"] == [1, 2]
    assert {line["publisher"] for line in lines} == {"etl"}
    assert [line["sequence"] for line in lines] == [segment << 32 | row for segment in (1, 2) for row in range(1, 7)]


def test_a_trace_is_a_table(spark: "SparkSession", tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "run7", {}) as trace:
        for n in range(5):
            trace.write(float(n), "b1", Record("published", publisher="p", sequence=n))
    frame = spark.read.format("godwit").option("trace", str(tmp_path / "run7")).load()
    row = frame.where("sequence > 1").selectExpr("count(*) c", "max(run) r", "max(at) a").first()
    assert row is not None
    assert (row.c, row.r, row.a) == (3, "run7", 4.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs a folder for the event log"),
        ({"log": "nowhere"}, "nowhere: no such folder"),
        ({"log": "nowhere", "atributes": "n int"}, "has no option 'atributes'"),
        ({"log": "nowhere", "attributes": "n"}, "is not a name and form"),
        ({"log": "nowhere", "broker": "127.0.0.1:1"}, "a running broker is read as a stream"),
        ({"log": "nowhere", "keep_days": "3"}, 'keep_bytes and keep_days need the option "broker"'),
        ({"log": "nowhere", "broker": "b:1", "keep_bytes": "3"}, "keep_bytes is 3: it must be at least 1048576"),
        ({"log": "nowhere", "skip_removed": "yes"}, "skip_removed is 'yes': it must be true or false"),
        ({"trace": "nowhere"}, "cannot read the trace"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(spark: "SparkSession", options: dict[str, str], said: str) -> None:
    from godwit.cli.pipeline.spark_runner import sentence

    with pytest.raises(Exception, match=said) as caught:
        spark.read.format("godwit").options(**options).load().count()
    assert "Traceback" not in str(caught.value)  # the sentence comes first, and not the stack of a worker
    assert "godwit.errors" not in sentence(caught.value)


@pytest.mark.parametrize(
    ("options", "said"), [({"log": "nowhere"}, "nowhere: no such folder"), ({"trace": "nowhere"}, "not as a stream")]
)
def test_a_stream_that_cannot_be_opened_says_why(
    spark: "SparkSession", tmp_path: Path, options: dict[str, str], said: str
) -> None:
    """PySpark would report an UnboundLocalError of its own."""
    from godwit.cli.pipeline.spark_runner import sentence

    stream = spark.readStream.format("godwit").options(**options).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match=said) as caught:
        query.awaitTermination()
    assert sentence(caught.value).endswith(said)
