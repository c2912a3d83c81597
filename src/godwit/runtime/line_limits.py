"""How many lines of a log peers may cause: one of them, and all together.

*Rules.*
1. Beyond its rate, lines of a peer are not written, and beyond the rate of all those of anybody. The next line says how
   many were not (`suppressed`).
2. What is remembered of peers is bounded (`PEERS_MAX`).
"""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from godwit.runtime.rate_limits import TokenBucket

__all__ = ["LineLimits"]

PEER_BURST, PEER_PER_S = 20, 1.0
ALL_BURST, ALL_PER_S = 200, 20.0
PEERS_MAX = 1_000


class LineLimits:
    """The budgets of lines. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.suppressed = 0  # lines that were not written since the last one
        self._clock = clock
        self._all = TokenBucket(ALL_PER_S, ALL_BURST, clock())
        self._peers: OrderedDict[str, TokenBucket] = OrderedDict()

    def room(self, peer: str) -> dict[str, int] | None:
        """What a line of this peer must say besides; None if it must not be written. (rule 1)"""
        now = self._clock()
        bucket = self._peers.pop(peer, None) or TokenBucket(PEER_PER_S, PEER_BURST, now)
        self._peers[peer] = bucket
        if len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)
        if not bucket.has(1, now) or not self._all.has(1, now):
            self.suppressed += 1
            return None
        bucket.take(1, now)
        self._all.take(1, now)
        more = {"suppressed": self.suppressed} if self.suppressed else {}
        self.suppressed = 0
        return more
