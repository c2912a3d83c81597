"""The plan of a download: which chunk to fetch next from which peer, so that a slow peer does not delay the end.

*Rules.*
1. The first chunks that are missing are given out first, in runs: so they arrive almost in their order.
2. A run is at most a share of what is left, so that all workers are done at about the same time.
3. When nothing is left to give out, a chunk that another peer was asked for is given out a second time, the last of a
   run first: a peer that has become slow delays the file by no more than a chunk.
"""

from collections.abc import Iterable, Iterator

__all__ = ["ChunkPlan"]


class ChunkPlan:
    """The chunks of a file that are still missing. Workers, each with a number, fetch them."""

    def __init__(self, missing: Iterable[int]) -> None:
        self._missing = set(missing)
        self._free = list(_runs(sorted(self._missing)))  # in order, to be given out
        self._held: dict[int, range] = {}  # by worker
        self._peers: dict[int, str] = {}  # by worker, whom it asks
        self._twice: set[int] = set()  # chunks that two workers have

    @property
    def is_done(self) -> bool:
        """Whether every chunk has arrived."""
        return not self._missing

    def claim(self, worker: int, peer: str, count_max: int, workers: int) -> range:
        """The next run for one of so many workers, which asks a peer; empty if there is nothing for it now."""
        assert worker not in self._held
        share = max(1, len(self._missing) // (2 * workers))  # rule 2
        while self._free:
            first = self._free.pop(0)
            run, rest = first[: min(count_max, share)], first[min(count_max, share) :]
            if rest:
                self._free.insert(0, rest)
            if run := self._without_arrived(run):
                return self._hold(worker, peer, run)
        if (number := self._second(peer)) is None:
            return range(0)
        self._twice.add(number)
        return self._hold(worker, peer, range(number, number + 1))

    def has_work(self, peer: str) -> bool:
        """Whether there may be a chunk to ask this peer for."""
        return bool(self._free) or self._second(peer) is not None

    def _second(self, peer: str) -> int | None:
        """A chunk that another peer was asked for. (rule 3)"""
        for other, run in self._held.items():
            for number in reversed(run) if self._peers[other] != peer else ():
                if number in self._missing and number not in self._twice:
                    return number
        return None

    def _hold(self, worker: int, peer: str, run: range) -> range:
        self._held[worker], self._peers[worker] = run, peer
        return run

    def _without_arrived(self, run: range) -> range:
        """A run that begins and ends with a chunk that is missing."""
        while run and run[0] not in self._missing:
            run = run[1:]
        while run and run[-1] not in self._missing:
            run = run[:-1]
        return run

    def arrived(self, number: int) -> bool:
        """A chunk is here; whether it was missing."""
        self._twice.discard(number)
        is_new = number in self._missing
        self._missing.discard(number)
        return is_new

    def release(self, worker: int) -> None:
        """A worker has ended its run, or failed: what has not arrived is given out again."""
        run = self._held.pop(worker, range(0))
        self._peers.pop(worker, None)
        left = [number for number in run if number in self._missing]
        self._twice.difference_update(left)
        held = {number for other in self._held.values() for number in other}
        free = [*self._free, *_runs([number for number in left if number not in held])]
        self._free = sorted(free, key=lambda each: each.start)


def _runs(numbers: Iterable[int]) -> Iterator[range]:
    """Numbers in their order, as runs."""
    run = range(0)
    for number in numbers:
        if run and number == run.stop:
            run = range(run.start, number + 1)
            continue
        if run:
            yield run
        run = range(number, number + 1)
    if run:
        yield run
