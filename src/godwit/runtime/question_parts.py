"""Parts of questions and answers of administrators: parsing of parameters, and short forms of values.

*Rules.*
1. An invalid parameter is a `GodwitError` that says what is allowed.
2. Long values are cut, so that an answer of many rows stays small. What is not shown is not printed, either.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from godwit.errors import GodwitError
from godwit.filters.events import Attributes
from godwit.filters.filters import And, Filter, Or
from godwit.filters.language import to_text
from godwit.runtime.wire import JSON

__all__ = ["COUNT_MAX", "SHOWN", "TEXT_MAX", "cut_values", "event_id", "moment", "plain", "shown", "shown_rows"]

SHOWN = 1_000  # rows of a long answer, unless more are asked for
SHOWN_MAX = 100_000
TEXT_MAX = 2_000
LITERALS_SHOWN = 200  # of a filter: more have a text that is cut
DIGITS_MAX = 10  # of a number that is asked for
COUNT_MAX = 10**9
ATTRIBUTE_MAX = 200  # characters of a text in a list of events
ATTRIBUTES_SHOWN = 50  # of an event in such a list
VALUES_SHOWN = 10  # of an attribute


def moment(at: float) -> str:
    """A time as in logs, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def event_id(text: str) -> tuple[str, int]:
    """The id of an event, from PUBLISHER:SEQUENCE."""
    publisher, colon, sequence = text.rpartition(":")
    if not colon or not publisher or not sequence.isascii() or not sequence.isdigit():
        raise GodwitError(f"{text[:100]!r} is not an event: it must be PUBLISHER:SEQUENCE, such as van-7:12")
    return publisher, int(sequence[:20])


def shown_rows(asked: Mapping[str, str], name: str = "limit", default: int = SHOWN, most: int = SHOWN_MAX) -> int:
    """The requested number of rows."""
    said = asked.get(name, str(default))
    if not said.isascii() or not said.isdigit() or len(said) > DIGITS_MAX or int(said) > most:
        raise GodwitError(f"{name} is {said[:40]!r}: it must be a number up to {most}")
    return int(said)


def shown(filter: Filter) -> str:
    """A filter as text, cut when it is long."""
    text = to_text(_beginning(filter, LITERALS_SHOWN))
    is_cut = filter.size > LITERALS_SHOWN or len(text) > TEXT_MAX
    return f"{text[:TEXT_MAX]}…" if is_cut else text


def _beginning(filter: Filter, literals_max: int) -> Filter:
    """The first literals of a filter: its whole text takes milliseconds if it is large, and nobody reads it."""
    if filter.size <= literals_max or not isinstance(filter, And | Or):
        return filter
    parts: list[Filter] = []
    for part in filter.parts:
        parts.append(_beginning(part, max(1, literals_max)))
        literals_max -= part.size
        if literals_max <= 0:
            break
    return parts[0] if len(parts) == 1 else type(filter)(tuple(parts))


def plain(attributes: Attributes) -> dict[str, Any]:
    """Attributes as plain data."""
    return JSON.plain(attributes)


def cut_values(attributes: Attributes) -> dict[str, Any]:
    """Attributes for a list of events: long texts, many values and many attributes are cut."""
    told = {name: _cut(value) for name, value in islice(plain(attributes).items(), ATTRIBUTES_SHOWN)}
    if len(attributes) > ATTRIBUTES_SHOWN:
        told["…"] = f"{len(attributes) - ATTRIBUTES_SHOWN} more"
    return told


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > ATTRIBUTE_MAX:
        return f"{value[:ATTRIBUTE_MAX]}…"
    if isinstance(value, list):
        more = [f"… {len(value) - VALUES_SHOWN} more"] if len(value) > VALUES_SHOWN else []
        return [*map(_cut, value[:VALUES_SHOWN]), *more]
    return value
