"""A broker's disk in memory: a journal that outlives the broker, and the thread that would write it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from godwit.runtime.journal_checks import Loss

__all__ = ["MemoryJournal", "WritesAtOnce"]


class MemoryJournal:
    """What `runtime.journal.Journal` keeps in a file, kept in lists. It is there after its broker has crashed."""

    where = "the journal in memory"

    def __init__(self, incarnation: int = 1) -> None:
        self.incarnation = incarnation
        self.number = 0
        self.bytes_since_snapshot = 0
        self.snapshot_bytes = 0
        self.losses = 0
        self.is_cramped = False
        self.loss: Loss | None = None
        self._batches: list[tuple[int, bytes]] = []
        self._snapshot: tuple[int, bytes] | None = None

    def append(self, data: bytes) -> int:
        """Write a batch; its number."""
        self.number += 1
        self._batches.append((self.number, data))
        self.bytes_since_snapshot += len(data)
        self.loss = None
        return self.number

    def lose(self, batches: int, *, is_told: bool = True) -> int:
        """Lose the last batches, as far as there is no snapshot behind them: how many. `is_told`: the disk says so."""
        lost = min(batches, len(self._batches))
        if lost:
            del self._batches[-lost:]
            self.number -= lost
            self.losses += is_told
            life = self.incarnation + 1
            self.loss = Loss(f"{lost} batches", lost, self.number, 0.0, True, 0, life) if is_told else None
        return lost

    def snapshot(self, number: int, data: bytes) -> None:
        """The machine as it was after batch `number`: what is older goes."""
        self._snapshot = (number, data)
        self.number = max(self.number, number)
        self._batches = [batch for batch in self._batches if batch[0] > number]
        self.bytes_since_snapshot, self.snapshot_bytes = sum(len(each) for _, each in self._batches), len(data)

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""
        return self._snapshot

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order."""
        return iter([data for number, data in self._batches if number > after])

    def close(self) -> None:
        """Nothing is open."""


class WritesAtOnce(Executor):
    """Does what it is asked for at once, in the caller's thread."""

    def submit(self, do: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        """Do it; its outcome is there."""
        future: Future[Any] = Future()
        try:
            future.set_result(do(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future
