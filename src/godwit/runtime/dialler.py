"""Connects to neighbours, and reconnects with growing pauses when an attempt fails or a link ends.

*Rules.*
1. Each failed attempt doubles the wait before the next one, from `first_s` up to `max_s`.
2. The wait is `first_s` again after a link that was accepted, and only then: a neighbour that takes the connection and
   then refuses the link is a failed attempt, too.
3. There is one attempt at a time for each neighbour. If a connection ends before `connect` returns, another attempt
   follows.
"""

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Dialler"]


class Dialler:
    """Dials by `connect`, which raises OSError when a neighbour cannot be reached."""

    def __init__(
        self,
        connect: Callable[[str], Awaitable[None]],
        *,
        first_s: float,
        max_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connect = connect
        self._first_s, self._max_s = first_s, max_s
        self._sleep = sleep
        self._waits: dict[str, float] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}  # attempts that follow the one under way, and after how long
        self._is_closed = False

    def dial(self, peer: str, wait_s: float = 0.0) -> None:
        """Connect to a neighbour after a pause, unless an attempt is under way. (rule 3)"""
        if not self._is_closed and peer not in self._dialling:
            self._dialling[peer] = asyncio.create_task(self._dial(peer, wait_s))

    async def _dial(self, peer: str, wait_s: float) -> None:
        try:
            await self._sleep(wait_s)
            await self._connect(peer)
        except OSError:
            self.redial(peer, was_accepted=False)
        finally:
            del self._dialling[peer]
        if peer in self._due:
            self.dial(peer, self._due.pop(peer))

    def redial(self, peer: str, *, was_accepted: bool) -> None:
        """Reconnect: an attempt has failed, or a link has ended. (rules 1, 2)"""
        if was_accepted:
            self._waits.pop(peer, None)
        wait_s = self._waits.get(peer, self._first_s)
        self._waits[peer] = min(2 * wait_s, self._max_s)
        if peer in self._dialling:
            self._due[peer] = wait_s
        else:
            self.dial(peer, wait_s)

    def close(self) -> None:
        """Dial no more."""
        self._is_closed = True
        for task in list(self._dialling.values()):
            task.cancel()
