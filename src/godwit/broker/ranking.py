"""A ranking: keys by rank, with fast access to the lowest; any key can be removed or ranked again at any time.

*Theory.* A heap with lazy deletion: a key that leaves stays in the heap until it comes up, and a key that is ranked
again is in it twice. What counts is the rank in the dictionary beside it.

*Rules.*
1. Equal ranks go by the key: of numbers the lower, that is the older.
2. After each `put` the heap is at most twice as long as there are keys, and `SPARE`. Past that it is made again, which
   costs no more than the entries that are given up have saved.
3. A ranking of nothing holds nothing of its own: each session has some that are never used.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["Ranking"]

SPARE = 64
NO_HEAP: list[Any] = []  # shared by all that have never ranked anything, and never changed (rule 3)
NO_RANKS: dict[Any, Any] = {}

Key = TypeVar("Key", int, str, tuple[int, str], tuple[str, str], tuple[str, ...])


class Ranking(Generic[Key]):
    """Keys, each with a rank."""

    __slots__ = ("_heap", "_ranks")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, Key]] = NO_HEAP
        self._ranks: dict[Key, Any] = NO_RANKS

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, key: Key) -> bool:
        return key in self._ranks

    def keys(self) -> list[Key]:
        """Every key, in the order in which they came."""
        return list(self._ranks)

    def ranks(self) -> dict[Key, Any]:
        """The rank of every key, in the order in which they came."""
        return dict(self._ranks)

    def put(self, key: Key, rank: Any) -> None:
        """Rank `key`, also when it has a rank already."""
        if self._ranks.get(key) == rank:
            return
        if self._heap is NO_HEAP:
            self._heap, self._ranks = [], {}
        self._ranks[key] = rank
        heappush(self._heap, (rank, key))
        if len(self._heap) > 2 * len(self._ranks) + SPARE:
            self._heap = [(rank, key) for key, rank in self._ranks.items()]
            heapify(self._heap)

    def discard(self, key: Key) -> None:
        """Forget `key`, if it is there."""
        self._ranks.pop(key, None)

    def lowest(self) -> tuple[Any, Key] | None:
        """The lowest rank and its key, or None when there is none."""
        heap = self._heap
        while heap:
            rank, key = heap[0]
            if self._ranks.get(key) == rank:
                return rank, key
            heappop(heap)
        return None
