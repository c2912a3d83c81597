"""Events from Spark to an event log, and from there to a broker: each batch once.

*Theory.* Tasks write their rows as lines to separate files, in a folder under `_parts`. The driver then joins them, in
the order of their partitions, to one segment of the log, which gets its name atomically. Batch n of a stream is segment
n + 1: if it exists, that batch was written before the driver was killed, and is not written again. Then, with a broker,
`godwit pub --log` publishes the log from its last position on; that is exactly once, too
(`docs/reference/event_log.md`). Only then is the batch reported to Spark as done.

*Rules.*
1. A segment is written atomically, once, whatever is killed, and even with concurrent writers: the driver of a killed
   stream may still be running when the next one begins.
2. Rows with publisher and number keep them in the log; others get the log's publisher, and growing numbers: the
   segment, and the row in it.
3. One stream writes to a log. Another, or one whose checkpoint was removed, is refused: its batches have the same
   numbers. Tasks know the identity of their stream, wherever its checkpoint is.
4. The publishing process ends with the driver, which holds the other end of its standard input. If an earlier one still
   runs, the driver waits for `TAKE_OVER_S`.
5. A text column named `attributes` is JSON with further attributes, as in the reader.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from godwit.errors import BadEvent, GodwitError, PipelineError
from godwit.event_log.log_format import ABOUT, FORMAT, KIND, WRITING, segment_file
from godwit.files import synced, write_whole
from godwit.filters.events import Attributes, Event, flattened
from godwit.filters.json_lines import line_of
from godwit.filters.language import as_filter
from godwit.pipeline.columns import OWN, attributes_of
from godwit.pipeline.log_pieces import segments
from godwit.pipeline.worker_errors import sentence_first

__all__ = ["LogStreamWriter", "LogWriter", "Target", "lines_of"]

PARTS = "_parts"
NUMBER_BITS = 32  # of a row in its segment
ATTRIBUTES = "attributes"
QUERY = "sql.streaming.queryId"  # a property that Spark sets for its tasks
TAKE_OVER_S = 30.0  # time in which the publisher of a killed driver must notice
LOOK_S = 1.0
ERROR_BYTES_MAX = 65_536
LEFT_OVER_S = 86_400.0  # files of a killed job under `_parts` are removed after this time
UNNAMED = b'{"publisher":"","sequence":0,'  # the beginning of a line without publisher and number


@dataclass(frozen=True)
class Target:
    """The target of events: a log, its publisher name, and the command that publishes it."""

    folder: Path
    name: str = ""
    checkpoint: str = ""
    publish: Sequence[str] | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def parts(self) -> Path:
        """The folder of the files of this write's tasks."""
        return self.folder / PARTS / self.job


class WrittenPart(WriterCommitMessage):
    """The file of one task, and its stream."""

    def __init__(self, path: str, query: str = "") -> None:
        self.path = path
        self.query = query


def _write(target: Target, batches: Iterator[Any]) -> WrittenPart:
    """Write the rows of a task."""
    target.parts.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = target.parts / uuid.uuid4().hex
    with path.open("wb") as file:
        for batch in batches:
            file.writelines(lines_of(batch))
    context = TaskContext.get()
    return WrittenPart(str(path), "" if context is None else context.getLocalProperty(QUERY) or "")


class LogStreamWriter(DataSourceStreamArrowWriter):
    """A stream of events to a log."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @sentence_first()
    def write(self, iterator: Iterator[Any]) -> WrittenPart:
        """The writer of a task."""
        return _write(self.target, iterator)

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write the batch to the log, unless it is there, and publish it."""
        said = next((part.query for part in messages if isinstance(part, WrittenPart) and part.query), "")
        segment = batchId + 1
        with _locked(self.target.folder):
            about = _introduced(self.target, said or _query(self.target.checkpoint))
            if segment not in segments(self.target.folder):
                _put_together(self.target, segment, messages, about["publisher"])
        _finish(self.target)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was done."""
        shutil.rmtree(self.target.parts, ignore_errors=True)


class LogWriter(DataSourceArrowWriter):
    """A table of events, appended to a log."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @sentence_first()
    def write(self, iterator: Iterator[Any]) -> WrittenPart:
        """The writer of a task."""
        return _write(self.target, iterator)

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write everything to the log as one segment."""
        with _locked(self.target.folder):
            about = _introduced(self.target)
            segment = max(segments(self.target.folder), default=0) + 1
            _put_together(self.target, segment, messages, about["publisher"])
        _finish(self.target)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was done."""
        shutil.rmtree(self.target.parts, ignore_errors=True)


# ---------------------------------------------------------------- the driver's part


def _introduced(target: Target, query: str | None = None) -> dict[str, str]:
    """Read and update the description of the log; `PipelineError` if it belongs to another writer. (rule 3)

    `query`: the identity of the stream that writes; None: none does.
    """
    path = target.folder / ABOUT
    about: dict[str, Any] = {}
    if path.exists():
        about = json.loads(path.read_bytes())
        if about.get("format") != FORMAT:
            raise PipelineError(f"{path} has format {about.get('format')}: this version writes {FORMAT}")
    fresh = dict(about) or {"kind": KIND, "format": FORMAT}
    if "publisher" not in about:
        if segments(target.folder):
            raise PipelineError(f"{target.folder} is a log that `godwit sub` fills: use another folder")
        fresh["publisher"] = target.name or f"spark-{uuid.uuid4().hex[:12]}"
        if query is not None:
            fresh["query"] = query
    elif query is None and "query" in about:
        raise PipelineError(f"{target.folder} is filled by a stream: use another folder for a table")
    elif query is not None and about.get("query") != query:
        raise PipelineError(
            f"{target.folder} was filled by another stream, or by this one before its checkpoint was removed: use "
            "another folder"
        )
    elif target.name and about["publisher"] != target.name:
        raise PipelineError(f"{target.folder} is the log of publisher {about['publisher']!r}, and not {target.name!r}")
    if fresh != about:
        write_whole(path, json.dumps(fresh).encode() + b"\n")
    return {name: str(value) for name, value in fresh.items()}


def _query(checkpoint: str) -> str:
    """The identity of the stream of this checkpoint, if it is readable here."""
    try:
        return str(json.loads(Path(checkpoint.removeprefix("file:"), "metadata").read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the joining of segments, which is short."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / WRITING).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put_together(target: Target, segment: int, messages: Sequence[WriterCommitMessage | None], publisher: str) -> None:
    """Join the files of tasks to one segment. (rules 1 and 2)"""
    folder, fresh, row = target.folder, target.parts / f"segment-{segment}", 0
    fresh.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = msgspec.json.encode(publisher)
    with fresh.open("wb") as file:
        for message in messages:
            assert isinstance(message, WrittenPart)
            with Path(message.path).open("rb") as part:
                for line in part:
                    row += 1
                    if line.startswith(UNNAMED):
                        number = segment << NUMBER_BITS | row
                        line = b'{"publisher":%b,"sequence":%d,' % (name, number) + line[len(UNNAMED) :]
                    file.write(line)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(folder / segment_file(segment))
    synced([folder])


def _finish(target: Target) -> None:
    """Publish unpublished events, and remove old files."""
    shutil.rmtree(target.parts, ignore_errors=True)
    _sweep(target.folder / PARTS)
    begun = monotonic()
    while target.publish is not None:
        status, said = _ran(target.publish)
        if status == 0:
            return
        if "is being published by process" not in said or monotonic() - begun > TAKE_OVER_S:
            raise PipelineError(f"the events are in {target.folder}, and were not published: {said}")


def _sweep(parts: Path) -> None:
    """Remove files of jobs that were killed long ago; and the folder, if it is unused."""
    for left in parts.glob("*"):
        with suppress(OSError):
            if time() - left.stat().st_mtime > LEFT_OVER_S:
                shutil.rmtree(left, ignore_errors=True)
    with suppress(OSError):
        parts.rmdir()


def _ran(command: Sequence[str]) -> tuple[int, str]:
    """Run a command that ends with this process; returns its status and its errors. (rule 4)"""
    parent = os.getppid()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
                if os.getppid() != parent:
                    raise PipelineError("the driver has ended")
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.kill()
            process.wait()
        said = os.pread(errors.fileno(), ERROR_BYTES_MAX, 0)
    return process.returncode, said.decode(errors="replace").strip().removeprefix("error: ")


# ---------------------------------------------------------------- the tasks' part


def lines_of(batch: Any) -> Iterator[bytes]:
    """The rows of an Arrow batch as lines of an event log."""
    names = batch.schema.names
    has_json = ATTRIBUTES in names and _is_text(batch.schema.field(ATTRIBUTES).type)
    _check_own(batch.schema)
    texts = batch.column(ATTRIBUTES).to_pylist() if has_json else [None] * batch.num_rows
    columns = [name for name in names if not (has_json and name == ATTRIBUTES)]
    own = {name: batch.column(name).to_pylist() for name in OWN if name in names and name != "day"}
    for row, attributes in enumerate(attributes_of(batch.select(columns))):
        event = _event({name: held[row] for name, held in own.items()}, attributes, texts[row])
        yield msgspec.json.encode(line_of(event)) + b"\n"


def _is_text(type: Any) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _check_own(schema: Any) -> None:
    """Raise `PipelineError` unless reserved columns have their types."""
    for name, (word, fits) in _OWN_KINDS.items():
        if name in schema.names and not pa.types.is_null(kind := schema.field(name).type) and not fits(kind):
            raise PipelineError(f"column {name!r} is {kind}: in a table of events it is {word}; give it another name")


_OWN_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("publisher", "to", "content_type"), ("a text", _is_text)),
    "sequence": ("a whole number", pa.types.is_integer),
    "payload": ("binary", lambda type: pa.types.is_binary(type) or pa.types.is_large_binary(type)),
    **dict.fromkeys(
        ("published_at", "expires_at"),
        ("a time, or seconds since 1970", lambda type: pa.types.is_timestamp(type) or _is_number(type)),
    ),
}


def _is_number(type: Any) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))


def _event(own: Mapping[str, Any], attributes: Attributes, text: str | None) -> Event:
    try:
        if text is not None:
            attributes = {**flattened(msgspec.json.decode(text)), **attributes}
        is_named = own.get("publisher") is not None and own.get("sequence") is not None
        if is_named and own["sequence"] < 0:
            raise BadEvent(f"its sequence is {own['sequence']}: it must be 0 or more")
        to = own.get("to")
        return Event(
            attributes,
            own["publisher"] if is_named else "",
            own["sequence"] if is_named else 0,
            payload=own.get("payload"),
            content_type=own.get("content_type"),
            published_at=_seconds(own.get("published_at")),
            expires_at=_seconds(own.get("expires_at")),
            to=None if to is None else as_filter(to),
        )
    except (GodwitError, ValueError) as error:
        raise PipelineError(f"a row cannot become an event: {error}") from None


def _seconds(at: Any) -> float | None:
    if isinstance(at, datetime):
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    return None if at is None else float(at)
