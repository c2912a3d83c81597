"""Rate limits of clients: messages per connection; work and bytes per user, over all of its connections.

*Theory.* A user with fifty connections is still one user. So its connections share one token bucket for work and one
for bytes, over all protocols (native, MQTT, WebSocket, HTTP). Each anonymous connection (user "") has separate buckets.

*Rules.*
1. HTTP has a connection for each request: all requests of a user count as those of one client.
2. All connections of a user take from the same buckets. Each of them may overdraw them by one piece, and then waits
   until the buckets are no longer in debt.
3. The buckets of a user are kept until its last connection has closed and they are full again: reconnecting does not
   refill them.
4. After a piece of `COSTLY_WORK` or more a user pauses until its rate has refilled that amount, though its bucket may
   be full. Otherwise a burst of large filters would be handled at once, and an event of another client would wait for
   two of them.
5. At most `RESTING_MAX` buckets without a connection are kept; the oldest are removed first. Each closed connection
   checks two of them, so full ones are soon removed.
"""

from collections import OrderedDict
from math import inf

from godwit.runtime.rate_limits import TokenBucket, TrafficLimits

__all__ = ["ClientRate", "ClientRates"]

COSTLY_WORK = 2_000  # as a filter of 200 comparisons: about 5 ms, from decoding to forwarding
RESTING_MAX = 10_000
LOOKED_AT = 2  # buckets to check when a connection closes

Bounds = tuple[float, float, float, float]  # rate and burst of work, and of bytes
Key = tuple[str, str]  # the user; without one, the connection


class SharedBuckets:
    """The buckets of one user, of work and of bytes: two `TokenBucket`s in one, since every message takes from both."""

    __slots__ = ("_at", "_bounds", "_bytes", "_work", "connections", "requests", "rests_until")

    def __init__(self, bounds: Bounds, now: float) -> None:
        self.connections = 0
        self.requests: TokenBucket | None = None  # HTTP requests, as messages (rule 1)
        self.rests_until = 0.0  # after costly work (rule 4)
        self._bounds = bounds
        _, self._work, _, self._bytes = bounds
        self._at = now

    def take(self, work: float, size: float, now: float) -> float:
        """Take work and bytes; returns the time to wait."""
        work_rate, work_burst, bytes_rate, bytes_burst = self._bounds
        work_left, bytes_left = self._work, self._bytes
        if (passed_s := now - self._at) > 0:
            self._at = now
            work_left += passed_s * work_rate
            if work_left > work_burst:  # noqa: PLR1730 (`min` takes longer than all the rest)
                work_left = work_burst
            bytes_left += passed_s * bytes_rate
            if bytes_left > bytes_burst:  # noqa: PLR1730
                bytes_left = bytes_burst
        self._work = work_left = work_left - work
        self._bytes = bytes_left = bytes_left - size
        if work_left >= 0 and bytes_left >= 0:
            return 0.0
        return max(
            -work_left / work_rate if work_left < 0 else 0.0, -bytes_left / bytes_rate if bytes_left < 0 else 0.0
        )

    def rest(self, work: int, now: float) -> None:
        """Pause after costly work, until the rate has refilled it. (rule 4)"""
        self.rests_until = max(self.rests_until, now) + work / self._bounds[0]

    def is_full(self, now: float) -> bool:
        """Whether they are full."""
        self.take(0, 0, now)
        _, work_burst, _, bytes_burst = self._bounds
        is_full = self._work >= work_burst and self._bytes >= bytes_burst
        return is_full and (self.requests is None or self.requests.is_full(now))


class ClientRate:
    """The rates of one connection."""

    __slots__ = ("_key", "_messages", "_rates", "_shared")

    def __init__(self, rates: "ClientRates", key: Key, shared: SharedBuckets, messages: TokenBucket | None) -> None:
        self._rates = rates
        self._key = key
        self._shared = shared
        self._messages = messages

    def take(self, messages: int, size: int, work: int, now: float) -> float:
        """Take messages of this total size, and `work` in addition to 1 for each message and each KiB; returns the
        time to wait."""
        shared = self._shared
        wait_s = shared.take(messages + (size >> 10) + work, size, now)
        if work >= COSTLY_WORK and self._rates.limits_work:
            shared.rest(work, now)
        if shared.rests_until > now:
            wait_s = max(wait_s, shared.rests_until - now)
        return wait_s if self._messages is None else max(wait_s, self._messages.take(messages, now))

    def leave(self, now: float) -> None:
        """The connection has closed. To be called once."""
        self._rates.leave(self._key, self._shared, now)


class ClientRates:
    """The buckets of all clients of a process."""

    def __init__(self, traffic: TrafficLimits) -> None:
        self.limits_work = traffic.work_per_s > 0
        self._traffic = traffic
        self._bounds: Bounds = (
            *_bounds(traffic.work_per_s, traffic.work_burst),
            *_bounds(traffic.bytes_per_s, traffic.bytes_burst),
        )
        self._shared: dict[Key, SharedBuckets] = {}
        self._resting: OrderedDict[Key, None] = OrderedDict()  # without a connection; the longest first

    def __len__(self) -> int:
        """The number of named buckets."""
        return len(self._shared)

    def enter(self, user: str, now: float, connection: str = "") -> ClientRate:
        """A connection of a user is accepted; it must `leave`. `connection`: the HTTP connection of a single
        request."""
        key, traffic = (user, "" if user else connection), self._traffic
        shared = self._shared.get(key)
        if shared is None:
            shared = SharedBuckets(self._bounds, now)
            if any(key):
                self._shared[key] = shared
        shared.connections += 1
        self._resting.pop(key, None)
        messages = shared.requests if connection else None
        if messages is None and traffic.messages_per_s:
            messages = TokenBucket(traffic.messages_per_s, traffic.messages_burst, now)
        if connection:
            shared.requests = messages
        return ClientRate(self, key, shared, messages)

    def leave(self, key: Key, shared: SharedBuckets, now: float) -> None:
        """A connection has closed. (rules 3, 5)"""
        shared.connections -= 1
        if not shared.connections and any(key):
            if shared.is_full(now):
                del self._shared[key]
            else:
                self._resting[key] = None
        for _ in range(min(LOOKED_AT, len(self._resting))):
            oldest = next(iter(self._resting))
            if self._shared[oldest].is_full(now) or len(self._resting) > RESTING_MAX:
                del self._resting[oldest], self._shared[oldest]
            else:
                self._resting.move_to_end(oldest)


def _bounds(rate: float, burst: float) -> tuple[float, float]:
    """Rate and burst of a bucket; with a rate of 0 it is never empty."""
    return (rate, float(burst)) if rate else (0.0, inf)
