"""Formats with a row on each line: JSON lines, event logs and the text of PADRES.

*Theory.* A line of JSON has an event's attributes, nested or not, or is an event as in event logs and in the output of
`godwit sub`: an object with `attributes` and no other keys than the fields of an event (`LOG_FIELDS`).

*Rules.*
1. A blank line is no row.
2. The last line of an event log counts only if it ends with a newline: otherwise it is still being written.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from godwit.errors import BadEvent, GodwitError
from godwit.filters.contexts import SENDER
from godwit.filters.events import Attributes, flattened
from godwit.pipeline.formats.rows import BadRow, EventHeader, Options, Row, own_of, refused
from godwit.pipeline.formats.splits import BROKEN_OFF, LINE_BYTES_MAX, Split, TruncatedFile, lines
from godwit.pipeline.padres import publication

__all__ = ["LOG_FIELDS", "of_data", "of_json", "rows"]

LOG_FIELDS = frozenset(
    (
        *("publisher", "sequence", "published_at", "expires_at", "to", "content_type"),
        *("payload", "payload_base64", "attributes", "sender", "id", "number"),
    )
)

Parsed = tuple[Attributes, EventHeader | None]


def rows(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The rows of a piece of a file with a row on each line."""
    parse, kind = _PARSERS[options.format]
    number = split.lines_before
    try:
        for number, line in lines(split, whole_only=options.format == "log"):
            if line is None:
                yield refused(number, "too long", f"the line is longer than {LINE_BYTES_MAX:,} bytes", "")
                continue
            if not line or line.isspace():
                continue
            try:
                attributes, own = parse(line)
            except UnicodeDecodeError as error:
                yield refused(number, "no UTF-8", f"byte {error.start + 1} of the line", line)
            except (BadEvent, msgspec.MsgspecError, RecursionError) as error:
                yield refused(number, kind if isinstance(error, msgspec.MsgspecError) else "bad event", error, line)
            except GodwitError as error:
                yield refused(number, "bad event", error, line)
            else:
                yield Row(number, number, attributes, own, len(line), line)
    except TruncatedFile as error:
        yield refused(number + 1, BROKEN_OFF, f"the file cannot be read from here on ({error})", "")


def of_json(line: bytes) -> Parsed:
    """The event on a line of JSON."""
    return of_data(msgspec.json.decode(line))


def of_data(data: Any) -> Parsed:
    """The same, from decoded JSON."""
    if type(data) is not dict:
        raise BadEvent(f"an event must be a JSON object, not {_word(data)}")
    attributes = data.get("attributes")
    if type(attributes) is not dict or not data.keys() <= LOG_FIELDS:
        return flattened(data), None
    own = own_of(data)
    sender = data.get("sender")
    if sender is not None:
        if type(sender) is not dict:
            raise BadEvent(f"'sender' is a context, an object in JSON, and this is {_word(sender)}")
        attributes = {**attributes, **{SENDER + name: held for name, held in sender.items()}}
    if (id := data.get("id")) is not None:
        if type(id) is int and id >= 0 and "sequence" not in own:
            own["sequence"] = id
        else:
            attributes = {"id": id, **attributes}
    return flattened(attributes), own


def _of_padres(line: bytes) -> Parsed:
    return publication(line.decode()), None


def _word(data: Any) -> str:
    words = {list: "an array", str: "a text", bool: "a truth value", type(None): "null"}
    return words.get(type(data), "a number")


_PARSERS: dict[str, tuple[Callable[[bytes], Parsed], str]] = {
    "jsonl": (of_json, "no JSON"),
    "log": (of_json, "no JSON"),
    "padres": (_of_padres, "no PADRES"),
}
