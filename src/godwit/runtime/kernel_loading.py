"""Loads Numba into a running broker when there is enough to match (`matching/late_kernels.py`).

Numba is loaded in a thread. Importing it holds Python's lock at times, so an event may wait for 0.1 s and more, once in
the life of a broker. If Numba cannot be loaded, the broker continues with NumPy and logs the reason.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from godwit.matching import kernel_cache, late_kernels

__all__ = ["KernelLoading"]

LOOK_S = 1.0


class KernelLoading:
    """Looks once a second whether Numba is wanted."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """`on_change` is told which kernels are used, or why they are still the same."""
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking, unless Numba is loaded already or is not to be used."""
        if kernel_cache.is_postponed():
            late_kernels.wait_no_more()
            self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Stop looking, without waiting for a thread that loads Numba."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        before = late_kernels.matched()
        while kernel_cache.is_postponed() and not late_kernels.is_wanted(before):
            before = late_kernels.matched()
            await asyncio.sleep(LOOK_S)
        if kernel_cache.CACHE is not None and not kernel_cache.has_compiled_kernels(kernel_cache.CACHE):
            self._on_change("NumPy, while Numba compiles the kernels (up to a minute, once)")
        try:
            await _in_thread(late_kernels.prepare)
        except Exception as error:
            self._on_change(f"NumPy: Numba cannot be loaded: {type(error).__name__}: {error}")
            return
        late_kernels.finish()
        self._on_change(kernel_cache.kernels_used())


async def _in_thread(work: Callable[[], None]) -> None:
    """Run this in a thread that does not delay the end of the process: compiling the kernels may take a minute."""
    done = Future[None]()
    done.set_running_or_notify_cancel()  # a task that is cancelled does not cancel the thread

    def run() -> None:
        try:
            work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="load Numba", daemon=True).start()
    await asyncio.wrap_future(done)
