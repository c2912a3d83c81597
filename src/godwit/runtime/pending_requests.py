"""Objects that a client gives to its application: subscriptions, pending answers, connection states.

*Rules.*
1. Events of a subscription arrive in order, once.
2. A pending request may be awaited before or after its answer arrives, or not at all.
3. A subscription is read by its callback if it has one, otherwise by iteration.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from itertools import islice
from typing import Any, Literal, Protocol

import msgspec

from godwit.client.exact_queries import ResidueCount
from godwit.errors import SubscriptionError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.languages.query import NATIVE, Query
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.event_callback import Callback, EventCallback

__all__ = ["Kind", "OnState", "PendingRequest", "State", "States", "Subscription", "Unclaimed", "Unread"]

STATES_KEPT = 100
HELD_MAX = 4_096  # events of a subscription
UNCLAIMED_MAX = 100  # subscriptions


Kind = Literal["connecting", "attached", "away", "closed"]


class State(msgspec.Struct, frozen=True):
    """Connection state of a client."""

    kind: Kind
    since: float  # seconds since 1970
    broker: str = ""  # attached: its name; away: where the session was last
    reason: str = ""  # why the client is not attached, if known

    def __str__(self) -> str:
        at = f" {'at' if self.kind == 'attached' else 'from'} {self.broker}" if self.broker else ""
        return f"{self.kind}{at}{f': {self.reason}' if self.reason else ''}"


OnState = Callable[[State], None]


class States:
    """The state of a client, and its watchers."""

    def __init__(self, on_state: OnState | None, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self.now = State("connecting", clock.time())
        self._on_state = on_state
        self._activity: list[tuple[deque[State], asyncio.Event]] = []

    def become(self, kind: Kind, broker: str, reason: str) -> bool:
        """Set the state. Returns whether it has changed."""
        was = self.now
        if (kind, broker, reason) == (was.kind, was.broker, was.reason):
            return False
        is_same = kind == was.kind and kind != "attached"
        self.now = State(kind, was.since if is_same else self._clock.time(), broker, reason)
        for seen, came in self._activity:
            seen.append(self.now)
            came.set()
        if self._on_state is not None:
            self._on_state(self.now)
        return True

    async def watch(self) -> AsyncIterator[State]:
        """The present state and every later one, until the client is closed."""
        seen: deque[State] = deque([self.now], maxlen=STATES_KEPT)
        came = asyncio.Event()
        watch = (seen, came)
        self._activity.append(watch)
        try:
            while True:
                while seen:
                    state = seen.popleft()
                    yield state
                    if state.kind == "closed":
                        return
                came.clear()
                await came.wait()
        finally:
            self._activity.remove(watch)


class PendingRequest:
    """A request that a broker will answer. Await it for the answer: raises `Refused` if the broker refuses.

    `event`: the published event, if the request is a publication.
    """

    __slots__ = ("__weakref__", "_fault", "_future", "_when_answered", "event", "is_answered")

    def __init__(self, event: Event | None = None) -> None:
        self.event = event
        self.is_answered = False
        self._fault: Exception | None = None
        self._future: asyncio.Future[None] | None = None
        self._when_answered: Callable[[Exception | None], None] | None = None

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        if not self.is_answered:
            if self._future is None:
                self._future = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._future)
        if self._fault is not None:
            raise self._fault

    def settle(self, fault: Exception | None = None) -> None:
        """Record the answer; `fault` if it is a refusal or will never arrive."""
        if not self.is_answered:
            self.is_answered, self._fault = True, fault
            if self._when_answered is not None:
                self._when_answered(fault)
            if self._future is not None and not self._future.done():
                self._future.set_result(None)

    def when_answered(self, do: Callable[[Exception | None], None]) -> None:
        """Call `do` with the fault or None when the answer arrives; at once if it has arrived."""
        if self.is_answered:
            do(self._fault)
        else:
            self._when_answered = do


class SubscriptionOwner(Protocol):
    """The client that a subscription belongs to."""

    def taken(self, number: int) -> None:
        """The application has read an event of that delivery."""

    def wake(self) -> None:
        """Let waiting calls test their condition again."""

    async def replace(self, subscription: "Subscription", filter: Filter | str | Query) -> None:
        """Replace the filter; the client may take more arguments."""

    async def unsubscribe(self, subscription: "Subscription") -> None:
        """End the subscription."""


class Subscription:
    """Events of one subscription: iterate over it with `async for`, or wait for the `next` event."""

    def __init__(self, name: str, filter: Filter | str, owner: SubscriptionOwner) -> None:
        self.name = name
        self.filter = filter  # as the application gave it
        self.language = NATIVE
        self.wanted = 0  # events received for the application
        self.callback: EventCallback | None = None
        self.changed = asyncio.Event()  # set whenever an event has arrived or was read
        self._owner = owner
        self._events: deque[tuple[Event, int]] = deque()  # each with the number of its delivery
        self._came = asyncio.Event()
        self._is_over = False
        self._fault: Exception | None = None
        self._count = ResidueCount()

    def __repr__(self) -> str:
        return f"<subscription {self.name!r} to {str(self.filter)!r}, {len(self._events)} unread>"

    def __len__(self) -> int:
        return len(self._events)

    def __bool__(self) -> bool:
        return True

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        self._check_reader()
        while await self._has_one():
            yield self._take()
            self.changed.set()
        self.check()

    async def next(self, timeout: float | None = None) -> Event:
        """Wait for the next event. Raises `TimeoutError` after `timeout` seconds."""
        self._check_reader()
        if not self._events:
            async with asyncio.timeout(timeout):
                await self._has_one()
        if not self._events:
            raise self._fault or SubscriptionError(f"the subscription {self.name!r} has ended")
        return self._take()

    async def _has_one(self) -> bool:
        """Wait for an event, or for the end of the subscription. Returns whether there is an event."""
        while not self._events and not self._is_over:
            self._came.clear()
            await self._came.wait()
        return bool(self._events)

    def _take(self) -> Event:
        event, number = self._events.popleft()
        self._owner.taken(number)
        return event

    async def waiting(self, most: int) -> list[Event]:
        """Wait for events, and return at most `most` of them. They stay unread until `take`."""
        await self._has_one()
        return [event for event, _ in islice(self._events, most)]

    def take(self, count: int) -> None:
        """Mark the first `count` waiting events as read."""
        for _ in range(count):
            self._take()
        self.changed.set()

    def call(self, callback: Callback) -> None:
        """Call a function with each event from now on, one at a time. It replaces an earlier one.

        It may be `async`. An error in it goes to the loop's exception handler, which logs it, and is counted in
        `callback.failed`; then the next event follows.
        """
        if self.callback is not None:
            self.callback.stop()
        self.callback = EventCallback(self, callback, self._owner.wake)

    def _check_reader(self) -> None:
        if self.callback is not None:  # rule 3
            raise SubscriptionError(f"the subscription {self.name!r} is read by its callback")

    @property
    def residues(self) -> int:
        """Number of events that passed the routable filter and failed the exact test."""
        return self._count.residues

    @property
    def failed(self) -> int:
        """Number of residues whose exact test raised an error."""
        return self._count.failed

    @property
    def last_failure(self) -> str:
        """Error of the last exact test that failed."""
        return self._count.last_failure

    async def replace(self, filter: Filter | str | Query, **more: Any) -> None:
        """Replace the filter, without a gap and without duplicates."""
        await self._owner.replace(self, filter, **more)

    async def unsubscribe(self) -> None:
        """End the subscription. Unread events are discarded."""
        await self._owner.unsubscribe(self)

    # ------------------------------------------------------------ for the client

    def put(self, event: Event, number: int) -> None:
        """Add an event that has arrived."""
        self.wanted += 1
        self._events.append((event, number))
        self._came.set()
        self.changed.set()

    def end(self, fault: Exception | None = None) -> None:
        """End it: unread events can still be read, then `fault` is raised."""
        self._is_over, self._fault = True, self._fault or fault
        self._came.set()

    def check(self) -> None:
        """Raise the fault that ended it, if there was one."""
        if self._fault is not None:
            raise self._fault

    def describe(self, filter: Filter | str, language: str) -> None:
        """Record the filter that brokers have accepted."""
        self.filter, self.language = filter, language

    def count(self, residues: ResidueCount | None) -> None:
        """Set where its residues are counted. None: it has no exact test."""
        self._count = residues or self._count

    @property
    def is_idle(self) -> bool:
        """Whether no call of its callback is pending."""
        return self.callback is None or self.callback.is_idle

    def disown(self) -> None:
        """Forget the delivery numbers of unread events: they belong to an earlier session."""
        self._events = deque((event, 0) for event, _ in self._events)

    def discard(self) -> list[int]:
        """Discard unread events, and return the numbers of their deliveries."""
        numbers = [number for _, number in self._events]
        self._events.clear()
        return numbers


class Unclaimed:
    """Events of subscriptions that the application has not made again yet."""

    def __init__(self) -> None:
        self._held: dict[str, deque[Event]] = {}

    def hold(self, event: Event, names: Iterable[str]) -> None:
        """Keep an event for these subscriptions, within bounds."""
        for name in names:
            self._held.setdefault(name, deque(maxlen=HELD_MAX)).append(event)
        while len(self._held) > UNCLAIMED_MAX:
            del self._held[next(iter(self._held))]

    def claim(self, name: str) -> Iterable[Event]:
        """Remove and return the events kept for a subscription."""
        return self._held.pop(name, ())


class Unread:
    """Count of unread events, and the delivery up to which everything is read."""

    def __init__(self) -> None:
        self.count = 0
        self.read_up_to = 0
        self._former = 0  # of `count`, those of an earlier session: a repeated delivery may be one of them
        self._left: OrderedDict[int, int] = OrderedDict()  # by delivery: number of subscriptions that have not read it

    def came(self, number: int, subscriptions: int) -> None:
        """A delivery has arrived for this number of known subscriptions."""
        self.count += subscriptions
        self._left[number] = subscriptions
        self._advance()

    def came_again(self, number: int) -> None:
        """An event was delivered again, of this session or an earlier one."""
        if number > self.read_up_to and number not in self._left:
            self._left[number] = 0
            self._advance()

    def read(self, number: int) -> None:
        """A subscription has read an event of that delivery."""
        self.count -= 1
        if number in self._left:
            self._left[number] -= 1
        else:
            self._former -= 1
        self._advance()

    def start_over(self) -> None:
        """A new session: its numbers begin again."""
        self._left.clear()
        self.read_up_to = 0
        self._former = self.count

    def claimed(self) -> None:
        """A subscription got an event whose delivery number is no longer known."""
        self.count += 1
        self._former += 1

    def _advance(self) -> None:
        while not self._former and self._left and next(iter(self._left.values())) == 0:
            self.read_up_to, _ = self._left.popitem(last=False)
