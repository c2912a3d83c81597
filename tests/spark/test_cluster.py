"""A run on a cluster equals the local one: a standalone master with two workers, and Spark's own little cluster.

Both run in a process of their own, for a process has one session; the index is hidden from the workers where the
driver keeps it, so that they must take the one that Spark has carried to them.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest

from godwit.filters.events import event
from godwit.filters.language import to_json
from godwit.matching.naive_matcher import NaiveMatcher
from tests.unit.filters.random_filters import random_attributes, random_filter
from tests.unit.pipeline.test_table_matching import event_table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ANSWERS_WITHIN_S = 480
JOB = """
import json, sys
from dataclasses import replace
from godwit.pipeline import row_ranges, spark_session, tables
from godwit.pipeline.subscription_index import IndexFile
from godwit.pipeline.matching import count, match, save_index
from godwit.pipeline.subscriptions import read_subscriptions
from godwit.pipeline.table_matching import match_table

master, folder = sys.argv[1:]
row_ranges.TASK_ROWS_MIN = 1
index = save_index(read_subscriptions(f"{folder}/subscriptions"), f"{folder}/index")
spark = spark_session.start(master, "godwit-tests", {"spark.executor.memory": "700m", "spark.cores.max": "2"})
index.ship(spark)
IndexFile.ship = lambda self, spark: None
hidden = replace(index, folder=f"{folder}/nowhere")
events = tables.read(spark, f"{folder}/events", "events").repartition(4)
found = {row.sequence: sorted(row.subscriptions) for row in match(events, hidden).collect()}
done = match_table(spark, f"{folder}/events", hidden, f"{folder}/matches")
written = tables.read(spark, f"{folder}/matches", "matches").collect()
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
spark.stop()
print(json.dumps([found, {row.sequence: sorted(row.subscriptions) for row in written}, done.pairs, executors]))
"""


@contextmanager
def daemon(kind: str, folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A master or a worker, and what it says."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--webui-port", "0", *arguments],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        yield process, process.stderr
    finally:
        process.terminate()
        process.communicate()


def awaited(said: IO[str], pattern: str) -> str:
    """The group of a pattern in the next line that has it; the daemon has ended when there is none."""
    lines = []
    for line in said:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError("".join(lines[-20:]))


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of a master that two workers have joined."""
    with ExitStack() as stack:
        _, said = stack.enter_context(daemon("master.Master", folder, "--port", "0"))
        address = awaited(said, r"Starting Spark master at (spark://\S+)")
        workers = []
        for number in range(2):
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"w{number}"), address)
            workers.append(stack.enter_context(daemon("worker.Worker", folder, *arguments))[1])
        for worker in workers:
            awaited(worker, r"(Successfully registered with master)")
        yield address


@contextmanager
def local_cluster(folder: Path) -> Iterator[str]:
    yield "local-cluster[2,1,1024]"


@pytest.mark.parametrize("cluster", [standalone, local_cluster])
def test_a_cluster_finds_what_the_naive_matcher_finds(tmp_path: Path, cluster: Any) -> None:
    pytest.importorskip("pyspark", reason="the pipeline extra is not installed")
    draw = Random(3)
    rows = [event(random_attributes(draw)).attributes for _ in range(300)]
    event_table(tmp_path / "events", rows)
    filters = [(str(number), random_filter(draw)) for number in range(60)]
    naive = NaiveMatcher()
    naive.add_many(filters)
    lines = [json.dumps({"id": id, "filter": to_json(filter)}) for id, filter in filters]
    (tmp_path / "subscriptions").write_text("\n".join(lines), encoding="utf-8")
    expected = {str(n): sorted(map(str, ids)) for n, row in enumerate(rows) if (ids := naive.match(event(row)))}
    with cluster(tmp_path) as master:
        ran = subprocess.run(
            [sys.executable, "-c", JOB, master, str(tmp_path)],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=ANSWERS_WITHIN_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    found, written, pairs, executors = json.loads(ran.stdout)
    assert found == expected
    assert written == expected
    assert pairs == sum(map(len, expected.values()))
    assert executors == 2
