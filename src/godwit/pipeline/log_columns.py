"""The events of an event log as columns: the attributes with a column, and Arrow batches of a piece of the log.

*Rules.*
1. Nothing is dropped silently: a value that does not fit the form of its column is an error, or goes to the column for
   the rest.
2. Brokers accept any number as the time of an event, and one publisher must not end a stream for all: a time outside
   the years 1 to 9999 becomes the first or the last second of them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from godwit.errors import GodwitError, PipelineError
from godwit.filters.events import Attributes
from godwit.filters.json_lines import plain
from godwit.pipeline.columns import EXACT_MAX, INT64_MAX, OWN, Form, arrow_type, column_of, to_arrow
from godwit.pipeline.formats.by_line import of_data
from godwit.pipeline.formats.rows import MICROSECONDS, YEAR_MAX_US, YEAR_MIN_US, EventHeader, in_microseconds
from godwit.pipeline.log_pieces import LogPiece, lines_of_piece

__all__ = ["Wanted", "batches", "fits"]

TIMES = ("published_at", "expires_at")
EPOCH = date(1970, 1, 1)
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Wanted:
    """The columns that events are read into: one for each of `forms`, and one with the rest as JSON if it is named."""

    forms: tuple[tuple[str, Form], ...] = ()
    rest: str = "attributes"

    @staticmethod
    def parse(attributes: str, rest: str = "") -> "Wanted":
        """Parse `price float, tags several text`, or the same as a JSON object; without any, all attributes are the
        rest."""
        if not attributes.strip():
            return Wanted(rest=_checked_rest(rest or "attributes", {}))
        forms: dict[str, Form] = {}
        for name, form in _said(attributes):
            if name in forms:
                raise PipelineError(f"attribute {name!r} is given twice")
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
            raise PipelineError(f"attributes: not valid JSON: {error}") from None
        return
    for part in attributes.split(","):
        name, _, form = part.strip().partition(" ")
        if not name or not form:
            raise PipelineError(f"attributes: {part.strip()!r} is not a name and form, such as `price float`")
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


def batches(piece: LogPiece, wanted: Wanted, rows_max: int) -> Iterator[Any]:
    """The events of a piece as Arrow batches of at most so many rows."""
    if piece.start == piece.end:
        return
    lines = lines_of_piece(piece)
    while chunk := list(islice(lines, rows_max)):
        yield _batch([_parsed(piece, at, line) for at, line in chunk], wanted)


def _parsed(piece: LogPiece, at: int, line: bytes) -> tuple[Attributes, EventHeader]:
    try:
        data = msgspec.json.decode(line)
        if type(data) is dict:
            data.update({name: _in_years(data[name]) for name in TIMES if name in data})
        attributes, own = of_data(data)
    except (GodwitError, ValueError, RecursionError) as error:
        raise PipelineError(f"{piece.path}, byte {at}: {error}") from None
    if own is None or "publisher" not in own or "sequence" not in own:
        raise PipelineError(f"{piece.path}, byte {at}: this is not a line of an event log, with publisher and sequence")
    return attributes, own


def _in_years(at: Any) -> Any:
    """The nearest time that a column of times can hold. (rule 2)"""
    if type(at) not in (int, float):
        return at
    return min(max(at, YEAR_MIN_US // MICROSECONDS), YEAR_MAX_US // MICROSECONDS - 1)


def _batch(events: list[tuple[Attributes, EventHeader]], wanted: Wanted) -> Any:
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


def _taken(name: str, form: Form, rest: dict[str, Any], own: EventHeader, wanted: Wanted) -> Any:
    """Take an attribute's value out of the rest; a value that does not fit stays there. (rule 1)"""
    held = rest.get(name)
    if held is None:
        return None
    if not fits(form, held):
        if wanted.rest:
            return None
        raise PipelineError(
            f"event {own['publisher']}:{own['sequence']} has {name} = {held!r}, which is not {form}: use `{name} any`, "
            "`several` if there may be more than one, or rest=COLUMN for other values"
        )
    del rest[name]
    return held


def fits(form: Form, held: Any) -> bool:
    """Whether a column of this form can store it exactly."""
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
