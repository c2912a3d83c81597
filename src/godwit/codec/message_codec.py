"""Messages as bytes: the types of the machines as MessagePack, and the same as JSON.

*Rules.*
1. What is read is a message of a registered kind (`type_registry.py`), with fields of their types, or `PeerFault` says
   why not. Whether an honest peer sends it is asked by the machines (`broker/message_checks.py` and others).
2. What was written is read as it was: equal, and of the same types. (A float that is whole stays a float.) Attributes
   in JSON may be nested, and are flattened.
3. An event is packed once for all deliveries of a turn that hold it; what is kept for that is bounded by `PACKED_MAX`
   and `PACKED_BYTES_MAX`.

*Speed.* On the native form an event is a row, not a table of named fields.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec import Raw

from godwit.broker import gossip_messages as known
from godwit.broker import messages as between
from godwit.broker import stream_messages as streamed
from godwit.broker.messages import Publish, Request
from godwit.codec.plain_data import (
    EventRow,
    EventTable,
    attributes_of,
    bounds_data,
    described_of,
    event_of,
    filter_of,
    json_attributes_of,
    json_event_of,
    json_value,
    value_of,
)
from godwit.codec.twins import Shape, Twins, any_of
from godwit.codec.type_registry import TypeRegistry
from godwit.errors import GodwitError, PeerFault
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import to_json
from godwit.filters.memory_sizes import memory_size
from godwit.mobility import move_messages as moving

__all__ = ["BAD", "MESSAGES", "Codec", "filters_in", "register_messages"]

PACKED_MAX = 4_096  # events whose bytes are kept
PACKED_BYTES_MAX = 8 * 2**20
BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, GodwitError, ValueError, TypeError)


def _tagged(rooms: Iterable[Any]) -> list[type[msgspec.Struct]]:
    named = [getattr(room, name) for room in rooms for name in room.__all__]
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return [kind for kind in kinds if kind.__struct_config__.tag is not None]


MESSAGES = TypeRegistry("message", _tagged((between, known, streamed, moving)))
"""Every message that brokers and clients send, but for those of ad hoc networks, which go over the air."""


def register_messages(*kinds: type[msgspec.Struct]) -> None:
    """Let messages of these kinds travel and be kept in snapshots. Each is a frozen struct with `tag=True`."""
    MESSAGES.register(*kinds)


def filters_in(message: Any) -> Iterator[Filter]:
    """The filters of a message and of what it bears, without those of events."""
    if isinstance(message, tuple):
        for each in message:
            yield from filters_in(each)
    elif isinstance(message, msgspec.Struct):
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if name == "filter":
                yield value
            else:
                yield from filters_in(value)


class Codec:
    """One form of the wire. `kinds` are the types that may stand at the top of a frame, or be borne by another;
    `own` are further ones of this codec alone.
    """

    def __init__(self, kinds: TypeRegistry, own: Iterable[type[msgspec.Struct]] = (), *, as_json: bool) -> None:
        self.as_json = as_json
        self._format: Any = msgspec.json if as_json else msgspec.msgpack
        self._encoder = self._format.Encoder()
        self.value: Callable[[Any], bytes] = self._encoder.encode
        """A plain value as bytes, to be put together with others."""
        self._packed: dict[int, tuple[Event, Raw]] = {}  # by the event's address
        self._packed_bytes = 0
        self._made: dict[int, tuple[Any, Any]] = {}  # while a message is raised that was decoded in steps
        self._written: dict[int, Raw] = {}  # by its address: filters of a message that is encoded in steps
        self._tops: list[Any] = []
        self._twins = Twins(_OnTheWire(self))
        self._lower, self._raise = self._twins.lowers, self._twins.raises
        self._add(own)
        kinds.on_registered(self._add)
        raised, event = self._raise, json_event_of if as_json else event_of
        raised[self._twins.of(Publish)] = lambda seen: Publish(event(seen.event))  # most of what comes
        raised[self._twins.of(Request)] = lambda seen: Request(seen.number, self.raised(seen.wish))

    def _add(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        self._tops += [self._twins.of(kind) for kind in kinds]
        if self._tops:
            self._decoder = self._format.Decoder(any_of(self._tops))

    # ------------------------------------------------------------ in steps

    def decoding(self, data: bytes | memoryview) -> Iterator[Any]:
        """Decode a message, one filter in each step: None after each of them, and then the message. As `decode`."""
        made: dict[int, tuple[Any, Any]] = {}  # by its address: what was read, and what it means
        try:
            twin = self._decoder.decode(data)
            yield from self._prepare(twin, made)
            self._made = made
            message = self.raised(twin)
        except BAD as error:
            raise PeerFault(f"a frame that is not a message: {error}") from None
        finally:
            self._made = {}
        yield message

    def _prepare(self, seen: Any, made: dict[int, tuple[Any, Any]]) -> Iterator[None]:
        """Make the filters of what was read, wherever they are in it."""
        if isinstance(seen, Raw):  # a message that another bears
            twin, inner = self._decoder.decode(seen), dict[int, tuple[Any, Any]]()
            yield from self._prepare(twin, inner)
            before, self._made = self._made, inner
            try:
                made[id(seen)] = seen, self.raised(twin)
            finally:
                self._made = before
        elif isinstance(seen, tuple):
            for each in seen:
                yield from self._prepare(each, made)
        elif isinstance(seen, msgspec.Struct):
            for name in seen.__struct_fields__:
                value = getattr(seen, name)
                if name != "filter":
                    yield from self._prepare(value, made)
                elif isinstance(value, Raw):
                    filter = self.filter(value)
                    memory_size(filter)  # now, in a step: a broker counts all of them at once
                    made[id(value)] = value, filter
                    yield

    def encoding(self, message: Any) -> Iterator[bytes | None]:
        """Encode a message, one filter in each step: None after each of them, and then the bytes. As `encode`."""
        written: dict[int, Raw] = {}
        for filter in filters_in(message):
            if id(filter) not in written:
                written[id(filter)] = Raw(self._encoder.encode(to_json(filter)))
                yield None
        self._written = written
        try:
            data = self.encode(message)
        finally:
            self._written = {}
        yield data

    def written(self, filter: Filter) -> Any:
        """A filter in its JSON form."""
        return (self._written and self._written.get(id(filter))) or to_json(filter)

    def filter(self, raw: Raw) -> Filter:
        """The filter of its JSON form, or text."""
        if id(raw) in self._made:
            return cast(Filter, self._made[id(raw)][1])
        return filter_of(self._format.decode(raw))

    # ------------------------------------------------------------ both ways

    def encode(self, message: Any) -> bytes:
        """A message as bytes."""
        return cast(bytes, self._encoder.encode(self.lowered(message)))

    def decode(self, data: bytes | memoryview) -> Any:
        """A message from bytes; `PeerFault` when it is none."""
        try:
            twin = self._decoder.decode(data)
            back = self._raise.get(type(twin))
            return twin if back is None else back(twin)
        except BAD as error:
            raise PeerFault(f"a frame that is not a message: {error}") from None

    def lowered(self, message: Any) -> Any:
        """The twin of a message."""
        lower = self._lower.get(type(message))
        return message if lower is None else lower(message)

    def raised(self, twin: Any) -> Any:
        """The message of a twin."""
        back = self._raise.get(type(twin))
        return twin if back is None else back(twin)

    # ------------------------------------------------------------ events and contexts

    def event(self, event: Event) -> bytes:
        """An event that goes alone."""
        return cast(bytes, self._encoder.encode(self.table(event) if self.as_json else self.row(event)))

    def plain(self, attributes: Attributes) -> dict[str, Any]:
        """Attributes as they stand on this form."""
        if self.as_json:
            return {name: json_value(value) for name, value in attributes.items()}
        return cast(dict[str, Any], attributes)

    @staticmethod
    def attributes(seen: dict[str, Any]) -> dict[str, Any]:
        """Attributes that were written alone."""
        return attributes_of(seen)

    def row(self, event: Event) -> Raw:
        """An event as a row; those that were packed lately are kept. (rule 3)"""
        kept = self._packed.get(id(event))
        if kept is not None:  # and kept is the event: while it is kept, its address is nobody else's
            return kept[1]
        to = None if event.to is None else to_json(event.to)
        row = EventRow(
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
        """Drop the cached bytes."""
        self._packed.clear()
        self._packed_bytes = 0

    def table(self, event: Event) -> EventTable:
        """An event with named fields."""
        return EventTable(
            self.plain(event.attributes),
            event.publisher,
            event.sequence,
            event.payload,
            event.content_type,
            event.published_at,
            event.expires_at,
            None if event.to is None else to_json(event.to),
        )

    # ------------------------------------------------------------ what messages bear

    def borne(self, message: Any) -> Raw:
        """A message within another."""
        return Raw(self._encoder.encode(self.lowered(message)))

    def unpacked(self, raw: Raw) -> Any:
        """The message that another bore."""
        if id(raw) in self._made:
            return self._made[id(raw)][1]
        return self.raised(self._decoder.decode(raw))


class _OnTheWire:
    """How the wire writes filters, events and contexts: each where it stands."""

    def __init__(self, codec: Codec) -> None:
        as_json = codec.as_json
        self.filter = Shape(Raw, codec.written, codec.filter)
        self.event = Shape(EventTable, codec.table, json_event_of) if as_json else Shape(EventRow, codec.row, event_of)
        self.described = Shape(
            Any, lambda said: codec.plain(said) if isinstance(said, dict) else bounds_data(said), described_of
        )
        self.value = Shape(Any, json_value if as_json else None, value_of)
        self.attributes = Shape(dict[str, Any], codec.plain, json_attributes_of if as_json else attributes_of)
        self.any_struct = Shape(Raw, codec.borne, codec.unpacked)
