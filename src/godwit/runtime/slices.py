"""Long computations for administrators, done in slices between the broker's other work.

*Theory.* A question such as "which of the last 10,000 events would this filter have matched" takes a broker tens of
milliseconds, or seconds. Events must not wait for that. So the work stops after each `SLICE_S`, yields to the event
loop, and pauses for `REST_FACTOR` times as long: it takes at most a quarter of the broker's time. A thread would not
help: it would take as much time from the loop, and the filter algebra has caches that only one thread may change.

*Rules.*
1. The work calls `Slices.more` between small pieces, and stops when that returns False: `WORK_S` after the start, which
   is before the timeout of the question (`network_questions.WAIT_S`).
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

__all__ = ["REST_FACTOR", "SLICE_S", "WORK_S", "Slices"]

SLICE_S = 0.002
REST_FACTOR = 3
WORK_S = 1.5


class Slices:
    """The time budget of one computation."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._began = self._slice_began = clock()

    async def more(self) -> bool:
        """Pause, if the slice is over. Returns whether there is time left. (rule 1)"""
        now = self._clock()
        if now - self._slice_began >= SLICE_S:
            await asyncio.sleep(REST_FACTOR * (now - self._slice_began))
            self._slice_began = now = self._clock()
        return now - self._began < WORK_S
