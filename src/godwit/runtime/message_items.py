"""How many values a message of a client has, before it is decoded: many small ones take far longer than a long text.

*Theory.* 16 MiB of text are decoded in milliseconds, and as many bytes of small values in half a second, in which
nobody else is served. What a client may send has far fewer values than fit into a frame. So they are counted first: in
MessagePack by the headers of maps and arrays, whose contents are skipped by the decoder without being built; in JSON by
the signs that separate values, in texts too, since to find out which stand in a text would take as long.

*Rules.*
1. Messages of up to `SMALL_BYTES` are not looked at.
2. What is not valid is not judged here: the decoder says what is wrong with it.
"""

from typing import Any

import msgspec
from msgspec import Raw

from godwit.errors import PeerFault

__all__ = ["ITEMS_MAX", "SMALL_BYTES", "check_items", "check_separators", "separators_in"]

SMALL_BYTES = 65_536
ITEMS_MAX = 25_000  # in one message: an event has 1,000 attributes and 10,000 values at most

_ARRAY: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(list[Raw])
_MAP: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(dict[str, Raw])
_FIX_MAP, _FIX_ARRAY = range(0x80, 0x90), range(0x90, 0xA0)
_ARRAY_16, _ARRAY_32, _MAP_16, _MAP_32 = 0xDC, 0xDD, 0xDE, 0xDF


def check_items(packed: bytes, items_max: int = ITEMS_MAX) -> None:
    """`PeerFault` if a message in MessagePack has more values than that, in maps and arrays of any depth."""
    if len(packed) <= SMALL_BYTES:
        return
    count = 0
    pending: list[memoryview] = [memoryview(packed)]
    while pending:
        held = pending.pop()
        is_map, length = _header(held)
        count += length
        if count > items_max:
            raise PeerFault(f"a message of more than {items_max} values: that is the most")
        if length:
            try:
                inner = _MAP.decode(held).values() if is_map else _ARRAY.decode(held)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return  # rule 2
            pending += [memoryview(raw) for raw in inner if _header(memoryview(raw))[1]]


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


def check_separators(text: bytes, items_max: int = ITEMS_MAX) -> None:
    """`PeerFault` if a message in JSON has more of these signs than that."""
    if separators_in(text) > items_max:
        raise PeerFault(f"a message of more than {items_max} commas, colons and brackets: that is the most")


def separators_in(text: bytes) -> int:
    """How many signs that separate values a text in JSON has; 0 if it is small."""
    return 0 if len(text) <= SMALL_BYTES else text.count(b",") + text.count(b":") + text.count(b"[")
