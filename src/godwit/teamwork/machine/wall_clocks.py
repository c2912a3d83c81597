"""Detection of a wrong clock of this device, by the times that other devices report.

*Theory.* Nothing that peers must agree on depends on the time of day: changes have an order of their own
(`changes.py`). But a search ends at a time, and so does presence. A device whose clock is behind asks questions that
brokers take for over; one whose clock is ahead takes the questions of others for over. Nobody else is affected; its
user should know.

Each peer says at times until when its presence holds, and so what its clock showed. Such an event is under way for no
more than `HOLDS_S`: after that, brokers drop it. So a clock that seems to be ahead of ours is, and one that seems to be
behind by more than `HOLDS_S` is, too, or else the fault is ours. Ours it is if most of the others say so.

*Rules.*
1. At most `DEVICES_MAX` devices are remembered, the latest.
2. A difference of up to `TOLERATED_S` is no fault.
3. What is wrong is told once, and again when it has become right and wrong again.
"""

from statistics import median

__all__ = ["WallClocks"]

TOLERATED_S = 300.0
DEVICES_MAX = 1_000


class WallClocks:
    """What other devices take the time to be."""

    def __init__(self, holds_s: float) -> None:
        self._holds_s = holds_s
        self._ahead_s: dict[str, float] = {}  # by device, by how much its clock is ahead of ours, at least
        self._was_wrong = False

    def hear(self, device: str, said: float, now: float) -> str:
        """A device said that it is so late; why our clock seems to be wrong, if that is news, or nothing."""
        self._ahead_s.pop(device, None)
        self._ahead_s[device] = self._certain(said - now)
        if len(self._ahead_s) > DEVICES_MAX:
            del self._ahead_s[next(iter(self._ahead_s))]
        wrong = self.problem()
        is_news = bool(wrong) and not self._was_wrong
        self._was_wrong = bool(wrong)
        return wrong if is_news else ""

    def _certain(self, difference_s: float) -> float:
        """What cannot come from the time under way."""
        return difference_s if difference_s > 0 else min(0.0, difference_s + self._holds_s)

    def problem(self) -> str:
        """Why our clock seems to be wrong, or nothing."""
        differences = list(self._ahead_s.values())
        for is_behind in (True, False):
            those = [each for each in differences if (each > TOLERATED_S if is_behind else each < -TOLERATED_S)]
            if 2 * len(those) > len(differences):
                minutes, where = abs(median(those)) / 60, "behind" if is_behind else "ahead of"
                return (
                    f"the clock of this device is at least {minutes:,.0f} minutes {where} "
                    f"those of {len(those)} of {len(differences)} other devices: set it; until then, searches may find "
                    "nothing on other devices"
                )
        return ""
