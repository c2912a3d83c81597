"""Work of a task in a thread that never outlives the resources it uses."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

__all__ = ["in_thread"]

Result = TypeVar("Result")


async def in_thread(
    threads: Executor | None, function: Callable[..., Result], *arguments: Any, stop: Callable[[], None] = lambda: None
) -> Result:
    """What a function returns that runs in a thread.

    A task that is cancelled meanwhile calls `stop` and waits for the end of the thread: what the thread uses can be
    closed then.
    """
    future = asyncio.get_running_loop().run_in_executor(threads, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # nobody else looks at it
        raise
