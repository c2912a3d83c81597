"""The clock of a simulation: virtual time, and a queue of what happens next.

*Theory.* A heap of entries keyed by (time, number): entries of equal time happen in the order in which they were made,
so the same seed gives the same run.

*Rules.*
1. Time never goes back, and nothing here reads the clock of the machine.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

__all__ = ["SimulatedClock"]


class SimulatedClock:
    """Virtual time and the queue of what is due."""

    __slots__ = ("entries", "heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.entries = 0  # made so far; the last one's number
        self.heap: list[tuple[float, int, Callable[[Any, Any, Any], None], Any, Any, Any]] = []

    def at(self, at: float, do: Callable[[Any, Any, Any], None], a: Any = None, b: Any = None, c: Any = None) -> int:
        """Schedule `do(a, b, c)` at a time. Returns the number of the entry."""
        self.entries += 1
        heappush(self.heap, (at, self.entries, do, a, b, c))
        return self.entries

    def call_at(self, at: float, do: Callable[..., None], *arguments: Any) -> int:
        """Schedule `do(*arguments)` at a time: for calls that are less frequent than messages."""
        return self.at(at, _call, do, arguments)

    def run(self, until: float) -> None:
        """Run all entries that are due up to and including that time."""
        heap = self.heap
        while heap and heap[0][0] <= until:
            self.now, _, do, a, b, c = heappop(heap)
            do(a, b, c)
        self.now = max(self.now, until)


def _call(do: Callable[..., None], arguments: tuple[Any, ...], _: None) -> None:
    do(*arguments)
