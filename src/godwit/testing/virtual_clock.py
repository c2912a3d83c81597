"""A clock that only a test moves, with the timers that run on it."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["VirtualClock", "VirtualTimer"]

BEGINS_AT = 1_700_000_000.0  # seconds since 1970: every network begins at this moment


class VirtualTimer:
    """Something that is done when the clock comes to that time."""

    __slots__ = ("args", "at", "do", "is_cancelled", "number")

    def __init__(self, at: float, number: int, do: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.at = at
        self.number = number
        self.do = do
        self.args = args
        self.is_cancelled = False

    def __lt__(self, other: "VirtualTimer") -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self) -> None:
        """Do not do it."""
        self.is_cancelled = True


class VirtualClock:
    """A `Clock` of the runtime. `under_way`: how many calls are due in the next turn of the loop."""

    def __init__(self) -> None:
        self.under_way = 0
        self.changed = asyncio.Event()  # set when a call was made
        self._now = BEGINS_AT
        self._timers: list[VirtualTimer] = []  # a heap
        self._number = 0

    def time(self) -> float:
        """Seconds since 1970."""
        return self._now

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Have it done in the next turn of the loop."""
        self.under_way += 1
        asyncio.get_running_loop().call_soon(self._call, do, args)

    def _call(self, do: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            do(*args)
        finally:
            self.under_way -= 1
            self.changed.set()

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> VirtualTimer:
        """Have it done when the test has let so many seconds pass."""
        self._number += 1
        timer = VirtualTimer(self._now + delay_s, self._number, do, args)
        heappush(self._timers, timer)
        return timer

    def move(self, until: float) -> bool:
        """Go on to the next timer that is due by then, and call it; without one to that time, and False."""
        while self._timers and self._timers[0].at <= until:
            timer = heappop(self._timers)
            if not timer.is_cancelled:
                self._now = max(self._now, timer.at)
                timer.do(*timer.args)
                return True
        self._now = max(self._now, until)
        return False
