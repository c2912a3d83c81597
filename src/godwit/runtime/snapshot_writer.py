"""Snapshots of a machine, written while it runs: its state is copied at once, and encoded in slices.

*Theory.* With many sessions a snapshot takes tenths of a second to encode, and longer to write. Clients should not wait
for either. The state that a machine returns shares no mutable data with it. So it is encoded on the event loop for
`SLICE_S` at a time, between turns of the machine, and then the journal's thread writes it, piece by piece, between
batches. The journal may have more batches by then: those after the snapshot stay.

*Rules.*
1. There is at most one snapshot under way.
2. A dropped snapshot is not finished, and not reported. If it is valid already, only the deletion of older data is
   delayed.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from time import perf_counter

from godwit.codec.snapshots import Packing
from godwit.runtime.node_interfaces import Disk

__all__ = ["SnapshotWriter"]

SLICE_S = 0.004
LAST = object()  # the step that ends a snapshot


class SnapshotWriter:
    """Encodes snapshots on the event loop, and passes them to the journal."""

    def __init__(
        self,
        journal: Disk,
        executor: Executor,
        on_step: Callable[[], None],
        on_done: Callable[[BaseException | None], None],
    ) -> None:
        self._journal = journal
        self._executor = executor
        self._on_step = on_step  # there may be more room in the journal
        self._on_done = on_done  # called with the error
        self._packing: Packing | None = None
        self._steps: Iterator[None] | None = None  # of writing

    @property
    def is_under_way(self) -> bool:
        """Whether a snapshot is being encoded or written."""
        return self._packing is not None or self._steps is not None

    def begin(self, packing: Packing, number: int) -> None:
        """Write a state as the snapshot after batch `number`."""
        assert not self.is_under_way
        self._packing = packing
        self._pack(packing, number)

    def drop(self) -> None:
        """Drop the snapshot under way. (rule 2)"""
        self._packing = self._steps = None

    def _pack(self, packing: Packing, number: int) -> None:
        if self._packing is not packing:  # it was dropped
            return
        loop, ends = asyncio.get_running_loop(), perf_counter() + SLICE_S
        pieces = packing.advance(lambda: perf_counter() >= ends)
        if pieces is None:
            loop.call_soon(self._pack, packing, number)
            return
        self._packing, self._steps = None, self._steps_of(number, pieces)
        self._write(self._steps)

    def _steps_of(self, number: int, pieces: list[bytes]) -> Iterator[None]:
        """Steps of writing, all in the journal's thread: joining large pieces does not hold Python's lock."""
        yield from self._journal.snapshot_steps(number, b"".join(pieces))

    def _write(self, steps: Iterator[None]) -> None:
        """Write the next piece, after a waiting batch."""
        stepped = asyncio.get_running_loop().run_in_executor(self._executor, next, steps, LAST)
        stepped.add_done_callback(lambda done: self._on_written(done, steps))

    def _on_written(self, done: "asyncio.Future[object]", steps: Iterator[None]) -> None:
        if done.cancelled() or self._steps is not steps:  # it was dropped
            return
        error = done.exception()
        if error is None and done.result() is not LAST:
            self._write(steps)
            self._on_step()
            return
        self._steps = None
        self._on_done(error)
