"""Long work on the event loop, in slices: others are served in between.

*Rules.*
1. A task pauses after each `SLICE_S`. Work that takes less is not interrupted.
2. Of all tasks that have paused once, one runs at a time, each for a slice: many long tasks delay others by no more
   than one does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter

__all__ = ["LongWork"]

SLICE_S = 0.003


class LongWork:
    """The long tasks of one event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def task(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """A task, which calls and awaits the given function after each of its steps."""
        until, has_turn = self._clock() + SLICE_S, False

        async def step() -> None:
            nonlocal until, has_turn
            if self._clock() < until:
                return
            if has_turn:
                has_turn = False
                self._turn.release()
            await self._turn.acquire()
            has_turn = True
            await asyncio.sleep(0)  # with the turn, so that no other task has a slice at this time
            until = self._clock() + SLICE_S

        try:
            yield step
        finally:
            if has_turn:
                self._turn.release()
