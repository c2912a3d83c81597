"""A component: one subject of a broker, with its own state, joined to the broker by tables.

*Theory.* A broker consists of links, sessions, one routing family and a list of components. Everything beyond routing
events is a component: shared tables, groups, retained events, quenching, and all of mobility. `join` gives a component
its `Host` and returns its `Handlers`: which messages, client requests, timers and inputs it handles, and at which
moments it wants to be called. The broker builds its dispatch tables from these, once.

*Rules.*
1. A component owns its fields. It touches the broker only through `Host`, and another component only through the
   public methods of an object that it was given.
2. One component handles a message, a client's message, a timer or an input. Two that claim the same are an error when
   the broker is made. Hooks and requests may be wanted by several: these are called in the order of the components.
3. `snapshot` returns a struct that shares nothing changeable with the component, and `restore`, on a component made
   with the same settings, brings it back: from there on it answers every input as the original does.
4. An event crosses a component only while that component asked for it (`Host.intercept_local`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from godwit.broker.effects import Effect, TimerKey
from godwit.broker.gossip_messages import Fact
from godwit.broker.limits import Limits
from godwit.broker.links import Link
from godwit.broker.messages import Attach, EntryId, NodeId
from godwit.broker.session import Authority, Binding, Retaining
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.trace import Record

if TYPE_CHECKING:
    from godwit.broker.host import Host

__all__ = [
    "ClientHandler",
    "Component",
    "Handlers",
    "InputHandler",
    "LocalHook",
    "MessageHandler",
    "OpenFilters",
    "RelayedHandler",
    "RequestHandler",
    "TimerHandler",
]

MessageHandler = Callable[[NodeId, Any, float], list[Effect]]
"""`(peer, message, now)`: a message came from another broker."""

ClientHandler = Callable[[str, Any, float], list[Effect]]
"""`(connection, message, now)`: a message came from a client."""

RequestHandler = Callable[[str, Any, list[Effect], float], None]
"""`(connection, wish, effects, now)`: a client's request was admitted and carried out."""

TimerHandler = Callable[[TimerKey, float], list[Effect]]
"""`(key, now)`: a timer whose key begins with the name that the handler is listed under is due."""

InputHandler = Callable[[Any, float], list[Effect]]
"""`(input, now)`: an input that brokers without this component do not know."""

LocalHook = Callable[[Event, list[EntryId], list[Effect], float], list[EntryId]]
"""`(event, subscriptions, effects, now)`: an event is about to be delivered here. Returns which of them to serve."""


def _no_records(message: Any, detail: str) -> list[Record]:
    return []


class RelayedHandler(msgspec.Struct, frozen=True):
    """How a message is handled that any broker may send to any other.

    A handler sees only messages for its own broker: others go on to their targets before (`overlay_routes.py`).
    """

    handler: MessageHandler
    check: Callable[[Any], None]  # raises `PeerFault`; called before anything else
    target: Callable[[Any], NodeId] | None  # the broker that a message is for; None: each that its packet names
    lost_events: Callable[[Any, str], list[Record]] = _no_records
    """`(message, detail)`: records of the events that are lost when a message is given up."""


class OpenFilters(Protocol):
    """Knows how filters on a client's own state are routed. (`mobility/context_following.py`)"""

    def subscribe(self, id: EntryId, filter: Filter, effects: list[Effect], now: float) -> None:
        """Let routing know what a client here wants, by an open filter."""

    def weakest(self, filter: Filter) -> Filter:
        """What a filter matches in any state of its client."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """All that a component handles, and the hooks at which it wants to be called."""

    # each is handled by one component, or by the broker itself
    messages: Mapping[type, MessageHandler] = {}  # from a neighbour, over its link
    relayed: Mapping[type, RelayedHandler] = {}  # from any broker, for this one
    client_messages: Mapping[type, ClientHandler] = {}
    timers: Mapping[str, TimerHandler] = {}  # by the first part of the key
    inputs: Mapping[type, InputHandler] = {}
    facts: Mapping[str, Callable[[Fact, list[Effect], float], None]] = {}  # by shared table: another broker's entry
    relay: MessageHandler | None = None  # relayed messages that come over a link, for any broker
    relay_packet: MessageHandler | None = None  # the same in packets; without it, the handlers of `relayed` get them
    attach: ClientHandler | None = None  # a client greets; without it, `Host.attach`

    # what the sessions of the broker, or the broker itself, ask: one component knows it, or none
    binding: Binding | None = None  # what filters on a client's context mean; without it, nothing
    retaining: Retaining | None = None  # which events there is room for
    authority: Authority | None = None  # what clients may do; without it, everything
    is_awaited: Callable[[NodeId], bool] | None = None  # a client's session is on its way here; without it, none is
    open_filters: OpenFilters | None = None  # how filters on a client's context are routed

    # hooks: every component that wants one is called, in the order of the components
    requests: Mapping[type, RequestHandler] = {}  # by kind of request, after the broker itself
    on_attach: Callable[[Attach], None] | None = None  # a session here is about to be attached to
    on_welcome: Callable[[str, Attach], list[Effect]] | None = None  # before a client hears `Attached`
    on_unlinked: Callable[[str], list[Effect]] | None = None  # a connection serves no session any more
    on_leave: Callable[[NodeId], Callable[[float], list[Effect]] | None] | None = None  # a client is about to leave for
    # good; may return what to do when its session has ended
    on_session_ended: Callable[[NodeId, list[Effect], float], None] | None = None  # before its entries leave routing
    on_session_changed: Callable[[NodeId, list[Effect], float], None] | None = None
    on_sessions_settled: Callable[[list[Effect], float], None] | None = None  # after all of these
    on_context: Callable[[NodeId, list[Effect], float], None] | None = None  # a client's own state is another
    on_demand_added: Callable[[Filter, float], list[Effect]] | None = None  # somebody wants what this filter matches
    on_demand_removed: Callable[[float], list[Effect]] | None = None  # somebody wants less
    on_link_open: Callable[[NodeId, list[Effect], float], None] | None = None
    on_link_dead: Callable[[NodeId], None] | None = None  # a link is given up, with what waited in it
    on_peer_knows_more: Callable[[Link, int, float], list[Effect]] | None = None  # than we do: we have lost our last
    # inputs; also given: our life as the peer knows it
    on_round_trip: Callable[[NodeId, float, list[Effect], float], None] | None = None  # a link was measured again
    on_broker_met: Callable[[NodeId, bool, float], list[Effect]] | None = None  # graph family; True: in another life
    on_limits: Callable[[Limits], None] | None = None  # the bounds are others from now on

    # questions: the first component that decides
    on_detach: Callable[[str, float], list[Effect] | None] | None = None  # a connection is gone; None: not my affair

    # questions: all answers together, or any yes
    keeps_advertisements: Callable[[NodeId], Mapping[str, Filter]] | None = None  # of a client whose session ends
    keeps_context: Callable[[NodeId], bool] | None = None  # of a client without a session
    brings_advertisements: Callable[[NodeId], bool] | None = None  # so it does not count as advertising everything


class Component(Protocol):
    """What a broker asks of each of its components."""

    label: str
    """Names its state in snapshots: lower case; no two components of a broker share one."""

    def join(self, host: "Host") -> Handlers:
        """Become part of a broker. Called once, before any input."""

    def snapshot(self) -> msgspec.Struct | None:
        """All state, as a struct; None: there is none."""

    def restore(self, state: Any) -> None:
        """Take over what `snapshot` of a component with the same settings returned.

        A broker restores its components from the last to the first.
        """
