"""Bloom filters: a set in a few bits for each element, with false positives and without false negatives.

*Theory.* Each element sets `hashes` bits out of `bits`. With n elements and a wanted rate p of false positives,
bits = -n ln p / (ln 2)² and hashes = (bits / n) ln 2 are best, if the positions of an element are drawn apart from each
other. Two numbers from which all positions follow, which many use, are not enough here: a filter of a few contexts has
some fifty bits, its positions then fall together, and instead of 1 % a measured 3 % are false positives.
The bits that an element sets in a filter of one shape are remembered as one number while they are few; a filter looks
up once where those of its shape are, so that a test costs one look in a table and one comparison.

*Rules.*
1. What was put in is found, always.
2. The same elements give the same bytes, in whatever order and in whatever process.
3. A filter of nothing has no bits, and finds nothing.

*Wire form.* One byte says how many bits each element sets. The others are the bits, the lowest of each byte first.

*Paper.* [spcf §3.1.1]: the contexts that a publisher's filter matches are encoded in a Bloom filter.

*Departures.* Sizes are whole bytes. The paper says neither how large its filters are nor how they hash. Written here
because no library fits: those that are kept up hold millions of elements in memory or files of their own, bring
compiled code, and do not say how their bytes look; what is needed is some hundred bits in a message.
"""

import math
import struct
from collections.abc import Iterable
from functools import lru_cache
from hashlib import shake_128

from godwit.errors import PeerFault

__all__ = ["RATE", "BloomFilter", "check_bloom", "shape_of"]

RATE = 0.01
"""How often a filter says yes of an element that was not put in, unless told otherwise."""
BYTES_MAX = 1 << 20
HASHES_MAX = 32
SHAPES_MAX = 1 << 8
MASKS_MAX = 1 << 12  # of one shape
MASK_BITS_MAX = 2_048  # of a filter whose masks are remembered


def shape_of(count: int, rate: float) -> tuple[int, int]:
    """How many bits a filter for `count` elements has, in whole bytes, and how many of them each element sets."""
    if not 0 < rate < 1:
        raise ValueError(f"a rate of false positives of {rate!r}: it must be above 0 and below 1")
    if not count:
        return 0, 1
    bits = -count * math.log(rate) / math.log(2) ** 2
    whole = 8 * math.ceil(bits / 8)
    return min(whole, 8 * BYTES_MAX), min(max(round(bits / count * math.log(2)), 1), HASHES_MAX)


class BloomFilter:
    """A filter as it came or goes over the wire."""

    __slots__ = ("_bits", "_count", "_hashes", "_masks")

    def __init__(self, wire: bytes) -> None:
        self._hashes = wire[0]
        self._count = 8 * (len(wire) - 1)
        self._bits = int.from_bytes(wire[1:], "little")
        self._masks = _masks(self._count, self._hashes)

    @classmethod
    def of(cls, elements: Iterable[str], rate: float = RATE) -> "BloomFilter":
        """A filter of these elements, of the size that their number and the rate of false positives ask for."""
        elements = list(elements)
        count, hashes = shape_of(len(elements), rate)
        masks, bits = _masks(count, hashes), 0
        for element in elements:
            bits |= masks[element]
        return cls(bytes([hashes]) + bits.to_bytes(count // 8, "little"))

    def __contains__(self, element: str) -> bool:
        """Whether it was put in, or seems so."""
        if not self._count:
            return False
        mask = self._masks[element]
        return self._bits & mask == mask

    def among(self, elements: Iterable[str]) -> list[str]:
        """Those of the elements that were put in, or seem so."""
        if not self._count:
            return []
        bits, masks = self._bits, self._masks
        return [element for element in elements if not ~bits & masks[element]]

    def wire(self) -> bytes:
        """The filter as bytes."""
        return bytes([self._hashes]) + self._bits.to_bytes(self._count // 8, "little")


def check_bloom(wire: bytes) -> None:
    """`PeerFault` unless this is a Bloom filter in its wire form."""
    if not 0 < len(wire) <= BYTES_MAX + 1 or not 0 < wire[0] <= HASHES_MAX:
        raise PeerFault(
            f"a Bloom filter of {len(wire)} bytes: allowed are a byte from 1 to {HASHES_MAX} and {BYTES_MAX:,} more"
        )


class _Masks(dict[str, int]):
    """By element, the bits that it sets in a filter of one shape; found when they are first asked for."""

    count: int
    hashes: int

    def __missing__(self, element: str) -> int:
        mask = 0
        if self.count:
            for word in _words(element)[: self.hashes]:
                mask |= 1 << word % self.count
        if self.count <= MASK_BITS_MAX:
            if len(self) >= MASKS_MAX:
                self.clear()
            self[element] = mask
        return mask


@lru_cache(maxsize=SHAPES_MAX)
def _masks(count: int, hashes: int) -> _Masks:
    masks = _Masks()
    masks.count, masks.hashes = count, hashes
    return masks


def _words(element: str) -> tuple[int, ...]:
    """A number for each bit that an element may set, drawn apart from each other."""
    return struct.unpack(f"<{HASHES_MAX}I", shake_128(element.encode()).digest(4 * HASHES_MAX))
