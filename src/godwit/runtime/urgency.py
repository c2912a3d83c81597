"""Whether a client with little traffic waits for an answer: what can wait is then done in shorter turns, with rests.

*Theory.* An event of such a client waits for two batches of the journal: the one that is being written, and its own.
Meanwhile the event loop has time for others, and uses it: it decodes packets, parses HTTP, reads documents, and handles
inputs of clients with a backlog. All of that delays the event. It holds the loop, and Python's lock, which the thread
of the journal needs several times for one batch. And what is handled for the batch of the event is carried out with it.
So until the event is on its way, such work has less time. It is not stopped: of many such clients one always waits.

*Rules.*
1. `is_new`: the request of such a client is handled, and not given to the journal yet. `is_written`: it is in the batch
   that is being written.
2. While one of them is true, decoding, parsing and reading have `SHORT_TURN_S` instead of their turns, and rest after
   each for as long as it took, `REST_S_MAX` at most.
3. Clients with a backlog have `URGENT_S` of a turn of the node. While `is_new` and a batch is written, they have it
   once, and again after each rest of `BACKLOG_REST_S`: the disk may take long, and a quarter of the time is theirs.
"""

from collections.abc import Callable

from godwit.runtime.clock import Clock

__all__ = ["BACKLOG_REST_S", "REST_S_MAX", "SHORT_TURN_S", "URGENT_S", "Urgency"]

SHORT_TURN_S = 0.001
REST_S_MAX = 0.004
URGENT_S = 0.002
BACKLOG_REST_S = 0.006


class Urgency:
    """What a node tells those who share its event loop."""

    __slots__ = ("_is_backlog_resting", "is_new", "is_written", "left_s")

    def __init__(self) -> None:
        self._is_backlog_resting = False  # (rule 3)
        self.end()

    def end(self) -> None:
        """No such client waits any more: all effects are carried out, or dropped."""
        self.is_new = self.is_written = False  # (rule 1)
        self.left_s = URGENT_S  # for clients with a backlog (rule 3)

    @property
    def is_on(self) -> bool:
        """Whether such a client waits."""
        return self.is_new or self.is_written

    def uses_up(self, took_s: float) -> bool:
        """A turn took so long, and left a backlog, while a batch is written: whether the backlog rests now. (rule 3)"""
        if self.is_new:
            self.left_s = max(0.0, self.left_s - took_s)
        return self.is_new and self.left_s <= 0

    def rest_backlog(self, clock: Clock, then: Callable[[], None]) -> None:
        """After a rest, clients with a backlog have time again, and this is called. (rule 3)"""
        if not self._is_backlog_resting:
            self._is_backlog_resting = True
            clock.call_later(BACKLOG_REST_S, self._end_rest, then)

    def _end_rest(self, then: Callable[[], None]) -> None:
        self._is_backlog_resting, self.left_s = False, URGENT_S
        then()

    def begin_batch(self) -> None:
        """What is handled is given to the journal now."""
        self.is_written, self.is_new, self.left_s = self.is_new, False, URGENT_S

    def end_batch(self, *, has_more: bool) -> None:
        """A batch is safe; whether more is handled, which waits for the next one."""
        self.is_written = False
        if not has_more:
            self.end()

    def turn_s(self, usual_s: float) -> float:
        """How long a turn may take. (rule 2)"""
        return SHORT_TURN_S if self.is_new or self.is_written else usual_s

    def rest_s(self, took_s: float) -> float:
        """How long to rest after a turn that took so long. (rule 2)"""
        return min(took_s, REST_S_MAX) if self.is_new or self.is_written else 0.0
