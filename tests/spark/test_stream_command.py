"""`godwit pipeline stream`: lines for batches, a summary, and one sentence for what goes wrong."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from godwit.cli.pipeline import app, stream_command
from godwit.event_log import EventLog
from godwit.filters.language import parse, to_text
from godwit.pipeline.columns import Form
from godwit.pipeline.schemas import About, write_about
from godwit.pipeline.streaming import read_matches
from tests.spark import streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_subscriptions(path: Path, **filters: str) -> None:
    path.write_text("".join(json.dumps({"id": id, "filter": text}) + "\n" for id, text in filters.items()))


def test_a_stream_goes_on_where_it_was_with_the_subscriptions_of_then(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted, out = streams.make_table(tmp_path / "events"), tmp_path / "wanted.jsonl", tmp_path / "out"
    monkeypatch.setattr(stream_command, "session", lambda *_: nullcontext(spark))

    def run(*more: str) -> list[dict[str, Any]]:
        said = CliRunner().invoke(
            app, ["stream", str(folder), "--subscriptions", str(wanted), "--out", str(out), "--once", *more]
        )
        assert said.exit_code == 0, said.output
        return [json.loads(line) for line in said.stdout.splitlines()]

    first, second = streams.events(50), streams.events(50, 50)
    old, new = {"a": "price > 50"}, {"a": "price > 90", "b": "size IS NULL"}
    write_subscriptions(wanted, **old)
    streams.put(folder, "first", first)
    *lines, summary = run()
    assert [line["events"] for line in lines] == [50]
    told = {"batch", "events", "matched", "pairs", "late", "subscriptions", "seconds", "events_per_second"}
    assert lines[0].keys() == told | {"lag_seconds", "files_waiting"}
    assert [line["files_waiting"] for line in lines] == [0]
    assert summary.pop("seconds") > 0
    assert summary.keys() >= {"seconds_to_start", "events_per_second"}
    assert {name: summary[name] for name in ("batches", "events", "matched", "pairs", "late", "out")} == {
        "batches": 1,
        "events": 50,
        "matched": lines[0]["matched"],
        "pairs": lines[0]["pairs"],
        "late": 0,
        "out": str(out),
    }
    write_subscriptions(wanted, **new)
    streams.put(folder, "second", second)
    *lines, summary = run("--files", "1")
    assert summary["events"] == 100
    assert {line["subscriptions"] for line in lines} == {2}
    expected = [
        *streams.matches(first, {id: parse(text) for id, text in old.items()}),
        *streams.matches(second, {id: parse(text) for id, text in new.items()}),
    ]
    assert streams.collected(read_matches(spark, out)) == sorted(expected)
    assert run()[0]["batches"] == summary["batches"]  # nothing new: no line but the summary


def test_an_event_log_is_matched_without_saying_what_it_holds(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted, out = tmp_path / "log", tmp_path / "wanted.jsonl", tmp_path / "out"

    @contextmanager
    def session(*_: object) -> "Iterator[SparkSession]":
        yield spark
        click.echo('{"events": "over"}')  # the bar is drawn until then

    monkeypatch.setattr(stream_command, "session", session)
    found, filters = streams.events(60), streams.filters()
    write_subscriptions(wanted, **{id: to_text(filter) for id, filter in filters.items()})
    log = EventLog(folder)
    log.append(found)
    log.close()
    said = CliRunner().invoke(
        app,
        ["stream", str(folder), "--subscriptions", str(wanted), "--out", str(out), "--once", "--rows", "25"],
    )
    assert said.exit_code == 0, said.output
    assert [json.loads(line)["events"] for line in said.stdout.splitlines()] == [25, 25, 10, "over", 60]
    assert streams.collected(read_matches(spark, out)) == streams.matches(found, filters)


def test_a_table_whose_files_were_written_anew_is_refused(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted, out = streams.make_table(tmp_path / "events"), tmp_path / "wanted.jsonl", tmp_path / "out"
    monkeypatch.setattr(stream_command, "session", lambda *_: nullcontext(spark))
    write_subscriptions(wanted, a=to_text(parse("price > 50")))
    streams.put(folder, "first", streams.events(10))
    arguments = ["stream", str(folder), "--subscriptions", str(wanted), "--out", str(out), "--once"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    write_about(folder, About("events", attributes={**streams.FORMS, "size": Form("float")}))
    said = CliRunner().invoke(app, arguments)
    assert "attribute 'size' of" in str(said.exception)
    assert "was int and is float, so files were written again" in str(said.exception)


def test_what_is_missing_is_said_before_spark_starts(tmp_path: Path) -> None:
    folder, wanted = streams.make_table(tmp_path / "events"), tmp_path / "wanted.jsonl"

    def said(events: Path, subscriptions: Path) -> str:
        arguments = ["stream", str(events), "--subscriptions", str(subscriptions), "--out", str(tmp_path / "out")]
        return str(CliRunner().invoke(app, arguments).exception)

    assert said(tmp_path / "nowhere", wanted) == f"{tmp_path / 'nowhere'}: no such file or folder"
    assert said(folder, wanted) == f"{wanted}: no such file or folder"
    write_subscriptions(wanted, a="price > 50")
    for other in (tmp_path, wanted):
        assert f"{other} is neither a table of events nor an event log" in said(other, wanted)


def test_the_first_signal_ends_after_the_batch_and_the_second_at_once() -> None:
    with stream_command._ending() as ending:
        signal.raise_signal(signal.SIGINT)
        assert ending.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
