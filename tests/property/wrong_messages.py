"""Messages with one wrong thing in them, as a peer can send them: for every message, each field and each wrong kind.

Nothing is drawn here: the same messages come every time. A message is made of plain values of the types of its fields,
written as MessagePack, read as plain data, and changed in one place.
"""

import datetime
import math
import types
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from godwit.broker.messages import Frame, Packet, SessionState, Subscribe
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.filters.contexts import Described, bounds_of
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import parse, to_json
from godwit.filters.values import Value
from godwit.runtime import wire

WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(1.5, 1e300, math.nan, math.inf, -math.inf),
    *("", "x", "x" * 70_000, "\x00", b"", b"x"),
    *([], [1], [1, 2], ["a", "b"], ["a", "b", "c"], [[]], [None], {}, {"a": 1}, {1: 1}, {"type": "Bye"}),
    *(to_json(parse("x < 5")), to_json(parse("x < my.limit")), "x < 5", {"some": "x", "in": 5}, {"some": 5}),
    *(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), msgspec.msgpack.Ext(5, b"x")),
)
"""What is put in the place of a value: other types, and values at the border of what a type holds."""

CLIENT = "ann"
EVENT = Event({"x": 1, "name": "a", "several": (1, 2)}, CLIENT, 1, b"x", "text/plain", 1.0, 2e9, parse("y = 1"))
VALUES: dict[Any, Any] = {
    str: CLIENT,
    int: 1,
    float: 1.0,
    bool: True,
    bytes: b"x",
    Event: EVENT,
    Filter: parse("x < 5 AND name LIKE 'a%'"),
    Value: "stop 7",
    Described: bounds_of([{"x": 1}, {"x": 2, "name": "a"}]),
    Attributes: {"x": 1},
    dict[str, Value | tuple[Value, ...]]: {"x": 1, "several": (1, 2)},
}


# ---------------------------------------------------------------- right ones


def samples(kind: type[msgspec.Struct]) -> Iterator[Any]:
    """Messages of a type: one for each struct that a field may hold, and all fields with something in them."""
    hints = get_type_hints(kind)
    if kind in (Frame, Packet, HopPacket, SentAgain):
        hints["message"] = Subscribe
    choices = [list(_of_type(hints[field.name])) for field in msgspec.structs.fields(kind)]
    firsts = [choice[0] for choice in choices]
    for row in zip_longest(*choices):  # every choice of each field once; fields with fewer stay at their first
        yield kind(*(first if value is None else value for value, first in zip(row, firsts, strict=True)))
    if not choices:
        yield kind()


def _of_type(hint: Any) -> Iterator[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in VALUES:
        yield VALUES[hint]
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from samples(hint)
    elif hint == Filter | None:
        yield VALUES[Filter]
    elif origin is Literal:
        yield arguments[0]
    elif origin in (Union, types.UnionType):
        for each in arguments:
            if each is not type(None):
                yield from _of_type(each)
    elif origin is tuple and arguments[-1] is Ellipsis:
        yield tuple(_of_type(arguments[0]))
    elif origin is tuple:
        yield tuple(next(_of_type(each)) for each in arguments)
    else:
        assert origin is dict, hint
        yield {next(_of_type(arguments[0])): next(_of_type(arguments[1]))}


def fitting(message: Any) -> Any:
    """A sample with those numbers and names that make it a message that machines would accept."""
    if isinstance(message, SessionState):
        return msgspec.structs.replace(message, taken=1, sent_up_to=1, confirmed=1)
    if hasattr(message, "state") and message.state is not None:
        return msgspec.structs.replace(message, state=fitting(message.state))
    return message


# ---------------------------------------------------------------- wrong ones


@dataclass(frozen=True)
class Wrong:
    """A message as plain data with something wrong at `path`: `what`."""

    path: str
    what: str
    data: Any


def wrong_ones(message: Any) -> Iterator[Wrong]:
    """The message with each wrong thing in each place, and without each of its parts."""
    plain = msgspec.msgpack.decode(wire.NATIVE.encode(message), strict=False)
    yield from _changed(plain, type(message).__name__, lambda changed: changed)


def _changed(data: Any, path: str, whole: Any) -> Iterator[Wrong]:
    for value in WRONG:
        if not (type(value) is type(data) and value == data):
            yield Wrong(path, repr(value)[:40], whole(value))
    if isinstance(data, dict):
        for key in data:
            rest = {other: value for other, value in data.items() if other != key}
            yield Wrong(f"{path}.{key}", "left out", whole(rest))
            if key != "type":
                yield Wrong(f"{path}.{key}", "under a number", whole({**rest, 7: data[key]}))
                yield from _changed(data[key], f"{path}.{key}", lambda new, key=key: whole({**data, key: new}))
        yield Wrong(path, "and something else", whole({**data, "something else": 1}))
    elif isinstance(data, list):
        yield Wrong(path, "and one more", whole([*data, 1]))
        for at, value in enumerate(data):
            yield Wrong(f"{path}[{at}]", "left out", whole([*data[:at], *data[at + 1 :]]))
            yield from _changed(value, f"{path}[{at}]", lambda new, at=at: whole([*data[:at], new, *data[at + 1 :]]))


def written(data: Any) -> bytes:
    """Plain data as bytes on the wire."""
    return msgspec.msgpack.encode(data)
