"""Runs reckoned by Spark: every figure is that of a plain reading row by row, and DuckDB's.

Sixty drawn runs are one table, and each question is asked once for all of them.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from godwit.cli.pipeline import app, spark_runner
from godwit.errors import PipelineError
from godwit.pipeline import analytics, schemas
from godwit.pipeline.formats import Options
from godwit.pipeline.ingest import ingest
from godwit.trace import Record, TraceWriter
from tests.spark import trace_oracle as oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS = 60
FILTERS = ("x = 1", "x >= 1", "x = 2", "x > 0 AND y IS NULL", "")
KINDS_IN_VAIN = ("not_addressed", "out_of_context", "residue")
CONTROL = ("Subscribe", "Advertise")

Line = tuple[float, str, Record]


def write(folder: Path, lines: list[Line], about: dict[str, Any] | None = None) -> None:
    with TraceWriter(folder, about or {}) as sink:
        for at, node, record in lines:
            sink.write(at, node, record)


def drawn(rng: Random) -> Iterator[Line]:
    """A run such as none would be: anything at any moment, much of it at the same."""
    at, clients, brokers = 0.0, ["c0", "c1", "p0"], ["b0", "b1", "b2"]
    for _ in range(rng.randrange(1, 90)):
        at += rng.choice((0.0, 0.0, 0.25, 1.5))
        client, broker, other = rng.choice(clients), rng.choice(brokers), rng.choice(brokers)
        id = rng.choice(("p0", "p1")), rng.randrange(1, 6)
        match rng.randrange(9):
            case 0:
                if rng.random() < 0.4:
                    yield at, client, Record("link_down", other)
                yield at, client, Record("link_up", broker)
            case 1:
                yield at, broker, Record("published", id[0], "", *id)
            case 2:
                said = json.dumps({"x": rng.randrange(3)})
                yield at, id[0], Record("probed", broker, "", *id, number=rng.randrange(1, 4), detail=said)
            case 3 | 4:
                yield at, client, Record("delivered", "", "", *id, "s")
            case 5:
                kind, name = rng.choice(("subscription", "subscription", "advertisement")), rng.choice("ab")
                yield at, client, Record("asked", message=kind, subscription=name, detail=rng.choice(FILTERS))
            case 6:
                ends = rng.choice(((broker, other), (broker, client), (client, broker)))
                message = rng.choice((*CONTROL, "Publish", "Attached"))
                said = rng.choice(FILTERS) if message in CONTROL else ""
                yield at, ends[0], Record("handled", ends[1], message, size=rng.randrange(100), detail=said)
            case 7:
                yield at, broker, Record("table", number=rng.randrange(20), detail=rng.choice(("in_ads", "in_subs")))
            case _:
                yield at, broker, Record(rng.choice(KINDS_IN_VAIN), client, "", *id)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("some runs+more ß")
    for number in range(RUNS):
        about = {"scenario": {"run": {"warmup_s": number % 4}}}
        write(folder / f"run {number}", list(drawn(Random(number))), about)
    return folder


@pytest.fixture(scope="module")
def trace(spark: "SparkSession", folder: Path) -> "DataFrame":
    return analytics.read(spark, analytics.find([folder])).persist()


@pytest.fixture(scope="module")
def rows(folder: Path) -> dict[str, list[oracle.Row]]:
    return {each.name: oracle.rows_of(each) for each in folder.iterdir()}


def from_s(run: str) -> float:
    return float(run.split()[1]) % 4


def same(found: Any, expected: Any) -> bool:
    """Equal, but for the last digits of sums of floats."""
    return repr(rounded(found)) == repr(rounded(expected))


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, (tuple, list)):
        return [rounded(each) for each in value]
    return value


def by_run(table: "DataFrame", *columns: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in table.select("run", *columns).collect():
        found.setdefault(row.run, []).append(tuple(row[1:]))
    return {run: sorted(each, key=repr) for run, each in found.items()}


def ordered(expected: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {run: sorted(map(tuple, each), key=repr) for run, each in expected.items() if each}


def agree(found: dict[str, list[Any]], expected: dict[str, list[Any]], runs_min: float = RUNS / 2) -> None:
    expected = ordered(expected)
    assert set(found) == set(expected)
    assert [run for run in found if not same(found[run], expected[run])] == []
    assert len(found) > runs_min, "hardly a run has any: nothing was tested"


# ---------------------------------------------------------------- as row by row


def test_deliveries_are_counted_and_those_again_and_out_of_order(trace: "DataFrame", rows: Any) -> None:
    found = by_run(analytics.delivered(trace), "deliveries", "duplicated", "out_of_order")
    expected = {run: [oracle.delivered(each)] for run, each in rows.items()}
    agree(found, {run: each for run, each in expected.items() if each[0][0]})
    assert sum(again for [(_, again, _)] in found.values()) > 0
    assert sum(overtaken for [(_, _, overtaken)] in found.values()) > 0


def test_times_of_delivery_have_the_quantiles_of_what_was_published_since_the_warm_up(
    trace: "DataFrame", rows: Any
) -> None:
    shares = [0.0, 0.3, 0.5, 0.9, 1.0]
    expected = {run: np.array(oracle.delays(each, from_s(run))) for run, each in rows.items()}
    agree(
        by_run(analytics.latency(trace, shares), "count", "mean", "quantiles"),
        {run: [(len(x), float(x.mean()), np.quantile(x, shares).tolist())] for run, x in expected.items() if len(x)},
    )


def test_a_probe_is_owed_to_everyone_who_wanted_it_at_last(trace: "DataFrame", rows: Any) -> None:
    columns = ("publisher", "sequence", "subscriber", "number", "stop", "at", "delay")
    pairs = analytics.probes(trace).persist()
    agree(by_run(pairs, *columns), {run: list(dict.fromkeys(oracle.probes(each))) for run, each in rows.items()})
    expected: dict[str, list[Any]] = {}
    for run, each in rows.items():
        owed = [pair for pair in dict.fromkeys(oracle.probes(each)) if pair[5] >= from_s(run)]
        for number in {pair[3] for pair in owed}:
            these = [pair[6] is not None for pair in owed if pair[3] == number]
            expected.setdefault(run, []).append((number, len(these), sum(these), sum(these) / len(these)))
    agree(by_run(analytics.probe_ratios(analytics.measured(pairs)), "number", "wanted", "came", "ratio"), expected)
    pairs.unpersist()


def test_moves_and_the_gaps_after_them(trace: "DataFrame", rows: Any) -> None:
    agree(
        by_run(analytics.moves(trace), "client", "at", "old", "new", "until"),
        {run: oracle.moves(each) for run, each in rows.items()},
    )
    agree(
        by_run(analytics.gaps(trace), "client", "at", "gap", "new_gap"),
        {run: oracle.gaps(each) for run, each in rows.items()},
    )


def test_the_trees_of_a_mover_are_rebuilt_by_the_last_message_that_builds_one_until_it_leaves(
    trace: "DataFrame", rows: Any
) -> None:
    found = by_run(analytics.rebuilds(trace), "client", "at", "rebuilt")
    agree(found, {run: oracle.rebuilds(each) for run, each in rows.items()}, runs_min=RUNS / 10)
    assert sum(rebuilt > 0 for each in found.values() for _, _, rebuilt in each) > RUNS / 10


def test_messages_are_counted_hop_by_hop_with_their_bytes(trace: "DataFrame", rows: Any) -> None:
    traffic = {run: oracle.traffic(each, from_s(run)) for run, each in rows.items()}
    agree(
        by_run(analytics.traffic(trace), "message", "air", "hops", "bytes"),
        {run: [(*key, *counts) for key, counts in each.items()] for run, each in traffic.items()},
    )
    expected: dict[str, list[Any]] = {}
    for run, each in traffic.items():
        for message in CONTROL:
            counts = [counts for (name, _), counts in each.items() if name == message]
            if counts:
                expected.setdefault(run, []).append((message, *map(sum, zip(*counts, strict=True))))
    agree(by_run(analytics.control(trace, CONTROL), "message", "hops", "bytes"), expected)


def test_tables_have_the_entries_that_they_had_over_time(trace: "DataFrame", rows: Any) -> None:
    sizes = {run: oracle.table_sizes(each, from_s(run)) for run, each in rows.items()}
    agree(
        by_run(analytics.table_sizes(trace), "node", "table", "average", "last"),
        {run: [(*key, *held) for key, held in each.items()] for run, each in sizes.items()},
    )
    curve = by_run(analytics.table_curve(trace, 7), "table", "at", "entries")
    assert len(curve) > RUNS / 2
    for run, points in curve.items():
        wide = max(*(row["at"] for row in rows[run]), 1e-9) / 7
        for table, at, entries in points:
            assert entries == oracle.entries_after(rows[run], table, wide, round(at / wide)), (run, table, at)


def test_what_came_in_vain_is_counted(trace: "DataFrame", rows: Any) -> None:
    expected: dict[str, list[Any]] = {}
    for run, each in rows.items():
        late = [row["kind"] for row in each if row["at"] >= from_s(run)]
        expected[run] = [(kind, late.count(kind)) for kind in KINDS_IN_VAIN if kind in late]
    agree(by_run(analytics.in_vain(trace), "kind", "rows"), expected)


def test_a_row_that_is_missing_is_seen(trace: "DataFrame", rows: Any) -> None:
    place = next(place for place, row in enumerate(rows["run 7"]) if row["kind"] == "delivered")
    found = by_run(analytics.delivered(trace.where(f"not (run = 'run 7' and place = {place})")), "deliveries")
    assert found["run 7"] == [(oracle.delivered(rows["run 7"])[0] - 1,)]


# ---------------------------------------------------------------- as DuckDB


def test_duckdb_comes_to_the_same(trace: "DataFrame", folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = {row.run: row for row in analytics.delivered(trace).collect()}
    mean = {row.run: row for row in analytics.latency(trace).collect()}
    query = """
        WITH t AS (SELECT parse_path(filename)[-2] run, * FROM read_parquet(?, filename=true, file_row_number=true)),
        warm AS (SELECT DISTINCT run, CAST(string_split(run, ' ')[2] AS BIGINT) % 4 AS from_s FROM t),
        said AS (SELECT run, publisher, sequence, min("at") published_at FROM t
                 WHERE kind IN ('probed', 'published') GROUP BY ALL),
        came AS (SELECT run, node, publisher, sequence, "at", row_number() OVER
                 (PARTITION BY run, node, publisher, sequence ORDER BY file_row_number) number
                 FROM t WHERE kind = 'delivered'),
        took AS (SELECT run, "at" - published_at delay FROM came JOIN said USING (run, publisher, sequence)
                 JOIN warm USING (run) WHERE number = 1 AND published_at >= from_s),
        times AS (SELECT run, avg(delay) mean, quantile_cont(delay, [0.5, 0.9, 0.99]) quantiles FROM took GROUP BY run)
        SELECT run, count(*), count(*) FILTER (number > 1), any_value(mean), any_value(quantiles)
        FROM came LEFT JOIN times USING (run) GROUP BY run"""
    files = [str(path) for path in sorted(folder.rglob("*.parquet"))]
    rows = duckdb.execute(query, [files]).fetchall()
    assert {row[0] for row in rows} == set(found)
    for run, count, again, average, quantiles in rows:
        assert (found[run].deliveries, found[run].duplicated) == (count, again)
        assert same([average, quantiles], [mean[run]["mean"], mean[run].quantiles] if run in mean else [None, None])


# ---------------------------------------------------------------- reading


def test_a_table_of_traces_is_read_as_the_traces_are(spark: "SparkSession", trace: "DataFrame", tmp_path: Path) -> None:
    table = tmp_path / "table"
    trace.orderBy("run", "place").select(*schemas.TABLES["trace"]).repartition(1).sortWithinPartitions(
        "run", "place"
    ).write.parquet(str(table))
    schemas.write_about(table, schemas.About("trace"))
    again = analytics.read(spark, analytics.find([table]))
    columns = ("deliveries", "duplicated", "out_of_order")
    assert by_run(analytics.delivered(again), *columns) == by_run(analytics.delivered(trace), *columns)


def test_a_run_is_called_as_its_folder_is_and_two_of_a_name_by_more(tmp_path: Path) -> None:
    for name in ("a/x", "b/x", "b/y"):
        write(tmp_path / name, [])
    assert [each.run for each in analytics.find([tmp_path])] == ["a/x", "b/x", "y"]
    assert [each.run for each in analytics.find([tmp_path / "b", tmp_path / "b" / "x" / "trace.parquet"])] == ["x", "y"]


def test_a_path_over_folders_above_loses_no_row(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two[1] {x} %41#"):
        write(tmp_path / "traces" / name, [(0.0, "b0", Record("link_up", "b1"))])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found = analytics.read(spark, analytics.find(["../traces"]))
    assert sorted(row.run for row in found.collect()) == ["one", "two[1] {x} %41#"]
    source = analytics.TraceSource(Path("..") / "traces" / "one" / "trace.parquet", "called so")
    assert analytics.read(spark, [source]).collect()[0].run == "called so"


def test_two_runs_of_one_name_are_not_taken_for_one(spark: "SparkSession", tmp_path: Path) -> None:
    write(tmp_path / "one", [(0.0, "b0", Record("link_up", "b1"))])
    ingest(spark, [str(tmp_path / "one")], Options("trace"), tmp_path / "table")
    ingest(spark, [str(tmp_path / "one")], Options("trace"), tmp_path / "other")
    for other in ("one", "other"):
        with pytest.raises(PipelineError, match=rf"the run 'one' is in the table .* and in .*{other}: remove one of"):
            analytics.find([tmp_path / other, tmp_path / "table"])


@pytest.mark.parametrize("given", ["table", ""])
def test_a_run_beside_the_files_of_a_table_is_read_too(spark: "SparkSession", tmp_path: Path, given: str) -> None:
    for name in ("one", "table/two"):
        write(tmp_path / name, [(0.0, "b0", Record("link_up", "b1"))])
    (tmp_path / "table").rename(tmp_path / "aside")
    ingest(spark, [str(tmp_path / "one")], Options("trace"), tmp_path / "table")
    (tmp_path / "aside" / "two").rename(tmp_path / "table" / "two")
    shutil.rmtree(tmp_path / "one")
    found = analytics.read(spark, analytics.find([tmp_path / given]))
    assert sorted(row.run for row in found.select("run").collect()) == ["one", "two"]


def test_what_is_no_trace_is_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(PipelineError, match="nowhere: no such file or folder"):
        analytics.find([tmp_path / "nowhere"])
    with pytest.raises(PipelineError, match=r"has no trace.parquet in it"):
        analytics.find([tmp_path])
    pq.write_table(pa.table({"price": [1]}), tmp_path / "trace.parquet")
    with pytest.raises(PipelineError, match=r"is not a trace: its columns are price"):
        analytics.find([tmp_path])
    (tmp_path / "trace.parquet").write_text("no Parquet")
    with pytest.raises(PipelineError, match="cannot read the trace"):
        analytics.find([tmp_path])


# ---------------------------------------------------------------- the command


def test_the_command_says_a_line_for_each_run_and_draws(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = ("p0", 1)
    probe = Record("probed", "b0", "", *id, number=1, detail='{"x": 1}')
    lines: list[Line] = [
        (0.0, "s0", Record("asked", message="subscription", subscription="a", detail="x = 1")),
        (1.0, "p0", probe),
        (1.1, "b0", Record("published", "p0", "", *id)),
        (1.5, "s0", Record("delivered", "", "", *id, "a")),
        (2.0, "b0", Record("table", number=3, detail="in_subs")),
    ]
    moves: list[Line] = [(0.0, "s0", Record("link_up", "b0")), (2.5, "s0", Record("link_up", "b1"))]
    write(tmp_path / "traces" / "one", lines)
    write(tmp_path / "traces" / "two", [*lines, *moves, (4.0, "b1", Record("handled", "b0", "Subscribe", size=9))])
    monkeypatch.setattr(spark_runner, "session", lambda *_: nullcontext(spark))
    found = CliRunner().invoke(app, ["analyse", str(tmp_path / "traces"), "--out", str(tmp_path / "out")])
    one, two = map(json.loads, found.stdout.splitlines())
    same_of_both = {"published": 1, "deliveries": 1, "duplicated": 0, "out_of_order": 0, "probe_ratios": {"1": 1.0}}
    assert one == {
        "run": "one",
        "rows": 5,
        "entries": {"in_subs": 0.0},
        **same_of_both,
        "latency_s": {"mean": 0.5, "p50": 0.5, "p90": 0.5, "p99": 0.5},
    }
    assert (two["moves"], two["control"], two["control_per_move"]) == (1, {"Subscribe": 1}, 1.0)
    assert two["entries"] == {"in_subs": 1.5}
    assert schemas.about(tmp_path / "out" / "deliveries").table == "deliveries"
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"latency.png", "probes.png", "tables.png"}
    assert json.loads((tmp_path / "out" / "runs.json").read_text())["two"]["moves"] == 1


def test_a_folder_that_is_no_table_of_deliveries_is_not_overwritten(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "trace", [(0.0, "b0", Record("link_up", "b1"))])
    (tmp_path / "out" / "deliveries").mkdir(parents=True)
    (tmp_path / "out" / "deliveries" / "mine.txt").write_text("mine")
    monkeypatch.setattr(spark_runner, "session", lambda *_: nullcontext(spark))
    found = CliRunner().invoke(app, ["analyse", str(tmp_path / "trace"), "--out", str(tmp_path / "out")])
    assert isinstance(found.exception, PipelineError)
    assert (tmp_path / "out" / "deliveries" / "mine.txt").read_text() == "mine"
