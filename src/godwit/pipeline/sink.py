"""Events from Spark to an event log, and on to a broker: each batch once.

*Theory.* Tasks write their rows as lines to files of their own, under `_parts`. The driver then puts them together, in
the order of their partitions, to one segment of the log, on the disk and under its name in one step. Batch n of a
stream is segment n + 1: if it is there, that batch was written before the driver was killed, and is not written again.
Then, with a broker, `godwit pub --log` publishes what is in the log behind the place that it had reached; that is
exactly once, too (`docs/reference/event_log.md`). Only when that is done does Spark hear that the batch is.

*Rules.*
1. A segment is there wholly or not at all, once, whatever is killed.
2. Rows that say their publisher and number keep them in the log; others get the log's own publisher, and numbers that
   grow: the segment, and the row in it.
3. One stream fills a log. Another, or one whose checkpoint was begun anew, is refused: its batches have the same
   numbers.
4. A column of the name `attributes`, of texts, is JSON with further attributes, as the reader gives it.
"""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from godwit.errors import GodwitError, PipelineError
from godwit.filters.events import Attributes, Event, flattened
from godwit.filters.language import said_filter
from godwit.filters.lines import line_of
from godwit.pipeline.columns import OWN, attributes_of
from godwit.pipeline.event_log import segments

__all__ = ["LogStreamWriter", "LogWriter", "Target", "lines_of"]

ABOUT, PARTS = "_log.json", "_parts"
FORMAT = 1
NUMBER_BITS = 32  # of a row in its segment
ATTRIBUTES = "attributes"
UNNAMED = b'{"publisher":"","sequence":0,'  # how a line begins that has no publisher and number yet


@dataclass(frozen=True)
class Target:
    """Where events go: a log, under which name, from which stream, and the command that publishes it."""

    folder: Path
    name: str = ""
    checkpoint: str = ""
    publish: Sequence[str] | None = None


class Part(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, path: str) -> None:
        self.path = path


def _write(target: Target, batches: Iterator[Any]) -> Part:
    """Write the rows of a task."""
    folder = target.folder / PARTS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / uuid.uuid4().hex
    with path.open("wb") as file:
        for batch in batches:
            file.writelines(lines_of(batch))
    return Part(str(path))


class LogStreamWriter(DataSourceStreamArrowWriter):
    """A stream of events to a log."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[Any]) -> Part:
        """What a task does."""
        return _write(self.target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch goes to the log, unless it is there, and to the broker."""
        about = _introduced(self.target)
        segment = batchId + 1
        if segment not in segments(self.target.folder):
            _put_together(self.target.folder, segment, messages, about["publisher"])
        _finish(self.target)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was done: what tasks have written goes with the next batch."""


class LogWriter(DataSourceArrowWriter):
    """A table of events to a log, behind what is there."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[Any]) -> Part:
        """What a task does."""
        return _write(self.target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All of it goes to the log as one segment."""
        about = _introduced(self.target)
        if "query" in about:
            raise PipelineError(f"{self.target.folder} is filled by a stream: take another folder for a table")
        segment = max(segments(self.target.folder), default=0) + 1
        _put_together(self.target.folder, segment, messages, about["publisher"])
        _finish(self.target)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was done."""
        for message in messages:
            if isinstance(message, Part):
                Path(message.path).unlink(missing_ok=True)


# ---------------------------------------------------------------- the driver's part


def _introduced(target: Target) -> dict[str, str]:
    """What the log says of itself, and says from now on; `PipelineError` when it is not ours to write. (rule 3)"""
    path, query = target.folder / ABOUT, _query(target.checkpoint)
    about: dict[str, Any] = {}
    if path.exists():
        about = json.loads(path.read_bytes())
        if about.get("format") != FORMAT:
            raise PipelineError(f"{path} has format {about.get('format')}: this version writes {FORMAT}")
    fresh = dict(about) or {"format": FORMAT}
    if "publisher" not in about:
        if segments(target.folder):
            raise PipelineError(f"{target.folder} is a log that `godwit sub` fills: take another folder")
        fresh["publisher"] = target.name or f"spark-{uuid.uuid4().hex[:12]}"
        if query:
            fresh["query"] = query
    elif query and about.get("query") != query:
        raise PipelineError(
            f"{target.folder} was filled by another stream, or by this one before its checkpoint was begun anew: take "
            "another folder"
        )
    elif target.name and about["publisher"] != target.name:
        raise PipelineError(f"{target.folder} is the log of publisher {about['publisher']!r}, and not {target.name!r}")
    if fresh != about:
        _save(path, json.dumps(fresh).encode())
    return {name: str(value) for name, value in fresh.items()}


def _query(checkpoint: str) -> str:
    """The identity of the stream that has this checkpoint, as far as can be seen from here."""
    try:
        return str(json.loads(Path(checkpoint.removeprefix("file:"), "metadata").read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _put_together(folder: Path, segment: int, messages: Sequence[WriterCommitMessage | None], publisher: str) -> None:
    """Make one segment of what tasks have written. (rules 1 and 2)"""
    fresh, row = folder / PARTS / f"segment-{segment}", 0
    fresh.parent.mkdir(mode=0o700, exist_ok=True)
    name = msgspec.json.encode(publisher)
    with fresh.open("wb") as file:
        for message in messages:
            assert isinstance(message, Part)
            with Path(message.path).open("rb") as part:
                for line in part:
                    row += 1
                    if line.startswith(UNNAMED):
                        number = segment << NUMBER_BITS | row
                        line = b'{"publisher":%b,"sequence":%d,' % (name, number) + line[len(UNNAMED) :]
                    file.write(line)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(folder / f"{segment:08}.jsonl")
    _sync(folder)


def _finish(target: Target) -> None:
    """Publish what was not published yet, and sweep."""
    shutil.rmtree(target.folder / PARTS, ignore_errors=True)
    if target.publish is not None:
        ran = subprocess.run(target.publish, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").strip().removeprefix("error: ")
            raise PipelineError(f"the events are in {target.folder}, and were not published: {said}")


def _save(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---------------------------------------------------------------- the tasks' part


def lines_of(batch: Any) -> Iterator[bytes]:
    """The rows of an Arrow batch as lines of an event log."""
    names = batch.schema.names
    has_json = ATTRIBUTES in names and pa.types.is_string(batch.schema.field(ATTRIBUTES).type)
    texts = batch.column(ATTRIBUTES).to_pylist() if has_json else [None] * batch.num_rows
    columns = [name for name in names if not (has_json and name == ATTRIBUTES)]
    own = {name: batch.column(name).to_pylist() for name in OWN if name in names and name != "day"}
    for row, attributes in enumerate(attributes_of(batch.select(columns))):
        event = _event({name: held[row] for name, held in own.items()}, attributes, texts[row])
        yield msgspec.json.encode(line_of(event)) + b"\n"


def _event(own: Mapping[str, Any], attributes: Attributes, text: str | None) -> Event:
    try:
        if text is not None:
            attributes = {**flattened(json.loads(text)), **attributes}
        is_named = own.get("publisher") is not None and own.get("sequence") is not None
        to = own.get("to")
        return Event(
            attributes,
            own["publisher"] if is_named else "",
            own["sequence"] if is_named else 0,
            payload=own.get("payload"),
            content_type=own.get("content_type"),
            published_at=_seconds(own.get("published_at")),
            expires_at=_seconds(own.get("expires_at")),
            to=None if to is None else said_filter(to),
        )
    except (GodwitError, ValueError) as error:
        raise PipelineError(f"a row cannot become an event: {error}") from None


def _seconds(at: Any) -> float | None:
    if isinstance(at, datetime):
        return at.timestamp()
    return None if at is None else float(at)
