"""Snapshots of a machine, written while it goes on: its state is taken at once, and packed bit by bit.

*Theory.* With many sessions a snapshot takes tenths of a second to pack, and longer to write. Nobody should wait for
either. The state that a machine gives shares nothing changeable with it. So it is packed on the loop for `SLICE_S` at a
time, between turns of the machine, and then the journal's thread writes it, between batches. The journal may be further
by then: what came behind the snapshot stays.

*Rules.*
1. There is one snapshot under way at most.
2. One that is dropped while it is packed is not written, and nobody hears of it. One that is being written is written.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from time import perf_counter

from godwit.codec.snapshots import Packing
from godwit.runtime.node_interfaces import Disk

__all__ = ["SnapshotWriter"]

SLICE_S = 0.004


class SnapshotWriter:
    """Packs snapshots on the loop, and has the journal write them."""

    def __init__(self, journal: Disk, executor: Executor, on_done: Callable[[BaseException | None], None]) -> None:
        self._journal = journal
        self._executor = executor
        self._on_done = on_done  # with what went wrong
        self._packing: Packing | None = None
        self._is_writing = False

    @property
    def is_under_way(self) -> bool:
        """Whether a snapshot is packed or written now."""
        return self._packing is not None or self._is_writing

    def begin(self, packing: Packing, number: int) -> None:
        """Write this as the state after batch `number`."""
        assert not self.is_under_way
        self._packing = packing
        self._pack(packing, number)

    def drop(self) -> None:
        """Do not write what is being packed. (rule 2)"""
        self._packing = None

    def _pack(self, packing: Packing, number: int) -> None:
        if self._packing is not packing:  # it was dropped
            return
        loop, ends = asyncio.get_running_loop(), perf_counter() + SLICE_S
        data = packing.advance(lambda: perf_counter() >= ends)
        if data is None:
            loop.call_soon(self._pack, packing, number)
            return
        self._packing, self._is_writing = None, True
        written = loop.run_in_executor(self._executor, self._journal.snapshot, number, data)
        written.add_done_callback(self._on_written)

    def _on_written(self, done: "asyncio.Future[None]") -> None:
        if not done.cancelled():
            self._is_writing = False
            self._on_done(done.exception())
