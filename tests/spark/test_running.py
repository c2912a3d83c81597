"""Commands of the pipeline: one sentence for what Spark throws, status 130 after Control-C, a summary at the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from click.exceptions import Exit
from click.testing import CliRunner, Result

from godwit.cli import main
from godwit.cli.pipeline.spark_runner import one_line_errors, progress_of, sentence, stage_of, tell
from godwit.cli.pipeline.spark_runner import session as session_of
from godwit.cli.statuses import STATUS_ERROR, STATUS_INTERRUPTED
from godwit.errors import BadEvent, PipelineError
from godwit.pipeline import spark_session, tables
from godwit.trace import Record, TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPE_BYTES = 2**20  # more than a pipe holds, so that writing waits for a reader


class Kept:
    """The session of all tests, that a command may think it has stopped."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


@pytest.fixture
def kept(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Kept:
    found = Kept(spark)
    monkeypatch.setattr(spark_session, "start", lambda *_, **__: found)
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main.app, ["pipeline", *map(str, arguments)])


# ---------------------------------------------------------------- sentences


def _raise_in_a_worker(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        raise BadEvent("attribute 'a': inf is not\na finite number")
    yield from batches


def _fail_in_a_worker(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        assert batch.num_rows == -1, "no such number"
    yield from batches


def _die(_: Any) -> None:
    os._exit(1)


FAILING: list[tuple[Callable[["SparkSession", Path], Any], str]] = [
    (lambda spark, _: spark.read.parquet("/nowhere").count(), r"Path does not exist: file:/nowhere\."),
    (lambda spark, _: spark.range(3).selectExpr("nix").count(), r"A column.* with name `nix` cannot be resolved\."),
    (
        lambda spark, _: spark.range(3).mapInArrow(_raise_in_a_worker, "id long").count(),
        "attribute 'a': inf is not a finite number",
    ),
    (
        lambda spark, _: spark.range(3).mapInArrow(_fail_in_a_worker, "id long").count(),
        "AssertionError: no such number",
    ),
    (
        lambda spark, at: spark.read.schema("a long").parquet(str(at)).count(),
        r"file:.*/a\.parquet is not a Parquet file\.",
    ),
    (lambda spark, _: spark.sql("selekt 1"), "Syntax error at or near 'selekt'"),
    (lambda spark, _: spark.sparkContext.parallelize([1], 1).map(_die).collect(), "Python worker exited unexpectedly"),
]


@pytest.mark.parametrize(("fail", "said"), FAILING)
def test_what_spark_throws_is_one_sentence(
    spark: "SparkSession",
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    fail: Callable[["SparkSession", Path], Any],
    said: str,
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1nonsense")
    with pytest.raises(Exception, match=r".") as caught:
        fail(spark, tmp_path)
    found = sentence(caught.value)
    assert pytest.RaisesExc(Exception, match=said).matches(Exception(found)), found
    assert "\n" not in found
    assert "SQLSTATE" not in found
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------- commands


def test_a_command_ends_with_its_summary_as_a_line_of_json(kept: Kept, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"price": 4}\n{"price": oops}\n')
    ran = run("ingest", source, "--format", "jsonl", "--out", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    summary = json.loads(ran.stdout)
    assert (summary["read"], summary["written"], summary["quarantined"], summary["quarantined_no_JSON"]) == (2, 1, 1, 1)
    assert kept.stopped == 1
    ran = run("ingest", source, "--format", "jsonl", "--out", tmp_path / "out", "--overwrite", "--strict")
    assert (ran.exit_code, kept.stopped) == (STATUS_ERROR, 2)
    words = ran.stderr.splitlines()
    assert words[:2] == ["starting Spark", "reading"]
    assert words[2].startswith(f"error: {source}:2: no JSON: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "--format", "jsonl"], "nowhere: no such file or folder"),
        ([".", "--format", "xml"], "XML needs --row"),
        ([".", "--format", "csv", "--append", "--overwrite"], "--append and --overwrite exclude each other"),
        ([".", "--format", "csv", "--map", "x"], "--map is 'x': it must be OLD=NEW"),
        ([".", "--format", "csv", "--point", "a=b"], "--point is 'a=b': it must be LON,LAT=NAME"),
        ([".", "--format", "csv", "--delimiter", "ab"], "--delimiter is 'ab': it must be one character"),
        ([".", "--format", "trace", "--table", "fixes"], "trace cannot become a table of fixes: allowed is trace"),
    ],
)
def test_a_wrong_wish_is_one_sentence_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark_session, "start", None)
    ran = run("ingest", *arguments, "--out", "out")
    assert (ran.exit_code, ran.stderr.count("\n")) == (STATUS_ERROR, 1)
    assert ran.stderr.startswith(f"error: {said}")


def table_of(folder: Path, table: str) -> None:
    with tables.changing(folder, table) as change:
        if table == "trace":
            tables.save(pa.table({"run": ["city"]}), change.place())
        change.commit()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("analyse nowhere", "nowhere: no such file or folder"),
        ("analyse mine", "mine has no trace.parquet in it, and no table of traces"),
        ("analyse events", "events is a table of events, not one of traces"),
        ("analyse run --out mine/..", "deliveries is not a Godwit table, and not empty"),
        ("ingest empty --format jsonl --out out", "empty is empty: there is nothing to write"),
        ("ingest a.csv --format csv --out mine", "mine is not a Godwit table, and not empty (hello.txt, …)"),
        ("ingest a.csv --format csv --out empty", "cannot write a table to empty: it is not a folder"),
        ("ingest a.csv --format csv --out events", "already: --append adds to it, --overwrite replaces it"),
        ("ingest a.csv --format csv --out traces --append", "traces is a table of traces, not one of events"),
        ("ingest run --format trace --out traces --append", "the table has a run 'city' already: rename the folder"),
        (
            "ingest no.csv.gz --format csv --out out",
            "no.csv.gz is damaged, or not compressed as its name says: Not a gzip",
        ),
        ("match --events events --subscriptions s --out events", "which is the table that is read"),
        ("match --events events --subscriptions s --out matches", "matches already: --overwrite replaces it"),
        ("dryrun events --filter x>1 --out mine", "mine is not a Godwit table, and not empty"),
        ("dryrun events --filter x>my.limit", "as in --context limit=4"),
        ("ingest a.csv --format csv --out out --master nonsense", "'nonsense': not a master URL"),
    ],
)
def test_what_can_be_seen_without_spark_is_said_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.Popen", None)  # with which neither Java nor Spark starts
    for table, kind in (("events", "events"), ("traces", "trace"), ("matches", "matches")):
        table_of(Path(table), kind)
    for folder in ("mine", "deliveries"):
        Path(folder).mkdir()
        Path(folder, "hello.txt").write_text("hello")
    with TraceWriter(Path("run", "city"), {}) as sink:
        sink.write(0.0, "b0", Record("link_up", "b1"))
    for name, text in (("empty", ""), ("a.csv", "a\n1\n"), ("no.csv.gz", "a\n1\n"), ("s", "")):
        Path(name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    ran = run(*arguments.split())
    words = [line for line in ran.stderr.splitlines() if line != "starting Spark"]
    assert (ran.exit_code, len(words)) == (STATUS_ERROR, 1)
    assert words[0].startswith("error: ")
    assert said in words[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_disk_refuses_is_one_sentence() -> None:
    with pytest.raises(PipelineError, match=r"^/x: Permission denied$"), one_line_errors():
        raise PermissionError(13, "Permission denied", "/x")


def test_with_debug_the_stack_trace_comes_before_the_sentence(kept: Kept, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text("oops")
    ran = run("ingest", source, "--format", "jsonl", "--out", tmp_path / "out", "--debug")
    lines = ran.stderr.splitlines()
    assert ran.exit_code == STATUS_ERROR
    assert "Traceback (most recent call last):" in lines
    assert lines[-1].startswith("error: none of the 1 rows")


def test_control_c_cancels_stops_and_leaves_with_its_status(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with session_of("local[2]", "test"):
            raise KeyboardInterrupt

    with pytest.raises(Exception, match=str(STATUS_INTERRUPTED)) as caught:
        interrupted()
    assert getattr(caught.value, "exit_code", None) == STATUS_INTERRUPTED
    assert (kept.stopped, capsys.readouterr().err) == (1, "starting Spark\nstopped\n")


def test_control_c_while_spark_starts_leaves_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spark_session, "start", start)
    with pytest.raises(Exception, match=str(STATUS_INTERRUPTED)), session_of("local[2]", "test"):
        pass


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("godwit.cli.pipeline.ingest_command", "one_line_errors", ["ingest", "x", "--format", "csv", "--out", "out"]),
        ("godwit.pipeline.mobility.fix_sources", "sorted_out", ["mobility", "x", "--out", "out"]),
        ("godwit.pipeline.subscription_sources", "source_of", ["stream", ".", "--subscriptions", "x", "--out", "out"]),
    ],
)
def test_control_c_before_spark_starts_leaves_with_its_status(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, arguments: list[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spark_session, "start", None)
    monkeypatch.setattr(f"{module}.{name}", interrupted)
    ran = run(*arguments)
    assert (ran.exit_code, ran.stderr) == (STATUS_INTERRUPTED, "stopped\n")


# ---------------------------------------------------------------- what it is about just now


class Stage(NamedTuple):
    numCompletedTasks: int  # noqa: N815 - as Spark has it
    numTasks: int  # noqa: N815


def test_a_bar_counts_tasks_where_there_are_some_and_else_only_moves() -> None:
    assert progress_of([]) == progress_of([Stage(0, 1)]) == progress_of([Stage(1, 2)])
    assert progress_of([Stage(1, 2)])["total"] is None
    assert progress_of([Stage(1, 4)], stage_of([8], [[7, 8], [9]]))["tasks"] == "stage 2 of 3, 1 of 4 tasks"
    assert stage_of([7], [[7]]) == stage_of([], [[7, 8]]) == ""
    assert progress_of([Stage(2, 8), Stage(0, 1_000)]) == {"completed": 2, "total": 1_008, "tasks": "2 of 1,008 tasks"}


def test_on_a_terminal_a_word_is_beside_the_bar_and_on_a_pipe_it_is_a_line(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with session_of("local[2]", "test"):
        tell("reading")
    assert capsys.readouterr().err == "starting Spark\nreading\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with session_of("local[2]", "test"):
        tell("matching")
    shown = capsys.readouterr().err
    assert "test: matching" in shown
    assert "starting Spark" in shown


# ---------------------------------------------------------------- Spark's log


def test_sparks_own_words_go_when_a_command_ends_and_stay_when_spark_fails(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "_log", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def logs() -> list[Path]:
        return list(tmp_path.glob("godwit-spark-*.log"))

    with session_of("local[2]", "test"):
        assert len(logs()) == 1
    assert logs() == []
    with pytest.raises(PipelineError, match="ours"), session_of("local[2]", "test"):
        raise PipelineError("ours")
    with pytest.raises(Exit), session_of("local[2]", "test"):
        raise KeyboardInterrupt
    assert logs() == []
    with pytest.raises(PipelineError, match="Path does not exist") as caught, session_of("local[2]", "test") as spark:
        spark.read.parquet("/nowhere").count()
    assert str(caught.value).endswith(f" (Spark's log: {logs()[0]})")
    spark_session.forget_log()

    def start(*_: object) -> None:
        spark_session.log_file().write_text("why")
        raise PipelineError("Spark does not start")

    monkeypatch.setattr(spark_session, "start", start)
    with pytest.raises(PipelineError, match="does not start"), session_of("local[2]", "test"):
        pass
    assert [log.read_text() for log in logs()] == ["why"]
    spark_session.forget_log()


def test_a_radius_without_brokers_is_a_wish_that_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "start", None)
    ran = run("mobility", ".", "--out", "out", "--radius", "100")
    assert (ran.exit_code, ran.stderr.count("\n")) == (STATUS_ERROR, 1)
    assert "it needs --brokers FILE" in ran.stderr


@pytest.mark.slow
def test_a_real_run_that_is_interrupted_leaves_no_table(tmp_path: Path) -> None:
    """The source is a pipe: writing into it goes through only while a task reads, and then the signal is sent."""
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    os.mkfifo(source)
    command = [
        sys.executable,
        "-m",
        "godwit",
        "pipeline",
        "ingest",
        str(source),
        "--format",
        "jsonl",
        "--out",
        str(out),
    ]
    with subprocess.Popen([*command, "--master", "local[1]"], stderr=subprocess.PIPE, text=True) as process:
        while True:
            with source.open("wb", buffering=0) as pipe:
                try:
                    for _ in range(4):
                        pipe.write(b'{"a": 1}\n' * (PIPE_BYTES // 9))
                except BrokenPipeError:  # who opened it only wanted to see whether it may
                    continue
                process.send_signal(signal.SIGINT)
                process.wait()
                break
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == ["starting Spark", "reading", "stopped"]
    assert process.returncode == STATUS_INTERRUPTED
    assert not out.exists()


def test_what_the_file_system_says_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PipelineError, match=r"gone: No such file or directory"), one_line_errors():
        (tmp_path / "gone").read_text()
    with pytest.raises(PipelineError), one_line_errors(debug=True):
        (tmp_path / "gone").read_text()
    assert "FileNotFoundError" in capsys.readouterr().err
