"""Rate limits of peers: messages a second, connections per host and user, failed logins.

*Theory.* A bucket holds up to `burst` tokens and gains `rate` a second. Taking more than there are returns the time to
wait; transports then stop reading, so that a peer that is too fast is slowed down by its socket and loses nothing.
Times are arguments.

*Rules.*
1. In any time t at most `burst + rate * t` tokens are taken, plus the excess of one piece of the stream.
2. Tables of hosts are bounded; the least recently used entry is forgotten first.
"""

from collections import OrderedDict
from typing import Any

import msgspec

from godwit.broker.messages import Advertise, Attach, Context, Request, Subscribe, SubscribeQuery
from godwit.errors import NotAdmitted
from godwit.runtime.authentication import is_local

__all__ = ["FailedAttempts", "HostConnections", "TokenBucket", "TrafficLimits", "UserConnections", "work_of"]

INTRO_BYTES_MAX = 64 * 2**10
HOSTS_MAX = 10_000
FREE_PER_USER = 5
FREE_PER_HOST = 50
PAUSE_FIRST_S = 1.0
PAUSE_MAX_S = 60.0
FORGET_S = 600.0
FILTER_WORK = 20
LITERAL_WORK = 10
CONTEXT_WORK = 50
ANYBODY = "/"  # no user has this name


class TrafficLimits(msgspec.Struct, frozen=True):
    """Limits of connections, which apply before the machine."""

    connections_max: int = 10_000
    connections_per_host_max: int = 1_000  # from other machines
    connections_per_user_max: int = 5_000
    intro_bytes_max: int = INTRO_BYTES_MAX  # of the first frame, before authentication
    messages_per_s: float = 0.0  # of one client, on average; 0: no bound
    messages_burst: int = 1_000  # that may come at once
    work_per_s: float = 200_000.0  # of one user, on average, in units of `work_of`; 0: no bound
    work_burst: int = 400_000  # that may come at once
    bytes_per_s: float = 32.0 * 2**20  # of one user, on average; 0: no bound
    bytes_burst: int = 16 * 2**20  # that may come at once
    partial_bytes_max: int = 64 * 2**20  # of messages that have begun to arrive, of all connections together
    memory_bytes_max: int = 2 * 2**30  # of all memory used for peers; beyond it load is shed
    frame_s: float = 30.0  # time in which a message must arrive after its beginning; the same again for each MiB of it

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value < 0 or (value == 0 and name not in ("messages_per_s", "work_per_s", "bytes_per_s")):
                raise ValueError(f"{name} is {value!r}: it must be above 0")


def work_of(wish: Any) -> int:
    """The cost of a request or a greeting, besides 1 for its message and 1 for each KiB of it: that of its filters."""
    kind = type(wish)
    if kind is Request:
        return work_of(wish.wish)
    if kind is Attach:
        return sum(map(work_of, wish.wanted))
    if kind is SubscribeQuery:
        return work_of(wish.subscribe) + sum(len(text) for _, text in wish.queries)
    if kind is Subscribe or kind is Advertise:
        return FILTER_WORK + LITERAL_WORK * int(wish.filter.size)
    return CONTEXT_WORK if kind is Context else 0


class TokenBucket:
    """A token bucket."""

    __slots__ = ("_at", "_left", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._left = float(burst)
        self._at = now

    def take(self, count: float, now: float) -> float:
        """Take this number of tokens; returns the seconds to wait before more is taken."""
        left = self._left
        if now > self._at:  # without `min` and `max`, which take longer than all the rest
            left += (now - self._at) * self.rate
            if left > self.burst:  # noqa: PLR1730
                left = self.burst
            self._at = now
        self._left = left = left - count
        return 0.0 if left >= 0.0 else -left / self.rate

    def has(self, count: float, now: float) -> bool:
        """Whether there are this number of tokens."""
        return self._left + max(0.0, now - self._at) * self.rate >= count

    def is_full(self, now: float) -> bool:
        """Whether it is full."""
        return self._left + max(0.0, now - self._at) * self.rate >= self.burst


class HostConnections:
    """Counts the connections of each remote host."""

    def __init__(self, each_max: int) -> None:
        self.each_max = each_max
        self._counts: dict[str, int] = {}

    def enter(self, host: str) -> bool:
        """Count one more connection of a host, if it is allowed; returns whether it is."""
        if is_local(host):
            return True
        count = self._counts.get(host, 0)
        if count >= self.each_max:
            return False
        self._counts[host] = count + 1
        return True

    def leave(self, host: str) -> None:
        """A counted connection has closed."""
        count = self._counts.get(host, 0)
        if count > 1:
            self._counts[host] = count - 1
        else:
            self._counts.pop(host, None)


class UserConnections:
    """Counts the connections of each user; anonymous ones ("") are not counted."""

    def __init__(self, each_max: int) -> None:
        self.each_max = each_max
        self._counts: dict[str, int] = {}

    def enter(self, user: str) -> None:
        """Count one more; it must `leave`. NotAdmitted if the user has too many."""
        count = self._counts.get(user, 0)
        if count >= self.each_max:
            allowed = f"at most {self.each_max} are allowed (limits.connections_per_user_max)"
            raise NotAdmitted(f"user {user!r} has {count} connections: {allowed}", "limit")
        if user:
            self._counts[user] = count + 1

    def leave(self, user: str) -> None:
        """A counted connection has closed."""
        count = self._counts.get(user, 0)
        if count > 1:
            self._counts[user] = count - 1
        else:
            self._counts.pop(user, None)


class FailedAttempts:
    """Failed logins: after a few, further attempts must wait, twice as long each time."""

    def __init__(self, entries_max: int = HOSTS_MAX) -> None:
        self._entries_max = entries_max
        self._failed: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def wait_s(self, host: str, user: str, now: float) -> float:
        """The time until a host may try to log in as that user again; 0: now."""
        return max(self._wait_s((host, user), FREE_PER_USER, now), self._wait_s((host, ANYBODY), FREE_PER_HOST, now))

    def _wait_s(self, key: tuple[str, str], free: int, now: float) -> float:
        count, at = self._failed.get(key, (0, 0.0))
        if count < free or now - at > FORGET_S:
            return 0.0
        pause_s: float = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(count - free, 16))
        return max(0.0, at + pause_s - now)

    def failed(self, host: str, user: str, now: float) -> None:
        """A login has failed."""
        for key in ((host, user), (host, ANYBODY)):
            count, at = self._failed.pop(key, (0, now))
            self._failed[key] = (1 if now - at > FORGET_S else count + 1, now)
        while len(self._failed) > self._entries_max:
            self._failed.popitem(last=False)

    def succeeded(self, host: str, user: str) -> None:
        """A login of that user from that host has succeeded."""
        self._failed.pop((host, user), None)
