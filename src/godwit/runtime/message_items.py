"""How many values a message of a client has, before it is decoded: many small ones take far longer than a long text.

*Theory.* 16 MiB of text are decoded in milliseconds, and as many bytes of small values in half a second, in which
nobody else is served. What a client may send has far fewer values than fit into a frame. So they are counted first: in
MessagePack by the headers of maps and arrays, whose contents are skipped by the decoder without being built; in JSON by
the signs that separate values, in texts too, since to find out which stand in a text would take as long.

*Rules.*
1. Messages of up to `SMALL_BYTES` are not looked at.
2. A greeting has more values than other messages: a client that moves brings all its subscriptions (`Attach.wanted`).
3. MessagePack that is not valid is refused here: the decoder would first build what comes before the fault.
4. Values are nested at most `DEPTH_MAX` deep: each level is skipped once more for each level above it.
"""

from typing import Any

import msgspec
from msgspec import Raw

from godwit.errors import PeerFault

__all__ = ["GREETING_ITEMS_MAX", "ITEMS_MAX", "SMALL_BYTES", "check_items", "check_separators", "separators_in"]

SMALL_BYTES = 65_536
ITEMS_MAX = 25_000  # in one message: an event has 1,000 attributes and 10,000 values at most
GREETING_ITEMS_MAX = 400_000  # in an `Attach`: 18,000 subscriptions with 2 comparisons, or 50 with 900
DEPTH_MAX = 500  # a filter with 100 levels of AND in OR has 400


class _Head(msgspec.Struct):
    """The type of a message in JSON."""

    type: str = ""


_HEAD = msgspec.json.Decoder(_Head)
_ATTACH = msgspec.msgpack.encode("Attach")
_ARRAY: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[Raw])
_MAP: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(dict[str, Raw])
_FIX_MAP, _FIX_ARRAY = range(0x80, 0x90), range(0x90, 0xA0)
_ARRAY_16, _ARRAY_32, _MAP_16, _MAP_32 = 0xDC, 0xDD, 0xDE, 0xDF


def check_items(packed: bytes) -> None:
    """`PeerFault` if a message in MessagePack has too many values, in maps and arrays of any depth, or is not valid."""
    if len(packed) <= SMALL_BYTES:
        return
    count, items_max, pending = 0, ITEMS_MAX, [(memoryview(packed), 1)]
    while pending:
        held, depth = pending.pop()
        is_map, length = _header(held)
        if not length:
            continue  # the whole message: nothing is in it
        if depth > DEPTH_MAX:
            raise PeerFault(f"a message nested more than {DEPTH_MAX} deep: that is the most")
        count += length
        if count > items_max:
            raise PeerFault(f"a message of more than {items_max} values: that is the most")
        try:
            found = _MAP.decode(held) if is_map else _ARRAY.decode(held)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise PeerFault(f"a frame that is not a message: {error}") from None
        if depth == 1 and is_map and bytes(found.get("type", b"")) == _ATTACH:
            items_max = GREETING_ITEMS_MAX
        inner = (memoryview(raw) for raw in (found.values() if is_map else found))
        pending += [(value, depth + 1) for value in inner if _header(value)[1]]


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


def check_separators(text: bytes) -> None:
    """`PeerFault` if a message in JSON has too many of these signs."""
    count = separators_in(text)
    if count <= ITEMS_MAX:
        return
    items_max = GREETING_ITEMS_MAX if _is_greeting(text) else ITEMS_MAX
    if count > items_max:
        raise PeerFault(f"a message of more than {items_max} commas, colons and brackets: that is the most")


def _is_greeting(text: bytes) -> bool:
    """Whether a message in JSON is an `Attach`."""
    try:
        return _HEAD.decode(text).type == "Attach"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def separators_in(text: bytes) -> int:
    """How many signs that separate values a text in JSON has; 0 if it is small."""
    return 0 if len(text) <= SMALL_BYTES else text.count(b",") + text.count(b":") + text.count(b"[")
