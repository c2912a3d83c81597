"""Logical mobility at a broker: it follows the own states of its clients, and of clients of others as far as
necessary.

*Theory.* A session holds its client's state and the exact test of each open filter (`broker/session.py`). What routing
has to know of them is worked out here. In the tree family each broker on the way loosens the filter for itself
(`location_tree.py`). In the graph family everyone knows every subscription anyway: the border broker loosens it once,
for the broker that is farthest, and replaces it when that makes a difference.

*Rules.*
1. Whatever the state of a client, routing lets through at least what its exact tests do, and what they will do by the
   time that events come which are under way then; as long as it changes its state by steps of the movement graph, and
   each lasts for `dwell_s`. A client that breaks this may miss events for a round trip, and nothing else happens.
2. A client that does not say how long its states last is watched. Until enough of them are known, and wherever times
   are not known, any state is possible.

*Paper.* [rebeca §5]. *Departures.* The paper's clients stay at one broker; here a client that turns up elsewhere brings
its state along (`Attach.context`).
"""

from collections.abc import Callable

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, Trace
from godwit.broker.host import Host
from godwit.broker.messages import Context, EntryId, NodeId
from godwit.filters.filters import Filter
from godwit.mobility.location_tree import SLACK, FollowedFilters
from godwit.mobility.possible_values import Movements
from godwit.trace import Record

__all__ = ["ContextFollowing"]

ContextOf = Callable[[NodeId], tuple[Context, float | None] | None]
"""The context of a client without a session here, and for how long each lasts; None: unknown."""


class ContextFollowing:
    """Routes filters that refer to their clients' own states. Implements `OpenFilters`."""

    label = "context following"
    host: Host

    def __init__(self, movements: Movements, followed: FollowedFilters | None) -> None:
        self.movements = movements
        self.followed = followed  # in the tree of this broker; None: it is of another family
        self._sources: list[ContextOf] = []

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            binding=self.movements,
            open_filters=self,
            on_context=self._on_context,
            on_round_trip=self._on_round_trip,
        )

    def snapshot(self) -> None:
        """Nothing: states are the sessions', and what routing knows of them is routing's."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""

    def also_ask(self, source: ContextOf) -> None:
        """Somebody else knows the contexts of clients, before their sessions do."""
        self._sources.append(source)

    # ------------------------------------------------------------ clients here

    def _context_of(self, client: NodeId) -> tuple[Context, float | None]:
        """The context of a client here, and for how long each lasts."""
        for source in self._sources:
            if (known := source(client)) is not None:
                return known
        session = self.host.sessions.session(client)
        if session is None:
            return Context({}), None
        return Context(dict(session.whole_context())), session.dwell_s

    def weakest(self, filter: Filter) -> Filter:
        """What a filter matches in any state of its client."""
        return self.movements.weakest(filter)

    def subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        """Let routing know what a client here wants, by an open filter."""
        context, dwell_s = self._context_of(id[0])
        if self.followed is not None:
            self.host.carry_out(self.followed.follow(id, filter, context.values, dwell_s), effects, now)
            return
        routing = self.host.routing
        possible = self.movements.possible(filter, context.values, self._farthest_s(), dwell_s)
        loosened = self.movements.loosened(filter, possible)
        if routing.local_filter(id) != loosened:
            self.host.carry_out(routing.subscribe(id, loosened, now), effects, now)

    def _on_context(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Let routing know what a client's new context makes different. [rebeca §5.1]"""
        effects.append(Trace(Record("moved", client)))
        session = self.host.sessions.session(client)
        for name in () if session is None else session.exact:
            self.subscribe((client, name), session.subscriptions[name].filter, effects, now)  # type: ignore[union-attr]

    def _farthest_s(self) -> float | None:
        """The round trip to the broker that is farthest, guessed from the slowest link here; graph family."""
        known = [link.round_trip_s for link in self.host.links.values() if link.round_trip_s is not None]
        hops_max = self.host.routing.hops_max() if known else None
        return None if hops_max is None else SLACK * max(known) * hops_max

    # ------------------------------------------------------------ neighbours

    def _on_round_trip(self, peer: NodeId, round_trip_s: float, effects: list[Effect], now: float) -> None:
        """A link takes so long now: brokers on a tree take it into account, if it makes a difference."""
        if self.followed is not None:
            self.host.carry_out(self.followed.measure(peer, round_trip_s), effects, now)
