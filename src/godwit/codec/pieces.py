"""MessagePack in pieces: a large value is written bit by bit, and what is written is never copied as a whole.

*Theory.* A snapshot may have hundreds of megabytes, and one copy of 100 MB takes 30 ms or more, for which all clients
wait. So a part of it that is written already (`Written`) is a list of pieces. A value that contains such parts is
encoded with a mark in the place of each; the result is cut at the marks, and the pieces of the parts are put there.

*Rules.*
1. The pieces, joined, are the bytes that the same value has if it is written at once.
2. A mark occurs nowhere else in the encoded value. If it does by chance, or because a client tried, the value is
   encoded once more, with a mark that is chosen by looking at what was encoded.
3. `collected` stops after each element. Between two stops one element is encoded.
"""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import count
from typing import Any

import msgspec

__all__ = ["ARRAY", "TABLE", "Steps", "Written", "collected", "pieces_of"]

Steps = Generator[None, None, Any]

ARRAY, TABLE = (0x90, 0xDC), (0x80, 0xDE)  # the first byte of a short one, and of one with 16 bits of length
SHORT, MIDDLE = 0x10, 0x1_0000
PIECE_BYTES = 2**16
MARK = b"\xc1godwit written %d;"  # no value begins with 0xC1, and a mark has it once: marks cannot overlap
NUMBERS = re.compile(MARK.replace(b"%d", rb"(\d+)"))


class Written:
    """A value that is written already."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces


class _Encoding:
    """One encoding of a value with parts that are written already. The mark of each has this number."""

    def __init__(self, value: Any, number: int) -> None:
        self.mark = MARK % number
        self.parts: list[Written] = []  # in the order in which they occur
        self.encoded = msgspec.msgpack.Encoder(enc_hook=self._marked).encode(value)

    def _marked(self, value: object) -> msgspec.Raw:
        if not isinstance(value, Written):
            raise TypeError(f"cannot write a {type(value).__name__}")
        self.parts.append(value)
        return msgspec.Raw(self.mark)


def pieces_of(value: Any) -> list[bytes]:
    """A value as pieces; those of parts that are written already are not copied."""
    encoding = _Encoding(value, 0)
    between = encoding.encoded.split(encoding.mark)
    if len(between) > len(encoding.parts) + 1:  # rule 2
        found = {*NUMBERS.findall(encoding.encoded)}
        encoding = _Encoding(value, next(number for number in count() if b"%d" % number not in found))
        between = encoding.encoded.split(encoding.mark)
    pieces = [between[0]]
    for part, after in zip(encoding.parts, between[1:], strict=True):
        pieces += part.pieces
        pieces.append(after)
    return pieces


def collected(kind: tuple[int, int], length: int, elements: Iterable[Any]) -> Steps:
    """A collection of so many elements, in steps; of a table (`TABLE`) the keys and values in turn."""
    pieces, buffer = [], bytearray(_head(kind, length))
    append: Callable[[Any, bytearray, int], None] = _plain.encode_into
    for element in elements:
        start = len(buffer)
        try:
            append(element, buffer, -1)
        except TypeError:  # parts of it are written already
            del buffer[start:]
            pieces += [bytes(buffer), *pieces_of(element)]
            buffer.clear()
        if len(buffer) >= PIECE_BYTES:
            pieces.append(bytes(buffer))
            buffer.clear()
        yield
    return Written([*pieces, bytes(buffer)])


_plain = msgspec.msgpack.Encoder()


def _head(kind: tuple[int, int], length: int) -> bytes:
    """What stands before the elements."""
    short, long = kind
    if length < SHORT:
        return bytes([short + length])
    return (
        bytes([long]) + length.to_bytes(2, "big") if length < MIDDLE else bytes([long + 1]) + length.to_bytes(4, "big")
    )
