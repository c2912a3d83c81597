"""Timers of one connection on the event loop, by key: a key that is started again replaces the one that ran."""

import asyncio
from collections.abc import Callable

from godwit.broker.effects import TimerKey

__all__ = ["LoopTimers"]


class LoopTimers:
    """The timers that run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[TimerKey, asyncio.TimerHandle] = {}

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._running

    def start(self, key: TimerKey, wait_s: float, call: Callable[[], None]) -> None:
        """Call this in so many seconds."""
        self.stop(key)

        def due() -> None:
            del self._running[key]
            call()

        self._running[key] = self._loop.call_later(max(0.0, wait_s), due)

    def stop(self, key: TimerKey) -> None:
        """Call nothing."""
        if (handle := self._running.pop(key, None)) is not None:
            handle.cancel()

    def clear(self) -> None:
        """Stop all of them."""
        for key in list(self._running):
            self.stop(key)
