"""Settings of Python's garbage collector: short collections of new objects; full ones when the process has grown.

*Theory.* Reference counting frees unused objects at once. The collector finds the rest: objects in reference cycles.
The machines make no cycles, and a broker has a million other objects that a full collection traverses needlessly: the
modules loaded at its start alone are a pause of 160 ms, and 100,000 subscriptions nearly a second, in which no event is
delivered. So each collection traverses few objects, and survivors of two of them are frozen (`gc.freeze`, which
traverses nothing).

*Rules.*
1. A collection of *new* objects begins when `YOUNG_MAX` more objects exist.
2. Survivors wait for a second collection. That happens before more than `WAITING_MAX` objects wait, in a quiet moment:
   when the process has worked for less than `QUIET_SHARE` of a second. It takes up to 25 ms. Its survivors are frozen,
   and so are objects that wait for twice as long in a process that is never quiet.
3. A full collection happens in a quiet moment, when the process is `LARGE` times as large as at the last one; if it is
   never quiet, at twice that. If the system does not report the size: after `YOUNG_SEARCHES`.
4. So frequently created objects must not form cycles: a closed connection is freed at once, which a test checks.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["process_bytes", "tune_garbage_collector"]

YOUNG_MAX = 5_000  # a collection of so many takes about a millisecond
WAITING_MAX = 50_000
YOUNG_SEARCHES = 5_000
LARGE = 4
LOOK_S = 1.0  # between looks for a quiet moment
QUIET_SHARE = 0.05
NEVER = 1_000_000_000
STATM = Path("/proc/self/statm")


class _Tending:
    """Called by the collector at each collection."""

    def __init__(self) -> None:
        self._searches = 0  # of the new, since all were searched
        self._waiting = 0  # searches of the new whose survivors wait for the second one
        self._is_due = False
        self._size = 0  # of the process, when all were searched
        self._worked = 0.0  # seconds, when it was last looked at

    def on_search(self, phase: str, info: Mapping[str, Any]) -> None:
        """A collection begins or has ended."""
        if phase != "stop" or info["generation"] > 0:
            return
        self._searches += 1
        self._waiting += 1
        if self._waiting * YOUNG_MAX >= 2 * WAITING_MAX:
            self._put_aside()
        elif self._waiting * YOUNG_MAX >= WAITING_MAX // 2 and not self._is_due:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # in another thread: the next one may be in the loop's thread
                return
            self._is_due = True
            self._worked = time.process_time()
            loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Run the second or the full collection, in a quiet moment or if it cannot wait. (rules 2 and 3)"""
        worked = time.process_time()
        is_quiet, self._worked = worked - self._worked < QUIET_SHARE * LOOK_S, worked
        growth = self._growth()
        if growth > (LARGE if is_quiet else 2 * LARGE):
            self.search_all()
        elif is_quiet and self._waiting * YOUNG_MAX <= WAITING_MAX:
            gc.collect(1)
            self._put_aside()
        elif self._waiting:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)
            return
        self._is_due = False

    def _growth(self) -> float:
        """The size of the process relative to that at the last full collection."""
        size = process_bytes()
        if size is None:
            return 3 * LARGE if self._searches >= YOUNG_SEARCHES else 0
        return size / self._size if self._size else 0

    def _put_aside(self) -> None:
        gc.freeze()
        self._waiting = 0

    def search_all(self) -> None:
        """Run a full collection, and freeze the survivors."""
        gc.unfreeze()
        gc.collect()
        self._put_aside()
        self._searches = 0
        self._size = process_bytes() or 0


def process_bytes() -> int | None:
    """Resident bytes of this process; None if the system does not report them."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def tune_garbage_collector() -> Callable[[], None]:
    """Configure the collector for a server. Call the returned function when all is loaded, before the first request."""
    tending = _Tending()
    tending.search_all()
    gc.callbacks.append(tending.on_search)
    gc.set_threshold(YOUNG_MAX, NEVER, NEVER)
    return tending.search_all
