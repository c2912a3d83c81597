"""How much of a run's work is done, for a progress bar.

*Theory.* Simulated time is a poor measure. Most work is done until the last event is published; while the run settles,
time passes with few messages. And when simulated time has ended, all clients leave, and the checkers judge the run.
"""

from collections.abc import Callable

__all__ = ["SIMULATED", "RunProgress"]

SIMULATED = 0.9  # of the work of a run; the rest is leaving and judging
QUIET = 0.1  # work of a second of settling, compared with one before


class RunProgress:
    """Calls a function with the finished share of all work, of which this run is `share`, and comes first."""

    def __init__(
        self, tell: Callable[[float], None] | None, publishing_ends_s: float, ends_s: float, share: float = 1.0
    ) -> None:
        self._tell = tell
        self._publishing_ends_s = publishing_ends_s
        self._ends_s = ends_s
        self._share = share

    def simulated(self, now: float) -> None:
        """Simulated time has come to here."""
        self._advance(SIMULATED * self._work(now) / self._work(self._ends_s))

    def ended(self) -> None:
        """The run has been judged."""
        self._advance(1.0)

    def twin(self) -> Callable[[float], None] | None:
        """What to call with the finished share of a second run, which is the rest of the work."""
        tell, share = self._tell, self._share
        return None if tell is None else lambda done: tell(share + done * (1.0 - share))

    def _work(self, now: float) -> float:
        return min(now, self._publishing_ends_s) + QUIET * max(0.0, now - self._publishing_ends_s)

    def _advance(self, done: float) -> None:
        if self._tell is not None:
            self._tell(done * self._share)
