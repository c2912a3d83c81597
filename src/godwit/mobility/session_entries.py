"""What routing holds for sessions that begin here, and for publishers that are advertised for: a part at a time.

*Theory.* In the mode `carry`, and in those for publishers, a session begins at once with what its client brings. Where
that takes long, its entries are placed in slices, as those of an arrival are (`arrival_entries.py`). The session holds
them all from the beginning. What must follow the last of them waits (`also_when_placed`). What takes little is done at
once.

A broker that advertises for a publisher without a session here (`publisher_presence.py`) has its advertisements placed
in the same way (`hold`).

*Rules.*
1. An entry is placed as the session has it when its turn comes, or as it is held for a publisher: one that neither has
   any more is withdrawn.
2. When a session ends or goes elsewhere, none of its entries is placed any more, but for what is held. Another for the
   same client begins with its own entries.
3. A shared subscription is placed at once: others count on this member from now on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import msgspec

from godwit.broker.broker import EVERYTHING
from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, TimerKey
from godwit.broker.host import Host
from godwit.broker.messages import NodeId
from godwit.broker.session import Session
from godwit.broker.withdrawals import ADVERTISEMENT, PAUSE_S, SUBSCRIPTION
from godwit.filters.filters import Filter
from godwit.mobility.arrival_entries import ArrivalEntries, Named

__all__ = ["BEGINNING", "SessionEntries", "SessionEntriesState"]

BEGINNING = "beginning"

WhenPlaced = Callable[[NodeId, float], list[Effect]]
"""`(client, now)`: all entries of the client's session are placed."""


class SessionEntriesState(msgspec.Struct, frozen=True, tag=True):
    """By client, the entries of its session that are still to be placed."""

    version: ClassVar[int] = 1
    unplaced: dict[NodeId, tuple[Named, ...]]


class SessionEntries:
    """Lets routing hold what new sessions hold."""

    label = "session entries"
    host: Host

    def __init__(self, entries: ArrivalEntries) -> None:
        self._entries = entries
        self._unplaced: dict[NodeId, dict[Named, None]] = {}
        self._when_placed: list[WhenPlaced] = []
        self.held_for: Callable[[NodeId], Mapping[str, Filter]] = lambda client: {}
        """What is advertised here for a client without a session."""

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(timers={BEGINNING: self._on_due}, on_session_ended=self._on_session_ended)

    def snapshot(self) -> SessionEntriesState:
        """All state."""
        return SessionEntriesState({client: tuple(entries) for client, entries in self._unplaced.items()})

    def restore(self, state: SessionEntriesState) -> None:
        """Take over a snapshot."""
        self._unplaced = {client: dict.fromkeys(entries) for client, entries in state.unplaced.items()}

    def also_when_placed(self, when_placed: WhenPlaced) -> None:
        """Call this whenever a session that began in slices is placed."""
        self._when_placed.append(when_placed)

    def is_waiting(self, client: NodeId) -> bool:
        """Whether some of the client's entries are still to be placed."""
        return client in self._unplaced

    def begin(self, before: Session, session: Session, effects: list[Effect], now: float) -> None:
        """A session has begun here instead of another, or of none (`before` is itself): let routing hold what it
        holds.
        """
        entries = [(SUBSCRIPTION, name) for name in session.subscriptions]
        entries += [(ADVERTISEMENT, name) for name in session.advertisements]
        filters = (self._filter_of(session.client, *entry) for entry in entries)
        if not self._entries.need_slices(filter for filter in filters if filter is not None):
            self._forget(session.client)
            for subscribe in session.subscriptions.values():
                effects += self.host.demand_added(self._entries.weakest(subscribe.filter), now)
            self._entries.settle(before, session, effects, now)
            return
        if self.host.config.advertisements == "optional" and not session.has_advertised:
            self.host.advertise_everything(session.client, effects, now)
        client = session.client
        subscriptions = [(client, name) for name in before.subscriptions if name not in session.subscriptions]
        advertisements = [(client, name) for name in before.advertisements if name not in session.advertisements]
        self._place(session, entries, effects, now)
        self.host.withdrawals.withdraw(subscriptions, advertisements, effects, now)

    def advertise(self, session: Session, effects: list[Effect], now: float) -> None:
        """A session holds other advertisements than before: let routing hold them, too."""
        host, advertisements = self.host, session.advertisements
        if self._entries.need_slices(advertisements.values()):
            self._place(session, [(ADVERTISEMENT, name) for name in advertisements], effects, now)
            return
        for name, filter in advertisements.items():
            host.carry_out(host.routing.advertise((session.client, name), filter, now), effects, now)
        host.carry_out(host.routing.unadvertise((session.client, EVERYTHING), now), effects, now)

    def hold(self, client: NodeId, names: Iterable[str], effects: list[Effect], now: float) -> None:
        """Advertise for a publisher what is held for it by these names."""
        self._unplaced.setdefault(client, {}).update(dict.fromkeys((ADVERTISEMENT, name) for name in names))
        self._go_on(client, effects, now)

    def _place(self, session: Session, entries: Iterable[Named], effects: list[Effect], now: float) -> None:
        unplaced = self._unplaced.setdefault(session.client, {})
        unplaced |= dict.fromkeys(entries)
        for name, subscribe in session.subscriptions.items():
            if subscribe.share:  # rule 3
                unplaced.pop((SUBSCRIPTION, name), None)
                self.host.subscribe((session.client, name), subscribe.filter, effects, now)
                effects += self.host.demand_added(self._entries.weakest(subscribe.filter), now)
        self._go_on(session.client, effects, now)

    def _go_on(self, client: NodeId, effects: list[Effect], now: float) -> None:
        unplaced = self._unplaced[client]
        self._entries.place_some(client, unplaced, lambda *entry: self._filter_of(client, *entry), effects, now)
        if unplaced:
            effects.append(StartTimer((BEGINNING, client), now + PAUSE_S))
            return
        del self._unplaced[client]
        session = self.host.sessions.session(client)
        if session is not None and session.has_advertised and EVERYTHING not in self.held_for(client):
            self.host.carry_out(self.host.routing.unadvertise((client, EVERYTHING), now), effects, now)

    def _on_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Place the next slice; what has waited for the last one follows."""
        client, effects = key[1], list[Effect]()
        if client not in self._unplaced:
            return effects
        self._go_on(client, effects, now)
        if client not in self._unplaced:
            effects += [effect for when_placed in self._when_placed for effect in when_placed(client, now)]
        return effects

    def _on_session_ended(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Its entries leave routing. (rule 2)"""
        self._forget(client)

    def _forget(self, client: NodeId) -> None:
        """Place no more of a session, but what is held."""
        unplaced, held = self._unplaced.pop(client, {}), self.held_for(client)
        left = {entry: None for entry in unplaced if entry[0] == ADVERTISEMENT and entry[1] in held}
        if left:
            self._unplaced[client] = left

    def _filter_of(self, client: NodeId, kind: str, name: str) -> Filter | None:
        """The filter of an entry as it is now. (rule 1)"""
        session = self.host.sessions.session(client)
        if kind == ADVERTISEMENT:
            own = None if session is None else session.advertisements.get(name)
            return self.held_for(client).get(name) if own is None else own
        subscribe = None if session is None else session.subscriptions.get(name)
        return None if subscribe is None else subscribe.filter
