"""The event log: events on disk, one a line, in a folder that whoever likes may read while it is written.

*Theory.* It is how events get from a network of brokers to programs that read files, and back. A log is a folder of
segments, `00000001.jsonl` and so on. Each is lines of JSON as `godwit sub` prints them (`filters/lines.py`), and is
only ever appended to; when one is full the next is begun. So a position is a segment and a number of bytes, and what is
before a position never changes. A log from which something is gone that was not read is said to be so.
`docs/reference/event_log.md` has the format for whoever reads it.

A log may be bounded (`Keep`): then the oldest finished segments are taken away when there are too many bytes, or when
they are too old. Segments are smaller for that, an eighth of the bound, so that not much more goes than must. Before a
segment goes it is written down how long it was, and the one before it: who had read it all has lost nothing.

`EventLog` writes: `godwit sub --log` takes events from its session, appends them, and only then tells the broker that
it has them. Killed in between, it gets them again, and leaves out what is in the log by publisher and number. For that
it remembers what `Seen` remembers. That is made again when the log is opened, from the last segment and from a file
that was written when the segment was begun.

`Publishing` reads: `godwit pub --log` publishes a log under one name, and writes down now and then how far it is.
Events have the same numbers each time, so what is published again after a kill is dropped by the sessions that got it.

*Rules.*
1. `append` returns when the events are on the disk. When it raises, the log is closed, and some of them may be in it:
   a reader may have seen these already. They come again, and are left out.
2. No event is in a log twice, by its publisher and number.
3. The end of a line that was being written when the process was killed is cut off when the log is opened. A line that
   cannot be read with others behind it is a fault of the disk: `EventLogError` says where, and nothing is cut.
4. One process at a time writes a log, and one publishes it; others may read it. What Spark writes nobody else does.
5. What is taken away goes from the front, one segment after the other, on the disk too: killed at any moment, what is
   there is whole from some segment on. The last one stays, and with it the numbers of segments and the events seen.
6. What a reader has seen is there after the end of the process. After the end of the power only what was on the disk
   is: the last lines may be gone, and come again, for no broker was told that we had them.
"""

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import time
from typing import IO, Any, NamedTuple

import msgspec

from godwit.broker.seen import Seen
from godwit.errors import EventLogError
from godwit.files import synced, write_whole
from godwit.filters.events import Event
from godwit.filters.lines import line_of
from godwit.runtime.locking import locked

__all__ = [
    "START",
    "EventLog",
    "Keep",
    "Position",
    "Publishing",
    "gone_before",
    "lines_from",
    "segments",
]

FORMAT = 1
ABOUT = "_log.json"
WRITING, PUBLISHING = "_writing.lock", "_publishing.lock"
PUBLISHED, REMOVED = "_published.json", "_removed.json"
SEGMENT = re.compile(r"^\d{8}\.jsonl$")
SEGMENT_BYTES = 64 * 2**20
SEEN_WINDOW = 4_096  # numbers of a publisher; a session of brokers remembers fewer
SEEN_PUBLISHERS_MAX = 65_536
PARTS = 8  # into which a bound is cut: so much of it at most goes at once

_encode = msgspec.json.Encoder().encode


class Position(NamedTuple):
    """A place in a log: all that is before it is there for good."""

    segment: int
    bytes: int


START = Position(1, 0)


class Keep(NamedTuple):
    """How much of a log is kept: so many bytes, and what was written in so many seconds; None: all."""

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
    """A log that is written. To be closed."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        keep: Keep = Keep(),  # noqa: B008 - it never changes
        now: Callable[[], float] = time,
    ) -> None:
        self.folder = folder
        self.keep = keep
        self.segment_bytes = segment_bytes if keep.bytes is None else min(segment_bytes, max(keep.bytes // PARTS, 1))
        self._now = now
        self._finished: deque[_Finished] = deque()
        self._lock = locked(folder, WRITING, EventLogError, "being written by process {}")
        try:
            _check_about(folder)
            if "publisher" in _about(folder):
                raise EventLogError(f"{folder} is a log that Spark fills: take another folder")
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
        """Behind the last event."""
        return Position(self._segment, self._bytes)

    @property
    def name(self) -> str:
        """The client that fills it, as was said; "": nobody has."""
        return str(_about(self.folder).get("name", ""))

    @name.setter
    def name(self, name: str) -> None:
        _say(self.folder / ABOUT, {**_about(self.folder), "name": name})

    def append(self, events: Iterable[Event]) -> list[Event]:
        """Write the events that are not there yet: those, once they are on the disk. (rule 1)"""
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
        """Begin the next segment when this one is full, or old, and take away what need not be kept."""
        assert self._file is not None
        keep, now = self.keep, self._now()
        is_old = keep.seconds is not None and self._bytes > 0 and now - self._begun_at >= keep.seconds / PARTS
        if self._bytes >= self.segment_bytes or is_old:
            self._begin(self._segment + 1)
        if keep == Keep():  # all: then there may be very many segments, and this is asked with each batch
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
        before = [position for position in _removed(self.folder) if position.segment == oldest.segment - 1]
        _say(self.folder / REMOVED, [*before, Position(oldest.segment, oldest.bytes)])
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
        """Let go of the files."""
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
        """Begin a segment; what was seen before it stands beside it."""
        data = [(publisher, highest, bits.hex()) for publisher, highest, bits in self._seen.data()]
        _say(self.folder / _seen_file(segment), data)
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._finished.append(self._look_at(self._segment))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = os.open(self.folder / segment_file(segment), flags, 0o600)
        synced([self.folder])
        self._segment, self._bytes, self._begun_at = segment, 0, self._now()
        (self.folder / _seen_file(segment - 1)).unlink(missing_ok=True)

    def _open_last(self, segment: int) -> None:
        """Go on with a segment: learn what is in it, and cut off what was not finished. (rule 3)"""
        path, seen = self.folder / segment_file(segment), self.folder / _seen_file(segment)
        if seen.exists():
            self._seen.learn(tuple((name, highest, bytes.fromhex(bits)) for name, highest, bits in _json(seen)))
        whole, bad = 0, 0  # bytes up to the end of the last good line, and the number of the first bad one
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    found = _identity.decode(line)
                except msgspec.DecodeError:
                    bad = bad or number
                    continue
                if bad:
                    raise EventLogError(f"{path}: line {bad} is no event, and others stand behind it: it was damaged")
                if line.endswith(b"\n"):
                    whole += len(line)
                    self._seen.add(found.publisher, found.sequence)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._file, whole)
        os.fdatasync(self._file)
        self._segment, self._bytes = segment, whole
        self._begun_at = (seen if seen.exists() else path).stat().st_mtime


# ---------------------------------------------------------------- reading


def segment_file(segment: int) -> str:
    """The name of a segment."""
    return f"{segment:08}.jsonl"


def segments(folder: Path) -> list[int]:
    """The segments that are there, in order."""
    try:
        return sorted(int(path.stem) for path in folder.iterdir() if SEGMENT.match(path.name))
    except OSError as error:
        raise EventLogError(f"{folder} cannot be read: {error.strerror}") from None


def gone_before(folder: Path, start: Position) -> str:
    """What is gone from the front of a log behind a position that was reached, in words; "": nothing."""
    found = segments(folder)
    if not found or start.segment >= found[0]:
        return ""
    if start.segment + 1 == found[0] and start in _removed(folder):
        return ""
    more = f" and all of segments {start.segment + 1} to {found[0] - 1}" if start.segment + 1 < found[0] else ""
    return f"what was behind byte {start.bytes} of segment {start.segment}{more}"


def lines_from(folder: Path, start: Position | None = None) -> Iterator[tuple[bytes, Position]]:
    """The whole lines behind a position, or all that are there, each with the position behind it.

    `EventLogError` when something between is gone, also while it is read.
    """
    found = segments(folder)
    start = start or _first(folder)
    if gone := gone_before(folder, start):
        raise EventLogError(f"{folder}: {gone} was taken away before it was read; --skip-gone goes on with the rest")
    expected = found[0] if found and found[0] == start.segment + 1 else start.segment
    for segment in found:
        if segment < start.segment:
            continue
        if segment != expected:
            break
        expected += 1
        at = start.bytes if segment == start.segment else 0
        with _opened(folder, segment) as file:
            if file.seek(0, os.SEEK_END) < at:
                raise EventLogError(f"{folder} was read up to byte {at} of segment {segment}, and is shorter now")
            file.seek(at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                at += len(line)
                yield line, Position(segment, at)
    if expected <= max(found if start == START else (*found, start.segment), default=0):
        raise EventLogError(f"{folder} has no segment {expected}, and it was not read: what is in it is gone")


def _first(folder: Path) -> Position:
    """Before all that is there."""
    return Position(next(iter(segments(folder)), START.segment), 0)


def _opened(folder: Path, segment: int) -> IO[bytes]:
    try:
        return (folder / segment_file(segment)).open("rb")
    except FileNotFoundError:
        raise EventLogError(f"{folder}: segment {segment} was taken away while it was to be read") from None


def _removed(folder: Path) -> list[Position]:
    """Behind the last segment that was taken away and the one before: it is not gone yet if it was being taken away."""
    path = folder / REMOVED
    try:
        return [Position(*each) for each in _json(path)] if path.exists() else []
    except TypeError:
        raise EventLogError(f"{path} does not say what was taken away") from None


class Publishing:
    """How far a log is published, and under which name and numbers. To be closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _check_about(folder, must_exist=True)
        self._lock = locked(folder, PUBLISHING, EventLogError, "being published by process {}")
        self.meant = str(_about(folder).get("publisher", ""))  # the name that whoever made the log wants it to have
        self.publisher = ""
        self.first = 0  # the number of the first event in the log
        self.keeps = False  # events have been published under this name before, and keep their numbers
        self.events = 0
        self.position = _first(folder)
        path = folder / PUBLISHED
        try:
            if path.exists():
                said = _json(path)
                self.publisher, self.first, self.keeps = said["publisher"], said["first"], said["keeps"]
                self.events, self.position = said["events"], Position(said["segment"], said["bytes"])
        except (EventLogError, KeyError, TypeError):
            self._lock.close()
            raise EventLogError(f"{path} does not say how far the log is published") from None

    def begin(self, publisher: str, first: int, *, keeps: bool) -> None:
        """Publish it under this name, from this number on: before anything is published."""
        assert not self.publisher
        self.publisher, self.first, self.keeps = publisher, first, keeps
        self.reached(self.position, 0)

    def skip_gone(self) -> str:
        """Go on at the first segment that is there, if the one that was reached is gone: what is skipped, in words."""
        gone = gone_before(self.folder, self.position)
        if gone:
            self.reached(_first(self.folder), 0)
        return gone

    def reached(self, position: Position, events: int) -> None:
        """Brokers have all that is before a position, which were so many events more."""
        self.position, self.events = position, self.events + events
        data = {"publisher": self.publisher, "first": self.first, "keeps": self.keeps, "events": self.events}
        _say(self.folder / PUBLISHED, {**data, **self.position._asdict()})

    def close(self) -> None:
        """Let others publish it."""
        self._lock.close()


# ---------------------------------------------------------------- files


def _seen_file(segment: int) -> str:
    return f"_seen-{segment:08}.json"


def _about(folder: Path) -> dict[str, Any]:
    return dict(_json(folder / ABOUT))


def _check_about(folder: Path, *, must_exist: bool = False) -> None:
    """Whether it is a log that this version reads; a new folder becomes one."""
    path = folder / ABOUT
    if not path.exists():
        if must_exist or (folder.exists() and segments(folder)):
            raise EventLogError(f"{folder} is no event log: there is no {ABOUT} in it")
        _say(path, {"format": FORMAT})
    elif (found := _about(folder).get("format")) != FORMAT:
        raise EventLogError(f"{path} has format {found}: this version reads {FORMAT}")


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EventLogError(f"{path} cannot be read: {error}") from None


def _say(path: Path, data: Any) -> None:
    write_whole(path, json.dumps(data, ensure_ascii=False).encode() + b"\n")
