"""Bytes of HTTP connections, parsed a few at a time: others have their turn in between.

*Theory.* One read brings up to 256 KiB, which may be 50,000 chunks of one byte, or as many empty frames of a WebSocket.
Parsing takes 10 microseconds for each. So a read is parsed in slices. All connections together have `TURN_S` in one
turn of the event loop; what is left waits for the next turns, and its connection is not read.

A slice has `SLICE_BYTES`, or up to `LONG_SLICE_BYTES` if its connection finds that these are parsed as fast: each slice
is passed to the application, so a large body in slices of 4 KiB would take twice the time.

*Rules.*
1. The bytes of a connection are parsed in order.
2. In one turn of the loop, no slice begins after others have taken `TURN_S`.
3. Parties (users, or hosts before authentication) take turns: one with many connections waits for itself. Of the
   connections of a party, one that has had a slice goes behind those that wait for their first one.
4. Nothing is parsed while the application does not take what was parsed before (`is_held`), until `wake` is called.
5. A connection whose bytes cannot be parsed because of an error of this program is closed, as the event loop closes it
   when the error comes while bytes are received.
6. The end of a turn of the loop is only looked for after slices have taken `LITTLE_S`, as in `party_turns.py`.
7. While a client with little traffic waits for its answer, slices have less time in a turn, and rest after it
   (`urgency.py`).
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from godwit.runtime.urgency import Urgency

__all__ = ["LONG_SLICE_BYTES", "SLICE_BYTES", "ReadSlices", "SlicedReader"]

SLICE_BYTES = 4_096
LONG_SLICE_BYTES = 65_536
TURN_S = 0.003
LITTLE_S = 0.001


class SlicedReader(Protocol):
    """A connection whose bytes are parsed in slices."""

    transport: Any

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""

    @property
    def is_held(self) -> bool:
        """Whether the application has not taken yet what was parsed."""

    def slice_of(self, data: bytes) -> int:
        """How many of these bytes to parse at once: `SLICE_BYTES`, or more."""

    def parse(self, data: bytes) -> None:
        """Parse bytes."""


class _Line:
    """The connections of a party that wait."""

    __slots__ = ("busy", "new")

    def __init__(self) -> None:
        self.new: dict[SlicedReader, None] = {}  # without a slice yet
        self.busy: dict[SlicedReader, None] = {}

    def next(self) -> SlicedReader:
        """Take the next one out. (rule 3)"""
        readers = self.new or self.busy
        reader = next(iter(readers))
        del readers[reader]
        return reader


class ReadSlices:
    """The bytes that wait, of all connections of a listener."""

    def __init__(self, clock: Callable[[], float] = perf_counter, urgency: Urgency | None = None) -> None:
        self._clock = clock
        self._urgency = Urgency() if urgency is None else urgency
        self._waiting: dict[SlicedReader, memoryview] = {}  # each is in a line
        self._lines: dict[str, _Line] = {}  # by party; of a closed connection, until its turn
        self._held: dict[SlicedReader, memoryview] = {}  # (rule 4)
        self._spent = 0.0  # time of the slices of this turn of the loop, and of a few before it (rule 6)
        self._is_due = False

    def __contains__(self, reader: SlicedReader) -> bool:
        return reader in self._waiting or reader in self._held

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return sum(map(len, self._waiting.values())) + sum(map(len, self._held.values()))

    def feed(self, reader: SlicedReader, data: bytes) -> None:
        """Bytes have come: they are parsed now, or in one of the next turns."""
        for waiting in (self._waiting, self._held):
            if reader in waiting:  # it was read before it could be paused
                waiting[reader] = memoryview(bytes(waiting[reader]) + data)
                reader.transport.pause_reading()
                return
        if not self._lines and self._spent < self._urgency.turn_s(TURN_S) and not reader.is_held:
            self._parse_some(reader, data)
            if self._lines:
                self._go_on()
        else:
            self._wait(reader, memoryview(data), is_new=True)
        if self._lines or self._spent >= LITTLE_S:
            has_time = self._spent < self._urgency.turn_s(TURN_S)
            self._begin(0.0 if has_time else self._urgency.rest_s(self._spent))
        if reader in self:
            reader.transport.pause_reading()

    def wake(self, reader: SlicedReader) -> None:
        """The application has taken what was parsed, and may have resumed reading. (rule 4)"""
        if reader in self:
            reader.transport.pause_reading()
        data = self._held.pop(reader, None)
        if data is not None:
            self._wait(reader, data, is_new=False)
            self._begin()

    def forget(self, reader: SlicedReader) -> None:
        """A connection has closed."""
        self._waiting.pop(reader, None)
        self._held.pop(reader, None)

    def _wait(self, reader: SlicedReader, data: memoryview, *, is_new: bool) -> None:
        self._waiting[reader] = data
        line = self._lines.setdefault(reader.party, _Line())
        (line.new if is_new else line.busy)[reader] = None

    def _begin(self, rest_s: float = 0.0) -> None:
        """The slices have time again in the next turn of the loop, or after a rest."""
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            loop.call_later(rest_s, self._turn) if rest_s else loop.call_soon(self._turn)

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._is_due, self._spent = False, 0.0
        try:
            self._go_on()
        finally:
            if self._lines or self._spent >= LITTLE_S:
                self._begin(self._urgency.rest_s(self._spent))

    def _go_on(self) -> None:
        turn_s = self._urgency.turn_s(TURN_S)
        while self._lines and self._spent < turn_s:
            party = next(iter(self._lines))
            line = self._lines.pop(party)
            reader = line.next()
            if line.new or line.busy:
                self._lines[party] = line  # behind all others
            data = self._waiting.pop(reader, None)
            if data is None:  # it has closed
                continue
            if reader.is_held:
                self._held[reader] = data
                continue
            self._parse_some(reader, data)
            is_done = reader not in self and not reader.is_held
            if is_done and not reader.transport.is_closing():
                reader.transport.resume_reading()

    def _parse_some(self, reader: SlicedReader, data: bytes | memoryview) -> None:
        if len(data) > SLICE_BYTES:
            size = reader.slice_of(bytes(data[:LONG_SLICE_BYTES]))
            if size < len(data):
                data = memoryview(data)
                self._wait(reader, data[size:], is_new=False)
                data = data[:size]
        began = self._clock()
        try:
            reader.parse(bytes(data))
        except BaseException:  # rule 5
            self.forget(reader)
            reader.transport.abort()
            raise
        finally:
            self._spent += self._clock() - began
        if reader.transport.is_closing():
            self.forget(reader)
