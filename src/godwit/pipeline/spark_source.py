"""`format("godwit")`: events of brokers as a table or a stream for Spark, and events from Spark for brokers.

*Theory.* Between Spark and a network of brokers there is an event log (room `event_log`). A stream's offsets are
positions in it, which never change their meaning: after a restart Spark requests the same two positions, and gets the
same rows. With the option `broker` the reader starts a process that fills the log, `godwit sub --log`; it is a client
like any other, and its session keeps events at the broker while Spark does not run. So killing Spark, that process or
the broker loses and duplicates nothing.

| option | says |
|---|---|
| `log`, or the path to load | the folder of the event log |
| `broker` | where one is: `host:port`, several with commas. Without it the log is read as it is |
| `filter` | what to subscribe to; all, if nothing is said |
| `name` | of the client (default: generated, and kept in the log) |
| `ca` | a PEM file of authorities, for TLS. Token, user and password are taken from `GODWIT_TOKEN` and so on |
| `seconds` | with the trigger `availableNow`: for so long the broker may deliver what waits there; else 5 |
| `attributes` | columns for attributes: `price float, tags several text`. Without it: JSON in a column `attributes` |
| `rest` | a column for the JSON of attributes that have no column, or hold what does not fit theirs |
| `rows_per_batch` | of a micro-batch, at most |
| `keep_bytes`, `keep_days` | with `broker`: how much of the log is kept, as `godwit sub --log` has it; else all |
| `skip_removed` | `true`: go on with what is there when some was removed unread, with a warning in Spark's log |
| `trace` | instead of all that: the folder of a simulation's trace, as a table `trace` |

*Rules.*
1. Nothing is dropped silently. Segments that were removed before they were read, or a capture that ends, end the stream
   with an error; with `skip_removed` it is a warning.
2. The process that fills the log ends with the reader, which holds the other end of its standard input.
3. No filters are pushed (`spark_session.py`, rule 4).
4. `streamReader` raises nothing: PySpark would report an error of its own instead. A stream that cannot be read raises
   when its first offset is asked for.

*Limits.* The log is in a folder that driver and workers share.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from godwit.errors import PipelineError
from godwit.event_log.log_format import Position
from godwit.pipeline.log_columns import Wanted, batches
from godwit.pipeline.log_pieces import LogPiece, advanced, end_of, gone_before, pieces, start_of
from godwit.pipeline.spark_session import ROWS_PER_BATCH
from godwit.pipeline.worker_errors import sentence_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["GodwitSource", "register"]

OPTIONS = (
    *("path", "log", "broker", "filter", "name", "ca", "seconds", "attributes", "rest", "rows_per_batch", "trace"),
    *("keep_bytes", "keep_days", "skip_removed"),
)
OF_SPARK = ("checkpointlocation", "queryname", "outputmode")  # which inherits its settings
KEEP_BYTES_MIN = 2**20  # as the command has it
CATCH_UP_S = 5.0
TAKE_OVER_S = 30.0  # time in which the capture of a killed reader must notice
END_S = 10.0
ERROR_BYTES_MAX = 65_536


def register(spark: "SparkSession") -> None:
    """Register `format("godwit")` in a session."""
    spark.dataSource.register(GodwitSource)


class GodwitSource(DataSource):
    """Event logs, running brokers and traces."""

    @classmethod
    def name(cls) -> str:
        """`godwit`."""
        return "godwit"

    @sentence_first()
    def schema(self) -> StructType:
        """The schema of a table of events, or of a trace."""
        if "trace" in self.options:
            from godwit.pipeline.schemas import schema

            return schema("trace")
        return from_arrow_schema(_Options(self.options).wanted.schema())

    @sentence_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the present events."""
        if "trace" in self.options:
            from godwit.pipeline.trace_source import TraceReader

            return TraceReader(Path(self.options["trace"]))
        options = _Options(self.options)
        if options.broker:
            raise PipelineError('a running broker is read as a stream (readStream), or its log without "broker"')
        return LogReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of present and future events. (rule 4)"""
        if "trace" in self.options:
            return RefusedStream("a trace is complete from the beginning: read it with spark.read, not as a stream")
        try:
            return LogStreamReader(_Options(self.options))
        except PipelineError as error:
            return RefusedStream(str(error))

    @sentence_first()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer to a log, and from there to a broker."""
        from godwit.pipeline.spark_sink import LogWriter

        if overwrite:
            raise PipelineError('an event log is never overwritten: mode("append"), or another folder')
        return LogWriter(_Options(self.options).sink())

    @sentence_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The same for a stream, each batch once."""
        from godwit.pipeline.spark_sink import LogStreamWriter

        return LogStreamWriter(_Options(self.options).sink())


class _Options:
    """The checked options."""

    def __init__(self, said: Any) -> None:
        strange = [name for name in said if name.lower() not in (*OPTIONS, *OF_SPARK)]
        if strange:
            raise PipelineError(f'format("godwit") has no option {strange[0]!r}: allowed are {", ".join(OPTIONS)}')
        folder = said.get("log") or said.get("path")
        if not folder:
            raise PipelineError('format("godwit") needs a folder for the event log: load(FOLDER), or the option "log"')
        self.folder = Path(folder.removeprefix("file:")).absolute()
        self.broker = said.get("broker") or ""
        self.filter = said.get("filter") or "TRUE"
        self.name = said.get("name") or ""
        self.ca = said.get("ca") or ""
        self.checkpoint = said.get("checkpointLocation") or ""
        self.seconds = _number(said, "seconds", CATCH_UP_S)
        self.rows_per_batch = int(_number(said, "rows_per_batch", 0)) or None
        self.keep = [
            ("--keep-bytes", int(_number(said, "keep_bytes", 0))),
            ("--keep-days", _number(said, "keep_days", 0)),
        ]
        if 0 < self.keep[0][1] < KEEP_BYTES_MIN:
            raise PipelineError(f"keep_bytes is {said['keep_bytes']}: it must be at least {KEEP_BYTES_MIN}")
        if not self.broker and any(kept for _, kept in self.keep):
            raise PipelineError('keep_bytes and keep_days need the option "broker", which fills the log')
        self.skip_removed = _truth(said, "skip_removed")
        self.wanted = Wanted.parse(said.get("attributes") or "", said.get("rest") or "")

    def command(self, word: str, *more: str) -> list[str]:
        """A `godwit` command with the log and its broker."""
        found = [sys.executable, "-m", "godwit", word, "--log", str(self.folder)]
        for at in self.broker.split(","):
            found += ["--broker", at.strip()]
        for option, value in (("--name", self.name), ("--ca", self.ca)):
            if value:
                found += [option, value]
        return [*found, *more]

    def listening(self, *more: str) -> list[str]:
        """The command that fills the log. A filter may begin with a minus, and must not be taken for an option."""
        keep = [word for option, kept in self.keep if kept for word in (option, str(kept))]
        return self.command("sub", *keep, *more, "--", self.filter)

    def sink(self) -> Any:
        """The target of a writer."""
        from godwit.pipeline.spark_sink import Target

        publish = self.command("pub", "--until-eof") if self.broker else None
        return Target(self.folder, self.name, self.checkpoint, publish)


def _number(said: Any, name: str, otherwise: float) -> float:
    text = said.get(name)
    if not text:
        return otherwise
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if number <= 0:
        raise PipelineError(f"{name} is {text!r}: it must be a number above 0")
    return number


def _truth(said: Any, name: str) -> bool:
    text = said.get(name) or "false"
    if text.lower() not in ("true", "false"):
        raise PipelineError(f"{name} is {text!r}: it must be true or false")
    return bool(text.lower() == "true")


class _Work(InputPartition):
    """The piece of one task."""

    def __init__(self, piece: LogPiece) -> None:
        super().__init__(piece)
        self.piece = piece


class LogReader(DataSourceReader):
    """The present log."""

    def __init__(self, options: _Options) -> None:
        if not options.folder.is_dir():
            raise PipelineError(f"{options.folder}: no such folder")
        self.folder, self.wanted = options.folder, options.wanted

    @sentence_first()
    def partitions(self) -> Sequence[InputPartition]:
        """A task for each few MiB."""
        found = pieces(self.folder, start_of(self.folder), end_of(self.folder))
        return [_Work(piece) for piece in found] or [_Work(LogPiece("", 0, 0))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The events of a piece."""
        assert isinstance(partition, _Work)
        with sentence_first():
            yield from batches(partition.piece, self.wanted, ROWS_PER_BATCH)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A growing log, and the process that fills it."""

    def __init__(self, options: _Options) -> None:
        if not options.broker and not options.folder.is_dir():
            raise PipelineError(f"{options.folder}: no such folder")
        self.options = options
        self._capture: CaptureProcess | None = None
        self._end: Position | None = None  # the end that was planned, if any

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_capture": None}

    @sentence_first()
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The beginning of the log."""
        return start_of(self.options.folder)._asdict()

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fetch the events that wait at the broker, and plan to read up to the present end."""
        if self.options.broker:
            catch_up(self.options)
        self._end = end_of(self.options.folder)

    @sentence_first()
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of a batch that begins at `start`."""
        begin = Position(**start)
        if self._end is None and self.options.broker:
            if self._capture is None:
                self._capture = CaptureProcess(self.options)
            self._capture.check()
        end = end_of(self.options.folder, begin, self.options.skip_removed)
        if self._end is not None:
            end = max(begin, min(end, self._end))
        if isinstance(limit, ReadMaxRows):
            end = advanced(self.options.folder, begin, end, limit.max_rows, self.options.skip_removed)
        return end._asdict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `rows_per_batch` says."""
        rows = self.options.rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @sentence_first()
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """The end of the log."""
        return end_of(self.options.folder)._asdict()

    @sentence_first()
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """A task for each few MiB between two positions."""
        folder, begin = self.options.folder, Position(**start)
        found = pieces(folder, begin, Position(**end), skip_removed=self.options.skip_removed)
        if self.options.skip_removed and (gone := gone_before(folder, begin, start_of(folder).segment)):
            sys.stderr.write(f"{folder}: {gone} was removed before it was read, and is skipped\n")  # rule 1
        return [_Work(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The events of a piece."""
        assert isinstance(partition, _Work)
        with sentence_first():
            yield from batches(partition.piece, self.options.wanted, ROWS_PER_BATCH)

    def stop(self) -> None:
        """Stop the process that fills the log."""
        if self._capture is not None:
            self._capture.end()


class RefusedStream(DataSourceStreamReader):
    """A stream that cannot be read, and why. (rule 4)"""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Raise the reason."""
        with sentence_first():
            raise PipelineError(self.reason)

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802
        """Raise the reason, also where the first offset is in a checkpoint."""
        return self.initialOffset()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Nothing is read without an offset."""
        raise PipelineError(self.reason)


class CaptureProcess:
    """The process that fills the log from a broker."""

    def __init__(self, options: _Options) -> None:
        self._command = options.listening("--until-eof")
        self._since = monotonic()
        self._begin()

    def _begin(self) -> None:
        self._told = 0  # of its errors
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._errors
        )

    def check(self) -> None:
        """Raise `PipelineError` if it has ended; its warnings go to Spark's log. (rule 1)"""
        if self._process.poll() is None:
            warned = _said(self._errors, self._told)
            self._told += len(warned)
            sys.stderr.write(warned.decode(errors="replace"))
            return
        said = _plain(_said(self._errors)) or "the command was killed"
        if "is being written by process" in said and monotonic() - self._since < TAKE_OVER_S:
            self._begin()  # its predecessor has not noticed yet that its reader has ended
            return
        raise PipelineError(f"events of the broker are not received any more: {said}")

    def end(self) -> None:
        """Let it finish, and stop it. (rule 2)"""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def catch_up(options: _Options) -> None:
    """Fill a log with the events that wait at a broker, for the given time."""
    command = options.listening("--wait", str(options.seconds))
    begun = monotonic()
    while True:
        ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if ran.returncode == 0:
            return
        said = _plain(ran.stderr)
        if "is being written by process" not in said or monotonic() - begun > TAKE_OVER_S:
            raise PipelineError(f"events of the broker cannot be received: {said}")


def _said(file: Any, start: int = 0) -> bytes:
    return os.pread(file.fileno(), ERROR_BYTES_MAX, start)


def _plain(said: bytes) -> str:
    return said.decode(errors="replace").strip().removeprefix("error: ")
