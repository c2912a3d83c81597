"""Subscriptions in every language on Spark: a table, a DataFrame, a stream and a dry run answer as the queries do."""

import json
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from godwit.cli.pipeline import app, dryrun_command, match_table_command, stream_command
from godwit.errors import PipelineError
from godwit.event_log import EventLog
from godwit.languages import operators
from godwit.pipeline import tables
from godwit.pipeline.dryrun import matching
from godwit.pipeline.matching import counts, match, save_index
from godwit.pipeline.streaming import read_matches
from godwit.pipeline.subscriptions import read_subscriptions, subscriptions_of
from tests.conventions.repository import ROOT
from tests.conventions.test_docs import blocks
from tests.unit.pipeline.mixed_languages import QUERIES, events, expected, queries, residues, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "events")
    lines = [
        json.dumps({"id": id, "filter": text, **({} if language == "filter" else {"language": language})})
        for id, (language, text) in QUERIES.items()
    ]
    (tmp_path / "subscriptions").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def answers(matches: "DataFrame") -> dict[int, list[str]]:
    return {row.sequence: sorted(row.subscriptions) for row in matches.collect()}


def test_a_dataframe_and_a_dry_run_answer_as_the_queries_do(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(id, text, None if language == "filter" else language) for id, (language, text) in QUERIES.items()]
    asked = subscriptions_of(spark.createDataFrame(rows, "subscription string, filter string, language string"))
    found = tables.read(spark, folder / "events", "events")
    index = save_index(asked, folder / "index")
    assert answers(match(found, index)) == expected()
    assert counts(found, index) == (sum(map(len, expected().values())), residues(), 0)
    wanted = [number for number, ids in expected().items() if "wien" in ids]
    assert sorted(row.sequence for row in matching(found, queries()["wien"]).collect()) == wanted
    monkeypatch.setattr(dryrun_command, "session", lambda *_: nullcontext(spark))
    language, text = QUERIES["two sides"]
    said = ["dryrun", str(folder / "events"), "--filter", text, "--language", language, "--sample", "0"]
    summary = json.loads(CliRunner().invoke(app, said).stdout.splitlines()[-1])
    assert summary["matched"] == sum("two sides" in ids for ids in expected().values())
    assert (
        summary["residues"]
        == sum(queries()["two sides"].routable.matches(each) for each in events()) - (summary["matched"])
    )


def test_the_commands_match_a_table_and_a_stream_in_all_languages(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (match_table_command, stream_command):
        monkeypatch.setattr(command, "session", lambda *_: nullcontext(spark))
    inputs = ["--subscriptions", str(folder / "subscriptions"), "--out"]
    summary = CliRunner().invoke(app, ["match", "--events", str(folder / "events"), *inputs, str(folder / "matches")])
    said = json.loads(summary.stdout)
    assert answers(tables.read(spark, folder / "matches", "matches")) == expected()
    assert (said["pairs"], said["residues"], said["undecided"]) == (
        sum(map(len, expected().values())),
        residues(),
        0,
    )
    assert said["exact_tests"] == sum(query.test is not None for query in queries().values())

    with closing(EventLog(folder / "log")) as log:
        log.append(events())
    for source in ("events", "log"):
        out = str(folder / f"stream_{source}")
        summary = CliRunner().invoke(app, ["stream", str(folder / source), *inputs, out, "--once"])
        assert answers(read_matches(spark, out)) == expected(), source
        assert json.loads(summary.stdout.splitlines()[-1])["residues"] == residues()


def test_operators_of_a_module_that_only_the_driver_has_are_called_in_workers(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "_REGISTERED", {})
    for command in (match_table_command, stream_command, dryrun_command):
        monkeypatch.setattr(command, "session", lambda *_: nullcontext(spark))
    module = folder / "operators_for_spark.py"
    module.write_text("def is_odd(number):\n    return number % 2 == 1\n", encoding="utf-8")
    text = "type = 'order' AND is_odd(amount)"
    (folder / "odd").write_text(json.dumps({"id": "odd", "filter": text, "language": "cesql"}), encoding="utf-8")
    odd = [each.sequence for each in events() if each.attributes.get("amount") == 11]
    said = ["--operators", f"{module}:is_odd"]
    inputs = ["--subscriptions", str(folder / "odd"), *said, "--out"]
    ran = CliRunner().invoke(app, ["match", "--events", str(folder / "events"), *inputs, str(folder / "matches")])
    assert ran.exit_code == 0, ran.stderr
    assert sorted(answers(tables.read(spark, folder / "matches", "matches"))) == odd
    ran = CliRunner().invoke(app, ["stream", str(folder / "events"), *inputs, str(folder / "stream"), "--once"])
    assert ran.exit_code == 0, ran.stderr
    assert sorted(answers(read_matches(spark, folder / "stream"))) == odd
    filter = ["--filter", text, "--language", "cesql", "--sample", "0"]
    ran = CliRunner().invoke(app, ["dryrun", str(folder / "events"), *filter, *said])
    assert json.loads(ran.stdout.splitlines()[-1])["matched"] == len(odd)


@pytest.mark.parametrize("language", ["CESQL", "CQL2"])
def test_the_examples_of_the_guide_print_what_it_says(
    spark: "SparkSession", language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/guides/pipeline.md").read_text(encoding="utf-8")
    section = page[page.index("## Other languages") : page.index("## Try a filter on an archive")]
    place = ["CESQL", "CQL2"].index(language)
    exec(blocks(section, "py")[place], {"spark": spark})
    assert capsys.readouterr().out == blocks(section, "text")[place]


def test_what_is_wrong_with_a_query_is_said_with_its_place(folder: Path) -> None:
    (folder / "wrong").write_text('{"id": 1, "filter": "User[", "language": "xql"}\n', encoding="utf-8")
    with pytest.raises(PipelineError, match=r"wrong:1: line 1, column 6"):
        read_subscriptions(folder / "wrong")
    (folder / "wrong").write_text('{"id": 1, "filter": "x", "language": "sequel"}\n', encoding="utf-8")
    with pytest.raises(PipelineError, match=r"wrong:1: .*sequel"):
        read_subscriptions(folder / "wrong")
