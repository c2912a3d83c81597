"""Calls of parties that take turns, for a bounded time in each turn of the event loop.

*Theory.* A user may have thousands of connections, and all of them may send at the same time. What each sends is
handled in pieces of a few milliseconds, but the loop would handle a piece of every connection before it does anything
else. So the pieces of all connections have `TURN_S` together, and parties (users) take turns: one with many connections
waits for itself.

*Rules.*
1. Calls of one party are made in order.
2. In one turn of the loop, no call begins after others have taken the time of the turn. It waits for the next turns.
3. A call that is to come `soon` is never made in this turn.
4. The end of a turn of the loop is only looked for after calls have taken `LITTLE_S`: at low rates that would cost more
   than to find packets in what was received.
5. While a client with little traffic waits for its answer, the time of a turn is shorter, and the calls rest after it
   (`urgency.py`).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

from godwit.runtime.urgency import Urgency

__all__ = ["TURN_S", "PartyTurns"]

TURN_S = 0.004
LITTLE_S = 0.001


class PartyTurns:
    """The calls that wait. In one turn of the loop they have `turn_s`."""

    def __init__(
        self, clock: Callable[[], float] = perf_counter, urgency: Urgency | None = None, turn_s: float = TURN_S
    ) -> None:
        self.clock = clock
        self._urgency = Urgency() if urgency is None else urgency
        self._usual_s = turn_s
        self.is_free = True  # a call may be made now: none waits, and there is time (rules 1 and 2)
        self._lines: dict[str, deque[Callable[[], None]]] = {}  # by party
        self._soon: list[tuple[str, Callable[[], None]]] = []  # for the next turn (rule 3)
        self._spent = 0.0  # time of the calls of this turn of the loop, and of a few before it (rule 4)
        self._is_due = False

    @property
    def is_short(self) -> bool:
        """Whether turns are shorter at present. (rule 5)"""
        return self._urgency.is_on

    def call(self, party: str | Callable[[], str], call: Callable[[], None]) -> None:
        """Make this call now, or in one of the next turns; then the party is asked for."""
        if self.is_free:
            began = self.clock()
            call()
            self.spend(began)
        else:
            self._lines.setdefault(party if isinstance(party, str) else party(), deque()).append(call)
            self._begin()

    def spend(self, began: float) -> None:
        """A call was made, while they were free (`is_free`), that began at this time of their `clock`."""
        self._spent = spent = self._spent + self.clock() - began
        if spent >= LITTLE_S:
            self.is_free = spent < self._urgency.turn_s(self._usual_s)
            self._begin(0.0 if self.is_free else self._urgency.rest_s(spent))

    def soon(self, party: str, call: Callable[[], None]) -> None:
        """Make this call in one of the next turns."""
        self._begin()
        self._soon.append((party, call))

    def _begin(self, rest_s: float = 0.0) -> None:
        """The calls have time again in the next turn of the loop, or after a rest."""
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            loop.call_later(rest_s, self._turn) if rest_s else loop.call_soon(self._turn)

    def _turn(self) -> None:
        """The next turn of the loop."""
        self._spent, self.is_free = 0.0, False  # what is called meanwhile waits behind others
        soon, self._soon = self._soon, []
        turn_s = self._urgency.turn_s(self._usual_s)
        for party, call in soon:
            self._lines.setdefault(party, deque()).append(call)
        try:
            while self._lines and self._spent < turn_s:
                party = next(iter(self._lines))
                line = self._lines.pop(party)
                call = line.popleft()
                if line:
                    self._lines[party] = line  # behind all others
                began = self.clock()
                call()
                self._spent += self.clock() - began
        finally:
            self.is_free = not self._lines and self._spent < turn_s
            self._is_due = False
            if self._lines or self._soon or self._spent >= LITTLE_S:
                self._begin(self._urgency.rest_s(self._spent))
