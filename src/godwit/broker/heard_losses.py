"""Known losses: brokers that have lost their last inputs, and the time since when.

*Theory.* A session need not be touched when a loss is heard of. Losses are numbered as they are heard, and a session
remembers up to which number it has been told: its next receipt has the earliest time of the rest (`lost_since`).

*Rules.*
1. Hearing of a loss is a constant amount of work, however many sessions there are.
2. `KEPT_MAX` losses are kept, and the oldest two become one when there are more: nothing is left untold, and a session
   may be told an earlier time than necessary.
"""

import msgspec

__all__ = ["HeardLosses", "HeardLossesState"]

KEPT_MAX = 64


class HeardLossesState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many losses there were, and what is kept of them."""

    count: int = 0
    losses: tuple[tuple[int, float], ...] = ()


class HeardLosses:
    """The losses, by number."""

    def __init__(self) -> None:
        self.count = 0
        self._losses: list[tuple[int, float]] = []  # number, and since when something may be lost; the latest last

    def hear(self, since: float) -> None:
        """A broker has lost some of what came after this time."""
        self.count += 1
        self._losses.append((self.count, since))
        if len(self._losses) > KEPT_MAX:
            (_, first), (number, second) = self._losses[:2]
            self._losses[:2] = [(number, min(first, second))]

    def since(self, after: int) -> float | None:
        """The earliest time of all losses with a number above `after`; None: there were none."""
        if after >= self.count:
            return None
        return min(since for number, since in self._losses if number > after)

    @property
    def last(self) -> float | None:
        """Since when the last loss may have cost something; None: there was none."""
        return self._losses[-1][1] if self._losses else None

    def snapshot(self) -> HeardLossesState:
        """All that is known."""
        return HeardLossesState(self.count, tuple(self._losses))

    def restore(self, state: HeardLossesState) -> None:
        """Know this, and nothing besides."""
        self.count, self._losses = state.count, list(state.losses)
