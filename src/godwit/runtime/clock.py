"""The time that a node and a client go by: that of the machine they run on, or one that a test moves."""

import asyncio
from collections.abc import Callable
from time import time
from typing import Any, Protocol

__all__ = ["SYSTEM", "Clock", "SystemClock", "Timer"]


class Timer(Protocol):
    """Something that is going to be done."""

    def cancel(self) -> None:
        """Do not do it."""


class Clock(Protocol):
    """Tells the time, and has things done later."""

    def time(self) -> float:
        """Seconds since 1970."""

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Have it done in the next turn of the loop."""

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> Timer:
        """Have it done after so many seconds."""


class SystemClock:
    """The clock of this machine, and the timers of the running loop."""

    def time(self) -> float:
        """Seconds since 1970."""
        return time()

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Have it done in the next turn of the loop."""
        asyncio.get_running_loop().call_soon(do, *args)

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> Timer:
        """Have it done after so many seconds."""
        return asyncio.get_running_loop().call_later(delay_s, do, *args)


SYSTEM: Clock = SystemClock()
