"""Memory that peers occupy in this process, and the connections that are closed when it is too much.

*Theory.* Every connection reports the bytes of an incomplete message (*partial*). Longer-lived data (queues, notes,
retained events) is counted where it is stored, and bounded by `Limits`. Parties are users; peers before authentication
are counted by their host.

*Rules.*
1. Partial messages use at most `partial_bytes_max` together. Beyond that connections are closed: first those of peers
   before authentication, then others; of these the party that uses the most, and of its connections the one whose
   message began first.
2. A message must be complete `frame_s` after it began, and `frame_s` later for each MiB of it that has arrived.
3. No memory is reserved for a message before its bytes arrive.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from godwit.runtime.rate_limits import TrafficLimits

__all__ = ["TOO_SLOW", "Holder", "MemoryAccount", "memory_account"]

CHECK_S = 1.0
TOO_SLOW = "limits.frame_s"  # the beginning of the reason when a message took too long
MIB = 2**20


class Holder(Protocol):
    """A connection that uses memory."""

    @property
    def party(self) -> str:
        """Its user, or its host before authentication."""

    @property
    def is_admitted(self) -> bool:
        """Whether its peer is authenticated."""

    def let_go(self, reason: str) -> None:
        """Close it."""


class PartialMessage(msgspec.Struct):
    """A message that has begun to arrive."""

    size: int
    began: float


class MemoryAccount:
    """The memory of a process's connections."""

    def __init__(self, partial_bytes_max: int, frame_s: float) -> None:
        self.partial_bytes_max = partial_bytes_max
        self.frame_s = frame_s
        self.partial_bytes = 0
        self.undecoded: list[Callable[[], int]] = []  # of listeners: bytes that came and wait for their turn
        self.shed = 0  # connections that were closed for their memory
        self.is_full = False  # the process uses too much: new connections are refused (`memory_guard.py`)
        self.held: Callable[[], dict[str, int]] = lambda: {"partial": self.partial_bytes}  # bytes by kind
        self._partial: dict[Holder, PartialMessage] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on_partial(self, holder: Holder, size: int, *, is_new: bool) -> None:
        """A connection has this number of bytes of an incomplete message; `is_new`: a new message has begun."""
        known = self._partial.get(holder)
        self.partial_bytes += size - (0 if known is None else known.size)
        if not size:
            self._partial.pop(holder, None)
            return
        loop = asyncio.get_running_loop()
        if known is None or is_new:
            self._partial.pop(holder, None)  # the order is that in which messages began
            self._partial[holder] = PartialMessage(size, loop.time())
        else:
            known.size = size
        if self.partial_bytes > self.partial_bytes_max:
            self.shed_partial(self.partial_bytes_max)
        if self._timer is None and self._partial:
            self._timer = loop.call_later(CHECK_S, self._check)

    def undecoded_bytes(self) -> int:
        """How many bytes wait for their turn to be decoded."""
        return sum(count() for count in self.undecoded)

    def forget(self, holder: Holder) -> None:
        """A connection has closed."""
        known = self._partial.pop(holder, None)
        if known is not None:
            self.partial_bytes -= known.size

    def shed_partial(self, bytes_max: int) -> None:
        """Close connections until partial messages use no more than that. (rule 1)"""
        reason = f"incomplete messages of all connections hold more than {self.partial_bytes_max} bytes"
        while self.partial_bytes > bytes_max:
            self.close(self._first_to_go(), f"limits.partial_bytes_max: {reason}")

    def _first_to_go(self) -> Holder:
        strangers = [holder for holder in self._partial if not holder.is_admitted]
        held: dict[str, int] = {}
        candidates = strangers or list(self._partial)
        for holder in candidates:
            held[holder.party] = held.get(holder.party, 0) + self._partial[holder].size
        return max(candidates, key=lambda holder: held[holder.party])  # of equals, the first

    def close(self, holder: Holder, reason: str) -> None:
        """Close a connection because of its memory."""
        self.forget(holder)
        self.shed += 1
        holder.let_go(reason)

    def _check(self) -> None:
        """Close connections whose messages take too long. (rule 2)"""
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        for holder, message in list(self._partial.items()):
            if now - message.began > self.frame_s * (1 + message.size / MIB):
                self.close(holder, f"{TOO_SLOW}: a message was not complete after {now - message.began:.0f} s")
        if self._partial:
            self._timer = loop.call_later(CHECK_S, self._check)


def memory_account(traffic: TrafficLimits) -> MemoryAccount:
    """An account with the bounds of a configuration."""
    return MemoryAccount(traffic.partial_bytes_max, traffic.frame_s)
