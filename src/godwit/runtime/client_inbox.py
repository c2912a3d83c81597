"""What has come for a client's application and is not read yet, and how far brokers are told that it is read.

*Rules.*
1. An application that does not read holds up its own connection and no other's: past `UNREAD_MAX` events the inbox is
   full, and nothing is to be read from the socket until half of that is read.
2. Where what is read is what counts (`confirms_read`), brokers are told of nothing else, also when a connection begins:
   what was not read when the process ends comes again to the next one of that name.
3. A client that has lost its memory, and comes back to a session, may get events of a subscription before it has asked
   for that again: they are held until it does, and decided then, or until it unsubscribes from anything.
"""

from collections.abc import Callable, Iterable

from godwit.errors import SubscriptionError
from godwit.filters.events import Event
from godwit.runtime.pending_requests import Subscription, Unclaimed, Unread

__all__ = ["Inbox"]

UNREAD_MAX = 4_096


class Inbox:
    """The subscriptions of a client, and what has come for them."""

    def __init__(self, *, confirms_read: bool) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.confirms_read = confirms_read
        self._unread = Unread()
        self._unclaimed: Unclaimed | None = None  # rule 3; None: nothing is held
        self._told_up_to = 0
        self._came_up_to = 0  # the last delivery on this connection

    # ------------------------------------------------------------ subscriptions

    def add(self, subscription: Subscription) -> Subscription:
        """The subscription of that name: this one, unless there is one."""
        return self.subscriptions.setdefault(subscription.name, subscription)

    def claim(self, subscription: Subscription, wants: Callable[[Event], bool]) -> None:
        """Give a subscription what was held for it and what it wants of that, now that its query is known. (rule 3)"""
        for event in self._unclaimed.claim(subscription.name) if self._unclaimed is not None else ():
            if wants(event):
                self._unread.claimed()
                subscription.put(event, 0)

    def check(self, subscription: Subscription) -> None:
        """That it is one of these."""
        if self.subscriptions.get(subscription.name) is not subscription:
            raise SubscriptionError(f"there is no subscription {subscription.name!r}")

    def remove(self, subscription: Subscription) -> list[int]:
        """A subscription has ended, and what was not read is gone: the numbers of these deliveries."""
        self.subscriptions.pop(subscription.name, None)
        self._unclaimed = None
        subscription.end()
        return subscription.discard()

    def end(self) -> None:
        """Nothing more will come."""
        for subscription in self.subscriptions.values():
            subscription.end()
            if subscription.callback is not None:
                subscription.callback.stop()

    # ------------------------------------------------------------ deliveries

    def begin_session(self, *, may_be_asked: bool) -> None:
        """The session is another one. `may_be_asked`: the application may ask for what it has. (rule 3)"""
        self._unclaimed = Unclaimed() if may_be_asked else None
        self._unread.start_over()
        for subscription in self.subscriptions.values():
            subscription.disown()
        self._told_up_to = 0

    def begin_connection(self) -> None:
        """There is a connection, on which nothing has come yet."""
        self._came_up_to = self._told_up_to

    def put(self, event: Event, names: Iterable[str], number: int) -> None:
        """An event has come for these subscriptions, in the delivery of that number."""
        known = [self.subscriptions[name] for name in names if name in self.subscriptions]
        if self._unclaimed is not None:
            self._unclaimed.hold(event, [name for name in names if name not in self.subscriptions])
        self._unread.came(number, len(known))
        for subscription in known:
            subscription.put(event, number)

    def begin_delivery(self, number: int) -> None:
        """A delivery comes."""
        self._came_up_to = number

    def end_delivery(self, number: int) -> None:
        """A delivery has come, with an event for somebody or with none."""
        self._unread.came_again(number)  # unless it has just been put

    # ------------------------------------------------------------ reading

    @property
    def is_idle(self) -> bool:
        """Whether no callback is about to be called."""
        return all(each.is_idle for each in self.subscriptions.values())

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read from the socket. (rule 1)"""
        return self._unread.count > UNREAD_MAX

    def read(self, number: int) -> bool:
        """The application has taken an event of that delivery: whether there is room again."""
        was_full = self._unread.count > UNREAD_MAX // 2
        self._unread.read(number)
        return was_full and self._unread.count <= UNREAD_MAX // 2

    @property
    def has_read_more(self) -> bool:
        """Whether there is something to tell a broker."""
        return self.confirms_read and self._unread.read_up_to > self._told_up_to

    def confirm(self) -> int | None:
        """Up to which delivery all is read, when that is news for the broker, which is told now. (rule 2)"""
        read_up_to = min(self._unread.read_up_to, self._came_up_to)
        if not self.confirms_read or read_up_to <= self._told_up_to:
            return None
        self._told_up_to = read_up_to
        return read_up_to
