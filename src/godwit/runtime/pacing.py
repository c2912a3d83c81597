"""A bounded number of calls in each turn of the event loop: bursts are spread over several turns.

*Theory.* A client with a thousand connections may close all of them at once, or send a request over each. The loop
would handle all of them before it reads or writes anything else. Each takes a fraction of a millisecond, and all of
them hundreds. So the first few of a turn are handled at once, and the others wait for the next turns.

*Rules.*
1. Calls are made in order.
2. In one turn of the loop at most `per_turn` calls are made.
"""

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["PER_TURN", "Pacer"]

PER_TURN = 8


class Pacer:
    """Calls that wait for their turn."""

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = per_turn
        self._waiting: deque[Callable[[], None]] = deque()
        self._made = 0  # calls in this turn
        self._is_due = False

    def __len__(self) -> int:
        """The number of waiting calls."""
        return len(self._waiting)

    def call(self, call: Callable[[], None]) -> None:
        """Call this now, or in one of the next turns."""
        if self._made < self._per_turn and not self._waiting:
            self._made += 1
            self._see_to_it()
            call()
        else:
            self.soon(call)

    def soon(self, call: Callable[[], None]) -> None:
        """Call this in one of the next turns, and never now."""
        self._waiting.append(call)
        self._see_to_it()

    def _see_to_it(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    async def turn(self) -> None:
        """Wait for the caller's turn: at once, if there are few."""
        if self._made < self._per_turn and not self._waiting:
            self.call(_nothing)
            return
        its_turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call(lambda: None if its_turn.done() else its_turn.set_result(None))
        await its_turn

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._made = 0
        self._is_due = bool(self._waiting)
        if self._is_due:
            asyncio.get_running_loop().call_soon(self._turn)
        while self._waiting and self._made < self._per_turn:
            self._made += 1
            self._waiting.popleft()()


def _nothing() -> None:
    """A call that only counts."""
