"""Reading an event log: positions in it, pieces of it for tasks, and events as columns.

*Theory.* A log is a folder of segments with an event on each line (`docs/reference/event_log.md`); it is written by
`godwit sub --log` and may grow while it is read. This is the reader's side of `runtime/event_log.py`: files are all
that the two share.

*Rules.*
1. What is before a position never changes, so the same two positions give the same events for ever.
2. A line without its end is being written, and belongs to no position.
3. Nothing is left out in silence: a value that does not fit the form its column was said to have is an error, or goes
   to the column for the rest.
4. A log from which something is gone that was not read is an error that says what is: the segment that a position is
   in must be there, or have been read to its end, and all behind it. Who wants that skips what is gone at the front.
5. Brokers let through any number as the time of an event, and one publisher must not end a stream for everybody: a
   time outside of the years 1 to 9999 is the first or the last second of them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pyarrow as pa

from godwit.errors import GodwitError, PipelineError
from godwit.filters.events import Attributes
from godwit.filters.lines import plain
from godwit.pipeline.columns import EXACT_MAX, INT64_MAX, OWN, Form, arrow_type, column_of, to_arrow
from godwit.pipeline.formats.by_line import of_data
from godwit.pipeline.formats.rows import MICROSECONDS, YEAR_MAX_US, YEAR_MIN_US, Own, in_microseconds

__all__ = [
    "START",
    "Piece",
    "Position",
    "Wanted",
    "advanced",
    "batches",
    "end_of",
    "gone_before",
    "pieces",
    "segments",
    "start_of",
]

SEGMENT = re.compile(r"^\d{8}\.jsonl$")
REMOVED = "_removed.json"  # the last segments that were taken away, and how long they were
READ_BYTES = 2**20
PIECE_BYTES_MAX = 8 * 2**20  # that one task reads
TIMES = ("published_at", "expires_at")
EPOCH = date(1970, 1, 1)
DAY_US = 86_400_000_000


class Position(NamedTuple):
    """A place in a log: a segment, and bytes in it."""

    segment: int
    bytes: int


START = Position(1, 0)


@dataclass(frozen=True)
class Piece:
    """Whole lines of a segment: the bytes from `start` up to `end`."""

    path: str
    start: int
    end: int


# ---------------------------------------------------------------- positions


def segments(folder: Path, start: Position | None = None, skip_gone: bool = False) -> list[int]:
    """The segments, from a position on if one is given; `PipelineError` when some that were not read are gone. (rule 4)

    `skip_gone`: but from the first that is there, if the one that the position is in was taken away.
    """
    try:
        found = sorted(int(path.stem) for path in folder.iterdir() if SEGMENT.match(path.name))
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise PipelineError(f"cannot read {folder}: {error.strerror or error}") from None
    if start is None or (start == START and not found):
        return found
    if not found or start.segment > found[-1]:
        there = f"segments {found[0]} to {found[-1]} are there" if found else "no segment is there"
        raise PipelineError(f"{folder} was read up to segment {start.segment}, and {there}: it is another log now")
    if not skip_gone and (gone := gone_before(folder, start, found[0])):
        raise PipelineError(
            f"{folder}: {gone} was taken away before it was read; go on with segment {found[0]} by "
            "option('skip_gone', 'true') or --skip-gone, or begin anew with another checkpoint and output"
        )
    ahead = [segment for segment in found if segment >= start.segment]
    if ahead[-1] - ahead[0] >= len(ahead):
        missing = next(number for number, segment in enumerate(ahead, start=ahead[0]) if segment != number)
        raise PipelineError(f"{folder} has no segment {missing}, and later ones: what is in it is gone")
    return ahead


def gone_before(folder: Path, start: Position, first: int) -> str:
    """What is gone from the front of a log behind a position, when `first` is there; "": nothing."""
    if start.segment >= first or (start.segment + 1 == first and start in _removed(folder)):
        return ""
    more = f" and all of segments {start.segment + 1} to {first - 1}" if start.segment + 1 < first else ""
    return f"what was behind byte {start.bytes} of segment {start.segment}{more}"


def _removed(folder: Path) -> list[Position]:
    """Behind the last segments that were taken away."""
    path = folder / REMOVED
    try:
        return [Position(*each) for each in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError):
        raise PipelineError(f"{path} does not say what was taken away") from None


def start_of(folder: Path) -> Position:
    """Before the first line that is there."""
    return Position(next(iter(segments(folder)), START.segment), 0)


def _path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:08}.jsonl"


def end_of(folder: Path, start: Position | None = None, skip_gone: bool = False) -> Position:
    """Behind the last whole line; `PipelineError` when that is before a position that was reached."""
    found = segments(folder, start, skip_gone)
    end = Position(found[-1], _whole_bytes(_path(folder, found[-1]))) if found else START
    if start is not None and end < start:
        raise PipelineError(
            f"{folder} was read up to byte {start.bytes} of segment {start.segment}, and is shorter now"
        )
    return end


def _whole_bytes(path: Path) -> int:
    """Up to the end of the last whole line of a file."""
    with _opened(path) as file:
        at = file.seek(0, 2)
        while at:
            begin = max(0, at - READ_BYTES)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            at = begin
    return 0


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise PipelineError(f"{path} was taken away while it was to be read: read the log again") from None
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror or error}") from None


def advanced(folder: Path, start: Position, end: Position, rows: int, skip_gone: bool = False) -> Position:
    """So many lines behind `start`, but not behind `end`."""
    for piece in pieces(folder, start, end, None, skip_gone):
        with _opened(Path(piece.path)) as file:
            file.seek(piece.start)
            at = piece.start
            while at < piece.end:
                read = file.read(min(READ_BYTES, piece.end - at))
                lines = read.count(b"\n")
                if lines >= rows:
                    return Position(int(Path(piece.path).stem), at + _behind(read, rows))
                rows -= lines
                at += len(read)
    return end


def _behind(data: bytes, lines: int) -> int:
    """Bytes up to the end of so many lines."""
    at = 0
    for _ in range(lines):
        at = data.index(b"\n", at) + 1
    return at


def pieces(
    folder: Path,
    start: Position,
    end: Position,
    bytes_max: int | None = PIECE_BYTES_MAX,
    skip_gone: bool = False,
) -> list[Piece]:
    """What is between two positions, for tasks to read: whole lines, of one segment each."""
    found = []
    for segment in segments(folder, start, skip_gone):
        if segment > end.segment:
            break
        path = _path(folder, segment)
        at = start.bytes if segment == start.segment else 0
        last = end.bytes if segment == end.segment else _whole_bytes(path)
        for cut in [*_cuts(path, at, last, bytes_max), last]:
            if cut > at:
                found.append(Piece(str(path), at, cut))
                at = cut
    return found


def _cuts(path: Path, start: int, end: int, bytes_max: int | None) -> Iterator[int]:
    """Ends of lines between two others, about so many bytes apart."""
    if bytes_max is None or end - start <= bytes_max:
        return
    with _opened(path) as file:
        at = start + bytes_max
        while at < end:
            file.seek(at - 1)
            at = at - 1 + len(file.readline())
            if at < end:
                yield at
            at += bytes_max


# ---------------------------------------------------------------- events as columns


@dataclass(frozen=True)
class Wanted:
    """The columns that events are read into: one for each of `forms`, and one with the rest as JSON if it is named."""

    forms: tuple[tuple[str, Form], ...] = ()
    rest: str = "attributes"

    @staticmethod
    def parse(attributes: str, rest: str = "") -> "Wanted":
        """Out of `price float, tags several text`, or the same as a JSON object; without any, all is the rest."""
        if not attributes.strip():
            return Wanted(rest=_checked_rest(rest or "attributes", {}))
        forms: dict[str, Form] = {}
        for name, form in _said(attributes):
            if name in forms:
                raise PipelineError(f"attribute {name!r} is said twice")
            forms[name] = Form.parse(form)
        return Wanted(tuple(forms.items()), _checked_rest(rest, forms))

    def schema(self) -> Any:
        """The columns, as an Arrow schema: those of a table of events, and these."""
        fields = [pa.field(name, type) for name, type in _OWN_TYPES.items()]
        fields += [pa.field(column_of(name), arrow_type(form)) for name, form in self.forms]
        return pa.schema([*fields, pa.field(self.rest, pa.string())] if self.rest else fields)


def _said(attributes: str) -> Iterator[tuple[str, str]]:
    if attributes.lstrip().startswith("{"):
        try:
            for name, form in json.loads(attributes).items():
                yield name, str(form)
        except ValueError as error:
            raise PipelineError(f"attributes: this is no JSON: {error}") from None
        return
    for part in attributes.split(","):
        name, _, form = part.strip().partition(" ")
        if not name or not form:
            raise PipelineError(f"attributes: {part.strip()!r} is no name and form, such as `price float`")
        yield name, " ".join(form.split())


def _checked_rest(rest: str, forms: Mapping[str, Form]) -> str:
    if rest in OWN or rest in {column_of(name) for name in forms}:
        raise PipelineError(f"rest: there is a column {rest!r} already")
    return rest


_OWN_TYPES = {
    "publisher": pa.string(),
    "sequence": pa.int64(),
    "published_at": pa.timestamp("us", tz="UTC"),
    "expires_at": pa.timestamp("us", tz="UTC"),
    "to": pa.string(),
    "content_type": pa.string(),
    "payload": pa.binary(),
    "day": pa.date32(),
}
assert tuple(_OWN_TYPES) == OWN


def batches(piece: Piece, wanted: Wanted, rows_max: int) -> Iterator[Any]:
    """The events of a piece as Arrow batches of at most so many rows."""
    if piece.start == piece.end:
        return
    lines = _lines(piece)
    while chunk := list(islice(lines, rows_max)):
        yield _batch([_parsed(piece, at, line) for at, line in chunk], wanted)


def _lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Each line, with the byte at which it begins."""
    try:
        with _opened(Path(piece.path)) as file:
            file.seek(piece.start)
            at = piece.start
            while at < piece.end:
                line = file.readline()
                if not line:
                    raise PipelineError(f"{piece.path} has {at} bytes, and was read up to byte {piece.end} before")
                yield at, line
                at += len(line)
    except OSError as error:
        raise PipelineError(f"cannot read {piece.path}: {error.strerror or error}") from None


def _parsed(piece: Piece, at: int, line: bytes) -> tuple[Attributes, Own]:
    try:
        data = msgspec.json.decode(line)
        if type(data) is dict:
            data.update({name: _in_years(data[name]) for name in TIMES if name in data})
        attributes, own = of_data(data)
    except (GodwitError, ValueError, RecursionError) as error:
        raise PipelineError(f"{piece.path}, byte {at}: {error}") from None
    if own is None or "publisher" not in own or "sequence" not in own:
        raise PipelineError(f"{piece.path}, byte {at}: this is no line of an event log, with publisher and sequence")
    return attributes, own


def _in_years(at: Any) -> Any:
    """The nearest time that a column of times can hold. (rule 5)"""
    if type(at) not in (int, float):
        return at
    return min(max(at, YEAR_MIN_US // MICROSECONDS), YEAR_MAX_US // MICROSECONDS - 1)


def _batch(events: list[tuple[Attributes, Own]], wanted: Wanted) -> Any:
    owns = [own for _, own in events]
    times = {
        "published_at": [_microseconds(own.get("published_at")) for own in owns],
        "expires_at": [_microseconds(own.get("expires_at")) for own in owns],
    }
    columns = []
    for name, type in _OWN_TYPES.items():
        if name == "day":
            held: list[Any] = [None if at is None else _day(at) for at in times["published_at"]]
        else:
            held = times[name] if name in times else [own.get(name) for own in owns]
        columns.append(pa.array(held, type=type))
    rests: list[dict[str, Any]] = [dict(attributes) for attributes, _ in events]
    for name, form in wanted.forms:
        columns.append(
            to_arrow(form, [_taken(name, form, rest, own, wanted) for rest, own in zip(rests, owns, strict=True)])
        )
    if wanted.rest:
        texts = [json.dumps({n: plain(v) for n, v in rest.items()}, ensure_ascii=False) for rest in rests]
        columns.append(pa.array(texts, type=pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=wanted.schema())


def _taken(name: str, form: Form, rest: dict[str, Any], own: Own, wanted: Wanted) -> Any:
    """What an event holds of an attribute, no longer among the rest; what does not fit stays there. (rule 3)"""
    held = rest.get(name)
    if held is None:
        return None
    if not fits(form, held):
        if wanted.rest:
            return None
        raise PipelineError(
            f"event {own['publisher']}:{own['sequence']} has {name} = {held!r}, which is no {form}: say `{name} any`, "
            "`several` where there may be more than one, or rest=COLUMN for what does not fit"
        )
    del rest[name]
    return held


def fits(form: Form, held: Any) -> bool:
    """Whether a column of this form can hold it, exactly."""
    if type(held) is tuple:
        return form.several and all(_one_fits(form.kind, value) for value in held)
    return _one_fits(form.kind, held)


def _one_fits(kind: str, value: Any) -> bool:
    if type(value) is int:
        if kind == "float":
            return abs(value) <= EXACT_MAX
        return kind == "any" or (kind == "int" and value <= INT64_MAX)
    return kind == "any" or _NAMES.get(type(value).__name__) == kind


_NAMES = {"bool": "bool", "float": "float", "str": "text", "datetime": "time", "Point": "point"}


def _microseconds(at: float | None) -> int | None:
    return None if at is None else in_microseconds(at)


def _day(at_us: int) -> date:
    return EPOCH + timedelta(days=at_us // DAY_US)
