"""Logical mobility at a broker: it follows the own states of its clients, and of others' as far as it must.

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

from collections.abc import Mapping
from typing import Any

from godwit.broker.broker import Broker, BrokerConfig
from godwit.broker.effects import Arrived, Effect, Trace
from godwit.broker.messages import Context, EntryId, NodeId, Subscribe
from godwit.broker.routing import Routing
from godwit.filters.filters import Filter
from godwit.filters.references import is_open
from godwit.mobility.location_tree import SLACK, LocationTree
from godwit.mobility.locations import Movements
from godwit.mobility.messages import Changed, Follow
from godwit.trace import Record

__all__ = ["FollowingBroker"]


class FollowingBroker(Broker):
    """A broker with clients whose filters refer to their own states."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        movements: Movements | None = None,
    ) -> None:
        self.movements = Movements() if movements is None else movements
        super().__init__(name, neighbours, config, incarnation)
        self.sessions.binding = self.movements

    def _new_tree(self, neighbours: Mapping[NodeId, float], **options: Any) -> Routing:
        return LocationTree(self.name, neighbours, self.movements, **options)

    # ------------------------------------------------------------ clients here

    def _context_of(self, client: NodeId) -> tuple[Context, float | None]:
        """The context of a client here, and for how long each lasts."""
        session = self.sessions.session(client)
        if session is None:
            return Context({}), None
        return Context(dict(session.whole_context())), session.dwell_s

    def _subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        if not is_open(filter):
            super()._subscribe(id, filter, effects, now)
            return
        context, dwell_s = self._context_of(id[0])
        if isinstance(self.routing, LocationTree):
            self._carry_out(self.routing.follow(id, filter, context.values, dwell_s), effects, now)
            return
        possible = self.movements.possible(filter, context.values, self._farthest_s(), dwell_s)
        loosened = self.movements.loosened(filter, possible)
        if self.routing.local_filter(id) != loosened:
            self._carry_out(self.routing.subscribe(id, loosened, now), effects, now)

    def _on_context(self, connection: str, effects: list[Effect], now: float) -> None:
        """Let routing know what a client's new context makes different. [rebeca §5.1]"""
        client = self.sessions.client_of(connection)
        assert client is not None
        effects.append(Trace(Record("moved", client)))
        self._follow_again(client, effects, now)

    def _follow_again(self, client: NodeId, effects: list[Effect], now: float) -> None:
        session = self.sessions.session(client)
        for name in () if session is None else session.exact:
            self._subscribe((client, name), session.subscriptions[name].filter, effects, now)  # type: ignore[union-attr]

    def _farthest_s(self) -> float | None:
        """The round trip to the broker that is farthest, guessed from the slowest link here; graph family."""
        known = [link.round_trip_s for link in self.links.values() if link.round_trip_s is not None]
        hops_max = self.routing.hops_max() if known else None
        return None if hops_max is None else SLACK * max(known) * hops_max

    # ------------------------------------------------------------ neighbours

    def on_arrived(self, input: Arrived, now: float) -> list[Effect]:
        """As every broker; and with every answer of a neighbour, how long it takes is known better."""
        effects = super().on_arrived(input, now)
        link = self.links.get(input.peer)
        if link is not None and link.round_trip_s is not None and isinstance(self.routing, LocationTree):
            known = self.routing.delays.get(input.peer)
            if known is None or not link.round_trip_s <= known <= 2 * SLACK * link.round_trip_s:
                self._carry_out(self.routing.measure(input.peer, link.round_trip_s), effects, now)
        return effects

    def _quench(self, message: Any, now: float) -> list[Effect]:
        """Sources hear of open filters once, as wanted in any state."""
        if type(message) is Changed:
            return []
        if type(message) is Follow or (type(message) is Subscribe and is_open(message.filter)):
            weakest = self.movements.weakest(message.filter)
            return [*self.quenching.on_added(weakest), *self.quenching.on_removed(now)]
        return super()._quench(message, now)
