"""Rows of all formats, and their transformation: renamed attributes, combined points, the time.

*Theory.* A format yields a `Row` for each valid row and a `BadRow` for each invalid one; `Shaper` then applies the
user's options, the same for all formats, and a row that does not fit becomes a `BadRow`, too.

*Rules.*
1. Each row of a file is yielded once, as a `Row` or as a `BadRow`.
2. A reason is `kind: details`; rows are counted by kind. The text is that of the file.
3. A time without a zone is UTC.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isclose
from typing import Any, NamedTuple, TypedDict

from godwit.errors import BadEvent, BadValue
from godwit.filters.events import Attributes
from godwit.filters.values import Point

__all__ = ["BadRow", "EventHeader", "Options", "Row", "Shaper", "in_microseconds", "one_number", "own_of", "refused"]

TEXT_KEPT_MAX = 1_000  # characters of a bad row
TEXT_BYTES_MAX = 4 * TEXT_KEPT_MAX  # that these take at most
HELD_SHOWN_MAX = 60
EXAMPLE = "2026-11-15T18:00:00Z"
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
MICROSECONDS = 1_000_000
YEAR_MIN_US, YEAR_MAX_US = -62_135_596_800 * MICROSECONDS, 253_402_300_800 * MICROSECONDS  # the years 1 to 9999


class EventHeader(TypedDict, total=False):
    """The fields of an event besides its attributes. Times are seconds since 1970."""

    publisher: str
    sequence: int
    published_at: float
    expires_at: float
    to: str
    content_type: str
    payload: bytes


class Row(NamedTuple):
    """An event: its line, its number in the file, its attributes."""

    line: int
    number: int
    attributes: Attributes
    own: EventHeader | None = None
    size: int = 0  # approximate size in bytes
    text: str | bytes = ""  # the text in the file, or its beginning
    time: Any = None  # the text of `Options.time`, if the attributes do not have it as written


class BadRow(NamedTuple):
    """A row that could not be read, and why."""

    line: int
    reason: str
    text: str

    @property
    def kind(self) -> str:
        """The kind of error, for counting."""
        return self.reason.partition(": ")[0]


@dataclass(frozen=True)
class Options:
    """The user's options for all formats. `names`: old to new; an empty new name removes the attribute."""

    format: str
    row: str = ""  # the element that is a row of XML
    time: str = ""  # the attribute with the publication time
    time_format: str = ""  # of strptime, or s, ms, us, ns since 1970; else ISO 8601, or seconds
    names: tuple[tuple[str, str], ...] = ()
    points: tuple[tuple[str, str, str], ...] = ()  # attributes of longitude and latitude, and of the point
    delimiter: str = ","
    skip_lines: int = 0  # of CSV, before its header
    index: str = "index"  # the column of CSV whose name in the header is empty
    strict: bool = False

    @property
    def text(self) -> str:
        """The attribute whose text is kept: a time in a custom format, in which 12.30 is not 12.3."""
        return self.time if self.time_format and self.time_format not in UNITS else ""


def refused(line: int, kind: str, error: object, text: str | bytes) -> BadRow:
    """A bad row, its reason in one line and its text cut short."""
    said = " ".join(str(error).split())
    if isinstance(text, bytes):
        text = text[:TEXT_BYTES_MAX].decode(errors="replace")
    return BadRow(line, f"{kind}: {said}" if said else kind, text[:TEXT_KEPT_MAX])


class Shaper:
    """Applies `options` to every row."""

    def __init__(self, options: Options) -> None:
        self.names = dict(options.names)
        self.points = options.points
        self.time = options.time
        self.time_format = options.time_format

    def __call__(self, row: Row) -> tuple[Attributes, int | None]:
        """The transformed attributes of a row, and its publication time in microseconds."""
        when, attributes, own = None, row.attributes, row.own
        if self.time:
            held = attributes.get(self.time) if row.time is None else row.time
            if held is None:
                raise BadValue(f"no time: there is no {self.time!r}")
            when = in_microseconds(held, self.time_format)
        elif own is not None and (at := own.get("published_at")) is not None:
            when = round(at * MICROSECONDS)
        if self.points or self.names:
            attributes = self._shaped(attributes)
        return attributes, when

    def _shaped(self, attributes: Attributes) -> Attributes:
        found: dict[str, Any] = dict(attributes)
        for lon, lat, name in self.points:
            x, y = one_number(found.pop(lon, None)), one_number(found.pop(lat, None))
            if (x is None) is not (y is None):
                raise BadValue(
                    f"no point: there is {lon if y is None else lat!r} without {lat if y is None else lon!r}"
                )
            if x is not None:
                if name in found:
                    raise BadValue(
                        f"two names: {lon!r} and {lat!r} are to be called {name!r}, and there is one already"
                    )
                try:
                    found[name] = Point(x, y)
                except BadValue as error:
                    raise BadValue(f"no point: {error}") from None
        moved = [(old, new, found.pop(old)) for old, new in self.names.items() if old in found]
        for old, new, held in moved:
            if new in found:
                raise BadValue(f"two names: {old!r} is to be called {new!r}, and there is one already")
            if new:
                found[new] = held
        return found


def one_number(held: Any) -> Any:
    """The number of an XML text that is stored as a number and, if written differently, also as a text; else the value.

    Numbers that a reader of XML may have rounded differently are one number.
    """
    if type(held) is not tuple:
        return held
    numbers = [value for value in held if type(value) in (int, float)]
    return numbers[0] if numbers and all(isclose(numbers[0], each) for each in numbers) else held


def in_microseconds(held: Any, format: str = "") -> int:
    """A time in microseconds since 1970 from an attribute's value; `BadValue` if it is not a time."""
    try:
        when = _in_microseconds(held, format)
    except (ValueError, OverflowError, TypeError) as error:
        raise BadValue(f"no time: {error}") from None
    if not YEAR_MIN_US <= when < YEAR_MAX_US:
        raise BadValue(f"no time: {held!r} is outside of the years 1 to 9999")
    return when


def _in_microseconds(held: Any, format: str) -> int:
    if type(held) is datetime:
        return _microseconds_of(held)
    if type(held) in (int, float):
        if format and format not in UNITS:
            if type(held) is float:
                raise ValueError(f"{held!r} is a number, whose last digits may be lost: write it as a text")
            held = str(held)  # 20041228 and the like, which reads like a number
        else:
            return _scaled(held, UNITS[format or "s"])
    if type(held) is not str:
        raise ValueError(f"{held!r} is not a time")
    if format in UNITS:
        raise ValueError(f"{held!r} is not a number of {format} since 1970")
    try:
        return _microseconds_of(datetime.strptime(held, format) if format else datetime.fromisoformat(held))
    except ValueError as error:
        raise ValueError(_no_time(held, format, str(error))) from None


def _no_time(held: str, format: str, said: str) -> str:
    shown = repr(held if len(held) <= HELD_SHOWN_MAX else f"{held[:HELD_SHOWN_MAX]}…")
    if not format:
        return f"{shown} is not in the format of ISO 8601, such as {EXAMPLE}; set another with --time-format"
    if "directive" in said or "stray" in said:
        return f"{format!r} is not a format of times: {said}"
    return f"{shown} is not in the format {format!r}"


def _scaled(number: float, unit: int) -> int:
    if unit > MICROSECONDS:
        return int(number) // (unit // MICROSECONDS)
    return round(number * (MICROSECONDS // unit))


def _microseconds_of(time: datetime) -> int:
    gone = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - EPOCH
    return (gone.days * 86_400 + gone.seconds) * MICROSECONDS + gone.microseconds


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def own_of(data: Mapping[str, Any]) -> EventHeader:
    """The checked fields of a line of an event log besides the attributes."""
    from godwit.filters.language import parse, to_text  # a grammar, that few logs need

    own: EventHeader = {}
    for name, kinds in _OWN_KINDS.items():
        held = data.get(name)
        if held is None:
            continue
        if type(held) not in kinds:
            raise BadEvent(f"{name!r} is {held!r}: it must be {_WORDS[kinds]}")
        own[name] = held  # type: ignore[literal-required]
    if not 0 <= own.get("sequence", 0) < 2**63:
        raise BadEvent(f"'sequence' is {own['sequence']}: it must be from 0 to 2**63 - 1")
    for name in ("published_at", "expires_at"):
        if name in own:
            in_microseconds(own[name])  # type: ignore[literal-required]
    if "to" in own:
        own["to"] = to_text(parse(own["to"]))
    if (text := data.get("payload")) is not None:
        if type(text) is not str:
            raise BadEvent("'payload' must be a text; bytes go into 'payload_base64'")
        own["payload"] = text.encode()
    elif (coded := data.get("payload_base64")) is not None:
        try:
            own["payload"] = base64.b64decode(coded, validate=True)
        except (ValueError, TypeError) as error:
            raise BadEvent(f"'payload_base64': {error}") from None
    return own


_TEXT, _WHOLE, _NUMBER = (str,), (int,), (int, float)
_WORDS: dict[tuple[type, ...], str] = {_TEXT: "a text", _WHOLE: "a whole number", _NUMBER: "a number of seconds"}
_OWN_KINDS: dict[str, tuple[type, ...]] = {
    "publisher": _TEXT,
    "sequence": _WHOLE,
    "published_at": _NUMBER,
    "expires_at": _NUMBER,
    "to": _TEXT,
    "content_type": _TEXT,
}
