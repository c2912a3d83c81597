"""Long work on the event loop, in slices: others are served in between.

*Rules.*
1. A task pauses after each `SLICE_S`. Work that takes less is not interrupted.
2. Of all tasks that have paused once, one runs at a time, each for a slice: many long tasks delay others by no more
   than one does.
3. Parties (users, hosts, neighbours) take turns, and so do the tasks of a party: a task waits for one slice of each
   other party, however many tasks that has.
4. While a client with little traffic waits for its answer, a task rests after its slice (`urgency.py`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from godwit.runtime.urgency import Urgency

__all__ = ["LongWork"]

SLICE_S = 0.003


class LongWork:
    """The long tasks of one event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = perf_counter, urgency: Urgency | None = None) -> None:
        self._clock = clock
        self._urgency = Urgency() if urgency is None else urgency
        self._is_taken = False  # a task has the turn
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # of tasks that wait for it, by party

    @asynccontextmanager
    async def task(self, party: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """A task of a party, which calls and awaits the given function after each of its steps."""
        until, has_turn = self._clock() + SLICE_S, False

        async def step() -> None:
            nonlocal until, has_turn
            if self._clock() < until:
                return
            if has_turn:
                has_turn = False
                self._pass_on(party)
            await self._turn(party)
            has_turn = True
            rest_s = self._urgency.rest_s(SLICE_S)
            await asyncio.sleep(rest_s)  # with the turn, so that no other task has a slice at this time
            until = self._clock() + SLICE_S

        try:
            yield step
        finally:
            if has_turn:
                self._pass_on(party)

    async def all_of(self, party: str, steps: Iterable[Any]) -> Any:
        """Take these steps as a task of a party; returns what the last of them gives."""
        last: Any = None
        async with self.task(party) as step:
            for each in steps:
                last = each
                await step()
        return last

    async def _turn(self, party: str) -> None:
        """Wait for the turn."""
        if not self._is_taken:
            self._is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(party, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it has the turn already
                self._pass_on(party)
            raise

    def _pass_on(self, party: str) -> None:
        """Give the turn of a party to the next task. (rule 3)"""
        self._is_taken = False
        if (line := self._lines.pop(party, None)) is not None:
            self._lines[party] = line  # behind all others
        while self._lines and not self._is_taken:
            following, line = next(iter(self._lines.items()))
            turn = line.popleft()
            if not line:
                del self._lines[following]
            if not turn.done():  # else it was cancelled
                self._is_taken = True
                turn.set_result(None)
