"""Every way that the benchmark measures finds the same pairs on a small work, and clocks run in workers."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.own_workload import growing_subscriptions, growing_workload
from benchmarks.pipeline_data import Work, work
from benchmarks.pipeline_jobs import Job, Measuring
from benchmarks.pipeline_ours import build_index
from godwit.filters import event
from godwit.matching import NaiveMatcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = growing_workload(150, 200).attributes


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Work:
    folder = tmp_path_factory.mktemp("benchmark") / "work"
    made = work(folder, growing_subscriptions(150), EVENTS, ("stock",))
    build_index(made)
    return made


@pytest.fixture(scope="module")
def pairs(small: Work) -> int:
    naive = NaiveMatcher()
    naive.add_many(small.filters())
    return sum(len(naive.match(event(each))) for each in EVENTS)


JOBS = [
    ("Spark SQL", "count", "plain"),
    ("Spark SQL", "write", "shapes"),
    ("Godwit", "count", "table"),
    ("Godwit", "write", "table"),
]


@pytest.mark.parametrize(("who", "what", "how"), JOBS)
def test_each_way_finds_the_pairs_that_the_oracle_finds(
    spark: "SparkSession", small: Work, pairs: int, tmp_path: Path, who: str, what: str, how: str
):
    done = Measuring(spark, tmp_path).result(Job("a job", who, what, str(small.folder), how, repeat=0))
    assert (done.pairs, len(done.runs)) == (pairs, 1)
    assert (done.bytes or 0) > 0 or what == "count"


@pytest.mark.parametrize("path", ["table", "dataframe"])
def test_a_job_that_does_nothing_sees_every_row(spark: "SparkSession", small: Work, tmp_path: Path, path: str):
    done = Measuring(spark, tmp_path).result(Job("a job", "Godwit", "no-op", str(small.folder), path, repeat=0))
    assert (done.pairs, done.rows) == (len(EVENTS), len(EVENTS))


@pytest.mark.parametrize("how", ["table write", "dataframe count"])
def test_clocks_say_what_workers_did(spark: "SparkSession", small: Work, tmp_path: Path, how: str):
    done = Measuring(spark, tmp_path).result(Job("a job", "Godwit", "clocks", str(small.folder), how, repeat=0))
    assert done.more["match"] > 0
    assert done.more["encode"] > 0
    assert done.more["wall"] > 0
