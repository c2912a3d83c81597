"""Requests that wait to be sent, and quenching at the source: which events need not be sent at all.

*Theory.* Requests wait here in the order the application made them, until the connection takes them. A later wish about
the same subscription or advertisement takes the place of one that still waits. Events are bounded in number: *buffer
first, quench on overflow, oldest first*. While there is room all events stay, because a subscription that the source
does not know yet may match them. When the buffer is full, the oldest event that the last known combined filter does not
match is dropped; if it matches all of them, the oldest event is dropped, and is *lost*.

When the source is connected and knows the combined filter of today, events that it does not match are quenched: as they
are published, and those in the buffer before they are sent.

Which subscriptions a border broker knows may depend on the contexts of its clients: a subscription that excludes such
a source is not sent there. So a source that has set its context does not quench until it has heard a filter which
the broker made knowing that context, and never what it published in another one. They may depend on what its clients
advertise, too: a source that has advertised does not quench until it has heard a filter made knowing that.

*Rules.*
1. Without a combined filter nothing is quenched.
2. An event that waits is discarded only because the buffer is full, or because the filter *received on this connection*
   does not match it.
3. Nor is an event discarded by a filter that was made for another context than its own, or before the broker knew what
   the source advertises.
4. An event that is to be kept for later subscribers (`Retain`) is never unwanted.
5. Finding the event to discard does not look at all of them: what the filter does not want is noted when it comes.

*Paper.* [mobile §3.2], claim H2: "save all events in the buffer at the beginning of a disconnection in case a new
subscription not known to the ES matches them. When the buffer overflows, however, the ES can then start to discard
older events according to the quenching criteria it has." [mobile §3.1]: "the ES may have to discard older events once
the buffer fills up."
"""

from collections import OrderedDict
from typing import Literal

from godwit.broker.messages import (
    Advertise,
    Context,
    Publish,
    Retain,
    SetSessionExpiry,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.filters.events import Event
from godwit.filters.filters import Filter

__all__ = ["CONTEXT", "SESSION_EXPIRY", "Control", "RequestOutbox", "Topic", "Wish", "topic_of"]

Control = Subscribe | Unsubscribe | Advertise | Unadvertise | Context | SetSessionExpiry
Wish = Control | Publish | Retain

Topic = tuple[
    Literal["subscription", "advertisement", "unadvertisement", "event", "context", "session_expiry"], str | int
]
"""What a wish is about: the name of a subscription or advertisement, the number of an event, the client's context,
or for how long its session is kept.

To take an advertisement back is a topic of its own, because it must stay behind the events that were advertised.
"""


CONTEXT: Topic = ("context", "")
SESSION_EXPIRY: Topic = ("session_expiry", "")


def topic_of(wish: Wish) -> Topic:
    """What `wish` is about."""
    if isinstance(wish, Publish | Retain):
        return ("event", wish.event.sequence)
    if isinstance(wish, Context):
        return CONTEXT
    if isinstance(wish, SetSessionExpiry):
        return SESSION_EXPIRY
    if isinstance(wish, Subscribe | Unsubscribe):
        return ("subscription", wish.id[1])
    return ("advertisement" if isinstance(wish, Advertise) else "unadvertisement", wish.id[1])


class RequestOutbox:
    """Wishes that wait to be sent, and the combined filter."""

    def __init__(self, events_max: int) -> None:
        assert events_max >= 1
        self.quenched = 0  # events that nobody wanted
        self.lost = 0  # events for which there was no room, though somebody may have wanted them
        self._events_max = events_max
        self._wishes: OrderedDict[Topic, Wish] = OrderedDict()
        self._events: OrderedDict[int, None] = OrderedDict()  # those that wait, by number
        self._unwanted: OrderedDict[int, None] = OrderedDict()  # of these, those that the filter does not match
        self._filter: Filter | None = None  # the last known
        self._is_of_today = False  # it was heard on this connection
        self._is_of_context = True  # and made knowing the source's context and advertisements
        self._in_context_after = 0  # events with higher numbers were published in that

    def __len__(self) -> int:
        return len(self._wishes)

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._wishes

    @property
    def events(self) -> int:
        """Number of waiting events."""
        return len(self._events)

    def waiting(self) -> list[Event]:
        """The waiting events, the oldest first."""
        return [wish.event for wish in self._wishes.values() if isinstance(wish, Publish | Retain)]

    # ------------------------------------------------------------ the combined filter

    def on_closed(self) -> None:
        """No connection: from now on it is not known what the filter is, only what it was."""
        self._is_of_today = False

    def on_context(self, sequence: int) -> None:
        """The source's context is another for events above `sequence`: no filter is known for it. (rule 3)"""
        self._is_of_context, self._in_context_after = False, sequence
        self._unwanted.clear()

    def on_advertise(self) -> None:
        """The source advertises something else: no filter is known that was made knowing it. (rule 3)"""
        self._is_of_context = False
        self._unwanted.clear()

    def on_quench(self, filter: Filter) -> None:
        """The combined filter is this, today; whether it was made knowing all of the source, `on_settled` says."""
        self._filter = filter
        self._is_of_today, self._is_of_context = True, False
        self._unwanted.clear()

    def may_change_filter(self) -> bool:
        """Whether a context or an advertisement waits: the filter may depend on it."""
        return any(topic == CONTEXT or topic[0] == "advertisement" for topic in self._wishes)

    def on_settled(self) -> list[Event]:
        """The last filter was made knowing all of the source. What nobody wants leaves the buffer, returned."""
        if not self._is_of_today:
            return []
        self._is_of_context = True
        waiting = [self._wishes[("event", number)] for number in self._events]
        quenched = [wish.event for wish in waiting if isinstance(wish, Publish) and self._is_unwanted(wish.event)]
        for event in quenched:
            self._discard(event.sequence)
        self.quenched += len(quenched)
        return quenched

    def _is_unwanted(self, event: Event) -> bool:
        """Whether the last known filter is for this event's context, and does not match."""
        is_for_it = self._is_of_context and event.sequence > self._in_context_after
        return is_for_it and self._filter is not None and not self._filter.matches(event)

    def quenches(self, event: Event) -> bool:
        """Whether `event` need not be sent, and was counted as quenched. [mobile §3.2]"""
        if not self._is_of_today or not self._is_unwanted(event):
            return False  # "If e matches c_all … the event is forwarded to the EB as usual"
        self.quenched += 1
        return True

    # ------------------------------------------------------------ what waits

    def put(self, wish: Wish) -> tuple[Event, bool] | None:
        """Add a wish. Returns the event dropped to make room, if any, and whether it is lost (otherwise: quenched)."""
        self._wishes[topic_of(wish)] = wish  # replaces an earlier wish about the same topic
        if not isinstance(wish, Publish | Retain):
            return None
        number = wish.event.sequence
        self._events[number] = None
        if isinstance(wish, Publish) and self._is_unwanted(wish.event):
            self._unwanted[number] = None
        return self._make_room() if len(self._events) > self._events_max else None

    def _make_room(self) -> tuple[Event, bool]:
        """Discard "older events according to the quenching criteria it has" [mobile §3.2], else the oldest of all."""
        is_lost = not self._unwanted
        event = self._discard(next(iter(self._events if is_lost else self._unwanted)))
        if is_lost:
            self.lost += 1
        else:
            self.quenched += 1
        return event, is_lost

    def take(self) -> Wish:
        """Remove and return the oldest wish."""
        _, wish = self._wishes.popitem(last=False)
        if isinstance(wish, Publish | Retain):
            del self._events[wish.event.sequence]
            self._unwanted.pop(wish.event.sequence, None)
        return wish

    def wishes(self) -> list[Wish]:
        """All waiting wishes, the oldest first."""
        return list(self._wishes.values())

    def get(self, topic: Topic) -> Wish | None:
        """The waiting wish about a topic."""
        return self._wishes.get(topic)

    def drop(self, topic: Topic) -> None:
        """Drop the waiting wish about a subscription or advertisement."""
        self._wishes.pop(topic, None)

    def put_first(self, wishes: list[Wish]) -> None:
        """Put wishes before all others. They were under way, so they are few, and none is dropped for room."""
        for wish in reversed(wishes):
            topic = topic_of(wish)
            self._wishes[topic] = wish
            self._wishes.move_to_end(topic, last=False)
            if isinstance(wish, Publish | Retain):
                number = wish.event.sequence
                self._events[number] = None
                self._events.move_to_end(number, last=False)
                if isinstance(wish, Publish) and self._is_unwanted(wish.event):
                    self._unwanted[number] = None
                    self._unwanted.move_to_end(number, last=False)

    def drop_controls(self) -> list[Control]:
        """Drop and return all waiting wishes except events."""
        dropped = [wish for wish in self._wishes.values() if not isinstance(wish, Publish | Retain)]
        for wish in dropped:
            del self._wishes[topic_of(wish)]
        return dropped

    def _discard(self, number: int) -> Event:
        wish = self._wishes.pop(("event", number))
        assert isinstance(wish, Publish | Retain)
        del self._events[number]
        self._unwanted.pop(number, None)
        return wish.event
