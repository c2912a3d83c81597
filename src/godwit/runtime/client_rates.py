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

from godwit.runtime.rate_limits import TokenBucket, TrafficLimits

__all__ = ["ClientRate", "ClientRates"]

COSTLY_WORK = 2_000  # as a filter of 200 comparisons: about 5 ms, from decoding to forwarding
RESTING_MAX = 10_000
LOOKED_AT = 2  # buckets to check when a connection closes

Key = tuple[str, str]  # the user; without one, the connection


class SharedBuckets:
    """The buckets of one user."""

    __slots__ = ("bytes", "connections", "requests", "rests_until", "work")

    def __init__(self, traffic: TrafficLimits, now: float) -> None:
        self.connections = 0
        self.work = TokenBucket(traffic.work_per_s, traffic.work_burst, now) if traffic.work_per_s else None
        self.bytes = TokenBucket(traffic.bytes_per_s, traffic.bytes_burst, now) if traffic.bytes_per_s else None
        self.requests: TokenBucket | None = None  # HTTP requests, as messages (rule 1)
        self.rests_until = 0.0  # after costly work (rule 4)

    def is_full(self, now: float) -> bool:
        """Whether they are full."""
        return all(bucket is None or bucket.is_full(now) for bucket in (self.work, self.bytes, self.requests))


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
        shared, wait_s = self._shared, 0.0
        if self._messages is not None:
            wait_s = self._messages.take(messages, now)
        if shared.work is not None:
            if (work_s := shared.work.take(messages + (size >> 10) + work, now)) > wait_s:
                wait_s = work_s
            if work >= COSTLY_WORK:
                shared.rests_until = max(shared.rests_until, now) + work / shared.work.rate
            if shared.rests_until > now:
                wait_s = max(wait_s, shared.rests_until - now)
        if shared.bytes is not None and (bytes_s := shared.bytes.take(size, now)) > wait_s:
            wait_s = bytes_s
        return wait_s

    def leave(self, now: float) -> None:
        """The connection has closed. To be called once."""
        self._rates.leave(self._key, self._shared, now)


class ClientRates:
    """The buckets of all clients of a process."""

    def __init__(self, traffic: TrafficLimits) -> None:
        self._traffic = traffic
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
            shared = SharedBuckets(traffic, now)
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
