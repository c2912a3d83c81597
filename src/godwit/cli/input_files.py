"""Reading subscriptions and events: JSON lines or CSV, from a file or a pipe, line by line.

*Theory.* `Lines` splits a stream into lines as they arrive, and knows whether the next line is available without
waiting, so that the lines read so far can be answered first. An invalid record goes to `BadLines`, which reports it
with its file and line, and reading continues. Contexts in a record are applied here: the sender's context becomes
attributes of the event, the subscriber's context is bound into its filter. A subscription may be in any language: the
matcher uses its routable filter, and its query decides.

*Rules.*
1. A line longer than `LINE_BYTES_MAX` is an error and is not kept in memory.
2. A reader yields None for a skipped line, so that its caller can check `Lines.is_drained`.
3. Only `BadLines` decides whether invalid input stops the run.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import IO, Any, NamedTuple

import msgspec

from godwit.cli.query_options import read_query
from godwit.errors import BadValue, FilterError, GodwitError
from godwit.filters.contexts import SENDER, checked_context, checked_context_filter, of_sender, stamped
from godwit.filters.csv_cells import cell
from godwit.filters.events import Attributes, Event, event, flattened
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import from_json
from godwit.filters.references import bind, is_open, references_of
from godwit.languages.query import NATIVE, Query

__all__ = [
    "BadLines",
    "BoundSubscription",
    "Lines",
    "Named",
    "batches",
    "csv_events",
    "json_events",
    "subscriptions",
    "why_bad",
]

LINE_BYTES_MAX = 4 * 2**20
READ_BYTES = 2**20
BATCH_EVENTS_MAX = 2_048
TEXTS_REMEMBERED = 2**16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

TOO_LONG = f"the line is longer than {LINE_BYTES_MAX:,} bytes"
BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, GodwitError)  # errors that make a line invalid
NO_CONTEXT: Attributes = {}
XML = "application/xml"
OWN_CONTEXT = {
    "filter": "context",
    "sender": "context",
    "to": "sender",
}  # by field with references: the field that has the context

Name = int | str
Named = tuple[Name, Event]


class BoundSubscription(NamedTuple):
    """A subscription as it is matched: its filter is bound and includes the conditions on the sender."""

    id: Name
    filter: Filter
    context: Attributes
    query: Query


class SubscriptionLine(msgspec.Struct, gc=False):
    """`{"id": 7, "filter": "price < 10"}`; a filter may be in its JSON form.

    `language` is the language of the filter's text, `sender` a filter on the publisher's context, `context` the
    subscriber's context.
    """

    id: Name
    filter: Any
    language: str = NATIVE
    sender: Any = None
    context: Any = None
    to: Any = None  # a field of events, not of subscriptions


class EventLine(msgspec.Struct, gc=False):
    """`{"id": 3, "attributes": {"price": 4}}`; an event without an id is called by its number.

    `sender` is the publisher's context, `to` a filter on the receiver's. `xml` is a document: its attributes are taken
    from it. `payload` and `content_type` are as `godwit sub` prints them.
    """

    attributes: dict[str, Any] | None = None
    xml: str | None = None
    payload: Any = None
    content_type: str | None = None
    id: Name | None = None
    sender: Any = None
    to: Any = None


_SUBSCRIPTION: msgspec.json.Decoder[SubscriptionLine] = msgspec.json.Decoder(SubscriptionLine)
_EVENT: msgspec.json.Decoder[EventLine] = msgspec.json.Decoder(EventLine)


@dataclass
class BadLines:
    """What happens with a bad line: `report` it and continue, or stop if `is_strict`."""

    report: Callable[[str], None]
    is_strict: bool = False
    skipped: int = field(default=0, init=False)

    def found(self, lines: "Lines", reason: object) -> None:
        """The line just read is bad."""
        message = f"{lines.name}:{lines.number}: {reason}"
        if self.is_strict:
            raise GodwitError(message)
        self.skipped += 1
        self.report(message)


class Lines:
    """The lines of a binary stream.

    `number` is the number of the last line; `is_drained` says whether the next line has not arrived yet.
    """

    def __init__(self, stream: IO[bytes], name: str, on_read: Callable[[int], object] = lambda _: None) -> None:
        self.name = name
        self.number = 0
        self.is_drained = False
        self._stream: Any = stream
        self._on_read = on_read

    def __iter__(self) -> Iterator[bytes | None]:
        """Each line without its line ending; None for a line that is too long."""
        started: list[bytes] = []  # of a line whose end has not come yet
        length = 0
        while data := self._stream.read1(READ_BYTES):
            self._on_read(len(data))
            *ends, rest = data.split(b"\n")
            for place, end in enumerate(ends, start=1):
                self.is_drained = place == len(ends)
                yield self._line(started, end, length)
                started, length = [], 0
            length += len(rest)
            if length <= LINE_BYTES_MAX:
                started.append(rest)
            else:
                started.clear()
        if length:
            self.is_drained = True
            yield self._line(started, b"", length)

    def _line(self, started: list[bytes], end: bytes, length: int) -> bytes | None:
        self.number += 1
        if length + len(end) > LINE_BYTES_MAX:
            return None
        line = b"".join([*started, end]).removesuffix(b"\r")
        return line.removeprefix(BYTE_ORDER_MARK) if self.number == 1 else line


# ---------------------------------------------------------------- JSON lines


def subscriptions(lines: Lines, faults: BadLines) -> Iterator[BoundSubscription]:
    """The subscriptions of a stream of JSON lines. Equal filters are one object, so they cost the matcher little."""
    seen: set[Name] = set()
    for line in _documents(lines, faults):
        if line is None:
            continue
        try:
            found = _SUBSCRIPTION.decode(line)
            if found.to is not None:
                raise GodwitError("to: only events have this field; a filter on the sender's context is 'sender'")
            query, context = _query(found.filter, found.language), NO_CONTEXT
            filter = query.routable
            field = "filter" if is_open(filter) else "sender"
            if found.sender is not None:
                filter = all_of(filter, of_sender(_context_filter("sender", found.sender)))
            if found.context is not None:
                context = _context("context", found.context)
            if is_open(filter):
                filter = _bound(filter, context, field, "subscriber's" if found.context is None else "")
        except BAD as error:
            faults.found(lines, why_bad(error))
            continue
        if found.id in seen:
            faults.found(lines, f"there is a subscription {found.id!r} already")
            continue
        seen.add(found.id)
        yield BoundSubscription(found.id, filter, context, query)


def json_events(lines: Lines, faults: BadLines) -> Iterator[Named | None]:
    """The events of a stream of JSON lines, None for each line that holds none."""
    number = 0
    for line in _documents(lines, faults):
        if line is None:
            yield None
            continue
        number += 1
        try:
            found = _EVENT.decode(line)
            checked = _event(found)
            if found.sender is not None or found.to is not None:
                checked = _sent(checked, found)
        except BAD as error:
            faults.found(lines, why_bad(error))
            yield None
            continue
        yield (number if found.id is None else found.id), checked


def _event(line: EventLine) -> Event:
    """The event of a line, with its payload."""
    if line.xml is not None:
        from godwit.languages.xml_documents import xml_event  # it needs a large library

        if line.payload is not None:
            raise GodwitError("an event has 'xml' or a 'payload', not both")
        return xml_event(line.xml.encode(), flattened(line.attributes or {}), content_type=line.content_type or XML)
    if line.attributes is None:
        raise GodwitError("an event has `attributes`, or is a document: `xml`")
    checked = event(line.attributes)
    if line.payload is None:
        return checked
    if not isinstance(line.payload, str):
        raise GodwitError("payload: a text")
    return replace(checked, payload=line.payload.encode(), content_type=line.content_type)


def _sent(checked: Event, line: EventLine) -> Event:
    """The event with its sender's context, and the filter on its receivers."""
    context = NO_CONTEXT
    if line.sender is not None:
        context = _context("sender", line.sender)
        for name in checked.attributes:
            if name.startswith(SENDER):
                raise GodwitError(f"attribute {name!r}: the line has a 'sender', so it belongs there")
        checked = stamped(checked, context)
    if line.to is not None:
        to = _context_filter("to", line.to)
        if is_open(to):
            to = _bound(to, context, "to", "publisher's" if line.sender is None else "")
        checked = replace(checked, to=to)
    return checked


def _context(field: str, said: Any) -> Attributes:
    try:
        return checked_context(said)
    except BadValue as error:
        raise GodwitError(f"{field}: {error}") from None


def _context_filter(field: str, source: Any) -> Filter:
    try:
        return checked_context_filter(_read(source))
    except FilterError as error:
        raise GodwitError(f"{field}: {error}") from None


def _bound(filter: Filter, context: Attributes, field: str, missing: str) -> Filter:
    """The filter bound to the line's context; `missing` names the owner of a context that the line lacks."""
    if missing:
        references = references_of(filter)
        raise GodwitError(
            f"{field}: it refers to {', '.join(map(str, references))}, the {missing} own context, and the line says "
            f'none: add "{OWN_CONTEXT[field]}": {{"{references[0].name}": …}}'
        )
    try:
        return bind(filter, context)
    except FilterError as error:  # areas around a place cannot come from a context
        raise GodwitError(f"{field}: {error}") from None


def _read(source: Any) -> Filter:
    return _parsed(source, NATIVE).routable if isinstance(source, str) else from_json(source)


def _query(source: Any, language: str) -> Query:
    if isinstance(source, str):
        return _parsed(source, language)
    if language != NATIVE:
        raise GodwitError(f"filter: in the language {language!r} it must be a text")
    return Query(NATIVE, "", from_json(source))


def _documents(lines: Lines, faults: BadLines) -> Iterator[bytes | None]:
    """Each line that is not blank; None for the others and for those too long."""
    for line in lines:
        if line is None:
            faults.found(lines, TOO_LONG)
        yield line if line and not line.isspace() else None


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _parsed(text: str, language: str) -> Query:
    return read_query(text, language)


def why_bad(error: Exception) -> str:
    """Why a line is invalid, in a few words."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a text that is not valid UTF-8"
    if str(error) == "Input data was truncated":  # msgspec reports both cases so
        return "the JSON ends too soon, or one of its texts has half of a surrogate pair"
    return str(error).replace("\n", "\n    ")


# ---------------------------------------------------------------- CSV


def csv_events(lines: Lines, faults: BadLines) -> Iterator[Named | None]:
    """The events of a CSV table, None for each line that holds none. The header names the attributes."""
    rows = csv.reader(_texts(lines, faults), strict=True)
    header: list[str] | None = None
    number = 0
    while True:
        try:
            row = next(rows)
            if not row:
                yield None
                continue
            if header is None:
                header = _checked_header(row, lines)
                continue
            number += 1
            named = _event_of_row(header, row, number)
        except StopIteration:
            return
        except (csv.Error, ValueError) as error:  # BadEvent is a ValueError; so is an int of 5,000 digits
            faults.found(lines, error)
            yield None
            continue
        yield named


def _texts(lines: Lines, faults: BadLines) -> Iterator[str]:
    """The lines as text; a bad line becomes a blank one, which the CSV reader passes on."""
    for line in lines:
        try:
            if line is None:
                raise ValueError(TOO_LONG)
            text = line.decode()
        except ValueError as error:
            faults.found(lines, why_bad(error))
            text = ""
        yield f"{text}\n"


def _checked_header(header: list[str], lines: Lines) -> list[str]:
    for column, name in enumerate(header, start=1):
        if not name or name in header[: column - 1]:
            raise GodwitError(
                f"{lines.name}:{lines.number}: column {column} of the header is {name!r}: each needs a different name"
            )
    return header


def _event_of_row(header: list[str], row: list[str], number: int) -> Named:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} columns where the header has {len(header)}")
    cells = dict(zip(header, row, strict=True))
    id = cell(cells.pop("id", ""))
    return (id if isinstance(id, int | str) and not isinstance(id, bool) else number), event(
        {name: cell(text) for name, text in cells.items()}
    )


# ---------------------------------------------------------------- batches


def batches(events: Iterator[Named | None], lines: Lines) -> Iterator[list[Named]]:
    """Events in lists: those that have arrived, so that a slow pipe does not delay answers."""
    batch: list[Named] = []
    for found in events:
        if found is not None:
            batch.append(found)
        if batch and (lines.is_drained or len(batch) == BATCH_EVENTS_MAX):
            yield batch
            batch = []
    if batch:
        yield batch
