"""Formats and sinks of other packages: rows are checked, faults named, and a batch is handed over until it is taken."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from godwit.errors import PipelineError
from godwit.filters.language import parse
from godwit.pipeline import tables
from godwit.pipeline.batch_ledger import Counts, Written
from godwit.pipeline.formats.rows import BadRow, Options
from godwit.pipeline.ingest import check, ingest
from godwit.pipeline.match_sink import hand_over, sink_of
from godwit.pipeline.streaming import Stream
from godwit.pipeline.subscription_sources import FixedSubscriptions
from tests.unit.pipeline.test_ingest import Plain, found

HERE = __name__


class Sent(Plain):
    """A session that remembers which files it was asked to send to workers."""

    applicationId = "test"  # noqa: N815 - as Spark calls it

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802
        self.files.append(path)


class Lines:
    table = "events"

    def read(self, file: IO[bytes], name: str) -> Iterator[Mapping[str, Any] | BadRow]:
        for number, line in enumerate(file, start=1):
            text = line.decode().strip()
            if text == "odd":
                yield BadRow(number, "no line: it is odd", text)
            elif text == "wrong":
                yield {"a": object()}
            elif text == "end":
                raise ValueError("the end is near")
            else:
                yield {"a": text, "deep": {"length": len(text)}}


class Places(Lines):
    table = "fixes"

    def read(self, file: IO[bytes], name: str) -> Iterator[Mapping[str, Any] | BadRow]:
        for line in file:
            lon, lat = map(float, line.split())
            yield {"client": Path(name).stem, "at": 1.0, "lon": lon, "lat": lat}


class NoTable:
    def read(self, file: IO[bytes], name: str) -> Iterator[Mapping[str, Any] | BadRow]:
        return iter(())


class Kept:
    """A sink that remembers what it was given, and fails as often as it is told."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.failures = int(options.get("failures", "0"))
        self.batches: list[tuple[int, Any]] = []

    def write(self, batch: int, matches: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        self.batches.append((batch, matches))


def test_rows_of_a_source_become_events_and_bad_ones_are_named_by_line(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("one\nodd\nwrong\nthree\nend\nfive\n")
    run: Any = Sent()
    report = ingest(run, [str(tmp_path / "x.txt")], Options(f"{HERE}:Lines"), tmp_path / "out")
    assert found(tmp_path / "out", ("a", "deep/length")) == [("one", 3), ("three", 5)]
    bad = found(tmp_path / "out" / tables.QUARANTINE, ("line", "reason"))
    assert [line for line, _ in bad] == [2, 3, 5]
    assert bad[0][1] == "no line: it is odd"
    assert bad[1][1].startswith("bad event: ")
    assert bad[2][1] == "broken off: the file cannot be read from here on (the end is near)"
    assert report.read == report.written + sum(report.quarantined.values())
    assert [Path(path).name for path in run.files] == ["tests.zip"]  # workers can import it


def test_a_source_may_become_fixes(tmp_path: Path) -> None:
    (tmp_path / "anna.txt").write_text("8.5 47.4\n")
    run: Any = Sent()
    assert ingest(run, [str(tmp_path / "anna.txt")], Options(f"{HERE}:Places"), tmp_path / "out").table == "fixes"
    assert found(tmp_path / "out", ("client", "lon", "lat")) == [("anna", 8.5, 47.4)]


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ("diary", r"'diary' is not a format: allowed are jsonl, .*trace.*, or module:Class of your own"),
        ("no_such_module:X", "cannot import the source 'no_such_module:X': No module named 'no_such_module'"),
        (f"{HERE}:Nothing", "has no 'Nothing'"),
        (f"{HERE}:NoTable", "needs a method 'read' and an attribute 'table', which is None: allowed is 'events' or"),
    ],
)
def test_a_source_that_is_none_is_refused_before_spark_starts(tmp_path: Path, format: str, said: str) -> None:
    (tmp_path / "x").write_text("a\n")
    with pytest.raises(PipelineError, match=said):
        check([str(tmp_path / "x")], Options(format), tmp_path / "out")


def test_a_sink_that_refuses_its_options_or_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"the sink '.*:Kept' cannot be made: ValueError: invalid literal"):
        sink_of(f"{HERE}:Kept", {"failures": "many"})
    with pytest.raises(PipelineError, match="there is no sink 'nowhere': known are"):
        sink_of("nowhere", {})
    matches: Any = "rows"
    sink = sink_of(f"{HERE}:Kept", {"failures": "1"})
    with pytest.raises(PipelineError, match="the sink failed at batch 7: OSError: the disk is full"):
        hand_over(sink, 7, matches)
    hand_over(sink, 7, matches)
    assert sink.batches == [(7, "rows")]  # type: ignore[attr-defined]


class Session:
    """Reads files as their names."""

    @property
    def read(self) -> "Session":
        return self

    def schema(self, _: Any) -> "Session":
        return self

    def parquet(self, *paths: str) -> list[str]:
        return [Path(path).name for path in paths]


def test_a_batch_is_handed_over_again_until_its_files_are_merged(tmp_path: Path) -> None:
    """A batch that was complete when the driver was killed is given to the sink again, with the same number."""
    sink = Kept({})
    stream = Stream(tmp_path, tmp_path / "_checkpoint", FixedSubscriptions({"a": parse("x > 1")}), None, sink=sink)
    stream._known.look(must=True)
    session: Any = Session()
    with stream._ledger.held():
        begun = stream._ledger.begin(0, "s", stream._plan)
        attempt = stream._ledger.attempt(begun)
        (attempt / "x.parquet").touch()
        (attempt / "late.parquet").touch()
        moved = tuple((str((attempt / name).relative_to(tmp_path)), to) for name, to in
                      (("x.parquet", "b0-0.parquet"), ("late.parquet", "_late/b0-1.parquet")))  # fmt: skip
        done = stream._ledger.complete(begun, Written(moved, Counts(events=1)))
        stream._hand_over(done, session)
        stream._hand_over(done, session)
        assert sink.batches == [(0, ["b0-0.parquet"])] * 2
        (tmp_path / "b0-0.parquet").unlink()  # merged
        stream._hand_over(done, session)
        stream._hand_over(msgspec.structs.replace(done, files=()), session)  # nothing matched
        assert len(sink.batches) == 2


def test_the_modules_of_the_current_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from godwit.cli.pipeline.sink_options import read_sink

    (tmp_path / "own_sink.py").write_text(
        "class Own:\n    def __init__(self, options):\n        self.options = options\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    made: Any = read_sink("own_sink:Own", ["a=1", "b=x=y"])
    assert made.options == {"a": "1", "b": "x=y"}
    with pytest.raises(PipelineError, match="--sink-option is 'a': it must be KEY=VALUE"):
        read_sink("own_sink:Own", ["a"])
    with pytest.raises(PipelineError, match="--sink-option needs --sink"):
        read_sink("", ["a=1"])
