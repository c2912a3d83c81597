"""Larger bitmaps for a layout whose bitmaps are nearly full, made in pieces.

*Theory.* A bitmap has a row of words for each row of each column, and all rows get longer. So growing means to copy
everything into larger arrays, and most of that time is what the system takes to provide the memory. It is done while
conjunctions come: when a quarter of the room is left, larger bitmaps are made, and with each placing some of the rows
are copied, so that all are copied when half of that quarter is left. What came meanwhile is copied in further, shorter
passes, and the last of it when the room runs out.

*Rules.*
1. Only words whose conjunctions are all there are copied before the end, since they do not change any more: the dead
   keep their places.
2. Memory is first written row after row, never one word of each row: the system provides memory by pages, large ones
   too.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["GrowingMaps", "Maps", "cleared", "new_maps"]

SPARE_WORDS = 8
FIRST_PASS, LATER_PASSES = 2, 8  # passes that would fit into the room that is left when growing begins
PIECE_BYTES = 2 << 20  # that are cleared at a time, 1 or 2 ms

Array = npt.NDArray[np.uint64]
Maps = tuple[Array, Array, Array]
"""By column and row: conjunctions not ruled out, and those sure to pass; and by node those that need it."""


def new_maps(rows: int, columns: int, nodes: int, bins: int) -> Maps:
    """Bitmaps with room for so many conjunctions, not cleared yet."""
    words = (rows + 63) // 64
    shape = (columns + 1, bins + 2, words)
    return np.empty(shape, np.uint64), np.empty(shape, np.uint64), np.empty((nodes, words), np.uint64)


def cleared(arrays: tuple[Array, ...]) -> Iterator[None]:
    """Clear new arrays, a piece of the work for each step."""
    for each in arrays:
        flat, words = each.reshape(-1), PIECE_BYTES // each.itemsize
        for first in range(0, len(flat), words):
            flat[first : first + words] = 0
            yield


class GrowingMaps:
    """Larger bitmaps, into which those in use are copied a few rows at a time."""

    def __init__(self, old: Maps, used: int) -> None:
        words = old[0].shape[-1]
        shapes = [(*each.shape[:-1], words + words // 2 + SPARE_WORDS) for each in old]
        self._new: Any = tuple(np.empty(shape, np.uint64) for shape in shapes)
        self._pairs = [(_by_rows(new), _by_rows(each)) for new, each in zip(self._new, old, strict=True)]
        self._rows = sum(len(each) for _, each in self._pairs)
        self._room = max(1, 64 * words - used)
        self._from, self._to = 0, used // 64  # words of this pass
        self._next = 0  # row

    @staticmethod
    def is_time(maps: Maps, used: int) -> bool:
        """Whether to begin, with so many conjunctions in them."""
        return bool(4 * used >= 3 * 64 * maps[0].shape[-1])

    def go_on(self, used: int, placed: int) -> int:
        """Copy some more, after `placed` conjunctions were written and `used` are there in all. How many rows."""
        share = LATER_PASSES if self._from else FIRST_PASS
        first, self._next = self._next, min(self._rows, self._next - (-self._rows * share * placed // self._room))
        self._copy(first, self._next, self._to)
        copied = self._next - first
        if self._next == self._rows and self._to < used // 64:
            self._from, self._to, self._next = self._to, used // 64, 0
        return copied

    def finish(self) -> Maps:
        """Copy what is left. The larger bitmaps."""
        words = self._pairs[0][1].shape[1]
        if not self._from:
            self._copy(self._next, self._rows, self._to)
        self._from = self._to if not self._from else self._from
        self._copy(0, self._rows, words)
        new: Maps = self._new
        return new

    def _copy(self, first: int, last: int, to: int) -> None:
        """Copy the words of this pass, up to `to`, in some rows, counted through all bitmaps."""
        for new, old in self._pairs:
            new[max(0, first) : max(0, last), self._from : to] = old[max(0, first) : max(0, last), self._from : to]
            if not self._from:
                new[max(0, first) : max(0, last), to:] = 0
            first, last = first - len(old), last - len(old)


def _by_rows(maps: Array) -> Array:
    return maps.reshape(math.prod(maps.shape[:-1]), maps.shape[-1])
