"""Ways to other brokers: how messages about clients that move get from any broker to any other.

*Theory.* On a tree neighbours tell each other whom they lead to (`Brokers`), and a message goes from hop to hop; every
hop may hold it back, so that it does not overtake subscriptions. In the graph family the channels lead everywhere, and
a message travels in a packet, behind all that was sent to the same broker before.

*Rules.*
1. A broker whose tables are not whole yet holds these messages back as it holds events, for `HOLD_S` at most.
2. A message to a broker that nobody has told of yet waits until somebody does, for `UNSENT_S` at most: a client may
   have made up the name. `UNSENT_MAX` of them wait, `UNSENT_EACH_MAX` for one broker; what goes unsent is on record.
3. Names are gathered for `GATHER_S` before they are passed on: when a network of n brokers starts, each link bears a
   few messages of many names, and not n of one.
4. What no honest broker sends is a `PeerFault`, before anything is changed.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from godwit.broker.broker import BrokerConfig
from godwit.broker.effects import Arrived, Effect, StartTimer, StopTimer, TimerDue, Trace
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import NodeId
from godwit.errors import PeerFault
from godwit.mobility.following import FollowingBroker
from godwit.mobility.locations import Movements
from godwit.mobility.messages import Brokers
from godwit.mobility.move_checks import check_move
from godwit.trace import Record

__all__ = ["HOLD_S", "Handler", "ReachingBroker"]

HOLD_S = 30.0
GATHER_S = 0.05
NEWS_TIMER = ("brokers",)
BROKERS_MAX = 100_000
UNSENT_MAX = 10_000
UNSENT_EACH_MAX = 1_000
UNSENT_S = 120.0  # who asks for a session waits no longer, either
UNSENT_TIMER = "unsent"

Handler = Callable[[Any, NodeId, Any, float], list[Effect]]


class ReachingBroker(FollowingBroker):
    """A broker that can send a message to any other."""

    ANSWERS: ClassVar[dict[type, Handler]] = {}
    """Messages about clients that move, and who handles them."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        movements: Movements | None = None,
    ) -> None:
        super().__init__(name, neighbours, config, incarnation, movements=movements)
        self.incarnation = incarnation
        self.ways: dict[NodeId, NodeId] = {}  # other brokers, and the neighbour that leads there
        self.news: dict[NodeId, None] = {}  # brokers that neighbours have still to hear of
        self.held: list[tuple[NodeId, Any]] = []  # messages that came before the tables are whole
        self.unsent: dict[NodeId, list[Any]] = {}  # to brokers that we know no way to
        self.unsent_count = 0

    @property
    def graph(self) -> GraphRouting | None:
        """The routing family, if it is this one."""
        return self.routing if isinstance(self.routing, GraphRouting) else None

    def _knows(self, broker: NodeId) -> bool:
        """Whether we know a way to a broker, or shall when it can be reached."""
        return broker in (self.ways if self.graph is None else self.graph.channels.lives)

    # ------------------------------------------------------------ who is where

    def _on_open(self, peer: NodeId, effects: list[Effect], now: float) -> None:
        """Tell a neighbour whom it reaches through us."""
        if self.config.family != "tree":
            return
        names = (self.name, *(name for name, way in self.ways.items() if way != peer))
        self._send_on(peer, Brokers(names), effects, now)

    def on_brokers(self, peer: NodeId, message: Brokers, now: float) -> list[Effect]:
        """Remember who is reached through `peer`, and pass on what is new."""
        if self.config.family != "tree":
            raise PeerFault("Brokers are told on a tree only")
        if type(message.names) is not tuple or any(type(name) is not str for name in message.names):
            raise PeerFault("Brokers.names must be a tuple of texts")
        if len(self.ways) + len(message.names) > BROKERS_MAX:
            raise PeerFault(f"more than {BROKERS_MAX} brokers")
        new = tuple(name for name in message.names if self.ways.get(name) != peer and name != self.name)
        self.ways.update(dict.fromkeys(new, peer))
        effects: list[Effect] = []
        if new and not self.news:
            effects.append(StartTimer(NEWS_TIMER, now + GATHER_S))
        self.news.update(dict.fromkeys(new))
        for name in new:
            effects += self._send_waiting(name, now)
        return effects + self._on_reached(new, now)

    def on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        """As every broker; pass on what was gathered of who is where; and keep no message that cannot be sent."""
        if input.key[0] == UNSENT_TIMER:
            lost = self._take_unsent(input.key[1])
            return [effect for message in lost for effect in _not_sent(input.key[1], message)]
        if input.key != NEWS_TIMER:
            return super().on_timer_due(input, now)
        news, self.news = self.news, {}
        effects: list[Effect] = []
        for peer in self.links:
            names = tuple(name for name in news if self.ways.get(name) != peer)
            if names:
                self._send_on(peer, Brokers(names), effects, now)
        return effects

    def _on_reached(self, brokers: tuple[NodeId, ...], now: float) -> list[Effect]:
        """Tree family: a way to these is known from now on."""
        return []

    # ------------------------------------------------------------ coming

    def on_move(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        """A message about a client that moves: handled at once, or when the tables are whole."""
        if self.graph is not None:
            raise PeerFault(f"a {type(message).__name__} beside a packet: brokers of a graph put it into one")
        check_move(message)
        if not self.routing.is_whole():
            return self._hold(peer, message, now)
        return self.ANSWERS[type(message)](self, peer, message, now)

    def _hold(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        if len(self.held) >= UNSENT_MAX:
            detail = "too many before the tables are whole"
            return [Trace(Record("lost", message.client, type(message).__name__, detail=detail))]
        self.held.append((peer, message))
        return [StartTimer(("hold moves",), now + HOLD_S)] if len(self.held) == 1 else []

    def on_arrived(self, input: Arrived, now: float) -> list[Effect]:
        """As every broker; and what was held back goes on when the tables are whole."""
        effects = super().on_arrived(input, now)
        if self.held and self.routing.is_whole():
            effects += self._release(now)
        return effects

    def _release(self, now: float) -> list[Effect]:
        held, self.held = self.held, []
        effects: list[Effect] = [StopTimer(("hold moves",))]
        for peer, message in held:
            if peer == self.name:
                effects += self._send_to(message.home, message, now)
            else:
                effects += self.ANSWERS[type(message)](self, peer, message, now)
        return effects

    # ------------------------------------------------------------ going

    def _send_to(self, broker: NodeId, message: Any, now: float) -> list[Effect]:
        """Send a message to a broker anywhere; here, it is handled at once."""
        if broker == self.name:
            return self.ANSWERS[type(message)](self, self.name, message, now)
        effects: list[Effect] = []
        if self.graph is not None and self._knows(broker):
            effects += self._tell([broker], message, now)
        elif broker in self.ways:
            self._send_on(self.ways[broker], message, effects, now)
        elif self.unsent_count < UNSENT_MAX and len(self.unsent.get(broker, ())) < UNSENT_EACH_MAX:
            if broker not in self.unsent:  # we have lost our memory, and shall hear of it
                self.unsent[broker] = []
                effects.append(StartTimer((UNSENT_TIMER, broker), now + UNSENT_S))
            self.unsent[broker].append(message)
            self.unsent_count += 1
        else:
            effects += _not_sent(broker, message)
        return effects

    def _send_waiting(self, broker: NodeId, now: float) -> list[Effect]:
        """A broker is known from now on: send it what waits."""
        if broker not in self.unsent:
            return []
        effects: list[Effect] = [StopTimer((UNSENT_TIMER, broker))]
        for message in self._take_unsent(broker):
            effects += self._send_to(broker, message, now)
        return effects

    def _take_unsent(self, broker: NodeId) -> list[Any]:
        waiting = self.unsent.pop(broker, [])
        self.unsent_count -= len(waiting)
        return waiting

    def _send_on(self, peer: NodeId, message: Any, effects: list[Effect], now: float) -> None:
        self.links[peer].send(message, effects, now)

    def _tell(self, targets: list[NodeId], message: Any, now: float) -> list[Effect]:
        """Send a message to brokers that are known, anywhere."""
        effects: list[Effect] = []
        if self.graph is not None:
            self._carry_out(self.graph.tell(targets, message), effects, now)
        return effects


def _not_sent(broker: NodeId, message: Any) -> list[Effect]:
    """A message is given up, on record, with the events that it holds."""
    name, detail = type(message).__name__, "no way to this broker"
    ids = [item.event.id for item in getattr(message, "items", ())]
    records = [Record("lost", message.client, name, id[0], id[1], detail=detail) for id in ids]
    return [Trace(record) for record in (Record("lost", broker, name, detail=detail), *records)]
