"""The subscriptions and advertisements of a session, and the memory that they take.

*Theory.* What a filter takes is worked out when it comes and when it goes (`filters/memory_sizes.py`), and added to the
sums of its session, of its user and of all sessions. So nobody ever counts again, and a bound on a sum costs nothing.

*Rules.*
1. A subscription or advertisement comes and goes by the methods of `HeldFilters` alone; others see read-only mappings.
2. Each sum is that of the entries that are there. It follows from them, so it is in no snapshot.
"""

from collections.abc import Mapping

from godwit.broker.messages import Subscribe
from godwit.filters.filters import Filter
from godwit.filters.memory_sizes import ENTRY_BYTES, memory_size, text_size

__all__ = ["FilterTotal", "HeldFilters", "entry_size"]


def entry_size(name: str, filter: Filter, share: str = "") -> int:
    """About how many bytes a subscription or advertisement takes."""
    return ENTRY_BYTES + text_size(name) + text_size(share) + memory_size(filter)


def _subscription_size(subscribe: Subscribe) -> int:
    return entry_size(subscribe.id[1], subscribe.filter, subscribe.share)


class FilterTotal:
    """The memory of the filters of several sessions, which may be part of a larger total."""

    __slots__ = ("_whole", "bytes")

    def __init__(self, whole: "FilterTotal | None" = None) -> None:
        self._whole = whole
        self.bytes = 0

    def add(self, change: int) -> None:
        """It is so many bytes more, or fewer."""
        self.bytes += change
        if self._whole is not None:
            self._whole.add(change)


class HeldFilters:
    """The subscriptions and advertisements of one session."""

    __slots__ = ("_advertisements", "_subscriptions", "_total", "bytes")

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscribe] = {}
        self._advertisements: dict[str, Filter] = {}
        self._total: FilterTotal | None = None
        self.bytes = 0

    @property
    def subscriptions(self) -> Mapping[str, Subscribe]:
        """By name; always the same object."""
        return self._subscriptions

    @property
    def advertisements(self) -> Mapping[str, Filter]:
        """By name; always the same object."""
        return self._advertisements

    def count_in(self, total: FilterTotal | None) -> None:
        """These filters are part of that total from now on, and of none before."""
        if self._total is not None:
            self._total.add(-self.bytes)
        self._total = total
        if total is not None:
            total.add(self.bytes)

    def size_of(self, name: str, *, is_subscription: bool) -> int:
        """What the subscription or advertisement of this name takes; 0 without one."""
        if is_subscription:
            subscribe = self._subscriptions.get(name)
            return 0 if subscribe is None else _subscription_size(subscribe)
        filter = self._advertisements.get(name)
        return 0 if filter is None else entry_size(name, filter)

    def put_subscription(self, subscribe: Subscribe) -> None:
        """A subscription is made, or replaced."""
        name = subscribe.id[1]
        self._change(_subscription_size(subscribe) - self.size_of(name, is_subscription=True))
        self._subscriptions[name] = subscribe

    def drop_subscription(self, name: str) -> Subscribe:
        """A subscription is over."""
        subscribe = self._subscriptions.pop(name)
        self._change(-_subscription_size(subscribe))
        return subscribe

    def put_advertisement(self, name: str, filter: Filter) -> None:
        """An advertisement is made, or replaced."""
        self._change(entry_size(name, filter) - self.size_of(name, is_subscription=False))
        self._advertisements[name] = filter

    def drop_advertisement(self, name: str) -> None:
        """An advertisement is over."""
        self._change(-entry_size(name, self._advertisements.pop(name)))

    def _change(self, change: int) -> None:
        self.bytes += change
        if self._total is not None:
            self._total.add(change)
