"""A clock that only a test advances, with its timers."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["VirtualClock", "VirtualTimer"]

BEGINS_AT = 1_700_000_000.0  # seconds since 1970: every network begins at this moment


class VirtualTimer:
    """A call that is due at a time of the clock."""

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
        """Cancel the call."""
        self.is_cancelled = True


class VirtualClock:
    """A `Clock` of the runtime. `under_way`: the number of calls due in the next turn of the event loop."""

    def __init__(self) -> None:
        self.under_way = 0
        self.changed = asyncio.Event()  # set when a call was made
        self._now = BEGINS_AT
        self._timers: list[VirtualTimer] = []  # a heap
        self._number = 0

    def time(self) -> float:
        """Seconds since 1970."""
        return self._now

    def work(self) -> float:
        """The same: work takes no time here, so the load of the machine does not change what a node does in one
        turn."""
        return self._now

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Call it in the next turn of the event loop."""
        self.under_way += 1
        asyncio.get_running_loop().call_soon(self._call, do, args)

    def _call(self, do: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            do(*args)
        finally:
            self.under_way -= 1
            self.changed.set()

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> VirtualTimer:
        """Call it when the test has advanced the clock by this number of seconds."""
        self._number += 1
        timer = VirtualTimer(self._now + delay_s, self._number, do, args)
        heappush(self._timers, timer)
        return timer

    def move(self, until: float) -> bool:
        """Advance to the next timer that is due by then, and call it; if there is none, advance to that time and
        return False."""
        while self._timers and self._timers[0].at <= until:
            timer = heappop(self._timers)
            if not timer.is_cancelled:
                self._now = max(self._now, timer.at)
                timer.do(*timer.args)
                return True
        self._now = max(self._now, until)
        return False
