"""Observations that run only while they are requested: the last events, and event counts by neighbour.

*Theory.* A page of the dashboard asks every few seconds. Its first question begins an observation, and each further one
extends it by `LEASE_S`. An observation whose lease has expired ends at the next turn of the broker, and frees its
memory. So there is no timer, and an unobserved broker pays for one test per turn.

The last events begin with those that are recorded anyway (`activity_monitor.py`), so a new page is not empty at first.

*Rules.*
1. Nothing is observed before the first question, and nothing is kept after the first turn in which the lease has
   expired.
2. The last events are at most `EVENTS_MAX`, of at most `BYTES_MAX` bytes.
3. Events are those that clients have published at this broker: in a network each is kept once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from godwit.broker.effects import Arrived, Heard
from godwit.broker.queues import event_size
from godwit.filters.events import Event
from godwit.runtime.activity_monitor import ActivityMonitor, Turn, event_in

__all__ = ["BYTES_MAX", "EVENTS_MAX", "LEASE_S", "LinkTraffic", "Observation", "RecentEvents"]

LEASE_S = 30.0
EVENTS_MAX = 10_000
BYTES_MAX = 8 * 2**20


class Observation:
    """Passes turns to `take` while the lease lasts; `forget` is called when it ends."""

    def __init__(self, activity: ActivityMonitor, take: Callable[[Turn, float], None], forget: Callable[[], None]):
        self._activity = activity
        self._take = take
        self._forget = forget
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether turns are observed."""
        return self._on_turn in self._activity.observers

    def renew(self, now: float) -> bool:
        """Extend the lease; returns whether the observation has begun now."""
        self._until = now + LEASE_S
        begins = not self.is_on
        self._activity.observers[self._on_turn] = None
        return begins

    def _on_turn(self, inputs: Turn, now: float) -> None:
        if now <= self._until:
            self._take(inputs, now)
        else:
            del self._activity.observers[self._on_turn]
            self._forget()


class RecentEvents:
    """The last events that clients have published here."""

    def __init__(self, activity: ActivityMonitor) -> None:
        self.since: float | None = None  # time since which all events are kept; None: not observed
        self._activity = activity
        self._observation = Observation(activity, self._take, self._forget)
        self._events: deque[tuple[float, Event, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def latest(self, now: float) -> Iterator[tuple[float, Event]]:
        """The events, each with its time, the latest first. Extends the lease."""
        if self._observation.renew(now):
            remembered = list(islice(self._activity.latest_events(), EVENTS_MAX))
            self.since = self._activity.kept_since(now)
            for at, event in reversed(remembered):
                self._keep(at, event)
        return ((at, event) for at, event, _ in reversed(list(self._events)))

    def _take(self, inputs: Turn, now: float) -> None:
        for input, _ in inputs:
            event = event_in(input) if type(input) is Heard else None
            if event is not None:
                self._keep(now, event)

    def _keep(self, at: float, event: Event) -> None:
        size = event_size(event)
        self._events.append((at, event, size))
        self._bytes += size
        while len(self._events) > EVENTS_MAX or self._bytes > BYTES_MAX:  # rule 2
            self._bytes -= self._events.popleft()[2]
            self.since = self._events[0][0] if self._events else at

    def _forget(self) -> None:
        self._events.clear()
        self._bytes = 0
        self.since = None


class LinkTraffic:
    """The number of events from each neighbour since the observation began."""

    def __init__(self, activity: ActivityMonitor) -> None:
        self._observation = Observation(activity, self._take, self._forget)
        self._events: dict[str, int] = {}

    @property
    def is_counted(self) -> bool:
        """Whether somebody looks."""
        return self._observation.is_on

    def received(self, now: float) -> dict[str, int]:
        """Events by neighbour, since the observation began. Extends the lease."""
        self._observation.renew(now)
        return dict(self._events)

    def _take(self, inputs: Turn, now: float) -> None:
        events = self._events
        for input, _ in inputs:
            if type(input) is Arrived and event_in(input) is not None:
                events[input.peer] = events.get(input.peer, 0) + 1

    def _forget(self) -> None:
        self._events.clear()
