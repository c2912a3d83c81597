"""A stream whose driver is killed with SIGKILL again and again: what comes out is what one batch gives, once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.pipeline.batch_ledger import BatchLedger
from godwit.pipeline.streaming import read_matches
from tests.spark import streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = Path(__file__).with_name("stream_driver.py")
ROOT = DRIVER.parents[2]
FILES, ROWS = 40, 20
LIMIT_S = 300


def start(folder: Path, out: Path, way: str, death: str = "") -> "subprocess.Popen[str]":
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(folder), str(out), way, death],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, int]:
    """Its status, and how many batches it said were complete."""
    said, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, len(said.splitlines())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", ["rows", "files"])
def test_killed_anywhere_again_and_again_a_stream_gives_what_one_batch_gives(
    request: pytest.FixtureRequest, tmp_path: Path, way: str
) -> None:
    folder, out = streams.make_table(tmp_path / "events"), tmp_path / "out"
    all_events = streams.events(FILES * ROWS)
    for first in range(0, len(all_events), ROWS):
        streams.put(folder, f"part{first:05d}", all_events[first : first + ROWS])
    draw = random.Random(7)
    deaths = ["worker:0", "spark:1", f"change:{draw.randrange(4, 40)}", f"change:{draw.randrange(4, 40)}:alone"]
    for death in deaths:
        status, _ = ended(start(folder, out, way, death))
        assert status == -signal.SIGKILL, death
    process = start(folder, out, way)  # and at any moment, also within Spark's own doing
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(draw.random())
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    assert ended(start(folder, out, way))[0] == 0
    spark: SparkSession = request.getfixturevalue("spark")  # only now: each has a JVM of its own
    wanted = streams.filters()
    assert streams.collected(read_matches(spark, out)) == streams.matches(all_events, wanted)
    assert streams.collected(spark.read.parquet(str(out))) == streams.matches(all_events, wanted)
    last = BatchLedger(out).last()
    assert last is not None
    assert last.totals.events == len(all_events)
    assert not list(out.glob("_attempts/*"))
