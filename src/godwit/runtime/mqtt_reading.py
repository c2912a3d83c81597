"""Whether an MQTT client is read.

*Rules.*
1. A client above its rate is not read for a while, whatever else would let it be read.
2. A client that is not read, or was not until a moment ago, is not silent: its keep alive does not end (`is_silent`).
"""

from collections.abc import Callable

from godwit.runtime.loop_timers import LoopTimers

__all__ = ["GRACE_S", "Reading"]

REST = ("rest",)
GRACE_S = 1.0  # for what a client has sent while it was not read


class Reading:
    """Reading from one connection. `pause` stops and resumes it; `clock` gives seconds."""

    def __init__(self, pause: Callable[[bool], None], timers: LoopTimers, clock: Callable[[], float]) -> None:
        self._pause: Callable[[bool], None] | None = pause
        self._timers, self._clock = timers, clock
        self._resumed_at = clock()
        self.is_paused = False

    def hold_back(self, is_paused: bool) -> None:
        """Pause or resume reading. (rule 1)"""
        if is_paused is not self.is_paused and self._pause is not None and REST not in self._timers:
            self.is_paused = is_paused
            self._resumed_at = self._clock()
            self._pause(is_paused)

    def rest(self, wait_s: float, go_on: Callable[[], None]) -> None:
        """The client is above its rate: pause for so long."""
        if REST not in self._timers:
            self.hold_back(True)
            self._timers.start(REST, wait_s, go_on)

    def is_silent(self) -> bool:
        """Whether the client could have been heard, if it had sent something. (rule 2)"""
        return not self.is_paused and self._clock() >= self._resumed_at + GRACE_S

    def end(self) -> None:
        """The client is not there any more."""
        self._pause = None
