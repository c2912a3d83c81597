"""How many values a message of a client has, before it is decoded: many small ones take far longer than a long text.

*Theory.* 16 MiB of text are decoded in milliseconds, and as many bytes of small values in half a second, in which
nobody else is served. What a client may send has far fewer values than fit into a frame. So they are counted first: in
MessagePack by the headers of maps and arrays, whose contents are skipped by the decoder without being built; in JSON by
the signs that separate values outside of texts.

*Rules.*
1. Messages of up to `SMALL_BYTES` are not looked at.
2. A greeting has more values than other messages: a client that moves brings all its subscriptions (`Attach.wanted`).
3. MessagePack that is not valid is refused here: the decoder would first build what comes before the fault.
4. Values are nested at most `DEPTH_MAX` deep: each level is skipped once more for each level above it.
5. A request of too many values is refused, as any other request, and the client hears the limit. Other messages are a
   fault.
6. In JSON that is not valid, only what comes before the fault is counted for certain: the decoder does not come
   further.
"""

from collections.abc import Generator, Iterator
from typing import Any, cast

import msgspec
from msgspec import Raw

from godwit.broker.messages import Denied, Request
from godwit.errors import PeerFault

__all__ = [
    "GREETING_ITEMS_MAX",
    "ITEMS_MAX",
    "SMALL_BYTES",
    "check_items",
    "items_checked",
    "refused_text",
    "separators",
]

SMALL_BYTES = 65_536
ITEMS_MAX = 25_000  # in one message: an event has 1,000 attributes and 10,000 values at most
GREETING_ITEMS_MAX = 400_000  # in an `Attach`: 18,000 subscriptions with 2 comparisons, or 50 with 900
PIECE_BYTES = 2**16  # of JSON, at a time
STEP_ITEMS = 1_000
DEPTH_MAX = 500  # a filter with 100 levels of AND in OR has 400


class _Head(msgspec.Struct):
    """The type of a message in JSON."""

    type: str = ""
    number: int = 0


_HEAD = msgspec.json.Decoder(_Head)
_ATTACH, _REQUEST = msgspec.msgpack.encode("Attach"), msgspec.msgpack.encode("Request")
_NUMBER = msgspec.msgpack.Decoder(int)
_ARRAY: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[Raw])
_MAP: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(dict[str, Raw])
_FIX_MAP, _FIX_ARRAY = range(0x80, 0x90), range(0x90, 0xA0)
_ARRAY_16, _ARRAY_32, _MAP_16, _MAP_32 = 0xDC, 0xDD, 0xDE, 0xDF


def check_items(packed: bytes) -> Request | None:
    """None: a message in MessagePack may be decoded. If it has too many values, in maps and arrays of any depth:
    what is to be taken for a request (rule 5); `PeerFault` for another message, and for one that is not valid.
    """
    checking = items_checked(packed)
    while True:
        try:
            next(checking)
        except StopIteration as end:
            return cast(Request | None, end.value)


def items_checked(packed: bytes) -> Generator[None, None, Request | None]:
    """The same in steps, of about `STEP_ITEMS` values each."""
    if len(packed) <= SMALL_BYTES:
        return None
    next_step = STEP_ITEMS
    count, items_max, pending = 0, ITEMS_MAX, [(memoryview(packed), 1)]
    number: Raw | None = None  # of the request
    while pending:
        held, depth = pending.pop()
        is_map, length = _header(held)
        if not length:
            continue  # the whole message: nothing is in it
        if depth > DEPTH_MAX:
            raise PeerFault(f"a message nested more than {DEPTH_MAX} deep: that is the most")
        count += length
        if count > items_max:
            return _refused(_number(number), f"a message of more than {items_max} values: that is the most")
        try:
            found = _MAP.decode(held) if is_map else _ARRAY.decode(held)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise PeerFault(f"a frame that is not a message: {error}") from None
        if depth == 1 and is_map:
            kind = bytes(found.get("type", b""))
            items_max = GREETING_ITEMS_MAX if kind == _ATTACH else ITEMS_MAX
            number = found.get("number") if kind == _REQUEST else None
        if count >= next_step:
            next_step = count + STEP_ITEMS
            yield
        inner = (memoryview(raw) for raw in (found.values() if is_map else found))
        pending += [(value, depth + 1) for value in inner if _header(value)[1]]
    return None


def _number(packed: Raw | None) -> int:
    try:
        return 0 if packed is None else _NUMBER.decode(packed)
    except msgspec.MsgspecError:
        return 0


def _refused(number: int, reason: str) -> Request:
    """A request that is refused for this reason; without a number it is none, but a fault. (rule 5)"""
    if number <= 0:
        raise PeerFault(reason)
    return Request(number, Denied(reason))


def _header(held: memoryview) -> tuple[bool, int]:
    """Whether a value is a map, and how many entries it has, or an array; 0 for all others."""
    first = held[0]
    if first in _FIX_MAP or first in _FIX_ARRAY:
        return first in _FIX_MAP, first & 0x0F
    if first in (_ARRAY_16, _MAP_16):
        return first == _MAP_16, int.from_bytes(held[1:3], "big")
    if first in (_ARRAY_32, _MAP_32):
        return first == _MAP_32, int.from_bytes(held[1:5], "big")
    return False, 0


def refused_text(text: bytes, count: int) -> Request | None:
    """None: a message in JSON that has this many separators may be decoded. Otherwise as `check_items`."""
    if count <= ITEMS_MAX:
        return None
    try:
        head = _HEAD.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        head = _Head()
    items_max = GREETING_ITEMS_MAX if head.type == "Attach" else ITEMS_MAX
    if count <= items_max:
        return None
    reason = f"a message of more than {items_max} commas, colons and brackets: that is the most"
    return _refused(head.number if head.type == "Request" else 0, reason)


def separators(text: bytes, enough: int = GREETING_ITEMS_MAX) -> Iterator[int]:
    """How many signs that separate values a text in JSON has, outside of its texts: the count so far, after each piece.

    Ends as soon as the count is above `enough`; at once with 0 if the text is small. (rules 1, 6)
    """
    count, is_text, rest = 0, False, b""
    for at in range(0, len(text) if len(text) > SMALL_BYTES else 0, PIECE_BYTES):
        piece = rest + text[at : at + PIECE_BYTES]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"")
            rest = piece[-1:] if piece.endswith(b"\\") else b""  # what it escapes is in the next piece
            piece = piece.replace(b'\\"', b"")
        else:
            rest = b""
        parts = piece.split(b'"')
        outside = b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        count += outside.count(b",") + outside.count(b":") + outside.count(b"[")
        yield count
        if count > enough:
            return
