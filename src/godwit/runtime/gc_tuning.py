"""How Python looks for garbage: in short searches among what is new; among all when the process has become large.

*Theory.* What goes out of use is freed at once by counting references. Python's collector looks for the rest, which is
objects that hold on to each other. The machines make no such objects, and a broker has a million others to be looked
at in vain: what was loaded at its start alone is a pause of 160 ms, and 100,000 subscriptions are nearly a second. Who
waits for an event waits for that. So each search is among few objects, and what has outlived two of them is put aside
(`gc.freeze`, which looks at nothing).

*Rules.*
1. A search of the *new* begins when `YOUNG_MAX` objects have come that are still there.
2. What outlives it waits for a second search. That is made when at most `WAITING_MAX` objects wait, in a quiet moment:
   when the process has worked for less than `QUIET_SHARE` of a second. It takes up to 25 ms. What outlives it is put
   aside, and so is what waits for twice as long in a process that is never quiet.
3. All is searched in a quiet moment, when the process is `LARGE` times as big as when that was last done; where it is
   never quiet, when it is twice that. Where the system does not tell how large it is: after `YOUNG_SEARCHES`.
4. So nothing that comes and goes often may hold on to itself: a connection that is closed is freed at once, and a test
   sees to it.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["process_bytes", "tune_garbage_collector"]

YOUNG_MAX = 5_000  # a search of so many takes about a millisecond
WAITING_MAX = 50_000
YOUNG_SEARCHES = 5_000
LARGE = 4
LOOK_S = 1.0  # between looks for a quiet moment
QUIET_SHARE = 0.05
NEVER = 1_000_000_000
STATM = Path("/proc/self/statm")


class _Tending:
    """Hears of every search."""

    def __init__(self) -> None:
        self._searches = 0  # of the new, since all were searched
        self._waiting = 0  # searches of the new whose survivors wait for the second one
        self._is_due = False
        self._size = 0  # of the process, when all were searched
        self._worked = 0.0  # seconds, when it was last looked at

    def on_search(self, phase: str, info: Mapping[str, Any]) -> None:
        """A search begins or has ended."""
        if phase != "stop" or info["generation"] > 0:
            return
        self._searches += 1
        self._waiting += 1
        if self._waiting * YOUNG_MAX >= 2 * WAITING_MAX:
            self._put_aside()
        elif self._waiting * YOUNG_MAX >= WAITING_MAX // 2 and not self._is_due:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # another thread's: soon enough it is the loop's
                return
            self._is_due = True
            self._worked = time.process_time()
            loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Search for the second time, or all, if nobody is kept waiting or it must be. (rules 2 and 3)"""
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
        """How many times as big the process is as when all was searched."""
        size = process_bytes()
        if size is None:
            return 3 * LARGE if self._searches >= YOUNG_SEARCHES else 0
        return size / self._size if self._size else 0

    def _put_aside(self) -> None:
        gc.freeze()
        self._waiting = 0

    def search_all(self) -> None:
        """Look for garbage everywhere, and put the rest aside."""
        gc.unfreeze()
        gc.collect()
        self._put_aside()
        self._searches = 0
        self._size = process_bytes() or 0


def process_bytes() -> int | None:
    """Bytes of this process in memory; None where the system does not tell."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def tune_garbage_collector() -> Callable[[], None]:
    """Set the collector for a process that serves. Call what is returned when all is loaded and nobody waits yet."""
    tending = _Tending()
    tending.search_all()
    gc.callbacks.append(tending.on_search)
    gc.set_threshold(YOUNG_MAX, NEVER, NEVER)
    return tending.search_all
