"""Quenching, the broker's side: one filter tells publishers which events have subscribers, so that they need not send
the others.

*Theory.* The *combined filter* is the OR of all subscriptions known here. Sources that asked for it (`Attach.quench`)
hold a copy. A new subscription that the copy covers changes nothing; another is added to it at once and told. When a
subscription goes, the copy merely lets too much through, so there is no hurry: a timer gathers removals, and then the
filter is made again from `Routing.wanted()`. The more filters there were to merge the last time, the longer the timer
runs, so that the work is a small share of the time.

*Rules.*
1. A source's copy matches whatever a subscription known here matches, from the moment the source has heard of it.
2. Merging is perfect, so the copy matches nothing else, until it would have more than `size_max` literals: then it is
   weakened, never strengthened. What is too much in it, so or by a removal, goes when the filter is made again.
3. A source is told the filter before its `Attached`, so that it can quench what it buffered while it was away; and
   after each `Context` and `Advertise` of its that was accepted.
4. The filter asks nothing of the sender's context: what of that is asserted (`BrokerConfig.asserted`) no source knows.
   A routing family that does not know yet what is wanted from a context says `TRUE`, and so does the filter.

*What is promised to a subscriber* (H2): an event that a source publishes after it has heard the filter with your
subscription in it is not quenched. One that it publishes before, though you have subscribed, may be, and so may one
that it kept while it was away and drops when it hears the filter: quenching makes the way of a subscription longer by
one hop, from the border broker to the source, and on that hop as on all others it takes effect when it arrives.

*Symbols.* c_all → `held`.

*Paper.* [mobile §3.2]: "an Event Source is given a 'combined active subscription expression' (c_all), which represents
the logical OR of all the currently active subscriptions"; footnote 1: of two subscriptions of which one covers the
other, only the wider need be tested.

*Departures.* The paper sends changes of c_all one by one; here only those that matter to the source. In a network of
brokers, c_all is the OR of what its border broker knows, which is what its border broker would route on.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, StopTimer, Tell, TimerKey
from godwit.broker.host import Host
from godwit.broker.messages import Advertise, Attach, Context, Quench
from godwit.filters.algebra import covers
from godwit.filters.contexts import without_sender
from godwit.filters.effort import Effort
from godwit.filters.filters import TRUE, Filter, any_of
from godwit.filters.merging import merge_all

__all__ = ["QUENCH_TIMER", "Quenching", "QuenchingState"]

QUENCH_TIMER: TimerKey = ("quench",)
MISSED_MAX = 256
COVERING_EFFORT_MAX = 16_000  # steps
FILTERS_PER_DELAY = 1_000

Wanted = Callable[[], Iterable[Filter]]
"""Gives every filter that a subscription known here has: `Routing.wanted`."""


class QuenchingState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The combined filter, who holds it, and what it lacks."""

    version: ClassVar[int] = 1
    held: Filter | None = None
    sources: tuple[str, ...] = ()
    missed: tuple[Filter, ...] = ()
    merged: int = 0
    is_due: bool = False


class Quenching:
    """The combined filter, and the sources that hold it."""

    label = "quenching"
    host: Host

    def __init__(self, size_max: int = 256, delay_s: float = 1.0) -> None:
        assert size_max >= 1
        self.held: Filter | None = None  # what the sources have; None when it must be made again
        self._size_max = size_max
        self._delay_s = delay_s
        self._sources: dict[str, None] = {}  # connections, in the order they came
        self._missed: list[Filter] = []  # subscriptions that came while nobody held the filter
        self._merged = 0  # how many filters there were the last time
        self._is_due = False  # the timer runs

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            timers={QUENCH_TIMER[0]: lambda key, now: self.on_timer_due(host.routing.wanted)},
            requests={Context: self._on_context_request, Advertise: self._on_advertise_request},
            on_welcome=self._on_welcome,
            on_unlinked=self.detach,
            on_demand_added=lambda filter, now: self.on_added(filter),
            on_demand_removed=self.on_removed,
        )

    def _on_welcome(self, connection: str, message: Attach) -> list[Effect]:
        return self.attach(connection, self.host.routing.wanted) if message.quench else []

    def _on_context_request(self, connection: str, wish: Any, effects: list[Effect], now: float) -> None:
        effects += self.on_context(connection, self.host.routing.wanted, now)

    def _on_advertise_request(self, connection: str, wish: Any, effects: list[Effect], now: float) -> None:
        if connection in self._sources and self.held is not None:
            effects.append(Tell(connection, Quench(self.held)))

    def snapshot(self) -> QuenchingState:
        """The filter and its sources as they are now."""
        return QuenchingState(self.held, tuple(self._sources), tuple(self._missed), self._merged, self._is_due)

    def restore(self, state: QuenchingState) -> None:
        """Be as it was."""
        self.held, self._sources, self._missed = state.held, dict.fromkeys(state.sources), list(state.missed)
        self._merged, self._is_due = state.merged, state.is_due

    def attach(self, connection: str, wanted: Wanted) -> list[Effect]:
        """A source asks for the combined filter. Its `Attached` must come after these effects. [mobile §3.2]"""
        if self.held is None:
            self.held = self._combined(wanted)
        for filter in self._missed:
            self.held = self._with(self.held, filter)
        self._missed.clear()
        self._sources[connection] = None
        if TRUE not in wanted() or self.held == TRUE:
            return [Tell(connection, Quench(self.held))]
        self.held = TRUE
        return self._told()  # the others, too: what this filter covers is not told to anybody

    def on_context(self, connection: str, wanted: Wanted, now: float) -> list[Effect]:
        """A client's context is another. If it is a source, it waits to be told the filter again. (rule 4)"""
        if connection not in self._sources:
            return []
        assert self.held is not None
        if TRUE not in wanted() or self.held == TRUE:
            return [Tell(connection, Quench(self.held))]
        self.held = TRUE
        return [*self._told(), *self.on_removed(now)]

    def detach(self, connection: str) -> list[Effect]:
        """That connection is gone. One that never asked is no fault."""
        self._sources.pop(connection, None)
        if self._sources or not self._is_due:
            return []
        self._is_due = False
        self._forget()
        return [StopTimer(QUENCH_TIMER)]

    def dismiss(self, connection: str) -> list[Effect]:
        """That source may not be told any more what is wanted: from now on it counts as if everything were."""
        return [Tell(connection, Quench(TRUE)), *self.detach(connection)] if connection in self._sources else []

    def on_added(self, filter: Filter) -> list[Effect]:
        """Somebody wants what `filter` matches: sources must not quench it from now on."""
        filter = without_sender(filter)
        if self.held is None:
            return []
        if not self._sources:
            self._missed.append(filter)
            if len(self._missed) > MISSED_MAX:
                self._forget()
            return []
        if covers(self.held, filter, Effort(COVERING_EFFORT_MAX)):  # footnote 1
            return []
        self.held = self._with(self.held, filter)
        return self._told()

    def on_removed(self, now: float) -> list[Effect]:
        """Somebody wants less. The filter is made again when the timer is due."""
        if not self._sources:
            self._forget()
            return []
        if self._is_due:
            return []
        self._is_due = True
        return [StartTimer(QUENCH_TIMER, now + self._delay_s * max(1.0, self._merged / FILTERS_PER_DELAY))]

    def on_timer_due(self, wanted: Wanted) -> list[Effect]:
        """Removals have been gathered: make the filter again, and tell it if it is another."""
        if not self._is_due:
            return []
        self._is_due = False
        before, self.held = self.held, self._combined(wanted)
        return [] if self.held == before else self._told()

    def _forget(self) -> None:
        self.held = None
        self._missed.clear()

    def _told(self) -> list[Effect]:
        assert self.held is not None
        message = Quench(self.held)
        return [Tell(connection, message) for connection in self._sources]

    def _combined(self, wanted: Wanted) -> Filter:
        filters = dict.fromkeys(map(without_sender, wanted()))
        self._merged = len(filters)
        return merge_all(filters, size_max=self._size_max)

    def _with(self, held: Filter, filter: Filter) -> Filter:
        """`held` OR `filter`. When that is too big it is merged down to half, so that the next ones find room."""
        if covers(held, filter, Effort(COVERING_EFFORT_MAX)):
            return held
        if held.size + filter.size <= self._size_max:
            return any_of(held, filter)
        merged = merge_all((held, filter), size_max=self._size_max)
        if merged.size <= self._size_max // 2:
            return merged
        return merge_all((merged,), size_max=self._size_max // 2)
