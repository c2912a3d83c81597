"""One loop, one driver of Playwright and one Chromium for all tests of pages that a process runs.

To start the driver takes 0.4 s of processor time, and to start Chromium more: longer than most tests. Playwright stays
on the loop where it was started. So these tests share a loop, and `run` leaves nothing of a test on it.
"""

import asyncio
import atexit
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar

import pytest

from tests.network.waiting import LIMIT_S, new_loop, within

__all__ = ["chromium", "chromium_here", "run"]

T = TypeVar("T")


@cache
def chromium() -> str | None:
    """The browser, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Kept:
    """The loop, and the browser on it."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._stack = _browser()
        self.browser = self.loop.run_until_complete(self._stack.__aenter__()) if chromium() else None
        self._tasks = asyncio.all_tasks(self.loop)  # Playwright's own
        atexit.register(self.end)

    def run(self, scene: Coroutine[Any, Any, T]) -> T:
        try:
            return self.loop.run_until_complete(scene)
        finally:
            left = asyncio.all_tasks(self.loop) - self._tasks
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left))

    def end(self) -> None:
        if self.browser is not None:
            self.loop.run_until_complete(self._stack.__aexit__(None, None, None))
        self.loop.close()


kept = cache(Kept)


def run(scene: Callable[[], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
    """Run a scene on the loop with the browser."""
    return kept().run(within(scene, limit_s))


@asynccontextmanager
async def chromium_here() -> AsyncIterator[Any]:
    """The browser of this loop: the one that is kept there, or one for this time."""
    if kept.cache_info().currsize and kept().loop is asyncio.get_running_loop():
        yield kept().browser
    else:
        async with _browser() as browser:
            yield browser


@asynccontextmanager
async def _browser() -> AsyncIterator[Any]:
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is missing: it is in the extra dev")
    async with playwright.async_playwright() as running:
        browser = await running.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()
