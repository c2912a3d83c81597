"""What routing holds for clients whose sessions are not here yet: placed a part at a time, if it takes long.

*Theory.* To subscribe for a client that brings 50 filters of 900 comparisons takes 0.2 s, and more with neighbours. So
the entries of an arrival are placed in slices, with time for others between them (`go_on`). The question for the
session follows the last of them on every link: an arrival that has entries to be placed asks later (`relocation.py`).
In the same way entries are placed that come with the session and are not here yet, before the client is attached with
it (`prepare`). What takes little is done at once.

*Rules.*
1. An entry is placed as the arrival has it when its turn comes: one that the arrival has no longer is withdrawn. So
   what another greeting brings meanwhile is placed as well, and nothing twice.
2. A slice takes at most `STEPS_AT_ONCE` steps, and what one entry takes. Steps are counted: a replay makes the same
   slices.
3. An arrival neither asks nor is attached while it has entries to be placed. It may be forgotten at any time.
"""

from collections.abc import Callable, Iterable

from godwit.broker.broker import EVERYTHING
from godwit.broker.effects import Effect, StartTimer, StopTimer
from godwit.broker.host import Host
from godwit.broker.messages import EntryId, NodeId, SessionState
from godwit.broker.routing import steps_taken
from godwit.broker.session import Session
from godwit.broker.withdrawals import ADVERTISEMENT, PAUSE_S, STEPS_AT_ONCE, SUBSCRIPTION
from godwit.filters.filters import Filter
from godwit.filters.references import is_open
from godwit.mobility.arrival import Arrival
from godwit.mobility.context_following import ContextFollowing

__all__ = ["PLACING", "ArrivalEntries", "Named"]

PLACING = "placing"
STEPS_EACH = 20  # to place an entry, at least; and for each literal:
STEPS_TO_INDEX = 3
STEPS_TO_TELL = 2  # for each neighbour, beside comparisons
DIFFERENCES_MAX = 4  # of a session, to be placed at once

Named = tuple[str, str]
"""A subscription or advertisement of one client: the kind, and the name."""

FilterOf = Callable[[str, str], Filter | None]
"""`(kind, name)`: the filter of an entry as it is now; None: there is no such entry."""


class ArrivalEntries:
    """Subscribes and advertises for arrivals, and takes that back."""

    host: Host

    def __init__(self, following: ContextFollowing) -> None:
        self._following = following

    def join(self, host: Host) -> None:
        """Become part of a broker."""
        self.host = host

    # ------------------------------------------------------------ a client is expected

    def expect(self, arrival: Arrival, effects: list[Effect], now: float, *, claims: bool = False) -> None:
        """Subscribe and advertise for a client whose session is not here: for all that the session may hold.

        `claims`: its subscriptions are told otherwise, but for those on its own state.
        """
        host, client, context = self.host, arrival.attach.client, arrival.attach.context
        for wish in arrival.attach.wanted:
            arrival.want(wish, host.config.limits, self._following.movements)
        if context is not None and not host.config.asserted:  # else the session knows more of it: anybody may mean it
            host.set_context(client, context.values, effects, now)
        wanted = [(SUBSCRIPTION, name) for name in arrival.subscriptions]
        advertised = [(ADVERTISEMENT, name) for name in arrival.advertisements]
        host.withdrawals.keep((kind, (client, name)) for kind, name in (*wanted, *advertised))
        told = {name: None for name, each in arrival.subscriptions.items() if claims and not is_open(each.filter)}
        arrival.place((*advertised, *(entry for entry in wanted if entry[1] not in told)))
        if host.config.advertisements == "optional" and not arrival.advertisements:
            host.advertise_everything(client, effects, now)
        self.go_on(arrival, effects, now)
        for name in told:
            effects += host.demand_added(arrival.subscriptions[name].filter, now)

    def go_on(self, arrival: Arrival, effects: list[Effect], now: float) -> None:
        """Place the next entries. (rule 2)"""
        client = arrival.attach.client
        self.place_some(client, arrival.unplaced, arrival.filter_of, effects, now)
        if arrival.unplaced:
            effects.append(StartTimer((PLACING, client), now + PAUSE_S))
        else:
            arrival.on_placed()

    def place_some(
        self, client: NodeId, unplaced: dict[Named, None], filter_of: FilterOf, effects: list[Effect], now: float
    ) -> None:
        """Place the next of a client's entries, as they are now, and strike them out. (rules 1, 2)"""
        steps, has_less = 0, False
        while unplaced and steps < STEPS_AT_ONCE:
            kind, name = next(iter(unplaced))
            del unplaced[kind, name]
            before, filter = steps_taken(self.host.routing), filter_of(kind, name)
            self._place(kind, (client, name), filter, effects, now)
            has_less = has_less or filter is None
            steps += self._steps(filter) + steps_taken(self.host.routing) - before
        if has_less:
            effects += self.host.demand_removed(now)

    def take_long(self, filters: Iterable[Filter]) -> bool:
        """Whether to place these takes more than a slice, as far as their sizes tell."""
        return sum(map(self._steps, filters)) > STEPS_AT_ONCE

    def need_slices(self, filters: Iterable[Filter]) -> bool:
        """Whether to place these may take more than a slice: they are large, or more than a few."""
        filters = list(filters)
        return len(filters) > DIFFERENCES_MAX or self.take_long(filters)

    def weakest(self, filter: Filter) -> Filter:
        """What a filter matches in any state of its client."""
        return self._following.weakest(filter)

    def _steps(self, filter: Filter | None) -> int:
        """What it takes to place an entry, besides comparisons."""
        each = STEPS_TO_INDEX + STEPS_TO_TELL * len(self.host.links)
        return STEPS_EACH + (0 if filter is None else filter.weight * each)

    def _place(self, kind: str, id: EntryId, filter: Filter | None, effects: list[Effect], now: float) -> None:
        """Let routing hold an entry like this; None: no longer."""
        host, routing = self.host, self.host.routing
        if kind == ADVERTISEMENT:
            answers = routing.unadvertise(id, now) if filter is None else routing.advertise(id, filter, now)
            host.carry_out(answers, effects, now)
        elif filter is None:
            host.carry_out(routing.unsubscribe(id, now), effects, now)
        else:
            host.subscribe(id, filter, effects, now)
            effects += host.demand_added(self.weakest(filter), now)

    def forget(self, arrival: Arrival, effects: list[Effect], now: float) -> None:
        """Nobody is expected any more: withdraw all of it."""
        host, client = self.host, arrival.attach.client
        if arrival.unplaced:
            effects.append(StopTimer((PLACING, client)))
        left = {kind: [name for of, name in arrival.unplaced if of == kind] for kind in (SUBSCRIPTION, ADVERTISEMENT)}
        subscriptions = dict.fromkeys((*arrival.subscriptions, *left[SUBSCRIPTION]))
        advertisements = dict.fromkeys((*arrival.advertisements, *left[ADVERTISEMENT]))
        effects += [] if subscriptions else host.demand_removed(now)
        withdrawn = [(client, name) for name in subscriptions], [(client, name) for name in advertisements]
        host.withdrawals.withdraw(*withdrawn, effects, now)
        host.carry_out(host.routing.unadvertise((client, EVERYTHING), now), effects, now)
        host.set_context(client, None, effects, now)

    # ------------------------------------------------------------ its session is here

    def prepare(self, arrival: Arrival, state: SessionState, effects: list[Effect], now: float) -> None:
        """The session has come: place what it holds and the arrival does not, and the reverse, if that takes long."""
        held = {each.id[1]: each for each in state.subscriptions}
        advertised = {each.id[1]: each.filter for each in state.advertisements}
        filters = {(SUBSCRIPTION, name): each.filter for name, each in held.items()}
        filters |= {(ADVERTISEMENT, name): filter for name, filter in advertised.items()}
        known = {(SUBSCRIPTION, name): each.filter for name, each in arrival.subscriptions.items()}
        known |= {(ADVERTISEMENT, name): filter for name, filter in arrival.advertisements.items()}
        entries = [entry for entry in known | filters if known.get(entry) != filters.get(entry)]
        if self.need_slices(filters.get(entry) or known[entry] for entry in entries):
            arrival.hold(held, advertised)
            arrival.place(entries)
            self.go_on(arrival, effects, now)

    def settle(self, before: Arrival | Session, session: Session, effects: list[Effect], now: float) -> None:
        """Let routing hold exactly what the session holds; `before`: what it held until now."""
        host, client = self.host, session.client
        effects += host.demand_removed(now)
        host.set_context(client, session.whole_context(), effects, now)
        for name, subscribe in session.subscriptions.items():
            host.subscribe((client, name), subscribe.filter, effects, now)
        for name, filter in session.advertisements.items():
            host.carry_out(host.routing.advertise((client, name), filter, now), effects, now)
        if host.config.advertisements == "optional" and not session.has_advertised:
            host.advertise_everything(client, effects, now)
        gone = [(client, name) for name in before.subscriptions if name not in session.subscriptions]
        if gone:
            host.withdrawals.withdraw(gone, (), effects, now)
        if session.has_advertised:
            host.carry_out(host.routing.unadvertise((client, EVERYTHING), now), effects, now)
        gone = [(client, name) for name in before.advertisements if name not in session.advertisements]
        if gone:
            host.withdrawals.withdraw((), gone, effects, now)
