"""A driver to be killed: matches the stream of a folder, file by file, and dies where it is told to.

    python stream_driver.py EVENTS OUT WAY [DEATH]

WAY is `rows` or `files`, see `streams.source`. DEATH is `change:N`, before the Nth change that the driver makes to the
output; `change:N:alone`, the same, but Spark's JVM is left alive and has to notice; `worker:N`, when a task has written
its file in the Nth batch; `spark:N`, when the Nth batch is complete and Spark does not know it yet. A line on standard
output for each batch.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from godwit.pipeline import spark_session, stream_tasks, streaming
from godwit.pipeline.subscription_sources import FixedSubscriptions
from tests.spark import streams

CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def die(alone: bool = False) -> None:
    if alone:
        os.kill(os.getpid(), signal.SIGKILL)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def at_change(out: str, number: int, alone: bool) -> None:
    """Die before the driver's nth change below `out`."""
    left = [number]

    def look(event: str, args: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(args[0]).startswith(out):
            return
        if event == "open" and (not isinstance(args[1], str) or args[1] in ("r", "rb")):
            return
        left[0] -= 1
        if left[0] < 0:
            die(alone)

    sys.addaudithook(look)


class Deadly(stream_tasks.StreamTask):
    """A task that takes its driver with it, once its first file is written; what it does after that is for nobody."""

    driver = 0

    def reports(self, batches: Iterator[Any], schema: Any = None) -> Iterator[Any]:
        for number, report in enumerate(super().reports(batches, schema)):
            if number == 0:
                os.killpg(self.driver, signal.SIGKILL)
            yield report


def main(events: str, out: str, way: str, death: str = "") -> None:
    kind, _, rest = death.partition(":")
    number = int(rest.partition(":")[0]) if rest else -1
    java = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    spark = spark_session.start("local[2]", "godwit-killed", java)
    if kind == "change":
        at_change(out, number, rest.endswith("alone"))
    told = 0

    def on_batch(done: streaming.CompletedBatch) -> None:
        nonlocal told
        print(done.entry.batch, done.entry.counts.events, flush=True)
        told += 1
        if kind == "spark" and told > number:
            die()
        if kind == "worker" and told > number:
            Deadly.driver = os.getpgid(0)
            streaming.StreamTask = Deadly  # type: ignore[attr-defined]

    found = streaming.stream(
        **streams.source(spark, Path(events), way),
        subscriptions=FixedSubscriptions(streams.filters()),
        out=out,
        once=True,
        on_batch=on_batch,
    )
    found.wait()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
