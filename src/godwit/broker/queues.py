"""The queue of one session: unsent events, rules that drop events, and sent events until they are confirmed.

*Theory.* An event that enters gets the next number of the session. It is then in one of two places. *Waiting*: not sent
on the present connection, because the client is away or has `window` deliveries to confirm. *Sent*: under way, and kept
until the client confirms it. When the client comes back it says what it has; what else was sent goes back to the
front of what waits. A client that is present and keeps up costs one tuple in a deque and one `Delivery`.

Rules of a subscription (`QueueRules`) work on what waits. Each subscription with rules has a *lane*: what of its events
waits, by importance, by key and by mark. A rule takes an event away from the subscription that has the rule; when
no subscription wants it any more it leaves the queue and is counted under that rule. Budgets of the queue itself
hold whatever the rules say. Each lane that an event is in costs work, whenever it enters or leaves: so an event that
matches more than `RULED_MAX` subscriptions of the client is in none, and rules do not touch it.

*Rules.*
1. Numbers count 1, 2, 3, … and none is given twice. The client sees them increase; gaps are what left unsent.
2. taken = confirmed + sent + waiting + expired + purged, always.
3. What was sent is not purged before the client has come back and said that it did not get it.
4. The hard budgets hold for the number of events, sent ones included, and for the bytes of what waits; while the client
   is away the bytes of what was sent count too. While it is present, those are at most `window` events, the last of
   which was sent when they took less than half of the budget of bytes, and less than `SENT_BYTES_MAX`.
5. Over a hard budget those events go first whose subscriptions all name an `importance`, the least important first: to
   name one is to agree. Then the oldest, and these are *lost*: no rule of the subscriber allowed it.
6. No step but a change of rules, and none per event, looks at all that waits.
7. While the queue is held (`hold`) nothing is sent, and whatever comes waits, under the same rules and budgets.

*Paper.* [mobile §4.3], claim H5: "an EB can purge old events from the queue if it knows that the subscription is
time-sensitive. Or it may keep only the more 'important' events (e.g. the current high water mark if the client is
interested in only maximums)." [mobile §3.1]: "log and queue the user's events so that they can be delivered later".

*Departures.* Age counts from when the event entered, by this broker's clock: publishers' clocks may be wrong. Of two
events with the same mark the newer stays. An event without the attribute that a rule asks for is not touched by
`newest_per` and `high_water`, and is the least important there is. When a subscription ends, what it let in stays,
under its rules. Newest per key and the budgets are ours.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from godwit.broker.messages import Delivery, QueuedEvent, QueueRules
from godwit.broker.ranking import Ranking
from godwit.broker.rule_values import LEAST, importance_of, key_of, mark_of
from godwit.filters.events import Event
from godwit.filters.values import Kind

__all__ = ["Gone", "LaneState", "Queue", "QueueState", "event_size"]

EVENT_OVERHEAD = 64
VALUE_SIZE = 16
RULED_MAX = 10  # subscriptions of an event, for their rules to apply to it
SENT_SHARE = 2  # of the budget of bytes: a client that reads slowly must not have all of it under way
SENT_BYTES_MAX = 8 * 2**20  # nor more than this, whatever the budget is


class Gone(msgspec.Struct, frozen=True, gc=False):
    """An event that left the queue unsent, and why: `expired`, or the rule that took it."""

    number: int
    event: Event
    reason: str
    lost: bool = False  # no rule of the subscriber allowed it


class LaneState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules of a subscription, and whether it has ended and only waits for its events to leave."""

    rules: QueueRules
    ended: bool = False


class QueueState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one client has still to get. Lanes, sizes and orders of expiry follow from it."""

    window: int
    events_max: int
    bytes_max: int
    present: bool = False
    sent: tuple[QueuedEvent, ...] = ()
    waiting: tuple[QueuedEvent, ...] = ()
    lanes: dict[str, LaneState] = {}
    taken: int = 0
    sent_up_to: int = 0
    confirmed: int = 0
    expired: int = 0
    purged: dict[str, int] = {}
    gone: tuple[Gone, ...] = ()


class _Item(msgspec.Struct):
    """An event that waits."""

    number: int
    event: Event
    subscriptions: tuple[str, ...]
    size: int
    queued_at: float


class _Lane:
    """What waits of a subscription that has rules."""

    __slots__ = ("bytes", "ended", "marks", "name", "newest", "ranking", "rules")

    def __init__(self, name: str, rules: QueueRules) -> None:
        self.name = name
        self.rules = rules
        self.ranking: Ranking[int] = Ranking()  # all that waits, by importance and then age
        self.bytes = 0
        self.newest: dict[Any, int] = {}
        self.marks: dict[Kind, tuple[Any, int]] = {}
        self.ended = False

    def leave(self, item: _Item) -> None:
        """`item` waits no more for this subscription."""
        if item.number not in self.ranking:
            return
        self.ranking.discard(item.number)
        self.bytes -= item.size
        if self.rules.newest_per is not None:
            key = key_of(item.event, self.rules.newest_per)
            if self.newest.get(key) == item.number:
                del self.newest[key]
        if self.rules.high_water is not None:
            kind, _ = mark_of(item.event, self.rules.high_water)
            if kind in self.marks and self.marks[kind][1] == item.number:
                del self.marks[kind]


NOTHING_SENT: deque[tuple[Delivery, float, int]] = deque()
"""Shared by all queues with nothing unconfirmed, and never changed: an empty deque takes 760 bytes."""

NOTHING_WAITS: OrderedDict[int, _Item] = OrderedDict()
"""Likewise, of all queues in which nothing waits."""


class Queue:
    """What one client has still to get."""

    __slots__ = (
        "_bytes_max", "_due", "_events_max", "_expendable", "_lanes", "_present", "_room", "_sent", "_sent_bytes",
        "_sent_bytes_max", "_waiting", "_waiting_bytes", "_window",
        "confirmed", "expired", "gone", "purged", "sent_up_to", "taken",
    )  # fmt: skip

    def __init__(self, window: int, events_max: int, bytes_max: int) -> None:
        assert 1 <= window <= events_max
        self._window = window
        self._room = window  # how many may be under way now: none while the queue is held
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._present = False
        self._sent = NOTHING_SENT  # with when it was queued, and its size
        self._sent_bytes = 0
        self._sent_bytes_max = min(bytes_max // SENT_SHARE, SENT_BYTES_MAX)
        self._waiting = NOTHING_WAITS
        self._waiting_bytes = 0
        self._lanes: dict[str, _Lane] = {}
        self._due: Ranking[tuple[int, str]] = Ranking()  # when an item is over for a subscription, or ("") altogether
        # In which order items go when a hard budget is passed. While no subscription has rules: the oldest first, and
        # this is empty.
        self._expendable: Ranking[int] = Ranking()
        self.taken = 0  # how many events entered, and the number of the last
        self.sent_up_to = 0  # the highest number that the client can have
        self.confirmed = 0
        self.expired = 0
        self.purged: dict[str, int] = {}  # by rule
        self.gone: list[Gone] = []  # since somebody last emptied this list

    def __len__(self) -> int:
        """How many events are not confirmed yet, sent or waiting."""
        return len(self._sent) + len(self._waiting)

    @property
    def bytes(self) -> int:
        """Their size."""
        return self._sent_bytes + self._waiting_bytes

    def events(self) -> list[Event]:
        """The events that are not confirmed yet."""
        return [delivery.event for delivery, _, _ in self._sent] + [item.event for item in self._waiting.values()]

    def waiting(self) -> list[QueuedEvent]:
        """All that is not confirmed, as it would wait elsewhere."""
        return [*self._waiting_of_sent(), *self._waiting_unsent()]

    def last_waiting(self, count: int) -> list[QueuedEvent]:
        """The last events of those that were not sent, at most so many."""
        last = islice(reversed(self._waiting.values()), count)
        return [QueuedEvent(item.number, item.event, item.subscriptions, item.queued_at) for item in last][::-1]

    def after(self, number: int) -> list[QueuedEvent]:
        """What is not confirmed and has a higher number than this; it takes no longer than there are such."""
        found: list[QueuedEvent] = []
        for item in reversed(self._waiting.values()):
            if item.number <= number:
                break
            found.append(QueuedEvent(item.number, item.event, item.subscriptions, item.queued_at))
        for sent, queued_at, _ in reversed(self._sent):
            if sent.number <= number:
                break
            found.append(QueuedEvent(sent.number, sent.event, sent.subscriptions, queued_at))
        found.reverse()
        return found

    def missing(self, numbers: Iterable[int], count: int) -> list[int]:
        """The first so many of these numbers whose events are not in the queue any more."""
        if count <= 0:
            return []
        sent = {delivery.number for delivery, _, _ in self._sent}
        return list(islice((number for number in numbers if number not in sent and number not in self._waiting), count))

    def restore(self, items: Iterable[QueuedEvent]) -> None:
        """Let items wait that waited elsewhere; they have their numbers already. Some were sent, and may have come."""
        for item in items:
            if item.number <= self.sent_up_to:
                self._sent_again(item)
            else:
                size = event_size(item.event)
                self._enter(_Item(item.number, item.event, item.subscriptions, size, item.queued_at))
        self._hold_budgets()

    def snapshot(self) -> QueueState:
        """The queue as it is now."""
        return QueueState(
            self._window,
            self._events_max,
            self._bytes_max,
            self._present,
            self._waiting_of_sent() if self._sent else (),  # of most sessions nothing waits, and there are thousands
            self._waiting_unsent() if self._waiting else (),
            {name: LaneState(lane.rules, lane.ended) for name, lane in self._lanes.items()} if self._lanes else {},
            self.taken,
            self.sent_up_to,
            self.confirmed,
            self.expired,
            dict(self.purged),
            tuple(self.gone),
        )

    @classmethod
    def restored(cls, state: QueueState) -> "Queue":
        """The queue that was written down."""
        queue = cls(state.window, state.events_max, state.bytes_max)
        queue._present = state.present
        for name, lane in state.lanes.items():
            made = queue._lanes[name] = _Lane(name, lane.rules)
            made.ended = lane.ended
        for item in state.sent:
            queue._sent_again(item)
        for item in state.waiting:
            size = event_size(item.event)
            queue._enter(_Item(item.number, item.event, item.subscriptions, size, item.queued_at))
        queue.taken, queue.sent_up_to, queue.confirmed = state.taken, state.sent_up_to, state.confirmed
        queue.expired, queue.purged, queue.gone = state.expired, dict(state.purged), list(state.gone)
        return queue

    def _waiting_of_sent(self) -> tuple[QueuedEvent, ...]:
        return tuple(QueuedEvent(d.number, d.event, d.subscriptions, queued_at) for d, queued_at, _ in self._sent)

    def _waiting_unsent(self) -> tuple[QueuedEvent, ...]:
        return tuple(QueuedEvent(i.number, i.event, i.subscriptions, i.queued_at) for i in self._waiting.values())

    def _sent_again(self, item: QueuedEvent) -> None:
        size = event_size(item.event)
        if self._sent is NOTHING_SENT:
            self._sent = deque()
        self._sent.append((Delivery(item.number, item.event, item.subscriptions), item.queued_at, size))
        self._sent_bytes += size

    # ------------------------------------------------------------ in and out

    def put(self, event: Event, subscriptions: tuple[str, ...], now: float, size: int = 0) -> Delivery | None:
        """Take an event in. The delivery is to be sent at once; None: it waits, or was not worth keeping.

        `size`: of the event, by `event_size`, where it is known already.
        """
        self.taken = number = self.taken + 1
        size = size or event_size(event)
        sent = self._sent
        if (
            self._present
            and not self._waiting
            and len(sent) < self._room
            and self._sent_bytes < self._sent_bytes_max
            and (event.expires_at is None or event.expires_at > now)
        ):
            delivery = Delivery(number, event, subscriptions)
            if sent is NOTHING_SENT:
                sent = self._sent = deque()
            sent.append((delivery, now, size))
            self._sent_bytes += size
            self.sent_up_to = number
            return delivery
        self._enter(_Item(number, event, subscriptions, size, now))
        self._sweep(now)
        self._hold_budgets()
        return None

    def take(self, now: float) -> list[Delivery]:
        """What may be sent now: the oldest that wait, as far as the window has room. They count as sent."""
        if not self._present or not self._waiting:
            return []
        self._sweep(now)
        taken: list[Delivery] = []
        if self._sent is NOTHING_SENT:
            self._sent = deque()
        while self._waiting and len(self._sent) < self._room and self._sent_bytes < self._sent_bytes_max:
            item = next(iter(self._waiting.values()))
            self._leave(item)
            delivery = Delivery(item.number, item.event, item.subscriptions)
            self._sent.append((delivery, item.queued_at, item.size))
            self._sent_bytes += item.size
            taken.append(delivery)
        if taken:
            self.sent_up_to = taken[-1].number
        return taken

    def confirm(self, received: int) -> bool:
        """The client has got every delivery up to `received`; returns whether others wait."""
        assert received <= self.sent_up_to
        sent = self._sent
        while sent and sent[0][0].number <= received:
            self._sent_bytes -= sent.popleft()[2]
            self.confirmed += 1
        return bool(self._waiting)

    def confirmed_up_to(self) -> int:
        """The number up to which the client has confirmed whatever was sent."""
        return self._sent[0][0].number - 1 if self._sent else self.sent_up_to

    def pause(self, now: float) -> None:
        """The client is away: what was sent may have come or not, and nothing more is sent."""
        self._present = False
        self._sweep(now)
        self._hold_budgets()
        if not self._sent:
            self._sent = NOTHING_SENT
        if not self._waiting:
            self._waiting = NOTHING_WAITS

    def resume(self, received: int, now: float) -> None:
        """The client is there and has got every delivery up to `received`: whatever else was sent waits again."""
        self.confirm(received)
        while self._sent:
            delivery, queued_at, size = self._sent.pop()
            item = _Item(delivery.number, delivery.event, delivery.subscriptions, size, queued_at)
            self._enter(item, in_front=True)
        self._sent_bytes = 0
        self.sent_up_to = received
        self._present = True
        self._sweep(now)
        self._hold_budgets()

    @property
    def has_sent(self) -> bool:
        """Whether something was sent and is not confirmed."""
        return bool(self._sent)

    @property
    def is_held(self) -> bool:
        """Whether nothing is sent for now."""
        return self._room == 0

    def hold(self) -> None:
        """Send nothing until `release`. (rule 7)"""
        self._room = 0

    def release(self) -> None:
        """Send again. What waits is sent with the next `take`."""
        self._room = self._window

    def waiting_after(self, number: int) -> Iterator[tuple[Event, int, int]]:
        """What waits and has a higher number than this, in its order: each event, its number and its size."""
        return ((item.event, item.number, item.size) for item in self._waiting.values() if item.number > number)

    def withhold(self, numbers: Iterable[int], rule: str = "rights") -> None:
        """Take out what waits by these numbers, for the client may not have it; `rule`: as what that counts."""
        for number in numbers:
            self._purge(self._waiting[number], rule)

    # ------------------------------------------------------------ rules

    def set_rules(self, name: str, rules: QueueRules | None, now: float) -> None:
        """From now on the subscription `name` has these rules, also for what waits already."""
        lane = self._lanes.get(name)
        if lane is None and rules is None:
            return
        if lane is not None and lane.rules == rules:
            lane.ended = False
            return
        items = [item for item in self._waiting.values() if _may_be_ruled(item) and name in item.subscriptions]
        for item in items:
            self._due.discard((item.number, name))
        if rules is None:
            self._drop_lane(name)
        else:
            if not self._lanes:
                for item in self._waiting.values():
                    self._expendable.put(item.number, self._expendability(item))
            lane = self._lanes[name] = _Lane(name, rules)
            for item in items:
                self._apply(lane, item)
        for item in items:
            if item.number in self._waiting:
                self._rank(item)
        self._sweep(now)

    def end_rules(self, name: str) -> None:
        """The subscription `name` is over: its rules stay as long as events of it wait."""
        lane = self._lanes.get(name)
        if lane is not None:
            lane.ended = True
            self._drop_if_over(lane)

    def _apply(self, lane: _Lane, item: _Item) -> None:
        """Let `item` wait in `lane`, and take away from its subscription what the rules say. [mobile §4.3]"""
        rules, number = lane.rules, item.number
        lane.ranking.put(number, importance_of(item.event, rules.importance))
        lane.bytes += item.size
        if rules.age_s_max is not None:  # "purge old events … if it knows that the subscription is time-sensitive"
            self._due.put((number, lane.name), item.queued_at + rules.age_s_max)
        if rules.newest_per is not None and (key := key_of(item.event, rules.newest_per)) is not None:
            other = lane.newest.get(key, 0)
            lane.newest[key] = max(other, number)
            if other:
                self._take_away(min(other, number), lane, "newest_per")
        if rules.high_water is not None and number in lane.ranking:  # "the current high water mark"
            kind, value = mark_of(item.event, rules.high_water)
            if kind is not None:
                highest = lane.marks.get(kind)
                if highest is None:
                    lane.marks[kind] = (value, number)
                elif (value, number) > highest:
                    lane.marks[kind] = (value, number)
                    self._take_away(highest[1], lane, "high_water")
                else:
                    self._take_away(number, lane, "high_water")
        if rules.count_max is not None:  # "keep only the more important events"
            while len(lane.ranking) > rules.count_max:
                self._take_away_least(lane, "count")
        if rules.bytes_max is not None:
            while lane.bytes > rules.bytes_max:
                self._take_away_least(lane, "bytes")

    def _take_away_least(self, lane: _Lane, rule: str) -> None:
        least = lane.ranking.lowest()
        assert least is not None, "a lane that is over its budget is not empty"
        self._take_away(least[1], lane, rule)

    def _take_away(self, number: int, lane: _Lane, rule: str) -> None:
        """The subscription of `lane` does not want this event any more; if none does, it is purged."""
        item = self._waiting[number]
        lane.leave(item)
        self._due.discard((number, lane.name))
        item.subscriptions = tuple(name for name in item.subscriptions if name != lane.name)
        if item.subscriptions:
            self._rank(item)
        else:
            self._purge(item, rule)
        self._drop_if_over(lane)

    def _drop_if_over(self, lane: _Lane) -> None:
        if lane.ended and not lane.ranking and self._lanes.get(lane.name) is lane:
            self._drop_lane(lane.name)

    def _drop_lane(self, name: str) -> None:
        del self._lanes[name]
        if not self._lanes:
            self._expendable = Ranking()

    def _rank(self, item: _Item) -> None:
        """Find the place of `item` among those that go when a hard budget is passed."""
        if self._lanes:
            self._expendable.put(item.number, self._expendability(item))

    # ------------------------------------------------------------ what waits

    def _enter(self, item: _Item, *, in_front: bool = False) -> None:
        """Let `item` wait, under the rules of its subscriptions."""
        number, expires_at = item.number, item.event.expires_at
        if self._waiting is NOTHING_WAITS:
            self._waiting = OrderedDict()
        self._waiting[number] = item
        if in_front:
            self._waiting.move_to_end(number, last=False)
        self._waiting_bytes += item.size
        self._rank(item)
        if expires_at is not None:
            self._due.put((number, ""), expires_at)
        if self._lanes and _may_be_ruled(item):
            for name in item.subscriptions:
                lane = self._lanes.get(name)
                if lane is not None:
                    self._apply(lane, item)

    def _leave(self, item: _Item) -> None:
        """`item` waits no more."""
        number = item.number
        del self._waiting[number]
        self._waiting_bytes -= item.size
        if self._lanes:
            self._expendable.discard(number)
        if item.event.expires_at is not None:
            self._due.discard((number, ""))
        if self._lanes and _may_be_ruled(item):
            for name in item.subscriptions:
                lane = self._lanes.get(name)
                if lane is not None:
                    lane.leave(item)
                    self._due.discard((number, name))
                    self._drop_if_over(lane)

    def _purge(self, item: _Item, rule: str, *, lost: bool = False) -> None:
        self._leave(item)
        self.purged[rule] = self.purged.get(rule, 0) + 1
        self.gone.append(Gone(item.number, item.event, rule, lost))

    def _sweep(self, now: float) -> None:
        """Take out what is over: events whose time has passed, and those too old for their subscription."""
        while (due := self._due.lowest()) is not None and due[0] <= now:
            number, name = due[1]
            if name:
                self._take_away(number, self._lanes[name], "age")
                continue
            item = self._waiting[number]
            self._leave(item)
            self.expired += 1
            self.gone.append(Gone(number, item.event, "expired"))

    def _hold_budgets(self) -> None:
        """Rule 4 and 5."""
        sent_bytes = 0 if self._present else self._sent_bytes
        while self._waiting:
            if len(self) > self._events_max:
                rule = "count"
            elif self._waiting_bytes + sent_bytes > self._bytes_max:
                rule = "bytes"
            else:
                return
            self._purge_least(rule)

    def _purge_least(self, rule: str) -> None:
        first = self._expendable.lowest() if self._lanes else ((True, 0.0), next(iter(self._waiting)))
        assert first is not None, "all that waits is ranked, or the oldest comes first"
        (is_protected, _), number = first
        self._purge(self._waiting[number], rule, lost=is_protected)

    def shed(self, bytes: int, rule: str) -> int:
        """Let so much of what waits go, in the order of rule 5: how many bytes it was."""
        before = self._waiting_bytes
        while self._waiting and before - self._waiting_bytes < bytes:
            self._purge_least(rule)
        return before - self._waiting_bytes

    def _expendability(self, item: _Item) -> tuple[bool, float]:
        """What a hard budget is held by: first what every subscription has agreed to, by importance."""
        most = LEAST
        if not _may_be_ruled(item):
            return (True, 0.0)
        for name in item.subscriptions:
            lane = self._lanes.get(name)
            if lane is None or lane.rules.importance is None:
                return (True, 0.0)
            most = max(most, importance_of(item.event, lane.rules.importance))
        return (False, most)


# ------------------------------------------------------------ what rules ask of an event


def _may_be_ruled(item: _Item) -> bool:
    """Whether rules of its subscriptions apply to what waits: not if these are many."""
    return len(item.subscriptions) <= RULED_MAX


def event_size(event: Event) -> int:
    """About how many bytes an event takes: those of its texts as UTF-8, and so many for each value."""
    size = EVENT_OVERHEAD + len(event.payload or b"")
    for name, value in event.attributes.items():
        size += (len(name) if name.isascii() else len(name.encode())) + VALUE_SIZE
        if type(value) is str:
            size += len(value) if value.isascii() else len(value.encode())
        elif type(value) is tuple:
            size += sum(VALUE_SIZE + len(one.encode()) if type(one) is str else VALUE_SIZE for one in value)
    return size if event.to is None else size + event.to.weight * VALUE_SIZE
