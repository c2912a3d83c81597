"""The timers of a machine, with one timer of the clock for the earliest of them.

A broker has a timer for every session whose client is away. A timer of the event loop for each of them takes 600 bytes,
an entry here 200.

An event loop may call up to `EARLY_S` too early. A timer is then due all the same, and `on_due` is told the time that
it was set for: the machine must not be given an earlier one.
"""

from collections.abc import Callable, Iterable, Mapping

from godwit.broker.effects import Effect, StartTimer, StopTimer, TimerKey
from godwit.broker.ranking import Ranking
from godwit.runtime.clock import Clock, Timer

__all__ = ["NodeTimers"]

EARLY_S = 0.001  # an event loop with a resolution of milliseconds may call this much too early


class NodeTimers:
    """Due times by timer; `on_due` is called for each with the time that it was set for, after `run`."""

    def __init__(self, clock: Clock, on_due: Callable[[TimerKey, float], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._due: Ranking[TimerKey] = Ranking()
        self._next: Timer | None = None
        self._next_at = 0.0

    def times(self) -> dict[TimerKey, float]:
        """The due time of each timer."""
        return self._due.ranks()

    def times_after(self, effects: Iterable[Effect]) -> dict[TimerKey, float]:
        """The due time of each timer, as it will be when these effects are carried out."""
        times = self.times()
        for effect in effects:
            if type(effect) is StartTimer:
                times[effect.key] = effect.at
            elif type(effect) is StopTimer:
                times.pop(effect.key, None)
        return times

    def note(self, effect: Effect) -> None:
        """Start or stop a timer, if the effect is one. Call `run` afterwards."""
        if type(effect) is StartTimer:
            self._due.put(effect.key, effect.at)
        elif type(effect) is StopTimer:
            self._due.discard(effect.key)

    def forget(self, key: TimerKey) -> None:
        """A timer is due."""
        self._due.discard(key)

    def replace(self, times: Mapping[TimerKey, float]) -> None:
        """Replace all timers; none of them runs yet."""
        self.stop()
        self._due = Ranking()
        for key, at in times.items():
            self._due.put(key, at)

    def run(self) -> None:
        """Set the clock's timer for the earliest of them."""
        first = self._due.lowest()
        if first is None or (self._next is not None and self._next_at <= first[0]):
            return
        self.stop()
        self._next_at = first[0]
        self._next = self._clock.call_later(max(0.0, self._next_at - self._clock.time()), self._on_time)

    def stop(self) -> None:
        """Cancel the clock's timer."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _on_time(self) -> None:
        self._next = None
        now = self._clock.time() + EARLY_S
        while (first := self._due.lowest()) is not None and first[0] <= now:
            at, key = first
            self._due.discard(key)
            self._on_due(key, at)
        self.run()
