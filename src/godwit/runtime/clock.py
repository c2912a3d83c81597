"""The clock of a node or client: that of the operating system, or a virtual one of a test."""

import asyncio
from collections.abc import Callable
from time import perf_counter, time
from typing import Any, Protocol

__all__ = ["SYSTEM", "Clock", "SystemClock", "Timer"]


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel it."""


class Clock(Protocol):
    """Tells the time, and schedules calls."""

    def time(self) -> float:
        """Seconds since 1970."""

    def work(self) -> float:
        """Seconds from an arbitrary moment, to measure durations."""

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Call it in the next turn of the event loop."""

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> Timer:
        """Call it after this number of seconds."""


class SystemClock:
    """The system's clock, and the timers of the running event loop."""

    time = staticmethod(time)  # these two are no functions of ours: nodes ask after every message
    work = staticmethod(perf_counter)

    def call_soon(self, do: Callable[..., object], *args: Any) -> None:
        """Call it in the next turn of the event loop."""
        asyncio.get_running_loop().call_soon(do, *args)

    def call_later(self, delay_s: float, do: Callable[..., object], *args: Any) -> Timer:
        """Call it after this number of seconds."""
        return asyncio.get_running_loop().call_later(delay_s, do, *args)


SYSTEM: Clock = SystemClock()
