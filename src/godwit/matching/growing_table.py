"""A larger table of buckets for a layout whose table is nearly full, made in pieces.

*Theory.* The table finds the bucket of a code by open addressing, at most half full, so a larger one has every bucket
at another place. It is made while subscriptions come: when the table is `BEGINS` full, a larger one is cleared and then
the buckets are copied, some with each placing, so that all are copied when half of the room that was left is used. The
table in use serves until then.

*Rules.*
1. A bucket that has been copied may change, or come new, when rows are placed. So the buckets of all tests of these
   rows are copied again (`follow`): then each code whose place in the old table was passed is in the new one as it is
   now.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.matching import access_paths
from godwit.matching.kernels import NO_CODE

__all__ = ["EMPTY_BUCKET", "GrowingTable"]

BEGINS = 5 / 8  # of the half that may be used
SPEED = 2  # all is copied when one in so many of the buckets have come for which there was room
CLEARED_PER_COPIED = 4  # rows that are cleared in the time in which one is copied
STEP_MIN = 256

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

EMPTY_BUCKET: Longs = np.array([NO_CODE, 0, 0, 0], dtype=np.int64)  # with its code first


class GrowingTable:
    """A larger table, into which that in use is copied a few rows at a time."""

    def __init__(self, table: Longs, uses: Ints, used: int) -> None:
        self._old, self._old_uses = table, uses
        length = 2 * len(table) - 1
        self._new: Longs = np.empty((length, 4), dtype=np.int64)
        self._new_uses: Ints = np.empty(length, dtype=np.int32)
        self._cleared = self._copied = 0
        self._room = max(1, len(table) // 2 - used)

    @staticmethod
    def is_time(table: Longs, used: int) -> bool:
        """Whether to begin, with so many buckets in use."""
        return 2 * used >= BEGINS * len(table)

    @property
    def is_ready(self) -> bool:
        """Whether all is copied."""
        return self._copied == len(self._old)

    def go_on(self, came: int) -> int:
        """Clear and copy some more, after so many new buckets came. The steps that it took."""
        work = len(self._old) + len(self._new) // CLEARED_PER_COPIED
        return self._work(max(STEP_MIN, -(-work * SPEED * came // self._room)))

    def _work(self, steps: int) -> int:
        """Clear and copy so much."""
        first = self._cleared
        if first < len(self._new):
            last = self._cleared = min(len(self._new), first + CLEARED_PER_COPIED * steps)
            self._new[first:last], self._new_uses[first:last] = EMPTY_BUCKET, 0
            return -(-(last - first) // CLEARED_PER_COPIED)
        first, last = self._copied, min(len(self._old), self._copied + steps)
        access_paths.rehash(first, last, self._old, self._old_uses, self._new, self._new_uses)
        self._copied = last
        return last - first

    def follow(self, first: int, last: int, rows: Ints, tests: Ints, bin_rows: Ints, bounds: Ints) -> None:
        """Rows first..last were placed: copy the buckets again that may have changed. (rule 1)"""
        if self._copied:
            access_paths.follow(
                first, last, rows, tests, bin_rows, bounds, self._old, self._old_uses, self._new, self._new_uses
            )

    def finish(self) -> tuple[Any, Any]:
        """Copy what is left. The larger table, and the uses of its codes."""
        while not self.is_ready:
            self._work(len(self._old))
        self._new[-1] = self._old[-1]
        return self._new, self._new_uses
