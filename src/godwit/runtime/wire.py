"""How messages look on the wire: the types of the machines as MessagePack, and the same as JSON.

*Theory.* Messages are msgspec structs, which know how to be written and read. What they hold besides (events, filters,
contexts) are classes of our own. For each type that holds such a thing a *twin* is made here, once, whose fields are of
plain types; a message is lowered to its twin to be written, and raised from it after reading. Types that hold plain
things only have no twin and cost nothing.

*Rules.*
1. What is read is a message of the types that are allowed here, with fields of their types, or `PeerFault` says why
   not. Whether an honest peer sends it is asked by the machines (`broker/message_checks.py` and others).
2. What was written is read as it was: equal, and of the same types. (A float that is whole stays a float.)
3. A frame longer than `frame_bytes_max` is a fault as soon as its length is known; nothing of it is kept.
4. An event is packed once for all deliveries of a turn that hold it; what is kept for that is bounded by `PACKED_MAX`
   and `PACKED_BYTES_MAX`.
5. Both forms have a version (`VERSION`), which peers compare before anything else.

*Speed.* On the native form an event is a row, not a table of named fields. A delivery is put together from bytes: its
number, the event as it was packed for another client, and the names of the subscriptions. Of several `Accepted` in a
row only the last is written, for it says what they say.
"""

import struct
import types
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache, reduce
from operator import attrgetter, or_
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, structs

from godwit.broker import gossip_messages as known
from godwit.broker import hop_messages as hopping
from godwit.broker import messages as between
from godwit.broker.messages import Accepted, Delivery, Frame, Packet, Publish, Request
from godwit.errors import GodwitError, PeerFault
from godwit.filters.contexts import Bound, Described
from godwit.filters.events import Attributes, Event, flattened
from godwit.filters.filters import Filter, Some
from godwit.filters.language import from_json, parse, to_json
from godwit.filters.values import Value
from godwit.mobility import messages as moving

__all__ = ["FRAME_BYTES_MAX", "JSON", "NATIVE", "VERSION", "Codec", "Frames", "Intro", "first_intro"]

VERSION = 1
FRAME_BYTES_MAX = 16 * 2**20
LENGTH_BYTES = 4
PACKED_MAX = 4_096  # events whose bytes are kept
PACKED_BYTES_MAX = 8 * 2**20
BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, GodwitError, ValueError, TypeError)

Convert = Callable[[Any], Any]


class Intro(msgspec.Struct, frozen=True, tag=True):
    """First on every native connection: which version I speak, and who I am."""

    version: int = VERSION
    broker: str = ""  # my name, if I am a broker
    token: str = ""  # by which I may come in
    user: str = ""  # or by this and the password
    password: str = ""
    http: str = ""  # where I answer HTTP, if I am a broker; without a host: where you know me

    def __repr__(self) -> str:
        return f"Intro(version={self.version}, broker={self.broker!r}, user={self.user!r}, …)"  # no secrets


class Row(msgspec.Struct, array_like=True, frozen=True):
    """An event on the native form."""

    publisher: str
    sequence: int
    attributes: dict[str, Any]
    payload: bytes | None = None
    content_type: str | None = None
    published_at: float | None = None
    expires_at: float | None = None
    to: Any = None


class Table(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event on the JSON form."""

    attributes: dict[str, Any]
    publisher: str = ""
    sequence: int = 0
    payload: bytes | None = None
    content_type: str | None = None
    published_at: float | None = None
    expires_at: float | None = None
    to: Any = None


class Shape:
    """A type of a field: what stands for it in the twin, and how to get there and back. None: nothing to do."""

    __slots__ = ("lower", "raise_", "type")

    def __init__(self, type: Any, lower: Convert | None = None, raise_: Convert | None = None) -> None:
        self.type = type
        self.lower = lower
        self.raise_ = raise_


class Codec:
    """One form of the wire. `kinds` are the types that may stand at the top of a frame, or be borne by another."""

    def __init__(self, kinds: Iterable[type[msgspec.Struct]], *, as_json: bool) -> None:
        self.as_json = as_json
        self._format: Any = msgspec.json if as_json else msgspec.msgpack
        self._encoder = self._format.Encoder()
        self._twins: dict[Any, Shape] = {}
        self._lower: dict[type, Convert] = {}
        self._raise: dict[type, Convert] = {}
        self._packed: dict[int, tuple[Event, Raw]] = {}  # by the event's address
        self._packed_bytes = 0
        tops = [self._struct(kind).type for kind in kinds]
        self._decoder = self._format.Decoder(_any_of(tops))
        raised = self._raise
        raised[self._twins[Publish].type] = lambda seen: Publish(_event(seen.event))  # most of what comes
        raised[self._twins[Request].type] = lambda seen: Request(seen.number, self.raised(seen.wish))

    # ------------------------------------------------------------ both ways

    def encode(self, message: Any) -> bytes:
        """A message as bytes."""
        return cast(bytes, self._encoder.encode(self.lowered(message)))

    def decode(self, data: bytes | memoryview) -> Any:
        """A message from bytes; `PeerFault` when it is none."""
        try:
            return self.raised(self._decoder.decode(data))
        except BAD as error:
            raise PeerFault(f"a frame that is no message: {error}") from None

    def lowered(self, message: Any) -> Any:
        """The twin of a message."""
        lower = self._lower.get(type(message))
        return message if lower is None else lower(message)

    def raised(self, twin: Any) -> Any:
        """The message of a twin."""
        back = self._raise.get(type(twin))
        return twin if back is None else back(twin)

    def event(self, event: Event) -> bytes:
        """An event that goes alone."""
        return cast(bytes, self._encoder.encode(self._table(event) if self.as_json else self._row(event)))

    def plain(self, attributes: Attributes) -> dict[str, Any]:
        """Attributes as they stand on this form."""
        return self._attributes(attributes)

    @staticmethod
    def attributes(seen: dict[str, Any]) -> dict[str, Any]:
        """Attributes that were written alone."""
        return _attributes(seen)

    # ------------------------------------------------------------ types

    def _struct(self, kind: type[msgspec.Struct]) -> Shape:
        """The twin of a type of messages; the type itself when it holds plain things only."""
        if kind in self._twins:
            return self._twins[kind]
        hints = get_type_hints(kind)
        shapes = {
            field.name: Shape(Raw, self._borne, self._unpacked)
            if (kind, field.name) in BEARING
            else self._shape(hints[field.name])
            for field in structs.fields(kind)
        }
        if all(shape.lower is None for shape in shapes.values()):
            self._twins[kind] = Shape(kind)
            return self._twins[kind]
        fields = [
            (field.name, shapes[field.name].type, field.default)
            if field.default is not msgspec.NODEFAULT
            else (field.name, shapes[field.name].type, msgspec.field(default_factory=field.default_factory))
            if field.default_factory is not msgspec.NODEFAULT
            else (field.name, shapes[field.name].type)
            for field in structs.fields(kind)
        ]
        tag = kind.__struct_config__.tag
        twin = msgspec.defstruct(f"{kind.__name__}OnTheWire", fields, tag=tag, frozen=True)
        self._lower[kind] = _converter(twin, [(name, shape.lower) for name, shape in shapes.items()])
        self._raise[twin] = _converter(kind, [(name, shape.raise_) for name, shape in shapes.items()])
        self._twins[kind] = Shape(twin, self._lower[kind], self._raise[twin])
        return self._twins[kind]

    def _shape(self, hint: Any) -> Shape:
        """What stands for a type in a twin."""
        if hint in PLAIN:
            return Shape(hint)
        if hint == Filter:
            return Shape(Any, to_json, _filter)
        if hint == Filter | None:
            return Shape(Any, _unless_none(to_json), _unless_none(_filter))
        if hint is Event:
            return Shape(Table, self._table, _event) if self.as_json else Shape(Row, self._row, _event)
        if hint == Described:
            return Shape(Any, self._description, _described)
        if hint in VALUES:
            return Shape(Any, _plain_value if self.as_json else None, _value)
        if hint in CONTEXTS:
            return Shape(dict[str, Any], self._attributes, _attributes)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._struct(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is tuple and arguments[-1] is Ellipsis:
            inner = self._shape(arguments[0])
            each, back = inner.lower, inner.raise_
            if each is None and back is None:
                return Shape(hint)
            return Shape(tuple[inner.type, ...], _mapped(each), _mapped(back))  # type: ignore[name-defined]
        if origin in (tuple, dict, Literal):
            return Shape(hint)
        raise TypeError(f"nobody knows how to write {hint}")

    def _union(self, arguments: tuple[Any, ...]) -> Shape:
        """One of several structs, or none."""
        shapes = [self._shape(each) for each in arguments]
        whole = _any_of([shape.type for shape in shapes])
        if all(shape.lower is None for shape in shapes):
            return Shape(whole)
        return Shape(whole, self.lowered, self.raised)

    # ------------------------------------------------------------ what messages bear

    def _borne(self, message: Any) -> Raw:
        return Raw(self.encode(message))

    def _unpacked(self, raw: Raw) -> Any:
        return self.raised(self._decoder.decode(raw))

    def _row(self, event: Event) -> Raw:
        """An event as a row; those that were packed lately are kept. (rule 4)"""
        kept = self._packed.get(id(event))
        if kept is not None:  # and kept is the event: while it is kept, its address is nobody else's
            return kept[1]
        to = None if event.to is None else to_json(event.to)
        row = Row(
            event.publisher,
            event.sequence,
            cast(dict[str, Any], event.attributes),
            event.payload,
            event.content_type,
            event.published_at,
            event.expires_at,
            to,
        )
        data = self._encoder.encode(row)
        packed = Raw(data)
        if len(self._packed) >= PACKED_MAX or self._packed_bytes + len(data) > PACKED_BYTES_MAX:
            self.forget_packed()
        self._packed[id(event)] = (event, packed)
        self._packed_bytes += len(data)
        return packed

    def forget_packed(self) -> None:
        """Let go of what was packed."""
        self._packed.clear()
        self._packed_bytes = 0

    def delivery(self, message: Delivery) -> tuple[bytes, Raw, bytes]:
        """A delivery as bytes, with the length of the frame before it, in three parts."""
        row, names = self._row(message.event), self._encoder.encode(message.subscriptions)
        after = DELIVERY_NAMES + names + (NO_PREDECESSOR if message.predecessor == -1 else self._after(message))
        length = DELIVERY_BYTES + len(row) + len(after)
        return DELIVERY_HEAD.pack(length, DELIVERY_START, message.number, DELIVERY_EVENT), row, after

    def _after(self, message: Delivery) -> bytes:
        return PREDECESSOR + cast(bytes, self._encoder.encode(message.predecessor))

    def _table(self, event: Event) -> Table:
        return Table(
            self._attributes(event.attributes),
            event.publisher,
            event.sequence,
            event.payload,
            event.content_type,
            event.published_at,
            event.expires_at,
            None if event.to is None else to_json(event.to),
        )

    def _description(self, described: Any) -> Any:
        """A context as it is, or bounds: each a filter on its attribute, and whether that may be missing."""
        if isinstance(described, dict):
            return self._attributes(described)
        return [[to_json(Some(bound.attribute, bound.values)), bound.optional] for bound in described]

    def _attributes(self, attributes: Any) -> dict[str, Any]:
        if self.as_json:
            return {name: _plain_value(value) for name, value in attributes.items()}
        return cast(dict[str, Any], attributes)


# ---------------------------------------------------------------- parts


def _converter(kind: Any, fields: list[tuple[str, Convert | None]]) -> Convert:
    """A function that makes a `kind` of an object with these fields, each converted if need be."""
    converts = [(place, convert) for place, (_, convert) in enumerate(fields) if convert is not None]
    if len(fields) == 1:
        name, convert = fields[0][0], converts[0][1]
        return lambda seen: kind(convert(getattr(seen, name)))
    values_of = attrgetter(*(name for name, _ in fields))

    def converted(seen: Any) -> Any:
        values = list(values_of(seen))
        for place, convert in converts:
            values[place] = convert(values[place])
        return kind(*values)

    return converted


def _any_of(kinds: list[Any]) -> Any:
    """The union of types that are known only now."""
    return reduce(or_, kinds)


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _mapped(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: tuple(map(convert, values))


def _filter(tree: Any) -> Filter:
    """A filter from its JSON form, or from its text."""
    return _parsed(tree) if isinstance(tree, str) else from_json(tree)


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Filter:
    return parse(text)


def _event(seen: Row | Table) -> Event:
    return Event(
        _attributes(seen.attributes),
        seen.publisher,
        seen.sequence,
        seen.payload,
        seen.content_type,
        seen.published_at,
        seen.expires_at,
        None if seen.to is None else _filter(seen.to),
    )


def _attributes(seen: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they were: most are plain, and then the table that was read is the table that is kept."""
    for value in seen.values():
        if type(value) not in AS_THEY_ARE:
            return {name: _value(value) for name, value in seen.items()}
    return seen


def _described(seen: Any) -> Any:
    if isinstance(seen, dict):
        return _attributes(seen)
    bounds: list[Bound] = []
    for tree, optional in seen:
        literal = from_json(tree)
        if not isinstance(literal, Some) or type(optional) is not bool:
            raise ValueError("a bound is a set of values of one attribute, and whether that may be missing")
        bounds.append(Bound(literal.attribute, literal.values, optional))
    return tuple(bounds)


def _value(value: Any) -> Any:
    """One value, or several."""
    if type(value) in AS_THEY_ARE:
        return value
    if type(value) is list:
        return tuple(map(_value, value))
    if type(value) is dict:
        return next(iter(flattened({"value": value}).values()), None)
    raise ValueError(f"a {type(value).__name__} is no value of an attribute")


def _plain_value(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [_plain_value(one) for one in value]
    return {"$time": value.isoformat()} if isinstance(value, datetime) else value


AS_THEY_ARE = {bool, int, float, str, datetime}
PLAIN = (str, int, float, bool, bytes, None, type(None), str | None, int | None, float | None)
VALUES = (Value,)
CONTEXTS = (dict[str, Value], dict[str, Value | tuple[Value, ...]], Attributes)
BEARING = {(Frame, "message"), (Packet, "message")}

DELIVERY_START = b"\x85\xa4type\xa8Delivery\xa6number\xcf"  # a table of five, and a number of eight bytes
DELIVERY_EVENT = b"\xa5event"
DELIVERY_NAMES = b"\xadsubscriptions"
PREDECESSOR = b"\xabpredecessor"
NO_PREDECESSOR = PREDECESSOR + b"\xff"
DELIVERY_HEAD = struct.Struct(f">I{len(DELIVERY_START)}sQ{len(DELIVERY_EVENT)}s")
DELIVERY_BYTES = DELIVERY_HEAD.size - LENGTH_BYTES
LENGTH = struct.Struct(">I")


def _kinds() -> list[type[msgspec.Struct]]:
    """Every message that brokers and clients send, but for those of ad hoc networks, which go over the air."""
    named = [getattr(room, name) for room in (between, known, hopping, moving) for name in room.__all__]
    structs_ = [kind for kind in named if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return [Intro, *(kind for kind in structs_ if kind.__struct_config__.tag is not None)]


NATIVE = Codec(_kinds(), as_json=False)
"""Between brokers, and between a broker and a native client."""

JSON = Codec(_kinds(), as_json=True)
"""The same over WebSocket, for browsers."""


# ---------------------------------------------------------------- frames on a stream


class Frames:
    """Cuts a stream of bytes into messages of the native form: four bytes of length, then the message."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._buffer = bytearray()  # the beginning of a frame
        self._awaited = LENGTH_BYTES  # so many bytes must be there before there is anything to do

    @staticmethod
    def packed(messages: Iterable[Any]) -> bytes:
        """Messages as bytes to be written at once."""
        parts: list[bytes | Raw] = []
        accepted: Accepted | None = None
        for message in messages:
            kind = type(message)
            if accepted is not None and kind is not Accepted:
                _add(accepted, parts)
                accepted = None
            if kind is Delivery:
                parts += NATIVE.delivery(message)
            elif kind is Accepted:
                accepted = message
            else:
                _add(message, parts)
        if accepted is not None:
            _add(accepted, parts)
        return b"".join(parts)

    def feed(self, data: bytes) -> list[tuple[Any, bytes]]:
        """The messages that are whole now, each with its bytes. `PeerFault`: the stream is of no use from here on."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._awaited:
                return []
            data = bytes(self._buffer)
        messages: list[tuple[Any, bytes]] = []
        at, size, length_at, decode = 0, len(data), LENGTH.unpack_from, NATIVE.decode
        self._awaited = LENGTH_BYTES
        while size - at >= LENGTH_BYTES:
            length = length_at(data, at)[0]
            if length > self._max:
                raise PeerFault(f"a frame of {length} bytes: at most {self._max} are allowed")
            end = at + LENGTH_BYTES + length
            if size < end:
                self._awaited = end - at
                break
            packed = data[at + LENGTH_BYTES : end]
            messages.append((decode(packed), packed))
            at = end
        self._buffer = bytearray(data[at:])
        return messages


_INTRO = msgspec.msgpack.Decoder(Intro)


def first_intro(buffer: bytearray, bytes_max: int) -> tuple[Intro, int] | None:
    """The Intro that a stream begins with and how many bytes it takes; None: it is not whole yet.

    Nothing else is decoded of a peer that nobody knows yet.
    """
    if len(buffer) < LENGTH_BYTES:
        return None
    length = int.from_bytes(buffer[:LENGTH_BYTES], "big")
    if length > bytes_max:
        raise PeerFault(f"a first frame of {length} bytes: at most {bytes_max} are allowed")
    end = LENGTH_BYTES + length
    if len(buffer) < end:
        return None
    try:
        return _INTRO.decode(bytes(buffer[LENGTH_BYTES:end])), end
    except BAD:
        raise PeerFault("the first frame is no Intro") from None


def _add(message: Any, parts: list[bytes | Raw]) -> None:
    """Put a message and its length behind others."""
    data = NATIVE.encode(message)
    parts.append(LENGTH.pack(len(data)))
    parts.append(data)
