"""A broker: links to neighbours, sessions of clients, and one routing family between them.

*Theory.* This machine only joins three others and knows nothing itself. What comes from a neighbour goes through its
`Link`, which hands on each message once and in order; the routing family answers where it goes; answers go into links
and sessions, and their effects are this broker's.

*Rules.*
1. `handle` never raises because of what a peer or client sent: the peer's link or the client's connection is closed
   with a reason, that is recorded, and everything else goes on. A link that was closed for a fault stays closed until
   the peer starts a new life.
2. With advertisements `required`, a client publishes only what it has advertised. `optional`: a client that never
   advertises counts as advertising everything; with its first advertisement it counts as every other. `off`: nobody
   advertises. A broker that `expects_strangers` counts as such a client itself: else what somebody publishes as soon as
   it has come would be routed before anybody's subscription is asked for, and lost.
3. Nothing is sent on a link that is not connected, and nothing is handled from one.

*Paper.* Border and inner brokers of [rebeca §2.1] are the same machine, with or without clients.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import structs

from godwit.broker.effects import (
    Arrived,
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    LinkDown,
    LinkUp,
    Opened,
    Reconfigured,
    Send,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.gossip import GROUPS, RETAINED, WHEREABOUTS, Bound, Gossip, check_known
from godwit.broker.gossip_messages import Fact, Known
from godwit.broker.graph import GraphRouting
from godwit.broker.groups import Groups
from godwit.broker.hop_messages import ContextPacket, SubscribePacket
from godwit.broker.hops import HopRouting
from godwit.broker.limits import Limits
from godwit.broker.links import Link, LinkConfig
from godwit.broker.message_checks import check_attach
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Between,
    Bye,
    Context,
    EntryId,
    Frame,
    Goodbye,
    Hello,
    NodeId,
    Packet,
    Publish,
    Received,
    Request,
    Retain,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.quenching import Quenching
from godwit.broker.retained import Retained
from godwit.broker.routing import Answer, Forward, Handed, Local, Met, Routing
from godwit.broker.sessions import Removed, Sessions
from godwit.broker.spcf import CONTEXTS_MAX, SpcfRouting
from godwit.broker.tree import TreeRouting
from godwit.errors import PeerFault
from godwit.filters.contexts import key_of
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter
from godwit.trace import Record

__all__ = ["Broker", "BrokerConfig"]

EVERYTHING = ""
"""The name of the advertisement that stands for a client which never advertises: no client can use it itself."""

SESSIONS_KNOWN_MAX = 1_000_000  # in the whole network, of clients that bring their name alone
MEMBERS_KNOWN_MAX = 1_000_000  # of groups
TABLE_BYTES_MAX = 2**29


class BrokerConfig(msgspec.Struct, frozen=True):
    """How a broker routes, and its bounds."""

    family: Literal["tree", "graph"] = "tree"
    reduction: str = "covering"  # tree family: see reductions.py
    excess_max: float = 0.0  # imperfect merging lets in at most this share besides
    advertisements: Literal["required", "optional", "off"] = "optional"
    strategy: Literal["gsf", "spcf"] = "gsf"  # graph family: who hears of a subscription (graph.py, spcf.py)
    matching: Literal["source", "hops"] = "source"  # graph family: where an event is matched (hops.py)
    contexts_max: int = CONTEXTS_MAX  # spcf, at the source: contexts that a broker tells of before it sums them up
    overlay: tuple[tuple[NodeId, NodeId, float], ...] = ()  # matching at hops: every link and its cost
    expects_strangers: bool = False  # optional advertisements: who comes may publish at once, and be gone
    asserted: tuple[str, ...] = ()  # the attributes of contexts that the server alone says, and no client
    link: LinkConfig = LinkConfig()
    limits: Limits = Limits()


class Broker:
    """The machine of one broker. `neighbours` maps the name of each to the cost of the link."""

    def __init__(
        self, name: NodeId, neighbours: Mapping[NodeId, float], config: BrokerConfig, incarnation: int = 1
    ) -> None:
        self.name = name
        self.config = config
        self.incarnation = incarnation
        self.links = {peer: self._new_link(peer) for peer in neighbours}
        self.sessions = Sessions(config.limits, name, incarnation, config.advertisements, config.asserted)
        self.quenching = Quenching()
        bounds = {
            WHEREABOUTS: Bound(SESSIONS_KNOWN_MAX, TABLE_BYTES_MAX),
            RETAINED: Bound(config.limits.retained_max, config.limits.retained_bytes_max),
            GROUPS: Bound(MEMBERS_KNOWN_MAX, TABLE_BYTES_MAX),
        }
        self.gossip = Gossip(name, bounds)
        self.groups = Groups(self.gossip)
        self.retained = self.sessions.retained = Retained(self.gossip)
        self.routing = self._new_routing(neighbours, incarnation)

    def _new_link(self, peer: NodeId) -> Link:
        link = self.config.link
        if self.config.family == "tree" or self.config.matching == "hops":  # no other way: what waits for it waits
            link = structs.replace(link, dead_after_s=None)
        return Link(peer, self.incarnation, link)

    def _new_routing(self, neighbours: Mapping[NodeId, float], incarnation: int) -> Routing:
        if self.config.family == "graph" and self.config.matching == "hops":
            return HopRouting(self.name, neighbours, self.config.overlay, strategy=self.config.strategy)
        if self.config.family == "graph" and self.config.strategy == "spcf":
            limit = self.config.contexts_max
            return SpcfRouting(self.name, incarnation, neighbours, further=self.CARRIED, contexts_max=limit)
        if self.config.family == "graph":
            return GraphRouting(self.name, incarnation, neighbours, further=self.CARRIED)
        return self._new_tree(
            neighbours,
            incarnation=incarnation,
            reduction=self.config.reduction,
            advertised=self.config.advertisements != "off",
            excess_max=self.config.excess_max,
        )

    def _new_tree(self, neighbours: Mapping[NodeId, float], **options: Any) -> Routing:
        return TreeRouting(self.name, neighbours, **options)

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""
        effects = self.HANDLERS[type(input)](self, input, now)
        if self.sessions.touched:
            self._on_touched(effects, now)
        return effects

    # ------------------------------------------------------------ neighbours

    def on_link_up(self, input: LinkUp, now: float) -> list[Effect]:
        """A connection to a neighbour is there."""
        link = self.links.get(input.peer)
        if link is None:
            return [Close(input.peer, f"{input.peer} is no neighbour of {self.name}")]
        effects = link.on_up(now)
        if self.config.expects_strangers and self.config.advertisements == "optional":  # once; again changes nothing
            self._advertise_everything(f"{self.name}/{self.incarnation}", effects, now)
        return effects

    def on_link_down(self, input: LinkDown, now: float) -> list[Effect]:
        """A connection to a neighbour is gone."""
        link = self.links.get(input.peer)
        if link is None or not link.connected:
            return []
        effects = link.on_down(now)
        self._carry_out(self.routing.on_peer_down(input.peer, now), effects, now)
        return effects

    def on_arrived(self, input: Arrived, now: float) -> list[Effect]:
        """A frame came from a neighbour. Most often it bears an event."""
        peer, frame = input.peer, input.frame
        link = self.links.get(peer)
        effects: list[Effect] = []
        if link is None or not link.connected:
            return effects
        try:
            if type(frame) is Frame:
                for message in link.on_frame(frame, effects, now):
                    handler = self.MESSAGES.get(type(message))
                    if handler is not None:
                        effects += handler(self, peer, message, now)
                        continue
                    self._carry_out(self.routing.on_message(peer, message, now), effects, now)
                    if type(message) is not Publish:
                        effects += self._quench(message, now)
            elif type(frame) is Ack:
                link.on_ack(frame, effects, now)
            elif type(frame) is Hello:
                self._on_hello(link, frame, effects, now)
            elif type(frame) is Goodbye:
                effects += [Close(peer, f"{peer} closed the link: {frame.reason}"), *link.on_down(now)]
                self._carry_out(self.routing.on_peer_down(peer, now), effects, now)
            else:
                raise PeerFault(f"{type(frame).__name__} is nothing that brokers send")
        except PeerFault as fault:
            link.fault = str(fault)
            effects.append(Trace(Record("fault", peer, type(frame).__name__, detail=link.fault)))
            effects += [Send(peer, Goodbye(link.fault)), Close(peer, link.fault), *link.on_down(now)]
            self._carry_out(self.routing.on_peer_down(peer, now), effects, now)
        return effects

    def _on_hello(self, link: Link, hello: Hello, effects: list[Effect], now: float) -> None:
        if link.fault is not None:
            if hello.incarnation == link.peer_incarnation:
                raise PeerFault(link.fault)
            link.fault = None
        greeting, opened, undelivered = link.on_hello(hello, now)
        effects += greeting
        if undelivered is not None:
            self._carry_out(self.routing.on_peer_forgot(link.peer, undelivered, now), effects, now)
            for message in undelivered:
                if type(message) in self.MESSAGES:
                    link.send(message, effects, now)
        if opened:
            self._carry_out(self.routing.on_peer_up(link.peer, now), effects, now)
            self._on_open(link.peer, effects, now)
            self._tell_known(link, effects, now)

    def _on_open(self, peer: NodeId, effects: list[Effect], now: float) -> None:
        """A link has opened; what mobility adds to brokers may have something to say on it."""

    # ------------------------------------------------------------ what every broker should know

    def on_known(self, peer: NodeId, message: Known, now: float) -> list[Effect]:
        """A neighbour tells what it knows: keep what is news, and pass it on. (gossip.py)"""
        check_known(message)
        effects: list[Effect] = []
        news: list[Fact] = []
        for fact in message.facts:
            is_new, reason = self.gossip.learn(peer, fact)
            if is_new:
                news.append(fact)
            elif reason is not None:
                effects.append(Trace(Record("lost", peer, "Known", detail=reason)))
        for fact in news:
            self._on_fact(fact, effects, now)
        if news:
            self._spread(effects, now)
        return effects

    def _on_fact(self, fact: Fact, effects: list[Effect], now: float) -> None:
        """Something is known from now on that another broker has said."""
        if fact.table == RETAINED:
            self.retained.on_fact(fact, now)
        elif fact.table == GROUPS:
            self.groups.on_fact(fact, now)

    def _spread(self, effects: list[Effect], now: float) -> None:
        """Tell every neighbour that can be reached what it has not been told."""
        for link in self.links.values():
            if link.open:
                self._tell_known(link, effects, now)

    def _tell_known(self, link: Link, effects: list[Effect], now: float) -> None:
        for known in self.gossip.untold(link.peer, link.peer_incarnation):
            link.send(known, effects, now)  # type: ignore[arg-type]

    def _on_touched(self, effects: list[Effect], now: float) -> None:
        """Sessions have begun, come, gone, ended, or changed their connections: let others know what they must."""
        while self.sessions.touched:
            touched, self.sessions.touched = self.sessions.touched, {}
            for client in touched:
                self._on_touched_session(client, effects, now)
        self._spread(effects, now)

    def _on_touched_session(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """One of them."""
        reason = self.groups.settle(client, self.sessions.session(client), now)
        if reason is not None:
            effects.append(Trace(Record("lost", client, "Known", detail=reason)))

    def on_reconfigured(self, input: Reconfigured, now: float) -> list[Effect]:
        """Have these neighbours and bounds from now on. Who is new is told all when its link opens."""
        effects: list[Effect] = []
        self.config = structs.replace(self.config, limits=input.limits)
        self.sessions.limits = input.limits
        self.gossip.bounds[RETAINED] = Bound(input.limits.retained_max, input.limits.retained_bytes_max)
        for peer, cost in input.neighbours.items():
            is_new = peer not in self.links
            if is_new:
                self.links[peer] = self._new_link(peer)
            self._carry_out(self.routing.set_neighbour(peer, cost, is_new), effects, now)
        return effects

    # ------------------------------------------------------------ clients

    def on_opened(self, input: Opened, now: float) -> list[Effect]:
        """A client's connection is there: it has to say who it is."""
        return self.sessions.vouch(input.connection, input.asserted)

    def on_closed(self, input: Closed, now: float) -> list[Effect]:
        """A client's connection is gone."""
        return self._gone(input.connection, now)

    def _gone(self, connection: str, now: float) -> list[Effect]:
        """Forget a connection; what its client left behind stays."""
        return [*self.quenching.detach(connection), *self.sessions.detach(connection, now)]

    def on_heard(self, input: Heard, now: float) -> list[Effect]:
        """A message came from a client."""
        connection, message = input.connection, input.message
        try:
            if type(message) is Request:
                return self._on_request(connection, message, now)
            if type(message) is Received:
                return self.sessions.received(connection, message, now)
            if type(message) is Attach:
                effects = self._on_attach(connection, message, now)
                self.sessions.vouched(connection)  # turned away, perhaps
                return effects
            if type(message) is Bye:
                client = self.sessions.client_of(connection)
                effects = self.quenching.detach(connection)
                return effects + self._without(self.sessions.leave(connection, now), now, client)
            if type(message) is Between:
                return self.sessions.between(connection, message, now)
            if (handler := self.SAYINGS.get(type(message))) is not None:
                return handler(self, connection, message, now)
            raise PeerFault(f"{type(message).__name__} is nothing that clients send")
        except PeerFault as fault:
            reason = str(fault)
            who = self.sessions.client_of(connection) or connection
            effects = [Trace(Record("fault", who, type(message).__name__, detail=reason))]
            effects += [Tell(connection, Bye(reason)), Close(connection, reason)]
            return [*effects, *self._gone(connection, now)]

    def _on_attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        check_attach(message)
        before = self.sessions.session(message.client)
        older = None if before is None else before.connection
        context = {} if before is None else before.whole_context()
        attached = self.sessions.attach(connection, message, now)
        if self.sessions.client_of(connection) is None:
            return attached
        effects: list[Effect] = [] if older is None else self.quenching.detach(older)
        if before is not None and key_of(before.whole_context()) != key_of(context):  # as its server vouches for now
            self._on_context(connection, attached, now)
        self._tell_context(message.client, effects, now)  # first: what is wanted from it may not be known yet
        if message.quench:
            effects += self.quenching.attach(connection, self.routing.wanted)
        effects += attached
        if before is None and self.config.advertisements == "optional":
            self._advertise_everything(message.client, effects, now)
        return effects

    def _advertise_everything(self, client: NodeId, effects: list[Effect], now: float) -> None:
        self._carry_out(self.routing.advertise((client, EVERYTHING), TRUE, now), effects, now)

    def _on_request(self, connection: str, message: Request, now: float) -> list[Effect]:
        wish, effects = self.sessions.admit(connection, message, now)
        if wish is None:
            return effects
        routing = self.routing
        if type(wish) is Publish:  # most of what comes
            event = wish.event
            effects.append(Trace(Record("published", event.publisher, "", event.publisher, event.sequence)))
            self._carry_out(routing.publish(event, now), effects, now)
            return effects
        match wish:
            case Retain(event=event):
                effects.append(Trace(Record("published", event.publisher, "", event.publisher, event.sequence)))
                self._carry_out(routing.publish(event, now), effects, now)
                self.retained.put(wish.key, None if wish.clear else event, now)
                self._spread(effects, now)
            case Subscribe(id=id, filter=filter):
                effects.append(Trace(Record("subscribed", id[0], subscription=id[1])))
                self._subscribe(id, filter, effects, now)
                effects += self._quench(wish, now)
                session = self.sessions.session(id[0]) if wish.retained else None
                if session is not None:
                    effects += self.retained.begin(session, wish, now)
            case Unsubscribe(id=id):
                effects.append(Trace(Record("unsubscribed", id[0], subscription=id[1])))
                self._carry_out(routing.unsubscribe(id, now), effects, now)
                effects += self._quench(wish, now)
            case Advertise(id=id, filter=filter):
                effects.append(Trace(Record("advertised", id[0], subscription=id[1])))
                self._carry_out(routing.advertise(id, filter, now), effects, now)
                if self.config.advertisements == "optional":  # from now on it counts as every other
                    self._carry_out(routing.unadvertise((id[0], EVERYTHING), now), effects, now)
            case Unadvertise(id=id):
                effects.append(Trace(Record("unadvertised", id[0], subscription=id[1])))
                self._carry_out(routing.unadvertise(id, now), effects, now)
            case Context():
                self._tell_context(self.sessions.client_of(connection), effects, now)
                self._on_context(connection, effects, now)
                effects += self.quenching.on_context(connection, self.routing.wanted, now)
        return effects

    def _subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        """Let routing know what a client here wants."""
        self._carry_out(self.routing.subscribe(id, filter, now), effects, now)

    def _tell_context(self, client: NodeId | None, effects: list[Effect], now: float) -> None:
        """Let routing know in which context a client with a session here is, or that it has none any more."""
        session = None if client is None else self.sessions.session(client)
        if client is not None:
            self._set_context(client, None if session is None else session.whole_context(), effects, now)

    def _set_context(self, client: NodeId, context: Attributes | None, effects: list[Effect], now: float) -> None:
        """The same for a context that is known otherwise; None: not here, or not known."""
        answers = self.routing.set_context(client, context, now)
        self._carry_out(answers, effects, now)
        if answers and not self.routing.is_settled():  # somebody may want what we have not heard of
            effects += [*self.quenching.on_added(TRUE), *self.quenching.on_removed(now)]

    def _on_context(self, connection: str, effects: list[Effect], now: float) -> None:
        """A client's own state has changed; what mobility adds to brokers follows it."""

    def _without(self, removed: Removed, now: float, ended: NodeId | None = None) -> list[Effect]:
        """Take what a session no longer holds out of routing; `ended`: whose session is over."""
        effects = list(removed.effects)
        for id in removed.subscriptions:
            self._carry_out(self.routing.unsubscribe(id, now), effects, now)
        if removed.subscriptions:
            effects += self.quenching.on_removed(now)
        for id in removed.advertisements:
            self._carry_out(self.routing.unadvertise(id, now), effects, now)
        if ended is not None:
            self._carry_out(self.routing.unadvertise((ended, EVERYTHING), now), effects, now)
            self._tell_context(ended, effects, now)
        return effects

    def _quench(self, message: Any, now: float) -> list[Effect]:
        """Let sources know, as far as they must, what a message changes about what anybody wants. [mobile §3.2]"""
        if type(message) is Packet:
            message = message.message
        if type(message) in (Subscribe, SubscribePacket):  # of a replaced filter too much stays in for a while
            return [*self.quenching.on_added(message.filter), *self.quenching.on_removed(now)]
        return [] if type(message) in (Publish, ContextPacket) else self.quenching.on_removed(now)

    # ------------------------------------------------------------ timers

    def on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        """A timer has come due: of a link, of the sessions, or of the routing family."""
        key = input.key
        effects: list[Effect] = []
        match key:
            case ("ack", peer):
                return self.links[peer].on_ack_due()
            case ("resend", peer):
                return self.links[peer].on_resend_due(now)
            case ("dead", peer):
                if not self.links[peer].connected:
                    undelivered = self.links[peer].give_up()
                    self.gossip.forget_told(peer)
                    self._carry_out(self.routing.on_link_dead(peer, undelivered, now), effects, now)
                return effects
            case ("expiry",):
                return self._without(self.sessions.on_timer_due(key, now), now)
            case ("session", client):
                removed = self.sessions.on_timer_due(key, now)
                return self._without(removed, now, client if self.sessions.session(client) is None else None)
            case ("quench",):
                return self.quenching.on_timer_due(self.routing.wanted)
        self._carry_out(self.routing.on_timer_due(key, now), effects, now)
        return effects

    # ------------------------------------------------------------ answers

    def _carry_out(self, answers: list[Answer], effects: list[Effect], now: float) -> None:
        """Turn what the routing family answers into effects of links and sessions."""
        for answer in answers:
            kind = type(answer)
            if kind is Forward:
                self.links[answer.peer].send(answer.message, effects, now)  # type: ignore[union-attr]
            elif kind is Local:
                event, ids = answer.event, answer.subscriptions  # type: ignore[union-attr]
                self._deliver(event, self.groups.chosen(event, ids) if self.groups.local else ids, effects, now)
            elif kind is Handed:
                effects += self._on_handed(answer.source, answer.message, now)  # type: ignore[union-attr]
            elif kind is Met:
                effects += self._on_met(answer.broker, answer.again, now)  # type: ignore[union-attr]
            else:
                effects.append(answer)  # type: ignore[arg-type]

    def _on_handed(self, source: NodeId, message: Any, now: float) -> list[Effect]:
        """A message of those in `CARRIED` came from a broker anywhere."""
        return []

    def _on_met(self, broker: NodeId, again: bool, now: float) -> list[Effect]:
        """A broker anywhere is known from now on, or has started another life."""
        return []

    def _deliver(self, event: Event, subscriptions: list[EntryId], effects: list[Effect], now: float) -> None:
        """Hand an event to sessions here."""
        effects += self.sessions.deliver(event, subscriptions, now)

    MESSAGES: ClassVar[dict[type, Callable[[Any, NodeId, Any, float], list[Effect]]]] = {Known: on_known}
    """Further messages between brokers, beside those of the routing family, and who handles them."""

    SAYINGS: ClassVar[dict[type, Callable[[Any, str, Any, float], list[Effect]]]] = {}
    """Further messages from clients, and who handles them."""

    CARRIED: ClassVar[dict[type, Callable[[Any], None]]] = {}
    """Further messages in packets of the graph family, and how they are checked."""

    HANDLERS: ClassVar[dict[type, Callable[[Any, Any, float], list[Effect]]]] = {
        Arrived: on_arrived,
        Heard: on_heard,
        TimerDue: on_timer_due,
        LinkUp: on_link_up,
        LinkDown: on_link_down,
        Opened: on_opened,
        Closed: on_closed,
        Reconfigured: on_reconfigured,
    }
