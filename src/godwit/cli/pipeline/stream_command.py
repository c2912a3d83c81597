"""`godwit pipeline stream`: match events as they arrive, and write each match once.

*Rules.*
1. One line per batch: JSON on a pipe, text on a terminal.
2. Ctrl-C or SIGTERM ends the stream after the running batch; a second one ends it at once. Both are safe.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from godwit.cli.pipeline.sink_options import SinkName, SinkOptions, read_sink
from godwit.cli.pipeline.spark_runner import Debug, Master, one_line_errors, session, show_stage, show_summary, tell
from godwit.cli.query_options import OperatorModules, load_operators
from godwit.cli.signatures import Argument, Option, echo
from godwit.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from godwit.pipeline.batch_ledger import Counts
    from godwit.pipeline.streaming import CompletedBatch, SubscriptionSource

__all__ = ["stream"]

LOOK_EVERY_S = 0.2
REST = "_rest"  # the column for attributes without a separate column


def stream(
    source: Annotated[str, Argument(metavar="EVENTS", help="Folder of a table of events, or an event log.")],
    subscriptions: Annotated[
        str,
        Option(metavar="FILE|TABLE|URL", help="Subscriptions: a file, a table, or http://host:port of a broker."),
    ],
    out: Annotated[str, Option(metavar="TABLE", help="Folder for the matches.")],
    checkpoint: Annotated[str, Option(metavar="DIR", help="Folder of Spark's checkpoint.")] = "",
    once: Annotated[bool, Option("--once", help="Stop when all present events are matched.")] = False,
    late: Annotated[
        float | None,
        Option(
            metavar="SECONDS", min=0, help="Set aside events that are older than the newest event by more than this."
        ),
    ] = None,
    every: Annotated[
        float, Option(metavar="SECONDS", min=0, help="Shortest time between the starts of two batches.")
    ] = 0.0,
    files: Annotated[int, Option(metavar="N", min=1, help="Table: largest number of files in a batch.")] = 100,
    rows: Annotated[int, Option(metavar="N", min=1, help="Log: largest number of events in a batch.")] = 100_000,
    broker: Annotated[str, Option(metavar="HOST:PORT", help="Fill the log with events from this broker.")] = "",
    filter: Annotated[str, Option(metavar="FILTER", help="Filter of the subscription at the broker.")] = "TRUE",
    name: Annotated[str, Option(metavar="NAME", help="Client name at the broker.")] = "",
    keep_bytes: Annotated[
        int | None,
        Option(
            metavar="BYTES", min=2**20, help="With --broker: remove the oldest events when the log is larger than this."
        ),
    ] = None,
    keep_days: Annotated[
        float | None, Option(metavar="DAYS", help="With --broker: remove events that were logged longer ago.")
    ] = None,
    skip_removed: Annotated[
        bool, Option("--skip-removed", help="Log: continue if events were removed before they were matched.")
    ] = False,
    attributes: Annotated[
        str,
        Option(metavar="FORMS", help="Log: attributes and their kinds, as in 'price float, sym text'; faster."),
    ] = "",
    compact_after: Annotated[
        int, Option(metavar="N", min=0, help="Number of files after which they are merged; 0: never.")
    ] = 100,
    sink: SinkName = "",
    sink_options: SinkOptions = None,
    operators: OperatorModules = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Match events as they arrive against subscriptions that may change.

    Started again with the same folders, it continues where it stopped; however it ended, each match is written once.

    Example: godwit pipeline stream quakes --subscriptions wishes.jsonl --out matches
    """
    with one_line_errors(debug):
        from godwit.pipeline.streaming import stream as run
        from godwit.pipeline.subscription_sources import source_of

        if not broker and (keep_bytes is not None or keep_days is not None):
            raise PipelineError("--keep-bytes and --keep-days need --broker, which fills the log")
        if not broker and not Path(source).exists():
            raise PipelineError(f"{source}: no such file or folder")
        load_operators(operators)
        taking = read_sink(sink, sink_options)
        wanted = source_of(subscriptions)
        wanted.version()  # missing files are reported before Spark starts
        if not broker and (Path(source) / "_godwit.json").exists():
            events: _Table | _Log = _Table(source, files, out, checkpoint or f"{out}/_checkpoint")
        else:
            options = {"broker": broker, "filter": filter, "name": name, "skip_removed": "true" if skip_removed else ""}
            options |= {"keep_bytes": str(keep_bytes or ""), "keep_days": str(keep_days or "")}
            events = _Log(source, wanted, attributes, {"rows_per_batch": rows, **options})
        began, telling = time.monotonic(), _Telling(events)
        with session(master, "stream", debug) as spark, _ending() as ending:
            started = time.monotonic()
            found = run(
                events.read(spark),
                events.subscriptions or wanted,
                out,
                checkpoint or None,
                late_s=late,
                once=once,
                every_s=every,
                rest=events.rest,
                compact_after=compact_after,
                before_batch=events.check,
                on_batch=telling,
                on_stage=telling.stage,
                learn=events.learn,
                sink=taking,
                table=events.table,
            )
            events.note()
            tell("matching")
            while not found.wait(0.0):
                if ending.wait(LOOK_EVERY_S):
                    found.stop()
            seconds = {"seconds_to_start": started - began, "seconds": time.monotonic() - started}
        _show_totals(out, telling.events, seconds)


class _Table:
    """Events of a table."""

    subscriptions = None
    rest = ""

    def __init__(self, folder: str, files: int, out: str, checkpoint: str) -> None:
        from godwit.pipeline.table_events import TableEvents

        self.table, self._files, self._out = TableEvents(folder), files, out
        self._checkpoint = checkpoint
        self.table.check_output(out)
        self.check, self.learn = self.table.check, self.table.learn

    def waiting(self, done: "CompletedBatch") -> int | None:
        """Files of the table that no batch has read."""
        return self.table.waiting(self._checkpoint)

    def read(self, spark: "SparkSession") -> "DataFrame":
        return self.table.read(spark, self._files)

    def note(self) -> None:
        self.table.note(self._out)


class _Log:
    """Events of an event log, which may be filled from a broker: a column for each attribute that subscriptions
    name, and, if some have exact tests, one more for all other attributes."""

    table = check = learn = None

    def __init__(self, folder: str, wanted: "SubscriptionSource", forms: str, options: dict[str, str | int]) -> None:
        from godwit.languages import Query
        from godwit.pipeline.log_columns import Wanted
        from godwit.pipeline.log_pieces import segments
        from godwit.pipeline.subscription_sources import RestrictedSubscriptions, named

        path = Path(folder)
        if path.is_file() or (
            path.is_dir() and not segments(path) and any(not each.name.startswith("_") for each in path.iterdir())
        ):
            raise PipelineError(
                f"{folder} is neither a table of events nor an event log: `godwit pipeline ingest` makes a table"
            )
        subscribed = wanted.read().values()
        if not forms:
            forms = json.dumps(dict.fromkeys(sorted(named(subscribed)), "several any"))
        has_tests = any(isinstance(each, Query) for each in subscribed)
        self.rest = REST if has_tests else ""
        options = {"attributes": forms, **options, "rest": self.rest}
        self._folder, self._options = folder, {name: value for name, value in options.items() if value != ""}
        names = (name for name, _ in Wanted.parse(forms).forms)
        self.subscriptions = RestrictedSubscriptions(wanted, names, has_tests)

    def read(self, spark: "SparkSession") -> "DataFrame":
        from godwit.pipeline.spark_source import register

        register(spark)
        return spark.readStream.format("godwit").options(**self._options).load(self._folder)

    def waiting(self, done: "CompletedBatch") -> int | None:
        return None

    def note(self) -> None:
        pass


class _Telling:
    """Prints the result of each batch, the start and end of problems, and on a terminal the present activity."""

    def __init__(self, source: "_Table | _Log") -> None:
        self.events = 0  # of this run
        self._source, self._trouble, self._progress = source, "", ""

    def stage(self, stage: str) -> None:
        show_stage(", ".join(filter(None, (stage, self._progress))))

    def __call__(self, done: "CompletedBatch") -> None:
        entry, counts = done.entry, done.entry.counts
        self.events += counts.events
        if done.trouble != self._trouble:
            echo(done.trouble or "the subscriptions can be read again", err=True)
            self._trouble = done.trouble
        row: dict[str, float] = {
            "batch": entry.batch,
            "events": counts.events,
            "matched": counts.matched,
            "pairs": counts.pairs,
            "late": counts.late,
            **_came_to_nothing(counts, entry.plan.tests),
            "subscriptions": entry.plan.subscriptions,
            "seconds": round(done.took_s, 3),
            "events_per_second": round(counts.events / max(done.took_s, 1e-6)),
        }
        if done.lag_s is not None:
            row["lag_seconds"] = round(done.lag_s, 3)
        if (waiting := self._source.waiting(done)) is not None:
            row["files_waiting"] = waiting
        if done.compacted.merged:
            row |= {"files_merged": done.compacted.merged, "seconds_merging": round(done.compacted.seconds, 3)}
        self._progress = ", ".join(_shown(row))
        if sys.stdout.isatty():
            echo("  ".join(f"{name} {value:,}" for name, value in row.items()))
        else:
            echo(json.dumps(row))


def _shown(row: dict[str, float]) -> Iterator[str]:
    """Rate and lag, as the last batch had them."""
    yield f"{row['events_per_second']:,} events/s"
    if "lag_seconds" in row:
        yield f"{row['lag_seconds']:,.1f} s behind"
    if "files_waiting" in row:
        yield f"{row['files_waiting']:,} files waiting"


def _came_to_nothing(counts: "Counts", tests: int) -> dict[str, int]:
    """The number of pairs that exact tests rejected, if there are such tests."""
    return {"residues": counts.residues, "undecided": counts.undecided} if tests else {}


def _show_totals(out: str, events: int, seconds: dict[str, float]) -> None:
    """The totals of all batches, and the duration of this run."""
    from godwit.pipeline.batch_ledger import BatchLedger

    last = BatchLedger(Path(out)).last()
    rows: dict[str, object] = {"batches": 0, "out": out}
    if last is not None:
        totals = {name: getattr(last.totals, name) for name in ("events", "matched", "pairs", "late")}
        more = _came_to_nothing(last.totals, last.plan.tests + last.totals.residues + last.totals.undecided)
        rows = {"batches": last.batch + 1, **totals, **more, "out": out}
    rows |= {name: round(value, 3) for name, value in seconds.items()}
    rows["events_per_second"] = round(events / max(seconds["seconds"], 1e-6))
    show_summary("stream", rows)


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second has its default effect."""
    asked = threading.Event()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.set()
        echo("ending after this batch", err=True)
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in before:
        signal.signal(each, ask)
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
