"""Writing an event log: each event once, on the disk before it is acknowledged.

*Theory.* Logs carry events from a network of brokers to programs that read files, and back. A log is a folder of
segments, `00000001.jsonl` and so on. Each is lines of JSON as `godwit sub` prints them (`filters/json_lines.py`), and
is only appended to; when one is full the next is begun. So a position is a segment and an offset, and the log before a
position never changes. `log_format.py` defines the format.

A log may be bounded (`Retention`): then the oldest finished segments are removed when there are too many bytes, or when
they are too old. Segments are then smaller, an eighth of the bound, so that not much more than necessary is removed.
Before a segment is removed its length is recorded, and that of the one before, so a reader knows whether it missed any.

`EventLog` writes: `godwit sub --log` takes events from its session, appends them, and only then confirms them to the
broker. Killed in between, it gets them again, and skips those that are in the log by publisher and number, using
`Seen`. That memory is restored when the log is opened, from the last segment and from a file that was written when the
segment was begun.

*Rules.*
1. `append` returns when the events are on the disk. When it raises, the log is closed, and some of them may be in it:
   a reader may have seen these already. They are delivered again, and skipped.
2. No event is in a log twice, by its publisher and number.
3. An incomplete last line of a killed process is cut off when the log is opened. An unreadable line with others after
   it is a disk error: `EventLogError` names it, and nothing is cut.
4. One process at a time writes a log; others may read it. Only Spark writes to a log that Spark has begun.
5. Segments are removed from the front, one after the other: after a kill at any moment the log is complete from some
   segment on. The last one stays, and with it the numbers of segments and the events seen.
6. Events that a reader has seen survive the end of the process. After a power failure the last lines may be missing,
   and are delivered again, because they were not confirmed to a broker.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time
from typing import Any, NamedTuple

import msgspec

from godwit.errors import EventLogError
from godwit.event_log.log_format import (
    ABOUT,
    FORMAT,
    KIND,
    REMOVED,
    WRITING,
    Position,
    about_log,
    read_json,
    seen_file,
    segment_file,
    write_json,
)
from godwit.event_log.segment_files import removed, segments
from godwit.files import synced
from godwit.filters.events import Event
from godwit.filters.json_lines import line_of
from godwit.locking import locked
from godwit.seen import Seen

__all__ = ["EventLog", "Retention"]

SEGMENT_BYTES = 64 * 2**20
SEEN_WINDOW = 4_096  # numbers of a publisher; a session of brokers remembers fewer
SEEN_PUBLISHERS_MAX = 65_536
PARTS = 8  # segments per bound: at most this fraction is removed at once

_encode = msgspec.json.Encoder().encode


class Retention(NamedTuple):
    """How much of a log is kept: bytes, and seconds since an event was written. None: no limit."""

    bytes: int | None = None
    seconds: float | None = None


class _Finished(NamedTuple):
    segment: int
    bytes: int
    written_at: float  # the last of it


class _Identity(msgspec.Struct):
    publisher: str
    sequence: int
    attributes: msgspec.Raw


_identity = msgspec.json.Decoder(_Identity)


class EventLog:
    """A writer of a log. To be closed."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        keep: Retention = Retention(),  # noqa: B008 - it never changes
        now: Callable[[], float] = time,
    ) -> None:
        self.folder = folder
        self.keep = keep
        self.segment_bytes = segment_bytes if keep.bytes is None else min(segment_bytes, max(keep.bytes // PARTS, 1))
        self._now = now
        self._finished: deque[_Finished] = deque()
        self._lock = locked(folder, WRITING, EventLogError, "being written by process {}")
        try:
            if "publisher" in _introduced(folder):
                raise EventLogError(f"{folder} is a log that Spark fills: use another folder")
            self._seen = Seen(SEEN_WINDOW, SEEN_PUBLISHERS_MAX)
            found = segments(folder)
            if found:
                self._open_last(found[-1])
                self._finished.extend(self._look_at(segment) for segment in found[:-1])
            else:
                self._begin(1)
            self.tidy()
        except OSError as error:
            self._lock.close()
            raise EventLogError(f"{folder} cannot be written: {error.strerror or error}") from None
        except BaseException:
            self._lock.close()
            raise

    @property
    def end(self) -> Position:
        """The position after the last event."""
        return Position(self._segment, self._bytes)

    @property
    def name(self) -> str:
        """Name of the client that fills it; "" if none is set."""
        return str(about_log(self.folder).get("name", ""))

    @name.setter
    def name(self, name: str) -> None:
        write_json(self.folder / ABOUT, {**about_log(self.folder), "name": name})

    def append(self, events: Iterable[Event]) -> list[Event]:
        """Write the new events; returns them when they are on the disk. (rule 1)"""
        assert self._file is not None, "the log is closed, or could not be written"
        try:
            self.tidy()
            new = [event for event in events if self._seen.add(event.publisher, event.sequence)]
            if new:
                self._write(b"".join(_encode(line_of(event)) + b"\n" for event in new))
        except OSError as error:
            self.close()
            raise EventLogError(f"{self.folder} cannot be written: {error.strerror or error}") from None
        return new

    def tidy(self) -> None:
        """Begin the next segment when this one is full, or old, and remove old segments."""
        assert self._file is not None
        keep, now = self.keep, self._now()
        is_old = keep.seconds is not None and self._bytes > 0 and now - self._begun_at >= keep.seconds / PARTS
        if self._bytes >= self.segment_bytes or is_old:
            self._begin(self._segment + 1)
        if keep == Retention():  # not all: there may be very many segments, and this is called for each batch
            return
        total = sum(each.bytes for each in self._finished)
        while self._finished:
            oldest = self._finished[0]
            is_much = keep.bytes is not None and total + self.segment_bytes > keep.bytes
            if not is_much and (keep.seconds is None or now - oldest.written_at < keep.seconds):
                break
            self._take_away(oldest)
            total -= oldest.bytes

    def _take_away(self, oldest: _Finished) -> None:
        """The steps of rule 5."""
        before = [position for position in removed(self.folder) if position.segment == oldest.segment - 1]
        write_json(self.folder / REMOVED, [*before, Position(oldest.segment, oldest.bytes)])
        (self.folder / segment_file(oldest.segment)).unlink(missing_ok=True)
        synced([self.folder])
        self._finished.popleft()

    def _look_at(self, segment: int) -> _Finished:
        found = (self.folder / segment_file(segment)).stat()
        return _Finished(segment, found.st_size, found.st_mtime)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)
        self._bytes += len(data)

    def close(self) -> None:
        """Close the files."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.close()

    # ------------------------------------------------------------ segments

    _file: int | None = None
    _segment = 0
    _bytes = 0
    _begun_at = 0.0

    def _begin(self, segment: int) -> None:
        """Begin a segment; a file beside it has the events seen before."""
        data = [(publisher, highest, bits.hex()) for publisher, highest, bits in self._seen.data()]
        write_json(self.folder / seen_file(segment), data)
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._finished.append(self._look_at(self._segment))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = os.open(self.folder / segment_file(segment), flags, 0o600)
        synced([self.folder])
        self._segment, self._bytes, self._begun_at = segment, 0, self._now()
        (self.folder / seen_file(segment - 1)).unlink(missing_ok=True)

    def _open_last(self, segment: int) -> None:
        """Continue a segment: read its events, and cut off an incomplete line. (rule 3)"""
        path, seen = self.folder / segment_file(segment), self.folder / seen_file(segment)
        if seen.exists():
            self._seen.learn(tuple((name, highest, bytes.fromhex(bits)) for name, highest, bits in read_json(seen)))
        whole, bad = 0, 0  # bytes up to the end of the last good line, and the number of the first bad one
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    found = _identity.decode(line)
                except msgspec.DecodeError:
                    bad = bad or number
                    continue
                if bad:
                    raise EventLogError(
                        f"{path}: line {bad} is not an event, and there are others after it: the file is damaged"
                    )
                if line.endswith(b"\n"):
                    whole += len(line)
                    self._seen.add(found.publisher, found.sequence)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, whole)
        os.fdatasync(self._file)
        self._segment, self._bytes = segment, whole
        self._begun_at = (seen if seen.exists() else path).stat().st_mtime


def _introduced(folder: Path) -> dict[str, Any]:
    """The description of a log; a new folder becomes a log."""
    path = folder / ABOUT
    if not path.exists():
        if segments(folder):
            raise EventLogError(f"{folder} is not an event log: there is no {ABOUT} in it")
        write_json(path, {"kind": KIND, "format": FORMAT})
    return about_log(folder)
