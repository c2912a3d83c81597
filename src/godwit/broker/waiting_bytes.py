"""How many bytes of events wait: for a neighbour, for a way, or for tables to be whole.

*Theory.* The number of messages is no bound of their memory, for an event may be as large as a frame. So every queue
of messages also counts the bytes of the events in it. Other messages are small, and bounded where they are made.

*Rules.*
1. Sizes are those of `event_size`, so that queues of sessions and these agree.
2. With users, one of them has at most its share (`Limits.user_share`) of a queue: others have room, whatever it sends.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from godwit.broker.messages import Packet, Publish
from godwit.broker.queues import event_size
from godwit.broker.stream_messages import HopPacket, SentAgain
from godwit.broker.user_quotas import user_of
from godwit.filters.events import Event

__all__ = ["WaitingEvents", "bytes_of", "event_in"]


def event_in(message: Any) -> Event | None:
    """The event that a message carries, if it carries one."""
    kind = type(message)
    if kind is Packet or kind is HopPacket:
        message = message.message
    if type(message) is SentAgain:
        message = message.message
    return message.event if type(message) is Publish else None


def bytes_of(message: Any) -> int:
    """The size of that event; 0 without one."""
    event = event_in(message)
    return 0 if event is None else event_size(event)


class WaitingEvents:
    """The events of a queue by their sizes, in the order of the queue, and what each user has of them."""

    __slots__ = ("_held", "_users", "bytes")

    def __init__(self, messages: Iterable[Any] = ()) -> None:
        self.bytes = 0
        self._held: deque[tuple[str, int]] = deque()  # user and size; ("", 0) for a message without an event
        self._users: dict[str, tuple[int, int]] = {}  # how many, and their size
        for message in messages:
            event = event_in(message)
            self.add(event, 0 if event is None else event_size(event))

    def add(self, event: Event | None, size: int) -> None:
        """A message has come to the end of the queue."""
        if event is None:
            self._held.append(("", 0))
            return
        user = user_of(event.publisher)
        count, held = self._users.get(user, (0, 0))
        self._users[user] = (count + 1, held + size)
        self._held.append((user, size))
        self.bytes += size

    def drop(self, count: int = 1) -> None:
        """So many messages have left the beginning of the queue."""
        for _ in range(count):
            user, size = self._held.popleft()
            if size:
                self.bytes -= size
                events, held = self._users[user]
                if events > 1:
                    self._users[user] = (events - 1, held - size)
                else:
                    del self._users[user]

    def clear(self) -> None:
        """The queue is empty."""
        self._held.clear()
        self._users.clear()
        self.bytes = 0

    def why_not(self, event: Event, size: int, events_max: int, bytes_max: int, share: float) -> str:
        """Why there is no room for an event; "": there is. An empty queue has room for any. (rule 2)"""
        if len(self._held) >= events_max or (self.bytes and self.bytes + size > bytes_max):
            return "full"
        if share < 1:
            count, held = self._users.get(user_of(event.publisher), (0, 0))
            if count and (count >= share * events_max or held + size > share * bytes_max):
                return f"full for user {user_of(event.publisher)!r}"
        return ""
