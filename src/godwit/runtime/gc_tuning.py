"""How Python looks for garbage: among what is new, in short searches; among the rest when the process has grown.

*Theory.* What goes out of use is freed at once by counting references. Python's collector looks for the rest, which is
objects that hold on to each other. The machines make no such objects, and a broker with 100,000 subscriptions has
millions of others to be looked at in vain: a third of the broker's work, and pauses of half a second. Searches of a
middle generation are pauses, too: whoever waits for an event waits for them. So what has outlived one search is put
aside (`gc.freeze`, which looks at nothing), and is searched only when there is reason to think that garbage is in it.

*Rules.*
1. A search of the new begins when `YOUNG_MAX` objects have come that are still there. What is left is put aside.
2. All are to be searched when the process has grown by a quarter since that was last done, and by `GROWTH_BYTES_MIN`.
   That is a pause of nearly a second for 100,000 subscriptions, so it is done in a quiet moment: when the process has
   worked for less than `QUIET_SHARE` of a second. One that is never quiet is searched when it is `LARGE` times as big.
3. Where the system does not tell how large a process is, all are searched after every `YOUNG_SEARCHES`.
4. So nothing that comes and goes often may hold on to itself: a connection that is closed is freed at once, and a test
   sees to it.
"""

import asyncio
import gc
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["tune_garbage_collector"]

YOUNG_MAX = 5_000  # a search of so many takes about a millisecond
YOUNG_SEARCHES = 500
LOOK_EVERY = 20  # searches of the new, between looks at how large the process is
GROWTH_BYTES_MIN = 64 * 2**20
LARGE = 4
LOOK_S = 1.0  # between looks for a quiet moment
QUIET_SHARE = 0.05
NEVER = 1_000_000_000
STATM = Path("/proc/self/statm")


class _Tending:
    """Hears of every search."""

    def __init__(self) -> None:
        self.searches = 0  # of the new, since all were searched
        self.is_due = False
        self.size = 0  # of the process, when all were searched
        self._worked = 0.0  # seconds, when it was last looked at

    def on_search(self, phase: str, info: Mapping[str, Any]) -> None:
        """A search begins or has ended."""
        if phase != "stop" or info["generation"] == 2:
            return
        gc.freeze()
        self.searches += 1
        if self.searches % LOOK_EVERY == 0 and not self.is_due and self._is_needed():
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # another thread's: soon enough it is the loop's
                return
            self.is_due = True
            self._worked = time.process_time()
            loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Search all, if nobody is kept waiting or it must be. (rule 2)"""
        worked = time.process_time()
        is_quiet, self._worked = worked - self._worked < QUIET_SHARE * LOOK_S, worked
        size = _size()
        if is_quiet or size is None or size > LARGE * self.size:
            self.search_all()
        else:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _is_needed(self) -> bool:
        size = _size()
        if size is None:
            return self.searches >= YOUNG_SEARCHES
        return size > self.size + max(self.size // 4, GROWTH_BYTES_MIN)

    def search_all(self) -> None:
        """Look for garbage everywhere, and put the rest aside."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.searches, self.is_due = 0, False
        self.size = _size() or 0


def _size() -> int | None:
    """Bytes of this process in memory."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def tune_garbage_collector() -> None:
    """Set the collector for a process that serves. To be called once, at its start."""
    tending = _Tending()
    tending.search_all()
    gc.callbacks.append(tending.on_search)
    gc.set_threshold(YOUNG_MAX, NEVER, NEVER)
