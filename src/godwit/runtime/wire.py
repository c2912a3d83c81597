"""The wire: messages in frames on a stream, as MessagePack, and one by one as JSON.

*Theory.* `godwit.codec` encodes messages. Here are the two forms that connections use, the frames of the native one,
and the first message of every connection.

*Rules.*
1. A decoded message is valid and allowed here; otherwise `PeerFault` (`codec/message_codec.py`).
2. A frame longer than `frame_bytes_max` is an error as soon as its length is known; nothing of it is kept.
3. Both forms have a version (`VERSION`), which peers compare before anything else.

*Speed.* A delivery is composed of bytes: its number, the event as it was encoded for another client, and the names of
the subscriptions. Of several `Accepted` in a row only the last is written, because it includes the others.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from sys import maxsize
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from godwit.broker.messages import Accepted, Delivery, Frame, Publish, Request
from godwit.codec.message_codec import BAD, MESSAGES, Codec
from godwit.errors import PeerFault
from godwit.runtime.message_items import SMALL_BYTES, check_items, items_checked

__all__ = [
    "FRAME_BYTES_MAX",
    "JSON",
    "NATIVE",
    "VERSION",
    "Answer",
    "Codec",
    "Frames",
    "Intro",
    "Question",
    "SlowMessage",
    "first_intro",
]

VERSION = 1
FRAME_BYTES_MAX = 16 * 2**20
LENGTH_BYTES = 4
FILTER, REQUEST = b"\xa6filter", b"\xa7Request"  # the name of a field, and of a type, as they are written
HEAD_BYTES = 24  # in which the name of the type is
LARGE_BYTES, LARGE_COUNT = 4_096, 32  # this many bytes of a filter count as 32 messages: 26 KB take 6 ms to decode


class Intro(msgspec.Struct, frozen=True, tag=True):
    """First on every native connection: which version I speak, and who I am."""

    version: int = VERSION
    broker: str = ""  # my name, if I am a broker
    token: str = ""  # by which I may come in
    user: str = ""  # or by this and the password
    password: str = ""
    http: str = ""  # where I answer HTTP, if I am a broker; without a host: where you know me
    unchecked: bool = False  # to a client: nobody has checked its credentials, since this broker has no users
    choice: int = 1  # how I choose members of shared subscriptions, if I am a broker (`member_tree.py`)

    def __repr__(self) -> str:
        return f"Intro(version={self.version}, broker={self.broker!r}, user={self.user!r}, …)"  # no secrets


class Question(msgspec.Struct, frozen=True, tag=True):
    """Between brokers, beside the machine: what an administrator asks of every broker (`network_questions.py`)."""

    origin: str  # the broker that was asked by the administrator
    number: int  # of its questions
    subject: str
    parameters: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True, tag=True):
    """Between brokers, beside the machine: what one broker answers."""

    origin: str
    number: int
    broker: str
    neighbours: tuple[str, ...]
    body: bytes  # JSON


DELIVERY_START = b"\x85\xa4type\xa8Delivery\xa6number\xcf"  # a table of five, and a number of eight bytes
DELIVERY_EVENT = b"\xa5event"
DELIVERY_NAMES = b"\xadsubscriptions"
PREDECESSOR = b"\xabpredecessor"
NO_PREDECESSOR = PREDECESSOR + b"\xff"
DELIVERY_HEAD = struct.Struct(f">I{len(DELIVERY_START)}sQ{len(DELIVERY_EVENT)}s")
DELIVERY_BYTES = DELIVERY_HEAD.size - LENGTH_BYTES
LENGTH = struct.Struct(">I")


NATIVE = Codec(MESSAGES, [Intro, Question, Answer], as_json=False)
"""Between brokers, and between a broker and a native client."""

JSON = Codec(MESSAGES, [Intro], as_json=True)
"""The same over WebSocket, for browsers."""


def _kinds() -> list[type[msgspec.Struct]]:
    """All messages that a frame may contain."""
    return [Intro, Question, Answer, *MESSAGES]


_row, _value = NATIVE.row, NATIVE.value


def _after(message: Delivery) -> bytes:
    """The last field of a delivery that has a predecessor."""
    return PREDECESSOR + _value(message.predecessor)


class SlowMessage(NamedTuple):
    """A message with several filters that is long: the last of its steps gives it, all others None."""

    steps: Iterator[Any]


# ---------------------------------------------------------------- frames on a stream


class Frames:
    """Splits a stream of bytes into messages: four bytes of length, then the message, by default in the native form."""

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        decode: Callable[[bytes], Any] = NATIVE.decode,
        *,
        in_steps: bool = False,  # a message that takes long comes alone, and not decoded (`SlowMessage`)
    ) -> None:
        self._max, self._decode = frame_bytes_max, decode
        self._in_steps = in_steps
        self._quick_max = min(frame_bytes_max, SMALL_BYTES)
        self._buffer = bytearray()  # the beginning of a frame
        self._awaited = LENGTH_BYTES  # the number of bytes needed for the next step
        self.has_more = False  # more than the last `feed` was to read: feed b"" to continue
        self.pending = 0  # the number of bytes of an incomplete frame

    @staticmethod
    def packed(messages: Sequence[Any]) -> bytes:
        """Messages as bytes to be written at once."""
        return Frames.packed_part(messages, 0, maxsize)[0]

    @staticmethod
    def packed_part(messages: Sequence[Any], first: int, bytes_max: int) -> tuple[bytes, int]:
        """Messages from the `first` on as bytes, up to about `bytes_max`; and the index of the next one."""
        parts: list[bytes | Raw] = []
        accepted: Accepted | None = None
        size, at = 0, first
        for at in range(first, len(messages)):
            if size >= bytes_max:
                break
            message = messages[at]
            kind = type(message)
            if accepted is not None and kind is not Accepted:
                size += _add(accepted, parts)
                accepted = None
            if kind is Delivery:
                row, after = _row(message.event), DELIVERY_NAMES + _value(message.subscriptions)
                after += NO_PREDECESSOR if message.predecessor == -1 else _after(message)
                length = DELIVERY_BYTES + len(row) + len(after)
                parts += (DELIVERY_HEAD.pack(length, DELIVERY_START, message.number, DELIVERY_EVENT), row, after)
                size += length
            elif kind is Accepted:
                accepted = message
            else:
                size += _add(message, parts)
        else:
            at = len(messages)
        if accepted is not None:
            _add(accepted, parts)
        return b"".join(parts), at

    @staticmethod
    def packed_data(data: bytes) -> bytes:
        """An encoded message as bytes to be written."""
        return LENGTH.pack(len(data)) + data

    @staticmethod
    def packed_one(message: Any) -> bytes:
        """One message as bytes: the same as `packed`, in less time."""
        if type(message) is not Delivery:
            return Frames.packed_data(NATIVE.encode(message))
        row, after = _row(message.event), DELIVERY_NAMES + _value(message.subscriptions)
        after += NO_PREDECESSOR if message.predecessor == -1 else _after(message)
        length = DELIVERY_BYTES + len(row) + len(after)
        return b"".join((DELIVERY_HEAD.pack(length, DELIVERY_START, message.number, DELIVERY_EVENT), row, after))

    def keep(self, data: bytes) -> None:
        """More of the stream, to be split by the next `feed`."""
        self._buffer += data
        self._awaited, self.has_more = LENGTH_BYTES, True

    def feed(self, data: bytes, count_max: int = maxsize, *, counts_items: bool = False) -> list[tuple[Any, bytes]]:
        """The first complete messages, each with its bytes. A long filter counts as many.

        With `counts_items`, a request of too many values comes as one that is denied, with the bytes of that.
        `PeerFault` if the stream is invalid from here on.
        """
        if (
            not self._buffer
            and LENGTH_BYTES < len(data) <= self._quick_max
            and LENGTH.unpack_from(data)[0] == len(data) - LENGTH_BYTES
        ):
            packed = data[LENGTH_BYTES:]  # one message, as most reads bring at low rates
            return [(self._decode(packed), packed)]
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._awaited:
                self.pending = len(self._buffer)
                return []
            data = bytes(self._buffer)
        messages: list[tuple[Any, bytes]] = []
        at, size, length_at, decode, count = 0, len(data), LENGTH.unpack_from, self._decode, 0
        self._awaited, self.has_more = LENGTH_BYTES, False
        while size - at >= LENGTH_BYTES:
            length = length_at(data, at)[0]
            if length > self._max:
                raise PeerFault(f"a frame of {length} bytes: at most {self._max} are allowed")
            end = at + LENGTH_BYTES + length
            if size < end:
                self._awaited = end - at
                break
            if count >= count_max:
                self.has_more = True
                break
            packed = data[at + LENGTH_BYTES : end]
            is_slow = length > SMALL_BYTES and self._in_steps and _is_slow(packed)
            if is_slow and messages:  # it comes alone
                self.has_more = True
                break
            refused = check_items(packed) if counts_items and length > SMALL_BYTES and not is_slow else None
            if refused is not None:
                packed = NATIVE.encode(refused)
            message = refused or (
                SlowMessage(_slowly(packed, counts_items=counts_items)) if is_slow else decode(packed)
            )
            messages.append((message, packed))
            if is_slow:
                self.has_more, at = size > end, end
                break
            count += 1
            if length >= LARGE_BYTES and _is_filter(message, packed):
                count += length // LARGE_BYTES * LARGE_COUNT
            at = end
        if at < size or self._buffer:
            self._buffer = bytearray(data[at:])
        self.pending = 0 if self.has_more else size - at
        return messages


def _is_slow(packed: bytes) -> bool:
    """Whether a long message is decoded in steps: one that has several filters, and is no request."""
    return REQUEST not in packed[:HEAD_BYTES] and packed.count(FILTER) > 1


def _slowly(packed: bytes, *, counts_items: bool) -> Iterator[Any]:
    """The steps of its decoding."""
    if counts_items:
        yield from items_checked(packed)
    yield from NATIVE.decoding(packed)


def _is_filter(message: Any, packed: bytes) -> bool:
    """Whether a long message is so because of a filter."""
    if type(message) is Request:
        return type(message.wish) is not Publish
    return type(message) is Frame and FILTER in packed


_INTRO = msgspec.msgpack.Decoder(Intro)


FOREIGN = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"\x16\x03": "a TLS handshake",
    b"\x10": "an MQTT CONNECT",
}
"""How connections begin that were meant for another port."""


def _foreign(buffer: bytearray) -> str:
    kind = next((kind for start, kind in FOREIGN.items() if buffer.startswith(start)), "")
    return f" (is it {kind}? This port speaks Godwit's native protocol)" if kind else ""


def first_intro(buffer: bytearray, bytes_max: int) -> tuple[Intro, int] | None:
    """The Intro at the beginning of a stream and its length in bytes; None if it is incomplete.

    Nothing else is decoded before authentication.
    """
    if len(buffer) < LENGTH_BYTES:
        return None
    length = int.from_bytes(buffer[:LENGTH_BYTES], "big")
    if length > bytes_max:
        raise PeerFault(f"a first frame of {length} bytes: at most {bytes_max} are allowed{_foreign(buffer)}")
    end = LENGTH_BYTES + length
    if len(buffer) < end:
        return None
    try:
        return _INTRO.decode(bytes(buffer[LENGTH_BYTES:end])), end
    except BAD:
        raise PeerFault("the first frame is not an Intro") from None


def _add(message: Any, parts: list[bytes | Raw]) -> int:
    """Append a message with its length to others; returns its size."""
    data = NATIVE.encode(message)
    parts.append(LENGTH.pack(len(data)))
    parts.append(data)
    return len(data)
