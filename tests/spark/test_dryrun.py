"""A dry run counts by day what a filter would have matched, shows the first, and makes a table of them."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from godwit.cli.main import app
from godwit.filters import parse
from godwit.filters.values import Point
from godwit.pipeline.columns import Form, column_of, to_arrow
from godwit.pipeline.schemas import schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 11, 13, 20, tzinfo=UTC)
ATTRIBUTES: list[dict[str, Any]] = [
    {"price": float(number), "sym": "AB"[number % 2], "at": Point(number, 1), "tags": ("a", "b") if number % 3 else "c"}
    for number in range(20)
]
FORMS = {"price": Form("float"), "sym": Form("text"), "at": Form("point"), "tags": Form("text", several=True)}


@pytest.fixture(scope="module")
def events(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty events, one every two hours, the last one without a time."""
    import pyarrow as pa

    from godwit.pipeline.tables import write

    times = [START + timedelta(hours=2 * number) for number in range(19)]
    columns = {
        "publisher": pa.array(["p"] * 20),
        "sequence": pa.array(range(1, 21), pa.int64()),
        "published_at": pa.array([*times, None], pa.timestamp("us", "UTC")),
        "day": pa.array([*(time.date() for time in times), None]),
    }
    for name, form in FORMS.items():
        columns[column_of(name)] = to_arrow(form, [row[name] for row in ATTRIBUTES])
    frame = spark.createDataFrame(pa.table(columns))
    assert {field.name for field in frame.schema} <= set(schema("events", FORMS).names)
    folder = tmp_path_factory.mktemp("dryrun") / "events"
    write(frame, folder, "events")
    return folder


def test_days_are_counted_and_the_first_are_shown(spark: "SparkSession", events: Path) -> None:
    from godwit.pipeline.dryrun import Day, dry_run

    found = dry_run(spark, events, parse("price >= 1 AND sym = 'B'"), sample=2)
    assert found.days == (
        Day(None, 1, 1),
        Day(date(2026, 11, 13), 1, 2),
        Day(date(2026, 11, 14), 6, 12),
        Day(date(2026, 11, 15), 2, 5),
    )
    assert (found.matched, found.events, found.unknown) == (10, 20, ())
    first, second = found.sample  # one without a time is before all others
    assert (first.sequence, first.published_at) == (20, None)
    assert (second.sequence, second.attributes) == (2, ATTRIBUTES[1])
    assert second.published_at == (START + timedelta(hours=2)).timestamp()


def test_days_without_a_match_and_unknown_attributes_are_told(spark: "SparkSession", events: Path) -> None:
    from godwit.pipeline.dryrun import dry_run

    found = dry_run(spark, events, parse("prcie > 1"))
    assert [day.matched for day in found.days] == [0, 0, 0, 0]
    assert found.sample == ()
    assert found.unknown == ("prcie",)


def test_several_values_and_places(spark: "SparkSession", events: Path) -> None:
    from godwit.pipeline.dryrun import dry_run

    wanted = parse("tags = 'b' AND at WITHIN circle(5, 1, 250000)")
    found = dry_run(spark, events, wanted, sample=100)
    assert [event.attributes for event in found.sample] == [row for row in ATTRIBUTES if wanted.holds(row)] != []


# ---------------------------------------------------------------- the command


@pytest.fixture
def run(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, in the session of the tests, which it may not stop."""
    from contextlib import contextmanager

    from godwit.cli.pipeline import dryrun_command

    @contextmanager
    def same(master: str, what: str, debug: bool = False) -> Any:
        yield spark

    monkeypatch.setattr(dryrun_command, "session", same)

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["pipeline", "dryrun", *words])

    return invoke


def test_on_a_pipe_there_are_lines_of_json(run: Any, events: Path) -> None:
    result = run(str(events), "--filter", "price < 3", "--sample", "1")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["matched"] for line in lines if "day" in line] == [0, 2, 1, 0]
    assert [line["event"]["attributes"]["price"] for line in lines if "event" in line] == [0.0]
    seconds = lines[-1].pop("seconds")
    assert seconds > 0
    assert lines[-1] == {"filter": "price < 3", "matched": 3, "events": 20, "days": 4}


def test_what_matches_becomes_a_table(run: Any, events: Path, spark: "SparkSession", tmp_path: Path) -> None:
    from godwit.pipeline.dryrun import dry_run
    from godwit.pipeline.tables import read

    out = tmp_path / "cheap"
    assert run(str(events), "--filter", "price < my.limit", "--context", "limit=3", "--out", str(out)).exit_code == 0
    assert read(spark, out, "events").count() == 3
    again = dry_run(spark, out, parse("price < 3"))
    assert (again.matched, again.events) == (3, 3)
    refused = run(str(events), "--filter", "price < 1", "--out", str(out))
    assert refused.exit_code != 0
    assert run(str(events), "--filter", "price < 1", "--out", str(out), "--overwrite").exit_code == 0
    assert read(spark, out, "events").count() == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--filter", "x > 1"], "there is no table 'nowhere'"),
        (["EVENTS", "--filter", "x >"], "expected"),
        (["EVENTS", "--filter", "x > my.limit"], "my.limit"),
        (["EVENTS", "--filter", "x > 1", "--out", "EVENTS", "--overwrite"], "use another folder"),
        (["EVENTS", "--filter", "x > 1", "--out", "EVENTS"], "use another folder"),
    ],
)
def test_what_is_wrong_is_one_sentence_before_spark_starts(
    events: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from godwit.cli.pipeline import dryrun_command

    monkeypatch.setattr(dryrun_command, "session", None)
    result = CliRunner().invoke(app, ["pipeline", "dryrun", *(str(events) if w == "EVENTS" else w for w in words)])
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)
