"""What Spark writes to an event log: each batch once, whenever the driver ends. Needs no session."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from godwit.errors import PipelineError
from godwit.runtime.event_log import EventLog, lines_from

pytest.importorskip("pyspark", reason="the pipeline extra is not installed")

from godwit.pipeline.sink import LogStreamWriter, LogWriter, Target, lines_of


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
    monkeypatch.setattr("godwit.pipeline.sink.segments", lambda folder: [])
    monkeypatch.setattr("godwit.pipeline.sink.Path.rename", _appended)
    with pytest.raises(AssertionError):
        test_a_batch_that_comes_again_is_written_once(tmp_path)


def _appended(fresh: Path, target: Path) -> None:
    with target.open("ab") as file:
        file.write(fresh.read_bytes())


@pytest.mark.parametrize("step", ["_put_together", "_sync", "_finish"])
def test_a_driver_that_dies_at_any_step_leaves_a_batch_wholly_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log = tmp_path / "log"
    writer = LogStreamWriter(Target(log))
    written(writer, 0)
    with monkeypatch.context() as patched:

        def dies(*_: Any) -> None:
            raise Killed

        patched.setattr(f"godwit.pipeline.sink.{step}", dies)
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
    with pytest.raises(PipelineError, match="is filled by a stream: take another folder for a table"):
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
    command = ["python3", "-c", "import sys; sys.exit('error: nobody listens there')"]
    with pytest.raises(PipelineError, match="were not published: nobody listens there"):
        written(LogStreamWriter(Target(tmp_path / "log", publish=command)), 0)
    assert held(tmp_path / "log") == [0, 1, 2]
