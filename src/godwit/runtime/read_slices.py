"""Bytes of HTTP connections, parsed a few at a time: others have their turn in between.

*Theory.* One read brings up to 256 KiB, which may be 50,000 chunks of one byte, or as many empty frames of a WebSocket.
Parsing takes 10 microseconds for each. So a read is parsed `SLICE_BYTES` at a time. All connections together have
`TURN_S` in one turn of the event loop; what is left waits for the next turns, and its connection is not read.

*Rules.*
1. The bytes of a connection are parsed in order.
2. In one turn of the loop, no slice begins later than `TURN_S` after the first one.
3. A connection that has had a slice goes behind those that wait for their first one.
4. Nothing is parsed while the application does not take what was parsed before (`is_held`), until `wake` is called.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

__all__ = ["SLICE_BYTES", "ReadSlices", "SlicedReader"]

SLICE_BYTES = 4_096
TURN_S = 0.003


class SlicedReader(Protocol):
    """A connection whose bytes are parsed in slices."""

    transport: Any

    @property
    def is_held(self) -> bool:
        """Whether the application has not taken yet what was parsed."""

    def parse(self, data: bytes) -> None:
        """Parse bytes."""


class ReadSlices:
    """The bytes that wait, of all connections of a listener."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._new: dict[SlicedReader, bytes] = {}  # without a slice yet (rule 3)
        self._busy: dict[SlicedReader, bytes] = {}
        self._held: dict[SlicedReader, bytes] = {}  # (rule 4)
        self._until = 0.0  # slices of this turn of the loop may begin
        self._is_due = False

    def __contains__(self, reader: SlicedReader) -> bool:
        return reader in self._new or reader in self._busy or reader in self._held

    def feed(self, reader: SlicedReader, data: bytes) -> None:
        """Bytes have come: they are parsed now, or in one of the next turns."""
        for waiting in (self._new, self._busy, self._held):
            if reader in waiting:  # it was read before it could be paused
                waiting[reader] += data
                reader.transport.pause_reading()
                return
        is_alone = not self._new and not self._busy
        self._new[reader] = data
        self._begin()
        if is_alone:
            self._go_on()
        if reader in self:
            reader.transport.pause_reading()

    def wake(self, reader: SlicedReader) -> None:
        """The application has taken what was parsed, and may have resumed reading. (rule 4)"""
        if reader in self:
            reader.transport.pause_reading()
        data = self._held.pop(reader, None)
        if data is not None:
            self._busy[reader] = data
            self._begin()

    def forget(self, reader: SlicedReader) -> None:
        """A connection has closed."""
        for waiting in (self._new, self._busy, self._held):
            waiting.pop(reader, None)

    def _begin(self) -> None:
        """This turn of the loop has `TURN_S` from now on, if there was no slice in it."""
        if not self._is_due:
            self._is_due = True
            self._until = self._clock() + TURN_S
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._is_due = False
        if self._new or self._busy:
            self._begin()
            self._go_on()

    def _go_on(self) -> None:
        while (lines := self._new or self._busy) and self._clock() < self._until:
            reader = next(iter(lines))
            self._parse_some(reader, lines.pop(reader))

    def _parse_some(self, reader: SlicedReader, data: bytes) -> None:
        if reader.is_held:
            self._held[reader] = data
            return
        if len(data) > SLICE_BYTES:
            self._busy[reader] = data[SLICE_BYTES:]
        reader.parse(data[:SLICE_BYTES])
        if reader.transport.is_closing():
            self.forget(reader)
        elif reader not in self and not reader.is_held:
            reader.transport.resume_reading()
