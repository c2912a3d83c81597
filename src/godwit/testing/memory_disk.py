"""A broker's disk in memory: a journal that survives crashes of the broker, and a substitute for its writer thread."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from godwit.codec.journal_losses import Loss

__all__ = ["MemoryJournal", "WritesAtOnce"]


class MemoryJournal:
    """A substitute for `runtime.journal.Journal` that stores its content in lists. It survives crashes of its
    broker."""

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
        """Write a batch; returns its number."""
        self.number += 1
        self._batches.append((self.number, data))
        self.bytes_since_snapshot += len(data)
        self.loss = None
        return self.number

    def lose(self, batches: int, *, is_told: bool = True) -> int:
        """Lose the last batches, but none before a snapshot; returns how many. `is_told`: the journal reports the
        loss."""
        lost = min(batches, len(self._batches))
        if lost:
            del self._batches[-lost:]
            self.number -= lost
            self.losses += is_told
            life = self.incarnation + 1
            self.loss = Loss(f"{lost} batches", lost, self.number, 0.0, True, 0, life) if is_told else None
        return lost

    def snapshot(self, number: int, data: bytes) -> None:
        """Store a snapshot of the machine after batch `number`, and remove older batches."""
        self._snapshot = (number, data)
        self.number = max(self.number, number)
        self._batches = [batch for batch in self._batches if batch[0] > number]
        self.bytes_since_snapshot, self.snapshot_bytes = sum(len(each) for _, each in self._batches), len(data)

    def snapshot_steps(self, number: int, data: bytes) -> Iterator[None]:
        """The same, in a single step."""
        self.snapshot(number, data)
        yield from ()

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""
        return self._snapshot

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order."""
        return iter([data for number, data in self._batches if number > after])

    def close(self) -> None:
        """Nothing is open."""


class WritesAtOnce(Executor):
    """Runs each call at once, in the caller's thread."""

    def submit(self, do: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        """Run a call; the returned future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(do(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future
