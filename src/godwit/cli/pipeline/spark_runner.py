"""The parts that all commands of `godwit pipeline` share: a Spark session, a progress bar, short errors.

*Rules.*
1. An exception of Spark becomes one sentence, the message of its cause. With `--debug` its stack trace comes first.
2. Control-C cancels the jobs, stops the session and leaves with status 130, also before Spark has started.
3. `tell` shows the present step: beside the bar on a terminal, otherwise as a line on standard error. The bar is shown
   only on a terminal; the summary is a table there and a line of JSON on a pipe.
4. Spark's log is a file, removed when the command ends. If Spark fails it is kept, and the error names it.
"""

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.signatures import Abort, Exit, Option, echo
from godwit.cli.statuses import STATUS_INTERRUPTED
from godwit.cli.terminal import Console, Progress, Table, Text, clock_of
from godwit.errors import GodwitError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Debug", "Master", "one_line_errors", "session", "show_stage", "show_summary", "tell"]

LOOK_EVERY_S = 0.2
TASKS_COUNTED_MIN = 3  # with fewer tasks a bar would stand still, and then be full
TRACEBACK = "Traceback (most recent call last):"
CAUSE = re.compile(r"^(?:\s*Caused by)?: [\w.$]+: (?P<said>.+)$", re.MULTILINE)
ERROR_CLASS = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\]\s*")
VAGUE = ("FAILED_READ_FILE.NO_HINT", "TASK_WRITE_FAILED", "_LEGACY_ERROR_TEMP", "INTERNAL_ERROR")
OF_GODWIT = re.compile(r"\bgodwit\.(?:\w+\.)*[A-Z]\w*: (?P<said>.+(?:\n(?!\s*(?:$|\tat |SQLSTATE)).+)*)", re.MULTILINE)
TAIL = re.compile(r"\s*(?:SQLSTATE: \w+|Consider setting '|SQLSTATE)[^\n]*$")

Master = Annotated[
    str,
    Option(metavar="URL", envvar="GODWIT_SPARK_MASTER", help="Spark master: local[2], spark://host:7077, yarn."),
]
Debug = Annotated[bool, Option("--debug", help="Print errors with their stack traces.")]


@contextmanager
def session(master: str, what: str, debug: bool = False) -> "Iterator[SparkSession]":
    """A Spark session for one command, with a progress bar labelled `what` while jobs run."""
    from godwit.pipeline.spark_session import forget_log, log_file, start

    spark, is_kept, is_interrupted = None, False, False

    def named() -> str:
        nonlocal is_kept
        is_kept = True
        return f" (Spark's log: {log_file()})"

    try:
        with one_line_errors(debug, named):
            logging.basicConfig(filename=log_file())  # where Py4J complains when a call is interrupted
            with _waiting("starting Spark"):
                spark = start(master, f"godwit {what}")
            spark.sparkContext.setJobGroup("godwit", what, interruptOnCancel=True)
            with _bar(spark, what):
                yield spark
    except KeyboardInterrupt:
        is_interrupted = True
        if spark is not None:
            with suppress(Exception):  # an interrupted call leaves the connection to the JVM in any state
                spark.sparkContext.cancelAllJobs()
        echo("stopped", err=True)
        raise Exit(STATUS_INTERRUPTED) from None
    finally:
        if spark is not None:
            with suppress(Exception):
                spark.stop()
        failed = spark is None and not is_interrupted and log_file().stat().st_size  # and has logged why
        if not is_kept and not failed:
            forget_log()


@contextmanager
def one_line_errors(debug: bool = False, more: Callable[[], str] = str) -> Iterator[None]:
    """Convert an exception of Spark, Arrow or the file system to a `PipelineError` of one sentence and `more`; with
    `debug` the stack trace is printed first.

    Errors of Godwit itself are such a sentence already.
    """
    try:
        yield
    except (GodwitError, Exit, Abort, BrokenPipeError, KeyboardInterrupt):
        if debug and isinstance(sys.exception(), GodwitError):
            traceback.print_exc()
        raise
    except Exception as error:
        room = type(error).__module__.partition(".")[0]
        where = more()
        if room not in ("pyspark", "py4j", "pyarrow") and not isinstance(error, OSError):
            raise
        if debug:
            traceback.print_exc()
        raise PipelineError(sentence(error) + where) from None


def sentence(error: BaseException) -> str:
    """The cause of a Spark error in one line: the exception of a worker, or the most specific cause."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error)
    said = (
        _raised(text)
        or _refused(text)
        or _caused(text)
        or next((line for line in text.splitlines() if line.strip()), "")
    )
    return TAIL.sub("", ERROR_CLASS.sub("", " ".join(said.split()), count=1)) or type(error).__name__


def _raised(text: str) -> str:
    """The message of the last Python traceback in a text, without the type if it is an error of Godwit; "" if none."""
    _, found, rest = text.rpartition(TRACEBACK)
    lines = iter(rest.splitlines()[1:] if found else ())
    first = next((line for line in lines if line and not line.startswith(" ")), "")
    type, _, said = first.partition(": ")
    more = []
    for line in lines:
        if not line.strip() or line.startswith("\tat "):
            break
        more.append(line)
    words = "\n".join([said, *more]) if said else first
    return words if type.startswith("godwit.") or not said else f"{type.rpartition('.')[2]}: {words}"


def _refused(text: str) -> str:
    """The message of an error of Godwit that a worker has reported without its trace (`worker_errors`)."""
    found = OF_GODWIT.search(text)
    return found["said"] if found else ""


def _caused(text: str) -> str:
    """The innermost cause that the JVM names, preferring those with a specific error class."""
    causes = [found["said"] for found in CAUSE.finditer(text)]
    clear = [said for said in causes if (name := ERROR_CLASS.match(said)) and not name["name"].startswith(VAGUE)]
    return next(iter(clear[-1:] or causes[-1:]), "")


# ---------------------------------------------------------------- what it is about just now

_shown: list[Callable[[str], None]] = []  # where a word is put while there is a bar


def tell(word: str) -> None:
    """Show the step that begins now: reading, matching, writing."""
    if _shown:
        _shown[-1](word)
    elif not sys.stderr.isatty():
        echo(word, err=True)


def show_stage(word: str) -> None:
    """Show the present activity beside the bar. Without a terminal nothing is printed, because it changes often."""
    if _shown:
        _shown[-1](word)


@contextmanager
def _waiting(word: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        tell(word)
        yield
        return

    with Console(stderr=True).status(word):
        yield


@contextmanager
def _bar(spark: "SparkSession", what: str) -> Iterator[None]:
    """A bar of the tasks that Spark has done, with the text of `tell`, if there is a terminal."""
    if not sys.stderr.isatty():
        yield
        return

    with Progress(lambda task: f"{task.fields['tasks']}  {clock_of(task.elapsed_s)}") as progress:
        task, over = progress.add_task(what, total=None, tasks=""), threading.Event()

        def look() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not over.wait(LOOK_EVERY_S):
                active = tracker.getActiveStageIds()
                jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
                place = stage_of(active, [list(each.stageIds) for each in jobs if each is not None])
                stages = [tracker.getStageInfo(stage) for stage in active]
                progress.update(task, **progress_of([each for each in stages if each is not None], place))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        _shown.append(lambda word: progress.update(task, description=f"{what}: {word}"))
        try:
            yield
        finally:
            _shown.pop()
            over.set()
            looking.join()


def stage_of(active: Sequence[int], jobs: Sequence[Sequence[int]]) -> str:
    """ "stage 2 of 5" of the running jobs; "" if there is only one stage."""
    numbers = sorted({stage for stages in jobs for stage in stages})
    places = [numbers.index(stage) + 1 for stage in active if stage in numbers]
    return f"stage {max(places)} of {len(numbers)}" if places and len(numbers) > 1 else ""


def progress_of(stages: Sequence[Any], place: str = "") -> dict[str, Any]:
    """The progress of Spark's stages for a bar, which only pulses if there are too few tasks to count.

    `place`: the number of the stage, as in "stage 2 of 5".
    """
    done, total = sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
    if total < TASKS_COUNTED_MIN:
        return {"completed": 0, "total": None, "tasks": place}
    said = ", ".join(filter(None, (place, f"{done:,} of {total:,} tasks")))
    return {"completed": done, "total": total, "tasks": said}


def show_summary(title: str, rows: Mapping[str, Any]) -> None:
    """Print the summary of a command: a table on a terminal, a line of JSON on a pipe."""
    if not sys.stdout.isatty():
        echo(json.dumps(dict(rows), ensure_ascii=False, default=str))
        return

    table = Table(title=title, show_header=False)
    for name, value in rows.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}" if isinstance(value, float) else str(value)
        table.add_row(Text(name.replace("_", " ")), Text(shown, justify="right"))
    Console().print(table)
