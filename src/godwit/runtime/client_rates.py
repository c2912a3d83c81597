"""How fast clients may be: messages of a connection; work and bytes of a user, over all of its connections.

*Theory.* A user with fifty connections is still one user. So its connections share one bucket of work and one of bytes,
whatever they speak (native, MQTT, WebSocket, HTTP). Where nobody says who it is (user ""), each connection has buckets
of its own.

*Rules.*
1. HTTP has a connection for each request: all requests of a user count as those of one client.
2. All connections of a user take from the same buckets. Each of them may take one piece more than there is, and then
   waits until the buckets are no longer in debt.
3. The buckets of a user stay until its last connection has gone and they are full again: a user that reconnects
   before that finds them as it left them.
4. At most `RESTING_MAX` buckets without a connection are kept; those that rest longest go first. Each connection that
   goes looks at two of them, so none stays for long while others come and go.
"""

from collections import OrderedDict

from godwit.runtime.rate_limits import TokenBucket, TrafficLimits

__all__ = ["ClientRate", "ClientRates"]

RESTING_MAX = 10_000
LOOKED_AT = 2  # of those that rest, whenever a connection goes

Key = tuple[str, str]  # the user; without one, the connection


class SharedBuckets:
    """What the connections of one user have left."""

    __slots__ = ("bytes", "connections", "requests", "work")

    def __init__(self, traffic: TrafficLimits, now: float) -> None:
        self.connections = 0
        self.work = TokenBucket(traffic.work_per_s, traffic.work_burst, now) if traffic.work_per_s else None
        self.bytes = TokenBucket(traffic.bytes_per_s, traffic.bytes_burst, now) if traffic.bytes_per_s else None
        self.requests: TokenBucket | None = None  # what comes by requests, in messages (rule 1)

    def is_full(self, now: float) -> bool:
        """Whether new ones would be the same."""
        return all(bucket is None or bucket.is_full(now) for bucket in (self.work, self.bytes, self.requests))


class ClientRate:
    """What one connection may take."""

    __slots__ = ("_key", "_messages", "_rates", "_shared")

    def __init__(self, rates: "ClientRates", key: Key, shared: SharedBuckets, messages: TokenBucket | None) -> None:
        self._rates = rates
        self._key = key
        self._shared = shared
        self._messages = messages

    def take(self, messages: int, size: int, work: int, now: float) -> float:
        """Take messages of that size together, and `work` beside 1 for each and each KiB; how long to wait then."""
        shared, wait_s = self._shared, 0.0
        if self._messages is not None:
            wait_s = self._messages.take(messages, now)
        if shared.work is not None:
            wait_s = max(wait_s, shared.work.take(messages + (size >> 10) + work, now))
        if shared.bytes is not None:
            wait_s = max(wait_s, shared.bytes.take(size, now))
        return wait_s

    def leave(self, now: float) -> None:
        """The connection is gone. To be said once."""
        self._rates.leave(self._key, self._shared, now)


class ClientRates:
    """The buckets of all clients of a process."""

    def __init__(self, traffic: TrafficLimits) -> None:
        self._traffic = traffic
        self._shared: dict[Key, SharedBuckets] = {}
        self._resting: OrderedDict[Key, None] = OrderedDict()  # without a connection; the longest first

    def __len__(self) -> int:
        """How many buckets are kept by name."""
        return len(self._shared)

    def enter(self, user: str, now: float, connection: str = "") -> ClientRate:
        """A connection of a user is let in; it must `leave`. `connection`: over which a request came, and no more."""
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
        """A connection is gone. (rules 3, 4)"""
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
