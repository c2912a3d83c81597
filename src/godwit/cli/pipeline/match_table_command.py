"""`godwit pipeline match`: a table of events against many subscriptions."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.pipeline.sink_options import SinkName, SinkOptions, read_sink
from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session, show_summary, tell
from godwit.cli.query_options import OperatorModules, load_operators
from godwit.cli.signatures import Option, echo
from godwit.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from godwit.pipeline.subscription_index import IndexFile

__all__ = ["match"]


def match(
    events: Annotated[str, Option(metavar="TABLE", help="Table of events, made by `ingest`.")],
    subscriptions: Annotated[
        str, Option(metavar="FILE", help="Subscriptions: JSON lines, PADRES filters, or the folder of a table.")
    ],
    out: Annotated[str, Option(metavar="TABLE", help="Folder for the table of matches.")] = "",
    count: Annotated[bool, Option("--count", help="Count the pairs and write nothing.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing table of matches.")] = False,
    sink: SinkName = "",
    sink_options: SinkOptions = None,
    operators: OperatorModules = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Match the events of a table against subscriptions.

    Without --out the pairs are counted, which takes a fraction of the time. A subscription may name the language that
    its filter is written in.

    Example: godwit pipeline match --events quakes --subscriptions wishes.jsonl --count
    """
    with one_line_errors(debug):
        from godwit.pipeline import tables
        from godwit.pipeline.match_sink import hand_over
        from godwit.pipeline.schemas import about
        from godwit.pipeline.subscription_index import SubscriptionIndex
        from godwit.pipeline.subscriptions import read_subscriptions
        from godwit.pipeline.table_matching import learn, match_table

        if out and count:
            raise PipelineError("--out writes the matches and --count only counts them: take one")
        about(events, "events")  # wrong options are reported before Spark starts
        if out and Path(out).resolve() == Path(events).resolve():
            raise PipelineError(f"--out is {out}, which is the table that is read: use another folder")
        if out:
            tables.check(out, "matches", "overwrite" if overwrite else "new")
        if sink and not out:
            raise PipelineError("--sink needs --out: a sink gets the matches once they are in the table")
        load_operators(operators)
        taking = read_sink(sink, sink_options)
        tell("reading the subscriptions")
        began = time.monotonic()
        index = SubscriptionIndex(read_subscriptions(subscriptions))
        learn(index, events)
        file = index.save()
        reading = time.monotonic() - began
        began = time.monotonic()
    try:
        with session(master, "match", debug) as spark:
            tell("starting the workers")
            _start_workers(spark, file)
            starting = time.monotonic() - began
            tell("matching")
            began = time.monotonic()
            done = match_table(spark, events, file, out or None, "overwrite" if overwrite else "new")
            matching = time.monotonic() - began
            if taking is not None and done.matched:
                tell("handing over to the sink")
                hand_over(taking, 0, tables.read(spark, out))
    finally:
        file.remove()
        file.path.parent.rmdir()
    rows: dict[str, object] = {
        "events": done.events,
        "subscriptions": len(index),
        "distinct_filters": index.distinct,
        "matched_events": done.matched,
        "pairs": done.pairs,
    }
    if index.tests:
        rows |= {"exact_tests": index.tests, "residues": done.residues, "undecided": done.undecided}
    if out:
        rows |= {"out": out, "files": done.files}
    rows |= {"seconds_index": round(reading, 3), "seconds_to_start": round(starting, 3)}
    rows["seconds_match"] = round(matching, 3)
    rows["events_per_second"] = round(done.events / matching)
    show_summary("match", rows)
    if done.undecided:
        echo(f"{done.undecided:,} exact tests could not be decided. The first: {done.reason}", err=True)


def _start_workers(spark: "SparkSession", file: "IndexFile") -> None:
    """Make every worker start, open the index and match an event, so that this time does not count as matching."""

    def opened(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from godwit.pipeline import table_matching  # noqa: F401 - before the index is opened, for workers freeze then
        from godwit.pipeline.arrow_columns import ColumnReader

        nothing = pa.record_batch({"publisher": pa.nulls(1)})
        file.open().counts(ColumnReader(file.attributes).read(nothing), 1)
        yield from batches

    slots = spark.sparkContext.defaultParallelism
    file.ship(spark)
    spark.range(0, slots, 1, slots).mapInArrow(opened, "id bigint").collect()
