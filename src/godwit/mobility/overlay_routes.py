"""Routes over the overlay: how messages about moving clients get from any broker to any other.

*Theory.* On a tree neighbours tell each other which brokers they lead to (`ReachableBrokers`), and a message goes from
hop to hop; every hop may hold it back, so that it does not overtake subscriptions. In the graph family the channels
lead everywhere, and a message travels in a packet, behind all that was sent to the same broker before. Other components
declare the messages that travel so (`Handlers.relayed`), and which broker each is for; this one brings them there.

*Rules.*
1. A broker whose tables are not whole yet holds these messages back as it holds events, for `HOLD_S` at most.
2. A message to an unknown broker waits until somebody tells of that broker, for `UNSENT_S` at most: a client may have
   invented the name. `UNSENT_MAX` of them wait, `UNSENT_EACH_MAX` for one broker; what goes unsent is recorded.
   On a tree they follow the subscriptions that the next broker has called (`broker/advertisement_reviews.py`).
3. Names are gathered for `GATHER_S` before they are passed on: when a network of n brokers starts, each link bears a
   few messages of many names, and not n of one.
4. What no honest broker sends is a `PeerFault`, before anything is changed.
5. A message that is not for this broker goes on to its target, and no other component sees it.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.graph import GraphRouting
from godwit.broker.host import Host
from godwit.broker.messages import NodeId
from godwit.broker.state_types import AnyMessage
from godwit.broker.tree import TreeRouting
from godwit.errors import PeerFault
from godwit.mobility.move_messages import Collected, ReachableBrokers, Replay
from godwit.trace import Record

__all__ = ["HOLD_S", "OverlayRoutes", "OverlayRoutesState", "lost_items"]

HOLD_S = 30.0
HOLD_TIMER = "hold moves"
GATHER_S = 0.05
NEWS_TIMER = "brokers"
BROKERS_MAX = 100_000
UNSENT_MAX = 10_000
UNSENT_EACH_MAX = 1_000
UNSENT_S = 120.0  # a broker that asks for a session waits no longer, either
UNSENT_TIMER = "unsent"
NO_ROUTE = "no way to this broker"


class OverlayRoutesState(msgspec.Struct, frozen=True, tag=True):
    """Which broker is reached through which neighbour, and messages that wait for a route or for whole tables."""

    version: ClassVar[int] = 2
    routes: dict[NodeId, NodeId]
    news: tuple[NodeId, ...]
    held: tuple[tuple[NodeId, AnyMessage], ...]
    unsent: dict[NodeId, tuple[AnyMessage, ...]]


class OverlayRoutes:
    """Sends a message to any broker."""

    label = "overlay routes"
    host: Host

    def __init__(self) -> None:
        self.routes: dict[NodeId, NodeId] = {}  # other brokers, and the neighbour that leads there
        self.news: dict[NodeId, None] = {}  # brokers that neighbours have still to hear of
        self.held: list[tuple[NodeId, Any]] = []  # messages that came before the tables are whole
        self.unsent: dict[NodeId, list[Any]] = {}  # to brokers without a known route
        self.unsent_count = 0
        self._waits_for_tables = False  # the broker will call `_on_whole`
        self._on_reached: list[Callable[[tuple[NodeId, ...], float], list[Effect]]] = []

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            messages={ReachableBrokers: self.on_reachable_brokers},
            relay=self.on_relayed,
            relay_packet=self._bring,
            timers={NEWS_TIMER: self._on_news_due, UNSENT_TIMER: self._on_unsent_due, HOLD_TIMER: self._on_hold_due},
            on_link_open=self._on_link_open,
            on_broker_met=lambda broker, again, now: self._send_waiting(broker, now),
        )

    def snapshot(self) -> OverlayRoutesState:
        """All state."""
        unsent = {name: tuple(messages) for name, messages in self.unsent.items()}
        return OverlayRoutesState(dict(self.routes), tuple(self.news), tuple(self.held), unsent)

    def restore(self, state: OverlayRoutesState) -> None:
        """Take over a snapshot."""
        self.routes, self.news, self.held = dict(state.routes), dict.fromkeys(state.news), list(state.held)
        self.unsent = {name: list(messages) for name, messages in state.unsent.items()}
        self.unsent_count = sum(map(len, self.unsent.values()))
        if self.held:
            self._wait_for_tables()

    @property
    def graph(self) -> GraphRouting | None:
        """The routing family, if its channels lead everywhere."""
        routing = self.host.routing
        return routing if isinstance(routing, GraphRouting) else None

    def knows(self, broker: NodeId) -> bool:
        """Whether there is a route to a broker, or will be when it can be reached."""
        return broker in (self.routes if self.graph is None else self.graph.channels.incarnations)

    def others(self, besides: NodeId) -> list[NodeId]:
        """Graph family: every broker that is known, without this one and another."""
        known = {} if self.graph is None else self.graph.channels.incarnations
        return [name for name in sorted(known) if name != besides]

    def watch(self, on_reached: Callable[[tuple[NodeId, ...], float], list[Effect]]) -> None:
        """Call this when routes to new brokers are known. Tree family."""
        self._on_reached.append(on_reached)

    # ------------------------------------------------------------ which broker is where

    def _on_link_open(self, peer: NodeId, effects: list[Effect], now: float) -> None:
        """Tell a neighbour which brokers it reaches through this one."""
        if self.host.config.family != "tree":
            return
        names = (self.host.name, *(name for name, via in self.routes.items() if via != peer))
        self.host.send(peer, ReachableBrokers(names), effects, now)

    def on_reachable_brokers(self, peer: NodeId, message: ReachableBrokers, now: float) -> list[Effect]:
        """Remember which brokers are reached through `peer`, and pass on what is new."""
        if self.host.config.family != "tree":
            raise PeerFault("ReachableBrokers are told on a tree only")
        if type(message.names) is not tuple or any(type(name) is not str for name in message.names):
            raise PeerFault("ReachableBrokers.names must be a tuple of texts")
        if len(self.routes) + len(message.names) > BROKERS_MAX:
            raise PeerFault(f"more than {BROKERS_MAX} brokers")
        new = tuple(name for name in message.names if self.routes.get(name) != peer and name != self.host.name)
        self.routes.update(dict.fromkeys(new, peer))
        effects: list[Effect] = []
        if new and not self.news:
            effects.append(StartTimer((NEWS_TIMER,), now + GATHER_S))
        self.news.update(dict.fromkeys(new))
        for name in new:
            effects += self._send_waiting(name, now)
        return effects + [effect for on_reached in self._on_reached for effect in on_reached(new, now)]

    def _on_news_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Pass on what was gathered of which broker is where."""
        news, self.news = self.news, {}
        effects: list[Effect] = []
        for peer in self.host.links:
            names = tuple(name for name in news if self.routes.get(name) != peer)
            if names:
                self.host.send(peer, ReachableBrokers(names), effects, now)
        return effects

    # ------------------------------------------------------------ messages that come

    def on_relayed(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        """A relayed message: brought to its target at once, or when the tables are whole."""
        if self.graph is not None:
            raise PeerFault(f"a {type(message).__name__} beside a packet: brokers of a graph put it into one")
        self.host.relayed[type(message)].check(message)
        if not self.host.routing.is_whole():
            return self._hold(peer, message, now)
        return self._bring(peer, message, now)

    def _bring(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        """A message that came from `peer`, or from here: pass it on, or let it be handled. (rule 5)"""
        target = self._target(message)
        return self._handled(peer, message, now) if target == self.host.name else self.send_to(target, message, now)

    def _target(self, message: Any) -> NodeId:
        target = self.host.relayed[type(message)].target
        return self.host.name if target is None else target(message)

    def _handled(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        return self.host.relayed[type(message)].handler(peer, message, now)

    def _hold(self, peer: NodeId, message: Any, now: float) -> list[Effect]:
        if len(self.held) >= UNSENT_MAX:
            return self._not_sent(self._target(message), message, "too many before the routing tables are complete")
        self.held.append((peer, message))
        self._wait_for_tables()
        return [StartTimer((HOLD_TIMER,), now + HOLD_S)] if len(self.held) == 1 else []

    def _wait_for_tables(self) -> None:
        if not self._waits_for_tables:
            self._waits_for_tables = True
            self.host.when_whole(self._on_whole)

    def _on_whole(self, now: float) -> list[Effect]:
        """The tables are whole: what was held back goes on."""
        self._waits_for_tables = False
        return self._release(now) if self.held else []

    def _on_hold_due(self, key: TimerKey, now: float) -> list[Effect]:
        return self._release(now)

    def _release(self, now: float) -> list[Effect]:
        held, self.held = self.held, []
        effects: list[Effect] = [StopTimer((HOLD_TIMER,))]
        for peer, message in held:
            effects += self._bring(peer, message, now)
        return effects

    # ------------------------------------------------------------ messages that go

    def send_behind_tables(self, broker: NodeId, message: Any, now: float) -> list[Effect]:
        """Tree family: send a message behind all that this broker has still to tell its neighbours. (rule 1)"""
        if not self.host.routing.is_whole():
            return self._hold(self.host.name, message, now)
        return self.send_to(broker, message, now)

    def send_to(self, broker: NodeId, message: Any, now: float) -> list[Effect]:
        """Send a message to a broker anywhere; to this one: it is handled at once."""
        if broker == self.host.name:
            return self._handled(broker, message, now)
        effects: list[Effect] = []
        if self.graph is not None and self.knows(broker):
            effects += self.tell([broker], message, now)
        elif broker in self.routes:
            self._send_over(self.routes[broker], message, effects, now)
        elif self.unsent_count < UNSENT_MAX and len(self.unsent.get(broker, ())) < UNSENT_EACH_MAX:
            if broker not in self.unsent:  # we have lost our memory, and will be told so by others
                self.unsent[broker] = []
                effects.append(StartTimer((UNSENT_TIMER, broker), now + UNSENT_S))
            self.unsent[broker].append(message)
            self.unsent_count += 1
        else:
            effects += self._not_sent(broker, message, NO_ROUTE)
        return effects

    def _send_over(self, peer: NodeId, message: Any, effects: list[Effect], now: float) -> None:
        routing = self.host.routing
        if isinstance(routing, TreeRouting):
            self.host.carry_out(routing.follow(peer, message), effects, now)
        else:
            self.host.send(peer, message, effects, now)

    def tell(self, targets: list[NodeId], message: Any, now: float) -> list[Effect]:
        """Graph family: send a message to several brokers that are known."""
        effects: list[Effect] = []
        if self.graph is not None:
            self.host.carry_out(self.graph.send(targets, message, now), effects, now)
        return effects

    def _send_waiting(self, broker: NodeId, now: float) -> list[Effect]:
        """A broker is known from now on: send it what waits."""
        if broker not in self.unsent:
            return []
        effects: list[Effect] = [StopTimer((UNSENT_TIMER, broker))]
        for message in self._take_unsent(broker):
            effects += self.send_to(broker, message, now)
        return effects

    def _take_unsent(self, broker: NodeId) -> list[Any]:
        waiting = self.unsent.pop(broker, [])
        self.unsent_count -= len(waiting)
        return waiting

    def _on_unsent_due(self, key: TimerKey, now: float) -> list[Effect]:
        """Keep no message that cannot be sent."""
        broker = key[1]
        return [effect for message in self._take_unsent(broker) for effect in self._not_sent(broker, message, NO_ROUTE)]

    def _not_sent(self, target: NodeId, message: Any, detail: str) -> list[Effect]:
        """A message is given up; it and the events that it holds are recorded."""
        kind = type(message)
        lost = Record("lost", target, kind.__name__, detail=detail)
        return [Trace(record) for record in (lost, *self.host.relayed[kind].lost_events(message, detail))]


def lost_items(message: Replay | Collected, detail: str) -> list[Record]:
    """Records of the events in a part of a session that is given up."""
    name = type(message).__name__
    return [Record("lost", message.client, name, *item.event.id, detail=detail) for item in message.items]
