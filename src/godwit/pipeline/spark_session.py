"""A Spark session that starts without output, and fails with one sentence.

*Theory.* Spark prints while it starts, and its log4j, its JVM and its Python workers keep printing to the file
descriptors that they inherited. So descriptors 1 and 2 are redirected to a log file while the JVM is launched, and
restored afterwards: all output of Spark goes to that file, and the command's output is separate.

PySpark waits for a file in which its JVM writes its port. If that is interrupted it removes the folder, the JVM fails
to write the file, and never exits. So the JVM is started in a separate process group, which is killed here.

*Rules.*
1. A failed start is a `PipelineError` of one sentence that says what to do: no Java, a too old Java, no pyspark, a
   master that does not answer.
2. Python workers run the same Python: otherwise they would use the first `python3` of the path, which may lack
   libraries.
3. Times are UTC, and names of columns keep their case: `Price` and `price` are two attributes.
4. A Python data source never has filters pushed into it (`pushFilters`): Spark 4.3 then keeps the pushed reader for
   later queries, which get too few rows.
5. An interrupted start, by Ctrl-C or by any exception that is not an `Exception`, leaves no process behind.

*Profile.* A session takes 4 to 6 s, of which the JVM is most; `-XX:TieredStopAtLevel=1` halves the first job of a
short-lived session and is for tests only. Sockets of the file system instead of TCP take a Python task from 29 to
20 ms. For each rename of a checkpoint's file, Spark's default way runs `readlink` eight times: 24 processes for each
batch of a stream, which the other one of Spark's two ways does not need.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from godwit.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JAVA_MIN", "ROWS_PER_BATCH", "check_java", "check_master", "java_version", "log_file", "settings", "start"]

JAVA_MIN = 17
JAVA_ANSWERS_WITHIN_S = 30
ROWS_PER_BATCH = 50_000  # of Arrow, between the JVM and Python
SHUFFLE_PARTITIONS = 4  # of a stream with state, which are never coalesced
MASTER = re.compile(
    r"local|local\[\s*([1-9]\d*|\*)\s*(,\s*\d+\s*)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|spark://[^\s/:]+:\d+(,[^\s/:]+:\d+)*|(?!spark:)[a-z][a-z0-9+.-]*://\S+"
)

_log: Path | None = None


def start(master: str = "local[*]", name: str = "godwit", more: Mapping[str, str] | None = None) -> "SparkSession":
    """A session at `master`, the running one if there is one. `more` are Spark settings."""
    check_master(master)
    try:
        from pyspark.errors import PySparkException
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError(
            "the pipeline runs on Spark, and pyspark is not installed: pip install 'godwit[pipeline]'"
        ) from None
    check_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**settings(), **(more or {})}.items():
        builder = builder.config(key, value)
    try:
        with _elsewhere(log_file()), _ending_when_interrupted():
            session = builder.getOrCreate()
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True  # it also prints what it raises
        return session
    except (PySparkException, OSError, RuntimeError) as error:
        raise PipelineError(f"Spark does not start at {master}: {_said(error)} (log: {log_file()})") from error
    except Exception as error:  # exceptions of the JVM are errors of Py4J
        if type(error).__module__.partition(".")[0] != "py4j":
            raise
        raise PipelineError(f"Spark does not start at {master}: {_said(error)} (log: {log_file()})") from error


def settings() -> dict[str, str]:
    """The settings of sessions."""
    return {
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }


def log_file() -> Path:
    """The file of Spark's output: one for each process that starts it."""
    global _log  # noqa: PLW0603 - one session to a process, one log to a session
    if _log is None:
        handle, name = tempfile.mkstemp(prefix="godwit-spark-", suffix=".log")
        os.close(handle)
        _log = Path(name)
    return _log


def forget_log() -> None:
    """Remove the file of Spark's output."""
    global _log  # noqa: PLW0603 - as above
    if _log is not None:
        _log.unlink(missing_ok=True)
        _log = None


def check_master(master: str) -> None:
    """Raise `PipelineError` if a text is not a master URL: Spark takes seconds to report it, with less detail."""
    if MASTER.fullmatch(master) is None:
        raise PipelineError(
            f"--master is {master!r}: not a master URL; allowed are local[2], local[*], spark://HOST:PORT, yarn "
            "and k8s://URL"
        )


def check_java() -> None:
    """Raise `PipelineError` if there is no suitable Java."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "no `java` is on the path"
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer: {where}")
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer: {java} does not run ({error})") from None
    found = java_version(ran.stderr + ran.stdout)
    if found is None:
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer: `{java} -version` prints no version")
    if found < JAVA_MIN:
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer: {java} is Java {found}")


def java_version(text: str) -> int | None:
    """The major version in the output of `java -version`: 17 in 17.0.9, 8 in 1.8.0."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@contextmanager
def _elsewhere(file: Path) -> Iterator[None]:
    """Redirect descriptors 1 and 2 to a file, for this process and its children."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = os.dup(1), os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for descriptor, old in zip((1, 2), kept, strict=True):
            os.dup2(old, descriptor)
            os.close(old)
        os.close(target)


@contextmanager
def _ending_when_interrupted() -> Iterator[None]:
    """Inside this context, processes of PySpark are killed on an interrupt. (rule 5)"""
    from pyspark import SparkContext, java_gateway

    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]  # of bytes or of texts, as PySpark likes
        """Start a process in a separate group, and record it before an interrupt can happen."""

        def __init__(self, *arguments: Any, **more: Any) -> None:
            with _interrupted_later():
                super().__init__(*arguments, **more, process_group=0)
                begun.append(self)

    gateway: Any = java_gateway
    before, gateway.Popen = gateway.Popen, Noted
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            for process in begun:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            if begun:
                SparkContext._gateway = SparkContext._jvm = None  # a retry launches another
        raise
    finally:
        gateway.Popen = before


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay Ctrl-C until the end of this context, such as between the start of a process and the record of its id."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _said(error: BaseException) -> str:
    """The first informative line of an error."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
