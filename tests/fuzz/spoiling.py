"""How bytes and texts that were right once are spoilt."""

from collections.abc import Callable, Sequence
from random import Random

__all__ = ["Case", "spoilt", "spoilt_text"]

Case = Callable[[Random], None]
"""Does one case: raises what is not allowed to happen."""


def spoilt(data: bytes, draw: Random) -> bytes:
    """Bytes with a few of them changed, left out, doubled or put elsewhere."""
    spoiled = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(spoiled) + 1)
        end = min(len(spoiled), at + draw.choice((1, 1, 2, 4, 16)))
        match draw.randrange(6):
            case 0 if at < len(spoiled):
                spoiled[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(spoiled):
                spoiled[at] = draw.choice((0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xD9, 0xDC, 0xDF, 0xFF))
            case 2:
                del spoiled[at:end]
            case 3:
                spoiled[at:at] = spoiled[at:end]
            case 4:
                spoiled[at:at] = draw.randbytes(draw.choice((1, 2, 8)))
            case _:
                del spoiled[at:]
    return bytes(spoiled)


def spoilt_text(text: str, words: Sequence[str], draw: Random) -> str:
    """A text with a few bytes spoilt, or with some of its words replaced by others."""
    if draw.random() < 0.5:
        return spoilt(text.encode(), draw).decode(errors="replace")
    found = text.split(" ")
    for _ in range(draw.choice((1, 2, 5))):
        found[draw.randrange(len(found))] = draw.choice(words)
    return " ".join(found)
