"""Calls of parties that take turns, for a bounded time in each turn of the event loop.

*Theory.* A user may have thousands of connections, and all of them may send at the same time. What each sends is
handled in pieces of a few milliseconds, but the loop would handle a piece of every connection before it does anything
else. So the pieces of all connections have `TURN_S` together, and parties (users) take turns: one with many connections
waits for itself.

*Rules.*
1. Calls of one party are made in order.
2. In one turn of the loop, no call begins later than `TURN_S` after the first one. The others wait for the next turns.
3. A call that is to come `soon` is never made in this turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

__all__ = ["TURN_S", "PartyTurns"]

TURN_S = 0.004


class PartyTurns:
    """The calls that wait."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._lines: dict[str, deque[Callable[[], None]]] = {}  # by party
        self._soon: list[tuple[str, Callable[[], None]]] = []  # for the next turn (rule 3)
        self._until = 0.0  # calls of this turn of the loop may begin
        self._is_due = False

    def call(self, party: str, call: Callable[[], None]) -> None:
        """Make this call now, or in one of the next turns."""
        is_alone = not self._lines
        self._begin()
        if is_alone and self._clock() < self._until:
            call()
        else:
            self._lines.setdefault(party, deque()).append(call)

    def soon(self, party: str, call: Callable[[], None]) -> None:
        """Make this call in one of the next turns."""
        self._begin()
        self._soon.append((party, call))

    def _begin(self) -> None:
        """This turn of the loop has `TURN_S` from now on, if no call was made in it."""
        if not self._is_due:
            self._is_due = True
            self._until = self._clock() + TURN_S
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._is_due = False
        soon, self._soon = self._soon, []
        for party, call in soon:
            self._lines.setdefault(party, deque()).append(call)
        if self._lines:
            self._begin()
        while self._lines and self._clock() < self._until:
            party = next(iter(self._lines))
            line = self._lines.pop(party)
            call = line.popleft()
            if line:
                self._lines[party] = line  # behind all others
            call()
