"""Unread events of a client's application, and what is confirmed to brokers as read.

*Rules.*
1. An application that does not read delays only its own connection: past `UNREAD_MAX` unread events the inbox is full,
   and nothing more is read from the socket until half of them are read.
2. With `confirms_read`, only read events are confirmed, also when a connection begins. Events that were unread when the
   process ended are delivered again to the next client of that name.
3. A client that was restarted without a store, and resumes its session, may get events of a subscription before it has
   made that subscription again. They are held and tested when it does; they are dropped when it ends any subscription.
"""

from collections.abc import Callable, Iterable

from godwit.errors import SubscriptionError
from godwit.filters.events import Event
from godwit.runtime.pending_requests import Subscription, Unclaimed, Unread

__all__ = ["Inbox"]

UNREAD_MAX = 4_096


class Inbox:
    """Subscriptions of a client, and their unread events."""

    def __init__(self, *, confirms_read: bool) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.confirms_read = confirms_read
        self._unread = Unread()
        self._unclaimed: Unclaimed | None = None  # rule 3; None: nothing is held
        self._told_up_to = 0
        self._came_up_to = 0  # the last delivery on this connection

    # ------------------------------------------------------------ subscriptions

    def add(self, subscription: Subscription) -> Subscription:
        """Add a subscription, and return it; or the one of that name, if there is one."""
        return self.subscriptions.setdefault(subscription.name, subscription)

    def claim(self, subscription: Subscription, wants: Callable[[Event], bool]) -> None:
        """Give a subscription the held events that it `wants`, now that its query is known. (rule 3)"""
        for event in self._unclaimed.claim(subscription.name) if self._unclaimed is not None else ():
            if wants(event):
                self._unread.claimed()
                subscription.put(event, 0)

    def check(self, subscription: Subscription) -> None:
        """Raise `SubscriptionError` if the subscription has ended or belongs to another client."""
        if self.subscriptions.get(subscription.name) is not subscription:
            raise SubscriptionError(f"there is no subscription {subscription.name!r}")

    def remove(self, subscription: Subscription) -> list[int]:
        """End a subscription and discard its unread events. Returns the numbers of their deliveries."""
        self.subscriptions.pop(subscription.name, None)
        self._unclaimed = None
        subscription.end()
        return subscription.discard()

    def end(self) -> None:
        """End all subscriptions."""
        for subscription in self.subscriptions.values():
            subscription.end()
            if subscription.callback is not None:
                subscription.callback.stop()

    # ------------------------------------------------------------ deliveries

    def begin_session(self, *, may_be_asked: bool) -> None:
        """Begin a new session. `may_be_asked`: the application may still make its subscriptions again. (rule 3)"""
        self._unclaimed = Unclaimed() if may_be_asked else None
        self._unread.start_over()
        for subscription in self.subscriptions.values():
            subscription.disown()
        self._told_up_to = 0

    def begin_connection(self) -> None:
        """Begin a new connection."""
        self._came_up_to = self._told_up_to

    def put(self, event: Event, names: Iterable[str], number: int) -> None:
        """Add an event of the delivery `number` to these subscriptions."""
        known = [self.subscriptions[name] for name in names if name in self.subscriptions]
        if self._unclaimed is not None:
            self._unclaimed.hold(event, [name for name in names if name not in self.subscriptions])
        self._unread.came(number, len(known))
        for subscription in known:
            subscription.put(event, number)

    def begin_delivery(self, number: int) -> None:
        """Begin to handle a delivery."""
        self._came_up_to = number

    def end_delivery(self, number: int) -> None:
        """A delivery is handled; it may have had no event for any subscription."""
        self._unread.came_again(number)  # unless it has just been put

    # ------------------------------------------------------------ reading

    @property
    def is_idle(self) -> bool:
        """Whether no call of a callback is pending."""
        return all(each.is_idle for each in self.subscriptions.values())

    @property
    def is_full(self) -> bool:
        """Whether reading from the socket must pause. (rule 1)"""
        return self._unread.count > UNREAD_MAX

    def read(self, number: int) -> bool:
        """The application has read an event of that delivery. Returns whether reading from the socket may resume."""
        was_full = self._unread.count > UNREAD_MAX // 2
        self._unread.read(number)
        return was_full and self._unread.count <= UNREAD_MAX // 2

    @property
    def has_read_more(self) -> bool:
        """Whether there are read events to confirm."""
        return self.confirms_read and self._unread.read_up_to > self._told_up_to

    def confirm(self) -> int | None:
        """The delivery up to which everything is read, to be confirmed now; None if that is not new. (rule 2)"""
        read_up_to = min(self._unread.read_up_to, self._came_up_to)
        if not self.confirms_read or read_up_to <= self._told_up_to:
            return None
        self._told_up_to = read_up_to
        return read_up_to
