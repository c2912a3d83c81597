"""What is observed only while somebody asks for it: the last events, and how many come from each neighbour.

*Theory.* A page of the dashboard asks every few seconds. Its first question begins an observation, and each further one
keeps it going for `LEASE_S`. An observation that nobody asks for any more ends at the next turn of the broker, and lets
go of what it has kept. So there is no timer, and a broker that nobody looks at pays for one test a turn.

The last events begin with those that are remembered anyway (`activity_monitor.py`), so a page that has just been opened
does not begin with nothing.

*Rules.*
1. Nothing is observed before somebody asks, and nothing is kept after the lease has expired and a turn has come.
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
    """Shows turns to `take` while it is asked for; `forget` is called when it ends."""

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
        """Somebody asks. Whether it has begun by that."""
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
        self.since: float | None = None  # when the oldest that could be kept came; None: nobody asks
        self._activity = activity
        self._observation = Observation(activity, self._take, self._forget)
        self._events: deque[tuple[float, Event, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def latest(self, now: float) -> Iterator[tuple[float, Event]]:
        """The events, each with when it came, the latest first. Asking keeps the observation going."""
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
    """How many events have come from each neighbour since somebody looks."""

    def __init__(self, activity: ActivityMonitor) -> None:
        self._observation = Observation(activity, self._take, self._forget)
        self._events: dict[str, int] = {}

    @property
    def is_counted(self) -> bool:
        """Whether somebody looks."""
        return self._observation.is_on

    def received(self, now: float) -> dict[str, int]:
        """Events by neighbour, since the observation began. Asking keeps it going."""
        self._observation.renew(now)
        return dict(self._events)

    def _take(self, inputs: Turn, now: float) -> None:
        events = self._events
        for input, _ in inputs:
            if type(input) is Arrived and event_in(input) is not None:
                events[input.peer] = events.get(input.peer, 0) + 1

    def _forget(self) -> None:
        self._events.clear()
