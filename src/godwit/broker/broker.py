"""A broker: links to neighbours, sessions of clients, one routing family, and a list of components. It only dispatches.

*Theory.* A message from a neighbour goes through its `Link`, which delivers each message once and in order; then to the
component that declared its type, or else to the routing family. The family answers what to forward to which neighbour
and what to deliver to which subscriptions here; links and sessions turn these answers into effects. Everything else is
a component (`component.py`): the broker builds its dispatch tables from what its components declare, once, and calls
their hooks in the order of the list.

*Rules.*
1. `handle` never raises because of what a peer or client sent: the peer's link or the client's connection is closed
   with a reason, that is recorded, and everything else goes on. A link that was closed for a fault stays closed until
   the peer starts a new life.
2. With advertisements `required`, a client publishes only what it has advertised. `optional`: a client that never
   advertises counts as advertising everything; with its first advertisement it counts as every other. `off`: nobody
   advertises. A broker that `expects_strangers` counts as such a client itself: else an event published by a client
   that has just connected would be routed before anybody's subscription is asked for, and lost.
3. Nothing is sent on a link that is not connected, and nothing is handled from one.
4. An event goes link → routing → link or session. It crosses a component only where one asked for it
   (`intercept_local`): without shared subscriptions and moving clients, none.

*Paper.* Border and inner brokers of [rebeca §2.1] are the same machine, with or without clients.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import structs

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.broker_state import BrokerState
from godwit.broker.component import ClientHandler, Component, LocalHook, MessageHandler, RelayedHandler, TimerHandler
from godwit.broker.dispatch import Dispatch, one_each
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
    TimerKey,
    Trace,
)
from godwit.broker.families import MakeRouting, routing_of
from godwit.broker.gossip_messages import Fact
from godwit.broker.greeting import greeted
from godwit.broker.limits import Limits
from godwit.broker.links import Link
from godwit.broker.message_checks import check_attach
from godwit.broker.messages import (
    Ack,
    Advertise,
    Attach,
    Bye,
    Context,
    EntryId,
    FetchEvents,
    Frame,
    Goodbye,
    Hello,
    NodeId,
    Publish,
    Received,
    Request,
    Retain,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.removed_entries import RemovedEntries
from godwit.broker.routing import Answer, BrokerMet, DeliverLocally, Demand, Forward, RelayedMessage, Routing
from godwit.broker.sessions import Sessions
from godwit.broker.standard_components import standard_components
from godwit.broker.withdrawals import WITHDRAWING, Withdrawals
from godwit.errors import PeerFault, SnapshotError
from godwit.filters.contexts import key_of
from godwit.filters.events import Attributes
from godwit.filters.filters import TRUE, Filter
from godwit.filters.references import is_open
from godwit.trace import Record

__all__ = ["EVERYTHING", "Broker"]

EVERYTHING = ""
"""The name of the advertisement that stands for a client which never advertises: no client can use it itself."""

OWN_MESSAGES = (Request, Received, Attach, Bye, FetchEvents)  # of clients, which no component may claim
Kind = TypeVar("Kind")


class Broker:
    """The machine of one broker. Implements `Host` for its components.

    `neighbours` maps the name of each to the cost of the link. Without `components` it has those that every broker has;
    `make_routing` replaces the family that `config` names.
    """

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        components: Iterable[Component] | None = None,
        make_routing: MakeRouting | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.incarnation = incarnation
        self.links = {peer: self._new_link(peer) for peer in neighbours}
        self.sessions = Sessions(config.limits, name, incarnation, config.advertisements, config.asserted)
        parts = standard_components(name, config.limits) if components is None else components
        self.components: dict[str, Component] = one_each([{component.label: component} for component in parts])
        self.withdrawals = Withdrawals(self, self._kept_advertisements)
        self._interceptors: dict[str, LocalHook] = {}
        self._waiting_for_tables: list[Callable[[float], list[Effect]]] = []
        self._dispatch(Dispatch(component.join(self) for component in self.components.values()))
        checks = {kind: relayed.check for kind, relayed in self.relayed.items()}
        self.routing: Routing = (make_routing or routing_of)(name, incarnation, neighbours, config, checks)

    def _new_link(self, peer: NodeId) -> Link:
        link = self.config.link
        if self.config.family == "tree" or self.config.overlay:  # no other way: what waits for it waits
            link = structs.replace(link, dead_after_s=None)
        return Link(peer, self.incarnation, link, lambda: self.config.limits.user_share)

    def _dispatch(self, tables: Dispatch) -> None:
        """Take over what the components handle."""
        self._tables, self.open_filters = tables, tables.open_filters
        self.sessions.binding, self.sessions.retained = tables.binding, tables.retaining
        self.sessions.authority, self.sessions.is_awaited = tables.authority, tables.is_awaited
        self.relayed: Mapping[type, RelayedHandler] = tables.relayed
        self.facts: Mapping[str, Callable[[Fact, list[Effect], float], None]] = tables.facts
        self._messages: dict[type, MessageHandler] = tables.messages
        self._inputs: dict[type, Callable[[Any, float], list[Effect]]] = {
            Arrived: self.on_arrived,
            Heard: self.on_heard,
            TimerDue: self.on_timer_due,
            LinkUp: self.on_link_up,
            LinkDown: self.on_link_down,
            Opened: self.on_opened,
            Closed: self.on_closed,
            Reconfigured: self.on_reconfigured,
        }
        self._timers: dict[str, TimerHandler] = {
            "ack": lambda key, now: self.links[key[1]].on_ack_due(),
            "resend": lambda key, now: self.links[key[1]].on_resend_due(now),
            "dead": self._on_dead_due,
            "expiry": lambda key, now: self.withdraw(self.sessions.on_timer_due(key, now), now),
            "session": self._on_session_due,
            WITHDRAWING[0]: lambda key, now: self.withdrawals.on_due(now),
        }
        self._inputs, self._timers = one_each([self._inputs, tables.inputs]), one_each([self._timers, tables.timers])
        one_each([dict.fromkeys(OWN_MESSAGES), tables.client_messages])

    def component(self, kind: type[Kind]) -> Kind:
        """The component of this class; `LookupError` if there is none."""
        for component in self.components.values():
            if isinstance(component, kind):
                return component
        raise LookupError(f"{self.name} has no component {kind.__name__}: it has {', '.join(self.components)}")

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""
        effects = self._inputs[type(input)](input, now)
        if self.sessions.touched:
            self._settle_sessions(effects, now)
        return effects

    def _settle_sessions(self, effects: list[Effect], now: float) -> None:
        """Sessions have begun, come, gone, ended, or changed their connections: components may have to tell others."""
        while self.sessions.touched:
            touched, self.sessions.touched = self.sessions.touched, {}
            for client in touched:
                for on_session_changed in self._tables.on_session_changed:
                    on_session_changed(client, effects, now)
        for on_sessions_settled in self._tables.on_sessions_settled:
            on_sessions_settled(effects, now)

    # ------------------------------------------------------------ neighbours

    def on_link_up(self, input: LinkUp, now: float) -> list[Effect]:
        """A connection to a neighbour is there."""
        link = self.links.get(input.peer)
        if link is None:
            return [Close(input.peer, f"{input.peer} is not a neighbour of {self.name}")]
        effects = link.on_up(now)
        if self.config.expects_strangers and self.config.advertisements == "optional":  # once; again changes nothing
            self.advertise_everything(f"{self.name}/{self.incarnation}", effects, now)
        return effects

    def on_link_down(self, input: LinkDown, now: float) -> list[Effect]:
        """A connection to a neighbour is gone."""
        link = self.links.get(input.peer)
        if link is None or not link.connected:
            return []
        effects = link.on_down(now)
        self.carry_out(self.routing.on_peer_down(input.peer, now), effects, now)
        return effects

    def on_arrived(self, input: Arrived, now: float) -> list[Effect]:
        """A frame came from a neighbour. Most often it bears an event."""
        peer, frame = input.peer, input.frame
        link = self.links.get(peer)
        effects: list[Effect] = []
        if link is None or not link.connected:
            return effects
        round_trip_s = link.round_trip_s
        try:
            if type(frame) is Frame:
                for message in link.on_frame(frame, effects, now):
                    handler = self._messages.get(type(message))
                    if handler is not None:
                        effects += handler(peer, message, now)
                        continue
                    self.carry_out(self.routing.on_message(peer, message, now), effects, now)
                    if type(message) is not Publish:
                        effects += self._demand(self.routing.demand_of(message), now)
            elif type(frame) is Ack:
                link.on_ack(frame, effects, now)
            elif type(frame) is Hello:
                self._on_hello(link, frame, effects, now)
            elif type(frame) is Goodbye:
                effects += [Close(peer, f"{peer} closed the link: {frame.reason}"), *link.on_down(now)]
                self.carry_out(self.routing.on_peer_down(peer, now), effects, now)
            else:
                raise PeerFault(f"{type(frame).__name__} is not a message of brokers")
        except PeerFault as fault:
            link.fault = str(fault)
            effects.append(Trace(Record("fault", peer, type(frame).__name__, detail=link.fault)))
            effects += [Send(peer, Goodbye(link.fault)), Close(peer, link.fault), *link.on_down(now)]
            self.carry_out(self.routing.on_peer_down(peer, now), effects, now)
        if link.round_trip_s != round_trip_s and link.round_trip_s is not None:
            for on_round_trip in self._tables.on_round_trip:
                on_round_trip(peer, link.round_trip_s, effects, now)
        if self._waiting_for_tables and self.routing.is_whole():
            effects += self._release_waiting(now)
        return effects

    def _release_waiting(self, now: float) -> list[Effect]:
        """The routing tables are whole: go on with what has waited for that."""
        waiting, self._waiting_for_tables = self._waiting_for_tables, []
        return [effect for release in waiting for effect in release(now)]

    def _on_hello(self, link: Link, hello: Hello, effects: list[Effect], now: float) -> None:
        if link.fault is not None:
            if hello.incarnation == link.peer_incarnation:
                raise PeerFault(link.fault)
            link.fault = None
        if self._tables.on_peer_knows_more is not None and link.knows_more(hello):
            effects += self._tables.on_peer_knows_more(link, hello.knows, now)
            return
        greeting, opened, undelivered = link.on_hello(hello, now)
        effects += greeting
        if hello.knows not in (0, self.incarnation):
            self.routing.note_past_life()
        if undelivered is not None:
            self.carry_out(self.routing.on_peer_forgot(link.peer, undelivered, now), effects, now)
            for message in (each for each in undelivered if type(each) in self._messages):
                link.send(message, effects, now)
        if opened:
            self.carry_out(self.routing.on_peer_up(link.peer, now), effects, now)
            for on_link_open in self._tables.on_link_open:
                on_link_open(link.peer, effects, now)

    def on_reconfigured(self, input: Reconfigured, now: float) -> list[Effect]:
        """The driver was started with other settings."""
        return self.reconfigure(input.neighbours, input.limits, now)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> BrokerState:
        """All state of this broker, as structs that share nothing changeable with it."""
        states = {label: component.snapshot() for label, component in self.components.items()}
        return BrokerState(
            name=self.name,
            incarnation=self.incarnation,
            limits=self.config.limits,
            links={peer: link.snapshot() for peer, link in self.links.items()},
            sessions=self.sessions.snapshot(),
            routing=self.routing.snapshot(),
            components={label: state for label, state in states.items() if state is not None},
            withdrawals=self.withdrawals.snapshot(),
        )

    def restore(self, state: BrokerState) -> None:
        """Go on as the broker of a snapshot. For one freshly made with the same name, incarnation and settings."""
        if state.name != self.name or state.incarnation < self.incarnation:
            raise SnapshotError(
                f"the snapshot is of broker {state.name!r}, incarnation {state.incarnation}: "
                f"this is {self.name!r}, incarnation {self.incarnation}"
            )
        if unknown := [label for label in state.components if label not in self.components]:
            raise SnapshotError(
                f"the snapshot of broker {state.name!r} holds the state of {', '.join(unknown)}: "
                f"this broker has the components {', '.join(self.components)}"
            )
        self._set_limits(state.limits)
        self.incarnation = self.sessions.incarnation = state.incarnation  # a later one, if it has lost a tail since
        self.links = {peer: self._new_link(peer) for peer in state.links}
        for peer, link in state.links.items():
            self.links[peer].restore(link)
        self.sessions.restore(state.sessions)
        self.withdrawals.restore(state.withdrawals)
        self.routing.restore(state.routing)
        for label, component in reversed(self.components.items()):  # groups follow from the tables behind them
            if label not in state.components and component.snapshot() is not None:
                raise SnapshotError(f"the snapshot of broker {state.name!r} holds no state of {label!r}")
            component.restore(state.components.get(label))

    # ------------------------------------------------------------ settings

    def _set_limits(self, limits: Limits) -> None:
        self.config = structs.replace(self.config, limits=limits)
        self.sessions.limits = limits
        for on_limits in self._tables.on_limits:
            on_limits(limits)

    def reconfigure(self, neighbours: Mapping[NodeId, float], limits: Limits, now: float) -> list[Effect]:
        """Have these neighbours and bounds from now on. A new neighbour is told everything when its link opens."""
        effects: list[Effect] = []
        self._set_limits(limits)
        for peer, cost in neighbours.items():
            is_new = peer not in self.links
            if is_new:
                self.links[peer] = self._new_link(peer)
            self.carry_out(self.routing.set_neighbour(peer, cost, is_new), effects, now)
        return effects

    # ------------------------------------------------------------ clients

    def on_opened(self, input: Opened, now: float) -> list[Effect]:
        """A client's connection is there: it has to say who it is."""
        return self.sessions.vouch(input.connection, input.asserted)

    def on_closed(self, input: Closed, now: float) -> list[Effect]:
        """A client's connection is gone."""
        return self.detach(input.connection, now)

    def on_heard(self, input: Heard, now: float) -> list[Effect]:
        """A message came from a client."""
        connection, message = input.connection, input.message
        try:
            if type(message) is Request:
                return self._on_request(connection, message, now)
            if type(message) is Received:
                return self.sessions.received(connection, message, now)
            if type(message) is Attach:
                attach: ClientHandler = self.attach if self._tables.attach is None else self._tables.attach
                effects = greeted(self, connection, message, attach, now)
                self.sessions.vouched(connection)  # turned away, perhaps
                return effects
            if type(message) is Bye:
                return self._on_bye(connection, now)
            if type(message) is FetchEvents:
                return self.sessions.between(connection, message, now)
            if (handler := self._tables.client_messages.get(type(message))) is not None:
                return handler(connection, message, now)
            raise PeerFault(f"{type(message).__name__} is not a message of clients")
        except PeerFault as fault:
            reason = str(fault)
            who = self.sessions.client_of(connection) or connection
            effects = [Trace(Record("fault", who, type(message).__name__, detail=reason))]
            effects += [Tell(connection, Bye(reason)), Close(connection, reason)]
            return [*effects, *self.detach(connection, now)]

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """Attach a client to its session here, or begin one."""
        check_attach(message)
        for on_attach in self._tables.on_attach:
            on_attach(message)
        before = self.sessions.session(message.client)
        older = None if before is None else before.connection
        context = {} if before is None else before.whole_context()
        attached = self.sessions.attach(connection, message, now)
        if self.sessions.client_of(connection) is None:
            return attached
        effects: list[Effect] = [] if older is None else self.unlink(older)
        if before is not None and key_of(before.whole_context()) != key_of(context):  # as its server vouches for now
            self._on_context(message.client, attached, now)
        self.tell_context(message.client, effects, now)  # first: what is wanted from it may not be known yet
        advertised: list[Effect] = []
        if before is None and self.config.advertisements == "optional":
            self.advertise_everything(message.client, advertised, now)
        return [*effects, *self.welcome(connection, message), *attached, *advertised]

    def welcome(self, connection: str, message: Attach) -> list[Effect]:
        """What a client hears before `Attached`."""
        return [effect for on_welcome in self._tables.on_welcome for effect in on_welcome(connection, message)]

    def detach(self, connection: str, now: float) -> list[Effect]:
        """A connection is gone: the first component that knows what this means decides, else its session is kept."""
        for on_detach in self._tables.on_detach:
            effects = on_detach(connection, now)
            if effects is not None:
                return effects
        return self.keep_session(connection, now)

    def keep_session(self, connection: str, now: float) -> list[Effect]:
        """A connection is gone, and its session stays."""
        return [*self.unlink(connection), *self.sessions.detach(connection, now)]

    def unlink(self, connection: str) -> list[Effect]:
        """A connection serves no session any more."""
        return [effect for on_unlinked in self._tables.on_unlinked for effect in on_unlinked(connection)]

    def _on_bye(self, connection: str, now: float) -> list[Effect]:
        """A client leaves permanently."""
        client = self.sessions.client_of(connection)
        afterwards = [] if client is None else [on_leave(client) for on_leave in self._tables.on_leave]
        effects = self.unlink(connection) + self.withdraw(self.sessions.leave(connection, now), now, client)
        return effects + [effect for after in afterwards if after is not None for effect in after(now)]

    def _on_request(self, connection: str, message: Request, now: float) -> list[Effect]:
        wish, effects = self.sessions.admit(connection, message, now)
        if wish is None:
            return effects
        routing = self.routing
        if type(wish) is Publish or type(wish) is Retain:
            event = wish.event
            effects.append(Trace(Record("published", event.publisher, "", event.publisher, event.sequence)))
            self.carry_out(routing.publish(event, now), effects, now)
            if type(wish) is Publish:  # most of what comes
                return effects
        match wish:
            case Subscribe(id=id, filter=filter):
                effects.append(Trace(Record("subscribed", id[0], subscription=id[1])))
                self.subscribe(id, filter, effects, now)
                effects += self._demand(Demand(self._weakest(filter)), now)
            case Unsubscribe(id=id):
                effects.append(Trace(Record("unsubscribed", id[0], subscription=id[1])))
                self.carry_out(routing.unsubscribe(id, now), effects, now)
                effects += self.demand_removed(now)
            case Advertise(id=id, filter=filter):
                effects.append(Trace(Record("advertised", id[0], subscription=id[1])))
                self.carry_out(routing.advertise(id, filter, now), effects, now)
                if self.config.advertisements == "optional":  # from now on it counts as every other
                    self.carry_out(routing.unadvertise((id[0], EVERYTHING), now), effects, now)
            case Unadvertise(id=id):
                effects.append(Trace(Record("unadvertised", id[0], subscription=id[1])))
                self.carry_out(routing.unadvertise(id, now), effects, now)
            case Context():
                client = self.sessions.client_of(connection)
                assert client is not None
                self.tell_context(client, effects, now)
                self._on_context(client, effects, now)
        for on_request in self._tables.requests.get(type(wish), ()):
            on_request(connection, wish, effects, now)
        return effects

    def _on_context(self, client: NodeId, effects: list[Effect], now: float) -> None:
        for on_context in self._tables.on_context:
            on_context(client, effects, now)

    def _weakest(self, filter: Filter) -> Filter:
        """What a filter matches in any state of its client."""
        return filter if self.open_filters is None or not is_open(filter) else self.open_filters.weakest(filter)

    # ------------------------------------------------------------ what routing is told

    def subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        """Let routing know what a client here wants."""
        if self.open_filters is not None and is_open(filter):
            self.open_filters.subscribe(id, filter, effects, now)
        else:
            self.carry_out(self.routing.subscribe(id, filter, now), effects, now)

    def advertise_everything(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Let routing know that a client here may publish anything, unless it says itself what it publishes."""
        if not any(brings(client) for brings in self._tables.brings_advertisements):
            self.carry_out(self.routing.advertise((client, EVERYTHING), TRUE, now), effects, now)

    def tell_context(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Let routing know the context of a client as its session has it; without one, a component may keep it."""
        session = self.sessions.session(client)
        if session is not None or not any(keeps(client) for keeps in self._tables.keeps_context):
            self.set_context(client, None if session is None else session.whole_context(), effects, now)

    def set_context(self, client: NodeId, context: Attributes | None, effects: list[Effect], now: float) -> None:
        """Let routing know the context of a client; None: it is not here, or its context is not known."""
        answers = self.routing.set_context(client, context, now)
        self.carry_out(answers, effects, now)
        if answers and not self.routing.is_settled():  # somebody may want what we have not heard of
            effects += self._demand(Demand(TRUE), now)

    def withdraw(self, removed: RemovedEntries, now: float, ended: NodeId | None = None) -> list[Effect]:
        """Take what a session no longer holds out of routing; `ended`: the client whose session has ended.

        What a component keeps advertising for that client stays: the component sees to it (`on_session_ended`).
        """
        effects = list(removed.effects)
        if ended is not None:
            for on_session_ended in self._tables.on_session_ended:
                on_session_ended(ended, effects, now)
        kept = {} if ended is None else self._kept_advertisements(ended)
        advertisements = [id for id in removed.advertisements if id[1] not in kept]
        self.withdrawals.withdraw(removed.subscriptions, advertisements, effects, now)
        if ended is not None:
            if EVERYTHING not in kept:
                self.carry_out(self.routing.unadvertise((ended, EVERYTHING), now), effects, now)
            self.tell_context(ended, effects, now)
        return effects

    def _kept_advertisements(self, client: NodeId) -> dict[str, Filter]:
        """What components keep advertising for a client without a session."""
        return {name: filter for keeps in self._tables.keeps_advertisements for name, filter in keeps(client).items()}

    def _demand(self, demand: Demand | None, now: float) -> list[Effect]:
        """Somebody wants something else. Of a filter that was replaced, too much stays in for a while."""
        if demand is None:
            return []
        added = [] if demand.added is None else self.demand_added(demand.added, now)
        return added + self.demand_removed(now)

    def demand_added(self, filter: Filter, now: float) -> list[Effect]:
        """Somebody wants what this filter matches."""
        return [effect for on_added in self._tables.on_demand_added for effect in on_added(filter, now)]

    def demand_removed(self, now: float) -> list[Effect]:
        """Somebody wants less."""
        return [effect for on_removed in self._tables.on_demand_removed for effect in on_removed(now)]

    # ------------------------------------------------------------ timers

    def on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        """A timer has come due: of a link, of the sessions, of a component, or of the routing family."""
        if (handler := self._timers.get(input.key[0])) is not None:
            return handler(input.key, now)
        effects: list[Effect] = []
        self.carry_out(self.routing.on_timer_due(input.key, now), effects, now)
        if self._waiting_for_tables and self.routing.is_whole():
            effects += self._release_waiting(now)
        return effects

    def _on_dead_due(self, key: TimerKey, now: float) -> list[Effect]:
        effects, peer = list[Effect](), key[1]
        if not self.links[peer].connected:
            undelivered = self.links[peer].give_up()
            for on_link_dead in self._tables.on_link_dead:
                on_link_dead(peer)
            self.carry_out(self.routing.on_link_dead(peer, undelivered, now), effects, now)
        return effects

    def _on_session_due(self, key: TimerKey, now: float) -> list[Effect]:
        removed = self.sessions.on_timer_due(key, now)
        return self.withdraw(removed, now, key[1] if self.sessions.session(key[1]) is None else None)

    # ------------------------------------------------------------ answers

    def handles(self, kind: type) -> bool:
        """Whether a component handles such messages from neighbours, and not the routing family."""
        return kind in self._messages

    def send(self, peer: NodeId, message: Any, effects: list[Effect], now: float) -> None:
        """Send a message to a neighbour, exactly once and in order."""
        self.links[peer].send(message, effects, now)

    def carry_out(self, answers: list[Answer], effects: list[Effect], now: float) -> None:
        """Turn what the routing family answers into effects of links and sessions."""
        for answer in answers:
            kind = type(answer)
            if kind is Forward:
                self.links[answer.peer].send(answer.message, effects, now)  # type: ignore[union-attr]
            elif kind is DeliverLocally:
                event, ids = answer.event, answer.subscriptions  # type: ignore[union-attr]
                if self._interceptors:
                    for intercept in list(self._interceptors.values()):
                        ids = intercept(event, ids, effects, now)
                effects += self.sessions.deliver(event, ids, now)
            elif kind is RelayedMessage:
                effects += self._tables.relay_packet(answer.source, answer.message, now)  # type: ignore[union-attr]
            elif kind is Demand:
                effects += self._demand(answer, now)  # type: ignore[arg-type]
            elif kind is BrokerMet:
                for on_broker_met in self._tables.on_broker_met:
                    effects += on_broker_met(answer.broker, answer.again, now)  # type: ignore[union-attr]
            else:
                effects.append(answer)  # type: ignore[arg-type]

    # ------------------------------------------------------------ what components may ask for

    def intercept_local(self, component: str, hook: LocalHook | None) -> None:
        """Let a component see what is delivered here, before sessions do; None: no longer."""
        if hook is None:
            self._interceptors.pop(component, None)
        elif component not in self._interceptors:
            wanting = {**self._interceptors, component: hook}
            self._interceptors = {label: wanting[label] for label in self.components if label in wanting}

    def when_whole(self, release: Callable[[float], list[Effect]]) -> None:
        """Call this once, when the tables are whole and a neighbour has sent something or routing had a timer."""
        self._waiting_for_tables.append(release)
