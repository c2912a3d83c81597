"""What Spark writes to an event log: each batch once, whenever the driver ends. Needs no session."""

import json
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import tzset
from typing import Any

import pyarrow as pa
import pytest

from godwit.errors import PipelineError
from godwit.event_log import EventLog, lines_from

pytest.importorskip("pyspark", reason="the pipeline extra is not installed")

from godwit.pipeline.spark_sink import LogStreamWriter, LogWriter, Target, lines_of


def batch(numbers: Sequence[int], **more: Any) -> Any:
    return pa.RecordBatch.from_pydict({"n": list(numbers), **more})


def held(folder: Path) -> list[int]:
    return [json.loads(line)["attributes"]["n"] for line, _ in lines_from(folder)]


def written(writer: LogStreamWriter, number: int) -> None:
    """A batch of two tasks."""
    tasks = ([10 * number, 10 * number + 1], [10 * number + 2])
    writer.commit([writer.write(iter([batch(numbers)])) for numbers in tasks], number)


class Killed(BaseException):
    """The driver has ended here."""


def test_a_batch_that_comes_again_is_written_once(tmp_path: Path) -> None:
    writer = LogStreamWriter(Target(tmp_path / "log"))
    for number in (0, 0, 1, 1):
        written(writer, number)
    assert held(tmp_path / "log") == [0, 1, 2, 10, 11, 12]
    assert not (tmp_path / "log" / "_parts").exists()


def test_a_sink_that_does_not_look_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.pipeline.spark_sink.segments", lambda folder: [])
    monkeypatch.setattr("godwit.pipeline.spark_sink.Path.rename", _appended)
    with pytest.raises(AssertionError):
        test_a_batch_that_comes_again_is_written_once(tmp_path)


def _appended(fresh: Path, target: Path) -> None:
    with target.open("ab") as file:
        file.write(fresh.read_bytes())


@pytest.mark.parametrize("step", ["_put_together", "synced", "_finish"])
def test_a_driver_that_dies_at_any_step_leaves_a_batch_wholly_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log = tmp_path / "log"
    writer = LogStreamWriter(Target(log))
    written(writer, 0)
    with monkeypatch.context() as patched:

        def dies(*_: Any) -> None:
            raise Killed

        patched.setattr(f"godwit.pipeline.spark_sink.{step}", dies)
        with pytest.raises(Killed):
            written(writer, 1)
    assert held(log) in ([0, 1, 2], [0, 1, 2, 10, 11, 12])
    written(LogStreamWriter(Target(log)), 1)
    assert held(log) == [0, 1, 2, 10, 11, 12]


def checkpoint(folder: Path, id: str) -> str:
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": id}))
    return str(folder)


def test_another_stream_may_not_write_to_the_log(tmp_path: Path) -> None:
    log, first, second = tmp_path / "log", checkpoint(tmp_path / "a", "1"), checkpoint(tmp_path / "b", "2")
    written(LogStreamWriter(Target(log, checkpoint=first)), 0)
    with pytest.raises(PipelineError, match="was filled by another stream, or by this one before its checkpoint"):
        written(LogStreamWriter(Target(log, checkpoint=second)), 0)
    with pytest.raises(PipelineError, match="is filled by a stream: use another folder for a table"):
        LogWriter(Target(log)).commit([])
    with pytest.raises(PipelineError, match=r"is the log of publisher 'spark-.*', and not 'x'"):
        written(LogStreamWriter(Target(log, "x", first)), 1)
    captured = EventLog(tmp_path / "captured")
    captured.close()
    with pytest.raises(PipelineError, match="is a log that `godwit sub` fills"):
        written(LogStreamWriter(Target(tmp_path / "captured")), 0)


def test_rows_become_lines_with_all_that_they_hold() -> None:
    rows = batch(
        [1, 2],
        attributes=['{"tags": ["a", "b"]}', None],
        publisher=["p", None],
        sequence=[7, 8],
        published_at=[1.5, None],
        payload=[b"\xff", None],
        day=["2026-01-01", None],
        to=["x > 3", None],
    )
    first, second = (json.loads(line) for line in lines_of(rows))
    assert first == {
        "publisher": "p",
        "sequence": 7,
        "published_at": 1.5,
        "attributes": {"tags": ["a", "b"], "n": 1},
        "payload_base64": "/w==",
        "to": "x > 3",
    }
    assert second == {"publisher": "", "sequence": 0, "published_at": None, "attributes": {"n": 2}}


def test_what_cannot_be_an_event_is_said() -> None:
    with pytest.raises(PipelineError, match="a row cannot become an event"):
        list(lines_of(batch([1], attributes=["{"])))


def test_a_publisher_that_fails_is_said_and_the_events_stay(tmp_path: Path) -> None:
    command = ["python3", "-c", "import sys; sys.exit('error: connection refused')"]
    with pytest.raises(PipelineError, match="were not published: connection refused"):
        written(LogStreamWriter(Target(tmp_path / "log", publish=command)), 0)
    assert held(tmp_path / "log") == [0, 1, 2]


def of_query(writer: LogStreamWriter, number: int, query: str) -> None:
    """A batch whose tasks know of which stream they are."""
    part = writer.write(iter([batch([number])]))
    part.query = query
    writer.commit([part], number)


def test_another_stream_is_refused_though_nobody_can_read_its_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in (0, 1):
        of_query(LogStreamWriter(Target(log, checkpoint="hdfs://there/a")), number, "1")
    with pytest.raises(PipelineError, match="was filled by another stream"):
        of_query(LogStreamWriter(Target(log, checkpoint="hdfs://there/b")), 0, "2")
    table = tmp_path / "table"
    LogWriter(Target(table)).commit([])
    with pytest.raises(PipelineError, match="was filled by another stream"):
        of_query(LogStreamWriter(Target(table)), 0, "2")
    assert held(log) == [0, 1]


def test_two_tables_may_be_written_at_once(tmp_path: Path) -> None:
    writers = [LogWriter(Target(tmp_path)), LogWriter(Target(tmp_path))]
    parts = [writer.write(iter([batch([n])])) for n, writer in enumerate(writers)]
    for part, writer in zip(parts, writers, strict=True):
        writer.commit([part])
    assert held(tmp_path) == [0, 1]
    assert not (tmp_path / "_parts").exists()


def test_a_driver_that_lives_on_after_its_stream_was_begun_again_does_no_harm(tmp_path: Path) -> None:
    late, next_one = LogStreamWriter(Target(tmp_path)), LogStreamWriter(Target(tmp_path))
    part = late.write(iter([batch([0, 1, 2])]))
    written(next_one, 0)
    late.commit([part], 0)
    written(next_one, 1)
    assert held(tmp_path) == [0, 1, 2, 10, 11, 12]


def test_what_killed_jobs_have_left_is_swept_after_a_while(tmp_path: Path) -> None:
    old, new = LogWriter(Target(tmp_path)), LogWriter(Target(tmp_path))
    for writer in (old, new):
        writer.write(iter([batch([0])]))
    os.utime(old.target.parts, (0, 0))
    LogWriter(Target(tmp_path)).commit([])
    assert [path.name for path in (tmp_path / "_parts").iterdir()] == [new.target.job]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sequence": ["7"], "publisher": ["p"]}, "column 'sequence' is string: in a table of events it is a whole"),
        ({"publisher": [1]}, "column 'publisher' is int64: in a table of events it is a text"),
        ({"payload": ["x"]}, "column 'payload' is string: in a table of events it is binary"),
        ({"content_type": [1]}, "column 'content_type' is int64"),
        ({"published_at": ["now"]}, "column 'published_at' is string"),
        ({"sequence": [-1], "publisher": ["p"]}, "its sequence is -1: it must be 0 or more"),
        ({"attributes": ["[1]"]}, "a row cannot become an event"),
    ],
)
def test_columns_of_other_kinds_than_a_table_of_events_has_are_refused(columns: Any, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        list(lines_of(batch([1], **columns)))


def test_a_time_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()
    try:
        [line] = lines_of(batch([1], published_at=[datetime(2026, 1, 1)]))
    finally:
        monkeypatch.undo()
        tzset()
    assert json.loads(line)["published_at"] == datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def test_a_publisher_that_is_still_at_it_is_waited_for(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.touch()
    program = "import os, sys; os.path.exists(sys.argv[1]) or sys.exit(); os.unlink(sys.argv[1]); "
    program += "sys.exit('error: the log is being published by process 7')"
    written(LogStreamWriter(Target(tmp_path / "log", publish=["python3", "-c", program, str(busy)])), 0)
    assert not busy.exists()


def test_who_publishes_ends_when_we_do(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    program = "import sys; told = open(sys.argv[1], 'w'); told.write('here'); told.flush(); sys.stdin.read()"
    child = os.fork()
    if not child:
        written(LogStreamWriter(Target(tmp_path / "log", publish=["python3", "-c", program, str(told)])), 0)
        os._exit(0)
    with told.open("rb", buffering=0) as file:
        assert file.read(4) == b"here"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert file.read(4) == b""  # it has closed its end: it is no more
