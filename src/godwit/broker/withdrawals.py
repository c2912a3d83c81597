"""Entries of sessions that are here no longer leave routing: a part at a time, if it takes long.

*Theory.* When a subscription goes, neighbours are told what it had covered. For a session with 50 filters of 900
comparisons that takes 0.3 s in all, so what a session has held is withdrawn in slices, with time for others between
them. What is left meanwhile does no harm: an event for a client without a session is dropped where it would be
delivered, as one is that was under way when the session ended. What takes little is done at once.

*Rules.*
1. Subscriptions go first, in the order of the session, then advertisements, as they would at once.
2. An entry that its client has again by then stays: one of its session, or what a component advertises for it. Who
   expects a client whose session is not here says which entries it is going to place (`keep`).
3. A slice takes at most `STEPS_AT_ONCE` steps, and what one entry takes. Steps are counted: a replay makes the same
   slices.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from godwit.broker.effects import Effect, StartTimer, TimerKey
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import steps_taken
from godwit.filters.filters import Filter

if TYPE_CHECKING:
    from godwit.broker.host import Host

__all__ = ["ADVERTISEMENT", "PAUSE_S", "STEPS_AT_ONCE", "SUBSCRIPTION", "WITHDRAWING", "Entry", "Withdrawals"]

SUBSCRIPTION, ADVERTISEMENT = "subscription", "advertisement"
WITHDRAWING: TimerKey = ("withdrawing",)
STEPS_AT_ONCE = 6_000  # about 6 ms
STEPS_EACH = 2  # at least, for an entry
PAUSE_S = 0.02  # between two slices

Entry = tuple[str, EntryId]
"""A subscription or advertisement of a client here."""


class Withdrawals:
    """What is still to be withdrawn. `kept`: what components advertise for a client without a session."""

    def __init__(self, host: "Host", kept: Callable[[NodeId], Mapping[str, Filter]]) -> None:
        self._host, self._kept = host, kept
        self._left: dict[Entry, None] = {}

    def __len__(self) -> int:
        return len(self._left)

    def snapshot(self) -> tuple[Entry, ...]:
        """All that is left."""
        return tuple(self._left)

    def restore(self, state: tuple[Entry, ...]) -> None:
        """Go on with these."""
        self._left = dict.fromkeys(state)

    def keep(self, entries: Iterable[Entry]) -> None:
        """These are about to be placed again."""
        if self._left:
            for entry in entries:
                self._left.pop(entry, None)

    def withdraw(
        self, subscriptions: Iterable[EntryId], advertisements: Iterable[EntryId], effects: list[Effect], now: float
    ) -> None:
        """Take these out of routing. (rule 1)"""
        came = {(SUBSCRIPTION, id): None for id in subscriptions} | {(ADVERTISEMENT, id): None for id in advertisements}
        if self._left:  # behind what waits already
            self._left |= came
            return
        self._left = came
        self._go_on(effects, now)

    def on_due(self, now: float) -> list[Effect]:
        """The next slice."""
        effects: list[Effect] = []
        self._left = {entry: None for entry in self._left if not self._is_held(*entry)}  # rule 2
        self._go_on(effects, now)
        return effects

    def _is_held(self, kind: str, id: EntryId) -> bool:
        """Whether the client has the entry again."""
        client, name = id
        session = self._host.sessions.session(client)
        if kind == SUBSCRIPTION:
            return session is not None and name in session.subscriptions
        return (session is not None and name in session.advertisements) or name in self._kept(client)

    def _go_on(self, effects: list[Effect], now: float) -> None:
        host, routing, steps, has_less = self._host, self._host.routing, 0, False
        while self._left and steps < STEPS_AT_ONCE:
            kind, id = entry = next(iter(self._left))
            before = steps_taken(routing)
            del self._left[entry]
            if kind == SUBSCRIPTION:
                host.carry_out(routing.unsubscribe(id, now), effects, now)
                has_less = True
            else:
                if has_less:
                    effects += host.demand_removed(now)
                    has_less = False
                host.carry_out(routing.unadvertise(id, now), effects, now)
            steps += STEPS_EACH + steps_taken(routing) - before
        if has_less:
            effects += host.demand_removed(now)
        if self._left:
            effects.append(StartTimer(WITHDRAWING, now + PAUSE_S))
