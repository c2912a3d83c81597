"""The bytes that peers make this process hold, and what goes when they are too many.

*Theory.* Every connection reports the bytes of a message that has begun to arrive and is not complete (*partial*). What
is held longer (queues, notes, retained events) is counted where it is kept, and bounded by `Limits`. Parties are users;
peers that are not let in yet are counted by their host.

*Rules.*
1. Partial messages hold at most `partial_bytes_max` together. Past it connections are closed: first those of peers that
   are not let in yet, then others; of these the party that holds the most, and of its connections the one whose message
   began first.
2. A message must be complete `frame_s` after it began, and `frame_s` later for each MiB of it that has come.
3. Nothing is reserved for a message before its bytes are there.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from godwit.runtime.rate_limits import TrafficLimits

__all__ = ["TOO_SLOW", "Holder", "MemoryAccount", "memory_account"]

CHECK_S = 1.0
TOO_SLOW = "limits.frame_s"  # with which the reason begins when a message took too long
MIB = 2**20


class Holder(Protocol):
    """A connection that holds bytes."""

    @property
    def party(self) -> str:
        """The user that it is of, or the host while nobody knows the user."""

    @property
    def is_admitted(self) -> bool:
        """Whether its peer was let in."""

    def let_go(self, reason: str) -> None:
        """Close it."""


class PartialMessage(msgspec.Struct):
    """A message that has begun to arrive."""

    size: int
    began: float


class MemoryAccount:
    """What the connections of a process hold."""

    def __init__(self, partial_bytes_max: int, frame_s: float) -> None:
        self.partial_bytes_max = partial_bytes_max
        self.frame_s = frame_s
        self.partial_bytes = 0
        self.shed = 0  # connections that were closed for what they held
        self.is_full = False  # the process holds too much: nobody new is taken (`memory_guard.py`)
        self.held: Callable[[], dict[str, int]] = lambda: {"partial": self.partial_bytes}  # bytes, by what holds them
        self._partial: dict[Holder, PartialMessage] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on_partial(self, holder: Holder, size: int, *, is_new: bool) -> None:
        """A connection holds so many bytes of an incomplete message; `is_new`: of another one than before."""
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

    def forget(self, holder: Holder) -> None:
        """A connection is gone."""
        known = self._partial.pop(holder, None)
        if known is not None:
            self.partial_bytes -= known.size

    def shed_partial(self, bytes_max: int) -> None:
        """Close connections until partial messages hold no more than that. (rule 1)"""
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
        """Close a connection for what it holds."""
        self.forget(holder)
        self.shed += 1
        holder.let_go(reason)

    def _check(self) -> None:
        """Close what has taken too long. (rule 2)"""
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
