"""The rivals of the pipeline's benchmark find what we find; a wrong number of pairs is noticed. No figure counts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pipeline_data as data
from benchmarks.measuring import Machine
from benchmarks.own_workload import growing_workload
from benchmarks.pipeline import QUICK, Bench, Disagreement, Part, agree
from benchmarks.pipeline_data import Work, conditions_of, growing, parsed_filter, parsed_quote, work
from benchmarks.pipeline_jobs import Job, Measuring, Result
from benchmarks.pipeline_ours import build_index, index_of
from benchmarks.pipeline_reporting import Row, json_line, markdown, print_table
from benchmarks.pipeline_rivals import WAYS, Duck, pairs_in
from godwit.filters import event
from godwit.matching import NaiveMatcher

MACHINE = Machine("A chip", 2, "3.11", "2", "0", "abc")
CONDITIONS = [
    ["=", "kind", "stock"],
    ["=", "sym", "S1"],
    ["in", "sym", ["S0", "S1"]],
    ["!=", "sym", "S0"],
    ["not", ["in", "sym", ["S2", "S3"]]],
    ["between", "price", 2.5, 7.5],
    [">", "price", 4],
    ["<=", "price", 6.5],
    ["or", [">", "change", 1.5], ["<", "change", -1.5]],
    ["prefix", "text", "ab"],
    ["suffix", "text", "ba"],
    ["contains", "text", "bb"],
    ["exists", "text"],
    ["=", "tags", "t1"],
]
EXPRESSIONS = [["and", first, second] for first, second in product(CONDITIONS[:9], CONDITIONS[8:]) if first != second]
ATTRIBUTES = [
    {
        "kind": "stock",
        "sym": f"S{number % 4}",
        "price": number % 11,
        "change": (number % 7) - 3.0,
        **({"text": ["abba", "abb", "bba", "cab"][number % 4]} if number % 3 else {}),
        **({"tags": [f"t{number % 3}", f"t{number % 5}"]} if number % 5 else {}),
    }
    for number in range(60)
]


@pytest.fixture
def small(tmp_path: Path) -> Work:
    return work(tmp_path / "small", EXPRESSIONS, ATTRIBUTES, ("kind", "sym"))


def naive_pairs(made: Work, attributes: Sequence[Mapping[str, Any]]) -> int:
    naive = NaiveMatcher()
    naive.add_many((int(id), filter) for id, filter in made.filters())
    return sum(len(naive.match(event(each))) for each in attributes)


@pytest.mark.parametrize("way", WAYS)
def test_duckdb_finds_the_pairs_that_the_oracle_finds(small, way, tmp_path):
    wanted = naive_pairs(small, ATTRIBUTES)
    assert wanted > 0
    assert Duck(small).count(way) == wanted
    Duck(small).write(way, tmp_path / "out")
    assert pairs_in(tmp_path / "out") == wanted
    assert Duck(small, of=7).count(way) == naive_pairs(small, ATTRIBUTES[6::7])


def test_a_work_is_read_as_it_was_written(small):
    assert Work.load(small.folder) == small
    assert small.constants == {small.conditions.index(data.Condition("=", "kind", False)): "stock"} | {
        small.conditions.index(data.Condition("=", name, several)): value
        for name, several, value in (("sym", False, "S1"), ("tags", True, "t1"))
    }


def test_an_index_is_found_again(small):
    told = build_index(small)
    assert told["index_s"] > 0
    assert index_of(small).subscriptions == len(EXPRESSIONS)


def test_what_no_table_of_bounds_holds_is_refused():
    for expression in (["or", ["=", "a", 1], ["=", "b", 1]], ["not", ["=", "a", 1]]):
        with pytest.raises(ValueError, match="no table of bounds"):
            list(conditions_of(expression))
    bounds = data.Bounds(set())
    with pytest.raises(ValueError, match="two conditions price >"):
        bounds.add(["and", [">", "price", 1], [">", "price", 2]])


def test_the_text_of_padres_is_read():
    quote = parsed_quote("[class,'STOCK'],[symbol,'AAPL'],[open,63.30],[volume,10924200],[date,'28-Dec-04']")
    assert quote == {"class": "STOCK", "symbol": "AAPL", "open": 63.3, "volume": 10924200, "date": "28-Dec-04"}
    assert parsed_filter("[class,eq,'STOCK'],[high,>,20.5]") == ["and", ["=", "class", "STOCK"], [">", "high", 20.5]]


def result(pairs: int | None, runs: list[float] | None = None, rows: int = 10) -> Result:
    return Result(Job("a job", "DuckDB", "count", "folder"), runs or [1.0], pairs, rows=rows)


def test_a_way_that_finds_other_pairs_is_caught():
    agree("all", [result(7), result(7)], 7)
    one, other = result(7), replace(result(8), job=replace(result(8).job, name="another"))
    for found, known in (([one, other], None), ([one], 8), ([result(0)], None)):
        with pytest.raises(Disagreement):
            agree("all", found, known)


def test_a_sample_is_scaled_without_what_does_not_grow():
    scaled, a_row = Bench.scaled(result(1, [3.0], 1_000), result(1, [5.0], 2_000), 10_000)
    assert scaled == pytest.approx(21.0)
    assert a_row == pytest.approx(0.002)


def test_duckdb_is_measured_without_spark(tmp_path):
    made = growing(tmp_path / "growing", 200, 100)
    done = Measuring(None, tmp_path).result(Job("a job", "DuckDB", "count", str(made.folder), "plain", repeat=2))
    assert len(done.runs) == 2
    assert done.pairs == naive_pairs(made, growing_workload(200, 100).attributes)
    assert Result.load(json.loads(json.dumps(asdict(done)))) == done


def test_what_is_missing_is_named(tmp_path):
    bench = Bench(QUICK, tmp_path, tmp_path, tmp_path, lambda message: None)
    assert "--data DIR" in bench.missing(Part.QUOTES)
    assert "--workloads DIR" in bench.missing(Part.W3)
    assert bench.missing(Part.GROWTH) == ""


class BenchOfTwoSeconds(Bench):
    """Every job takes two seconds, a sample twice as long when it is twice as large, and finds seven pairs."""

    def work(self, name: str, make: Callable[..., Work], *arguments: Any) -> Work:
        return Work(Path(name), 1_000, 10, (), (), {}, {}, pairs=None)

    def measured(self, master: str, *jobs: Job) -> list[Result]:
        rows = {job: 1_000 // job.of for job in jobs}
        told = {
            "index": {"index_s": 2.0, "index_bytes": 1e6},
            "clocks": {"match": 3.0, "read": 1.0, "wall": 2.0},
            "stream": {"rows": 5_000.0, "events_a_second": 9.0, "batch_s": 0.5, "empty_job_s": 0.1}
            | {"pairs_a_batch": 7.0, "median_s": 0.5, "p95_s": 0.6}
            | {"events": 5_000.0, "job_s": 0.4, "bytes": 2e6, "files": 2.0}  # of the whole stream
            | {"match_s": 0.4, "match_bytes": 1e6, "read_s": 0.1},
        }
        return [
            Result(
                job,
                [2.0 if job.of == 1 else 0.01 * rows[job]] * job.repeat,
                7,
                3.0,
                rows[job],
                8,
                told.get(job.what, {}),
            )
            for job in jobs
        ]


@pytest.mark.parametrize("part", Part)
def test_each_part_says_what_it_measured(part, tmp_path):
    (tmp_path / "generate.py").touch()
    rows = list(BenchOfTwoSeconds(QUICK, tmp_path, tmp_path, tmp_path, lambda message: None).rows(part))
    assert len(rows) >= 2
    for row in rows:
        assert row.figure > 0
        assert row.verdict in ("", "not at this size")
        assert json.loads(json_line(row, MACHINE))["who"] == row.who
    ratios = {row.who: row.ratio for row in rows}
    if part is Part.QUOTES:
        assert ratios["DuckDB, plain: one nested loop"] == 0.5  # two seconds of theirs; ours with the index are four
    if part is Part.W3:
        assert ratios["Spark SQL, plain: one nested loop"] == pytest.approx(10 / 4)


def test_rows_are_shown_and_judged(capsys):
    row = Row("quotes", "some", "DuckDB", [2.0, 1.0, 3.0], "s", 1.5, "of ours", 1.0)
    assert (row.figure, row.verdict) == (2.0, "reached")
    assert replace(row, ratio=0.9).verdict == "missed"
    assert replace(row, at_most=True).verdict == "missed"
    assert replace(row, is_full=False).verdict == "not at this size"
    print_table([row], MACHINE, "Spark 4")
    assert "DuckDB" in capsys.readouterr().out
    assert "| DuckDB | 2 s (1 to 3) |  | 1.5 of ours | ≥ 1 | reached |" in markdown([row], MACHINE)
    assert json.loads(json_line(row, MACHINE))["verdict"] == "reached"
