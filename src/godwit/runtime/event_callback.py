"""A function that is called with each event of a subscription, one at a time and in order.

*Rules.*
1. The next event waits until the function has returned, or what it returned has been awaited.
2. An event counts as read when the function has finished. So with `confirm="read"` a broker keeps the events that a
   killed process was handling.
3. An error in the function is reported to the loop's exception handler, which logs it, and counted. The event counts as
   read, and the next one follows.
"""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Protocol

from godwit.filters.events import Event

__all__ = ["Callback", "EventCallback"]

Callback = Callable[[Event], Any]
"""Takes an event. An awaitable result is awaited."""


class _Source(Protocol):
    """Where events come from: a subscription."""

    name: str

    def __len__(self) -> int:
        """Events that wait."""

    async def waiting(self, most: int) -> list[Event]:
        """Wait for the next events; empty if the subscription has ended."""

    def take(self, count: int) -> None:
        """Mark this number of events as read."""

    def check(self) -> None:
        """Raise the error that ended it, if there was one."""


class EventCallback:
    """Reads a subscription by calling a function."""

    def __init__(self, source: _Source, callback: Callback, on_change: Callable[[], None]) -> None:
        self.failed = 0
        self.last_failure = ""
        self._source = source
        self._callback = callback
        self._on_change = on_change
        self._is_calling = False
        self._is_stopped = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_idle(self) -> bool:
        """Whether there is no event for it, or it waits for something itself."""
        return self._is_calling or self._task.done() or not len(self._source)

    def stop(self) -> None:
        """Stop the calls; a pending call is cancelled, unless it called this function."""
        self._is_stopped = True
        if self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        source = self._source
        while not self._is_stopped and (events := await source.waiting(1)):
            self._is_calling = True
            self._on_change()
            try:
                returned = self._callback(events[0])
                if isawaitable(returned):
                    await returned
            except Exception as error:
                self._report(error)
            finally:
                self._is_calling = False
            if len(source):  # otherwise it has ended meanwhile, and unread events are discarded
                source.take(1)
            self._on_change()
        try:
            source.check()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        """Report an error. (rule 3)"""
        self.failed += 1
        self.last_failure = str(error) or type(error).__name__
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"callback of the subscription {self._source.name!r} failed", "exception": error}
        )
