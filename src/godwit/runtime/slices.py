"""Work for administrators that may take a while, done in slices between what the broker does otherwise.

*Theory.* A question such as "which of the last 10,000 events would this filter have matched" takes a broker tens of
milliseconds, or seconds. Events must not wait for that. So the work stops after each `SLICE_S`, lets the event loop go
on, and rests for `REST_FACTOR` times as long: it takes a quarter of the broker's time at most. A thread would not help:
it would take as much from the loop, and the algebra of filters remembers answers in tables that one thread alone may
change.

*Rules.*
1. Whoever works asks `Slices.more` between small pieces of work, and stops when it says no: `WORK_S` after the
   beginning, which is before those who wait for the answer give up (`network_questions.WAIT_S`).
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

__all__ = ["REST_FACTOR", "SLICE_S", "WORK_S", "Slices"]

SLICE_S = 0.002
REST_FACTOR = 3
WORK_S = 1.5


class Slices:
    """The time that one piece of work may take."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._began = self._slice_began = clock()

    async def more(self) -> bool:
        """Rest, if the slice is over. Whether there is time left. (rule 1)"""
        now = self._clock()
        if now - self._slice_began >= SLICE_S:
            await asyncio.sleep(REST_FACTOR * (now - self._slice_began))
            self._slice_began = now = self._clock()
        return now - self._began < WORK_S
